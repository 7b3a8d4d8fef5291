//! Readers that look while somebody mends what they look at.

use std::sync::Arc;

use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::{Error, Frame, Options, Store};

use super::spy::Spy;

/// A store of two notes, and DURABLE as it was after the second.
fn two_notes() -> (MemoryDisk, Vec<u8>) {
    let disk = MemoryDisk::new();
    let store = Options::new().open_on(Arc::new(disk.clone())).expect("opens");
    ["a", "b"].iter().for_each(|key| drop(store.root().notes().remember(key, "", "body").expect("saved")));
    store.close().expect("closes");
    let durable = disk.read_file("DURABLE").expect("there");
    (disk, durable)
}

/// Opens for reading, while after so many reads somebody replaces a file.
fn read_beside(disk: &MemoryDisk, reads: usize, path: &'static str, bytes: Vec<u8>) -> Result<Store, Error> {
    let (spied, seen) = Spy::on(Arc::new(disk.clone()) as Arc<dyn Disk>);
    let (other, mut count) = (disk.clone(), 0);
    seen.after_read(move || {
        count += 1;
        if count == reads {
            other.write_file(path, &bytes).expect("written");
        }
    });
    Options::new().open_read_only_on(spied)
}

#[test]
fn a_reader_beside_a_repair_finds_the_damage_or_the_repaired_log() {
    let (mut damaged, mut whole) = (0, 0);
    for reads in 1..60 {
        let (disk, durable) = two_notes();
        let more = {
            let mut more = mnemolog::codec::segment::Durable::decode(&durable).expect("a promise");
            more.frame = Frame(9);
            more.encode()
        };
        disk.write_file("DURABLE", &more).expect("written");
        let store = read_beside(&disk, reads, "DURABLE", durable).expect("what is there is served");
        assert_eq!(store.appended(), Frame(2), "after {reads} reads");
        match store.recovery().damage {
            Some(_) => damaged += 1,
            None => whole += 1,
        }
    }
    assert!(damaged > 5 && whole > 3, "{damaged} found the damage, {whole} the repaired log");
}

#[test]
fn a_promise_of_the_last_number_that_there_is_can_be_kept() {
    let (disk, durable) = two_notes();
    let mut last = mnemolog::codec::segment::Durable::decode(&durable).expect("a promise");
    last.frame = Frame(u64::MAX);
    disk.write_file("DURABLE", &last.encode()).expect("written");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let repaired = mnemolog::log::repair(&shared, std::time::Duration::ZERO, true, mnemolog::Time::ZERO);
    assert_eq!(repaired.expect("repairs").last, Frame(u64::MAX));
    assert!(mnemolog::log::verify(&disk).expect("reads").is_whole());
    let store = Options::new().open_on(shared).expect("a whole log opens");
    assert_eq!(store.root().notes().recall("b"), "body");
    let refused = store.root().notes().remember("c", "", "").expect_err("no number is left");
    assert!(!matches!(refused, Error::OutcomeUnknown { .. }), "{refused}");
}
