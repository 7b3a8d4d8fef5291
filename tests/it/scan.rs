//! Searching all notes by going through the log finds what reading one note after another finds.
//!
//! In a critical section notes are read one by one, because what it wrote stands in no frame yet; everywhere else the
//! log is gone through. So each answer is held against the other.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mnemolog::view::notes::Match;
use mnemolog::{Error, Frame, Json, Notes, Options, Result, Store, Workspace};

use crate::model::Rng;

const WORDS: [&str; 12] =
    ["river", "Stone", "ÉTÉ", "été", "mar\nket", "aaa", "aa", "a", "ﬀ", "云朵", "K", "\u{212a}elvin"];
/// Some are everywhere, some nowhere, some begin in one note and would end in the next.
const PATTERNS: [&str; 14] = [
    "river",
    "STONE",
    "été",
    "aaa",
    "aaaa",
    "kelvin",
    "k",
    "朵",
    "user/1",
    "summary 3",
    "no such",
    "remember",
    "memory",
    "\0",
];

fn options() -> Options {
    Options::new().segment_bytes(16 << 10)
}

fn body(rng: &mut Rng) -> String {
    let words = 1 + rng.below(60);
    (0..words).map(|_| WORDS[rng.below(WORDS.len() as u64) as usize]).collect::<Vec<_>>().join(" ")
}

/// Notes of two workspaces with the same keys: saved, saved again, forgotten, JSON, several a frame, restored.
fn fill(store: &Store, rng: &mut Rng) -> Result<()> {
    let (one, other) = (store.root(), store.workspace("other")?);
    for n in 0..300 {
        let key = format!("user/{}", rng.below(150));
        one.notes().remember(&key, &format!("summary {n}"), &body(rng))?;
        other.notes().remember(&key, "of the other", &body(rng))?;
        match n % 10 {
            3 => drop(one.notes().forget(&format!("user/{}", rng.below(150)))?),
            5 => drop(one.notes().remember_json(&format!("json/{n}"), None, &Json::string(&body(rng)))?),
            7 => one.exclusive::<_, Error>(|tx| {
                (0..5).try_for_each(|m| {
                    tx.notes().remember(&format!("many/{n}/{m}"), "s", &body(rng)).map(drop)
                })
            })?,
            _ => {}
        }
        if n == 200 {
            other.notes().restore_bytes(&other.notes().snapshot_bytes()?)?;
        }
    }
    Ok(())
}

fn answers(notes: &Notes) -> Result<Vec<(Vec<Match>, String)>> {
    PATTERNS.iter().map(|pattern| Ok((notes.find(pattern)?, notes.search(pattern)))).collect()
}

/// Holds both ways against each other; answers how many matches there were.
fn check(store: &Store, at: &Workspace) -> Result<usize> {
    let before = store.reads();
    let scanned = answers(&at.notes())?;
    assert_eq!(store.reads().envelopes, before.envelopes, "no note was read alone");
    assert!(store.reads().frames > before.frames, "the log was gone through");
    let read = at.exclusive::<_, Error>(|tx| answers(&tx.notes()))?;
    assert!(store.reads().envelopes > before.envelopes, "every note was read alone");
    for ((pattern, scanned), read) in PATTERNS.iter().zip(&scanned).zip(&read) {
        assert_eq!(scanned, read, "{pattern:?}");
    }
    Ok(scanned.iter().map(|(matches, _)| matches.len()).sum())
}

#[test]
fn going_through_the_log_finds_what_reading_note_by_note_finds() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store");
    let store = options().open(&path)?;
    fill(&store, &mut Rng::new(11))?;
    assert!(store.log_size().segments > 4, "{:?}", store.log_size());
    let (root, other) = (store.root(), store.workspace("other")?);
    assert!(check(&store, &root)? > 300);
    assert!(check(&store, &other)? > 300);

    let past = store.at(Frame(store.appended().0 / 2))?;
    let then = answers(&past.root().notes())?;
    store.compact(Frame(store.appended().0 / 3), false)?;
    assert!(check(&store, &root)? > 300, "also among the frames of a base");
    assert_eq!(answers(&store.at(past.frame())?.root().notes())?, then);
    store.close()?;

    for map in [true, false] {
        let store = options().map(map).open(&path)?;
        assert!(check(&store, &store.root())? > 300);
        assert_eq!(answers(&store.at(past.frame())?.root().notes())?, then);
    }
    Ok(())
}

/// Flips a bit of the only place in the log where a text stands.
fn spoil(store: &Path, text: &str) {
    for entry in fs::read_dir(store.join("log")).expect("a log") {
        let path = entry.expect("a file").path();
        let bytes = fs::read(&path).expect("a readable file");
        if let Some(at) = bytes.windows(text.len()).position(|window| window == text.as_bytes()) {
            let file = fs::OpenOptions::new().write(true).open(path).expect("a writable file");
            file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("a bit is flipped");
            return;
        }
    }
    panic!("{text} stands in the log");
}

#[test]
fn a_damaged_note_is_shown_whatever_is_searched_and_another_ones_damage_hides_nothing() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store");
    let store = options().open(&path)?;
    let notes = store.root().notes();
    notes.remember("old", "s", "a river that was saved again")?;
    notes.remember("old", "s", "a river")?;
    notes.remember("rotten", "s", "words that will rot")?;
    notes.remember("whole", "s", "another river")?;
    let before = notes.search("RIVER");
    assert_eq!(before, "- old: s\n  a river\n- whole: s\n  another river");

    spoil(&path, "river that was saved");
    assert_eq!(notes.search("RIVER"), before, "no saved note is damaged");
    assert_eq!(notes.find("RIVER")?.len(), 2);
    spoil(&path, "words that will rot");
    let damaged = "- old: s\n  a river\n- rotten: s\n  (damaged: run verify)\n- whole: s\n  another river";
    assert_eq!(notes.search("RIVER"), damaged);
    let refused = notes.find("RIVER").unwrap_err();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    Ok(())
}
