//! The frame: header, payload, padding. The unit that is written, checked and replayed.
//!
//! Nothing in a frame is outside its checksum except the checksum. The checksum begins with the segment's
//! salt, and the header names its own offset and the checksum before it: bytes of another file, of another
//! place, or left over behind a cut are no frame. A zeroed header is space that was never written.

use super::crc;
use super::segment::time;
use super::sums::POLYNOMIAL;
use super::wire::{Malformed, Reader, padded, put};
use crate::position::{Frame, Time};

/// Bytes of a frame header.
pub const FRAME_HEADER_BYTES: usize = 48;
/// Frames begin at multiples of this many bytes.
pub const FRAME_ALIGN: u64 = 8;
/// The largest payload: 1 GiB.
pub const PAYLOAD_MAX: usize = 1 << 30;
/// The most deltas in one frame.
pub const FRAME_DELTAS_MAX: usize = u16::MAX as usize;

/// Offset of each header field: a running sum.
pub mod frame_header {
    /// 4 bytes.
    pub const PAYLOAD_LENGTH: usize = 0;
    /// 4 bytes.
    pub const CRC: usize = PAYLOAD_LENGTH + 4;
    /// 8 bytes.
    pub const NUMBER: usize = CRC + 4;
    /// 4 bytes.
    pub const OWN_OFFSET: usize = NUMBER + 8;
    /// 4 bytes.
    pub const PREVIOUS_CRC: usize = OWN_OFFSET + 4;
    /// 8 bytes.
    pub const DURABLE: usize = PREVIOUS_CRC + 4;
    /// 8 bytes.
    pub const TIME: usize = DURABLE + 8;
    /// 1 byte.
    pub const KIND: usize = TIME + 8;
    /// 1 byte, zero.
    pub const RESERVED: usize = KIND + 1;
    /// 2 bytes.
    pub const DELTA_COUNT: usize = RESERVED + 1;
    /// 4 bytes.
    pub const WRITER: usize = DELTA_COUNT + 2;
    /// Where the payload begins.
    pub const END: usize = WRITER + 4;
}
const _: () = assert!(frame_header::END == FRAME_HEADER_BYTES);
const _: () = assert!(FRAME_HEADER_BYTES.is_multiple_of(FRAME_ALIGN as usize));

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// One or more deltas; the only kind that advances the frame number.
    Commit = 1,
    /// The end of a clean shutdown; no payload.
    Close = 2,
    /// The end of a full segment; its payload is a [`Seal`].
    Seal = 3,
    /// A piece of the state before the first kept frame.
    Base = 4,
    /// Stands where frames are gone; its payload is a [`LostRange`].
    Lost = 5,
}

impl FrameKind {
    /// Every kind, in the order of the tags.
    pub const ALL: [FrameKind; 5] =
        [FrameKind::Commit, FrameKind::Close, FrameKind::Seal, FrameKind::Base, FrameKind::Lost];

    /// The kind of a tag byte.
    pub fn from_tag(tag: u8) -> Option<FrameKind> {
        FrameKind::ALL.into_iter().find(|k| *k as u8 == tag)
    }

    /// The kind's name in dumps and messages.
    pub fn name(self) -> &'static str {
        match self {
            FrameKind::Commit => "commit",
            FrameKind::Close => "close",
            FrameKind::Seal => "seal",
            FrameKind::Base => "base",
            FrameKind::Lost => "lost",
        }
    }
}

/// The checksum of everything in one file, begun with the file's salt.
#[derive(Clone, Debug)]
pub struct Seed(u32);

impl Seed {
    /// The seed of a segment with this salt.
    pub fn new(salt: u64) -> Seed {
        Seed(crc::behind(0, &salt.to_le_bytes()))
    }

