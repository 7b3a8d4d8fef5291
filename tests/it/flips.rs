//! One flipped bit anywhere in a log of a thousand frames: `open`, `verify` or the read that touches it says so.
//!
//! Protects promises 1, 2, 5 and 6. Every bit of the segment headers, frame headers, envelope headers, handle ids,
//! paddings, seals and markers, and of one body bit in sixteen; what lies unwritten behind the last frame is
//! excepted. The ordinary run takes a sample of these; `MNEMOLOG_FLIPS=1` takes them all, and another number one in
//! so many.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use mnemolog::codec::delta::{ENVELOPE_HEADER_BYTES, envelope};
use mnemolog::codec::frame::{self, FRAME_HEADER_BYTES, FrameKind, Seed};
use mnemolog::codec::payload;
use mnemolog::codec::segment::{FRAMES_START, SEGMENT_HEADER_BYTES, SEGMENT_HEADER_OFFSETS, SegmentHeader};
use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::interchange::{self, DumpOptions};
use mnemolog::log::{self, Fold, Met, Mode};
use mnemolog::segment::SegmentOptions;
use mnemolog::{Error, Options, Store, StubEmbedder, Time};

use crate::model::{Rng, Step, WORKSPACES};

const FRAMES: u64 = 1000;
/// Of the bits of bodies, and of zeros between and behind what was written, one in so many.
const SPARSE: usize = 16;
/// Of the bits that are tried, for one in so many a store that was open before is read afterwards.
const READ: usize = 64;

type Files = BTreeMap<String, Vec<u8>>;

struct Ignore;

impl Fold for Ignore {
    fn begin(&mut self) {}
    fn frame(&mut self, _: &Met<'_>) {}
}

fn options() -> Options {
    Options::new().segment_bytes(64 * 1024).embedder(Arc::new(StubEmbedder::with_dim(8)))
}

/// A closed store of a thousand frames of all four kinds in several segments.
fn written() -> Files {
    let disk = MemoryDisk::new();
    let store = options().open_on(Arc::new(disk.clone())).expect("opens");
    let mut rng = Rng::new(1000);
    while store.appended().0 < FRAMES {
        let (step, at) = (Step::random(&mut rng), rng.below(2) as usize);
        step.take(&store.workspace(WORKSPACES[at]).expect("a path")).expect("written");
    }
    store.close().expect("closes");
    let read = |path: &String| Some((path.clone(), disk.read_file(path)?));
    disk.files().iter().filter_map(read).collect()
}

fn disk_of(files: &Files) -> MemoryDisk {
    let disk = MemoryDisk::new();
    for (path, bytes) in files {
        disk.write_file(path, bytes).expect("a file in memory");
    }
    disk
}

/// The bits of one file, as offsets and bit numbers.
#[derive(Default)]
struct Bits {
    all: Vec<(u64, u8)>,
    sparse: usize,
}

impl Bits {
    fn every(&mut self, bytes: Range<usize>) {
        self.all.extend(bytes.flat_map(|at| (0..8).map(move |bit| (at as u64, bit))));
    }

    fn some(&mut self, bytes: Range<usize>) {
        for bit in bytes.flat_map(|at| (0..8).map(move |bit| (at as u64, bit))) {
            self.sparse += 1;
            if self.sparse.is_multiple_of(SPARSE) {
                self.all.push(bit);
            }
        }
    }

    fn of(file: &[u8], last: bool) -> Bits {
        let mut bits = Bits::default();
        let seed = Seed::new(SegmentHeader::decode_either(file).expect("a header").salt);
        let half = FRAMES_START as usize / 2;
        for at in SEGMENT_HEADER_OFFSETS.map(|at| at as usize) {
            bits.every(at..at + SEGMENT_HEADER_BYTES);
            bits.some(at + SEGMENT_HEADER_BYTES..at + half);
        }
        let mut at = FRAMES_START as usize;
        while let Ok(frame) = frame::decode(&file[at..], at as u64, &seed) {
            let (payload, end) = (at + FRAME_HEADER_BYTES, at + frame.header.frame_bytes());
            bits.every(at..payload);
            match frame.header.kind {
                FrameKind::Commit | FrameKind::Base => bits.envelopes(file, payload..end),
                _ => bits.every(payload..end),
            }
            at = end;
        }
        if !last {
            bits.some(at..file.len());
        }
        bits
    }

