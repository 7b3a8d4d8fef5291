//! Histories, ways back, conditional writes and comparisons on the command line.

use serde_json::{Value, json};

use super::{Place, check_sentence};

/// A note that was saved, overwritten, deleted, and saved again; one row beside it.
fn history() -> Place {
    let place = Place::new();
    place.done(&["remember", "user/name", "--summary", "the name", "--body", "Ada"]);
    place.done(&["remember", "user/name", "--summary", "the name", "--body", "Ada\nLovelace"]);
    place.done(&["forget", "user/name"]);
    place.done(&["vector", "upsert", "docs", "a", "--text", "plum jam", "--metadata", "{\"n\":1.0}"]);
    place.done(&["vector", "delete", "docs", "a"]);
    place
}

/// The text without its times, which differ from run to run.
fn without_times(text: &str) -> String {
    let time = |word: &str| word.len() == 27 && word.ends_with('Z');
    let words = |line: &str| line.split("  ").filter(|word| !time(word)).collect::<Vec<_>>().join("  ");
    text.lines().map(|line| words(line) + "\n").collect()
}

#[test]
fn a_history_reads_like_a_log_newest_first() {
    let place = history();
    let text = place.done(&["history", "user/name"]);
    assert_eq!(
        without_times(&text),
        "frame 3  forget\n\nframe 2  remember\nsummary  the name\n\n    Ada\n    Lovelace\n\nframe 1  remember\n\
         summary  the name\n\n    Ada\n"
    );
    assert!(!text.contains('\x1b'), "no colour outside a terminal");
    let early = place.done(&["history", "user/name", "--at", "1"]);
    assert_eq!(without_times(&early), "frame 1  remember\nsummary  the name\n\n    Ada\n");
    assert_eq!(without_times(&place.done(&["history", "user/name", "-n", "1"])), "frame 3  forget\n");
    let row = without_times(&place.done(&["vector", "history", "docs", "a"]));
    assert_eq!(row, "frame 5  delete\n\nframe 4  upsert\n\n    plum jam\n    metadata: {\"n\":1.0}\n");
    let never = place.run(&["history", "nobody"]);
    assert_eq!((never.code, never.out.as_str()), (1, "nothing was ever saved under nobody\n"));
    assert_eq!(place.run(&["history", "user/name", "--at", "9"]).code, 1);
}

#[test]
fn a_history_is_one_object_a_version_for_programs() {
    let place = history();
    let versions = place.json(&["history", "user/name"]);
    let time = versions[2]["time"].as_str().expect("a time").to_owned();
    assert_eq!(
        versions[2],
        json!({
            "key": "user/name", "frame": 1, "time": time, "op": "remember", "by": "delta",
            "summary": "the name", "body": "Ada", "text": null, "metadata": null, "embedding": null
        })
    );
    assert_eq!((&versions[0]["op"], &versions[0]["body"]), (&json!("forget"), &Value::Null));
    assert_eq!(place.json(&["history", "user/name", "--at", &time]).len(), 1);
    let rows = place.json(&["vector", "history", "docs", "a"]);
    assert_eq!((&rows[1]["text"], &rows[1]["metadata"]["n"]), (&json!("plum jam"), &json!(1.0)));
    assert_eq!(rows[1]["embedding"].as_array().map(Vec::len), Some(64));
}

#[test]
fn a_body_cannot_forge_a_line_of_a_history_or_of_a_comparison() {
    let place = Place::new();
    let body = "x\nframe 9  forget\n\x1b[2Jgone\r+ forged";
    place.done(&["remember", "k", "--summary", "s\nframe 8", "--body", body]);
    for text in [place.done(&["history", "k"]), place.done(&["diff", "0", "1"])] {
        assert!(text.lines().skip(1).all(|line| !line.starts_with("frame")), "{text}");
        assert!(!text.contains(['\x1b', '\r']), "{text}");
    }
}

