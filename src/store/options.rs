//! How a store is opened: sizes, waits, durability, clock, embedder.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Limits, Store};
use crate::disk::{Disk, FileDisk};
use crate::embed::{Embedder, StubEmbedder};
use crate::error::{Error, Result};
use crate::log::{Durability, Mode, Writers};
use crate::position::Time;
use crate::replay::checkpoint::DISTANCE_BYTES;

/// Where frame times come from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now. It may go back; frame times never do.
    fn now(&self) -> Time;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).ok().and_then(Time::from_micros).unwrap_or(Time::MAX)
    }
}

/// The smallest size at which a segment counts as full: 16 KiB.
pub const SEGMENT_BYTES_MIN: u64 = 16 * 1024;
/// The largest: 1 GiB.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// How a store is opened. Every setting has a default that suits an agent's memory on a local disk.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) segment_bytes: u64,
    pub(crate) map: bool,
    pub(crate) durability: Durability,
    pub(crate) writers: Writers,
    pub(crate) lock_wait: Duration,
    pub(crate) lane_wait: Duration,
    pub(crate) allow_network: bool,
    pub(crate) limits: Limits,
    pub(crate) checkpoint_distance: u64,
    pub(crate) pasts_bytes: u64,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) embedder: Arc<dyn Embedder>,
    /// Whether the program chose the embedder.
    pub(crate) embedder_is_chosen: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

impl Options {
    /// The defaults: segments of 64 MiB, mapped; durable writes; 5 s for the lock, 60 s for a lane; items up
    /// to 32 MiB; the system's clock; the stub embedder.
    pub fn new() -> Options {
        Options {
            segment_bytes: 64 << 20,
            map: true,
            durability: Durability::Sync,
            writers: Writers::One,
            lock_wait: Duration::from_secs(5),
            lane_wait: Duration::from_secs(60),
            allow_network: false,
            limits: Limits::default(),
            checkpoint_distance: DISTANCE_BYTES,
            pasts_bytes: 64 << 20,
            clock: Arc::new(SystemClock),
            embedder: Arc::new(StubEmbedder::new()),
            embedder_is_chosen: false,
        }
    }

    /// The size in bytes at which a segment is full, between [`SEGMENT_BYTES_MIN`] and [`SEGMENT_BYTES_MAX`].
    #[must_use]
    pub fn segment_bytes(self, bytes: u64) -> Options {
        Options { segment_bytes: bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX), ..self }
    }

    /// Whether bodies are read through a memory map (the default) or by position. A failing device, or
    /// another program that truncates a segment, kills a process that reads through a map.
    #[must_use]
    pub fn map(self, map: bool) -> Options {
        Options { map, ..self }
    }

    /// When a write is acknowledged.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Options {
        Options { durability, ..self }
    }

    /// How many processes may write. One (the default) is the fastest; many share the store commit by commit.
    #[must_use]
    pub fn writers(self, writers: Writers) -> Options {
        Options { writers, ..self }
    }

    /// How long opening, and with many writers each write, waits for another writer to let go of the store.
    #[must_use]
    pub fn lock_wait(self, wait: Duration) -> Options {
        Options { lock_wait: wait, ..self }
    }

    /// How long a write waits for its workspace's lane.
    #[must_use]
    pub fn lane_wait(self, wait: Duration) -> Options {
        Options { lane_wait: wait, ..self }
    }

    /// Accepts a network filesystem, whose locks and syncs this crate cannot vouch for.
    #[must_use]
    pub fn allow_network(self, allow: bool) -> Options {
        Options { allow_network: allow, ..self }
    }

    /// The largest item in bytes: all texts of a note, row, episode or entry together, and 4 bytes for each
    /// float.
    #[must_use]
    pub fn max_item_bytes(self, bytes: u64) -> Options {
        Options { limits: Limits { item_bytes: bytes }, ..self }
    }

    /// The least log between two checkpoints in bytes (64 MiB); [`u64::MAX`] makes none but those that are asked
    /// for. The way back from any frame to a checkpoint is at most this, or a quarter of that checkpoint, or an
    /// eighth of what was appended since the frame.
    #[must_use]
    pub fn checkpoint_distance(self, bytes: u64) -> Options {
        Options { checkpoint_distance: bytes.max(1), ..self }
    }

    /// How much memory the states of lately used pasts may take (64 MiB), as bytes of the log that was folded for
    /// them; 0 keeps none. A past that the program holds is its own, whatever is kept.
    #[must_use]
    pub fn pasts_bytes(self, bytes: u64) -> Options {
        Options { pasts_bytes: bytes, ..self }
    }

    /// Where frame times come from.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Options {
        Options { clock, ..self }
    }

    /// The embedder of vector tables that are not given one of their own. Where none is chosen, it is the stub: of 64
    /// floats for a new table, and for one that a stub made, of as many as that had.
    #[must_use]
    pub fn embedder(self, embedder: Arc<dyn Embedder>) -> Options {
        Options { embedder, embedder_is_chosen: true, ..self }
    }

    /// Opens the store in a directory for reading and writing; creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// [`Error::NotAStore`]; [`Error::Locked`]; [`Error::NewerFormat`]; [`Error::NetworkFilesystem`];
    /// [`Error::Damaged`]; [`Error::DiskFull`]; [`Error::Io`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        self.open_on(file_disk(path.as_ref())?)
    }

    /// Opens the store in a directory for reading; takes no lock and changes nothing.
    ///
    /// # Errors
    /// [`Error::NoSuchStore`]; [`Error::NotAStore`]; [`Error::NewerFormat`]; [`Error::Io`]. Damage is no error
    /// here: what is before it is served, and [`Store::recovery`] tells.
    pub fn open_read_only(self, path: impl AsRef<Path>) -> Result<Store> {
        self.open_read_only_on(file_disk(path.as_ref())?)
    }

    /// As [`Options::open`], on any disk.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_on(self, disk: Arc<dyn Disk>) -> Result<Store> {
        let mode = Mode::Write {
            lock_wait: self.lock_wait,
            allow_network: self.allow_network,
            now: self.clock.now(),
        };
        Store::open_with(disk, self, mode)
    }

    /// As [`Options::open_read_only`], on any disk.
    ///
    /// # Errors
    /// As [`Options::open_read_only`].
    pub fn open_read_only_on(self, disk: Arc<dyn Disk>) -> Result<Store> {
        Store::open_with(disk, self, Mode::Read)
    }
}

/// A store's directory on the filesystem.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn file_disk(path: &Path) -> Result<Arc<dyn Disk>> {
    match FileDisk::new(path) {
        Ok(disk) => Ok(Arc::new(disk)),
        Err(e) => Err(Error::io("finding", path, e)),
    }
}
