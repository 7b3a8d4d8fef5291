//! Crashes at every call, full disks and failing calls: the log is as it was, or compacted, and never in between.

use mnemolog::disk::{Fault, MemoryDisk, Tear};
use mnemolog::{Error, Frame, Store, Writers, log};

use super::{Memory, copy, is_sound};
use crate::model::Rng;
use crate::support::{Crash, Outcomes, crash_at_every_call, open, shared};
use crate::tail::{options, reader, write};

const LAST: Frame = Frame(60);

/// A store of several segments with a checkpoint, closed; where compacting cuts it, and what it was.
fn before(cut: Cut) -> (MemoryDisk, Frame, Memory) {
    let disk = MemoryDisk::simulated();
    let store = open(&disk);
    write(&store, &mut Rng::new(11), LAST.0);
    assert!(store.log_size().segments > 1, "there are several files");
    if cut == Cut::Again {
        store.compact(Frame(20), false).expect("compacted");
    }
    store.checkpoint().expect("saved");
    let memory = Memory::of(&store, Frame(if cut == Cut::Again { 19 } else { 0 }));
    store.close().expect("closes");
    let first = |name: &String| name.strip_prefix("log/")?.strip_suffix(".seg")?.parse().ok();
    let segments: Vec<u64> = disk.files().iter().filter_map(first).collect();
    let frame = match cut {
        Cut::Whole => segments[1],
        Cut::Inside | Cut::Again => segments[1] - 2,
        Cut::Active => LAST.0,
        Cut::Behind => LAST.0 + 1,
    };
    // Each state is looked at in hundreds of outcomes: some frames stand for all.
    let near = [0, frame - 2, frame - 1, frame, LAST.0];
    (disk, Frame(frame), memory.only(&near))
}

/// Where the first kept frame stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// It begins a segment.
    Whole,
    /// Inside a sealed one.
    Inside,
    /// In a log that begins with a base already.
    Again,
    /// Inside the last.
    Active,
    /// It is not written yet.
    Behind,
}

const CUTS: [Cut; 5] = [Cut::Whole, Cut::Inside, Cut::Again, Cut::Active, Cut::Behind];

fn oldest(store: &Store) -> Frame {
    match store.at(Frame::ZERO) {
        Ok(_) => Frame::ZERO,
        Err(Error::Compacted { oldest }) => oldest,
        Err(e) => panic!("{e}"),
    }
}

/// Whatever happened, a reader and then a writer find the log as it was or compacted. Answers whether it is.
fn either(disk: &MemoryDisk, before: Frame, memory: &Memory, last: Frame, context: &str) -> bool {
    let beside = reader(disk);
    assert!(beside.recovery().damage.is_none(), "{context}: {:?}", beside.recovery());
    let done = oldest(&beside) == before.previous();
    assert_eq!(beside.appended(), last, "{context}");
    memory.check(&beside, oldest(&beside), context);
    let store = open(disk);
    assert!(done || oldest(&store) < before.previous() || store.recovery().finished_intent, "{context}");
    let done = oldest(&store) == before.previous();
    memory.check(&store, oldest(&store), context);
    assert_eq!(store.appended(), last, "{context}");
    // Not even the numbers of what is written next differ.
    write(&store, &mut Rng::new(1), 3);
    beside.refresh().expect("looks");
    memory.check(&beside, oldest(&store), context);
    store.close().expect("closes");
    let left: Vec<_> = disk.files().into_iter().filter(|n| n.ends_with(".tmp") || n == "INTENT").collect();
    assert_eq!(left, [""; 0], "{context}");
    is_sound(disk, context);
    done
}

#[test]
fn a_crash_at_any_call_leaves_the_old_log_or_the_new_one() {
    for cut in CUTS {
        let (source, before, memory) = before(cut);
        // One way to cut stands for all in every outcome, the others take turns.
        let leave_out = |crash: Crash| cut != Cut::Inside && !(crash.call + crash.mode).is_multiple_of(3);
        let outcomes = crash_at_every_call("a compaction", leave_out, |crash| {
            let disk = copy(&source);
            let writers = if crash.mode % 2 == 0 { Writers::One } else { Writers::Many };
            let store = options().writers(writers).open_on(shared(&disk)).expect("opens");
            disk.crash_at(crash.call);
            let done = store.compact(before, false).is_ok();
            drop(store);
            crash.happens(&disk);
            (done, either(&disk, before, &memory, LAST, &format!("{cut:?}, {crash:?}")))
        });
        let Outcomes { calls, before, after } = outcomes;
        assert!(calls > 20 && before > 10 && after > 10, "{cut:?}: {outcomes:?}");
    }
}

