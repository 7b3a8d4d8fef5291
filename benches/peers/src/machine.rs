//! Where and when a run was made, and of what.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const LOCK: &str = include_str!("../Cargo.lock");

/// Processor, kernel, filesystem, date and versions, in one sentence each.
pub fn describe(dir: &Path) -> String {
    let uname = rustix::system::uname();
    let threads = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{}, {threads} cores; {} {}; {}; {}; load {} at the beginning. mnemolog {}, fjall {}, redb {}, LMDB through \
         heed {}, SQLite {} through rusqlite {}.",
        processor(),
        uname.sysname().to_string_lossy(),
        uname.release().to_string_lossy(),
        filesystem(dir),
        date(),
        fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or("unknown"),
        version("mnemolog"),
        version("fjall"),
        version("redb"),
        version("heed"),
        rusqlite::version(),
        version("rusqlite"),
    )
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "unknown processor".to_owned(), |(_, name)| name.to_owned())
}

/// The kind of filesystem that a directory is on: that of the longest mount point above it.
fn filesystem(dir: &Path) -> String {
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fields = |line: &str| {
        let mut fields = line.split(' ').map(str::to_owned);
        Some((fields.next()?, fields.next()?, fields.next()?))
    };
    let above = mounts.lines().filter_map(fields).filter(|(_, at, _)| dir.starts_with(at));
    let found = above.max_by_key(|(_, at, _)| at.len());
    found.map_or_else(|| "unknown filesystem".to_owned(), |(device, _, kind)| format!("{kind} on {device}"))
}

fn date() -> String {
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let time = u64::try_from(micros).ok().and_then(mnemolog::Time::from_micros).unwrap_or_default();
    time.to_string().chars().take("2026-11-30".len()).collect()
}

/// The version of a package in this crate's lock file.
fn version(package: &str) -> &'static str {
    let mut lines = LOCK.lines().skip_while(|line| *line != format!("name = \"{package}\""));
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = \""));
    version.map_or("unknown", |version| version.trim_end_matches('"'))
}
