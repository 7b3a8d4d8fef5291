//! A table of texts and their vectors, searched exactly.
//!
//! The table knows which embedder made its rows; another one is refused by name, and everything but embedding
//! still works. What an embedder answers is checked before anything is written: a batch is stored whole or
//! not at all.

mod reembed;

use std::borrow::Cow;
use std::sync::Arc;

pub use reembed::{Reembedded, Reembedding};

use super::{Handle, Restored};
use crate::codec::delta::{Config, EMBEDDING_WIDTH_MAX, HandleKind, Identity, Op, Upsert};
use crate::codec::json::Json;
use crate::embed::{Embedder, StubEmbedder};
use crate::error::{EmbeddingFault, Error, Result};
use crate::position::Frame;
use crate::store::{Erased, History, Reading, Workspace};
use crate::view::VectorView;
use crate::view::history::Versioned;
use crate::view::vectors::filter::Filter;
use crate::view::vectors::{Hit, VectorRow};

/// A vector table. Cheap to clone; every clone of one name in one workspace is the same table.
#[derive(Clone, Debug)]
pub struct VectorStore {
    handle: Handle,
    embedder: Arc<dyn Embedder>,
    /// Whether a program chose that embedder. What nobody chose is as wide as the table's, if that was the stub.
    is_chosen: bool,
}

/// A text to be embedded and stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorItem {
    /// Names the row; an earlier row of the same id is overwritten.
    pub id: String,
    /// What is embedded.
    pub text: String,
    /// What is stored with it; a JSON object can be filtered on.
    pub metadata: Json,
}

impl Workspace {
    /// The vector table with this name.
    ///
    /// # Errors
    /// [`Error::BadName`]: a name with other characters than `a-z`, `0-9`, `-`, `_`, or none.
    pub fn vectors(&self, name: &str) -> Result<VectorStore> {
        let handle = Handle::new(self.source(), HandleKind::Vector, self.handle_id(name)?);
        let (embedder, is_chosen) = (self.source().embedder(), self.source().embedder_is_chosen());
        Ok(VectorStore { handle, embedder, is_chosen })
    }
}

impl VectorStore {
    /// The same table, embedding with this embedder instead of the store's.
    #[must_use]
    pub fn with_embedder(self, embedder: Arc<dyn Embedder>) -> VectorStore {
        VectorStore { embedder, is_chosen: true, ..self }
    }

    /// Embeds a text and stores it under an id.
    ///
    /// # Errors
    /// [`Error::EmbedderMismatch`] or [`Error::Dimension`]: the table holds another embedder's rows.
    /// [`Error::Embedding`]: the embedder failed, or answered a vector that cannot be stored.
    /// [`Error::TooLarge`]; [`Error::ReadOnly`] in a past; what committing answers. Nothing is stored then.
    pub fn upsert(&self, id: &str, text: &str, metadata: &Json) -> Result<()> {
        self.embed_and_store(&[(id, text, metadata.as_str())])
    }

    /// Embeds and stores all items, or none of them.
    ///
    /// # Errors
    /// As [`VectorStore::upsert`]; [`Error::TooLarge`] also for more than 65,534 items.
    pub fn upsert_batch(&self, items: &[VectorItem]) -> Result<()> {
        let rows: Vec<_> =
            items.iter().map(|i| (i.id.as_str(), i.text.as_str(), i.metadata.as_str())).collect();
        self.embed_and_store(&rows)
    }

    fn embed_and_store(&self, rows: &[(&str, &str, &str)]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        // Refused before the embedder is asked, and again inside the lane, where it counts.
        let reading = self.handle.reading();
        let embedder = self.embedder(&reading);
        self.configuration(&reading, &*embedder)?;
        drop(reading);
        let texts: Vec<&str> = rows.iter().map(|(_, text, _)| *text).collect();
        let embeddings = embed(&*embedder, &texts)?;
        self.handle.source.change(&self.handle.id.id, |reading| {
            let mut ops = Vec::with_capacity(rows.len() + 1);
            ops.extend(
                self.configuration(reading, &*embedder)?
                    .map(|identity| Op::Configure(Config::Vector(Some(identity)))),
            );
            ops.extend(rows.iter().zip(embeddings).map(|((id, text, metadata), embedding)| {
                Op::Upsert(Upsert { id, text, metadata, embedding: Cow::Owned(embedding) })
            }));
            Ok((ops, ()))
        })
    }

