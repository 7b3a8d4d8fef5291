//! Exact vector search against other engines, a plain scan and the memory bus; and writers beside it.
//!
//! The ten nearest of 200,000 rows of 384 floats, with one query at a time on one thread. Every answer is held against a
//! plain scan, ids, order and score bits; those of the other engines as sets of rows. All kinds of run take turns, and
//! medians are shown.
//!
//! `BENCH_PYTHON` names a Python that has `faiss-cpu`, `usearch`, `numpy` and `threadpoolctl`; without it the other
//! engines are left out. `BENCH_ROWS` sets another number of rows.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mnemolog::view::vectors::filter::Filter;
use mnemolog::{Durability, Json, Options, Store};

const RUNS: usize = 7;
const WIDTH: usize = 384;
const QUERIES: usize = 10;
const K: usize = 10;
/// A filter on a group keeps one row in so many.
const GROUPS: usize = 100;
const CLUSTERS: u64 = 1000;
const BODY_BYTES: usize = 240;
const WRITING: Duration = Duration::from_secs(2);

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
/// Row numbers and score bits, best first.
type Answer = Vec<(usize, u32)>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, dir] = args.as_slice()
        && mode == "memory"
    {
        return memory(Path::new(dir));
    }
    let count = std::env::var("BENCH_ROWS").map_or(Ok(200_000), |count| count.parse())?;
    let dir = std::env::var_os("BENCH_DIR").map_or_else(|| PathBuf::from("target/bench"), PathBuf::from);
    let dir = dir.join(format!("search-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let mut out = std::io::stdout().lock();
    for (name, spread) in [("spread evenly", None), ("in clusters", Some(0.5))] {
        let data = Data::new(count, spread);
        writeln!(out, "{count} × {WIDTH}, {name}\n")?;
        let store = data.fill(&dir.join("store"))?;
        searches(&mut out, &data, &store, &dir)?;
        if spread.is_some() {
            writers(&mut out, &data, &store)?;
        }
        drop(store);
        let child = Command::new(std::env::current_exe()?).arg("memory").arg(dir.join("store")).output()?;
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        writeln!(out, "\n{}", String::from_utf8(child.stdout)?)?;
        fs::remove_dir_all(dir.join("store"))?;
    }
    fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Rows and queries, the same in every run.
struct Data {
    rows: Vec<f32>,
    queries: Vec<f32>,
}

impl Data {
    /// Rows in all directions, or so far around the middles of clusters, which the queries then are too.
    fn new(count: usize, spread: Option<f32>) -> Data {
        let middles: Vec<f32> = (0..CLUSTERS * WIDTH as u64).map(|n| normal(n, 1)).collect();
        let row = |n: u64| {
            let cluster = (hash(n, 2) % CLUSTERS) as usize * WIDTH;
            let noise = (0..WIDTH as u64).map(move |i| normal(n * WIDTH as u64 + i, 3));
            let middle = &middles[cluster..cluster + WIDTH];
            let each =
                noise.zip(middle).map(move |(noise, middle)| spread.map_or(noise, |s| s * noise + middle));
            each.collect::<Vec<f32>>()
        };
        let rows = (0..count as u64).flat_map(&row).collect();
        Data { rows, queries: (1 << 40..(1 << 40) + QUERIES as u64).flat_map(&row).collect() }
    }

    fn queries(&self) -> impl Iterator<Item = &[f32]> + Clone {
        self.queries.chunks_exact(WIDTH)
    }

    /// A store with the rows, the checkpoint of which is made.
    fn fill(&self, dir: &Path) -> Outcome<Store> {
        let store = Options::new().durability(Durability::Os).open(dir)?;
        let table = store.root().vectors("rows")?;
        for (n, row) in self.rows.chunks_exact(WIDTH).enumerate() {
            table.upsert_embedding(&id(n), "a text", &metadata(n)?, row)?;
        }
        store.checkpoint()?;
        Ok(store)
    }
}

fn id(n: usize) -> String {
    format!("id{n:06}")
}

fn metadata(n: usize) -> Outcome<Json> {
    Ok(Json::parse(&format!(r#"{{"group":{},"source":"a bench"}}"#, n % GROUPS))?)
}

fn hash(n: u64, salt: u64) -> u64 {
    let mut x = n.wrapping_add(salt << 56).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Nearly normal: four even numbers, added.
fn normal(n: u64, salt: u64) -> f32 {
    let hash = hash(n, salt);
    (0..4).map(|part| ((hash >> (16 * part)) as u16) as f32 / 65_536.0 - 0.5).sum()
}

/// The answer by the definition, which is also the plain scan that is measured.
fn plain(rows: &[f32], query: &[f32], keep: impl Fn(usize) -> bool) -> Answer {
    let sum =
        |a: &[f32], b: &[f32]| a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + f64::from(*x) * f64::from(*y));
    let norm = sum(query, query).sqrt();
    let kept = rows.chunks_exact(WIDTH).enumerate().filter(|(n, _)| keep(*n));
    let mut all: Vec<(usize, f32)> =
        kept.map(|(n, row)| (n, (sum(row, query) / (norm * sum(row, row).sqrt())) as f32)).collect();
    all.select_nth_unstable_by(K, |a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(K);
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.into_iter().map(|(n, score)| (n, score.to_bits())).collect()
}

fn ours(store: &Store, data: &Data, filter: Option<&Filter>) -> Outcome<Vec<Answer>> {
    let table = store.root().vectors("rows")?;
    let search = |query| -> Outcome<Answer> {
        let hits = table.search_by_vector_where(query, K, filter)?;
        hits.iter().map(|hit| Ok((hit.id[2..].parse()?, hit.score.to_bits()))).collect()
    };
    data.queries().map(search).collect()
}

/// Milliseconds of one query, and what all of them answered.
fn timed<T>(run: impl FnOnce() -> Outcome<T>) -> Outcome<(f64, T)> {
    let begin = Instant::now();
    let answers = run()?;
    Ok((begin.elapsed().as_secs_f64() * 1000.0 / QUERIES as f64, answers))
}

const KINDS: [&str; 8] = [
    "a read of the integers' bytes",
    "mnemolog",
    "mnemolog, opened from a checkpoint",
    "mnemolog, a filter that keeps 1 %",
    "a plain scan in `f64`",
    "faiss",
    "usearch",
    "numpy",
];

fn searches(out: &mut impl Write, data: &Data, store: &Store, dir: &Path) -> Outcome {
    let mapped = Store::open_read_only(dir.join("store"))?;
    let filter = Filter::parse(&Json::parse(r#"{"group":7}"#)?)?;
    let expected: Vec<Answer> = data.queries().map(|query| plain(&data.rows, query, |_| true)).collect();
    let filtered: Vec<Answer> =
        data.queries().map(|query| plain(&data.rows, query, |n| n % GROUPS == 7)).collect();
    let bytes = vec![1u8; data.rows.len()];
    let mut peers = Peers::start(data, dir)?;
    let mut times = vec![Vec::new(); KINDS.len()];
    for _ in 0..RUNS {
        times[0].push(timed(|| Ok((0..QUERIES).map(|_| black_box(read(black_box(&bytes)))).max()))?.0);
        for (kind, store, filter, expected) in
            [(1, store, None, &expected), (2, &mapped, None, &expected), (3, store, Some(&filter), &filtered)]
        {
            let (ms, answers) = timed(|| ours(store, data, filter))?;
            assert_eq!(&answers, expected, "{}", KINDS[kind]);
            times[kind].push(ms);
        }
        let all = || data.queries().map(|query| plain(&data.rows, query, |_| true)).collect::<Vec<_>>();
        let (ms, answers) = timed(|| Ok(all()))?;
        assert_eq!(answers, expected);
        times[4].push(ms);
        if let Some(peers) = &mut peers {
            for kind in 5..KINDS.len() {
                times[kind].push(peers.run(KINDS[kind], &expected)?);
            }
        }
    }
    writeln!(out, "| one query, one thread | ms | times mnemolog's |\n|---|---|---|")?;
    let base = median(&mut times[1].clone());
    for (name, times) in KINDS.iter().zip(&mut times).filter(|(_, times)| !times.is_empty()) {
        let ms = median(times);
        writeln!(out, "| {name} | {ms:.2} | {:.2} |", ms / base)?;
    }
    Ok(())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Reads all bytes once, as fast as memory gives them.
fn read(bytes: &[u8]) -> u64 {
    let mut sums = [0u64; 16];
    for lines in bytes.as_chunks::<128>().0 {
        for (sum, word) in sums.iter_mut().zip(lines.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

/// The other engines, in a process of their own.
struct Peers {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peers {
    fn start(data: &Data, dir: &Path) -> Outcome<Option<Peers>> {
        let Some(python) = std::env::var_os("BENCH_PYTHON") else { return Ok(None) };
        let bytes = |floats: &[f32]| floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        fs::write(dir.join("rows.f32"), bytes(&data.rows))?;
        fs::write(dir.join("queries.f32"), bytes(&data.queries))?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/search.py");
        let mut command = Command::new(python);
        command.arg(script).arg(dir).arg(WIDTH.to_string()).arg(K.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut what = String::new();
        output.read_line(&mut what)?;
        writeln!(std::io::stderr(), "{what}")?;
        Ok(Some(Peers { child, input, output }))
    }

    /// Milliseconds of one query; the rows found are those expected.
    fn run(&mut self, engine: &str, expected: &[Answer]) -> Outcome<f64> {
        writeln!(self.input, "{engine}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let mut words = line.split_whitespace();
        let ms = words.next().ok_or("no answer")?.parse()?;
        for answer in expected {
            let mut found: Vec<usize> = words.by_ref().take(K).map(str::parse).collect::<Result<_, _>>()?;
            let mut expected: Vec<usize> = answer.iter().map(|row| row.0).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{engine}");
        }
        Ok(ms)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// What another thread does beside a writer, until it is told to stop.
type Beside = (&'static str, fn(&Store, &Data, &AtomicBool) -> Outcome);

const BESIDE: [Beside; 3] = [("computes", compute), ("reads memory", read_on), ("searches", search_on)];

fn compute(_: &Store, _: &Data, stop: &AtomicBool) -> Outcome {
    let bytes = [3; 8192];
    while !stop.load(Ordering::Relaxed) {
        black_box(read(black_box(&bytes)));
    }
    Ok(())
}

fn read_on(_: &Store, data: &Data, stop: &AtomicBool) -> Outcome {
    let bytes = vec![1; data.rows.len()];
    while !stop.load(Ordering::Relaxed) {
        black_box(read(black_box(&bytes)));
    }
    Ok(())
}

fn search_on(store: &Store, data: &Data, stop: &AtomicBool) -> Outcome {
    let table = store.root().vectors("rows")?;
    for query in data.queries().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        assert_eq!(table.search_by_vector(query, K)?.len(), K);
    }
    Ok(())
}

/// One buffered write after another, in microseconds each; the rows that are overwritten stay what they are.
fn write(store: &Store, data: &Data, rows: bool) -> Outcome<Vec<f64>> {
    let (notes, table, body) = (store.root().notes(), store.root().vectors("rows")?, "b".repeat(BODY_BYTES));
    let (begin, mut times) = (Instant::now(), Vec::new());
    let count = data.rows.len() / WIDTH;
    while begin.elapsed() < WRITING {
        let n = hash(times.len() as u64, 9) as usize % count;
        let metadata = metadata(n)?;
        let begin = Instant::now();
        match rows {
            true => table.upsert_embedding(&id(n), "a text", &metadata, &data.rows[n * WIDTH..][..WIDTH])?,
            false => drop(notes.remember(&format!("user/k{n:07}"), "a summary", &body)?),
        }
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}

fn writers(out: &mut impl Write, data: &Data, store: &Store) -> Outcome {
    writeln!(
        out,
        "\n| buffered writes beside a thread that | writes/s | p50 µs | p99 µs | max µs | of p99 beside one that computes |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for (name, rows) in [("note", false), ("row of the table", true)] {
        let mut figures = vec![[const { Vec::new() }; 4]; BESIDE.len()];
        for _ in 0..RUNS {
            for ((_, beside), figures) in BESIDE.iter().zip(&mut figures) {
                let stop = AtomicBool::new(false);
                let mut times = std::thread::scope(|scope| -> Outcome<Vec<f64>> {
                    let other = scope.spawn(|| beside(store, data, &stop).map_err(|e| e.to_string()));
                    let times = write(store, data, rows);
                    stop.store(true, Ordering::Relaxed);
                    other.join().map_err(|_| "the other thread panicked")??;
                    times
                })?;
                times.sort_by(f64::total_cmp);
                let last = times.len() - 1;
                let each = [
                    times.len() as f64 / WRITING.as_secs_f64(),
                    times[last / 2],
                    times[last * 99 / 100],
                    times[last],
                ];
                figures.iter_mut().zip(each).for_each(|(all, one)| all.push(one));
            }
        }
        let mut base = 0.0;
        for ((beside, _), figures) in BESIDE.iter().zip(&mut figures) {
            let [rate, half, most, max] = figures.each_mut().map(|figures| median(figures));
            base = if base == 0.0 { most } else { base };
            writeln!(
                out,
                "| {name}: {beside} | {rate:.0} | {half:.1} | {most:.1} | {max:.0} | {:.2} |",
                most / base
            )?;
        }
    }
    Ok(())
}

/// Folds the log without its checkpoints, and says what a row costs.
fn memory(dir: &Path) -> Outcome {
    let away = dir.with_extension("away");
    fs::rename(dir.join("checkpoints"), &away)?;
    let anonymous = || -> Outcome<u64> {
        let status = fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("no RssAnon")?;
        Ok(line.split_whitespace().next().ok_or("no number")?.parse::<u64>()? * 1024)
    };
    let before = anonymous()?;
    let begin = Instant::now();
    let store = Store::open_read_only(dir)?;
    let ms = begin.elapsed().as_secs_f64() * 1000.0;
    let rows = store.root().vectors("rows")?.len() as u64;
    let each = (anonymous()? - before) / rows;
    writeln!(
        std::io::stdout(),
        "Heap of a row: {each} bytes, of which {} for its floats and 8 for its id. Folded {:.0} frames/s.",
        4 * WIDTH,
        store.appended().0 as f64 / ms * 1000.0,
    )?;
    Ok(fs::remove_dir_all(&away)?)
}
