//! One file after the other: headers, lineage, frames, envelopes, seals, and the zeros behind them.
//!
//! The walker holds what must go on from frame to frame and from file to file. Behind damage it goes on with
//! the next frame that is whole in itself, and takes over what that frame says. Sound frames are read piece by piece;
//! only what stands behind the first that is not sound is looked at as one.

use xxhash_rust::xxh3::Xxh3;

use super::{Finding, Severity, Verification, beside, file_len, read_up_to};
use crate::codec::frame::{
    self, CheckedFrame, FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader, FrameKind, LostRange, Seal, Seed,
};
use crate::codec::payload::{self, Decoded, Trust};
use crate::codec::segment::{
    BadHeader, Durable, FORMAT_VERSION, FRAMES_START, SEGMENT_HEADER_BYTES, SEGMENT_HEADER_OFFSETS,
    SegmentHeader, StoreId,
};
use crate::codec::wire::Malformed;
use crate::disk::{Access, Disk};
use crate::error::{Error, Result};
use crate::log::promise::DURABLE;
use crate::position::{Frame, SegmentId, Time};
use crate::segment::{Chain, LOG_DIR, Opened, Search, Segment, SegmentOptions, Step, Walk};

/// How much is looked through at a time for anything that is not zero.
const ZEROS_BYTES: usize = 256 * 1024;

/// Walks the files of a log in their order.
#[derive(Debug)]
pub(super) struct Walker {
    report: Verification,
    promised: Option<Durable>,
    store: Option<StoreId>,
    /// The nonce that the next file names; unknown behind damage.
    nonce: Option<u64>,
    chain: Chain,
    /// The last file that was walked, and where its frames end.
    end: Option<(String, u64)>,
    /// Whether the end of the last file was found damaged already.
    end_found: bool,
    /// What the seal of the file must have for a digest; unknown behind anything that is not sound.
    covered: Option<u128>,
}

/// The file under the walk.
struct At<'f> {
    id: SegmentId,
    path: String,
    segment: &'f Segment,
    /// The size of the file.
    len: u64,
    last: bool,
    /// Where the next frame stands.
    offset: u64,
    /// Frames of every kind so far.
    frames: u64,
    damaged: bool,
    sealed: bool,
}

/// The end of a file, from the first place on at which no sound frame stands.
struct Rest<'f> {
    bytes: &'f [u8],
    /// Where in the file the bytes stand.
    at: u64,
    search: Search<'f>,
}

impl<'f> Rest<'f> {
    fn from(&self, offset: u64) -> &'f [u8] {
        let skip = offset.checked_sub(self.at).and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| self.bytes.get(skip..)).unwrap_or_default()
    }
}

impl At<'_> {
    fn seed(&self) -> &Seed {
        self.segment.seed()
    }

    /// The first byte from here to the file's end that is not zero, and where it stands.
    fn first_used(&self) -> Result<Option<(u64, u8)>> {
        let mut at = self.offset;
        while at < self.len {
            let len = usize::try_from(self.len - at).unwrap_or(usize::MAX).min(ZEROS_BYTES);
            let bytes = self.segment.read_raw(at, len)?;
            if let Some((i, byte)) = bytes.iter().enumerate().find(|(_, byte)| **byte != 0) {
                return Ok(Some((at + i as u64, *byte)));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            at += bytes.len() as u64;
        }
        Ok(None)
    }
}

impl Walker {
    pub(super) fn new(promised: Option<Durable>) -> Walker {
        Walker {
            report: Verification::default(),
            promised,
            store: None,
            nonce: Some(0),
            chain: Chain::start(Frame::ZERO, Time::ZERO),
            end: None,
            end_found: false,
            covered: None,
        }
    }

    fn wanted(&self) -> Frame {
        self.chain.number.next().unwrap_or(self.chain.number)
    }

