//! Compacting: every kept frame is what it was, every dropped one is gone and says so, whatever befalls the disk.

mod crash;
mod many;
mod retention;

use std::collections::BTreeMap;

use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::interchange::{DumpOptions, LoadOptions, dump, load};
use mnemolog::view::history::By;
use mnemolog::{Compaction, Error, Frame, Json, Options, Store, Writers, log};

use crate::model::Rng;
use crate::support::{open, shared};
use crate::tail::{options, reader, write};

/// The same files on another disk.
fn copy(disk: &MemoryDisk) -> MemoryDisk {
    let other = MemoryDisk::simulated();
    other.create_dir("").expect("memory");
    for dir in ["log", "checkpoints"] {
        other.create_dir(dir).expect("memory");
    }
    for path in disk.files().into_iter().filter(|path| path != "LOCK") {
        other.write_file(&path, &disk.read_file(&path).expect("listed")).expect("memory");
    }
    for dir in ["", "log", "checkpoints"] {
        other.sync_dir(dir).expect("memory");
    }
    other
}

/// Deltas behind a frame, as a dump has them.
fn deltas(store: &Store, behind: Frame) -> Vec<String> {
    let mut out = Vec::new();
    dump(store, &mut out, DumpOptions::default()).expect("dumped");
    let text = String::from_utf8(out).expect("JSON");
    let is_kept = |line: &&str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["base"] != true && line["frame"].as_u64() > Some(behind.0)
    };
    text.lines().filter(is_kept).map(str::to_owned).collect()
}

/// What a store was before it was compacted.
#[derive(Clone)]
pub(crate) struct Memory {
    digests: BTreeMap<u64, u128>,
    deltas: Vec<String>,
    last: Frame,
}

impl Memory {
    pub(crate) fn of(store: &Store, from: Frame) -> Memory {
        let digest = |n| Some((n, store.at(Frame(n)).ok()?.digest().expect("readable")));
        let digests = (from.0..=store.appended().0).filter_map(digest).collect();
        Memory { digests, deltas: deltas(store, Frame::ZERO), last: store.appended() }
    }

    /// The same, with the digests of these frames alone.
    pub(crate) fn only(mut self, frames: &[u64]) -> Memory {
        self.digests.retain(|frame, _| frames.contains(frame));
        self
    }

    /// Holds what there is against what there was: from `oldest` on nothing has changed, and before it nothing is.
    pub(crate) fn check(&self, store: &Store, oldest: Frame, context: &str) {
        for (frame, digest) in &self.digests {
            let there = store.at(Frame(*frame)).and_then(|past| past.digest());
            match there {
                Ok(there) => assert_eq!(there, *digest, "{context}: frame {frame}"),
                Err(Error::Compacted { oldest: o }) if o == oldest && *frame < oldest.0 => continue,
                Err(e) => panic!("{context}: frame {frame}: {e}"),
            }
            assert!(*frame >= oldest.0, "{context}: frame {frame} is gone");
        }
        let frame =
            |line: &&String| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["frame"].as_u64();
        let kept: Vec<&String> = self.deltas.iter().filter(|line| frame(line) > Some(oldest.0)).collect();
        // What was written since is no concern of it.
        let found: Vec<String> =
            deltas(store, oldest).into_iter().filter(|line| frame(&line) <= Some(self.last.0)).collect();
        assert!(found.iter().eq(kept), "{context}: other deltas behind {oldest}");
    }
}

pub(crate) fn is_sound(disk: &MemoryDisk, context: &str) {
    let report = log::verify(disk).expect("reads");
    assert!(report.is_whole() && report.findings.is_empty(), "{context}: {:?}", report.findings);
}

#[test]
fn from_any_frame_on_everything_stays_and_what_is_before_is_gone() {
    for (seed, writers) in [(1, Writers::One), (2, Writers::Many)] {
        let disk = MemoryDisk::new();
        let store = options().writers(writers).open_on(shared(&disk)).expect("opens");
        write(&store, &mut Rng::new(seed), 90);
        assert!(store.log_size().segments > 2, "the log has rotated");
        let memory = Memory::of(&store, Frame::ZERO);
        store.close().expect("closes");
        for before in (0..=91).filter(|n| n % 4 == seed || *n < 3 || *n > 89).map(Frame) {
            let context = format!("seed {seed}, before {before}");
            let disk = copy(&disk);
            let store = options().writers(writers).open_on(shared(&disk)).expect("opens");
            let beside = reader(&disk);
            let foreseen = store.compact(before, true).expect("foreseen");
            memory.check(&store, Frame::ZERO, &context);
            let done = store.compact(before, false).expect("compacted");
            assert_eq!(Compaction { done: done.done, ..foreseen }, done, "{context}");
            assert_eq!(done.done, before > Frame(1));
            let oldest = if done.done { before.previous() } else { Frame::ZERO };
            assert_eq!((done.oldest, done.frames), (oldest, oldest.0), "{context}");
            memory.check(&store, oldest, &context);
            beside.refresh().expect("a reader looks");
            memory.check(&beside, oldest, &context);
            is_sound(&disk, &context);
            write(&store, &mut Rng::new(before.0), 5);
            assert_eq!(store.appended(), Frame(95));
            let later = Memory::of(&store, oldest);
            drop(store);
            is_sound(&disk, &context);
            later.check(&open(&disk), oldest, &context);
        }
    }
}

