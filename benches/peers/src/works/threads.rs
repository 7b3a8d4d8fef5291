//! Durable notes against the number of threads.

use super::{Scratch, Until, write};
use crate::Result;
use crate::report::{Report, median};
use crate::settings::Settings;
use crate::stores::{Mode, Open, fjall, lmdb, ours, redb, sqlite};

const THREADS: [u64; 5] = [1, 2, 4, 8, 16];
const STORES: [(&str, Open); 5] = [
    ("mnemolog", ours::open),
    ("SQLite FULL", sqlite::open),
    ("redb Immediate", redb::open),
    ("LMDB", lmdb::open),
    ("fjall SyncData", fjall::open),
];
/// Points of a chart, so fewer rounds, and shorter ones, than what is held against a bar.
const ROUNDS: usize = 3;

pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let mut rates = vec![vec![Vec::new(); THREADS.len()]; STORES.len()];
    for _ in 0..settings.runs.min(ROUNDS) {
        for (place, threads) in THREADS.iter().enumerate() {
            for ((_, open), rates) in STORES.iter().zip(&mut rates) {
                let scratch = Scratch::new(settings)?;
                let store = open(scratch.path(), Mode::Durable)?;
                let written = write(&*store, *threads, Until::Time(settings.time.mul_f64(0.4)), 0, 0)?;
                rates[place].push(written.rate);
            }
        }
    }
    for ((name, _), rates) in STORES.iter().zip(rates) {
        report.threads(name, THREADS.iter().copied().zip(rates.iter().map(|rates| median(rates))).collect());
    }
    Ok(())
}
