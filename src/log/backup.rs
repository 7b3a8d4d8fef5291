//! A backup: a copy of the log's durable bytes in another store directory, brought up to date by what is new.
//!
//! Files are copied as they are, salts and nonces included, so a file of the target that has the salt of the
//! source's is the same file, whole or a beginning of it. Every frame is checked before it is written. What is new
//! or changed comes into being as one change through INTENT of the target: a crash leaves the backup that was there
//! or the new one. Where a file gives way to another, or goes, what lies in the target's `checkpoints/` and
//! `quarantine/` goes with it: a backup after an erase forgets too. Nobody who writes to the source waits.
//!
//! A file that only grew is built anew whole. To append in place would be less work and no backup: frames promise
//! earlier ones, and until a sync the disk may keep the later without the earlier, which is damage to whoever opens it.

use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use super::build::header_area;
use super::change::{Change, NewFile};
use super::follow::Sight;
use super::found::Found;
use super::promise;
use super::settle::QUARANTINE;
use super::target::{self, Target};
use super::{intent, retention, settle};
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
/// How much is put together before it is written.
const WRITE_BYTES: usize = 1 << 20;
/// How much is written between two syncs: whoever syncs a file of the store beside this waits for no more.
const SYNC_BYTES: usize = 4 << 20;

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
    /// Files that were copied.
    pub copied_files: usize,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Files of the log that were taken out of the backup, or replaced by another, because the store has them no
    /// more.
    pub replaced_files: usize,
}

