//! A backup: a copy of the log's durable bytes in another store directory, brought up to date by what is new.
//!
//! Sealed files are copied as they are, salts and nonces included. The last file has a copy with a salt of its own that
//! follows from the file's, and grows in place (`grow`). So the header of a file of the target says which file of the
//! source it is of, and one that was written anew there is another. Every frame is checked before it is written.
//!
//! Files that are new, or replace others, come into being as one change through INTENT of the target, which is stated once
//! what grew is durable. A crash leaves a whole backup: the one that was there, the new one, or, where a file was growing,
//! one that ends with a frame between them, and no promise of any more. Where a file gives way to another, or goes, what
//! lies in the target's `checkpoints/` and `quarantine/` goes with it: a backup after an erase forgets too.
//!
//! Nobody who writes to the source waits for a backup, but all wait for one disk: so it is written in small pieces, each
//! durable before the next, and never more than what is new.

use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use super::build::{Build, header_area};
use super::change::{Change, NewFile};
use super::follow::Sight;
use super::found::Found;
use super::grow::{self, Twin};
use super::settle::QUARANTINE;
use super::target::{self, Target};
use super::{intent, promise, retention, settle};
use crate::codec::frame::{CheckedFrame, FRAME_HEADER_BYTES, FrameHeader, FrameKind, Seal};
use crate::codec::segment::{Durable, FRAMES_START, StoreId};
use crate::codec::wire::Malformed;
use crate::disk::{Access, Disk, FileId};
use crate::error::{BackupRefusal, Error, Result};
use crate::position::{Frame, SegmentId, Time};
use crate::segment::{
    Chain, GROWTH_MIN_BYTES, LOG_DIR, Opened, SEAL_FRAME_BYTES, Segment, SegmentOptions, Step, Walk,
};

/// Where checkpoints are.
const CHECKPOINTS: &str = "checkpoints";

/// How much of a new file is written before it is synced. Whoever syncs a file of the store meanwhile waits for the disk
/// behind one such piece and for no more, and where a sync takes long, few of them are asked for.
const PIECE_BYTES: usize = 256 * 1024;

/// A backup that was brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// The store's id, which the backup has too.
    pub store: StoreId,
    /// The last frame in the backup: all that was acknowledged before it began is in it.
    pub frame: Frame,
    /// Files of its log.
    pub files: usize,
    /// Bytes of headers and frames in them.
    pub bytes: u64,
    /// Files that were copied, or whose copies grew.
    pub copied_files: usize,
    /// Bytes that were copied: of a copy that grew, only those that are new.
    pub copied_bytes: u64,
    /// Files of the log that were taken out of the backup, or replaced by another, because the store has them no
    /// more.
    pub replaced_files: usize,
}

/// Makes a backup of the log of the store on `source` on another disk, or brings the one there up to date. `sight` looks at
/// the log, and near a frame; it is asked again once the target's lock is held.
///
/// # Errors
/// [`Error::BackupRefused`]; [`Error::NotAStore`]; [`Error::Locked`]: somebody writes to the target;
/// [`Error::NetworkFilesystem`]; [`Error::Corrupt`]: a frame rotted; [`Error::DiskFull`]; [`Error::Io`]. After an error the
/// backup is whole: it is what it was, or ends with a frame between that and the new one, or is the new one already.
pub fn backup(
    source: &dyn Disk,
    sight: &dyn Fn(Frame) -> Result<Sight>,
    target: &dyn Disk,
    wait: Duration,
    allow_network: bool,
) -> Result<BackedUp> {
    check_apart(&sight(Frame::ZERO)?, target)?;
    let first = !is_store(target)?;
    let taken = Target::take(target, wait, allow_network)?;
    taken.fill(first, || update(source, sight, target))
}

/// A target is not the store itself.
fn check_apart(sight: &Sight, target: &dyn Disk) -> Result<()> {
    let is = |id: FileId, segment: &Arc<Segment>| {
        target.id(&format!("{LOG_DIR}/{}", segment.id())).is_ok_and(|found| found == id)
    };
    match sight.files().iter().any(|segment| is(segment.file_id(), segment)) {
        true => Err(refused(target, BackupRefusal::Itself)),
        false => Ok(()),
    }
}

