//! Real input: whole conversations in one store, and the same store again from its dump.
//!
//! The conversations are those in the directory that `MNEMOLOG_CONVERSATIONS` names, otherwise the committed
//! sample. Digests are taken live while the lines are loaded, and compared with every other way to the same frame.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mnemolog::disk::{Disk, FileDisk};
use mnemolog::interchange::{DumpOptions, LoadOptions, dump, load};
use mnemolog::{Frame, Options, Store};

use crate::support::skip;

/// Frames whose digests are compared.
const FRAMES: u64 = 50;

/// The files to load, in the order of their names.
fn conversations() -> Vec<PathBuf> {
    let Some(dir) = std::env::var_os("MNEMOLOG_CONVERSATIONS") else {
        skip("MNEMOLOG_CONVERSATIONS is not set, so only the committed sample is loaded");
        return vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/conversation.jsonl")];
    };
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let paths = entries.map(|entry| entry.expect("a directory entry").path());
    let name = |path: &Path| {
        path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with("conv-") && name.ends_with(".jsonl") && !name.ends_with(".questions.jsonl")
        })
    };
    let mut paths: Vec<_> = paths.filter(|path| name(path)).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{}: no conv-*.jsonl", dir.display());
    paths
}

fn read(paths: &[PathBuf]) -> Vec<String> {
    let read =
        |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    paths.iter().flat_map(|path| read(path).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Loads the lines in parts that end where a digest is wanted. Answers the digests.
fn load_live(store: &Store, lines: &[String]) -> Vec<(Frame, u128)> {
    let part = lines.len().div_ceil(FRAMES as usize);
    let digest = |lines: &[String]| {
        let report = load(store, &mut lines.join("\n").as_bytes(), LoadOptions::default()).expect("loads");
        assert_eq!(report.lines, lines.len() as u64);
        (store.appended(), store.digest().expect("digest"))
    };
    lines.chunks(part).map(digest).collect()
}

fn open(path: &Path) -> Store {
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(path).expect("a directory"));
    Options::new().open_on(disk).expect("opens")
}

fn check_digests(store: &Store, live: &[(Frame, u128)]) {
    for (frame, digest) in live {
        assert_eq!(store.at(*frame).expect("replays").digest().expect("digest"), *digest, "frame {frame}");
    }
}

#[test]
fn real_conversations_replay_to_the_digests_recorded_live_and_survive_a_dump() {
    let lines = read(&conversations());
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir.path().join("store"));
    let live = load_live(&store, &lines);
    assert!(live.len() as u64 > FRAMES / 2);
    assert_eq!(store.appended().0, lines.len() as u64, "one frame a line");
    check_digests(&store, &live);
    store.close().expect("closes");
    let store = open(&dir.path().join("store"));
    check_digests(&store, &live);

    let mut text = Vec::new();
    let report = dump(&store, &mut text, DumpOptions::default()).expect("dumps");
    assert_eq!((report.frames, report.last), (lines.len() as u64, store.appended()));
    let again = open(&dir.path().join("again"));
    let report = load(&again, &mut text.as_slice(), LoadOptions::default()).expect("loads");
    assert!(!report.renumbered && report.raised_times == 0 && report.embedded == 0);
    check_digests(&again, &live);
    let mut twin = Vec::new();
    dump(&again, &mut twin, DumpOptions::default()).expect("dumps");
    assert!(twin == text, "the dumps differ");
    search(&lines, &store, &again);
}

/// Every text that was embedded is found by its own words, in both stores with the same scores.
fn search(lines: &[String], store: &Store, again: &Store) {
    let mut searched = 0;
    for line in lines.iter().filter(|line| line.contains(r#""upsert""#)).step_by(97) {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let text = |field: &str| value["args"][field].as_str().expect("a string").to_owned();
        let (workspace, name) =
            value["handle_id"].as_str().and_then(|id| id.rsplit_once('/')).expect("a workspace");
        let hits = [store, again].map(|store| {
            let table = store.workspace(workspace).and_then(|ws| ws.vectors(name)).expect("names");
            table.search(&text("text"), 5).expect("searches")
        });
        assert!(hits[0][0].score > 0.999, "{:?}", hits[0][0]);
        assert_eq!(hits[0], hits[1]);
        searched += 1;
    }
    assert!(searched > 0);
}
