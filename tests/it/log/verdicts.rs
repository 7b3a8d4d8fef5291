//! The two verdicts about an end that does not check out, and the mending of an unclean one.

use std::sync::Arc;

use mnemolog::codec::segment::{Durable, StoreId};
use mnemolog::disk::{Disk, Fault, MemoryDisk, Tear};
use mnemolog::error::{Damage, Error, Evidence};
use mnemolog::position::Frame;

use super::spy::Spy;
use super::{DEFAULT, Entry, SMALL, frames_of, keys, memory, numbered, open, read, segment};

/// A closed log of one file with `k1` to `k{last}`, every frame saved; the disk, its bytes, its frames' places.
fn closed(last: usize) -> (MemoryDisk, Arc<dyn Disk>, Vec<u8>, Vec<usize>) {
    let (disk, shared) = memory();
    let writing = open(&shared, DEFAULT).unwrap();
    writing.fill(last, 40);
    writing.log.close().unwrap();
    let bytes = disk.read_file(&segment(1)).unwrap();
    let places = frames_of(&bytes).into_iter().map(|(at, _)| at).collect();
    (disk, shared, bytes, places)
}

fn damage(error: Error) -> Damage {
    match error {
        Error::Damaged(damage) => *damage,
        other => panic!("not damage: {other}"),
    }
}

fn quarantined(disk: &MemoryDisk) -> Vec<Vec<u8>> {
    let files = disk.files().into_iter().filter(|path| path.starts_with("quarantine/"));
    files.map(|path| disk.read_file(&path).unwrap()).collect()
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1)]
}

/// What is left of a file that was cut: shorter, or zeros from there on.
fn cuts(bytes: &[u8], at: usize) -> [Vec<u8>; 2] {
    let mut zeroed = bytes.to_vec();
    zeroed[at..].fill(0);
    [bytes[..at].to_vec(), zeroed]
}

/// How many frames a cut left as they were: what ends in zeros may lose them and not notice.
fn whole_frames(bytes: &[u8], cut: &[u8], places: &[usize]) -> usize {
    let ends = places.iter().skip(1).copied().chain([places[places.len() - 1] + 48]);
    let frames = places.iter().zip(ends);
    frames.take_while(|(from, to)| cut.get(**from..*to) == Some(&bytes[**from..*to])).count()
}

#[test]
fn without_a_promise_a_cut_at_any_byte_loses_only_what_was_cut_and_keeps_a_copy() {
    let (disk, _, bytes, places) = closed(5);
    let durable = disk.read_file("DURABLE").unwrap();
    for at in places[2]..*places.last().unwrap() + 48 {
        for cut in cuts(&bytes, at) {
            let disk = MemoryDisk::simulated();
            disk.write_file(&segment(1), &cut).unwrap();
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let writing = open(&shared, DEFAULT).unwrap();
            let whole = whole_frames(&bytes, &cut, &places);
            assert_eq!(keys(&writing.found), numbered(whole.min(5)), "cut at {at}");
            let from = places.get(whole).copied().unwrap_or(places[5] + 48).min(cut.len());
            let tail = without_zeros(&cut[from..]);
            match (&writing.recovery.cut, quarantined(&disk).as_slice()) {
                (None, []) => assert!(tail.is_empty(), "cut at {at}"),
                (Some(report), [copy]) => {
                    assert_eq!((report.offset, copy.as_slice()), (from as u64, tail), "cut at {at}");
                    assert_eq!(report.len_bytes, tail.len() as u64);
                    assert!(!tail.is_empty());
                }
                other => panic!("cut at {at}: {other:?}"),
            }
            writing.save("next", 10).unwrap();
            drop(writing);
            assert_eq!(keys(&open(&shared, DEFAULT).unwrap().found).last(), Some(&"next"));
            disk.write_file("DURABLE", &durable).unwrap();
        }
    }
}

