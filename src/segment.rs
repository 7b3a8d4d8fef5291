//! One file of the log: create, reserve, write, read, walk its frames.
//!
//! A segment introduces bytes to their meaning: it puts headers and frames of `codec` into a file of `disk`.
//! It knows no other segment, so continuity across files and every verdict about an end belong to the log.
//!
//! Invariants: what lies below the published length never changes, except that recovery may write the very
//! same bytes again; the file never shrinks; a header is synced before the file gets its name.

mod scan;
mod search;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::codec::frame::{
    self, CheckedFrame, FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader, FrameKind, LostRange, Seed,
};
use crate::codec::payload;
use crate::codec::segment::{BadHeader, FORMAT_VERSION, FRAMES_START, SEGMENT_HEADER_OFFSETS, SegmentHeader};
use crate::codec::wire::Malformed;
use crate::disk::{Access, Disk, File, FileId, Map, ask_for};
use crate::error::{Error, Result};
use crate::position::{Frame, SegmentId, Time};
pub use search::{Search, find_promise};

/// The directory of the log.
pub const LOG_DIR: &str = "log";
/// The smallest step by which a file grows.
pub const GROWTH_MIN_BYTES: u64 = 64 * 1024;
/// The largest step by which a file grows, unless one frame needs more.
pub const GROWTH_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Room kept behind every frame for a close marker and a seal, so that ending a segment needs no new space.
pub const TRAILER_BYTES: u64 = FRAME_HEADER_BYTES as u64 + SEAL_FRAME_BYTES;
/// What a seal takes.
pub const SEAL_FRAME_BYTES: u64 = (FRAME_HEADER_BYTES + frame::SEAL_BYTES) as u64;
const _: () = assert!(SEAL_FRAME_BYTES.is_multiple_of(FRAME_ALIGN));
/// How much of an envelope memory is asked for before its length is known: as much as most have.
const NEAR_BYTES: u64 = 384;
/// How much a walk reads at a time, once it has read as much as a few frames are.
const READ_BYTES: usize = 256 * 1024;
/// How much a walk reads at first: a look at what others appended mostly finds nothing, or little, and every commit among
/// many writers begins with one.
const FIRST_READ_BYTES: usize = 4 * 1024;

/// A file of the log, open.
#[derive(Debug)]
pub struct Segment {
    id: SegmentId,
    header: SegmentHeader,
    seed: Seed,
    file: Arc<dyn File>,
    file_id: FileId,
    map: Option<Map>,
    reserved: AtomicU64,
    published: AtomicU64,
    frames_read: AtomicU64,
    envelopes_read: AtomicU64,
    display: std::path::PathBuf,
}

/// What was read of files of the log since they were opened: a statistic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Frames that were read and checked, of any kind: while opening, replaying, comparing, or to show a version.
    pub frames: u64,
    /// Envelopes that were read and checked alone, each for the body of one note, row or episode.
    pub envelopes: u64,
}

/// How segments are opened.
#[derive(Clone, Copy, Debug)]
pub struct SegmentOptions {
    /// The size at which a segment is full, in bytes.
    pub segment_bytes: u64,
    /// Whether reads go through a map where the disk offers one.
    pub map: bool,
}

/// What an opened file turned out to be.
#[derive(Debug)]
pub enum Opened {
    /// A segment.
    Segment(Segment),
    /// Neither header serves.
    BadHeader(Malformed),
}

impl Segment {
    /// Builds a segment under a temporary name, header and all, and syncs it.
    ///
    /// # Errors
    /// What the disk answers; the temporary file is removed then, as far as the disk lets us.
    pub fn build(
        disk: &dyn Disk,
        id: SegmentId,
        header: SegmentHeader,
        options: SegmentOptions,
    ) -> Result<Segment> {
        let temporary = temporary(header.salt);
        let display = disk.root().join(LOG_DIR).join(id.to_string());
        let io = |doing| {
            let path = disk.root().join(&temporary);
            move |e| Error::io(doing, path, e)
        };
        let bytes = header.encode();
        let file = disk.open(&temporary, Access::Create).map_err(io("creating"))?;
        let built = file
            .allocate(GROWTH_MIN_BYTES.min(options.segment_bytes))
            .map_err(io("reserving space"))
            .and_then(|()| {
                SEGMENT_HEADER_OFFSETS
                    .into_iter()
                    .try_for_each(|at| file.write_at(at, &bytes))
                    .map_err(io("writing"))
            })
            .and_then(|()| file.sync_data().map_err(io("syncing")))
            .and_then(|()| Segment::with_file(file, display, id, header, options));
        if built.is_err() {
            // Whatever is left over is removed by the next opening.
            let _ = disk.remove(&temporary);
        }
        built
    }

