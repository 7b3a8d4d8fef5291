//! A ring of episodes: what happened, in order; beyond its size the oldest go.

use super::Handle;
use crate::codec::delta::{Config, HandleKind, Op, Record};
use crate::codec::json::Json;
use crate::error::{Error, Result};
use crate::store::{Erased, Workspace};
use crate::view::episodic::Episode;
use crate::view::{EpisodicView, View};

/// A ring of episodes. Cheap to clone; every clone of one name in one workspace is the same ring.
#[derive(Clone, Debug)]
pub struct Episodic {
    handle: Handle,
}

impl Workspace {
    /// The ring of episodes with this name.
    ///
    /// # Errors
    /// [`Error::BadName`]: a name with other characters than `a-z`, `0-9`, `-`, `_`, or none.
    pub fn episodic(&self, name: &str) -> Result<Episodic> {
        let handle = Handle::new(self.source(), HandleKind::Episodic, self.handle_id(name)?);
        Ok(Episodic { handle })
    }
}

impl Episodic {
    /// The same ring, holding at most `max` episodes from now on; a smaller `max` than before evicts the
    /// oldest at once. Nothing is written if that is its size already.
    ///
    /// # Errors
    /// [`Error::Invalid`]: 0. [`Error::ReadOnly`] in a past; what committing answers.
    pub fn with_max(self, max: u64) -> Result<Episodic> {
        if max == 0 {
            let found = "0".to_owned();
            return Err(Error::Invalid { what: "the size of the ring", found, expected: "at least 1" });
        }
        self.handle.change(|reading| {
            let now = reading.state.episodic(self.handle.name()).and_then(EpisodicView::max);
            let op = Op::Configure(Config::Episodic(Some(max)));
            Ok((if now == Some(max) { Vec::new() } else { vec![op] }, ()))
        })?;
        Ok(self)
    }

    /// The most episodes that the ring holds; none if that was never configured.
    pub fn max(&self) -> Option<u64> {
        self.handle.reading().state.episodic(self.handle.name()).and_then(EpisodicView::max)
    }

    /// Records an episode now.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::ReadOnly`] in a past; what committing answers. Nothing is recorded then.
    pub fn record(&self, key: &str, value: &Json) -> Result<()> {
        self.record_at(key, value, self.handle.source.now().as_millis())
    }

    /// Records an episode that happened at a time of the caller's, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// As [`Episodic::record`].
    pub fn record_at(&self, key: &str, value: &Json, timestamp_ms: i64) -> Result<()> {
        let op = Op::Record(Record { key, value: value.as_str(), timestamp_ms });
        self.handle.source.put(&self.handle.id.id, op)
    }

    /// The last `n` episodes, newest first.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`]: a value cannot be read.
    pub fn recent(&self, n: usize) -> Result<Vec<Episode>> {
        let reading = self.handle.reading();
        match reading.state.episodic(self.handle.name()) {
            Some(view) => view.recent(n, &reading.bodies),
            None => Ok(Vec::new()),
        }
    }

    /// The episodes whose key begins with a prefix, in the order in which they were recorded.
    ///
    /// # Errors
    /// As [`Episodic::recent`].
    pub fn search_by_key(&self, prefix: &str) -> Result<Vec<Episode>> {
        let reading = self.handle.reading();
        match reading.state.episodic(self.handle.name()) {
            Some(view) => view.search_by_key(prefix, &reading.bodies),
            None => Ok(Vec::new()),
        }
    }

    /// As [`Episodic::recent`], the `max` behind the newest `skip`, and how many there are in all.
    ///
    /// # Errors
    /// As [`Episodic::recent`].
    pub(crate) fn recent_from(&self, skip: usize, max: usize) -> Result<(Vec<Episode>, usize)> {
        let reading = self.handle.reading();
        match reading.state.episodic(self.handle.name()) {
            Some(view) => Ok((view.recent_from(skip, max, &reading.bodies)?, view.len())),
            None => Ok((Vec::new(), 0)),
        }
    }

    /// As [`Episodic::search_by_key`], the `max` behind the first `skip`, and how many there are in all.
    ///
    /// # Errors
    /// As [`Episodic::recent`].
    pub(crate) fn search_from(&self, prefix: &str, skip: usize, max: usize) -> Result<(Vec<Episode>, usize)> {
        let reading = self.handle.reading();
        match reading.state.episodic(self.handle.name()) {
            Some(view) => view.search_from(prefix, skip, max, &reading.bodies),
            None => Ok((Vec::new(), 0)),
        }
    }

    /// Removes all episodes from now on; the size of the ring stays.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] in a past; what committing answers.
    pub fn clear(&self) -> Result<()> {
        self.handle.clear()
    }

    /// Removes every episode with a key for good, from every file of the store. Each leaves its place, so that nothing
    /// older comes back. See [`crate::Store::erase`].
    ///
    /// # Errors
    /// As [`crate::Store::erase`]; [`crate::Error::ReadOnly`] in a past.
    pub fn erase(&self, key: &str) -> Result<Erased> {
        self.handle.erase(Some(key))
    }

    /// Removes the whole ring for good, its name included.
    ///
    /// # Errors
    /// As for one key.
    pub fn erase_all(&self) -> Result<Erased> {
        self.handle.erase(None)
    }

    /// How many episodes there are.
    pub fn len(&self) -> usize {
        self.handle.len()
    }

    /// True if there is no episode.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole ring as bytes: equal for equal rings, on every platform.
    ///
    /// # Errors
    /// As [`Episodic::recent`].
    pub fn snapshot_bytes(&self) -> Result<Vec<u8>> {
        self.handle.snapshot_bytes()
    }

    /// Replaces the ring by that of a snapshot, as one delta.
    ///
    /// # Errors
    /// [`Error::Snapshot`]: not a snapshot of a ring; nothing changes then. What committing answers.
    pub fn restore_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.handle.restore_bytes(bytes, |_| Ok(()))
    }
}
