//! Backups of a log that only grew: what is new is copied, once, into the file that is there.

use mnemolog::disk::{Disk as _, MemoryDisk};
use mnemolog::{Frame, log};

use super::{check, options, reader, write};
use crate::model::Rng;
use crate::support::{open, shared};

const FIRST: &str = "log/00000000000000000001.seg";

#[test]
fn a_backup_of_a_file_that_grew_copies_what_is_new_into_the_same_file() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = options().segment_bytes(4 << 20).open_on(shared(&disk)).expect("opens");
    write(&store, &mut Rng::new(1), 50);
    let made = store.backup_on(&shared(&target)).expect("backed up");
    assert_eq!((made.copied_files, made.copied_bytes), (1, store.log_size().used));
    let file = target.id(FIRST).expect("there");
    for round in 0..6 {
        let used = store.log_size().used;
        write(&store, &mut Rng::new(2 + round), 1 + 50 * round);
        let made = store.backup_on(&shared(&target)).expect("backed up");
        let new = store.log_size().used - used;
        assert_eq!((made.copied_files, made.copied_bytes), (1, new), "round {round}");
        assert_eq!(target.id(FIRST).ok(), Some(file), "round {round}: it is the same file");
        check(&store, &target, made.frame, &format!("round {round}"));
    }
    let made = store.backup_on(&shared(&target)).expect("backed up");
    assert_eq!((made.copied_files, made.copied_bytes), (0, 0), "nothing is new");
}

#[test]
fn every_byte_of_a_log_is_copied_once_also_where_a_file_was_sealed_and_the_next_begun() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let (mut store, mut rng, mut copied) = (open(&disk), Rng::new(3), 0);
    for round in 0..150 {
        write(&store, &mut rng, 1 + round % 4);
        if round % 50 == 49 {
            // Its close marker comes along with the next frame.
            drop(store);
            store = open(&disk);
        }
        let made = store.backup_on(&shared(&target)).expect("backed up");
        copied += made.copied_bytes;
        assert_eq!((made.bytes, made.replaced_files), (copied, 0), "round {round}");
    }
    assert!(store.log_size().segments > 4);
    check(&store, &target, store.appended(), "at the end");
}

#[test]
fn a_copy_that_a_writer_ended_cleanly_is_built_anew() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = open(&disk);
    write(&store, &mut Rng::new(1), 20);
    store.backup_on(&shared(&target)).expect("backed up");
    let restored = open(&target);
    restored.close().expect("closes");
    // A marker of its own stands behind the last frame, and the store has none there.
    write(&store, &mut Rng::new(2), 2);
    let made = store.backup_on(&shared(&target)).expect("backed up");
    assert_eq!(made.copied_bytes, made.bytes);
    check(&store, &target, Frame(22), "it was opened and closed");
}

#[test]
fn a_copy_whose_promise_is_gone_is_built_anew() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = open(&disk);
    write(&store, &mut Rng::new(1), 20);
    store.backup_on(&shared(&target)).expect("backed up");
    target.remove_file("DURABLE").expect("gone");
    let made = store.backup_on(&shared(&target)).expect("backed up");
    assert_eq!(made.copied_bytes, made.bytes, "nothing else proves what stands in it");
    check(&store, &target, Frame(20), "the promise was gone");
}

#[test]
fn a_reader_of_a_backup_follows_it_while_it_grows() {
    let (disk, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = open(&disk);
    write(&store, &mut Rng::new(1), 5);
    store.backup_on(&shared(&target)).expect("backed up");
    let copy = reader(&target);
    for round in 0..40 {
        write(&store, &mut Rng::new(round), 3);
        let made = store.backup_on(&shared(&target)).expect("backed up");
        copy.refresh().expect("reads");
        assert_eq!((copy.appended(), copy.digest().ok()), (made.frame, store.digest().ok()));
    }
    assert!(log::verify(&target).expect("reads").is_whole());
}
