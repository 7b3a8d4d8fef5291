//! Dropping the history before a frame: a base in its place, and the segment that holds the frame from it on.
//!
//! Two steps. Beside the writers of this process the base is written, as a stream, into files whose whole size was
//! reserved before the first byte: what is before a frame never changes. Then, with the writers held out, the rest
//! of the frame's segment is copied, and one change of several files puts all of it in place. Frames keep their
//! numbers, times, promises and writers. It does not know what the base says.

use std::sync::{Arc, MutexGuard};

use super::build::Build;
use super::change::{Change, NewFile};
use super::commit::{Log, locked};
use super::group::CatchUp;
use super::settle::random;
use super::{Cursor, Files, Index};
use crate::codec::frame::{FRAME_HEADER_BYTES, FrameKind, LostRange, Seal};
use crate::codec::segment::{FRAMES_START, SegmentHeader, StoreId};
use crate::codec::wire::Malformed;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::position::{Frame, Position, SegmentId, Time};
use crate::segment::{GROWTH_MIN_BYTES, SEAL_FRAME_BYTES, Segment, Step, TRAILER_BYTES, Walk};

/// Where checkpoints are.
const CHECKPOINTS: &str = "checkpoints";
/// A part of a base ends before this many bytes, unless one frame is longer: 3 GiB.
const PART_BYTES_MAX: u64 = 3 << 30;
/// The longest that a frame of a base is made, unless one item is longer.
const BASE_FRAME_BYTES_MAX: u64 = 8 << 20;
/// How much of a file is built before it is written.
const PIECE_BYTES: usize = 1 << 20;

/// Hands out the frames of a base, the same ones each time: payloads whose checksums begin with any seed, each with
/// the number of its deltas.
pub type Pour<'p> = dyn FnMut(&mut dyn FnMut(&[u8], u16) -> Result<()>) -> Result<()> + 'p;

/// How large frames of a base are to be, with segments of this size: about so many bytes.
pub fn base_frame_bytes(segment_bytes: u64) -> usize {
    usize::try_from(BASE_FRAME_BYTES_MAX.min(segment_bytes / 8)).unwrap_or(usize::MAX)
}

/// The right to change which files the log has, in this process.
#[derive(Debug)]
pub struct Shape<'l>(#[expect(dead_code, reason = "held")] MutexGuard<'l, ()>);

/// Where to look for a frame.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    exact: Option<Position>,
    before: Option<Position>,
}

/// What a compaction amounts to.
#[derive(Clone, Debug)]
pub struct Plan {
    first: Frame,
    time: Time,
    parts: Vec<Part>,
    /// The nonce that the first kept segment names, where it stays as it is.
    kept: Option<u64>,
    /// Bytes of the segment that is rewritten from the frame on, as it was.
    rewritten: u64,
    /// Bytes of the segments behind it, and of one that stays.
    rest: u64,
    /// Files of the log that go.
    dropped: usize,
}

/// A part of a base.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    frames: u64,
    bytes: u64,
}

/// The first kept segment, while it is built anew.
struct Kept {
    build: Build,
    file: NewFile,
    nonce: u64,
}

impl Near {
    /// What an index knows of the place of a frame.
    pub fn of(index: &Index, frame: Frame) -> Near {
        Near { exact: index.at(frame), before: index.before_frame(frame) }
    }

    /// Where the frame stands, or the range of lost frames that begins with it; none if it is not written yet.
    fn locate(self, files: &Files, first: Frame) -> Result<Option<Position>> {
        if self.exact.is_some() {
            return Ok(self.exact);
        }
        let mut found = None;
        files.cursor(self.before.unwrap_or(Cursor::START)).each(&mut |met| {
            let header = &met.frame.header;
            let begins = match header.kind {
                FrameKind::Commit => header.number == first,
                FrameKind::Lost => {
                    let at = u64::from(met.at.offset) + FRAME_HEADER_BYTES as u64;
                    LostRange::decode(met.frame.payload, at).is_ok_and(|range| range.first == first)
                }
                _ => false,
            };
            found = begins.then_some(met.at);
            Ok(!begins)
        })?;
        Ok(found)
    }
}

impl Plan {
    /// What it takes to make a log begin with the state before `first`, which is as of `time` and which `pour`
    /// hands out. Reads the state and writes nothing.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Io`]; whatever `pour` answers.
    pub fn new(
        files: &Files,
        near: Near,
        (first, time): (Frame, Time),
        segment_bytes: u64,
        pour: &mut Pour<'_>,
    ) -> Result<Plan> {
        let at = near.locate(files, first)?;
        let files = files.now();
        let begins = |segment: &&Arc<Segment>| segment.id() == SegmentId::Segment { first };
        let ordinal = at.map_or(files.len().saturating_sub(1), |at| at.segment as usize);
        let holder = files.get(ordinal);
        let kept = holder.filter(begins).map(|segment| segment.header().previous_nonce);
        let rewritten = match (kept, at, holder) {
            (None, Some(at), Some(holder)) => {
                FRAMES_START + holder.published().saturating_sub(u64::from(at.offset))
            }
            (None, ..) => FRAMES_START,
            (Some(_), ..) => 0,
        };
        let behind = ordinal + usize::from(kept.is_none());
        let rest = files.iter().skip(behind).map(|segment| segment.published()).sum();
        let parts = measure(segment_bytes, pour)?;
        Ok(Plan { first, time, parts, kept, rewritten, rest, dropped: behind })
    }

