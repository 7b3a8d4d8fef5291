//! The full check: each kind of damage gives its finding in its place, a whole log gives none, and no bit of a
//! log can turn without being found.

use std::sync::Arc;

use mnemolog::codec::delta::{Body, Links, Note, Op, Record};
use mnemolog::codec::frame::{FrameKind, LostRange, Seal};
use mnemolog::codec::payload;
use mnemolog::codec::segment::{FRAMES_START, StoreId};
use mnemolog::disk::{Disk, Fault, MemoryDisk};
use mnemolog::error::Error;
use mnemolog::log::{Finding, Severity, Verification, verify};
use mnemolog::position::{Frame, Last};

use super::opening::Built;
use super::{DEFAULT, SMALL, frames_of, memory, open, segment};

const STORE: StoreId = StoreId([9; 16]);

/// A closed log of several files with `k1` to `k{last}`; their paths.
fn rotated(last: usize, body_bytes: usize) -> (MemoryDisk, Arc<dyn Disk>, Vec<String>) {
    let (disk, shared) = memory();
    let writing = open(&shared, SMALL).unwrap();
    writing.fill(last, body_bytes);
    writing.log.close().unwrap();
    let files = disk.files().into_iter().filter(|path| path.ends_with(".seg")).collect();
    (disk, shared, files)
}

/// Severity, file, offset, frame: all but the words.
fn places(report: &Verification) -> Vec<(Severity, &str, u64, u64)> {
    report.findings.iter().map(|f| (f.severity, f.file.as_str(), f.offset, f.frame.0)).collect()
}

fn only(report: &Verification) -> &Finding {
    let [finding] = report.findings.as_slice() else { panic!("{:#?}", report.findings) };
    finding
}

#[test]
fn a_whole_log_gives_no_finding_and_its_true_counts() {
    for closed in [true, false] {
        let (disk, shared) = memory();
        let writing = open(&shared, SMALL).unwrap();
        writing.fill(40, 300);
        if closed {
            writing.log.close().unwrap();
        }
        let report = verify(&*shared).unwrap();
        assert_eq!(report.findings, [], "closed {closed}");
        let files: Vec<_> = disk.files().into_iter().filter(|path| path.ends_with(".seg")).collect();
        let bytes: usize = files.iter().map(|path| disk.read_file(path).unwrap().len()).sum();
        assert_eq!((report.segments, report.bytes), (files.len(), bytes as u64));
        assert_eq!((report.frames, report.deltas, report.last), (40, 40, Frame(40)));
        assert_eq!(report.durable, Some(Frame(40)));
    }
    let (_, shared) = memory();
    open(&shared, SMALL).unwrap();
    let report = verify(&*shared).unwrap();
    assert!(report.is_whole() && report.frames == 0, "{report:?}");
}

/// Protects promise 1.
#[test]
fn no_bit_of_a_log_turns_without_being_found() {
    let (disk, shared, files) = rotated(50, 20);
    let promise = disk.read_file("DURABLE").unwrap();
    let (mut unwritten, mut flips) = (0, 0);
    for path in &files {
        let bytes = disk.read_file(path).unwrap();
        let frames = frames_of(&bytes);
        let (last_at, last_kind) = *frames.last().unwrap();
        let close = last_kind == FrameKind::Close;
        let end = last_at + if close { 48 } else { 80 };
        // Every bit of the headers and of the first frames, one bit of every other byte.
        let all_bits = |at: usize| at < 64 || (2048..2112).contains(&at) || (4096..frames[2].0).contains(&at);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                if !all_bits(at) && bit != at % 8 {
                    continue;
                }
                disk.flip(path, at as u64, bit as u8).unwrap();
                let report = verify(&*shared).unwrap();
                let worst = report.findings.iter().map(|finding| finding.severity).max();
                // A close marker, and what was never written, are promised by nobody.
                let free = close && at >= last_at;
                unwritten += usize::from(free && at >= end);
                let expected = if free { Severity::Unclean } else { Severity::Damage };
                assert_eq!(worst, Some(expected), "bit {bit} of byte {at} in {path}: {report:#?}");
                disk.flip(path, at as u64, bit as u8).unwrap();
                flips += 1;
            }
        }
    }
    for at in 0..promise.len() as u64 {
        disk.flip("DURABLE", at, (at % 8) as u8).unwrap();
        assert_eq!(only(&verify(&*shared).unwrap()).severity, Severity::Unclean);
        disk.flip("DURABLE", at, (at % 8) as u8).unwrap();
    }
    assert_eq!(verify(&*shared).unwrap().findings, []);
    println!("{flips} flips, {unwritten} of them in unwritten space behind the last frame");
    assert!(flips > 20_000 && unwritten > 0);
}

