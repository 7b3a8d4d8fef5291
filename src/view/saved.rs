//! A state as bytes that another opening takes up again: blocks, and a directory that says where they are.
//!
//! Owns the directory and how a state is taken apart. Does not know where blocks stand, nor who vouches for them:
//! the caller holds a digest over all of it, so bytes that are wrong here need no good answer, only no panic.
//!
//! Invariant: loading what was saved gives a state that answers every read as before, ends every chain in the
//! same place, and folds on the same. Saved bytes are a cache: they are read by the [`FOLD_VERSION`] that wrote them.

use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::State;
use crate::codec::delta::HandleKind;
use crate::codec::wire::Malformed;
use crate::error::{Error, Result};
use crate::position::{Frame, Last, Position, Time};

/// Raised whenever the fold or the saved form changes its meaning: what another version saved is not loaded.
pub const FOLD_VERSION: u32 = 3;

/// How many bytes a block of single items has before the next one is begun.
const ITEMS_BYTES: usize = 256 * 1024;

/// Takes the blocks of a state that is being saved.
pub trait BlockSink {
    /// Appends a block at a multiple of 8, and answers where it stands.
    ///
    /// # Errors
    /// It cannot be written.
    fn put(&mut self, block: &[u8]) -> Result<u64>;
}

/// Gives the blocks of a state back.
pub trait Blocks {
    /// The bytes at a place, shared and not copied; `None` if they are not all there.
    fn get(&self, offset: u64, len: u64) -> Option<Bytes>;
}

impl State {
    /// Saves the state: everything that reads, later folds and chains depend on. Answers the directory, which names
    /// the places of the blocks.
    ///
    /// # Errors
    /// A block cannot be written.
    pub fn save(&self, out: &mut dyn BlockSink) -> Result<Vec<u8>> {
        let mut saver = Saver { directory: Vec::new(), out };
        saver.say(&(self.frame.0, self.time.as_micros()))?;
        saver.views(HandleKind::Notes, &self.notes)?;
        saver.views(HandleKind::Vector, &self.vectors)?;
        saver.views(HandleKind::Episodic, &self.episodic)?;
        saver.views(HandleKind::Working, &self.working)?;
        Ok(saver.directory)
    }

    /// The state that was saved. What the blocks hold is looked at when it is read.
    ///
    /// # Errors
    /// The directory is not one, or names blocks that are not there.
    pub fn load(directory: &[u8], blocks: &dyn Blocks) -> Result<State, Malformed> {
        let mut loader = Loader { rest: directory, len: directory.len(), blocks };
        let (frame, time): (u64, u64) = loader.take("saved frame")?;
        let state = State {
            frame: Frame(frame),
            time: time_of(time)?,
            notes: loader.views(HandleKind::Notes)?,
            vectors: loader.views(HandleKind::Vector)?,
            episodic: loader.views(HandleKind::Episodic)?,
            working: loader.views(HandleKind::Working)?,
        };
        match loader.rest.len() {
            0 => Ok(state),
            more => Err(loader.malformed("directory", "its end", format!("{more} more"))),
        }
    }
}

/// A view that can be saved and loaded.
pub(super) trait Saved: Clone {
    /// Writes the view's blocks, and into the directory what loading it needs.
    fn save(&self, saver: &mut Saver<'_>) -> Result<()>;

    /// Reads back what [`Saved::save`] wrote.
    fn load(loader: &mut Loader<'_>) -> Result<Self, Malformed>;
}

/// A directory being written.
pub(super) struct Saver<'a> {
    directory: Vec<u8>,
    out: &'a mut dyn BlockSink,
}

/// A directory being read.
pub(super) struct Loader<'a> {
    rest: &'a [u8],
    len: usize,
    blocks: &'a dyn Blocks,
}

