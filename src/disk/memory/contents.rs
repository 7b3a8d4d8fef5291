//! The bytes of one file: cached, and what of them a loss of power could take back.
//!
//! Invariants: `cached` is what every reader sees. `unsettled` holds, for each sector whose durable bytes are
//! not certainly the cached ones, every version that could be found there, oldest first; a sector without an
//! entry is durable as it is cached. `sizes` holds every size that could be found, oldest first. A plain file
//! (not simulated) keeps neither.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::faults::Tear;
use crate::disk::FileId;

/// What a device writes atomically, unless it tears.
pub(super) const SECTOR: usize = 512;
/// What the cache holds, writes back and marks clean as one.
const PAGE: usize = 4096;

type Sector = [u8; SECTOR];

/// A file, whatever its names.
#[derive(Debug)]
pub(super) struct Inode {
    number: u64,
    contents: Mutex<Contents>,
}

impl Inode {
    pub(super) fn new(number: u64, simulated: bool) -> Self {
        Self { number, contents: Mutex::new(Contents::new(simulated)) }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn id(&self) -> FileId {
        FileId { device: 0, number: self.number }
    }

    pub(super) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct Contents {
    simulated: bool,
    cached: Vec<u8>,
    unsettled: BTreeMap<usize, Vec<Sector>>,
    sizes: Vec<usize>,
    /// How many syncs failed.
    errors: u64,
    /// Whether some descriptor has reported the last of them.
    reported: bool,
}

impl Contents {
    fn new(simulated: bool) -> Self {
        Self {
            simulated,
            cached: Vec::new(),
            unsettled: BTreeMap::new(),
            sizes: vec![0],
            errors: 0,
            reported: true,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.cached
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(bytes.len() as u64).ok_or(ErrorKind::FileTooLarge)?;
        self.grow(end)?;
        let (start, end) = (size(offset)?, size(end)?);
        if self.simulated {
            for index in start / SECTOR..=(end - 1) / SECTOR {
                let before = sector(&self.cached, index);
                self.unsettled.entry(index).or_insert_with(|| vec![before]);
            }
        }
        if let Some(to) = self.cached.get_mut(start..end) {
            to.copy_from_slice(bytes);
        }
        // A page is written back whole, so sectors that a failed sync left behind get another chance with it.
        let pages = start / PAGE * (PAGE / SECTOR)..((end - 1) / PAGE + 1) * (PAGE / SECTOR);
        for (index, versions) in self.unsettled.range_mut(pages) {
            let now = sector(&self.cached, *index);
            if versions.last() != Some(&now) {
                versions.push(now);
            }
        }
        Ok(())
    }

    /// Makes the file at least `len` bytes long.
    pub(super) fn grow(&mut self, len: u64) -> io::Result<()> {
        let len = size(len)?;
        if len > self.cached.len() {
            self.cached.try_reserve(len - self.cached.len())?;
            self.cached.resize(len, 0);
            self.sized();
        }
        Ok(())
    }

    /// Makes the file hold these bytes and no more.
    pub(super) fn replace(&mut self, bytes: &[u8]) {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().max(self.cached.len()), 0);
        // At most a few bytes beyond a size that exists already: this cannot overflow.
        if self.write(0, &padded).is_ok() {
            self.cached.truncate(bytes.len());
            self.sized();
        }
    }

    /// Makes the file hold these bytes and no more, durably.
    pub(super) fn settle(&mut self, bytes: Vec<u8>) {
        self.cached = bytes;
        self.unsettled.clear();
        self.sizes = vec![self.cached.len()];
    }

    /// Flips one bit, cached and durable. Answers whether the byte is there.
    pub(super) fn flip(&mut self, offset: u64, bit: u8) -> bool {
        let Ok(offset) = usize::try_from(offset) else { return false };
        let Some(byte) = self.cached.get_mut(offset) else { return false };
        *byte ^= 1 << (bit % 8);
        for version in self.unsettled.get_mut(&(offset / SECTOR)).into_iter().flatten() {
            if let Some(byte) = version.get_mut(offset % SECTOR) {
                *byte ^= 1 << (bit % 8);
            }
        }
        true
    }

    pub(super) fn sync(&mut self) {
        let cached = &self.cached;
        // What a failed sync marked clean is not written: there the last version is not the cached one.
        self.unsettled.retain(|index, versions| versions.last() != Some(&sector(cached, *index)));
        let first = self.sizes.len().saturating_sub(1);
        self.sizes.drain(..first);
    }

    /// A sync that fails, and nothing is known to have been written: all of it may be written later.
    pub(super) fn fail_sync(&mut self) {
        self.errors += 1;
        self.reported = false;
    }

    /// A sync that fails after its pages were marked clean: their newest version will never be written, unless
    /// the page is written to again.
    pub(super) fn lose_sync(&mut self) {
        self.fail_sync();
        for (index, versions) in &mut self.unsettled {
            if versions.len() > 1 && versions.last() == Some(&sector(&self.cached, *index)) {
                versions.pop();
            }
        }
    }

    /// From which count of failed syncs on a new descriptor reports them: one that nobody has reported yet is
    /// reported to whoever opens the file next.
    pub(super) fn errors_to_report_from(&self) -> u64 {
        if self.reported { self.errors } else { self.errors.saturating_sub(1) }
    }

    /// The count of failed syncs, which the caller reports.
    pub(super) fn report_errors(&mut self) -> u64 {
        self.reported = true;
        self.errors
    }

    /// Keeps any one version of each sector and any size. A choice of 0 keeps the newest.
    pub(super) fn power_loss(&mut self, choose: &mut dyn FnMut(u64) -> u64, tear: Tear) {
        if !self.simulated {
            return;
        }
        let kept = from_newest(&self.sizes, choose).and_then(|index| self.sizes.get(index));
        let size = kept.copied().unwrap_or(self.cached.len());
        for (index, versions) in std::mem::take(&mut self.unsettled) {
            let start = index * SECTOR;
            let found = survivor(&versions, choose, tear);
            let there = self.cached.get_mut(start..).unwrap_or_default();
            for (to, from) in there.iter_mut().zip(found.iter().flatten()) {
                *to = *from;
            }
        }
        self.cached.resize(size, 0);
        self.sizes = vec![size];
        (self.errors, self.reported) = (0, true);
    }

    fn sized(&mut self) {
        if self.simulated && self.sizes.last() != Some(&self.cached.len()) {
            self.sizes.push(self.cached.len());
        }
    }
}

fn size(len: u64) -> io::Result<usize> {
    usize::try_from(len).ok().filter(|len| *len <= isize::MAX as usize).ok_or(ErrorKind::FileTooLarge.into())
}

/// One sector of the bytes, zeros where they end.
fn sector(bytes: &[u8], index: usize) -> Sector {
    let mut sector = [0; SECTOR];
    let there = bytes.get(index * SECTOR..).unwrap_or_default();
    for (to, from) in sector.iter_mut().zip(there) {
        *to = *from;
    }
    sector
}

/// Chooses an index; 0 chooses the last.
fn from_newest<T>(of: &[T], choose: &mut dyn FnMut(u64) -> u64) -> Option<usize> {
    let last = of.len().checked_sub(1)?;
    let back = if last == 0 { 0 } else { choose(of.len() as u64) };
    Some(last - usize::try_from(back).unwrap_or(last).min(last))
}

fn survivor(versions: &[Sector], choose: &mut dyn FnMut(u64) -> u64, tear: Tear) -> Option<Sector> {
    let index = from_newest(versions, choose)?;
    let mut found = *versions.get(index)?;
    if let (Tear::Byte, Some(older)) = (tear, index.checked_sub(1).and_then(|older| versions.get(older)))
        && choose(2) != 0
    {
        let lost = usize::try_from(choose(SECTOR as u64)).unwrap_or(0).min(SECTOR);
        for (to, from) in found.iter_mut().zip(older).skip(SECTOR - lost) {
            *to = *from;
        }
    }
    Some(found)
}
