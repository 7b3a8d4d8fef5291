//! The copy, in a backup, of the file that is still appended to: it grows in place with what is new.
//!
//! Such a copy is a file of its own: its salt follows from that of the file it is of, so whoever knows the one knows the
//! other, and frames stand at the same places in both with the same numbers, times, writers and content. Its seal
//! repeats the nonce.
//!
//! What frames promise differs. Those of the source promise earlier ones, and appended as they are they would do so
//! before they are durable here: a loss of power that keeps a later one without the earlier would then be damage.
//! So no frame that is appended promises more than what was durable in the copy before, and a torn end is an unclean
//! end: everything up to the last promise is there, and what stands behind it is cut or goes unread. DURABLE of the
//! backup is raised at the end, by whoever calls; it is the one promise that covers what was appended last.
//!
//! It goes on only from a place that DURABLE proves and behind which nothing was ever written. What an interrupted
//! backup left there may be in the system's cache and nowhere else: then the file is built anew, by whoever calls.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::backup::Checked;
use super::build::Build;
use super::target;
use crate::codec::frame::{FrameHeader, FrameKind, Seal};
use crate::codec::segment::{FRAMES_START, SegmentHeader};
use crate::codec::wire::Malformed;
use crate::disk::{Access, Disk};
use crate::error::Result;
use crate::position::Frame;
use crate::segment::{
    Chain, GROWTH_MAX_BYTES, Opened, SEAL_FRAME_BYTES, Segment, SegmentOptions, Step, Walk,
};

/// Sets the salts that follow from others apart from every other use of the hash.
const SALT_SEED: u64 = u64::from_le_bytes(*b"in place");
/// How much is appended before it is synced: little, because it happens beside the same writers again and again.
const PIECE_BYTES: usize = 64 * 1024;
/// How much is looked at at a time for anything that was ever written.
const LOOK_BYTES: usize = 256 * 1024;

/// The header of the copy that grows, from that of the file that it is of.
pub(super) fn header(of: &SegmentHeader) -> SegmentHeader {
    SegmentHeader { salt: xxh3_64_with_seed(&of.salt.to_le_bytes(), SALT_SEED).max(1), ..of.clone() }
}

/// The last frame of a copy, in the copy and in the file that it is of: from here the copy can grow.
#[derive(Debug)]
pub(super) struct Twin {
    /// Where it stands, in both.
    pub(super) offset: u64,
    /// Its header in the copy.
    pub(super) header: FrameHeader,
    /// Its checksum in the file.
    source_crc: u32,
}

impl Twin {
    /// Where the copy's frames end.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.header.frame_bytes() as u64
    }

    fn chain(&self, previous_crc: u32) -> Chain {
        Chain { previous_crc, number: self.header.number, time: self.header.time }
    }

    /// Finds the promised frame in a copy and in its file, in which it stands at or behind `near`. None if there is any
    /// doubt: it is not the same frame, or something was ever written behind it.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub(super) fn find(copy: &Segment, source: &Segment, near: u64, promise: Frame) -> Result<Option<Twin>> {
        if *copy.header() != header(source.header()) {
            return Ok(None);
        }
        let mut walk = Walk::new(source, near, source.published());
        let (offset, theirs) = loop {
            match walk.step()? {
                Step::Frame { offset, frame, .. } if is_numbered(&frame.header, promise) => {
                    break (offset, frame.header.clone());
                }
                Step::Frame { frame, .. } if frame.header.number <= promise => {}
                _ => return Ok(None),
            }
        };
        let mut there = Walk::new(copy, offset, copy.size()?);
        // Its checksum is over that of the frame before it, and so on back to the first, as they were written.
        let Step::Frame { frame, .. } = there.step()? else { return Ok(None) };
        let ours = frame.header.clone();
        let known = |header: &FrameHeader| (header.kind, header.number, header.time, header.writer);
        let same = known(&ours) == known(&theirs) && ours.payload_length == theirs.payload_length;
        let twin = Twin { offset, header: ours, source_crc: theirs.crc };
        Ok((same && is_unwritten(copy, twin.end())?).then_some(twin))
    }
}

fn is_numbered(header: &FrameHeader, number: Frame) -> bool {
    header.number == number && matches!(header.kind, FrameKind::Commit | FrameKind::Lost)
}

