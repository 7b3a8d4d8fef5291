//! Vector tables: rows in memory, in the order of their ids; texts and metadata in the log.
//!
//! Owns which rows a table takes, and the exact search. Does not know embedders: who made the rows stands in
//! the table's identity.
//!
//! Invariants: every row is finite and as wide as the table; an id is either a row or gone, never both, and
//! keeps the head of its chain of versions until a snapshot replaces the table. A search gives the same bits
//! on every machine: one order of `f64` operations a row, nothing fused, rounded to `f32` last.

mod codes;
pub mod filter;
mod rows;
mod search;

use std::borrow::Cow;
use std::sync::Arc;

use self::rows::{RowPlace, Rows};
use super::packed::{ByteOrder, Entry, Packed, Record};
use super::saved::{Loader, Saved, Saver};
use super::{Bodies, View, json, read};
use crate::codec::delta::{Config, EMBEDDING_WIDTH_MAX, HandleKind, Identity, Op, Upsert};
use crate::codec::json::Json;
use crate::codec::wire::Malformed;
use crate::error::Result;
use crate::position::{Frame, Last, Place, Position, Time};

/// The state of a vector table.
#[derive(Clone, Debug, Default)]
pub struct VectorView {
    ids: Packed<ByteOrder, Row>,
    /// What the rows of the ids are.
    rows: Rows,
    /// The heads of the chains of ids that are no rows now.
    gone: Packed<ByteOrder, Last>,
    /// The last time that the table was cleared: the head of the chain of its `clear`s, which no snapshot ends.
    cleared: Last,
    identity: Option<Arc<Identity<'static>>>,
}

/// A row in full.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorRow {
    /// Its id, as it was given.
    pub id: String,
    /// What was embedded.
    pub text: String,
    /// What was stored with it.
    pub metadata: Json,
    /// The vector, bit for bit.
    pub embedding: Vec<f32>,
    /// The commit that stored it, or brought it in a snapshot; it stays the same when history before it is dropped.
    pub frame: Frame,
}

/// A row that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its id, as it was given.
    pub id: String,
    /// What was embedded.
    pub text: String,
    /// The cosine of the angle to the query, from -1 to 1; 0 if either is all zeros.
    pub score: f32,
    /// What was stored with it.
    pub metadata: Json,
}

/// What is known of a row without reading its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowHead<'a> {
    /// Its id, as it was given.
    pub id: &'a str,
    /// The vector.
    pub embedding: &'a [f32],
    /// The delta that stored it: the head of its chain.
    pub last: Last,
    /// Where its envelope stands.
    pub at: Position,
}

/// The place of an id's row.
#[derive(Clone, Copy, Debug)]
struct Row(RowPlace);

impl Record for Row {
    type Bytes = [u8; 4];
    const LEN: usize = 4;

    fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Row> {
        Some(Row(u32::from_le_bytes(bytes.try_into().ok()?)))
    }
}

impl VectorRow {
    /// Whether a reader sees the same, bit for bit, frames aside.
    pub fn says_the_same(&self, other: &VectorRow) -> bool {
        let bits = |row: &VectorRow| row.embedding.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        (&self.id, &self.text, &self.metadata) == (&other.id, &other.text, &other.metadata)
            && bits(self) == bits(other)
    }

    /// The change that saves it.
    pub fn delta(&self) -> Upsert<'_> {
        let embedding = Cow::Borrowed(self.embedding.as_slice());
        Upsert { id: &self.id, text: &self.text, metadata: self.metadata.as_str(), embedding }
    }
}

impl VectorView {
    /// The row with this id, if there is one.
    ///
    /// # Errors
    /// Its text and metadata cannot be read.
    pub fn get(&self, id: &str, bodies: &dyn Bodies) -> Result<Option<VectorRow>> {
        self.head(id).map(|head| head.read(bodies)).transpose()
    }

