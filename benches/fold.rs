//! Folding a log from its first frame, and reading single notes of what it folds to.
//!
//! The log of a million notes with bodies of 240 bytes, a frame each, is made once; each opening has a process of its
//! own, so that its heap is its own. Every opening asserts that all notes are there, and every read that it is the
//! right one.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use mnemolog::{Durability, Options, Store};

const NOTES: u64 = 1_000_000;
const RUNS: usize = 5;
const READS: usize = 200_000;
const BODY_BYTES: usize = 240;
/// What the process is called with that opens the log.
const OPEN: &str = "open-the-log";

type Key = fn(u64) -> String;

const ORDERS: [(&str, Key); 2] = [("in order", in_order), ("in random order", shuffled)];

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, dir, notes, order] = args.as_slice()
        && mode == OPEN
    {
        return open(Path::new(dir), notes.parse()?, ORDERS[order.parse::<usize>()?].1);
    }
    let notes = std::env::var("BENCH_NOTES").ok().and_then(|n| n.parse().ok()).unwrap_or(NOTES);
    let dir = std::env::var_os("BENCH_DIR").map_or_else(|| PathBuf::from("target/bench"), PathBuf::from);
    let mut out = std::io::stdout().lock();
    writeln!(out, "| {notes} notes, keys | frames/s | heap bytes a note | get p50 ns | get p99 ns |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for (order, (name, key)) in ORDERS.iter().enumerate() {
        let dir = dir.join(format!("fold-{}-{notes}", std::process::id()));
        fs::create_dir_all(&dir)?;
        make(&dir, notes, *key)?;
        let mut columns = vec![Vec::new(); 4];
        for _ in 0..RUNS {
            let mut child = Command::new(std::env::current_exe()?);
            let child = child.arg(OPEN).arg(&dir).arg(notes.to_string()).arg(order.to_string()).output()?;
            assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
            let figures = String::from_utf8(child.stdout)?;
            for (column, figure) in columns.iter_mut().zip(figures.split_whitespace()) {
                column.push(figure.parse::<f64>()?);
            }
        }
        fs::remove_dir_all(&dir)?;
        let medians: Vec<f64> = columns.iter_mut().map(|figures| median(figures)).collect();
        let [rate, heap, p50, p99] = medians[..] else { unreachable!("four columns") };
        writeln!(out, "| {name} | {rate:.0} | {heap:.0} | {p50:.0} | {p99:.0} |")?;
    }
    Ok(())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn in_order(n: u64) -> String {
    format!("user/k{n:07}")
}

/// Each key once: a number's multiples, counted around a larger prime.
fn shuffled(n: u64) -> String {
    in_order(n * 6_180_341 % 10_000_019)
}

fn make(dir: &Path, notes: u64, key: Key) -> Result<(), Box<dyn Error>> {
    let store = Options::new().durability(Durability::Os).open(dir)?;
    let (handle, body) = (store.root().notes(), "b".repeat(BODY_BYTES));
    for n in 0..notes {
        handle.remember(&key(n), &format!("a summary of thirty bytes {n:07}"), &body)?;
    }
    store.flush()?;
    Ok(())
}

/// Opens the log without a checkpoint, and prints the figures of a line of the table.
fn open(dir: &Path, notes: u64, key: Key) -> Result<(), Box<dyn Error>> {
    if let Err(e) = fs::remove_dir_all(dir.join("checkpoints"))
        && e.kind() != std::io::ErrorKind::NotFound
    {
        return Err(e.into());
    }
    let (before, begin) = (heap_bytes(), Instant::now());
    let store = Store::open(dir)?;
    let rate = store.appended().0 as f64 / begin.elapsed().as_secs_f64();
    let heap = heap_bytes().saturating_sub(before) as f64 / notes as f64;
    let handle = store.root().notes();
    assert_eq!(handle.len() as u64, notes, "every note is there");
    let mut reads = Vec::with_capacity(READS);
    for n in 0..READS as u64 {
        let key = key(n.wrapping_mul(0x2545_f491_4f6c_dd1d) % notes);
        let begin = Instant::now();
        let note = handle.get(&key)?;
        reads.push(begin.elapsed().as_nanos());
        assert!(note.is_some_and(|note| note.key == key), "the note that was asked for");
    }
    reads.sort();
    let at = |part: usize| reads[READS * part / 100];
    writeln!(std::io::stdout(), "{rate} {heap} {} {}", at(50), at(99))?;
    Ok(())
}

/// Memory of the process behind which no file is, where the system says it; 0 elsewhere.
fn heap_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() * 1024
}
