//! B, D14 and G10 through what makes a store smaller or brings it elsewhere: dropping history, erasing, backups, dumps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mnemolog::codec::delta::HandleKind;
use mnemolog::disk::{MemoryDisk, Tear};
use mnemolog::interchange::{DumpOptions, LoadOptions, dump, load};
use mnemolog::view::HandleId;
use mnemolog::{Durability, Frame, Json, Options, Store, StubEmbedder, Time, Workspace, log};

use super::{disk, open, size_of};
use crate::support::shared;

/// The bytes of each handle, as `snapshot_bytes` has them.
fn snapshots(store: &Store) -> BTreeMap<HandleId, Vec<u8>> {
    let bytes = |handle: &HandleId| {
        let (path, name) = handle.id.rsplit_once('/').unwrap_or(("", &handle.id));
        let at = if path.is_empty() { store.root() } else { store.workspace(path).expect("a path") };
        match handle.kind {
            HandleKind::Notes => at.notes().snapshot_bytes(),
            HandleKind::Vector => at.vectors(name).and_then(|table| table.snapshot_bytes()),
            HandleKind::Episodic => at.episodic(name).and_then(|ring| ring.snapshot_bytes()),
            HandleKind::Working => at.working(name).and_then(|pad| pad.snapshot_bytes()),
        }
    };
    let handles = store.handles().into_iter();
    handles.map(|(handle, _)| (handle.clone(), bytes(&handle).expect("readable"))).collect()
}

/// Writes to each of the four kinds, in two workspaces.
fn fill(store: &Store, from: usize, to: usize) {
    for path in ["core", "core/worker"] {
        let at = store.workspace(path).expect("a path");
        for n in from..to {
            at.notes().remember(&format!("note/{n}"), "a note", &format!("body {n}")).expect("saved");
            let rows = at.vectors("rows").expect("a name");
            rows.upsert(&format!("id{n}"), &format!("text {n}"), &Json::object()).expect("stored");
            let turns = at.episodic("turns").expect("a name").with_max(20).expect("configured");
            turns.record(&format!("turn/{n}"), &Json::string(&format!("said {n}"))).expect("recorded");
            at.working("pad").expect("a name").push("step", &format!("content {n} of it")).expect("pushed");
        }
    }
}

/// B1: 200 notes of 1 KB, one commit each: no less small after their history was dropped, and in a backup.
#[test]
fn two_hundred_small_notes_stay_small_when_history_is_dropped_and_in_a_backup() {
    let (disk, copy) = (disk(), MemoryDisk::new());
    let store = open(&disk);
    for n in 0..200 {
        store.root().notes().remember(&format!("note/{n}"), "a note", &"x".repeat(1024)).expect("saved");
    }
    store.backup_on(&shared(&copy)).expect("backed up");
    store.compact(Frame(150), false).expect("compacted");
    let compacted = size_of(&disk);
    store.compact(Frame(201), false).expect("compacted");
    for bytes in [size_of(&copy), compacted, size_of(&disk)] {
        assert!((200 * 1024..384 * 1024).contains(&bytes), "{bytes} bytes");
    }
    assert_eq!((store.root().notes().len(), super::open(&Arc::new(copy)).root().notes().len()), (200, 200));
}

/// B2: 5,000 single-record upserts over 50 ids, a hundred times each: 384 floats a row.
#[test]
fn rows_that_were_written_a_hundred_times_take_the_room_of_one_version_once_history_is_dropped() {
    let disk = disk();
    let wide = Arc::new(StubEmbedder::with_dim(384));
    let options = || Options::new().durability(Durability::Os).embedder(wide.clone());
    let store = options().open_on(disk.clone()).expect("opens");
    let rows = store.root().vectors("rows").expect("a name");
    for round in 0..100 {
        for n in 0..50 {
            rows.upsert(&format!("id{n}"), &format!("text {n} of {round}"), &Json::object()).expect("stored");
        }
    }
    assert_eq!(store.appended(), Frame(5000), "one commit each");
    let live = rows.snapshot_bytes().expect("readable").len() as u64;
    let before = size_of(&disk);
    assert!(before > 90 * live, "{before} bytes, and {live} of them live");
    assert_eq!(rows.history("id7").count(), 100);
    let done = store.compact(Frame(5001), false).expect("compacted");
    assert_eq!((done.oldest, done.used_before > 90 * live), (Frame(5000), true), "{done:?}");
    let used = store.log_size().used;
    assert!(used as f64 <= 1.3 * live as f64, "{used} bytes used for {live} live ones");
    // Beside the rows: the room that the next frames get, and the files that are no log.
    let after = size_of(&disk);
    assert!(after as f64 <= 1.3 * live as f64 + 70_000.0, "{after} bytes of files for {live} live ones");
    assert_eq!(rows.history("id7").count(), 1, "no older version is kept");
    drop((store, rows));
    let store = options().open_on(disk).expect("opens");
    let rows = store.root().vectors("rows").expect("a name");
    assert_eq!(
        (rows.len(), rows.get("id7").expect("reads").expect("there").text),
        (50, "text 7 of 99".into())
    );
}

