//! Cuts and flipped bits: an unclean end is mended and its bytes are kept; what was acknowledged and is gone is
//! damage, named by segment, offset and frame.

use std::collections::BTreeMap;
use std::sync::Arc;

use mnemolog::codec::frame::{self, FrameKind, Seed};
use mnemolog::codec::segment::{FRAMES_START, SegmentHeader};
use mnemolog::disk::MemoryDisk;
use mnemolog::error::{Damage, Evidence};
use mnemolog::{Error, Frame, Options, Store};

use crate::model::{self, Rng, Step, WORKSPACES};

/// A closed store as files, what it held after each frame, and where its last segment's frames stand.
struct Specimen {
    files: BTreeMap<String, Vec<u8>>,
    states: Vec<model::Model>,
    last: String,
    /// Offset, end, kind and number of every frame of the last segment.
    frames: Vec<(u64, u64, FrameKind, Frame)>,
}

fn specimen(segment_bytes: u64, steps: usize) -> Specimen {
    let disk = MemoryDisk::new();
    let store = Options::new().segment_bytes(segment_bytes).open_on(Arc::new(disk.clone())).expect("opens");
    let (mut rng, mut states) = (Rng::new(7), vec![model::empty()]);
    while states.len() <= steps {
        let (step, at) = (Step::random(&mut rng), rng.below(2) as usize);
        let mut next = states.last().expect("a first state").clone();
        let before = store.appended();
        step.apply(&mut next[at]);
        step.take(&store.workspace(WORKSPACES[at]).expect("a path")).expect("written");
        if store.appended() > before {
            states.push(next);
        }
    }
    store.close().expect("closes");
    let read = |path: &String| Some((path.clone(), disk.read_file(path)?));
    let files: BTreeMap<_, _> = disk.files().iter().filter_map(read).collect();
    let last = files.keys().rfind(|path| path.ends_with(".seg")).expect("a segment").clone();
    let frames = frames(&files[&last]);
    Specimen { files, states, last, frames }
}

fn frames(file: &[u8]) -> Vec<(u64, u64, FrameKind, Frame)> {
    let seed = Seed::new(SegmentHeader::decode_either(file).expect("a header").salt);
    let (mut at, mut out) = (FRAMES_START, Vec::new());
    while let Ok(found) = frame::decode(&file[at as usize..], at, &seed) {
        let end = at + found.header.frame_bytes() as u64;
        out.push((at, end, found.header.kind, found.header.number));
        at = end;
    }
    out
}

fn disk_with(files: &BTreeMap<String, Vec<u8>>) -> MemoryDisk {
    let disk = MemoryDisk::new();
    for (path, bytes) in files {
        disk.write_file(path, bytes).expect("a file in memory");
    }
    disk
}

fn open(disk: &MemoryDisk) -> Result<Store, Error> {
    Options::new().open_on(Arc::new(disk.clone()))
}

fn damage(result: Result<Store, Error>) -> Damage {
    match result {
        Err(Error::Damaged(damage)) => *damage,
        other => panic!("expected damage, found {other:?}"),
    }
}

/// The file cut off at `at`, or with zeros from there on, as a torn write leaves it.
fn cut(file: &[u8], at: u64, zeros: bool) -> Vec<u8> {
    let mut file = file.to_vec();
    if zeros {
        file[at as usize..].fill(0)
    } else {
        file.truncate(at as usize)
    }
    file
}

/// Where the last three commits begin, and where everything ends.
fn last_three(specimen: &Specimen) -> (u64, u64) {
    let commits: Vec<_> = specimen.frames.iter().filter(|f| f.2 == FrameKind::Commit).collect();
    let end = specimen.frames.last().expect("frames").1;
    (commits[commits.len() - 3].0, end)
}

/// Protects promise 7.
#[test]
fn a_cut_without_a_promise_loses_only_what_was_cut_and_keeps_a_copy() {
    let specimen = specimen(64 << 20, 30);
    let (from, end) = last_three(&specimen);
    let whole = &specimen.files[&specimen.last];
    for at in from..end {
        for zeros in [false, true] {
            let mut files = specimen.files.clone();
            files.remove("DURABLE");
            let torn = cut(whole, at, zeros);
            let intact = frames(&torn).last().copied().expect("earlier frames");
            files.insert(specimen.last.clone(), torn.clone());
            let disk = disk_with(&files);
            let store = open(&disk).expect("an unclean end opens");
            assert_eq!(store.appended(), intact.3, "cut at {at}");
            assert_eq!(model::held(&store), specimen.states[intact.3.0 as usize], "cut at {at}");
            let tail = &torn[intact.1 as usize..];
            let used = tail.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
            match &store.recovery().cut {
                None => assert_eq!(used, 0, "cut at {at}: bytes were dropped silently"),
                Some(cut) => {
                    assert_eq!((cut.offset, cut.len_bytes), (intact.1, used as u64), "cut at {at}");
                    let copy = cut.quarantine.as_ref().expect("a copy");
                    let copy = disk.read_file(&format!("quarantine/{copy}")).expect("the copy");
                    assert_eq!(copy, tail[..used], "cut at {at}: the copy is byte-exact");
                }
            }
            goes_on(&disk, store, at);
        }
    }
}

