//! `compact`: drops history on demand and by policy, and says what it did and what there is.

use serde_json::json;

use super::Place;

fn filled() -> Place {
    let place = Place::new();
    for n in ["1", "2", "3", "4", "5"] {
        place.done(&["remember", "key", "--summary", "a note", "--body", n]);
    }
    place
}

#[test]
fn history_before_a_frame_goes_and_the_rest_stays() {
    let place = filled();
    let foreseen = place.done(&["compact", "--before", "3", "--dry-run"]);
    assert!(foreseen.starts_with("would drop 2 frames: frame 2 would be the oldest\nstate "), "{foreseen}");
    assert!(foreseen.contains("\nneeds     "), "{foreseen}");
    assert_eq!(place.done(&["recall", "key", "--at", "1"]), "1\n");
    let done = &place.json(&["compact", "--before", "3"])[0];
    let expected =
        [("done", json!(true)), ("oldest", json!(2)), ("frames", json!(2)), ("policy", json!(null))];
    for (name, value) in expected {
        assert_eq!(done[name], value, "{done}");
    }
    assert_eq!(done["used_after"], place.json(&["info"])[0]["used"]);
    assert_eq!(place.run(&["recall", "key", "--at", "1"]).code, 1);
    for n in ["2", "3", "5"] {
        assert_eq!(place.done(&["recall", "key", "--at", n]), format!("{n}\n"));
    }
    let info = place.done(&["info"]);
    assert!(info.contains("\noldest    frame 2; what was before is compacted\n"), "{info}");
    assert_eq!(
        place.done(&["compact", "--before", "2"]),
        "there is nothing to drop: the oldest frame is 2\n"
    );
    assert_eq!(place.run(&["compact", "--before", "9"]).code, 1);
    assert_eq!(place.json(&["verify"])[0]["findings"], json!([]));
}

#[test]
fn history_older_than_a_time_goes() {
    let place = filled();
    let time = place.json(&["history", "key"])[1]["time"].as_str().expect("a time").to_owned();
    let done = place.done(&["compact", "--before", &time]);
    assert!(done.starts_with("dropped 3 frames: frame 3 is the oldest now\n"), "{done}");
    assert_eq!(place.done(&["recall", "key", "--at", "4"]), "4\n");
}

#[test]
fn a_policy_is_set_shown_applied_and_taken_away() {
    let place = filled();
    assert_eq!(place.run(&["compact", "--policy"]).code, 1);
    assert_eq!(
        place.done(&["compact", "--set-policy", "2frames"]),
        "the store keeps 2frames of history; compact --policy drops what is older\n"
    );
    assert_eq!(place.json(&["info"])[0]["policy"], "2frames");
    assert!(place.done(&["info"]).contains("\npolicy    2frames of history are kept\n"));
    let done = &place.json(&["compact", "--policy"])[0];
    assert_eq!((&done["oldest"], &done["policy"]), (&json!(3), &json!("2frames")), "{done}");
    for (given, shown) in [("48h", "2d"), ("90m", "90m"), ("60s", "1m"), ("1500000us", "1500000us")] {
        assert_eq!(place.json(&["compact", "--set-policy", given])[0]["policy"], shown);
    }
    let done = place.done(&["compact", "--policy"]);
    assert_eq!(done, "there is nothing to drop: the oldest frame is 3\n");
    assert_eq!(place.json(&["compact", "--set-policy", "none"])[0]["policy"], json!(null));
    assert_eq!(place.run(&["compact", "--policy"]).code, 1);
    for wrong in
        [&["compact"][..], &["compact", "--set-policy", "30"], &["compact", "--before", "1", "--policy"]]
    {
        assert_eq!(place.run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn where_there_is_no_store_none_comes_to_be() {
    let place = Place::new();
    for args in
        [&["compact", "--before", "1"][..], &["compact", "--policy"], &["compact", "--set-policy", "1d"]]
    {
        assert_eq!(place.run(args).code, 1, "{args:?}");
    }
    assert!(!place.store().exists());
}
