//! Tails: every durable frame once and in order, whoever writes it, whatever becomes of the files meanwhile.

mod ends;
mod waits;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::MemoryDisk;
use mnemolog::interchange::{DumpOptions, LoadOptions, dump, load};
use mnemolog::{Error, Frame, Options, Store, Tail, TailEvent, Writers};

use crate::model::{Rng, Step, WORKSPACES};

/// When a test gives up on a frame.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn options() -> Options {
    Options::new().segment_bytes(16 * 1024)
}

pub(crate) fn reader(disk: &MemoryDisk) -> Store {
    options().open_read_only_on(Arc::new(disk.clone())).expect("opens")
}

/// Takes random steps until a store has so many frames more.
pub(crate) fn write(store: &Store, rng: &mut Rng, frames: u64) {
    let until = store.appended().0 + frames;
    while store.appended().0 < until {
        let at = store.workspace(WORKSPACES[rng.below(2) as usize]).expect("a path");
        Step::random(rng).take(&at).expect("saved");
    }
}

/// What a frame says, line by line; of lost ones, which they are.
pub(crate) fn text(event: &TailEvent) -> String {
    let frame = match event {
        TailEvent::Frame(frame) => frame,
        TailEvent::Lost { first, last } => return format!("lost {first} to {last}\n"),
    };
    let mut out = Vec::new();
    for line in frame.lines() {
        line.write_to(&mut out).expect("memory");
        out.push(b'\n');
    }
    String::from_utf8(out).expect("JSON")
}

/// Everything that is there, and nothing that is to come.
pub(crate) fn drain(tail: &mut Tail) -> Vec<TailEvent> {
    std::iter::from_fn(|| tail.next_within(Duration::ZERO).expect("readable")).collect()
}

fn told(tail: &mut Tail) -> String {
    drain(tail).iter().map(text).collect()
}

