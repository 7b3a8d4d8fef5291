//! Opening: which files make a log, headers, readers beside a writer, stray files, changes found under way.

use std::sync::Arc;

use mnemolog::codec::delta::{Body, Config, Note, Op};
use mnemolog::codec::frame::{self, FRAME_HEADER_BYTES, FrameHeader, FrameKind, Seal, Seed};
use mnemolog::codec::intent::{Drop, Intent, Move};
use mnemolog::codec::payload;
use mnemolog::codec::segment::{
    FRAMES_START, SEGMENT_HEADER_OFFSETS, SegmentHeader, StoreId, segment_header,
};
use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::error::{Damage, Error, Evidence};
use mnemolog::log::Severity;
use mnemolog::position::{Frame, Last, SegmentId, Time};

use super::spy::Spy;
use super::{DEFAULT, SMALL, keys, memory, numbered, open, read, segment, time};

/// Builds a file of the log by hand.
pub(super) struct Built {
    pub(super) bytes: Vec<u8>,
    pub(super) seed: Seed,
    previous_crc: u32,
    frames: u64,
}

impl Built {
    pub(super) fn new(store: StoreId, first: u64, salt: u64, previous_nonce: u64) -> Built {
        let header =
            SegmentHeader { store, first: Frame(first), salt, previous_nonce, created: time(1) }.encode();
        let mut bytes = vec![0; FRAMES_START as usize];
        for at in SEGMENT_HEADER_OFFSETS {
            bytes[at as usize..][..header.len()].copy_from_slice(&header);
        }
        Built { bytes, seed: Seed::new(salt), previous_crc: 0, frames: 0 }
    }

    pub(super) fn frame(mut self, kind: FrameKind, number: u64, durable: u64, payload: &[u8]) -> Built {
        let mut buffer = vec![0; FRAME_HEADER_BYTES];
        buffer.extend_from_slice(payload);
        let delta_count = u16::from(matches!(kind, FrameKind::Commit | FrameKind::Base));
        let mut header = FrameHeader {
            payload_length: 0,
            crc: 0,
            number: Frame(number),
            own_offset: self.bytes.len() as u32,
            previous_crc: self.previous_crc,
            durable: Frame(durable),
            time: Time::ZERO,
            kind,
            delta_count,
            writer: 1,
        };
        self.previous_crc = frame::finish(&mut buffer, &mut header, &self.seed);
        self.bytes.extend_from_slice(&buffer);
        self.frames += 1;
        self
    }

    pub(super) fn note(self, number: u64, durable: u64, key: &str) -> Built {
        let mut payload = Vec::new();
        let op = Op::Remember(Note { key, summary: None, body: Body::Text("body") });
        payload::encode(&mut payload, &self.seed, "core/memory", Last::default(), &op, false).unwrap();
        self.frame(FrameKind::Commit, number, durable, &payload)
    }

    pub(super) fn seal(self, number: u64, nonce: u64) -> Built {
        let digest = xxhash_rust::xxh3::xxh3_128(&self.bytes[FRAMES_START as usize..]);
        let seal = Seal { frames: self.frames, digest, nonce }.encode();
        self.frame(FrameKind::Seal, number, number, &seal)
    }
}

fn damage(error: Error) -> Damage {
    match error {
        Error::Damaged(damage) => *damage,
        other => panic!("not damage: {other}"),
    }
}

/// A closed log of several small files; their paths in order.
fn rotated() -> (MemoryDisk, Arc<dyn Disk>, Vec<String>) {
    let (disk, shared) = memory();
    let writing = open(&shared, SMALL).unwrap();
    writing.fill(30, 500);
    writing.log.close().unwrap();
    let files: Vec<_> = disk.files().into_iter().filter(|path| path.ends_with(".seg")).collect();
    assert!(files.len() >= 4);
    (disk, shared, files)
}

/// Protects promise 5.
#[test]
fn a_missing_first_middle_or_last_file_is_damage_in_its_place() {
    let whole = rotated().2;
    for missing in 0..whole.len() {
        let (disk, shared, files) = rotated();
        let first = SegmentId::from_file_name(&files[missing][4..]).unwrap().first();
        disk.remove_file(&files[missing]).unwrap();
        let found = damage(open(&shared, SMALL).unwrap_err());
        assert_eq!(found.frame, first, "file {missing} is missing");
        let last = missing + 1 == files.len();
        let named = if last { &files[missing - 1] } else { &files[missing + 1] };
        assert_eq!(found.segment, named[4..]);
        assert!(matches!(found.evidence, Evidence::Durable(Frame(30))) == last, "{found}");
        let (served, list) = read(&shared, SMALL).unwrap();
        assert_eq!(list.len() as u64, first.0 - 1, "what stands before it is served");
        assert!(served.recovery.damage.is_some());
    }
}

