//! The command line, driven as a program: what it prints where, what it answers, and the code it ends with.

mod backup;
mod bulk;
mod checkpoint;
mod compact;
mod erase;
mod field;
mod history;
mod import;
mod processes;
mod refusals;
mod repair;
mod tail;
mod time;
mod verbs;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::place::{Place, Run, finish};

impl Place {
    /// Runs what must be done with `--json`, and answers its lines.
    fn json(&self, args: &[&str]) -> Vec<Value> {
        let args: Vec<&str> = ["--json"].into_iter().chain(args.iter().copied()).collect();
        lines(&self.done(&args))
    }

    /// Everything below the directory, by name and digest of the content. Of LOCK only that it is there: whoever
    /// asked for the lock last may have written its name.
    fn everything(&self) -> Vec<(PathBuf, u64)> {
        let mut found = Vec::new();
        collect(self.root(), &mut found);
        found.sort();
        found
    }
}

/// Every line as a JSON object.
fn lines(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    text.lines().map(parse).inspect(|value| assert!(value.is_object(), "{value}")).collect()
}

fn collect(dir: &Path, found: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found);
        }
        if path.is_dir() || path.ends_with("LOCK") {
            found.push((path, 0));
        } else {
            let content = fs::read(&path).expect("a file");
            found.push((path, xxhash_rust::xxh3::xxh3_64(&content)));
        }
    }
}

/// One sentence: one line that does not look like a value printed for programmers.
fn check_sentence(err: &str) {
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("mnemolog: "), "{err}");
    assert!(!err.contains("Error {") && !err.contains("Some(") && !err.contains("Os {"), "{err}");
}
