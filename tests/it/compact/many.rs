//! Compacting beside others: writers of the same process, other writing processes, readers, tails.

use std::time::Duration;

use mnemolog::disk::{Call, Fault, MemoryDisk};
use mnemolog::{Error, Frame, TailEvent, Writers};

use super::{Memory, is_sound};
use crate::model::Rng;
use crate::support::{open, shared};
use crate::tail::{options, reader, write};

#[test]
fn writers_of_the_same_process_go_on_and_lose_nothing() {
    for writers in [Writers::One, Writers::Many] {
        let disk = MemoryDisk::new();
        let store = options().writers(writers).open_on(shared(&disk)).expect("opens");
        write(&store, &mut Rng::new(1), 50);
        std::thread::scope(|scope| {
            for name in ["one", "two"] {
                let store = &store;
                scope.spawn(move || {
                    let notes = store.workspace(name).expect("a path").notes();
                    for n in 0..150 {
                        notes.remember("count", "s", &format!("{n} {}", "x".repeat(200))).expect("saved");
                        notes.remember(&format!("{n}"), "s", "kept").expect("saved");
                    }
                });
            }
            for _ in 0..25 {
                let last = store.appended();
                store.compact(Frame(last.0 - last.0 % 7), false).expect("compacted");
            }
        });
        for name in ["one", "two"] {
            let notes = store.workspace(name).expect("a path").notes();
            assert!(notes.recall("count").starts_with("149 "), "{name}");
            assert_eq!(notes.len(), 151, "{name}");
        }
        assert_eq!(store.appended(), Frame(50 + 600));
        let memory = Memory::of(&store, Frame(649));
        drop(store);
        is_sound(&disk, "after it all");
        let store = open(&disk);
        memory.check(&store, store.oldest(), "opened again");
    }
}

#[test]
fn a_change_that_one_process_could_not_state_is_in_no_others_way() {
    let disk = MemoryDisk::simulated();
    let open = || options().writers(Writers::Many).open_on(shared(&disk.process())).expect("opens");
    let (one, other) = (open(), open());
    write(&one, &mut Rng::new(1), 20);
    other.refresh().expect("looks");
    disk.fail_kind(Call::Rename, 0, Fault::Io);
    assert!(one.compact(Frame(10), false).is_err());
    assert!(disk.read_file("INTENT.tmp").is_some(), "whether it was renamed, the first one could not know");
    let done = other.compact(Frame(10), false).expect("compacted");
    assert_eq!((done.oldest, other.oldest()), (Frame(9), Frame(9)));
}

#[test]
fn other_processes_go_on_with_the_compacted_log() {
    for seed in 0..10 {
        let (disk, mut rng) = (MemoryDisk::new(), Rng::new(seed));
        let open = || options().writers(Writers::Many).open_on(shared(&disk)).expect("opens");
        let stores = [open(), open(), open()];
        let beside = reader(&disk);
        let mut oldest = Frame::ZERO;
        for round in 0..12 {
            let store = &stores[rng.below(3) as usize];
            let frames = 1 + rng.below(15);
            store.refresh().expect("looks");
            write(store, &mut rng, frames);
            let memory = Memory::of(store, oldest);
            let other = &stores[rng.below(3) as usize];
            let before = Frame(rng.below(store.appended().0 + 2));
            other.compact(before, false).expect("compacted");
            oldest = oldest.max(before.previous());
            for one in stores.iter().chain([&beside]) {
                one.refresh().expect("looks");
                memory.check(one, oldest, &format!("seed {seed}, round {round}, before {before}"));
            }
        }
        drop(stores);
        is_sound(&disk, &format!("seed {seed}"));
    }
}

#[test]
fn a_tail_goes_on_from_what_is_kept_and_says_what_is_not() {
    let disk = MemoryDisk::new();
    let store = options().open_on(shared(&disk)).expect("opens");
    write(&store, &mut Rng::new(1), 40);
    let beside = reader(&disk);
    let mut behind = store.tail(Frame(10)).expect("begins");
    let mut ahead = store.tail(Frame(38)).expect("begins");
    let mut of_reader = beside.tail(Frame(10)).expect("begins");
    store.compact(Frame(35), false).expect("compacted");
    let refused = behind.next_within(Duration::ZERO).expect_err("its frames are gone");
    assert!(matches!(refused, Error::Compacted { oldest: Frame(34) }), "{refused}");
    let next = ahead.next_within(Duration::ZERO).expect("readable");
    assert!(matches!(next, Some(TailEvent::Frame(frame)) if frame.frame() == Frame(39)));
    // One of another process reads the files that it knows until it looks again.
    let mut seen = 10;
    loop {
        match of_reader.next_within(Duration::ZERO) {
            Ok(Some(TailEvent::Frame(frame))) => {
                seen += 1;
                assert_eq!(frame.frame(), Frame(seen));
            }
            Ok(None) => write(&store, &mut Rng::new(seen), 1),
            Err(Error::Compacted { .. }) => break,
            other => panic!("{other:?}"),
        }
        if seen > 45 {
            break;
        }
    }
}

#[test]
fn a_compaction_inside_a_critical_section_of_another_workspace_waits_for_nobody() {
    let store = options().open_on(shared(&MemoryDisk::new())).expect("opens");
    write(&store, &mut Rng::new(1), 30);
    let core = store.workspace("core").expect("a path");
    core.notes().remember("old", "", "saved before").expect("saved");
    core.exclusive(|tx| {
        tx.notes().remember("k", "s", "pending")?;
        std::thread::scope(|scope| {
            scope.spawn(|| store.compact(Frame(20), false)).join().expect("no panic")
        })?;
        assert_eq!(tx.notes().recall("k"), "pending");
        assert_eq!(tx.notes().recall("old"), "saved before");
        tx.notes().remember("l", "s", "pending too")?;
        Ok::<_, Error>(())
    })
    .expect("committed");
    assert_eq!((core.notes().recall("k").as_str(), store.appended()), ("pending", Frame(32)));
}
