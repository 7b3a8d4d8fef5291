//! Many writing processes on one store: what each finds when the others, or somebody else, were there before.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::{Error, Frame, Options, Store, Writers};

fn options() -> Options {
    Options::new().segment_bytes(16 * 1024).writers(Writers::Many)
}

fn save(store: &Store, key: &str) -> Result<(), Error> {
    store.root().notes().remember(key, "", &"body ".repeat(200)).map(drop)
}

/// Moves the store in `from` to the path of another, which goes away.
fn replace(path: &Path, from: &Path) {
    std::fs::rename(path, path.with_extension("old")).expect("moved away");
    std::fs::rename(from, path).expect("moved there");
}

#[test]
fn a_store_that_was_exchanged_for_another_is_refused_and_the_other_stays_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, other) = (dir.path().join("store"), dir.path().join("other"));
    let store = options().open(&path).expect("created");
    save(&store, "ours").expect("saved");
    let reader = options().open_read_only(&path).expect("opened");
    let theirs = options().open(&other).expect("created");
    save(&theirs, "theirs").expect("saved");
    drop(theirs);
    replace(&path, &other);
    for _ in 0..40 {
        let refused = save(&store, "late").expect_err("it would go to another store");
        assert!(matches!(refused, Error::OtherStore { .. }), "{refused}");
    }
    let refused = reader.refresh().expect_err("another store's frames");
    assert!(matches!(refused, Error::OtherStore { .. }), "{refused}");
    assert_eq!((store.root().notes().len(), store.appended()), (1, Frame(1)), "reads go on");
    drop(store);
    let theirs = options().open(&path).expect("whole");
    assert_eq!(
        (theirs.appended(), theirs.root().notes().list_memories().contains("theirs")),
        (Frame(1), true)
    );
}

#[test]
fn a_store_that_was_removed_is_not_made_anew_by_a_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store");
    let store = options().open(&path).expect("created");
    save(&store, "k").expect("saved");
    std::fs::rename(&path, dir.path().join("gone")).expect("moved away");
    std::fs::create_dir(&path).expect("an empty directory");
    let refused = save(&store, "late").expect_err("there is no store");
    assert!(matches!(refused, Error::NoSuchStore { .. }), "{refused}");
    assert!(!path.join("log").exists() && !path.join("DURABLE").exists());
}

#[test]
fn a_long_section_lets_other_workspaces_pass_and_ends_the_group_with_it() {
    let disk = Arc::new(MemoryDisk::new());
    let open = || options().lock_wait(Duration::ZERO).open_on(disk.clone()).expect("opens");
    let (store, other) = (open(), open());
    let workspace = |path: &str| store.workspace(path).expect("a path");
    workspace("a")
        .exclusive::<(), Error>(|tx| {
            tx.notes().remember("k", "", "section")?;
            thread::scope(|scope| {
                let beside = scope.spawn(|| {
                    for n in 0..5 {
                        workspace("b").notes().remember("k", "", &n.to_string())?;
                        workspace("c").exclusive(|tx| tx.notes().remember("k", "", "c").map(drop))?;
                    }
                    Ok::<_, Error>(())
                });
                beside.join().expect("no panic")
            })?;
            let refused = save(&other, "k").expect_err("the lock is held");
            assert!(matches!(refused, Error::Locked { .. }), "{refused}");
            Ok(())
        })
        .expect("committed");
    save(&other, "k").expect("the lock is free");
    assert_eq!((other.appended(), store.refresh().expect("refreshed")), (Frame(12), Frame(12)));
}

#[test]
fn sections_of_many_threads_in_two_processes_are_atomic_against_each_other() {
    let disk = Arc::new(MemoryDisk::new());
    let open = || options().lock_wait(Duration::from_secs(60)).open_on(disk.clone()).expect("opens");
    let stores = [open(), open()];
    let count = |notes: &mnemolog::Notes| notes.recall("count").parse::<u64>().unwrap_or_default();
    thread::scope(|scope| {
        for store in &stores {
            for thread in 0..3 {
                scope.spawn(move || {
                    for n in 0..40 {
                        let add = |tx: &mnemolog::Tx| {
                            tx.notes().remember("count", "", &(count(&tx.notes()) + 1).to_string()).map(drop)
                        };
                        store.workspace("core")?.exclusive::<_, Error>(add)?;
                        store.workspace(&format!("own{thread}"))?.notes().remember(
                            &n.to_string(),
                            "",
                            "b",
                        )?;
                    }
                    Ok::<_, Error>(())
                });
            }
        }
    });
    for store in &stores {
        assert_eq!(store.refresh().expect("refreshed"), Frame(480));
        assert_eq!(count(&store.workspace("core").expect("a path").notes()), 240);
        assert_eq!(store.digest().expect("readable"), stores[0].digest().expect("readable"));
    }
}

