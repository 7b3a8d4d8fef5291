//! What a loss of power makes of bytes that were not durable: torn sectors, and space that was never written.
//!
//! It knows sectors and their versions, not files or names. All choices are the caller's, and 0 loses nothing.

use super::contents::{SECTOR, Sector, Version};

/// What a loss of power does to a sector that was being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// A sector holds one of its versions, whole.
    Sector,
    /// A sector may also hold the beginning of one version and the end of the one before it.
    Byte,
    /// A sector may also hold any bytes of one version and the others of the one before it.
    Mix,
}

/// What stands where a file had grown and neither its size nor its bytes were synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Zeros, as a filesystem should have it.
    Zeros,
    /// Any bytes.
    Garbage,
    /// What another file, perhaps one that is gone, had at that place.
    Stale,
}

/// One loss of power.
#[derive(Debug)]
pub(super) struct Loss<'s> {
    pub(super) tear: Tear,
    pub(super) fill: Fill,
    /// What other files held.
    pub(super) stale: &'s [Vec<u8>],
}

impl Loss<'_> {
    /// Whether space that was never written may hold something.
    pub(super) fn fills(&self) -> bool {
        self.fill != Fill::Zeros
    }

    /// Fills the sectors behind the durable size.
    pub(super) fn fill(&self, choose: &mut dyn FnMut(u64) -> u64, bytes: &mut [u8], durable: usize) {
        let from = durable.div_ceil(SECTOR).saturating_mul(SECTOR);
        let Some(grown) = bytes.get_mut(from..).filter(|grown| self.fills() && !grown.is_empty()) else {
            return;
        };
        grown.fill(0);
        if self.fill == Fill::Garbage {
            garbage(choose(u64::MAX), grown);
            return;
        }
        let which = usize::try_from(choose(self.stale.len() as u64 + 1)).unwrap_or(0);
        let old = which.checked_sub(1).and_then(|which| self.stale.get(which));
        let old = old.and_then(|old| old.get(from..)).unwrap_or_default();
        for (to, from) in grown.iter_mut().zip(old) {
            *to = *from;
        }
    }

    /// What of a sector survives, if the version at an index was chosen.
    pub(super) fn survivor(
        &self,
        choose: &mut dyn FnMut(u64) -> u64,
        versions: &[Version<Sector>],
        at: usize,
    ) -> Option<Sector> {
        let mut found = versions.get(at)?.is;
        let Some(older) = at.checked_sub(1).and_then(|older| versions.get(older)) else { return Some(found) };
        if self.tear == Tear::Sector || choose(2) == 0 {
            return Some(found);
        }
        if self.tear == Tear::Byte {
            let lost = usize::try_from(choose(SECTOR as u64)).unwrap_or(0).min(SECTOR);
            for (to, from) in found.iter_mut().zip(&older.is).skip(SECTOR - lost) {
                *to = *from;
            }
            return Some(found);
        }
        for (to, from) in found.chunks_mut(8).zip(older.is.chunks(8)) {
            let lost = choose(256);
            for (i, (to, from)) in to.iter_mut().zip(from).enumerate() {
                if lost & (1 << i) != 0 {
                    *to = *from;
                }
            }
        }
        Some(found)
    }
}

/// Bytes that look like nothing; zeros for 0.
fn garbage(mut seed: u64, bytes: &mut [u8]) {
    if seed == 0 {
        return;
    }
    for byte in bytes {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        *byte = (seed >> 56) as u8;
    }
}
