//! How often each thing was met: what never happens is not tested.

use std::collections::BTreeMap;

use mnemolog::disk::{Call, Fault};

/// Things that must be met, and by how many of a thousand histories at least.
const WANTED: [(&str, u64); 102] = [
    ("cut", 50),
    ("rewritten", 100),
    ("rotations", 100),
    ("intent finished", 1),
    ("writes", 1000),
    ("writes that found nothing to do", 50),
    ("writes of unknown outcome", 50),
    ("writes refused by a stopped writer", 20),
    ("writes refused by a full disk", 5),
    ("outcomes unknown, then there", 20),
    ("outcomes unknown, then not there", 20),
    ("openings", 1000),
    ("openings that failed", 50),
    ("locked", 50),
    ("locks taken from the dead", 10),
    ("died", 100),
    ("survivors that went on", 50),
    ("closed", 20),
    ("flushed", 50),
    ("appended while a sync was under way", 10),
    ("reader refreshes", 100),
    ("reader openings", 100),
    ("reader in the middle of a sync", 10),
    ("looks into the past", 50),
    ("ways back", 50),
    ("told by a tail", 50),
    ("checkpoints", 100),
    ("checkpoints spoiled", 10),
    ("openings from a checkpoint", 100),
    ("forks", 20),
    ("compactions", 20),
    ("erased", 50),
    ("erased a note", 10),
    ("erased a row", 5),
    ("erased episodes", 5),
    ("erased entries", 2),
    ("erased a handle", 5),
    ("erased by a text", 5),
    ("erasures of unknown outcome, done", 1),
    ("erasures of unknown outcome, not done", 1),
    ("embedded anew", 50),
    ("embedded anew, going on", 5),
    ("embedded anew, with nothing left to embed", 2),
    ("embeddings anew that were given up", 5),
    ("searched by the old vectors", 50),
    ("acted while a table was embedded anew", 20),
    ("embedders that failed", 5),
    ("embedders that failed, in part", 1),
    ("embeddings anew that were interrupted", 10),
    ("embeddings anew that were interrupted, not begun", 1),
    ("embeddings anew that were interrupted, in part", 1),
    ("embeddings anew that were interrupted, switched", 1),
    ("backups", 20),
    ("backups of what had grown", 5),
    ("backups that failed", 10),
    ("clock went back", 50),
    ("clock went ahead", 50),
    ("pages evicted", 5),
    ("rounds", 4000),
    ("stopped within a call", 300),
    ("all processes killed", 100),
    ("loss: Sector", 100),
    ("loss: Byte", 100),
    ("loss: Mix", 100),
    ("loss: Garbage", 100),
    ("loss: Stale", 100),
    ("loss: Zeros", 100),
    ("rot: Flip", 20),
    ("rot: Zeros", 20),
    ("rot: Garbage", 20),
    ("rot: Misdirected", 20),
    ("rot: Duplicate", 20),
    ("rot: NoFile", 20),
    ("rot: Header", 20),
    ("rot: Promise", 20),
    ("damaged", 100),
    ("whole in spite of rot", 20),
    ("repaired", 100),
    ("repairs that failed", 5),
    ("repairs that were interrupted", 5),
    ("frames lost and named", 50),
    ("repairs of a whole log", 5),
    ("fault: Read Io", 3),
    ("fault: Read ShortRead", 3),
    ("fault: Write Io", 3),
    ("fault: Write Full", 3),
    ("fault: Write ShortWrite", 3),
    ("fault: Reserve Io", 3),
    ("fault: Reserve Full", 3),
    ("fault: Sync Io", 3),
    ("fault: Sync Full", 3),
    ("fault: Sync SyncLost", 10),
    ("fault: SyncDir Io", 3),
    ("fault: SyncDir Full", 3),
    ("fault: Create Io", 1),
    ("fault: Create Full", 1),
    ("fault: Rename Io", 1),
    ("fault: List Io", 3),
    ("fault: Open Io", 3),
    ("fault: Lock Io", 1),
    ("fault: Examine Io", 3),
    ("fault: Remove Io", 1),
];

/// Things and how often they were met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<String, u64>);

impl Counts {
    pub(crate) fn add(&mut self, what: &str, times: u64) {
        match self.0.get_mut(what) {
            Some(count) => *count += times,
            None => drop(self.0.insert(what.to_owned(), times)),
        }
    }

    pub(crate) fn met(&mut self, what: &str) {
        self.add(what, 1);
    }

    pub(crate) fn fired(&mut self, call: Call, fault: Fault) {
        let fault = match fault {
            Fault::ShortWrite(_) => "ShortWrite".to_owned(),
            Fault::ShortRead(_) => "ShortRead".to_owned(),
            other => format!("{other:?}"),
        };
        self.met(&format!("fault: {call:?} {fault}"));
    }

    pub(crate) fn merge(&mut self, other: &Counts) {
        for (what, times) in &other.0 {
            self.add(what, *times);
        }
    }

    /// What was met too rarely in so many histories.
    pub(crate) fn missing(&self, histories: u64) -> Vec<String> {
        let rare = WANTED.iter().filter_map(|(what, least)| {
            let (met, least) = (self.0.get(*what).copied().unwrap_or_default(), least * histories / 1000);
            (met < least.max(1)).then(|| format!("{what}: {met}, expected {least}"))
        });
        rare.collect()
    }

    pub(crate) fn print(&self) {
        for (what, times) in &self.0 {
            println!("{times:>10}  {what}");
        }
    }
}
