//! A persistent ordered map whose leaves are bytes: the form in memory is the form that is saved.
//!
//! Owns a map from texts to small records, each with a text that may be empty. Does not know what records mean, where
//! saved leaves stand, nor who vouches for them.
//!
//! Invariants: a clone takes constant time and never sees what is done to the original. Leaves that were loaded are
//! shared bytes, looked at when they are read and copied when they are changed. Whatever bytes they are, nothing
//! panics: what is no entry reads as absent.

mod keys;
mod leaf;
mod node;

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use self::leaf::Leaf;
use self::node::Node;
use super::saved::{Loader, Saver};
use crate::codec::wire::{Malformed, Reader, put};
use crate::error::Result;
use crate::position::{Frame, Last, Position};

/// How many bytes of leaves are written as one block.
const BLOCK_BYTES: usize = 1 << 20;

/// An order of keys, told from their bytes. Only equal keys compare equal.
pub(super) trait Order {
    /// What is found out about a key once, before it is compared with many.
    type Known: Copy;

    /// Finds it out.
    fn know(key: &[u8]) -> Self::Known;

    /// A number that is not higher for a key than for one behind it, told from what stands behind the first `skip`
    /// bytes. It is compared only among keys that share these bytes.
    fn digest(key: &[u8], known: Self::Known, skip: usize) -> u32;

    /// Whether a key of the map comes before another key, of which something is known.
    fn compare(stored: &[u8], key: &[u8], known: Self::Known) -> Ordering;
}

/// The first bytes of a key as words, so that many are compared at once; zeros behind its end.
type Start = [u64; 4];

/// A key that is looked for.
pub(super) struct Wanted<'k, O: Order> {
    key: &'k [u8],
    start: Start,
    known: O::Known,
}

impl<'k, O: Order> Wanted<'k, O> {
    fn new(key: &'k [u8]) -> Self {
        Wanted { key, start: start(key), known: O::know(key) }
    }

    /// Whether a key of the map comes before this one.
    fn compare(&self, stored: &[u8]) -> Ordering {
        O::compare(stored, self.key, self.known)
    }
}

fn start(key: &[u8]) -> Start {
    let mut bytes = [0; size_of::<Start>()];
    put(&mut bytes, 0, key.get(..size_of::<Start>()).unwrap_or(key));
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|place| words.get(place).copied().map_or(0, u64::from_le_bytes))
}

/// The order of keys as bytes.
pub(super) enum ByteOrder {}

impl Order for ByteOrder {
    type Known = ();

    fn know(_: &[u8]) {}

    fn digest(key: &[u8], (): (), skip: usize) -> u32 {
        let rest = key.get(skip..).unwrap_or_default();
        let byte = |place| rest.get(place).copied().unwrap_or_default();
        u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)])
    }

    fn compare(stored: &[u8], key: &[u8], (): ()) -> Ordering {
        stored.cmp(key)
    }
}

/// What is kept with a key: always as many bytes.
pub(super) trait Record: Copy {
    /// The record's bytes, an array.
    type Bytes: AsRef<[u8]>;
    /// How many they are.
    const LEN: usize;

    /// The record as bytes.
    fn to_bytes(self) -> Self::Bytes;

    /// The record that bytes stand for, if they do.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

/// One entry, borrowed from its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a, R> {
    pub(super) key: &'a str,
    pub(super) record: R,
    pub(super) text: &'a str,
}

/// The map.
pub(super) struct Packed<O, R> {
    root: Arc<Node>,
    len: usize,
    of: PhantomData<fn(O) -> R>,
}

