//! Backups whose target crashes, fills up or fails: the one that was there, or the new one.

use mnemolog::disk::{Disk as _, Fault, MemoryDisk};
use mnemolog::{Error, Frame, Store, log};

use super::{options, reader, write};
use crate::model::Rng;
use crate::support::{crash_at_every_call, dumped, open, shared};

/// A store, a backup of it at a frame, and the frames since; `seed` 0 has no backup yet.
fn begun(first: bool) -> (Store, MemoryDisk, Frame) {
    let store = open(&MemoryDisk::new());
    write(&store, &mut Rng::new(11), 60);
    let target = MemoryDisk::simulated();
    let before =
        if first { Frame::ZERO } else { store.backup_on(&shared(&target)).expect("backed up").frame };
    write(&store, &mut Rng::new(12), 60);
    (store, target, before)
}

/// What is there opens to the old frame or the new one, for reading as for writing, and takes the next backup.
/// Answers whether it is the new one.
fn old_or_new(store: &Store, target: &MemoryDisk, before: Frame, context: &str) -> bool {
    let shown = match options().open_read_only_on(shared(target)) {
        Ok(copy) => {
            assert!(copy.recovery().damage.is_none(), "{context}: {:?}", copy.recovery());
            Some(copy.appended())
        }
        Err(Error::NoSuchStore { .. }) => None,
        Err(e) => panic!("{context}: {e}"),
    };
    let frame = shown.unwrap_or_default();
    assert!(frame == before || frame == store.appended(), "{context}: frame {frame}");
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
    frame == store.appended()
}

#[test]
fn a_crash_at_any_call_leaves_the_old_backup_or_the_new_one() {
    for first in [true, false] {
        let outcomes = crash_at_every_call(
            "a backup",
            |_| false,
            |crash| {
                let (store, disk, before) = begun(first);
                disk.crash_at(crash.call);
                let done = store.backup_on(&shared(&disk)).is_ok();
                crash.happens(&disk);
                (done, old_or_new(&store, &disk, before, &format!("{first}, {crash:?}")))
            },
        );
        assert!(outcomes.calls > 20 && outcomes.before > 20 && outcomes.after > 6, "{outcomes:?}");
    }
}

#[test]
fn a_full_disk_or_a_failed_call_leaves_the_old_backup() {
    for first in [true, false] {
        let mut refused = 0;
        for room in (0_u64..).step_by(8192) {
            let (store, disk, before) = begun(first);
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
            assert!(!old_or_new(&store, &disk, before, &format!("{room} bytes")), "{room} bytes");
        }
        assert!(refused > 3, "{refused} sizes were too small");
        for call in 0.. {
            let (store, disk, before) = begun(first);
            disk.fail_at(call, Fault::Io);
            let result = store.backup_on(&shared(&disk));
            let failed = !disk.fired().is_empty();
            disk.clear_faults();
            if let Err(e) = &result {
                assert!(matches!(e, Error::Io { .. }), "call {call}: {e}");
            }
            let is_new = old_or_new(&store, &disk, before, &format!("call {call}"));
            assert!(is_new || result.is_err(), "call {call}");
            if !failed {
                break;
            }
        }
    }
}
