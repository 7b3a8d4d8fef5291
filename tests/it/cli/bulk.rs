//! Whole logs in and out: dump, load, events.

use std::fs;
use std::process::Stdio;

use mnemolog::Store;
use serde_json::{Value, json};

use super::{Place, check_sentence, lines};

const NOTE: &str = r#"{"handle_kind":"notes","handle_id":"memory","op":"remember","args":{"key":"a","summary":"s","body":"b"}}"#;
const EPISODE: &str =
    r#"{"handle_kind":"episodic","handle_id":"turns","op":"record","args":{"key":"k","value":{"n":1.50}}}"#;
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/mnemolog/sample.jsonl");

#[test]
fn lines_are_loaded_and_what_was_done_is_said() {
    let place = Place::new();
    let file = place.file("lines.jsonl", format!("{NOTE}\n\n{EPISODE}\n"));
    assert_eq!(place.done(&["load", &file]), "loaded 2 lines as 2 frames (1 to 2)\n");
    let again = &place.json(&["load", &file, &file])[0];
    let counts = [("files", 2), ("frames", 4), ("lines", 4), ("first", 3), ("last", 6), ("embedded", 0)];
    assert!(counts.iter().all(|(name, n)| again[name] == *n), "{again}");
    assert_eq!((&again["refused"], &again["raised_times"]), (&json!([]), &json!(0)));
    let piped = place.run_with(&["load", "-"], NOTE.as_bytes());
    assert_eq!((piped.code, piped.out.as_str()), (0, "loaded 1 line as 1 frame (7 to 7)\n"), "{piped:?}");
    assert_eq!(place.done(&["recall", "a"]), "b\n");
}

