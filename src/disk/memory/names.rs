//! Directories: which names stand for which files, cached and durable.
//!
//! Each directory keeps what everybody sees and, if simulated, what is surely durable and the operations since:
//! a loss of power keeps any subset of them, in order. A rename within a directory is one operation; a
//! rename across directories is one in each, and either may be lost alone.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::contents::Inode;
use crate::disk::parts;

const ROOT: u64 = 0;

#[derive(Clone, Debug)]
enum Entry {
    File(Arc<Inode>),
    Directory(u64),
}

#[derive(Clone, Debug)]
enum Operation {
    Set(String, Entry),
    Remove(String),
    Rename { from: String, to: String, entry: Entry },
}

type Entries = BTreeMap<String, Entry>;

#[derive(Debug, Default)]
struct Directory {
    cached: Entries,
    durable: Entries,
    operations: Vec<Operation>,
}

/// The tree of names of one disk.
#[derive(Debug)]
pub(super) struct Names {
    simulated: bool,
    /// By number; the root has number 0 and is absent until it is made.
    directories: BTreeMap<u64, Directory>,
    numbers: u64,
    /// No other disk of this process has it.
    device: u64,
}

/// How many disks there were.
static DEVICES: AtomicU64 = AtomicU64::new(0);

impl Names {
    pub(super) fn new(simulated: bool) -> Self {
        let device = DEVICES.fetch_add(1, Ordering::Relaxed);
        Self { simulated, directories: BTreeMap::new(), numbers: ROOT, device }
    }

    pub(super) fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let number = self.directory(&parts(dir)?)?;
        Ok(self.at(number)?.cached.keys().cloned().collect())
    }

    pub(super) fn file(&self, path: &str) -> io::Result<Arc<Inode>> {
        let (dir, name) = self.locate(path)?;
        match self.at(dir)?.cached.get(name) {
            Some(Entry::File(inode)) => Ok(Arc::clone(inode)),
            Some(Entry::Directory(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn create(&mut self, path: &str) -> io::Result<Arc<Inode>> {
        let (dir, name) = self.locate(path)?;
        if self.at(dir)?.cached.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let inode = Arc::new(Inode::new(self.device, self.number(), self.simulated));
        self.change(dir, Operation::Set(name.to_owned(), Entry::File(Arc::clone(&inode))))?;
        Ok(inode)
    }

    pub(super) fn open_or_create(&mut self, path: &str) -> io::Result<Arc<Inode>> {
        match self.file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.create(path),
            other => other,
        }
    }

    pub(super) fn create_dir(&mut self, path: &str) -> io::Result<()> {
        if path.is_empty() {
            self.directories.entry(ROOT).or_default();
            return Ok(());
        }
        let (dir, name) = self.locate(path)?;
        match self.at(dir)?.cached.get(name) {
            Some(Entry::Directory(_)) => Ok(()),
            Some(Entry::File(_)) => Err(ErrorKind::AlreadyExists.into()),
            None => {
                let number = self.number();
                self.directories.insert(number, Directory::default());
                self.change(dir, Operation::Set(name.to_owned(), Entry::Directory(number)))
            }
        }
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let entry = Entry::File(self.file(from)?);
        let ((from_dir, from), (to_dir, to)) = (self.locate(from)?, self.locate(to)?);
        if let Some(Entry::Directory(_)) = self.at(to_dir)?.cached.get(to) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        if from_dir == to_dir {
            return if from == to {
                Ok(())
            } else {
                self.change(to_dir, Operation::Rename { from, to, entry })
            };
        }
        self.change(to_dir, Operation::Set(to, entry))?;
        self.change(from_dir, Operation::Remove(from))
    }

    pub(super) fn remove(&mut self, path: &str) -> io::Result<()> {
        self.file(path)?;
        let (dir, name) = self.locate(path)?;
        self.change(dir, Operation::Remove(name.to_owned()))
    }

    /// Takes an empty directory away. The root stays: it is the disk.
    pub(super) fn remove_dir(&mut self, path: &str) -> io::Result<()> {
        let number = self.directory(&parts(path)?)?;
        if !self.at(number)?.cached.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        if number == ROOT {
            return Err(ErrorKind::Unsupported.into());
        }
        let (dir, name) = self.locate(path)?;
        self.change(dir, Operation::Remove(name.to_owned()))
    }

    pub(super) fn sync(&mut self, dir: &str) -> io::Result<()> {
        let number = self.directory(&parts(dir)?)?;
        let directory = self.directories.get_mut(&number).ok_or(ErrorKind::NotFound)?;
        for operation in directory.operations.drain(..) {
            apply(&mut directory.durable, operation);
        }
        Ok(())
    }

    /// Makes every directory on the way to a path, durably.
    pub(super) fn create_parents(&mut self, path: &str) -> io::Result<()> {
        self.create_dir("")?;
        for (end, _) in path.match_indices('/') {
            let dir = path.get(..end).unwrap_or_default();
            self.create_dir(dir)?;
            self.sync(parent(dir))?;
        }
        Ok(())
    }

    /// The paths of all files, sorted.
    pub(super) fn files(&self) -> BTreeMap<String, Arc<Inode>> {
        let mut files = BTreeMap::new();
        let mut below = vec![(String::new(), ROOT)];
        while let Some((path, number)) = below.pop() {
            let Some(directory) = self.directories.get(&number) else { continue };
            for (name, entry) in &directory.cached {
                let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                match entry {
                    Entry::File(inode) => drop(files.insert(path, Arc::clone(inode))),
                    Entry::Directory(number) => below.push((path, *number)),
                }
            }
        }
        files
    }

    /// Keeps any subset of the operations that are not durable. A choice of 0 keeps one.
    pub(super) fn power_loss(&mut self, choose: &mut dyn FnMut(u64) -> u64) {
        if !self.simulated {
            return;
        }
        for directory in self.directories.values_mut() {
            for operation in std::mem::take(&mut directory.operations) {
                if choose(2) == 0 {
                    apply(&mut directory.durable, operation);
                }
            }
            directory.cached = directory.durable.clone();
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn at(&self, number: u64) -> io::Result<&Directory> {
        self.directories.get(&number).ok_or(ErrorKind::NotFound.into())
    }

    fn directory(&self, parts: &[&str]) -> io::Result<u64> {
        let mut number = ROOT;
        for part in parts {
            number = match self.at(number)?.cached.get(*part) {
                Some(Entry::Directory(number)) => *number,
                Some(Entry::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                None => return Err(ErrorKind::NotFound.into()),
            };
        }
        self.at(number).map(|_| number)
    }

    fn locate<'a>(&self, path: &'a str) -> io::Result<(u64, &'a str)> {
        let parts = parts(path)?;
        let (name, dir) = parts.split_last().ok_or(ErrorKind::IsADirectory)?;
        Ok((self.directory(dir)?, name))
    }

    fn change(&mut self, dir: u64, operation: Operation) -> io::Result<()> {
        let directory = self.directories.get_mut(&dir).ok_or(ErrorKind::NotFound)?;
        apply(&mut directory.cached, operation.clone());
        if self.simulated {
            directory.operations.push(operation);
        }
        Ok(())
    }
}

/// The directory that a path is in.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

fn apply(entries: &mut Entries, operation: Operation) {
    match operation {
        Operation::Set(name, entry) => drop(entries.insert(name, entry)),
        Operation::Remove(name) => drop(entries.remove(&name)),
        Operation::Rename { from, to, entry } => {
            entries.remove(&from);
            entries.insert(to, entry);
        }
    }
}