    /// Bytes of the base.
    pub fn base_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Bytes of the log afterwards: base and kept frames.
    pub fn bytes(&self) -> u64 {
        self.base_bytes() + self.kept_bytes()
    }

    /// Bytes of the segments afterwards.
    pub fn kept_bytes(&self) -> u64 {
        self.rewritten + self.rest
    }

    /// Bytes of free space that it takes.
    pub fn needs_bytes(&self) -> u64 {
        let segment = if self.kept.is_some() { 0 } else { self.reserved() };
        self.base_bytes() + segment
    }

    /// How many files of the log go or are built anew.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// The room for the segment that is rewritten.
    fn reserved(&self) -> u64 {
        GROWTH_MIN_BYTES.max(self.rewritten + TRAILER_BYTES)
    }
}

/// Divides the frames of a base among files, in a log with segments of this size.
pub(super) fn measure(segment_bytes: u64, pour: &mut Pour<'_>) -> Result<Vec<Part>> {
    let limit = segment_bytes.saturating_mul(16).min(PART_BYTES_MAX);
    let mut parts = Vec::new();
    let begin = || Part { frames: 0, bytes: FRAMES_START + SEAL_FRAME_BYTES };
    let mut part = begin();
    pour(&mut |payload, _| {
        let bytes = (FRAME_HEADER_BYTES + payload.len()) as u64;
        if part.frames > 0 && part.bytes + bytes > limit {
            parts.push(std::mem::replace(&mut part, begin()));
        }
        part = Part { frames: part.frames + 1, bytes: part.bytes + bytes };
        Ok(())
    })?;
    parts.push(part);
    Ok(parts)
}

impl Log {
    /// Waits until no other change of several files, and no checkpoint, is under way in this process.
    pub fn hold_shape(&self) -> Shape<'_> {
        Shape(locked(&self.shape))
    }

    /// Drops the history before a plan's first frame; the caller holds its turn. Writers of this process go on until
    /// the base is written, and wait while it is put in place and the log is folded anew. Durable when it returns,
    /// and so is everything that was appended.
    ///
    /// # Errors
    /// [`Error::DiskFull`], and what reading the log or building the new files answers: nothing was changed.
    /// [`Error::Closed`]. [`Error::Poisoned`]: a later failure; whoever takes the lock next finishes the change, if it
    /// was stated.
    pub fn compact(
        &self,
        _: &Shape<'_>,
        plan: &Plan,
        pour: &mut Pour<'_>,
        catch_up: &mut dyn CatchUp,
    ) -> Result<()> {
        self.check_poison()?;
        let mut change = Change::begin(&*self.disk, self.store)?;
        let kept = match plan.kept {
            Some(_) => None,
            None => Some(Kept::begin(&*self.disk, &mut change, self.store, plan)?),
        };
        let nonce = kept.as_ref().map_or(plan.kept.unwrap_or_default(), |kept| kept.nonce);
        let begin = (plan.first, plan.time);
        build_base(&*self.disk, &mut change, self.store, begin, (&plan.parts, nonce), pour)?;
        self.put_in_place(change, kept, plan, catch_up)
    }

    fn put_in_place(
        &self,
        mut change: Change<'_>,
        kept: Option<Kept>,
        plan: &Plan,
        catch_up: &mut dyn CatchUp,
    ) -> Result<()> {
        let mut tail = locked(&self.tail);
        self.check_poison()?;
        // Readers take what stands in the new files for promised, and see them before they are there for good.
        self.sync_all(&tail.as_ref().ok_or(Error::Closed)?.segment)?;
        let (near, files) = self.index(|index| (Near::of(index, plan.first), self.files.frozen()));
        let at = match kept {
            Some(kept) => kept.end(&files, near.locate(&files, plan.first)?)?,
            None => None,
        };
        let first = SegmentId::Segment { first: plan.first };
        // All before the first kept file; the one that is rewritten goes with them, unless it keeps its name.
        let is_older = |(ordinal, segment): &(usize, &Arc<Segment>)| match (plan.kept, at) {
            (Some(_), _) => segment.id() < first,
            (None, Some(at)) => *ordinal <= at.segment as usize,
            (None, None) => true,
        };
        let files = files.now();
        for (_, segment) in files.iter().enumerate().filter(is_older) {
            if segment.id() != first {
                change.drop_file(segment.id().to_string());
            }
        }
        for name in self.checkpoints()? {
            change.drop_in(CHECKPOINTS, name);
        }
        // A sync that is under way would write its promise through a descriptor from before the change.
        self.begin_sync();
        let stated = match change.commit() {
            Err(full @ Error::DiskFull { .. }) => {
                self.finish_sync(Ok(()))?;
                return Err(full);
            }
            stated => stated,
        };
        // Once it is stated the files that are open here may be gone, whatever fails.
        self.finish_sync(stated.and_then(|()| self.open_anew(&mut tail, catch_up)))
    }

    /// The checkpoints, of which none belongs to the log afterwards.
    fn checkpoints(&self) -> Result<Vec<String>> {
        let dir = CHECKPOINTS;
        match self.disk.list(dir) {
            Ok(names) => Ok(names.into_iter().filter(|name| !name.ends_with(".tmp")).collect()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(Error::io("listing", self.disk.root().join(dir), e)),
        }
    }
}