fn refused(target: &dyn Disk, reason: BackupRefusal) -> Error {
    Error::BackupRefused { path: target.root().to_path_buf(), reason }
}

/// Whether there is a store, as opposed to nothing or to what an interrupted first backup left.
fn is_store(target: &dyn Disk) -> Result<bool> {
    let known = super::recover::looks_like_store(target)?;
    Ok(known && (target::is_stated(target)? || promise::read(target)?.is_some()))
}

/// Brings the target up to date; its lock is held.
fn update(source: &dyn Disk, sight: &dyn Fn(Frame) -> Result<Sight>, target: &dyn Disk) -> Result<BackedUp> {
    let known = promise::read(target)?;
    let sight = sight(known.as_ref().map_or(Frame::ZERO, |known| known.frame))?;
    let frame = sight.durable();
    let files = target::up_to(sight.files(), frame);
    let store = files.first().map(|segment| segment.header().store).unwrap_or_default();
    // Before anything in the target is touched: it may be somebody else's.
    There::look(target, known)?.check_store(target, store)?;
    intent::finish(target)?;
    settle::remove_temporaries(target, &["", LOG_DIR])?;
    let mut there = There::look(target, known.filter(|known| known.store == store))?;
    there.find_last(&sight)?;
    there.check(target, &files, frame)?;
    // A promise that checks out was written after its name and the log's directory had become durable.
    let room = if there.promise.is_some() { settle::durable_file(target)? } else { target::prepare(target)? };
    let made = BackedUp {
        store,
        frame,
        files: files.len(),
        bytes: 0,
        copied_files: 0,
        copied_bytes: 0,
        replaced_files: 0,
    };
    let promise = Durable { store, frame, segment: Frame(1), offset: FRAMES_START, copied: true };
    let mut copy = Copy { target, frame, change: Change::begin(target, store)?, promise, made };
    copy.files(&files, &there)?;
    copy.forget(&files, &there)?;
    let Copy { change, promise, made, .. } = copy;
    if !change.is_empty() {
        change.commit()?;
    }
    if there.promise.is_none_or(|known| known.frame < frame) {
        target::promise(target, &*room, &promise)?;
    }
    // One that rotted is in nobody's way, here neither: the backup keeps its own.
    if let Ok(policy) = retention::read(source, store)
        && retention::read(target, store).ok() != Some(policy)
    {
        retention::replace(target, store, policy)?;
    }
    Ok(made)
}

/// The last frame of a log with a number of its own, and the file that it is in.
#[derive(Debug)]
struct Last {
    salt: u64,
    offset: u64,
    header: FrameHeader,
}

impl Last {
    fn end(&self) -> u64 {
        self.offset + self.header.frame_bytes() as u64
    }
}

/// What the target holds.
struct There {
    /// Those whose headers do not serve are without one: they are built anew.
    files: Vec<(SegmentId, Option<Segment>)>,
    /// What it promises of this store.
    promise: Option<Durable>,
    last: Option<Last>,
    /// Set where the last file can grow.
    twin: Option<Twin>,
}

impl There {
    fn look(target: &dyn Disk, promise: Option<Durable>) -> Result<There> {
        let options = SegmentOptions { segment_bytes: 0, map: false };
        let mut files = Vec::new();
        for (id, name) in Found::look(target, Access::Read)?.files {
            let segment = match Segment::open(target, &name, id, Access::Read, options)? {
                Opened::Segment(segment) => Some(segment),
                Opened::BadHeader(_) => None,
            };
            files.push((id, segment));
        }
        Ok(There { files, promise, last: None, twin: None })
    }

    /// Finds the last frame: where nothing speaks against it, the one that is promised, and no frame before that is read.
    fn find_last(&mut self, sight: &Sight) -> Result<()> {
        if let Some((id, Some(copy))) = self.files.last()
            && let Some((source, near)) = sight.near().filter(|(source, _)| source.id() == *id)
            && let Some(promise) = self.promise
        {
            self.twin = Twin::find(copy, source, near, promise.frame)?;
            let last = |twin: &Twin| Last {
                salt: copy.header().salt,
                offset: twin.offset,
                header: twin.header.clone(),
            };
            self.last = self.twin.as_ref().map(last);
        }
        if self.twin.is_none() {
            self.last = self.last()?;
        }
        Ok(())
    }

