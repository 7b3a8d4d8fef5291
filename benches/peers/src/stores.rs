//! One face for every store: what a note's write and read are in it.
//!
//! Where a store keeps keys and values, the value is the summary's length, the summary and the body. Every read
//! copies summary and body out into strings of their own.

pub mod fjall;
pub mod lmdb;
pub mod ours;
pub mod redb;
pub mod sqlite;

use std::path::Path;

use crate::Result;

/// When a write is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Once it survives a loss of power.
    Durable,
    /// Once it is in the page cache.
    Buffered,
}

/// What opens an empty store in a directory.
pub type Open = fn(&Path, Mode) -> Result<Box<dyn Store>>;

/// A note to save.
#[derive(Clone, Copy)]
pub struct Note<'n> {
    pub key: &'n str,
    pub summary: &'n str,
    pub body: &'n str,
}

/// An open store.
pub trait Store: Send + Sync {
    /// What one thread works with.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// How many notes there are.
    fn len(&self) -> Result<u64>;
}

/// One thread's access.
pub trait Session {
    /// Saves one note, and returns when it is acknowledged.
    fn put(&mut self, note: Note<'_>) -> Result<()>;

    /// Saves notes by one transaction.
    fn put_all(&mut self, notes: &[Note<'_>]) -> Result<()>;

    /// Summary and body of a note.
    fn get(&mut self, key: &str) -> Result<Option<(String, String)>>;
}

/// The value of a note.
pub fn encode(note: &Note<'_>) -> Vec<u8> {
    let mut value = Vec::with_capacity(4 + note.summary.len() + note.body.len());
    value.extend_from_slice(&(note.summary.len() as u32).to_le_bytes());
    value.extend_from_slice(note.summary.as_bytes());
    value.extend_from_slice(note.body.as_bytes());
    value
}

/// Summary and body of a value.
pub fn decode(value: &[u8]) -> Result<(String, String)> {
    let (len, texts) = value.split_first_chunk().ok_or("a value without a length")?;
    let (summary, body) =
        texts.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or("a value that is too short")?;
    Ok((std::str::from_utf8(summary)?.to_owned(), std::str::from_utf8(body)?.to_owned()))
}
