//! Dropping the history before a frame, on demand and by the store's retention policy.
//!
//! Owns which frame is the first that can be kept, and what the base says: the state before it, which is made from
//! a past, beside the writers. How the files come to be belongs to the log.

use super::{Inner, Newer, Store, past};
use crate::error::{Error, Result};
use crate::log::{Near, Plan, Stay, base_frame_bytes};
use crate::position::Frame;
use crate::replay::{Known, LogBodies};

/// What dropping history did, or would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// False if nothing was changed: it was asked what would be, or there is nothing to drop.
    pub done: bool,
    /// The oldest frame that can be looked at from then on.
    pub oldest: Frame,
    /// How many frames cannot be looked at any more, of those that could.
    pub frames: u64,
    /// How many files of the log go or are built anew.
    pub files: usize,
    /// Bytes of the state that takes the place of the dropped frames.
    pub base_bytes: u64,
    /// Bytes of the kept frames.
    pub kept_bytes: u64,
    /// Bytes of the log in use before.
    pub used_before: u64,
    /// Bytes of the log in use afterwards.
    pub used_after: u64,
    /// Bytes of free space that it takes meanwhile.
    pub needs_bytes: u64,
}

/// A compaction that has something to do.
struct Outlook {
    plan: Plan,
    state: Known,
    bodies: LogBodies,
    frame_bytes: usize,
    compaction: Compaction,
}

impl Store {
    /// Drops the history before a frame: the state before it takes the place of the frames that made it, and from
    /// then on the frame before `before` is the oldest that can be looked at. Numbers, times, digests and contents of
    /// all later frames stay. Of notes and rows that were written last before, [`super::History`] ends with what the
    /// base holds.
    ///
    /// Nothing happens where all before the frame is dropped already, as for frames 0 and 1. Frames that a repair
    /// gave up are not dropped in part: where `before` is one of them or comes right behind them, they are
    /// kept. To `dry_run` nothing is written, and the answer says what would be done.
    ///
    /// Reads the state before the frame twice and writes it once, beside the writers of this process; they wait while the
    /// log is opened anew at the end. Other processes that write wait throughout, readers never. Afterwards the log
    /// is as long as that state and the kept frames together. As much free space as the state and one segment take is
    /// needed meanwhile, and reserved before anything is written.
    ///
    /// # Errors
    /// [`Error::NoSuchFrame`]: `before` is later than the next frame. [`Error::DiskFull`], [`Error::Corrupt`],
    /// [`Error::Io`], [`Error::TooLarge`]: nothing was changed. [`Error::ReadOnly`]; [`Error::Locked`];
    /// [`Error::Closed`]. [`Error::Poisoned`]: it failed at the end, and opening the store again finishes it, or
    /// finds everything as it was.
    pub fn compact(&self, before: Frame, dry_run: bool) -> Result<Compaction> {
        self.inner().compact(dry_run, &|| Ok(before))
    }
}

impl Inner {
    /// Compacts before the frame that is answered under the lock.
    ///
    /// # Errors
    /// As [`Store::compact`]; whatever `before` answers.
    pub(super) fn compact(&self, dry_run: bool, before: &dyn Fn() -> Result<Frame>) -> Result<Compaction> {
        if dry_run {
            let outlook = self.outlook(before()?)?;
            return Ok(outlook.map_or_else(|| self.nothing(), |outlook| outlook.compaction));
        }
        let log = self.writable()?;
        let _turn = self.begin(Stay::Section)?;
        drop(log.writer()?);
        let shape = log.hold_shape();
        let Some(Outlook { plan, state, bodies, frame_bytes, compaction }) = self.outlook(before()?)? else {
            return Ok(self.nothing());
        };
        let mut pour =
            |put: &mut dyn FnMut(&[u8], u16) -> Result<()>| state.state.base(&bodies, frame_bytes, put);
        log.compact(&shape, &plan, &mut pour, &mut Newer::of(self))?;
        Ok(Compaction { done: true, used_after: self.files.size().used, ..compaction })
    }

    /// What a compaction comes to; none if it has nothing to do.
    fn outlook(&self, before: Frame) -> Result<Option<Outlook>> {
        let Some(first) = self.first_kept(before)? else { return Ok(None) };
        let oldest = first.previous();
        let files = past::check(self, oldest)?;
        let state = self.pasts.at(&files, self.saving.checkpoints(), oldest)?;
        let bodies = LogBodies::new(&files);
        let near = self.index(|index| Near::of(index, first));
        let (segment_bytes, frame) = (self.options.segment_bytes, (first, state.state.time()));
        let frame_bytes = base_frame_bytes(segment_bytes);
        let mut pour =
            |put: &mut dyn FnMut(&[u8], u16) -> Result<()>| state.state.base(&bodies, frame_bytes, put);
        let plan = Plan::new(&files, near, frame, segment_bytes, &mut pour)?;
        let compaction = Compaction {
            done: false,
            oldest,
            frames: oldest.0 - self.index(|index| index.oldest()).0,
            files: plan.dropped(),
            base_bytes: plan.base_bytes(),
            kept_bytes: plan.kept_bytes(),
            used_before: files.size().used,
            used_after: plan.bytes(),
            needs_bytes: plan.needs_bytes(),
        };
        Ok(Some(Outlook { plan, state, bodies, frame_bytes, compaction }))
    }

    /// The first frame that is kept, where that drops anything.
    fn first_kept(&self, before: Frame) -> Result<Option<Frame>> {
        self.index(|index| {
            let last = index.last();
            if before.previous() > last {
                return Err(Error::NoSuchFrame { asked: before, last });
            }
            // A base as of a lost frame would answer for it.
            let lost = index.lost(before).or_else(|| index.lost(before.previous()));
            let first = lost.map_or(before, |range| range.first);
            Ok((first.previous() > index.oldest()).then_some(first))
        })
    }

    /// The log as it is.
    fn nothing(&self) -> Compaction {
        let used = self.files.size().used;
        Compaction {
            done: false,
            oldest: self.index(|index| index.oldest()),
            frames: 0,
            files: 0,
            base_bytes: 0,
            kept_bytes: used,
            used_before: used,
            used_after: used,
            needs_bytes: 0,
        }
    }
}