    fn find(&mut self, severity: Severity, file: &str, offset: u64, frame: Frame, reason: Malformed) {
        let file = file.to_owned();
        self.report.findings.push(Finding { severity, file, offset, frame, reason });
    }

    fn damage(&mut self, at: &mut At<'_>, offset: u64, frame: Frame, reason: Malformed) {
        at.damaged = true;
        self.find(Severity::Damage, &at.path, offset, frame, reason);
    }

    /// Looks at one file.
    ///
    /// # Errors
    /// [`Error::NewerFormat`]; [`Error::Io`].
    pub(super) fn file(&mut self, id: SegmentId, name: &str, last: bool, disk: &dyn Disk) -> Result<()> {
        let path = format!("{LOG_DIR}/{name}");
        let area = read_up_to(disk, &path, FRAMES_START)?;
        self.report.segments += 1;
        self.end_found = false;
        let header = self.header(id, &path, &area, disk)?;
        let options = SegmentOptions { segment_bytes: 0, map: false };
        let (Some(header), Opened::Segment(segment)) =
            (header, Segment::open(disk, name, id, Access::Read, options)?)
        else {
            // Without a salt no frame can be told from other bytes.
            self.report.bytes += file_len(disk, &path)?;
            (self.nonce, self.end, self.end_found) = (None, Some((path, 0)), true);
            return Ok(());
        };
        self.lineage(id, &path, &header);
        let (len, offset, frames, damaged, sealed) = (segment.size()?, FRAMES_START, 0, false, false);
        self.report.bytes += len;
        let mut at = At { id, path, segment: &segment, len, last, offset, frames, damaged, sealed };
        self.nonce = None;
        self.sound(&mut at)?;
        if !at.sealed && at.first_used()?.is_some() {
            let left = usize::try_from(len.saturating_sub(at.offset)).unwrap_or(usize::MAX);
            let bytes = segment.read_raw(at.offset, left)?;
            let search = Search::new(&bytes, at.offset, segment.seed());
            let mut rest = Rest { bytes: &bytes, at: at.offset, search };
            self.frames(&mut at, &mut rest);
        }
        self.behind(&mut at)?;
        self.end = Some((at.path, at.offset));
        Ok(())
    }

    /// Both copies of the header, and the zeros around them. `None` if neither serves.
    fn header(
        &mut self,
        id: SegmentId,
        path: &str,
        bytes: &[u8],
        disk: &dyn Disk,
    ) -> Result<Option<SegmentHeader>> {
        let area = bytes.get(..FRAMES_START as usize).unwrap_or(bytes);
        let header = match SegmentHeader::decode_either(area) {
            Ok(header) => header,
            Err(BadHeader::Newer { version: found }) => {
                return Err(Error::NewerFormat {
                    path: disk.root().join(path),
                    found,
                    known: FORMAT_VERSION,
                });
            }
            Err(BadHeader::Malformed(reason)) => {
                self.find(Severity::Damage, path, 0, id.first(), reason);
                return Ok(None);
            }
        };
        let whole = header.encode();
        for offset in SEGMENT_HEADER_OFFSETS {
            let from = offset as usize;
            let copy = area.get(from..).unwrap_or_default();
            let reason = match SegmentHeader::decode(copy, offset) {
                Err(BadHeader::Malformed(reason)) => Some(reason),
                _ if !copy.starts_with(&whole) => {
                    Some(Malformed::new("segment header", offset, "the same as the other copy", "another"))
                }
                // Each copy has half of the area to itself.
                _ => not_zero(copy, offset, SEGMENT_HEADER_BYTES, FRAMES_START as usize / 2, "header area"),
            };
            if let Some(reason) = reason {
                self.find(Severity::Damage, path, offset, id.first(), reason);
            }
        }
        Ok(Some(header))
    }

