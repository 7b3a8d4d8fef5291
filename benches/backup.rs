//! Backups beside writers at full speed: what they cost the writers, and whether each is worth its name.
//!
//! Two phases of the same writing: alone, and with a backup every second. A write counts as beside a backup if one was
//! under way at its beginning or its end. After each backup the copy is verified byte by byte, opened, and held against
//! what had been acknowledged before the backup began. `BENCH_SECONDS` is the length of each phase (60), `BENCH_DIR`
//! the directory. Only the ratio means anything: run it when the machine is quiet.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mnemolog::disk::FileDisk;
use mnemolog::{Frame, Store, log};

const THREADS: usize = 4;
const KEYS: u64 = 2_000;
const BODY_BYTES: usize = 240;
const EVERY: Duration = Duration::from_secs(1);

/// The latencies of the writes of one thread, in microseconds: those beside a backup, and the others.
#[derive(Default)]
struct Waits {
    beside: Vec<u64>,
    alone: Vec<u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::var_os("BENCH_DIR").map_or_else(|| PathBuf::from("target/bench"), PathBuf::from);
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let dir = dir.join(format!("backup-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let phase = Duration::from_secs(seconds);
    let alone = run(&dir.join("alone"), phase, false)?;
    let beside = run(&dir.join("beside"), phase, true)?;
    fs::remove_dir_all(&dir)?;
    let show = |name: &str, waits: &mut Vec<u64>| {
        waits.sort_unstable();
        let at = |share: f64| waits.get((waits.len() as f64 * share) as usize).copied().unwrap_or_default();
        let (middle, high) = (at(0.5), at(0.99));
        println!("{name:32} {:>9} writes   p50 {middle:>7} µs   p99 {high:>7} µs", waits.len());
        high
    };
    let (mut without, mut during, mut between) = (alone.alone, beside.beside, beside.alone);
    let base = show("without backups", &mut without);
    let high = show("while a backup was under way", &mut during);
    show("between the backups", &mut between);
    println!("p99 during backups: {:.2} times that without (at most 3 is wanted)", high as f64 / base as f64);
    Ok(())
}

fn run(dir: &Path, phase: Duration, backups: bool) -> Result<Waits, Box<dyn Error>> {
    let store = Store::open(dir.join("store"))?;
    let acknowledged: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let (over, under_way) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = acknowledged
            .iter()
            .enumerate()
            .map(|(n, mine)| {
                let (store, over, under_way) = (&store, &over, &under_way);
                scope.spawn(move || write(store, n, mine, over, under_way))
            })
            .collect();
        let begun = Instant::now();
        let mut copied = (0, 0_u64, Duration::ZERO);
        while begun.elapsed() < phase {
            let next = Instant::now() + EVERY;
            if backups {
                let before: Vec<u64> = acknowledged.iter().map(|n| n.load(Ordering::Acquire)).collect();
                under_way.store(true, Ordering::Release);
                let started = Instant::now();
                let made = store.backup(dir.join("copy"))?;
                copied = (copied.0 + 1, copied.1 + made.copied_bytes, copied.2 + started.elapsed());
                under_way.store(false, Ordering::Release);
                check(&dir.join("copy"), made.frame, &before)?;
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        over.store(true, Ordering::Release);
        let mut waits = Waits::default();
        for writer in writers {
            let mine = writer.join().map_err(|_| "a writer panicked")??;
            waits.beside.extend(mine.beside);
            waits.alone.extend(mine.alone);
        }
        if backups {
            let (count, bytes, time) = copied;
            println!(
                "{count} backups, each verified: {bytes} bytes copied in {time:.1?}; {} frames",
                store.appended()
            );
        }
        Ok(waits)
    })
}

fn write(
    store: &Store,
    n: usize,
    acknowledged: &AtomicU64,
    over: &AtomicBool,
    under_way: &AtomicBool,
) -> mnemolog::Result<Waits> {
    let notes = store.workspace(&format!("w{n}"))?.notes();
    let mut waits = Waits::default();
    for number in 1_u64.. {
        if over.load(Ordering::Acquire) {
            break;
        }
        let body = format!("{number} {}", "x".repeat(BODY_BYTES));
        let (beside, begun) = (under_way.load(Ordering::Acquire), Instant::now());
        notes.remember(&format!("k{}", number % KEYS), "a note of the bench", &body)?;
        let wait = begun.elapsed().as_micros() as u64;
        acknowledged.store(number, Ordering::Release);
        let list =
            if beside || under_way.load(Ordering::Acquire) { &mut waits.beside } else { &mut waits.alone };
        list.push(wait);
    }
    Ok(waits)
}

/// A backup is whole, and holds what was acknowledged before it began.
fn check(copy: &Path, frame: Frame, before: &[u64]) -> Result<(), Box<dyn Error>> {
    let report = log::verify(&FileDisk::new(copy)?)?;
    if !report.is_whole() {
        return Err(format!("the backup is damaged: {:?}", report.findings).into());
    }
    let store = Store::open_read_only(copy)?;
    if store.appended() != frame {
        return Err(format!("the backup ends with frame {}, not {frame}", store.appended()).into());
    }
    for (n, number) in before.iter().enumerate().filter(|(_, number)| **number > 0) {
        let notes = store.workspace(&format!("w{n}"))?.notes();
        let body = notes.recall(&format!("k{}", number % KEYS));
        let found: u64 = body.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_default();
        if found < *number {
            return Err(
                format!("write {number} of thread {n} had been acknowledged, and {found} is there").into()
            );
        }
    }
    Ok(())
}
