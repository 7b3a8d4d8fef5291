//! The one error type: what happened, where, what was expected and found, and what to do next.
//!
//! Pure kinds from below ([`Malformed`], [`std::io::Error`]) get their path, segment and frame here, once.
//! Callers match on variants; nothing is ever recognised by its text.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::codec::json::BadJson;
use crate::codec::snapshot::BadSnapshot;
use crate::codec::wire::Malformed;
use crate::position::{Frame, Time};

/// Everything that a store can answer instead of a result. Cheap to clone: a group of writers shares one.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log is damaged: a frame that had been acknowledged does not check out.
    #[error("{0}")]
    Damaged(Box<Damage>),

    /// A read met bytes that rotted after opening.
    #[error("{}: frame {frame} in {segment} is corrupt ({reason}); run `verify` for a full report", .path.display())]
    Corrupt {
        /// The store's directory.
        path: PathBuf,
        /// The file in `log/`.
        segment: String,
        /// The frame that was read.
        frame: Frame,
        /// What does not check out.
        reason: Box<Malformed>,
    },

    /// The operating system refused.
    #[error("{}: {doing} failed: {source}; mend the disk or its permissions and open the store again", .path.display())]
    Io {
        /// What was being done, as in "reading".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },

    /// No space left: this write was refused and nothing of it was written.
    #[error("{}: {doing} failed: no space is left; free some and try again, nothing was written", .path.display())]
    DiskFull {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
    },

    /// An earlier write or sync failed. Reads go on; open the store again to write.
    #[error("an earlier write failed, so this writer stopped ({cause}); open the store again")]
    Poisoned {
        /// The first failure.
        cause: Arc<Error>,
    },

    /// The write was appended and its sync failed: it may or may not survive.
    #[error("whether frame {frame} was saved is unknown ({cause}); open the store again and look")]
    OutcomeUnknown {
        /// The frame in question.
        frame: Frame,
        /// What failed.
        cause: Arc<Error>,
    },

    /// Another writer holds the store.
    #[error("{} is locked by {}; close it there, or wait longer", .path.display(), Holder(*.pid, .host))]
    Locked {
        /// The store's directory.
        path: PathBuf,
        /// The holder's process id, where LOCK names it.
        pid: Option<u32>,
        /// The holder's host, where LOCK names it.
        host: Option<String>,
    },

    /// There is no store at the path.
    #[error("there is no store at {}; check the path, or write something to create it", .path.display())]
    NoSuchStore {
        /// Where one was looked for.
        path: PathBuf,
    },

    /// The store that was open is not at its path any more: another one is.
    #[error("another store is at {} now; open it again", .path.display())]
    OtherStore {
        /// The store's directory.
        path: PathBuf,
    },

    /// The directory holds something else.
    #[error("{} is not a store: it holds `{found}`; choose an empty directory", .path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// A name in it that no store has.
        found: String,
    },

    /// A directory that cannot be the backup, or the fork.
    #[error("{} is no place for a copy of this store: {reason}", .path.display())]
    BackupRefused {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: BackupRefusal,
    },

    /// A store is where one was to be made.
    #[error("{} holds a store already; choose an empty directory", .path.display())]
    StoreExists {
        /// The directory.
        path: PathBuf,
    },

    /// What should be a directory, or lie in one, is a file.
    #[error("{} is not a directory, or lies in a file; a store is a directory, check the path", .path.display())]
    NotADirectory {
        /// What was looked for.
        path: PathBuf,
    },

    /// The store was written by a later version.
    #[error("{} has format {found}, this program knows up to {known}; use a newer mnemolog", .path.display())]
    NewerFormat {
        /// The file that says so.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },

    /// The directory is on a network filesystem, whose locks and syncs cannot be relied on.
    #[error(
        "{} is on a network filesystem ({kind}); use a local disk, or allow it with Options::allow_network",
        .path.display()
    )]
    NetworkFilesystem {
        /// The store's directory.
        path: PathBuf,
        /// The filesystem's name.
        kind: &'static str,
    },

    /// The store was opened for reading only.
    #[error("this store is open for reading only; open it for writing to change it")]
    ReadOnly,

    /// The store was closed.
    #[error("this store is closed; open it again")]
    Closed,

    /// No frame has this number.
    #[error("there is no frame {asked}: the last one is {last}")]
    NoSuchFrame {
        /// The frame asked for.
        asked: Frame,
        /// The last frame.
        last: Frame,
    },

    /// The history before `oldest` was compacted away.
    #[error("the history before frame {oldest} was compacted; ask for frame {oldest} or later")]
    Compacted {
        /// The oldest frame that can be replayed.
        oldest: Frame,
    },

    /// The frame is inside a range that repair had to give up.
    #[error(
        "frame {asked} is lost: frames {first} to {last} were damaged and repaired; ask for another frame"
    )]
    Lost {
        /// The frame asked for.
        asked: Frame,
        /// The first lost one.
        first: Frame,
        /// The last lost one.
        last: Frame,
    },

    /// A workspace or handle name is not valid.
    #[error("{reason}")]
    BadName {
        /// What is wrong with it, as one sentence.
        reason: String,
    },

    /// A value is over a limit; nothing was written.
    #[error("{what} is {found}, the limit is {limit}; make it smaller or split it")]
    TooLarge {
        /// The value and its unit, as in "the body in bytes".
        what: &'static str,
        /// The largest allowed.
        limit: u64,
        /// What was given.
        found: u64,
    },

    /// There is no such row.
    #[error("nothing is saved under {}", .id.escape_debug())]
    NotFound {
        /// The id asked for.
        id: String,
    },

    /// What is saved under a key is not what the caller had read; nothing was written.
    #[error(
        "{} is {}, not {}; read it again and decide anew",
        .key.escape_debug(), SavedAt(*.found), SavedAt(*.expected)
    )]
    Conflict {
        /// The key.
        key: String,
        /// The frame that should have saved it; 0 for nothing saved.
        expected: Frame,
        /// The frame that saved it; 0 if nothing is saved.
        found: Frame,
    },

    /// A vector has another width than its table.
    #[error(
        "the table {table} holds vectors of {expected} floats, this one has {found}; use its embedder, or a vector \
         of that width"
    )]
    Dimension {
        /// The table's handle id.
        table: String,
        /// The table's width.
        expected: usize,
        /// The given one.
        found: usize,
    },

    /// The table was made with another embedder. Everything but embedding goes on working.
    #[error("the table {table} was made with {stored}, not with {given}; use that embedder, or re-embed")]
    EmbedderMismatch {
        /// The table's handle id.
        table: String,
        /// Name, model and width in the log.
        stored: String,
        /// Name, model and width of the one in use.
        given: String,
    },

    /// Vectors that cannot be stored; nothing of the batch was.
    #[error("nothing was stored: {0}; mend what made it and try again")]
    Embedding(Arc<EmbeddingFault>),

    /// A critical section inside a critical section, or a write past it from its own thread.
    #[error("this thread is inside a critical section of workspace `{workspace}`; write through its `tx`")]
    InsideExclusive {
        /// The workspace whose lane the thread holds.
        workspace: String,
    },

    /// The workspace's lane stayed busy.
    #[error(
        "workspace `{workspace}` stayed busy for {waited:?}; finish the critical section, or wait longer"
    )]
    LaneBusy {
        /// The workspace.
        workspace: String,
        /// How long was waited.
        waited: Duration,
    },

    /// Bytes that are not the snapshot asked for; nothing was changed.
    #[error("{}", SnapshotText(.0))]
    Snapshot(Arc<BadSnapshot>),

    /// A value that is not JSON.
    #[error("{0}")]
    Json(Arc<BadJson>),

    /// A number that makes no sense.
    #[error("{what} is {found}, expected {expected}")]
    Invalid {
        /// The parameter.
        what: &'static str,
        /// What was given.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },

    /// A time too far ahead of the clock.
    #[error(
        "the time {time} is more than a day ahead of the clock ({now}); correct it, or trust given times"
    )]
    FutureTime {
        /// The given time.
        time: Time,
        /// The clock.
        now: Time,
    },
}

