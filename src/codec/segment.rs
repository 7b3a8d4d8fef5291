//! The head of a segment file, and the two small files beside the log: DURABLE and INTENT.
//!
//! The header stands twice in the first 4 KiB, in two different sectors, so that no single bad sector
//! takes it; either serves. Magic, version and checksum keep their places in every future version: that
//! is how an older program can tell a newer format from damage.

use super::crc;
use super::wire::{Malformed, Reader, put};
use crate::position::{Frame, Time};

/// The format that this crate writes, and the only one that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// First bytes of every segment file.
pub const SEGMENT_MAGIC: [u8; 8] = *b"MNEMOLOG";
/// Bytes of a segment header.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// Where the two copies of the header stand.
pub const SEGMENT_HEADER_OFFSETS: [u64; 2] = [0, 2048];
/// Where the first frame of a segment stands.
pub const FRAMES_START: u64 = 4096;

/// Offset of each header field: a running sum.
pub mod segment_header {
    /// 8 bytes.
    pub const MAGIC: usize = 0;
    /// 4 bytes.
    pub const VERSION: usize = MAGIC + 8;
    /// 4 bytes, over the header without them.
    pub const CRC: usize = VERSION + 4;
    /// 16 bytes.
    pub const STORE_ID: usize = CRC + 4;
    /// 8 bytes.
    pub const FIRST_FRAME: usize = STORE_ID + 16;
    /// 8 bytes.
    pub const SALT: usize = FIRST_FRAME + 8;
    /// 8 bytes.
    pub const PREVIOUS_NONCE: usize = SALT + 8;
    /// 8 bytes.
    pub const CREATED: usize = PREVIOUS_NONCE + 8;
    /// Where the header ends.
    pub const END: usize = CREATED + 8;
}
const _: () = assert!(segment_header::END == SEGMENT_HEADER_BYTES);
const _: () = assert!(SEGMENT_HEADER_OFFSETS[1] + SEGMENT_HEADER_BYTES as u64 <= FRAMES_START);

/// 16 random bytes that name a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

impl std::fmt::Display for StoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// The head of a segment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The store that the file belongs to.
    pub store: StoreId,
    /// The file's first frame; for a base, the first frame that is kept.
    pub first: Frame,
    /// Random, new for every file, also when a segment is rewritten; seeds every checksum in it.
    pub salt: u64,
    /// The nonce in the seal of the file before this one; 0 in the first.
    pub previous_nonce: u64,
    /// When the file was made.
    pub created: Time,
}

/// A header that does not serve: damaged, or written by a newer version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// Not a header.
    Malformed(Malformed),
    /// The checksum is right and the version is a later one.
    Newer {
        /// The version in the header.
        version: u32,
    },
}

impl From<Malformed> for BadHeader {
    fn from(m: Malformed) -> Self {
        BadHeader::Malformed(m)
    }
}

impl SegmentHeader {
    /// The 64 bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        use segment_header as at;
        let mut out = [0; SEGMENT_HEADER_BYTES];
        put(&mut out, at::MAGIC, &SEGMENT_MAGIC);
        put(&mut out, at::VERSION, &FORMAT_VERSION.to_le_bytes());
        put(&mut out, at::STORE_ID, &self.store.0);
        put(&mut out, at::FIRST_FRAME, &self.first.0.to_le_bytes());
        put(&mut out, at::SALT, &self.salt.to_le_bytes());
        put(&mut out, at::PREVIOUS_NONCE, &self.previous_nonce.to_le_bytes());
        put(&mut out, at::CREATED, &self.created.as_micros().to_le_bytes());
        let crc = crc_without(&out, at::CRC);
        put(&mut out, at::CRC, &crc.to_le_bytes());
        out
    }

    /// Reads one copy; `offset` is where it stands in the file.
    ///
    /// # Errors
    /// Too short, not the magic, a wrong checksum, a version other than ours, a time out of range.
    pub fn decode(bytes: &[u8], offset: u64) -> Result<SegmentHeader, BadHeader> {
        let mut r = begin(bytes, offset, "segment header", SEGMENT_MAGIC, SEGMENT_HEADER_BYTES)?;
        let header = SegmentHeader {
            store: StoreId(r.array("store id")?),
            first: Frame(r.u64("first frame")?),
            salt: r.u64("salt")?,
            previous_nonce: r.u64("previous nonce")?,
            created: time(&mut r, "creation time")?,
        };
        Ok(header)
    }

    /// Reads whichever copy serves from the beginning of a file (up to 4 KiB of it).
    ///
    /// # Errors
    /// Neither does: the error of the first copy, or `Newer` if either copy says so.
    pub fn decode_either(file: &[u8]) -> Result<SegmentHeader, BadHeader> {
        let mut error = None;
        for offset in SEGMENT_HEADER_OFFSETS {
            let copy = usize::try_from(offset).ok().and_then(|o| file.get(o..)).unwrap_or_default();
            match SegmentHeader::decode(copy, offset) {
                Ok(header) => return Ok(header),
                Err(e @ BadHeader::Newer { .. }) => error = Some(e),
                Err(e) => error = error.or(Some(e)),
            }
        }
        Err(error.unwrap_or_else(|| Malformed::new("segment header", 0, "a header", "nothing").into()))
    }
}

