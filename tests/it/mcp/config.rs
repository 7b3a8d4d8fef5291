//! The clients' configurations: what is printed, and that nothing but the entry changes when it is written.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Era, Place, Run};

/// Each client, where it keeps its file below the home directory, and the name of the servers in it.
const CLIENTS: [(&str, &str, &str); 5] = [
    ("claude-desktop", DESKTOP, "mcpServers"),
    ("claude-code", ".claude.json", "mcpServers"),
    ("cursor", ".cursor/mcp.json", "mcpServers"),
    ("vscode", VSCODE, "servers"),
    ("codex", ".codex/config.toml", "mcp_servers"),
];

#[cfg(target_os = "macos")]
const DESKTOP: &str = "Library/Application Support/Claude/claude_desktop_config.json";
#[cfg(not(target_os = "macos"))]
const DESKTOP: &str = ".config/Claude/claude_desktop_config.json";
#[cfg(target_os = "macos")]
const VSCODE: &str = "Library/Application Support/Code/User/mcp.json";
#[cfg(not(target_os = "macos"))]
const VSCODE: &str = ".config/Code/User/mcp.json";

fn home(place: &Place) -> PathBuf {
    place.root().join("home")
}

fn put(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
    std::fs::write(file, text).expect("a file");
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).expect("a file")
}

/// The program and its arguments, as a client would read them from the file.
fn entry(text: &str, servers: &str) -> (String, Vec<String>) {
    if servers == "mcp_servers" {
        let line = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            serde_json::from_str::<Value>(line.trim_start_matches([' ', '='])).expect("a value")
        };
        assert!(text.contains("[mcp_servers.mnemolog]"), "{text}");
        return (line("command").as_str().expect("a program").to_owned(), strings(&line("args")));
    }
    let config: Value = serde_json::from_str(text).expect("JSON");
    let entry = &config[servers]["mnemolog"];
    (entry["command"].as_str().expect("a program").to_owned(), strings(&entry["args"]))
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|arg| arg.as_str().expect("a string").to_owned()).collect()
}

#[test]
fn each_client_is_told_a_command_that_starts_this_store_from_anywhere() {
    for (client, file, servers) in CLIENTS {
        let place = Place::new();
        let Run { code, out, err } =
            place.run(&["--store", "store", "--workspace", "core", "mcp", "config", client]);
        assert!(code == 0 && err.contains(file), "{client}: {err}");
        let (program, args) = entry(&out, servers);
        assert!(Path::new(&program).is_absolute(), "{program}");
        assert_eq!(args, ["--store", place.store().to_str().expect("UTF-8"), "--workspace", "core", "mcp"]);
        assert!(!home(&place).exists() && !place.store().exists(), "printing writes nothing");
    }
}

#[test]
fn what_is_written_starts_a_server_that_works() {
    for (client, file, servers) in CLIENTS {
        let place = Place::new();
        place.done(&["mcp", "config", client, "--write"]);
        let (program, args) = entry(&read(&home(&place).join(file)), servers);
        assert_eq!(program, env!("CARGO_BIN_EXE_mnemolog"));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert_eq!(place.open(&args, Era::Initialize).remember("a", "1"), "saved a");
    }
}

#[test]
fn everything_else_in_a_file_with_comments_stays_byte_for_byte() {
    let before = "// my servers\r\n{\r\n\t\"inputs\": [1,2 , 3], // odd layout\r\n\t\"servers\": {\r\n\t\t/* keep */ \"other\": {\"command\":\"x\"},\r\n\t},\r\n}\r\n";
    let place = Place::new();
    let file = home(&place).join(VSCODE);
    put(&file, before);
    place.done(&["mcp", "config", "vscode", "--write"]);
    let after = read(&file);
    let lines = |text: &str| text.split_inclusive('\n').map(str::to_owned).collect::<Vec<_>>();
    let (before_lines, after_lines) = (lines(before), lines(&after));
    assert!(after.contains("\"mnemolog\""), "{after}");
    assert_eq!(after_lines[..4], before_lines[..4], "{after}");
    assert_eq!(after_lines[after_lines.len() - 2..], before_lines[before_lines.len() - 2..], "{after}");
    let backup = file.with_file_name("mcp.json.backup-1");
    assert_eq!(read(&backup), before, "the copy is the file as it was");
    // Again: nothing is written, and no second copy is made.
    assert!(place.done(&["mcp", "config", "vscode", "--write"]).contains("already"));
    assert_eq!(read(&file), after);
    assert!(!file.with_file_name("mcp.json.backup-2").exists());
    // Another store: the entry alone changes, and the first copy stays.
    place.done(&["--store", "elsewhere", "mcp", "config", "vscode", "--write"]);
    assert!(read(&file).contains("elsewhere") && read(&file).starts_with("// my servers\r\n"));
    assert_eq!(read(&file.with_file_name("mcp.json.backup-2")), after);
    assert_eq!(read(&backup), before);
}

