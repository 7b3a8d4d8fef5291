//! Every verb that reads or writes one memory, for people and for programs.

use std::process::Stdio;

use serde_json::json;

use super::{Place, finish};

#[test]
fn notes_are_saved_read_listed_found_and_forgotten() {
    let place = Place::new();
    let saved = place.done(&["remember", "user/name", "--summary", "the user's name", "--body", "Ada"]);
    assert_eq!(saved, "saved user/name\n");
    assert_eq!(place.done(&["recall", "user/name"]), "Ada\n");
    assert_eq!(place.done(&["list"]), "- user/name: the user's name\n");
    assert_eq!(place.done(&["search", "ADA"]), "- user/name: the user's name\n  Ada\n");
    assert_eq!(place.done(&["search", "Bob"]), "(no matches)\n");
    let index = "[memory index] recall(key) reads a note in full; search(pattern) looks inside notes\n\
                 - user/name: the user's name\n";
    assert_eq!(place.done(&["index-note"]), index);
    assert_eq!(place.done(&["index-note", "--budget", "100"]), index);
    let told = "(showing 0 of 1 notes, newest first; 1 left out — search(pattern) looks inside all.)\n";
    assert_eq!(place.done(&["index-note", "--budget", "0"]), told);
    let forgot = place.done(&["forget", "user/name"]);
    assert_eq!(forgot, "forgot user/name (its history stays until erased)\n");
    assert_eq!(place.done(&["list"]), "(no memories)\n");
    assert_eq!(place.done(&["index-note"]), "");
}

#[test]
fn notes_are_objects_for_programs() {
    let place = Place::new();
    let saved = place.json(&["remember", "a", "--summary", "s", "--body", "text"]);
    assert_eq!(saved, [json!({"key": "a", "frame": 1, "text": "saved a"})]);
    let note = &place.json(&["recall", "a"])[0];
    assert_eq!(note["body"], "text");
    assert_eq!((&note["found"], &note["summary"], &note["frame"]), (&json!(true), &json!("s"), &json!(1)));
    assert_eq!(place.json(&["list"]), [json!({"key": "a", "summary": "s"})]);
    assert_eq!(place.json(&["search", "tex"]), [json!({"key": "a", "summary": "s", "excerpt": "text"})]);
    assert_eq!(place.json(&["search", "none"]), [] as [serde_json::Value; 0]);
    assert!(place.json(&["index-note"])[0]["text"].as_str().is_some_and(|text| text.ends_with("- a: s")));
    let forgot = &place.json(&["forget", "a"])[0];
    assert_eq!((&forgot["key"], &forgot["found"]), (&json!("a"), &json!(true)));
}

#[test]
fn a_body_comes_from_standard_input_as_it_is() {
    let place = Place::new();
    let body = "— first\r\n\r\nsecond\u{2028}\n\n";
    assert_eq!(place.run_with(&["remember", "k", "--summary", "s"], body.as_bytes()).code, 0);
    assert_eq!(place.json(&["recall", "k"])[0]["body"], body);
    assert_eq!(place.done(&["recall", "k"]), body, "a line break at the end is not doubled");
    let large = "ä".repeat(1 << 20);
    assert_eq!(place.run_with(&["remember", "large", "--summary", "s"], large.as_bytes()).code, 0);
    assert_eq!(place.done(&["recall", "large"]).trim_end(), large);
}

#[test]
fn text_that_looks_like_an_option_is_text() {
    let place = Place::new();
    place.done(&["remember", "k", "--summary", "- one", "--body", "--not-an-option"]);
    assert_eq!(place.done(&["recall", "k"]), "--not-an-option\n");
    assert_eq!(place.done(&["search", "--not"]), "- k: - one\n  --not-an-option\n");
    place.done(&["working", "push", "pad", "todo", "- buy plums"]);
    place.done(&["episodic", "record", "log", "n", "-1"]);
    assert_eq!(place.json(&["episodic", "recent", "log"])[0]["value"], json!(-1));
}