    /// Stores a text under the caller's own vector.
    ///
    /// # Errors
    /// [`Error::Dimension`]: the table's rows have another width. [`Error::Embedding`]: the vector is empty,
    /// all zeros, or not finite. [`Error::TooLarge`]: over 65,536 floats, or another limit.
    /// [`Error::ReadOnly`] in a past; what committing answers. Nothing is stored then.
    pub fn upsert_embedding(&self, id: &str, text: &str, metadata: &Json, embedding: &[f32]) -> Result<()> {
        check_vector(0, embedding, false)?;
        let metadata = metadata.as_str();
        let op = Op::Upsert(Upsert { id, text, metadata, embedding: Cow::Borrowed(embedding) });
        self.handle.source.change(&self.handle.id.id, |reading| {
            self.check_width(self.view(reading), embedding.len())?;
            Ok((vec![op], ()))
        })
    }

    /// The `k` rows nearest to a text, best first.
    ///
    /// # Errors
    /// [`Error::EmbedderMismatch`], [`Error::Dimension`], [`Error::Embedding`] as for [`VectorStore::upsert`];
    /// [`Error::Corrupt`] or [`Error::Io`]: a row's text cannot be read.
    pub fn search(&self, query: &str, k: usize) -> Result<Vec<Hit>> {
        self.search_where(query, k, None)
    }

    /// As [`VectorStore::search`], among the rows whose metadata passes the filter: the best `k` of those.
    ///
    /// # Errors
    /// As [`VectorStore::search`].
    pub fn search_where(&self, query: &str, k: usize, filter: Option<&Filter>) -> Result<Vec<Hit>> {
        let reading = self.handle.reading();
        let embedder = self.embedder(&reading);
        self.configuration(&reading, &*embedder)?;
        drop(reading);
        let embedding = embed(&*embedder, &[query])?.pop().unwrap_or_default();
        self.search_by_vector_where(&embedding, k, filter)
    }

    /// The `k` rows nearest to a vector, best first.
    ///
    /// # Errors
    /// [`Error::Dimension`]: another width than the table's. [`Error::Invalid`]: not finite.
    /// [`Error::Corrupt`] or [`Error::Io`]: a row's text cannot be read.
    pub fn search_by_vector(&self, query: &[f32], k: usize) -> Result<Vec<Hit>> {
        self.search_by_vector_where(query, k, None)
    }