    /// Gives a built segment its own name, and makes that name durable.
    ///
    /// # Errors
    /// What the disk answers; whether the file has its name is unknown then.
    pub fn name(&self, disk: &dyn Disk) -> Result<()> {
        let (temporary, path) = (temporary(self.header.salt), format!("{LOG_DIR}/{}", self.id));
        let io = |doing, path: &str| {
            let path = disk.root().join(path);
            move |e| Error::io(doing, path, e)
        };
        disk.rename(&temporary, &path).map_err(io("renaming", &temporary))?;
        disk.sync_dir(LOG_DIR).map_err(io("syncing", LOG_DIR))
    }

    /// Opens a named file and reads its header. Nothing behind the header is read or published.
    ///
    /// # Errors
    /// What the disk answers; [`Error::NewerFormat`]. A header that does not serve is not an error here.
    pub fn open(
        disk: &dyn Disk,
        name: &str,
        id: SegmentId,
        access: Access,
        options: SegmentOptions,
    ) -> Result<Opened> {
        let path = format!("{LOG_DIR}/{name}");
        let display = disk.root().join(&path);
        let file = disk.open(&path, access).map_err(|e| Error::io("opening", &display, e))?;
        let mut head = vec![0; FRAMES_START as usize];
        let len = file.read_at(0, &mut head).map_err(|e| Error::io("reading", &display, e))?;
        head.truncate(len);
        match SegmentHeader::decode_either(&head) {
            Ok(header) => Segment::with_file(file, display, id, header, options).map(Opened::Segment),
            Err(BadHeader::Malformed(m)) => Ok(Opened::BadHeader(m)),
            Err(BadHeader::Newer { version }) => {
                Err(Error::NewerFormat { path: display, found: version, known: FORMAT_VERSION })
            }
        }
    }

