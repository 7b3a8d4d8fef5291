//! Retention: the policy lies in the store, is applied on demand, and bounds the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mnemolog::disk::{MemoryDisk, Tear};
use mnemolog::{Clock, Durability, Error, Frame, Options, Retention, Store, Time, Writers};

use super::{Memory, is_sound};
use crate::model::Rng;
use crate::support::{open, shared};
use crate::tail::{options, reader, write};

const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

/// A clock that a test sets.
#[derive(Debug, Default)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> Time {
        Time::from_micros(self.0.load(Ordering::Relaxed)).expect("a time")
    }
}

fn days(n: u64) -> Retention {
    Retention::Duration(Duration::from_micros(n * DAY_US))
}

#[test]
fn the_policy_is_the_stores_and_survives_every_crash_whole() {
    let disk = MemoryDisk::simulated();
    let store = open(&disk);
    assert_eq!(store.retention().expect("readable"), None);
    let refused = store.compact_by_policy(false).expect_err("there is none");
    assert!(matches!(refused, Error::Invalid { what: "the retention policy", .. }), "{refused}");
    store.set_retention(Some(days(30))).expect("set");
    assert_eq!(store.retention().expect("readable"), Some(days(30)));
    assert_eq!(reader(&disk).retention().expect("readable"), Some(days(30)));
    assert!(matches!(reader(&disk).set_retention(None), Err(Error::ReadOnly)));
    drop(store);
    for (from, to) in [(Some(days(30)), Some(Retention::Frames(7))), (Some(Retention::Frames(7)), None)] {
        let mut seen = [0, 0];
        for call in 0..40 {
            let (copied, mut rng) = (super::copy(&disk), Rng::new(call));
            let store = options().writers(Writers::Many).open_on(shared(&copied)).expect("opens");
            store.set_retention(from).expect("set");
            copied.crash_at(call);
            let done = store.set_retention(to).is_ok();
            drop(store);
            copied.power_loss(&mut |n| rng.below(n), Tear::Sector);
            let found = open(&copied).retention().expect("whole");
            assert!(found == to || (found == from && !done), "call {call}: {found:?}");
            seen[usize::from(found == to)] += 1;
            assert!(mnemolog::log::verify(&copied).expect("reads").is_whole(), "call {call}");
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }
}

#[test]
fn a_policy_that_rotted_is_an_error_of_who_asks_and_of_nobody_else() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    write(&store, &mut Rng::new(1), 5);
    store.set_retention(Some(days(1))).expect("set");
    disk.flip("RETENTION", 40, 2).expect("a byte of it");
    assert!(matches!(store.retention(), Err(Error::Damaged(_))));
    let findings = mnemolog::log::verify(&disk).expect("reads").findings;
    assert!(matches!(&findings[..], [one] if one.file == "RETENTION"), "{findings:?}");
    assert!(matches!(store.compact_by_policy(false), Err(Error::Damaged(_))));
    drop(store);
    let store = open(&disk);
    store.set_retention(Some(Retention::Frames(2))).expect("set again");
    let done = store.compact_by_policy(false).expect("compacted");
    assert_eq!((done.oldest, done.frames), (Frame(3), 3));
}

#[test]
fn a_number_of_frames_and_a_duration_keep_exactly_what_they_say() {
    let disk = MemoryDisk::new();
    let hands = Arc::new(Hands::default());
    let store = options().clock(hands.clone()).open_on(shared(&disk)).expect("opens");
    for day in 1..=20 {
        hands.0.store(day * DAY_US, Ordering::Relaxed);
        store.root().notes().remember(&format!("day {day}"), "s", "b").expect("saved");
    }
    let memory = Memory::of(&store, Frame::ZERO);
    let apply = |policy, oldest| {
        store.set_retention(Some(policy)).expect("set");
        let foreseen = store.compact_by_policy(true).expect("foreseen");
        let done = store.compact_by_policy(false).expect("compacted");
        assert_eq!((done.oldest, foreseen.oldest), (Frame(oldest), Frame(oldest)), "{policy:?}");
        memory.check(&store, Frame(oldest), &format!("{policy:?}"));
    };
    apply(Retention::Frames(100), 0);
    apply(days(100), 0);
    apply(Retention::Frames(18), 2);
    // The frame of that very age is kept.
    apply(days(15), 4);
    apply(Retention::Duration(Duration::from_micros(15 * DAY_US - 1)), 5);
    apply(days(30), 5);
    apply(Retention::Frames(0), 20);
    apply(days(0), 20);
}

