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

pub mod embed;

pub mod store;

pub use embed::{EmbedError, Embedder, StubEmbedder};
pub use store::name::{NameError, NameReason, WorkspacePath, safe_segment};