    /// The seed that makes a frame's checksum right: where the salt is lost, any whole frame tells it. `frame` is
    /// all of its bytes, padding included. Nothing is proved by that frame's own checksum, which is right by
    /// construction; those of its envelopes prove it.
    ///
    /// A checksum is linear in the state that the salt left, so that state is what is over when the frame's own
    /// bytes are taken back, bit by bit. Takes time in proportion to eight times the frame.
    pub fn of_frame(frame: &[u8]) -> Seed {
        let at = frame_header::CRC;
        let stored = frame.get(at..).and_then(|b| b.first_chunk().copied()).map_or(0, u32::from_le_bytes);
        let mut state = stored ^ super::segment::crc_without(frame, at);
        for _ in 0..frame.len().saturating_sub(4).saturating_mul(8) {
            let bit = state >> 31;
            state = ((state ^ (POLYNOMIAL * bit)) << 1) | bit;
        }
        Seed(state)
    }

    /// crc32 of the salt and then `bytes` without the four at `skip`.
    pub fn crc_without(&self, bytes: &[u8], skip: usize) -> u32 {
        let (before, behind) = (bytes.get(..skip), bytes.get(skip + 4..));
        crc::behind(crc::behind(self.0, before.unwrap_or_default()), behind.unwrap_or_default())
    }
}

/// The fields of a frame header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload, without padding.
    pub payload_length: u32,
    /// The checksum over the rest of the header, payload and padding.
    pub crc: u32,
    /// The commit's number; for other kinds that of the last commit (for `lost`, the last lost one).
    pub number: Frame,
    /// Where the frame stands in its file.
    pub own_offset: u32,
    /// The checksum of the frame before it in this file; 0 for the first.
    pub previous_crc: u32,
    /// The highest frame known durable when this one was written.
    pub durable: Frame,
    /// When it was written; never earlier than the frame before.
    pub time: Time,
    /// What the frame is for.
    pub kind: FrameKind,
    /// Deltas in the payload: a snapshot with all its items is one.
    pub delta_count: u16,
    /// Random, new at each opening for writing.
    pub writer: u32,
}

impl FrameHeader {
    /// Bytes from the header's first to the padding's last.
    pub fn frame_bytes(&self) -> usize {
        FRAME_HEADER_BYTES + padded(self.payload_length as usize)
    }

    /// Reads the header at `offset` of a file of which `bytes` begins there. The checksum is not looked at.
    ///
    /// # Errors
    /// Too short; a length beyond 1 GiB; another own offset; an unknown kind; a reserved byte in use; a
    /// time out of range.
    pub fn decode(bytes: &[u8], offset: u64) -> Result<FrameHeader, Malformed> {
        let mut r = Reader::new(bytes, offset);
        let payload_length = r.u32("payload length")?;
        if payload_length as usize > PAYLOAD_MAX {
            return Err(Malformed::new("payload length", offset, "at most 1 GiB", payload_length));
        }
        let crc = r.u32("frame checksum")?;
        let number = Frame(r.u64("frame number")?);
        let own_at = r.offset();
        let own_offset = r.u32("own offset")?;
        if u64::from(own_offset) != offset {
            return Err(Malformed::new("own offset", own_at, offset, own_offset));
        }
        let previous_crc = r.u32("previous checksum")?;
        let durable = Frame(r.u64("durable frame")?);
        let time = time(&mut r, "frame time")?;
        let kind_at = r.offset();
        let tag = r.u8("frame kind")?;
        let kind = FrameKind::from_tag(tag)
            .ok_or_else(|| Malformed::new("frame kind", kind_at, "a kind from 1 to 5", tag))?;
        r.zeros("reserved byte", 1)?;
        let delta_count = r.u16("delta count")?;
        let writer = r.u32("writer")?;
        Ok(FrameHeader {
            payload_length,
            crc,
            number,
            own_offset,
            previous_crc,
            durable,
            time,
            kind,
            delta_count,
            writer,
        })
    }

