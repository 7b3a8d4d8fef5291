//! A file of the log, built from frames of others and from new ones: whole in memory, or drained piece by piece.
//!
//! It owns what makes frames one file: salt, own offsets, the chain of checksums, the count and digest of the
//! seal. What a frame says (number, time, promise, writer, content) it takes over. It does not know where the
//! bytes go.

use xxhash_rust::xxh3::Xxh3;

use super::settle::{random, random_writer};
use super::verify::promise_max;
use crate::codec::frame::{
    self, CheckedFrame, FRAME_HEADER_BYTES, FrameHeader, FrameKind, LostRange, Seal, Seed,
};
use crate::codec::payload;
use crate::codec::segment::{FRAMES_START, SEGMENT_HEADER_OFFSETS, SegmentHeader};
use crate::codec::wire::{Malformed, put};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::position::{Frame, Time};
use crate::segment::Chain;

/// A file under construction.
pub(super) struct Build {
    /// What was built and not drained yet, and where it begins.
    bytes: Vec<u8>,
    at: u64,
    /// Over the frames that were drained.
    drained: Xxh3,
    salt: u64,
    seed: Seed,
    chain: Chain,
    frames: u64,
    writer: u32,
    /// No frame promises more.
    promise: Frame,
}

/// The area before the first frame: both copies of the header, and zeros.
pub(super) fn header_area(header: &SegmentHeader) -> Vec<u8> {
    let mut area = vec![0; FRAMES_START as usize];
    let encoded = header.encode();
    SEGMENT_HEADER_OFFSETS.into_iter().for_each(|at| put(&mut area, at as usize, &encoded));
    area
}

/// The part of bytes that stand at a place of a file, which is of its frames.
fn frames(at: u64, bytes: &[u8]) -> &[u8] {
    let header = usize::try_from(FRAMES_START.saturating_sub(at)).unwrap_or(usize::MAX);
    bytes.get(header..).unwrap_or_default()
}

impl Build {
    /// Begins a file with this header, whose salt is replaced by a new one. `chain` is where the file before it
    /// ended.
    ///
    /// # Errors
    /// The disk has no random numbers.
    pub(super) fn begin(disk: &dyn Disk, header: SegmentHeader, number: Frame, time: Time) -> Result<Build> {
        let header = SegmentHeader { salt: random(disk)?, ..header };
        Ok(Build { writer: random_writer(disk)?, ..Build::with(&header, Chain::start(number, time)) })
    }

    /// Begins a file with exactly this header, for frames that are taken over.
    pub(super) fn with(header: &SegmentHeader, chain: Chain) -> Build {
        Build { bytes: header_area(header), at: 0, ..Build::resume(header.salt, 0, chain, Frame(u64::MAX)) }
    }

    /// Goes on at a place in a file with this salt, with frames that are taken over. None of them promises more than
    /// `promise`.
    pub(super) fn resume(salt: u64, at: u64, chain: Chain, promise: Frame) -> Build {
        let (bytes, drained, seed) = (Vec::new(), Xxh3::new(), Seed::new(salt));
        Build { bytes, at, drained, salt, seed, chain, frames: 0, writer: 0, promise }
    }

    /// The last number and time so far.
    pub(super) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The file's salt.
    pub(super) fn salt(&self) -> u64 {
        self.salt
    }

