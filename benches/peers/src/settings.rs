//! How much is done, and where: from the environment, so that a smoke run takes seconds.

use std::env;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::Result;

/// Sizes and lengths.
pub struct Settings {
    /// Where the stores are made: its filesystem is what is measured.
    pub dir: PathBuf,
    /// Where the table and the chart go.
    pub out: PathBuf,
    /// Which parts to run; all if empty.
    pub parts: Vec<String>,
    /// Rounds of each comparison.
    pub runs: usize,
    /// Of one round of durable writes.
    pub time: Duration,
    /// Notes that are read and searched.
    pub notes: u64,
    /// Random reads a round.
    pub reads: u64,
    /// Buffered writes a round.
    pub buffered: u64,
    /// Frames of the long log.
    pub frames: u64,
}

impl Settings {
    /// Reads `BENCH_DIR`, `BENCH_OUT`, `BENCH_PARTS` (`durable,reads`), `BENCH_RUNS`, `BENCH_SECONDS`, `BENCH_NOTES`,
    /// `BENCH_READS`, `BENCH_BUFFERED` and `BENCH_FRAMES`.
    pub fn from_environment() -> Result<Settings> {
        let crate_dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let path = |name, otherwise| env::var_os(name).map_or(otherwise, PathBuf::from);
        let parts = env::var("BENCH_PARTS").unwrap_or_default();
        Ok(Settings {
            dir: path("BENCH_DIR", crate_dir.join("target/stores")),
            out: path("BENCH_OUT", crate_dir.join("..")),
            parts: parts.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            runs: number("BENCH_RUNS", 5)?,
            time: Duration::from_secs_f64(number("BENCH_SECONDS", 1.0)?),
            notes: number("BENCH_NOTES", 1_000_000)?,
            reads: number("BENCH_READS", 200_000)?,
            buffered: number("BENCH_BUFFERED", 300_000)?,
            frames: number("BENCH_FRAMES", 10_000_000)?,
        })
    }
}

fn number<T: FromStr>(name: &str, otherwise: T) -> Result<T> {
    match env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name} must be a number, not {text}").into()),
        Err(_) => Ok(otherwise),
    }
}
