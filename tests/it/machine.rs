//! The simulated machine: processes that die alone, syncs with a beginning and an end, failures by kind of call,
//! and what a loss of power leaves in space that was never synced.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use mnemolog::disk::{Access, Call, Disk, Fault, File, Fill, MemoryDisk, Tear};

/// A disk with one empty file whose name is durable.
fn with_file(disk: MemoryDisk) -> (MemoryDisk, Arc<dyn File>) {
    disk.write_file("f", b"").unwrap();
    let file = disk.open("f", Access::Write).unwrap();
    (disk, file)
}

fn lose_all(disk: &MemoryDisk) -> Vec<u8> {
    disk.power_loss(&mut |n| n - 1, Tear::Sector);
    disk.read_file("f").unwrap()
}

#[test]
fn a_process_dies_alone_and_its_lock_goes_with_it() {
    let (disk, file) = with_file(MemoryDisk::simulated());
    let other = disk.process();
    let theirs = other.open("f", Access::Write).unwrap();
    let lock = other.lock(Duration::ZERO).unwrap();
    other.stop_at(1);
    theirs.write_at(0, b"whole").unwrap();
    theirs.write_at(5, b" and torn").unwrap_err();
    assert!(!other.is_alive() && disk.is_alive());
    drop(lock);
    assert!(disk.is_locked(), "it stopped holding the lock, and has not ended");
    disk.lock(Duration::ZERO).unwrap_err();
    other.kill_torn(&mut |n| n / 2);
    assert_eq!(disk.read_file("f").unwrap(), b"whole and");
    disk.lock(Duration::ZERO).expect("the lock of a dead process is free");
    file.write_at(0, b"W").expect("the others go on");
    theirs.write_at(0, b"X").expect_err("its descriptors are gone");
    other.open("f", Access::Read).expect("the handle goes on as a new process");
}

#[test]
fn a_loss_of_power_ends_every_process() {
    let (disk, file) = with_file(MemoryDisk::simulated());
    let other = disk.process();
    let _held = other.lock(Duration::ZERO).unwrap();
    disk.crash_at(0);
    file.write_at(0, b"x").unwrap_err();
    other.list("").unwrap_err();
    disk.power_loss(&mut |_| 0, Tear::Sector);
    other.list("").expect_err("a handle of a process that is over");
    disk.lock(Duration::ZERO).expect("nobody holds it any more");
}

#[test]
fn a_sync_does_not_cover_what_was_written_after_it_began() {
    let (disk, file) = with_file(MemoryDisk::simulated());
    file.write_at(0, &[1; 1024]).unwrap();
    let later = file.clone();
    disk.meanwhile(0, move || later.write_at(512, &[2; 1024]).unwrap());
    file.sync_data().unwrap();
    assert_eq!(disk.read_file("f").unwrap()[512..], [2; 1024], "readers see it");
    assert_eq!(lose_all(&disk), [1; 1024]);
}

#[test]
fn a_machine_that_stops_in_the_middle_of_a_sync_has_proved_nothing() {
    let (disk, file) = with_file(MemoryDisk::simulated());
    file.write_at(0, b"unproved").unwrap();
    let (stopping, later) = (disk.clone(), file.clone());
    disk.meanwhile(0, move || {
        stopping.crash_at(0);
        later.write_at(0, b"n").unwrap_err();
    });
    file.sync_data().unwrap_err();
    assert_eq!(lose_all(&disk), b"");
}

#[test]
fn a_failed_sync_loses_only_what_was_there_when_it_began() {
    let (disk, file) = with_file(MemoryDisk::simulated());
    file.write_at(0, &[1; 4096]).unwrap();
    file.sync_data().unwrap();
    file.write_at(0, &[2; 512]).unwrap();
    let later = file.clone();
    disk.fail_kind(Call::Sync, 0, Fault::SyncLost);
    disk.meanwhile(0, move || later.write_at(512, &[3; 512]).unwrap());
    file.sync_data().unwrap_err();
    assert_eq!(disk.fired(), [(Call::Sync, Fault::SyncLost)]);
    file.sync_data().expect("reported once");
    let found = disk.read_file("f").unwrap();
    assert_eq!((found[0], found[600]), (2, 3), "readers see both");
    let found = lose_all(&disk);
    assert_eq!((found[600], found[2000]), (3, 1), "the page was written to again, and then synced");
}

