//! Where frames stand: one entry for every 64th, and behind it the distance from each frame to the next, so that a
//! frame is located without reading another.
//!
//! The index is built while frames are checked at opening and kept up by the writer. It holds 2 bytes a frame and
//! 72 an entry: about 30 MB for 10,000,000 frames. A part of it may be known without the distances; there, whoever
//! looks for a frame walks at most 63 others.

use crate::codec::checkpoint::{Location, Stamp};
use crate::codec::frame::{FRAME_ALIGN, LostRange};
use crate::position::{Frame, Position, Time};

/// An entry is kept for every frame whose number is a multiple of this.
const STRIDE: u64 = 64;

/// Distances are counted in this many bytes: frames begin at its multiples.
const STEP_BYTES: u32 = FRAME_ALIGN as u32;

#[derive(Clone, Debug)]
struct Entry {
    frame: Frame,
    time: Time,
    at: Position,
    /// From each commit behind the entry to the next, in the entry's file.
    steps: Vec<u16>,
    /// Where the steps end.
    end: Position,
}

/// An index of commits, in the order of the log, and the ranges that are lost.
#[derive(Clone, Debug, Default)]
pub struct Index {
    entries: Vec<Entry>,
    lost: Vec<LostRange>,
    base: Frame,
    last: Frame,
}

impl Index {
    /// Adds a commit, which follows all that were added.
    pub fn commit(&mut self, frame: Frame, time: Time, at: Position) {
        match (self.step_to(frame, at), self.entries.last_mut()) {
            (Some(step), Some(entry)) => {
                entry.steps.push(step);
                entry.end = at;
            }
            _ => self.entries.push(Entry { frame, time, at, steps: Vec::new(), end: at }),
        }
        self.last = frame;
    }

    /// The distance to a commit, if it belongs to the last entry: it follows the last commit in the same file, not
    /// too far away, and every commit since that entry has its distance.
    fn step_to(&self, frame: Frame, at: Position) -> Option<u16> {
        let entry = self.entries.last()?;
        let follows = self.last.next() == Some(frame) && entry.end.segment == at.segment;
        let known = entry.frame.0 + entry.steps.len() as u64 == self.last.0;
        if !follows || !known || frame.0.is_multiple_of(STRIDE) {
            return None;
        }
        let bytes = at.offset.checked_sub(entry.end.offset)?;
        u16::try_from(bytes / STEP_BYTES).ok().filter(|_| bytes.is_multiple_of(STEP_BYTES))
    }

    /// Adds the commits and lost ranges of a later part of the log.
    pub fn append(&mut self, later: Index) {
        for Entry { frame, time, at, steps, .. } in later.entries {
            // A part has an entry for its first commit, which may be no entry of the whole.
            self.commit(frame, time, at);
            let (mut frame, mut at) = (frame, at);
            for step in steps {
                (frame, at) = (Frame(frame.0 + 1), stepped(at, step));
                self.commit(frame, time, at);
            }
        }
        later.lost.into_iter().for_each(|range| self.note_lost(range));
        self.last = self.last.max(later.last);
    }

    /// Adds a range of frames that are gone.
    pub fn lose(&mut self, range: LostRange) {
        self.note_lost(range);
        self.last = range.last;
    }

    /// Puts what is known up to a frame into a checkpoint's stamp.
    pub(super) fn save(&self, last: Frame, stamp: &mut Stamp) {
        let known = self.entries.partition_point(|entry| entry.frame <= last);
        let location = |entry: &Entry| {
            let steps = usize::try_from(last.0 - entry.frame.0).unwrap_or(usize::MAX);
            Location {
                frame: entry.frame.0,
                time_us: entry.time.as_micros(),
                segment: entry.at.segment,
                offset: entry.at.offset,
                steps: entry.steps.iter().take(steps).copied().collect(),
            }
        };
        stamp.locations = self.entries.iter().take(known).map(location).collect();
        let lost = self.lost.iter().filter(|range| range.last <= last);
        stamp.lost = lost.map(|range| (range.first.0, range.last.0)).collect();
        stamp.base = self.base.0;
    }

    /// What a checkpoint's stamp says.
    pub(super) fn load(stamp: &Stamp) -> Index {
        let entry = |location: &Location| {
            let at = Position { segment: location.segment, offset: location.offset };
            Entry {
                frame: Frame(location.frame),
                time: Time::from_micros(location.time_us).unwrap_or(Time::MAX),
                at,
                steps: location.steps.clone(),
                end: location.steps.iter().fold(at, |at, step| stepped(at, *step)),
            }
        };
        let range = |(first, last): &(u64, u64)| LostRange { first: Frame(*first), last: Frame(*last) };
        Index {
            entries: stamp.locations.iter().map(entry).collect(),
            lost: stamp.lost.iter().map(range).collect(),
            base: Frame(stamp.base),
            last: Frame(stamp.place.number),
        }
    }

    /// A range that goes on in the next file is one range.
    fn note_lost(&mut self, range: LostRange) {
        match self.lost.last_mut() {
            Some(before) if before.last.next() == Some(range.first) => before.last = range.last,
            _ => self.lost.push(range),
        }
    }

    /// Says that the log begins with a base: the state at `frame`.
    pub fn base(&mut self, frame: Frame) {
        (self.base, self.last) = (frame, frame);
    }

    /// The state before the first frame that the log holds: 0 without a base.
    pub fn oldest(&self) -> Frame {
        self.base
    }

    /// The last frame.
    pub fn last(&self) -> Frame {
        self.last
    }

    /// Whether frames up to this one are lost.
    pub fn has_lost(&self, frame: Frame) -> bool {
        self.lost.first().is_some_and(|range| range.first <= frame)
    }

    /// The lost range that holds a frame.
    pub fn lost(&self, frame: Frame) -> Option<LostRange> {
        self.lost.iter().copied().find(|range| range.first <= frame && frame <= range.last)
    }

    /// Where a commit stands, if that is known exactly.
    pub fn at(&self, frame: Frame) -> Option<Position> {
        let after = self.entries.partition_point(|entry| entry.frame <= frame);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        let steps = entry.steps.get(..usize::try_from(frame.0 - entry.frame.0).ok()?)?;
        Some(steps.iter().fold(entry.at, |at, step| stepped(at, *step)))
    }

    /// A place at or before a frame from which a cursor reaches it; `None` asks to begin at the beginning.
    pub fn before_frame(&self, frame: Frame) -> Option<Position> {
        let after = self.entries.partition_point(|entry| entry.frame <= frame);
        self.entries.get(after.checked_sub(1)?).map(|entry| entry.at)
    }

    /// A place from which a cursor reaches the last frame whose time is not after `time`.
    pub fn before_time(&self, time: Time) -> Option<Position> {
        let after = self.entries.partition_point(|entry| entry.time <= time);
        self.entries.get(after.checked_sub(1)?).map(|entry| entry.at)
    }
}

fn stepped(at: Position, step: u16) -> Position {
    Position { offset: at.offset.saturating_add(u32::from(step) * STEP_BYTES), ..at }
}
