//! An embedded, event-sourced memory engine for LLM agents.

pub mod embed;
pub mod store;

pub use embed::{EmbedError, Embedder, StubEmbedder};
pub use store::name::{NameError, NameReason, WorkspacePath, safe_segment};
