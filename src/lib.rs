//! An embedded, event-sourced memory engine for LLM agents.
//!
//! Everything an agent remembers (notes, vectors, episodes, a working scratchpad) is a change appended to one
//! log. The log is the only truth; what you read is a view folded from it. So "what did the agent know at
//! frame N?" is the same code as "what does it know now?", stopped earlier.
//!
//! The promises, in order of weight:
//!
//! 1. Acknowledged means durable: once a write returns, no crash takes it back.
//! 2. Any frame replays, byte for byte, also what was deleted later.
//! 3. Damage is never silent: an unclean end is cut only where nothing contradicts one, and what was cut is
//!    kept and reported; anything else is an error that names file, offset and frame.
//! 4. Erased means gone: [`Store::erase`] leaves no byte in any file of the store, and says so with a receipt.
//!
//! ```
//! # fn main() -> Result<(), mnemolog::Error> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! # let path = dir.path().join("agent-memory");
//! let store = mnemolog::Store::open(path)?;
//! let core = store.workspace("core")?;
//! core.notes().remember("user/name", "the user's name", "Ada")?;
//! core.vectors("docs")?.upsert("a", "a red fox crossed the road", &mnemolog::Json::object())?;
//! core.episodic("turns")?.record("q1", &mnemolog::Json::string("What is my name?"))?;
//! core.working("scratch")?.push("plan", "greet Ada by name")?;
//! let before = store.durable();
//! core.notes().forget("user/name")?;
//! assert_eq!(core.notes().index_note(), "");
//! assert_eq!(core.vectors("docs")?.search("red fox", 1)?[0].id, "a");
//! assert_eq!(core.working("scratch")?.render(), "## Working Memory\n- **plan**: greet Ada by name");
//! assert_eq!(store.at(before)?.workspace("core")?.notes().recall("user/name"), "Ada");
//! # Ok(())
//! # }
//! ```
//!
//! # Trade-offs, before you use it
//!
//! - A durable write waits for the disk: about one `fdatasync`, shared by all that write at the time.
//!   [`Durability::Os`] acknowledges earlier, and a loss of power may then take back what is above
//!   [`Store::durable`].
//! - History is kept: the log grows with every change, also with every overwritten one, until [`Store::compact`]
//!   drops what is before a frame. What must not stay in it is taken out by [`Store::erase`], which writes files anew
//!   and takes its time.
//! - Opening begins at the newest checkpoint, which the store makes by itself as the log grows;
//!   [`Options::checkpoint_distance`] says how often.
//! - Keys, summaries, scratchpads and vectors are held in memory; bodies and texts stay in the log and are read
//!   through a memory map. A device that fails under a map kills the process, as with every mapped database;
//!   [`Options::map`]`(false)` reads by position instead.
//! - By default one process writes, and holds the store's lock for as long as it has it open; with
//!   [`Writers::Many`] processes take turns, commit by commit. Any number may read, and [`Store::refresh`] brings
//!   what has come since.
//! - The default embedder, [`StubEmbedder`], knows word overlap and nothing of meaning. Bring your own
//!   [`Embedder`] for that.
//!
//! # Layers
//!
//! Data flows one way, and a layer imports only from its left:
//!
//! ```text
//! position ← codec ← error ← disk ← segment ← log ← view ← replay ← embed ← store ← handle ← interchange ← tools
//! ```
//!
//! [`codec`] knows what bytes mean, [`disk`] where they live; [`segment`] introduces them; [`log`] makes one
//! sequence of files and keeps the promises; [`view`] folds it; [`store`] says who may write when; [`handle`]
//! is what a program holds, [`tools`] what a model can call.

pub mod position;

#[deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
pub mod codec;

pub mod error;

#[deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
pub mod disk;

#[deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
pub mod segment;

#[deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
pub mod log;

#[deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
pub mod view;

pub mod replay;

pub mod embed;

pub mod store;

pub mod handle;

#[deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
pub mod interchange;

#[deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
pub mod tools;

pub use codec::delta::Origin;
pub use codec::json::Json;
pub use embed::{EmbedError, Embedder, StubEmbedder};
pub use error::{Error, Result};
pub use handle::{
    Episodic, Forgotten, Notes, Reembedded, Reembedding, Restored, VectorItem, VectorStore, Working,
};
pub use log::{BackedUp, Durability, Forked, Retention, Writers};
pub use position::{Frame, Time};
pub use replay::steps::Step;
pub use segment::Reads;
pub use store::name::{NameError, NameReason, WorkspacePath, safe_segment};
pub use store::{
    Clock, Compaction, Diff, Erase, Erased, ErasedFile, ErasedItems, History, Limits, Opened, Options, Past,
    RolledBack, Stays, Store, SystemClock, Tail, TailDelta, TailEvent, TailFrame, Tx, Workspace,
};

/// The README, whose examples are compiled with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
