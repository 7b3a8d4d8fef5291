//! A change of several files: built first, stated second, carried out third.
//!
//! New files are built under temporary names that carry the change's random id, and synced; INTENT, renamed into
//! place, is the commit. Until then a change that is dropped leaves no trace; from then on nothing is undone, and
//! whoever takes the lock next goes on where this one stopped. It does not know what the files hold. The lock is
//! held throughout, and an INTENT that was found has been finished.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::intent::{self, INTENT};
use super::settle::{self, QUARANTINE, random};
use crate::codec::intent::{Drop as Dropped, Intent, Move};
use crate::codec::segment::StoreId;
use crate::disk::{Access, Disk, File};
use crate::error::{Damage, Error, Evidence, Result};
use crate::position::Frame;
use crate::segment::LOG_DIR;

/// The name that INTENT has until it is whole.
const BUILDING: &str = "INTENT.tmp";

/// A change under construction.
#[derive(Debug)]
pub(super) struct Change<'d> {
    disk: &'d dyn Disk,
    intent: Intent,
    /// Paths of what was made for it: removed unless it is stated.
    made: Vec<String>,
}

/// A file of a change, while it is written.
#[derive(Debug)]
pub(super) struct NewFile {
    file: Arc<dyn File>,
    display: PathBuf,
}

impl NewFile {
    /// Makes room for so many bytes, so that writing them cannot fail for want of space.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Io`].
    pub(super) fn reserve(&self, bytes: u64) -> Result<()> {
        self.file.allocate(bytes).map_err(self.io("reserving space for"))
    }

    /// Writes bytes at a place.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Io`].
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes).map_err(self.io("writing"))
    }

    /// Makes durable all that was written. Without it the change must not be stated.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn finish(&self) -> Result<()> {
        self.file.sync_data().map_err(self.io("syncing"))
    }

    fn io(&self, doing: &'static str) -> impl Fn(std::io::Error) -> Error + '_ {
        move |e| Error::io(doing, &self.display, e)
    }
}

impl<'d> Change<'d> {
    /// Begins a change; nothing is written yet.
    ///
    /// # Errors
    /// The disk has no random numbers.
    pub(super) fn begin(disk: &'d dyn Disk, store: StoreId) -> Result<Change<'d>> {
        let intent = Intent { store, id: random(disk)?, moves: Vec::new(), drops: Vec::new() };
        Ok(Change { disk, intent, made: Vec::new() })
    }

    /// Whether nothing would change.
    pub(super) fn is_empty(&self) -> bool {
        self.intent.moves.is_empty() && self.intent.drops.is_empty()
    }

    /// Keeps bytes in `quarantine/`, durably, and answers the copy's name there.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Io`].
    pub(super) fn keep(&mut self, name: &str, bytes: &[u8]) -> Result<String> {
        let name = format!("{name}.{:016x}", self.intent.id);
        settle::keep(self.disk, &name, bytes)?;
        self.made.push(format!("{QUARANTINE}/{name}"));
        Ok(name)
    }

    /// Builds a new file of the log, durably, that takes the place of `target`. It holds `bytes`, and is at
    /// least `reserved` long.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Io`].
    pub(super) fn build(&mut self, target: String, salt: u64, bytes: &[u8], reserved: u64) -> Result<()> {
        let file = self.create(target, salt, reserved.max(bytes.len() as u64))?;
        file.write(0, bytes)?;
        file.finish()
    }

    /// Begins a new file of the log that takes the place of `target`, with room for so many bytes.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Io`].
    pub(super) fn create(&mut self, target: String, salt: u64, reserved: u64) -> Result<NewFile> {
        let temporary = format!("{:016x}.{}.tmp", self.intent.id, self.intent.moves.len());
        let path = format!("{LOG_DIR}/{temporary}");
        let io = |doing| {
            let display = self.disk.root().join(&path);
            move |e| Error::io(doing, display, e)
        };
        let file = self.disk.open(&path, Access::Create).map_err(io("creating"))?;
        self.made.push(path.clone());
        let new = NewFile { file, display: self.disk.root().join(&path) };
        new.reserve(reserved)?;
        self.intent.moves.push(Move { temporary, target, salt });
        Ok(new)
    }

    /// Takes a file of the log away.
    pub(super) fn drop_file(&mut self, name: String) {
        self.drop_in(LOG_DIR, name);
    }

    /// Takes a file of `log`, `checkpoints` or `quarantine` away.
    pub(super) fn drop_in(&mut self, directory: &str, name: String) {
        self.intent.drops.push(Dropped { directory: directory.to_owned(), name });
    }

    /// Takes everything away that a directory beside the log holds, and answers its names. What was made there and
    /// removed again is made sure of first: a name that is not listed could come back with a loss of power.
    ///
    /// # Errors
    /// [`Error::Invalid`]: something stands there that cannot be taken away as a file. [`Error::Io`].
    pub(super) fn drop_all(&mut self, directory: &'static str) -> Result<Vec<String>> {
        let path = || self.disk.root().join(directory);
        match self.disk.sync_dir(directory) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            synced => synced.map_err(|e| Error::io("syncing", path(), e))?,
        }
        let names = contents(self.disk, directory)?;
        let drop = |name: &String| Dropped { directory: directory.to_owned(), name: name.clone() };
        self.intent.drops.extend(names.iter().map(drop));
        Ok(names)
    }