#[test]
fn compacting_again_and_again_between_writes_loses_nothing() {
    for seed in 0..12 {
        let (disk, mut rng) = (MemoryDisk::new(), Rng::new(seed));
        let writers = if seed % 2 == 0 { Writers::One } else { Writers::Many };
        let open = || options().writers(writers).open_on(shared(&disk)).expect("opens");
        let mut store = open();
        let beside = reader(&disk);
        let mut oldest = Frame::ZERO;
        for round in 0..8 {
            let frames = 1 + rng.below(40);
            write(&store, &mut rng, frames);
            let memory = Memory::of(&store, oldest);
            let before = Frame(rng.below(store.appended().0 + 2));
            let done = store.compact(before, false).expect("compacted");
            oldest = oldest.max(before.previous());
            assert_eq!(done.oldest, oldest);
            let context = format!("seed {seed}, round {round}, before {before}");
            memory.check(&store, oldest, &context);
            beside.refresh().expect("looks");
            memory.check(&beside, oldest, &context);
            if rng.chance(2) {
                store.close().expect("closes");
                is_sound(&disk, &context);
                store = open();
                memory.check(&store, oldest, &context);
            }
        }
    }
}

/// Fills a store with notes that do not fit one part of a base.
fn large(store: &Store) {
    let notes = store.root().notes();
    for i in 0..700 {
        notes.remember(&format!("key/{i:04}"), "s", &format!("{i} {}", "x".repeat(900))).expect("saved");
    }
    let docs = store.root().vectors("docs").expect("a name");
    for i in 0..60 {
        docs.upsert(&format!("id{i}"), &format!("text {i}"), &mnemolog::Json::object()).expect("saved");
    }
    for i in 0..40 {
        store
            .root()
            .episodic("turns")
            .expect("a name")
            .record("k", &mnemolog::Json::string("v"))
            .expect("saved");
        store.root().working("pad").expect("a name").push("plan", &format!("step {i}")).expect("pushed");
    }
}

#[test]
fn a_large_state_becomes_several_parts_of_several_frames() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    large(&store);
    let last = store.appended();
    let memory = Memory::of(&store, Frame(last.0 - 60));
    let done = store.compact(Frame(last.0 - 50), false).expect("compacted");
    let parts = disk.files().into_iter().filter(|name| name.ends_with(".base")).count();
    assert!(parts > 2, "{parts} parts");
    memory.check(&store, done.oldest, "several parts");
    is_sound(&disk, "several parts");
    // Once more, from a base of several parts to another.
    store.compact(Frame(last.0 - 20), false).expect("compacted");
    memory.check(&store, Frame(last.0 - 21), "again");
    is_sound(&disk, "again");
    let base = |store: &Store| {
        let mut out = Vec::new();
        dump(store, &mut out, DumpOptions::default()).expect("dumped");
        out
    };
    let dumped = base(&store);
    let loaded = options().open_on(shared(&MemoryDisk::new())).expect("opens");
    load(&loaded, &mut &dumped[..], LoadOptions::default()).expect("loaded");
    memory.check(&loaded, Frame(last.0 - 21), "loaded");
    let fork = MemoryDisk::simulated();
    store.fork_on(&shared(&fork), last).expect("forked");
    memory.check(&reader(&fork), Frame(last.0 - 21), "forked");
}

#[test]
fn a_state_of_nothing_is_a_base_too() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    store.root().notes().remember("k", "s", "body").expect("saved");
    store.root().notes().forget("k").expect("forgotten");
    let time = store.last_time();
    store.compact(Frame(3), false).expect("compacted");
    assert_eq!((store.appended(), store.last_time()), (Frame(2), time));
    assert_eq!((reader(&disk).appended(), reader(&disk).last_time()), (Frame(2), time));
    drop(store);
    let store = open(&disk);
    assert_eq!(
        (store.appended(), store.digest().ok()),
        (Frame(2), Store::in_memory().expect("opens").digest().ok())
    );
    assert!(store.root().notes().history("k").next().is_none());
    store.root().notes().remember("k", "s", "again").expect("saved");
    assert_eq!(store.appended(), Frame(3));
    is_sound(&disk, "of nothing");
}

