//! Holds frames against what the store would answer, by folding their vector changes ahead of time.
//!
//! Owns no rule: limits come from the store, what a table takes from its handle and its view. Only tables refuse
//! an operation for what they hold; every other handle takes whatever is within the limits.

use super::{Draft, Loaded};
use crate::codec::delta::{Config, EMBEDDING_WIDTH_MAX, HandleKind, Identity, Op};
use crate::codec::frame::{FRAME_DELTAS_MAX, PAYLOAD_MAX};
use crate::codec::payload;
use crate::embed::StubEmbedder;
use crate::error::{Error, Result};
use crate::handle::vectors::{check_vector, describe, identity};
use crate::interchange::line::{Args, RowArgs};
use crate::position::{Frame, Last, Place, Position};
use crate::store::{Change, Inner};
use crate::view::{State, VectorView};

/// Checks frames in order, each on what those before it leave. Answers the frame of the store it began at.
pub(super) fn check(inner: &Inner, drafts: &mut [Draft]) -> Frame {
    let state = inner.state();
    let begin = state.frame();
    let embedder = &*inner.options().embedder;
    // One float too many is enough for the limit to be seen.
    let placeholder = vec![0.0; embedder.dim().min(EMBEDDING_WIDTH_MAX + 1)];
    let mut check = Check { inner, state, store: identity(embedder), placeholder, scratch: Vec::new() };
    let mut empty = begin == Frame::ZERO;
    for draft in drafts {
        let before = check.state.clone();
        check.draft(draft, empty);
        if draft.refused.is_empty() {
            empty = false;
        } else {
            check.state = before;
        }
    }
    begin
}

struct Check<'s> {
    inner: &'s Inner,
    /// The tables of the store as the frames before leave them.
    state: State,
    /// The store's embedder.
    store: Identity<'static>,
    /// Stands for embeddings that are not computed yet.
    placeholder: Vec<f32>,
    scratch: Vec<u8>,
}

impl Check<'_> {
    fn draft(&mut self, draft: &mut Draft, empty: bool) {
        // A base is of as many frames as it needs.
        let is_one_frame = !empty || draft.begins_at().is_none();
        let (mut bytes, mut deltas) = (draft.origin.as_ref().map_or(0, origin_bytes), 0);
        let mut refused = None;
        for loaded in &mut draft.lines {
            let checked = self.inner.check_origin(draft.origin.as_ref());
            match checked.and_then(|()| self.line(loaded)) {
                Ok((line_bytes, line_deltas)) => (bytes, deltas) = (bytes + line_bytes, deltas + line_deltas),
                Err(reason) => refused = Some((loaded.number, reason)),
            }
            if is_one_frame {
                refused = refused.or_else(|| Some((loaded.number, within(bytes, deltas).err()?)));
            }
            if refused.is_some() {
                break;
            }
        }
        draft.bytes = bytes;
        if let Some((line, reason)) = refused {
            draft.refuse(line, reason.into());
        }
    }

    /// Checks one line and folds it. Answers its size in a frame, and how many deltas it is.
    fn line(&mut self, loaded: &mut Loaded) -> Result<(u64, u64)> {
        let id = loaded.line.id.clone();
        if loaded.line.kind == HandleKind::Vector {
            let table = Table { id: &id, view: self.state.vectors(&id), store: &self.store };
            loaded.identify = table.check(&loaded.line.args)?;
        }
        let mut bytes = 0;
        let mut item = false;
        for change in loaded.changes(&self.store, &self.placeholder) {
            bytes += self.inner.check_change(&change, item, &mut self.scratch)?;
            fold(&mut self.state, &change);
            item |= matches!(change.op, Op::Snapshot { .. });
        }
        Ok((bytes, 1 + u64::from(loaded.identify)))
    }
}

/// Only tables matter: nothing else can refuse a line for what it holds.
fn fold(state: &mut State, Change { id, op }: &Change<'_>) {
    if op.kind() == HandleKind::Vector {
        let at = Position { segment: Position::PENDING, offset: 0 };
        state.apply(Place { last: Last::default(), at }, state.time(), id, op);
    }
}

