//! Reads in the past, and replays.

use serde_json::{Value, json};

use super::{Place, lines};

/// Six frames over all four kinds; the first note is overwritten and then forgotten.
fn history() -> Place {
    let place = Place::new();
    place.done(&["remember", "k", "--summary", "first", "--body", "one"]);
    place.done(&["episodic", "record", "turns", "e", "1"]);
    place.done(&["working", "push", "pad", "l", "c"]);
    place.done(&["vector", "upsert", "docs", "a", "--text", "plum jam"]);
    place.done(&["remember", "k", "--summary", "second", "--body", "two"]);
    place.done(&["forget", "k"]);
    place.done(&["episodic", "clear", "turns"]);
    place.done(&["working", "clear", "pad"]);
    place.done(&["vector", "delete", "docs", "a"]);
    place
}

#[test]
fn every_read_answers_as_of_a_frame() {
    let place = history();
    let reads: [(&[&str], &str, &str, &str); 9] = [
        (&["recall", "k"], "1", "one\n", "5"),
        (&["list"], "1", "- k: first\n", "5"),
        (&["search", "o"], "1", "- k: first\n  one\n", "5"),
        (&["index-note"], "0", "", "5"),
        (&["vector", "search", "docs", "jam"], "4", "+0.7071  a  plum jam\n", "3"),
        (
            &["vector", "get", "docs", "a"],
            "4",
            "plum jam\n\nmetadata   {}\nembedding  64 floats\nframe      4\n",
            "3",
        ),
        (&["working", "render", "pad"], "3", "## Working Memory\n- **l**: c\n", "2"),
        (&["episodic", "recent", "turns"], "1", "(no episodes)\n", "2"),
        (&["episodic", "search", "turns", "e"], "0", "(no episodes)\n", "6"),
    ];
    for (read, frame, expected, other) in reads {
        let at = |frame| place.run(&[read, &["--at", frame]].concat());
        assert_eq!(at(frame).out, expected, "{read:?} at {frame}");
        let (then, now) = (at(other), place.run(read));
        assert_eq!((then.err.as_str(), now.err.as_str()), ("", ""));
        assert!(then.out != expected, "{read:?} at {other} differs from {frame}");
        assert_eq!(at("9").out, now.out, "{read:?}: the last frame is now");
    }
}

#[test]
fn a_time_is_the_last_frame_that_is_not_later() {
    let place = history();
    let steps = place.json(&["replay", "--step"]);
    let time = steps[4]["time"].as_str().expect("a time");
    assert_eq!(place.done(&["recall", "k", "--at", time]), "two\n");
    assert_eq!(place.done(&["list", "--at", "1999-12-31T23:59:59+02:00"]), "(no memories)\n");
    assert_eq!(place.json(&["replay", "--at", "2999-01-01T00:00:00Z"])[0]["frame"], 9);
}

#[test]
fn a_replay_sums_up_what_was_folded() {
    let place = history();
    let replay = &place.json(&["replay"])[0];
    let counts = json!({"notes": 3, "vector": 3, "episodic": 2, "working": 2});
    assert_eq!(replay["deltas_per_kind"], counts, "the embedder's identity is a delta too");
    assert_eq!((&replay["frame"], &replay["frames"], &replay["deltas"]), (&json!(9), &json!(9), &json!(10)));
    assert_eq!(replay["digest"].as_str().map(str::len), Some(32));
    let handles = replay["handles"].as_array().expect("a list");
    assert_eq!(handles.len(), 1, "only the table differs from an unused one, by its embedder: {handles:?}");
    let vector = &handles[0];
    assert_eq!(
        (&vector["kind"], &vector["id"], &vector["len"]),
        (&json!("vector"), &json!("docs"), &json!(0))
    );
    let text = place.done(&["replay"]);
    let digest = replay["digest"].as_str().expect("a digest");
    assert!(text.contains(digest) && text.contains("deltas   10:"), "{text}");
    let nothing = &place.json(&["replay", "--at", "0"])[0];
    assert_eq!(
        (&nothing["frames"], &nothing["time"], &nothing["handles"]),
        (&json!(0), &Value::Null, &json!([]))
    );
}

#[test]
fn the_digest_of_every_step_is_that_of_a_replay_to_it() {
    let place = history();
    let steps = place.json(&["replay", "--step"]);
    assert_eq!(steps.len(), 10, "nine steps and the totals");
    for step in &steps[..9] {
        let frame = step["frame"].to_string();
        let replay = &place.json(&["replay", "--at", &frame])[0];
        assert_eq!((&replay["digest"], &replay["time"]), (&step["digest"], &step["time"]), "frame {frame}");
    }
    assert_eq!(steps[9], place.json(&["replay"])[0]);
    let part = place.done(&["replay", "--step", "--at", "2"]);
    assert_eq!(
        part.lines()
            .filter(|line| line.contains("  1 delta   ")
                && !line.starts_with("  notes")
                && !line.starts_with("  episodic"))
            .count(),
        2,
        "{part}"
    );
}

#[test]
fn a_read_changes_nothing() {
    let place = history();
    let before = place.everything();
    for args in
        [&["replay", "--step"][..], &["list"], &["info"], &["vector", "search", "docs", "q", "--at", "4"]]
    {
        place.done(args);
    }
    assert_eq!(place.everything(), before);
    assert!(lines(&place.done(&["--json", "list"])).is_empty());
}
