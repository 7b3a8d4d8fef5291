//! LMDB through `heed`: synchronous commits; `MDB_NOSYNC` where writes are buffered, which a loss of power may damage.

use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};

use super::{Mode, Note, Session, Store, decode, encode};
use crate::Result;

/// Address space for the largest load.
const MAP_BYTES: usize = 16 << 30;

/// Opens an empty environment.
pub fn open(dir: &Path, mode: Mode) -> Result<Box<dyn Store>> {
    let dir = dir.join("lmdb");
    std::fs::create_dir_all(&dir)?;
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(64);
    // SAFETY: the directory was made for this run, and nothing else opens or changes its files; without syncs a
    // crash may damage them, and they are removed after the run.
    let env = unsafe {
        if mode == Mode::Buffered {
            options.flags(EnvFlags::NO_SYNC);
        }
        options.open(dir)?
    };
    let mut write = env.write_txn()?;
    let notes = env.create_database(&mut write, None)?;
    write.commit()?;
    Ok(Box::new(Lmdb { env, notes }))
}

struct Lmdb {
    env: Env,
    notes: Database<Bytes, Bytes>,
}

impl Store for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn len(&self) -> Result<u64> {
        let read = self.env.read_txn()?;
        Ok(self.notes.len(&read)?)
    }
}

impl Session for &Lmdb {
    fn put(&mut self, note: Note<'_>) -> Result<()> {
        self.put_all(&[note])
    }

    fn put_all(&mut self, notes: &[Note<'_>]) -> Result<()> {
        let mut write = self.env.write_txn()?;
        for note in notes {
            self.notes.put(&mut write, note.key.as_bytes(), &encode(note))?;
        }
        Ok(write.commit()?)
    }

    fn get(&mut self, key: &str) -> Result<Option<(String, String)>> {
        let read = self.env.read_txn()?;
        self.notes.get(&read, key.as_bytes())?.map(decode).transpose()
    }
}