#[test]
fn what_stands_behind_damage_is_looked_at_all_the_same() {
    let (disk, shared, files) = rotated(40, 300);
    let (one, two, three) = (&files[0], &files[1], &files[2]);
    let places_of = |path: &str| frames_of(&disk.read_file(path).unwrap());
    let (first, second) = (places_of(one), places_of(two));
    let (of_two, of_three, of_four) = (second.len() - 1, places_of(three).len() - 1, files.len());
    assert!(of_four > 3);
    disk.flip(one, first[2].0 as u64 + 70, 0).unwrap();
    disk.flip(one, first[4].0 as u64 + 4, 0).unwrap();
    let mut bytes = disk.read_file(two).unwrap();
    bytes[second[1].0..second[3].0].fill(0);
    disk.write_file(two, &bytes).unwrap();
    disk.flip(three, 16, 1).unwrap();
    disk.flip(three, 2048 + 16, 1).unwrap();
    let report = verify(&*shared).unwrap();
    let in_two = first.len() as u64;
    let damage = Severity::Damage;
    let expected = [
        (damage, one.as_str(), first[2].0 as u64, 3),
        (damage, one.as_str(), first[4].0 as u64, 5),
        (damage, two.as_str(), second[1].0 as u64, in_two + 1),
        (damage, three.as_str(), 0, in_two + of_two as u64),
    ];
    assert_eq!(places(&report), expected, "{:#?}", report.findings);
    assert_eq!(report.frames as usize, 40 - 4 - of_three);
    assert_eq!((report.last, report.segments), (Frame(40), files.len()));
    assert!(!report.is_whole());
}

#[test]
fn an_unclean_end_is_reported_and_is_no_failure_until_something_promised_it() {
    let (disk, shared) = memory();
    let writing = open(&shared, DEFAULT).unwrap();
    writing.fill(3, 100);
    let promise = disk.read_file("DURABLE").unwrap();
    let places_of = frames_of(&disk.read_file(&segment(1)).unwrap());
    let at = places_of[2].0 as u64;
    disk.flip(&segment(1), at + 60, 2).unwrap();
    disk.remove_file("DURABLE").unwrap();
    let report = verify(&*shared).unwrap();
    let path = segment(1);
    let missing = (Severity::Unclean, "DURABLE", 0, 0);
    assert_eq!(places(&report), [(Severity::Unclean, path.as_str(), at, 3), missing]);
    assert!(report.is_whole() && report.frames == 2 && report.durable.is_none());
    disk.write_file("DURABLE", &promise).unwrap();
    let report = verify(&*shared).unwrap();
    assert_eq!(places(&report), [(Severity::Damage, path.as_str(), at, 3)]);
    // Nothing at all behind the second frame, and a promise of a third: its place is named.
    let mut bytes = disk.read_file(&segment(1)).unwrap();
    bytes[at as usize..].fill(0);
    disk.write_file(&segment(1), &bytes).unwrap();
    assert_eq!(places(&verify(&*shared).unwrap()), [(Severity::Damage, path.as_str(), at, 3)]);
}

/// Protects promise 5.
#[test]
fn a_missing_file_is_found_at_the_first_frame_that_is_gone() {
    let count = rotated(40, 300).2.len();
    for missing in 0..count {
        let (disk, shared, files) = rotated(40, 300);
        let first: u64 = files[missing][4..24].parse().unwrap();
        let end = files.get(missing + 1).map_or(41, |next| next[4..24].parse().unwrap());
        disk.remove_file(&files[missing]).unwrap();
        let report = verify(&*shared).unwrap();
        let finding = only(&report);
        assert_eq!((finding.severity, finding.frame), (Severity::Damage, Frame(first)), "{finding}");
        assert_eq!(report.frames, 40 - (end - first));
    }
}

