//! Writing processes that are killed as they write, rotate, mend and open.
//!
//! Protects promises 6, 7 and 9.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use mnemolog::{Options, Store, Writers};

use super::ledger::Ledger;
use super::parts::WORKSPACES;
use super::{Cast, SMALL, number};
use crate::model::Rng;

/// How many are killed one by one, while the others write on, before all four are.
const ONE_BY_ONE: u64 = 5;
/// After how many kills a new store is begun, so that checking all of it stays cheap.
const KILLS_OF_A_STORE: u64 = 90;

/// What a run comes to.
#[derive(Debug, Default)]
struct Figures {
    kills: u64,
    acknowledged: usize,
    frames: u64,
    segments: usize,
    cut: u64,
    rewritten: u64,
    looks: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { kills, acknowledged, frames, segments, cut, rewritten, looks } = self;
        write!(
            f,
            "{kills} kills, {acknowledged} writes acknowledged, {frames} frames in {segments} segments, "
        )?;
        write!(f, "{cut} unclean ends cut, {rewritten} rewritten, {looks} looks of readers; ")?;
        write!(f, "no loss, no torn read")
    }
}

/// Four writers and a reader. `MNEMOLOG_KILLS` asks for a long run.
#[test]
fn what_was_acknowledged_outlives_every_kill() {
    let (kills, mut done) = (number("MNEMOLOG_KILLS", 27), Figures::default());
    let mut rng = Rng::new(kills);
    while done.kills < kills {
        let dir = tempfile::tempdir().expect("a directory");
        one_store(dir.path(), (kills - done.kills).min(KILLS_OF_A_STORE), &mut rng, &mut done);
    }
    println!("{done}");
    assert!(
        done.segments as u64 > 4 * done.kills.div_ceil(KILLS_OF_A_STORE),
        "hardly any log rotated: {done}"
    );
}

fn many() -> Options {
    Options::new().writers(Writers::Many).segment_bytes(SMALL)
}

fn one_store(path: &Path, kills: u64, rng: &mut Rng, done: &mut Figures) {
    drop(many().open(path).expect("a new store"));
    let (mut cast, mut ledger, mut lives, mut killed) = (Cast::new(path), Ledger::default(), 0, 0);
    let reader = cast.start("reader");
    while killed < kills {
        let mut start = |cast: &mut Cast, slot: usize| {
            lives += 1;
            cast.start(&format!("writer {} {lives} 1 {SMALL}", WORKSPACES[slot]))
        };
        let mut writers: Vec<usize> = (0..WORKSPACES.len()).map(|slot| start(&mut cast, slot)).collect();
        for _ in 0..ONE_BY_ONE {
            random_moment(&cast, &mut ledger, rng);
            let slot = rng.below(writers.len() as u64) as usize;
            cast.kill(writers[slot]);
            drain(&cast, &mut ledger);
            let known = ledger.last;
            let now = Store::open_read_only(path).expect("opens beside those who write");
            assert!(now.recovery().damage.is_none(), "{:?}", now.recovery());
            assert!(
                now.appended() >= known,
                "frame {known} was acknowledged; {} is the last",
                now.appended()
            );
            writers[slot] = start(&mut cast, slot);
        }
        random_moment(&cast, &mut ledger, rng);
        for writer in &writers {
            cast.kill(*writer);
        }
        killed += ONE_BY_ONE + writers.len() as u64;
        drain(&cast, &mut ledger);
        check_alone(path, &ledger, done);
    }
    cast.dismiss(reader);
    drain(&cast, &mut ledger);
    let store = Store::open_read_only(path).expect("opens");
    ledger.check(&store);
    done.kills += killed;
    done.acknowledged += ledger.writes();
    done.frames += store.appended().0;
    done.segments += store.log_size().segments;
    done.looks += ledger.looks;
}

/// Some writes later, and a little later than that.
fn random_moment(cast: &Cast, ledger: &mut Ledger, rng: &mut Rng) {
    let mut more = rng.below(30);
    while more > 0 {
        more -= u64::from(ledger.take(&cast.report().1));
    }
    let until = Instant::now() + Duration::from_micros(rng.below(4000));
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

fn drain(cast: &Cast, ledger: &mut Ledger) {
    while let Some((_, line)) = cast.said() {
        ledger.take(&line);
    }
}

/// Nobody writes: two readers and a writer find the same state, and everything acknowledged in it.
fn check_alone(path: &Path, ledger: &Ledger, done: &mut Figures) {
    let state = |store: &Store| (store.appended(), store.digest().expect("readable"));
    let readers = [(); 2].map(|()| Store::open_read_only(path).expect("opens"));
    assert_eq!(state(&readers[0]), state(&readers[1]));
    assert!(readers[0].recovery().damage.is_none(), "{:?}", readers[0].recovery());
    let writer = many().lock_wait(Duration::ZERO).open(path).expect("the dead hold no lock");
    assert_eq!(state(&readers[0]), state(&writer), "what a reader showed and what a writer kept");
    done.cut += u64::from(writer.recovery().cut.is_some());
    done.rewritten += u64::from(writer.recovery().rewritten_bytes > 0);
    ledger.check(&readers[0]);
}
