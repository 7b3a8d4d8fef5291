//! Histories of notes and rows: every version, newest first, from their own frames and no others.

use std::path::Path;
use std::sync::Arc;

use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::view::history::{By, Operation, Version};
use mnemolog::view::notes::Note;
use mnemolog::{Durability, Error, Frame, Json, Options, Origin, Result, Store, Time, Workspace};

use crate::model::Rng;

/// Versions as `frame operation content`, or the name of the error that ended them.
fn shown<T>(history: impl Iterator<Item = Result<Version<T>>>, text: impl Fn(&T) -> String) -> Vec<String> {
    let one = |version: Result<Version<T>>| match version {
        Ok(v) => {
            let by = if v.by == By::Delta { String::new() } else { format!(" ({})", v.by.name()) };
            let content = v.content.as_ref().map(|content| format!(" {}", text(content)));
            format!("{} {}{by}{}", v.frame, v.operation.name(), content.unwrap_or_default())
        }
        Err(Error::Lost { asked, first, last }) => format!("{asked} is lost with {first} to {last}"),
        Err(Error::Compacted { oldest }) => format!("compacted before {oldest}"),
        Err(other) => panic!("{other}"),
    };
    history.map(one).collect()
}

fn of_note(ws: &Workspace, key: &str) -> Vec<String> {
    shown(ws.notes().history(key), |note: &Note| note.body.as_str().to_owned())
}

fn of_row(ws: &Workspace, id: &str) -> Vec<String> {
    shown(ws.vectors("docs").expect("a name").history(id), |row| row.text.clone())
}

#[test]
fn a_note_shows_every_version_with_who_and_when_also_after_it_was_deleted() -> Result<()> {
    let store = Store::in_memory()?;
    let origin = Origin { agent: Some("ada".into()), ..Origin::default() };
    let (core, other) = (store.workspace("core")?, store.workspace("other")?);
    core.with_origin(origin.clone())?.notes().remember("k", "first", "one")?;
    other.notes().remember("k", "", "of another workspace")?;
    core.exclusive(|tx| {
        tx.notes().remember("other", "", "x")?;
        tx.notes().remember("k", "second", "two")?;
        tx.notes().remember("k", "third", "three")?;
        assert_eq!(of_note(tx, "k"), ["1 remember one"], "what was committed before the section");
        Ok::<_, Error>(())
    })?;
    core.notes().forget("k")?;
    core.notes().remember_json("k", None, &Json::parse("[1]")?)?;
    core.notes().forget("k")?;
    assert_eq!(
        of_note(&core, "k"),
        ["6 forget", "5 remember [1]", "4 forget", "3 remember three", "3 remember two", "1 remember one"]
    );
    assert_eq!(of_note(&core, "never"), [""; 0]);
    let past = store.at(Frame(3))?.workspace("core")?;
    assert_eq!(of_note(&past, "k"), ["3 remember three", "3 remember two", "1 remember one"]);
    let versions = core.notes().history("k").collect::<Result<Vec<_>>>()?;
    let first = versions.last().expect("six");
    assert_eq!((first.origin.as_ref(), first.operation), (Some(&origin), Operation::Remember));
    assert_eq!(Some(first.time), store.at(Frame(1))?.time());
    assert_eq!(first.content.as_ref().and_then(|note| note.summary.as_deref()), Some("first"));
    assert_eq!(versions[0].origin, None);
    Ok(())
}

#[test]
fn a_row_shows_when_it_was_cleared_with_its_table() -> Result<()> {
    let store = Store::in_memory()?;
    let core = store.workspace("core")?;
    let docs = core.vectors("docs")?;
    let upsert = |id: &str, text: &str| docs.upsert(id, text, &Json::object());
    docs.clear()?;
    upsert("a", "one")?;
    docs.clear()?;
    docs.clear()?;
    upsert("b", "other")?;
    upsert("a", "two")?;
    docs.delete("a")?;
    docs.clear()?;
    upsert("a", "three")?;
    assert_eq!(of_row(&core, "a"), ["9 upsert three", "7 delete", "6 upsert two", "3 clear", "2 upsert one"]);
    core.exclusive(|tx| {
        let docs = tx.vectors("docs")?;
        docs.clear()?;
        docs.upsert("a", "four", &Json::object())?;
        docs.clear()
    })?;
    assert_eq!(of_row(&core, "a")[..4], ["10 clear", "10 upsert four", "10 clear", "9 upsert three"]);
    assert_eq!(of_row(&core, "b"), ["8 clear", "5 upsert other"]);
    assert_eq!(of_row(&store.at(Frame(3))?.workspace("core")?, "a"), ["3 clear", "2 upsert one"]);
    Ok(())
}

