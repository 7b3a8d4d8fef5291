//! The simulation: several processes on one machine, every fault and crash that the memory disk knows, at any
//! call, for at least five rounds of crash, recovery and writing.
//!
//! One seed gives a [`History`], a list of actions, which [`World`] takes one after the other and holds against
//! [`Truth`]. What fails is shrunk, and printed with its seed. A new operation of the store is one more action.
//!
//! A long run: `MNEMOLOG_SEEDS=FROM..TO cargo test --release --test it simulation -- --nocapture`.

mod anew;
mod copies;
mod counts;
mod erase;
mod flush;
mod history;
mod look;
mod rot;
mod saved;
mod shrink;
mod truth;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use counts::Counts;
use history::{History, Loss, Survivors};
use mnemolog::disk::{Fill, Tear};
use world::World;

/// How many seeds the ordinary tests run.
const SEEDS: u64 = 2000;
const THREADS: u64 = 2;

/// What became of a history: what was met, and what the disk held in the end.
type Outcome = Result<(Counts, (u64, u64)), String>;

fn run(history: &History) -> Outcome {
    let end = Loss {
        seed: history.seed,
        survivors: [Survivors::Nothing, Survivors::All, Survivors::Any][history.seed as usize % 3],
        tear: Tear::Sector,
        fill: Fill::Zeros,
    };
    let run = || {
        let mut world = World::new(history);
        for (index, action) in history.actions.iter().enumerate() {
            world.act(action).map_err(|what| format!("action {index}: {what}"))?;
        }
        world.end(end).map_err(|what| format!("the end: {what}"))?;
        Ok((world.counts.clone(), world.print()))
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("it panics".to_owned()))
}

/// What is wrong with a seed, and the shortest history that shows it.
fn report(seed: u64, what: &str) -> String {
    let short =
        shrink::shrink(&History::of(seed), &|history| run(history).is_err_and(|now| like(&now, what)));
    let now = run(&short).err().unwrap_or_default();
    let actions: Vec<String> =
        short.actions.iter().enumerate().map(|(index, action)| format!("{index:>4}  {action:?}")).collect();
    format!("seed {seed}: {what}\nshortest: {now}\nwriters: {:?}\n{}", short.writers, actions.join("\n"))
}

/// Whether two failures say the same, numbers apart.
fn like(one: &str, other: &str) -> bool {
    let words = |what: &str| -> String {
        let what = what.split_once(": ").map_or(what, |(_, what)| what);
        what.chars().filter(|c| !c.is_ascii_digit()).take(24).collect()
    };
    words(one) == words(other)
}

/// Runs every seed of a range that is the thread's.
fn run_share(seeds: Range<u64>, thread: u64) -> Result<Counts, String> {
    let mut counts = Counts::default();
    for seed in seeds.filter(|seed| seed % THREADS == thread) {
        match run(&History::of(seed)) {
            Ok((met, _)) => counts.merge(&met),
            Err(what) => return Err(report(seed, &what)),
        }
    }
    Ok(counts)
}

#[test]
fn what_was_acknowledged_survives_every_history() {
    let long = std::env::var("MNEMOLOG_SEEDS").ok();
    let seeds = long.as_deref().map_or(0..SEEDS, |range| {
        let (from, to) = range.split_once("..").expect("FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    });
    let histories = seeds.end - seeds.start;
    let mut all = Counts::default();
    std::thread::scope(|scope| {
        let share = |thread| {
            let seeds = seeds.clone();
            scope.spawn(move || run_share(seeds, thread))
        };
        let threads: Vec<_> = (0..THREADS).map(share).collect();
        for thread in threads {
            match thread.join().expect("a history that panics is caught") {
                Ok(counts) => all.merge(&counts),
                Err(what) => panic!("{what}"),
            }
        }
    });
    all.print();
    let missing = all.missing(histories);
    assert!(missing.is_empty(), "hardly ever met: {missing:#?}");
}

#[test]
fn a_seed_gives_the_same_calls_and_the_same_bytes_again() {
    for seed in 0..20 {
        let history = History::of(seed);
        let print = || run(&history).map(|(_, print)| print);
        assert_eq!(print(), print(), "seed {seed}");
    }
}

#[test]
fn the_shrinker_leaves_only_what_a_failure_needs() {
    let history = History::of(1);
    let needed = |history: &History| {
        let clocks = history.actions.iter().filter(|action| matches!(action, history::Action::Clock { .. }));
        let writes = history.actions.iter().filter(|action| matches!(action, history::Action::Write { .. }));
        writes.count() > 2 && clocks.count() >= 1
    };
    let history = History { actions: (1..6).flat_map(|seed| History::of(seed).actions).collect(), ..history };
    assert!(needed(&history), "five histories write and turn the clock");
    assert_eq!(shrink::shrink(&history, &needed).actions.len(), 4);
}
