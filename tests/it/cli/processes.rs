//! Several processes on one store at once: commands that write, and commands that read beside them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mnemolog::{Options, Store, Writers};
use serde_json::json;

use super::{Place, check_sentence};

const WRITERS: u64 = 4;
const EACH: u64 = 25;

/// One writer: a command a note, one after the other. Answers the frames that the commands named.
fn write(place: &Place, writer: u64) -> Vec<u64> {
    let one = |n| {
        let (key, body) = (format!("{writer}/{n}"), format!("body {n} of {writer}"));
        let run = place.run(&["--json", "remember", &key, "--summary", "s", "--body", &body]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{key}: {run:?}");
        let answer = &super::lines(&run.out)[0];
        assert_eq!(answer["text"], format!("saved {key}"));
        answer["frame"].as_u64().expect("a number")
    };
    (0..EACH).map(one).collect()
}

/// Reads until the writers are done. No read fails, warns, or goes back.
fn read(place: &Place, over: &AtomicBool) -> usize {
    let mut seen = 0;
    loop {
        let last = over.load(Ordering::Acquire);
        let run = place.run(&["list", "--json"]);
        if run.code == 1 {
            assert!(seen == 0 && run.err.contains("there is no store at"), "{run:?}");
        } else {
            assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
            let count = run.out.lines().count();
            assert!(count >= seen, "{count} notes, and {seen} before");
            seen = count;
        }
        if last {
            return seen;
        }
    }
}

/// A3: several processes append to one log, and create it in the first place.
#[test]
fn commands_that_write_at_the_same_time_all_succeed_and_lose_nothing() {
    let (place, over) = (Place::new(), AtomicBool::new(false));
    let frames = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|n| (n, &place)).collect();
        let writers: Vec<_> =
            writers.into_iter().map(|(n, place)| scope.spawn(move || write(place, n))).collect();
        let reader = scope.spawn(|| read(&place, &over));
        let frames: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Release);
        assert_eq!(reader.join().expect("no panic") as u64, WRITERS * EACH, "the last look saw everything");
        frames.into_iter().map(|each| each.expect("no panic")).collect::<Vec<_>>()
    });
    assert!(frames.iter().all(|each| each.is_sorted()), "each writer's frames rise");
    let all: BTreeSet<u64> = frames.concat().into_iter().collect();
    assert_eq!(
        all,
        (1..=WRITERS * EACH).collect(),
        "every command has a frame of its own, and no frame is missing"
    );
    for writer in 0..WRITERS {
        for n in 0..EACH {
            assert_eq!(place.done(&["recall", &format!("{writer}/{n}")]), format!("body {n} of {writer}\n"));
        }
    }
    let report = &place.json(&["verify"])[0];
    assert_eq!((&report["whole"], &report["findings"]), (&json!(true), &json!([])), "{report}");
    assert_eq!((&report["frames"], &report["durable"]), (&json!(100), &json!(100)), "{report}");
}

#[test]
fn a_command_and_a_long_lived_writer_take_turns() {
    let place = Place::new();
    let store = Options::new().writers(Writers::Many).open(place.store()).expect("a store");
    let notes = store.root().notes();
    for n in 0..10 {
        notes.remember("shared", "s", &format!("library {n}")).expect("saved");
        assert_eq!(place.done(&["recall", "shared"]), format!("library {n}\n"));
        place.done(&["remember", "shared", "--summary", "s", "--body", &format!("command {n}")]);
        let forgot = notes.forget("shared").expect("decided on what the command left").to_string();
        assert_eq!(forgot, "forgot shared (its history stays until erased)");
        let run = place.run(&["forget", "shared"]);
        assert_eq!((run.code, run.out.as_str()), (1, "nothing is saved under shared\n"), "{run:?}");
    }
    assert_eq!(store.refresh().expect("reads").0, 30);
    let whole = store.digest().expect("readable");
    drop((notes, store));
    assert_eq!(Store::open(place.store()).expect("opens").digest().expect("readable"), whole);
}

#[test]
fn a_command_waits_for_the_only_writer_as_long_as_it_is_told() {
    let place = Place::new();
    let store = Store::open(place.store()).expect("a store");
    let args = ["remember", "k", "--summary", "s", "--body", "b"];
    let refused = place.run(&[&args[..], &["--lock-wait", "0"]].concat());
    assert_eq!((refused.code, refused.out.as_str()), (4, ""), "{refused:?}");
    check_sentence(&refused.err);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| place.run(&[&args[..], &["--lock-wait", "60"]].concat()));
        store.root().notes().remember("first", "s", "b").expect("saved");
        store.close().expect("closes");
        let run = waiting.join().expect("no panic");
        assert_eq!((run.code, run.out.as_str()), (0, "saved k\n"), "{run:?}");
    });
    assert_eq!(place.done(&["list"]), "- first: s\n- k: s\n");
}
