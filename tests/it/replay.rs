//! The idea of the whole: the state when a frame was written, the state replayed to it, and the state of a
//! store reopened at it are the same bytes.

use std::sync::Arc;

use mnemolog::disk::MemoryDisk;
use mnemolog::{Frame, Options, Store, Time, Workspace};
use proptest::prelude::*;

use crate::model::{Rng, Step, WORKSPACES};

/// The snapshot bytes of every handle that histories write to.
fn snapshots(workspace: impl Fn(&str) -> Workspace) -> Vec<Vec<u8>> {
    let of = |at: Workspace| {
        [
            at.notes().snapshot_bytes(),
            at.vectors("rows").expect("a name").snapshot_bytes(),
            at.episodic("turns").expect("a name").snapshot_bytes(),
            at.working("pad").expect("a name").snapshot_bytes(),
        ]
        .map(|bytes| bytes.expect("readable"))
    };
    WORKSPACES.iter().flat_map(|path| of(workspace(path))).collect()
}

fn of_store(store: &Store) -> Vec<Vec<u8>> {
    snapshots(|path| store.workspace(path).expect("a path"))
}

fn of_past(store: &Store, frame: u64) -> Vec<Vec<u8>> {
    let past = store.at(Frame(frame)).expect("a frame of the log");
    snapshots(|path| past.workspace(path).expect("a path"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn live_replayed_and_reopened_states_are_the_same_bytes(seeds in proptest::collection::vec(any::<u64>(), 0..60)) {
        let disk = MemoryDisk::new();
        let options = Options::new().segment_bytes(16 * 1024);
        let store = options.clone().open_on(Arc::new(disk.clone())).expect("opens");
        let mut live = vec![of_store(&store)];
        for seed in seeds {
            let mut rng = Rng::new(seed);
            let at = store.workspace(WORKSPACES[rng.below(2) as usize]).expect("a path");
            Step::random(&mut rng).take(&at).expect("written");
            if store.appended().0 as usize == live.len() {
                live.push(of_store(&store));
                let reopened = options.clone().open_read_only_on(Arc::new(disk.clone())).expect("opens");
                prop_assert_eq!(&of_store(&reopened), live.last().expect("just pushed"));
                prop_assert_eq!(reopened.digest().expect("digest"), store.digest().expect("digest"));
            }
            prop_assert_eq!(store.appended().0 as usize, live.len() - 1, "one step is one frame or none");
        }
        for (frame, expected) in live.iter().enumerate() {
            prop_assert_eq!(&of_past(&store, frame as u64), expected, "frame {}", frame);
        }
        prop_assert_eq!(&of_store(&store), live.last().expect("a state"), "looking back changes nothing");
    }
}

#[derive(Debug)]
struct Ticking(std::sync::atomic::AtomicU64);

impl mnemolog::Clock for Ticking {
    fn now(&self) -> Time {
        let tick = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Time::from_micros(1_000_000 * tick).expect("in range")
    }
}

#[test]
fn a_time_finds_the_last_frame_that_is_not_later() {
    let clock = Arc::new(Ticking(1.into()));
    let store = Options::new().clock(clock).segment_bytes(16 * 1024).open_on(Arc::new(MemoryDisk::new()));
    let store = store.expect("opens");
    let notes = store.root().notes();
    let mut times = vec![];
    for n in 0..300 {
        notes.remember("n", "", &format!("{n} {}", "x".repeat(100))).expect("saved");
        times.push(store.last_time().expect("a frame"));
    }
    assert_eq!(store.at_time(Time::ZERO).expect("before the first").frame(), Frame::ZERO);
    for (i, time) in times.iter().enumerate() {
        let frame = Frame(i as u64 + 1);
        assert_eq!(store.at_time(*time).expect("a frame").frame(), frame);
        assert_eq!(store.at_time(time.saturating_add(999_999)).expect("between").frame(), frame);
        let earlier = Time::from_micros(time.as_micros() - 1).expect("in range");
        assert_eq!(store.at_time(earlier).expect("just before").frame(), frame.previous());
    }
    assert_eq!(store.at_time(Time::MAX).expect("the end").frame(), Frame(300));
}