/// The dump behind a frame.
pub(crate) fn dumped(store: &Store, behind: Frame) -> String {
    let mut out = Vec::new();
    dump(store, &mut out, DumpOptions::default()).expect("dumped");
    let frame = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["frame"].as_u64();
    let text = String::from_utf8(out).expect("JSON");
    text.lines().filter(|line| frame(line) > Some(behind.0)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_tail_from_any_frame_tells_what_the_dump_tells_behind_it() {
    for (seed, writers) in [(1, Writers::One), (2, Writers::Many), (3, Writers::One)] {
        let disk = MemoryDisk::new();
        let store = options().writers(writers).open_on(Arc::new(disk.clone())).expect("opens");
        write(&store, &mut Rng::new(seed), 150);
        assert!(store.log_size().segments > 2, "the log has rotated");
        let reader = reader(&disk);
        for from in (0..=150).map(Frame) {
            let expected = dumped(&store, from);
            for store in [&store, &reader] {
                let mut tail = store.tail(from).expect("begins");
                assert_eq!(told(&mut tail), expected, "seed {seed}, from {from}");
                assert_eq!(tail.seen(), Frame(150));
            }
        }
    }
}

#[test]
fn frames_come_as_they_are_written_whoever_writes_them() {
    for seed in 0..40 {
        let (disk, mut rng) = (MemoryDisk::new(), Rng::new(seed));
        let open = || options().writers(Writers::Many).open_on(Arc::new(disk.clone())).expect("opens");
        let stores = [open(), open(), reader(&disk)];
        let mut tails: Vec<Tail> =
            stores.iter().map(|store| store.tail(Frame::ZERO).expect("begins")).collect();
        let mut texts = vec![String::new(); tails.len()];
        for _ in 0..25 {
            let writer = &stores[rng.below(2) as usize];
            let frames = 1 + rng.below(6);
            let before = writer.refresh().expect("refreshes");
            for _ in 0..frames {
                let text = "body ".repeat(rng.below(200) as usize);
                writer.root().notes().remember("k", "s", &text).expect("saved");
            }
            assert_eq!(writer.appended(), Frame(before.0 + frames));
            // A tail that is not asked falls behind, across segments too.
            let i = rng.below(tails.len() as u64) as usize;
            texts[i] += &told(&mut tails[i]);
            if rng.chance(3) {
                let seen = tails[i].seen();
                tails[i] = stores[i].tail(seen).expect("goes on where the other was");
            }
        }
        let expected = {
            stores[2].refresh().expect("refreshes");
            dumped(&stores[2], Frame::ZERO)
        };
        for (text, tail) in texts.iter_mut().zip(&mut tails) {
            *text += &told(tail);
            assert!(*text == expected, "seed {seed}: a frame is missing, or there twice");
        }
    }
}

#[test]
fn a_tail_of_a_reader_leaves_its_reads_where_they_were() {
    let disk = MemoryDisk::new();
    let store = options().writers(Writers::Many).open_on(Arc::new(disk.clone())).expect("opens");
    write(&store, &mut Rng::new(5), 20);
    let reader = reader(&disk);
    let mut tail = reader.tail(Frame(20)).expect("begins");
    write(&store, &mut Rng::new(6), 100);
    assert_eq!(drain(&mut tail).len(), 100);
    assert_eq!(reader.appended(), Frame(20));
    let end = store.last_time().expect("a time");
    assert_eq!(reader.frame_at(end).expect("readable"), Frame(20), "no frame that its reads do not have");
    assert_eq!(reader.refresh().expect("refreshes"), Frame(120));
    assert_eq!(reader.digest().expect("readable"), store.digest().expect("readable"));
}

#[test]
fn a_frame_says_who_wrote_what_and_when() {
    let store = Store::in_memory().expect("opens");
    let origin = mnemolog::Origin { agent: Some("planner".into()), ..mnemolog::Origin::default() };
    let core = store.workspace("core").and_then(|core| core.with_origin(origin.clone())).expect("a path");
    core.exclusive(|tx| {
        tx.notes().remember("k", "s", "b")?;
        tx.working("pad")?.push("l", "c")
    })
    .expect("saved");
    let bytes = core.notes().snapshot_bytes().expect("a snapshot");
    core.notes().restore_bytes(&bytes).expect("restored");
    let events = drain(&mut store.tail(Frame::ZERO).expect("begins"));
    let [TailEvent::Frame(both), TailEvent::Frame(whole)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((both.frame(), both.origin(), both.len()), (Frame(1), Some(&origin), 2));
    assert_eq!(Some(both.time()), store.at(Frame(1)).expect("there").time());
    let ids: Vec<_> = both.deltas().iter().map(|delta| (delta.kind.name(), delta.id.to_owned())).collect();
    assert_eq!(ids, [("notes", "core/memory".to_owned()), ("working", "core/pad".to_owned())]);
    assert_eq!(
        (whole.len(), whole.deltas()[0].items.len()),
        (1, 1),
        "a snapshot is one delta with its items"
    );
}

#[test]
fn what_begins_at_a_base_is_told_from_the_base_on() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/golden/v1/base");
    let store = Store::open_read_only(golden).expect("the specimen opens");
    let Err(Error::Compacted { oldest }) = store.tail(Frame::ZERO) else { panic!("its history is gone") };
    assert!(matches!(store.tail(oldest.previous()), Err(Error::Compacted { oldest: o }) if o == oldest));
    let mut tail = store.tail(oldest).expect("begins");
    assert_eq!(told(&mut tail), dumped(&store, oldest));
    assert_eq!(tail.seen(), store.appended());
}

#[test]
fn a_log_that_comes_to_begin_at_a_base_says_so_to_who_began_before() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/golden/v1/base");
    let source = Store::open_read_only(golden).expect("the specimen opens");
    let mut lines = Vec::new();
    dump(&source, &mut lines, DumpOptions::default()).expect("dumped");
    for writers in [Writers::One, Writers::Many] {
        let disk = MemoryDisk::new();
        let store = options().writers(writers).open_on(Arc::new(disk.clone())).expect("opens");
        let beside = reader(&disk);
        let tails = [store.tail(Frame::ZERO), beside.tail(Frame::ZERO)].map(|tail| tail.expect("begins"));
        std::thread::scope(|scope| {
            let waiting = tails.map(|mut tail| scope.spawn(move || tail.next_within(DEADLINE)));
            load(&store, &mut &lines[..], LoadOptions::default()).expect("loaded");
            for waiting in waiting {
                let Err(Error::Compacted { oldest }) = waiting.join().expect("no panic") else {
                    panic!("not told")
                };
                for parent in [&store, &beside] {
                    parent.refresh().expect("refreshes");
                    let mut tail = parent.tail(oldest).expect("begins");
                    assert_eq!(told(&mut tail), dumped(&source, oldest));
                }
            }
        });
    }
}
