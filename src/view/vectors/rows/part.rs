//! A run of cells: its own, or a piece of shared bytes.
//!
//! Owns how cells stand in saved bytes: little-endian, one behind another. Does not know what they mean.
//!
//! Invariant: loading looks at no cell where the machine can read it in its place.

use std::borrow::Cow;
use std::sync::Arc;

use bytemuck::Pod;
use bytes::Bytes;

/// What a run is made of: numbers without padding.
pub(super) trait Cell: Pod {
    /// Bytes of each of its numbers.
    const NUMBER_BYTES: usize;
}

impl Cell for f32 {
    const NUMBER_BYTES: usize = 4;
}

impl Cell for i8 {
    const NUMBER_BYTES: usize = 1;
}

impl<const N: usize> Cell for [u32; N]
where
    [u32; N]: Pod,
{
    const NUMBER_BYTES: usize = 4;
}

/// A run of cells. A clone takes constant time and never sees what is done to the original.
#[derive(Clone, Debug)]
pub(super) struct Part<T> {
    /// The cells, once they are this table's own.
    owned: Option<Arc<Vec<T>>>,
    /// The cells that were loaded, as long as they are not: little-endian, aligned, on a little-endian machine.
    loaded: Bytes,
}

impl<T: Cell> Part<T> {
    /// Bytes that were saved; copied only where the machine cannot read cells in their place.
    pub(super) fn loaded(bytes: Bytes) -> Part<T> {
        let is_aligned = bytemuck::try_cast_slice::<u8, T>(&bytes).is_ok();
        if cfg!(target_endian = "little") && is_aligned {
            return Part { owned: None, loaded: bytes };
        }
        let mut cells = vec![T::zeroed(); bytes.len() / size_of::<T>().max(1)];
        let copy: &mut [u8] = bytemuck::cast_slice_mut(&mut cells);
        copy.iter_mut().zip(bytes.iter()).for_each(|(to, from)| *to = *from);
        swap::<T>(copy);
        Part { owned: Some(Arc::new(cells)), loaded: Bytes::new() }
    }

    /// The bytes as they are saved.
    pub(super) fn bytes(&self) -> Cow<'_, [u8]> {
        let bytes: &[u8] = bytemuck::cast_slice(self.cells());
        if cfg!(target_endian = "little") {
            return Cow::Borrowed(bytes);
        }
        let mut bytes = bytes.to_vec();
        swap::<T>(&mut bytes);
        Cow::Owned(bytes)
    }

    /// The cells.
    pub(super) fn cells(&self) -> &[T] {
        match &self.owned {
            Some(cells) => cells,
            None => bytemuck::try_cast_slice(&self.loaded).unwrap_or_default(),
        }
    }

    /// Appends a run, in room that grows by doubling up to that of `most` cells.
    pub(super) fn extend(&mut self, most: usize, cells: impl ExactSizeIterator<Item = T>) {
        let own = self.change();
        let needed = own.len() + cells.len();
        if needed > own.capacity() {
            own.reserve_exact(needed.next_power_of_two().min(most.max(needed)) - own.len());
        }
        own.extend(cells);
    }

    /// The cells to be changed: copied where they are shared or were loaded.
    pub(super) fn change(&mut self) -> &mut Vec<T> {
        let loaded = std::mem::take(&mut self.loaded);
        let copy = || Arc::new(bytemuck::try_cast_slice(&loaded).unwrap_or_default().to_vec());
        Arc::make_mut(self.owned.get_or_insert_with(copy))
    }
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Part { owned: None, loaded: Bytes::new() }
    }
}

/// Turns numbers of the machine into little-endian ones, or back.
fn swap<T: Cell>(bytes: &mut [u8]) {
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(T::NUMBER_BYTES).for_each(<[u8]>::reverse);
    }
}