/// Simulates days of so many writes over so many keys, with a history of `kept` days and the policy applied daily.
/// Answers the largest part of the bound that was used.
fn simulate(
    store: &Store,
    hands: &Hands,
    (total, kept): (u64, u64),
    writes: u64,
    keys: u64,
    segment: u64,
) -> f64 {
    let mut rng = Rng::new(total);
    store.set_retention(Some(days(kept))).expect("set");
    let mut used_max: f64 = 0.0;
    let size = |i: u64| 200 + (i % 7) * 60;
    for day in 0..total {
        for i in 0..writes {
            hands.0.store(day * DAY_US + i * (DAY_US / writes), Ordering::Relaxed);
            let n = rng.below(keys);
            let body = "x".repeat(size(day + n) as usize);
            store.root().notes().remember(&format!("key/{n}"), "of a day", &body).expect("saved");
        }
        let before = store.log_size().used;
        let done = store.compact_by_policy(false).expect("compacted");
        let used = store.log_size().used;
        assert_eq!(used, done.used_after);
        if done.done {
            assert_eq!(used, done.base_bytes + done.kept_bytes);
            let bound = 2 * (done.base_bytes + done.kept_bytes) + segment;
            // Also at its longest, before the policy was applied.
            assert!(before <= bound, "day {day}: {before} of {bound}");
            used_max = used_max.max(before as f64 / bound as f64);
        }
        let kept_from = (day + 1).saturating_sub(kept + 1) * writes;
        assert!(done.oldest.0 >= kept_from.saturating_sub(1), "day {day}: {done:?}, {kept_from}");
    }
    used_max
}

#[test]
fn a_policy_that_is_applied_daily_bounds_the_log() {
    let disk = MemoryDisk::new();
    let hands = Arc::new(Hands::default());
    let options = options().clock(hands.clone()).durability(Durability::Os);
    let store = options.open_on(shared(&disk)).expect("opens");
    let part = simulate(&store, &hands, (40, 5), 30, 40, 16 * 1024);
    assert!(part > 0.2, "the bound is of this size: {part}");
    drop(store);
    is_sound(&disk, "after forty days");
}

/// A year as the promise has it: 1,000 writes a day over 2,000 keys, 30 days kept. Runs where `MNEMOLOG_YEAR` is set.
#[test]
fn a_year_of_a_thousand_writes_a_day_stays_within_the_bound() {
    if std::env::var_os("MNEMOLOG_YEAR").is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let hands = Arc::new(Hands::default());
    let options = Options::new().clock(hands.clone()).durability(Durability::Os);
    let store = options.open(dir.path()).expect("opens");
    let part = simulate(&store, &hands, (365, 30), 1000, 2000, 64 << 20);
    println!("at most {:.1} % of the bound was used; {:?}", part * 100.0, store.log_size());
}

/// 2,000 ids of 384 floats written 50,000 times; by default a tenth of that.
#[test]
fn a_table_that_was_overwritten_often_is_as_long_as_its_rows_afterwards() {
    let whole = std::env::var_os("MNEMOLOG_YEAR").is_some();
    let (upserts, ids) = if whole { (50_000, 2_000) } else { (1_000, 40) };
    let dir = tempfile::tempdir().expect("a directory");
    let store = Options::new().durability(Durability::Os).open(dir.path()).expect("opens");
    let docs = store.root().vectors("docs").expect("a name");
    let mut rng = Rng::new(1);
    for i in 0..upserts {
        let vector: Vec<f32> = (0..384).map(|_| rng.below(1000) as f32 - 500.5).collect();
        let id = format!("id/{}", i % ids);
        docs.upsert_embedding(&id, "a text of some words", &mnemolog::Json::object(), &vector)
            .expect("saved");
    }
    let live = docs.snapshot_bytes().expect("readable").len() as u64;
    let begun = std::time::Instant::now();
    let done = store.compact(store.appended().next().expect("a number"), false).expect("compacted");
    let used = store.log_size().used;
    println!("{} -> {used} bytes for {live} live, in {:?}", done.used_before, begun.elapsed());
    assert!(used * 10 <= live * 13, "{used} bytes in use for {live} live ones");
    assert_eq!(docs.len(), ids as usize);
}
