//! What may become of a log under a tail: it is repaired, exchanged, removed, or was never as long.

use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::{Error, Frame, Store, TailEvent, Time, Writers, log};

use super::{drain, dumped, options, reader, text, write};
use crate::model::Rng;

fn repair(disk: &MemoryDisk) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let repaired = log::repair(&shared, Duration::ZERO, true, Time::ZERO).expect("repaired");
    assert_eq!(repaired.lost.len(), 1, "{repaired:?}");
}

/// A log of 100 frames of which one in the middle of a file is no more what it was; and which.
fn damaged(seed: u64) -> (MemoryDisk, u64) {
    let disk = MemoryDisk::new();
    let store = options().open_on(Arc::new(disk.clone())).expect("opens");
    write(&store, &mut Rng::new(seed), 100);
    store.close().expect("closes");
    let name = disk.files().into_iter().find(|name| name.ends_with("1.seg")).expect("a first file");
    disk.flip(&name, 6000, 3).expect("a byte of it");
    let report = log::verify(&disk).expect("reads");
    (disk, report.findings[0].frame.0)
}

#[test]
fn lost_frames_are_named_and_the_tail_goes_on_behind_them() {
    for seed in 0..20 {
        let (disk, lost) = damaged(seed);
        repair(&disk);
        let reader = reader(&disk);
        let events = drain(&mut reader.tail(Frame::ZERO).expect("begins"));
        let range = events.iter().find_map(|event| match event {
            TailEvent::Lost { first, last } => Some((*first, *last)),
            TailEvent::Frame(_) => None,
        });
        let Some((first, last)) = range else { panic!("frame {lost} is lost") };
        assert!(first.0 <= lost && lost <= last.0);
        let mut next = 1;
        for event in &events {
            assert_eq!(event.last().0, if next == first.0 { last.0 } else { next }, "in order");
            next = event.last().0 + 1;
        }
        assert_eq!(next, 101);
        // From within the range only its rest is told.
        for from in (first.0 - 1..=last.0).map(Frame) {
            let told: String = drain(&mut reader.tail(from).expect("begins")).iter().map(text).collect();
            let rest = if from < last { format!("lost {} to {last}\n", from.0 + 1) } else { String::new() };
            assert_eq!(told, rest + &dumped(&reader, last), "from {from}");
        }
    }
}

#[test]
fn a_tail_serves_what_stands_before_damage_and_goes_on_when_it_is_repaired() {
    let (disk, lost) = damaged(3);
    let beside = reader(&disk);
    let mut tail = beside.tail(Frame::ZERO).expect("begins");
    for n in 1..lost {
        assert_eq!(
            tail.next_within(Duration::ZERO).expect("whole").map(|event| event.last()),
            Some(Frame(n))
        );
    }
    let met = tail.next_within(Duration::ZERO);
    assert!(matches!(&met, Err(Error::Damaged(damage)) if damage.frame.0 == lost), "{met:?}");
    assert_eq!(tail.seen(), Frame(lost - 1));
    repair(&disk);
    let rest = drain(&mut tail);
    assert!(matches!(rest[0], TailEvent::Lost { first, .. } if first.0 == lost), "{:?}", rest[0]);
    assert_eq!(tail.seen(), Frame(100));
    let store = options().open_on(Arc::new(disk.clone())).expect("whole");
    write(&store, &mut Rng::new(9), 1);
    assert_eq!(drain(&mut tail).len(), 1);
}

#[test]
fn files_that_a_repair_replaced_are_followed_where_the_tail_was() {
    for seed in 0..20 {
        let disk = MemoryDisk::new();
        let store = options().writers(Writers::Many).open_on(Arc::new(disk.clone())).expect("opens");
        write(&store, &mut Rng::new(seed), 60);
        let beside = reader(&disk);
        let mut tails = [store.tail(Frame::ZERO), beside.tail(Frame(40)), beside.tail(Frame(60))]
            .map(|tail| tail.expect("begins"));
        let before = tails.each_mut().map(drain);
        assert_eq!(before.map(|events| events.len()), [60, 20, 0]);
        // The first file is rebuilt; everything behind it stays, and so must the place of each tail.
        let name = disk.files().into_iter().find(|name| name.ends_with("1.seg")).expect("a first file");
        disk.flip(&name, 6000, 3).expect("a byte of it");
        repair(&disk);
        write(&store, &mut Rng::new(seed + 100), 30);
        for tail in &mut tails {
            let told: String = drain(tail).iter().map(text).collect();
            assert_eq!(told, dumped(&store, Frame(60)), "seed {seed}");
        }
    }
}

#[test]
fn a_store_that_was_exchanged_or_removed_is_not_followed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, other) = (dir.path().join("store"), dir.path().join("other"));
    let save = |store: &Store| store.root().notes().remember("k", "", "body").map(drop).expect("saved");
    let many = || options().writers(Writers::Many);
    let (store, theirs) = (many().open(&path).expect("created"), many().open(&other).expect("created"));
    save(&store);
    (0..5).for_each(|_| save(&theirs));
    let beside = options().open_read_only(&path).expect("opens");
    let mut tails = [store.tail(Frame::ZERO), beside.tail(Frame::ZERO)].map(|tail| tail.expect("begins"));
    std::fs::rename(&path, dir.path().join("old")).expect("moved away");
    let removed = tails.each_mut().map(|tail| (drain_one(tail), tail.next_within(Duration::ZERO)));
    for (first, then) in removed {
        assert_eq!(first, Frame(1), "what is known is told first");
        assert!(matches!(then, Err(Error::NoSuchStore { .. })), "{then:?}");
    }
    std::fs::rename(&other, &path).expect("moved there");
    for tail in &mut tails {
        let told = tail.next_within(Duration::ZERO);
        assert!(matches!(told, Err(Error::OtherStore { .. })), "{told:?}");
        assert_eq!(tail.seen(), Frame(1));
    }
    std::fs::rename(&path, &other).expect("moved away");
    std::fs::rename(dir.path().join("old"), &path).expect("moved back");
    save(&store);
    for tail in &mut tails {
        assert_eq!(drain_one(tail), Frame(2), "it is there again");
    }
}

fn drain_one(tail: &mut mnemolog::Tail) -> Frame {
    tail.next_within(Duration::ZERO).expect("readable").expect("a frame").last()
}

#[test]
fn a_frame_beyond_the_last_is_refused_unless_it_only_came_meanwhile() {
    let disk = MemoryDisk::new();
    let store = options().writers(Writers::Many).open_on(Arc::new(disk.clone())).expect("opens");
    let beside = reader(&disk);
    write(&store, &mut Rng::new(1), 5);
    assert_eq!(beside.tail(Frame(5)).expect("it was seen elsewhere").seen(), Frame(5));
    for store in [&store, &beside] {
        let refused = store.tail(Frame(6)).expect_err("nobody has seen it");
        assert!(matches!(refused, Error::NoSuchFrame { asked: Frame(6), last: Frame(5) }), "{refused}");
    }
}