#[test]
fn everything_else_in_a_toml_file_stays_byte_for_byte() {
    let before = "# mine\nmodel = \"x\"   # spaced\n\n[mcp_servers.other]\ncommand = 'y'\nargs = [ 'z' ]\n\n[profiles.a]\nb = 1\n";
    let place = Place::new();
    let file = home(&place).join(".codex/config.toml");
    put(&file, before);
    place.done(&["mcp", "config", "codex", "--write"]);
    let after = read(&file);
    let added: Vec<&str> = after.lines().filter(|line| !before.lines().any(|old| old == *line)).collect();
    assert_eq!(added.len(), 3, "{after}");
    let at = after.find("[mcp_servers.mnemolog]").expect("a table");
    let end = after[at..].find("]\n\n").map_or(after.len(), |end| at + end + 3);
    assert_eq!(format!("{}{}", &after[..at], &after[end..]).trim_end(), before.trim_end(), "{after}");
    assert!(place.done(&["mcp", "config", "codex", "--write"]).contains("already"));
    assert_eq!(read(&file), after);
}

#[test]
fn a_file_that_is_not_understood_is_left_alone() {
    for (client, file, text) in [
        ("cursor", ".cursor/mcp.json", "{ \"mcpServers\": {"),
        ("cursor", ".cursor/mcp.json", "[1]"),
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": []}"),
        ("codex", ".codex/config.toml", "mcp_servers = 1\n"),
        ("codex", ".codex/config.toml", "[broken\n"),
    ] {
        let place = Place::new();
        let file = home(&place).join(file);
        put(&file, text);
        let Run { code, out, err } = place.run(&["mcp", "config", client, "--write"]);
        assert!(code != 0 && out.is_empty() && err.contains("was not written"), "{text}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert_eq!(read(&file), text);
        assert_eq!(std::fs::read_dir(file.parent().expect("a directory")).expect("a directory").count(), 1);
    }
}

#[cfg(unix)]
#[test]
fn a_link_and_the_permissions_of_a_file_stay() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let (link, real) = (home(&place).join(".claude.json"), place.root().join("dotfiles/claude.json"));
    put(&real, "{\n  \"numStartups\": 3\n}\n");
    put(&link, "");
    std::fs::remove_file(&link).expect("a file");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).expect("a file");
    place.done(&["mcp", "config", "claude-code", "--write"]);
    assert!(std::fs::symlink_metadata(&link).expect("a link").is_symlink());
    assert_eq!(std::fs::metadata(&real).expect("a file").permissions().mode() & 0o777, 0o600);
    let config: Value = serde_json::from_str(&read(&real)).expect("JSON");
    assert_eq!(
        (&config["numStartups"], &config["mcpServers"]["mnemolog"]["type"]),
        (&3.into(), &"stdio".into())
    );
}

/// Writes a file, has the entry merged into it, and answers the file; that it holds the entry is checked.
fn merged(client: &str, file: &str, before: &str) -> String {
    let place = Place::new();
    let file = home(&place).join(file);
    put(&file, before);
    place.done(&["mcp", "config", client, "--write"]);
    assert_eq!(
        read(&file.with_extension(format!("{}.backup-1", file.extension().expect("one").display()))),
        before
    );
    let after = read(&file);
    assert!(place.done(&["mcp", "config", client, "--write"]).contains("already"), "{after}");
    assert_eq!(read(&file), after);
    after
}

#[test]
fn a_toml_file_keeps_its_mark_its_line_ends_and_the_comments_of_the_entry() {
    let before = "\u{feff}# mine\r\nmodel = \"x\"\n\r\n[mcp_servers.mnemolog]\r\n# of the entry\r\ncommand = \"old\" # note\r\nargs = [\"a\"] # more\r\nstartup_timeout_sec = 9\r\n\r\n[profiles.a]\r\nb = 1";
    let after = merged("codex", ".codex/config.toml", before);
    let program = format!("command = \"{}\" # note\r\n", env!("CARGO_BIN_EXE_mnemolog"));
    assert!(after.contains(&program), "{after:?}");
    let rest = |text: &str| {
        let kept = |line: &&str| !line.starts_with("command = ") && !line.starts_with("args = ");
        text.split_inclusive('\n').filter(kept).collect::<String>()
    };
    assert_eq!(rest(&after), rest(before), "byte for byte");
    assert!(after.contains("] # more\r\n"), "{after:?}");
}