#[test]
fn with_the_promise_a_cut_at_any_byte_is_damage_unless_it_only_takes_the_close_marker() {
    let (disk, _, bytes, places) = closed(5);
    let durable = disk.read_file("DURABLE").unwrap();
    let close = *places.last().unwrap();
    for at in places[2]..close + 48 {
        for cut in cuts(&bytes, at) {
            let disk = MemoryDisk::simulated();
            disk.write_file(&segment(1), &cut).unwrap();
            disk.write_file("DURABLE", &durable).unwrap();
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            if at >= close {
                assert_eq!(open(&shared, DEFAULT).unwrap().found.len(), 5, "cut at {at}");
                continue;
            }
            let kept = whole_frames(&bytes, &cut, &places);
            if kept == 5 {
                continue;
            }
            let found = damage(open(&shared, DEFAULT).unwrap_err());
            assert_eq!(found.segment, segment(1)[4..]);
            assert_eq!((found.offset, found.frame), (places[kept] as u64, Frame(kept as u64 + 1)));
            assert_eq!(found.evidence, Evidence::Durable(Frame(5)));
            assert_eq!(disk.read_file(&segment(1)).unwrap(), cut, "nothing is changed");
            let (served, list) = read(&shared, DEFAULT).unwrap();
            assert_eq!(keys(&list), numbered(kept));
            assert_eq!(served.recovery.damage.unwrap().offset, found.offset);
        }
    }
}

#[test]
fn any_flipped_bit_of_a_frame_that_a_later_one_promises_is_damage_with_its_place() {
    let (_, _, bytes, places) = closed(5);
    for at in places[1]..places[2] {
        let disk = MemoryDisk::simulated();
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        disk.write_file(&segment(1), &flipped).unwrap();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let found = damage(open(&shared, DEFAULT).unwrap_err());
        assert_eq!((found.offset, found.frame), (places[1] as u64, Frame(2)), "flip at {at}");
        assert!(matches!(found.evidence, Evidence::Promise { frame, .. } if frame >= Frame(2)));
        assert_eq!(keys(&read(&shared, DEFAULT).unwrap().1), ["k1"]);
        assert_eq!(disk.read_file(&segment(1)).unwrap(), flipped, "nothing is changed");
    }
}

#[test]
fn zeros_in_place_of_a_promised_frame_are_damage() {
    let (disk, shared, mut bytes, places) = closed(5);
    bytes[places[2]..places[3]].fill(0);
    disk.write_file(&segment(1), &bytes).unwrap();
    disk.remove_file("DURABLE").unwrap();
    let found = damage(open(&shared, DEFAULT).unwrap_err());
    assert_eq!((found.offset, found.frame), (places[2] as u64, Frame(3)));
}

/// Protects promises 2 and 3.
#[test]
fn frames_behind_a_torn_one_that_nobody_promised_are_cut_with_it_and_never_come_back() {
    let (disk, shared) = memory();
    let writing = open(&shared, DEFAULT).unwrap();
    writing.save("k1", 40).unwrap();
    for n in 2..=4 {
        writing.append(&format!("k{n}"), 40).unwrap();
    }
    let bytes = disk.read_file(&segment(1)).unwrap();
    let places: Vec<_> = frames_of(&bytes).into_iter().map(|(at, _)| at).collect();
    disk.kill();
    let shared_again: Arc<dyn Disk> = Arc::new(disk.clone());
    drop((writing, shared));
    disk.flip(&segment(1), places[1] as u64 + 60, 1).unwrap();
    let writing = open(&shared_again, DEFAULT).unwrap();
    assert_eq!(keys(&writing.found), ["k1"]);
    // The same change again: its frame is the same but for the writer, and no cut frame may chain on to it.
    assert_eq!(writing.save("k2", 40).unwrap(), Frame(2), "the number of a cut frame is given again");
    drop(writing);
    let mut mixed = disk.read_file(&segment(1)).unwrap();
    assert!(mixed[places[2]..].iter().all(|b| *b == 0));
    mixed[places[2]..].copy_from_slice(&bytes[places[2]..]);
    disk.write_file(&segment(1), &mixed).unwrap();
    let writing = open(&shared_again, DEFAULT).unwrap();
    assert_eq!(keys(&writing.found), ["k1", "k2"]);
    assert_eq!(writing.recovery.cut.unwrap().offset, places[2] as u64);
}

