//! A damaged store in which all four kinds are filled: after repair every kind has everything but what the lost
//! frames held, now and in the past, as an oracle that skips those frames says.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use mnemolog::codec::frame::FrameKind;
use mnemolog::disk::MemoryDisk;
use mnemolog::{Clock, Error, Frame, Json, Options, Result, Store, Time};

use super::{Files, check_repaired, contents, disk_of, ranges, repair, write_to};
use crate::log::frames_of;
use crate::model::{self, Held, Model, Rng, Step, WORKSPACES};

/// A closed store as files, and for each frame which workspace it changed, how, and what that held afterwards.
struct History {
    files: Files,
    steps: Vec<(usize, Step, Held)>,
}

/// A clock on which every look takes a second, so that no two frames have the same time.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Time {
        Time::from_micros(1_764_000_000_000_000 + 1_000_000 * self.0.fetch_add(1, Relaxed)).expect("a time")
    }
}

fn open(disk: &MemoryDisk) -> Result<Store> {
    let options = Options::new().segment_bytes(16 * 1024).clock(Arc::new(Ticking::default()));
    options.open_on(Arc::new(disk.clone()))
}

fn history(seed: u64, frames: usize) -> History {
    let disk = MemoryDisk::new();
    let store = open(&disk).unwrap();
    let (mut rng, mut full, mut steps) = (Rng::new(seed), model::empty(), Vec::new());
    while steps.len() < frames {
        let (step, at) = (Step::random(&mut rng), rng.below(2) as usize);
        let before = store.appended();
        let written = written(&step, &mut full[at]);
        step.take(&store.workspace(WORKSPACES[at]).unwrap()).unwrap();
        if store.appended() > before {
            steps.push((at, written, full[at].clone()));
        }
    }
    store.close().unwrap();
    History { files: contents(&disk), steps }
}

/// Applies a step, and answers what of it a frame holds: what changes nothing at the time is not written.
fn written(step: &Step, held: &mut Held) -> Step {
    match step {
        Step::Together(steps) => {
            Step::Together(steps.iter().filter(|step| step.apply(held)).cloned().collect())
        }
        step => {
            step.apply(held);
            step.clone()
        }
    }
}

/// What a store holds, without which embedders its tables have: that may be lost.
fn but_embedders(mut model: Model) -> Model {
    for held in &mut model {
        (held.embedder, held.loose) = (None, None);
    }
    model
}

impl History {
    /// What each frame's state is without the lost ones; a snapshot brings back what was lost before it.
    fn states(&self, lost: &[(u64, u64)]) -> Vec<Model> {
        let mut states = vec![model::empty()];
        for (i, (at, step, held)) in self.steps.iter().enumerate() {
            let (number, mut state) = (i as u64 + 1, states.last().unwrap().clone());
            if !lost.iter().any(|(first, last)| (*first..=*last).contains(&number)) {
                step.apply(&mut state[*at]);
                if *step == Step::Resave {
                    state[*at] = held.clone();
                }
            }
            states.push(but_embedders(state));
        }
        states
    }

    /// Repairs a store that was damaged, and holds everything in it against the oracle.
    fn check(&self, disk: &MemoryDisk, context: &str) -> Vec<(u64, u64)> {
        let before = contents(disk);
        let repaired = repair(disk).unwrap();
        check_repaired(&before, disk, &repaired, context);
        let lost = ranges(&repaired.lost);
        let states = self.states(&lost);
        let last = Frame(self.steps.len() as u64);
        assert_eq!(repaired.last, last, "{context}");
        let store = open(disk).unwrap();
        assert_eq!(but_embedders(model::held(&store)), *states.last().unwrap(), "{context}");
        for number in 0..=last.0 {
            let gone = lost.iter().find(|(first, last)| (*first..=*last).contains(&number));
            match (store.at(Frame(number)), gone) {
                (Ok(past), None) => {
                    let held = but_embedders(model::held_at(&past));
                    assert_eq!(held, states[number as usize], "{context}: frame {number}");
                    assert_eq!(past.frame(), Frame(number));
                }
                (Err(Error::Lost { asked, first, last }), Some(range)) => {
                    assert_eq!((asked.0, (first.0, last.0)), (number, *range), "{context}");
                }
                (found, _) => panic!("{context}: frame {number} is {found:?}"),
            }
        }
        let read_only = Options::new().open_read_only_on(Arc::new(disk.clone())).unwrap();
        assert_eq!(read_only.digest().unwrap(), store.digest().unwrap(), "{context}");
        store.root().notes().remember("after", "", "repair").unwrap();
        assert_eq!(Some(store.appended()), last.next(), "{context}: numbers go on past what is lost");
        drop(store);
        assert_eq!(open(disk).unwrap().root().notes().recall("after"), "repair", "{context}");
        lost
    }
}

