//! The promises of `format/README.md`, and the tests that protect them.
//!
//! A test, or the head of a file of tests, names the promises that it protects in a sentence of its documentation:
//! "Protects promise 6." or "Protects promises 1, 2 and 6." Here it is checked that each promise of the format is
//! named by some test, and that no test names one that the format does not make.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The numbers of the list below a heading of the specification.
fn listed(heading: &str) -> BTreeSet<u32> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/README.md");
    let text = fs::read_to_string(path).expect("the specification");
    let section = text.split("\n## ").find(|section| section.lines().next() == Some(heading));
    let lines = section.expect("a section of that name").lines();
    lines.filter_map(|line| line.split_once(". ")?.0.parse().ok()).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of tests") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The numbers that the documentation in a source names behind "Protects promise", or "Protects promises".
fn named(source: &str) -> Vec<u32> {
    let documentation: Vec<&str> = source
        .lines()
        .filter_map(|line| {
            let line = line.trim_start();
            line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
        })
        .collect();
    let text = documentation.join(" ");
    let sentences = text.split("Protects promise").skip(1);
    let numbers = |sentence: &str| -> Vec<u32> {
        let sentence = sentence.trim_start_matches('s').split(['.', ':']).next().unwrap_or_default();
        let words = sentence.split(|c: char| c == ',' || c.is_whitespace());
        words
            .filter(|word| !word.is_empty() && *word != "and")
            .map(|word| word.parse().unwrap_or(0))
            .collect()
    };
    sentences.flat_map(numbers).collect()
}

#[test]
fn every_promise_of_the_format_is_protected_by_a_test_that_names_it() {
    let promises = listed("Promises");
    assert_eq!(promises, (1..=promises.len() as u32).collect(), "promises count from 1 on");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let mut protected: BTreeMap<u32, BTreeSet<PathBuf>> = BTreeMap::new();
    for path in paths.iter().filter(|path| !path.ends_with("promises.rs")) {
        for promise in named(&fs::read_to_string(path).expect("a source")) {
            let name = path.strip_prefix(&root).expect("below the tests").to_path_buf();
            assert!(
                promises.contains(&promise),
                "{} names promise {promise}, which nobody makes",
                name.display()
            );
            protected.entry(promise).or_default().insert(name);
        }
    }
    for (promise, names) in &protected {
        println!(
            "promise {promise}: {}",
            names.iter().map(|n| n.display().to_string()).collect::<Vec<_>>().join(", ")
        );
    }
    let left: Vec<_> = promises.iter().filter(|promise| !protected.contains_key(promise)).collect();
    assert!(left.is_empty(), "no test names the promises {left:?}");
}

#[test]
fn what_a_test_names_is_understood() {
    assert_eq!(named("//! Law.\n//! Protects promises 1, 2\n//! and 13: more 4.\n"), [1, 2, 13]);
    assert_eq!(named("/// Protects promise 6.\n// Protects promise 7.\nfn f() {}\n"), [6]);
    assert_eq!(named("/// Protects promise six.\n"), [0], "what is no number is none that is made");
}
