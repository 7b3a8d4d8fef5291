//! Forks: the past of their parent in a store of its own, wholly there or not at all, whatever the disk does.

use std::path::Path;

use mnemolog::disk::{Disk, Fault, MemoryDisk};
use mnemolog::{Durability, Error, Frame, Options, Store, Time, Writers, log};

use crate::model::Rng;
use crate::support::{crash_at_every_call, dumped, open, shared};
use crate::tail::{options, reader, write};

fn fork(store: &Store, frame: Frame) -> MemoryDisk {
    let disk = MemoryDisk::simulated();
    let forked = store.fork_on(&shared(&disk), frame).expect("forked");
    assert_eq!(forked.frame, frame);
    disk
}

/// Holds a fork against the past of its parent that it is to be.
fn check(parent: &Store, disk: &MemoryDisk, frame: Frame) {
    let report = log::verify(disk).expect("reads");
    assert!(report.is_whole() && report.findings.is_empty(), "frame {frame}: {:?}", report.findings);
    let beside = reader(disk);
    assert_eq!((beside.appended(), beside.durable()), (frame, frame), "all of it is promised");
    let past = parent.at(frame).expect("there");
    assert_eq!(
        (beside.last_time(), beside.digest().ok()),
        (past.time(), past.digest().ok()),
        "frame {frame}"
    );
    assert_eq!(dumped(&beside, frame), dumped(parent, frame), "frame {frame}");
    assert_ne!(beside.id(), parent.id());
    // Only the marker at the end stands above the promise, as after any clean shutdown.
    let mended = open(disk).recovery().clone();
    assert!(mended.cut.is_none() && mended.rewritten_bytes <= 48, "frame {frame}: {mended:?}");
}

#[test]
fn a_fork_at_any_frame_is_the_past_of_its_parent() {
    for (seed, writers) in [(1, Writers::One), (2, Writers::Many)] {
        let disk = MemoryDisk::new();
        let store = options().writers(writers).open_on(shared(&disk)).expect("opens");
        write(&store, &mut Rng::new(seed), 120);
        assert!(store.log_size().segments > 2, "the log has rotated");
        let beside = reader(&disk);
        for frame in (0..=120).map(Frame) {
            let parent = if frame.0 % 2 == 0 { &store } else { &beside };
            check(parent, &fork(parent, frame), frame);
        }
    }
}

#[test]
fn a_fork_of_a_fork_is_its_past_too() {
    let store = options().open_on(shared(&MemoryDisk::new())).expect("opens");
    write(&store, &mut Rng::new(7), 90);
    let first = open(&fork(&store, Frame(70)));
    write(&first, &mut Rng::new(8), 30);
    let disk = fork(&first, Frame(100));
    check(&first, &disk, Frame(100));
    assert_eq!(dumped(&reader(&disk), Frame(70)), dumped(&store, Frame(70)));
}

#[test]
fn what_is_written_afterwards_stays_where_it_is_written() {
    let parent_disk = MemoryDisk::new();
    let store = options().open_on(shared(&parent_disk)).expect("opens");
    write(&store, &mut Rng::new(1), 60);
    let disk = fork(&store, Frame(40));
    let fork = open(&disk);
    let (before, at_40) =
        (dumped(&store, Frame(60)), store.at(Frame(40)).and_then(|p| p.digest()).expect("there"));
    write(&fork, &mut Rng::new(2), 60);
    assert_eq!(dumped(&store, Frame(60)), before);
    let theirs = dumped(&fork, Frame(100));
    write(&store, &mut Rng::new(3), 60);
    assert_eq!(dumped(&fork, Frame(100)), theirs);
    assert_eq!(fork.at(Frame(40)).and_then(|past| past.digest()).expect("there"), at_40);
    assert_ne!(fork.digest().expect("readable"), store.digest().expect("readable"));
    drop((fork, store));
    for disk in [disk, parent_disk] {
        assert!(log::verify(&disk).expect("reads").is_whole());
    }
}

#[test]
fn a_fork_begins_at_the_base_of_its_parent() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/golden/v1/base");
    let store = Store::open_read_only(golden).expect("the specimen opens");
    let Err(Error::Compacted { oldest }) = store.at(Frame::ZERO) else { panic!("its history is gone") };
    for frame in (oldest.0..=store.appended().0).map(Frame) {
        let disk = fork(&store, frame);
        check(&store, &disk, frame);
        let fork = open(&disk);
        write(&fork, &mut Rng::new(1), 1);
        assert_eq!(Some(fork.appended()), frame.next());
    }
    let refused = store.fork_on(&shared(&MemoryDisk::new()), oldest.previous()).expect_err("it is gone");
    assert!(matches!(refused, Error::Compacted { oldest: o } if o == oldest), "{refused}");
}