    fn write(&self, out: &mut [u8]) {
        use frame_header as at;
        put(out, at::PAYLOAD_LENGTH, &self.payload_length.to_le_bytes());
        put(out, at::NUMBER, &self.number.0.to_le_bytes());
        put(out, at::OWN_OFFSET, &self.own_offset.to_le_bytes());
        put(out, at::PREVIOUS_CRC, &self.previous_crc.to_le_bytes());
        put(out, at::DURABLE, &self.durable.0.to_le_bytes());
        put(out, at::TIME, &self.time.as_micros().to_le_bytes());
        put(out, at::KIND, &[self.kind as u8]);
        put(out, at::DELTA_COUNT, &self.delta_count.to_le_bytes());
        put(out, at::WRITER, &self.writer.to_le_bytes());
    }
}

/// A frame whose checksum is right.
#[derive(Clone, Debug)]
pub struct CheckedFrame<'a> {
    /// Its header.
    pub header: FrameHeader,
    /// Its payload, without padding.
    pub payload: &'a [u8],
}

/// True where a frame header would stand and nothing was ever written.
pub fn is_unwritten(bytes: &[u8]) -> bool {
    bytes.iter().take(FRAME_HEADER_BYTES).all(|&b| b == 0)
}

/// Reads and checks the frame at `offset` of a file; `bytes` begins there and may go on behind it.
///
/// # Errors
/// As [`FrameHeader::decode`]; fewer bytes than the header says; a wrong checksum; padding or delta count
/// that do not fit the kind.
pub fn decode<'a>(bytes: &'a [u8], offset: u64, seed: &Seed) -> Result<CheckedFrame<'a>, Malformed> {
    decode_with(bytes, offset, |whole| seed.crc_without(whole, frame_header::CRC))
}

/// As [`decode`], with a checksum that the caller takes, of the frame's bytes without the four of the checksum itself.
///
/// # Errors
/// As [`decode`].
pub fn decode_with<'a>(
    bytes: &'a [u8],
    offset: u64,
    sum: impl FnOnce(&[u8]) -> u32,
) -> Result<CheckedFrame<'a>, Malformed> {
    let header = FrameHeader::decode(bytes, offset)?;
    let mut r = Reader::new(bytes, offset);
    let whole = r.bytes("frame", header.frame_bytes())?;
    let crc = sum(whole);
    if crc != header.crc {
        let (e, f) = (format!("{crc:#010x}"), format!("{:#010x}", header.crc));
        return Err(Malformed::new("frame checksum", offset + frame_header::CRC as u64, e, f));
    }
    let mut r = Reader::new(whole, offset);
    r.bytes("frame header", FRAME_HEADER_BYTES)?;
    let payload = r.bytes("payload", header.payload_length as usize)?;
    r.zeros("padding", r.rest().len())?;
    let counted = matches!(header.kind, FrameKind::Commit | FrameKind::Base);
    if counted == (header.delta_count == 0) {
        let at = offset + frame_header::DELTA_COUNT as u64;
        let expected = if counted { "at least 1" } else { "0" };
        return Err(Malformed::new("delta count", at, expected, header.delta_count));
    }
    Ok(CheckedFrame { header, payload })
}

/// Makes a frame of a buffer that holds room for a header and then the payload: pads it, fills in the
/// header with length and checksum, and answers the checksum.
///
/// The buffer must hold at least [`FRAME_HEADER_BYTES`]; its payload at most [`PAYLOAD_MAX`].
pub fn finish(buffer: &mut Vec<u8>, header: &mut FrameHeader, seed: &Seed) -> u32 {
    let payload = buffer.len().saturating_sub(FRAME_HEADER_BYTES);
    debug_assert!(payload <= PAYLOAD_MAX, "callers refuse larger payloads");
    header.payload_length = u32::try_from(payload).unwrap_or(u32::MAX);
    buffer.resize(FRAME_HEADER_BYTES + padded(payload), 0);
    header.write(buffer);
    header.crc = seed.crc_without(buffer, frame_header::CRC);
    put(buffer, frame_header::CRC, &header.crc.to_le_bytes());
    header.crc
}

/// Bytes of a seal's payload.
pub const SEAL_BYTES: usize = 32;

