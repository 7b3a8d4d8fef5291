//! Damage of each part of a log, in its first, middle and last file: what is lost, what is kept, what is built.

use std::sync::Arc;

use mnemolog::codec::frame::{FrameHeader, FrameKind, Seal};
use mnemolog::codec::intent::{Intent, Move};
use mnemolog::codec::segment::{Durable, SegmentHeader, StoreId};
use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::error::Error;
use mnemolog::log::{Repaired, verify};
use mnemolog::position::Frame;

use super::{Files, check_repaired, contents, disk_of, ranges, repair};
use crate::log::{SMALL, frames_of, keys, memory, open, read, segment};

const LAST: u64 = 40;

/// A closed log of several files with `k1` to `k40`; their paths.
fn rotated() -> (Files, Vec<String>) {
    let (disk, shared) = memory();
    let writing = open(&shared, SMALL).unwrap();
    writing.fill(LAST as usize, 300);
    writing.log.close().unwrap();
    let files = contents(&disk);
    let paths = files.keys().filter(|path| path.ends_with(".seg")).cloned().collect();
    (files, paths)
}

fn first(path: &str) -> u64 {
    path[4..24].parse().unwrap()
}

/// Offset, end, kind and number of each frame of a file.
fn frames(bytes: &[u8]) -> Vec<(usize, usize, FrameKind, u64)> {
    let each = |(at, kind): (usize, FrameKind)| {
        let header = FrameHeader::decode(&bytes[at..], at as u64).unwrap();
        (at, at + header.frame_bytes(), kind, header.number.0)
    };
    frames_of(bytes).into_iter().map(each).collect()
}

