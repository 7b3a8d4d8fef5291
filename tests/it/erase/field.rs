//! Failures of other stores, each driven with what it failed on.

use std::path::Path;

use mnemolog::{Json, Options, Store};

use super::Search;

fn files(dir: &Path, found: &mut Vec<(std::path::PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push((path.clone(), std::fs::read(&path).expect("readable")));
        }
    }
}

fn holders(dir: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    files(dir, &mut all);
    let holds = |(_, bytes): &(_, Vec<u8>)| Search::new(text).is_in(bytes);
    all.into_iter().filter(holds).map(|(path, _)| path).collect()
}

#[test]
fn forgotten_text_is_readable_in_raw_files_until_it_is_erased() {
    let dir = tempfile::tempdir().expect("a directory");
    let secret = "sk-live-51HqTzQ8mW2vXfKp";
    let open =
        || Options::new().segment_bytes(64 * 1024).checkpoint_distance(4096).open(dir.path()).expect("opens");
    let store: Store = open();
    store.root().notes().remember("api/key", "the key", secret).expect("writes");
    for n in 0..200 {
        store.root().notes().remember(&format!("n{n}"), "", &"y".repeat(1000)).expect("writes");
    }
    store.root().notes().forget("api/key").expect("writes");
    store.checkpoint().expect("saves");
    drop(store);
    assert!(!holders(dir.path(), secret).is_empty(), "forgetting leaves it in the history");
    let store = open();
    let receipt = store.root().notes().erase("api/key").expect("erases");
    assert!(receipt.found() && !receipt.checkpoints.is_empty(), "{receipt:?}");
    assert_eq!(holders(dir.path(), secret), Vec::<std::path::PathBuf>::new());
    assert_eq!(holders(dir.path(), "api/key"), Vec::<std::path::PathBuf>::new(), "nor its key");
    drop(store);
    let store = open();
    assert_eq!(store.root().notes().len(), 200);
    assert!(holders(dir.path(), secret).is_empty());
}

#[test]
fn a_deleted_memory_is_found_nowhere_and_an_erased_one_not_in_the_past_either() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("opens");
    let notes = store.root().notes();
    notes.remember("k", "about otters", "otters hold hands").expect("writes");
    let frame = store.appended();
    notes.forget("k").expect("writes");
    let other = Store::open_read_only(dir.path()).expect("opens");
    for store in [&store, &other] {
        assert_eq!(store.root().notes().search("otter"), "(no matches)");
        assert_ne!(store.at(frame).expect("there").root().notes().search("otter"), "(no matches)");
    }
    notes.erase("k").expect("erases");
    other.refresh().expect("looks");
    for store in [&store, &other] {
        assert_eq!(store.at(frame).expect("there").root().notes().search("otter"), "(no matches)");
    }
    store.close().expect("closes");
    let store = Store::open(dir.path()).expect("opens");
    assert_eq!(store.root().notes().search("otter"), "(no matches)");
}

#[test]
fn all_versions_of_a_row_that_was_written_a_hundred_times_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("opens");
    let rows = store.root().vectors("rows").expect("a name");
    for n in 0..100 {
        for id in ["a", "b", "c"] {
            rows.upsert(id, &format!("version-{n}-of-{id}"), &Json::object()).expect("writes");
        }
    }
    let receipt = rows.erase("b").expect("erases");
    assert_eq!(receipt.blanked(), 100);
    assert!(holders(dir.path(), "-of-b").is_empty() && !holders(dir.path(), "-of-c").is_empty());
    assert_eq!((rows.len(), rows.history("b").count(), rows.history("a").count()), (2, 0, 100));
}
