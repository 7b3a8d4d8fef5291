//! Parallel calls, torn records, full disks, locks, growth.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use mnemolog::disk::{Fault, MemoryDisk};
use mnemolog::{Error, Forgotten, Frame, Json, Options, Result, Store};

use super::{bytes_of, disk, open, size_of};
use crate::model::Rng;

const NO_WAIT: Duration = Duration::ZERO;

/// A1: four tool calls of one turn in parallel.
#[test]
fn the_tool_calls_of_one_turn_may_run_in_parallel() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("opens");
    let rounds = 25;
    let mut forgotten = 0;
    for round in 0..rounds {
        let (core, start) = (store.workspace("core").expect("a path"), Barrier::new(4));
        let key = format!("turn/{round}");
        let go = |call: &dyn Fn() -> Result<bool>| {
            start.wait();
            call().expect("each call is answered")
        };
        thread::scope(|scope| {
            scope.spawn(|| go(&|| core.notes().remember(&key, "first", "one").map(|_| true)));
            scope.spawn(|| go(&|| core.notes().remember(&key, "second", "two").map(|_| true)));
            scope.spawn(|| go(&|| core.episodic("turns")?.record(&key, &Json::object()).map(|()| true)));
            let forget = scope.spawn(|| {
                go(&|| core.notes().forget(&key).map(|answer| matches!(answer, Forgotten::Forgot(_))))
            });
            forgotten += u64::from(forget.join().expect("no panic"));
        });
        let body = core.notes().recall(&key);
        assert!(["one", "two", &*format!("nothing is saved under {key}")].contains(&&*body), "{body}");
    }
    let digest = store.digest().expect("readable");
    assert_eq!(store.appended(), Frame(3 * rounds + forgotten), "each call is one frame");
    drop(store);
    let store = Store::open(dir.path()).expect("the store is as well as before");
    assert_eq!(store.digest().expect("readable"), digest);
    let turns = store.workspace("core").expect("a path").episodic("turns").expect("a name");
    assert_eq!(turns.len() as u64, rounds);
}

/// A3: the last record lacks its end, and another opening appends.
#[test]
fn a_record_without_its_end_never_runs_into_the_next_one() {
    for torn in [1, 47, 48, 49, 90, 130, 151] {
        let disk = disk();
        let store = open(&disk);
        store.root().notes().remember("whole", "s", "before").expect("saved");
        disk.fail_at(0, Fault::ShortWrite(torn));
        let failed = store.root().notes().remember("torn", "s", &"x".repeat(60));
        assert!(matches!(failed, Err(Error::OutcomeUnknown { frame: Frame(2), .. })), "{failed:?}");
        drop(store);
        for (n, key) in ["second", "third"].into_iter().enumerate() {
            let store = open(&disk);
            assert_eq!(store.recovery().cut.is_some(), n == 0, "{torn}: one opening mends it, and says so");
            store.root().notes().remember(key, "s", key).expect("saved");
        }
        let notes = open(&disk).root().notes();
        assert_eq!(notes.list_memories(), "- second: s\n- third: s\n- whole: s", "{torn} bytes were written");
        assert_eq!([notes.recall("whole"), notes.recall("second")], ["before", "second"]);
    }
}

/// A10: the disk fills up, space is freed, writing goes on.
#[test]
fn a_full_disk_refuses_a_write_and_takes_the_next() {
    for segment_bytes in [16 * 1024, 64 << 20] {
        let disk = disk();
        let store = Options::new().segment_bytes(segment_bytes).open_on(disk.clone()).expect("opens");
        let (notes, mut refusals, mut kept) = (store.root().notes(), 0, Vec::new());
        for n in 0..120 {
            let (key, body) = (format!("{n:03}"), format!("{n}").repeat(400));
            disk.set_capacity(Some(size_of(&disk)));
            match notes.remember(&key, "s", &body) {
                Ok(_) => kept.push((key, body)),
                Err(Error::DiskFull { .. }) => {
                    refusals += 1;
                    assert_eq!(notes.get(&key).expect("readable"), None);
                    disk.set_capacity(None);
                    let next = format!("{key} once there was room");
                    notes.remember(&next, "s", &body).expect("a refusal is no poison");
                    kept.push((next, body));
                }
                Err(other) => panic!("{other}"),
            }
        }
        disk.set_capacity(None);
        assert!(refusals > 0, "the disk was never full");
        assert_eq!(store.appended(), Frame(kept.len() as u64));
        drop((store, notes));
        let store = open(&disk);
        assert!(store.recovery().cut.is_none(), "nothing was torn");
        assert_eq!(store.root().notes().len(), kept.len(), "every write that was taken, and no other");
        for (key, body) in kept {
            assert_eq!(store.root().notes().recall(&key), body);
        }
    }
}