/// Whether nothing but zeros stands from a place to the end of the file.
fn is_unwritten(copy: &Segment, from: u64) -> Result<bool> {
    let (mut at, end) = (from, copy.size()?);
    while at < end {
        let bytes = copy.read_raw(at, usize::try_from(end - at).unwrap_or(usize::MAX).min(LOOK_BYTES))?;
        if bytes.is_empty() || bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        at += bytes.len() as u64;
    }
    Ok(true)
}

/// Whether a copy that grew is sealed as the file that it is of.
///
/// # Errors
/// [`crate::error::Error::Io`].
pub(super) fn is_sealed_as(copy: &Segment, source: &Segment) -> Result<bool> {
    let seal = |segment: &Segment| -> Result<Option<(Frame, u64, u64)>> {
        let at = source.published().saturating_sub(SEAL_FRAME_BYTES);
        match Walk::new(segment, at, source.published()).step()? {
            Step::Frame { frame, .. } if frame.header.kind == FrameKind::Seal => {
                let seal = Seal::decode(frame.payload, at).ok();
                Ok(seal.map(|seal| (frame.header.number, seal.frames, seal.nonce)))
            }
            _ => Ok(None),
        }
    };
    let known = seal(source)?;
    Ok(known.is_some() && seal(copy)? == known)
}

/// Appends what stands behind a frame in a file to its copy, up to a frame or to the seal, durably. Answers where the copy
/// ends then; none if the copy turns out not to be one to go on with, so that it has to be built anew.
///
/// # Errors
/// [`crate::error::Error::Corrupt`]: a frame rotted; [`crate::error::Error::DiskFull`]: nothing was written;
/// [`crate::error::Error::Io`].
pub(super) fn grow(
    target: &dyn Disk,
    source: &Segment,
    twin: &Twin,
    last: Option<Frame>,
) -> Result<Option<u64>> {
    let options = SegmentOptions { segment_bytes: 0, map: false };
    let (id, end) = (source.id(), source.published());
    let Opened::Segment(copy) = Segment::open(target, &id.to_string(), id, Access::Write, options)? else {
        return Ok(None);
    };
    copy.reserve(end, end.saturating_add(GROWTH_MAX_BYTES))?;
    let mut build =
        Build::resume(copy.header().salt, twin.end(), twin.chain(twin.header.crc), twin.header.number);
    let mut chain = twin.chain(twin.source_crc);
    let mut walk = Walk::new(source, twin.end(), end);
    while last.is_none_or(|last| chain.number < last) {
        let at = walk.offset();
        let next = chain.number.next().unwrap_or_default();
        match walk.step()? {
            Step::Frame { frame, .. } => {
                chain.follow(&frame, at).map_err(|reason| source.corrupt(frame.header.number, reason))?;
                if frame.header.kind == FrameKind::Seal {
                    let seal = Seal::decode(frame.payload, at);
                    let seal = seal.map_err(|reason| source.corrupt(frame.header.number, reason))?;
                    put(&mut build, &copy, 0)?;
                    let Some(own) = seal_of(&copy, at, &seal)? else { return Ok(None) };
                    build.seal_as(&own, &frame.header)?;
                    break;
                }
                build.copy(&frame)?;
                put(&mut build, &copy, PIECE_BYTES)?;
            }
            Step::Bad(reason) => return Err(source.corrupt(next, reason)),
            Step::End => {
                let reason = Malformed::new("frame", at, "a frame or a seal", "zeros");
                return Err(source.corrupt(next, reason));
            }
        }
    }
    put(&mut build, &copy, 0)?;
    Ok(Some(build.len()))
}

/// Writes what was built, if it is at least so much.
fn put(build: &mut Build, copy: &Segment, at_least: usize) -> Result<()> {
    build.drain(at_least, |at, bytes| {
        target::in_pieces(PIECE_BYTES, at, bytes, |at, piece| {
            copy.write(at, piece).and_then(|()| copy.sync())
        })
    })
}

/// The seal of a copy whose frames end at a place: `theirs` with the copy's own digest. The copy is read once more for it,
/// whole, and checked; none if a frame of it does not check out.
fn seal_of(copy: &Segment, end: u64, theirs: &Seal) -> Result<Option<Seal>> {
    let mut checked = Checked::of(copy);
    let mut walk = Walk::new(copy, FRAMES_START, end);
    while walk.offset() < end {
        let at = walk.offset();
        let Step::Frame { frame, bytes, .. } = walk.step()? else { return Ok(None) };
        if checked.next(&frame, bytes, at).is_err() {
            return Ok(None);
        }
    }
    let (frames, digest) = checked.counted();
    Ok((frames == theirs.frames).then_some(Seal { frames, digest, nonce: theirs.nonce }))
}
