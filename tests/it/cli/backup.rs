//! `backup` and `reembed`, driven as a program.

use serde_json::json;

use super::{Place, check_sentence};

#[test]
fn a_backup_is_made_brought_up_to_date_and_opened() {
    let place = Place::new();
    place.done(&["remember", "a", "--summary", "s", "--body", "one"]);
    let dir = place.root().join("copy").display().to_string();
    let made = &place.json(&["backup", &dir, "--verify"])[0];
    assert_eq!(
        (&made["frame"], &made["copied_files"], &made["verified"]),
        (&json!(1), &json!(1), &json!(true))
    );
    assert_eq!(made["store_id"], place.json(&["info"])[0]["store_id"]);
    place.done(&["remember", "b", "--summary", "s", "--body", "two"]);
    let said = place.done(&["backup", &dir]);
    assert!(said.contains("holds the store up to frame 2: copied 1 file of 1"), "{said}");
    assert_eq!(place.json(&["backup", &dir])[0]["copied_files"], 0);
    let restored = place.done(&["--store", &dir, "recall", "b"]);
    assert_eq!(restored, "two\n");
    let itself = place.run(&["backup", &place.store().display().to_string()]);
    assert_eq!((itself.code, itself.out.as_str()), (1, ""), "{itself:?}");
    check_sentence(&itself.err);
    for verb in ["backup", "fork"] {
        let inside = place.run(&[verb, &place.store().join("log/copy").display().to_string()]);
        assert_eq!((inside.code, inside.out.as_str()), (1, ""), "{inside:?}");
        assert!(
            inside.err.contains("it is the store itself, or lies in it; choose another directory"),
            "{inside:?}"
        );
        assert!(!place.store().join("log/copy").exists());
    }
    place.done(&["--store", &dir, "remember", "c", "--summary", "s", "--body", "three"]);
    let newer = place.run(&["backup", &dir]);
    assert_eq!(newer.code, 1);
    assert!(newer.err.contains("goes up to frame 3"), "{newer:?}");
    let none = Place::new();
    assert_eq!(none.run(&["backup", &dir]).code, 1, "there is no store to back up");
    assert!(!none.store().exists());
}

#[test]
fn a_table_is_embedded_anew() {
    let place = Place::new();
    place.done(&["vector", "upsert", "docs", "a", "--text", "green tea"]);
    let done = &place.json(&["reembed", "docs", "--dim", "32"])[0];
    assert_eq!((&done["rows"], &done["embedded"], &done["switched"]), (&json!(1), &json!(1), &json!(true)));
    assert_eq!(done["after"], "stub-fnv (stub-fnv, 32 floats)");
    let again = place.done(&["reembed", "docs", "--dim", "32"]);
    assert_eq!(again, "1 row of stub-fnv (stub-fnv, 32 floats) already; nothing was embedded\n");
    place.done(&["reembed", "docs", "--abandon"]);
    // Nobody has to say the width again.
    place.done(&["vector", "upsert", "docs", "b", "--text", "black tea"]);
    assert_eq!(
        place.json(&["vector", "get", "docs", "b"])[0]["embedding"].as_array().map(Vec::len),
        Some(32)
    );
    for (at, ids) in [(None, ["b", "a"]), (Some("1"), ["a", ""])] {
        let at: Vec<&str> = at.into_iter().flat_map(|at| ["--at", at]).collect();
        let hits = place.json(&[&["vector", "search", "docs", "black tea"], at.as_slice()].concat());
        let found: Vec<&str> = hits.iter().filter_map(|hit| hit["id"].as_str()).collect();
        assert_eq!(found, ids.into_iter().filter(|id| !id.is_empty()).collect::<Vec<_>>());
    }
    place.done(&["reembed", "docs"]);
    assert_eq!(place.json(&["vector", "search", "docs", "black tea"]).len(), 2);
    let none = Place::new();
    assert_eq!(none.run(&["reembed", "docs"]).code, 1);
    assert!(!none.store().exists());
}

#[test]
fn a_table_that_is_not_there_is_not_made_by_embedding_it_anew() {
    let place = Place::new();
    place.done(&["remember", "a", "--summary", "s", "--body", "one"]);
    let absent = place.run(&["reembed", "docs"]);
    let told = "nothing is saved in a table docs, and nothing was embedded\n";
    assert_eq!((absent.code, absent.out.as_str()), (1, told));
    assert_eq!(place.json(&["info"])[0]["frame"], 1, "nothing was written");
    place.done(&["vector", "upsert", "docs", "a", "--text", "green tea"]);
    for dim in ["0", "65537", "-1"] {
        assert_eq!(place.run(&["reembed", "docs", "--dim", dim]).code, 2, "{dim}");
    }
}
