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

/// Whatever the clock says: the conversations carry times of their own.
const TRUSTING: LoadOptions = LoadOptions { keep_going: false, trust_times: true };

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
        let report = load(store, &mut lines.join("\n").as_bytes(), TRUSTING).expect("loads");
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
    let read = mnemolog::log::verify(&FileDisk::new(dir.path().join("store")).expect("a directory"));
    let read = read.expect("readable");
    assert!(read.findings.is_empty(), "{:?}", read.findings);
    assert_eq!((read.last, read.frames), (store.appended(), lines.len() as u64));
    #[cfg(feature = "cli")]
    commands(&dir.path().join("store"), &lines, &live);

    let mut text = Vec::new();
    let report = dump(&store, &mut text, DumpOptions::default()).expect("dumps");
    assert_eq!((report.frames, report.last), (lines.len() as u64, store.appended()));
    let again = open(&dir.path().join("again"));
    let report = load(&again, &mut text.as_slice(), TRUSTING).expect("loads");
    assert!(!report.renumbered && report.raised_times == 0 && report.embedded == 0);
    check_digests(&again, &live);
    let mut twin = Vec::new();
    dump(&again, &mut twin, DumpOptions::default()).expect("dumps");
    assert!(twin == text, "the dumps differ");
    search(&lines, &store, &again);
}

/// What one line says: workspace, name of the handle, arguments.
fn said(line: &str) -> (String, String, serde_json::Value) {
    let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let id = value["handle_id"].as_str().and_then(|id| id.rsplit_once('/')).expect("a workspace");
    (id.0.to_owned(), id.1.to_owned(), value["args"].clone())
}

fn lines_with<'l>(
    lines: &'l [String],
    op: &str,
) -> impl Iterator<Item = (String, String, serde_json::Value)> + 'l {
    let op = format!(r#""{op}""#);
    lines.iter().filter(move |line| line.contains(&op)).map(|line| said(line))
}

fn text<'v>(args: &'v serde_json::Value, field: &str) -> &'v str {
    args[field].as_str().expect("a string")
}

/// Every text that was embedded is found by its own words, in both stores with the same scores, and every note
/// that is still there by words of its body.
fn search(lines: &[String], store: &Store, again: &Store) {
    let mut searched = 0;
    for (workspace, name, args) in lines_with(lines, "upsert").step_by(97) {
        let hits = [store, again].map(|store| {
            let table = store.workspace(&workspace).and_then(|ws| ws.vectors(&name)).expect("names");
            table.search(text(&args, "text"), 5).expect("searches")
        });
        assert!(hits[0][0].score > 0.999, "{:?}", hits[0][0]);
        assert_eq!(hits[0], hits[1]);
        searched += 1;
    }
    assert!(searched > 0);
    for (workspace, _, args) in lines_with(lines, "remember").step_by(97) {
        let found = [store, again].map(|store| {
            let notes = store.workspace(&workspace).expect("a path").notes();
            let body = notes.get(text(&args, "key")).expect("readable").map(|note| note.body);
            let words: String = body.iter().flat_map(|body| body.as_str().chars()).take(40).collect();
            notes.find(&words.to_uppercase()).expect("searches")
        });
        assert!(found[0].iter().any(|found| found.key == text(&args, "key")), "{args}");
        assert_eq!(found[0], found[1]);
        searched += 1;
    }
    assert!(searched > 1, "no note was searched");
}

/// The commands answer the same about the store.
#[cfg(feature = "cli")]
fn commands(store: &Path, lines: &[String], live: &[(Frame, u128)]) {
    let json = |args: &[&str]| -> Vec<serde_json::Value> {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mnemolog"));
        let output = command.arg("--json").arg("--store").arg(store).args(args).output().expect("it starts");
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
        let out = String::from_utf8(output.stdout).expect("UTF-8");
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let hex = |digest: u128| format!("{digest:032x}");
    let (last, digest) = *live.last().expect("parts");
    let report = &json(&["verify"])[0];
    assert_eq!((&report["whole"], &report["digest"]), (&true.into(), &hex(digest).into()), "{report}");
    let info = &json(&["info"])[0];
    assert_eq!((&info["frame"], &info["durable"]), (&last.0.into(), &last.0.into()), "{info}");
    for (frame, digest) in live.iter().step_by(10) {
        assert_eq!(json(&["replay", "--at", &frame.to_string()])[0]["digest"], hex(*digest), "frame {frame}");
    }
    let (workspace, name, row) = lines_with(lines, "upsert").last().expect("a row");
    let hits = json(&["--workspace", &workspace, "vector", "search", &name, text(&row, "text"), "-k", "3"]);
    assert!(hits.iter().any(|hit| hit["id"] == row["id"]), "{hits:?}");
    let (workspace, _, note) = lines_with(lines, "remember").last().expect("a note");
    let found = json(&["--workspace", &workspace, "search", text(&note, "key")]);
    assert!(found.iter().any(|found| found["key"] == note["key"]), "{found:?}");
}
