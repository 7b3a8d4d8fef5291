//! Views of many entries, some of them huge: what stands in leaves that were split, joined, saved and copied is what
//! plain maps hold.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mnemolog::codec::delta::{Body, HandleKind, Note, Op, Upsert};
use mnemolog::position::{Frame, Last, Place, Position};
use mnemolog::view::State;

use super::log::time_of;
use super::saved::{Memory, load, save};
use crate::model::Rng;

/// What a note or a row is, beside its key: its summary or its floats, and when it was saved.
type Held = BTreeMap<String, (String, Last)>;
type Chains = BTreeMap<String, Last>;

/// A state of one handle of notes and one table, and what they hold.
#[derive(Clone, Default)]
struct World {
    state: State,
    notes: Held,
    rows: BTreeMap<String, (Vec<f32>, Last)>,
    note_chains: Chains,
    row_chains: Chains,
}

impl World {
    fn apply(&mut self, op: &Op<'_>) -> Last {
        let frame = self.state.frame().next().unwrap();
        let last = Last { frame, index: 3 };
        let at = Position { segment: 7, offset: frame.0 as u32 };
        self.state.apply(Place { last, at }, time_of(frame), "h", op);
        self.state.advance(frame, time_of(frame));
        last
    }

    fn remember(&mut self, key: &str, summary: &str) {
        let last = self.apply(&Op::Remember(Note { key, summary: Some(summary), body: Body::Text("b") }));
        self.notes.insert(key.to_owned(), (summary.to_owned(), last));
        self.note_chains.insert(key.to_owned(), last);
    }

    fn forget(&mut self, key: &str) {
        let last = self.apply(&Op::Forget { key });
        self.notes.remove(key);
        self.note_chains.insert(key.to_owned(), last);
    }

    fn upsert(&mut self, id: &str, row: &[f32]) {
        let embedding = Cow::Borrowed(row);
        let last = self.apply(&Op::Upsert(Upsert { id, text: "t", metadata: "{}", embedding }));
        self.rows.insert(id.to_owned(), (row.to_vec(), last));
        self.row_chains.insert(id.to_owned(), last);
    }

    fn delete(&mut self, id: &str) {
        let last = self.apply(&Op::Delete { id });
        self.rows.remove(id);
        self.row_chains.insert(id.to_owned(), last);
    }

    /// One random change among `keys` keys.
    fn step(&mut self, rng: &mut Rng, keys: u64, forget_one_in: u64) {
        let n = rng.below(keys);
        let key = ["deep/er/", "", "a/"][(n % 3) as usize].to_owned() + &n.to_string();
        match (rng.below(3), rng.chance(forget_one_in)) {
            (0, true) => self.delete(&key),
            (0, false) => {
                let row: Vec<f32> = (0..40).map(|_| rng.below(1000) as f32).collect();
                self.upsert(&key, &row);
            }
            (_, true) => self.forget(&key),
            (_, false) => {
                let most = if rng.chance(200) { 20_000 } else { 90 };
                let summary = "s".repeat(rng.below(most) as usize);
                self.remember(&key, &summary);
            }
        }
    }

    fn reopen(&mut self) {
        let (directory, memory) = save(&self.state);
        self.state = load(&directory, &memory);
    }

    fn check(&self) {
        let notes = self.state.notes("h").cloned().unwrap_or_default();
        let mut found: Held = BTreeMap::new();
        for head in notes.heads() {
            assert_eq!((head.at.offset, head.time), (head.last.frame.0 as u32, time_of(head.last.frame)));
            found.insert(head.key.to_owned(), (head.summary.unwrap().to_owned(), head.last));
        }
        assert_eq!(found, self.notes);
        let mut keys: Vec<&str> = notes.keys().rev().collect();
        keys.reverse();
        assert!(notes.keys().eq(keys.iter().copied()), "backwards is the same way");
        assert!(keys.is_sorted_by_key(|key| (key.split('/').count(), key.split('/').collect::<Vec<_>>())));
        let rows = self.state.vectors("h").cloned().unwrap_or_default();
        let found = rows.heads().map(|head| (head.id.to_owned(), (head.embedding.to_vec(), head.last)));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), self.rows);
        for (kind, chains) in [(HandleKind::Notes, &self.note_chains), (HandleKind::Vector, &self.row_chains)]
        {
            for (key, last) in chains {
                assert_eq!(self.state.last(kind, "h", key), *last, "the chain of {key:?}");
            }
        }
    }
}