impl Saver<'_> {
    /// Adds a value to the directory.
    pub(super) fn say<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        encode(&mut self.directory, value)
    }

    /// Writes items one behind another into as many blocks as they need, and adds these to the directory.
    pub(super) fn items<T: Serialize>(&mut self, items: impl Iterator<Item = T>) -> Result<()> {
        let (mut block, mut spans) = (Vec::new(), Vec::new());
        for item in items {
            encode(&mut block, &item)?;
            if block.len() >= ITEMS_BYTES {
                spans.push((self.out.put(&block)?, block.len() as u64));
                block.clear();
            }
        }
        if !block.is_empty() {
            spans.push((self.out.put(&block)?, block.len() as u64));
        }
        self.say(&spans)
    }

    /// Writes parts one behind another into blocks of about `most` bytes, and adds these to the directory. No part
    /// is divided.
    pub(super) fn blocks<P: AsRef<[u8]>>(
        &mut self,
        most: usize,
        parts: impl Iterator<Item = P>,
    ) -> Result<()> {
        let (mut block, mut spans) = (Vec::new(), Vec::new());
        for part in parts {
            let part = part.as_ref();
            if !block.is_empty() && block.len() + part.len() > most {
                spans.push((self.out.put(&block)?, block.len() as u64));
                block.clear();
            }
            block.extend_from_slice(part);
        }
        if !block.is_empty() {
            spans.push((self.out.put(&block)?, block.len() as u64));
        }
        self.say(&spans)
    }

    fn views<V: Saved>(&mut self, kind: HandleKind, views: &OrdMap<Arc<str>, V>) -> Result<()> {
        self.say(&(kind as u8, views.len() as u64))?;
        for (id, view) in views {
            self.say(&**id)?;
            view.save(self)?;
        }
        Ok(())
    }
}

impl<'a> Loader<'a> {
    /// The next value of the directory.
    pub(super) fn take<T: Deserialize<'a>>(&mut self, what: &'static str) -> Result<T, Malformed> {
        match postcard::take_from_bytes(self.rest) {
            Ok((value, rest)) => {
                self.rest = rest;
                Ok(value)
            }
            Err(e) => Err(self.malformed(what, "a postcard value", e)),
        }
    }

    /// Hands each block of items to `item` until it took all of them: it answers what it left of the block.
    pub(super) fn items(
        &mut self,
        what: &'static str,
        mut item: impl for<'b> FnMut(&'b [u8]) -> Result<&'b [u8], Malformed>,
    ) -> Result<(), Malformed> {
        for block in self.blocks(what)? {
            let mut rest = &block[..];
            while !rest.is_empty() {
                rest = item(rest)?;
            }
        }
        Ok(())
    }

    /// The blocks that come next in the directory, none of them empty.
    pub(super) fn blocks(&mut self, what: &'static str) -> Result<Vec<Bytes>, Malformed> {
        let spans: Vec<(u64, u64)> = self.take(what)?;
        let spans = spans.into_iter().filter(|(_, len)| *len > 0);
        spans.map(|(offset, len)| self.block_at(what, offset, len)).collect()
    }

    /// An error about the directory at the place that was read last.
    pub(super) fn malformed(
        &self,
        what: &'static str,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> Malformed {
        Malformed::new(what, (self.len - self.rest.len()) as u64, expected, found)
    }

    fn block_at(&self, what: &'static str, offset: u64, len: u64) -> Result<Bytes, Malformed> {
        let block = self.blocks.get(offset, len).filter(|block| block.len() as u64 == len);
        block.ok_or_else(|| self.malformed(what, format!("{len} bytes at {offset}"), "fewer"))
    }

    fn views<V: Saved>(&mut self, kind: HandleKind) -> Result<OrdMap<Arc<str>, V>, Malformed> {
        let (tag, count): (u8, u64) = self.take("saved kind")?;
        if tag != kind as u8 {
            return Err(self.malformed("saved kind", kind as u8, tag));
        }
        let mut views = OrdMap::new();
        for _ in 0..count {
            let id: &str = self.take("saved handle")?;
            views.insert(id.into(), V::load(self)?);
        }
        Ok(views)
    }
}

/// A position as the saved form has it.
pub(super) type SavedPosition = (u32, u32);

pub(super) fn position(at: Position) -> SavedPosition {
    (at.segment, at.offset)
}

pub(super) fn position_of((segment, offset): SavedPosition) -> Position {
    Position { segment, offset }
}

/// The identity of a delta as the saved form has it.
pub(super) type SavedLast = (u64, u32);

pub(super) fn last(last: Last) -> SavedLast {
    (last.frame.0, last.index)
}

pub(super) fn last_of((frame, index): SavedLast) -> Last {
    Last { frame: Frame(frame), index }
}

pub(super) fn time_of(time_us: u64) -> Result<Time, Malformed> {
    Time::from_micros(time_us).ok_or_else(|| Malformed::new("saved time", 0, "a time", time_us))
}

/// The first item of a block, and what stands behind it.
pub(super) fn item<'b, T: Deserialize<'b>>(
    what: &'static str,
    bytes: &'b [u8],
) -> Result<(T, &'b [u8]), Malformed> {
    postcard::take_from_bytes(bytes).map_err(|e| Malformed::new(what, 0, "a postcard value", e))
}

fn encode<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<()> {
    let encoded = postcard::to_io(value, out).map(drop);
    encoded.map_err(|e| Error::Invalid {
        what: "the state",
        found: e.to_string(),
        expected: "values that can be saved",
    })
}
