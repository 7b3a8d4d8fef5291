//! The bytes of one file: cached, and what of them a loss of power could take back.
//!
//! Invariants: `cached` is what every reader sees. `unsettled` holds, for each sector whose durable bytes are
//! not certainly the cached ones, every version that could be found there, oldest first; a sector without an
//! entry is durable as it is cached. `sizes` holds every size that could be found, oldest first. Versions and
//! sizes carry the count of changes at which they came, so that a sync proves what was there when it began and
//! nothing later. A plain file (not simulated) keeps neither.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::loss::Loss;
use crate::disk::FileId;

/// What a device writes atomically, unless it tears.
pub(super) const SECTOR: usize = 512;
/// What the cache holds, writes back and marks clean as one.
const PAGE: usize = 4096;

pub(super) type Sector = [u8; SECTOR];

/// Something that could be found after a loss of power, and when it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version<T> {
    pub(super) came: u64,
    pub(super) is: T,
}

/// Where a sync began.
#[derive(Debug)]
pub(super) struct Begun {
    changes: u64,
    /// The sectors that it writes.
    sectors: Vec<usize>,
}

/// A file, whatever its names.
#[derive(Debug)]
pub(super) struct Inode {
    device: u64,
    number: u64,
    contents: Mutex<Contents>,
}

