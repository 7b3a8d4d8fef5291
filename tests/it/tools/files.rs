//! The notes as files: the sentences of the memory tool, its paths, its edits.

use mnemolog::tools::{FileError, FileVerb, Files};
use mnemolog::view::notes::NoteBody;
use mnemolog::{Error, Json, Store, Workspace};

use super::store;

fn files() -> (Store, Workspace, Files) {
    let store = store();
    let workspace = store.workspace("core").expect("a path");
    let files = Files::new(&workspace);
    (store, workspace, files)
}

fn said(answer: Result<String, FileError>) -> String {
    answer.unwrap_or_else(|error| error.to_string())
}

#[test]
fn every_command_answers_in_the_documented_words() {
    let (store, _, files) = files();
    let listed = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and \
        node_modules:\n0B\t/memories";
    assert_eq!(said(files.view("/memories", None)), listed);
    let text = "Meeting notes:\n- Discussed project timeline\n- Next steps defined\n";
    assert_eq!(
        said(files.create("/memories/notes.txt", text)),
        "File created successfully at: /memories/notes.txt"
    );
    assert_eq!(
        said(files.view("/memories/notes.txt", None)),
        "Here's the content of /memories/notes.txt with line numbers:\n     1\tMeeting notes:\n     2\t- Discussed \
         project timeline\n     3\t- Next steps defined"
    );
    assert_eq!(
        said(files.str_replace("/memories/notes.txt", "Discussed", "Agreed on")),
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\tMeeting \
         notes:\n     2\t- Agreed on project timeline\n     3\t- Next steps defined"
    );
    assert_eq!(
        said(files.insert("/memories/notes.txt", 3, "- Call Ines\n")),
        "The file /memories/notes.txt has been edited."
    );
    assert_eq!(
        said(files.view("/memories/notes.txt", Some([3, -1]))),
        "Here's the content of /memories/notes.txt with line numbers:\n     3\t- Next steps defined\n     4\t- Call Ines"
    );
    assert_eq!(
        said(files.rename("/memories/notes.txt", "/memories/old/notes.txt")),
        "Successfully renamed /memories/notes.txt to /memories/old/notes.txt"
    );
    assert_eq!(said(files.delete("/memories/old")), "Successfully deleted /memories/old");
    assert_eq!(store.appended().0, 5, "each change is one frame");
}

#[test]
fn every_refusal_is_documented_and_changes_nothing() {
    let (store, _, files) = files();
    files.create("/memories/a.txt", "one\ntwo two\none\n").expect("made");
    files.create("/memories/d/b.txt", "b").expect("made");
    let before = store.appended();
    let no_line = "It should be within the range of lines of the file";
    for (answer, sentence) in [
        (
            files.view("/memories/x", None),
            "The path /memories/x does not exist. Please provide a valid path.",
        ),
        (files.create("/memories/a.txt", "new"), "Error: File /memories/a.txt already exists"),
        (
            files.str_replace("/memories/x", "a", "b"),
            "Error: The path /memories/x does not exist. Please provide a valid path.",
        ),
        (
            files.str_replace("/memories/d", "a", "b"),
            "Error: The path /memories/d does not exist. Please provide a valid path.",
        ),
        (
            files.str_replace("/memories/a.txt", "three", "b"),
            "No replacement was performed, old_str `three` did not appear verbatim in /memories/a.txt.",
        ),
        (
            files.str_replace("/memories/a.txt", "", "b"),
            "No replacement was performed, old_str `` did not appear verbatim in /memories/a.txt.",
        ),
        (
            files.str_replace("/memories/a.txt", "one", "b"),
            "No replacement was performed. Multiple occurrences of old_str `one` in lines: 1, 3. Please ensure it is unique",
        ),
        (files.insert("/memories/x", 0, "a"), "Error: The path /memories/x does not exist"),
        (files.insert("/memories/d", 0, "a"), "Error: The path /memories/d does not exist"),
        (
            files.insert("/memories/a.txt", 4, "a"),
            &format!("Error: Invalid `insert_line` parameter: 4. {no_line}: [0, 3]"),
        ),
        (
            files.insert("/memories/a.txt", -1, "a"),
            &format!("Error: Invalid `insert_line` parameter: -1. {no_line}: [0, 3]"),
        ),
        (
            files.view("/memories/a.txt", Some([4, 9])),
            &format!("Error: Invalid `view_range` parameter: [4, 9]. {no_line}: [1, 3]"),
        ),
        (
            files.view("/memories/a.txt", Some([3, 2])),
            &format!("Error: Invalid `view_range` parameter: [3, 2]. {no_line}: [1, 3]"),
        ),
        (files.delete("/memories/x"), "Error: The path /memories/x does not exist"),
        (files.rename("/memories/x", "/memories/y"), "Error: The path /memories/x does not exist"),
        (files.rename("/memories/a.txt", "/memories/d"), "Error: The destination /memories/d already exists"),
        (
            files.rename("/memories/d", "/memories/a.txt"),
            "Error: The destination /memories/a.txt already exists",
        ),
        (
            files.rename("/memories/d", "/memories/d/e"),
            "Error: The directory /memories/d cannot be moved to /memories/d/e, which lies in it",
        ),
    ] {
        assert_eq!(answer.expect_err(sentence).to_string(), sentence);
    }
    assert_eq!(store.appended(), before);
}