#[test]
fn a_note_and_a_row_are_brought_back_to_a_frame_or_a_time() {
    let place = history();
    assert_eq!(place.done(&["restore", "user/name", "2"]), "restored user/name as it was at frame 2\n");
    assert_eq!(place.done(&["recall", "user/name"]), "Ada\nLovelace\n");
    let time = place.json(&["history", "user/name"])[3]["time"].as_str().expect("a time").to_owned();
    let answer = &place.json(&["restore", "user/name", &time])[0];
    assert_eq!((&answer["key"], &answer["frame"]), (&json!("user/name"), &json!(7)));
    assert_eq!(place.done(&["recall", "user/name"]), "Ada\n");
    let same = "user/name is as it was at frame 1; nothing was written\n";
    assert_eq!(place.done(&["restore", "user/name", "1"]), same);
    let gone = "forgot user/name, which was not there at frame 3 (its history stays)\n";
    assert_eq!(place.done(&["restore", "user/name", "3"]), gone);
    let never = "nothing is saved under no/note, and nothing was at frame 1; nothing was written\n";
    for args in [["restore", "no/note", "1"].as_slice(), &["vector", "restore", "docs", "no/note", "1"]] {
        let run = place.run(args);
        assert_eq!((run.code, run.out.as_str()), (1, never), "not found, as of `forget`: {args:?}");
    }
    assert_eq!(place.done(&["vector", "restore", "docs", "a", "4"]), "restored a as it was at frame 4\n");
    assert_eq!(place.json(&["vector", "get", "docs", "a"])[0]["text"], "plum jam");
    let beyond = place.run(&["restore", "user/name", "99"]);
    assert_eq!((beyond.code, beyond.out.as_str()), (1, ""));
    check_sentence(&beyond.err);
}

#[test]
fn a_workspace_is_rolled_back_and_the_rollback_too() {
    let place = history();
    place.done(&["--workspace", "other", "remember", "k", "--summary", "s", "--body", "stays"]);
    let text = place.done(&["--workspace", "other", "rollback", "0"]);
    assert_eq!(text, "rolled other back to frame 0: 1 change, written as frame 7\n");
    assert_eq!(place.done(&["--workspace", "other", "rollback", "6"]).lines().count(), 1);
    let answer = &place.json(&["rollback", "2"])[0];
    assert_eq!(
        answer,
        &json!({
            "workspace": "", "to": 2, "frame": 9, "deltas": 3,
            "text": "rolled the whole store back to frame 2: 3 changes, written as frame 9"
        })
    );
    assert_eq!(place.done(&["diff", "2", "9"]), "(no differences)\n");
    let again = "the whole store is as it was at frame 2; nothing was written\n";
    assert_eq!(place.done(&["rollback", "2"]), again);
    place.done(&["rollback", "8"]);
    assert_eq!(place.done(&["--workspace", "other", "recall", "k"]), "stays\n");
    assert_eq!(place.run(&["rollback", "99"]).code, 1);
}

#[test]
fn a_note_that_changed_meanwhile_is_not_overwritten() {
    let place = Place::new();
    let save = |frame: &str, body: &str| {
        place.run(&["remember", "k", "--summary", "s", "--body", body, "--if-frame", frame])
    };
    assert_eq!(save("0", "one").code, 0);
    assert_eq!(save("1", "two").code, 0);
    let stale = save("1", "three");
    assert_eq!((stale.code, stale.out.as_str()), (1, ""));
    check_sentence(&stale.err);
    assert!(stale.err.contains("saved by frame 2, not saved by frame 1"), "{}", stale.err);
    assert_eq!(place.done(&["recall", "k"]), "two\n");
}

#[test]
fn a_comparison_shows_the_lines_that_differ_and_a_few_around_them() {
    let place = Place::new();
    let line = |n: u64, word: &str| if n == 5 { format!("{word}\n") } else { format!("line {n}\n") };
    let body = |word: &str| (1..=9).map(|n| line(n, word)).collect::<String>();
    let (old, new) = (body("old"), body("new"));
    place.done(&["remember", "k", "--summary", "s", "--body", &old]);
    place.done(&["remember", "k", "--summary", "s", "--body", &new]);
    assert_eq!(
        place.done(&["diff", "1", "2"]),
        "notes memory\n  ~ k  (frame 1 → 2)\n        line 3\n        line 4\n      - old\n      + new\n        line 6\n\
         \x20       line 7\n"
    );
}