    /// The last commit or lost range that checks out. Files are looked at from behind, so that mostly one is read.
    fn last(&self) -> Result<Option<Last>> {
        for segment in self.files.iter().rev().filter_map(|(_, segment)| segment.as_ref()) {
            let mut walk = Walk::new(segment, FRAMES_START, segment.size()?);
            let mut last = None;
            while let Step::Frame { offset, frame, .. } = walk.step()? {
                if matches!(frame.header.kind, FrameKind::Commit | FrameKind::Lost) {
                    let (salt, header) = (segment.header().salt, frame.header.clone());
                    last = Some(Last { salt, offset, header });
                }
            }
            if last.is_some() {
                return Ok(last);
            }
        }
        Ok(None)
    }

    /// Whose backup it is: a target of which no file says that it is of this store is another's.
    fn check_store(&self, target: &dyn Disk, store: StoreId) -> Result<()> {
        let mut headers = self.files.iter().filter_map(|(_, segment)| segment.as_ref().map(Segment::header));
        let promised = self.promise.is_some_and(|promise| promise.store != store);
        let unknown = self.files.iter().all(|(_, segment)| segment.is_none());
        let foreign = if unknown { !self.files.is_empty() || promised } else { false };
        if foreign || headers.any(|header| header.store != store) {
            return Err(refused(target, BackupRefusal::OtherStore));
        }
        Ok(())
    }

    /// Whether all frames of the target are the source's too: it is not newer, and nobody wrote to it.
    fn check(&self, target: &dyn Disk, files: &[Arc<Segment>], frame: Frame) -> Result<()> {
        let Some(Last { salt, offset, header }) = &self.last else { return Ok(()) };
        let number = header.number;
        if number > frame {
            return Err(refused(target, BackupRefusal::Newer { found: number, last: frame }));
        }
        if self.twin.is_some() {
            return Ok(());
        }
        let holds = |segment: &&Arc<Segment>| !segment.id().is_base() && segment.id().first() <= number;
        // None: it was compacted since, and only the target can say that somebody wrote to it, who then made a promise.
        let Some(segment) = files.iter().rev().find(holds) else {
            let touched = self.promise.is_some_and(|promise| !promise.copied);
            let diverged = || refused(target, BackupRefusal::Diverged { frame: number });
            return if touched { Err(diverged()) } else { Ok(()) };
        };
        let same = if segment.header().salt == *salt {
            // The checksum holds those of all frames before it in the file.
            let head = segment.read_raw(*offset, FRAME_HEADER_BYTES)?;
            FrameHeader::decode(&head, *offset).is_ok_and(|now| (now.crc, now.number) == (header.crc, number))
        } else {
            // A file that was written anew keeps numbers, times and writers.
            let now = frame_of(segment, number)?;
            now.is_some_and(|now| (now.time, now.writer) == (header.time, header.writer))
        };
        if same { Ok(()) } else { Err(refused(target, BackupRefusal::Diverged { frame: number })) }
    }

    /// Whether the target's file says all that the backup needs of this one.
    fn has(&self, segment: &Segment, last: Option<Frame>) -> Result<bool> {
        let Some((_, Some(there))) = self.files.iter().find(|(id, _)| *id == segment.id()) else {
            return Ok(false);
        };
        let grows = *there.header() == grow::header(segment.header());
        if !grows && there.header() != segment.header() {
            return Ok(false);
        }
        let is_last = self.files.last().is_some_and(|(id, _)| *id == segment.id());
        if let Some(frame) = last {
            let stands = self.last.as_ref().is_some_and(|last| last.header.number == frame);
            // What was appended in place may be in the system's cache alone, unless it is promised.
            let proven = !grows || self.promise.is_some_and(|promise| promise.frame >= frame);
            return Ok(is_last && ((stands && proven) || frame < segment.id().first()));
        }
        if grows {
            // Before another file was stated behind it, it was durable, seal and all.
            return Ok(!is_last && grow::is_sealed_as(there, segment)?);
        }
        let at = segment.published().saturating_sub(SEAL_FRAME_BYTES);
        let len = usize::try_from(SEAL_FRAME_BYTES).unwrap_or(usize::MAX);
        // The seal holds the checksum of the frame before it, and so on back to the first.
        let (seal, copy) = (segment.read_raw(at, len)?, there.read_raw(at, len)?);
        Ok(seal == copy && FrameHeader::decode(&seal, at).is_ok_and(|seal| seal.kind == FrameKind::Seal))
    }