/// The store takes a write, and has it after reopening.
fn goes_on(disk: &MemoryDisk, store: Store, at: u64) {
    let before = store.appended();
    store.root().notes().remember("after", "", "the cut").expect("writes go on");
    drop(store);
    let store = open(disk).expect("opens again");
    assert_eq!(store.appended(), before.next().expect("a number"), "cut at {at}");
    assert_eq!(store.root().notes().recall("after"), "the cut", "cut at {at}");
    assert!(store.recovery().cut.is_none(), "cut at {at}: one opening mends it");
}

/// Protects promise 6.
#[test]
fn a_cut_below_the_promise_is_damage() {
    let specimen = specimen(64 << 20, 30);
    let (from, end) = last_three(&specimen);
    let whole = &specimen.files[&specimen.last];
    let last = Frame(specimen.states.len() as u64 - 1);
    let mut damaged = 0;
    for at in from..end {
        let torn = cut(whole, at, at % 2 == 0);
        let intact = frames(&torn).last().copied().expect("earlier frames");
        let mut files = specimen.files.clone();
        files.insert(specimen.last.clone(), torn);
        let disk = disk_with(&files);
        let opened = open(&disk);
        if intact.3 == last {
            opened.expect("only the close marker is torn: nothing that was promised is missing");
            continue;
        }
        damaged += 1;
        let damage = damage(opened);
        assert_eq!(format!("log/{}", damage.segment), specimen.last);
        assert_eq!((damage.offset, Some(damage.frame)), (intact.1, intact.3.next()), "cut at {at}");
        assert_eq!(damage.evidence, Evidence::Durable(last));
        let store = Options::new().open_read_only_on(Arc::new(disk.clone())).expect("serves what is whole");
        assert_eq!(store.appended(), intact.3, "cut at {at}");
        assert_eq!(model::held(&store), specimen.states[intact.3.0 as usize], "cut at {at}");
        assert_eq!(store.recovery().damage.as_ref().map(|d| d.frame), intact.3.next());
        let unchanged = disk
            .files()
            .iter()
            .all(|path| path == "LOCK" || disk.read_file(path) == files.get(path).cloned());
        assert!(unchanged, "cut at {at}: refusing changes nothing");
    }
    assert!(damaged > 100, "three commits are more than a few bytes");
}

/// Protects promises 1 and 6.
#[test]
fn every_flipped_bit_of_an_acknowledged_frame_is_damage() {
    let specimen = specimen(64 << 20, 12);
    let disk = disk_with(&specimen.files);
    for &(from, end, kind, number) in &specimen.frames {
        if kind != FrameKind::Commit {
            continue;
        }
        for offset in from..end {
            for bit in 0..8 {
                disk.flip(&specimen.last, offset, bit).expect("a byte of the file");
                let damage = damage(open(&disk));
                assert_eq!(format!("log/{}", damage.segment), specimen.last);
                assert_eq!((damage.offset, damage.frame), (from, number), "bit {bit} of byte {offset}");
                disk.flip(&specimen.last, offset, bit).expect("a byte of the file");
            }
        }
    }
    open(&disk).expect("unflipped, it opens");
}

/// Protects promise 6.
#[test]
fn a_flipped_bit_is_damage_also_where_only_later_frames_promise() {
    let specimen = specimen(64 << 20, 12);
    let mut files = specimen.files.clone();
    files.remove("DURABLE");
    let disk = disk_with(&files);
    let (from, _, _, number) = specimen.frames[3];
    disk.flip(&specimen.last, from + 60, 1).expect("a byte of the file");
    let damage = damage(open(&disk));
    assert_eq!((damage.offset, damage.frame), (from, number));
    assert!(matches!(damage.evidence, Evidence::Promise { .. }), "{damage}");
}

#[test]
fn a_flipped_bit_in_an_earlier_segment_is_damage() {
    let specimen = specimen(16 * 1024, 120);
    let segments: Vec<_> = specimen.files.keys().filter(|path| path.ends_with(".seg")).cloned().collect();
    assert!(segments.len() > 2, "the history fills several segments: {segments:?}");
    for segment in &segments[..segments.len() - 1] {
        let mut files = specimen.files.clone();
        files.remove("DURABLE");
        let disk = disk_with(&files);
        for &(from, _, _, number) in frames(&specimen.files[segment]).iter().step_by(5) {
            disk.flip(segment, from + 50, 3).expect("a byte of the file");
            let damage = damage(open(&disk));
            assert_eq!((format!("log/{}", damage.segment), damage.offset), (segment.clone(), from));
            assert_eq!(damage.frame, number);
            disk.flip(segment, from + 50, 3).expect("a byte of the file");
        }
    }
}

/// Protects promise 5.
#[test]
fn a_missing_segment_is_damage() {
    let specimen = specimen(16 * 1024, 120);
    let segments: Vec<_> = specimen.files.keys().filter(|path| path.ends_with(".seg")).cloned().collect();
    for missing in &segments {
        let mut files = specimen.files.clone();
        files.remove(missing);
        let damage = damage(open(&disk_with(&files)));
        assert!(damage.frame <= Frame(specimen.states.len() as u64), "{damage}");
    }
}