/// Bytes of DURABLE.
pub const DURABLE_BYTES: usize = 64;
/// First bytes of DURABLE.
pub const DURABLE_MAGIC: [u8; 8] = *b"MNEMDURA";

/// Offset of each field of DURABLE: a running sum.
pub mod durable_file {
    /// 8 bytes.
    pub const MAGIC: usize = 0;
    /// 4 bytes.
    pub const VERSION: usize = MAGIC + 8;
    /// 4 bytes, over the record without them.
    pub const CRC: usize = VERSION + 4;
    /// 16 bytes.
    pub const STORE_ID: usize = CRC + 4;
    /// 8 bytes.
    pub const FRAME: usize = STORE_ID + 16;
    /// 8 bytes.
    pub const SEGMENT: usize = FRAME + 8;
    /// 8 bytes.
    pub const OFFSET: usize = SEGMENT + 8;
    /// 8 bytes.
    pub const COPIED: usize = OFFSET + 8;
    /// Where the record ends.
    pub const END: usize = COPIED + 8;
}
const _: () = assert!(durable_file::END == DURABLE_BYTES);

/// The content of DURABLE: a promise about one frame, and hints where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// The store that the promise is about.
    pub store: StoreId,
    /// Every frame up to this one was durable when this was written.
    pub frame: Frame,
    /// A hint: the first frame of the segment that holds it.
    pub segment: Frame,
    /// A hint: where that segment's frames ended.
    pub offset: u64,
    /// A backup wrote it, and nobody has written to the store since.
    pub copied: bool,
}

impl Durable {
    /// The 64 bytes.
    pub fn encode(&self) -> [u8; DURABLE_BYTES] {
        use durable_file as at;
        let mut out = [0; DURABLE_BYTES];
        put(&mut out, at::MAGIC, &DURABLE_MAGIC);
        put(&mut out, at::VERSION, &FORMAT_VERSION.to_le_bytes());
        put(&mut out, at::STORE_ID, &self.store.0);
        put(&mut out, at::FRAME, &self.frame.0.to_le_bytes());
        put(&mut out, at::SEGMENT, &self.segment.0.to_le_bytes());
        put(&mut out, at::OFFSET, &self.offset.to_le_bytes());
        put(&mut out, at::COPIED, &u64::from(self.copied).to_le_bytes());
        let crc = crc_without(&out, at::CRC);
        put(&mut out, at::CRC, &crc.to_le_bytes());
        out
    }

    /// Reads the record. A torn one is simply no promise, so callers ignore the error.
    ///
    /// # Errors
    /// Too short, not the magic, a wrong checksum or version, a flag that is none.
    pub fn decode(bytes: &[u8]) -> Result<Durable, BadHeader> {
        let mut r = begin(bytes, 0, "DURABLE", DURABLE_MAGIC, DURABLE_BYTES)?;
        let durable = Durable {
            store: StoreId(r.array("store id")?),
            frame: Frame(r.u64("frame")?),
            segment: Frame(r.u64("segment")?),
            offset: r.u64("offset")?,
            copied: match r.u64("copied")? {
                0 => false,
                1 => true,
                other => {
                    return Err(Malformed::new("copied", durable_file::COPIED as u64, "0 or 1", other).into());
                }
            },
        };
        Ok(durable)
    }
}

/// Checks length, magic, checksum and version, which stand at the same places in every file of ours, and
/// leaves the reader behind them. The checksum is over the first `len` bytes.
pub(crate) fn begin<'a>(
    bytes: &'a [u8],
    offset: u64,
    what: &'static str,
    magic: [u8; 8],
    len: usize,
) -> Result<Reader<'a>, BadHeader> {
    let whole = Reader::new(bytes, offset).bytes(what, len)?;
    let mut r = Reader::new(whole, offset);
    let found = r.array::<8>("magic")?;
    if found != magic {
        return Err(Malformed::new("magic", offset, magic.escape_ascii(), found.escape_ascii()).into());
    }
    let version = r.u32("format version")?;
    let crc_at = r.offset();
    let crc = r.u32("checksum")?;
    let expected = crc_without(whole, segment_header::CRC);
    if crc != expected {
        let (e, f) = (format!("{expected:#010x}"), format!("{crc:#010x}"));
        return Err(Malformed::new("checksum", crc_at, e, f).into());
    }
    match version {
        FORMAT_VERSION => Ok(r),
        v if v > FORMAT_VERSION => Err(BadHeader::Newer { version }),
        _ => Err(Malformed::new("format version", offset + 8, FORMAT_VERSION, version).into()),
    }
}
const _: () = assert!(segment_header::CRC == durable_file::CRC);

/// crc32 over all of `bytes` except the four at `at`.
pub(crate) fn crc_without(bytes: &[u8], at: usize) -> u32 {
    let (before, behind) = (bytes.get(..at), bytes.get(at + 4..));
    crc::behind(crc::behind(0, before.unwrap_or_default()), behind.unwrap_or_default())
}

/// A time field in range.
pub(crate) fn time(r: &mut Reader<'_>, what: &'static str) -> Result<Time, Malformed> {
    let offset = r.offset();
    let us = r.u64(what)?;
    Time::from_micros(us).ok_or_else(|| Malformed::new(what, offset, "a time before the year 10000", us))
}
