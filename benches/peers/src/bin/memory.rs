//! What the library asks of the allocator: bytes that stay for each note, vector and episode, and allocations a commit.
//!
//! Counted are the bytes that were asked for, not what the allocator makes of them. Bodies, texts and values stay in the
//! log, and so do keys of episodes; a map of the log is no heap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use mnemolog::{Durability, Json, Options};

#[path = "../notes.rs"]
mod notes;

use notes::{Bodies, Key, PATTERN, SUMMARY};

static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: everything is passed on to the system's allocator as it came, and its answer back; counting touches no memory
// but the counters.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as it came.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as it came.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(new as u64, Ordering::Relaxed);
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as it came.
        unsafe { System.realloc(pointer, layout, new) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Floats of a vector.
const DIM: usize = 384;
/// Vectors are fewer than notes, so many times.
const VECTORS: u64 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let notes = std::env::var("BENCH_NOTES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let dir = std::env::var_os("BENCH_DIR")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/target").into(), std::path::PathBuf::from);
    let dir = dir.join(format!("memory-{}", std::process::id()));
    let result = measure(&dir, notes);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &Path, notes: u64) -> Result<(), Box<dyn Error>> {
    println!("| what stays on the heap | bytes each |\n|---|---|");
    let bodies = Bodies::new();
    assert!(
        bodies.of(0).len() == notes::BODY_BYTES && Bodies::rare_of(notes) * 8 <= notes && !PATTERN.is_empty()
    );
    for (order, key) in [("in order", ordered as fn(u64) -> String), ("in random order", shuffled)] {
        let path = dir.join(order.replace(' ', "-"));
        let open = || Options::new().durability(Durability::Os).checkpoint_distance(u64::MAX).open(&path);
        let before = LIVE_BYTES.load(Ordering::Relaxed);
        let store = open()?;
        for n in 0..notes {
            store.root().notes().remember(&key(n), SUMMARY, bodies.of(n))?;
        }
        report(
            &format!("a note, keys {order}: beyond key and summary"),
            before,
            notes,
            key(0).len() + SUMMARY.len(),
        );
        drop(store);
        let before = LIVE_BYTES.load(Ordering::Relaxed);
        let store = open()?;
        assert_eq!(store.root().notes().len() as u64, notes, "every note is there");
        report("the same, folded from the log at opening", before, notes, key(0).len() + SUMMARY.len());
        drop(store);
    }
    vectors(&dir.join("vectors"), notes / VECTORS)?;
    episodes(&dir.join("episodes"), notes / VECTORS)?;
    commits(&dir.join("commits"), notes / VECTORS)
}

fn vectors(dir: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let store = Options::new().durability(Durability::Os).checkpoint_distance(u64::MAX).open(dir)?;
    let table = store.root().vectors("docs")?;
    for n in 0..count {
        let embedding: Vec<f32> =
            (0..DIM as u64).map(|i| (notes::mix(n << 16 | i) >> 40) as f32 - 8e6).collect();
        table.upsert_embedding(
            Key::new(n).as_str(),
            "a text that stays in the log",
            &Json::object(),
            &embedding,
        )?;
    }
    report(&format!("a vector of {DIM} floats, its {} bytes and id included", 4 * DIM), before, count, 0);
    assert_eq!(table.len() as u64, count, "every vector is there");
    Ok(())
}

fn episodes(dir: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let store = Options::new().durability(Durability::Os).checkpoint_distance(u64::MAX).open(dir)?;
    let ring = store.root().episodic("turns")?;
    let value = Json::parse(r#"{"said":"a value that stays in the log"}"#).map_err(|e| e.to_string())?;
    for n in 0..count {
        ring.record(Key::new(n).as_str(), &value)?;
    }
    report("an episode, its key of 21 bytes included", before, count, 0);
    assert_eq!(ring.len() as u64, count, "every episode is there");
    Ok(())
}

/// Notes that are saved again, as long as before: nothing but the log's index grows.
fn commits(dir: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let store = Options::new().durability(Durability::Os).checkpoint_distance(u64::MAX).open(dir)?;
    let (handle, bodies) = (store.root().notes(), Bodies::new());
    let save = |from: u64| -> Result<(), mnemolog::Error> {
        (0..count).try_for_each(|n| {
            handle.remember(Key::new(n % 1000).as_str(), SUMMARY, bodies.of(from + n)).map(drop)
        })
    };
    save(0)?;
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    save(1)?;
    let each = (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64 / count as f64;
    println!(
        "\n| allocations a commit that saves a note again | of which its answer, and the log's index |\n|---|---|"
    );
    println!("| {each:.3} | 1 + 6/64 |");
    assert!(each < 1.12, "a commit needs no memory but for its answer and the log's index");
    Ok(())
}

fn report(what: &str, before: u64, count: u64, known: usize) {
    let bytes = (LIVE_BYTES.load(Ordering::Relaxed) - before) as f64 / count as f64;
    println!("| {what} | {:.0} |", bytes - known as f64);
}

fn ordered(n: u64) -> String {
    format!("user/{n:016x}")
}

fn shuffled(n: u64) -> String {
    Key::new(n).as_str().to_owned()
}
