//! The files of a damaged log, one after the other: what each becomes, and what stands between them.
//!
//! It holds what goes on from file to file: number, time, nonce, promise. Files that are as they should be stay
//! untouched; their neighbours are built around them.

use std::collections::BTreeSet;

use super::salvage::{Piece, Salvage, Source, first_lost};
use super::{Files, Known, Repaired, Rewritten};
use crate::codec::frame::{FrameKind, LostRange};
use crate::codec::segment::{FRAMES_START, SegmentHeader, StoreId};
use crate::codec::wire::Malformed;
use crate::disk::Disk;
use crate::error::{Error, Evidence, Result};
use crate::log::build::{Build, header_area};
use crate::log::change::Change;
use crate::log::recover::damage;
use crate::log::settle::random;
use crate::log::verify::read_whole;
use crate::position::{Frame, SegmentId, Time};
use crate::segment::{GROWTH_MIN_BYTES, LOG_DIR, SEAL_FRAME_BYTES};

/// A walk over the log that builds what has to be built.
pub(super) struct Sequence<'d, 'r> {
    disk: &'d dyn Disk,
    store: StoreId,
    now: Time,
    change: Change<'d>,
    repaired: &'r mut Repaired,
    /// What DURABLE promises.
    promised: Frame,
    /// The highest promise met so far, DURABLE's included.
    promise: Frame,
    /// The last number and time of the files so far, the nonce of the last seal, and whether there was one.
    number: Frame,
    time: Time,
    nonce: u64,
    open: bool,
}

/// Whether a file is whole, and what it leads to.
struct Outcome {
    number: Frame,
    time: Time,
    /// The nonce of its seal.
    nonce: Option<u64>,
}

impl<'d, 'r> Sequence<'d, 'r> {
    /// Before the first file.
    ///
    /// # Errors
    /// The disk has no random numbers.
    pub(super) fn begin(
        disk: &'d dyn Disk,
        store: StoreId,
        promised: Frame,
        now: Time,
        repaired: &'r mut Repaired,
    ) -> Result<Sequence<'d, 'r>> {
        Ok(Sequence {
            disk,
            store,
            now,
            change: Change::begin(disk, store)?,
            repaired,
            promised,
            promise: promised,
            number: Frame::ZERO,
            time: Time::ZERO,
            nonce: 0,
            open: false,
        })
    }

    /// Builds what has to be built, and puts it into place.
    ///
    /// # Errors
    /// As [`super::repair`].
    pub(super) fn repair(mut self, files: Files) -> Result<()> {
        if let Some(base) = files.check_bases() {
            return Err(self.base_gap(base, 0));
        }
        let names = files.names();
        for name in &files.doubles {
            self.set_aside(name, &names)?;
        }
        let mut ends_in_base = true;
        for (i, known) in files.files.iter().enumerate() {
            let next = files.files.get(i + 1);
            ends_in_base = known.id.is_base();
            if ends_in_base {
                self.number = known.id.first().previous();
            }
            if !ends_in_base && known.id.first() > self.number.next().unwrap_or_default() {
                self.missing(known.id.first().previous(), Some(known))?;
            }
            self.file(known, next, &names)?;
        }
        // Behind a seal nothing can be added, and a log does not end in a base.
        if ends_in_base || (!self.open && self.promise > self.number) {
            self.missing(self.promise.max(self.number), None)?;
        }
        self.repaired.last = self.number;
        if self.change.is_empty() { Ok(()) } else { self.change.commit() }
    }

    /// A file that is not there, with the range that it held: sealed if there is a file behind it.
    fn missing(&mut self, last: Frame, next: Option<&Known>) -> Result<()> {
        let first = self.number.next().unwrap_or_default();
        let id = SegmentId::Segment { first };
        let mut build = Build::begin(self.disk, self.header(id, None), self.number, self.time)?;
        if last >= first {
            let until = self.until(next);
            self.lose(&mut build, last, until)?;
        }
        let nonce = next.map(|next| nonce(self.disk, next)).transpose()?;
        if let Some(nonce) = nonce {
            build.seal(nonce, None)?;
        }
        let name = id.to_string();
        let reserved = if next.is_some() { 0 } else { GROWTH_MIN_BYTES };
        self.change.build(name.clone(), build.salt(), build.bytes(), reserved)?;
        let file = format!("{LOG_DIR}/{name}");
        self.repaired.rewritten.push(Rewritten { file, quarantine: None, cut_bytes: 0 });
        let (number, time) = (build.chain().number, build.chain().time);
        self.go_on(Outcome { number, time, nonce });
        Ok(())
    }

