//! What is compared, part by part.

pub mod beside;
pub mod buffered;
pub mod durable;
pub mod flat;
pub mod raw;
pub mod reads;
pub mod threads;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Result;
use crate::notes::{Bodies, Key, SUMMARY};
use crate::report::Report;
use crate::settings::Settings;
use crate::stores::{Note, Session, Store};

/// One part of the run.
pub type Work = fn(&Settings, &mut Report) -> Result<()>;

/// What writing for a while came to.
#[derive(Default)]
pub struct Written {
    pub writes: u64,
    pub rate: f64,
    /// Of each write, in nanoseconds.
    pub latencies: Vec<u32>,
}

/// A directory of its own that goes with all that is in it.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(settings: &Settings) -> Result<Scratch> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = settings.dir.join(format!("{}-{number}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(Scratch(dir))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.0) {
            eprintln!("{} is left over: {e}", self.0.display());
        }
    }
}

/// What ends a thread's writing.
#[derive(Clone, Copy)]
pub enum Until {
    Time(Duration),
    Count(u64),
}

/// Saves notes by several threads, one at a time each, and asserts that all are there behind `before` others. `seed`
/// keeps the keys of several calls on one store apart.
pub fn write(store: &dyn Store, threads: u64, until: Until, before: u64, seed: u64) -> Result<Written> {
    let bodies = Bodies::new();
    let begin = Instant::now();
    let each: Vec<Result<Vec<u32>>> = std::thread::scope(|scope| {
        let bodies = &bodies;
        let spawn =
            |thread| scope.spawn(move || session(store, (seed << 8 | thread) << 40, bodies, begin, until));
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect()
    });
    let took = begin.elapsed().as_secs_f64();
    let mut written = Written::default();
    for latencies in each {
        written.latencies.extend(latencies?);
    }
    written.writes = written.latencies.len() as u64;
    written.rate = written.writes as f64 / took;
    assert_eq!(store.len()?, before + written.writes, "every acknowledged note is there");
    Ok(written)
}

fn session(store: &dyn Store, first: u64, bodies: &Bodies, begin: Instant, until: Until) -> Result<Vec<u32>> {
    let mut session = store.session()?;
    let mut latencies = Vec::new();
    let mut now = Instant::now();
    for n in 0.. {
        match until {
            Until::Time(time) if now.duration_since(begin) >= time => break,
            Until::Count(count) if n >= count => break,
            _ => {}
        }
        session.put(Note { key: Key::new(first + n).as_str(), summary: SUMMARY, body: bodies.of(n) })?;
        let then = std::mem::replace(&mut now, Instant::now());
        latencies.push(now.duration_since(then).as_nanos().min(u128::from(u32::MAX)) as u32);
    }
    Ok(latencies)
}

/// Saves notes `0..notes`, so many a transaction.
pub fn load(session: &mut dyn Session, notes: u64, batch: u64) -> Result<()> {
    let bodies = Bodies::new();
    for from in (0..notes).step_by(batch as usize) {
        let to = notes.min(from + batch);
        let keys: Vec<Key> = (from..to).map(Key::new).collect();
        let note = |(n, key)| Note { key: Key::as_str(key), summary: SUMMARY, body: bodies.of(n) };
        let notes: Vec<Note<'_>> = (from..to).zip(&keys).map(note).collect();
        session.put_all(&notes)?;
    }
    Ok(())
}
