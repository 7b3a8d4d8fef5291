//! Disks that are full or fail: what is refused and goes on, and what stops the writer.

use std::sync::Arc;

use mnemolog::disk::{Disk, Fault, MemoryDisk};
use mnemolog::error::Error;

use super::{SMALL, Writing, keys, memory, open, read, segment};

fn used(disk: &MemoryDisk) -> u64 {
    disk.files().iter().map(|path| disk.read_file(path).unwrap().len() as u64).sum()
}

/// Appends until something is refused, or to the number given; the keys that were saved.
fn save_until_refused(writing: &Writing, from: usize, last: usize) -> Vec<String> {
    let keys = (from..=last).map(|n| format!("k{n}"));
    keys.take_while(|key| match writing.save(key, 400) {
        Ok(_) => true,
        Err(Error::DiskFull { .. }) => false,
        Err(error) => panic!("{key}: {error}"),
    })
    .collect()
}

#[test]
fn a_disk_that_is_full_at_any_size_refuses_without_poison_and_nothing_is_torn() {
    let mut refused = 0;
    for capacity in (0..72 * 1024).step_by(500) {
        let (disk, shared) = memory();
        disk.set_capacity(Some(capacity));
        let writing = match open(&shared, SMALL) {
            Ok(writing) => writing,
            Err(Error::DiskFull { .. }) => {
                disk.set_capacity(None);
                open(&shared, SMALL).unwrap()
            }
            Err(error) => panic!("capacity {capacity}: {error}"),
        };
        let mut saved = save_until_refused(&writing, 1, 50);
        let files: Vec<_> = disk.files().iter().map(|path| disk.read_file(path)).collect();
        refused += usize::from(saved.len() < 50);
        if saved.len() < 50 {
            // Again and again: a refusal leaves nothing behind, and a reader finds a clean log.
            for _ in 0..3 {
                assert!(matches!(writing.save("refused", 400), Err(Error::DiskFull { .. })));
                assert_eq!(disk.files().iter().map(|path| disk.read_file(path)).collect::<Vec<_>>(), files);
            }
            let (opening, list) = read(&shared, SMALL).unwrap();
            assert_eq!(keys(&list), saved, "capacity {capacity}");
            assert!(opening.recovery.cut.is_none() && opening.recovery.damage.is_none());
        }
        disk.set_capacity(None);
        let more = save_until_refused(&writing, saved.len() + 1, 60);
        saved.extend(more);
        assert_eq!(saved.len(), 60, "capacity {capacity}: what follows works");
        writing.log.close().unwrap();
        assert_eq!(keys(&open(&shared, SMALL).unwrap().found), saved);
    }
    assert!(refused > 50);
}

#[test]
fn ending_a_file_needs_no_space_that_was_not_reserved_with_the_last_frame() {
    // Every length of a body modulo the alignment, and with a marker of an earlier close before the seal.
    for body_bytes in 20_000..20_016 {
        for reopen in [false, true] {
            let (disk, shared) = memory();
            let mut writing = open(&shared, SMALL).unwrap();
            writing.save("k1", body_bytes).unwrap();
            if reopen {
                writing.log.close().unwrap();
                writing = open(&shared, SMALL).unwrap();
            }
            disk.set_capacity(Some(used(&disk)));
            // There is no room for the next file; the seal is written all the same.
            assert!(matches!(writing.append("k2", 10), Err(Error::DiskFull { .. })));
            let frames = super::frames_of(&disk.read_file(&segment(1)).unwrap());
            let kind = frames.last().unwrap().1;
            assert_eq!(kind, mnemolog::codec::frame::FrameKind::Seal, "body {body_bytes}, reopen {reopen}");
        }
    }
}

/// A history that rotates, until something fails: the keys that were appended, and how many were acknowledged.
fn history(shared: &Arc<dyn Disk>) -> (Vec<String>, usize, Option<Error>) {
    let (mut appended, mut saved) = (Vec::new(), 0);
    let failed = 'failed: {
        let writing = match open(shared, SMALL) {
            Ok(writing) => writing,
            Err(error) => break 'failed Some(error),
        };
        for n in 1..=16 {
            let key = format!("k{n}");
            match writing.append(&key, 900) {
                Ok(done) => {
                    appended.push(key);
                    if let Err(error) = writing.log.wait_durable(done.frame) {
                        let after = writing.append("after", 10).unwrap_err();
                        assert!(matches!(after, Error::Poisoned { .. }), "{after}");
                        break 'failed Some(error);
                    }
                    saved = n;
                }
                Err(error) => {
                    if matches!(error, Error::OutcomeUnknown { .. }) {
                        appended.push(key);
                    }
                    let stopped = matches!(error, Error::OutcomeUnknown { .. } | Error::Poisoned { .. });
                    match writing.append("after", 10) {
                        Ok(_) => appended.push("after".to_owned()),
                        Err(after) => {
                            assert!(matches!(after, Error::Poisoned { .. }), "{error}, then {after}")
                        }
                    }
                    assert_eq!(stopped, appended.last().is_none_or(|last| last != "after"), "{error}");
                    break 'failed Some(error);
                }
            }
        }
        writing.log.close().err()
    };
    (appended, saved, failed)
}

#[test]
fn a_call_that_fails_stops_the_writer_and_the_next_opening_has_all_that_was_acknowledged() {
    let faults = [Fault::Io, Fault::SyncLost, Fault::ShortWrite(30), Fault::ShortWrite(700), Fault::Full];
    for fault in faults {
        for call in 0.. {
            let (disk, shared) = memory();
            disk.fail_at(call, fault);
            let (appended, saved, failed) = history(&shared);
            let done = failed.is_none() && saved == 16;
            disk.clear_faults();
            let writing = open(&shared, SMALL).unwrap_or_else(|e| panic!("{fault:?} at {call}: {e}"));
            let found = keys(&writing.found);
            assert_eq!(found, appended[..found.len()], "{fault:?} at {call}");
            assert!(found.len() >= saved, "{fault:?} at {call}: {failed:?}");
            writing.save("next", 10).unwrap();
            if done && call > 60 {
                break;
            }
            assert!(call < 400, "a history takes fewer calls");
        }
    }
}

#[test]
fn a_name_that_may_not_be_durable_stops_the_writer_even_when_the_disk_says_full() {
    let mut met = Vec::new();
    for call in 0..60 {
        let (disk, shared) = memory();
        let writing = open(&shared, SMALL).unwrap();
        writing.fill(2, 1500);
        disk.fail_at(call, Fault::Full);
        let refused = writing.save("k3", 1500);
        let named = disk.read_file(&segment(3)).is_some_and(|bytes| super::frames_of(&bytes).is_empty());
        if named && let Err(error) = refused {
            // The sync of the directory failed, or the write that came after it.
            met.push(matches!(error, Error::OutcomeUnknown { .. }));
            assert!(matches!(writing.append("k3", 10), Err(Error::Poisoned { .. })), "{error}");
        }
    }
    assert_eq!(met, [false, true]);
}