    /// What is known of the row with this id without reading its text.
    pub fn head(&self, id: &str) -> Option<RowHead<'_>> {
        self.row_head(self.ids.get(id)?)
    }

    /// What is known of every row without reading a text, in the order of ids as bytes.
    pub fn heads(&self) -> impl DoubleEndedIterator<Item = RowHead<'_>> {
        self.ids.iter().filter_map(|entry| self.row_head(entry))
    }

    /// Which embedder made the rows, where that was configured.
    pub fn identity(&self) -> Option<&Identity<'static>> {
        self.identity.as_deref()
    }

    /// How many floats a row has: the identity's, otherwise the rows' own; none while nothing says it.
    pub fn dim(&self) -> Option<usize> {
        match &self.identity {
            Some(identity) => usize::try_from(identity.dim).ok(),
            None => self.row_width(),
        }
    }

    /// The head of an id's chain of versions, also after it was deleted or the table cleared;
    /// [`Last::default`] without one.
    pub fn last(&self, id: &str) -> Last {
        let row = self.ids.get(id).map(|entry| self.rows.delta(entry.record.0));
        row.map(|delta| delta.last).or_else(|| Some(self.gone.get(id)?.record)).unwrap_or_default()
    }

    /// The last `clear` of the table; [`Last::default`] if it was never cleared. Each names the one before it.
    pub fn cleared(&self) -> Last {
        self.cleared
    }

    /// Takes a row that is finite, not empty and as wide as the table.
    fn upsert(&mut self, place: Place, upsert: &Upsert<'_>) {
        let embedding = &*upsert.embedding;
        let fits = self.dim().is_none_or(|dim| dim == embedding.len());
        if embedding.is_empty() || !fits || !embedding.iter().all(|x| x.is_finite()) {
            return;
        }
        self.gone.remove(upsert.id);
        let fields = filter::marks(upsert.metadata);
        match self.ids.get(upsert.id) {
            Some(Entry { record: Row(row), .. }) => self.rows.replace(row, embedding, fields, place),
            None => {
                let row = self.rows.insert(embedding, fields, place);
                self.ids.insert(upsert.id, Row(row), "");
            }
        }
    }

    fn delete(&mut self, place: Place, id: &str) {
        if let Some(row) = self.ids.remove(id) {
            self.rows.remove(row.0);
        }
        self.gone.insert(id, place.last, "");
    }

    fn clear(&mut self, place: Place) {
        self.cleared = place.last;
        for Entry { key, record, .. } in self.ids.iter() {
            self.gone.insert(key, self.rows.delta(record.0).last, "");
        }
        (self.ids, self.rows) = (Packed::default(), Rows::default());
    }

    /// How many floats the rows have, if there are any.
    fn row_width(&self) -> Option<usize> {
        (!self.ids.is_empty()).then(|| self.rows.width())
    }

    fn row_head<'a>(&'a self, entry: Entry<'a, Row>) -> Option<RowHead<'a>> {
        let Entry { key: id, record: Row(row), .. } = entry;
        let Place { at, last } = self.rows.delta(row);
        Some(RowHead { id, embedding: self.rows.floats(row)?, last, at })
    }

    /// Reads what a place's row was stored with.
    fn read_at<R>(
        &self,
        row: RowPlace,
        bodies: &dyn Bodies,
        take: impl FnOnce(&Upsert<'_>) -> Result<R, Malformed>,
    ) -> Result<R> {
        let Place { at, last } = self.rows.delta(row);
        let is_row = |id: &str| self.ids.get(id).is_some_and(|entry| entry.record.0 == row);
        read(bodies, (at, last.frame), "this row", |op| match op {
            Op::Upsert(upsert) if is_row(upsert.id) => take(upsert).map(Some),
            _ => Ok(None),
        })
    }

    /// The same table, its rows in the order of their ids without a free place between them.
    fn dense(&self) -> VectorView {
        let mut dense = VectorView { ids: Packed::default(), rows: Rows::default(), ..self.clone() };
        for Entry { key, record: Row(row), .. } in self.ids.iter() {
            let delta = self.rows.delta(row);
            let floats = self.rows.floats(row).unwrap_or_default();
            let row = dense.rows.insert(floats, self.rows.fields(row), delta);
            dense.ids.insert(key, Row(row), "");
        }
        dense
    }

    /// An identity whose width no row can have, or other rows than the table's, changes nothing.
    fn configure(&mut self, config: &Config<'_>) {
        let Config::Vector(identity) = config else { return };
        let Some(identity) = identity else {
            self.identity = None;
            return;
        };
        let dim = usize::try_from(identity.dim).unwrap_or(usize::MAX);
        let fits = self.row_width().is_none_or(|width| width == dim);
        if fits && (1..=EMBEDDING_WIDTH_MAX).contains(&dim) {
            self.identity = Some(Arc::new(identity.clone().into_owned()));
        }
    }
}

