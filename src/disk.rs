//! What a store asks of a disk, and nothing of what the bytes mean.
//!
//! Two disks answer: [`FileDisk`] keeps a store in a directory, [`MemoryDisk`] keeps it in RAM. This layer
//! does not know frames, segments or checksums, and its errors are plain [`std::io::Error`]s: whoever calls
//! knows which part of the store was meant, and says so.
//!
//! Laws that both disks hold:
//! - A write is visible to every reader at once, and survives the death of the process. It survives a loss of
//!   power only once [`File::sync_data`] has returned.
//! - A name that was created, renamed or removed stays so after a loss of power only once
//!   [`Disk::sync_dir`] has returned for its directory.
//! - A failed sync is reported once to each descriptor that was open; the bytes that it was to
//!   write may be lost even if a later sync succeeds.
//! - No file shrinks, except the lock file, which is never mapped.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

mod file;
mod map;
mod memory;

pub use file::FileDisk;
pub use map::Map;
pub(crate) use map::{ask_for, together};
pub use memory::{Call, Fault, Fill, MemoryDisk, Tear};

/// The name of the lock file in the root.
pub const LOCK: &str = "LOCK";

/// A directory that holds one store.
///
/// Paths are relative to the root and `/`-separated, such as `DURABLE` or `log/00000000000000000001.seg`; the
/// empty path is the root itself. A path with an empty, `.` or `..` part, a backslash, a colon or a NUL is
/// refused with [`io::ErrorKind::InvalidInput`], so that no name found in a file can reach outside.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Where the root is, for messages.
    fn root(&self) -> &Path;

    /// The names of the files and directories in a directory, sorted by their bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the directory is absent.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;

    /// Makes a directory if it is not there (mode 0700).
    ///
    /// The empty path makes the root with all its missing parents, and makes their entries durable, also those
    /// that an interrupted creation left behind. The entry of any other directory is durable only after
    /// [`Disk::sync_dir`] of its parent.
    fn create_dir(&self, dir: &str) -> io::Result<()>;

    /// Opens a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if it is absent, [`io::ErrorKind::AlreadyExists`] if it is there and the
    /// access is [`Access::Create`].
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn File>>;

    /// Which file is at the path now: to be compared with [`File::id`] of one that is open.
    fn id(&self, path: &str) -> io::Result<FileId>;

    /// Gives a file another name, in one step; a file that had the new name loses it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a file's name away; who has the file open keeps it.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Takes an empty directory away; the empty path means the root.
    ///
    /// # Errors
    /// [`io::ErrorKind::DirectoryNotEmpty`]; [`io::ErrorKind::Unsupported`] where the disk keeps its directories.
    fn remove_dir(&self, _dir: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes durable which names a directory holds.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;

    /// Takes the writers' lock, waiting at most `wait`; zero tries once.
    ///
    /// The lock belongs to the real file, whatever the spelling of the path, and conflicts also within one
    /// process. The root must exist.
    fn lock(&self, wait: Duration) -> Result<Lock, LockError>;

    /// The kind of network filesystem (`nfs`, `smb`, `9p`, …) that the root is on, or none. Locks and maps are
    /// not reliable there.
    fn network(&self) -> io::Result<Option<&'static str>>;

    /// Fills a buffer with random bytes: for names, salts and nonces, which must differ from all others. The
    /// system's, unless the disk is to repeat itself.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        system_random(bytes)
    }
}

/// Random bytes of the operating system.
fn system_random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(Into::into)
}

/// An open file. Its identity stays when its name goes.
pub trait File: fmt::Debug + Send + Sync {
    /// The size in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the size is zero.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads from an offset and answers how many bytes it read: fewer than `buf` holds only at the end of
    /// the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes all bytes at an offset; the file grows if need be.
    ///
    /// # Errors
    /// After an error any part of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reserves space for the first `len` bytes, so that writing them cannot fail for want of space, and makes
    /// the file at least that long; the new bytes are zero. Never shrinks, never changes a byte. Growing is for
    /// one at a time: nobody else may make the file longer meanwhile.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] when there is no room, quotas included. The size is then what it was, or,
    /// on a filesystem that can only be made to reserve by writing, somewhat larger.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Makes durable all that was written before the call, and the size.
    fn sync_data(&self) -> io::Result<()>;

    /// Which file this is.
    fn id(&self) -> io::Result<FileId>;

    /// Maps the first `capacity` bytes for reading, also those that the file does not have yet; none if this
    /// file cannot be mapped, and then it is read by position.
    fn map(&self, capacity: u64) -> io::Result<Option<Map>>;
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading a file that exists.
    Read,
    /// Reading and writing a file that exists.
    Write,
    /// Reading and writing a file that must not exist yet (mode 0600).
    Create,
}

/// The identity of a file, whatever its name: two files that exist at one time never share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The device or volume.
    pub device: u64,
    /// The file's number on it.
    pub number: u64,
}

/// Who holds, or last held, the writers' lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// The host that it runs on.
    pub host: String,
}

impl Holder {
    fn this_process() -> Self {
        Self { pid: std::process::id(), host: host_name() }
    }

    /// One line for the lock file.
    fn line(&self) -> String {
        format!("{} {}\n", self.pid, self.host)
    }

    /// Who took the lock last, as the lock file says: while the lock is held, its holder.
    pub fn named(disk: &dyn Disk) -> Option<Self> {
        let file = disk.open(LOCK, Access::Read).ok()?;
        let mut line = [0; 512];
        let read = file.read_at(0, &mut line).ok()?;
        Self::parse(line.get(..read)?)
    }

    /// Reads the line back; none if it is torn or was never written.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (line, _) = text.split_once('\n')?;
        let (pid, host) = line.split_once(' ')?;
        Some(Self { pid: pid.parse().ok()?, host: host.to_owned() })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)
    }
}

/// The writers' lock, held until it is dropped.
pub struct Lock {
    release: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Lock {
    fn new(release: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { release: Some(Box::new(release)) }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

/// Why the writers' lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another holder kept it for as long as the caller was willing to wait.
    #[error("the lock is held{}", by(.holder.as_ref()))]
    Held {
        /// The holder, where the lock file could be read.
        holder: Option<Holder>,
    },
    /// The lock file could not be opened or locked.
    #[error("the lock file could not be used: {0}")]
    Io(#[from] io::Error),
}

fn by(holder: Option<&Holder>) -> String {
    holder.map(|holder| format!(" by {holder}")).unwrap_or_default()
}

#[cfg(unix)]
fn host_name() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| rustix::system::uname().nodename().to_string_lossy().into_owned()).clone()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "localhost".to_owned())
}

/// The parts of a path below the root, none for the root itself.
fn parts(path: &str) -> io::Result<Vec<&str>> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = path.split('/').collect();
    let sound = |part: &&str| !matches!(*part, "" | "." | "..") && !part.contains(['\\', ':', '\0']);
    if parts.iter().all(sound) {
        Ok(parts)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{path:?} is not a path inside a store")))
    }
}