#[test]
fn a_log_whose_only_file_is_gone_is_damaged_also_for_a_reader() {
    let specimen = specimen(64 << 20, 3);
    let disk = disk_with(&specimen.files);
    disk.remove_file(&specimen.last).expect("a file");
    let reader = Options::new().open_read_only_on(Arc::new(disk.clone()));
    for damage in [damage(reader), damage(open(&disk))] {
        assert_eq!((format!("log/{}", damage.segment), damage.frame), (specimen.last.clone(), Frame(1)));
        assert_eq!(damage.evidence, Evidence::Durable(Frame(3)));
    }
    disk.remove_file("DURABLE").expect("a file");
    let reader = Options::new().open_read_only_on(Arc::new(disk.clone()));
    assert!(matches!(reader, Err(Error::NoSuchStore { .. })), "nothing was promised");
}

#[test]
fn what_is_written_in_place_of_a_seal_that_miscounts_is_there_after_reopening() {
    let path = "log/00000000000000000001.seg";
    let mut file = include_bytes!("../../format/golden/v1/sealed-end/log/00000000000000000001.seg").to_vec();
    let seed = Seed::new(SegmentHeader::decode_either(&file).expect("a header").salt);
    let &(from, end, kind, last) = frames(&file).last().expect("frames");
    assert_eq!(kind, FrameKind::Seal);
    // The seal counts another number of frames, and its checksum says that this is what was written.
    let seal = &mut file[from as usize..end as usize];
    seal[frame::FRAME_HEADER_BYTES + frame::seal_payload::FRAMES] ^= 1;
    let crc = seed.crc_without(seal, frame::frame_header::CRC);
    seal[frame::frame_header::CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    let disk = disk_with(&BTreeMap::from([(path.to_owned(), file)]));
    let store = open(&disk).expect("nobody promised the seal");
    assert_eq!(store.appended(), last);
    assert_eq!(store.recovery().cut.as_ref().map(|cut| cut.offset), Some(from));
    goes_on(&disk, store, from);
}

/// Protects promise 8.
#[test]
fn either_header_serves_and_none_is_damage() {
    let specimen = specimen(64 << 20, 5);
    let disk = disk_with(&specimen.files);
    for offset in [0, 2048] {
        disk.flip(&specimen.last, offset + 20, 0).expect("a byte of the header");
        open(&disk).expect("the other header serves");
        disk.flip(&specimen.last, offset + 20, 0).expect("a byte of the header");
    }
    for offset in [0, 2048] {
        disk.flip(&specimen.last, offset + 20, 0).expect("a byte of the header");
    }
    let _ = disk.remove_file("DURABLE");
    assert_eq!(damage(open(&disk)).evidence, Evidence::Header);
}

#[test]
fn no_bytes_in_any_file_make_a_store_panic() {
    let specimen = specimen(16 * 1024, 60);
    let paths: Vec<_> = specimen.files.keys().filter(|path| *path != "LOCK").cloned().collect();
    let mut rng = Rng::new(11);
    let mut refused = 0;
    for _ in 0..1500 {
        let mut files = specimen.files.clone();
        for _ in 0..=rng.below(3) {
            let path = &paths[rng.below(paths.len() as u64) as usize];
            let file = files.get_mut(path).expect("one of the files");
            spoil(&mut rng, file);
        }
        if rng.chance(3) {
            files.remove("DURABLE");
        }
        let disk = disk_with(&files);
        if let Ok(store) = Options::new().open_read_only_on(Arc::new(disk.clone())) {
            look_around(&store);
        }
        match open(&disk) {
            Ok(store) => look_around(&store),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100, "most of this is damage");
}

fn spoil(rng: &mut Rng, file: &mut Vec<u8>) {
    if file.is_empty() {
        return;
    }
    // Mostly where frames are, which is near the beginning.
    let most = if rng.chance(2) { file.len() } else { file.len().min(6000) };
    let at = rng.below(most as u64) as usize;
    let len = (1 + rng.below(64) as usize).min(file.len() - at);
    match rng.below(5) {
        0 => file[at..at + len].fill(0),
        1 => file[at..at + len].fill_with(|| rng.next() as u8),
        2 => file.truncate(at),
        3 => file.copy_within(0..len, at),
        _ => file[at] ^= 1 << rng.below(8),
    }
}

fn look_around(store: &Store) {
    let _ = store.digest();
    for path in WORKSPACES {
        let at = store.workspace(path).expect("a path");
        let _ = (at.notes().search("o"), at.notes().list_memories(), at.notes().snapshot_bytes());
        let _ = at.vectors("rows").expect("a name").search("fox", 3);
        let _ = at.episodic("turns").expect("a name").recent(5);
        let _ = at.working("pad").expect("a name").render();
    }
    let _ = store.at(Frame(store.appended().0 / 2)).map(|past| past.digest());
}