    /// States the change and carries it out.
    ///
    /// # Errors
    /// [`Error::DiskFull`]: nothing was changed. [`Error::Io`]: unless the system says otherwise the change is stated,
    /// and is finished by whoever takes the lock next.
    pub(super) fn commit(mut self) -> Result<()> {
        let disk = self.disk;
        let io = |doing, path: &str| {
            let path = disk.root().join(path);
            move |e| Error::io(doing, path, e)
        };
        disk.sync_dir(LOG_DIR).map_err(io("syncing", LOG_DIR))?;
        let bytes = self.intent.encode().map_err(|reason| {
            let (path, segment) = (disk.root().to_path_buf(), INTENT.to_owned());
            Damage { path, segment, offset: 0, frame: Frame::ZERO, reason, evidence: Evidence::Header }
        })?;
        // What stands there is of a writer that failed to state its change: INTENT was finished, or never was.
        intent::remove(disk, BUILDING)?;
        let file = disk.open(BUILDING, Access::Create).map_err(io("creating", BUILDING))?;
        self.made.push(BUILDING.to_owned());
        file.allocate(bytes.len() as u64).map_err(io("reserving space for", BUILDING))?;
        file.write_at(0, &bytes).map_err(io("writing", BUILDING))?;
        file.sync_data().map_err(io("syncing", BUILDING))?;
        // Whether a rename that fails was done is unknown, so nothing of the change may go from here on.
        self.made.clear();
        disk.rename(BUILDING, INTENT)
            .map_err(io("renaming", BUILDING))
            .and_then(|()| intent::apply(disk, &self.intent))
            .map_err(stated)
    }
}

/// The names of the files in a directory beside the log; none if it is absent.
///
/// # Errors
/// [`Error::Invalid`]: something that is not a plain file, or has a name that INTENT cannot state. [`Error::Io`].
pub(super) fn contents(disk: &dyn Disk, directory: &str) -> Result<Vec<String>> {
    let names = match disk.list(directory) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(|e| Error::io("listing", disk.root().join(directory), e))?,
    };
    for name in &names {
        let path = format!("{directory}/{name}");
        let is_directory = || disk.list(&path).is_ok();
        if name.contains(['/', '\\', ':', '\0']) || is_directory() {
            let expected = "only files that mnemolog made; move this one away, and try again";
            return Err(Error::Invalid {
                what: "the content of the store's directory",
                found: path,
                expected,
            });
        }
    }
    Ok(names)
}

/// A full disk refuses what was not begun; from the statement on, that word would promise too much.
fn stated(e: Error) -> Error {
    match e {
        Error::DiskFull { doing, path } => {
            Error::Io { doing, path, source: Arc::new(ErrorKind::StorageFull.into()) }
        }
        other => other,
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        for path in self.made.drain(..).rev() {
            // What stays is removed by the next opening; a copy in quarantine only takes space.
            let _ = intent::remove(self.disk, &path);
        }
    }
}
