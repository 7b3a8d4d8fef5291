//! Long-lived processes on one store: writers that take turns, readers that look on.
//!
//! Protects promises 3, 6 and 9.

use std::time::{Duration, Instant};

use mnemolog::{Options, Store, Writers};

use super::ledger::Ledger;
use super::parts::WORKSPACES;
use super::{Cast, SMALL, number};

/// The default: four growing segments would hold it all.
const LARGE: u64 = 64 << 20;

/// Two writers of two threads each, two readers, and single commands of the program in between.
/// `MNEMOLOG_SHARING_SECONDS` asks for a long run.
#[test]
fn long_lived_writers_readers_and_single_commands_agree_and_lose_nothing() {
    for segment_bytes in [SMALL, LARGE] {
        share(segment_bytes, Duration::from_millis(500 * number("MNEMOLOG_SHARING_SECONDS", 3)));
    }
}

fn share(segment_bytes: u64, duration: Duration) {
    let dir = tempfile::tempdir().expect("a directory");
    drop(Options::new().segment_bytes(segment_bytes).open(dir.path()).expect("a new store"));
    let (mut cast, mut ledger) = (Cast::new(dir.path()), Ledger::default());
    let writer = |n: usize| format!("writer {} 1 2 {segment_bytes}", WORKSPACES[n]);
    let writers = [cast.start(&writer(0)), cast.start(&writer(1))];
    let readers = [cast.start("reader"), cast.start("reader")];
    let (until, mut commands) = (Instant::now() + duration, 0);
    while Instant::now() < until {
        command(dir.path(), commands);
        commands += 1;
        while let Some((_, line)) = cast.said() {
            ledger.take(&line);
        }
    }
    for writer in writers {
        cast.tell(writer, "halt");
        cast.hear(writer, "halted", &mut |line| ledger.note(line));
    }
    let everyone = writers.into_iter().chain(readers);
    let states: Vec<String> = everyone
        .clone()
        .map(|id| {
            cast.tell(id, "tell");
            cast.hear(id, "at", &mut |line| ledger.note(line))
        })
        .collect();
    everyone.for_each(|id| cast.dismiss(id));
    while let Some((_, line)) = cast.said() {
        ledger.take(&line);
    }
    let store = Store::open_read_only(dir.path()).expect("opens");
    let state = format!("{} {:032x}", store.appended().0, store.digest().expect("readable"));
    assert_eq!(states, [&*state; 4], "all agree on the last frame and its digest");
    ledger.check(&store);
    check_commands(&store, commands);
    let (writes, looks) = (ledger.writes(), ledger.looks);
    println!("{writes} writes acknowledged, {commands} commands, {looks} looks of readers, {state}");
}

/// One command after the other: a note that stays, a row, a note that is forgotten again, and reads.
#[cfg(feature = "cli")]
fn command(store: &std::path::Path, n: usize) {
    let key = format!("c{n}");
    let args: &[&str] = match n % 4 {
        0 => &["remember", &key, "--summary", "s", "--body", &key],
        1 => &["vector", "upsert", "table", &key, "--text", &key],
        2 => &["list"],
        _ => &["verify"],
    };
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mnemolog"));
    let output = command.arg("--store").arg(store).args(args).output().expect("the program runs");
    assert!(output.status.success(), "{args:?}: {output:?}");
}

#[cfg(feature = "cli")]
fn check_commands(store: &Store, commands: usize) {
    for n in 0..commands {
        let key = format!("c{n}");
        match n % 4 {
            0 => assert_eq!(store.root().notes().recall(&key), key),
            1 => {
                let row = store.root().vectors("table").expect("a name").get(&key).expect("readable");
                assert_eq!(row.expect("it was acknowledged").text, key);
            }
            _ => {}
        }
    }
}

#[cfg(not(feature = "cli"))]
fn command(_: &std::path::Path, _: usize) {
    std::thread::yield_now();
}

#[cfg(not(feature = "cli"))]
fn check_commands(_: &Store, _: usize) {}

/// Two processes that write without a pause: neither takes the lock again while the other waits for it.
#[test]
fn writers_without_a_pause_let_each_other_have_their_turn() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Options::new().writers(Writers::Many).open(dir.path()).expect("opens");
    let mut cast = Cast::new(dir.path());
    let busy = cast.start(&format!("writer w0 1 1 {LARGE}"));
    cast.hear(busy, "ack", &mut |_| {});
    let before = store.refresh().expect("refreshes").0;
    let (mut own, mut others) = (0, 0);
    while others < 100 && own < 2000 {
        store.root().notes().remember("k", "s", "b").expect("in bounded time");
        own += 1;
        others = store.appended().0 - before - own;
    }
    println!("{others} commits of another process beside {own} of this one");
    assert!((10..400).contains(&own), "{others} commits of another process beside {own} of this one");
    cast.tell(busy, "halt");
    cast.hear(busy, "halted", &mut |_| {});
    cast.dismiss(busy);
}

/// A reader that is stopped in the middle of whatever it does holds nothing that a writer waits for.
#[cfg(unix)]
#[test]
fn a_reader_that_stands_still_blocks_no_writer_and_catches_up_over_rotations() {
    let dir = tempfile::tempdir().expect("a directory");
    let many = Options::new().writers(Writers::Many).segment_bytes(SMALL).lock_wait(Duration::ZERO);
    let store = many.open(dir.path()).expect("opens");
    store.root().notes().remember("first", "s", "b").expect("saved");
    let (mut cast, mut ledger) = (Cast::new(dir.path()), Ledger::default());
    let reader = cast.start("reader");
    cast.hear(reader, "saw", &mut |_| {});
    signal("STOP", cast.pid(reader));
    let before = store.log_size().segments;
    for n in 0..100 {
        store
            .root()
            .notes()
            .remember(&format!("n{n}"), "s", &"x".repeat(1000))
            .expect("nobody is in the way");
    }
    assert!(store.log_size().segments > before + 3, "the log rotated meanwhile");
    signal("CONT", cast.pid(reader));
    cast.tell(reader, "tell");
    let state = cast.hear(reader, "at", &mut |line| ledger.note(line));
    assert_eq!(state, format!("101 {:032x}", store.digest().expect("readable")));
    cast.dismiss(reader);
}

#[cfg(unix)]
fn signal(name: &str, pid: u32) {
    let status = std::process::Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.expect("kill runs").success());
}
