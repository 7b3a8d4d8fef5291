//! Embedding a table anew, as a list of frames: at most one with new vectors for each round, and the switch.
//!
//! The embedders are stubs of several widths, so a row's vector tells which one made it. Law: a table's rows have the
//! vectors of its own embedder, and of their own texts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mnemolog::view::HandleId;
use mnemolog::{EmbedError, Embedder, Error, Json, Result, StubEmbedder, VectorStore, Workspace};

use super::{Held, KEYS};

/// Stands for the store's own embedder, however wide that is.
pub(crate) const OWN: u32 = 0;
/// The widths of the others.
const OTHERS: [u32; 2] = [3, 5];

/// The vectors that were embedded anew so far.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    embedder: u32,
    /// The text of each; none if nobody knows, because only the number was read.
    texts: Option<BTreeMap<String, String>>,
    /// How many; none if nobody knows, because some of unknown texts were erased.
    len: Option<usize>,
}

impl PartialEq for Shadow {
    /// Whether they can be the same.
    fn eq(&self, other: &Shadow) -> bool {
        let known = |shadow: &Shadow| shadow.texts.as_ref().map(|_| shadow.embedder);
        (self.len.is_none() || other.len.is_none() || self.len == other.len)
            && (known(self).is_none()
                || known(other).is_none()
                || (known(self), &self.texts) == (known(other), &other.texts))
    }
}

impl Shadow {
    pub(super) fn of_unknown(len: usize) -> Shadow {
        Shadow { embedder: OWN, texts: None, len: Some(len) }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.texts.is_some()
    }

    /// Whether as much is known of both, so that being equal means being the same.
    pub(crate) fn is_as_known_as(&self, other: &Shadow) -> bool {
        self.is_known() == other.is_known() && self.len.is_some() == other.len.is_some()
    }

    pub(crate) fn is_of(&self, embedder: u32) -> bool {
        self.len > Some(0) && self.embedder == embedder
    }

    pub(super) fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        if let Some(texts) = &mut self.texts {
            texts.retain(|id, _| stays(id));
        }
        self.len = self.texts.as_ref().map(BTreeMap::len);
    }
}

/// Which embedder has so many floats.
fn which(dim: usize) -> u32 {
    OTHERS.into_iter().find(|other| *other as usize == dim).unwrap_or(OWN)
}

/// How many rows of a workspace's table were embedded anew so far; none if that was not begun.
pub(super) fn size_of_shadow(handles: &[(HandleId, usize)], path: &str) -> Option<usize> {
    let name = format!("{path}/rows~reembed");
    handles.iter().find(|(handle, _)| *handle.id == *name).map(|(_, len)| *len)
}

fn stub(dim: usize) -> Arc<dyn Embedder> {
    Arc::new(StubEmbedder::with_dim(dim))
}

/// Embeds and stores a text with the embedder that the table has, otherwise with the store's own.
pub(super) fn upsert(at: &Workspace, id: &str, text: &str) -> Result<()> {
    let rows = at.vectors("rows")?;
    if rows.identity().is_none_or(|identity| which(identity.dim as usize) == OWN) {
        match rows.upsert(id, text, &Json::object()) {
            // The table was switched over, and this process had not seen it; or its rows have no embedder.
            Err(Error::EmbedderMismatch { .. } | Error::Dimension { .. }) => {}
            other => return other,
        }
    }
    // Which embedder the table has is known for sure only where nobody else writes.
    match at.exclusive(|tx| upsert_fitting(&tx.vectors("rows")?, id, text)) {
        Err(Error::InsideExclusive { .. }) => upsert_fitting(&rows, id, text),
        other => other,
    }
}

fn upsert_fitting(rows: &VectorStore, id: &str, text: &str) -> Result<()> {
    let fitting = match rows.identity() {
        Some(identity) => rows.clone().with_embedder(stub(identity.dim as usize)),
        None => rows.clone(),
    };
    match fitting.upsert(id, text, &Json::object()) {
        Err(Error::Dimension { expected, .. }) => {
            rows.clone().with_embedder(stub(expected)).upsert(id, text, &Json::object())
        }
        other => other,
    }
}

/// One of the embedders, and what happens each time that it is asked.
pub(crate) struct Telling<'t> {
    stub: StubEmbedder,
    asked: AtomicUsize,
    each: Mutex<Calls<'t>>,
}

/// What happens when an embedder is asked for the n-th time.
pub(crate) type Calls<'t> = Box<dyn FnMut(usize) -> Result<Ending, EmbedError> + Send + 't>;

/// What an embedder answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Vectors,
    TooFew,
}