/// Repairs, and holds frames, numbers and further appends against the list without what should be lost.
fn check(files: &Files, last: u64, lost: &[(u64, u64)], context: &str) -> (MemoryDisk, Repaired) {
    let disk = disk_of(files);
    let repaired = repair(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
    check_repaired(files, &disk, &repaired, context);
    assert_eq!(ranges(&repaired.lost), lost, "{context}");
    assert_eq!(repaired.last, Frame(last), "{context}");
    let kept = |n: &u64| *n <= LAST && !lost.iter().any(|(first, last)| (*first..=*last).contains(n));
    let mut expected: Vec<(u64, String)> = (1..=last).filter(kept).map(|n| (n, format!("k{n}"))).collect();
    let copy = disk_of(&contents(&disk));
    let shared: Arc<dyn Disk> = Arc::new(copy);
    let writing = open(&shared, SMALL).unwrap_or_else(|error| panic!("{context}: {error}"));
    let pairs = |found: &[crate::log::Entry]| -> Vec<(u64, String)> {
        found.iter().map(|entry| (entry.frame.0, entry.key.clone())).collect()
    };
    assert_eq!(pairs(&writing.found), expected, "{context}");
    assert_eq!(writing.save("after", 10).unwrap(), Frame(last + 1), "{context}");
    writing.save(&"far ".repeat(20), 7000).unwrap();
    writing.save("more", 7000).unwrap();
    writing.log.close().unwrap();
    expected.push((last + 1, "after".to_owned()));
    let (opening, found) = read(&shared, SMALL).unwrap();
    assert!(opening.recovery.cut.is_none() && opening.recovery.damage.is_none(), "{context}");
    assert_eq!(pairs(&found)[..expected.len()], expected, "{context}");
    assert!(verify(&*shared).unwrap().is_whole(), "{context}");
    (disk, repaired)
}

fn flip(files: &mut Files, path: &str, at: usize) {
    files.get_mut(path).unwrap()[at] ^= 4;
}

#[test]
fn a_whole_log_and_one_with_an_unclean_end_are_left_as_they_are() {
    let (mut files, paths) = rotated();
    for torn in [false, true] {
        let path = paths.last().unwrap();
        if torn {
            let end = frames(&files[path]).last().unwrap().1;
            files.get_mut(path).unwrap()[end..end + 20].fill(7);
        }
        let disk = disk_of(&files);
        let repaired = repair(&disk).unwrap();
        assert!(repaired.damage.is_empty() && repaired.rewritten.is_empty() && repaired.lost.is_empty());
        assert_eq!((repaired.last, contents(&disk)), (Frame(LAST), files.clone()));
    }
    let (_, shared) = memory();
    let none = mnemolog::log::repair(&shared, std::time::Duration::ZERO, true, crate::log::time(1));
    assert!(matches!(none, Err(Error::NoSuchStore { .. })));
}

fn kinds(bytes: &[u8], without: FrameKind) -> Vec<FrameKind> {
    frames(bytes).iter().map(|frame| frame.2).filter(|kind| *kind != without).collect()
}

#[test]
fn a_flipped_bit_in_a_frame_loses_that_frame_and_a_destroyed_seal_is_written_again() {
    let (sound, paths) = rotated();
    let (mut commits, mut seals) = (0, 0);
    for path in &paths {
        for (i, (at, end, kind, number)) in frames(&sound[path]).into_iter().enumerate() {
            if kind == FrameKind::Close {
                continue;
            }
            let mut files = sound.clone();
            flip(&mut files, path, if i % 2 == 0 { at + 9 } else { end - 20 });
            let context = format!("{kind:?} {number} in {path}");
            let lost = if kind == FrameKind::Commit { vec![(number, number)] } else { vec![] };
            let (disk, repaired) = check(&files, LAST, &lost, &context);
            assert_eq!((repaired.damage.len(), repaired.rewritten.len()), (1, 1), "{context}");
            commits += usize::from(kind == FrameKind::Commit);
            seals += usize::from(kind == FrameKind::Seal);
            let rebuilt = disk.read_file(path).unwrap();
            if kind == FrameKind::Seal {
                assert_eq!(
                    kinds(&rebuilt, FrameKind::Lost),
                    kinds(&sound[path], FrameKind::Lost),
                    "{context}"
                );
            }
            assert_eq!(frames(&rebuilt).len(), frames(&sound[path]).len(), "{context}");
        }
    }
    assert!(commits == LAST as usize && seals >= 3, "{commits} {seals}");
}

#[test]
fn a_destroyed_close_marker_between_frames_is_a_close_marker_again() {
    let (disk, shared) = memory();
    for n in 1..=3 {
        let writing = open(&shared, SMALL).unwrap();
        writing.save(&format!("k{n}"), 10).unwrap();
        writing.log.close().unwrap();
    }
    let (sound, path) = (contents(&disk), segment(1));
    let all = kinds(&sound[&path], FrameKind::Base);
    assert_eq!(all[..3], [FrameKind::Commit, FrameKind::Close, FrameKind::Commit]);
    for (at, _, kind, _) in frames(&sound[&path]).into_iter().take(4) {
        if kind == FrameKind::Close {
            let mut files = sound.clone();
            flip(&mut files, &path, at + 30);
            let disk = disk_of(&files);
            let repaired = repair(&disk).unwrap();
            check_repaired(&files, &disk, &repaired, "close");
            assert!(repaired.lost.is_empty());
            assert_eq!(kinds(&disk.read_file(&path).unwrap(), FrameKind::Base), all);
            assert_eq!(
                keys(&open(&(Arc::new(disk) as Arc<dyn Disk>), SMALL).unwrap().found),
                ["k1", "k2", "k3"]
            );
        }
    }
}

#[test]
fn damage_of_headers_loses_nothing_while_one_frame_is_whole() {
    let (sound, paths) = rotated();
    for path in &paths {
        let copies: [&[(usize, usize)]; 4] =
            [&[(3, 4)], &[(2050, 2060)], &[(0, 64), (2048, 2112)], &[(0, 4096)]];
        for ranges in copies {
            for fill in [0, 0xa5] {
                let mut files = sound.clone();
                let bytes = files.get_mut(path).unwrap();
                ranges.iter().for_each(|&(from, to)| bytes[from..to].fill(fill));
                let context = format!("{path} {ranges:?} {fill}");
                let (disk, _) = check(&files, LAST, &[], &context);
                let header = |bytes: &[u8]| SegmentHeader::decode(bytes, 0).unwrap();
                let (old, new) = (header(&sound[path]), header(&disk.read_file(path).unwrap()));
                assert_eq!((new.store, new.previous_nonce), (old.store, old.previous_nonce), "{context}");
                assert_ne!(new.salt, old.salt);
            }
        }
        let mut files = sound.clone();
        let bytes = files.get_mut(path).unwrap();
        let (second, numbers) = (frames(bytes)[1].0, frames(bytes)[0].3);
        bytes[..second - 1].fill(0x5a);
        check(&files, LAST, &[(numbers, numbers)], &format!("headers and the first frame of {path}"));
    }
}

#[test]
fn a_file_of_which_nothing_is_readable_is_lost_as_a_whole_and_its_neighbours_are_untouched() {
    let (sound, paths) = rotated();
    for (i, path) in paths.iter().enumerate() {
        let range = (first(path), paths.get(i + 1).map_or(LAST, |next| first(next) - 1));
        for hurt in 0..4 {
            let mut files = sound.clone();
            match hurt {
                0 => drop(files.remove(path)),
                1 => files.get_mut(path).unwrap().fill(0),
                2 => files.get_mut(path).unwrap().fill(0x77),
                _ => files.get_mut(path).unwrap().clear(),
            }
            let context = format!("{path} hurt {hurt}");
            let (_, repaired) = check(&files, LAST, &[range], &context);
            let rewritten: Vec<_> = repaired.rewritten.iter().map(|file| &file.file).collect();
            assert_eq!(rewritten, [path], "{context}");
        }
    }
    for from in 0..paths.len() {
        for to in from + 2..=paths.len() {
            let mut files = sound.clone();
            paths[from..to].iter().for_each(|path| drop(files.remove(path)));
            let last = paths.get(to).map_or(LAST, |next| first(next) - 1);
            check(&files, LAST, &[(first(&paths[from]), last)], &format!("{from} to {to} missing"));
        }
    }
}

#[test]
fn a_seal_and_the_file_behind_it_can_both_be_gone() {
    let (sound, paths) = rotated();
    let mut files = sound.clone();
    let seal = *frames(&sound[&paths[1]]).last().unwrap();
    assert_eq!(seal.2, FrameKind::Seal);
    files.get_mut(&paths[1]).unwrap()[seal.0..seal.1].fill(0);
    files.remove(&paths[2]);
    let range = (first(&paths[2]), first(&paths[3]) - 1);
    check(&files, LAST, &[range], "a seal and the next file");
    files.get_mut(&paths[3]).unwrap()[..4096].fill(0);
    check(&files, LAST, &[range], "and the headers of the file behind that");
}

/// Protects promise 5.
#[test]
fn a_rebuilt_seal_has_the_nonce_that_the_next_file_names() {
    let (sound, paths) = rotated();
    let (at, end, ..) = *frames(&sound[&paths[0]]).last().unwrap();
    let nonce = Seal::decode(&sound[&paths[0]][at + 48..end], 0).unwrap().nonce;
    let mut files = sound.clone();
    files.get_mut(&paths[0]).unwrap()[at..end].fill(9);
    let (disk, _) = check(&files, LAST, &[], "a seal");
    let bytes = disk.read_file(&paths[0]).unwrap();
    let (at, end, ..) = *frames(&bytes).last().unwrap();
    assert_eq!(Seal::decode(&bytes[at + 48..end], 0).unwrap().nonce, nonce);
    assert_eq!(disk.read_file(&paths[1]), sound.get(&paths[1]).cloned());
}

fn promise(files: &mut Files, number: u64) {
    let mut durable = Durable::decode(&files["DURABLE"]).unwrap();
    durable.frame = Frame(number);
    files.insert("DURABLE".into(), durable.encode().to_vec());
}

/// Protects promise 3.
#[test]
fn numbers_go_on_past_every_promise() {
    let (sound, paths) = rotated();
    let mut files = sound.clone();
    promise(&mut files, 50);
    check(&files, 50, &[(41, 50)], "DURABLE above the end");
    // The last files are gone, so the promise is above the seal of what is the last one now.
    files.remove(&paths[paths.len() - 1]);
    check(&files, 50, &[(first(&paths[paths.len() - 1]), 50)], "and the last file gone");
    for path in &paths {
        files.remove(path);
    }
    check(&files, 50, &[(1, 50)], "every file gone");
    files.remove("DURABLE");
    assert!(matches!(repair(&disk_of(&files)), Err(Error::NoSuchStore { .. })));
    // Without DURABLE the frames promise: all but the last one.
    let mut files = sound;
    files.remove("DURABLE");
    let path = paths.last().unwrap();
    let all = frames(&files[path]);
    let before_last = all[all.len() - 3];
    flip(&mut files, path, before_last.0 + 10);
    check(&files, LAST, &[(LAST - 1, LAST - 1)], "a promise of a frame");
}

#[test]
fn a_file_under_another_name_gets_its_own_and_a_second_copy_is_taken_out() {
    let (sound, paths) = rotated();
    let mut swapped = sound.clone();
    swapped.insert(paths[1].clone(), sound[&paths[2]].clone());
    swapped.insert(paths[2].clone(), sound[&paths[1]].clone());
    let other = segment(first(&paths[1]) + 1);
    let mut renamed = sound.clone();
    let bytes = renamed.remove(&paths[1]).unwrap();
    renamed.insert(other.clone(), bytes.clone());
    let mut doubled = sound.clone();
    doubled.insert(other.clone(), bytes);
    for (files, context) in [(swapped, "swapped"), (renamed, "renamed"), (doubled, "doubled")] {
        let (disk, _) = check(&files, LAST, &[], context);
        assert!(disk.read_file(&other).is_none(), "{context}");
    }
}

#[test]
fn an_unclean_end_is_left_to_opening_unless_its_file_is_rebuilt() {
    let (sound, paths) = rotated();
    let path = paths.last().unwrap();
    let end = frames(&sound[path]).last().unwrap().1;
    let mut files = sound.clone();
    files.get_mut(path).unwrap()[end..end + 33].fill(3);
    let hurt = frames(&sound[&paths[0]])[1].0 + 20;
    flip(&mut files, &paths[0], hurt);
    let disk = disk_of(&files);
    let repaired = repair(&disk).unwrap();
    assert_eq!(disk.read_file(path), files.get(path).cloned());
    assert_eq!(ranges(&repaired.lost), [(2, 2)]);
    let writing = open(&(Arc::new(disk) as Arc<dyn Disk>), SMALL).unwrap();
    assert_eq!(writing.recovery.cut.unwrap().len_bytes, 33);
    let mut files = sound.clone();
    files.get_mut(path).unwrap()[end..end + 33].fill(3);
    let (at, _, _, number) = frames(&sound[path])[1];
    flip(&mut files, path, at + 20);
    let (_, repaired) = check(&files, LAST, &[(number, number)], "both in one file");
    assert_eq!(repaired.rewritten[0].cut_bytes, 33);
}

#[test]
fn an_intent_is_finished_first_and_one_that_does_not_check_out_is_set_aside() {
    let (sound, paths) = rotated();
    let mut files = sound.clone();
    files.insert("INTENT".into(), b"no intent".to_vec());
    let (disk, repaired) = check(&files, LAST, &[], "a broken intent");
    assert_eq!((repaired.rewritten.len(), repaired.rewritten[0].file.as_str()), (1, "INTENT"));
    assert_eq!(disk.read_file(&paths[0]), sound.get(&paths[0]).cloned());
    let header = SegmentHeader::decode(&sound[&paths[0]], 0).unwrap();
    let change = Move {
        temporary: "1.0.tmp".into(),
        target: paths[0].trim_start_matches("log/").into(),
        salt: header.salt,
    };
    let intent = Intent { store: header.store, id: 1, moves: vec![change], drops: vec![] };
    let mut files = sound.clone();
    files.insert("log/1.0.tmp".into(), files[&paths[0]].clone());
    files.insert("INTENT".into(), intent.encode().unwrap());
    flip(&mut files, &paths[0], 5000);
    let disk = disk_of(&files);
    let repaired = repair(&disk).unwrap();
    assert!(repaired.finished_intent && repaired.damage.is_empty(), "{repaired:?}");
    assert_eq!(disk.read_file(&paths[0]), sound.get(&paths[0]).cloned());
}

#[test]
fn a_file_of_another_store_is_not_ours() {
    let (sound, paths) = rotated();
    let (other, _) = rotated();
    let mut files = sound.clone();
    files.insert(paths[1].clone(), other[&paths[1]].clone());
    check(&files, LAST, &[(first(&paths[1]), first(&paths[2]) - 1)], "a foreign file");
    let id = |files: &Files| SegmentHeader::decode(&files[&paths[0]], 0).unwrap().store;
    assert!(id(&sound) != id(&other) && id(&sound) != StoreId::default());
}

#[test]
fn an_intent_of_another_store_is_damage_and_nothing_of_it_is_carried_out() {
    let (sound, paths) = rotated();
    let drop = |path: &String| mnemolog::codec::intent::Drop {
        directory: "log".into(),
        name: path.trim_start_matches("log/").into(),
    };
    let store = mnemolog::codec::segment::StoreId([9; 16]);
    let intent = Intent { store, id: 1, moves: vec![], drops: paths.iter().map(drop).collect() };
    let mut files = sound.clone();
    files.insert("INTENT".into(), intent.encode().unwrap());
    let disk: Arc<dyn Disk> = Arc::new(disk_of(&files));
    assert!(matches!(open(&disk, SMALL), Err(mnemolog::Error::Damaged(_))));
    assert!(!verify(&*disk).unwrap().is_whole());
    let (_, repaired) = check(&files, LAST, &[], "a foreign intent");
    assert_eq!((repaired.rewritten.len(), repaired.rewritten[0].file.as_str()), (1, "INTENT"));
}
