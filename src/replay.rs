//! Folding a log up to a frame, and reading the bodies that views point at.
//!
//! Live state, a reopened store and a past come from the same fold here, so they cannot disagree. It does
//! not know who asks.

pub mod checkpoint;
mod scan;
pub mod steps;

use std::borrow::Cow;
use std::sync::Arc;

use self::checkpoint::{Checkpoints, Listed};
use crate::codec::checkpoint::Stamp;
use crate::codec::frame::FrameKind;
use crate::codec::payload::{self, Deltas, Trust};
use crate::codec::run::Run;
use crate::codec::wire::Malformed;
use crate::error::{Error, Result};
use crate::log::{Cursor, Files, Fold, Met};
use crate::position::{Frame, Last, Place, Position, Time};
use crate::segment::Segment;
use crate::view::{Bodies, State};

/// Folds frames into a state while a log is being opened: from the newest checkpoint that belongs to it.
#[derive(Debug)]
pub struct StateFold {
    /// What was folded.
    pub state: State,
    checkpoints: Checkpoints,
    /// Those that were not tried yet, the newest last; none before the first try.
    untried: Option<Vec<Listed>>,
    /// Where the state came from.
    from: Option<Listed>,
    folded: u64,
}

impl StateFold {
    /// A fold of a log whose checkpoints these are, on top of a state.
    pub fn new(state: State, checkpoints: Checkpoints) -> StateFold {
        StateFold { state, checkpoints, untried: None, from: None, folded: 0 }
    }

    /// The checkpoint that opening went on from.
    pub fn from(&self) -> Option<&Listed> {
        self.from.as_ref()
    }

    /// How many frames were folded.
    pub fn folded(&self) -> u64 {
        self.folded
    }
}

impl Fold for StateFold {
    fn begin(&mut self) {
        *self = StateFold::new(State::default(), self.checkpoints.clone());
    }

    fn resume(&mut self) -> Option<Stamp> {
        let untried = self.untried.get_or_insert_with(|| self.checkpoints.list());
        while let Some(listed) = untried.pop() {
            if let Some((state, stamp)) = self.checkpoints.load(&listed) {
                (self.state, self.from) = (state, Some(listed));
                return Some(stamp);
            }
        }
        (self.state, self.from) = (State::default(), None);
        None
    }

    fn frame(&mut self, met: &Met<'_>) {
        self.folded += 1;
        // Opening decoded every envelope of the frame already; an error cannot occur here.
        if let Err(reason) = apply(&mut self.state, met) {
            tracing::error!(%reason, "a checked frame does not decode");
        }
    }
}

/// Applies all deltas of a `commit` or `base` frame; other kinds change nothing.
///
/// # Errors
/// An envelope does not decode. Those before it were applied.
pub fn apply(state: &mut State, met: &Met<'_>) -> Result<(), Malformed> {
    let header = &met.frame.header;
    if !matches!(header.kind, FrameKind::Commit | FrameKind::Base) {
        return Ok(());
    }
    let payload_at = u64::from(met.at.offset) + crate::codec::frame::FRAME_HEADER_BYTES as u64;
    for delta in Deltas::new(met.frame.payload, payload_at)? {
        let delta = delta?;
        let offset = u32::try_from(delta.offset).unwrap_or(u32::MAX);
        let previous = delta.envelope.previous;
        // An item of a base was written by a frame that is gone, and still names it.
        let kept = header.kind == FrameKind::Base && previous.frame > Frame::ZERO;
        let place = Place {
            last: if kept { previous } else { Last { frame: header.number, index: delta.index } },
            at: Position { segment: met.at.segment, offset },
        };
        state.apply(place, header.time, delta.envelope.id, &delta.envelope.op);
    }
    state.advance(header.number, header.time);
    Ok(())
}

/// A state that is known, and where the log goes on behind it.
#[derive(Clone, Debug)]
pub struct Known {
    /// The state.
    pub state: State,
    /// The last frame that it was folded from, lost ones included.
    pub frame: Frame,
    /// The place of the next frame.
    pub next: Position,
    /// Frames that were folded for it: those that change a state, behind what was known before.
    pub folded: u64,
    /// Bytes of the frames that were read for it.
    pub read_bytes: u64,
}

impl Known {
    /// The empty store, before the first frame of the log.
    pub fn nothing() -> Known {
        Known { state: State::default(), frame: Frame::ZERO, next: Cursor::START, folded: 0, read_bytes: 0 }
    }

