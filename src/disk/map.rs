//! A file mapped read-only: the only `unsafe` of the crate.
//!
//! A map reserves address space for as much as the file may become, and hands out slices of the part that was
//! published only. It owns the published length, which only rises and never passes the end of the file; it does
//! not know what the bytes mean, nor who makes the file grow. How memory is asked for stands here as well: early, and in
//! large pages.
//!
//! Invariants, on which every `unsafe` block here rests:
//! 1. `published` is at most the capacity of the map, and at most the length that the file had at some time.
//! 2. No file that may be mapped is ever truncated or reused (the layers above only append to such a file, and
//!    replace it by renaming another over it), so what was inside the file stays inside.
//! 3. Bytes below the published length are written before they are published, and never change afterwards.
//!
//! Against a device that fails, or another program that truncates or rewrites the file, no mapped database is
//! safe: the process is killed, or reads other bytes. Who fears that reads by position instead.
#![expect(unsafe_code, reason = "handing out slices of a map needs it; this file holds the proof")]

use std::fmt;
use std::hint::black_box;
use std::io;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use memmap2::{MmapAsRawDesc, MmapOptions, MmapRaw};

type Length = Box<dyn Fn() -> io::Result<u64> + Send + Sync>;

/// Bytes of a line of memory.
const LINE_BYTES: usize = 64;

/// A read-only map of a file, of which the published part can be read.
pub struct Map {
    bytes: MmapRaw,
    published: AtomicU64,
    /// A length that the file is known to have reached: it is asked again only when that does not suffice.
    reached: AtomicU64,
    length: Length,
}

impl Map {
    /// Maps the first `capacity` bytes of a file, or fewer where the system maps only what the file has.
    /// `length` answers the file's length now.
    pub(super) fn new(file: impl MmapAsRawDesc, capacity: u64, length: Length) -> io::Result<Option<Self>> {
        let reached = length()?;
        // Only Unix maps beyond the end of a file.
        let capacity = if cfg!(unix) { capacity } else { capacity.min(reached) };
        let Ok(len) = usize::try_from(capacity) else { return Ok(None) };
        if len == 0 {
            return Ok(None);
        }
        let bytes = MmapOptions::new().len(len).map_raw_read_only(file)?;
        Ok(Some(Self { bytes, published: AtomicU64::new(0), reached: AtomicU64::new(reached), length }))
    }

    /// The number of bytes that can ever be published.
    pub fn capacity(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Publishes the bytes below `len`, which have been written and will not change any more.
    ///
    /// The published length only rises; what lies beyond the capacity, or beyond the end of the file, is not
    /// published.
    pub fn publish(&self, len: u64) {
        let len = len.min(self.capacity());
        if len <= self.published() {
            return;
        }
        if len > self.reached.load(Ordering::Relaxed) {
            match (self.length)() {
                Ok(length) => self.reached.fetch_max(length, Ordering::Relaxed),
                Err(error) => {
                    tracing::warn!(%error, "the length of a mapped file is unknown; it is read no further");
                    return;
                }
            };
        }
        let len = len.min(self.reached.load(Ordering::Relaxed));
        // Release: who sees this length with Acquire also sees what was written before.
        self.published.fetch_max(len, Ordering::Release);
    }

    /// The number of bytes that can be read.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// `len` bytes from `offset`, or none if they are not all published.
    pub fn slice(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let end = offset.checked_add(len)?;
        if end > self.published() {
            return None;
        }
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        // SAFETY: `offset + len` is at most the published length, hence inside the map and, by invariants 1 and
        // 2, inside the file, so the address is readable; by invariant 3 the bytes were written before the
        // Release store that our Acquire load saw, and do not change while the slice lives; the slice borrows
        // `self`, so the map outlives it. `MmapRaw` never forms a reference to the unpublished rest itself.
        Some(unsafe { slice::from_raw_parts(self.bytes.as_ptr().add(offset), len) })
    }
}

/// Asks memory for all lines of some bytes at once. Whoever goes through them, or looks here and there, would ask for
/// one when the one before has come.
pub(crate) fn ask_for(bytes: &[u8]) {
    black_box(bytes.iter().step_by(LINE_BYTES).fold(0, |all, byte| all ^ byte));
}

/// Bytes of a large page, on the processors where a system that has them gives them away by itself.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// The bytes of some parts, one behind another, in memory that is found by one large page, or by few, as far as the
/// system has them; by ordinary ones where they would not nearly fill it. Memory that is gone through from end to end is
/// found faster so.
pub(crate) fn together<'b>(parts: impl Iterator<Item = &'b [u8]> + Clone) -> Bytes {
    let len = parts.clone().map(<[u8]>::len).sum::<usize>();
    let large = len.next_multiple_of(LARGE_PAGE_BYTES);
    let map = if len < large / 4 * 3 { None } else { MmapOptions::new().len(large).map_anon().ok() };
    let Some(mut map) = map else { return Bytes::from(parts.collect::<Vec<_>>().concat()) };
    #[cfg(target_os = "linux")]
    if let Err(error) = map.advise(memmap2::Advice::HugePage) {
        tracing::debug!(%error, "the system has no large pages");
    }
    let mut at = 0;
    for part in parts {
        if let Some(room) = map.get_mut(at..at + part.len()) {
            room.copy_from_slice(part);
        }
        at += part.len();
    }
    Bytes::from_owner(map).slice(..len)
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("capacity", &self.capacity())
            .field("published", &self.published())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_one_behind_another_whether_they_fill_large_pages_or_not() {
        let bytes: Vec<u8> = (0..5_u32 << 20).map(|n| (n.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        for len in [0, 1, 1000, 1 << 20, 3 << 19, (3 << 19) + 1, 2 << 20, (2 << 20) + 1, 4 << 20, 5 << 20] {
            let whole = bytes.get(..len).unwrap_or_default();
            for part in [len / 3 + 1, 62_592] {
                assert!(together(whole.chunks(part)) == whole, "{len} bytes in parts of {part}");
            }
        }
    }
}
