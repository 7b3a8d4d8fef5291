//! Beginning an empty log with a base: the state at a frame, without the history before it.
//!
//! The base, the segment behind it and the end of the empty first segment are one change of several files, so a
//! crash leaves the empty log or the base.

use super::build::{Build, header_area};
use super::change::Change;
use super::commit::{Log, Tail, locked};
use super::group::CatchUp;
use super::recover::{Writing, open_locked};
use super::settle::random;
use crate::codec::segment::SegmentHeader;
use crate::error::{Error, Result};
use crate::position::{Frame, SegmentId, Time};
use crate::segment::GROWTH_MIN_BYTES;

/// The content of a base that is one frame.
#[derive(Debug)]
pub struct Base<'b> {
    /// The frame whose state it is.
    pub frame: Frame,
    /// That frame's time.
    pub time: Time,
    /// Its envelopes, whatever seed they were encoded with.
    pub payload: &'b [u8],
    /// How many deltas they are.
    pub deltas: u16,
}

impl Log {
    /// Makes a log without a frame begin with a base, and opens it anew; the caller holds its turn. Durable when it
    /// returns.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the log holds a frame, or the base is of frame 0. What the disk answers while the files
    /// are built: nothing was changed. [`Error::Poisoned`]: a later failure; whoever takes the lock next finishes
    /// the change, if it was stated.
    pub fn begin_with(&self, base: &Base<'_>, catch_up: &mut dyn CatchUp) -> Result<()> {
        // Nobody appends from the look at the empty log to the end of the change.
        let _shape = locked(&self.shape);
        let mut tail = locked(&self.tail);
        self.check_poison()?;
        let empty =
            tail.as_ref().map(|tail| tail.ordinal == 0 && tail.place.frames == 0).ok_or(Error::Closed)?;
        let first = base.frame.next().filter(|_| empty && base.frame > Frame::ZERO);
        let Some(first) = first else {
            let expected = "a base of frame 1 or later, for an empty store";
            return Err(Error::Invalid { what: "the base", found: base.frame.to_string(), expected });
        };
        let change = self.build_base(base, first)?;
        // Once it is stated the files that are open here may be gone, whatever fails.
        let done = change.commit().and_then(|()| self.open_anew(&mut tail, catch_up));
        done.map_err(|e| self.poison(e))
    }

    fn build_base(&self, base: &Base<'_>, first: Frame) -> Result<Change<'_>> {
        let (store, created) = (self.store, base.time);
        let mut header = SegmentHeader { store, first, salt: 0, previous_nonce: 0, created };
        let nonce = random(&*self.disk)?;
        let mut build = Build::begin(&*self.disk, header.clone(), base.frame, base.time)?;
        build.base(base.payload, base.deltas)?;
        build.seal(nonce, None)?;
        (header.salt, header.previous_nonce) = (random(&*self.disk)?, nonce);
        let mut change = Change::begin(&*self.disk, store)?;
        change.build(SegmentId::Base { first, part: 1 }.to_string(), build.salt(), build.bytes(), 0)?;
        let segment = SegmentId::Segment { first }.to_string();
        change.build(segment, header.salt, &header_area(&header), GROWTH_MIN_BYTES)?;
        change.drop_file(SegmentId::Segment { first: Frame(1) }.to_string());
        Ok(change)
    }

    /// Drops the own view of the files and folds anew; the lock stays where it is.
    ///
    /// # Errors
    /// As [`super::open`].
    pub(super) fn open_anew(&self, slot: &mut Option<Tail>, catch_up: &mut dyn CatchUp) -> Result<()> {
        let lock = self.group.take_lock().ok_or(Error::Closed)?;
        let now = catch_up.now();
        let mut opening = open_locked(&self.disk, self.options, lock, now, catch_up.fold())?;
        let Writing { tail, lock, durable_file } = opening.writing.take().ok_or(Error::ReadOnly)?;
        let mut parts = Some((opening, tail));
        catch_up.install(&mut || {
            if let Some((opening, tail)) = parts.take() {
                self.take_over(opening, tail, slot);
            }
        });
        *locked(&self.durable_file) = durable_file;
        self.group.put_lock(lock);
        Ok(())
    }
}
