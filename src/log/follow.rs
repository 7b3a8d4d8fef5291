//! Following a log: its durable frames behind a given one, in order, however often its files are replaced.
//!
//! A follower holds a frame number and a hint where the next frame stands. The hint is good as long as the file is
//! still one of the log's; otherwise the index finds the frame again by its number. So nothing is missed and
//! nothing met twice, and nothing is kept in memory for a follower that is slow. It knows neither what a frame
//! says nor how to wait.

use std::sync::Arc;

use super::catchup::is_there;
use super::commit::{Log, locked};
use super::promise;
use super::recover::Fold;
use super::{CatchUp, Cursor, Files, Index, Met, Reader};
use crate::codec::frame::FrameKind;
use crate::disk::{Access, Disk};
use crate::error::{Error, Result};
use crate::position::{Frame, Position, Time};
use crate::segment::{Opened, Segment, SegmentOptions};

/// A log at one moment, as a follower looks at it.
#[derive(Debug)]
pub struct Sight {
    files: Arc<Vec<Arc<Segment>>>,
    durable: Frame,
    oldest: Frame,
    last: Frame,
    /// A place at or before the frame that was asked for.
    near: Option<Position>,
}

impl Sight {
    fn of(index: &Index, files: &Files, durable: Frame, next: Frame) -> Sight {
        let (oldest, last) = (index.oldest(), index.last());
        Sight { files: files.now(), durable, oldest, last, near: index.before_frame(next) }
    }

    /// The last frame known durable.
    pub fn durable(&self) -> Frame {
        self.durable
    }

    /// The files of the log, which the positions of frames count.
    pub fn files(&self) -> &[Arc<Segment>] {
        &self.files
    }

    /// A place at or before the frame that was asked for, and the file that it is in.
    pub(super) fn near(&self) -> Option<(&Arc<Segment>, u64)> {
        let at = self.near?;
        self.files.get(at.segment as usize).map(|segment| (segment, u64::from(at.offset)))
    }
}

/// Goes from frame to frame.
#[derive(Debug)]
pub struct Follower {
    after: Frame,
    /// The place behind the last frame of any kind that was met, and the file that it is in.
    hint: Option<(Arc<Segment>, Position)>,
}

impl Follower {
    /// Begins behind a frame.
    pub fn behind(frame: Frame) -> Follower {
        Follower { after: frame, hint: None }
    }

    /// The frame that a look must be able to find: the one behind the last that was met.
    pub fn next(&self) -> Frame {
        self.after.next().unwrap_or(self.after)
    }

    /// Whether a log can be followed from here.
    ///
    /// # Errors
    /// [`Error::Compacted`]: the next frame is not there any more. [`Error::NoSuchFrame`]: the log does not reach
    /// this far.
    pub fn check(&self, sight: &Sight) -> Result<()> {
        if self.after < sight.oldest {
            return Err(Error::Compacted { oldest: sight.oldest });
        }
        if self.after > sight.last {
            return Err(Error::NoSuchFrame { asked: self.after, last: sight.last });
        }
        Ok(())
    }

    /// Visits the durable commits and lost ranges behind the last one, until `visit` answers `false` or there are no
    /// more. One that `visit` refuses with an error comes again. Of a lost range that began before, only the rest
    /// is meant.
    ///
    /// # Errors
    /// As [`Follower::check`]; as [`Cursor::each`].
    pub fn each(
        &mut self,
        sight: &Sight,
        visit: &mut dyn FnMut(Met<'_>, Frame) -> Result<bool>,
    ) -> Result<()> {
        self.check(sight)?;
        if self.after >= sight.durable {
            return Ok(());
        }
        let known = |(segment, at): &(Arc<Segment>, Position)| {
            let same = sight.files.get(at.segment as usize).is_some_and(|now| Arc::ptr_eq(now, segment));
            same.then_some(*at)
        };
        let from = self.hint.as_ref().and_then(known).or(sight.near).unwrap_or(Cursor::START);
        let mut cursor = Cursor::behind(sight.files.clone(), from, self.after);
        let mut hint = None;
        let walked = cursor.each(&mut |met| {
            let (header, at) = (&met.frame.header, met.at);
            let counts = matches!(header.kind, FrameKind::Commit | FrameKind::Lost);
            let (number, end) = (header.number, at.offset.saturating_add(header.frame_bytes() as u32));
            if counts && number > sight.durable {
                return Ok(false);
            }
            let mut more = true;
            if counts && number > self.after {
                more = visit(met, self.after)?;
                self.after = number;
            }
            hint = Some(Position { offset: end, ..at });
            Ok(more)
        });
        if let Some(at) = hint {
            self.hint = sight.files.get(at.segment as usize).map(|segment| (segment.clone(), at));
        }
        walked
    }
}

impl Log {
    /// The log as it is now, for a follower whose next frame is `next`.
    pub fn sight(&self, next: Frame) -> Sight {
        // Read first: what was durable then is in whatever files there are.
        let durable = self.durable();
        self.index(|index| Sight::of(index, &self.files, durable, next))
    }

