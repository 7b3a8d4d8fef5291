//! Durable notes by one thread, and by sixteen.

use super::{Scratch, Until, Written, raw, write};
use crate::Result;
use crate::report::{Report, Row};
use crate::settings::Settings;
use crate::stores::{Mode, Open, fjall, lmdb, ours, redb, sqlite};

const THREADS: u64 = 16;
/// Who is measured, with how many threads; the bare file first.
const STORES: [(&str, Open, u64); 7] = [
    ("mnemolog, `Writers::One`", ours::open, 1),
    ("mnemolog, `Writers::Many`", ours::open_shared, 1),
    ("mnemolog, 16 threads", ours::open, THREADS),
    ("SQLite FULL", sqlite::open, 1),
    ("redb Immediate", redb::open, 1),
    ("LMDB", lmdb::open, 1),
    ("fjall SyncData", fjall::open, 1),
];
const RAW: &str = "raw write + fdatasync";

pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); STORES.len() + 1];
    let mut latencies: Vec<Vec<u32>> = vec![Vec::new(); STORES.len() + 1];
    let until = Until::Time(settings.time);
    let mut keep = |place: usize, written: Written| {
        rates[place].push(written.rate);
        latencies[place].extend(written.latencies);
    };
    for _ in 0..settings.runs {
        let scratch = Scratch::new(settings)?;
        let bytes = raw::frame_bytes(scratch.path())?;
        keep(0, raw::write(scratch.path(), bytes, until, true)?);
        for (place, (_, open, threads)) in STORES.iter().enumerate() {
            let scratch = Scratch::new(settings)?;
            let store = open(scratch.path(), Mode::Durable)?;
            keep(place + 1, write(&*store, *threads, until, 0, 0)?);
        }
    }
    let [raw, one, many, sixteen, sqlite, redb, lmdb, fjall] = &rates[..] else { unreachable!("eight") };
    let work = "durable note, 1 thread, `Writers::One`";
    for (other, rates, bar) in [
        (RAW, raw, 0.90),
        (STORES[3].0, sqlite, 1.5),
        (STORES[4].0, redb, 3.0),
        (STORES[5].0, lmdb, 2.0),
        (STORES[6].0, fjall, 1.0),
    ] {
        report.add(Row::rates(work, one, other, rates, bar));
    }
    report.add(Row::rates("the same, `Writers::Many`, uncontended", many, RAW, raw, 0.85));
    report.add(Row::rates("durable notes, 16 threads, one workspace", sixteen, "our own 1 thread", one, 3.0));
    let names = [RAW].into_iter().chain(STORES.iter().map(|(name, ..)| *name));
    for (name, latencies) in names.zip(latencies).filter(|(name, _)| !name.contains("16")) {
        report.durable_latencies(name, latencies);
    }
    Ok(())
}
