//! The log, driven through what the store uses of it: appends, rotation, reopening, cursors, the index.
//!
//! Owns the small vocabulary that the other files of this folder share. A frame is known here by the key of its
//! one note, and what a log should hold is a plain list of keys.

mod crash;
mod faults;
mod grouped;
mod opening;
mod sharing;
mod looks;
mod spy;
mod verdicts;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use mnemolog::codec::delta::{Body, Note, Op};
use mnemolog::codec::frame::{FrameKind, Seal};
use mnemolog::codec::payload::{self, Deltas};
use mnemolog::codec::segment::{FRAMES_START, SegmentHeader};
use mnemolog::disk::{Disk, FileDisk, MemoryDisk};
use mnemolog::error::{Error, Recovery, Result};
use mnemolog::log::{self, Appended, Cursor, Files, Fold, Index, Log, Met, Mode, Opening, Writers};
use mnemolog::position::{Frame, Last, Position, SegmentId, Time};
use mnemolog::segment::SegmentOptions;

/// Small segments, so that a short history rotates often.
pub(crate) const SMALL: u64 = 8 * 1024;
pub(crate) const DEFAULT: u64 = 64 * 1024 * 1024;

/// One frame as a fold or a cursor met it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) frame: Frame,
    pub(crate) time: Time,
    pub(crate) at: Position,
    pub(crate) key: String,
}

impl Entry {
    pub(crate) fn of(met: &Met<'_>) -> Entry {
        let delta = Deltas::of(&met.frame).unwrap().next().unwrap().unwrap();
        let key = delta.envelope.op.key().unwrap().to_owned();
        Entry { frame: met.frame.header.number, time: met.frame.header.time, at: met.at, key }
    }
}

#[derive(Debug, Default)]
pub(crate) struct List(pub(crate) Vec<Entry>);

impl Fold for List {
    fn begin(&mut self) {
        self.0.clear();
    }

    fn frame(&mut self, met: &Met<'_>) {
        self.0.push(Entry::of(met));
    }
}

/// A log open for writing, and what its opening met.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) log: Log,
    pub(crate) files: Files,
    pub(crate) recovery: Recovery,
    pub(crate) found: Vec<Entry>,
}

pub(crate) fn options(segment_bytes: u64) -> SegmentOptions {
    SegmentOptions { segment_bytes, map: true }
}

pub(crate) fn time(second: u64) -> Time {
    Time::from_micros(second * 1_000_000).unwrap()
}

pub(crate) fn open(disk: &Arc<dyn Disk>, segment_bytes: u64) -> Result<Writing> {
    let mode = Mode::Write { lock_wait: Duration::ZERO, allow_network: true, now: time(1) };
    let mut list = List::default();
    let mut opening = log::open(disk, options(segment_bytes), mode, &mut list)?;
    let log = Log::new(disk.clone(), options(segment_bytes), Writers::One, Duration::ZERO, &mut opening)
        .expect("opened for writing");
    Ok(Writing { log, files: opening.files, recovery: opening.recovery, found: list.0 })
}

pub(crate) fn read(disk: &Arc<dyn Disk>, segment_bytes: u64) -> Result<(Opening, Vec<Entry>)> {
    let mut list = List::default();
    let opening = log::open(disk, options(segment_bytes), Mode::Read, &mut list)?;
    Ok((opening, list.0))
}

pub(crate) fn append(log: &Log, key: &str, second: u64, body_bytes: usize) -> Result<Appended> {
    let body = "b".repeat(body_bytes);
    let op = Op::Remember(Note { key, summary: None, body: Body::Text(&body) });
    let mut buffer = Vec::new();
    log.writer()?.append(time(second), &mut buffer, &mut |out, seed| {
        payload::encode(out, seed, "core/memory", Last::default(), &op, false).unwrap();
        Ok(1)
    })
}

impl Writing {
    pub(crate) fn append(&self, key: &str, body_bytes: usize) -> Result<Appended> {
        append(&self.log, key, 1, body_bytes)
    }