/// A10: the write itself was torn.
#[test]
fn a_good_write_after_a_torn_one_is_not_lost_with_it() {
    let disk = disk();
    let store = open(&disk);
    store.root().notes().remember("before", "s", "kept").expect("saved");
    disk.fail_at(0, Fault::ShortWrite(100));
    let torn = store.root().notes().remember("torn", "s", &"x".repeat(500));
    assert!(matches!(torn, Err(Error::OutcomeUnknown { .. })), "{torn:?}");
    let after = store.root().notes().remember("after", "s", "");
    assert!(matches!(after, Err(Error::Poisoned { .. })), "a writer that failed stops: {after:?}");
    assert_eq!(store.root().notes().recall("before"), "kept", "reads go on");
    drop(store);
    open(&disk).root().notes().remember("after", "s", "kept too").expect("a new opening writes");
    let notes = open(&disk).root().notes();
    assert_eq!(notes.list_memories(), "- after: s\n- before: s");
    assert_eq!(notes.recall("after"), "kept too");
}

/// A10: a store cannot be created on a full disk, and can once there is room.
#[test]
fn creating_a_store_on_a_full_disk_leaves_nothing_in_the_way() {
    let disk = disk();
    disk.set_capacity(Some(100));
    let refused = Options::new().open_on(disk.clone()).expect_err("no room");
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    disk.set_capacity(None);
    open(&disk).root().notes().remember("a", "s", "b").expect("saved");
    assert_eq!(open(&disk).root().notes().recall("a"), "b");
}

/// A11: the file ends inside a character of three bytes.
#[test]
fn a_cut_inside_a_character_loses_that_record_alone() {
    let disk = disk();
    let store = open(&disk);
    store.root().notes().remember("早", "摘要", "用户的第一条笔记").expect("saved");
    store.root().notes().remember("晚", "摘要", "在腾讯云").expect("saved");
    drop(store);
    let segment = disk.files().into_iter().find(|path| path.ends_with(".seg")).expect("a segment");
    let whole = disk.read_file(&segment).expect("its bytes");
    let cloud = whole.windows(3).rposition(|w| w == "云".as_bytes()).expect("the last character");
    for (cut, promised) in [(cloud + 1, false), (cloud + 2, false), (cloud + 1, true)] {
        let torn = Arc::new(MemoryDisk::new());
        for (path, bytes) in bytes_of(&disk) {
            let bytes = if path == segment { &bytes[..cut] } else { &bytes[..] };
            if promised || path != "DURABLE" {
                torn.write_file(&path, bytes).expect("written");
            }
        }
        let store = match Options::new().open_on(torn.clone()) {
            Err(Error::Damaged(damage)) if promised => {
                assert_eq!(damage.frame, Frame(2), "what was acknowledged is named");
                Options::new().open_read_only_on(torn).expect("and the rest is served")
            }
            opened => opened.expect("an unclean end opens"),
        };
        let notes = store.root().notes();
        assert_eq!(notes.list_memories(), "- 早: 摘要");
        assert_eq!(notes.recall("早"), "用户的第一条笔记");
        if !promised {
            notes.remember("晚", "摘要", "又一次").expect("saved");
            assert_eq!(notes.recall("晚"), "又一次");
        }
    }
}

/// A15: one store under two names.
#[cfg(unix)]
#[test]
fn a_store_is_locked_under_every_name_it_has() {
    let dir = tempfile::tempdir().expect("a directory");
    let real = dir.path().join("store");
    let store = Store::open(&real).expect("opens");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&real, &link).expect("a symbolic link");
    let roundabout = real.join("log/../../store");
    for name in [&real, &link, &roundabout] {
        let second = Options::new().lock_wait(NO_WAIT).open(name).expect_err("it is open already");
        let Error::Locked { pid, path, .. } = &second else { panic!("{second}") };
        assert_eq!(*pid, Some(std::process::id()), "the holder is named");
        assert_eq!(path, &real.canonicalize().expect("it exists"), "by its real place");
    }
    store.root().notes().remember("a", "s", "b").expect("the first goes on");
    drop(store);
    let store = Options::new().lock_wait(NO_WAIT).open(&link).expect("it is free");
    assert_eq!(store.root().notes().recall("a"), "b");
}

/// The bytes of all files below a directory: by their sizes, and as the filesystem allocated them.
#[cfg(unix)]
fn on_disk(dir: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    let (mut length, mut allocated) = (0, 0);
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let found = std::fs::metadata(&path).expect("a file");
        if found.is_dir() {
            let below = on_disk(&path);
            (length, allocated) = (length + below.0, allocated + below.1);
        } else {
            (length, allocated) = (length + found.len(), allocated + 512 * found.blocks());
        }
    }
    (length, allocated)
}

/// B1: 200 notes of 1 KB, one commit each.
#[cfg(unix)]
#[test]
fn two_hundred_small_notes_take_little_more_than_their_bytes() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("opens");
    let mut rng = Rng::new(1);
    for n in 0..200 {
        let body: String = (0..1024).map(|_| char::from(b'a' + rng.below(26) as u8)).collect();
        store.root().notes().remember(&format!("note/{n}"), "a note", &body).expect("saved");
    }
    let open = on_disk(dir.path());
    assert_eq!(store.appended(), Frame(200));
    drop(store);
    let closed = on_disk(dir.path());
    for (length, allocated) in [open, closed] {
        assert!(length > 200 * 1024, "all of it is there");
        assert!(length < 384 * 1024 && allocated < 384 * 1024, "{length} bytes, {allocated} allocated");
    }
}