    /// Where the frames of a file that the target has end.
    fn known_end(&self, segment: &Segment, last: Option<Frame>) -> u64 {
        match last {
            Some(frame) if frame < segment.id().first() => FRAMES_START,
            Some(_) => self.last.as_ref().map_or(FRAMES_START, Last::end),
            None => segment.published(),
        }
    }

    /// Where the target's copy of a file can grow.
    fn twin_of(&self, segment: &Segment) -> Option<&Twin> {
        let is_last = self.files.last().is_some_and(|(id, _)| *id == segment.id());
        self.twin.as_ref().filter(|_| is_last)
    }
}

/// The header of the commit or lost range with a number.
fn frame_of(segment: &Segment, number: Frame) -> Result<Option<FrameHeader>> {
    let mut walk = Walk::new(segment, FRAMES_START, segment.published());
    while let Step::Frame { frame, .. } = walk.step()? {
        let counts = matches!(frame.header.kind, FrameKind::Commit | FrameKind::Lost);
        if counts && frame.header.number >= number {
            return Ok((frame.header.number == number).then(|| frame.header.clone()));
        }
    }
    Ok(None)
}

/// A backup under construction.
struct Copy<'d> {
    target: &'d dyn Disk,
    /// The last frame that is copied.
    frame: Frame,
    change: Change<'d>,
    promise: Durable,
    made: BackedUp,
}