    /// Appends and waits until the frame is durable.
    pub(crate) fn save(&self, key: &str, body_bytes: usize) -> Result<Frame> {
        let frame = self.append(key, body_bytes)?.frame;
        self.log.wait_durable(frame)?;
        Ok(frame)
    }

    /// Saves `k1`, `k2`, … up to a number, each with a body of some bytes.
    pub(crate) fn fill(&self, last: usize, body_bytes: usize) {
        for n in self.log.appended().0 + 1..=last as u64 {
            self.save(&format!("k{n}"), body_bytes).unwrap();
        }
    }
}

pub(crate) fn memory() -> (MemoryDisk, Arc<dyn Disk>) {
    let disk = MemoryDisk::simulated();
    (disk.clone(), Arc::new(disk))
}

pub(crate) fn keys(found: &[Entry]) -> Vec<&str> {
    found.iter().map(|entry| entry.key.as_str()).collect()
}

/// `k1` to `k{last}`.
pub(crate) fn numbered(last: usize) -> Vec<String> {
    (1..=last).map(|n| format!("k{n}")).collect()
}

pub(crate) fn segment(first: u64) -> String {
    format!("log/{}", SegmentId::Segment { first: Frame(first) })
}

/// Every frame of a file as (offset, kind), by its headers alone.
pub(crate) fn frames_of(bytes: &[u8]) -> Vec<(usize, FrameKind)> {
    let mut found = Vec::new();
    let mut at = FRAMES_START as usize;
    while bytes.len() > at + 48 && bytes[at..at + 48] != [0; 48] {
        let header = mnemolog::codec::frame::FrameHeader::decode(&bytes[at..], at as u64).unwrap();
        found.push((at, header.kind));
        at += header.frame_bytes();
    }
    found
}

/// Runs a scenario on a directory and in RAM.
fn on_both(scenario: impl Fn(&Arc<dyn Disk>)) {
    let dir = tempfile::tempdir().unwrap();
    let file = FileDisk::new(dir.path().join("store")).unwrap();
    for disk in [Arc::new(file) as Arc<dyn Disk>, Arc::new(MemoryDisk::new())] {
        scenario(&disk);
    }
}

fn walk(files: &Files, from: Position) -> Vec<Entry> {
    let mut met = Vec::new();
    let mut visit = |m: Met<'_>| {
        if m.frame.header.kind == FrameKind::Commit {
            met.push(Entry::of(&m));
        }
        Ok(true)
    };
    files.cursor(from).each(&mut visit).unwrap();
    met
}

#[test]
fn what_was_appended_is_there_after_every_reopening() {
    on_both(|disk| {
        let mut expected = Vec::new();
        for round in 0..4 {
            let writing = open(disk, SMALL).unwrap();
            assert_eq!(keys(&writing.found), expected, "round {round}");
            assert!(writing.recovery.cut.is_none() && writing.recovery.damage.is_none());
            for n in 0..20 {
                let key = format!("round {round} number {n}");
                writing.save(&key, 300 + 17 * n).unwrap();
                expected.push(key);
            }
            assert_eq!(writing.log.appended(), Frame(expected.len() as u64));
            assert_eq!(writing.log.durable(), writing.log.appended());
            assert_eq!(keys(&walk(&writing.files, Cursor::START)), expected);
            if round % 2 == 0 {
                writing.log.close().unwrap();
            }
        }
        assert!(read(disk, SMALL).unwrap().0.files.now().len() > 3, "the history rotates");
    });
}