#[test]
fn frames_that_were_not_synced_are_durable_once_the_log_is_compacted() {
    for cut in [Cut::Inside, Cut::Active] {
        let (source, before, _) = before(cut);
        let disk = copy(&source);
        let options = options().durability(mnemolog::Durability::Os);
        let store = options.open_on(shared(&disk)).expect("opens");
        write(&store, &mut Rng::new(5), 10);
        let memory = Memory::of(&store, Frame(LAST.0 - 10));
        store.compact(before, false).expect("compacted");
        assert_eq!(store.durable(), Frame(LAST.0 + 10));
        disk.crash_at(0);
        drop(store);
        disk.power_loss(&mut |n| n - 1, Tear::Sector);
        assert!(either(&disk, before, &memory, Frame(LAST.0 + 10), &format!("{cut:?}")));
    }
}

#[test]
fn a_full_disk_changes_nothing_and_writing_goes_on() {
    for cut in CUTS {
        let (source, before, memory) = before(cut);
        let used: u64 =
            source.files().iter().map(|name| source.read_file(name).map_or(0, |b| b.len() as u64)).sum();
        let mut refused = 0;
        for room in (0_u64..).step_by(8192) {
            let disk = copy(&source);
            let store = open(&disk);
            let foreseen = store.compact(before, true).expect("foreseen");
            disk.set_capacity(Some(used + room));
            let context = format!("{cut:?}, {room} bytes");
            match store.compact(before, false) {
                Ok(_) => {
                    assert!(room <= foreseen.needs_bytes + 16384, "{context}: {foreseen:?}");
                    break;
                }
                Err(Error::DiskFull { .. }) => refused += 1,
                Err(e) => panic!("{context}: {e}"),
            }
            assert!(disk.files().iter().all(|name| !name.ends_with(".tmp") && name != "INTENT"), "{context}");
            disk.set_capacity(None);
            store.flush().expect("not poisoned");
            memory.check(&store, oldest(&store), &context);
            write(&store, &mut Rng::new(1), 1);
            drop(store);
            assert!(!either(&disk, before, &memory, Frame(LAST.0 + 1), &context));
        }
        assert!(refused > 0, "{cut:?}: {refused} sizes were too small");
    }
}

#[test]
fn a_call_that_fails_is_told_and_leaves_the_old_log_or_the_new_one() {
    for cut in CUTS {
        let (source, before, memory) = before(cut);
        for call in 0.. {
            let disk = copy(&source);
            let store = open(&disk);
            disk.fail_at(call, if call % 2 == 0 { Fault::Io } else { Fault::SyncLost });
            let context = format!("{cut:?}, call {call}");
            let calls = disk.calls();
            let result = store.compact(before, false);
            let all = disk.calls() - calls;
            disk.clear_faults();
            if let Err(e) = &result {
                assert!(matches!(e, Error::Io { .. } | Error::Poisoned { .. }), "{context}: {e}");
                if matches!(e, Error::Io { .. }) {
                    // It failed before it was stated: the store goes on.
                    write(&store, &mut Rng::new(1), 1);
                    drop(store);
                    assert!(!either(&disk, before, &memory, Frame(LAST.0 + 1), &context));
                    continue;
                }
            }
            drop(store);
            let there = either(&disk, before, &memory, LAST, &context);
            assert!(there || result.is_err(), "{context}");
            if call > all {
                break;
            }
        }
    }
}

#[test]
fn whoever_opens_next_finishes_a_compaction_also_in_the_middle_of_finishing() {
    let (source, before, memory) = before(Cut::Inside);
    let mut states = 0;
    for call in 0.. {
        let disk = copy(&source);
        let store = open(&disk);
        disk.crash_at(call);
        let done = store.compact(before, false).is_ok();
        drop(store);
        disk.power_loss(&mut |_| 0, Tear::Sector);
        if done {
            break;
        }
        if !disk.files().iter().any(|name| name == "INTENT") {
            continue;
        }
        states += 1;
        for second in 0..30 {
            let (disk, mut rng) = (copy(&disk), Rng::new(second));
            disk.crash_at(second);
            drop(options().open_on(shared(&disk)));
            disk.power_loss(&mut |n| rng.below(n), Tear::Sector);
            let context = format!("call {call}, then {second}");
            assert!(either(&disk, before, &memory, LAST, &context), "{context}: it was stated");
        }
    }
    assert!(states > 5, "{states} states with an INTENT");
    assert!(log::verify(&source).expect("reads").is_whole(), "the source was not touched");
}
