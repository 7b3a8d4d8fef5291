//! What a program holds: notes, vector tables, rings of episodes, scratchpads.
//!
//! A handle turns calls into operations and reads into queries of one state. Whether it belongs to a live
//! store, to a past or to a critical section makes no difference here. It knows nothing of encodings; embedders
//! and token counters run here, before any lane is entered, and only what they answer goes into the log.

pub mod episodic;
pub mod notes;
pub mod vectors;
pub mod working;

use std::sync::Arc;

pub use episodic::Episodic;
pub use notes::{Forgotten, Notes};
pub use vectors::{Reembedded, Reembedding, VectorItem, VectorStore};
pub use working::Working;

use crate::codec::delta::{HandleKind, Op};
use crate::codec::snapshot;
use crate::error::Result;
use crate::store::{Erase, Erased, Reading, Source};
use crate::view::HandleId;

/// What bringing a note or a row back did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// It was saved as it had been.
    Saved,
    /// It was deleted, because it had not been there.
    Removed,
    /// It was so already: nothing was written.
    Unchanged,
    /// It had not been there, and is not: nothing was written.
    WasAbsent,
}

/// What all kinds of handles are made of.
#[derive(Clone, Debug)]
struct Handle {
    source: Source,
    id: HandleId,
}

impl Handle {
    fn new(source: &Source, kind: HandleKind, id: Arc<str>) -> Handle {
        Handle { source: source.clone(), id: HandleId { kind, id } }
    }

    fn name(&self) -> &str {
        &self.id.id
    }

    fn reading(&self) -> Reading {
        self.source.reading()
    }

    fn len(&self) -> usize {
        self.reading().state.len_of(&self.id)
    }

    /// Decides on operations and writes them, see [`Source::change`].
    fn change<'a, T>(&'a self, decide: impl FnOnce(&Reading) -> Result<(Vec<Op<'a>>, T)>) -> Result<T> {
        self.source.change(&self.id.id, decide)
    }

    /// Removes everything under a key for good, or the whole handle.
    fn erase(&self, key: Option<&str>) -> Result<Erased> {
        self.source.erase(&match key {
            Some(key) => Erase::key(self.id.clone(), key),
            None => Erase::handle(self.id.clone()),
        })
    }

    fn clear(&self) -> Result<()> {
        self.change(|_| Ok((vec![Op::Clear(self.id.kind)], ())))
    }

    fn snapshot_bytes(&self) -> Result<Vec<u8>> {
        let reading = self.reading();
        reading.state.snapshot(&self.id, &reading.bodies)
    }

    /// Replaces the handle's state by that of a snapshot; `check` may refuse it.
    fn restore_bytes(&self, bytes: &[u8], check: impl FnOnce(&[Op<'_>]) -> Result<()>) -> Result<()> {
        let ops = snapshot::decode(bytes, self.id.kind)?;
        check(&ops)?;
        self.source.change(&self.id.id, |_| Ok((ops, ())))
    }
}
