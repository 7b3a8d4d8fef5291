//! A cursor over the frames of the log, across its files, up to what was published when it began.
//!
//! It reads by position into one buffer and checks every frame's checksum again: what opening found whole
//! and does not check out now is an error with its place, never an early end.

use std::sync::Arc;

use crate::codec::frame::CheckedFrame;
use crate::codec::segment::FRAMES_START;
use crate::codec::wire::Malformed;
use crate::error::Result;
use crate::position::{Frame, Position};
use crate::segment::{Segment, Step, Walk};

/// A frame that the cursor met.
#[derive(Debug)]
pub struct Met<'a> {
    /// Where it stands.
    pub at: Position,
    /// The frame; its checksum is right.
    pub frame: CheckedFrame<'a>,
}

/// Walks frames of every kind in the order of the log.
#[derive(Debug)]
pub struct Cursor {
    files: Arc<Vec<Arc<Segment>>>,
    /// How far each file was published when the cursor began.
    ends: Vec<u64>,
    at: Position,
    last: Option<Frame>,
}

impl Cursor {
    pub(super) fn new(files: Arc<Vec<Arc<Segment>>>, from: Position) -> Cursor {
        let ends = files.iter().map(|segment| segment.published()).collect();
        Cursor { files, ends, at: from, last: None }
    }

    /// A cursor from a place on that is at or before the frame behind `last`, which errors count from.
    pub(super) fn behind(files: Arc<Vec<Arc<Segment>>>, from: Position, last: Frame) -> Cursor {
        Cursor { last: Some(last), ..Cursor::new(files, from) }
    }

    /// The beginning of a log.
    pub const START: Position = Position { segment: 0, offset: FRAMES_START as u32 };

    /// Calls `visit` with each frame until it answers `false` or the frames end. Called again, it goes on with
    /// the frame after the last one that was visited.
    ///
    /// # Errors
    /// [`crate::error::Error::Corrupt`] where a published frame does not check out; [`crate::error::Error::Io`];
    /// whatever `visit` answers.
    pub fn each(&mut self, visit: &mut dyn FnMut(Met<'_>) -> Result<bool>) -> Result<()> {
        while let Some(segment) = self.files.get(self.at.segment as usize).cloned() {
            let end = self.ends.get(self.at.segment as usize).copied().unwrap_or(FRAMES_START);
            if !self.walk(&segment, end, visit)? {
                return Ok(());
            }
            self.at = Position { segment: self.at.segment.saturating_add(1), ..Cursor::START };
        }
        Ok(())
    }

    /// Walks one file; answers `false` where `visit` asked to stop.
    fn walk(
        &mut self,
        segment: &Segment,
        end: u64,
        visit: &mut dyn FnMut(Met<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let mut walk = Walk::new(segment, u64::from(self.at.offset), end);
        loop {
            let before = walk.offset();
            match walk.step()? {
                Step::Frame { offset, frame, bytes } => {
                    let at = |offset: u64| u32::try_from(offset).unwrap_or(u32::MAX);
                    self.at.offset = at(offset + bytes.len() as u64);
                    self.last = Some(frame.header.number);
                    let at = Position { offset: at(offset), ..self.at };
                    if !visit(Met { at, frame })? {
                        return Ok(false);
                    }
                }
                Step::End if before >= end => return Ok(true),
                Step::End => {
                    let reason = Malformed::new("frame", before, "a frame that had been published", "zeros");
                    return Err(segment.corrupt(self.awaited(segment), reason));
                }
                Step::Bad(reason) => return Err(segment.corrupt(self.awaited(segment), reason)),
            }
        }
    }

    /// The frame that should stand where one does not check out. Where the walk began there, only its own
    /// bytes would say, so the segment's first frame is named.
    fn awaited(&self, segment: &Segment) -> Frame {
        self.last.and_then(Frame::next).unwrap_or_else(|| segment.id().first())
    }
}
