//! JSON lines: what goes out comes in again, and what is wrong is refused with its line and changes nothing.

mod base;
mod events;
mod imports;
mod refusals;
mod round_trip;
mod times;
mod values;

use std::sync::Arc;

use mnemolog::disk::MemoryDisk;
use mnemolog::interchange::{DumpOptions, LoadError, LoadOptions, LoadReport, dump, load};
use mnemolog::{Clock, Frame, Options, Store, Time};

/// A clock that stands where it was set.
#[derive(Debug)]
struct Stopped(Time);

impl Clock for Stopped {
    fn now(&self) -> Time {
        self.0
    }
}

/// An empty store in memory whose clock stands at noon of 30 November 2026.
fn empty() -> Store {
    with(Options::new())
}

fn with(options: Options) -> Store {
    let noon = "2026-11-30T12:00:00Z".parse().expect("a time");
    options.clock(Arc::new(Stopped(noon))).open_on(Arc::new(MemoryDisk::new())).expect("opens")
}

fn load_into(store: &Store, lines: &str) -> LoadReport {
    load(store, &mut lines.as_bytes(), LoadOptions::default()).unwrap_or_else(|e| panic!("{e}\n{lines}"))
}

fn loaded(lines: &str) -> Store {
    let store = empty();
    load_into(&store, lines);
    store
}

fn keep_going(store: &Store, lines: &str) -> LoadReport {
    let options = LoadOptions { keep_going: true, ..LoadOptions::default() };
    load(store, &mut lines.as_bytes(), options).expect("loads what it can")
}

/// Loads lines that are refused, and sees to it that nothing changed. Answers the error.
fn refused(store: &Store, lines: &str) -> LoadError {
    let before = (store.appended(), store.digest().expect("digest"));
    let error = load(store, &mut lines.as_bytes(), LoadOptions::default()).expect_err(lines);
    assert_eq!((store.appended(), store.digest().expect("digest")), before, "{lines}");
    error
}

fn dumped(store: &Store) -> String {
    let mut out = Vec::new();
    dump(store, &mut out, DumpOptions::default()).expect("dumps");
    String::from_utf8(out).expect("UTF-8")
}

/// The digest, and the time, of each frame.
fn frames(store: &Store) -> Vec<(Frame, Time, u128)> {
    let mut frames = Vec::new();
    let visit = &mut |step: &mut mnemolog::Step<'_>| {
        frames.push((step.frame(), step.time(), step.digest()?));
        Ok(())
    };
    store.replay(store.appended(), visit).expect("replays");
    frames
}

/// A line for the notes of the root, with its key only.
fn note(key: &str) -> String {
    line("notes", "memory", "remember", &format!(r#"{{"key":"{key}","body":"text of {key}"}}"#))
}

fn line(kind: &str, id: &str, op: &str, args: &str) -> String {
    format!(r#"{{"handle_kind":"{kind}","handle_id":"{id}","op":"{op}","args":{args}}}"#)
}

/// The line with more fields in front.
fn given(fields: &str, line: &str) -> String {
    line.replacen('{', &format!("{{{fields},"), 1)
}
