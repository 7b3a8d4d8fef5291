//! Looking for frames among bytes that are not all frames.
//!
//! A frame that is whole in itself, with this file's salt and for this very place, was written here: its number and
//! chain do not matter. Every place that a frame could stand at is tried, and however the bytes were arranged, the
//! time is in proportion to their length. It gives no verdict.

use crate::codec::frame::{self, CheckedFrame, FRAME_ALIGN, FrameHeader, Seed, frame_header};
use crate::codec::sums::Sums;
use crate::position::Frame;

/// The largest frame whose checksum is simply taken. There may be one at each eighth byte, each in the others.
const NEAR_BYTES: usize = 4096;
const STEP: usize = FRAME_ALIGN as usize;

/// A search through the bytes of one file from some place on, whose partial results serve further searches.
#[derive(Debug)]
pub struct Search<'f> {
    bytes: &'f [u8],
    /// Where in the file the bytes stand.
    offset: u64,
    seed: Seed,
    sums: Option<Sums>,
    /// Every whole frame, and the highest promise of it and of those behind it.
    promises: Option<Vec<(u64, Frame)>>,
}

impl<'f> Search<'f> {
    /// A search through `bytes`, which stand at `offset` of the file, both where a frame could.
    pub fn new(bytes: &'f [u8], offset: u64, seed: &Seed) -> Search<'f> {
        Search { bytes, offset, seed: seed.clone(), sums: None, promises: None }
    }

    /// The first frame at `from` or behind it that is whole in itself and whose header is `wanted`.
    pub fn frame(
        &mut self,
        from: u64,
        wanted: impl Fn(&FrameHeader) -> bool,
    ) -> Option<(u64, CheckedFrame<'f>)> {
        let start = usize::try_from(from.checked_sub(self.offset)?).ok()?;
        (start..self.bytes.len()).step_by(STEP).find_map(|i| self.frame_at(i, &wanted))
    }

    /// Whether a whole frame at `from` or behind it promises `wanted` or more.
    pub fn is_promised(&mut self, from: u64, wanted: Frame) -> bool {
        if self.promises.is_none() {
            self.promises = Some(self.all_promises());
        }
        let promises = self.promises.as_deref().unwrap_or_default();
        let next = promises.partition_point(|(at, _)| *at < from);
        promises.get(next).is_some_and(|(_, highest)| *highest >= wanted)
    }

    fn all_promises(&mut self) -> Vec<(u64, Frame)> {
        let mut promises = Vec::new();
        for i in (0..self.bytes.len()).step_by(STEP) {
            promises.extend(self.frame_at(i, &|_| true).map(|(at, frame)| (at, frame.header.durable)));
        }
        let mut highest = Frame::ZERO;
        for (_, promise) in promises.iter_mut().rev() {
            highest = highest.max(*promise);
            *promise = highest;
        }
        promises
    }

    fn frame_at(
        &mut self,
        i: usize,
        wanted: &impl Fn(&FrameHeader) -> bool,
    ) -> Option<(u64, CheckedFrame<'f>)> {
        let (at, bytes) = (self.offset + i as u64, self.bytes);
        let rest = bytes.get(i..)?;
        // The own offset rules out almost every place, before an error is written that nobody reads.
        let own = rest.get(frame_header::OWN_OFFSET..)?.first_chunk().copied().map(u32::from_le_bytes)?;
        if u64::from(own) != at {
            return None;
        }
        let header = FrameHeader::decode(rest, at).ok().filter(wanted)?;
        let len = header.frame_bytes();
        if len > rest.len() {
            return None;
        }
        if len <= NEAR_BYTES {
            return Some((at, frame::decode(rest, at, &self.seed).ok()?));
        }
        let sums = self.sums.get_or_insert_with(|| Sums::of(bytes));
        // The checksum's own four bytes end with the first eight.
        let head = self.seed.crc_without(rest.get(..STEP)?, frame_header::CRC);
        let crc = sums.behind(head, i + STEP, i + len)?;
        Some((at, frame::decode_with(rest, at, |_| crc).ok()?))
    }
}
const _: () = assert!(frame_header::CRC + 4 == STEP && frame_header::NUMBER == STEP);

/// Looks through `bytes`, which stand at `offset` of the file, for a frame that promises `wanted` or more. Answers its
/// offset and its promise.
///
/// That it was written with this file's salt for this very place says that `wanted` was durable then.
pub fn find_promise(bytes: &[u8], offset: u64, seed: &Seed, wanted: Frame) -> Option<(u64, Frame)> {
    let (at, frame) = Search::new(bytes, offset, seed).frame(offset, |header| header.durable >= wanted)?;
    Some((at, frame.header.durable))
}