impl Copy<'_> {
    fn files(&mut self, files: &[Arc<Segment>], there: &There) -> Result<()> {
        let mut growth = None;
        for (i, segment) in files.iter().enumerate() {
            let last = (i + 1 == files.len()).then_some(self.frame);
            if there.has(segment, last)? {
                let end = there.known_end(segment, last);
                self.note(segment, end, end);
            } else if let Some(twin) = there.twin_of(segment) {
                growth = Some((segment, last, twin));
            } else {
                let end = self.file(segment, last)?;
                self.note(segment, 0, end);
            }
        }
        // After all that may find the disk full, so that the backup mostly is what it was if one of them does; and before
        // the change is stated, so that no file stands behind one that is not durable.
        if let Some((segment, last, twin)) = growth {
            let (from, end) = match grow::grow(self.target, segment, twin, last)? {
                Some(end) => (twin.end(), end),
                None => (0, self.file(segment, last)?),
            };
            self.note(segment, from, end);
        }
        Ok(())
    }

    /// Counts a file that was copied from a place on.
    fn note(&mut self, segment: &Segment, from: u64, end: u64) {
        if segment.id().first() >= self.promise.segment {
            (self.promise.segment, self.promise.offset) = (segment.id().first(), end);
        }
        self.made.bytes += end;
        self.made.copied_files += usize::from(from < end);
        self.made.copied_bytes += end - from;
    }

    /// Copies a file, up to a frame or to its seal, and answers where it ends.
    fn file(&mut self, segment: &Segment, last: Option<Frame>) -> Result<u64> {
        let (header, reserved) = match last {
            Some(_) => (grow::header(segment.header()), GROWTH_MIN_BYTES),
            None => (segment.header().clone(), segment.published()),
        };
        let mut out =
            Out { file: self.change.create(segment.id().to_string(), header.salt, reserved)?, at: 0 };
        let mut checked = Checked::of(segment);
        // What grows later is built of the frames as they stand there; what is sealed is taken as it is.
        let mut build = last.map(|_| Build::with(&header, checked.chain.clone()));
        let mut pending = if last.is_some() { Vec::new() } else { header_area(&header) };
        let mut walk = Walk::new(segment, FRAMES_START, segment.published());
        while last.is_none_or(|frame| checked.chain.number < frame) {
            let at = walk.offset();
            let next = checked.chain.number.next().unwrap_or_default();
            let sealed = match walk.step()? {
                Step::Frame { frame, bytes, .. } => {
                    let number = frame.header.number;
                    checked.next(&frame, bytes, at).map_err(|reason| segment.corrupt(number, reason))?;
                    if let Some(build) = &mut build {
                        build.copy(&frame)?;
                        build.drain(PIECE_BYTES, |_, bytes| out.write(bytes))?;
                    } else {
                        pending.extend_from_slice(bytes);
                    }
                    frame.header.kind == FrameKind::Seal
                }
                Step::Bad(reason) => return Err(segment.corrupt(next, reason)),
                Step::End => {
                    let reason = Malformed::new("frame", at, "a frame or a seal", "zeros");
                    return Err(segment.corrupt(next, reason));
                }
            };
            if pending.len() >= PIECE_BYTES {
                out.write(&pending)?;
                pending.clear();
            }
            if sealed {
                break;
            }
        }
        if let Some(build) = &mut build {
            build.drain(0, |_, bytes| out.write(bytes))?;
        }
        out.write(&pending)?;
        Ok(out.at)
    }

    /// Takes out of the target what the source has no more. Where a file goes or gives way to one with other frames, so
    /// does everything that may repeat what it said.
    fn forget(&mut self, files: &[Arc<Segment>], there: &There) -> Result<()> {
        for (id, copy) in &there.files {
            let now = files.iter().find(|segment| segment.id() == *id);
            let same = |now: &Arc<Segment>| {
                copy.as_ref()
                    .is_some_and(|copy| [now.header(), &grow::header(now.header())].contains(&copy.header()))
            };
            if now.is_some_and(same) {
                continue;
            }
            self.made.replaced_files += 1;
            if now.is_none() {
                self.change.drop_file(id.to_string());
            }
        }
        if self.made.replaced_files > 0 {
            let root = target::names(self.target, "")?.unwrap_or_default();
            for dir in [CHECKPOINTS, QUARANTINE].into_iter().filter(|dir| root.iter().any(|name| name == dir))
            {
                // Synced first: a name that INTENT lists is one that cannot come back.
                self.target
                    .sync_dir(dir)
                    .map_err(|e| Error::io("syncing", self.target.root().join(dir), e))?;
                for name in target::names(self.target, dir)?.unwrap_or_default() {
                    self.change.drop_in(dir, name);
                }
            }
        }
        Ok(())
    }
}

/// A file that is being written, piece by piece, each durable before the next.
struct Out {
    file: NewFile,
    at: u64,
}

impl Out {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.at + bytes.len() as u64;
        self.file.reserve(end)?;
        target::in_pieces(PIECE_BYTES, self.at, bytes, |at, piece| {
            self.file.write(at, piece).and_then(|()| self.file.finish())
        })?;
        self.at = end;
        Ok(())
    }
}

/// What was checked of a file so far.
pub(super) struct Checked {
    chain: Chain,
    frames: u64,
    hash: Xxh3,
}

impl Checked {
    pub(super) fn of(segment: &Segment) -> Checked {
        let chain = Chain::start(segment.id().first().previous(), Time::ZERO);
        Checked { chain, frames: 0, hash: Xxh3::new() }
    }

    /// How many frames there were, and their digest.
    pub(super) fn counted(&self) -> (u64, u128) {
        (self.frames, self.hash.digest128())
    }

    /// Takes the next frame, or says what is wrong with it.
    ///
    /// # Errors
    /// As [`Chain::follow`]; a seal that says something else of the frames before it.
    pub(super) fn next(&mut self, frame: &CheckedFrame<'_>, bytes: &[u8], at: u64) -> Result<(), Malformed> {
        self.chain.follow(frame, at)?;
        if frame.header.kind == FrameKind::Seal {
            let seal = Seal::decode(frame.payload, at)?;
            let found = self.counted();
            if (seal.frames, seal.digest) != found {
                return Err(Malformed::new("seal", at, format_args!("{} frames", found.0), seal.frames));
            }
        }
        self.frames += 1;
        self.hash.update(bytes);
        Ok(())
    }
}