/// Protects promise 7.
#[test]
fn the_copy_of_a_cut_is_durable_before_the_cut_and_the_cut_before_the_promise() {
    let (disk, shared, bytes, places) = closed(3);
    disk.write_file(&segment(1), &bytes[..places[2] + 30]).unwrap();
    disk.remove_file("DURABLE").unwrap();
    let (spy, seen) = Spy::on(shared);
    open(&spy, DEFAULT).unwrap();
    let file = segment(1)[4..].to_owned();
    let copy = disk.files().into_iter().find(|path| path.starts_with("quarantine/")).unwrap();
    let expected = [
        "sync directory ".to_owned(),
        format!("create {copy}"),
        format!("write {copy}"),
        format!("sync {copy}"),
        format!("synced {copy}"),
        "sync directory quarantine".to_owned(),
        format!("write {file}"),
        format!("sync {file}"),
        format!("synced {file}"),
        "create DURABLE".to_owned(),
        "sync directory ".to_owned(),
        // What is left and was promised by nobody is written again.
        format!("write {file}"),
        format!("sync {file}"),
        format!("synced {file}"),
        "write DURABLE".to_owned(),
        "sync DURABLE".to_owned(),
        "synced DURABLE".to_owned(),
    ];
    assert_eq!(seen.take(), expected);
}

#[test]
fn a_promise_that_an_opening_makes_is_durable_with_its_name() {
    let (disk, shared, ..) = closed(3);
    disk.remove_file("DURABLE").unwrap();
    open(&shared, DEFAULT).unwrap();
    disk.power_loss(&mut |n| n - 1, Tear::Sector);
    let promise = Durable::decode(&disk.read_file("DURABLE").expect("it is there")).unwrap();
    assert_eq!(promise.frame, Frame(3));
}

#[test]
fn a_full_disk_on_which_the_copy_does_not_fit_changes_nothing_and_serves_reads() {
    let (disk, shared, mut bytes, places) = closed(3);
    bytes[places[2] + 50..].fill(0);
    disk.write_file(&segment(1), &bytes).unwrap();
    disk.remove_file("DURABLE").unwrap();
    let used: usize = disk.files().iter().map(|path| disk.read_file(path).unwrap().len()).sum();
    disk.set_capacity(Some(used as u64 + 10));
    for _ in 0..3 {
        let error = open(&shared, DEFAULT).unwrap_err();
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
        assert_eq!(disk.read_file(&segment(1)).unwrap(), bytes);
        assert!(quarantined(&disk).is_empty(), "no half copy takes space");
        let (opening, list) = read(&shared, DEFAULT).unwrap();
        assert_eq!((keys(&list), opening.recovery.cut.unwrap().quarantine), (vec!["k1", "k2"], None));
    }
    disk.set_capacity(None);
    assert_eq!(open(&shared, DEFAULT).unwrap().found.len(), 2);
    assert_eq!(quarantined(&disk).len(), 1);
}