#[test]
fn damage_in_an_earlier_file_is_damage_whatever_is_promised() {
    let (disk, shared, files) = rotated();
    disk.remove_file("DURABLE").unwrap();
    disk.flip(&files[1], FRAMES_START + 50, 0).unwrap();
    let found = damage(open(&shared, SMALL).unwrap_err());
    assert_eq!((found.segment.as_str(), found.offset), (&files[1][4..], FRAMES_START));
}

/// Protects promise 8.
#[test]
fn either_copy_of_a_header_serves_and_without_both_the_file_is_named_as_damaged() {
    for files in 1..=2 {
        let (disk, shared) = memory();
        let writing = open(&shared, SMALL).unwrap();
        writing.fill(if files == 1 { 2 } else { 9 }, 500);
        writing.log.close().unwrap();
        let path = disk.files().into_iter().rfind(|path| path.ends_with(".seg")).unwrap();
        disk.flip(&path, SEGMENT_HEADER_OFFSETS[0] + 20, 3).unwrap();
        open(&shared, SMALL).unwrap().log.close().unwrap();
        disk.flip(&path, SEGMENT_HEADER_OFFSETS[1] + 20, 3).unwrap();
        disk.remove_file("DURABLE").unwrap();
        let found = damage(open(&shared, SMALL).unwrap_err());
        assert_eq!((found.segment.as_str(), found.offset, found.evidence), (&path[4..], 0, Evidence::Header));
        let served = read(&shared, SMALL).unwrap().0;
        assert_eq!(served.recovery.damage.unwrap().segment, path[4..]);
    }
}

/// Protects promise 13.
#[test]
fn a_newer_format_is_believed_from_a_header_whose_checksum_is_right_and_from_no_other() {
    let (disk, shared, files) = rotated();
    let mut bytes = disk.read_file(&files[1]).unwrap();
    for at in SEGMENT_HEADER_OFFSETS.map(|at| at as usize) {
        bytes[at + segment_header::VERSION] = 9;
    }
    disk.write_file(&files[1], &bytes).unwrap();
    damage(open(&shared, SMALL).unwrap_err());
    for at in SEGMENT_HEADER_OFFSETS.map(|at| at as usize) {
        let mut hash = crc32fast::Hasher::new();
        hash.update(&bytes[at..at + segment_header::CRC]);
        hash.update(&bytes[at + segment_header::CRC + 4..at + segment_header::END]);
        bytes[at + segment_header::CRC..][..4].copy_from_slice(&hash.finalize().to_le_bytes());
    }
    disk.write_file(&files[1], &bytes).unwrap();
    assert!(matches!(open(&shared, SMALL), Err(Error::NewerFormat { found: 9, .. })));
    assert!(matches!(read(&shared, SMALL), Err(Error::NewerFormat { found: 9, .. })));
}

/// Protects promises 1 and 5.
#[test]
fn a_file_of_a_diverged_copy_or_of_another_store_does_not_continue_the_log() {
    let (disk, shared, files) = rotated();
    let (other, _, _) = rotated();
    let foreign = other.read_file(&files[2]).unwrap();
    let own = disk.read_file(&files[2]).unwrap();
    let mut header = SegmentHeader::decode(&foreign, 0).unwrap();
    header.store = SegmentHeader::decode(&own, 0).unwrap().store;
    let mut diverged = foreign.clone();
    for at in SEGMENT_HEADER_OFFSETS {
        diverged[at as usize..][..64].copy_from_slice(&header.encode());
    }
    for bytes in [foreign, diverged] {
        disk.write_file(&files[2], &bytes).unwrap();
        let found = damage(open(&shared, SMALL).unwrap_err());
        assert_eq!((found.segment.as_str(), found.evidence), (&files[2][4..], Evidence::Lineage));
    }
}