    fn with_file(
        file: Arc<dyn File>,
        display: std::path::PathBuf,
        id: SegmentId,
        header: SegmentHeader,
        options: SegmentOptions,
    ) -> Result<Segment> {
        let reserved = file.len().map_err(|e| Error::io("reading the size of", &display, e))?;
        let file_id = file.id().map_err(|e| Error::io("reading the identity of", &display, e))?;
        let map = if options.map {
            let capacity = reserved.max(options.segment_bytes);
            file.map(capacity).map_err(|e| Error::io("mapping", &display, e))?
        } else {
            None
        };
        let seed = Seed::new(header.salt);
        let (reserved, published) = (AtomicU64::new(reserved), AtomicU64::new(FRAMES_START));
        let (frames_read, envelopes_read) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Segment {
            id,
            header,
            seed,
            file,
            file_id,
            map,
            reserved,
            published,
            frames_read,
            envelopes_read,
            display,
        })
    }

    /// Which file of the log this is.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// The header.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Begins every checksum in this file.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Which file on the disk this is, whatever its name.
    pub fn file_id(&self) -> FileId {
        self.file_id
    }

    /// The file's path, for messages.
    pub fn path(&self) -> &std::path::Path {
        &self.display
    }

    /// The size of the file in bytes: reserved space included.
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// The size of the file now: another process may have grown it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn size(&self) -> Result<u64> {
        let len = self.file.len().map_err(|e| Error::io("reading the size of", &self.display, e))?;
        Ok(self.reserved.fetch_max(len, Ordering::AcqRel).max(len))
    }

    /// Bytes that readers may see.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Lets readers see everything below `end`. Those bytes never change again.
    pub fn publish(&self, end: u64) {
        if let Some(map) = &self.map {
            map.publish(end);
        }
        self.published.fetch_max(end, Ordering::AcqRel);
    }

    /// Reserves space up to `end`, by steps that grow with the file, up to `full` unless `end` is beyond it.
    ///
    /// # Errors
    /// [`Error::DiskFull`] or [`Error::Io`]; nothing was written then, and the segment goes on as it is.
    pub fn reserve(&self, end: u64, full: u64) -> Result<()> {
        let size = self.reserved();
        if end <= size {
            return Ok(());
        }
        let step = (size / 8).clamp(GROWTH_MIN_BYTES, GROWTH_MAX_BYTES);
        let len = end.max(size.saturating_add(step).min(full));
        self.file.allocate(len).map_err(|e| Error::io("reserving space", &self.display, e))?;
        self.reserved.fetch_max(len, Ordering::AcqRel);
        Ok(())
    }

    /// Writes bytes in place.
    ///
    /// # Errors
    /// [`Error::Io`]; any part may have been written then.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes).map_err(|e| Error::io("writing", &self.display, e))
    }

    /// Makes durable all that was written before the call.
    ///
    /// # Errors
    /// [`Error::Io`]; what was written may then never reach the disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io("syncing", &self.display, e))
    }

    /// Up to `len` bytes from `offset`, by position, also beyond what is published; fewer at the file's end.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read_raw(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = self.read_into(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn read_into(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.file.read_at(offset, bytes).map_err(|e| Error::io("reading", &self.display, e))
    }

    /// `len` published bytes from `offset`: borrowed from the map where there is one. `None` if they are not
    /// all published.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(&self, offset: u64, len: usize) -> Result<Option<Cow<'_, [u8]>>> {
        if let Some(slice) = self.map.as_ref().and_then(|map| map.slice(offset, len as u64)) {
            return Ok(Some(Cow::Borrowed(slice)));
        }
        if offset.checked_add(len as u64).is_none_or(|end| end > self.published()) {
            return Ok(None);
        }
        let bytes = self.read_raw(offset, len)?;
        Ok((bytes.len() == len).then_some(Cow::Owned(bytes)))
    }

    /// Reads the published frame that begins at `offset`, and answers what `take` makes of it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with its place if no whole commit or base with this number stands there, or for what
    /// `take` answers; [`Error::Io`].
    pub fn frame<R>(
        &self,
        offset: u64,
        number: Frame,
        take: impl FnOnce(&CheckedFrame<'_>) -> Result<R, Malformed>,
    ) -> Result<R> {
        let corrupt = |m| self.corrupt(number, m);
        let outside = || corrupt(Malformed::new("frame", offset, "published bytes", "none"));
        let head = self.read(offset, FRAME_HEADER_BYTES)?.ok_or_else(outside)?;
        let header = FrameHeader::decode(&head, offset).map_err(corrupt)?;
        let bytes = self.read(offset, header.frame_bytes())?.ok_or_else(outside)?;
        self.frames_read.fetch_add(1, Ordering::Relaxed);
        let frame = frame::decode(&bytes, offset, &self.seed).map_err(corrupt)?;
        let FrameHeader { kind, number: found, .. } = frame.header;
        if found != number || !matches!(kind, FrameKind::Commit | FrameKind::Base) {
            return Err(corrupt(Malformed::new("frame number", offset, number, found)));
        }
        take(&frame).map_err(corrupt)
    }

    /// What was read of this file.
    pub fn reads(&self) -> Reads {
        Reads {
            frames: self.frames_read.load(Ordering::Relaxed),
            envelopes: self.envelopes_read.load(Ordering::Relaxed),
        }
    }

    /// One whole envelope that was published, its own checksum found right.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with its place if it does not check out (any more); [`Error::Io`].
    pub fn envelope(&self, offset: u64, frame: Frame) -> Result<Cow<'_, [u8]>> {
        let outside = || Malformed::new("envelope", offset, "published bytes", "none");
        if let Some(map) = &self.map {
            let near = map.published().saturating_sub(offset).min(NEAR_BYTES);
            ask_for(map.slice(offset, near).unwrap_or_default());
        }
        let head = self.read(offset, 4)?.ok_or_else(|| self.corrupt(frame, outside()))?;
        let len = payload::envelope_bytes(&head, offset).map_err(|m| self.corrupt(frame, m))?;
        let bytes = self.read(offset, len)?.ok_or_else(|| self.corrupt(frame, outside()))?;
        self.envelopes_read.fetch_add(1, Ordering::Relaxed);
        payload::check_alone(&bytes, offset, &self.seed).map_err(|m| self.corrupt(frame, m))?;
        Ok(bytes)
    }

    /// The error of bytes that were whole at opening and are not any more.
    pub fn corrupt(&self, frame: Frame, reason: Malformed) -> Error {
        let path = self.display.clone();
        // What a base keeps is known by the frame that wrote it, which is not the one that rotted.
        let frame = match self.id {
            SegmentId::Base { first, .. } => first.previous(),
            SegmentId::Segment { .. } => frame,
        };
        Error::Corrupt { path, segment: self.id.to_string(), frame, reason: Box::new(reason) }
    }
}

/// The name that a segment has until it is whole; its salt is random.
fn temporary(salt: u64) -> String {
    format!("{LOG_DIR}/{salt:016x}.tmp")
}

/// What must hold from one frame of a file to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The checksum of the frame before; 0 at the beginning of a file.
    pub previous_crc: u32,
    /// The last frame number that was given.
    pub number: Frame,
    /// The last frame's time.
    pub time: Time,
}

impl Chain {
    /// The chain at the beginning of a file whose first commit will be `first`.
    pub fn start(number: Frame, time: Time) -> Chain {
        Chain { previous_crc: 0, number, time }
    }