#[test]
fn clean_pages_that_never_reached_the_disk_can_leave_the_cache() {
    let (disk, file) = with_file(MemoryDisk::simulated());
    file.write_at(0, b"old").unwrap();
    file.sync_data().unwrap();
    file.write_at(0, b"new").unwrap();
    disk.fail_kind(Call::Sync, 0, Fault::SyncLost);
    file.sync_data().unwrap_err();
    assert_eq!(disk.read_file("f").unwrap(), b"new");
    disk.evict(&mut |_| 0);
    assert_eq!(disk.read_file("f").unwrap(), b"old");
}

#[test]
fn a_failure_waits_for_its_kind_of_call() {
    let (disk, file) = with_file(MemoryDisk::new());
    disk.fail_kind(Call::Read, 1, Fault::ShortRead(3));
    disk.fail_kind(Call::Reserve, 0, Fault::Full);
    file.write_at(0, b"abcdef").unwrap();
    let mut found = *b"------";
    file.read_at(0, &mut found).unwrap();
    assert_eq!(file.allocate(100).unwrap_err().kind(), ErrorKind::StorageFull);
    found = *b"------";
    file.read_at(0, &mut found).unwrap_err();
    assert_eq!(&found, b"abc---");
    assert_eq!(disk.fired(), [(Call::Reserve, Fault::Full), (Call::Read, Fault::ShortRead(3))]);
    file.allocate(100).unwrap();
    assert_eq!(disk.fired(), []);
}

#[test]
fn space_that_was_not_synced_may_hold_anything() {
    for (fill, found) in [(Fill::Zeros, 0), (Fill::Garbage, 0), (Fill::Stale, 7)] {
        let (disk, file) = with_file(MemoryDisk::simulated());
        disk.write_file("older", &[7; 4096]).unwrap();
        disk.remove("older").unwrap();
        file.write_at(0, &[1; 512]).unwrap();
        file.sync_data().unwrap();
        file.allocate(2048).unwrap();
        file.write_at(1024, &[2; 512]).unwrap();
        // The removal and the new size are kept, the newest leftovers come up, and nothing that was written.
        let mut choices = [0, 0, if fill == Fill::Stale { 1 } else { 99 }].into_iter();
        disk.power_loss_filling(&mut |_| choices.next().unwrap_or(1), Tear::Sector, fill);
        let bytes = disk.read_file("f").unwrap();
        assert_eq!((bytes.len(), bytes[511]), (2048, 1), "{fill:?}: what was synced stays");
        match fill {
            Fill::Garbage => assert!(bytes[512..].iter().any(|byte| *byte != 0)),
            _ => assert_eq!(bytes[512..1024], [found; 512], "{fill:?}"),
        }
    }
}

#[test]
fn a_torn_sector_may_mix_two_versions_byte_by_byte() {
    let (disk, file) = with_file(MemoryDisk::simulated());
    file.write_at(0, &[1; 512]).unwrap();
    file.sync_data().unwrap();
    file.write_at(0, &[2; 512]).unwrap();
    let mut first = true;
    // Of the sector the newest version, then every other byte of the one before.
    disk.power_loss(
        &mut |n| if n == 256 { 0b0101_0101 } else { u64::from(!std::mem::take(&mut first)) },
        Tear::Mix,
    );
    let bytes = disk.read_file("f").unwrap();
    assert_eq!(bytes[..4], [1, 2, 1, 2]);
    assert_eq!(bytes.len(), 512);
}

#[test]
fn a_seeded_disk_gives_the_same_numbers_again() {
    let draw = |seed| {
        let (disk, mut bytes) = (MemoryDisk::seeded(seed), [0; 20]);
        disk.random(&mut bytes).unwrap();
        disk.process().random(&mut bytes[..4]).unwrap();
        bytes
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}