#[test]
fn files_name_their_first_frame_and_are_sealed_with_count_digest_and_lineage() {
    on_both(|disk| {
        let writing = open(disk, SMALL).unwrap();
        writing.fill(60, 300);
        let files = writing.files.now();
        assert!(files.len() > 2);
        let (mut nonce, mut first) = (0, 1);
        for file in files.iter() {
            let bytes = file.read_raw(0, file.reserved() as usize).unwrap();
            let header = SegmentHeader::decode(&bytes, 0).unwrap();
            assert_eq!(header, SegmentHeader::decode(&bytes[2048..], 2048).unwrap());
            assert_eq!((header.first, header.previous_nonce), (Frame(first), nonce));
            assert_eq!(file.id().to_string(), format!("{first:020}.seg"));
            let frames = frames_of(&bytes);
            first += frames.iter().filter(|(_, kind)| *kind == FrameKind::Commit).count() as u64;
            let Some((at, FrameKind::Seal)) = frames.last().copied() else { continue };
            let seal = Seal::decode(&bytes[at + 48..at + 80], 0).unwrap();
            assert_eq!(seal.frames as usize, frames.len() - 1);
            let covered = &bytes[FRAMES_START as usize..at];
            assert_eq!(seal.digest, xxhash_rust::xxh3::xxh3_128(covered));
            assert!(bytes[at + 80..].iter().all(|b| *b == 0));
            nonce = seal.nonce;
        }
        assert_eq!(first, 61);
    });
}

#[test]
fn a_clean_end_is_marked_once_and_nothing_is_said_to_be_mended() {
    let (disk, shared) = memory();
    let writing = open(&shared, DEFAULT).unwrap();
    writing.log.close().unwrap();
    assert!(frames_of(&disk.read_file(&segment(1)).unwrap()).is_empty(), "an empty log has no marker");
    let writing = open(&shared, DEFAULT).unwrap();
    writing.save("k1", 10).unwrap();
    writing.log.close().unwrap();
    writing.log.close().unwrap();
    for _ in 0..3 {
        let writing = open(&shared, DEFAULT).unwrap();
        assert!(writing.recovery.cut.is_none() && writing.recovery.damage.is_none());
        writing.log.close().unwrap();
        let kinds: Vec<_> =
            frames_of(&disk.read_file(&segment(1)).unwrap()).into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(kinds, [FrameKind::Commit, FrameKind::Close]);
    }
    assert!(matches!(writing.append("late", 1), Err(Error::Closed)));
}

#[test]
fn two_hundred_small_notes_stay_small_and_files_grow_by_the_stated_steps() {
    let (disk, shared) = memory();
    let writing = open(&shared, DEFAULT).unwrap();
    writing.fill(200, 1024);
    let bytes: usize = disk.files().iter().map(|path| disk.read_file(path).unwrap().len()).sum();
    assert!(bytes < 384 * 1024, "200 notes take {bytes} bytes");
    let mut sizes = vec![writing.files.size().bytes];
    for n in 0..400 {
        writing.append(&format!("big {n}"), 150_000).unwrap();
        let size = writing.files.now()[0].reserved();
        if size != *sizes.last().unwrap() {
            sizes.push(size);
        }
    }
    for step in sizes.windows(2) {
        let [from, to] = step else { unreachable!() };
        let stated = (from / 8).clamp(64 * 1024, 8 * 1024 * 1024);
        assert!(to - from <= stated.max(151_000).min(DEFAULT - from), "{from} grows to {to}");
    }
    assert!(*sizes.last().unwrap() <= DEFAULT);
}

#[test]
fn a_frame_larger_than_a_segment_gets_one_that_grows_and_an_empty_segment_is_never_sealed() {
    on_both(|disk| {
        let writing = open(disk, SMALL).unwrap();
        writing.save("k1", 100_000).unwrap();
        writing.save("k2", 10).unwrap();
        writing.save("k3", 50_000).unwrap();
        let firsts: Vec<_> = writing.files.now().iter().map(|file| file.id().first().0).collect();
        assert_eq!(firsts, [1, 2, 3]);
        drop(writing);
        assert_eq!(keys(&open(disk, SMALL).unwrap().found), numbered(3));
    });
}

/// The list that stands where the index points, and everything after.
fn from_place(files: &Files, at: Option<Position>) -> Vec<Entry> {
    walk(files, at.unwrap_or(Cursor::START))
}

