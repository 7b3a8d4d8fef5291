//! Durable notes: one thread against sixteen in one workspace, and both against the raw disk.
//!
//! Every run asserts that all notes are there afterwards. Runs of all kinds are interleaved and the median of
//! five is shown, because machines are noisy; only ratios within one table mean anything.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mnemolog::{Durability, Options, Store};

const RUNS: usize = 5;
const BODY_BYTES: usize = 240;
/// Bytes of a frame that holds a note with such a body: what the raw loop writes.
const FRAME_BYTES: usize = 384;
const TIME: Duration = Duration::from_secs(2);

/// One kind of run: what it does in the time, in writes a second.
struct Kind {
    name: &'static str,
    run: fn(&Path) -> Result<f64, Box<dyn Error>>,
}

const KINDS: [Kind; 4] = [
    Kind { name: "raw write + fdatasync, 1 thread", run: raw },
    Kind { name: "durable note, 1 thread", run: |dir| durable(dir, 1) },
    Kind { name: "durable notes, 16 threads, one workspace", run: |dir| durable(dir, 16) },
    Kind { name: "buffered note (Os), 1 thread", run: buffered },
];

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::var_os("BENCH_DIR").map_or_else(|| PathBuf::from("target/bench"), PathBuf::from);
    let mut rates = vec![Vec::new(); KINDS.len()];
    for run in 0..RUNS {
        for (kind, rates) in KINDS.iter().zip(&mut rates) {
            let dir = dir.join(format!("{}-{run}", std::process::id()));
            fs::create_dir_all(&dir)?;
            rates.push((kind.run)(&dir)?);
            fs::remove_dir_all(&dir)?;
        }
    }
    let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
    let one = medians[1];
    let mut out = std::io::stdout().lock();
    writeln!(out, "| work | writes/s (median of {RUNS}) | ratio to 1 durable thread |\n|---|---|---|")?;
    for (kind, rate) in KINDS.iter().zip(&medians) {
        writeln!(out, "| {} | {rate:.0} | {:.2} |", kind.name, rate / one)?;
    }
    Ok(())
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn per_second(writes: usize, since: Instant) -> f64 {
    writes as f64 / since.elapsed().as_secs_f64()
}

fn raw(dir: &Path) -> Result<f64, Box<dyn Error>> {
    let file: File = OpenOptions::new().create(true).truncate(true).write(true).open(dir.join("raw"))?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 64 << 20)?;
    file.sync_all()?;
    let (begin, mut writes) = (Instant::now(), 0);
    while begin.elapsed() < TIME {
        file.write_all_at(&[7; FRAME_BYTES], (writes * FRAME_BYTES) as u64)?;
        file.sync_data()?;
        writes += 1;
    }
    Ok(per_second(writes, begin))
}

fn durable(dir: &Path, threads: usize) -> Result<f64, Box<dyn Error>> {
    let store = Store::open(dir.join("store"))?;
    let begin = Instant::now();
    let written: Vec<_> = std::thread::scope(|scope| {
        let spawn = |thread| {
            scope.spawn({
                let store = &store;
                move || write(store, thread, begin)
            })
        };
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked")).collect()
    });
    let mut writes = 0;
    for each in written {
        writes += each??;
    }
    let rate = per_second(writes, begin);
    assert_eq!(store.durable().0 as usize, writes, "every acknowledged note is durable");
    assert_eq!(store.root().notes().len(), writes, "every note is there");
    Ok(rate)
}

fn write(store: &Store, thread: usize, begin: Instant) -> Result<usize, mnemolog::Error> {
    let (notes, body) = (store.root().notes(), "b".repeat(BODY_BYTES));
    let mut writes = 0;
    while begin.elapsed() < TIME {
        notes.remember(&format!("user/t{thread:02}k{writes:07}"), "a summary", &body)?;
        writes += 1;
    }
    Ok(writes)
}

fn buffered(dir: &Path) -> Result<f64, Box<dyn Error>> {
    let store = Options::new().durability(Durability::Os).open(dir.join("store"))?;
    let begin = Instant::now();
    let writes = write(&store, 0, begin)?;
    let rate = per_second(writes, begin);
    assert_eq!(store.root().notes().len(), writes, "every note is there");
    Ok(rate)
}
