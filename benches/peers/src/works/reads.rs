//! Single notes out of many, and the complete scan of them.

use std::hint::black_box;
use std::time::Instant;

use regex::RegexBuilder;

use super::{Scratch, load};
use crate::Result;
use crate::notes::{Bodies, Key, PATTERN, SUMMARY, mix};
use crate::report::{Report, Row, percentile};
use crate::settings::Settings;
use crate::stores::{Mode, Session, Store, lmdb, ours::Ours, redb, sqlite::Sqlite};

/// Notes a transaction in the stores of the others.
const BATCH: u64 = 1000;

pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let scratch = Scratch::new(settings)?;
    let ours = |name: &str, batch| -> Result<Ours> {
        let store = Ours::create(&scratch.path().join(name), Mode::Buffered)?;
        load(&mut *store.session()?, settings.notes, batch)?;
        store.store.flush()?;
        Ok(store)
    };
    let (single, thousand) = (ours("single", 1)?, ours("thousand", BATCH)?);
    gets(settings, report, &scratch, &single, &thousand)?;
    searches(settings, report, &scratch, &single, &thousand)
}

fn gets(
    settings: &Settings,
    report: &mut Report,
    scratch: &Scratch,
    single: &Ours,
    thousand: &Ours,
) -> Result<()> {
    let (lmdb, redb) =
        (lmdb::open(scratch.path(), Mode::Buffered)?, redb::open(scratch.path(), Mode::Buffered)?);
    for store in [&lmdb, &redb] {
        load(&mut *store.session()?, settings.notes, BATCH)?;
        assert_eq!(store.len()?, settings.notes, "every note is there");
    }
    let names = ["mnemolog, frames of 1", "mnemolog, frames of 1,000", "LMDB", "redb"];
    let stores: [&dyn Store; 4] = [single, thousand, &*lmdb, &*redb];
    let (mut p50, mut p99) = (vec![Vec::new(); 4], vec![Vec::new(); 4]);
    let mut all = vec![Vec::new(); 4];
    for round in 0..settings.runs as u64 {
        for (place, store) in stores.iter().enumerate() {
            let mut latencies = get(settings, &mut *store.session()?, round)?;
            p50[place].push(percentile(&mut latencies, 50.0));
            p99[place].push(percentile(&mut latencies, 99.0));
            all[place].append(&mut latencies);
        }
    }
    for (place, frames) in [(0, "1"), (1, "1,000")] {
        let work = format!("`get` of a random note among {}, frames of {frames}", settings.notes);
        report.add(Row::times(&format!("{work}: p50"), &p50[place], "LMDB", &p50[2], 1.0));
        report.add(Row::times(&format!("{work}: p99"), &p99[place], "redb", &p99[3], 1.0));
    }
    for (name, latencies) in names.iter().zip(all) {
        report.get_latencies(name, latencies);
    }
    Ok(())
}

/// Reads random notes, each checked, and answers how long each read took in nanoseconds.
fn get(settings: &Settings, session: &mut dyn Session, round: u64) -> Result<Vec<u32>> {
    let (bodies, mut latencies) = (Bodies::new(), Vec::with_capacity(settings.reads as usize));
    for n in 0..settings.reads {
        let n = mix(round << 32 | n) % settings.notes;
        let key = Key::new(n);
        let begin = Instant::now();
        let note = session.get(key.as_str())?;
        latencies.push(begin.elapsed().as_nanos() as u32);
        let (summary, body) = note.ok_or("a note that was saved is gone")?;
        assert!(summary == SUMMARY && body == bodies.of(n), "the note that was saved");
    }
    Ok(latencies)
}

fn searches(
    settings: &Settings,
    report: &mut Report,
    scratch: &Scratch,
    single: &Ours,
    thousand: &Ours,
) -> Result<()> {
    let sqlite = Sqlite::create(scratch.path())?;
    load(&mut *sqlite.session()?, settings.notes, BATCH)?;
    let bodies = Bodies::new();
    let buffer: String = (0..settings.notes).flat_map(|n| [bodies.of(n), "\n"]).collect();
    let matcher = RegexBuilder::new(&regex::escape(PATTERN)).case_insensitive(true).build()?;
    let expected = Bodies::rare_of(settings.notes);
    let of = |store: &Ours| {
        let found = store.store.root().notes().search(PATTERN);
        found.lines().filter(|line| line.starts_with("- ")).count() as u64
    };
    let ways: [(&str, &dyn Fn() -> Result<u64>); 5] = [
        ("mnemolog, frames of 1", &|| Ok(of(single))),
        ("mnemolog, frames of 1,000", &|| Ok(of(thousand))),
        ("the same matcher over one contiguous buffer of the bodies", &|| {
            Ok(matcher.find_iter(&buffer).count() as u64)
        }),
        ("SQLite `LIKE`", &|| sqlite.like(PATTERN)),
        ("reading the buffer", &|| {
            black_box(sum(&buffer));
            Ok(expected)
        }),
    ];
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..settings.runs {
        for ((name, way), times) in ways.iter().zip(&mut times) {
            let begin = Instant::now();
            let found = way()?;
            times.push(begin.elapsed().as_nanos() as f64);
            assert_eq!(found, expected, "{name} finds each note that holds the pattern");
        }
    }
    for (place, frames) in [(0, "1"), (1, "1,000")] {
        let work = format!("substring search, complete scan of {} notes, frames of {frames}", settings.notes);
        report.add(Row::times(&work, &times[place], ways[2].0, &times[2], 0.6));
        report.add(Row::times(&work, &times[place], ways[3].0, &times[3], 5.0));
    }
    report.add(Row::times(ways[2].0, &times[2], ways[4].0, &times[4], 0.0));
    Ok(())
}

/// Reads every byte, as fast as memory gives them.
fn sum(buffer: &str) -> u64 {
    let (words, _) = buffer.as_bytes().as_chunks::<8>();
    words.iter().fold(0, |sum, word| sum ^ u64::from_ne_bytes(*word))
}