#[test]
fn what_cannot_be_is_refused_and_what_is_done_is_done_once() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    write(&store, &mut Rng::new(3), 30);
    let refused = store.compact(Frame(32), false).expect_err("beyond the end");
    assert!(matches!(refused, Error::NoSuchFrame { asked: Frame(32), last: Frame(30) }), "{refused}");
    let beside = reader(&disk);
    assert!(matches!(beside.compact(Frame(10), false), Err(Error::ReadOnly)));
    let foreseen = beside.compact(Frame(10), true).expect("a reader may ask");
    assert_eq!((foreseen.done, foreseen.frames, foreseen.oldest), (false, 9, Frame(9)));
    store.compact(Frame(10), false).expect("compacted");
    let files = disk.files();
    for before in [0, 1, 5, 10] {
        let again = store.compact(Frame(before), false).expect("nothing to do");
        assert_eq!((again.done, again.oldest, again.frames), (false, Frame(9), 0));
    }
    assert_eq!(disk.files(), files, "nothing was touched");
    store.compact(Frame(31), false).expect("compacted");
    assert_eq!(store.log_size().segments, 2, "a base and an empty segment");
    store.close().expect("closes");
    assert!(matches!(store.compact(Frame(31), false), Err(Error::Closed)));
}

#[test]
fn lost_frames_are_dropped_together_or_stay_lost() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    write(&store, &mut Rng::new(4), 100);
    store.close().expect("closes");
    let name = disk.files().into_iter().find(|name| name.ends_with("1.seg")).expect("a first file");
    disk.flip(&name, 7000, 3).expect("a byte of it");
    let repaired =
        log::repair(&shared(&disk), std::time::Duration::ZERO, true, mnemolog::Time::ZERO).expect("repaired");
    let lost = repaired.lost[0];
    assert!(lost.first > Frame(2));
    for before in [lost.first.0 - 1, lost.first.0, lost.last.0, lost.last.0 + 1, lost.last.0 + 2] {
        let (disk, before) = (copy(&disk), Frame(before));
        let store = open(&disk);
        let memory = Memory::of(&store, Frame::ZERO);
        let done = store.compact(before, false).expect("compacted");
        let inside = (lost.first..=Frame(lost.last.0 + 1)).contains(&before);
        let oldest = if inside { lost.first.previous() } else { before.previous() };
        assert_eq!(done.oldest, oldest, "before {before}");
        memory.check(&store, oldest, &format!("before {before}"));
        let asked = store.at(lost.first).expect_err("it is lost or dropped");
        match asked {
            Error::Lost { first, last, .. } => assert_eq!((first, last), (lost.first, lost.last)),
            Error::Compacted { .. } => assert!(before > Frame(lost.last.0 + 1)),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn histories_go_on_across_the_base_and_end_there() -> Result<(), Error> {
    let store = open(&MemoryDisk::new());
    let notes = store.root().notes();
    for (key, body) in [("a", "one"), ("a", "two"), ("b", "one"), ("c", "one")] {
        notes.remember(key, "s", body)?;
    }
    notes.forget("c")?;
    notes.remember("a", "s", "three")?;
    notes.remember("c", "s", "two")?;
    store.compact(Frame(6), false)?;
    let shown = |key: &str| {
        let one = |version: Result<mnemolog::view::history::Version<_>, Error>| match version {
            Ok(v) => {
                let content: Option<mnemolog::view::notes::Note> = v.content;
                let body = content.map_or("-".to_owned(), |note| note.body.as_str().to_owned());
                format!("{} {} {body}", v.frame, v.by.name())
            }
            Err(Error::Compacted { oldest }) => format!("compacted before {oldest}"),
            Err(e) => panic!("{e}"),
        };
        store.root().notes().history(key).map(one).collect::<Vec<_>>()
    };
    assert_eq!(shown("a"), ["6 delta three", "5 base two"]);
    assert_eq!(shown("b"), ["5 base one"]);
    assert_eq!(shown("c"), ["7 delta two", "compacted before 5"]);
    assert!(matches!(store.at(Frame(4)), Err(Error::Compacted { oldest: Frame(5) })));
    assert!(matches!(store.diff(Frame(4), Frame(6)), Err(Error::Compacted { .. })));
    assert!(matches!(store.tail(Frame(4)), Err(Error::Compacted { .. })));
    assert!(store.tail(Frame(5)).is_ok());
    notes.restore("a", Frame(5))?;
    assert_eq!(notes.recall("a"), "two");
    Ok(())
}

#[test]
fn pasts_that_are_held_read_on_and_their_files_go_with_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = options().open(dir.path()).expect("opens");
    write(&store, &mut Rng::new(9), 80);
    let past = store.at(Frame(40)).expect("there");
    let digest = past.digest().expect("readable");
    store.compact(Frame(70), false).expect("compacted");
    assert_eq!(past.digest().expect("still readable"), digest);
    drop(past);
    let held = std::fs::read_dir("/proc/self/fd").map(|fds| {
        let links = fds.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links.filter(|to| to.starts_with(dir.path()) && to.to_string_lossy().ends_with("(deleted)")).count()
    });
    assert_eq!(held.unwrap_or(0), 0, "no dropped file is held open");
}

#[test]
fn the_independent_reader_agrees_on_compacted_stores() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut paths = Vec::new();
    for (seed, before) in [(1, 2), (2, 30), (3, 60), (4, 61)] {
        let path = scratch.path().join(format!("{seed}"));
        let store = options().open(&path).expect("opens");
        write(&store, &mut Rng::new(seed), 60);
        store.compact(Frame(before), false).expect("compacted");
        if seed % 2 == 0 {
            write(&store, &mut Rng::new(seed), 10);
        }
        paths.push(path);
    }
    let path = scratch.path().join("large");
    let store = options().open(&path).expect("opens");
    large(&store);
    store.compact(store.appended(), false).expect("compacted");
    drop(store);
    paths.push(path);
    crate::specimens::agree(&paths);
}