/// Makes a backup of the log of the store on `source` on another disk, or brings the one there up to date. `sight` looks at the log; it is
/// asked again once the target's lock is held.
///
/// # Errors
/// [`Error::BackupRefused`]; [`Error::NotAStore`]; [`Error::Locked`]: somebody writes to the target;
/// [`Error::NetworkFilesystem`]; [`Error::Corrupt`]: a frame rotted; [`Error::DiskFull`]: the backup that was there
/// stays as it was. [`Error::Io`]: the same, unless all was stated already; then whoever opens it completes it.
pub fn backup(
    source: &dyn Disk,
    sight: &dyn Fn() -> Result<Sight>,
    target: &dyn Disk,
    wait: Duration,
    allow_network: bool,
) -> Result<BackedUp> {
    check_apart(&sight()?, target)?;
    let first = !is_store(target)?;
    let taken = Target::take(target, wait, allow_network)?;
    taken.fill(first, || update(source, &sight()?, target))
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
fn update(source: &dyn Disk, sight: &Sight, target: &dyn Disk) -> Result<BackedUp> {
    let frame = sight.durable();
    let files = target::up_to(sight.files(), frame);
    let store = files.first().map(|segment| segment.header().store).unwrap_or_default();
    // Before anything in the target is touched: it may be somebody else's.
    There::look(target)?.check_store(target, store)?;
    intent::finish(target)?;
    settle::remove_temporaries(target, &["", LOG_DIR])?;
    let there = There::look(target)?;
    there.check(target, &files, frame)?;
    let room = target::prepare(target)?;
    let made = BackedUp {
        store,
        frame,
        files: files.len(),
        bytes: 0,
        copied_files: 0,
        copied_bytes: 0,
        replaced_files: 0,
    };
    let promise = Durable { store, frame, segment: Frame(1), offset: FRAMES_START };
    let mut copy = Copy { target, frame, change: Change::begin(target, store)?, promise, made };
    copy.files(&files, &there)?;
    copy.forget(&files, &there)?;
    let Copy { change, promise, made, .. } = copy;
    if !change.is_empty() {
        change.commit()?;
    }
    if promise::read(target)?.is_none_or(|known| known.store != store || known.frame < frame) {
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

/// What the target holds.
struct There {
    /// Those whose headers do not serve are without one: they are built anew.
    files: Vec<(SegmentId, Option<Segment>)>,
    last: Option<Last>,
}

impl There {
    fn look(target: &dyn Disk) -> Result<There> {
        let options = SegmentOptions { segment_bytes: 0, map: false };
        let mut files = Vec::new();
        for (id, name) in Found::look(target, Access::Read)?.files {
            let segment = match Segment::open(target, &name, id, Access::Read, options)? {
                Opened::Segment(segment) => Some(segment),
                Opened::BadHeader(_) => None,
            };
            files.push((id, segment));
        }
        let mut there = There { files, last: None };
        there.last = there.last()?;
        Ok(there)
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
        let promised = promise::read(target)?.is_some_and(|promise| promise.store != store);
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
        let holds = |segment: &&Arc<Segment>| !segment.id().is_base() && segment.id().first() <= number;
        // None: it was compacted since, and nobody can say any more.
        let Some(segment) = files.iter().rev().find(holds) else { return Ok(()) };
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
        if there.header() != segment.header() {
            return Ok(false);
        }
        if let Some(frame) = last {
            let stands = self.last.as_ref().is_some_and(|last| last.header.number == frame);
            let ends = self.files.last().is_some_and(|(id, _)| *id == segment.id());
            return Ok(ends && (stands || frame < segment.id().first()));
        }
        let at = segment.published().saturating_sub(SEAL_FRAME_BYTES);
        let len = usize::try_from(SEAL_FRAME_BYTES).unwrap_or(usize::MAX);
        // The seal holds the checksum of the frame before it, and so on back to the first.
        let (seal, copy) = (segment.read_raw(at, len)?, there.read_raw(at, len)?);
        Ok(seal == copy && FrameHeader::decode(&seal, at).is_ok_and(|seal| seal.kind == FrameKind::Seal))
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
        for (i, segment) in files.iter().enumerate() {
            let last = (i + 1 == files.len()).then_some(self.frame);
            let known = there.has(segment, last)?;
            let end = if known { self.known_end(segment, last, there) } else { self.file(segment, last)? };
            (self.promise.segment, self.promise.offset) = (segment.id().first(), end);
            self.made.bytes += end;
            if !known {
                self.made.copied_files += 1;
                self.made.copied_bytes += end;
            }
        }
        Ok(())
    }

    /// Where the frames of a file that the target has end.
    fn known_end(&self, segment: &Segment, last: Option<Frame>, there: &There) -> u64 {
        match (&there.last, last) {
            (Some(known), Some(_)) if known.salt == segment.header().salt => {
                known.offset + known.header.frame_bytes() as u64
            }
            (_, Some(_)) => FRAMES_START,
            (_, None) => segment.published(),
        }
    }

    /// Copies a file, up to a frame or to its seal, and answers where it ends.
    fn file(&mut self, segment: &Segment, last: Option<Frame>) -> Result<u64> {
        let reserved = if last.is_some() { GROWTH_MIN_BYTES } else { segment.published() };
        let mut out = Out {
            file: self.change.create(segment.id().to_string(), segment.header().salt, reserved)?,
            pending: header_area(segment.header()),
            at: 0,
            unsynced: 0,
        };
        let mut checked = Checked::of(segment);
        let mut walk = Walk::new(segment, FRAMES_START, segment.published());
        while last.is_none_or(|frame| checked.chain.number < frame) {
            let at = walk.offset();
            let next = checked.chain.number.next().unwrap_or_default();
            let sealed = match walk.step()? {
                Step::Frame { frame, bytes, .. } => {
                    let number = frame.header.number;
                    checked.next(&frame, bytes, at).map_err(|reason| segment.corrupt(number, reason))?;
                    out.add(bytes)?;
                    frame.header.kind == FrameKind::Seal
                }
                Step::Bad(reason) => return Err(segment.corrupt(next, reason)),
                Step::End => {
                    let reason = Malformed::new("frame", at, "a frame or a seal", "zeros");
                    return Err(segment.corrupt(next, reason));
                }
            };
            if sealed {
                break;
            }
        }
        out.end()
    }

    /// Takes out of the target what the source has no more. Where a file goes or gives way to one with other frames, so
    /// does everything that may repeat what it said.
    fn forget(&mut self, files: &[Arc<Segment>], there: &There) -> Result<()> {
        for (id, copy) in &there.files {
            let now = files.iter().find(|segment| segment.id() == *id);
            let same = |now: &Arc<Segment>| copy.as_ref().is_some_and(|copy| copy.header() == now.header());
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

/// A file that is being written.
struct Out {
    file: NewFile,
    pending: Vec<u8>,
    at: u64,
    unsynced: usize,
}

impl Out {
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let end = self.at + self.pending.len() as u64;
        self.file.reserve(end)?;
        self.file.write(self.at, &self.pending)?;
        self.unsynced += self.pending.len();
        self.at = end;
        self.pending.clear();
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.file.finish()?;
        }
        Ok(())
    }

    /// Makes the file durable, and answers how many bytes it holds.
    fn end(mut self) -> Result<u64> {
        self.write()?;
        self.file.finish()?;
        Ok(self.at)
    }
}

/// What was checked of a file so far.
struct Checked {
    chain: Chain,
    frames: u64,
    hash: Xxh3,
}

impl Checked {
    fn of(segment: &Segment) -> Checked {
        let chain = Chain::start(segment.id().first().previous(), Time::ZERO);
        Checked { chain, frames: 0, hash: Xxh3::new() }
    }

    fn next(&mut self, frame: &CheckedFrame<'_>, bytes: &[u8], at: u64) -> Result<(), Malformed> {
        self.chain.follow(frame, at)?;
        if frame.header.kind == FrameKind::Seal {
            let seal = Seal::decode(frame.payload, at)?;
            let found = (self.frames, self.hash.digest128());
            if (seal.frames, seal.digest) != found {
                return Err(Malformed::new("seal", at, format_args!("{} frames", found.0), seal.frames));
            }
        }
        self.frames += 1;
        self.hash.update(bytes);
        Ok(())
    }
}