impl<'t> Telling<'t> {
    /// One with a number of floats.
    pub(crate) fn new(dim: usize, each: Calls<'t>) -> Telling<'t> {
        Telling { stub: StubEmbedder::with_dim(dim), asked: AtomicUsize::new(0), each: Mutex::new(each) }
    }

    pub(crate) fn which(dim: usize) -> u32 {
        which(dim)
    }
}

impl fmt::Debug for Telling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telling").field("stub", &self.stub).finish_non_exhaustive()
    }
}

impl Embedder for Telling<'_> {
    fn name(&self) -> &str {
        self.stub.name()
    }

    fn model(&self) -> &str {
        self.stub.model()
    }

    fn dim(&self) -> usize {
        self.stub.dim()
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.stub.embed(text)
    }

    fn embed_batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let call = self.asked.fetch_add(1, Ordering::Relaxed);
        let ending = (self.each.lock().expect("one thread"))(call)?;
        let mut vectors = self.stub.embed_batch(texts)?;
        if ending == Ending::TooFew {
            vectors.pop();
        }
        Ok(vectors)
    }
}

/// What embedding anew makes of a table from some moment on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anew {
    /// What the workspace holds after each frame.
    pub(crate) frames: Vec<Held>,
    /// How many texts the embedder is asked for.
    pub(crate) embedded: usize,
}

/// The frames that follow when the rows of `seen` that have no new vector are embedded, then saved to what is there `now`,
/// and then whatever else is missing. `lost`: what was embedded is not saved, since files were replaced meanwhile.
pub(crate) fn anew(seen: &Held, now: &Held, embedder: u32, lost: bool) -> Anew {
    let (mut now, mut anew) = (now.clone(), Anew::default());
    let mut missing = if lost { BTreeMap::new() } else { seen.missing(embedder) };
    loop {
        if !missing.is_empty() {
            anew.embedded += missing.len();
            now.save_anew(embedder, missing);
            anew.frames.push(now.clone());
        }
        missing = now.missing(embedder);
        if missing.is_empty() {
            break;
        }
    }
    (now.embedder, now.loose, now.shadow) = (Some(embedder), None, None);
    anew.frames.push(now);
    anew
}

impl Held {
    /// How wide the table's rows are.
    pub(super) fn width(&self) -> Option<u32> {
        self.embedder.or(self.loose)
    }

    /// Rows without an embedder are as wide as they are, if there are some.
    pub(super) fn loosen(&mut self) {
        self.loose = self.loose.filter(|_| !self.rows.is_empty());
    }

    /// The rows that a shadow does not hold with their texts of now.
    pub(crate) fn missing(&self, embedder: u32) -> BTreeMap<String, String> {
        let shadow = self.shadow.as_ref().filter(|shadow| shadow.embedder == embedder);
        let saved = shadow.and_then(|shadow| shadow.texts.as_ref());
        let is_missing =
            |(id, text): &(&String, &String)| saved.and_then(|saved| saved.get(*id)) != Some(*text);
        self.rows.iter().filter(is_missing).map(|(id, text)| (id.clone(), text.clone())).collect()
    }

    /// Saves new vectors beside the table.
    pub(crate) fn save_anew(&mut self, embedder: u32, rows: BTreeMap<String, String>) {
        let before = self.shadow.take().filter(|shadow| shadow.embedder == embedder);
        let mut texts = before.and_then(|shadow| shadow.texts).unwrap_or_default();
        texts.extend(rows);
        self.shadow = Some(Shadow { embedder, len: Some(texts.len()), texts: Some(texts) });
    }

    /// Makes a row what it was. Answers whether it was something else, and fits.
    pub(super) fn put_row_back(&mut self, then: &Held, id: &str) -> bool {
        let (was, is, width) = (then.rows.get(id), self.rows.get(id), self.width());
        let Some(was) = was else {
            let was_there = self.rows.remove(id).is_some();
            self.loosen();
            return was_there;
        };
        if width.is_some() && width != then.width() || is == Some(was) {
            return false;
        }
        if self.embedder.is_none() {
            self.loose = then.width();
        }
        self.rows.insert(id.to_owned(), was.clone());
        true
    }

    /// Reads the rows, and holds their vectors against their texts.
    pub(super) fn read_rows(&mut self, table: &VectorStore) {
        self.embedder = table.identity().map(|identity| which(identity.dim as usize));
        for row in KEYS.iter().filter_map(|id| table.get(id).expect("readable")) {
            let dim = row.embedding.len();
            let fits =
                StubEmbedder::with_dim(dim).embed(&row.text).is_ok_and(|vector| vector == row.embedding);
            let width = *self.loose.get_or_insert(which(dim));
            let alike = width == which(dim) && self.embedder.is_none_or(|embedder| embedder == width);
            let vector = if fits && alike { "" } else { " (with a vector of something else)" };
            self.rows.insert(row.id, row.text + vector);
        }
        self.loose = self.loose.filter(|_| self.embedder.is_none());
    }
}