#[test]
fn checkpoints_go_with_the_history_and_come_again() {
    let disk = MemoryDisk::new();
    let options = || options().checkpoint_distance(20_000);
    let store = options().open_on(shared(&disk)).expect("opens");
    large(&store);
    store.checkpoint().expect("saved");
    assert!(store.checkpoints().len() > 1);
    let digest = store.digest().expect("readable");
    store.compact(store.appended(), false).expect("compacted");
    assert_eq!(store.checkpoints(), []);
    // The log is shorter than where the last checkpoint was; the next comes all the same.
    for i in 0..60 {
        store.root().notes().remember("again", "s", &format!("{i} {}", "y".repeat(900))).expect("saved");
    }
    store.close().expect("closes");
    let store = options().open_on(shared(&disk)).expect("opens");
    assert!(store.opened().checkpoint.is_some(), "{:?}", store.opened());
    store.root().notes().forget("again").expect("forgotten");
    assert_eq!(store.digest().expect("readable"), digest);
}

/// All that the default options bring: maps, large segments, a real disk.
#[test]
fn a_default_store_is_compacted_on_a_real_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Options::new().open(dir.path()).expect("opens");
    write(&store, &mut Rng::new(5), 200);
    let memory = Memory::of(&store, Frame(150));
    let beside = Store::open_read_only(dir.path()).expect("opens");
    store.compact(Frame(180), false).expect("compacted");
    memory.check(&store, Frame(179), "mapped");
    beside.refresh().expect("looks");
    memory.check(&beside, Frame(179), "a mapped reader");
    drop(store);
    memory.check(&Store::open(dir.path()).expect("opens"), Frame(179), "opened again");
}

#[test]
fn what_a_base_keeps_is_still_of_the_frame_that_wrote_it() {
    let disk = MemoryDisk::new();
    let store = options().open_on(shared(&disk)).expect("opens");
    let (notes, rows) = (store.root().notes(), store.root().vectors("rows").expect("a name"));
    notes.remember("kept", "", "old").expect("writes");
    notes.remember("kept", "", "new").expect("writes");
    rows.upsert("row", "a text", &Json::object()).expect("writes");
    for n in 0..20 {
        notes.remember("other", "", &n.to_string()).expect("writes");
    }
    let kept = notes.get("kept").expect("reads").expect("a note");
    assert_eq!(kept.frame, Frame(2));
    for before in [8, 15] {
        store.compact(Frame(before), false).expect("compacts");
        let versions: Vec<_> = notes.history("kept").map(|version| version.expect("reads")).collect();
        assert_eq!(versions.len(), 1, "before {before}");
        assert_eq!((versions[0].frame, versions[0].by), (Frame(before - 1), By::Base));
        assert_eq!(versions[0].content.as_ref().map(|note| note.frame), Some(Frame(2)));
        assert_eq!(notes.get("kept").expect("reads").map(|note| note.frame), Some(Frame(2)));
        assert_eq!(rows.get("row").expect("reads").map(|row| row.frame), Some(Frame(3)));
    }
    store.checkpoint().expect("saves");
    store.close().expect("closes");
    let store = options().open_on(shared(&disk)).expect("opens");
    let notes = store.root().notes();
    let stale = notes.remember_if("kept", Some(Frame(1)), "", "newer");
    assert!(matches!(stale, Err(Error::Conflict { found: Frame(2), .. })), "{stale:?}");
    notes.remember_if("kept", Some(kept.frame), "", "newer").expect("nobody wrote since");
    let frames: Vec<_> = notes.history("kept").map(|version| version.expect("reads").frame).collect();
    assert_eq!(frames, [Frame(24), Frame(14)], "the version's own, and the base that can be looked at");
}
