//! Reads of every kind, of a store that may hold anything: none may panic, whatever it answers.

use std::sync::{Arc, LazyLock};

use mnemolog::disk::MemoryDisk;
use mnemolog::view::HandleId;
use mnemolog::{Clock, Frame, Options, Result, Store, StubEmbedder, Time, Workspace};

/// A clock that stands at noon of 30 November 2026.
#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Time {
        static NOON: LazyLock<Time> = LazyLock::new(|| "2026-11-30T12:00:00Z".parse().expect("a time"));
        *NOON
    }
}

/// Options under which the input alone decides: a clock that stands, narrow rows, small segments.
pub(super) fn options() -> Options {
    let embedder = Arc::new(StubEmbedder::with_dim(2));
    Options::new().clock(Arc::new(Stopped)).embedder(embedder).segment_bytes(16 * 1024)
}

pub(super) fn open(disk: &MemoryDisk) -> Result<Store> {
    options().open_on(Arc::new(disk.clone()))
}

pub(super) fn open_read_only(disk: &MemoryDisk) -> Result<Store> {
    options().open_read_only_on(Arc::new(disk.clone()))
}

/// Asks a store everything, now and in the past.
pub(super) fn around(store: &Store) {
    let last = store.appended();
    for (handle, _) in store.handles() {
        // Ids from a log are any text; a handle needs a path and a name.
        let (path, name) = handle.id.rsplit_once('/').unwrap_or(("", &handle.id));
        let at = if path.is_empty() { Ok(store.root()) } else { store.workspace(path) };
        let _ = at.map(|at| at_handle(&at, &handle, name));
    }
    let _ = store.digests();
    let _ = store.diff(Frame(last.0 / 2), last);
    let _ = store.at(Frame(last.0 / 2)).map(|past| past.digests());
    let _ = store.at_time(Time::from_micros(u64::MAX / 2).unwrap_or_default());
    let mut out = Vec::new();
    let _ = mnemolog::interchange::dump(store, &mut out, mnemolog::interchange::DumpOptions::default());
}

fn at_handle(at: &Workspace, handle: &HandleId, name: &str) -> Result<()> {
    use mnemolog::codec::delta::HandleKind;
    match handle.kind {
        HandleKind::Notes => {
            let notes = at.notes();
            let _ = (notes.find("o"), notes.list_memories(), notes.index_note(), notes.snapshot_bytes());
            for (key, _) in notes.summaries() {
                let _ = notes.get(&key);
            }
        }
        HandleKind::Vector => {
            let rows = at.vectors(name)?;
            let _ = (rows.search("fox", 3), rows.search_by_vector(&[1.0, 2.0], 2), rows.snapshot_bytes());
        }
        HandleKind::Episodic => {
            let turns = at.episodic(name)?;
            let _ = (turns.recent(5), turns.search_by_key("a"), turns.snapshot_bytes());
        }
        HandleKind::Working => {
            let pad = at.working(name)?;
            let _ = (pad.render(), pad.entries(), pad.current_tokens(), pad.snapshot_bytes());
        }
    }
    Ok(())
}
