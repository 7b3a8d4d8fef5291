//! The corpora of the fuzz targets, replayed: inputs that reach far, and every input that ever failed.
//!
//! `fuzz/corpus` is minimised and small; `fuzz/regressions` only grows. With `MNEMOLOG_WRITE_SEEDS=DIRECTORY` the
//! seeds that fuzzing begins with are written there, made of the specimens and of the sample conversation.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fuzzing::TARGETS;
use crate::fuzzing::decode::{INTENT, SEGMENT, SNAPSHOT, compact};

/// What the committed inputs may take up together.
const BYTES_MAX: u64 = 1 << 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// Every file in a folder, sorted; none if there is no such folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.sort();
    paths
}

/// Runs a target on all its inputs; a failure names the input.
fn check(target: &str) {
    if !root().is_dir() {
        return crate::support::skip("the corpora are not part of a package");
    }
    let (name, run) = TARGETS.into_iter().find(|(name, _)| *name == target).expect("a target of this name");
    let inputs: Vec<_> =
        ["corpus", "regressions"].iter().flat_map(|folder| files(&root().join(folder).join(name))).collect();
    assert!(inputs.len() > 20, "{name} has a corpus");
    for path in &inputs {
        let data = fs::read(path).expect("a readable input");
        let unwound = std::panic::catch_unwind(|| run(&data));
        assert!(unwound.is_ok(), "{name} fails on {}", path.display());
    }
}

#[test]
fn decoding_keeps_its_laws_on_every_committed_input() {
    check("decode");
}

#[test]
fn recovery_keeps_its_laws_on_every_committed_input() {
    check("recover");
}

#[test]
fn a_store_agrees_with_the_model_on_every_committed_input() {
    check("model");
}

#[test]
fn lines_keep_their_laws_on_every_committed_input() {
    check("interchange");
}

#[test]
fn the_fold_keeps_its_laws_on_every_committed_input() {
    check("deltas");
}

#[test]
fn the_corpora_are_small() {
    let of = |folder: &str| TARGETS.map(|(name, _)| files(&root().join(folder).join(name)));
    let paths = of("corpus").into_iter().chain(of("regressions")).flatten();
    let bytes: u64 = paths.map(|path| path.metadata().expect("a readable input").len()).sum();
    assert!(bytes < BYTES_MAX, "{bytes} bytes of inputs: minimise them (fuzz/README.md)");
}

#[test]
fn every_target_holds_on_no_input_and_on_short_ones() {
    for (_, run) in TARGETS {
        run(&[]);
        for byte in 0..=255 {
            run(&[byte]);
            run(&[byte; 40]);
        }
    }
}

/// Seeds of `decode`: every specimen as the thing that it is.
fn seeds_of_decode() -> Vec<Vec<u8>> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/golden/v1");
    let mut seeds = Vec::new();
    for specimen in files(&golden) {
        for path in files(&specimen.join("log")) {
            seeds.push([&[SEGMENT][..], &compact(&fs::read(path).expect("a specimen"))].concat());
        }
        for (name, tag) in [("INTENT", INTENT), ("DURABLE", 3)] {
            seeds.extend(fs::read(specimen.join(name)).map(|bytes| [&[tag][..], &bytes].concat()));
        }
    }
    let store = mnemolog::Options::new().open_read_only(golden.join("whole")).expect("a good specimen");
    for (handle, _) in store.handles() {
        let (path, name) = handle.id.rsplit_once('/').unwrap_or(("", &handle.id));
        let at = if path.is_empty() { store.root() } else { store.workspace(path).expect("a path") };
        let bytes = match handle.kind {
            mnemolog::codec::delta::HandleKind::Notes => at.notes().snapshot_bytes(),
            mnemolog::codec::delta::HandleKind::Vector => at.vectors(name).and_then(|h| h.snapshot_bytes()),
            mnemolog::codec::delta::HandleKind::Episodic => {
                at.episodic(name).and_then(|h| h.snapshot_bytes())
            }
            mnemolog::codec::delta::HandleKind::Working => at.working(name).and_then(|h| h.snapshot_bytes()),
        };
        let bytes = bytes.expect("a snapshot");
        seeds.push([&[SNAPSHOT][..], &bytes].concat());
        // Behind its header, a snapshot is a payload.
        seeds.push([&[5][..], &bytes[mnemolog::codec::snapshot::SNAPSHOT_HEADER_BYTES..]].concat());
    }
    seeds.extend(lines().iter().map(|line| [&[4][..], line.as_bytes()].concat()));
    seeds
}

/// Seeds of `recover`: every log as it is, and with one change of each kind to each of its files.
fn seeds_of_recover() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (which, log) in crate::fuzzing::recover::LOGS.iter().enumerate() {
        seeds.push(vec![which as u8]);
        for path in 0..log.len() {
            seeds.extend((0..10).map(|what| vec![which as u8, 1, path as u8, what, 0, 7, 40, 7, 1, 2]));
        }
    }
    seeds
}

/// Lines of the sample and of the specimens' dumps, which hold every operation.
fn lines() -> Vec<String> {
    let mut out = Vec::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/golden/v1");
    for name in ["whole", "base", "erased", "erased-in-part", "lost"] {
        let store = mnemolog::Options::new().open_read_only(golden.join(name));
        let Ok(store) = store else { continue };
        let mut text = Vec::new();
        let _ = mnemolog::interchange::dump(&store, &mut text, mnemolog::interchange::DumpOptions::default());
        out.extend(String::from_utf8(text).expect("lines").lines().map(str::to_owned));
    }
    out.extend(include_str!("../data/conversation.jsonl").lines().take(20).map(str::to_owned));
    out
}

#[test]
fn seeds_are_written_where_they_are_asked_for() {
    let Some(root) = std::env::var_os("MNEMOLOG_WRITE_SEEDS").map(PathBuf::from) else { return };
    let lines = lines();
    let blocks: Vec<Vec<u8>> = lines.chunks(6).map(|lines| lines.join("\n").into_bytes()).collect();
    let seeds = [("decode", seeds_of_decode()), ("recover", seeds_of_recover()), ("interchange", blocks)];
    for (target, seeds) in seeds {
        let folder = root.join(target);
        fs::create_dir_all(&folder).expect("a folder for seeds");
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:03}")), seed).expect("a seed");
        }
    }
}