    /// Holds a header against the file's name and the file before it; takes over what the file says.
    fn lineage(&mut self, id: SegmentId, path: &str, header: &SegmentHeader) {
        let store = *self.store.get_or_insert(header.store);
        let known = self.nonce.is_some();
        let hex = |n: u64| format!("{n:#018x}");
        let part = match id {
            SegmentId::Base { part, .. } => (part as usize != self.report.segments).then_some(part),
            SegmentId::Segment { .. } => None,
        };
        let begins = matches!(id, SegmentId::Base { .. }) && self.report.segments == 1;
        let reason = if header.store != store {
            Some(Malformed::new("store id", 0, store, header.store))
        } else if header.first != id.first() {
            Some(Malformed::new("first frame", 0, id.first(), header.first))
        } else if let Some(part) = part {
            Some(Malformed::new("base part", 0, self.report.segments, part))
        } else if known && !begins && id.first() != self.wanted() {
            Some(Malformed::new("first frame", 0, self.wanted(), id.first()))
        } else if let Some(nonce) = self.nonce
            && nonce != header.previous_nonce
        {
            Some(Malformed::new("previous nonce", 0, hex(nonce), hex(header.previous_nonce)))
        } else {
            None
        };
        if let Some(reason) = reason {
            let missing = if begins { id.first() } else { self.wanted().min(id.first()) };
            self.find(Severity::Damage, path, 0, missing, reason);
        }
        self.chain = Chain::start(id.first().previous(), self.chain.time);
    }

    /// The frames of a file from its first on, as long as each is the next one, or up to the seal.
    fn sound(&mut self, at: &mut At<'_>) -> Result<()> {
        let mut walk = Walk::new(at.segment, at.offset, at.len);
        let mut digest = Xxh3::new();
        while !at.sealed {
            let Step::Frame { frame, bytes, .. } = walk.step()? else { return Ok(()) };
            if self.follow(at, &frame).is_err() {
                return Ok(());
            }
            if frame.header.kind == FrameKind::Seal {
                self.covered = Some(digest.digest128());
            }
            self.frame(at, &frame);
            digest.update(bytes);
        }
        Ok(())
    }

    /// Every frame from the first place on at which no sound one stands, up to a seal, or to where nothing more was
    /// written.
    fn frames(&mut self, at: &mut At<'_>, end: &mut Rest<'_>) {
        self.covered = None;
        while !at.sealed {
            let rest = end.from(at.offset);
            if rest.iter().all(|&b| b == 0) {
                return;
            }
            let offset = at.offset;
            let decoded = if frame::is_unwritten(rest) {
                let expected = format!("frame {}", self.wanted());
                Err(Malformed::new("frame header", offset, expected, "zeros"))
            } else {
                frame::decode(rest, offset, at.seed())
            };
            let next = match decoded {
                Ok(frame) => match self.follow(at, &frame) {
                    Ok(()) => {
                        self.frame(at, &frame);
                        continue;
                    }
                    Err(reason) => self.gap(at, end, reason).then_some((offset, frame)),
                },
                Err(reason) => {
                    let go_on = self.gap(at, end, reason);
                    go_on.then(|| end.search.frame(offset + FRAME_ALIGN, |_| true)).flatten()
                }
            };
            let Some((offset, frame)) = next else {
                self.end_found |= at.damaged;
                return;
            };
            at.offset = offset;
            self.resume(at, &frame);
        }
    }

    /// Whether a frame that is whole in itself is the next one here.
    fn follow(&mut self, at: &At<'_>, frame: &CheckedFrame<'_>) -> Result<(), Malformed> {
        let fits = match frame.header.kind {
            FrameKind::Seal => true,
            FrameKind::Base => at.id.is_base(),
            _ => !at.id.is_base(),
        };
        if !fits {
            let found = frame.header.kind.name();
            return Err(Malformed::new("frame kind", at.offset, "a kind of this file", found));
        }
        self.chain.follow(frame, at.offset)
    }