impl<O: Order, R: Record> Packed<O, R> {
    /// How many entries it has.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// True if it has none.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry of a key.
    pub(super) fn get(&self, key: &str) -> Option<Entry<'_, R>> {
        if self.len == 0 {
            return None;
        }
        let wanted = Wanted::<O>::new(key.as_bytes());
        let leaf = self.root.leaf(&wanted)?;
        leaf.entry(leaf.find(wanted.key)?)
    }

    /// Every entry, in the order of the keys.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Entry<'_, R>> {
        self.root.leaves().flat_map(Leaf::entries::<R>)
    }

    /// Saves an entry, over one that has the same key.
    pub(super) fn insert(&mut self, key: &str, record: R, text: &str) {
        let key = key.as_bytes();
        let wanted = Wanted::<O>::new(key);
        let mut is_new = false;
        // Keys that come in order are compared once.
        let end = self.root.last_leaf().and_then(|leaf| leaf.end(&wanted));
        Node::change::<O, R>(&mut self.root, end.is_none().then_some(&wanted), |leaf| {
            let place = end.map_or_else(|| leaf.search(&wanted), Err);
            is_new = place.is_err();
            leaf.put::<R>(place, key, record, text.as_bytes())
        });
        self.len = self.len.saturating_add(usize::from(is_new));
    }

    /// Takes the entry of a key away, and answers its record. Without one, nothing is touched.
    pub(super) fn remove(&mut self, key: &str) -> Option<R> {
        let record = self.get(key)?.record;
        let wanted = Wanted::<O>::new(key.as_bytes());
        Node::change::<O, R>(&mut self.root, Some(&wanted), |leaf| {
            if let Ok(place) = leaf.search(&wanted) {
                leaf.remove::<R>(place);
            }
            Vec::new()
        });
        self.len -= 1;
        Some(record)
    }

    /// Writes the leaves as blocks, and into the directory where each begins.
    pub(super) fn save(&self, saver: &mut Saver<'_>) -> Result<()> {
        saver.say(&(self.len as u64, self.root.leaves().count() as u64))?;
        saver.blocks(BLOCK_BYTES, self.root.leaves().map(Leaf::bytes))?;
        for leaf in self.root.leaves() {
            saver.say(&(leaf.first_key(), leaf.bytes().len() as u64))?;
        }
        Ok(())
    }

    /// The map that was saved, its leaves as they stand in the blocks.
    pub(super) fn load(loader: &mut Loader<'_>) -> Result<Self, Malformed> {
        let (len, count): (u64, u64) = loader.take("saved leaves")?;
        let mut blocks = loader.blocks("saved leaves")?.into_iter();
        let mut block = Bytes::new();
        let mut leaves = Vec::new();
        for _ in 0..count {
            let (first, bytes): (&[u8], u64) = loader.take("saved leaf")?;
            if block.is_empty() {
                block = blocks.next().unwrap_or_default();
            }
            match usize::try_from(bytes) {
                Ok(bytes) if (1..=block.len()).contains(&bytes) => {
                    leaves.push((first, Leaf::frozen(block.split_to(bytes))));
                }
                _ => return Err(loader.malformed("saved leaf", "bytes of a block", bytes)),
            }
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        Ok(Packed { root: Arc::new(Node::build::<O>(leaves)), len, of: PhantomData })
    }
}

impl Record for Last {
    type Bytes = [u8; 12];
    const LEN: usize = 12;

    fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        put(&mut bytes, 0, &self.frame.0.to_le_bytes());
        put(&mut bytes, 8, &self.index.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes, 0);
        Some(Last { frame: Frame(r.u64("frame").ok()?), index: r.u32("index").ok()? })
    }
}

impl Record for Position {
    type Bytes = [u8; 8];
    const LEN: usize = 8;

    fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        put(&mut bytes, 0, &self.segment.to_le_bytes());
        put(&mut bytes, 4, &self.offset.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes, 0);
        Some(Position { segment: r.u32("segment").ok()?, offset: r.u32("offset").ok()? })
    }
}

impl<O, R> Default for Packed<O, R> {
    fn default() -> Self {
        Packed { root: Arc::default(), len: 0, of: PhantomData }
    }
}

impl<O, R> Clone for Packed<O, R> {
    fn clone(&self) -> Self {
        Packed { root: self.root.clone(), len: self.len, of: PhantomData }
    }
}

impl<O: Order, R: Record + fmt::Debug> fmt::Debug for Packed<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