    /// As [`VectorStore::search_by_vector`], among the rows whose metadata passes the filter.
    ///
    /// # Errors
    /// As [`VectorStore::search_by_vector`].
    pub fn search_by_vector_where(
        &self,
        query: &[f32],
        k: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Hit>> {
        // The table alone is held meanwhile: whoever writes elsewhere has nothing to copy that this still reads.
        let Reading { state, bodies } = self.handle.reading();
        let view = state.vectors(self.handle.name()).cloned().unwrap_or_default();
        drop(state);
        self.check_width(Some(&view), query.len())?;
        view.search(query, k, filter, &bodies)
    }

    /// The row with an id.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`]: its text cannot be read.
    pub fn get(&self, id: &str) -> Result<Option<VectorRow>> {
        let reading = self.handle.reading();
        match self.view(&reading) {
            Some(view) => view.get(id, &reading.bodies),
            None => Ok(None),
        }
    }

    /// Deletes a row from now on.
    ///
    /// # Errors
    /// [`Error::NotFound`]: there is no such row. [`Error::ReadOnly`] in a past; what committing answers.
    pub fn delete(&self, id: &str) -> Result<()> {
        self.handle.source.change(&self.handle.id.id, |reading| {
            if self.view(reading).and_then(|view| view.head(id)).is_none() {
                return Err(Error::NotFound { id: id.to_owned() });
            }
            Ok((vec![Op::Delete { id }], ()))
        })
    }

    /// Every version of a row, newest first, also of one that was deleted or cleared. Reads one frame a version,
    /// and one for each time that the table was cleared. In a past, the versions up to its frame; in a critical
    /// section, those before it. A snapshot that was restored ends the histories of the rows that it left out.
    pub fn history(&self, id: &str) -> History<VectorRow> {
        self.handle.source.history(&self.handle.id, id)
    }

    /// Brings one row back to its state at a frame, by a new frame: saves it as it was, vector and all, or deletes
    /// it if it was not there. Nothing is written if it is so already.
    ///
    /// # Errors
    /// As [`crate::Store::at`]; [`Error::Dimension`]: the table's rows have another width by now;
    /// [`Error::ReadOnly`] in a past; what committing answers.
    pub fn restore(&self, id: &str, frame: Frame) -> Result<Restored> {
        loop {
            let generation = self.handle.source.generation();
            let then = self.handle.source.item_at::<VectorRow>(&self.handle.id, id, frame)?;
            let restored = self.handle.source.change(&self.handle.id.id, |reading| {
                if self.handle.source.generation() != generation {
                    // What was read may have been erased meanwhile.
                    return Ok((Vec::new(), None));
                }
                let now = VectorRow::saved(&reading.state, self.handle.name(), id, &reading.bodies)?;
                let (ops, done) = match (&then, now) {
                    (Some(then), Some(now)) if then.says_the_same(&now) => (Vec::new(), Restored::Unchanged),
                    (Some(then), _) => {
                        self.check_width(self.view(reading), then.embedding.len())?;
                        (vec![Op::Upsert(then.delta())], Restored::Saved)
                    }
                    (None, Some(_)) => (vec![Op::Delete { id }], Restored::Removed),
                    (None, None) => (Vec::new(), Restored::WasAbsent),
                };
                Ok((ops, Some(done)))
            })?;
            if let Some(restored) = restored {
                return Ok(restored);
            }
        }
    }

    /// Removes a row for good: every version of it, from every file of the store. See [`crate::Store::erase`].
    ///
    /// # Errors
    /// As [`crate::Store::erase`]; [`Error::ReadOnly`] in a past.
    pub fn erase(&self, id: &str) -> Result<Erased> {
        self.handle.erase(Some(id))
    }

    /// Removes the whole table for good, its name included.
    ///
    /// # Errors
    /// As [`VectorStore::erase`].
    pub fn erase_all(&self) -> Result<Erased> {
        self.handle.erase(None)
    }

    /// Deletes all rows from now on; the embedder's identity stays.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] in a past; what committing answers.
    pub fn clear(&self) -> Result<()> {
        self.handle.clear()
    }

    /// Makes durable all that was written to the store before the call.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`]; [`Error::ReadOnly`] in a past.
    pub fn flush(&self) -> Result<()> {
        self.handle.source.flush()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.handle.len()
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which embedder made the rows; none before the first text is embedded.
    pub fn identity(&self) -> Option<Identity<'static>> {
        let reading = self.handle.reading();
        self.view(&reading).and_then(|view| view.identity().cloned())
    }

    /// The whole table as bytes: equal for equal tables, on every platform.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`]: a text cannot be read.
    pub fn snapshot_bytes(&self) -> Result<Vec<u8>> {
        self.handle.snapshot_bytes()
    }

    /// Replaces the table by that of a snapshot, as one delta.
    ///
    /// # Errors
    /// [`Error::Snapshot`]: not a snapshot of a vector table; [`Error::Dimension`] or [`Error::Embedding`]:
    /// rows that do not fit together. Nothing changes then. What committing answers.
    pub fn restore_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.handle.restore_bytes(bytes, |ops| self.check_rows(ops))
    }

