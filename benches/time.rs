//! How long opening a store and looking into its past take, against the length of its log.
//!
//! Each log is made once, with the checkpoints that a store makes by itself, a note of 240 bytes a frame. Then in a process
//! of their own, in turns: opening from the newest checkpoint, opening without one, and looks at 100 random frames, whose
//! folded frames are counted and held against the rule that bounds them. On the longest of the logs a process also
//! opens, saves one note and closes, as the command line does; 1,000,000 notes are written with and without checkpoints,
//! to see for how long one keeps a writer; and 100,000 vectors of 384 floats are opened, to see what that brings into
//! memory.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use mnemolog::replay::checkpoint::{DISTANCE_BYTES, reach};
use mnemolog::{Durability, Frame, Json, Options, Store, Writers};

const RUNS: usize = 5;
const LOOKS: u64 = 100;
const BODY_BYTES: usize = 240;
const WRITES: u64 = 1_000_000;
const VECTORS: usize = 100_000;
const WIDTH: usize = 384;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, dir] = args.as_slice()
        && let Some((_, run)) = MODES.iter().find(|(name, _)| name == mode)
    {
        return run(Path::new(dir));
    }
    let lengths = std::env::var("BENCH_NOTES").unwrap_or_else(|_| "10000,100000,1000000".to_owned());
    let dir = std::env::var_os("BENCH_DIR").map_or_else(|| PathBuf::from("target/bench"), PathBuf::from);
    let dir = dir.join(format!("time-{}", std::process::id()));
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "| frames | log MB | checkpoints | open ms | frames it folds | fold all ms | of that | frames/s folded | \
         look ms p50 | look ms max | frames a look folds, max | of the rule, max | remember ms | of an opening |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")?;
    for length in lengths.split(',') {
        row(&mut out, &dir, length.parse()?)?;
    }
    writeln!(
        out,
        "\n| {WRITES} writes | checkpoints made | p50 µs | p99.99 µs | longest ms | of more than 2 ms |\n|---|---|---|---|---|---|"
    )?;
    for (name, distance) in [("with checkpoints", DISTANCE_BYTES), ("without", u64::MAX)] {
        waits(&mut out, name, &dir, distance)?;
    }
    make_vectors(&dir)?;
    writeln!(out, "\n| 100,000 × 384 floats | MB of memory | of which are mapped |\n|---|---|---|")?;
    let figures = child("vectors", &dir)?;
    for (name, figures) in ["before opening", "after opening", "after a search"].iter().zip(figures.chunks(2))
    {
        writeln!(out, "| {name} | {:.0} | {:.0} |", figures[0], figures[1])?;
    }
    assert!(figures[2] - figures[0] < 40.0, "opening brings no vector into memory: {figures:?}");
    fs::remove_dir_all(&dir)?;
    Ok(())
}

