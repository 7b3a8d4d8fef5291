//! The rows of a table: floats, the same as small integers, and what is known of each; in chunks that are shared and
//! not copied.
//!
//! Owns the place of each row, and which places are free. Does not know ids, nor what a row means.
//!
//! Invariants: all rows are as wide as the table says, and each stands whole in one chunk. A clone takes constant time
//! and never sees what is done to the original: a chunk that others share, or that was loaded, is copied before it is
//! changed, and is small. Loading looks at no row. The sketch of a free place says that it is free.

mod part;

use bytes::Bytes;
use imbl::Vector;

use self::part::{Cell, Part};
use super::codes::{self, Sketch};
use crate::codec::delta::EMBEDDING_WIDTH_MAX;
use crate::codec::wire::Malformed;
use crate::error::Result;
use crate::position::{Frame, Last, Place, Position};
use crate::view::saved::{Loader, Saver};

/// The most bytes of the floats of a chunk, unless one row has more: what a change may have to copy.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many bytes of chunks are written as one block.
const BLOCK_BYTES: usize = 1 << 20;
/// A table with more than one free place in so many is moved together before it is saved.
pub(super) const FREE_ONE_IN: usize = 4;

/// Where a row stands: it keeps its place until it is deleted.
pub(super) type RowPlace = u32;

/// A delta's place as cells: segment, offset, both halves of the frame, index.
type DeltaCell = [u32; 5];

/// The rows of a table, of one width.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    width: usize,
    chunks: Vector<Chunk>,
    /// Places given so far, free ones included.
    places: usize,
    free: Vector<RowPlace>,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    floats: Part<f32>,
    codes: Part<i8>,
    sketches: Part<[u32; 4]>,
    deltas: Part<DeltaCell>,
}

/// What a scan reads of the rows of a chunk.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    /// The place of the first.
    pub(super) first: RowPlace,
    /// The integers, row behind row.
    pub(super) codes: &'a [i8],
    /// One sketch a row: see [`Sketch::from_cell`].
    pub(super) sketches: &'a [[u32; 4]],
}

impl Rows {
    /// How many floats a row has, while there are rows.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The floats of the row at a place.
    pub(super) fn floats(&self, place: RowPlace) -> Option<&[f32]> {
        let (chunk, row) = self.locate(place);
        let from = row * self.width;
        self.chunks.get(chunk)?.floats.cells().get(from..from + self.width)
    }

    /// The delta that stored the row at a place; nothing in particular where none did.
    pub(super) fn delta(&self, place: RowPlace) -> Place {
        let (chunk, row) = self.locate(place);
        let cell = self.chunks.get(chunk).and_then(|chunk| chunk.deltas.cells().get(row));
        delta_of(cell.copied().unwrap_or_default())
    }

    /// What [`Rows::insert`] was told of the metadata of the row at a place.
    pub(super) fn fields(&self, place: RowPlace) -> u64 {
        let (chunk, row) = self.locate(place);
        let cell = self.chunks.get(chunk).and_then(|chunk| chunk.sketches.cells().get(row));
        cell.map_or(0, |cell| Sketch::from_cell(*cell).fields)
    }