impl Kept {
    /// Creates the file, with room for what stands there now.
    fn begin(disk: &dyn Disk, change: &mut Change<'_>, store: StoreId, plan: &Plan) -> Result<Kept> {
        let (first, nonce) = (plan.first, random(disk)?);
        let header = SegmentHeader { store, first, salt: 0, previous_nonce: nonce, created: plan.time };
        let build = Build::begin(disk, header, first.previous(), plan.time)?;
        let target = SegmentId::Segment { first }.to_string();
        let file = change.create(target, build.salt(), plan.reserved())?;
        Ok(Kept { build, file, nonce })
    }

    /// Copies the segment from the first kept frame on. If that is not written yet, the header stays alone.
    fn end(mut self, files: &Files, at: Option<Position>) -> Result<Option<Position>> {
        if let Some(at) = at
            && let Some(segment) = files.segment(at)
        {
            self.copy(&segment, u64::from(at.offset))?;
        }
        self.file.reserve(GROWTH_MIN_BYTES.max(self.build.len() + TRAILER_BYTES))?;
        self.build.drain(0, |at, bytes| self.file.write(at, bytes))?;
        self.file.finish()?;
        Ok(at)
    }

    fn copy(&mut self, segment: &Segment, from: u64) -> Result<()> {
        let end = segment.published();
        let mut walk = Walk::new(segment, from, end);
        loop {
            let at = walk.offset();
            let awaited = || self.build.chain().number.next().unwrap_or_default();
            match walk.step()? {
                Step::Frame { frame, .. } if frame.header.kind == FrameKind::Seal => {
                    let seal = Seal::decode(frame.payload, at);
                    let seal = seal.map_err(|reason| segment.corrupt(frame.header.number, reason))?;
                    return self.build.seal(seal.nonce, Some(&frame.header));
                }
                Step::Frame { frame, .. } => self.build.copy(&frame)?,
                Step::End if at >= end => return Ok(()),
                Step::End => {
                    let reason = Malformed::new("frame", at, "a frame that had been published", "zeros");
                    return Err(segment.corrupt(awaited(), reason));
                }
                Step::Bad(reason) => return Err(segment.corrupt(awaited(), reason)),
            }
            self.file.reserve(self.build.len())?;
            self.build.drain(PIECE_BYTES, |at, bytes| self.file.write(at, bytes))?;
        }
    }
}

/// Writes the parts of a base before the frame `first`, as of a time, durably. The last one's seal has the nonce that
/// the segment behind it names.
pub(super) fn build_base(
    disk: &dyn Disk,
    change: &mut Change<'_>,
    store: StoreId,
    (first, created): (Frame, Time),
    (measured, nonce): (&[Part], u64),
    pour: &mut Pour<'_>,
) -> Result<()> {
    let mut parts = Vec::new();
    let (mut previous_nonce, mut number) = (0, 0);
    for part in measured {
        number += 1;
        let header = SegmentHeader { store, first, salt: 0, previous_nonce, created };
        let build = Build::begin(disk, header, first.previous(), created)?;
        previous_nonce = if number as usize == measured.len() { nonce } else { random(disk)? };
        let target = SegmentId::Base { first, part: number }.to_string();
        // All of the space is there before the first byte is written, or nothing is begun.
        let file = change.create(target, build.salt(), part.bytes)?;
        parts.push((build, file, part.frames, previous_nonce));
    }
    let mut parts = parts.into_iter();
    let mut part = parts.next();
    pour(&mut |payload, deltas| {
        if part.as_ref().is_some_and(|(build, _, frames, _)| build.frames() == *frames) {
            seal(part.take())?;
            part = parts.next();
        }
        let Some((build, file, ..)) = &mut part else {
            return Err(Error::Invalid {
                what: "the base",
                found: "more".into(),
                expected: "what was measured",
            });
        };
        build.base(payload, deltas)?;
        build.drain(PIECE_BYTES, |at, bytes| file.write(at, bytes))
    })?;
    seal(part)
}

/// Ends a part.
fn seal(part: Option<(Build, NewFile, u64, u64)>) -> Result<()> {
    let Some((mut build, file, _, nonce)) = part else { return Ok(()) };
    build.seal(nonce, None)?;
    build.drain(0, |at, bytes| file.write(at, bytes))?;
    file.finish()
}

const _: () = assert!(PART_BYTES_MAX <= u32::MAX as u64);