type Mode = (&'static str, fn(&Path) -> Outcome);

/// What a process of its own does; it prints its figures.
const MODES: [Mode; 5] =
    [("open", open), ("fold", fold), ("look", look), ("remember", remember), ("vectors", vectors)];

fn row(out: &mut impl Write, dir: &Path, notes: u64) -> Outcome {
    fs::create_dir_all(dir)?;
    make(dir, notes)?;
    let (mut opens, mut folds, mut remembers) = (Vec::new(), Vec::new(), Vec::new());
    let mut folded = 0.0;
    for _ in 0..RUNS {
        let figures = child("open", dir)?;
        opens.push(figures[0]);
        folded = figures[1];
        folds.push(child("fold", dir)?[0]);
        remembers.push(child("remember", dir)?[0]);
    }
    let [open, fold, remember] = [&mut opens, &mut folds, &mut remembers].map(|ms| median(ms));
    let looks = child("look", dir)?;
    let store = Store::open_read_only(dir)?;
    assert_eq!(
        store.root().notes().len() as u64,
        notes + 1,
        "the notes, and the one that was saved again and again"
    );
    let (size, checkpoints) = (store.log_size().used as f64 / 1e6, store.checkpoints().len());
    let rate = notes as f64 / fold * 1000.0;
    writeln!(
        out,
        "| {notes} | {size:.0} | {checkpoints} | {open:.1} | {folded:.0} | {fold:.0} | {:.1} % | {rate:.0} | {:.2} | {:.1} | \
         {:.0} | {:.0} % | {remember:.1} | {:.2} × |",
        open / fold * 100.0,
        looks[0],
        looks[1],
        looks[2],
        looks[3] * 100.0,
        remember / open,
    )?;
    drop(store);
    fs::remove_dir_all(dir)?;
    Ok(())
}

fn child(mode: &str, dir: &Path) -> Result<Vec<f64>, Box<dyn Error>> {
    let child = Command::new(std::env::current_exe()?).arg(mode).arg(dir).output()?;
    assert!(child.status.success(), "{mode}: {}", String::from_utf8_lossy(&child.stderr));
    Ok(String::from_utf8(child.stdout)?.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn make(dir: &Path, notes: u64) -> Outcome {
    let store = Options::new().durability(Durability::Os).open(dir)?;
    let (handle, body) = (store.root().notes(), "b".repeat(BODY_BYTES));
    for n in 0..notes {
        handle.remember(&format!("user/k{n:07}"), &format!("a summary of thirty bytes {n:07}"), &body)?;
    }
    store.checkpoint()?;
    Ok(())
}

/// Prints milliseconds, and how many frames were folded.
fn open(dir: &Path) -> Outcome {
    let begin = Instant::now();
    let store = Store::open_read_only(dir)?;
    let ms = begin.elapsed().as_secs_f64() * 1000.0;
    assert!(store.opened().checkpoint.is_some(), "there is a checkpoint");
    writeln!(std::io::stdout(), "{ms} {}", store.opened().folded)?;
    Ok(())
}

/// Opens without the checkpoints, which are put back afterwards. Prints milliseconds.
fn fold(dir: &Path) -> Outcome {
    let (there, away) = (dir.join("checkpoints"), dir.with_extension("away"));
    fs::rename(&there, &away)?;
    let begin = Instant::now();
    let store = Store::open_read_only(dir)?;
    let ms = begin.elapsed().as_secs_f64() * 1000.0;
    assert_eq!(store.opened(), mnemolog::Opened { checkpoint: None, folded: store.appended().0 });
    fs::rename(&away, &there)?;
    writeln!(std::io::stdout(), "{ms}")?;
    Ok(())
}

/// Prints the median and the longest time of a look in milliseconds, the most frames that one folded, and the
/// greatest share of what the rule allows.
fn look(dir: &Path) -> Outcome {
    let store = Options::new().pasts_bytes(0).open_read_only(dir)?;
    let (last, used) = (store.appended().0, store.log_size().used);
    let each = used as f64 / last as f64;
    let checkpoints = store.checkpoints();
    let (mut times, mut most, mut share) = (Vec::new(), 0, 0f64);
    for n in 1..=LOOKS {
        let frame = Frame(1 + n.wrapping_mul(0x2545_f491_4f6c_dd1d) % last);
        let begin = Instant::now();
        let past = store.at(frame)?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
        let size = checkpoints.iter().rfind(|c| c.frame <= frame).map_or(0, |c| c.bytes);
        let age = ((last - frame.0) as f64 * each) as u64;
        let allowed = reach(size, age, DISTANCE_BYTES) as f64 / each;
        share = share.max(past.folded() as f64 / allowed);
        most = most.max(past.folded());
        assert!(past.root().notes().len() as u64 >= frame.0.min(last - RUNS as u64), "the notes of then");
    }
    assert!(share <= 1.0, "a look folds what the rule allows: {share}");
    let longest = times.iter().copied().fold(0.0, f64::max);
    writeln!(std::io::stdout(), "{} {longest} {most} {share}", median(&mut times))?;
    Ok(())
}

/// Opens, saves a note and closes, as a single command does. Prints milliseconds.
fn remember(dir: &Path) -> Outcome {
    let before = fs::read_dir(dir.join("checkpoints"))?.count();
    let begin = Instant::now();
    let store = Options::new().writers(Writers::Many).open(dir)?;
    store.root().notes().remember("visitor", "a note", "of a single command")?;
    store.close()?;
    let ms = begin.elapsed().as_secs_f64() * 1000.0;
    assert_eq!(fs::read_dir(dir.join("checkpoints"))?.count(), before, "it makes no checkpoint");
    writeln!(std::io::stdout(), "{ms}")?;
    Ok(())
}

/// How long writes take, which wait for no sync, beside the checkpoints that are due at a distance.
fn waits(out: &mut impl Write, name: &str, dir: &Path, distance: u64) -> Outcome {
    let store = Options::new().durability(Durability::Os).checkpoint_distance(distance).open(dir)?;
    let (handle, body) = (store.root().notes(), "b".repeat(BODY_BYTES));
    let mut times = Vec::with_capacity(WRITES as usize);
    for n in 0..WRITES {
        let key = format!("user/k{n:07}");
        let begin = Instant::now();
        handle.remember(&key, "a summary", &body)?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    let made = store.checkpoints().len();
    assert_eq!(made > 0, distance < u64::MAX, "{made} checkpoints");
    store.close()?;
    let long = times.iter().filter(|us| **us > 2000.0).count();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    let longest = times.last().copied().unwrap_or_default() / 1000.0;
    writeln!(out, "| {name} | {made} | {:.1} | {:.0} | {longest:.1} | {long} |", at(0.5), at(0.9999))?;
    fs::remove_dir_all(dir)?;
    Ok(())
}

/// A vector whose floats are a hash of its number.
fn vector(n: u64) -> Vec<f32> {
    let hash = |i: u64| (n * WIDTH as u64 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..WIDTH as u64).map(|i| hash(i) as f32 / (1 << 23) as f32 - 1.0).collect()
}

fn make_vectors(dir: &Path) -> Outcome {
    let store = Options::new().durability(Durability::Os).open(dir)?;
    let rows = store.root().vectors("rows")?;
    for n in 0..VECTORS as u64 {
        rows.upsert_embedding(&format!("id{n:06}"), "a text", &Json::object(), &vector(n))?;
    }
    drop(rows);
    store.checkpoint()?;
    Ok(())
}

/// Prints the process's memory and the mapped part of it, in MB: before and after opening, and after a search.
fn vectors(dir: &Path) -> Outcome {
    let mut out = std::io::stdout();
    let memory = || {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let of = |name| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<f64>().ok())
        };
        let [all, mapped] = ["VmRSS:", "RssFile:"].map(|name| of(name).unwrap_or_default() / 1024.0);
        format!("{all} {mapped}")
    };
    writeln!(out, "{}", memory())?;
    let store = Store::open_read_only(dir)?;
    writeln!(out, "{}", memory())?;
    let found = store.root().vectors("rows")?.search_by_vector(&vector(77), 1)?;
    assert_eq!(found[0].id, "id000077");
    writeln!(out, "{}", memory())?;
    Ok(())
}
