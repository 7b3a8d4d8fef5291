//! Looks of a log that is open for writing beside other processes, without the lock: what a read needs.
//!
//! A look takes in what DURABLE promises and not a byte more, so the place behind it is one that a look under the lock
//! could have ended at, and the next commit goes on from there: it holds the place against the files as ever, and
//! writes again whatever stands above the last promise. Where a look cannot go on from the known place, the log is
//! served as readers serve it, and the next commit opens it anew.
//!
//! Invariant: while a group of this process is open, nobody else appends, so there is nothing to look for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::catchup::{self, Caught, Place};
use super::commit::{Log, Tail, locked};
use super::group::{CatchUp, Stay};
use super::recover::{self, Opening};
use super::{Index, Mark};
use crate::error::{Error, Result};
use crate::segment::Segment;

/// What a look without the lock amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// All there is was taken in.
    All,
    /// All that is promised was; a commit stands behind it. Somebody is at it, or has died at it.
    Promised,
    /// Nothing was: files were replaced, are being replaced, or are damaged.
    Unclear,
}

impl Log {
    /// Folds what others have been promised, without the lock. It waits for nothing but a look of another thread.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; [`Error::Closed`]; [`Error::Io`].
    pub fn glance(&self, catch_up: &mut dyn CatchUp) -> Result<Glance> {
        let _looking = locked(&self.looking);
        let Some(place) = self.unlooked()? else { return Ok(Glance::All) };
        let fold = catch_up.fold();
        let seen = catchup::beside_writers(&*self.disk, self.options, &self.files, &place, fold)?;
        let Some((caught, more)) = seen else { return Ok(Glance::Unclear) };
        match caught {
            Caught::Same { promised } => {
                self.durable.fetch_max(promised.0, Ordering::AcqRel);
            }
            Caught::More(more) => self.take_in(&more, catch_up),
            Caught::Anew(_) => {}
        }
        Ok(if more { Glance::Promised } else { Glance::All })
    }

    /// Takes the lock if it is free, and folds and mends as a commit would: the last holder may have died.
    ///
    /// # Errors
    /// [`Error::Locked`], at once; otherwise as [`Log::join`].
    pub fn settle(&self, catch_up: &mut dyn CatchUp) -> Result<()> {
        self.join_within(Duration::ZERO, Stay::Commit, catch_up).map(drop)
    }

    /// Opens the log anew as readers do. The next commit opens it once more.
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::NoSuchStore`] and [`Error::OtherStore`] where the directory was replaced;
    /// [`Error::Poisoned`]; [`Error::Closed`]; [`Error::Io`].
    pub fn serve(&self, catch_up: &mut dyn CatchUp) -> Result<()> {
        let _looking = locked(&self.looking);
        let Some(place) = self.unlooked()? else { return Ok(()) };
        let opening = recover::open_for_reading(&*self.disk, self.options, catch_up.fold())?;
        if let Some(damage) = opening.recovery.damage {
            return Err(damage.into());
        }
        catchup::same_store(&*self.disk, place.store, opening.store)?;
        let mut slot = locked(&self.tail);
        if let Some(tail) = slot.as_mut() {
            let mut parts = Some(opening);
            catch_up.install(&mut || {
                if let Some(opening) = parts.take() {
                    self.serve_from(opening, tail);
                }
            });
        }
        Ok(())
    }

    /// The place to look from; none if what is known is all there is.
    fn unlooked(&self) -> Result<Option<Place>> {
        self.check_poison()?;
        if self.group.holds_for_life() || self.group.is_open() {
            return Ok(None);
        }
        locked(&self.tail).as_ref().map(|tail| Some(tail.place.clone())).ok_or(Error::Closed)
    }

    fn serve_from(&self, opening: Opening, tail: &mut Tail) {
        let Opening { files, index, durable, place, .. } = opening;
        let files = files.now();
        let Some(segment) = files.last() else { return };
        let mark = Mark { frame: place.chain.number, segment: segment.id().first(), offset: place.end };
        tail.segment = segment.clone();
        tail.ordinal = u32::try_from(files.len() - 1).unwrap_or(u32::MAX);
        (tail.place, tail.served, tail.dir_synced) = (place, true, false);
        self.go_on_with(files.to_vec(), index, mark, durable.0);
    }

    /// Makes another log's files and frames this one's.
    pub(super) fn go_on_with(&self, files: Vec<Arc<Segment>>, with: Index, mark: Mark, durable: u64) {
        {
            // Held over both: who looks into the index takes the files of the same log.
            let mut index = locked(&self.index);
            self.files.replace(files);
            *index = with;
        }
        *locked(&self.mark) = mark;
        self.durable.store(durable, Ordering::Release);
        self.wake();
    }
}