#[test]
fn the_parts_of_a_base_stand_before_every_segment_and_in_the_order_of_their_numbers() {
    let store = StoreId([3; 16]);
    let head = |seed: &Seed, continues| {
        let mut payload = Vec::new();
        let op = Op::Snapshot { config: Config::Notes, items: 0, continues };
        payload::encode(&mut payload, seed, "core/memory", Last::default(), &op, false).unwrap();
        payload
    };
    let (disk, shared) = memory();
    let first = 41;
    for part in 1..=11_u64 {
        let built = Built::new(store, first, 100 + part, if part == 1 { 0 } else { 500 + part - 1 });
        let payload = head(&built.seed, part > 1);
        let built = built.frame(FrameKind::Base, first - 1, first - 1, &payload);
        let name = SegmentId::Base { first: Frame(first), part: part as u32 };
        disk.write_file(&format!("log/{name}"), &built.seal(first - 1, 500 + part).bytes).unwrap();
    }
    let built = Built::new(store, first, 99, 511).note(41, 40, "k41").note(42, 41, "k42");
    disk.write_file(&segment(first), &built.bytes).unwrap();
    let writing = open_base(&shared);
    assert_eq!(writing.log.index(|index| index.oldest()), Frame(40));
    assert_eq!(writing.log.appended(), Frame(42));
    assert_eq!(writing.save("k43", 10).unwrap(), Frame(43));
    drop(writing);
    disk.remove_file(&segment(first)).unwrap();
    disk.remove_file("DURABLE").unwrap();
    assert_eq!(damage(open_base_error(&shared)).evidence, Evidence::NotLast, "a log never ends in a base");
}

/// Base frames hold no key, so the list of keys does not serve here.
struct Nothing;

