//! Who waits for whom: group syncs, rotation and close beside them, and what a failed sync means to each.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use mnemolog::disk::{Fault, MemoryDisk, Tear};
use mnemolog::error::Error;
use mnemolog::position::Frame;

use super::spy::{Seen, Spy};
use super::{DEFAULT, SMALL, Writing, keys, memory, open, segment};

fn spied(segment_bytes: u64) -> (MemoryDisk, Arc<Seen>, Writing) {
    let (disk, shared) = memory();
    let (spy, seen) = Spy::on(shared);
    let writing = open(&spy, segment_bytes).unwrap();
    (disk, seen, writing)
}

/// Spins until the log has this many frames: other threads append them.
fn await_appended(writing: &Writing, last: u64) {
    while writing.log.appended() < Frame(last) {
        thread::yield_now();
    }
}

/// Protects promise 6.
#[test]
fn one_sync_serves_all_who_wait_and_none_that_began_before_their_frame() {
    let (_, seen, writing) = spied(DEFAULT);
    seen.take();
    seen.hold();
    thread::scope(|scope| {
        let save = |key: &'static str| {
            let frame = writing.save(key, 10).unwrap();
            seen.say(format!("saved {frame}"));
        };
        scope.spawn(move || save("k1"));
        seen.await_sync();
        for key in ["k2", "k3", "k4"] {
            scope.spawn(move || save(key));
        }
        await_appended(&writing, 4);
        seen.release();
    });
    let events = seen.take();
    let place = |what: &str| events.iter().position(|event| event == what).expect(what);
    let file = &segment(1)[4..];
    let syncs: Vec<_> = (0..events.len()).filter(|i| events[*i] == format!("synced {file}")).collect();
    assert_eq!(syncs.len(), 2, "one for the first, one for the other three: {events:?}");
    assert!(place("saved 1") > syncs[0]);
    for late in ["saved 2", "saved 3", "saved 4"] {
        assert!(place(late) > syncs[1], "{events:?}");
    }
}