    /// Takes the next frame, or says why it is not the next.
    ///
    /// # Errors
    /// Another previous checksum, a number that does not follow, a time that goes back, a payload that does
    /// not decode. The chain is then as it was.
    pub fn follow(&mut self, frame: &CheckedFrame<'_>, offset: u64) -> Result<(), Malformed> {
        let FrameHeader { previous_crc, number, time, kind, crc, .. } = frame.header;
        if previous_crc != self.previous_crc {
            let (e, f) = (format!("{:#010x}", self.previous_crc), format!("{previous_crc:#010x}"));
            return Err(Malformed::new("previous checksum", offset, e, f));
        }
        let body = offset + FRAME_HEADER_BYTES as u64;
        let expected = match kind {
            FrameKind::Commit => self.number.next(),
            FrameKind::Close | FrameKind::Seal | FrameKind::Base => Some(self.number),
            FrameKind::Lost => {
                let range = LostRange::decode(frame.payload, body)?;
                (Some(range.first) == self.number.next()).then_some(range.last)
            }
        };
        if expected != Some(number) {
            let expected = expected.map_or("a range that follows".into(), |n| n.to_string());
            return Err(Malformed::new("frame number", offset, expected, number));
        }
        if time < self.time {
            return Err(Malformed::new("frame time", offset, format!("{} or later", self.time), time));
        }
        payload::check(frame, body)?;
        *self = Chain { previous_crc: crc, number, time };
        Ok(())
    }
}

/// What a walk met.
#[derive(Debug)]
pub enum Step<'w> {
    /// A frame whose checksum is right; whether it is the next one, [`Chain::follow`] says.
    Frame {
        /// Where it stands.
        offset: u64,
        /// The frame.
        frame: CheckedFrame<'w>,
        /// All its bytes, padding included.
        bytes: &'w [u8],
    },
    /// Nothing was ever written here, or the file ends.
    End,
    /// Something stands here that is no frame.
    Bad(Malformed),
}

/// A walk over the frames of one file, by positioned reads into one buffer.
#[derive(Debug)]
pub struct Walk<'s> {
    segment: &'s Segment,
    end: u64,
    offset: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
    /// How much is read next.
    read_bytes: usize,
}

impl<'s> Walk<'s> {
    /// Walks from `offset` (that of a frame) up to `end`.
    pub fn new(segment: &'s Segment, offset: u64, end: u64) -> Walk<'s> {
        let (buffer, read_bytes) = (Vec::new(), FIRST_READ_BYTES);
        Walk { segment, end, offset, buffer, buffer_at: offset, read_bytes }
    }

    /// Where the next frame would stand.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next frame; the walk stays in front of anything else.
    ///
    /// # Errors
    /// [`Error::Io`]: never taken for the end or for damage.
    pub fn step(&mut self) -> Result<Step<'_>> {
        let offset = self.offset;
        let left = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(Step::End);
        }
        let head = self.ensure(FRAME_HEADER_BYTES.min(left))?;
        if frame::is_unwritten(head) {
            return Ok(Step::End);
        }
        let header = match FrameHeader::decode(head, offset) {
            Ok(header) => header,
            Err(m) => return Ok(Step::Bad(m)),
        };
        let len = header.frame_bytes();
        if len > left {
            return Ok(Step::Bad(Malformed::new(
                "payload length",
                offset,
                format!("at most {left} bytes left"),
                len,
            )));
        }
        self.ensure(len)?;
        let start = usize::try_from(offset - self.buffer_at).unwrap_or(usize::MAX);
        let bytes = self.buffer.get(start..).and_then(|b| b.get(..len)).unwrap_or_default();
        self.segment.frames_read.fetch_add(1, Ordering::Relaxed);
        match frame::decode(bytes, offset, &self.segment.seed) {
            Ok(frame) => {
                self.offset += len as u64;
                Ok(Step::Frame { offset, frame, bytes })
            }
            Err(m) => Ok(Step::Bad(m)),
        }
    }

    /// Makes sure that the buffer holds `len` bytes from the current offset, if the file has them.
    fn ensure(&mut self, len: usize) -> Result<&[u8]> {
        let start = usize::try_from(self.offset - self.buffer_at).unwrap_or(usize::MAX);
        if self.buffer.len().saturating_sub(start) < len {
            let left = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
            // The same buffer again: a new one would be zeroed, and faulted in, for nothing.
            self.buffer.resize(len.max(self.read_bytes).min(left), 0);
            self.read_bytes = READ_BYTES;
            let read = self.segment.read_into(self.offset, &mut self.buffer)?;
            self.buffer.truncate(read);
            self.buffer_at = self.offset;
            return Ok(self.buffer.get(..len).unwrap_or(&self.buffer));
        }
        Ok(self.buffer.get(start..).and_then(|b| b.get(..len)).unwrap_or_default())
    }
}
