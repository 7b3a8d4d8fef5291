//! `repair` as a person and as a program meets it: what is lost is said, and the store goes on.

use std::fs;

use super::{Place, check_sentence};

fn only_segment(place: &Place) -> std::path::PathBuf {
    place.store().join("log/00000000000000000001.seg")
}

/// A store of four frames, one for each kind of memory, the second of which is damaged.
fn damaged() -> Place {
    let place = Place::new();
    place.done(&["remember", "user/name", "--summary", "the name", "--body", "Ada"]);
    place.done(&["vector", "upsert", "docs", "fox", "--text", "a red fox"]);
    place.done(&["episodic", "record", "turns", "q1", "{\"n\":1}"]);
    place.done(&["working", "push", "scratch", "plan", "outline"]);
    let path = only_segment(&place);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(9).position(|text| text == b"a red fox").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    place
}

#[test]
fn a_damaged_store_is_repaired_and_says_what_it_lost() {
    for json in [false, true] {
        let place = damaged();
        let refused = place.run(&["remember", "a", "--summary", "", "--body", "b"]);
        assert_eq!(refused.code, 3);
        assert!(refused.err.contains("repair"), "{}", refused.err);
        assert_eq!(place.run(&["verify"]).code, 3);
        let before = fs::read(only_segment(&place)).unwrap();
        if json {
            let answer = &place.json(&["repair"])[0];
            assert_eq!(
                (&answer["repaired"], &answer["frame"], &answer["frames_lost"]),
                (&true.into(), &4.into(), &1.into())
            );
            assert_eq!(answer["lost"], serde_json::json!([{"first": 2, "last": 2}]));
            assert_eq!(answer["findings"][0]["severity"], "damage");
            let copy = answer["files"][0]["copy"].as_str().unwrap();
            assert_eq!(answer["files"][0]["file"], "log/00000000000000000001.seg");
            assert_eq!(fs::read(place.store().join(copy)).unwrap(), before);
        } else {
            let text = place.done(&["repair"]);
            assert!(text.contains("lost     1 frame: 2 to 2\n") && text.ends_with("repaired\n"), "{text}");
        }
        assert_eq!(place.done(&["recall", "user/name"]), "Ada\n");
        assert_eq!(place.run(&["vector", "get", "docs", "fox"]).code, 1);
        assert!(place.done(&["episodic", "recent", "turns"]).contains("q1"));
        assert!(place.done(&["working", "render", "scratch"]).contains("outline"));
        let past = place.run(&["list", "--at", "2"]);
        assert_eq!(past.code, 1);
        check_sentence(&past.err);
        assert!(past.err.contains("frame 2 is lost"), "{}", past.err);
        place.done(&["list", "--at", "3"]);
        place.done(&["verify"]);
        place.done(&["replay"]);
        place.done(&["remember", "a", "--summary", "", "--body", "b"]);
        assert_eq!(place.json(&["info"])[0]["frame"], 5);
        assert_eq!(place.json(&["repair"])[0]["repaired"], false);
    }
}

#[test]
fn repairing_a_whole_store_does_nothing_and_one_that_is_not_there_is_refused() {
    let place = Place::new();
    assert_eq!(place.run(&["repair"]).code, 1);
    assert!(!place.store().exists());
    place.done(&["remember", "a", "--summary", "", "--body", "b"]);
    let before = place.everything();
    assert_eq!(place.done(&["repair"]), "nothing is damaged, nothing was changed\n");
    assert_eq!(place.everything(), before);
}

#[test]
fn a_store_whose_last_frames_are_lost_can_still_be_verified_and_replayed() {
    let place = damaged();
    let path = only_segment(&place);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(7).position(|text| text == b"outline").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let answer = &place.json(&["repair"])[0];
    assert_eq!(answer["lost"], serde_json::json!([{"first": 2, "last": 2}, {"first": 4, "last": 4}]));
    place.done(&["verify"]);
    assert_eq!(place.json(&["replay"])[0]["frame"], 3);
    place.done(&["dump"]);
    let written = place.json(&["remember", "a", "--summary", "", "--body", "b"]);
    assert_eq!(written[0]["frame"], 5);
}
