//! `erase`: what is named is gone from every file, and the receipt says so.

use std::fs;

use serde_json::json;

use super::Place;

const SECRET: &str = "sk-live-51HqTzQ8mW2vXfKp";

fn holders(place: &Place) -> Vec<String> {
    let mut found = Vec::new();
    for dir in ["", "log", "checkpoints", "quarantine"] {
        for entry in fs::read_dir(place.store().join(dir)).into_iter().flatten().flatten() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            if bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

fn filled() -> Place {
    let place = Place::new();
    place.done(&["remember", "k", "--summary", "the key", "--body", SECRET]);
    place.done(&["remember", "kept", "--summary", "beside it", "--body", "stays"]);
    place.done(&["vector", "upsert", "docs", "a", "--text", SECRET]);
    place.done(&["episodic", "record", "turns", "q", &json!({ "said": SECRET }).to_string()]);
    place.done(&["working", "push", "pad", "plan", SECRET]);
    place.done(&["checkpoint"]);
    place
}

#[test]
fn each_sort_of_thing_goes_and_the_receipt_names_it() {
    let place = filled();
    for (args, kind, id, key) in [
        (vec!["erase", "k"], "notes", "memory", json!("k")),
        (vec!["erase", "--vector", "docs", "a"], "vector", "docs", json!("a")),
        (vec!["erase", "--episode", "turns", "q"], "episodic", "turns", json!("q")),
        (vec!["erase", "--handle", "working", "pad"], "working", "", json!(null)),
    ] {
        let before = holders(&place).len();
        let dry: Vec<&str> = args.iter().copied().chain(["--dry-run"]).collect();
        let told = place.json(&dry)[0].clone();
        assert_eq!((&told["found"], &told["dry_run"]), (&json!(true), &json!(true)), "{told}");
        assert_eq!(holders(&place).len(), before, "a dry run does nothing");
        let receipt = &place.json(&args)[0];
        assert_eq!((&receipt["found"], &receipt["files"]), (&json!(true), &told["files"]));
        let item = &receipt["files"][0]["items"][0];
        assert_eq!(receipt["files"][0]["file"], "log/00000000000000000001.seg");
        assert_eq!((&item["kind"], &item["key"]), (&json!(kind), &key));
        assert!(id.is_empty() || item["id"] == id, "{item}");
    }
    assert_eq!(holders(&place), Vec::<String>::new());
    assert_eq!(place.done(&["recall", "kept"]), "stays\n");
    assert_eq!(place.done(&["working", "render", "pad"]), "");
    assert!(place.done(&["dump"]).contains(r#""op":"erased","args":{"class":"put"}"#));
    assert_eq!(place.json(&["verify"])[0]["whole"], true);
}

#[test]
fn a_text_goes_wherever_it_stands_and_what_is_not_there_is_refused() {
    let place = filled();
    let text = place.done(&["erase", "--containing", SECRET]);
    assert!(
        text.starts_with("rewrote log/00000000000000000001.seg, in which 4 frames lost something\n"),
        "{text}"
    );
    assert!(
        text.ends_with("dropped 1 checkpoint\nerased 4 parts; copies and backups are beyond this\n"),
        "{text}"
    );
    assert_eq!(holders(&place), Vec::<String>::new());
    let run = place.run(&["erase", "--containing", SECRET]);
    assert_eq!((run.code, run.out.as_str()), (1, "nothing in the log is to be erased\n"));
    assert_eq!(place.run(&["erase", "--containing", ""]).code, 1);
    assert_eq!(place.run(&["erase"]).code, 2, "something must be named");
    assert_eq!(place.run(&["erase", "k", "--containing", "x"]).code, 2, "and only one thing");
    assert_eq!(place.run(&["erase", "--handle", "notebook", "x"]).code, 2);
    let other = Place::new();
    assert_eq!(other.run(&["erase", "k"]).code, 1);
    assert!(!other.store().exists(), "it makes no store");
}