    /// Something else stands where the next frame should be: damage, or an end that nobody promised. Answers
    /// whether to go on behind it.
    fn gap(&mut self, at: &mut At<'_>, end: &mut Rest<'_>, reason: Malformed) -> bool {
        let (wanted, offset) = (self.wanted(), at.offset);
        let ours = |d: &Durable| self.store.is_none_or(|store| store == d.store);
        let promised = self.promised.is_some_and(|d| ours(&d) && d.frame >= wanted);
        if at.last && !at.id.is_base() && !promised && !end.search.is_promised(offset, wanted) {
            self.find(Severity::Unclean, &at.path, offset, wanted, reason);
            return false;
        }
        self.damage(at, offset, wanted, reason);
        true
    }

    /// Goes on with a frame behind damage, and with what it says of those before it.
    fn resume(&mut self, at: &mut At<'_>, frame: &CheckedFrame<'_>) {
        let header = &frame.header;
        let number = match header.kind {
            FrameKind::Commit => header.number.previous(),
            FrameKind::Lost => match LostRange::decode(frame.payload, at.offset) {
                Ok(range) => range.first.previous(),
                Err(_) => header.number,
            },
            _ => header.number,
        };
        self.chain = Chain { previous_crc: header.previous_crc, number, time: header.time };
        match self.follow(at, frame) {
            Ok(()) => self.frame(at, frame),
            Err(reason) => {
                // Whole as a frame and still none of ours: its content is what the format forbids.
                let last_finding = self.report.findings.last();
                if last_finding.is_none_or(|finding| finding.reason != reason) {
                    self.damage(at, at.offset, header.number, reason);
                }
                self.chain = Chain { previous_crc: header.crc, number: header.number, time: header.time };
                at.frames += 1;
                at.offset += header.frame_bytes() as u64;
            }
        }
    }

    /// Looks into a frame that follows, and steps behind it.
    fn frame(&mut self, at: &mut At<'_>, frame: &CheckedFrame<'_>) {
        let (header, offset) = (&frame.header, at.offset);
        let mut reasons = Vec::new();
        let max = promise_max(header);
        if header.durable > max {
            reasons.push(Malformed::new("durable frame", offset, format!("at most {max}"), header.durable));
        }
        faults(frame, offset, at.seed(), &mut |reason| reasons.push(reason));
        for reason in reasons {
            self.damage(at, offset, header.number, reason);
        }
        match header.kind {
            FrameKind::Commit | FrameKind::Base | FrameKind::Close => {}
            FrameKind::Seal => self.seal(at, frame),
            FrameKind::Lost => {
                let reason =
                    Malformed::new("lost range", offset, "no frame lost", "a range that repair gave up");
                self.find(Severity::Note, &at.path, offset, header.number, reason);
            }
        }
        if header.kind == FrameKind::Commit {
            self.report.frames += 1;
            self.report.deltas += u64::from(header.delta_count);
        }
        if matches!(header.kind, FrameKind::Commit | FrameKind::Base) {
            self.report.last = self.report.last.max(header.number);
        }
        at.frames += 1;
        at.offset += header.frame_bytes() as u64;
    }

    /// The seal of a file in which nothing else is wrong says how many frames there are, and which bytes.
    fn seal(&mut self, at: &mut At<'_>, frame: &CheckedFrame<'_>) {
        at.sealed = true;
        let Ok(seal) = Seal::decode(frame.payload, at.offset) else { return };
        self.nonce = Some(seal.nonce);
        let Some(digest) = self.covered.filter(|_| !at.damaged) else { return };
        let offset = at.offset;
        if seal.frames != at.frames {
            let reason = Malformed::new("sealed frames", offset, at.frames, seal.frames);
            self.damage(at, offset, frame.header.number, reason);
        }
        if seal.digest != digest {
            let (e, f) = (format!("{digest:032x}"), format!("{:032x}", seal.digest));
            self.damage(at, offset, frame.header.number, Malformed::new("seal digest", offset, e, f));
        }
    }