/// What is wrong with vectors that an embedder or a caller gave.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingFault {
    /// Another number of vectors than texts.
    #[error("{expected} texts were embedded and {found} vectors came back")]
    Count {
        /// Texts given.
        expected: usize,
        /// Vectors received.
        found: usize,
    },
    /// A vector of another width than the embedder states, or without a float.
    #[error("vector {index} has {found} floats, expected {expected}")]
    Width {
        /// Which vector, from 0.
        index: usize,
        /// The stated width; 1 is the least.
        expected: usize,
        /// The received one.
        found: usize,
    },
    /// A vector with a NaN or an infinity.
    #[error("vector {index} is not finite")]
    NotFinite {
        /// Which vector, from 0.
        index: usize,
    },
    /// A vector of zeros: it has no direction.
    #[error("vector {index} is all zeros, which no search can find")]
    Zero {
        /// Which vector, from 0.
        index: usize,
    },
    /// The embedder failed.
    #[error("the embedder {name} failed: {source}")]
    Failed {
        /// The embedder's name.
        name: String,
        /// Its own error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Where the log stopped checking out, and why that is damage and not an unclean end.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The store's directory.
    pub path: PathBuf,
    /// The file in `log/`.
    pub segment: String,
    /// Byte offset in it.
    pub offset: u64,
    /// The first frame that cannot be read.
    pub frame: Frame,
    /// What stands there.
    pub reason: Malformed,
    /// What says that more had been there.
    pub evidence: Evidence,
}