#[test]
fn a_refusal_repeats_what_it_was_given_in_one_line() {
    let (_, _, files) = files();
    files.create("/memories/a.txt", "one\n").expect("made");
    let old = "\"three\"\n\tfour\u{2028}";
    let refused = files.str_replace("/memories/a.txt", old, "b").expect_err("it is not there").to_string();
    assert!(refused.contains(r#"old_str `"three"\n\tfour\u{2028}` did not appear"#), "{refused}");
    let refused = files.view("/tmp/a\r\nb", None).expect_err("elsewhere").to_string();
    assert!(refused.contains(r"The path /tmp/a\r\nb is not inside /memories"), "{refused}");
}

/// H1: the root under every spelling, and paths that would leave it.
#[test]
fn every_spelling_of_the_root_is_the_root_and_nothing_leaves_it() {
    let (store, workspace, files) = files();
    for key in ["a.txt", ".", "..", "", "x/..", "A.TXT", "%2e%2e/b"] {
        workspace.notes().remember(key, "s", key).expect("saved");
    }
    let before = store.appended();
    for root in [
        "/memories",
        "/memories/",
        "/memories/.",
        "/memories//",
        "/memories/x/..",
        "/memories/./x/../",
        "/memories///.//",
    ] {
        let listed = said(files.view(root, None));
        assert!(listed.lines().any(|line| line == "5B\t/memories/a.txt"), "{root}: {listed}");
        assert!(matches!(files.delete(root), Err(FileError::Root { verb: FileVerb::Delete })), "{root}");
        assert!(matches!(files.rename(root, "/memories/y"), Err(FileError::Root { verb: FileVerb::Rename })));
        assert!(matches!(files.rename("/memories/a.txt", root), Err(FileError::DestinationExists { .. })));
        assert!(matches!(files.create(root, "x"), Err(FileError::Root { verb: FileVerb::Create })));
        assert!(matches!(files.insert(root, 0, "x"), Err(FileError::Absent { .. })));
    }
    for path in [
        "",
        "/",
        "memories",
        "/Memories/a.txt",
        "/memoriesx",
        "/etc/passwd",
        "/memories/..",
        "/memories/../memories/a.txt",
        "/memories/a/../../b",
        "//memories",
    ] {
        assert!(matches!(files.view(path, None), Err(FileError::BadPath { .. })), "{path}");
        assert!(matches!(files.create(path, "x"), Err(FileError::BadPath { .. })), "{path}");
        assert!(matches!(files.str_replace(path, "x", "y"), Err(FileError::BadPath { .. })), "{path}");
        assert!(matches!(files.insert(path, 0, "y"), Err(FileError::BadPath { .. })), "{path}");
        assert!(matches!(files.delete(path), Err(FileError::BadPath { .. })), "{path}");
        assert!(matches!(files.rename(path, "/memories/y"), Err(FileError::BadPath { .. })), "{path}");
        assert!(matches!(files.rename("/memories/a.txt", path), Err(FileError::BadPath { .. })), "{path}");
    }
    assert_eq!(store.appended(), before, "all of that wrote nothing");
    let listed = said(files.view("/memories", None));
    assert!(listed.ends_with("(4 more have keys that no path can name.)"), "{listed}");
    let body = |path| said(files.view(path, None)).lines().last().map(str::to_owned);
    assert_eq!(body("/memories/a.txt").as_deref(), Some("     1\ta.txt"), "letters keep their case");
    assert_eq!(body("/memories/A.TXT").as_deref(), Some("     1\tA.TXT"));
    assert_eq!(body("/memories/%2e%2e/b").as_deref(), Some("     1\t%2e%2e/b"), "nothing is decoded");
}

/// H2, H3: edits leave every byte that they do not name.
#[test]
fn edits_keep_line_ends_and_every_other_byte() {
    let (_, workspace, files) = files();
    let body = || workspace.notes().recall("f");
    let odd = "a\u{2028}b\u{85}c\u{c}d\u{b}e\rf\u{2029}g";
    for (end, other) in [("\r\n", "\n"), ("\n", "\r\n")] {
        let text = format!("one{end}{odd}{end}three{other}four");
        files.create("/memories/f", &text).expect("made");
        let shown = format!("\n     2\t{odd}{end}     3\tthree{other}     4\tfour");
        assert!(said(files.view("/memories/f", None)).ends_with(&shown), "every byte of a line is shown");
        files.str_replace("/memories/f", "three", "drei").expect("replaced");
        assert_eq!(body(), format!("one{end}{odd}{end}drei{other}four"));
        files.insert("/memories/f", 2, &format!("new{end}")).expect("inserted");
        assert_eq!(body(), format!("one{end}{odd}{end}new{end}drei{other}four"));
        files.insert("/memories/f", 5, "five").expect("inserted");
        assert_eq!(body(), format!("one{end}{odd}{end}new{end}drei{other}four{end}five"));
        files.insert("/memories/f", 0, "zero").expect("inserted");
        assert_eq!(body(), format!("zero{end}one{end}{odd}{end}new{end}drei{other}four{end}five"));
        let across = format!("one{end}{odd}{end}");
        files.str_replace("/memories/f", &across, "").expect("replaced");
        assert_eq!(body(), format!("zero{end}new{end}drei{other}four{end}five"));
        files.delete("/memories/f").expect("deleted");
    }
    files.create("/memories/f", "").expect("made");
    assert_eq!(said(files.view("/memories/f", None)), "Here's the content of /memories/f with line numbers:");
    files.insert("/memories/f", 0, "first").expect("inserted");
    assert_eq!(body(), "first");
    files.create("/memories/g", "aaa").expect("made");
    let twice = files.str_replace("/memories/g", "aa", "b").expect_err("it stands there twice");
    assert!(matches!(twice, FileError::NotUnique { lines, .. } if lines == [1]));
}

#[test]
fn a_path_may_be_a_file_and_a_directory_and_is_shown_moved_and_deleted_as_both() {
    let (store, workspace, files) = files();
    for (path, text) in [("p", "the project\n"), ("p/a", "a"), ("p/q/r/s", "deep"), ("p/.git", "hidden")] {
        files.create(&format!("/memories/{path}"), text).expect("made");
    }
    files.create("/memories/node_modules/x", "hidden").expect("made");
    assert_eq!(
        said(files.view("/memories/p", None)),
        "Here's the content of /memories/p with line numbers:\n     1\tthe project\n\nHere're the files and directories \
         up to 2 levels deep in /memories/p, excluding hidden items and node_modules:\n5B\t/memories/p\n\
         1B\t/memories/p/a\n4B\t/memories/p/q/\n4B\t/memories/p/q/r/"
    );
    assert_eq!(
        said(files.view("/memories", None)).split_once('\n').expect("two lines").1,
        "17B\t/memories\n12B\t/memories/p\n5B\t/memories/p/\n1B\t/memories/p/a\n4B\t/memories/p/q/"
    );
    let before = store.appended();
    files.rename("/memories/p", "/memories/n").expect("moved");
    let keys: Vec<String> = workspace.notes().summaries().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["n", "n/.git", "n/a", "node_modules/x", "n/q/r/s"]);
    assert_eq!(workspace.notes().recall("n/q/r/s"), "deep");
    files.delete("/memories/n").expect("deleted");
    assert_eq!(workspace.notes().len(), 1);
    assert_eq!(store.appended().0, before.0 + 2, "each is one frame, so that it can be undone");
    workspace.rollback(before).expect("back");
    assert_eq!(workspace.notes().recall("p/q/r/s"), "deep");
    files.rename("/memories/p/a", "/memories/p/a/b").expect("a file alone may go below itself");
    assert_eq!(workspace.notes().recall("p/a/b"), "a");
}

#[test]
fn a_file_has_the_summary_of_its_first_line_and_a_note_keeps_its_own() {
    let (_, workspace, files) = files();
    let summary = |key: &str| workspace.notes().get(key).expect("readable").expect("saved").summary;
    files.create("/memories/f", "# Title\r\nbody\n").expect("made");
    assert_eq!(summary("f").as_deref(), Some("# Title"));
    files.str_replace("/memories/f", "Title", "New title").expect("replaced");
    assert_eq!(summary("f").as_deref(), Some("# New title"));
    files.create("/memories/long", &"x".repeat(200)).expect("made");
    let cut = format!("{}…", "x".repeat(119));
    assert_eq!(summary("long"), Some(cut.clone()));
    assert!(workspace.notes().list_memories().contains(&cut), "shown whole");
    workspace.notes().remember("own", "my words", "first\n").expect("saved");
    files.insert("/memories/own", 0, "zeroth\n").expect("inserted");
    assert_eq!(summary("own").as_deref(), Some("my words"));
    workspace.notes().remember_json("json", None, &Json::parse(r#"{"a":1}"#).expect("JSON")).expect("saved");
    files.rename("/memories/json", "/memories/moved").expect("moved");
    let moved = workspace.notes().get("moved").expect("readable").expect("saved");
    assert_eq!((moved.summary, moved.body.as_str()), (None, r#"{"a":1}"#));
    files.str_replace("/memories/moved", "1", "2").expect("replaced");
    assert_eq!((summary("moved"), workspace.notes().recall("moved")), (None, r#"{"a":2}"#.to_owned()));
}

#[test]
fn a_body_that_is_json_stays_so_until_an_edit_makes_something_else_of_it() {
    let (_, workspace, files) = files();
    let body = || workspace.notes().get("j").expect("readable").expect("saved").body;
    workspace.notes().remember_json("j", None, &json_of(r#"{"a":1}"#)).expect("saved");
    let said = said(files.str_replace("/memories/j", "1", "1, \"A\": 2"));
    assert_eq!(body(), NoteBody::Json(json_of(r#"{"A":2,"a":1}"#)));
    assert!(said.ends_with("\n     1\t{\"A\":2,\"a\":1}"), "what is saved is shown: {said}");
    files.str_replace("/memories/j", "}", "").expect("replaced");
    assert_eq!(body(), NoteBody::Text(r#"{"A":2,"a":1"#.to_owned()), "no JSON any more");
    files.insert("/memories/j", 1, "}").expect("inserted");
    assert!(matches!(body(), NoteBody::Text(_)), "a text stays one");
    workspace.notes().remember_json("j", None, &json_of("[1]")).expect("saved");
    files.str_replace("/memories/j", "[1]", "\"one\"").expect("replaced");
    assert_eq!(body(), NoteBody::Text("\"one\"".to_owned()), "every byte, the quotes as well");
}

fn json_of(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

#[test]
fn an_error_tells_each_line_once_and_some_of_many_and_the_beginning_of_a_long_path() {
    let (_, _, files) = files();
    files.create("/memories/f", &"a a\n".repeat(30)).expect("made");
    let error = said(files.str_replace("/memories/f", "a", "b"));
    assert!(error.contains("in lines: 1, 2, 3, ") && error.contains(" 19, 20, …. Please"), "{error}");
    files.create("/memories/g", &"a a\n".repeat(20)).expect("made");
    let error = said(files.str_replace("/memories/g", "a", "b"));
    assert!(error.contains(" 19, 20. Please"), "{error}");
    let long = format!("/memories/{}", "k".repeat(20_000));
    files.create(&long, "x").expect("made");
    let below = format!("{long}/d");
    files.create(&format!("{below}/e"), "x").expect("made");
    for answer in [
        files.view(&format!("{long}x"), None),
        files.create(&long, "x"),
        files.str_replace(&long, "a", "b"),
        files.delete(&format!("{long}x")),
        files.rename("/memories/f", &long),
        files.rename(&below, &format!("{below}/x")),
    ] {
        let error = answer.expect_err("refused").to_string();
        assert!(error.len() < 2500 && error.contains('…'), "{} bytes", error.len());
    }
}

#[test]
fn what_is_rounded_to_the_next_unit_is_shown_in_it() {
    let (_, _, files) = files();
    for (bytes, shown) in [(1023, "1023B"), (1024, "1.0K"), (1_048_000, "1023.4K"), (1_048_575, "1.0M")] {
        files.create("/memories/f", &"x".repeat(bytes)).expect("made");
        assert!(said(files.view("/memories", None)).ends_with(&format!("\n{shown}\t/memories/f")), "{bytes}");
        files.delete("/memories/f").expect("deleted");
    }
}

#[test]
fn a_path_that_is_both_is_shown_within_one_bound_and_a_range_shows_the_file_alone() {
    let (_, workspace, files) = files();
    files.create("/memories/p", &"line\n".repeat(5000)).expect("made");
    for n in 0..2000 {
        workspace.notes().remember(&format!("p/{n}"), "s", "b").expect("saved");
    }
    let shown = said(files.view("/memories/p", None));
    assert!(shown.chars().count() < mnemolog::tools::ANSWER_MAX + 500, "{}", shown.chars().count());
    assert!(
        shown.contains("\n  3000\tline") || shown.contains("(showing lines 1 to "),
        "the file comes first"
    );
    assert!(
        shown.lines().last().is_some_and(|line| line.contains("of 2000 entries")),
        "and then the directory"
    );
    let lines = said(files.view("/memories/p", Some([1, 2])));
    assert!(lines.ends_with("\n     1\tline\n     2\tline"), "{lines}");
}

#[test]
fn what_is_too_long_is_shown_in_parts_that_say_so() {
    let (_, workspace, files) = files();
    files.create("/memories/long", &"\n".repeat(1_000_000)).expect("made");
    let sentence = "File /memories/long exceeds maximum line limit of 999,999 lines.";
    assert_eq!(said(files.view("/memories/long", None)), sentence);
    let text: String = (1..=9000).map(|n| format!("line {n}\n")).collect();
    files.create("/memories/big", &text).expect("made");
    let (mut from, mut seen) = (1, Vec::new());
    loop {
        let part = said(files.view("/memories/big", Some([from, -1])));
        assert!(part.chars().count() < mnemolog::tools::ANSWER_MAX + 300);
        seen.extend(part.lines().filter_map(|line| line.split_once('\t')).map(|(_, text)| text.to_owned()));
        let Some(next) = part.lines().last().and_then(|line| line.split("view_range [").nth(1)) else {
            break;
        };
        from = next.split(',').next().and_then(|n| n.parse().ok()).expect("a number");
    }
    assert_eq!(seen, text.lines().collect::<Vec<_>>(), "every line once");
    files.create("/memories/wide", &"y".repeat(100_000)).expect("made");
    let wide = said(files.view("/memories/wide", None));
    let told = "y…(60000 more characters are left out)\n(no view shows more of a line than its first 40000 characters.)";
    assert!(wide.ends_with(told));
    let snippet = said(files.str_replace("/memories/big", "line 1\n", &text));
    assert!(
        snippet.ends_with("(the rest of the change is left out.)"),
        "{}",
        &snippet[snippet.len() - 100..]
    );
    for n in 0..3000 {
        workspace.notes().remember(&format!("many/{n}"), "s", "b").expect("saved");
    }
    let listed = said(files.view("/memories/many", None));
    assert!(listed.chars().count() < mnemolog::tools::ANSWER_MAX + 300);
    let told = listed.lines().last().expect("a line");
    assert!(told.starts_with("(showing ") && told.contains("of 3000 entries"), "{told}");
    assert_eq!(said(files.view("/memories/many/7", None)).lines().count(), 2);
}

#[test]
fn what_the_store_refuses_is_passed_on() {
    let (store, workspace, files) = files();
    files.create("/memories/f", "f").expect("made");
    let long = format!("/memories/{}", "k".repeat(70_000));
    let refused = |answer: Result<String, FileError>| match answer {
        Err(FileError::Store(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused(files.create(&long, "x")), Error::TooLarge { .. }));
    assert!(matches!(refused(files.rename("/memories/f", &long)), Error::TooLarge { .. }));
    let past = Files::new(&workspace.at(store.appended()).expect("the last frame"));
    assert_eq!(said(past.view("/memories/f", None)).lines().last(), Some("     1\tf"));
    for answer in [
        past.create("/memories/g", "g"),
        past.str_replace("/memories/f", "f", "g"),
        past.insert("/memories/f", 0, "g"),
        past.delete("/memories/f"),
        past.rename("/memories/f", "/memories/g"),
    ] {
        assert!(matches!(refused(answer), Error::ReadOnly));
    }
    assert_eq!(workspace.notes().len(), 1);
}

#[test]
fn a_range_that_begins_before_the_first_line_is_refused() {
    let store = store();
    let files = Files::new(&store.root());
    files.create("/memories/a", "one\ntwo\nthree\n").expect("created");
    for range in [[-5, 2], [0, -1], [i64::MIN, 1]] {
        let refused = files.view("/memories/a", Some(range)).expect_err("lines count from 1").to_string();
        assert!(refused.ends_with("It should be within the range of lines of the file: [1, 3]"), "{refused}");
    }
}

#[test]
fn all_lines_of_an_empty_file_can_be_asked_for_and_no_others() {
    let store = store();
    let files = Files::new(&store.root());
    files.create("/memories/empty", "").expect("created");
    let whole = files.view("/memories/empty", None).expect("viewed");
    assert_eq!(files.view("/memories/empty", Some([1, -1])).expect("viewed"), whole);
    let refused = files.view("/memories/empty", Some([1, 1])).expect_err("there is no such line");
    assert_eq!(refused.to_string(), "Error: Invalid `view_range` parameter: [1, 1]. The file is empty");
}
