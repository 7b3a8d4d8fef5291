//! The specimens that a reader must not take for sound: one fault each, put into a sound store.

use mnemolog::codec::frame::{Seed, frame_header as at};
use mnemolog::codec::segment::{SegmentHeader, segment_header};
use mnemolog::position::{Frame, SegmentId};

use super::Specimen;
use super::build::{Log, Store, reseal, salt};
use super::good::{FIRST, note, record, two_commits, with_tail};

const SECOND: &str = "log/00000000000000000003.seg";
const NOTES: &str = "core/memory";
/// A verdict, and the number of the first frame that cannot be read (for an unclean end: of the last that can).
type Verdict = (&'static str, Option<u64>);
const DAMAGED_2: Verdict = ("damaged", Some(2));
const DAMAGED_3: Verdict = ("damaged", Some(3));
const UNCLEAN_2: Verdict = ("unclean", Some(2));

pub(super) fn all() -> Vec<Specimen> {
    let mut all = torn();
    all.extend(flipped());
    all.extend(misplaced());
    all.extend(bent());
    all.extend(files());
    all
}

/// Three commits in one segment: the second spans several sectors, the third promises it and ends in padding.
struct Sound {
    log: Log,
    second: usize,
    third: usize,
    end: usize,
}

fn sound() -> Sound {
    let long = "0123456789abcdef".repeat(90);
    let log = Log::first().commit(|p| p.op(NOTES, &note("user/name", "Ada")));
    let second = log.end();
    let log = log.commit(|p| p.op(NOTES, &note("long/body", &long)));
    let third = log.end();
    let log = log.commit(|p| p.op("core/turns", &record("q1", "10", 5)));
    let end = log.end();
    assert!(log.store().file(FIRST).ends_with(&[0; 4]), "the third frame ends in padding");
    Sound { log, second, third, end }
}

/// A specimen: the sound store with the fault in it, and the sound store as its twin.
fn fault(
    name: &'static str,
    verdict: Verdict,
    what: &'static str,
    twin: Store,
    break_it: impl FnOnce(&mut Store),
) -> Specimen {
    let mut store = twin.clone();
    break_it(&mut store);
    Specimen { name, store, twin, verdict, what: Some(what) }
}

fn torn() -> Vec<Specimen> {
    let Sound { log, second, third, end } = sound();
    let whole = || with_tail(log.store(), 64);
    let cut = |name, verdict, what, twin, at: usize| {
        fault(name, verdict, what, twin, move |store| store.file(FIRST)[at..].fill(0))
    };
    let unpromised = {
        let mut log = Log::first();
        log.durable = Some(0);
        let log = log.commit(|p| p.op(NOTES, &note("a", "1"))).commit(|p| p.op(NOTES, &note("b", "2")));
        log.commit(|p| p.op(NOTES, &note("c", "3")))
    };
    let unpromised_second = Log::first().commit(|p| p.op(NOTES, &note("a", "1"))).end();
    vec![
        cut("torn-header", UNCLEAN_2, "", whole(), third + 20),
        cut("torn-payload", UNCLEAN_2, "", whole(), third + 70),
        fault("torn-size", UNCLEAN_2, "", log.store(), |store| store.file(FIRST).truncate(end - 8)),
        fault("torn-sector", ("unclean", Some(1)), "", with_tail(two_of(&log, third), 64), |store| {
            let sector = (second + 48).next_multiple_of(512);
            store.file(FIRST)[sector..sector + 512].fill(0);
        }),
        cut("torn-header-promised", DAMAGED_3, "frame checksum", whole().promise(3), third + 45),
        cut("gone-promised", DAMAGED_3, "frame header", whole().promise(3), third),
        fault("noise-tail", ("unclean", Some(3)), "", whole(), |store| store.file(FIRST)[end + 50] = 1),
        fault("zeros-in-the-middle", DAMAGED_2, "frame header", whole(), |store| {
            store.file(FIRST)[second..third].fill(0);
        }),
        fault(
            "zeros-in-the-middle-unpromised",
            ("unclean", Some(1)),
            "",
            with_tail(unpromised.store(), 64),
            |store| store.file(FIRST)[unpromised_second..unpromised_second + 48].fill(0),
        ),
        leftover(),
    ]
}

/// The log up to an offset.
fn two_of(log: &Log, end: usize) -> Store {
    let mut store = log.store();
    store.file(FIRST).truncate(end);
    store
}

/// Frame 2 was cut and written again by another opening; frame 3, behind it, is of the cut one.
fn leftover() -> Specimen {
    let begin = || {
        let mut log = Log::first();
        log.durable = Some(1);
        log.commit(|p| p.op(NOTES, &note("a", "1")))
    };
    let again = |log: Log| log.commit(|p| p.op(NOTES, &note("b", "2")));
    let old = again(begin());
    let third = old.end();
    let old = old.commit(|p| p.op(NOTES, &note("c", "3"))).store();
    let mut new = begin();
    new.writer = 0x99;
    let twin = with_tail(again(new).store(), 256);
    fault("leftover", UNCLEAN_2, "", twin, move |store| {
        let bytes = &old.0[FIRST][third..];
        store.file(FIRST)[third..third + bytes.len()].copy_from_slice(bytes);
    })
}

fn flipped() -> Vec<Specimen> {
    let Sound { log, second, end, .. } = sound();
    let flip = |name, at: usize| {
        fault(name, DAMAGED_2, "frame checksum", log.store(), move |store| store.file(FIRST)[at] ^= 0x10)
    };
    let padding = end - 1;
    vec![
        flip("flip-header", second + at::TIME),
        flip("flip-payload", second + 300),
        flip("flip-crc", second + at::CRC),
        fault("flip-padding", DAMAGED_3, "frame checksum", log.store().promise(3), move |store| {
            store.file(FIRST)[padding] ^= 0x10;
        }),
        fault("flip-length", DAMAGED_2, "frame checksum", log.store(), move |store| {
            store.file(FIRST)[second] ^= 0x10;
        }),
        fault("flip-first", ("damaged", Some(1)), "frame checksum", log.store(), |store| {
            store.file(FIRST)[4096 + 60] ^= 1;
        }),
        // The third frame promises the second, although no frame leads to it any more.
        fault("flip-length-far", DAMAGED_2, "payload length", log.store(), move |store| {
            store.file(FIRST)[second + 1] ^= 0x40;
        }),
    ]
}

fn misplaced() -> Vec<Specimen> {
    let Sound { log, second, .. } = sound();
    let sealed_with = |name, what, change: fn(&mut [u8]), salt: u64| {
        fault(name, DAMAGED_2, what, log.store(), move |store| {
            let bytes = store.file(FIRST);
            change(&mut bytes[second..]);
            reseal(bytes, second, salt);
        })
    };
    // The first frame stands again where the second should.
    let again = fault("misplaced", DAMAGED_2, "own offset", log.store(), move |store| {
        store.file(FIRST).copy_within(4096..second, second);
    });
    vec![
        again,
        sealed_with("wrong-salt", "frame checksum", |_| {}, salt(0) + 1),
        sealed_with("wrong-chain", "previous checksum", |f| f[at::PREVIOUS_CRC] ^= 1, salt(0)),
        sealed_with("number-gap", "frame number", |f| f[at::NUMBER] += 1, salt(0)),
        sealed_with("number-again", "frame number", |f| f[at::NUMBER] -= 1, salt(0)),
        sealed_with("time-back", "frame time", |f| f[at::TIME + 3] -= 1, salt(0)),
        sealed_with("time-out-of-range", "frame time", |f| f[at::TIME + 7] = 0xff, salt(0)),
        sealed_with("unknown-kind", "frame kind", |f| f[at::KIND] = 6, salt(0)),
        sealed_with("kind-zero", "frame kind", |f| f[at::KIND] = 0, salt(0)),
        sealed_with("base-in-a-segment", "frame kind", |f| f[at::KIND] = 4, salt(0)),
        sealed_with("reserved-byte", "reserved byte", |f| f[at::RESERVED] = 1, salt(0)),
        sealed_with("no-deltas", "delta count", |f| f[at::DELTA_COUNT] = 0, salt(0)),
        sealed_with("too-many-deltas", "delta count", |f| f[at::DELTA_COUNT] = 2, salt(0)),
    ]
}

fn bent() -> Vec<Specimen> {
    let Sound { log, second, third, .. } = sound();
    let length = |name, what, payload: u32| {
        fault(name, DAMAGED_2, what, log.store(), move |store| {
            store.file(FIRST)[second..second + 4].copy_from_slice(&payload.to_le_bytes());
        })
    };
    let envelope = |name, what, change: fn(&mut [u8])| {
        fault(name, DAMAGED_2, what, log.store(), move |store| {
            use mnemolog::codec::delta::envelope;
            let bytes = store.file(FIRST);
            let whole = &mut bytes[second + 48..third];
            change(whole);
            let length = u32::from_le_bytes(whole[..4].try_into().unwrap()) as usize;
            if let Some(whole) = whole.get(..length) {
                let crc = Seed::new(salt(0)).crc_without(whole, envelope::CRC);
                bytes[second + 48 + 4..][..4].copy_from_slice(&crc.to_le_bytes());
            }
            reseal(bytes, second, salt(0));
        })
    };
    let evictor = two_commits().end();
    let evicting = two_commits().commit(|p| p.evicting("core/turns", &record("q2", "2", 6), &[(2, 0)]));
    let gap = two_commits().lost(4, 5).store().promise(3);
    vec![
        length("oversize-length", "payload length", (1 << 30) + 1),
        length("length-beyond-the-end", "payload length", 1 << 29),
        fault("nonzero-padding", DAMAGED_3, "envelope padding", log.store().promise(3), |store| {
            let bytes = store.file(FIRST);
            *bytes.last_mut().unwrap() = 1;
            reseal(bytes, third, salt(0));
        }),
        envelope("envelope-length", "envelope", |e| e[1] = 0xff),
        envelope("envelope-kind", "handle kind", |e| e[8] = 6),
        envelope("envelope-class", "operation class", |e| e[9] = 0),
        envelope("envelope-flags", "flags", |e| e[10] = 8),
        envelope("envelope-reserved", "reserved bytes", |e| e[36] = 1),
        envelope("erased-in-part", "erased body", |e| e[10] = 1),
        envelope("item-without-a-head", "snapshot item", |e| e[10] = 2),
        envelope("body-too-short", "note", |e| e[40 + NOTES.len()] = 0x7f),
        envelope("text-not-utf-8", "note", |e| e[40 + NOTES.len() + 2] = 0xff),
        fault("evicts-nothing", DAMAGED_3, "evicted", evicting.store().promise(3), |store| {
            let bytes = store.file(FIRST);
            let length = u32::from_le_bytes(bytes[evictor + 48..][..4].try_into().unwrap()) as usize;
            // How many places follow, before a frame and an index of one byte each.
            bytes[evictor + 48 + length - 3] = 0;
            let crc = Seed::new(salt(0)).crc_without(&bytes[evictor + 48..][..length], 4);
            bytes[evictor + 48 + 4..][..4].copy_from_slice(&crc.to_le_bytes());
            reseal(bytes, evictor, salt(0));
        }),
        fault("lost-gap", DAMAGED_3, "frame number", two_commits().lost(3, 5).store().promise(3), |store| {
            *store = gap;
        }),
    ]
}

/// Two segments of two commits each.
fn two_segments(frames_too_many: u64) -> Store {
    let log = two_commits().seal(0x5ea1, frames_too_many);
    let log = log.begin(SegmentId::Segment { first: Frame(3) }, 0x5ea1);
    let log = log.commit(|p| p.op(NOTES, &note("c", "3")));
    with_tail(log.close().store(), 64).promise(3)
}

fn header(store: &mut Store, path: &str, change: impl Fn(&mut SegmentHeader)) {
    for offset in [0, 2048] {
        let bytes = store.file(path);
        let mut header = SegmentHeader::decode(&bytes[offset..], offset as u64).unwrap();
        change(&mut header);
        bytes[offset..offset + 64].copy_from_slice(&header.encode());
    }
}

/// Makes a record one of the next version; magic, version and checksum keep their places.
fn newer(record: &mut [u8]) {
    record[segment_header::VERSION] = 2;
    let mut plain = record.to_vec();
    plain.drain(segment_header::CRC..segment_header::CRC + 4);
    record[segment_header::CRC..][..4].copy_from_slice(&crc32fast::hash(&plain).to_le_bytes());
}

fn files() -> Vec<Specimen> {
    let whole = || two_segments(0);
    let headers = |name, what, change: fn(&mut SegmentHeader)| {
        fault(name, DAMAGED_3, what, whole(), move |store| header(store, SECOND, change))
    };
    let base_only = {
        let log = Log::new(2).begin(SegmentId::Base { first: Frame(3), part: 1 }, 0);
        let log = log.base(|p| p.snapshot(NOTES, mnemolog::codec::delta::Config::Notes, false, &[]));
        let log = log.seal(0xba5e, 0).begin(SegmentId::Segment { first: Frame(3) }, 0xba5e);
        log.commit(|p| p.op(NOTES, &note("c", "3"))).store()
    };
    vec![
        headers("foreign-lineage", "previous nonce", |h| h.previous_nonce += 1),
        headers("foreign-store", "store id", |h| h.store.0[0] ^= 1),
        headers("first-frame-not-in-the-name", "first frame", |h| h.first = Frame(4)),
        fault("renamed-segment", DAMAGED_3, "first frame", whole(), |store| {
            let bytes = store.0.remove(SECOND).unwrap();
            store.0.insert("log/00000000000000000004.seg".into(), bytes);
        }),
        fault("missing-last-segment", DAMAGED_3, "frame header", whole(), |store| {
            store.0.remove(SECOND);
        }),
        fault("missing-first-segment", ("damaged", Some(1)), "previous nonce", whole(), |store| {
            store.0.remove(FIRST);
        }),
        fault("unsealed-segment", DAMAGED_3, "segment", whole(), |store| {
            let end = two_commits().end();
            store.file(FIRST)[end..].fill(0);
        }),
        fault("seal-miscounts", DAMAGED_3, "sealed frames", whole(), |store| *store = two_segments(1)),
        fault("ends-in-a-base", DAMAGED_3, "log", base_only, |store| {
            store.0.remove(SECOND);
        }),
        fault("both-headers-bad", ("damaged", Some(1)), "checksum", whole(), |store| {
            for copy in [0, 2048] {
                store.file(FIRST)[copy + segment_header::SALT] ^= 1;
            }
        }),
        fault("newer-version", ("newer", None), "", whole(), |store| {
            [0, 2048].into_iter().for_each(|at| newer(&mut store.file(SECOND)[at..at + 64]));
        }),
        fault("newer-promise", ("newer", None), "", whole(), |store| newer(store.file("DURABLE"))),
        fault("newer-version-unproved", ("damaged", Some(1)), "checksum", whole(), |store| {
            for copy in [0, 2048] {
                store.file(FIRST)[copy + segment_header::VERSION] = 2;
            }
        }),
        fault("promise-beyond-the-end", ("damaged", Some(4)), "frame header", whole(), |store| {
            *store = store.clone().promise(4);
        }),
    ]
}
