//! `checkpoint`: what is saved shows in `info`, serves every later command, and is held against the log by `verify`.

use std::fs;

use super::Place;

fn filled() -> Place {
    let place = Place::new();
    for n in ["1", "2", "3"] {
        place.done(&["remember", "key", "--summary", "a note", "--body", n]);
    }
    place
}

fn file(place: &Place) -> std::path::PathBuf {
    place.store().join("checkpoints/00000000000000000003.checkpoint")
}

#[test]
fn a_checkpoint_is_made_shown_and_verified() {
    let place = filled();
    let text = place.done(&["checkpoint"]);
    assert!(text.starts_with("saved frame 3 in ") && text.ends_with("(1 checkpoint in all)\n"), "{text}");
    let bytes = fs::metadata(file(&place)).unwrap().len();
    let info = &place.json(&["info"])[0];
    assert_eq!(info["checkpoints"], serde_json::json!([{"frame": 3, "bytes": bytes}]));
    assert!(place.done(&["info"]).contains(&format!("1 checkpoint, the newest of frame 3 in {bytes} bytes")));
    let again = &place.json(&["checkpoint"])[0];
    assert_eq!((again["frame"].as_u64(), again["checkpoints"].as_array().map(Vec::len)), (Some(3), Some(1)));
    assert_eq!(place.done(&["recall", "key"]), "3\n");
    assert_eq!(place.done(&["recall", "key", "--at", "2"]), "2\n");
    assert_eq!(place.json(&["verify"])[0]["findings"], serde_json::json!([]));
}

#[test]
fn a_checkpoint_that_does_not_serve_is_a_note_and_changes_no_answer() {
    let place = filled();
    place.done(&["checkpoint"]);
    let mut bytes = fs::read(file(&place)).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(file(&place), bytes).unwrap();
    let report = &place.json(&["verify"])[0];
    assert_eq!(report["whole"], true);
    assert_eq!(report["findings"][0]["severity"], "note");
    assert_eq!(report["findings"][0]["file"], "checkpoints/00000000000000000003.checkpoint");
    assert_eq!(place.done(&["recall", "key"]), "3\n");
}

#[test]
fn a_checkpoint_of_nothing_says_so() {
    let place = Place::new();
    let refused = place.run(&["checkpoint"]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(!place.store().exists(), "it does not make a store");
}
