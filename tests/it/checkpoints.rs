//! Checkpoints change no answer: with them, without them, with broken and with foreign ones, opening and every past
//! are the same. What they save is frames that need not be folded, and those are counted.

use std::sync::Arc;

use mnemolog::codec::checkpoint::{CHECKPOINT_HEADER_BYTES, CheckpointHeader};
use mnemolog::codec::segment::Durable;
use mnemolog::disk::{MemoryDisk, Tear};
use mnemolog::replay::checkpoint::{Checkpoints, Listed, is_due, reach, redundant};
use mnemolog::{Error, Frame, Options, Store, Writers};

use crate::model::{self, Rng, Step, WORKSPACES};

mod automatic;
mod broken;

/// Takes so many random steps.
fn write(store: &Store, rng: &mut Rng, steps: u64) {
    for _ in 0..steps {
        let at = store.workspace(WORKSPACES[rng.below(2) as usize]).unwrap();
        Step::random(rng).take(&at).unwrap();
    }
}

fn options() -> Options {
    Options::new().segment_bytes(16 * 1024).checkpoint_distance(u64::MAX)
}

fn open(disk: &MemoryDisk) -> Store {
    options().open_on(Arc::new(disk.clone())).unwrap()
}

/// The digest of every frame, folded from the beginning of the log.
fn digests(disk: &MemoryDisk) -> Vec<u128> {
    let copy = without_checkpoints(disk);
    let store = options().pasts_bytes(0).open_read_only_on(Arc::new(copy)).unwrap();
    (0..=store.appended().0).map(|n| store.at(Frame(n)).unwrap().digest().unwrap()).collect()
}

fn without_checkpoints(disk: &MemoryDisk) -> MemoryDisk {
    let copy = MemoryDisk::new();
    for path in disk.files().into_iter().filter(|path| !path.starts_with("checkpoints/")) {
        copy.write_file(&path, &disk.read_file(&path).unwrap()).unwrap();
    }
    copy
}

fn checkpoints(disk: &MemoryDisk) -> Vec<String> {
    disk.files().into_iter().filter(|path| path.starts_with("checkpoints/")).collect()
}

#[test]
fn a_checkpoint_anywhere_gives_the_same_states_as_the_whole_log() {
    for seed in 0..40 {
        let (mut rng, disk) = (Rng::new(seed), MemoryDisk::new());
        let store = open(&disk);
        for _ in 0..4 {
            let steps = rng.below(30);
            write(&store, &mut rng, steps);
            assert_eq!(store.checkpoint().unwrap(), store.appended());
        }
        let steps = rng.below(30);
        write(&store, &mut rng, steps);
        let live = (store.digest().unwrap(), model::held(&store));
        drop(store);
        let expected = digests(&disk);
        let store = open(&disk);
        assert_eq!((store.digest().unwrap(), model::held(&store)), live, "seed {seed}");
        for n in (0..expected.len()).rev() {
            let past = store.at(Frame(n as u64)).unwrap();
            assert_eq!(past.digest().unwrap(), expected[n], "seed {seed}, frame {n}");
        }
        // What is folded on top of a loaded state chains to what came before it.
        write(&store, &mut rng, 20);
        let live = store.digest().unwrap();
        drop(store);
        assert_eq!(open(&without_checkpoints(&disk)).digest().unwrap(), live, "seed {seed}");
    }
}

#[test]
fn opening_folds_only_what_came_after_the_checkpoint() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    let notes = store.root().notes();
    for n in 0..500 {
        notes.remember(&format!("k{n}"), "a note", "body").unwrap();
    }
    assert_eq!(store.checkpoint().unwrap(), Frame(500));
    for n in 0..7 {
        notes.remember(&format!("k{n}"), "a note", "other").unwrap();
    }
    drop(notes);
    drop(store);
    let store = open(&disk);
    assert_eq!((store.opened().checkpoint, store.opened().folded), (Some(Frame(500)), 7));
    assert_eq!(store.root().notes().recall("k3"), "other");
    assert_eq!(store.at(Frame(505)).unwrap().folded(), 5);
    assert_eq!(store.at(Frame(500)).unwrap().folded(), 0);
    assert_eq!(store.at(Frame(499)).unwrap().folded(), 499);
    let reader = options().open_read_only_on(Arc::new(disk)).unwrap();
    assert_eq!((reader.opened().checkpoint, reader.opened().folded), (Some(Frame(500)), 7));
}

