//! A repair that is interrupted at any call leaves the old damage or the finished repair, and one that the disk
//! refuses changes nothing.

use std::sync::Arc;

use mnemolog::disk::{Disk, Fault, MemoryDisk, Tear};
use mnemolog::error::Error;
use mnemolog::log::verify;

use super::{Files, contents, disk_of, ranges, repair};
use crate::log::{SMALL, frames_of, keys, memory, open};
use crate::model::Rng;

/// A log with damage in its first file, its second file missing, a header of its last file destroyed, and a second
/// copy of its third under another name, which goes; the keys that a repair keeps.
fn hurt() -> (Files, Vec<String>) {
    let (disk, shared) = memory();
    let writing = open(&shared, SMALL).unwrap();
    writing.fill(30, 400);
    writing.log.close().unwrap();
    let mut files = contents(&disk);
    let paths: Vec<String> = files.keys().filter(|path| path.ends_with(".seg")).cloned().collect();
    let first = |path: &str| path[4..24].parse::<u64>().unwrap();
    let (from, to) = (first(&paths[1]), first(&paths[2]));
    let second = frames_of(&files[&paths[0]])[1].0;
    files.get_mut(&paths[0]).unwrap()[second + 50] ^= 1;
    files.remove(&paths[1]);
    let last = paths.last().unwrap();
    files.get_mut(last).unwrap()[..100].fill(1);
    files.insert("log/00000000000000000777.seg".to_owned(), files[&paths[2]].clone());
    let kept = (1..=30).filter(|n| *n != 2 && !(from..to).contains(n)).map(|n| format!("k{n}")).collect();
    (files, kept)
}

/// Everything but temporary files, which any later step removes, and copies that nobody counts on.
fn lasting(disk: &MemoryDisk) -> Files {
    let passing = |path: &str| path.ends_with(".tmp") || path.starts_with("quarantine/");
    contents(disk).into_iter().filter(|(path, _)| !passing(path)).collect()
}

/// Whether each file that a repair rebuilds or takes away stands where it stood, or in quarantine as it was.
fn copies_are_kept(disk: &MemoryDisk, files: &Files) -> bool {
    let now = contents(disk);
    let kept = |bytes: &Vec<u8>| now.iter().any(|(path, b)| path.starts_with("quarantine/") && b == bytes);
    let mut segments = files.iter().filter(|(path, _)| path.ends_with(".seg"));
    segments.all(|(path, bytes)| now.get(path) == Some(bytes) || kept(bytes))
}

fn check_kept(disk: &MemoryDisk, kept: &[String], context: &str) {
    assert!(verify(disk).unwrap().is_whole(), "{context}");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let writing = open(&shared, SMALL).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(keys(&writing.found), kept, "{context}");
    assert_eq!(writing.save("after", 10).unwrap().0, 31, "{context}");
}

/// Protects promises 7 and 10.
#[test]
fn power_lost_at_any_call_leaves_the_damage_or_the_finished_repair() {
    let (files, kept) = hurt();
    let (mut damaged, mut finished, mut call) = (0, 0, 0);
    loop {
        let mut done = true;
        for survivors in 0..5 {
            let context = format!("call {call}, survivors {survivors}");
            let disk = disk_of(&files);
            disk.crash_at(call);
            done &= repair(&disk).is_ok();
            let mut rng = Rng::new(call * 8 + survivors);
            match survivors {
                0 => disk.power_loss(&mut |_| 0, Tear::Sector),
                1 => disk.power_loss(&mut |n| n - 1, Tear::Sector),
                2 => disk.power_loss(&mut |n| rng.below(n), Tear::Sector),
                3 => disk.power_loss(&mut |n| rng.below(n), Tear::Byte),
                _ => disk.kill(),
            }
            let stated = disk.read_file("INTENT").is_some();
            let before = lasting(&disk);
            let whole = verify(&disk).unwrap().is_whole();
            assert!(whole || before == files, "{context}: neither the damage nor the repair");
            assert!(!stated || whole, "{context}: a reader reads through a stated change");
            assert!(!whole || copies_are_kept(&disk, &files), "{context}: a copy is gone");
            if whole && survivors % 2 == 0 {
                // Opening finishes what was stated.
                check_kept(&disk, &kept, &context);
                finished += 1;
                continue;
            }
            // A second crash in the second try, and then a try that ends.
            disk.crash_at(rng.below(60));
            let _ = repair(&disk);
            disk.power_loss(&mut |n| rng.below(n), Tear::Sector);
            let again = repair(&disk).unwrap();
            damaged += u64::from(!again.lost.is_empty());
            check_kept(&disk, &kept, &context);
        }
        if done {
            break;
        }
        call += 1;
    }
    println!("{call} calls: the damage was left {damaged} times, the repair was finished {finished} times");
    assert!(call > 60 && damaged > 50 && finished > 20, "{call} {damaged} {finished}");
}

/// Protects promise 10.
#[test]
fn a_full_disk_or_a_failing_one_at_any_call_changes_nothing_or_all() {
    let (files, kept) = hurt();
    let (mut refused, mut stated) = (0, 0);
    for fault in [Fault::Full, Fault::Io, Fault::ShortWrite(100), Fault::SyncLost] {
        for call in 0.. {
            let context = format!("{fault:?} at call {call}");
            let disk = disk_of(&files);
            disk.fail_at(call, fault);
            let result = repair(&disk);
            disk.clear_faults();
            match result {
                Ok(repaired) => {
                    assert!(!repaired.lost.is_empty(), "{context}");
                    check_kept(&disk, &kept, &context);
                    if disk.calls() < call {
                        break;
                    }
                    continue;
                }
                Err(Error::DiskFull { .. }) => {
                    let stated = disk.read_file("INTENT").is_some();
                    assert!(!stated, "{context}: what is stated was not refused");
                }
                Err(Error::Io { .. }) => {}
                Err(error) => panic!("{context}: {error}"),
            }
            if lasting(&disk) == files {
                refused += 1;
                // Whether a rename that failed was done is unknown, so then nothing is taken away.
                let left = contents(&disk).into_keys().any(|path| !files.contains_key(&path));
                assert!(
                    !left || disk.read_file("INTENT.tmp").is_some(),
                    "{context}: copies or files are left"
                );
                assert!(!repair(&disk).unwrap().lost.is_empty(), "{context}");
            } else {
                // Stated, and the rest was refused: the next one finishes it.
                stated += 1;
                assert!(verify(&disk).unwrap().is_whole(), "{context}");
            }
            check_kept(&disk, &kept, &context);
        }
    }
    println!("refused {refused} times, stated and not finished {stated} times");
    assert!(refused > 100 && stated > 10, "{refused} {stated}");
}

#[test]
fn too_little_space_for_the_copies_or_the_new_files_is_refused_and_nothing_is_changed() {
    let (files, kept) = hurt();
    let used: u64 = files.values().map(|bytes| bytes.len() as u64).sum();
    let mut refused = 0;
    for room in (0..).step_by(2048) {
        let disk = disk_of(&files);
        disk.set_capacity(Some(used + 64 + room));
        match repair(&disk) {
            Err(Error::DiskFull { .. }) => {
                refused += 1;
                assert_eq!(contents(&disk), files, "{room} bytes of room");
            }
            Ok(repaired) => {
                assert_eq!(ranges(&repaired.lost)[0], (2, 2));
                check_kept(&disk, &kept, "room enough");
                break;
            }
            Err(error) => panic!("{room} bytes of room: {error}"),
        }
    }
    assert!(refused > 5, "{refused}");
}
