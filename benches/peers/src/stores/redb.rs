//! `redb`: one-phase commits, as it comes; `Durability::None` where writes are buffered.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, ReadableTableMetadata, TableDefinition};

use super::{Mode, Note, Session, Store, decode, encode};
use crate::Result;

const NOTES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("notes");

/// Opens an empty database.
pub fn open(dir: &Path, mode: Mode) -> Result<Box<dyn Store>> {
    let database = Database::create(dir.join("redb"))?;
    let write = database.begin_write()?;
    write.open_table(NOTES)?;
    write.commit()?;
    let durability = if mode == Mode::Durable { Durability::Immediate } else { Durability::None };
    Ok(Box::new(Redb { database, durability }))
}

struct Redb {
    database: Database,
    durability: Durability,
}

impl Store for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.database.begin_read()?.open_table(NOTES)?.len()?)
    }
}

impl Session for &Redb {
    fn put(&mut self, note: Note<'_>) -> Result<()> {
        self.put_all(&[note])
    }

    fn put_all(&mut self, notes: &[Note<'_>]) -> Result<()> {
        let mut write = self.database.begin_write()?;
        write.set_durability(self.durability)?;
        {
            let mut table = write.open_table(NOTES)?;
            for note in notes {
                table.insert(note.key.as_bytes(), encode(note).as_slice())?;
            }
        }
        Ok(write.commit()?)
    }

    fn get(&mut self, key: &str) -> Result<Option<(String, String)>> {
        let table = self.database.begin_read()?.open_table(NOTES)?;
        table.get(key.as_bytes())?.map(|value| decode(value.value())).transpose()
    }
}