#[test]
fn the_index_reaches_every_frame_and_time_and_never_starts_behind_them() {
    let (_, shared) = memory();
    let writing = open(&shared, 32 * 1024).unwrap();
    let mut list: Vec<Entry> = Vec::new();
    for n in 1..=400_u64 {
        // Times stand still, jump, and go back; the log never lets them go back.
        let second = [100 + n, 100 + n / 10, 90, 100 + 3 * n][(n % 4) as usize];
        let done = append(&writing.log, &format!("k{n}"), second, 20 + (n % 50) as usize).unwrap();
        list.push(Entry { frame: done.frame, time: done.time, at: done.at, key: format!("k{n}") });
    }
    assert!(list.windows(2).all(|pair| pair[0].time <= pair[1].time));
    let check = |index: &Index, files: &Files| {
        for entry in &list {
            let met = from_place(files, index.before_frame(entry.frame));
            let skipped = met.iter().position(|m| m == entry).expect("the frame is reached");
            assert!(skipped < 64, "frame {} is {skipped} frames away", entry.frame);
        }
        for second in (80..1500).step_by(3) {
            let expected = list.iter().rfind(|entry| entry.time <= time(second));
            let met = from_place(files, index.before_time(time(second)));
            assert_eq!(met.iter().rfind(|m| m.time <= time(second)), expected, "at second {second}");
        }
        assert_eq!(index.last(), Frame(400));
    };
    writing.log.index(|index| check(index, &writing.files));
    assert_eq!(walk(&writing.files, Cursor::START), list);
    writing.log.close().unwrap();
    let (opening, found) = read(&shared, 32 * 1024).unwrap();
    assert_eq!(found, list);
    check(&opening.index, &opening.files);
}

#[test]
fn a_cursor_ends_where_the_log_ended_when_it_began_and_goes_on_where_it_was_stopped() {
    let (_, shared) = memory();
    let writing = open(&shared, SMALL).unwrap();
    writing.fill(30, 500);
    let mut cursor = writing.files.cursor(Cursor::START);
    writing.fill(40, 500);
    let mut met = Vec::new();
    while {
        let before = met.len();
        let mut visit = |m: Met<'_>| {
            if m.frame.header.kind == FrameKind::Commit {
                met.push(Entry::of(&m).key);
            }
            Ok(!m.frame.header.number.0.is_multiple_of(7))
        };
        cursor.each(&mut visit).unwrap();
        met.len() > before
    } {}
    assert_eq!(met, numbered(30));
}

#[test]
fn bytes_that_rot_under_an_open_log_are_an_error_with_their_place() {
    let (disk, shared) = memory();
    let writing = open(&shared, DEFAULT).unwrap();
    let places: Vec<_> = (1..=3).map(|n| writing.append(&format!("k{n}"), 100).unwrap().at).collect();
    disk.flip(&segment(1), u64::from(places[1].offset) + 100, 3).unwrap();
    let error = writing.files.cursor(Cursor::START).each(&mut |_| Ok(true)).unwrap_err();
    assert!(matches!(error, Error::Corrupt { frame: Frame(2), .. }), "{error}");
    let file = writing.files.segment(places[1]).unwrap();
    let error = file.envelope(u64::from(places[1].offset) + 48, Frame(2)).unwrap_err();
    assert!(matches!(error, Error::Corrupt { frame: Frame(2), .. }), "{error}");
    file.envelope(u64::from(places[2].offset) + 48, Frame(3)).unwrap();
}

#[test]
fn a_commit_over_a_limit_or_without_a_change_is_refused_and_nothing_is_written() {
    let (disk, shared) = memory();
    let writing = open(&shared, DEFAULT).unwrap();
    let before = disk.read_file(&segment(1));
    let mut buffer = Vec::new();
    for count in [0, 65_536] {
        let refused = writing.log.writer().unwrap().append(time(1), &mut buffer, &mut |_, _| Ok(count));
        assert!(matches!(refused, Err(Error::TooLarge { .. } | Error::Invalid { .. })), "{refused:?}");
    }
    assert_eq!(disk.read_file(&segment(1)), before);
    assert_eq!(writing.save("k1", 5).unwrap(), Frame(1));
}