    /// Rows of a snapshot must be as wide as its configuration says, or all alike.
    fn check_rows(&self, ops: &[Op<'_>]) -> Result<()> {
        let mut width = ops.iter().find_map(|op| match op {
            Op::Snapshot { config: Config::Vector(Some(identity)), .. } => Some(identity.dim as usize),
            _ => None,
        });
        let rows = ops.iter().filter_map(|op| if let Op::Upsert(row) = op { Some(row) } else { None });
        for (index, row) in rows.enumerate() {
            check_vector(index, &row.embedding, true)?;
            let expected = *width.get_or_insert(row.embedding.len());
            self.dimension(expected, row.embedding.len())?;
        }
        Ok(())
    }

    fn view<'r>(&self, reading: &'r Reading) -> Option<&'r VectorView> {
        reading.state.vectors(self.handle.name())
    }

    /// The embedder for the table as it is.
    fn embedder(&self, reading: &Reading) -> Arc<dyn Embedder> {
        let stored = self.view(reading).and_then(VectorView::identity).filter(|_| !self.is_chosen);
        let stub = stored.map(|stored| (stored, StubEmbedder::with_dim(stored.dim as usize)));
        match stub {
            Some((stored, stub)) if stub.dim() <= EMBEDDING_WIDTH_MAX && identity(&stub) == *stored => {
                Arc::new(stub)
            }
            _ => self.embedder.clone(),
        }
    }

    /// The identity to write before the first embedded row; `None` if the table has it already.
    fn configuration(&self, reading: &Reading, embedder: &dyn Embedder) -> Result<Option<Identity<'static>>> {
        let given = identity(embedder);
        let view = self.view(reading);
        match view.and_then(VectorView::identity) {
            Some(stored) if *stored == given => Ok(None),
            Some(stored) => Err(Error::EmbedderMismatch {
                table: self.handle.name().to_owned(),
                stored: describe(stored),
                given: describe(&given),
            }),
            None => self.check_width(view, given.dim as usize).map(|()| Some(given)),
        }
    }

    fn check_width(&self, view: Option<&VectorView>, found: usize) -> Result<()> {
        match view.and_then(VectorView::dim) {
            Some(expected) => self.dimension(expected, found),
            None => Ok(()),
        }
    }

    fn dimension(&self, expected: usize, found: usize) -> Result<()> {
        if expected == found {
            return Ok(());
        }
        Err(Error::Dimension { table: self.handle.name().to_owned(), expected, found })
    }
}

/// The identity under which an embedder's rows are stored.
pub(crate) fn identity(embedder: &dyn Embedder) -> Identity<'static> {
    Identity {
        name: Cow::Owned(embedder.name().to_owned()),
        model: Cow::Owned(embedder.model().to_owned()),
        dim: u32::try_from(embedder.dim()).unwrap_or(u32::MAX),
    }
}

/// An identity as errors show it.
pub(crate) fn describe(identity: &Identity<'_>) -> String {
    format!("{} ({}, {} floats)", identity.name, identity.model, identity.dim)
}

/// Embeds texts, and checks what comes back.
///
/// # Errors
/// [`Error::Embedding`]: the embedder failed; another number of vectors than texts; a vector of another width
/// than stated, not finite, or all zeros (the stub's own zero rows excepted: a text without a word has one).
pub(crate) fn embed(embedder: &dyn Embedder, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
    let vectors = embedder.embed_batch(texts).map_err(|source| EmbeddingFault::Failed {
        name: embedder.name().to_owned(),
        source: Box::new(source),
    })?;
    if vectors.len() != texts.len() {
        return Err(EmbeddingFault::Count { expected: texts.len(), found: vectors.len() }.into());
    }
    let zeros = embedder.name() == StubEmbedder::NAME;
    for (index, vector) in vectors.iter().enumerate() {
        if vector.len() != embedder.dim() {
            let (expected, found) = (embedder.dim(), vector.len());
            return Err(EmbeddingFault::Width { index, expected, found }.into());
        }
        check_vector(index, vector, zeros)?;
    }
    Ok(vectors)
}

/// A vector that can be stored is finite and not empty, and all zeros only where that is the stub's own.
///
/// # Errors
/// [`Error::Embedding`].
pub(crate) fn check_vector(index: usize, vector: &[f32], zeros: bool) -> Result<()> {
    if vector.is_empty() {
        return Err(EmbeddingFault::Width { index, expected: 1, found: 0 }.into());
    }
    if !vector.iter().all(|x| x.is_finite()) {
        return Err(EmbeddingFault::NotFinite { index }.into());
    }
    if !zeros && vector.iter().all(|x| *x == 0.0) {
        return Err(EmbeddingFault::Zero { index }.into());
    }
    Ok(())
}