/// The log file of a small store, where its frames end, and two processes that have it open.
fn two_writers() -> (MemoryDisk, [Store; 2], usize) {
    let disk = MemoryDisk::new();
    let open = || Options::new().writers(Writers::Many).open_on(Arc::new(disk.clone())).expect("opens");
    let writers = [open(), open()];
    writers[0].root().notes().remember("a", "", "acknowledged").expect("saved");
    writers[1].refresh().expect("looks");
    let end = writers[0].log_size().used as usize;
    (disk, writers, end)
}

const FIRST: &str = "log/00000000000000000001.seg";

#[test]
fn a_promised_frame_that_rotted_is_damage_to_the_next_writer_and_is_not_written_over() {
    let (disk, [one, other], end) = two_writers();
    one.root().notes().remember("b", "", "acknowledged, then rotten").expect("saved");
    disk.flip(FIRST, end as u64 + 70, 2).expect("a byte of the frame");
    let before = disk.read_file(FIRST);
    let refused = other.root().notes().remember("c", "", "over it");
    let Err(Error::Damaged(damage)) = refused else { panic!("expected damage, found {refused:?}") };
    assert_eq!((damage.offset, damage.frame), (end as u64, Frame(2)));
    assert_eq!(disk.read_file(FIRST), before, "refusing changes nothing");
}

#[test]
fn a_torn_record_met_in_a_catch_up_is_kept_before_it_is_written_over() {
    let (disk, [one, other], end) = two_writers();
    // What a process leaves that died in the middle of an append.
    let mut file = disk.read_file(FIRST).expect("the log");
    let torn = [7; 100];
    file[end..end + torn.len()].copy_from_slice(&torn);
    disk.write_file(FIRST, &file).expect("a file in memory");
    other.root().notes().remember("b", "", "goes on").expect("saved");
    let kept: Vec<_> = disk.files().into_iter().filter(|path| path.starts_with("quarantine/")).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(disk.read_file(&kept[0]).expect("the copy"), torn);
    one.root().notes().remember("c", "", "and on").expect("saved");
    assert_eq!((one.appended(), one.root().notes().recall("b")), (Frame(3), "goes on".to_owned()));
}

#[test]
fn a_reader_learns_that_frames_it_has_seen_became_durable() {
    let disk = MemoryDisk::new();
    let writer = Options::new().durability(mnemolog::Durability::Os).open_on(Arc::new(disk.clone()));
    let writer = writer.expect("created");
    save(&writer, "k").expect("saved");
    let reader = options().open_read_only_on(Arc::new(disk)).expect("opened");
    assert_eq!((reader.appended(), reader.durable()), (Frame(1), Frame(0)));
    writer.flush().expect("synced");
    assert_eq!(reader.refresh().expect("refreshed"), Frame(1));
    assert_eq!(reader.durable(), Frame(1));
}

/// Who waits behind a thread of its own process is told who keeps that thread waiting.
#[test]
fn who_waits_behind_a_sibling_is_told_of_the_process_that_keeps_the_sibling_waiting() {
    let disk = Arc::new(MemoryDisk::new());
    let store = options().lock_wait(Duration::from_millis(300)).open_on(disk.clone()).expect("opens");
    save(&store, "k").expect("saved");
    let lock = disk.lock(Duration::ZERO).expect("free");
    disk.write_file("LOCK", b"4242 elsewhere\n").expect("the name of another process");
    thread::scope(|scope| {
        let refused = [(); 3].map(|()| scope.spawn(|| save(&store, "late").expect_err("the lock is held")));
        for refused in refused.map(|thread| thread.join().expect("it ends")) {
            let Error::Locked { pid, host, .. } = &refused else { panic!("{refused}") };
            assert_eq!((*pid, host.as_deref()), (Some(4242), Some("elsewhere")), "{refused}");
        }
    });
    drop(lock);
    save(&store, "later").expect("saved");
}

#[test]
fn a_promise_is_raised_in_the_file_that_is_there_also_if_another_one_was_put_there() {
    let (disk, [one, other], _) = two_writers();
    other.root().notes().remember("b", "", "by the other").expect("saved");
    disk.remove("DURABLE").expect("removed");
    other.root().notes().remember("c", "", "behind a new promise").expect("saved");
    one.root().notes().remember("d", "", "by the one that knew the old file").expect("saved");
    let durable = disk.read_file("DURABLE").expect("made anew");
    let promise = mnemolog::codec::segment::Durable::decode(&durable).expect("a promise");
    assert_eq!(promise.frame, Frame(4));
}
