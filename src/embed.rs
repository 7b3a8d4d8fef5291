//! Turning text into vectors, as a trait that a program may implement.
//!
//! Owns: what an embedder is, its identity (name, model, dimension), and the error it answers with.
//! Does not know: the log, the views, or where a vector goes. Whoever stores an answer checks it first
//! (count, width, finite values): an embedder is a guest, and its word is not proof.
//!
//! Invariant: a fold never calls an embedder. A vector is computed before its delta is written and stands in
//! that delta, so a store replays without the embedder that made it, on any machine.

pub mod stub;

pub use stub::StubEmbedder;

use std::error::Error;
use std::fmt::Debug;

/// Something that turns text into vectors of one fixed width.
///
/// The identity of an embedder is its [`name`](Embedder::name), [`model`](Embedder::model) and
/// [`dim`](Embedder::dim) together. It stands in the log beside the vectors, because vectors of two embedders
/// cannot be compared: all three must stay the same for as long as the same text gives the same vector, and
/// one of them must change when that changes.
///
/// The trait is object-safe; a store holds an `Arc<dyn Embedder>` and may call it from several threads.
pub trait Embedder: Debug + Send + Sync {
    /// The stable name of the implementation, such as `stub-fnv`.
    fn name(&self) -> &str;

    /// The model behind the name. An implementation with only one model need not say more than its name,
    /// which is the default.
    fn model(&self) -> &str {
        self.name()
    }

    /// How many floats each vector has; at least 1.
    fn dim(&self) -> usize;

    /// The vector of one text, [`dim`](Embedder::dim) floats, all finite.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] when there is no vector for this text, with the cause inside.
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError>;

    /// One vector per text, in the order of the texts. By default the texts are embedded one by one;
    /// a remote embedder would send them together.
    ///
    /// # Errors
    ///
    /// The first [`EmbedError`]: a batch succeeds as a whole or not at all.
    fn embed_batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        texts.iter().map(|text| self.embed(text)).collect()
    }
}

/// Why an embedder has no vector for a text: the embedder's own error, whatever its type.
///
/// It reads as that error does. Which embedder it was, and which text, is added by the caller that knows.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct EmbedError(Box<dyn Error + Send + Sync>);

impl EmbedError {
    /// Wraps a cause: any error, or a sentence as `&str` or `String`.
    ///
    /// ```
    /// let error = mnemolog::EmbedError::new("the model is not loaded");
    /// assert_eq!(error.to_string(), "the model is not loaded");
    /// ```
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }

    /// The cause itself, to be examined by its type.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        self.0.as_ref()
    }
}
