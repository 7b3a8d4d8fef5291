//! Backups whose target crashes, fills up or fails: the one that was there, the new one, or a whole one between them.

use mnemolog::disk::{Disk as _, Fault, MemoryDisk, Tear};
use mnemolog::{Error, Frame, Store, log};

use super::{options, reader, write};
use crate::model::Rng;
use crate::support::{crash_at_every_call, dumped, open, shared};

/// What there is to do for a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// All of it.
    First,
    /// The rest of a file, its seal, and files behind it.
    Files,
    /// The rest of a file, which takes more than one piece.
    Growth,
}

const DUE: [Due; 3] = [Due::First, Due::Files, Due::Growth];

/// A store, a backup of it at a frame, and the frames since.
fn begun(due: Due) -> (Store, MemoryDisk, Frame) {
    let options = if due == Due::Growth { options().segment_bytes(8 << 20) } else { options() };
    let store = options.open_on(shared(&MemoryDisk::new())).expect("opens");
    write(&store, &mut Rng::new(11), 60);
    let target = MemoryDisk::simulated();
    let before = match due {
        Due::First => Frame::ZERO,
        _ => store.backup_on(&shared(&target)).expect("backed up").frame,
    };
    write(&store, &mut Rng::new(12), 60);
    if due == Due::Growth {
        let notes = store.workspace("core").expect("a path").notes();
        let save = |n: u64| notes.remember(&format!("large/{n}"), "", &"0123456789".repeat(11_000));
        (0..6).for_each(|n| assert!(save(n).is_ok()));
    }
    (store, target, before)
}

/// What is there opens to the old frame, the new one or one between them, for reading as for writing, and takes the next
/// backup. Answers the frame.
fn old_or_newer(store: &Store, target: &MemoryDisk, before: Frame, context: &str) -> Frame {
    let shown = match options().open_read_only_on(shared(target)) {
        Ok(copy) => {
            assert!(copy.recovery().damage.is_none(), "{context}: {:?}", copy.recovery());
            Some(copy.appended())
        }
        Err(Error::NoSuchStore { .. }) => None,
        Err(e) => panic!("{context}: {e}"),
    };
    let frame = shown.unwrap_or_default();
    assert!(frame >= before && frame <= store.appended(), "{context}: frame {frame}");
    assert!(shown.is_some() || before == Frame::ZERO, "{context}: the backup is gone");
    if let Some(frame) = shown {
        let copy = open(target);
        let past = store.at(frame).and_then(|past| past.digest()).expect("there");
        assert_eq!((copy.appended(), copy.digest().ok()), (frame, Some(past)), "{context}");
        assert_eq!(dumped(&copy, frame), dumped(store, frame), "{context}");
    }
    store.backup_on(&shared(target)).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert!(log::verify(target).expect("reads").is_whole(), "{context}");
    assert_eq!(reader(target).appended(), store.appended(), "{context}");
    frame
}

#[test]
fn a_crash_at_any_call_leaves_the_old_backup_the_new_one_or_one_between() {
    for due in DUE {
        let outcomes = crash_at_every_call(
            "a backup",
            |_| false,
            |crash| {
                let (store, disk, before) = begun(due);
                disk.crash_at(crash.call);
                let done = store.backup_on(&shared(&disk)).is_ok();
                crash.happens(&disk);
                let frame = old_or_newer(&store, &disk, before, &format!("{due:?}, {crash:?}"));
                (done, frame == store.appended())
            },
        );
        assert!(outcomes.calls > 20 && outcomes.before > 20 && outcomes.after > 6, "{due:?}: {outcomes:?}");
    }
}

#[test]
fn a_backup_after_one_that_died_rests_on_nothing_that_is_in_the_cache_alone() {
    for due in DUE {
        for call in 0.. {
            let (store, disk, before) = begun(due);
            disk.crash_at(call);
            let done = store.backup_on(&shared(&disk)).is_ok();
            disk.kill();
            let made = store.backup_on(&shared(&disk)).expect("backed up");
            disk.power_loss(&mut |n| n - 1, Tear::Sector);
            let context = format!("{due:?}, call {call}");
            assert_eq!(old_or_newer(&store, &disk, before.max(made.frame), &context), made.frame);
            if done {
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_or_a_failed_call_leaves_the_old_backup_or_one_between() {
    for due in DUE {
        let mut refused = 0;
        for room in (0_u64..).step_by(8192) {
            let (store, disk, before) = begun(due);
            let names = disk.list("").unwrap_or_default();
            let used: usize =
                disk.files().iter().filter_map(|name| disk.read_file(name)).map(|f| f.len()).sum();
            disk.set_capacity(Some(used as u64 + room));
            match store.backup_on(&shared(&disk)) {
                Ok(_) => break,
                Err(Error::DiskFull { .. }) => refused += 1,
                Err(e) => panic!("{room} bytes: {e}"),
            }
            assert_eq!(disk.list("").unwrap_or_default(), names, "{room} bytes: nothing is left behind");
            disk.set_capacity(None);
            let frame = old_or_newer(&store, &disk, before, &format!("{due:?}, {room} bytes"));
            // Only the statement of the change comes behind what grew.
            assert!(frame == before || due == Due::Files, "{due:?}, {room} bytes: frame {frame}");
        }
        assert!(refused > 3, "{refused} sizes were too small");
        for call in 0.. {
            let (store, disk, before) = begun(due);
            disk.fail_at(call, Fault::Io);
            let result = store.backup_on(&shared(&disk));
            let failed = !disk.fired().is_empty();
            disk.clear_faults();
            if let Err(e) = &result {
                assert!(matches!(e, Error::Io { .. }), "call {call}: {e}");
            }
            let frame = old_or_newer(&store, &disk, before, &format!("{due:?}, call {call}"));
            assert!(frame == store.appended() || result.is_err(), "{due:?}, call {call}");
            if !failed {
                break;
            }
        }
    }
}
