//! A state that was saved and loaded is the state that was saved, whatever is done to it afterwards; bytes that were
//! never saved are refused or read as something, and nothing panics.

use bytes::Bytes;
use mnemolog::codec::delta::HandleKind;
use mnemolog::error::Result;
use mnemolog::position::Frame;
use mnemolog::view::State;
use mnemolog::view::saved::{BlockSink, Blocks};
use proptest::prelude::*;

use super::histories::{History, Oracle, agree, any_history, play_on, snapshots};
use super::log::{World, time_of};

/// Blocks in memory, one file's worth, which begin at multiples of 8 of an aligned buffer.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    words: Vec<u64>,
    len: usize,
}

struct Shared(Bytes);

struct Words(Vec<u64>, usize);

impl AsRef<[u8]> for Words {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0)[..self.1]
    }
}

impl BlockSink for Memory {
    fn put(&mut self, block: &[u8]) -> Result<u64> {
        let at = self.words.len() * 8;
        let words = block.len().div_ceil(8);
        self.words.resize(self.words.len() + words, 0);
        bytemuck::cast_slice_mut(&mut self.words)[at..at + block.len()].copy_from_slice(block);
        self.len = at + words * 8;
        Ok(at as u64)
    }
}

impl Blocks for Shared {
    fn get(&self, offset: u64, len: u64) -> Option<Bytes> {
        let (from, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        let to = from.checked_add(len).filter(|to| *to <= self.0.len())?;
        Some(self.0.slice(from..to))
    }
}

impl Memory {
    fn blocks(&self) -> Shared {
        Shared(Bytes::from_owner(Words(self.words.clone(), self.len)))
    }

    /// Bytes of all blocks, the padding between them included.
    pub(crate) fn bytes(&self) -> usize {
        self.len
    }

    /// Flips a bit of a byte, counted around the end.
    pub(crate) fn flip(&mut self, byte: u64, bit: u32) {
        let at = (byte % self.len as u64) as usize;
        bytemuck::cast_slice_mut::<_, u8>(&mut self.words)[at] ^= 1 << bit;
    }

    /// The same blocks where no float is aligned.
    fn unaligned(&self) -> Shared {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&bytemuck::cast_slice(&self.words)[..self.len]);
        Shared(Bytes::from(bytes).slice(1..))
    }
}

pub(crate) fn save(state: &State) -> (Vec<u8>, Memory) {
    let mut memory = Memory::default();
    let directory = state.save(&mut memory).unwrap();
    (directory, memory)
}

pub(crate) fn load(directory: &[u8], memory: &Memory) -> State {
    State::load(directory, &memory.blocks()).unwrap()
}

pub(crate) fn try_load(directory: &[u8], memory: &Memory) -> Option<State> {
    State::load(directory, &memory.blocks()).ok()
}

/// The same world, its state saved and loaded.
pub(crate) fn reopened(world: &World) -> World {
    let (directory, memory) = save(&world.state);
    let state = State::load(&directory, &memory.blocks()).unwrap();
    World { state, ..world.clone() }
}

fn every_read(world: &World) {
    let ids = ["core/x", "y"];
    for id in ids {
        if let Some(notes) = world.state.notes(id) {
            let _ = (notes.list(), notes.find("a", &world.log), notes.keys().rev().count());
        }
        if let Some(rows) = world.state.vectors(id) {
            let _ = rows.search(&[1.0, 2.0], 3, None, &world.log);
            let _ = (rows.heads().rev().count(), rows.dim());
        }
        for kind in HandleKind::ALL {
            for key in ["", "a", "a/b", "z", "never"] {
                let _ = world.state.last(kind, id, key);
            }
        }
    }
    for (handle, _) in world.state.sizes() {
        let _ = world.state.snapshot(&handle, &world.log);
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_was_loaded_agrees_with_the_oracle_and_folds_on(
        early in any_history(),
        late in any_history(),
        later in any_history(),
    ) {
        let mut world = World::default();
        let mut oracle = Oracle::new();
        for part in [early, late, later] {
            play_on(&mut world, &part, &mut oracle);
            world = reopened(&world);
            agree(&world.state, &world.log, &oracle);
            prop_assert_eq!(&snapshots(&reopened(&world)), &snapshots(&world), "saved as it was loaded");
        }
    }

    #[test]
    fn rows_that_are_not_aligned_are_the_same_rows(history in any_history()) {
        let mut world = World::default();
        let mut oracle = Oracle::new();
        play_on(&mut world, &history, &mut oracle);
        let (directory, memory) = save(&world.state);
        world.state = State::load(&directory, &memory.unaligned()).unwrap();
        agree(&world.state, &world.log, &oracle);
    }

    #[test]
    fn damaged_blocks_and_directories_never_panic(
        history in any_history(),
        late in any_history(),
        flips in proptest::collection::vec((any::<bool>(), any::<usize>(), 0..8u8), 1..6),
        cut in any::<usize>(),
    ) {
        let mut world = World::default();
        play_on(&mut world, &history, &mut Oracle::new());
        let (mut directory, mut memory) = save(&world.state);
        for (in_directory, at, bit) in flips {
            let bytes: &mut [u8] =
                if in_directory { &mut directory } else { bytemuck::cast_slice_mut(&mut memory.words) };
            if !bytes.is_empty() {
                let len = bytes.len();
                bytes[at % len] ^= 1 << bit;
            }
        }
        let short = &directory[..cut % (directory.len() + 1)];
        let _ = State::load(short, &memory.blocks());
        if let Ok(state) = State::load(&directory, &memory.blocks()) {
            fold_over(World { state, ..world.clone() }, &late);
        }
        memory.len = cut % (memory.len + 1);
        if let Ok(state) = State::load(&directory, &memory.blocks()) {
            fold_over(World { state, ..world }, &late);
        }
    }

    #[test]
    fn a_directory_of_random_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut memory = Memory::default();
        memory.put(&bytes).unwrap();
        if let Ok(state) = State::load(&bytes, &memory.blocks()) {
            every_read(&World { state, ..World::default() });
        }
    }
}

/// Reads everything, folds a history over it and saves it: none of it needs to make sense, and none panics.
fn fold_over(mut world: World, late: &History) {
    every_read(&world);
    world.state.advance(Frame(1 << 20), time_of(Frame(1 << 20)));
    for (id, change) in late {
        world.commit(id, &change.ops());
    }
    every_read(&world);
    let (directory, memory) = save(&world.state);
    let _ = State::load(&directory, &memory.blocks());
}