/// What a frame can hold.
fn within(bytes: u64, deltas: u64) -> Result<()> {
    let too_large = |what, limit: usize, found| Error::TooLarge { what, limit: limit as u64, found };
    if bytes > PAYLOAD_MAX as u64 {
        return Err(too_large("the commit in bytes", PAYLOAD_MAX, bytes));
    }
    if deltas > FRAME_DELTAS_MAX as u64 {
        return Err(too_large("the number of changes in one commit", FRAME_DELTAS_MAX, deltas));
    }
    Ok(())
}

/// A table before a line, and the store's embedder.
struct Table<'t> {
    id: &'t str,
    view: Option<&'t VectorView>,
    store: &'t Identity<'static>,
}

impl Table<'_> {
    /// Answers whether the store's embedder becomes the table's with this operation.
    fn check(&self, args: &Args<'_>) -> Result<bool> {
        match args {
            Args::Upsert(row) => self.row(row),
            Args::Configure(Config::Vector(Some(identity))) => {
                dim(identity)?;
                let rows = self.view.and_then(|view| view.heads().next()).map(|row| row.embedding.len());
                self.width(rows, identity.dim as usize).map(|()| false)
            }
            Args::Snapshot { config: Config::Vector(identity), items } => {
                self.snapshot(identity.as_ref(), items).map(|()| false)
            }
            _ => Ok(false),
        }
    }

    fn row(&self, row: &RowArgs<'_>) -> Result<bool> {
        let identity = self.view.and_then(VectorView::identity);
        let width = self.view.and_then(VectorView::dim);
        match (&row.embedding, identity) {
            (Some(embedding), _) => {
                check_vector(0, embedding, identity.is_some_and(|id| id.name == StubEmbedder::NAME))?;
                self.width(width, embedding.len()).map(|()| false)
            }
            (None, None) => self.width(width, self.store.dim as usize).map(|()| true),
            (None, Some(identity)) => self.same(identity).map(|()| false),
        }
    }

    /// Rows of a snapshot are as wide as its configuration says, or all alike; as from `restore_bytes`, the
    /// zeros of a stub are no error.
    fn snapshot(&self, identity: Option<&Identity<'_>>, items: &[Args<'_>]) -> Result<()> {
        identity.map_or(Ok(()), dim)?;
        let mut width = identity.map(|identity| identity.dim as usize);
        for (index, item) in items.iter().enumerate() {
            let Args::Upsert(row) = item else { continue };
            match (&row.embedding, identity) {
                (Some(embedding), _) => {
                    check_vector(index, embedding, true)?;
                    self.width(width, embedding.len())?;
                    width = Some(embedding.len());
                }
                (None, Some(identity)) => self.same(identity)?,
                (None, None) => return Err(self.other("no embedder".to_owned())),
            }
        }
        Ok(())
    }

    fn same(&self, identity: &Identity<'_>) -> Result<()> {
        if identity == self.store { Ok(()) } else { Err(self.other(describe(identity))) }
    }

    fn other(&self, stored: String) -> Error {
        Error::EmbedderMismatch { table: self.id.to_owned(), stored, given: describe(self.store) }
    }

    fn width(&self, expected: Option<usize>, found: usize) -> Result<()> {
        match expected {
            Some(expected) if expected != found => {
                Err(Error::Dimension { table: self.id.to_owned(), expected, found })
            }
            _ => Ok(()),
        }
    }
}

/// An embedder's width is one that a row can have.
fn dim(identity: &Identity<'_>) -> Result<()> {
    if (1..=EMBEDDING_WIDTH_MAX).contains(&(identity.dim as usize)) {
        return Ok(());
    }
    let (what, found) = ("the embedder's width", identity.dim.to_string());
    Err(Error::Invalid { what, found, expected: "1 to 65,536 floats" })
}

/// An origin's size in a frame: an envelope around its body.
fn origin_bytes(origin: &crate::codec::delta::Origin) -> u64 {
    (payload::origin_bytes(origin) + crate::codec::delta::ENVELOPE_HEADER_BYTES) as u64
}