#[test]
fn a_bad_line_is_named_and_nothing_is_loaded() {
    let place = Place::new();
    let good = place.file("good.jsonl", NOTE);
    for (name, line) in
        [("cut.jsonl", &NOTE[..40]), ("other.jsonl", r#"{"op":"remember"}"#), ("text.jsonl", "hello")]
    {
        let bad = place.file(name, format!("{NOTE}\n\n{line}\n{EPISODE}\n"));
        let run = place.run(&["load", &good, &bad]);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
        check_sentence(&run.err);
        assert!(run.err.contains(&bad) && run.err.contains("line 3: "), "{run:?}");
        assert!(!place.store().exists(), "not even a store was created");
    }
    let latin = place.file("latin.jsonl", [NOTE.as_bytes(), b"\n\xe9\n"].concat());
    let run = place.run(&["load", &latin]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("line 2: byte 1 is not UTF-8"), "{run:?}");
    let missing = place.run(&["load", &good, "missing.jsonl"]);
    assert_eq!((missing.code, missing.out.as_str()), (1, ""), "{missing:?}");
    check_sentence(&missing.err);
    assert!(!place.store().exists());
}

#[test]
fn bad_lines_are_reported_and_passed_when_told_to_keep_going() {
    let place = Place::new();
    let file = place.file("lines.jsonl", format!("{NOTE}\nhello\n{EPISODE}\n{{}}\n"));
    let run = place.run(&["--json", "load", "--keep-going", &file]);
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(run.err.lines().count(), 2, "{run:?}");
    let loaded = &lines(&run.out)[0];
    let refused: Vec<&Value> = loaded["refused"].as_array().expect("a list").iter().collect();
    assert_eq!(refused.iter().map(|refused| &refused["line"]).collect::<Vec<_>>(), [&json!(2), &json!(4)]);
    assert_eq!(loaded["frames"], 2);
}

#[test]
fn times_far_ahead_are_loaded_only_when_trusted() {
    let place = Place::new();
    let ahead = NOTE.replacen('{', r#"{"time":"2999-01-01T00:00:00Z","#, 1);
    let file = place.file("ahead.jsonl", ahead);
    let good = place.file("good.jsonl", NOTE);
    let run = place.run(&["load", &good, &file]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    check_sentence(&run.err);
    assert!(run.err.contains("ahead of the clock"), "{run:?}");
    assert!(!place.store().exists(), "nothing was loaded, of the other file neither");
    place.done(&["load", "--trust-times", &file]);
    assert!(place.json(&["info"])[0]["time"].as_str().is_some_and(|time| time.starts_with("2999-01-01")));
}

#[test]
fn a_value_over_a_limit_is_refused_by_load_as_by_the_library() {
    let place = Place::new();
    let key = "k".repeat(64 * 1024 + 1);
    let library = Store::in_memory().expect("a store").root().notes().remember(&key, "s", "b");
    let reason = library.expect_err("too large").to_string();
    let file =
        place.file("large.jsonl", format!("{NOTE}\n{}\n", NOTE.replacen(r#""a""#, &format!("\"{key}\""), 1)));
    let run = place.run(&["load", &file]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
    assert!(run.err.contains("line 2: ") && run.err.contains(&reason), "{}", run.err);
    assert_eq!(place.done(&["list"]), "(no memories)\n", "nothing of the file was loaded");
}

#[test]
fn a_dump_loaded_into_an_empty_store_gives_the_same_digests() {
    let (from, to) = (Place::new(), Place::new());
    from.done(&["load", "--trust-times", SAMPLE]);
    from.done(&["remember", "later", "--summary", "s", "--body", "b"]);
    let dump = from.done(&["dump"]);
    let file = to.file("dump.jsonl", &dump);
    let loaded = &to.json(&["load", "--trust-times", &file])[0];
    assert_eq!(loaded["renumbered"], json!(false));
    assert_eq!(from.json(&["replay", "--step"]), to.json(&["replay", "--step"]));
    assert_eq!(to.done(&["dump"]), dump);
    let part = from.done(&["dump", "--at", "3"]);
    assert!(dump.starts_with(&part) && lines(&part).last().is_some_and(|line| line["frame"] == 3), "{part}");
}

#[test]
fn events_end_with_a_snapshot_of_every_handle() {
    let place = Place::new();
    place.done(&["load", "--trust-times", SAMPLE]);
    let replay = &place.json(&["replay"])[0];
    let events = place.json(&["replay", "--dump-json"]);
    let handles = replay["handles"].as_array().expect("a list");
    let (patches, snapshots) = events.split_at(events.len() - handles.len());
    assert_eq!(patches.len() as u64, replay["deltas"].as_u64().expect("a number"));
    assert!(patches.iter().all(|event| event["event"] == "Patch"));
    for (event, handle) in snapshots.iter().zip(handles) {
        assert_eq!((&event["event"], &event["handle_id"]), (&json!("Snapshot"), &handle["id"]));
        assert_eq!(event["source"], format!("memory:{}", handle["kind"].as_str().expect("a kind")));
    }
    let indices: Vec<u64> = events.iter().filter_map(|event| event["index"].as_u64()).collect();
    assert_eq!(indices, (0..events.len() as u64).collect::<Vec<_>>());
    let early = place.json(&["replay", "--dump-json", "--at", "1"]);
    assert_eq!(early.len(), 2, "one patch and one snapshot");
}

#[test]
fn a_dump_whose_reader_goes_away_ends_quietly() {
    let place = Place::new();
    for _ in 0..4 {
        place.done(&["load", "--trust-times", SAMPLE]);
    }
    for args in [&["dump"][..], &["replay", "--dump-json"], &["replay", "--step"]] {
        let mut command = place.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{args:?}: {output:?}");
    }
}

#[test]
fn a_diff_names_what_was_added_changed_and_removed() {
    let place = Place::new();
    place.done(&["remember", "gone", "--summary", "s", "--body", "old"]);
    place.done(&["remember", "kept", "--summary", "s", "--body", "before"]);
    place.done(&["remember", "kept", "--summary", "s", "--body", "line\nafter"]);
    place.done(&["forget", "gone"]);
    place.done(&["remember", "new", "--summary", "s", "--body", "fresh"]);
    place.done(&["working", "configure", "pad", "--budget", "9"]);
    let text = "notes memory\n  - gone  (frame 1)\n      - summary: s\n      - old\n  ~ kept  (frame 2 → 3)\n        \
                summary: s\n      - before\n      + line\n      + after\n  + new  (frame 5)\n      + summary: s\n      \
                + fresh\nworking pad\n  ~ (configuration)\n      - not configured\n      + budget 9\n";
    assert_eq!(place.done(&["diff", "2", "6"]), text);
    let lines = place.json(&["diff", "2", "6"]);
    let changes: Vec<&str> = lines.iter().filter_map(|line| line["change"].as_str()).collect();
    assert_eq!(changes, ["removed", "changed", "added", "configured"]);
    assert_eq!((&lines[1]["before"]["body"], &lines[1]["after"]["frame"]), (&json!("before"), &json!(3)));
    assert_eq!((&lines[0]["after"], &lines[3]["item"]), (&Value::Null, &Value::Null));
    let back = place.json(&["diff", "6", "2"]);
    assert_eq!(back[0]["change"], "added", "going back is the other way round");
    assert_eq!(place.done(&["diff", "6", "2999-01-01T00:00:00Z"]), "(no differences)\n");
    assert_eq!(place.run(&["diff", "0", "7"]).code, 1);
    assert_eq!(place.run(&["diff", "0"]).code, 2);
}

#[test]
fn verify_answers_whole_or_names_the_damage() {
    let place = Place::new();
    place.done(&["load", "--trust-times", SAMPLE]);
    let report = &place.json(&["verify"])[0];
    assert_eq!((&report["whole"], &report["findings"]), (&json!(true), &json!([])), "{report}");
    assert_eq!(
        (&report["frame"], &report["frames"], &report["durable"]),
        (&json!(80), &json!(80), &json!(80))
    );
    assert_eq!(report["digest"], place.json(&["replay"])[0]["digest"]);
    assert!(place.done(&["verify"]).ends_with("\nwhole\n"));

    let segment = place.store().join("log/00000000000000000001.seg");
    let whole = fs::read(&segment).expect("a segment");
    let used = place.json(&["info"])[0]["used"].as_u64().expect("a number") as usize;
    let write_at = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        fs::write(&segment, bytes).expect("a segment");
    };
    write_at(used + 3, b'x');
    let unclean = &place.json(&["verify"])[0];
    assert_eq!(unclean["whole"], true, "an unclean end is no damage: {unclean}");
    assert_eq!(unclean["findings"][0]["severity"], "unclean", "{unclean}");

    write_at(used / 2, whole[used / 2] ^ 1);
    let run = place.run(&["verify"]);
    assert_eq!((run.code, run.err.as_str()), (3, ""), "{run:?}");
    assert!(run.out.contains("damage: log/00000000000000000001.seg at byte "), "{run:?}");
    assert!(run.out.ends_with("\nDAMAGED\n"), "{run:?}");
    let run = place.run(&["--json", "verify"]);
    let damaged = &lines(&run.out)[0];
    assert_eq!((run.code, &damaged["whole"], &damaged["durable"]), (3, &json!(false), &json!(80)));
    assert!(damaged["findings"][0]["frame"].as_u64().is_some_and(|frame| frame < 80), "{damaged}");
    assert_eq!(place.run(&["--store", "nowhere", "verify"]).code, 1);
}

#[test]
fn the_tour_needs_nothing_and_leaves_nothing() {
    let place = Place::new();
    let temporary = place.root().join("tmp");
    fs::create_dir(&temporary).expect("a directory");
    let tour = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("TMPDIR", &temporary);
        let run = super::finish(command, b"");
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
        assert_eq!(fs::read_dir(&temporary).expect("a directory").count(), 0, "the store is gone");
        run.out
    };
    let text = tour(&["tour"]);
    for part in [
        "[memory index]",
        "星を待つ",
        "stub",
        "## Working Memory",
        "nothing is saved under",
        "whole",
        "Timings",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(temporary.to_str().expect("ours")), "it says where the store is");
    assert!(!text.contains('\x1b'), "no colour where there is no terminal");
    let object = &lines(&tour(&["--json", "tour"]))[0];
    assert_eq!(object["frames"], 81);
    assert!(
        object["stops"].as_array().is_some_and(|stops| stops.iter().all(|stop| stop["elapsed_us"].is_u64()))
    );
    assert!(!place.store().exists(), "it never touches the store of the caller");
}
