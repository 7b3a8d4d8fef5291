//! Backups: the store as of a frame in another directory, whatever goes on beside them and whatever the disk does.

mod beside;
mod crash;
mod growth;

use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::error::BackupRefusal;
use mnemolog::{BackedUp, Durability, Error, Frame, Options, Store, Time, Writers, log};

use crate::model::Rng;
use crate::support::{dumped, open, shared};
use crate::tail::{options, reader, write};

/// Holds a backup against the store that it is of.
fn check(store: &Store, disk: &MemoryDisk, frame: Frame, context: &str) {
    let report = log::verify(disk).expect("reads");
    assert!(report.is_whole() && report.findings.is_empty(), "{context}: {:?}", report.findings);
    let copy = reader(disk);
    assert_eq!((copy.appended(), copy.durable(), copy.id()), (frame, frame, store.id()), "{context}");
    let past = store.at(frame).expect("there").digest().expect("readable");
    assert_eq!(copy.digest().ok(), Some(past), "{context}");
    assert_eq!(dumped(&copy, frame), dumped(store, frame), "{context}");
}

fn refusal(result: mnemolog::Result<BackedUp>) -> BackupRefusal {
    match result {
        Err(Error::BackupRefused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn backups_at_random_moments_open_to_the_state_of_their_frame() {
    for seed in 0..30 {
        let (disk, target, mut rng) = (MemoryDisk::new(), MemoryDisk::new(), Rng::new(seed));
        let writers = if seed % 2 == 0 { Writers::One } else { Writers::Many };
        let store = options().writers(writers).open_on(shared(&disk)).expect("opens");
        let mut copied = 0;
        for round in 0..8 {
            write(&store, &mut rng, 1 + 40 * (round % 3));
            let made = store.backup_on(&shared(&target)).expect("backed up");
            assert_eq!(made.frame, store.appended());
            check(&store, &target, made.frame, &format!("seed {seed}, round {round}"));
            copied += made.copied_files;
            let again = store.backup_on(&shared(&target)).expect("backed up");
            assert_eq!((again.copied_files, again.copied_bytes, again.bytes), (0, 0, made.bytes));
        }
        let files = store.log_size().segments;
        assert!(files > 3 && copied <= files + 16, "{copied} copies of {files} files");
    }
}

#[test]
fn a_backup_opens_as_the_store_and_goes_on() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = open(&disk);
    write(&store, &mut Rng::new(1), 90);
    store.backup_on(&shared(&target)).expect("backed up");
    let restored = open(&target);
    assert_eq!((restored.id(), restored.digest().ok()), (store.id(), store.digest().ok()));
    assert!(restored.recovery().cut.is_none());
    drop(restored);
    // Opened and closed, it is still a backup: only frames count.
    write(&store, &mut Rng::new(2), 5);
    let made = store.backup_on(&shared(&target)).expect("backed up");
    check(&store, &target, made.frame, "after it was opened");
}

#[test]
fn the_policy_of_the_store_comes_along() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = open(&disk);
    for policy in [Some(mnemolog::Retention::Frames(9)), Some(mnemolog::Retention::Frames(3)), None] {
        store.set_retention(policy).expect("set");
        store.backup_on(&shared(&target)).expect("backed up");
        assert_eq!(reader(&target).retention().expect("reads"), policy);
    }
}

#[test]
fn a_compacted_store_has_a_compacted_backup() {
    for seed in 0..5 {
        let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
        let store = open(&disk);
        write(&store, &mut Rng::new(seed), 90);
        store.backup_on(&shared(&target)).expect("backed up");
        store.compact(Frame(40), false).expect("compacted");
        write(&store, &mut Rng::new(seed + 9), 3);
        let made = store.backup_on(&shared(&target)).expect("backed up");
        assert!(made.replaced_files > 0);
        check(&store, &target, Frame(93), &format!("seed {seed}"));
        let gone = reader(&target).at(Frame(20)).map(|_| ());
        assert!(matches!(gone, Err(Error::Compacted { .. })), "{gone:?}");
    }
}

#[test]
fn an_empty_store_can_be_backed_up() {
    let target = MemoryDisk::new();
    let store = open(&MemoryDisk::new());
    assert_eq!(store.backup_on(&shared(&target)).expect("backed up").frame, Frame::ZERO);
    check(&store, &target, Frame::ZERO, "empty");
    write(&store, &mut Rng::new(1), 3);
    store.backup_on(&shared(&target)).expect("backed up");
    check(&store, &target, Frame(3), "three frames");
}

#[test]
fn a_backup_that_was_written_to_is_refused_and_so_is_what_it_came_from() {
    for (here, there) in [(1, 1), (30, 1), (120, 90)] {
        let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
        let store = open(&disk);
        write(&store, &mut Rng::new(1), 50);
        store.backup_on(&shared(&target)).expect("backed up");
        let restored = open(&target);
        write(&restored, &mut Rng::new(2), there);
        write(&store, &mut Rng::new(3), here);
        drop(restored);
        let before = target.files().into_iter().map(|name| target.read_file(&name)).collect::<Vec<_>>();
        let refused = refusal(store.backup_on(&shared(&target)));
        assert!(
            matches!(refused, BackupRefusal::Diverged { frame } if frame == Frame(50 + there)),
            "{refused}"
        );
        let after = target.files().into_iter().map(|name| target.read_file(&name)).collect::<Vec<_>>();
        assert!(before == after, "nothing in it was changed");
        // Also once the store itself cannot say any more what it held.
        store.compact(Frame(50 + here), false).expect("compacted");
        assert!(
            matches!(refusal(store.backup_on(&shared(&target))), BackupRefusal::Diverged { .. }),
            "{here}"
        );
        let after = target.files().into_iter().map(|name| target.read_file(&name)).collect::<Vec<_>>();
        assert!(before == after, "nothing in it was changed");
    }
}

#[test]
fn a_backup_that_was_only_read_is_brought_up_to_date_behind_a_compaction_of_all_that_it_holds() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = open(&disk);
    write(&store, &mut Rng::new(1), 50);
    store.backup_on(&shared(&target)).expect("backed up");
    drop(open(&target));
    write(&store, &mut Rng::new(3), 20);
    store.compact(Frame(70), false).expect("compacted");
    store.backup_on(&shared(&target)).expect("brought up to date");
    assert_eq!(open(&target).digest().expect("reads"), store.digest().expect("reads"));
}

