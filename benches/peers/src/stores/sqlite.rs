//! SQLite with a write-ahead log: `synchronous=FULL` where writes are durable, `NORMAL` where they are buffered.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::{Mode, Note, Session, Store};
use crate::Result;

const PUT: &str = "INSERT OR REPLACE INTO notes VALUES (?1, ?2, ?3)";

/// Opens an empty database.
pub fn open(dir: &Path, mode: Mode) -> Result<Box<dyn Store>> {
    let sqlite = Sqlite { path: dir.join("sqlite"), mode };
    sqlite
        .connect()?
        .execute("CREATE TABLE notes (key TEXT PRIMARY KEY, summary TEXT, body TEXT) WITHOUT ROWID", [])?;
    Ok(Box::new(sqlite))
}

/// A database; every session has its own connection.
pub struct Sqlite {
    path: PathBuf,
    mode: Mode,
}

impl Sqlite {
    /// An empty database of its own kind, for what the face of all stores does not have.
    pub fn create(dir: &Path) -> Result<Sqlite> {
        open(dir, Mode::Buffered)?;
        Ok(Sqlite { path: dir.join("sqlite"), mode: Mode::Buffered })
    }

    fn connect(&self) -> Result<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = if self.mode == Mode::Durable { "FULL" } else { "NORMAL" };
        connection.pragma_update(None, "synchronous", synchronous)?;
        Ok(connection)
    }

    /// How many notes hold the pattern in key, summary or body, ASCII letters in either case.
    pub fn like(&self, pattern: &str) -> Result<u64> {
        let connection = self.connect()?;
        connection.pragma_update(None, "mmap_size", 4_i64 << 30)?;
        let sql = "SELECT count(*) FROM notes WHERE body LIKE ?1 OR summary LIKE ?1 OR key LIKE ?1";
        Ok(connection.query_row(sql, [format!("%{pattern}%")], |row| row.get::<_, i64>(0))? as u64)
    }
}

impl Store for Sqlite {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.connect()?))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.connect()?.query_row("SELECT count(*) FROM notes", [], |row| row.get::<_, i64>(0))? as u64)
    }
}

impl Session for Connection {
    fn put(&mut self, note: Note<'_>) -> Result<()> {
        self.prepare_cached(PUT)?.execute([note.key, note.summary, note.body])?;
        Ok(())
    }

    fn put_all(&mut self, notes: &[Note<'_>]) -> Result<()> {
        let transaction = self.transaction()?;
        for note in notes {
            transaction.prepare_cached(PUT)?.execute([note.key, note.summary, note.body])?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, key: &str) -> Result<Option<(String, String)>> {
        let mut statement = self.prepare_cached("SELECT summary, body FROM notes WHERE key = ?1")?;
        Ok(statement.query_row([key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }
}