/// Offset of each field of a seal's payload: a running sum.
pub mod seal_payload {
    /// 8 bytes.
    pub const FRAMES: usize = 0;
    /// 16 bytes.
    pub const DIGEST: usize = FRAMES + 8;
    /// 8 bytes.
    pub const NONCE: usize = DIGEST + 16;
    /// Where the payload ends.
    pub const END: usize = NONCE + 8;
}
const _: () = assert!(seal_payload::END == SEAL_BYTES);

/// The payload of a seal: what the full segment holds, and the nonce that the next one names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Frames of every kind before the seal.
    pub frames: u64,
    /// xxh3-128 of the file from its first frame to the seal, little-endian.
    pub digest: u128,
    /// Fresh and random, not 0.
    pub nonce: u64,
}

impl Seal {
    /// The 32 bytes.
    pub fn encode(&self) -> [u8; SEAL_BYTES] {
        use seal_payload as at;
        let mut out = [0; SEAL_BYTES];
        put(&mut out, at::FRAMES, &self.frames.to_le_bytes());
        put(&mut out, at::DIGEST, &self.digest.to_le_bytes());
        put(&mut out, at::NONCE, &self.nonce.to_le_bytes());
        out
    }

    /// Reads a seal's payload, which stands at `offset` of its file.
    ///
    /// # Errors
    /// Not exactly 32 bytes; a nonce of 0.
    pub fn decode(payload: &[u8], offset: u64) -> Result<Seal, Malformed> {
        let mut r = Reader::new(payload, offset);
        let frames = r.u64("sealed frames")?;
        let digest = u128::from_le_bytes(r.array("seal digest")?);
        let nonce_at = r.offset();
        let nonce = r.u64("seal nonce")?;
        if nonce == 0 {
            return Err(Malformed::new("seal nonce", nonce_at, "not 0", 0));
        }
        no_more(&r, "seal")?;
        Ok(Seal { frames, digest, nonce })
    }
}

/// Bytes of the payload of a `lost` frame.
pub const LOST_BYTES: usize = 16;

/// Offset of each field of the payload of a `lost` frame: a running sum.
pub mod lost_payload {
    /// 8 bytes.
    pub const FIRST: usize = 0;
    /// 8 bytes.
    pub const LAST: usize = FIRST + 8;
    /// Where the payload ends.
    pub const END: usize = LAST + 8;
}
const _: () = assert!(lost_payload::END == LOST_BYTES);

/// The payload of a `lost` frame: the numbers that no frame has any more, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The first lost frame.
    pub first: Frame,
    /// The last lost frame.
    pub last: Frame,
}

impl LostRange {
    /// The 16 bytes.
    pub fn encode(&self) -> [u8; LOST_BYTES] {
        let mut out = [0; LOST_BYTES];
        put(&mut out, lost_payload::FIRST, &self.first.0.to_le_bytes());
        put(&mut out, lost_payload::LAST, &self.last.0.to_le_bytes());
        out
    }

    /// Reads the payload of a `lost` frame, which stands at `offset` of its file.
    ///
    /// # Errors
    /// Not exactly 16 bytes; an empty range; frame 0 in it.
    pub fn decode(payload: &[u8], offset: u64) -> Result<LostRange, Malformed> {
        let mut r = Reader::new(payload, offset);
        let first = Frame(r.u64("first lost frame")?);
        let last = Frame(r.u64("last lost frame")?);
        if first == Frame::ZERO || last < first {
            return Err(Malformed::new(
                "lost range",
                offset,
                "a range from 1 on",
                format!("{first} to {last}"),
            ));
        }
        no_more(&r, "lost range")?;
        Ok(LostRange { first, last })
    }
}

fn no_more(r: &Reader<'_>, what: &'static str) -> Result<(), Malformed> {
    if r.rest().is_empty() {
        return Ok(());
    }
    Err(Malformed::new(what, r.offset(), "its end", format!("{} more bytes", r.rest().len())))
}
