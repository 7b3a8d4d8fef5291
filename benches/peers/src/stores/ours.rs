//! This store.

use std::path::Path;

use mnemolog::{Durability, Notes, Options, Writers};

use super::{Mode, Note, Session, Store};
use crate::Result;

/// The only writer.
pub fn open(dir: &Path, mode: Mode) -> Result<Box<dyn Store>> {
    Ok(Box::new(Ours::create(dir, mode)?))
}

/// One of several writers, without another one.
pub fn open_shared(dir: &Path, _: Mode) -> Result<Box<dyn Store>> {
    Ok(Box::new(Ours { store: Options::new().writers(Writers::Many).open(dir.join("store"))? }))
}

/// An open store.
pub struct Ours {
    pub store: mnemolog::Store,
}

impl Ours {
    /// The only writer, of its own kind, for what the face of all stores does not have.
    pub fn create(dir: &Path, mode: Mode) -> Result<Ours> {
        let durability = if mode == Mode::Durable { Durability::Sync } else { Durability::Os };
        Ok(Ours { store: Options::new().durability(durability).open(dir.join("store"))? })
    }
}

impl Store for Ours {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Handle { store: &self.store, notes: self.store.root().notes() }))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.store.root().notes().len() as u64)
    }
}

struct Handle<'s> {
    store: &'s mnemolog::Store,
    notes: Notes,
}

impl Session for Handle<'_> {
    fn put(&mut self, note: Note<'_>) -> Result<()> {
        self.notes.remember(note.key, note.summary, note.body)?;
        Ok(())
    }

    fn put_all(&mut self, notes: &[Note<'_>]) -> Result<()> {
        Ok(self.store.root().exclusive(|tx| {
            let handle = tx.notes();
            notes.iter().try_for_each(|note| handle.remember(note.key, note.summary, note.body).map(drop))
        })?)
    }

    fn get(&mut self, key: &str) -> Result<Option<(String, String)>> {
        let note = self.notes.get(key)?;
        Ok(note.map(|note| {
            let body = match note.body {
                mnemolog::view::notes::NoteBody::Text(text) => text,
                mnemolog::view::notes::NoteBody::Json(json) => json.as_str().to_owned(),
            };
            (note.summary.unwrap_or_default(), body)
        }))
    }
}