    /// What must hold where the frames of a file end.
    fn behind(&mut self, at: &mut At<'_>) -> Result<()> {
        let (offset, wanted) = (at.offset, self.wanted());
        let reason = if at.sealed {
            let found = |(at, byte)| used("space behind the seal", at, byte);
            at.first_used()?.map(found)
        } else if !at.last && !at.damaged {
            Some(Malformed::new("segment", offset, "a seal", "its end"))
        } else {
            None
        };
        if let Some(reason) = reason {
            self.damage(at, offset, wanted, reason);
        }
        if at.last && at.id.is_base() {
            let reason = Malformed::new("log", offset, "a segment behind the base", "its end");
            self.damage(at, offset, wanted, reason);
            self.end_found = true;
        }
        Ok(())
    }

    /// The whole log was walked: holds its end against DURABLE.
    pub(super) fn end(mut self, findings: &mut Vec<Finding>) -> Verification {
        let Some(promise) = self.promised else { return self.report };
        if self.store.is_some_and(|store| store != promise.store) {
            let reason = Malformed::new("store id", 0, self.store.unwrap_or_default(), promise.store);
            findings.push(beside(Severity::Note, DURABLE, reason));
            return self.report;
        }
        self.report.durable = Some(promise.frame);
        if promise.frame > self.chain.number && !self.end_found {
            let expected = format!("frame {}, which DURABLE promises", promise.frame);
            let (file, offset) = self
                .end
                .take()
                .unwrap_or_else(|| (format!("log/{}", SegmentId::Segment { first: Frame(1) }), 0));
            let reason = Malformed::new("log", offset, expected, "its end");
            self.find(Severity::Damage, &file, offset, self.wanted(), reason);
        }
        self.report
    }
}

/// The highest frame that a frame may promise: what stands before it.
pub(in crate::log) fn promise_max(header: &FrameHeader) -> Frame {
    if header.kind == FrameKind::Commit { header.number.previous() } else { header.number }
}

/// What is wrong with the content of a frame that is whole and in its place: of each envelope, its own checksum, its
/// place in the history of its key, its JSON.
pub(in crate::log) fn faults(
    frame: &CheckedFrame<'_>,
    offset: u64,
    seed: &Seed,
    tell: &mut dyn FnMut(Malformed),
) {
    let FrameHeader { kind, number, .. } = frame.header;
    if !matches!(kind, FrameKind::Commit | FrameKind::Base) {
        return;
    }
    let (mut rest, mut offset) = (frame.payload, offset + FRAME_HEADER_BYTES as u64);
    while !rest.is_empty() {
        match payload::decode(rest, offset, Trust::Alone(seed)) {
            Ok((Decoded::Delta(envelope), _)) => {
                for place in [envelope.previous].iter().chain(&envelope.evicted) {
                    if place.frame > number {
                        let expected = format!("at most {number}");
                        tell(Malformed::new("frame of an earlier delta", offset, expected, place.frame));
                    }
                }
                envelope.op.check_json(offset).err().into_iter().for_each(&mut *tell)
            }
            Ok((Decoded::Origin(_), _)) => {}
            Err(reason) => tell(reason),
        }
        // The frame's payload was found sound, so there is a next envelope where this one ends.
        let Ok(len) = payload::envelope_bytes(rest, offset) else { return };
        rest = rest.get(len..).unwrap_or_default();
        offset += len as u64;
    }
}

/// The first byte between `from` and `to` that is not zero; `bytes` stand at `offset` of the file.
fn not_zero(bytes: &[u8], offset: u64, from: usize, to: usize, what: &'static str) -> Option<Malformed> {
    let area = bytes.get(from..to.min(bytes.len())).unwrap_or_default();
    let (i, found) = area.iter().enumerate().find(|(_, b)| **b != 0)?;
    Some(used(what, offset + (from + i) as u64, *found))
}

fn used(what: &'static str, offset: u64, found: u8) -> Malformed {
    Malformed::new(what, offset, "zero", format!("{found:#04x}"))
}