    /// A file that is there: untouched if it is whole, otherwise kept and built anew.
    fn file(&mut self, known: &Known, next: Option<&Known>, names: &BTreeSet<String>) -> Result<()> {
        let bytes = read_whole(self.disk, &format!("{LOG_DIR}/{}", known.name))?;
        let top = next.map(|next| next.id.first().previous());
        let header = self.header(known.id, known.header.as_ref());
        // A file of another store is not ours, unless the seal before it names it.
        let ours = known
            .header
            .as_ref()
            .is_none_or(|h| h.store == self.store || (self.nonce != 0 && h.previous_nonce == self.nonce));
        let source = Source {
            id: known.id,
            bytes: &bytes,
            seed: known.seed.as_ref().filter(|_| ours),
            time: self.time,
            promised: self.promised,
            top,
        };
        let salvage = Salvage::of(&source);
        self.promise = self.promise.max(salvage.promise);
        let ends = top.is_none() && !known.id.is_base() && self.promise <= salvage.chain.number;
        let short = salvage.seal.is_none() && !ends;
        if known.id.is_base()
            && let (Some((_, seal)), Some(next)) = (&salvage.seal, next.and_then(|next| next.header.as_ref()))
            && seal.nonce != next.previous_nonce
        {
            // Another part stood between them.
            return Err(self.base_gap(known, FRAMES_START));
        }
        let area = bytes.get(..FRAMES_START as usize).unwrap_or(&bytes);
        let regular = salvage.regular && !short && known.name == known.id.to_string();
        if regular && area == header_area(&header) {
            let (number, time) = (salvage.chain.number, salvage.chain.time);
            self.go_on(Outcome { number, time, nonce: salvage.seal.map(|(_, seal)| seal.nonce) });
            return Ok(());
        }
        if known.id.is_base() && !base_is_complete(&salvage) {
            return Err(self.base_gap(known, FRAMES_START));
        }
        let build = Build::begin(self.disk, header, self.number, self.time)?;
        let (build, nonce) = self.rebuild(build, &salvage, known, next, top)?;
        let quarantine = Some(self.change.keep(&known.name, &bytes)?);
        let name = known.id.to_string();
        let reserved = if nonce.is_some() { 0 } else { bytes.len() as u64 };
        self.change.build(name, build.salt(), build.bytes(), reserved)?;
        if !names.contains(&known.name) {
            self.change.drop_file(known.name.clone());
        }
        let (file, cut_bytes) = (format!("{LOG_DIR}/{}", known.name), salvage.cut_bytes);
        self.repaired.rewritten.push(Rewritten { file, quarantine, cut_bytes });
        self.go_on(Outcome { number: build.chain().number, time: build.chain().time, nonce });
        Ok(())
    }