#[test]
fn rows_are_saved_found_read_and_deleted() {
    let place = Place::new();
    let upsert = |id, text, metadata| {
        place.done(&["vector", "upsert", "docs", id, "--text", text, "--metadata", metadata])
    };
    assert_eq!(upsert("a", "plum jam", r#"{"n":1}"#), "saved a\n");
    upsert("b", "plum\ncake", r#"{"n": 2.50}"#);
    let found = place.done(&["vector", "search", "docs", "plum jam"]);
    let rows: Vec<&str> = found.lines().collect();
    assert_eq!(rows.len(), 2, "one line a row, whatever the text holds: {found}");
    assert_eq!(rows[0], r#"+1.0000  a  plum jam  {"n":1}"#);
    let filtered =
        place.json(&["vector", "search", "docs", "plum jam", "-k", "1", "--filter", r#"{"n":2.5}"#]);
    assert_eq!((filtered.len(), &filtered[0]["id"]), (1, &json!("b")));
    let raw = place.done(&["--json", "vector", "search", "docs", "cake", "-k", "1"]);
    assert!(raw.contains(r#""metadata":{"n":2.50}"#), "numbers keep their digits: {raw}");
    let row = &place.json(&["vector", "get", "docs", "a"])[0];
    assert_eq!((row["embedding"].as_array().map(Vec::len), &row["found"]), (Some(64), &json!(true)));
    assert!(place.done(&["vector", "get", "docs", "a"]).starts_with("plum jam\n"));
    assert!(place.done(&["vector", "delete", "docs", "a"]).starts_with("deleted a"));
    assert_eq!(place.done(&["vector", "search", "docs", "jam", "-k", "0"]), "(no matches)\n");
    assert_eq!(place.json(&["vector", "search", "docs", "plum jam"]).len(), 1);
}

#[test]
fn a_vector_of_ones_own_is_stored_bit_for_bit() {
    let place = Place::new();
    let vector = "[0.1,-1e-20,3.4028235e38]";
    place.done(&["vector", "upsert", "own", "a", "--text", "t", "--embedding", vector]);
    let row = &place.json(&["vector", "get", "own", "a"])[0];
    let stored: Vec<f32> = serde_json::from_value(row["embedding"].clone()).expect("floats");
    assert_eq!(stored, [0.1, -1e-20, f32::MAX]);
}

#[test]
fn episodes_are_recorded_read_bounded_and_cleared() {
    let place = Place::new();
    for (key, value) in [("q1", r#"{"b":1.50,"a":2}"#), ("q2", "[]"), ("x", "null")] {
        assert_eq!(place.done(&["episodic", "record", "turns", key, value]), format!("recorded {key}\n"));
    }
    let recent = place.done(&["episodic", "recent", "turns", "-n", "2"]);
    let keys: Vec<&str> = recent.lines().filter_map(|line| line.split("  ").nth(1)).collect();
    assert_eq!(keys, ["x", "q2"], "{recent}");
    let found = place.done(&["--json", "episodic", "search", "turns", "q"]);
    assert_eq!(found.lines().count(), 2);
    assert!(found.lines().next().is_some_and(|q1| q1.contains(r#""value":{"a":2,"b":1.50}"#)), "{found}");
    assert_eq!(
        place.done(&["episodic", "configure", "turns", "--max", "1"]),
        "turns holds at most 1 episode\n"
    );
    assert_eq!(place.json(&["episodic", "recent", "turns"]).len(), 1);
    assert!(place.done(&["episodic", "clear", "turns"]).starts_with("cleared turns"));
    assert_eq!(place.done(&["episodic", "recent", "turns"]), "(no episodes)\n");
}

#[test]
fn a_scratchpad_is_filled_rendered_bounded_and_cleared() {
    let place = Place::new();
    let pushed = place.done(&["working", "push", "pad", "plan", "outline the introduction"]);
    assert_eq!(pushed, "pushed plan (11 of 2048 tokens used)\n");
    let text = "## Working Memory\n- **plan**: outline the introduction";
    assert_eq!(place.done(&["working", "render", "pad"]), format!("{text}\n"));
    let rendered = &place.json(&["working", "render", "pad"])[0];
    assert_eq!(
        (&rendered["text"], &rendered["tokens"], &rendered["budget"]),
        (&json!(text), &json!(11), &json!(2048))
    );
    assert_eq!(rendered["entries"][0]["label"], "plan");
    place.done(&["working", "push", "pad", "next", "more"]);
    let configured = &place.json(&["working", "configure", "pad", "--budget", "6"])[0];
    assert_eq!((&configured["tokens"], &configured["budget"]), (&json!(6), &json!(6)), "the oldest gave way");
    place.done(&["working", "clear", "pad"]);
    assert_eq!(place.done(&["working", "render", "pad"]), "");
}

#[test]
fn workspaces_share_nothing() {
    let place = Place::new();
    place.done(&["--workspace", "core/scribe", "remember", "k", "--summary", "s", "--body", "there"]);
    assert_eq!(place.done(&["list"]), "(no memories)\n");
    assert_eq!(place.done(&["list", "--workspace", "core/scribe"]), "- k: s\n");
    assert_eq!(place.json(&["info"])[0]["workspaces"], json!(["core/scribe"]));
}

#[test]
fn what_was_forgotten_is_not_found_again_by_any_process() {
    let place = Place::new();
    place.done(&["remember", "secret", "--summary", "code", "--body", "the door code is 4711"]);
    place.done(&["vector", "upsert", "docs", "secret", "--text", "door code"]);
    place.done(&["forget", "secret"]);
    place.done(&["vector", "delete", "docs", "secret"]);
    for _ in 0..2 {
        assert_eq!(place.done(&["search", "4711"]), "(no matches)\n");
        assert_eq!(place.done(&["list"]), "(no memories)\n");
        assert_eq!(place.done(&["vector", "search", "docs", "door code"]), "(no matches)\n");
        assert_eq!(place.run(&["recall", "secret"]).code, 1);
    }
    assert_eq!(place.done(&["recall", "secret", "--at", "1"]), "the door code is 4711\n");
}

#[test]
fn info_tells_where_the_store_is_and_what_is_in_it() {
    let place = Place::new();
    place.done(&["remember", "k", "--summary", "s", "--body", "b"]);
    place.done(&["working", "push", "pad", "l", "c"]);
    let info = &place.json(&["info"])[0];
    let real = place.store().canonicalize().expect("a store");
    assert_eq!(info["store"], real.to_str().expect("a path of ours"));
    assert_eq!(info["store_id"].as_str().map(str::len), Some(32));
    for (name, value) in [("frame", 2), ("durable", 2), ("segments", 1), ("format", 1), ("unclean_bytes", 0)]
    {
        assert_eq!(info[name], value, "{name}");
    }
    assert!(info["used"].as_u64() < info["bytes"].as_u64());
    assert_eq!(info["handles"][1], json!({"kind": "working", "id": "pad", "len": 1}));
    let past = &place.json(&["info", "--at", "1"])[0];
    assert_eq!((&past["at"], past["handles"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    let text = place.done(&["info"]);
    assert!(text.contains("frame     2, written ") && text.contains("notes     memory"), "{text}");
}

#[test]
fn a_relative_store_is_below_the_directory_where_the_command_runs() {
    let place = Place::new();
    let elsewhere = place.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a directory");
    let run_in_elsewhere = |args: &[&str]| {
        let mut command = place.command(args);
        command.current_dir(&elsewhere).env_remove("MNEMOLOG_STORE");
        finish(command, b"")
    };
    let saved = run_in_elsewhere(&["--store", "here/mem", "remember", "k", "--summary", "s", "--body", "b"]);
    assert_eq!(saved.code, 0, "{saved:?}");
    let absolute = elsewhere.join("here/mem");
    let info = place.json(&["--store", absolute.to_str().expect("ours"), "info"]);
    assert_eq!(info[0]["store"], absolute.canonicalize().expect("a store").to_str().expect("ours"));
    assert_eq!(place.run(&["--store", "here/mem", "info"]).code, 1, "from here it is another path");
    let default = run_in_elsewhere(&["remember", "k", "--summary", "s", "--body", "b"]);
    assert_eq!(default.code, 0, "{default:?}");
    assert!(place.root().join("home/.local/share/mnemolog/log").is_dir(), "the platform's data directory");
}

#[test]
fn the_command_explains_itself_without_a_store() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.done(&["completions", shell]).contains("index-note"), "{shell}");
    }
    let page = place.done(&["man"]);
    assert!(page.contains(".TH mnemolog 1") && page.contains("Exit codes"), "{page}");
    assert!(place.done(&["man", "vector", "search"]).contains("stub"));
    for args in [&["completions", "fish"][..], &["man"]] {
        assert_eq!(place.json(args)[0]["text"], place.done(args), "the same for a program");
    }
    assert!(place.done(&["help", "vector", "search"]).contains("stub"), "the stub says what it is");
    assert!(place.done(&["--version"]).starts_with("mnemolog "));
    assert!(place.everything().is_empty(), "none of that needs a store");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let place = Place::new();
    for i in 0..40 {
        place.done(&["working", "push", "pad", &i.to_string(), &"x".repeat(4000)]);
    }
    let mut command = place.command(&["--json", "working", "render", "pad"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