    fn envelopes(&mut self, file: &[u8], bytes: Range<usize>) {
        let mut at = bytes.start;
        while at < bytes.end {
            let number = |field: usize| {
                let bytes = file[at + field..].first_chunk().copied().expect("a whole header");
                u32::from_le_bytes(bytes) as usize
            };
            let step = payload::envelope_bytes(&file[at..bytes.end], at as u64).expect("an envelope");
            let (length, embedding) = (number(envelope::LENGTH), number(envelope::EMBEDDING_WIDTH) * 4);
            let id = at + ENVELOPE_HEADER_BYTES + embedding;
            let body = id + number(envelope::ID_LENGTH);
            self.every(at..at + ENVELOPE_HEADER_BYTES);
            self.some(at + ENVELOPE_HEADER_BYTES..id);
            self.every(id..body);
            self.some(body..at + length);
            self.every(at + length..at + step);
            at += step;
        }
    }
}

/// Who said so.
#[derive(Debug, Default)]
struct Told {
    damage_by_open: usize,
    unclean_end_by_open: usize,
    verify: usize,
    reads: usize,
}

/// The files with one bit flipped are opened for writing; where that finds nothing, they are verified.
fn tell(disk: &mut MemoryDisk, files: &Files, path: &str, (at, bit): (u64, u8), told: &mut Told) {
    let options = SegmentOptions { segment_bytes: 64 * 1024, map: false };
    let mode = Mode::Write { lock_wait: Duration::ZERO, allow_network: true, now: Time::ZERO };
    disk.flip(path, at, bit).expect("a byte of the file");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    match log::open(&shared, options, mode, &mut Ignore) {
        Err(Error::Damaged(_)) => {
            told.damage_by_open += 1;
            disk.flip(path, at, bit).expect("a byte of the file");
        }
        Err(other) => panic!("bit {bit} of byte {at} of {path}: {other}"),
        Ok(opening) => {
            let cut = opening.recovery.cut.is_some();
            drop(opening);
            *disk = disk_of(files);
            if cut {
                told.unclean_end_by_open += 1;
                return;
            }
            disk.flip(path, at, bit).expect("a byte of the file");
            let report = log::verify(disk).expect("a report");
            assert!(!report.findings.is_empty(), "bit {bit} of byte {at} of {path}: nobody says anything");
            told.verify += 1;
            disk.flip(path, at, bit).expect("a byte of the file");
        }
    }
}

/// A store that was open when the bit rotted says so when it is read.
fn read(store: &Store, disk: &MemoryDisk, path: &str, (at, bit): (u64, u8), told: &mut Told) {
    disk.flip(path, at, bit).expect("a byte of the file");
    let dumped = interchange::dump(store, &mut Vec::new(), DumpOptions::default());
    disk.flip(path, at, bit).expect("a byte of the file");
    assert!(dumped.is_err(), "bit {bit} of byte {at} of {path} is read as if it were sound");
    told.reads += 1;
}

#[test]
fn a_flipped_bit_anywhere_in_a_thousand_frames_is_told() {
    let one_in: usize = std::env::var("MNEMOLOG_FLIPS").map_or(1999, |text| text.parse().expect("a number"));
    let files = written();
    let (mut disk, opened) = (disk_of(&files), disk_of(&files));
    let store = options().open_read_only_on(Arc::new(opened.clone())).expect("opens");
    assert!(log::verify(&disk).expect("a report").findings.is_empty(), "nothing is wrong yet");
    let segments: Vec<&String> = files.keys().filter(|path| path.ends_with(".seg")).collect();
    let (mut told, mut met, mut tried) = (Told::default(), 0_usize, 0_usize);
    for path in &segments {
        let frames = frames_end(&files[*path]);
        for bit in Bits::of(&files[*path], Some(path) == segments.last()).all {
            met += 1;
            if !met.is_multiple_of(one_in) {
                continue;
            }
            tried += 1;
            tell(&mut disk, &files, path, bit, &mut told);
            if tried.is_multiple_of(READ) && (FRAMES_START..frames).contains(&bit.0) {
                read(&store, &opened, path, bit, &mut told);
            }
        }
    }
    println!("{tried} of {met} bits in {} segments: {told:?}", segments.len());
    assert!(segments.len() > 3 && met > 500_000, "{met} bits in {} segments", segments.len());
    assert_eq!(told.damage_by_open + told.unclean_end_by_open + told.verify, tried);
    assert!(told.damage_by_open > tried / 2 && told.reads > 0, "{told:?}");
}

/// Where the commits of a file end: a dump reads nothing behind them.
fn frames_end(file: &[u8]) -> u64 {
    let seed = Seed::new(SegmentHeader::decode_either(file).expect("a header").salt);
    let (mut at, mut end) = (FRAMES_START, FRAMES_START);
    while let Ok(frame) = frame::decode(&file[at as usize..], at, &seed) {
        at += frame.header.frame_bytes() as u64;
        if frame.header.kind == FrameKind::Commit {
            end = at;
        }
    }
    end
}