/// A log of one file that was built by hand, and what the check finds in it.
fn built(make: impl FnOnce(Built) -> Built) -> Verification {
    let (disk, shared) = memory();
    let built = make(Built::new(STORE, 1, 77, 0).note(1, 0, "k1"));
    disk.write_file(&segment(1), &built.bytes).unwrap();
    let mut report = verify(&*shared).unwrap();
    let promise = report.findings.pop().unwrap();
    assert_eq!(promise.file, "DURABLE", "there is none");
    report
}

fn payload_of(built: &Built, op: &Op<'_>, links: Links<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    payload::encode(&mut payload, &built.seed, "core/memory", links, op, false).unwrap();
    payload
}

fn previous(frame: u64) -> Links<'static> {
    Last { frame: Frame(frame), index: 0 }.into()
}

/// The second frame, whole in itself, with an operation that no writer writes.
fn second(op: &Op<'_>, links: Links<'_>) -> Verification {
    built(|built| {
        let payload = payload_of(&built, op, links);
        built.frame(FrameKind::Commit, 2, 1, &payload)
    })
}

#[test]
fn content_that_no_writer_writes_is_damage_although_its_checksums_are_right() {
    let record = |value| Op::Record(Record { key: "k", value, timestamp_ms: 0 });
    let note = |body| Op::Remember(Note { key: "k", summary: None, body });
    let later = [Last { frame: Frame(1), index: 0 }, Last { frame: Frame(3), index: 0 }];
    let evicts = |evicted| Links { evicted, ..Links::default() };
    for (op, links, what) in [
        (record("{\"b\":1,\"a\":2}"), previous(0), "episode value"),
        (record("{\"a\": 2}"), previous(0), "episode value"),
        (record("{\"a\":"), previous(0), "episode value"),
        (note(Body::Json("[1, 2]")), previous(0), "note body"),
        (note(Body::Json("\"a string\"")), previous(0), "note body"),
        (note(Body::Text("fine")), previous(3), "frame of an earlier delta"),
        (record("1"), evicts(&later), "frame of an earlier delta"),
    ] {
        let report = second(&op, links);
        let finding = only(&report);
        assert_eq!((finding.reason.what, finding.frame), (what, Frame(2)), "{finding}");
        assert_eq!((finding.severity, report.frames), (Severity::Damage, 2));
    }
    assert_eq!(second(&record("{\"a\":2,\"b\":[1.50,null]}"), previous(1)).findings, []);
    assert_eq!(second(&note(Body::Json("[1,2]")), previous(2)).findings, []);
    assert_eq!(second(&record("1"), evicts(&later[..1])).findings, []);
}

/// Protects promise 1.
#[test]
fn an_envelope_whose_own_checksum_is_wrong_is_found_inside_a_frame_whose_checksum_is_right() {
    let report = built(|built| {
        let op = Op::Remember(Note { key: "k", summary: None, body: Body::Text("text") });
        let mut payload = payload_of(&built, &op, previous(0));
        payload[4] ^= 1;
        built.frame(FrameKind::Commit, 2, 1, &payload)
    });
    let finding = only(&report);
    assert_eq!((finding.reason.what, finding.frame), ("envelope checksum", Frame(2)));
    assert_eq!(report.frames, 2);
}

#[test]
fn a_frame_that_promises_itself_or_more_is_damage() {
    for (kind, durable, sound) in [
        (FrameKind::Commit, 1, true),
        (FrameKind::Commit, 2, false),
        (FrameKind::Close, 1, true),
        (FrameKind::Close, 2, false),
    ] {
        let report = built(|built| match kind {
            FrameKind::Commit => built.note(2, durable, "k2"),
            _ => built.frame(kind, 1, durable, &[]),
        });
        let found: Vec<_> = report.findings.iter().map(|finding| finding.reason.what).collect();
        assert_eq!(found, if sound { vec![] } else { vec!["durable frame"] }, "{kind:?} {durable}");
    }
}