impl Inode {
    pub(super) fn new(device: u64, number: u64, simulated: bool) -> Self {
        Self { device, number, contents: Mutex::new(Contents::new(simulated)) }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn id(&self) -> FileId {
        FileId { device: self.device, number: self.number }
    }

    pub(super) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct Contents {
    simulated: bool,
    cached: Vec<u8>,
    unsettled: BTreeMap<usize, Vec<Version<Sector>>>,
    sizes: Vec<Version<usize>>,
    changes: u64,
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
            sizes: vec![Version { came: 0, is: 0 }],
            changes: 0,
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
                let before = Version { came: self.changes, is: sector(&self.cached, index) };
                self.unsettled.entry(index).or_insert_with(|| vec![before]);
            }
        }
        self.changes += 1;
        if let Some(to) = self.cached.get_mut(start..end) {
            to.copy_from_slice(bytes);
        }
        // A page is written back whole, so sectors that a failed sync left behind get another chance with it.
        let pages = start / PAGE * (PAGE / SECTOR)..((end - 1) / PAGE + 1) * (PAGE / SECTOR);
        for (index, versions) in self.unsettled.range_mut(pages) {
            let now = sector(&self.cached, *index);
            if newest(versions) != Some(&now) {
                versions.push(Version { came: self.changes, is: now });
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
        self.sizes = vec![Version { came: self.changes, is: self.cached.len() }];
    }

    /// Flips one bit, cached and durable. Answers whether the byte is there.
    pub(super) fn flip(&mut self, offset: u64, bit: u8) -> bool {
        self.rot(offset, 1, &mut |_, byte| *byte ^= 1 << (bit % 8))
    }

    /// Puts other bytes in the place of some, cached and durable. Answers whether all of them are there.
    pub(super) fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> bool {
        self.rot(offset, bytes.len(), &mut |i, byte| *byte = bytes.get(i).copied().unwrap_or(*byte))
    }

    /// Changes bytes in every version; the size stays.
    fn rot(&mut self, offset: u64, len: usize, change: &mut dyn FnMut(usize, &mut u8)) -> bool {
        let Ok(start) = usize::try_from(offset) else { return false };
        let Some(bytes) = start.checked_add(len).and_then(|end| self.cached.get_mut(start..end)) else {
            return false;
        };
        bytes.iter_mut().enumerate().for_each(|(i, byte)| change(i, byte));
        for (i, at) in (start..start + len).enumerate() {
            for version in self.unsettled.get_mut(&(at / SECTOR)).into_iter().flatten() {
                if let Some(byte) = version.is.get_mut(at % SECTOR) {
                    change(i, byte);
                }
            }
        }
        true
    }

    /// Begins a sync: what is written from here on is not its concern. What a failed one marked clean is not
    /// either: there the newest version is not the cached one.
    pub(super) fn begin_sync(&self) -> Begun {
        let dirty = |(index, versions): (&usize, &Vec<Version<Sector>>)| {
            (newest(versions) == Some(&sector(&self.cached, *index))).then_some(*index)
        };
        Begun { changes: self.changes, sectors: self.unsettled.iter().filter_map(dirty).collect() }
    }

    pub(super) fn end_sync(&mut self, begun: &Begun) {
        for index in &begun.sectors {
            let Some(versions) = self.unsettled.get_mut(index) else { continue };
            settle_up_to(versions, begun.changes);
            if versions.len() == 1 && newest(versions) == Some(&sector(&self.cached, *index)) {
                self.unsettled.remove(index);
            }
        }
        settle_up_to(&mut self.sizes, begun.changes);
    }

    /// A sync that fails, and nothing is known to have been written: all of it may be written later.
    pub(super) fn fail_sync(&mut self) {
        self.errors += 1;
        self.reported = false;
    }

    /// A sync that fails after its pages were marked clean: their newest version will never be written, unless
    /// the page is written to again. What was written since the sync began is still to be written.
    pub(super) fn lose_sync(&mut self, begun: &Begun) {
        self.fail_sync();
        for index in &begun.sectors {
            let Some(versions) = self.unsettled.get_mut(index) else { continue };
            if versions.len() > 1 && versions.last().is_some_and(|version| version.came <= begun.changes) {
                versions.pop();
            }
        }
    }

    /// Clean pages leave the cache: where their bytes never reached the disk, readers see what did. A choice of 0
    /// keeps the newest.
    pub(super) fn evict(&mut self, choose: &mut dyn FnMut(u64) -> u64) {
        let cached = &mut self.cached;
        self.unsettled.retain(|index, versions| {
            if newest(versions) == Some(&sector(cached, *index)) {
                return true;
            }
            let found = from_newest(versions, choose).and_then(|at| versions.get(at));
            let there = cached.get_mut(index * SECTOR..).unwrap_or_default();
            for (to, from) in there.iter_mut().zip(found.iter().flat_map(|found| &found.is)) {
                *to = *from;
            }
            false
        });
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
    pub(super) fn power_loss(&mut self, choose: &mut dyn FnMut(u64) -> u64, loss: &Loss<'_>) {
        if !self.simulated {
            return;
        }
        let durable = self.sizes.first().map_or(0, |size| size.is);
        let kept = from_newest(&self.sizes, choose).and_then(|index| self.sizes.get(index));
        let size = kept.map_or(self.cached.len(), |size| size.is);
        loss.fill(choose, &mut self.cached, durable);
        for (index, versions) in std::mem::take(&mut self.unsettled) {
            let start = index * SECTOR;
            let Some(at) = from_newest(&versions, choose) else { continue };
            if at == 0 && start >= durable && loss.fills() {
                continue;
            }
            let found = loss.survivor(choose, &versions, at);
            let there = self.cached.get_mut(start..).unwrap_or_default();
            for (to, from) in there.iter_mut().zip(found.iter().flatten()) {
                *to = *from;
            }
        }
        self.cached.resize(size, 0);
        self.sizes = vec![Version { came: self.changes, is: size }];
        (self.errors, self.reported) = (0, true);
    }

    fn sized(&mut self) {
        let len = self.cached.len();
        if self.simulated && self.sizes.last().map(|size| size.is) != Some(len) {
            self.changes += 1;
            self.sizes.push(Version { came: self.changes, is: len });
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

fn newest<T>(versions: &[Version<T>]) -> Option<&T> {
    versions.last().map(|version| &version.is)
}

/// Forgets everything older than the newest that had come by then.
fn settle_up_to<T>(versions: &mut Vec<Version<T>>, changes: u64) {
    let proven = versions.iter().rposition(|version| version.came <= changes).unwrap_or(0);
    versions.drain(..proven);
}