    /// A reader of the same log that goes its own way from here.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Io`].
    pub fn apart(&self) -> Result<Reader> {
        let tail = locked(&self.tail);
        let place = tail.as_ref().map(|tail| tail.place.clone()).ok_or(Error::Closed)?;
        let index = locked(&self.index).clone();
        let files = apart(&*self.disk, self.options, &self.files, place.end)?;
        Ok(Reader::at(self.disk.clone(), self.options, files, place, index, self.durable()))
    }
}

impl Reader {
    /// The log as it was at the last look, for a follower whose next frame is `next`.
    pub fn sight(&self, next: Frame) -> Sight {
        let at = locked(&self.at);
        Sight::of(&at.index, &self.files, at.durable, next)
    }

    /// Another reader of the same log that goes its own way from here.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn apart(&self) -> Result<Reader> {
        let at = locked(&self.at);
        let files = apart(&*self.disk, self.options, &self.files, at.place.end)?;
        let (place, index) = (at.place.clone(), at.index.clone());
        Ok(Reader::at(self.disk.clone(), self.options, files, place, index, at.durable))
    }

    /// Looks what has come, and folds nothing.
    ///
    /// # Errors
    /// As [`Reader::refresh`].
    pub fn look(&self) -> Result<()> {
        self.refresh(&mut Unfolded)
    }

    /// Whether nothing has become durable since the last look, as far as the promise and the last file's name can
    /// tell: a look that costs next to nothing. Whatever it cannot tell, [`Reader::look`] finds.
    pub fn is_quiet(&self) -> bool {
        let at = locked(&self.at);
        let files = self.files.now();
        let there = |segment: &Arc<Segment>| is_there(&*self.disk, segment, &segment.id().to_string());
        let same = files.last().is_some_and(|segment| there(segment).unwrap_or(false));
        let promise = promise::read(&*self.disk).map(|promise| promise.filter(|d| d.store == at.place.store));
        same && promise.is_ok_and(|promise| promise.is_none_or(|promise| promise.frame <= at.durable))
    }
}

/// The files of a log for a reader of its own: who shares the last one would see how far the other has looked.
fn apart(disk: &dyn Disk, options: SegmentOptions, files: &Files, end: u64) -> Result<Vec<Arc<Segment>>> {
    let mut files = files.now().to_vec();
    let Some(last) = files.pop() else { return Ok(files) };
    let options = SegmentOptions { map: false, ..options };
    match Segment::open(disk, &last.id().to_string(), last.id(), Access::Read, options) {
        Ok(Opened::Segment(own)) if own.file_id() == last.file_id() => {
            own.publish(end);
            files.push(Arc::new(own));
        }
        Err(e) if !super::catchup::is_gone(&e) => return Err(e),
        // It was replaced: the next look finds that out.
        _ => files.push(last),
    }
    Ok(files)
}

/// Takes in what has come without folding it.
struct Unfolded;

impl Fold for Unfolded {
    fn begin(&mut self) {}

    fn frame(&mut self, _: &Met<'_>) {}
}

impl CatchUp for Unfolded {
    fn now(&self) -> Time {
        Time::ZERO
    }

    fn fold(&mut self) -> &mut dyn Fold {
        self
    }

    fn install(&mut self, swap: &mut dyn FnMut()) {
        swap();
    }
}
