//! `fjall`: an insert, and `PersistMode::SyncData` behind it where writes are durable.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Mode, Note, Session, Store, decode, encode};
use crate::Result;

/// Opens an empty database.
pub fn open(dir: &Path, mode: Mode) -> Result<Box<dyn Store>> {
    let database = Database::builder(dir.join("fjall")).open()?;
    let notes = database.keyspace("notes", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { database, notes, mode }))
}

struct Fjall {
    database: Database,
    notes: Keyspace,
    mode: Mode,
}

impl Store for Fjall {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.notes.len()? as u64)
    }
}

impl Fjall {
    fn acknowledge(&self) -> Result<()> {
        if self.mode == Mode::Durable {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Session for &Fjall {
    fn put(&mut self, note: Note<'_>) -> Result<()> {
        self.notes.insert(note.key, encode(&note))?;
        self.acknowledge()
    }

    fn put_all(&mut self, notes: &[Note<'_>]) -> Result<()> {
        let mut batch = self.database.batch();
        for note in notes {
            batch.insert(&self.notes, note.key, encode(note));
        }
        batch.commit()?;
        self.acknowledge()
    }

    fn get(&mut self, key: &str) -> Result<Option<(String, String)>> {
        self.notes.get(key)?.map(|value| decode(&value)).transpose()
    }
}