#[test]
fn a_snapshot_goes_on_with_what_it_holds_and_ends_the_rest() -> Result<()> {
    let store = Store::in_memory()?;
    let core = store.workspace("core")?;
    core.notes().remember("kept", "", "one")?;
    core.vectors("docs")?.upsert("kept", "one", &Json::object())?;
    core.vectors("docs")?.clear()?;
    core.vectors("docs")?.upsert("kept", "two", &Json::object())?;
    let (notes, rows) = (core.notes().snapshot_bytes()?, core.vectors("docs")?.snapshot_bytes()?);
    core.notes().remember("left-out", "", "x")?;
    core.notes().restore_bytes(&notes)?;
    core.vectors("docs")?.restore_bytes(&rows)?;
    assert_eq!(of_note(&core, "kept"), ["6 remember (snapshot) one", "1 remember one"]);
    assert_eq!(of_note(&core, "left-out"), [""; 0]);
    let kept = ["7 upsert (snapshot) two", "4 upsert two", "3 clear", "2 upsert one"];
    assert_eq!(of_row(&core, "kept"), kept);
    Ok(())
}

/// A store of `frames` frames, of which every `every`-th is a version of `k`.
fn long(disk: &MemoryDisk, frames: u64, every: u64) -> Result<Store> {
    let store = options().open_on(Arc::new(disk.clone()))?;
    let notes = store.root().notes();
    for n in 1..=frames {
        let key = if n % every == 0 { "k".to_owned() } else { format!("other/{}", n % 97) };
        notes.remember(&key, "a note", &format!("version {n}"))?;
    }
    Ok(store)
}

fn options() -> Options {
    Options::new().segment_bytes(1 << 20).durability(Durability::Os)
}

fn check_reads_only_its_own_frames(frames: u64, every: u64) -> Result<()> {
    let disk = MemoryDisk::new();
    let store = long(&disk, frames, every)?;
    assert!(store.log_size().segments > 5, "a history across files");
    let count = |store: &Store| {
        let before = store.reads();
        let versions = store.root().notes().history("k").collect::<Result<Vec<_>>>()?;
        let own: Vec<u64> = versions.iter().map(|version| version.frame.0).collect();
        assert_eq!(own, (1..=frames).rev().filter(|n| n % every == 0).collect::<Vec<_>>());
        let after = store.reads();
        assert_eq!(after.frames - before.frames, frames / every, "each version's frame, and no other");
        assert_eq!(after.envelopes, before.envelopes);
        Ok::<_, Error>(())
    };
    count(&store)?;
    store.close()?;
    drop(store);
    count(&options().open_read_only_on(Arc::new(disk.clone()))?)?;
    count(&options().map(false).open_on(Arc::new(disk))?)
}

#[test]
fn a_history_of_5_000_versions_among_1_000_000_frames_reads_5_000_frames() -> Result<()> {
    check_reads_only_its_own_frames(1_000_000, 200)
}

#[test]
fn a_history_reads_its_own_frames_also_where_opening_read_none_of_them() -> Result<()> {
    let disk = MemoryDisk::new();
    let store = long(&disk, 10_000, 50)?;
    store.flush()?;
    store.checkpoint()?;
    store.root().notes().remember("k", "a note", "the newest")?;
    store.close()?;
    drop(store);
    let store = options().open_on(Arc::new(disk))?;
    let opening = store.reads().frames;
    assert!(opening < 100, "a checkpoint and what is behind it, not {opening} frames");
    assert_eq!(store.root().notes().history("k").count(), 201);
    assert_eq!(store.reads().frames - opening, 201);
    Ok(())
}

#[test]
fn a_history_that_runs_into_lost_frames_says_so() -> Result<()> {
    let disk = MemoryDisk::new();
    let store = Options::new().segment_bytes(16 * 1024).open_on(Arc::new(disk.clone()))?;
    let note =
        |key: &str, n: u64| store.root().notes().remember(key, "", &format!("{n} {}", "x".repeat(600)));
    for n in 1..=60 {
        note(if n % 5 == 0 { "k" } else { "other" }, n)?;
    }
    note("old", 61)?;
    store.close()?;
    drop(store);
    let path = disk.files().into_iter().filter(|path| path.ends_with(".seg")).nth(1).expect("a second file");
    let mut bytes = disk.read_file(&path).expect("a file");
    for at in (5000..9000).step_by(100) {
        bytes[at] ^= 1;
    }
    disk.write_file(&path, &bytes).expect("written");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let now = Time::from_micros(7).expect("a time");
    let repaired = mnemolog::log::repair(&shared, std::time::Duration::ZERO, true, now)?;
    let range = repaired.lost[0];
    let store = Options::new().segment_bytes(16 * 1024).open_on(Arc::new(disk))?;
    let shown = of_note(&store.root(), "k");
    let (asked, first) = (range.last.0 / 5 * 5, range.first);
    assert!(asked >= first.0, "a version of k is among {range:?}");
    let (end, versions) = shown.split_last().expect("versions");
    assert_eq!(*end, format!("{asked} is lost with {first} to {}", range.last));
    assert_eq!(versions.len() as u64, 12 - asked / 5);
    assert!(matches!(store.root().notes().restore("k", range.first), Err(Error::Lost { .. })));
    let refused = store.diff(range.first, Frame(61));
    assert!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
    for (a, b) in [(first.previous(), Frame(61)), (range.last.next().expect("more"), Frame(61))] {
        let body = |frame: Frame| Ok::<_, Error>(store.at(frame)?.root().notes().recall("k"));
        for (a, b) in [(a, b), (b, a)] {
            let diff = store.diff(a, b)?;
            let k = diff.handles[0].items.iter().find(|item| item.item == "k").expect("k differs");
            let sides = [&k.before, &k.after].map(|side| side.as_ref().map(|side| side.text().to_owned()));
            assert_eq!(sides, [Some(body(a)?), Some(body(b)?)], "over lost frames, or with one before them");
        }
    }
    // Behind the lost frames, the state says what the chain does not.
    store.root().notes().restore("k", Frame(1))?;
    assert_eq!(store.root().notes().get("k")?, None);
    store.root().notes().restore("k", first.previous())?;
    let then = store.at(first.previous())?.root().notes().recall("k");
    assert_eq!(store.root().notes().recall("k"), then);
    Ok(())
}

