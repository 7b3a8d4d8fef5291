//! What is still whole in one file of the log.
//!
//! A frame is kept if it is whole in itself, its content is what the format allows, and its number is free. The
//! end of the last file gets the verdict that opening gives it: what nobody promised is an unclean end, whatever
//! stands behind. It writes nothing and knows no other file.

use crate::codec::frame::{
    self, CheckedFrame, FRAME_ALIGN, FrameHeader, FrameKind, LostRange, PAYLOAD_MAX, Seal, Seed, frame_header,
};
use crate::codec::payload;
use crate::codec::segment::FRAMES_START;
use crate::log::verify::{faults, promise_max};
use crate::position::{Frame, SegmentId, Time};
use crate::segment::{Chain, Search};

/// A file to look through, and what is known around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'f> {
    pub(super) id: SegmentId,
    pub(super) bytes: &'f [u8],
    /// Begins its checksums; without one, nothing of it can be checked.
    pub(super) seed: Option<&'f Seed>,
    /// The time of the last frame before it.
    pub(super) time: Time,
    /// What DURABLE promises.
    pub(super) promised: Frame,
    /// The last number that belongs here and not into the next file; none for the last file.
    pub(super) top: Option<Frame>,
}

/// A part of a file.
#[derive(Debug)]
pub(super) enum Piece<'f> {
    /// A frame that is kept. A seal is not among them.
    Frame(CheckedFrame<'f>),
    /// So many bytes that are no frame.
    Gap(u64),
}

/// What was found.
#[derive(Debug)]
pub(super) struct Salvage<'f> {
    pub(super) pieces: Vec<Piece<'f>>,
    pub(super) seal: Option<(FrameHeader, Seal)>,
    /// The highest promise that a kept frame makes; a frame whose content is not allowed promises itself.
    pub(super) promise: Frame,
    /// Bytes of an unclean end, up to the last that is not zero.
    pub(super) cut_bytes: u64,
    /// Whether the frames are exactly what the format asks for; an unclean end is none of them.
    pub(super) regular: bool,
    /// The last number and time.
    pub(super) chain: Chain,
}

