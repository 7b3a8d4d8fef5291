//! An embedded, event-sourced memory engine for LLM agents.

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

pub use codec::delta::Origin;
pub use codec::json::Json;
pub use embed::{EmbedError, Embedder, StubEmbedder};
pub use error::{Error, Result};
pub use handle::{Episodic, Forgotten, Notes, VectorItem, VectorStore, Working};
pub use log::Durability;
pub use position::{Frame, Time};
pub use replay::steps::Step;
pub use store::name::{NameError, NameReason, WorkspacePath, safe_segment};
pub use store::{Clock, Limits, Options, Past, Store, SystemClock, Tx, Workspace};