#[test]
fn a_history_ends_with_what_a_base_holds() -> Result<()> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("format/golden/v1/base");
    let store = Store::open_read_only(golden)?;
    let Err(Error::Compacted { oldest }) = store.at(Frame::ZERO) else { panic!("a base") };
    let mut met = 0;
    for (handle, _) in store.handles() {
        let path = handle.id.rsplit_once('/').map_or("", |(path, _)| path);
        let ws = if path.is_empty() { store.root() } else { store.workspace(path)? };
        if handle.kind != mnemolog::codec::delta::HandleKind::Notes {
            continue;
        }
        for (key, _) in ws.notes().summaries() {
            let shown = of_note(&ws, &key);
            let based = shown.iter().filter(|line| line.contains("(base)")).count();
            assert!(based <= 1 && !shown.is_empty(), "{key}: {shown:?}");
            if based == 1 {
                assert!(shown.last().expect("one").starts_with(&format!("{oldest} ")), "{shown:?}");
                met += 1;
            }
        }
    }
    assert!(met > 0, "a note came with the base");
    Ok(())
}

#[test]
fn every_past_has_the_versions_that_were_written_until_then() -> Result<()> {
    for seed in 0..30 {
        let (mut rng, store) = (Rng::new(seed), Store::in_memory()?);
        let ws = store.workspace("core")?;
        let docs = ws.vectors("docs")?;
        // Of one note and one row, newest last.
        let (mut note, mut row, mut at) = (Vec::<String>::new(), Vec::<String>::new(), Vec::new());
        at.push((note.clone(), row.clone()));
        while store.appended() < Frame(40) {
            let n = store.appended().0 + 1;
            let key = ["k", "other"][rng.below(2) as usize];
            let mine = key == "k";
            match rng.below(8) {
                0 | 1 => {
                    ws.notes().remember(key, "", &n.to_string())?;
                    note.extend(mine.then(|| format!("{n} remember {n}")));
                }
                2 if ws.notes().get(key)?.is_some() => {
                    ws.notes().forget(key)?;
                    note.extend(mine.then(|| format!("{n} forget")));
                }
                3 | 4 => {
                    docs.upsert(key, &n.to_string(), &Json::object())?;
                    row.extend(mine.then(|| format!("{n} upsert {n}")));
                }
                5 if docs.get(key)?.is_some() => {
                    docs.delete(key)?;
                    row.extend(mine.then(|| format!("{n} delete")));
                }
                6 => {
                    let there = docs.get("k")?.is_some();
                    docs.clear()?;
                    row.extend(there.then(|| format!("{n} clear")));
                }
                7 => {
                    let saved = ws.notes().get("k")?;
                    ws.notes().restore_bytes(&ws.notes().snapshot_bytes()?)?;
                    match saved {
                        Some(saved) => note.push(format!("{n} remember (snapshot) {}", saved.body.as_str())),
                        None => note.clear(),
                    }
                }
                _ => continue,
            }
            at.push((note.clone(), row.clone()));
        }
        for (n, (note, row)) in at.iter().enumerate() {
            let past = store.at(Frame(n as u64))?.workspace("core")?;
            let newest_first = |versions: &[String]| versions.iter().rev().cloned().collect::<Vec<_>>();
            assert_eq!(of_note(&past, "k"), newest_first(note), "seed {seed}, frame {n}");
            assert_eq!(of_row(&past, "k"), newest_first(row), "seed {seed}, frame {n}");
        }
    }
    Ok(())
}