#[test]
fn an_entry_for_an_address_becomes_one_for_a_command_and_keeps_what_is_the_users() {
    let before = "[mcp_servers.mnemolog]\nurl = \"http://127.0.0.1:1\"\nbearer_token_env_var = \"T\"\nhttp_headers = { a = \"b\" }\nenabled = true\n\n[mcp_servers.mnemolog.env]\nK = \"v\"\n";
    let after = merged("codex", ".codex/config.toml", before);
    assert!(!after.contains("url") && !after.contains("bearer") && !after.contains("headers"), "{after}");
    assert!(
        after.contains("enabled = true\n") && after.ends_with("[mcp_servers.mnemolog.env]\nK = \"v\"\n"),
        "{after}"
    );
    for (client, file, servers) in CLIENTS.into_iter().filter(|(.., servers)| *servers != "mcp_servers") {
        for last in ["\"headers\": {\"A\": \"b\"}", "\"env\": {\"K\": \"v\"}"] {
            let before = format!(
                "{{\n  \"{servers}\": {{\n    \"mnemolog\": {{\n      \"type\": \"http\",\n      \"url\": \"http://127.0.0.1:1\",\n      \"alwaysAllow\": [\"memory_list\" ],\n      {last}\n    }}\n  }}\n}}\n"
            );
            let after = merged(client, file, &before);
            let entry: Value =
                serde_json::from_str::<Value>(&after).expect("JSON")[servers]["mnemolog"].clone();
            assert_eq!(
                (&entry["type"], entry.get("url"), entry.get("headers")),
                (&"stdio".into(), None, None)
            );
            assert_eq!(entry["command"], env!("CARGO_BIN_EXE_mnemolog"), "{after}");
            assert!(after.contains("\n      \"alwaysAllow\": [\"memory_list\" ]"), "{after}");
            assert_eq!(entry["env"]["K"] == "v", last.contains("env"), "{after}");
        }
    }
}

#[test]
fn a_name_that_stands_twice_is_not_edited_in_one_of_its_places() {
    for text in [
        "{\"mcpServers\": {}, \"mcpServers\": {\"a\": {\"command\": \"x\"}}}",
        "{\"mcpServers\": {\"mnemolog\": {}, \"mnemolog\": {}}}",
        "{\"mcpServers\": {\"mnemolog\": {\"command\": \"x\", \"\\u0063ommand\": \"y\"}}}",
    ] {
        let place = Place::new();
        let file = home(&place).join(".cursor/mcp.json");
        put(&file, text);
        let Run { code, err, .. } = place.run(&["mcp", "config", "cursor", "--write"]);
        assert!(code == 1 && err.contains("stands in it twice"), "{text}: {err}");
        assert_eq!(read(&file), text);
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_that_is_not_there_stays_and_what_is_made_is_for_the_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let (link, real) = (home(&place).join(".claude.json"), place.root().join("dotfiles/claude.json"));
    std::fs::create_dir_all(home(&place)).expect("a directory");
    std::os::unix::fs::symlink("../dotfiles/claude.json", &link).expect("a link");
    place.done(&["mcp", "config", "claude-code", "--write"]);
    assert!(std::fs::symlink_metadata(&link).expect("a link").is_symlink());
    assert!(read(&real).contains("\"mnemolog\""));
    let mode = |file: &Path| std::fs::metadata(file).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&real), 0o600, "it was so from the beginning");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o644)).expect("a file");
    place.done(&["--store", "elsewhere", "mcp", "config", "claude-code", "--write"]);
    assert_eq!(mode(&real), 0o644, "what was there keeps its permissions");
}

#[test]
fn a_configuration_offers_only_what_the_server_would() {
    let place = Place::new();
    for wrong in [
        ["--tools", "bogus"].as_slice(),
        &["--tools", ""],
        &["--tools", "memory_list,"],
        &["--read-only", "--tools", "memory_remember"],
    ] {
        for write in [[].as_slice(), &["--write"]] {
            let Run { code, out, err } = place.run(&[&["mcp", "config", "cursor"], wrong, write].concat());
            assert!(code == 2 && out.is_empty() && err.contains("there is no tool"), "{wrong:?}: {err}");
        }
    }
    assert!(!home(&place).exists() && !place.store().exists());
    let out = place.done(&["--lock-wait", "60", "mcp", "config", "cursor", "--tools", "memory_list"]);
    let (_, args) = entry(&out, "mcpServers");
    assert_eq!(args[2..], ["--lock-wait", "60", "mcp", "--tools", "memory_list"]);
}
