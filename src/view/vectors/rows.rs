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
use crate::disk::together;
use crate::error::Result;
use crate::position::{Frame, Last, Place, Position};
use crate::view::saved::{Loader, Saver};

/// The most bytes of a chunk of floats, unless one row has more: what a change may have to copy.
const FLOATS_BYTES: usize = 64 * 1024;
/// The most bytes of a chunk of codes: what a change beside a search may have to copy.
const CODES_BYTES: usize = 64 * 1024;
/// So many chunks of codes are moved together once they are full: where rows are wide they nearly fill a large page.
/// Pieces that stand all over the heap are slow to scan where memory is mapped page by page: on a virtual machine each
/// took about 4 µs to begin.
const CHUNKS_TOGETHER: usize = 32;
/// How many bytes of chunks are written as one block.
const BLOCK_BYTES: usize = 1 << 20;
/// A table with more than one free place in so many is moved together before it is saved.
pub(super) const FREE_ONE_IN: usize = 4;

/// Where a row stands: it keeps its place until it is deleted.
pub(super) type RowPlace = u32;

/// A delta's place as cells: segment, offset, both halves of the frame, index.
type DeltaCell = [u32; 5];

/// See [`Sketch::to_cell`].
type SketchCell = [u32; 4];

/// The rows of a table, of one width.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    width: usize,
    floats: Vector<FloatsChunk>,
    codes: Vector<CodesChunk>,
    /// Places given so far, free ones included.
    places: usize,
    free: Vector<RowPlace>,
}

/// What is read of the rows that are found.
#[derive(Clone, Debug, Default)]
struct FloatsChunk {
    floats: Part<f32>,
    deltas: Part<DeltaCell>,
}

/// What a scan reads.
#[derive(Clone, Debug, Default)]
struct CodesChunk {
    codes: Part<i8>,
    sketches: Part<SketchCell>,
}

/// What a scan reads of the rows of a chunk.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    /// The place of the first.
    pub(super) first: RowPlace,
    /// The integers, row behind row.
    pub(super) codes: &'a [i8],
    /// One sketch a row: see [`Sketch::from_cell`].
    pub(super) sketches: &'a [SketchCell],
}

impl Rows {
    /// How many floats a row has, while there are rows.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The floats of the row at a place.
    pub(super) fn floats(&self, place: RowPlace) -> Option<&[f32]> {
        let (chunk, row) = self.locate_floats(place);
        let from = row * self.width;
        self.floats.get(chunk)?.floats.cells().get(from..from + self.width)
    }

    /// The delta that stored the row at a place; nothing in particular where none did.
    pub(super) fn delta(&self, place: RowPlace) -> Place {
        let (chunk, row) = self.locate_floats(place);
        let cell = self.floats.get(chunk).and_then(|chunk| chunk.deltas.cells().get(row));
        delta_of(cell.copied().unwrap_or_default())
    }

    /// What [`Rows::insert`] was told of the metadata of the row at a place.
    pub(super) fn fields(&self, place: RowPlace) -> u64 {
        let (chunk, row) = self.locate_codes(place);
        let cell = self.codes.get(chunk).and_then(|chunk| chunk.sketches.cells().get(row));
        cell.map_or(0, |cell| Sketch::from_cell(*cell).fields)
    }

    /// True if no place is free.
    pub(super) fn are_all_taken(&self) -> bool {
        self.free.is_empty()
    }