#[test]
fn all_four_kinds_keep_everything_but_the_lost_frames() {
    let history = history(1, 120);
    let segments: Vec<_> = history.files.keys().filter(|path| path.ends_with(".seg")).cloned().collect();
    assert!(segments.len() >= 3, "the history rotates: {segments:?}");
    for held in &history.states(&[])[120] {
        assert!(!held.notes.is_empty() && !held.rows.is_empty(), "{held:?}");
        assert!(!held.episodes.is_empty() && !held.entries.is_empty(), "{held:?}");
    }
    let mut number = 0;
    for path in &segments {
        for (at, kind) in frames_of(&history.files[path]) {
            if kind != FrameKind::Commit {
                continue;
            }
            number += 1;
            if number % 5 > 0 && number < 118 {
                continue;
            }
            let disk = disk_of(&history.files);
            disk.flip(path, at as u64 + 50, 1).unwrap();
            assert_eq!(history.check(&disk, &format!("frame {number}")), [(number, number)]);
        }
    }
    assert_eq!(number, 120);
}

#[test]
fn damage_of_many_kinds_at_once_loses_only_what_it_touched() {
    let out = tempfile::tempdir().unwrap();
    let mut stores = Vec::new();
    let mut lost_frames = 0;
    for seed in 0..60 {
        let history = history(seed, 60 + seed as usize % 50);
        let mut rng = Rng::new(seed);
        let (mut files, mut touched) = (history.files.clone(), vec![false; history.steps.len() + 1]);
        let segments: Vec<_> = files.keys().filter(|path| path.ends_with(".seg")).cloned().collect();
        for _ in 0..=rng.below(4) {
            let path = &segments[rng.below(segments.len() as u64) as usize];
            hurt(&history.files, &mut files, path, &mut touched, &mut rng);
        }
        let disk = disk_of(&files);
        let context = format!("seed {seed}");
        for (first, last) in history.check(&disk, &context) {
            for number in first..=last {
                lost_frames += 1;
                assert!(touched[number as usize], "{context}: frame {number} was not hurt, and is lost");
            }
        }
        if seed % 6 == 0 {
            let root = out.path().join(seed.to_string());
            write_to(&disk, &root);
            stores.push(root);
        }
    }
    assert!(lost_frames > 100, "{lost_frames}");
    crate::specimens::agree(&stores);
}

/// Hurts one file, and marks the frames that it hit.
fn hurt(sound: &Files, files: &mut Files, path: &str, touched: &mut [bool], rng: &mut Rng) {
    let Some(bytes) = files.get_mut(path) else { return };
    let first: usize = path[4..24].parse().unwrap();
    let frames = frames_of(&sound[path]);
    let commits = frames.iter().filter(|(_, kind)| *kind == FrameKind::Commit).count();
    let length = frames.last().unwrap().0 as u64 + 80;
    let (from, to) = match rng.below(5) {
        0 => {
            files.remove(path);
            touched[first..first + commits].fill(true);
            return;
        }
        1 => (0, 4096),
        2 => {
            let at = rng.below(length);
            (at, at + 1)
        }
        _ => {
            let at = rng.below(length);
            (at, (at + 1 + rng.below(2000)).min(length))
        }
    };
    let garbage = rng.chance(2);
    for byte in &mut bytes[from as usize..to as usize] {
        *byte = if garbage { *byte ^ (1 + rng.below(255) as u8) } else { 0 };
    }
    for (i, (at, _)) in frames.iter().enumerate() {
        let end = frames.get(i + 1).map_or(length as usize, |next| next.0);
        let number = first + frames[..i].iter().filter(|(_, kind)| *kind == FrameKind::Commit).count();
        if i < commits && *at < to as usize && end > from as usize {
            touched[number] = true;
        }
    }
}