#[test]
fn many_entries_of_all_sizes_are_what_plain_maps_hold() {
    let (mut world, rng) = (World::default(), &mut Rng::new(1));
    let mut pasts = Vec::new();
    // It grows, is turned over, and shrinks to almost nothing, with pasts held that must not change.
    for (keys, forget_one_in, steps) in [(9000, 9, 20_000), (9000, 2, 12_000), (300, 20, 2000)] {
        for step in 0..steps {
            world.step(rng, keys, forget_one_in);
            if step % 4000 == 1999 {
                world.check();
                pasts.push(world.clone());
                world.reopen();
            }
        }
    }
    for key in world.notes.clone().into_keys() {
        world.forget(&key);
    }
    for id in world.rows.clone().into_keys() {
        world.delete(&id);
    }
    world.check();
    world.upsert("another width", &[1.0, 2.0]);
    world.remember("", "");
    pasts.push(world);
    for past in &mut pasts {
        past.check();
        past.reopen();
        past.check();
    }
}

#[test]
fn keys_in_order_up_and_down_leave_full_leaves() {
    let mut sizes = Vec::new();
    for keys in [(0..20_000).collect::<Vec<u32>>(), (0..20_000).rev().collect()] {
        let mut world = World::default();
        for n in keys {
            world.remember(&format!("user/k{n:07}"), "a summary of thirty bytes 0000");
        }
        world.check();
        sizes.push(save(&world.state).0.len());
    }
    // A directory names the leaves: 20,000 entries of 84 bytes in leaves of up to 1 KiB, each line about 15 bytes.
    assert!(sizes.iter().all(|bytes| *bytes < 20_000 / 11 * 18), "{sizes:?}");
}

#[test]
fn rows_that_were_deleted_are_not_saved() {
    let mut world = World::default();
    for n in 0..1000 {
        world.upsert(&n.to_string(), &[n as f32; 64]);
    }
    for n in 0..900 {
        world.delete(&n.to_string());
    }
    let (_, memory) = save(&world.state);
    assert!(memory.bytes() < 100 * 64 * 4 + 40_000, "{} bytes", memory.bytes());
    world.reopen();
    world.check();
}

#[test]
fn damage_in_large_states_is_read_as_something_and_never_panics() {
    let (mut world, rng) = (World::default(), &mut Rng::new(2));
    (0..3000).for_each(|_| world.step(rng, 900, 8));
    let (directory, memory) = save(&world.state);
    for _ in 0..60 {
        let (mut directory, mut memory): (Vec<u8>, Memory) = (directory.clone(), memory.clone());
        let flips = 1 + rng.below(40);
        for _ in 0..flips {
            if rng.chance(6) {
                let at = rng.below(directory.len() as u64) as usize;
                directory[at] ^= 1 << rng.below(8);
            } else {
                memory.flip(rng.next(), rng.below(8) as u32);
            }
        }
        let Some(state) = super::saved::try_load(&directory, &memory) else { continue };
        let mut damaged = World { state, ..World::default() };
        damaged.state.advance(Frame(1 << 20), time_of(Frame(1 << 20)));
        for _ in 0..300 {
            damaged.step(rng, 900, 3);
        }
        let notes = damaged.state.notes("h").cloned().unwrap_or_default();
        let rows = damaged.state.vectors("h").cloned().unwrap_or_default();
        let _ = (notes.list(), notes.keys().rev().count(), rows.heads().rev().count());
        damaged.reopen();
    }
}
