//! What lies on a disk, looked at and changed past the calls: bytes at rest, as whoever opens the machine would.
//!
//! Nothing here is a call, so nothing is counted and no fault is due.

use std::io::{self, ErrorKind};

use super::MemoryDisk;
use super::names::parent;

impl MemoryDisk {
    /// Flips one bit (0 is the lowest) of one byte of a file at rest, cached and durable.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such file, [`ErrorKind::UnexpectedEof`] if it ends before.
    pub fn flip(&self, path: &str, offset: u64, bit: u8) -> io::Result<()> {
        let there = self.machine().names.file(path)?.contents().flip(offset, bit);
        if there { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// Puts other bytes in the place of some of a file at rest, cached and durable; its size stays.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such file, [`ErrorKind::UnexpectedEof`] if it ends before.
    pub fn overwrite(&self, path: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let there = self.machine().names.file(path)?.contents().overwrite(offset, bytes);
        if there { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// The bytes of a file as a reader sees them; none if it is absent.
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        let inode = self.machine().names.file(path).ok()?;
        Some(inode.contents().bytes().to_vec())
    }

    /// Makes a file hold these bytes, durable at once: missing directories are made, an existing file is
    /// overwritten in place, and its directory is synced.
    pub fn write_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let mut machine = self.machine();
        machine.names.create_parents(path)?;
        machine.names.open_or_create(path)?.contents().settle(bytes.to_vec());
        machine.names.sync(parent(path))
    }

    /// Removes a file, durable at once: its directory is synced.
    pub fn remove_file(&self, path: &str) -> io::Result<()> {
        let mut machine = self.machine();
        machine.names.remove(path)?;
        machine.names.sync(parent(path))
    }

    /// The paths of all files, sorted.
    pub fn files(&self) -> Vec<String> {
        self.machine().names.files().into_keys().collect()
    }
}