    /// What a scan reads, chunk by chunk in the order of places, free ones included.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let firsts = (0..).step_by(self.rows_of_chunk());
        self.chunks.iter().zip(firsts).map(|(chunk, first)| Block {
            first,
            codes: chunk.codes.cells(),
            sketches: chunk.sketches.cells(),
        })
    }

    /// Takes a row with the marks of its metadata's fields and its delta, and answers its place. The first one says
    /// how wide all are.
    pub(super) fn insert(&mut self, floats: &[f32], fields: u64, delta: Place) -> RowPlace {
        if self.places == self.free.len() {
            *self = Rows { width: floats.len(), ..Rows::default() };
        }
        if let Some(place) = self.free.pop_back() {
            self.replace(place, floats, fields, delta);
            return place;
        }
        let place = RowPlace::try_from(self.places).unwrap_or(RowPlace::MAX);
        let (chunk, _) = self.locate(place);
        if chunk >= self.chunks.len() {
            self.chunks.push_back(Chunk::default());
        }
        if let Some(chunk) = self.chunks.get_mut(chunk) {
            chunk.push(floats, fields, delta);
        }
        self.places += 1;
        place
    }

    /// Puts another row at a place that has one.
    pub(super) fn replace(&mut self, place: RowPlace, floats: &[f32], fields: u64, delta: Place) {
        let (chunk, row) = self.locate(place);
        if let Some(chunk) = self.chunks.get_mut(chunk) {
            chunk.replace(row, floats, fields, delta);
        }
    }

    /// Lets a place be given to another row.
    pub(super) fn remove(&mut self, place: RowPlace) {
        let (chunk, row) = self.locate(place);
        let sketches = self.chunks.get_mut(chunk).map(|chunk| chunk.sketches.change());
        if let Some(sketch) = sketches.and_then(|sketches| sketches.get_mut(row)) {
            *sketch = Sketch::FREE.to_cell();
        }
        self.free.push_back(place);
    }

    /// True if so many places are free that saving them would be a waste.
    pub(super) fn is_sparse(&self) -> bool {
        self.free.len() > self.places / FREE_ONE_IN
    }

    /// Writes the chunks as blocks, one kind of part behind another.
    pub(super) fn save(&self, saver: &mut Saver<'_>) -> Result<()> {
        saver.say(&(self.width as u64, self.places as u64))?;
        saver.say(&self.free.iter().collect::<Vec<_>>())?;
        saver.blocks(BLOCK_BYTES, self.chunks.iter().map(|chunk| chunk.floats.bytes()))?;
        saver.blocks(BLOCK_BYTES, self.chunks.iter().map(|chunk| chunk.codes.bytes()))?;
        saver.blocks(BLOCK_BYTES, self.chunks.iter().map(|chunk| chunk.sketches.bytes()))?;
        saver.blocks(BLOCK_BYTES, self.chunks.iter().map(|chunk| chunk.deltas.bytes()))
    }

    /// The rows that were saved, as they stand in the blocks.
    pub(super) fn load(loader: &mut Loader<'_>) -> Result<Self, Malformed> {
        let (width, places): (u64, u64) = loader.take("saved rows")?;
        let (width, places) = (small(width), small(places));
        if width > EMBEDDING_WIDTH_MAX {
            return Err(loader.malformed("saved rows", "a width of at most 65,536", width));
        }
        let free: Vec<RowPlace> = loader.take("free places")?;
        if free.len() > places {
            return Err(loader.malformed("free places", places, free.len()));
        }
        let mut rows = Rows { width, places, free: free.into(), chunks: Vector::new() };
        let floats = rows.load_parts(loader, width)?;
        let codes = rows.load_parts(loader, width)?;
        let sketches = rows.load_parts(loader, 1)?;
        let deltas = rows.load_parts(loader, 1)?;
        let parts = floats.into_iter().zip(codes).zip(sketches).zip(deltas);
        rows.chunks = parts
            .map(|(((floats, codes), sketches), deltas)| Chunk { floats, codes, sketches, deltas })
            .collect();
        Ok(rows)
    }

    /// The parts of one kind, with so many cells a row.
    fn load_parts<T: Cell>(&self, loader: &mut Loader<'_>, cells: usize) -> Result<Vec<Part<T>>, Malformed> {
        let row_bytes = cells * size_of::<T>();
        let part_bytes = self.rows_of_chunk() * row_bytes;
        let (mut parts, mut found) = (Vec::new(), 0);
        for block in loader.blocks("saved rows")? {
            found += block.len();
            parts.extend(split(block, part_bytes).map(Part::loaded));
        }
        if Some(found) != self.places.checked_mul(row_bytes) {
            return Err(loader.malformed("saved rows", self.places, found));
        }
        Ok(parts)
    }

    /// The chunk of a place, and which of its rows it is.
    fn locate(&self, place: RowPlace) -> (usize, usize) {
        let (place, rows) = (place as usize, self.rows_of_chunk());
        (place / rows, place % rows)
    }

    fn rows_of_chunk(&self) -> usize {
        (CHUNK_BYTES / size_of::<f32>()).checked_div(self.width).unwrap_or(1).max(1)
    }
}

impl Chunk {
    fn push(&mut self, floats: &[f32], fields: u64, delta: Place) {
        self.floats.change().extend_from_slice(floats);
        let codes = self.codes.change();
        let from = codes.len();
        codes.resize(from + floats.len(), 0);
        let (scale, residual) = codes::encode_row(floats, codes.get_mut(from..).unwrap_or_default());
        self.sketches.change().push(Sketch { scale, residual, fields }.to_cell());
        self.deltas.change().push(cell_of(delta));
    }

    fn replace(&mut self, row: usize, floats: &[f32], fields: u64, delta: Place) {
        let span = row * floats.len()..(row + 1) * floats.len();
        let (old, codes) = (self.floats.change().get_mut(span.clone()), self.codes.change().get_mut(span));
        let (Some(old), Some(codes)) = (old, codes) else { return };
        old.copy_from_slice(floats);
        let (scale, residual) = codes::encode_row(floats, codes);
        if let Some(sketch) = self.sketches.change().get_mut(row) {
            *sketch = Sketch { scale, residual, fields }.to_cell();
        }
        if let Some(cell) = self.deltas.change().get_mut(row) {
            *cell = cell_of(delta);
        }
    }
}

/// The bytes in pieces of so many; the last one may have fewer.
fn split(mut bytes: Bytes, piece: usize) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| bytes.split_to(piece.clamp(1, bytes.len()))))
}

fn cell_of(Place { at, last }: Place) -> DeltaCell {
    let frame = last.frame.0;
    [at.segment, at.offset, frame as u32, (frame >> 32) as u32, last.index]
}

fn delta_of([segment, offset, low, high, index]: DeltaCell) -> Place {
    let frame = Frame(u64::from(high) << 32 | u64::from(low));
    Place { at: Position { segment, offset }, last: Last { frame, index } }
}

fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
