//! Waiting for frames: who wakes a tail, and what does not come yet. Every wait has a deadline that fails the test.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mnemolog::disk::{Fault, MemoryDisk};
use mnemolog::{Durability, Error, Frame, Store, TailEvent, Writers};

use super::{DEADLINE, drain, options, reader, text};

fn save(store: &Store, key: &str) {
    store.root().notes().remember(key, "", "a body").expect("saved");
}

fn last(event: Option<TailEvent>) -> Option<Frame> {
    event.map(|event| event.last())
}

#[test]
fn a_commit_wakes_the_tails_that_wait_for_it() {
    for writers in [Writers::One, Writers::Many] {
        let disk = MemoryDisk::new();
        let store = options().writers(writers).open_on(Arc::new(disk.clone())).expect("opens");
        let reader = reader(&disk);
        thread::scope(|scope| {
            let tails = [&store, &store, &reader].map(|store| {
                let mut tail = store.tail(Frame::ZERO).expect("begins");
                scope.spawn(move || {
                    let next = |_| last(tail.next_within(DEADLINE).expect("readable")).expect("in time").0;
                    (0..50).map(next).collect::<Vec<_>>()
                })
            });
            for n in 0..50 {
                save(&store, &n.to_string());
            }
            for tail in tails {
                assert_eq!(tail.join().expect("no panic"), (1..=50).collect::<Vec<_>>());
            }
        });
    }
}

#[test]
fn a_wait_ends_when_its_time_is_over() {
    let disk = MemoryDisk::new();
    let store = options().open_on(Arc::new(disk.clone())).expect("opens");
    save(&store, "k");
    for store in [&store, &reader(&disk)] {
        let mut tail = store.tail(Frame(1)).expect("begins");
        let begun = Instant::now();
        assert!(tail.next_within(Duration::from_millis(40)).expect("readable").is_none());
        assert!(begun.elapsed() >= Duration::from_millis(40) && begun.elapsed() < DEADLINE);
        assert_eq!(tail.seen(), Frame(1));
    }
}

#[test]
fn the_last_frame_of_an_idle_log_comes_though_nothing_follows() {
    let disk = MemoryDisk::new();
    let store = options().open_on(Arc::new(disk.clone())).expect("opens");
    let beside = reader(&disk);
    let mut tail = beside.tail(Frame::ZERO).expect("begins");
    for n in 1..=3 {
        save(&store, "k");
        assert_eq!(last(tail.next_within(Duration::ZERO).expect("readable")), Some(Frame(n)));
        assert_eq!(
            last(reader(&disk).tail(Frame(n - 1)).expect("begins").next_within(DEADLINE).expect("")),
            Some(Frame(n))
        );
    }
}

#[test]
fn what_is_not_durable_does_not_come_until_it_is() {
    let disk = MemoryDisk::simulated();
    let store = options().durability(Durability::Os).open_on(Arc::new(disk.clone())).expect("opens");
    let beside = reader(&disk);
    let mut tails = [store.tail(Frame::ZERO), beside.tail(Frame::ZERO)].map(|tail| tail.expect("begins"));
    save(&store, "a");
    save(&store, "b");
    assert_eq!((store.appended(), beside.refresh().expect("refreshes")), (Frame(2), Frame(2)));
    for tail in &mut tails {
        assert!(
            tail.next_within(Duration::from_millis(5)).expect("readable").is_none(),
            "it may still be lost"
        );
    }
    assert!(beside.tail(Frame(2)).expect("begins").next_within(Duration::ZERO).expect("readable").is_none());
    store.flush().expect("synced");
    for tail in &mut tails {
        assert_eq!(drain(tail).len(), 2);
    }
}

#[test]
fn a_slow_tail_holds_nobody_up_and_misses_nothing() {
    let disk = MemoryDisk::new();
    let store = options().open_on(Arc::new(disk.clone())).expect("opens");
    let mut slow =
        [store.tail(Frame::ZERO), reader(&disk).tail(Frame::ZERO)].map(|tail| tail.expect("begins"));
    for n in 0..2000 {
        store.root().notes().remember("k", "", &n.to_string().repeat(300)).expect("nobody waits");
    }
    for tail in &mut slow {
        let mut next = 1;
        while let Some(event) = tail.next_within(Duration::ZERO).expect("readable") {
            assert_eq!(event.last(), Frame(next));
            assert!(text(&event).contains(&(next - 1).to_string().repeat(300)));
            next += 1;
        }
        assert_eq!(next, 2001);
    }
}

#[test]
fn a_writer_that_failed_tells_what_is_durable_and_then_that_it_failed() {
    let disk = MemoryDisk::simulated();
    let store = options().open_on(Arc::new(disk.clone())).expect("opens");
    save(&store, "kept");
    let mut tail = store.tail(Frame::ZERO).expect("begins");
    let mut waiting = store.tail(Frame(1)).expect("begins");
    thread::scope(|scope| {
        let waiter = scope.spawn(move || waiting.next_within(DEADLINE));
        // The write goes well and its sync fails.
        disk.fail_at(1, Fault::Io);
        let failed = store.root().notes().remember("unknown", "", "body").expect_err("its sync fails");
        assert!(matches!(failed, Error::OutcomeUnknown { frame: Frame(2), .. }), "{failed}");
        let woken = waiter.join().expect("no panic");
        assert!(matches!(woken, Err(Error::Poisoned { .. })), "{woken:?}");
    });
    assert_eq!(last(tail.next_within(DEADLINE).expect("durable")), Some(Frame(1)));
    assert!(matches!(tail.next_within(DEADLINE), Err(Error::Poisoned { .. })));
    assert!(matches!(tail.next(), Some(Err(Error::Poisoned { .. }))), "an iterator tells it too");
    assert!(tail.next().is_none(), "and ends with it");
}

#[test]
fn a_tail_ends_with_the_store_that_it_follows() {
    for writers in [Writers::One, Writers::Many] {
        let store = options().writers(writers).open_on(Arc::new(MemoryDisk::new())).expect("opens");
        let tail = store.tail(Frame::ZERO).expect("begins");
        thread::scope(|scope| {
            let all =
                scope.spawn(move || tail.map(|event| event.expect("no error").last().0).collect::<Vec<_>>());
            (0..5).for_each(|_| save(&store, "k"));
            store.close().expect("closes");
            assert_eq!(all.join().expect("no panic"), [1, 2, 3, 4, 5]);
        });
        if writers == Writers::One {
            assert!(matches!(
                store.tail(Frame(5)).expect("begins").next_within(DEADLINE),
                Err(Error::Closed)
            ));
        }
    }
}
