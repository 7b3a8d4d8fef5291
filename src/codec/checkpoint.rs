//! A checkpoint: the state of all views at a frame, saved so that opening need not fold what came before.
//!
//! A header, then blocks that views are read from in place, then the contents: which log the state belongs to,
//! where that log goes on, and a directory of the blocks that only the views understand. One digest covers all
//! behind the header. A checkpoint is a cache: whatever does not fit here, or to the log, makes it useless and
//! nothing worse.

use serde::{Deserialize, Serialize};

use super::segment::{BadHeader, FORMAT_VERSION, StoreId, begin, crc_without};
use super::wire::{Malformed, put};
use crate::position::Frame;

/// First bytes of a checkpoint.
pub const CHECKPOINT_MAGIC: [u8; 8] = *b"MNEMCKPT";
/// Bytes of the header.
pub const CHECKPOINT_HEADER_BYTES: usize = 96;
/// Where the first block stands, and the bytes that the digest covers begin.
pub const BLOCKS_START: u64 = CHECKPOINT_HEADER_BYTES as u64;

/// Offset of each header field: a running sum.
pub mod checkpoint_header {
    /// 8 bytes.
    pub const MAGIC: usize = 0;
    /// 4 bytes.
    pub const VERSION: usize = MAGIC + 8;
    /// 4 bytes, over the header without them.
    pub const CRC: usize = VERSION + 4;
    /// 16 bytes.
    pub const STORE_ID: usize = CRC + 4;
    /// 4 bytes.
    pub const FOLD_VERSION: usize = STORE_ID + 16;
    /// 4 bytes, zero.
    pub const RESERVED: usize = FOLD_VERSION + 4;
    /// 8 bytes.
    pub const FRAME: usize = RESERVED + 4;
    /// 8 bytes.
    pub const LOG_BYTES: usize = FRAME + 8;
    /// 8 bytes.
    pub const CONTENTS_OFFSET: usize = LOG_BYTES + 8;
    /// 8 bytes.
    pub const CONTENTS_LENGTH: usize = CONTENTS_OFFSET + 8;
    /// 8 bytes.
    pub const LENGTH: usize = CONTENTS_LENGTH + 8;
    /// 16 bytes.
    pub const DIGEST: usize = LENGTH + 8;
    /// Where the header ends.
    pub const END: usize = DIGEST + 16;
}
const _: () = assert!(checkpoint_header::END == CHECKPOINT_HEADER_BYTES);
const _: () = assert!(checkpoint_header::CRC == super::segment::segment_header::CRC);
const _: () = assert!(BLOCKS_START.is_multiple_of(8));

/// The head of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// The store that it belongs to.
    pub store: StoreId,
    /// The version of the fold and of the blocks; another one means other bytes.
    pub fold_version: u32,
    /// The last frame that was folded.
    pub frame: Frame,
    /// Bytes of the log up to the end of that frame: headers, frames and markers of all its files.
    pub log_bytes: u64,
    /// Where the contents stand in the file.
    pub contents_offset: u64,
    /// How long they are.
    pub contents_length: u64,
    /// How long the file is.
    pub length: u64,
    /// xxh3-128 of the file from [`BLOCKS_START`] to its end.
    pub digest: u128,
}

