//! Beginning an empty log with a base: the state at a frame, without the history before it.
//!
//! The base, the segment behind it and the end of the empty first segment are one change of several files, so a
//! crash leaves the empty log or the base.

use super::build::header_area;
use super::change::Change;
use super::commit::{Log, Tail, locked};
use super::compact::{self, Pour};
use super::group::CatchUp;
use super::recover::{Writing, open_locked};
use super::settle::random;
use crate::codec::segment::SegmentHeader;
use crate::error::{Error, Result};
use crate::position::{Frame, SegmentId, Time};
use crate::segment::GROWTH_MIN_BYTES;

impl Log {
    /// Makes a log without a frame begin with a base, the state at `frame`, which is of `time`, and opens it anew; the
    /// caller holds its turn. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the log holds a frame, or the base is of frame 0. What the disk answers while the files
    /// are built: nothing was changed. [`Error::Poisoned`]: a later failure; whoever takes the lock next finishes
    /// the change, if it was stated.
    pub fn begin_with(
        &self,
        (frame, time): (Frame, Time),
        pour: &mut Pour<'_>,
        catch_up: &mut dyn CatchUp,
    ) -> Result<()> {
        // Nobody appends from the look at the empty log to the end of the change.
        let _shape = locked(&self.shape);
        let mut tail = locked(&self.tail);
        self.check_poison()?;
        let empty =
            tail.as_ref().map(|tail| tail.ordinal == 0 && tail.place.frames == 0).ok_or(Error::Closed)?;
        let first = frame.next().filter(|_| empty && frame > Frame::ZERO);
        let Some(first) = first else {
            let expected = "a base of frame 1 or later, for an empty store";
            return Err(Error::Invalid { what: "the base", found: frame.to_string(), expected });
        };
        let change = self.build_base((first, time), pour)?;
        // Once it is stated the files that are open here may be gone, whatever fails.
        let done = change.commit().and_then(|()| self.open_anew(&mut tail, catch_up));
        done.map_err(|e| self.poison(e))
    }

    fn build_base(&self, (first, time): (Frame, Time), pour: &mut Pour<'_>) -> Result<Change<'_>> {
        let (disk, store) = (&*self.disk, self.store);
        let nonce = random(disk)?;
        let mut change = Change::begin(disk, store)?;
        let parts = compact::measure(self.options.segment_bytes, pour)?;
        compact::build_base(disk, &mut change, store, (first, time), (&parts, nonce), pour)?;
        let header =
            SegmentHeader { store, first, salt: random(disk)?, previous_nonce: nonce, created: time };
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