    /// What a scan reads, chunk by chunk in the order of places, free ones included.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let firsts = (0..).step_by(self.rows_of_codes());
        self.codes.iter().zip(firsts).map(|(chunk, first)| Block {
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
        let most = self.rows_of_floats();
        let (chunk, _) = self.locate_floats(place);
        if let Some(chunk) = at_or_next(&mut self.floats, chunk) {
            chunk.floats.extend(most * floats.len(), floats.iter().copied());
            chunk.deltas.extend(most, std::iter::once(cell_of(delta)));
        }
        let (most, (chunk, row)) = (self.rows_of_codes(), self.locate_codes(place));
        if let Some(chunk) = at_or_next(&mut self.codes, chunk) {
            chunk.codes.extend(most * floats.len(), std::iter::repeat_n(0, floats.len()));
            chunk.sketches.extend(most, std::iter::once(Sketch::FREE.to_cell()));
            chunk.encode(row, floats, fields);
        }
        if row + 1 == most && (chunk + 1).is_multiple_of(CHUNKS_TOGETHER) {
            self.move_together(chunk + 1 - CHUNKS_TOGETHER);
        }
        self.places += 1;
        place
    }

    /// Moves the codes of chunks, from the `first` on, into one piece of memory, and the sketches into another.
    fn move_together(&mut self, first: usize) {
        let chunks = first..first + CHUNKS_TOGETHER;
        let of = |chunk| self.codes.get(chunk);
        let mut codes = gather(chunks.clone().filter_map(of).map(|chunk| &chunk.codes));
        let mut sketches = gather(chunks.clone().filter_map(of).map(|chunk| &chunk.sketches));
        for chunk in chunks {
            if let Some(chunk) = self.codes.get_mut(chunk) {
                chunk.codes = Part::loaded(take_front(&mut codes, chunk.codes.bytes().len()));
                chunk.sketches = Part::loaded(take_front(&mut sketches, chunk.sketches.bytes().len()));
            }
        }
    }

    /// Puts another row at a place that has one, or had one.
    pub(super) fn replace(&mut self, place: RowPlace, floats: &[f32], fields: u64, delta: Place) {
        let (chunk, row) = self.locate_floats(place);
        if let Some(chunk) = self.floats.get_mut(chunk) {
            let from = row * floats.len();
            if let Some(old) = chunk.floats.change().get_mut(from..from + floats.len()) {
                old.copy_from_slice(floats);
            }
            if let Some(cell) = chunk.deltas.change().get_mut(row) {
                *cell = cell_of(delta);
            }
        }
        let (chunk, row) = self.locate_codes(place);
        if let Some(chunk) = self.codes.get_mut(chunk) {
            chunk.encode(row, floats, fields);
        }
    }

    /// Lets a place be given to another row.
    pub(super) fn remove(&mut self, place: RowPlace) {
        let (chunk, row) = self.locate_codes(place);
        let sketches = self.codes.get_mut(chunk).map(|chunk| chunk.sketches.change());
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
        saver.blocks(BLOCK_BYTES, self.floats.iter().map(|chunk| chunk.floats.bytes()))?;
        saver.blocks(BLOCK_BYTES, self.floats.iter().map(|chunk| chunk.deltas.bytes()))?;
        saver.blocks(BLOCK_BYTES, self.codes.iter().map(|chunk| chunk.codes.bytes()))?;
        saver.blocks(BLOCK_BYTES, self.codes.iter().map(|chunk| chunk.sketches.bytes()))
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
        let mut rows = Rows { width, places, free: free.into(), ..Rows::default() };
        let (of_floats, of_codes) = (rows.rows_of_floats(), rows.rows_of_codes());
        let floats = load_parts(loader, places, of_floats, width)?;
        let deltas = load_parts(loader, places, of_floats, 1)?;
        let codes = load_parts(loader, places, of_codes, width)?;
        let sketches = load_parts(loader, places, of_codes, 1)?;
        let floats = floats.into_iter().zip(deltas);
        rows.floats = floats.map(|(floats, deltas)| FloatsChunk { floats, deltas }).collect();
        let codes = codes.into_iter().zip(sketches);
        rows.codes = codes.map(|(codes, sketches)| CodesChunk { codes, sketches }).collect();
        Ok(rows)
    }

    /// The chunk of floats of a place, and which of its rows it is.
    fn locate_floats(&self, place: RowPlace) -> (usize, usize) {
        (place as usize / self.rows_of_floats(), place as usize % self.rows_of_floats())
    }

    /// The chunk of codes of a place, and which of its rows it is.
    fn locate_codes(&self, place: RowPlace) -> (usize, usize) {
        (place as usize / self.rows_of_codes(), place as usize % self.rows_of_codes())
    }

    fn rows_of_floats(&self) -> usize {
        (FLOATS_BYTES / (size_of::<f32>() * self.width + size_of::<DeltaCell>())).max(1)
    }

    fn rows_of_codes(&self) -> usize {
        (CODES_BYTES / (self.width + size_of::<SketchCell>())).max(1)
    }
}

impl CodesChunk {
    /// Puts the integers and the sketch of floats over those of a row.
    fn encode(&mut self, row: usize, floats: &[f32], fields: u64) {
        let from = row * floats.len();
        let (codes, sketches) = (self.codes.change(), self.sketches.change());
        if let (Some(codes), Some(cell)) = (codes.get_mut(from..from + floats.len()), sketches.get_mut(row)) {
            let (scale, residual) = codes::encode_row(floats, codes);
            *cell = Sketch { scale, residual, fields }.to_cell();
        }
    }
}

/// The bytes of some parts in one piece of memory.
fn gather<'p, T: Cell>(parts: impl Iterator<Item = &'p Part<T>>) -> Bytes {
    let parts: Vec<_> = parts.map(Part::bytes).collect();
    together(parts.iter().map(AsRef::as_ref))
}

fn take_front(bytes: &mut Bytes, len: usize) -> Bytes {
    bytes.split_to(len.min(bytes.len()))
}

/// The chunk with this number, which is there or is the next.
fn at_or_next<C: Clone + Default>(chunks: &mut Vector<C>, chunk: usize) -> Option<&mut C> {
    if chunk >= chunks.len() {
        chunks.push_back(C::default());
    }
    chunks.get_mut(chunk)
}

/// The parts of one kind, of so many rows each, with so many cells a row.
fn load_parts<T: Cell>(
    loader: &mut Loader<'_>,
    places: usize,
    rows: usize,
    cells: usize,
) -> Result<Vec<Part<T>>, Malformed> {
    let row_bytes = cells * size_of::<T>();
    let (mut parts, mut found) = (Vec::new(), 0);
    for block in loader.blocks("saved rows")? {
        found += block.len();
        parts.extend(split(block, rows * row_bytes).map(Part::loaded));
    }
    match places.checked_mul(row_bytes) {
        Some(expected) if expected == found => Ok(parts),
        _ => Err(loader.malformed("saved rows", places, found)),
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
