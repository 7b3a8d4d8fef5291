//! Names that climb, names that look alike, clocks that go back.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mnemolog::disk::MemoryDisk;
use mnemolog::{Clock, Error, Frame, Json, Options, Store, Time};

/// F1: one visible name in two spellings.
#[test]
fn a_key_stays_as_it_was_given_and_search_finds_what_it_is_given() {
    let store = Store::in_memory().expect("opens");
    let notes = store.root().notes();
    let (composed, decomposed) = ("Caf\u{e9}", "Cafe\u{301}");
    notes.remember(composed, "s", "one").expect("saved");
    notes.remember(decomposed, "s", "two").expect("saved");
    assert_eq!(notes.len(), 2);
    assert_eq!([notes.recall(composed), notes.recall(decomposed)], ["one", "two"]);
    let keys: Vec<_> = notes.summaries().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [decomposed, composed], "neither was rewritten");
    assert_eq!(notes.search(composed), format!("- {composed}: s\n  one"));
    assert_eq!(notes.search(decomposed), format!("- {decomposed}: s\n  two"));
    notes.forget(composed).expect("forgot");
    assert_eq!(notes.recall(decomposed), "two");
}

/// Every path below a directory.
fn tree(dir: &Path) -> BTreeSet<std::path::PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(tree(&path));
        }
        found.insert(path);
    }
    found
}

/// F6: names that would lead elsewhere.
#[test]
fn no_name_leads_out_of_the_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path().join("deep/store")).expect("opens");
    let before = tree(dir.path());
    let bad_name = |error: Error| assert!(matches!(error, Error::BadName { .. }), "{error}");
    let names =
        ["../escape", "..", ".", "a/../b", "/etc", "a//b", "a/", "", "a\0b", "a\\b", "A", "é", "a b", "%2e"];
    for name in names {
        bad_name(store.workspace(name).expect_err(name));
        bad_name(store.workspace("core").expect("a path").workspace(name).expect_err(name));
        bad_name(store.at(Frame::ZERO).expect("frame 0").workspace(name).expect_err(name));
    }
    let root = store.root();
    for name in names.into_iter().chain(["a/b", "core/docs"]) {
        bad_name(root.vectors(name).expect_err(name));
        bad_name(root.episodic(name).expect_err(name));
        bad_name(root.working(name).expect_err(name));
    }
    assert_eq!((tree(dir.path()), store.appended()), (before.clone(), Frame::ZERO));
    let keys = ["../../escape", "/etc/passwd", "..", "a\0b", "C:\\x"];
    for key in keys {
        root.notes().remember(key, key, key).expect("a key is text and no path");
        root.episodic("turns").expect("a name").record(key, &Json::object()).expect("recorded");
        root.vectors("docs").expect("a name").upsert(key, key, &Json::object()).expect("stored");
    }
    assert_eq!(tree(dir.path()), before, "nothing of it became a file");
    assert!(keys.iter().all(|key| root.notes().recall(key) == *key));
}

#[derive(Debug)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> Time {
        Time::from_micros(self.0.load(Ordering::Relaxed)).expect("a time")
    }
}

/// F8: the clock goes back two hours, then far ahead, then back again.
#[test]
fn a_clock_that_goes_back_never_mixes_up_the_order() {
    const HOUR: u64 = 3_600_000_000;
    let noon = 1_800_000_000_000_000;
    let clock = Arc::new(Hands(AtomicU64::new(noon)));
    let disk = Arc::new(MemoryDisk::new());
    let open = || Options::new().clock(clock.clone()).open_on(disk.clone()).expect("opens");
    let at = |micros| Time::from_micros(micros).expect("a time");
    let mut store = open();
    let hands =
        [noon, noon + 5, noon - 2 * HOUR, noon - HOUR, noon + HOUR, noon + 9000 * HOUR, noon + 2 * HOUR];
    let stamps = [noon, noon + 5, noon + 5, noon + 5, noon + HOUR, noon + 9000 * HOUR, noon + 9000 * HOUR];
    for (n, hand) in hands.into_iter().enumerate() {
        clock.0.store(hand, Ordering::Relaxed);
        if n % 3 == 2 {
            drop(store);
            store = open();
        }
        let turns = store.root().episodic("turns").expect("a name");
        turns.record(&format!("{n}"), &Json::object()).expect("recorded");
        assert_eq!(store.last_time(), Some(at(stamps[n])), "never less than the one before");
    }
    let turns = store.root().episodic("turns").expect("a name").search_by_key("").expect("readable");
    let keys: Vec<_> = turns.iter().map(|episode| episode.key.as_str()).collect();
    assert_eq!(keys, ["0", "1", "2", "3", "4", "5", "6"], "in the order of recording");
    assert!(turns.iter().zip(stamps).all(|(episode, stamp)| episode.time == at(stamp)));
    assert_eq!(turns[2].timestamp_ms, (noon - 2 * HOUR) as i64 / 1000, "what the clock said is kept");
    for (n, stamp) in stamps.into_iter().enumerate() {
        assert_eq!(store.at(Frame(n as u64 + 1)).expect("a frame").time(), Some(at(stamp)));
    }
    let frame = |time| store.at_time(at(time)).expect("a time").frame();
    assert_eq!(frame(noon - 1), Frame::ZERO, "before the first");
    assert_eq!((frame(noon), frame(noon + 4)), (Frame(1), Frame(1)));
    assert_eq!((frame(noon + 5), frame(noon + HOUR - 1)), (Frame(4), Frame(4)), "the last of equal times");
    assert_eq!((frame(noon + HOUR), frame(noon + 8999 * HOUR)), (Frame(5), Frame(5)));
    assert_eq!((frame(noon + 9000 * HOUR), frame(Time::MAX.as_micros())), (Frame(7), Frame(7)));
}
