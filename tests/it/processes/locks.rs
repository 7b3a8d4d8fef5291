//! The writers' lock between processes: who holds it, who waits how long, and what the dead leave.

use std::time::{Duration, Instant};

use mnemolog::{Error, Options, Store, Writers};

use super::Cast;

const NO_WAIT: Duration = Duration::ZERO;
/// Long enough to be measured, short enough to wait for.
const SOME_WAIT: Duration = Duration::from_millis(200);
/// How late an answer may come on a busy machine.
const LATE: Duration = Duration::from_secs(20);

fn kinds() -> [Options; 2] {
    [Writers::One, Writers::Many].map(|writers| Options::new().writers(writers))
}

#[test]
fn whoever_finds_a_store_locked_is_told_by_whom_in_bounded_time_and_can_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut cast = Cast::new(dir.path());
    let holder = cast.start("holder");
    cast.hear(holder, "holds", &mut |_| {});
    for options in kinds() {
        let begun = Instant::now();
        let refused = options.lock_wait(SOME_WAIT).open(dir.path()).expect_err("it is held");
        let waited = begun.elapsed();
        assert!(waited >= SOME_WAIT && waited < SOME_WAIT + LATE, "it waited {waited:?}");
        let Error::Locked { pid, host, .. } = &refused else { panic!("{refused}") };
        assert_eq!(*pid, Some(cast.pid(holder)), "{refused}");
        assert!(host.is_some() && refused.to_string().contains(&cast.pid(holder).to_string()), "{refused}");
    }
    let reader = Store::open_read_only(dir.path()).expect("a reader needs no lock");
    assert_eq!(reader.root().notes().recall("held"), "by the only writer");
    cast.dismiss(holder);
    Options::new().lock_wait(NO_WAIT).open(dir.path()).expect("it is free");
}

#[test]
fn the_lock_of_a_process_that_was_killed_blocks_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    for options in kinds() {
        let mut cast = Cast::new(dir.path());
        let holder = cast.start("holder");
        cast.hear(holder, "holds", &mut |_| {});
        cast.kill(holder);
        let store = options.lock_wait(NO_WAIT).open(dir.path()).expect("the dead hold no lock");
        assert_eq!(store.root().notes().recall("held"), "by the only writer");
        store.root().notes().remember("after", "s", "b").expect("saved");
    }
}

/// A critical section holds the lock around its closure. Another process that shares the store waits for it, within
/// bounds; when the section's process dies inside, nothing of it was written.
#[test]
fn a_section_keeps_other_processes_out_and_dies_without_a_trace() {
    let dir = tempfile::tempdir().expect("a directory");
    let other = Options::new().writers(Writers::Many).lock_wait(SOME_WAIT).open(dir.path()).expect("opens");
    other.root().notes().remember("before", "s", "b").expect("saved");
    let mut cast = Cast::new(dir.path());
    let section = cast.start("section");
    cast.hear(section, "inside", &mut |_| {});
    let begun = Instant::now();
    let refused = other.root().notes().remember("meanwhile", "s", "b").expect_err("a section is under way");
    assert!(begun.elapsed() < SOME_WAIT + LATE);
    assert!(matches!(&refused, Error::Locked { pid, .. } if *pid == Some(cast.pid(section))), "{refused}");
    assert_eq!(other.root().notes().list_memories(), "- before: s", "and nothing was written");
    cast.kill(section);
    other.root().notes().remember("after", "s", "b").expect("the dead hold no lock");
    assert_eq!(other.root().notes().list_memories(), "- after: s\n- before: s");
    let fresh = Store::open_read_only(dir.path()).expect("opens");
    assert_eq!(fresh.root().notes().list_memories(), "- after: s\n- before: s");
}