#[test]
fn lost_frames_stay_lost_in_a_fork() {
    let disk = MemoryDisk::new();
    let store = options().open_on(shared(&disk)).expect("opens");
    write(&store, &mut Rng::new(4), 100);
    store.close().expect("closes");
    let name = disk.files().into_iter().find(|name| name.ends_with("1.seg")).expect("a first file");
    disk.flip(&name, 6000, 3).expect("a byte of it");
    let repaired =
        log::repair(&shared(&disk), std::time::Duration::ZERO, true, Time::ZERO).expect("repaired");
    let lost = repaired.lost[0];
    let store = open(&disk);
    for frame in (0..=100).map(Frame) {
        if (lost.first..=lost.last).contains(&frame) {
            let refused = store.fork_on(&shared(&MemoryDisk::new()), frame).expect_err("it is lost");
            assert!(matches!(refused, Error::Lost { .. }), "{refused}");
            continue;
        }
        let disk = MemoryDisk::simulated();
        store.fork_on(&shared(&disk), frame).expect("forked");
        let fork = reader(&disk);
        assert_eq!(dumped(&fork, frame), dumped(&store, frame));
        let damage = |f: &log::Finding| f.severity == log::Severity::Damage;
        assert!(!log::verify(&disk).expect("reads").findings.iter().any(damage));
        if frame > lost.last {
            assert!(matches!(fork.at(lost.first), Err(Error::Lost { .. })));
        }
    }
}

#[test]
fn a_fork_makes_its_last_frame_durable_in_the_parent_too() {
    let disk = MemoryDisk::simulated();
    let store = options().durability(Durability::Os).open_on(shared(&disk)).expect("opens");
    write(&store, &mut Rng::new(1), 10);
    assert_eq!(store.durable(), Frame::ZERO);
    check(&store, &fork(&store, Frame(6)), Frame(6));
    assert!(store.durable() >= Frame(6));
    // One that cannot be made durable is not forked.
    write(&store, &mut Rng::new(2), 5);
    let target = MemoryDisk::simulated();
    disk.fail_at(0, Fault::Io);
    let refused = store.fork_on(&shared(&target), store.appended()).expect_err("its sync fails");
    assert!(matches!(refused, Error::OutcomeUnknown { .. }), "{refused}");
    assert_eq!(target.calls(), 0, "nothing was begun");
}

#[test]
fn where_something_is_no_fork_comes_to_be() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let store = Store::open(path("store")).expect("created");
    write(&store, &mut Rng::new(1), 10);
    let refused = |to: &Path, frame| store.fork(to, Frame(frame)).expect_err("refused");
    assert!(matches!(refused(&path("store"), 5), Error::StoreExists { .. }));
    std::fs::create_dir(path("full")).expect("a directory");
    std::fs::write(path("full/letter"), "to someone").expect("a file");
    assert!(matches!(refused(&path("full"), 5), Error::NotAStore { found, .. } if found == "letter"));
    assert!(matches!(refused(&path("full/letter"), 5), Error::NotADirectory { .. }));
    assert!(matches!(refused(&path("new"), 11), Error::NoSuchFrame { last: Frame(10), .. }));
    assert!(!path("new").exists());
    std::fs::create_dir(path("empty")).expect("a directory");
    for to in ["empty", "deep/er/new"] {
        let forked = store.fork(path(to), Frame(5)).expect("forked");
        let fork = Store::open(path(to)).expect("opens");
        assert_eq!((fork.id(), fork.appended()), (forked.store, Frame(5)));
        assert_eq!(fork.digest().ok(), store.at(Frame(5)).and_then(|past| past.digest()).ok());
        assert!(matches!(refused(&path(to), 5), Error::StoreExists { .. }), "also while it is open");
    }
}

#[test]
fn a_fork_beside_a_writer_is_whole_and_holds_nobody_up() {
    let store = options().open_on(shared(&MemoryDisk::new())).expect("opens");
    write(&store, &mut Rng::new(1), 50);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&store, &mut Rng::new(2), 300));
        for _ in 0..20 {
            let frame = store.appended();
            let disk = fork(&store, frame);
            assert_eq!(dumped(&reader(&disk), frame), dumped(&store, frame));
        }
        writer.join().expect("no panic");
    });
}

/// A parent with more than one file.
fn parent() -> Store {
    let store = options().open_on(shared(&MemoryDisk::new())).expect("opens");
    write(&store, &mut Rng::new(11), 70);
    assert!(store.log_size().segments > 1, "there is more than one file");
    store
}