    /// The file so far, unless a part of it was drained.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How long the file is so far.
    pub(super) fn len(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Hands out what was built since the last time, and where it stands, if it is at least so many bytes.
    ///
    /// # Errors
    /// Whatever `put` answers.
    pub(super) fn drain(
        &mut self,
        at_least: usize,
        put: impl FnOnce(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if self.bytes.len() < at_least {
            return Ok(());
        }
        put(self.at, &self.bytes)?;
        self.drained.update(frames(self.at, &self.bytes));
        self.at += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }

    /// How many frames it has.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// Takes over a frame of another file: all that it says stays, except that a time which would go back is raised
    /// and a promise that covers the frame itself is lowered.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: the file would pass 4 GiB.
    pub(super) fn copy(&mut self, frame: &CheckedFrame<'_>) -> Result<()> {
        self.put(frame.header.clone(), frame.payload)
    }

    /// Says that frames are gone. They came after the frame before them, so their time is a microsecond later, but
    /// not after `until`, that of the next frame that is there.
    ///
    /// # Errors
    /// As [`Build::copy`].
    pub(super) fn lose(&mut self, range: LostRange, until: Option<Time>) -> Result<()> {
        let later = self.chain.time.saturating_add(1);
        let time = until.map_or(later, |until| until.min(later));
        let header = FrameHeader { time, ..self.own(FrameKind::Lost, range.last) };
        self.put(header, &range.encode())
    }

    /// Adds a piece of the state before the first kept frame: envelopes, whatever seed they were encoded with.
    ///
    /// # Errors
    /// As [`Build::copy`].
    pub(super) fn base(&mut self, payload: &[u8], delta_count: u16) -> Result<()> {
        self.put(FrameHeader { delta_count, ..self.own(FrameKind::Base, self.chain.number) }, payload)
    }

    /// Ends a clean shutdown.
    ///
    /// # Errors
    /// As [`Build::copy`].
    pub(super) fn close(&mut self) -> Result<()> {
        self.put(self.own(FrameKind::Close, self.chain.number), &[])
    }

    /// Seals the file. `old` is the header of the seal that this one stands for.
    ///
    /// # Errors
    /// As [`Build::copy`].
    pub(super) fn seal(&mut self, nonce: u64, old: Option<&FrameHeader>) -> Result<()> {
        let mut digest = self.drained.clone();
        digest.update(frames(self.at, &self.bytes));
        let seal = Seal { frames: self.frames, digest: digest.digest128(), nonce };
        let own = self.own(FrameKind::Seal, self.chain.number);
        self.seal_as(&seal, old.unwrap_or(&own))
    }

    /// Seals the file with what is known of it, also of frames that were not built here. `old` is the header of the
    /// seal that this one stands for.
    ///
    /// # Errors
    /// As [`Build::copy`].
    pub(super) fn seal_as(&mut self, seal: &Seal, old: &FrameHeader) -> Result<()> {
        self.put(old.clone(), &seal.encode())
    }

    /// The header of a frame that is new. What stands before it is durable before anyone reads this file.
    fn own(&self, kind: FrameKind, number: Frame) -> FrameHeader {
        FrameHeader {
            payload_length: 0,
            crc: 0,
            number,
            own_offset: 0,
            previous_crc: 0,
            durable: self.chain.number,
            time: self.chain.time,
            kind,
            delta_count: 0,
            writer: self.writer,
        }
    }

    fn put(&mut self, mut header: FrameHeader, payload: &[u8]) -> Result<()> {
        header.own_offset = self.offset(self.len())?;
        header.previous_crc = self.chain.previous_crc;
        header.time = header.time.max(self.chain.time);
        header.durable = header.durable.min(promise_max(&header)).min(self.promise);
        let mut buffer = vec![0; FRAME_HEADER_BYTES];
        buffer.extend_from_slice(payload);
        if matches!(header.kind, FrameKind::Commit | FrameKind::Base) {
            let envelopes = buffer.get_mut(FRAME_HEADER_BYTES..).unwrap_or_default();
            payload::reseed(envelopes, &self.seed).map_err(|reason| self.unsound(&header, reason))?;
        }
        let crc = frame::finish(&mut buffer, &mut header, &self.seed);
        self.offset(self.len() + buffer.len() as u64)?;
        self.bytes.extend_from_slice(&buffer);
        self.chain = Chain { previous_crc: crc, number: header.number, time: header.time };
        self.frames += 1;
        Ok(())
    }

    fn offset(&self, offset: u64) -> Result<u32> {
        u32::try_from(offset).map_err(|_| Error::TooLarge {
            what: "a file of the log in bytes",
            limit: u64::from(u32::MAX),
            found: offset,
        })
    }

    /// Not reached for a frame that was checked: its envelopes fill its payload.
    fn unsound(&self, header: &FrameHeader, reason: Malformed) -> Error {
        let (path, segment) = (std::path::PathBuf::new(), "(not written yet)".to_owned());
        Error::Corrupt { path, segment, frame: header.number, reason: Box::new(reason) }
    }
}