impl View for VectorView {
    fn apply(&mut self, place: Place, _: Time, op: &Op<'_>) {
        match op {
            Op::Upsert(upsert) => self.upsert(place, upsert),
            Op::Delete { id } => self.delete(place, id),
            Op::Clear(HandleKind::Vector) => self.clear(place),
            Op::Configure(config) => self.configure(config),
            Op::Snapshot { config: config @ Config::Vector(_), continues, .. } => {
                if !continues {
                    *self = VectorView { cleared: self.cleared, ..VectorView::default() };
                }
                self.configure(config);
            }
            _ => {}
        }
    }

    fn snapshot_head(&self) -> (Config<'static>, usize) {
        (Config::Vector(self.identity.as_deref().cloned()), self.ids.len())
    }

    fn items(&self, bodies: &dyn Bodies, item: &mut dyn FnMut(Last, &Op<'_>) -> Result<()>) -> Result<()> {
        self.heads()
            .try_for_each(|row| row.with(bodies, |upsert| Ok(item(row.last, &Op::Upsert(upsert.clone()))))?)
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn is_unused(&self) -> bool {
        self.ids.is_empty() && self.identity.is_none()
    }
}

impl Saved for VectorView {
    fn save(&self, saver: &mut Saver<'_>) -> Result<()> {
        if self.rows.is_sparse() {
            return self.dense().save(saver);
        }
        saver.say(&(self.identity.as_deref(), self.cleared.frame.0, self.cleared.index))?;
        self.ids.save(saver)?;
        self.rows.save(saver)?;
        self.gone.save(saver)
    }

    fn load(loader: &mut Loader<'_>) -> Result<Self, Malformed> {
        let (identity, frame, index): (Option<Identity<'_>>, u64, u32) = loader.take("embedder")?;
        let identity = identity.map(|identity| Arc::new(identity.into_owned()));
        let cleared = Last { frame: Frame(frame), index };
        let (ids, rows) = (Packed::load(loader)?, Rows::load(loader)?);
        Ok(VectorView { ids, rows, gone: Packed::load(loader)?, cleared, identity })
    }
}

impl RowHead<'_> {
    /// The row, with its text.
    ///
    /// # Errors
    /// Its text and metadata cannot be read.
    pub(crate) fn read(&self, bodies: &dyn Bodies) -> Result<VectorRow> {
        self.with(bodies, |upsert| {
            Ok(VectorRow {
                id: upsert.id.to_owned(),
                text: upsert.text.to_owned(),
                metadata: json("metadata", u64::from(self.at.offset), upsert.metadata)?,
                embedding: self.embedding.to_vec(),
                frame: self.last.frame,
            })
        })
    }

    fn with<R>(
        &self,
        bodies: &dyn Bodies,
        take: impl FnOnce(&Upsert<'_>) -> Result<R, Malformed>,
    ) -> Result<R> {
        read(bodies, (self.at, self.last.frame), "this row", |op| match op {
            Op::Upsert(upsert) if upsert.id == self.id => take(upsert).map(Some),
            _ => Ok(None),
        })
    }
}