#[test]
fn a_target_that_is_newer_another_store_or_the_store_itself_is_refused() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = open(&disk);
    write(&store, &mut Rng::new(1), 20);
    store.backup_on(&shared(&target)).expect("backed up");
    assert_eq!(refusal(store.backup_on(&shared(&disk))), BackupRefusal::Itself);
    let restored = open(&target);
    write(&restored, &mut Rng::new(2), 7);
    drop(restored);
    let newer = BackupRefusal::Newer { found: Frame(27), last: Frame(20) };
    assert_eq!(refusal(store.backup_on(&shared(&target))), newer);
    let other = MemoryDisk::new();
    write(&open(&other), &mut Rng::new(3), 4);
    assert_eq!(refusal(store.backup_on(&shared(&other))), BackupRefusal::OtherStore);
    assert_eq!(refusal(open(&other).backup_on(&shared(&target))), BackupRefusal::OtherStore);
    let held = open(&target);
    let quick = options().lock_wait(std::time::Duration::ZERO);
    let again = quick.open_read_only_on(shared(&target)).expect("opens");
    assert_eq!(refusal(again.backup_on(&shared(&target))), BackupRefusal::Itself);
    drop(held);
}

#[test]
fn directories_are_taken_and_refused_as_stores_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let store = Store::open(path("store")).expect("created");
    write(&store, &mut Rng::new(1), 10);
    for to in ["store", "store/log", "store/backup"] {
        assert_eq!(refusal(store.backup(path(to))), BackupRefusal::Itself, "{to}");
    }
    std::fs::create_dir(path("full")).expect("a directory");
    std::fs::write(path("full/letter"), "to someone").expect("a file");
    assert!(matches!(store.backup(path("full")), Err(Error::NotAStore { found, .. }) if found == "letter"));
    let made = store.backup(path("deep/er/new")).expect("backed up");
    assert_eq!((made.frame, made.copied_files), (Frame(10), 1));
    let held = Options::new().open(path("deep/er/new")).expect("opens");
    write(&store, &mut Rng::new(1), 1);
    let beside = Options::new().lock_wait(std::time::Duration::ZERO);
    let beside = beside.open_read_only(path("store")).expect("opens");
    assert!(matches!(beside.backup(path("deep/er/new")), Err(Error::Locked { .. })));
    drop(held);
    assert_eq!(
        beside.backup(path("deep/er/new")).expect("backed up").frame,
        Frame(11),
        "a reader backs up too"
    );
}