#[test]
fn a_past_begins_with_the_nearest_one_that_was_looked_at() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    for n in 0..100 {
        store.root().notes().remember("key", "a note", &n.to_string()).unwrap();
    }
    assert_eq!(store.at(Frame(60)).unwrap().folded(), 60);
    assert_eq!(store.at(Frame(70)).unwrap().folded(), 10);
    assert_eq!(store.at(Frame(60)).unwrap().folded(), 0);
    assert_eq!(store.at(Frame(59)).unwrap().folded(), 59);
    assert_eq!(store.at(Frame(65)).unwrap().root().notes().recall("key"), "64");
    let none = options().pasts_bytes(0).open_read_only_on(Arc::new(disk)).unwrap();
    assert_eq!([60, 60].map(|n| none.at(Frame(n)).unwrap().folded()), [60, 60]);
}

#[test]
fn what_pasts_may_cost_is_bounded() {
    let disk = MemoryDisk::new();
    let store = options().pasts_bytes(10_000).open_on(Arc::new(disk)).unwrap();
    for n in 0..100 {
        store.root().notes().remember("key", "a note", &format!("{n:0200}")).unwrap();
    }
    // Twenty frames are about 6,000 bytes: two of them are more than may be kept.
    assert_eq!(store.at(Frame(20)).unwrap().folded(), 20);
    assert_eq!(store.at(Frame(19)).unwrap().folded(), 19);
    assert_eq!(store.at(Frame(20)).unwrap().folded(), 1);
}

#[test]
fn a_store_that_is_read_only_or_closed_makes_no_checkpoint() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    assert_eq!(store.checkpoint().unwrap(), Frame::ZERO);
    assert!(checkpoints(&disk).is_empty());
    store.root().notes().remember("key", "a note", "body").unwrap();
    let reader = options().open_read_only_on(Arc::new(disk.clone())).unwrap();
    assert!(matches!(reader.checkpoint(), Err(Error::ReadOnly)));
    store.close().unwrap();
    assert!(matches!(store.checkpoint(), Err(Error::Closed)));
    assert!(checkpoints(&disk).is_empty());
}

#[test]
fn a_crash_at_any_call_of_a_checkpoint_loses_nothing() {
    for writers in [Writers::One, Writers::Many] {
        for (at, mode) in (0..60).flat_map(|at| (0..3).map(move |mode| (at, mode))) {
            let (mut rng, mut disk) = (Rng::new(at), MemoryDisk::simulated());
            let open =
                |disk: &MemoryDisk| options().writers(writers).open_on(Arc::new(disk.clone())).unwrap();
            let store = open(&disk);
            write(&store, &mut rng, 10);
            store.checkpoint().unwrap();
            write(&store, &mut rng, 10);
            let (last, digest) = (store.appended(), store.digest().unwrap());
            disk.crash_at(at);
            let done = store.checkpoint();
            let choose = &mut |n: u64| match mode {
                0 => 0,
                1 => n - 1,
                _ => rng.below(n),
            };
            disk.power_loss(choose, Tear::Sector);
            drop(store);
            disk = disk.clone();
            let store = open(&disk);
            assert_eq!((store.appended(), store.digest().unwrap()), (last, digest), "call {at}, mode {mode}");
            assert!(disk.files().iter().all(|path| !path.ends_with(".tmp")), "call {at}, mode {mode}");
            if done.is_ok() {
                assert_eq!(store.opened(), mnemolog::Opened { checkpoint: Some(last), folded: 0 });
            }
        }
    }
}

#[test]
fn another_process_may_be_writing_meanwhile() {
    let disk = MemoryDisk::new();
    let open = || options().writers(Writers::Many).open_on(Arc::new(disk.clone())).unwrap();
    let (a, b) = (open(), open());
    a.root().notes().remember("a", "of a", "1").unwrap();
    b.root().notes().remember("b", "of b", "2").unwrap();
    assert_eq!(a.checkpoint().unwrap(), Frame(2), "it sees what the other appended");
    b.root().notes().remember("b", "of b", "3").unwrap();
    assert_eq!(b.checkpoint().unwrap(), Frame(3));
    assert_eq!(open().opened(), mnemolog::Opened { checkpoint: Some(Frame(3)), folded: 0 });
    assert_eq!(a.checkpoint().unwrap(), Frame(3), "made by the other already");
}