impl mnemolog::log::Fold for Nothing {
    fn begin(&mut self) {}
    fn frame(&mut self, _: &mnemolog::log::Met<'_>) {}
}

fn try_open(disk: &Arc<dyn Disk>) -> mnemolog::Result<super::Writing> {
    let mode = mnemolog::log::Mode::Write {
        lock_wait: std::time::Duration::ZERO,
        allow_network: true,
        now: time(1),
    };
    let mut opening = mnemolog::log::open(disk, super::options(DEFAULT), mode, &mut Nothing)?;
    let log = mnemolog::log::Log::new(
        disk.clone(),
        super::options(DEFAULT),
        mnemolog::log::Writers::One,
        std::time::Duration::ZERO,
        &mut opening,
    )
    .unwrap();
    Ok(super::Writing { log, files: opening.files, recovery: opening.recovery, found: Vec::new() })
}

fn open_base(disk: &Arc<dyn Disk>) -> super::Writing {
    try_open(disk).unwrap()
}

fn open_base_error(disk: &Arc<dyn Disk>) -> Error {
    try_open(disk).unwrap_err()
}

#[test]
fn a_reader_beside_a_busy_writer_never_says_damaged_or_unclean() {
    let (_, shared) = memory();
    let writing = open(&shared, 1024 * 1024).unwrap();
    writing.fill(10, 400);
    let (spy, seen) = Spy::on(shared);
    let before = writing.log.durable();
    // Between any two reads the writer is two frames further, the second of which promises the first.
    let mut next = 11;
    seen.after_read(move || {
        for _ in 0..2 {
            writing.save(&format!("k{next}"), 400).unwrap();
            next += 1;
        }
    });
    for _ in 0..5 {
        let (opening, list) = read(&spy, 1024 * 1024).unwrap();
        assert!(opening.recovery.damage.is_none(), "{}", opening.recovery.damage.unwrap());
        assert!(opening.recovery.cut.is_none(), "{:?}", opening.recovery.cut);
        assert_eq!(keys(&list), numbered(list.len()));
        assert!(opening.durable >= before && list.len() as u64 >= opening.durable.0);
        assert!(mnemolog::log::verify(&*spy).unwrap().is_whole());
    }
}

#[test]
fn reading_changes_nothing_and_creates_nothing() {
    let (disk, shared) = memory();
    assert!(matches!(read(&shared, SMALL), Err(Error::NoSuchStore { .. })));
    disk.create_dir("").unwrap();
    assert!(matches!(read(&shared, SMALL), Err(Error::NoSuchStore { .. })));
    let (disk, shared, files) = rotated();
    let mut bytes = disk.read_file(files.last().unwrap()).unwrap();
    bytes.truncate(bytes.iter().rposition(|b| *b != 0).unwrap() - 70);
    disk.write_file(files.last().unwrap(), &bytes).unwrap();
    disk.remove_file("DURABLE").unwrap();
    disk.write_file("log/stray.tmp", b"stray").unwrap();
    let all = |disk: &MemoryDisk| -> Vec<_> {
        disk.files().into_iter().map(|path| (disk.read_file(&path), path)).collect()
    };
    let before = all(&disk);
    assert!(read(&shared, SMALL).unwrap().0.recovery.cut.is_some());
    assert_eq!(all(&disk), before);
}

#[test]
fn stray_temporary_files_are_removed_and_never_stop_an_opening() {
    let (disk, shared, _) = rotated();
    disk.write_file("log/0123.tmp", b"half a segment").unwrap();
    disk.write_file("INTENT.tmp", b"half an intent").unwrap();
    disk.write_file("checkpoints/1.tmp", b"half a checkpoint").unwrap();
    disk.create_dir("log/odd.tmp").unwrap();
    let writing = open(&shared, SMALL).unwrap();
    assert_eq!(keys(&writing.found), numbered(30));
    let left: Vec<_> = disk.files().into_iter().filter(|path| path.contains("tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn another_directory_is_not_a_store_and_a_held_lock_names_its_holder() {
    let (disk, shared) = memory();
    disk.write_file("thesis.txt", b"mine").unwrap();
    assert!(matches!(open(&shared, SMALL), Err(Error::NotAStore { found, .. }) if found == "thesis.txt"));
    assert_eq!(disk.files(), ["thesis.txt"]);
    let (_, shared) = memory();
    let _held = open(&shared, SMALL).unwrap();
    let error = open(&shared, SMALL).unwrap_err();
    assert!(matches!(error, Error::Locked { pid: Some(pid), .. } if pid == std::process::id()), "{error}");
}

#[test]
fn a_creation_that_was_interrupted_is_completed() {
    for call in 0..40 {
        let (disk, shared) = memory();
        disk.crash_at(call);
        let created = open(&shared, SMALL).is_ok();
        disk.power_loss(&mut |n| n / 2, mnemolog::disk::Tear::Sector);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let writing = open(&shared, SMALL).unwrap();
        assert_eq!((writing.save("k1", 10).unwrap(), writing.recovery.damage.is_none()), (Frame(1), true));
        if created {
            return;
        }
    }
    panic!("creating a store takes more than 40 calls");
}

#[test]
fn a_seal_that_was_found_is_synced_again_before_the_next_file_is_made() {
    let (disk, shared) = memory();
    let writing = open(&shared, SMALL).unwrap();
    writing.fill(2, 1500);
    let used: usize = disk.files().iter().map(|path| disk.read_file(path).unwrap().len()).sum();
    disk.set_capacity(Some(used as u64));
    assert!(matches!(writing.append("k3", 1500), Err(Error::DiskFull { .. })));
    assert!(matches!(writing.append("k3", 1500), Err(Error::DiskFull { .. })));
    writing.log.close().unwrap();
    drop(writing);
    disk.set_capacity(None);
    let (spy, seen) = Spy::on(shared);
    let writing = open(&spy, SMALL).unwrap();
    assert_eq!(writing.found.len(), 2);
    seen.take();
    assert_eq!(writing.save("k3", 1500).unwrap(), Frame(3));
    let (one, two) = (segment(1)[4..].to_owned(), segment(3)[4..].to_owned());
    let expected = [
        format!("sync {one}"),
        format!("synced {one}"),
        "create tmp".to_owned(),
        "write tmp".to_owned(),
        "write tmp".to_owned(),
        "sync tmp".to_owned(),
        "synced tmp".to_owned(),
        format!("rename tmp to {two}"),
        "sync directory log".to_owned(),
        format!("write {two}"),
        format!("sync {two}"),
        format!("synced {two}"),
        "write DURABLE".to_owned(),
    ];
    assert_eq!(seen.take(), expected);
}

/// A change of several files as it stands once INTENT has its name: `k2` of three notes was rewritten to `K2`,
/// and a checkpoint goes.
fn intended(renamed: bool) -> (MemoryDisk, Arc<dyn Disk>) {
    let (disk, shared) = memory();
    let store = StoreId([5; 16]);
    let old = Built::new(store, 1, 11, 0).note(1, 0, "k1").note(2, 1, "k2").note(3, 2, "k3");
    let new = Built::new(store, 1, 12, 0).note(1, 0, "k1").note(2, 1, "K2").note(3, 2, "k3");
    let temporary = "0000000000000007.1.tmp".to_owned();
    let target = segment(1)[4..].to_owned();
    let moves = vec![Move { temporary: temporary.clone(), target, salt: 12 }];
    let drops = vec![Drop { directory: "checkpoints".to_owned(), name: "c1".to_owned() }];
    let intent = Intent { store, id: 7, moves, drops };
    disk.write_file(&segment(1), &if renamed { new.bytes.clone() } else { old.bytes }).unwrap();
    if !renamed {
        disk.write_file(&format!("log/{temporary}"), &new.bytes).unwrap();
    }
    disk.write_file("checkpoints/c1", b"old state").unwrap();
    disk.write_file("INTENT", &intent.encode().unwrap()).unwrap();
    (disk, shared)
}

/// Protects promise 10.
#[test]
fn a_change_found_under_way_is_read_through_and_finished_by_the_next_writer() {
    for renamed in [false, true] {
        let (disk, shared) = intended(renamed);
        let before = disk.files();
        assert_eq!(keys(&read(&shared, SMALL).unwrap().1), ["k1", "K2", "k3"]);
        assert_eq!(disk.files(), before, "a reader finishes nothing");
        let writing = open(&shared, SMALL).unwrap();
        assert_eq!(keys(&writing.found), ["k1", "K2", "k3"]);
        assert!(writing.recovery.finished_intent);
        assert_eq!(disk.files(), ["DURABLE", "LOCK", &segment(1)]);
    }
}

/// Protects promise 10.
#[test]
fn finishing_a_change_survives_a_crash_at_every_call() {
    for call in 0..80 {
        let mut all_done = true;
        for survivors in [|_: u64| 0, |n: u64| n - 1, |n: u64| n / 2] {
            let (disk, shared) = intended(false);
            disk.crash_at(call);
            let done = open(&shared, SMALL).is_ok();
            disk.power_loss(&mut { survivors }, mnemolog::disk::Tear::Sector);
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            assert_eq!(keys(&read(&shared, SMALL).unwrap().1), ["k1", "K2", "k3"]);
            assert_eq!(keys(&open(&shared, SMALL).unwrap().found), ["k1", "K2", "k3"]);
            assert!(!disk.files().iter().any(|path| path.contains("INTENT") || path.contains("c1")));
            all_done &= done;
        }
        if all_done {
            return;
        }
    }
    panic!("finishing takes more than 80 calls");
}

#[test]
fn an_intent_that_does_not_check_out_or_a_final_file_with_another_salt_stops_a_writer() {
    let (disk, shared) = intended(false);
    disk.flip("INTENT", 40, 1).unwrap();
    assert_eq!(damage(open(&shared, SMALL).unwrap_err()).segment, "INTENT");
    let left = disk.files();
    assert_eq!(left, ["INTENT", "LOCK", "checkpoints/c1", &segment(1), "log/0000000000000007.1.tmp"]);
    let (disk, shared) = intended(true);
    let bytes = Built::new(StoreId([5; 16]), 1, 13, 0).note(1, 0, "k1").bytes;
    disk.write_file(&segment(1), &bytes).unwrap();
    assert_eq!(damage(open(&shared, SMALL).unwrap_err()).segment, segment(1)[4..]);
    assert!(disk.files().contains(&"INTENT".to_owned()));
    disk.remove_file(&segment(1)).unwrap();
    assert_eq!(damage(open(&shared, SMALL).unwrap_err()).segment, segment(1)[4..]);
}

/// Protects promise 10. The files follow one another, so what is served is what was written; that it is wholly before the change or wholly
/// after it, the report does not claim.
#[test]
fn a_reader_serves_what_checks_out_beside_an_intent_that_does_not_and_says_so() {
    for (renamed, held) in [(false, ["k1", "k2", "k3"]), (true, ["k1", "K2", "k3"])] {
        let (disk, shared) = intended(renamed);
        disk.flip("INTENT", 40, 1).unwrap();
        let before = disk.files();
        let (opening, found) = read(&shared, SMALL).unwrap();
        assert_eq!(keys(&found), held);
        let damage = opening.recovery.damage.expect("it says so");
        assert_eq!((damage.segment.as_str(), damage.frame), ("INTENT", Frame(4)));
        let findings = mnemolog::log::verify(&disk).unwrap().findings;
        assert!(
            findings.iter().any(|f| f.file == "INTENT" && f.severity == Severity::Damage),
            "{findings:?}"
        );
        assert_eq!(disk.files(), before);
    }
}

#[test]
fn a_reader_says_so_where_a_file_is_not_the_one_that_the_intent_states() {
    for other in [true, false] {
        let (disk, shared) = intended(true);
        disk.remove_file(&segment(1)).unwrap();
        if other {
            let bytes = Built::new(StoreId([5; 16]), 1, 13, 0).note(1, 0, "k1").bytes;
            disk.write_file(&segment(1), &bytes).unwrap();
            let (opening, found) = read(&shared, SMALL).unwrap();
            assert_eq!(keys(&found), ["k1"]);
            assert_eq!(opening.recovery.damage.expect("it says so").reason.what, "salt");
        } else {
            disk.write_file("DURABLE", b"").unwrap();
            assert_eq!(damage(read(&shared, SMALL).unwrap_err()).reason.what, "file");
        }
        let report = mnemolog::log::verify(&disk).unwrap();
        assert!(!report.is_whole() && report.findings.iter().any(|f| f.file == segment(1)), "{report:?}");
    }
}
