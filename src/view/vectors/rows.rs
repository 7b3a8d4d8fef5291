//! The rows of a table as floats: chunks that are shared and not copied.
//!
//! Owns the place of each row, and which places are free. Does not know ids, nor what a row means.
//!
//! Invariants: all rows are as wide as the table says, and each stands whole in one chunk. A clone takes constant time
//! and never sees what is done to the original: a chunk that others share, or that was loaded, is copied before it is
//! changed, and is small. Loading looks at no float.

use std::sync::Arc;

use bytes::Bytes;
use imbl::Vector;

use crate::codec::delta::EMBEDDING_WIDTH_MAX;
use crate::codec::wire::Malformed;
use crate::error::Result;
use crate::view::saved::{Loader, Saver};

/// The most bytes of a chunk, unless one row has more: what a change may have to copy.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many bytes of chunks are written as one block.
const BLOCK_BYTES: usize = 1 << 20;
/// A table with more than one free place in so many is moved together before it is saved.
pub(super) const FREE_ONE_IN: usize = 4;

/// Where a row stands: it keeps its place until it is deleted.
pub(super) type RowPlace = u32;

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
    /// The floats, once they are this table's own.
    owned: Option<Arc<Vec<f32>>>,
    /// The floats that were loaded, as long as they are not: little-endian, aligned, on a little-endian machine.
    loaded: Bytes,
}

impl Rows {
    /// How many floats a row has, while there are rows.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The row at a place.
    pub(super) fn get(&self, place: RowPlace) -> Option<&[f32]> {
        let (chunk, from) = self.locate(place);
        self.chunks.get(chunk)?.floats().get(from..from + self.width)
    }

    /// Takes a row, and answers its place. The first one says how wide all are.
    pub(super) fn insert(&mut self, row: &[f32]) -> RowPlace {
        if self.places == self.free.len() {
            *self = Rows { width: row.len(), ..Rows::default() };
        }
        if let Some(place) = self.free.pop_back() {
            self.replace(place, row);
            return place;
        }
        let place = RowPlace::try_from(self.places).unwrap_or(RowPlace::MAX);
        let (chunk, _) = self.locate(place);
        if chunk >= self.chunks.len() {
            self.chunks.push_back(Chunk::default());
        }
        if let Some(chunk) = self.chunks.get_mut(chunk) {
            chunk.change().extend_from_slice(row);
        }
        self.places += 1;
        place
    }

    /// Puts another row at a place that has one.
    pub(super) fn replace(&mut self, place: RowPlace, row: &[f32]) {
        let (chunk, from) = self.locate(place);
        let chunk = self.chunks.get_mut(chunk).map(Chunk::change);
        if let Some(old) = chunk.and_then(|floats| floats.get_mut(from..from + row.len())) {
            old.copy_from_slice(row);
        }
    }

    /// Lets a place be given to another row.
    pub(super) fn remove(&mut self, place: RowPlace) {
        self.free.push_back(place);
    }

    /// True if so many places are free that saving them would be a waste.
    pub(super) fn is_sparse(&self) -> bool {
        self.free.len() > self.places / FREE_ONE_IN
    }

    /// Writes the chunks as blocks.
    pub(super) fn save(&self, saver: &mut Saver<'_>) -> Result<()> {
        saver.say(&(self.width as u64, self.places as u64))?;
        saver.say(&self.free.iter().collect::<Vec<_>>())?;
        if cfg!(target_endian = "little") {
            let chunks = self.chunks.iter().map(|chunk| bytemuck::cast_slice(chunk.floats()));
            return saver.blocks(BLOCK_BYTES, chunks);
        }
        let bytes = |chunk: &Chunk| chunk.floats().iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        saver.blocks(BLOCK_BYTES, self.chunks.iter().map(bytes))
    }

    /// The rows that were saved, as they stand in the blocks.
    pub(super) fn load(loader: &mut Loader<'_>) -> Result<Self, Malformed> {
        let (width, places): (u64, u64) = loader.take("saved rows")?;
        let (width, places) = (small(width), small(places));
        if width > EMBEDDING_WIDTH_MAX {
            return Err(loader.malformed("saved rows", "a width of at most 65,536", width));
        }
        let free: Vec<RowPlace> = loader.take("free places")?;
        let mut rows = Rows { width, places, free: free.into(), chunks: Vector::new() };
        let chunk_bytes = rows.rows_of_chunk() * width * size_of::<f32>();
        let mut found = 0;
        for mut block in loader.blocks("saved rows")? {
            while !block.is_empty() {
                let bytes = block.split_to(chunk_bytes.clamp(1, block.len()));
                found += bytes.len();
                rows.chunks.push_back(Chunk::loaded(bytes));
            }
        }
        if Some(found) != places.checked_mul(width * size_of::<f32>()) || rows.free.len() > places {
            return Err(loader.malformed("saved rows", places, found));
        }
        Ok(rows)
    }

    /// The chunk of a place, and where in it the row begins.
    fn locate(&self, place: RowPlace) -> (usize, usize) {
        let (place, rows) = (place as usize, self.rows_of_chunk());
        (place / rows, place % rows * self.width)
    }

    fn rows_of_chunk(&self) -> usize {
        (CHUNK_BYTES / size_of::<f32>()).checked_div(self.width).unwrap_or(1).max(1)
    }
}

impl Chunk {
    /// Bytes that were saved; copied only where the machine cannot read floats in their place.
    fn loaded(bytes: Bytes) -> Chunk {
        let is_aligned = bytemuck::try_cast_slice::<u8, f32>(&bytes).is_ok();
        if cfg!(target_endian = "little") && is_aligned {
            return Chunk { owned: None, loaded: bytes };
        }
        let (quads, _) = bytes.as_chunks();
        let floats = quads.iter().map(|quad| f32::from_le_bytes(*quad)).collect();
        Chunk { owned: Some(Arc::new(floats)), loaded: Bytes::new() }
    }

    fn floats(&self) -> &[f32] {
        match &self.owned {
            Some(floats) => floats,
            None => bytemuck::try_cast_slice(&self.loaded).unwrap_or_default(),
        }
    }

    /// The floats to be changed: copied where they are shared or were loaded.
    fn change(&mut self) -> &mut Vec<f32> {
        let loaded = std::mem::take(&mut self.loaded);
        let copy = || Arc::new(bytemuck::try_cast_slice(&loaded).unwrap_or_default().to_vec());
        Arc::make_mut(self.owned.get_or_insert_with(copy))
    }
}

fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
