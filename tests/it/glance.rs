//! One of many writers reads: it waits for no other writer, sees what was acknowledged, and goes on writing from there.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mnemolog::disk::{Call, Disk, Fault, MemoryDisk};
use mnemolog::{Error, Frame, Options, Store, Writers};

use crate::model::Rng;

fn options() -> Options {
    Options::new().segment_bytes(16 * 1024).writers(Writers::Many).lock_wait(Duration::ZERO)
}

fn open(disk: &MemoryDisk) -> Store {
    options().open_on(Arc::new(disk.process())).expect("opens")
}

fn save(store: &Store, key: &str) {
    store.root().notes().remember(key, "", &"body ".repeat(200)).expect("saved");
}

fn keys(store: &Store) -> usize {
    store.root().notes().len()
}

#[test]
fn a_read_neither_waits_for_a_writer_nor_is_refused_because_of_one() {
    let disk = MemoryDisk::new();
    let (one, other) = (open(&disk), open(&disk));
    save(&one, "a");
    let _held = disk.process().lock(Duration::ZERO).expect("free");
    assert_eq!(other.refresh().expect("not refused"), Frame(1));
    assert_eq!((keys(&other), other.durable()), (1, Frame(1)));
    let refused = other.root().notes().remember("b", "", "").expect_err("a write needs the lock");
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
}

#[test]
fn writes_go_on_from_what_reads_took_in_also_over_many_files() {
    let disk = MemoryDisk::new();
    let stores = [open(&disk), open(&disk), open(&disk)];
    let mut rng = Rng::new(7);
    for n in 0..300 {
        let store = &stores[rng.below(3) as usize];
        match rng.chance(2) {
            true => save(store, &format!("{}", rng.below(200))),
            false => drop(store.refresh().expect("looks")),
        }
        assert_eq!(
            stores.iter().map(Store::appended).max(),
            Some(stores[0].refresh().expect("looks")),
            "{n}"
        );
    }
    let digest = stores[0].digest().expect("readable");
    assert!(stores[0].log_size().segments > 5, "the log rotated");
    for store in &stores {
        assert_eq!(store.refresh().expect("looks"), stores[0].appended());
        assert_eq!(store.digest().expect("readable"), digest);
    }
    drop(stores);
    let anew = Options::new().open_on(Arc::new(disk)).expect("opens");
    assert_eq!(anew.digest().expect("readable"), digest);
    assert!(anew.recovery().cut.is_none() && anew.recovery().rewritten_bytes == 0, "{:?}", anew.recovery());
}

#[test]
fn a_write_behind_a_read_does_not_read_the_log_again() {
    let disk = MemoryDisk::new();
    let (one, other) = (open(&disk), open(&disk));
    (0..10).for_each(|n| save(&one, &n.to_string()));
    other.refresh().expect("looks");
    let before = other.reads();
    save(&other, "own");
    assert_eq!(other.reads(), before);
    assert_eq!(one.refresh().expect("looks"), Frame(11));
}

#[test]
fn a_read_shows_nothing_of_another_process_that_is_not_durable_yet() {
    let disk = MemoryDisk::new();
    let (one, other) = (open(&disk), open(&disk));
    save(&one, "a");
    let seen = Arc::new(Mutex::new(None));
    let (reads, shared) = (other.clone(), seen.clone());
    disk.meanwhile(0, move || {
        let last = reads.refresh().expect("not refused");
        *shared.lock().expect("one thread") = Some((last, reads.durable(), keys(&reads)));
    });
    save(&one, "b");
    let seen = seen.lock().expect("one thread").take().expect("a sync came");
    assert_eq!(seen, (Frame(1), Frame(1), 1));
    assert_eq!((other.refresh().expect("looks"), keys(&other)), (Frame(2), 2));
    save(&other, "c");
    assert_eq!((one.refresh().expect("looks"), keys(&one)), (Frame(3), 3));
}

#[test]
fn a_read_mends_what_a_writer_left_that_failed_also_in_the_next_file() {
    for size in [1_000, 15_000] {
        let disk = MemoryDisk::new();
        let (one, other) = (open(&disk), open(&disk));
        save(&one, "a");
        // The last sync of that commit, behind those of the file that it fills and of the one that it begins.
        disk.fail_kind(Call::Sync, if size > 2_000 { 3 } else { 0 }, Fault::Io);
        let unknown = one.root().notes().remember("b", "", &"b".repeat(size)).expect_err("the sync fails");
        assert!(matches!(unknown, Error::OutcomeUnknown { .. }), "{unknown}");
        assert_eq!((other.refresh().expect("looks"), other.durable(), keys(&other)), (Frame(2), Frame(2), 2));
    }
}