/// Why a place where the log stops is damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// DURABLE promised this frame.
    Durable(Frame),
    /// A frame at this offset of the same file promised this one.
    Promise {
        /// Where the later frame stands.
        offset: u64,
        /// What it promises.
        frame: Frame,
    },
    /// The file is not the last of the log.
    NotLast,
    /// Headers are written and synced before a file gets its name.
    Header,
    /// The file does not continue the one before it.
    Lineage,
    /// An opened file changed afterwards.
    Changed,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Durable(frame) => write!(f, "DURABLE promises frame {frame}"),
            Evidence::Promise { offset, frame } => {
                write!(f, "a later frame at byte {offset} promises frame {frame}")
            }
            Evidence::NotLast => f.write_str("the log goes on in a later file"),
            Evidence::Header => f.write_str("a named file always has a header"),
            Evidence::Lineage => f.write_str("it does not continue the file before it"),
            Evidence::Changed => f.write_str("it was whole when it was opened"),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { path, segment, offset, frame, reason, evidence } = self;
        write!(
            f,
            "{}: damaged in log/{segment} at byte {offset}: frame {frame} cannot be read ({reason}), and \
             {evidence}; open it read-only to see what is left, and run `repair` or restore a copy",
            path.display()
        )
    }
}

/// The store is opened, but its end was not clean or not whole: what was found, and what was done.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Bytes that were cut from an unclean end, where any were.
    pub cut: Option<Cut>,
    /// For a store opened read-only: the damage beyond which nothing is served.
    pub damage: Option<Damage>,
    /// Bytes of frames above the last promise that were written again in place.
    pub rewritten_bytes: u64,
    /// True if a change of several files was found under way and finished.
    pub finished_intent: bool,
}

/// An unclean end that was cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The file in `log/`.
    pub segment: String,
    /// Where the cut begins.
    pub offset: u64,
    /// How many bytes were not zero from there to the last one.
    pub len_bytes: u64,
    /// The file in `quarantine/` that keeps them; `None` when opened read-only, where nothing is cut.
    pub quarantine: Option<String>,
    /// What did not check out.
    pub reason: Malformed,
}

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An I/O error with its context; kinds that have a variant of their own become it.
    pub fn io(doing: &'static str, path: impl AsRef<Path>, source: io::Error) -> Error {
        // Without a separator at its end, which a path joined with nothing has.
        let path: PathBuf = path.as_ref().components().collect();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull { doing, path },
            io::ErrorKind::NotADirectory => Error::NotADirectory { path },
            _ => Error::Io { doing, path, source: Arc::new(source) },
        }
    }
}

impl From<BadSnapshot> for Error {
    fn from(bad: BadSnapshot) -> Self {
        Error::Snapshot(Arc::new(bad))
    }
}

impl From<BadJson> for Error {
    fn from(bad: BadJson) -> Self {
        Error::Json(Arc::new(bad))
    }
}

impl From<EmbeddingFault> for Error {
    fn from(fault: EmbeddingFault) -> Self {
        Error::Embedding(Arc::new(fault))
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Error::Damaged(Box::new(damage))
    }
}

struct Holder<'a>(Option<u32>, &'a Option<String>);

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(pid), Some(host)) => write!(f, "process {pid} on {host}"),
            (Some(pid), None) => write!(f, "process {pid}"),
            _ => f.write_str("another writer"),
        }
    }
}

struct SavedAt(Frame);

impl fmt::Display for SavedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Frame::ZERO => f.write_str("absent"),
            frame => write!(f, "saved by frame {frame}"),
        }
    }
}

struct SnapshotText<'a>(&'a BadSnapshot);

impl fmt::Display for SnapshotText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            BadSnapshot::Malformed(m) => write!(f, "these bytes are no snapshot ({m}); nothing was changed"),
            BadSnapshot::Newer { version } => {
                write!(f, "this snapshot has format {version}, newer than this program; nothing was changed")
            }
            BadSnapshot::Kind { expected, found } => write!(
                f,
                "this is a snapshot of a {} handle, not of a {} one; nothing was changed",
                found.name(),
                expected.name()
            ),
        }
    }
}

/// Why a directory cannot be the backup of a store. Nothing in it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackupRefusal {
    /// It is the store, or lies in it.
    #[error("it is the store itself, or lies in it; choose another directory")]
    Itself,
    /// A backup of another store, or another store.
    #[error("it holds another store; choose another directory")]
    OtherStore,
    /// It has frames that the store does not have.
    #[error("it goes up to frame {found} and the store only to frame {last}; choose another directory")]
    Newer {
        /// The backup's last frame.
        found: Frame,
        /// The store's last durable frame.
        last: Frame,
    },
    /// Somebody wrote to it, or the store was brought back from an older copy: both have the frame, with different
    /// content.
    #[error(
        "its frame {frame} is not that of the store, so one of them was written to apart from the other; choose another directory"
    )]
    Diverged {
        /// The backup's last frame.
        frame: Frame,
    },
}