#[test]
fn a_seal_must_count_and_digest_what_stands_before_it_and_have_only_zeros_behind() {
    let sealed = |frames, flip: u128| {
        built(|built| {
            let digest = xxhash_rust::xxh3::xxh3_128(&built.bytes[FRAMES_START as usize..]) ^ flip;
            built.frame(FrameKind::Seal, 1, 1, &Seal { frames, digest, nonce: 5 }.encode())
        })
    };
    assert_eq!(sealed(1, 0).findings, []);
    assert_eq!(only(&sealed(2, 0)).reason.what, "sealed frames");
    assert_eq!(only(&sealed(1, 8)).reason.what, "seal digest");
    let report = built(|built| {
        let mut built = built.seal(1, 5);
        built.bytes.extend_from_slice(&[0, 0, 0, 7, 0, 0, 0, 0]);
        built
    });
    let finding = only(&report);
    assert_eq!((finding.severity, finding.reason.what), (Severity::Damage, "space behind the seal"));
    assert_eq!(finding.reason.offset, finding.offset + 3);
}

/// Protects promise 3.
#[test]
fn kinds_in_the_wrong_file_numbers_that_jump_and_lost_ranges_are_found() {
    let report = built(|built| built.note(5, 1, "k5").note(6, 5, "k6"));
    let finding = only(&report);
    assert_eq!((finding.reason.what, finding.frame), ("frame number", Frame(2)));
    assert_eq!((report.frames, report.last), (3, Frame(6)), "frame 6 promises frame 5, so 2 was promised");
    let report = built(|built| {
        let payload = payload_of(
            &built,
            &Op::Remember(Note { key: "k", summary: None, body: Body::Text("") }),
            previous(0),
        );
        built.frame(FrameKind::Base, 1, 1, &payload).note(2, 1, "k2").note(3, 2, "k3")
    });
    assert_eq!(only(&report).reason.what, "frame kind");
    assert_eq!(report.last, Frame(3));
    let lost = LostRange { first: Frame(2), last: Frame(9) }.encode();
    let report = built(|built| built.frame(FrameKind::Lost, 9, 1, &lost).note(10, 9, "k10"));
    let finding = only(&report);
    assert_eq!((finding.severity, finding.reason.what), (Severity::Note, "lost range"));
}

#[test]
fn what_lies_beside_the_log_is_listed() {
    let (disk, shared, _) = rotated(5, 20);
    disk.write_file("quarantine/old", b"12345").unwrap();
    disk.write_file("log/0123.tmp", b"half").unwrap();
    disk.write_file("log/notes.txt", b"mine").unwrap();
    let report = verify(&*shared).unwrap();
    let expected = [
        (Severity::Unclean, "log/0123.tmp", 0, 0),
        (Severity::Note, "log/notes.txt", 0, 0),
        (Severity::Note, "quarantine/old", 0, 0),
    ];
    assert_eq!(places(&report), expected);
    assert!(report.is_whole());
    disk.write_file("INTENT", b"not an intent").unwrap();
    assert!(!verify(&*shared).unwrap().is_whole());
    let mut foreign = disk.read_file("DURABLE").unwrap();
    foreign = {
        let mut promise = mnemolog::codec::segment::Durable::decode(&foreign).unwrap();
        (promise.store, promise.frame) = (STORE, Frame(99));
        promise.encode().to_vec()
    };
    disk.remove_file("INTENT").unwrap();
    disk.write_file("DURABLE", &foreign).unwrap();
    let report = verify(&*shared).unwrap();
    assert!(places(&report).contains(&(Severity::Note, "DURABLE", 0, 0)) && report.is_whole());
    assert_eq!(report.durable, None);
}

#[test]
fn an_error_of_the_disk_is_an_error_and_never_damage() {
    let (disk, shared, _) = rotated(20, 300);
    for call in 0.. {
        disk.fail_at(call, Fault::Io);
        match verify(&*shared) {
            Err(Error::Io { .. }) => assert!(call < 200),
            Err(other) => panic!("call {call}: {other}"),
            Ok(report) => {
                assert!(call > 10 && report.findings.is_empty(), "call {call}: {report:?}");
                break;
            }
        }
    }
    let (_, shared) = memory();
    assert!(matches!(verify(&*shared), Err(Error::NoSuchStore { .. })));
}