/// The row and the note that go while history is dropped.
fn are_gone(store: &Store, context: &str) {
    let at = store.workspace("core").expect("a path");
    let rows = at.vectors("rows").expect("a name");
    assert_eq!(rows.get("id7").expect("reads"), None, "{context}");
    assert_eq!((rows.len(), at.notes().len()), (29, 29), "{context}");
    let found = rows.search("text 7", 30).expect("searches");
    assert!(found.len() == 29 && found.iter().all(|hit| hit.id != "id7"), "{context}");
    assert_eq!(at.notes().recall("note/7"), "nothing is saved under note/7", "{context}");
    assert_eq!(at.notes().search("body 7"), "(no matches)", "{context}");
    let turns = at.episodic("turns").expect("a name");
    assert!(turns.search_by_key("").expect("reads").is_empty(), "{context}");
}

/// B4: a delete between a compaction's plan and its switch.
#[test]
fn what_is_deleted_while_history_is_dropped_does_not_come_back() {
    for before in [60, 200, 1000] {
        let disk = MemoryDisk::simulated();
        let options = || Options::new().segment_bytes(16 * 1024);
        let store = options().open_on(shared(&disk)).expect("opens");
        fill(&store, 0, 30);
        let last = store.appended();
        let before = Frame(before.min(last.0 + 1));
        let other = options().open_read_only_on(shared(&disk.process())).expect("opens");
        let met = Arc::new(Mutex::new(None));
        let (at, seen, told) = (store.workspace("core").expect("a path"), other.clone(), met.clone());
        // The base was poured from the plan by now, and nothing is in its place.
        disk.meanwhile(0, move || {
            at.vectors("rows").and_then(|rows| rows.delete("id7")).expect("deleted");
            at.notes().forget("note/7").expect("forgotten");
            at.episodic("turns").and_then(|turns| turns.clear()).expect("cleared");
            seen.refresh().expect("looks");
            *told.lock().expect("one thread") = Some(seen.oldest());
        });
        let done = store.compact(before, false).expect("compacted");
        let context = format!("before {before}");
        assert_eq!(*met.lock().expect("one thread"), Some(Frame::ZERO), "{context}: it came in between");
        assert_eq!((done.oldest, store.appended()), (before.previous(), Frame(last.0 + 3)), "{context}");
        are_gone(&store, &context);
        are_gone(&other, &format!("{context}, a reader that looked meanwhile"));
        other.refresh().expect("looks");
        are_gone(&other, &format!("{context}, another process"));
        let past = store.at(last).expect("there").workspace("core").expect("a path");
        assert!(past.notes().get("note/7").expect("reads").is_some(), "{context}: it was there");
        disk.crash_at(0);
        drop((store, other));
        disk.power_loss(&mut |n| n - 1, Tear::Sector);
        let store = options().open_on(shared(&disk)).expect("opens");
        are_gone(&store, &format!("{context}, opened again"));
        store.compact(Frame(last.0 + 4), false).expect("compacted");
        are_gone(&store, &format!("{context}, compacted again"));
        let copy = MemoryDisk::new();
        store.backup_on(&shared(&copy)).expect("backed up");
        are_gone(&options().open_on(shared(&copy)).expect("opens"), &format!("{context}, from a backup"));
    }
}

/// Flips a bit of the frame in which a text stands.
fn damage(disk: &MemoryDisk, text: &str) {
    for path in disk.files().into_iter().filter(|path| path.starts_with("log/")) {
        let bytes = disk.read_file(&path).expect("listed");
        if let Some(at) = bytes.windows(text.len()).position(|bytes| bytes == text.as_bytes()) {
            return disk.flip(&path, at as u64, 3).expect("a byte of it");
        }
    }
    panic!("{text} stands in no file");
}

fn repaired(disk: &MemoryDisk) -> Store {
    let done = log::repair(&shared(disk), Duration::ZERO, true, Time::ZERO).expect("repaired");
    assert_eq!(done.lost.len(), 1, "one frame: {done:?}");
    Options::new().open_on(shared(disk)).expect("opens")
}

