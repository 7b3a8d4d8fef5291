//! An embedded, event-sourced memory engine for LLM agents.

pub mod embed;

pub use embed::{EmbedError, Embedder, StubEmbedder};