#[test]
fn a_time_among_lost_frames_is_lost_and_one_before_them_is_not() {
    let history = history(4, 30);
    let path = "log/00000000000000000001.seg";
    let frames = frames_of(&history.files[path]);
    let disk = disk_of(&history.files);
    for (at, _) in &frames[9..12] {
        disk.flip(path, *at as u64 + 20, 1).unwrap();
    }
    assert_eq!(ranges(&repair(&disk).unwrap().lost), [(10, 12)]);
    let store = open(&disk).unwrap();
    let nine = store.at(Frame(9)).unwrap().time().unwrap();
    assert_eq!(store.frame_at(nine).unwrap(), Frame(9));
    assert_eq!(store.at_time(nine).unwrap().frame(), Frame(9));
    let thirteen = store.at(Frame(13)).unwrap().time().unwrap();
    assert!(thirteen > nine.saturating_add(1), "time passed among the lost frames");
    let among = store.at_time(nine.saturating_add(1));
    assert!(matches!(among, Err(Error::Lost { asked: Frame(12), .. })), "{among:?}");
    assert_eq!(store.at_time(store.last_time().unwrap()).unwrap().frame(), Frame(30));
}

/// A store of which one frame was lost and repaired, and what a comparison of two others says of it.
fn compared(
    write: impl Fn(&Store) -> Result<()>,
    lost: usize,
    (a, b): (u64, u64),
) -> Vec<(&'static str, String)> {
    let disk = MemoryDisk::new();
    let store = open(&disk).unwrap();
    write(&store).unwrap();
    store.close().unwrap();
    let path = "log/00000000000000000001.seg";
    let at = frames_of(&contents(&disk)[path])[lost - 1].0;
    disk.flip(path, at as u64 + 20, 1).unwrap();
    assert_eq!(ranges(&repair(&disk).unwrap().lost), [(lost as u64, lost as u64)]);
    let diff = open(&disk).unwrap().diff(Frame(a), Frame(b)).unwrap();
    let items = diff.handles.iter().flat_map(|handle| &handle.items);
    items.map(|item| (item.change.name(), item.item.clone())).collect()
}

#[test]
fn what_stands_behind_lost_frames_is_compared_as_it_is_folded() {
    let one = |change, item: &str| vec![(change, item.to_owned())];
    // Whoever records b knows of nothing that it evicts.
    let ring = |store: &Store| {
        let turns = store.root().episodic("turns")?.with_max(1)?;
        turns.record("a", &Json::object())?;
        turns.clear()?;
        store.root().notes().remember("in between", "", "")?;
        turns.record("b", &Json::object())
    };
    assert_eq!(compared(ring, 3, (4, 5)), [one("removed", "a"), one("added", "b")].concat());
    let notes = |store: &Store| {
        let notes = store.root().notes();
        let none = notes.snapshot_bytes()?;
        notes.remember("k", "", "one")?;
        notes.restore_bytes(&none)?;
        notes.remember("in between", "", "")?;
        notes.remember("k", "", "two").map(drop)
    };
    assert_eq!(compared(notes, 2, (3, 4)), one("changed", "k"));
    let rows = |store: &Store| {
        let docs = store.root().vectors("docs")?;
        let row = |x| docs.upsert_embedding("a", "text", &Json::object(), &[x, 1.0]);
        row(1.0)?;
        docs.clear()?;
        store.root().notes().remember("in between", "", "")?;
        row(2.0)?;
        docs.clear()
    };
    assert_eq!(compared(rows, 2, (3, 4)), one("changed", "a"));
}