/// A frame, a close marker or a seal whose sync failed stays in the page cache, marked clean: only writing it
/// again brings it to the disk.
#[test]
fn what_a_failed_sync_left_in_the_cache_is_written_again_before_anything_builds_on_it() {
    for (segment_bytes, last_is) in [(DEFAULT, "frame"), (DEFAULT, "close"), (SMALL, "seal")] {
        let (disk, shared) = memory();
        let writing = open(&shared, segment_bytes).unwrap();
        writing.save("k1", 3000).unwrap();
        match last_is {
            "frame" => {
                writing.append("k2", 2000).unwrap();
                disk.fail_at(0, Fault::SyncLost);
                writing.log.flush().unwrap_err();
            }
            "close" => {
                // The write of the marker, then its sync.
                disk.fail_at(1, Fault::SyncLost);
                writing.log.close().unwrap_err();
            }
            _ => {
                // Sync, (nothing to promise,) read for the digest, write of the seal, sync.
                disk.fail_at(3, Fault::SyncLost);
                writing.append("k2", 2000).unwrap_err();
            }
        }
        drop(writing);
        disk.kill();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let writing = open(&shared, segment_bytes).unwrap();
        assert!(writing.recovery.rewritten_bytes > 0, "after a lost {last_is}");
        let mut expected: Vec<String> = writing.found.iter().map(|Entry { key, .. }| key.clone()).collect();
        // Far enough to leave the sectors of what was lost alone.
        writing.save("k3", 5000).unwrap();
        expected.push("k3".to_owned());
        drop(writing);
        disk.power_loss(&mut |n| n - 1, Tear::Sector);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        assert_eq!(keys(&open(&shared, segment_bytes).unwrap().found), expected, "after a lost {last_is}");
    }
}

/// Protects promise 9.
#[test]
fn what_is_written_again_are_the_bytes_that_were_checked_and_not_what_the_cache_shows_later() {
    let (disk, _, bytes, places) = closed(5);
    disk.remove_file("DURABLE").unwrap();
    let (shared, seen) = Spy::on(Arc::new(disk.clone()));
    // The close marker: nothing promises it.
    let (rotting, at) = (disk.clone(), places[5] as u64 + 20);
    let mut reads = 0;
    seen.after_read(move || {
        // The header is read first and then the frames, in one piece; the page with them leaves the cache, and what
        // comes back is what the disk has.
        reads += 1;
        if reads == 2 {
            rotting.flip(&segment(1), at, 3).unwrap();
        }
    });
    drop(open(&shared, DEFAULT).unwrap());
    assert!(disk.read_file(&segment(1)).unwrap() == bytes, "the marker is as it was checked");
}

/// Protects promise 6.
#[test]
fn the_promise_rises_before_every_acknowledgement_and_never_sinks() {
    let (disk, mut shared) = memory();
    let promised =
        |disk: &MemoryDisk| disk.read_file("DURABLE").and_then(|b| Durable::decode(&b).ok()).map(|d| d.frame);
    let mut last = None;
    for life in 0..3 {
        let writing = open(&shared, SMALL).unwrap();
        for n in 0..12 {
            let frame = writing.append(&format!("{life} {n}"), 400).unwrap().frame;
            assert!(promised(&disk) >= last, "it sank");
            writing.log.wait_durable(frame).unwrap();
            assert!(promised(&disk) >= Some(frame), "acknowledged before it was promised");
            last = promised(&disk);
        }
        if life > 0 {
            writing.log.close().unwrap();
        }
        drop(writing);
        disk.kill();
        shared = Arc::new(disk.clone());
    }
}

#[test]
fn a_torn_missing_or_foreign_promise_is_no_promise_and_is_replaced() {
    let (disk, _, bytes, places) = closed(3);
    let durable = disk.read_file("DURABLE").unwrap();
    let mut torn = durable.clone();
    torn[40..].fill(0);
    let mut foreign = Durable::decode(&durable).unwrap();
    (foreign.store, foreign.frame) = (StoreId([7; 16]), Frame(1000));
    for promise in [None, Some(torn), Some(Vec::new()), Some(foreign.encode().to_vec())] {
        let disk = MemoryDisk::simulated();
        disk.write_file(&segment(1), &bytes[..places[2] + 20]).unwrap();
        if let Some(promise) = promise {
            disk.write_file("DURABLE", &promise).unwrap();
        }
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        assert_eq!(read(&shared, DEFAULT).unwrap().0.durable, Frame(1), "what frame 2 promises");
        assert_eq!(open(&shared, DEFAULT).unwrap().found.len(), 2);
        let now = Durable::decode(&disk.read_file("DURABLE").unwrap()).unwrap();
        assert_eq!((now.frame, now.store), (Frame(2), Durable::decode(&durable).unwrap().store));
    }
}