/// No store is there, or the whole fork; then it opens for writing as what it is. Answers whether it is there.
fn none_or_whole(disk: &MemoryDisk, parent: &Store, frame: Frame, context: &str) -> bool {
    let digest = parent.at(frame).and_then(|past| past.digest()).expect("there");
    let shown = match options().open_read_only_on(shared(disk)) {
        Ok(beside) => {
            assert_eq!((beside.appended(), beside.digest().ok()), (frame, Some(digest)), "{context}");
            assert!(beside.recovery().damage.is_none(), "{context}");
            true
        }
        Err(Error::NoSuchStore { .. }) => false,
        Err(e) => panic!("{context}: {e}"),
    };
    // A second try succeeds exactly where there is no store yet.
    match parent.fork_on(&shared(disk), frame) {
        Ok(_) => assert!(!shown, "{context}: over a store that was there"),
        Err(Error::StoreExists { .. }) => {}
        Err(e) => panic!("{context}: {e}"),
    }
    let store = open(disk);
    assert_eq!((store.appended(), store.digest().ok()), (frame, Some(digest)), "{context}");
    drop(store);
    assert!(log::verify(disk).expect("reads").is_whole(), "{context}");
    shown
}

#[test]
fn a_crash_at_any_call_leaves_no_store_or_the_whole_one() {
    let (parent, frame) = (parent(), Frame(66));
    let outcomes = crash_at_every_call(
        "a fork",
        |_| false,
        |crash| {
            let disk = MemoryDisk::simulated();
            disk.crash_at(crash.call);
            let done = parent.fork_on(&shared(&disk), frame).is_ok();
            crash.happens(&disk);
            (done, none_or_whole(&disk, &parent, frame, &format!("{crash:?}")))
        },
    );
    assert!(outcomes.calls > 20 && outcomes.before > 20 && outcomes.after > 6, "{outcomes:?}");
}

#[test]
fn a_full_disk_or_a_failed_call_leaves_nothing_behind() {
    let (parent, frame) = (parent(), Frame(66));
    let mut refused = 0;
    for room in (0_u64..).step_by(4096) {
        let disk = MemoryDisk::simulated();
        disk.set_capacity(Some(room));
        match parent.fork_on(&shared(&disk), frame) {
            Ok(_) => break,
            Err(Error::DiskFull { .. }) => refused += 1,
            Err(e) => panic!("{room} bytes: {e}"),
        }
        assert_eq!(disk.list("").expect("the root"), Vec::<String>::new(), "{room} bytes");
        disk.set_capacity(None);
        none_or_whole(&disk, &parent, frame, &format!("{room} bytes"));
    }
    assert!(refused > 5, "{refused} sizes were too small");
    for call in 0.. {
        let disk = MemoryDisk::simulated();
        disk.fail_at(call, Fault::Io);
        let result = parent.fork_on(&shared(&disk), frame);
        disk.clear_faults();
        let done = result.is_ok();
        if let Err(e) = result {
            assert!(matches!(e, Error::Io { .. }), "call {call}: {e}");
        }
        let there = none_or_whole(&disk, &parent, frame, &format!("call {call}"));
        assert!(there || !done, "call {call}");
        if disk.calls() > 0 && done && call > 100 {
            break;
        }
    }
}

#[test]
fn a_failed_fork_takes_the_directory_that_it_made_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path().join("store")).expect("created");
    write(&store, &mut Rng::new(1), 5);
    // The log rots under the store: what the fork reads does not check out.
    let segment = dir.path().join("store/log/00000000000000000001.seg");
    let mut bytes = std::fs::read(&segment).expect("a file");
    bytes[4200] ^= 1;
    std::fs::write(&segment, bytes).expect("written in place");
    let refused = store.fork(dir.path().join("fork"), Frame(5)).expect_err("a frame rotted");
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    assert!(!dir.path().join("fork").exists());
    std::fs::create_dir(dir.path().join("there")).expect("a directory");
    store.fork(dir.path().join("there"), Frame(5)).expect_err("a frame rotted");
    let left: Vec<_> = std::fs::read_dir(dir.path().join("there")).expect("it stays").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_default_store_forks_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Options::new().open(dir.path().join("store")).expect("created");
    write(&store, &mut Rng::new(1), 40);
    store.fork(dir.path().join("fork"), Frame(40)).expect("forked");
    let fork = Store::open_read_only(dir.path().join("fork")).expect("opens");
    assert_eq!((fork.durable(), fork.digest().ok()), (Frame(40), store.digest().ok()));
    let reserved = fork.log_size().bytes;
    assert!(reserved <= 128 * 1024, "{reserved} bytes for 40 small frames");
}