/// The last frame that whoever opens the store finds, and mends nothing for others by it.
fn found_by_opening(disk: &MemoryDisk) -> Frame {
    let copy = MemoryDisk::new();
    for path in disk.files() {
        copy.write_file(&path, &disk.read_file(&path).expect("there")).expect("written");
    }
    open(&copy).appended()
}

#[test]
fn a_read_shows_all_that_an_opening_finds_whichever_calls_of_two_others_failed() {
    let calls = [Call::Create, Call::Sync, Call::SyncDir].into_iter();
    let calls: Vec<_> = calls.flat_map(|kind| (0..4).map(move |nth| (kind, nth))).collect();
    let mut failed = 0;
    let pairs = calls.iter().flat_map(|first| calls.iter().map(move |second| (first, second)));
    // Into the file behind the close, and into the next one.
    for (size, (first, second)) in pairs.flat_map(|pair| [(1_000, pair), (15_000, pair)]) {
        let (disk, context) = (MemoryDisk::new(), format!("{size} bytes, {first:?}, {second:?}"));
        let (other, others) = (open(&disk), [open(&disk), open(&disk)]);
        // The only writer leaves a close behind its note.
        let one = options().writers(Writers::One).open_on(Arc::new(disk.process())).expect("opens");
        save(&one, "a");
        one.close().expect("closes");
        for (store, (kind, nth)) in others.iter().zip([first, second]) {
            disk.fail_kind(*kind, *nth, Fault::Io);
            let saved = store.root().notes().remember("b", "", &"b".repeat(size));
            failed += u64::from(saved.is_err());
            disk.clear_faults();
            let found = found_by_opening(&disk);
            assert_eq!(other.refresh().expect("not refused"), found, "{context}: {saved:?}");
        }
    }
    assert!(failed > 100, "{failed} writes failed");
}

#[test]
fn a_read_looks_through_a_change_of_files_that_its_maker_died_in_and_a_write_goes_on_behind_it() {
    for call in 0.. {
        let (disk, context) = (MemoryDisk::new(), format!("dies in call {call}"));
        let dying = disk.process();
        let one = options().open_on(Arc::new(dying.clone())).expect("opens");
        let other = open(&disk);
        ["a", "b", "secret", "c"].iter().for_each(|key| save(&one, key));
        other.refresh().expect("looks");
        dying.stop_at(call);
        let erased = one.root().notes().erase("secret");
        // As long as nobody has seen that it died, the lock is taken.
        let before = other.refresh().map(|_| keys(&other)).expect("not refused");
        assert!(before == 3 || (before == 4 && erased.is_err()), "{context}: {before}");
        if erased.is_ok() {
            assert!(call > 20, "{context}: most calls of the change were met");
            break;
        }
        dying.kill();
        save(&other, "later");
        assert!(keys(&other) == before + 1 || keys(&other) == before, "{context}");
        let anew = open(&disk);
        let digest = |store: &Store| store.digest().expect("readable");
        assert_eq!((anew.appended(), digest(&anew)), (Frame(5), digest(&other)), "{context}");
    }
}

#[test]
fn a_read_goes_on_where_what_a_dead_writer_left_cannot_be_kept() {
    let disk = MemoryDisk::new();
    let (one, other) = (open(&disk), open(&disk));
    save(&one, "a");
    other.refresh().expect("looks");
    // Another one dies behind a whole frame and in the middle of the next.
    let dying = disk.process();
    let third = options().open_on(Arc::new(dying.clone())).expect("opens");
    let (end, promise) = (third.log_size().used, disk.read_file("DURABLE").expect("there"));
    save(&third, "b");
    let frame = third.log_size().used - end;
    dying.kill();
    drop(third);
    let path = "log/00000000000000000001.seg";
    let mut bytes = disk.read_file(path).expect("there");
    let (from, to) = ((end + frame) as usize, (end + frame + 20) as usize);
    bytes[from..to].fill(7);
    disk.write_file(path, &bytes).expect("written");
    disk.write_file("DURABLE", &promise).expect("written");
    disk.set_capacity(Some(
        disk.files().iter().filter_map(|f| disk.read_file(f)).map(|b| b.len() as u64).sum(),
    ));
    let refused = other.root().notes().remember("c", "", "").expect_err("there is no room for the copy");
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    assert_eq!((other.refresh().expect("not refused"), keys(&other)), (Frame(1), 1));
}