/// A text, and what writes it.
type Victim = (&'static str, fn(&Workspace));

/// D14: damage to a store in which all four kinds are filled, behind a base; it is repaired, compared, compacted, and
/// brought back from a backup.
#[test]
fn a_repair_behind_a_base_keeps_all_four_kinds_and_a_backup_has_what_was_lost() {
    let victims: [Victim; 4] = [
        ("VICTIM-NOTE", |at| drop(at.notes().remember("victim", "", "VICTIM-NOTE").expect("saved"))),
        ("VICTIM-ROW", |at| {
            at.vectors("rows")
                .expect("a name")
                .upsert("victim", "VICTIM-ROW", &Json::object())
                .expect("stored");
        }),
        ("VICTIM-EPISODE", |at| {
            at.episodic("turns")
                .expect("a name")
                .record("v", &Json::string("VICTIM-EPISODE"))
                .expect("recorded");
        }),
        ("VICTIM-ENTRY", |at| at.working("pad").expect("a name").push("v", "VICTIM-ENTRY").expect("pushed")),
    ];
    for (text, victim) in victims {
        let (disk, copy) = (disk(), MemoryDisk::new());
        let store = open(&disk);
        fill(&store, 0, 8);
        store.compact(Frame(store.appended().0 - 2), false).expect("compacted");
        let without = snapshots(&store);
        victim(&store.workspace("core").expect("a path"));
        let with = snapshots(&store);
        store.root().notes().remember("later", "", "behind it").expect("saved");
        store.root().notes().forget("later").expect("forgotten");
        store.backup_on(&shared(&copy)).expect("backed up");
        store.close().expect("closes");
        drop(store);
        damage(&disk, text);
        assert!(Options::new().open_on(disk.clone()).is_err(), "{text}: it is damaged");
        let store = repaired(&disk);
        assert_eq!(without.len(), 8, "four kinds in two workspaces");
        assert_eq!(snapshots(&store), without, "{text}: nothing but the lost frame is missing");
        store.compact(store.appended(), false).expect("compacted");
        assert_eq!(snapshots(&store), without, "{text}: compacted after the repair");
        drop(store);
        let restored = open(&Arc::new(copy));
        assert_eq!(snapshots(&restored), with, "{text}: the backup holds all of it");
    }
}

/// G10: dump, load into an empty store, compare every snapshot: also of a store that begins with a base and of which
/// something of each kind was erased; and of its backup.
#[test]
fn a_dump_of_a_store_with_a_base_and_erased_items_loads_as_the_same_store() {
    let (disk, copy) = (disk(), MemoryDisk::new());
    let store = open(&disk);
    fill(&store, 0, 12);
    let middle = Frame(store.appended().0 / 2);
    store.compact(middle, false).expect("compacted");
    fill(&store, 12, 15);
    let at = store.workspace("core/worker").expect("a path");
    // One of the base and one from behind it, of each kind.
    for n in [1, 13] {
        assert!(at.notes().erase(&format!("note/{n}")).expect("erased").found());
        assert!(at.vectors("rows").and_then(|rows| rows.erase(&format!("id{n}"))).expect("erased").found());
        assert!(
            at.episodic("turns").and_then(|ring| ring.erase(&format!("turn/{n}"))).expect("erased").found()
        );
        assert!(store.erase_containing(&format!("content {n} of")).expect("erased").found());
    }
    fill(&store, 15, 17);
    store.backup_on(&shared(&copy)).expect("backed up");
    let copy = open(&Arc::new(copy));
    let dumped = |store: &Store| {
        let mut out = Vec::new();
        dump(store, &mut out, DumpOptions::default()).expect("dumped");
        out
    };
    let lines = dumped(&store);
    let text = String::from_utf8_lossy(&lines);
    assert!(text.contains(r#""base":true"#) && text.contains(r#""op":"erased""#), "both are in it");
    assert!(!text.contains("content 13 of"), "what was erased is not");
    assert_eq!(dumped(&copy), lines, "a backup says the same");
    let loaded = Options::new().open_on(shared(&MemoryDisk::new())).expect("opens");
    load(&loaded, &mut lines.as_slice(), LoadOptions::default()).expect("loads");
    assert_eq!(snapshots(&store).len(), 8, "four kinds in two workspaces");
    assert_eq!(snapshots(&loaded), snapshots(&store));
    assert_eq!(loaded.appended(), store.appended());
    for frame in store.oldest().0..=store.appended().0 {
        let digest = |store: &Store| store.at(Frame(frame)).and_then(|past| past.digest()).expect("there");
        assert_eq!(digest(&loaded), digest(&store), "frame {frame}");
    }
    assert_eq!(dumped(&loaded), lines, "and dumps as the same lines");
}