    /// The frames of a file anew, with `lost` over what is gone. Answers the nonce of its seal.
    fn rebuild(
        &mut self,
        mut build: Build,
        salvage: &Salvage<'_>,
        known: &Known,
        next: Option<&Known>,
        top: Option<Frame>,
    ) -> Result<(Build, Option<u64>)> {
        let mut gap = false;
        for piece in &salvage.pieces {
            let Piece::Frame(frame) = piece else {
                gap = true;
                continue;
            };
            let header = &frame.header;
            let before = match header.kind {
                FrameKind::Commit => header.number.previous(),
                FrameKind::Lost => first_lost(frame).unwrap_or(header.number).previous(),
                _ => header.number,
            };
            if before > build.chain().number {
                self.lose(&mut build, before, Some(header.time))?;
            } else if gap && !known.id.is_base() {
                // No number is missing, so what is destroyed was a close marker.
                build.close()?;
            }
            build.copy(frame)?;
            gap = false;
        }
        let old = salvage.seal.as_ref();
        let last = match (old, top) {
            (Some((header, _)), _) => header.number,
            (None, Some(top)) => top,
            (None, None) => self.promise,
        };
        if last > build.chain().number && !known.id.is_base() {
            let until = old.map_or_else(|| self.until(next), |(header, _)| Some(header.time));
            self.lose(&mut build, last, until)?;
        }
        let nonce = match (old, next) {
            (Some((_, seal)), _) => Some(seal.nonce),
            (None, Some(next)) => Some(nonce(self.disk, next)?),
            // A base is always sealed; the segment behind it is built with this nonce.
            (None, None) if known.id.is_base() => Some(random(self.disk)?),
            (None, None) => None,
        };
        if let Some(nonce) = nonce {
            build.seal(nonce, old.map(|(header, _)| header))?;
        }
        Ok((build, nonce))
    }

    /// A file that is none of the log: kept, and taken out.
    fn set_aside(&mut self, name: &str, names: &BTreeSet<String>) -> Result<()> {
        let file = format!("{LOG_DIR}/{name}");
        let bytes = read_whole(self.disk, &file)?;
        let quarantine = Some(self.change.keep(name, &bytes)?);
        if !names.contains(name) {
            self.change.drop_file(name.to_owned());
        }
        self.repaired.rewritten.push(Rewritten { file, quarantine, cut_bytes: 0 });
        Ok(())
    }

    fn lose(&mut self, build: &mut Build, last: Frame, until: Option<Time>) -> Result<()> {
        let first = build.chain().number.next().unwrap_or_default();
        build.lose(LostRange { first, last }, until)?;
        match self.repaired.lost.last_mut() {
            Some(range) if range.last.next() == Some(first) => range.last = last,
            _ => self.repaired.lost.push(LostRange { first, last }),
        }
        Ok(())
    }

    /// The time that the last frame before a file must not pass: where it is unknown, time stands still.
    fn until(&self, next: Option<&Known>) -> Option<Time> {
        next.map(|next| next.time.unwrap_or(self.time))
    }

    /// The header that a file should have here; its salt is the one it has.
    fn header(&self, id: SegmentId, found: Option<&SegmentHeader>) -> SegmentHeader {
        SegmentHeader {
            store: self.store,
            first: id.first(),
            salt: found.map_or(0, |header| header.salt),
            previous_nonce: self.nonce,
            created: found.map_or(self.now, |header| header.created),
        }
    }

    fn go_on(&mut self, outcome: Outcome) {
        (self.number, self.time) = (outcome.number, outcome.time);
        (self.nonce, self.open) = (outcome.nonce.unwrap_or_default(), outcome.nonce.is_none());
    }

    fn base_gap(&self, base: &Known, offset: u64) -> Error {
        let reason = Malformed::new("base", offset, "all its frames", "others, or a gap");
        damage(self.disk, &base.name, offset, base.id.first().previous(), reason, Evidence::NotLast)
    }
}

/// The nonce for a new seal: the one that the file behind it names, or a fresh one.
fn nonce(disk: &dyn Disk, next: &Known) -> Result<u64> {
    match &next.header {
        Some(header) if header.previous_nonce != 0 => Ok(header.previous_nonce),
        _ => random(disk),
    }
}

/// Whether nothing but the seal of a base can be missing.
fn base_is_complete(salvage: &Salvage<'_>) -> bool {
    let gaps: Vec<u64> = salvage
        .pieces
        .iter()
        .filter_map(|p| if let Piece::Gap(len) = p { Some(*len) } else { None })
        .collect();
    match (&salvage.seal, gaps.as_slice(), salvage.pieces.last()) {
        (Some(_), [], _) => true,
        (None, [only], Some(Piece::Gap(_))) => *only <= SEAL_FRAME_BYTES,
        _ => false,
    }
}