    /// The state of a checkpoint whose stamp the log agrees with.
    pub fn saved(state: State, stamp: &Stamp) -> Known {
        let segment = u32::try_from(stamp.files.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let offset = stamp.files.last().map_or(0, |file| u32::try_from(file.end).unwrap_or(u32::MAX));
        let (frame, next) = (Frame(stamp.place.number), Position { segment, offset });
        Known { state, frame, next, folded: 0, read_bytes: 0 }
    }

    /// Folds on to a later frame, which the caller has seen that the log has.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where a frame rotted since opening; [`Error::Io`].
    pub fn fold_to(mut self, files: &Files, frame: Frame) -> Result<Known> {
        if frame == self.frame {
            return Ok(self);
        }
        each_frame(files, self.next, &mut |met| {
            let header = &met.frame.header;
            if header.number > frame {
                return Ok(false);
            }
            fold(files, &mut self.state, &met)?;
            let bytes = header.frame_bytes();
            let offset = met.at.offset.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
            (self.frame, self.next) = (header.number, Position { offset, ..met.at });
            self.folded += u64::from(matches!(header.kind, FrameKind::Commit | FrameKind::Base));
            self.read_bytes += bytes as u64;
            Ok(header.number < frame || header.kind != FrameKind::Commit)
        })?;
        Ok(self)
    }
}

/// The state as of a frame, folded from the beginning of the log. The caller has seen that the log has it.
///
/// # Errors
/// As [`Known::fold_to`].
pub fn replay(files: &Files, frame: Frame) -> Result<State> {
    Known::nothing().fold_to(files, frame).map(|known| known.state)
}

/// Applies a frame that a cursor met, with the place in the error.
///
/// # Errors
/// [`Error::Corrupt`]: the payload does not decode.
pub fn fold(files: &Files, state: &mut State, met: &Met<'_>) -> Result<()> {
    let number = met.frame.header.number;
    apply(state, met).map_err(|reason| corrupt(&files.now(), met.at, number, reason))
}

/// Visits every frame from a place on, until `visit` answers `false`.
///
/// # Errors
/// As [`Cursor::each`].
pub fn each_frame(
    files: &Files,
    from: Position,
    visit: &mut dyn FnMut(Met<'_>) -> Result<bool>,
) -> Result<()> {
    files.cursor(from).each(visit)
}

/// The last frame whose time is not after `time`; frame 0 before the first. `from` is a place before it, as
/// the log's index answers. Where frames behind it are lost, nobody knows which of them that was: the answer is
/// then the last lost one.
///
/// # Errors
/// As [`Cursor::each`].
pub fn frame_at(files: &Files, from: Option<Position>, time: Time) -> Result<Frame> {
    let mut last = Frame::ZERO;
    each_frame(files, from.unwrap_or(Cursor::START), &mut |met| {
        let header = &met.frame.header;
        if header.time > time {
            return Ok(false);
        }
        if matches!(header.kind, FrameKind::Commit | FrameKind::Base | FrameKind::Lost) {
            last = header.number;
        }
        Ok(true)
    })?;
    Ok(last)
}

/// Reads bodies from the log, and from the writes of a critical section that are not in the log yet.
#[derive(Clone, Debug)]
pub struct LogBodies {
    files: Arc<Vec<Arc<Segment>>>,
    pending: Option<Arc<Vec<u8>>>,
}

impl LogBodies {
    /// Bodies of the files as they are now. Take it after the state whose bodies it reads.
    pub fn new(files: &Files) -> LogBodies {
        LogBodies { files: files.now(), pending: None }
    }

    /// The same, with the envelopes that a critical section has encoded so far.
    #[must_use]
    pub fn with_pending(self, pending: Arc<Vec<u8>>) -> LogBodies {
        LogBodies { pending: Some(pending), ..self }
    }
}

impl Bodies for LogBodies {
    fn read(&self, at: Position, frame: Frame) -> Result<Cow<'_, [u8]>> {
        if at.segment == Position::PENDING {
            let rest =
                self.pending.as_ref().and_then(|bytes| bytes.get(at.offset as usize..)).unwrap_or_default();
            let whole = payload::envelope_bytes(rest, 0)
                .and_then(|len| payload::decode(rest, 0, Trust::Frame).map(|_| len))
                .map_err(|reason| self.corrupt(at, frame, reason))?;
            return Ok(Cow::Borrowed(rest.get(..whole).unwrap_or(rest)));
        }
        match self.files.get(at.segment as usize) {
            Some(segment) => segment.envelope(u64::from(at.offset), frame),
            None => {
                Err(self.corrupt(at, frame, Malformed::new("position", 0, "a file of the log", at.segment)))
            }
        }
    }

    fn corrupt(&self, at: Position, frame: Frame, reason: Malformed) -> Error {
        corrupt(&self.files, at, frame, reason)
    }

    fn scan_bytes(&self) -> Option<u64> {
        // What a critical section has encoded stands in no frame yet.
        self.pending.is_none().then(|| self.files.iter().map(|file| file.published()).sum())
    }

    fn scan(&self, look: &(dyn Fn(u32, &Run<'_>) + Sync)) -> bool {
        self.pending.is_none() && scan::scan(&self.files, look)
    }
}

/// The error of a frame of these files that does not check out any more.
pub(crate) fn corrupt(files: &[Arc<Segment>], at: Position, frame: Frame, reason: Malformed) -> Error {
    match files.get(at.segment as usize) {
        Some(segment) => segment.corrupt(frame, reason),
        None => Error::Corrupt {
            path: std::path::PathBuf::new(),
            segment: "(not written yet)".into(),
            frame,
            reason: Box::new(reason),
        },
    }
}