#[test]
fn what_is_only_in_memory_of_the_system_is_made_durable_first() {
    let (disk, target) = (MemoryDisk::simulated(), MemoryDisk::new());
    let store = options().durability(Durability::Os).open_on(shared(&disk)).expect("opens");
    write(&store, &mut Rng::new(1), 10);
    assert_eq!(store.durable(), Frame::ZERO);
    assert_eq!(store.backup_on(&shared(&target)).expect("backed up").frame, Frame(10));
    assert_eq!(store.durable(), Frame(10));
}

#[test]
fn a_file_that_was_written_anew_replaces_the_old_one_and_what_repeats_it() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = open(&disk);
    write(&store, &mut Rng::new(4), 100);
    store.backup_on(&shared(&target)).expect("backed up");
    open(&target).checkpoint().expect("a checkpoint");
    target.create_dir("quarantine").expect("a directory");
    target.write_file("quarantine/old", b"bytes that were cut").expect("a file");
    let beside = |disk: &MemoryDisk| {
        let names = disk.files();
        names
            .iter()
            .filter(|name| name.starts_with("checkpoints/") || name.starts_with("quarantine/"))
            .count()
    };
    assert!(beside(&target) >= 2, "{:?}", target.files());
    let kept = store.backup_on(&shared(&target)).expect("backed up");
    assert!(kept.replaced_files == 0 && beside(&target) >= 2, "nothing went, so nothing is forgotten");
    store.close().expect("closes");
    let name = disk.files().into_iter().find(|name| name.ends_with("1.seg")).expect("a first file");
    disk.flip(&name, 6000, 3).expect("a byte of it");
    log::repair(&shared(&disk), std::time::Duration::ZERO, true, Time::ZERO).expect("repaired");
    let store = open(&disk);
    let made = store.backup_on(&shared(&target)).expect("backed up");
    assert!(made.replaced_files > 0);
    assert_eq!(beside(&target), 0, "{:?}", target.files());
    assert_eq!(target.read_file(&name), disk.read_file(&name), "the new file is there");
    assert_eq!(dumped(&reader(&target), made.frame), dumped(&store, made.frame));
}

#[test]
fn a_file_that_is_gone_from_a_backup_or_has_no_header_is_copied_again() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = open(&disk);
    write(&store, &mut Rng::new(4), 100);
    store.backup_on(&shared(&target)).expect("backed up");
    let first = target.files().into_iter().find(|name| name.ends_with("1.seg")).expect("a first file");
    target.remove_file(&first).expect("gone");
    assert_eq!(store.backup_on(&shared(&target)).expect("backed up").copied_files, 1);
    check(&store, &target, store.appended(), "a file was gone");
    target.overwrite(&first, 0, &[0; 4096]).expect("zeros");
    assert_eq!(store.backup_on(&shared(&target)).expect("backed up").copied_files, 1);
    check(&store, &target, store.appended(), "a header was gone");
}

#[test]
fn a_frame_that_rotted_is_not_carried_into_the_backup() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = open(&disk);
    write(&store, &mut Rng::new(5), 20);
    store.backup_on(&shared(&target)).expect("backed up");
    let before = store.appended();
    write(&store, &mut Rng::new(6), 20);
    let name = disk.files().into_iter().rfind(|name| name.ends_with(".seg")).expect("a file");
    disk.flip(&name, 4200, 1).expect("a byte of it");
    let refused = store.backup_on(&shared(&target)).expect_err("it rotted");
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    assert_eq!(reader(&target).appended(), before, "the backup is what it was");
}