#[test]
fn whoever_waited_finds_the_frame_after_a_loss_of_power_whenever_it_comes() {
    let mut crashed = 0;
    for call in 0..200 {
        let (disk, shared) = memory();
        let writing = open(&shared, SMALL).unwrap();
        disk.crash_at(call);
        let saved: Vec<String> = thread::scope(|scope| {
            let run = |thread: usize| {
                let writing = &writing;
                let keys = (0..6).map(move |n| format!("t{thread} n{n}"));
                move || keys.take_while(|key| writing.save(key, 500).is_ok()).collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(run(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        crashed += usize::from(saved.len() < 24);
        disk.power_loss(&mut |n| n - 1, Tear::Sector);
        let writing = open(&(Arc::new(disk.clone()) as _), SMALL).unwrap();
        let found = keys(&writing.found);
        for key in &saved {
            assert!(found.contains(&key.as_str()), "{key} was saved and is gone, crash at call {call}");
        }
    }
    assert!(crashed > 50, "only {crashed} of the runs crashed on the way");
}

#[test]
fn a_failed_sync_fails_all_who_wait_and_stops_the_writer_and_not_the_readers() {
    let (disk, seen, writing) = spied(DEFAULT);
    writing.save("k1", 10).unwrap();
    seen.hold();
    thread::scope(|scope| {
        let save = |key: &'static str| writing.save(key, 10);
        let first = scope.spawn(move || save("k2"));
        seen.await_sync();
        let others: Vec<_> = ["k3", "k4"].map(|key| scope.spawn(move || save(key))).into();
        await_appended(&writing, 4);
        disk.fail_at(0, Fault::Io);
        seen.release();
        for waiter in others.into_iter().chain([first]) {
            let error = waiter.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
        }
    });
    assert!(matches!(writing.append("k5", 1), Err(Error::Poisoned { .. })));
    assert!(matches!(writing.log.wait_durable(Frame(4)), Err(Error::OutcomeUnknown { .. })));
    assert!(matches!(writing.log.flush(), Err(Error::OutcomeUnknown { .. })));
    writing.log.wait_durable(Frame(1)).unwrap();
    assert_eq!((writing.log.durable(), writing.log.appended()), (Frame(1), Frame(4)));
    assert_eq!(super::walk(&writing.files, mnemolog::log::Cursor::START).len(), 4);
    assert!(matches!(writing.log.close(), Err(Error::Poisoned { .. })), "close must not hide it");
    writing.log.close().unwrap();
}

#[test]
fn a_writer_that_was_taken_before_the_failure_does_not_write_after_it() {
    let (disk, shared) = memory();
    let writing = open(&shared, DEFAULT).unwrap();
    writing.append("k1", 10).unwrap();
    let mut writer = writing.log.writer().unwrap();
    disk.fail_at(0, Fault::Io);
    writing.log.wait_durable(Frame(1)).unwrap_err();
    let before = disk.read_file(&segment(1));
    let refused = writer.append(super::time(1), &mut Vec::new(), &mut |_, _| Ok(1));
    assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    assert_eq!(disk.read_file(&segment(1)), before);
}

#[test]
fn rotation_waits_for_the_sync_under_way_and_fails_with_it() {
    for fails in [false, true] {
        let (disk, seen, writing) = spied(SMALL);
        writing.save("k1", 1500).unwrap();
        seen.take();
        seen.hold();
        thread::scope(|scope| {
            let writing = &writing;
            let first = scope.spawn(move || writing.save("k2", 1500));
            seen.await_sync();
            let (done, finished) = channel();
            scope.spawn(move || done.send(writing.save("k3", 1500)).unwrap());
            // A rotation that does not wait would be done by now, nearly always.
            let early = finished.recv_timeout(Duration::from_millis(30));
            if fails {
                disk.fail_at(0, Fault::Io);
            }
            seen.release();
            early.unwrap_err();
            assert_eq!(first.join().unwrap().is_ok(), !fails);
            let rotated = finished.recv().unwrap();
            assert_eq!(rotated.is_ok(), !fails, "{rotated:?}");
        });
        assert_eq!(disk.read_file(&segment(3)).is_some(), !fails);
    }
}

#[test]
fn the_lock_is_not_free_while_a_sync_is_under_way() {
    for fails in [false, true] {
        let (disk, seen, writing) = spied(DEFAULT);
        writing.save("k1", 10).unwrap();
        seen.hold();
        thread::scope(|scope| {
            let writing = &writing;
            scope.spawn(move || writing.save("k2", 10));
            seen.await_sync();
            if fails {
                // The next call is the write of this append: it poisons the writer while the sync waits.
                let before = writing.log.appended();
                disk.fail_at(0, Fault::Io);
                writing.append("k3", 10).unwrap_err();
                assert_eq!(writing.log.appended(), before);
            }
            let (done, closed) = channel();
            scope.spawn(move || done.send(writing.log.close()).unwrap());
            // A close that does not wait would be done by now, nearly always.
            let early = closed.recv_timeout(Duration::from_millis(30));
            seen.release();
            early.unwrap_err();
            assert_eq!(closed.recv().unwrap().is_ok(), !fails);
        });
        let disk = Arc::new(disk.clone());
        assert_eq!(open(&(disk as _), DEFAULT).unwrap().found.len(), 2);
    }
}

#[test]
fn waiting_for_a_frame_that_was_never_appended_is_an_error_and_not_forever() {
    let (_, shared) = memory();
    let writing = open(&shared, DEFAULT).unwrap();
    writing.save("k1", 10).unwrap();
    let error = writing.log.wait_durable(Frame(2)).unwrap_err();
    assert!(matches!(error, Error::NoSuchFrame { asked: Frame(2), last: Frame(1) }), "{error}");
    writing.log.wait_durable(Frame(0)).unwrap();
}
