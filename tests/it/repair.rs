//! Repair: what is intact stays, what is gone is said, in every kind of memory; a crash leaves the damage or the
//! finished repair; and nothing is changed where nothing is damaged.
//!
//! Owns the small vocabulary of the files of this folder.

mod crash;
mod files;
mod kinds;
mod specimens;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mnemolog::codec::frame::LostRange;
use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::log::{self, Repaired, verify};
use mnemolog::{Result, Time};

type Files = BTreeMap<String, Vec<u8>>;

fn disk_of(files: &Files) -> MemoryDisk {
    let disk = MemoryDisk::simulated();
    for (path, bytes) in files {
        disk.write_file(path, bytes).expect("a file in memory");
    }
    disk
}

/// Everything on the disk but LOCK, which names whoever asked last.
fn contents(disk: &MemoryDisk) -> Files {
    let read = |path: String| Some((path.clone(), disk.read_file(&path)?)).filter(|(path, _)| path != "LOCK");
    disk.files().into_iter().filter_map(read).collect()
}

fn repair(disk: &MemoryDisk) -> Result<Repaired> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    log::repair(&shared, Duration::ZERO, true, Time::from_micros(7).expect("a time"))
}

fn ranges(lost: &[LostRange]) -> Vec<(u64, u64)> {
    lost.iter().map(|range| (range.first.0, range.last.0)).collect()
}

/// What holds after every repair: the log is whole, each changed file is in quarantine byte for byte, what is
/// not named is untouched, and a second repair does nothing.
fn check_repaired(before: &Files, disk: &MemoryDisk, repaired: &Repaired, context: &str) {
    let after = contents(disk);
    let report = verify(disk).expect("reads");
    assert!(report.is_whole(), "{context}: {:#?}\n{repaired:#?}", report.findings);
    for rewritten in &repaired.rewritten {
        let copy = rewritten.quarantine.as_ref().map(|name| &after[&format!("quarantine/{name}")]);
        assert_eq!(copy, before.get(&rewritten.file), "{context}: {}", rewritten.file);
    }
    for (path, bytes) in before {
        if path.ends_with(".tmp") || repaired.finished_intent {
            continue;
        }
        let named = repaired.rewritten.iter().any(|rewritten| rewritten.file == *path);
        assert!(named || after.get(path) == Some(bytes), "{context}: {path} was changed silently");
    }
    let names: Vec<_> = after.keys().filter(|path| path.ends_with(".tmp") || *path == "INTENT").collect();
    assert!(names.is_empty(), "{context}: {names:?}");
    let again = repair(disk).expect("a whole log");
    assert!(again.lost.is_empty() && again.rewritten.is_empty() && again.damage.is_empty(), "{context}");
    assert_eq!(contents(disk), after, "{context}: a second repair changes nothing");
}

fn write_to(disk: &MemoryDisk, root: &Path) {
    for (path, bytes) in contents(disk) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("inside the root")).expect("a directory");
        std::fs::write(path, bytes).expect("a file");
    }
}