#[test]
fn checkpoints_that_are_missing_between_others_are_made_again() {
    let disk = MemoryDisk::new();
    let options = || Options::new().segment_bytes(1 << 20).pasts_bytes(0);
    let store = options().checkpoint_distance(u64::MAX).open_on(Arc::new(disk.clone())).unwrap();
    for n in 0..1000 {
        store.root().notes().remember(&format!("k{}", n % 20), "a note", &format!("{n:0100}")).unwrap();
    }
    drop(store);
    let expected = digests(&disk);
    let distance = 16 * 1024;
    let store = options().checkpoint_distance(distance).open_on(Arc::new(disk.clone())).unwrap();
    assert_eq!(store.checkpoint().unwrap(), Frame(1000));
    let listed = store.checkpoints();
    assert!(listed.len() > 5, "{listed:?}");
    let used = store.log_size().used;
    for pair in listed.windows(2) {
        let reach = reach(pair[0].bytes, used - pair[1].log_bytes, distance);
        assert!(pair[1].log_bytes - pair[0].log_bytes <= reach, "{pair:?}");
    }
    for listed in &listed {
        let past = store.at(listed.frame).unwrap();
        assert_eq!((past.folded(), past.digest().unwrap()), (0, expected[listed.frame.0 as usize]));
    }
    assert_eq!(store.checkpoint().unwrap(), Frame(1000));
    assert_eq!(store.checkpoints(), listed, "nothing is missing now");
}

fn listed(name: u64, log_bytes: u64, bytes: u64) -> Listed {
    Listed { name: name.to_string(), frame: Frame(name), log_bytes, bytes }
}

/// A log that grows by random steps, with checkpoints taken when one is due and dropped when redundant.
#[test]
fn from_every_frame_a_checkpoint_is_within_reach() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let distance = 1 + rng.below(1000);
        let (mut kept, mut frames, mut log_bytes): (Vec<Listed>, Vec<u64>, u64) = (vec![], vec![], 0);
        let most = rng.below(2000);
        for n in 1..600 {
            log_bytes += 1 + rng.below(distance / 8 + 1);
            frames.push(log_bytes);
            if is_due(kept.last().map(|last| (last.log_bytes, last.bytes)), log_bytes, distance) {
                kept.push(listed(n, log_bytes, rng.below(most + 1)));
                let names = redundant(&kept, log_bytes, distance);
                kept.retain(|checkpoint| !names.contains(&checkpoint.name));
            }
            for &frame in &frames {
                let before = kept.iter().rfind(|checkpoint| checkpoint.log_bytes <= frame);
                let (at, size) = before.map_or((0, 0), |checkpoint| (checkpoint.log_bytes, checkpoint.bytes));
                let reach = reach(size, log_bytes - frame, distance);
                assert!(frame - at <= reach, "seed {seed}: {frame} of {log_bytes}, from {at}, reach {reach}");
            }
        }
        let most = 12.0 * (2.0 + (log_bytes as f64 / distance as f64).ln().max(0.0));
        assert!((kept.len() as f64) < most, "seed {seed}: {} kept", kept.len());
    }
}

#[test]
fn opening_from_a_checkpoint_makes_a_lost_promise_again() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    store.root().notes().remember("a", "a note", "1").unwrap();
    store.root().notes().remember("b", "a note", "2").unwrap();
    store.checkpoint().unwrap();
    drop(store);
    // As a loss of power may leave it: it is not synced with every frame.
    disk.remove_file("DURABLE").unwrap();
    let store = open(&disk);
    assert_eq!(store.opened(), mnemolog::Opened { checkpoint: Some(Frame(2)), folded: 0 });
    drop(store);
    let promise = Durable::decode(&disk.read_file("DURABLE").unwrap()).unwrap();
    assert_eq!(promise.frame, Frame(2));
    for path in disk.files().into_iter().filter(|path| path.starts_with("log/")) {
        disk.remove_file(&path).unwrap();
    }
    let error = options().open_on(Arc::new(disk)).unwrap_err();
    assert!(matches!(error, Error::Damaged(_)), "{error}");
}
