//! What a durable write takes while another thread searches, against beside one that only computes.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Scratch, Until, load, write};
use crate::Result;
use crate::notes::{Bodies, PATTERN, mix};
use crate::report::{Report, Row, percentile};
use crate::settings::Settings;
use crate::stores::{Mode, Store, ours::Ours};

/// Of all the notes that reads are measured on, so many times fewer are searched.
const FEWER: u64 = 10;

pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let scratch = Scratch::new(settings)?;
    let notes = settings.notes / FEWER;
    let ours = Ours::create(scratch.path(), Mode::Durable)?;
    load(&mut *ours.session()?, notes, 1000)?;
    let (mut searching, mut computing) = (Vec::new(), Vec::new());
    for round in 1..=settings.runs as u64 {
        searching.push(p99(settings, &ours, 2 * round, || {
            let found = ours.store.root().notes().search(PATTERN);
            assert_eq!(found.starts_with("- "), Bodies::rare_of(notes) > 0, "the search finds what is there");
        })?);
        computing.push(p99(settings, &ours, 2 * round + 1, || {
            black_box((0..1_000_000).fold(0, |sum, n| sum ^ mix(n)));
        })?);
    }
    let work = format!("p99 of a durable note while another thread searches {notes} notes");
    report.add(Row::times(&work, &searching, "while it computes", &computing, 0.5));
    Ok(())
}

/// The p99 of writes while another thread does something again and again, in nanoseconds.
fn p99(settings: &Settings, ours: &Ours, seed: u64, again: impl Fn() + Sync) -> Result<f64> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                again();
            }
        });
        let written = write(ours, 1, Until::Time(settings.time), ours.len()?, seed);
        done.store(true, Ordering::Relaxed);
        other.join().map_err(|_| "the other thread panicked")?;
        let mut latencies = written?.latencies;
        Ok(percentile(&mut latencies, 99.0))
    })
}
