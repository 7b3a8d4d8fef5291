//! Frames one behind another that were found right, with all that they hold: what a scan goes through at once.
//!
//! Owns finding the frames' bounds and checking them. Does not know where the bytes come from, nor what is looked for.

use super::frame::{self, CheckedFrame, FRAME_HEADER_BYTES, Seed, frame_header as at};
use super::wire::padded;

/// Whole frames, whose checksums were right just now.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    bytes: &'a [u8],
    offset: u64,
    /// Where each frame begins in the bytes.
    starts: &'a [u32],
}

/// Where frames stop that were found right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// At the end of the bytes.
    End,
    /// At a frame of so many bytes, of which fewer are there. It is unknown how many if there is no whole header.
    Short(Option<usize>),
    /// At something that is no frame.
    Bad,
}

impl<'a> Run<'a> {
    /// The whole frames at the beginning of `bytes`, which stand at `offset` of their file, and where they stop.
    /// `starts` is room for where they begin.
    pub fn new(bytes: &'a [u8], offset: u64, seed: &Seed, starts: &'a mut Vec<u32>) -> (Run<'a>, Stop) {
        starts.clear();
        let (mut place, mut stop) = (0, Stop::End);
        while place < bytes.len() {
            let rest = bytes.get(place..).unwrap_or_default();
            let Some(len) = frame_bytes(rest) else {
                stop = Stop::Short(None);
                break;
            };
            let (Some(whole), Ok(start)) = (rest.get(..len), u32::try_from(place)) else {
                stop = Stop::Short(Some(len));
                break;
            };
            if !is_right(whole, offset + place as u64, seed) {
                stop = Stop::Bad;
                break;
            }
            starts.push(start);
            place += len;
        }
        (Run { bytes: bytes.get(..place).unwrap_or(bytes), offset, starts }, stop)
    }

    /// All bytes of all frames.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many frames they are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// True without a frame.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The frame that holds the byte at a place of [`Run::bytes`], and where in these the next one begins.
    pub fn frame_at(&self, place: usize) -> Option<(CheckedFrame<'a>, usize)> {
        let behind = self.starts.partition_point(|start| *start as usize <= place);
        let start = *self.starts.get(behind.checked_sub(1)?)? as usize;
        let end = self.starts.get(behind).map_or(self.bytes.len(), |start| *start as usize);
        let whole = self.bytes.get(start..end)?;
        // Its checksum was found right when the run was made.
        let stored = word(whole, at::CRC)?;
        let frame = frame::decode_with(whole, self.offset + start as u64, |_| stored);
        Some((frame.ok()?, end))
    }
}

/// Bytes of the frame at the beginning of `bytes`, padding included, as its header says.
fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..FRAME_HEADER_BYTES)?;
    Some(FRAME_HEADER_BYTES + padded(word(header, at::PAYLOAD_LENGTH)? as usize))
}

/// Whether a whole frame was written for this very place and is as it was written. What it says is not looked at.
fn is_right(whole: &[u8], offset: u64, seed: &Seed) -> bool {
    word(whole, at::OWN_OFFSET).is_some_and(|own| u64::from(own) == offset)
        && word(whole, at::CRC) == Some(seed.crc_without(whole, at::CRC))
}

fn word(bytes: &[u8], place: usize) -> Option<u32> {
    bytes.get(place..)?.first_chunk().copied().map(u32::from_le_bytes)
}
