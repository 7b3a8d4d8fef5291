//! The store's retention policy: how much history it keeps, and the compaction that holds it to that.
//!
//! The policy lies in the store and goes with its directory. Nothing is dropped by itself: whoever wants the store
//! to stay small applies the policy, as often as it should be held to.

use super::{Compaction, Inner, Store, past};
use crate::error::{Error, Result};
use crate::log::{self, Retention};
use crate::position::{Frame, Time};

impl Store {
    /// How much history the store keeps; none if it keeps everything.
    ///
    /// # Errors
    /// [`Error::Damaged`]: the policy does not check out; set it again. [`Error::NewerFormat`]; [`Error::Io`].
    pub fn retention(&self) -> Result<Option<Retention>> {
        let inner = self.inner();
        log::retention(&*inner.disk, inner.id)
    }

    /// Says how much history the store keeps from now on; none keeps everything. Durable when it returns. Nothing
    /// is dropped before [`Store::compact_by_policy`]. Forks, dumps and stores that are loaded have no policy.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Locked`]; [`Error::Closed`]; [`Error::Poisoned`]; [`Error::DiskFull`];
    /// [`Error::Io`].
    pub fn set_retention(&self, policy: Option<Retention>) -> Result<()> {
        self.inner().writable()?.set_retention(policy)
    }

    /// Drops the history that the policy does not keep, as [`Store::compact`] does. Right afterwards the log is as long
    /// as the state before the kept frames, and these. Where the policy is applied at least as often as the log grows
    /// by that much, the log stays within twice that and one segment.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the store has no policy. As [`Store::retention`] and [`Store::compact`].
    pub fn compact_by_policy(&self, dry_run: bool) -> Result<Compaction> {
        let policy = self.retention()?;
        let policy = policy.ok_or_else(|| {
            let (what, found) = ("the retention policy", "none".to_owned());
            Error::Invalid { what, found, expected: "one that was set before" }
        })?;
        self.inner().compact(dry_run, &|| self.inner().first_in(policy))
    }
}

impl Inner {
    /// The first frame that a policy keeps.
    fn first_in(&self, policy: Retention) -> Result<Frame> {
        let (oldest, last) = self.index(|index| (index.oldest(), index.last()));
        match policy {
            Retention::Frames(count) => Ok(Frame(last.0.saturating_sub(count).saturating_add(1))),
            Retention::Duration(kept) => {
                let kept = u64::try_from(kept.as_micros()).unwrap_or(u64::MAX);
                let older = self.options.clock.now().as_micros().checked_sub(kept);
                // A frame of exactly that age is kept.
                let until = older.and_then(|us| us.checked_sub(1)).and_then(Time::from_micros);
                let gone = until.map_or(Ok(oldest), |time| past::frame_at(self, time))?;
                Ok(Frame(gone.max(oldest).0.saturating_add(1)))
            }
        }
    }
}