impl CheckpointHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; CHECKPOINT_HEADER_BYTES] {
        use checkpoint_header as at;
        let mut out = [0; CHECKPOINT_HEADER_BYTES];
        put(&mut out, at::MAGIC, &CHECKPOINT_MAGIC);
        put(&mut out, at::VERSION, &FORMAT_VERSION.to_le_bytes());
        put(&mut out, at::STORE_ID, &self.store.0);
        put(&mut out, at::FOLD_VERSION, &self.fold_version.to_le_bytes());
        put(&mut out, at::FRAME, &self.frame.0.to_le_bytes());
        put(&mut out, at::LOG_BYTES, &self.log_bytes.to_le_bytes());
        put(&mut out, at::CONTENTS_OFFSET, &self.contents_offset.to_le_bytes());
        put(&mut out, at::CONTENTS_LENGTH, &self.contents_length.to_le_bytes());
        put(&mut out, at::LENGTH, &self.length.to_le_bytes());
        put(&mut out, at::DIGEST, &self.digest.to_le_bytes());
        let crc = crc_without(&out, at::CRC);
        put(&mut out, at::CRC, &crc.to_le_bytes());
        out
    }

    /// Reads the header.
    ///
    /// # Errors
    /// Too short, not the magic, a wrong checksum, another version, reserved bytes in use, contents that do not
    /// lie inside the file.
    pub fn decode(bytes: &[u8]) -> Result<CheckpointHeader, BadHeader> {
        let mut r = begin(bytes, 0, "checkpoint", CHECKPOINT_MAGIC, CHECKPOINT_HEADER_BYTES)?;
        let store = StoreId(r.array("store id")?);
        let fold_version = r.u32("fold version")?;
        r.zeros("reserved bytes", 4)?;
        let header = CheckpointHeader {
            store,
            fold_version,
            frame: Frame(r.u64("frame")?),
            log_bytes: r.u64("log bytes")?,
            contents_offset: r.u64("contents offset")?,
            contents_length: r.u64("contents length")?,
            length: r.u64("length")?,
            digest: u128::from_le_bytes(r.array("digest")?),
        };
        let end = header.contents_offset.checked_add(header.contents_length);
        if header.contents_offset < BLOCKS_START || end != Some(header.length) {
            let at = checkpoint_header::CONTENTS_OFFSET as u64;
            return Err(Malformed::new("contents", at, "the end of the file", header.contents_offset).into());
        }
        Ok(header)
    }
}

/// A file of the log as it was when the checkpoint was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// The first frame in its name.
    pub first: u64,
    /// The part of a base; 0 for a segment.
    pub part: u32,
    /// The salt in its header.
    pub salt: u64,
    /// Where its frames ended, or where those that were folded end in the last file.
    pub end: u64,
}

/// Where the log goes on behind the last folded frame, in the last file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceStamp {
    /// Where the last frame stands and its checksum; none at the beginning of a file.
    pub last: Option<(u64, u32)>,
    /// The last number that was given.
    pub number: u64,
    /// The last frame's time.
    pub time_us: u64,
    /// Frames in this file so far.
    pub frames: u64,
    /// Commits in this file so far, lost ranges included.
    pub commits: u64,
    /// The tag of the last frame's kind; 0 for none.
    pub last_kind: u8,
    /// The nonce of the seal, where the file ends in one.
    pub sealed: Option<u64>,
}

/// Where a commit stands, and from there those behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Its number.
    pub frame: u64,
    /// Its time.
    pub time_us: u64,
    /// The ordinal of its file.
    pub segment: u32,
    /// Its offset there.
    pub offset: u32,
    /// The distance from each of the commits to the next, in units of 8 bytes.
    pub steps: Vec<u16>,
}

/// Which log a checkpoint belongs to, and where that goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The store, as the header names it.
    #[serde(skip)]
    pub store: StoreId,
    /// The files of the log up to the last folded frame, in order.
    pub files: Vec<FileStamp>,
    /// Where the log goes on.
    pub place: PlaceStamp,
    /// The state before the first frame that the log holds: 0 without a base.
    pub base: u64,
    /// Where frames stand, sparsely.
    pub locations: Vec<Location>,
    /// First and last of each range of frames that are lost.
    pub lost: Vec<(u64, u64)>,
}

/// Encodes the contents: the stamp, and the directory that the views made of their blocks.
///
/// # Errors
/// A value that cannot be encoded.
pub fn encode_contents(stamp: &Stamp, directory: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    postcard::to_io(stamp, &mut out)
        .map_err(|e| Malformed::new("checkpoint contents", 0, "a value that can be encoded", e))?;
    out.extend_from_slice(directory);
    Ok(out)
}

impl CheckpointHeader {
    /// Reads the contents: the stamp and the directory.
    ///
    /// # Errors
    /// The stamp does not decode, or is of another frame than the header.
    pub fn contents<'a>(&self, bytes: &'a [u8]) -> Result<(Stamp, &'a [u8]), Malformed> {
        let at = self.contents_offset;
        let (stamp, directory): (Stamp, _) = postcard::take_from_bytes(bytes)
            .map_err(|e| Malformed::new("checkpoint contents", at, "a postcard value", e))?;
        if stamp.place.number != self.frame.0 {
            return Err(Malformed::new("checkpoint frame", at, self.frame, stamp.place.number));
        }
        Ok((Stamp { store: self.store, ..stamp }, directory))
    }
}