impl<'f> Salvage<'f> {
    /// Looks through a file.
    pub(super) fn of(source: &Source<'f>) -> Salvage<'f> {
        let chain = Chain::start(source.id.first().previous(), source.time);
        let mut salvage = Salvage {
            pieces: Vec::new(),
            seal: None,
            promise: Frame::ZERO,
            cut_bytes: 0,
            regular: true,
            chain,
        };
        match source.seed {
            Some(seed) => salvage.walk(source, seed),
            None => salvage.give_up(source.bytes, FRAMES_START),
        }
        salvage
    }

    fn give_up(&mut self, bytes: &[u8], at: u64) {
        self.regular = false;
        let rest = bytes.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
        self.gap(used(rest));
    }

    fn gap(&mut self, bytes: u64) {
        if bytes > 0 {
            self.pieces.push(Piece::Gap(bytes));
        }
    }

    fn walk(&mut self, source: &Source<'f>, seed: &Seed) {
        let bytes = source.bytes;
        let (mut at, mut frames, mut search) = (FRAMES_START, 0, Search::new(bytes, 0, seed));
        loop {
            let start = usize::try_from(at).unwrap_or(usize::MAX);
            let rest = bytes.get(start..).unwrap_or_default();
            let unwritten = rest.iter().all(|&b| b == 0);
            if unwritten || self.seal.is_some() {
                self.regular &= unwritten;
                return;
            }
            let whole = frame::decode(rest, at, seed).ok();
            let follows = whole.as_ref().is_some_and(|f| {
                fits_file(f, source.id) && self.chain.clone().follow(f, at).is_ok() && !beyond(f, source.top)
            });
            if !follows && self.is_unclean(source, at, &mut search) {
                self.cut_bytes = used(rest);
                return;
            }
            let next = match whole {
                Some(frame) => Some((at, frame)),
                None => search.frame(at + FRAME_ALIGN, |_| true),
            };
            let Some((found, frame)) = next else { return self.give_up(bytes, at) };
            self.gap(found - at);
            at = found + frame.header.frame_bytes() as u64;
            self.regular &= follows;
            self.meet(source, seed, found, frame, &mut frames);
        }
    }

    /// Whether what does not follow here is an end that nobody promised.
    fn is_unclean(&self, source: &Source<'_>, at: u64, search: &mut Search<'_>) -> bool {
        let wanted = self.chain.number.next().unwrap_or_default();
        source.top.is_none()
            && !source.id.is_base()
            && source.promised.max(self.promise) < wanted
            && !search.is_promised(at, wanted)
    }

    /// Keeps a whole frame, or says what speaks against it by leaving it out.
    fn meet(&mut self, source: &Source<'_>, seed: &Seed, at: u64, frame: CheckedFrame<'f>, frames: &mut u64) {
        let header = &frame.header;
        let (number, kind) = (header.number, header.kind);
        let mut allowed = payload::check(&frame, at).is_ok();
        if allowed {
            faults(&frame, at, seed, &mut |_| allowed = false);
        }
        let free = self.is_free(source, &frame) && !beyond(&frame, source.top);
        if !(allowed && free && fits_file(&frame, source.id)) {
            self.regular = false;
            // Numbers that were given are not given again, whatever became of their frames.
            let given = matches!(kind, FrameKind::Commit | FrameKind::Lost) && !beyond(&frame, source.top);
            self.promise = self.promise.max(if given { number } else { Frame::ZERO });
            return;
        }
        // A frame that promises itself says too much; what it holds is kept.
        self.regular &= header.durable <= promise_max(header);
        self.promise = self.promise.max(header.durable.min(promise_max(header)));
        let time = self.chain.time.max(header.time);
        self.chain = Chain { previous_crc: header.crc, number, time };
        match Seal::decode(frame.payload, at) {
            Ok(seal) if kind == FrameKind::Seal => {
                let end = usize::try_from(at).unwrap_or(usize::MAX);
                let covered = source.bytes.get(FRAMES_START as usize..end).unwrap_or_default();
                self.regular &= seal.frames == *frames && seal.digest == xxhash_rust::xxh3::xxh3_128(covered);
                self.seal = Some((frame.header, seal));
            }
            _ => self.pieces.push(Piece::Frame(frame)),
        }
        *frames += 1;
    }

    /// Whether the numbers that a frame names come behind those that were met.
    fn is_free(&self, source: &Source<'_>, frame: &CheckedFrame<'_>) -> bool {
        let (last, number) = (self.chain.number, frame.header.number);
        match frame.header.kind {
            FrameKind::Commit => number > last,
            FrameKind::Lost => first_lost(frame).is_some_and(|first| first > last),
            FrameKind::Close | FrameKind::Seal => number >= last,
            FrameKind::Base => number == source.id.first().previous(),
        }
    }
}

/// The first number that a `lost` frame names.
pub(super) fn first_lost(frame: &CheckedFrame<'_>) -> Option<Frame> {
    let range = LostRange::decode(frame.payload, u64::from(frame.header.own_offset)).ok()?;
    (range.last == frame.header.number).then_some(range.first)
}

fn beyond(frame: &CheckedFrame<'_>, top: Option<Frame>) -> bool {
    top.is_some_and(|top| frame.header.number > top)
}

fn fits_file(frame: &CheckedFrame<'_>, id: SegmentId) -> bool {
    match frame.header.kind {
        FrameKind::Seal => true,
        FrameKind::Base => id.is_base(),
        _ => !id.is_base(),
    }
}

fn used(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last as u64 + 1)
}

/// The largest frame that is asked for the seed of its file: taking a checksum back goes bit by bit.
const SEED_FRAME_BYTES_MAX: usize = 1 << 20;
/// So much of a file is looked through for it in all, however many frames its bytes may seem to hold.
const SEED_BYTES_MAX: usize = 128 << 20;
const _: () = assert!(SEED_FRAME_BYTES_MAX < PAYLOAD_MAX);

/// The seed of a file whose headers are both gone, told by a frame whose envelopes prove it.
pub(super) fn seed_of(bytes: &[u8]) -> Option<Seed> {
    let (mut at, mut looked) = (FRAMES_START as usize, 0);
    while at < bytes.len() && looked < SEED_BYTES_MAX {
        let rest = bytes.get(at..)?;
        let own = rest.get(frame_header::OWN_OFFSET..).and_then(|b| b.first_chunk().copied());
        if own.map(u32::from_le_bytes) == u32::try_from(at).ok()
            && let Some(seed) = told_by(rest, at as u64, &mut looked)
        {
            return Some(seed);
        }
        at += FRAME_ALIGN as usize;
    }
    None
}

fn told_by(rest: &[u8], at: u64, looked: &mut usize) -> Option<Seed> {
    let header = FrameHeader::decode(rest, at).ok()?;
    let whole = rest.get(..header.frame_bytes())?;
    if !matches!(header.kind, FrameKind::Commit | FrameKind::Base) || whole.len() > SEED_FRAME_BYTES_MAX {
        return None;
    }
    *looked += whole.len();
    let seed = Seed::of_frame(whole);
    let frame = frame::decode(whole, at, &seed).ok()?;
    let mut proved = !frame.payload.is_empty() && payload::check(&frame, at).is_ok();
    faults(&frame, at, &seed, &mut |_| proved = false);
    proved.then_some(seed)
}
