//! What can befall a disk: loss of power, death of the process, failing calls, a full disk, rot.
//!
//! Nothing here is random. Where there is a choice the caller makes it: `choose(n)` answers a number below `n`,
//! and 0 always means that nothing is lost, so the same answers give the same disk.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::MemoryDisk;
use super::contents::Inode;
use super::names::parent;

/// How one call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An I/O error; nothing is done. A sync that fails so may yet be made up for by a later one.
    Io,
    /// The disk is full ([`ErrorKind::StorageFull`]); nothing is done.
    Full,
    /// A write stops after so many bytes, with an I/O error; another call fails as with [`Fault::Io`].
    ShortWrite(usize),
    /// A sync of a file fails, and its pages are marked clean although their newest version was not written: it
    /// is lost with the power, also after a later sync that succeeds. Readers see it until then.
    SyncLost,
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Full => io::Error::new(ErrorKind::StorageFull, "the disk is full"),
            _ => io::Error::other("the disk failed"),
        }
    }
}

/// What a loss of power does to a sector that was being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// A sector holds one of its versions, whole.
    Sector,
    /// A sector may also hold the beginning of one version and the end of the one before it.
    Byte,
}

impl MemoryDisk {
    /// The machine loses power and starts again, through this handle.
    ///
    /// What is not durable is kept or lost as `choose` says: one version of each sector, one size of each file,
    /// any subset of the operations of each directory. All locks are released, faults that were due are
    /// forgotten, and every descriptor, lock and other clone from before fails from now on. A plain disk
    /// loses nothing.
    pub fn power_loss(&self, choose: &mut dyn FnMut(u64) -> u64, tear: Tear) {
        self.die(Some(choose), |machine, choose| {
            machine.names.power_loss(choose);
            let inodes: BTreeMap<u64, Arc<Inode>> =
                machine.names.files().into_values().map(|inode| (inode.number(), inode)).collect();
            for inode in inodes.values() {
                inode.contents().power_loss(choose, tear);
            }
        });
    }

    /// The process dies and starts again, through this handle: what was written stays, locks are released, and
    /// descriptors and other clones from before fail. Of a write that [`MemoryDisk::crash_at`] stopped, nothing
    /// was done.
    pub fn kill(&self) {
        self.die(None, |_, _| {});
    }

    /// Like [`MemoryDisk::kill`], but of a write that was under way a beginning stays, as `choose` says.
    pub fn kill_torn(&self, choose: &mut dyn FnMut(u64) -> u64) {
        self.die(Some(choose), |_, _| {});
    }

    /// How many calls were made so far, of every kind.
    pub fn calls(&self) -> u64 {
        self.machine().calls
    }

    /// Lets a call from now fail once: 0 is the next one. Every call of [`Disk`](crate::disk::Disk) and
    /// [`File`](crate::disk::File) counts, except [`root`](crate::disk::Disk::root).
    pub fn fail_at(&self, call: u64, fault: Fault) {
        let mut machine = self.machine();
        let at = machine.calls.saturating_add(call);
        machine.faults.insert(at, fault);
    }

    /// Stops the machine within a call from now: 0 is the next one. That call and all later ones fail, until
    /// [`MemoryDisk::power_loss`] or [`MemoryDisk::kill`] starts it again. If it is a write, a beginning of it
    /// may have been done; any other call has done nothing.
    pub fn crash_at(&self, call: u64) {
        let mut machine = self.machine();
        machine.crash_at = Some(machine.calls.saturating_add(call));
    }

    /// Forgets the faults and the crash that are still due.
    pub fn clear_faults(&self) {
        let mut machine = self.machine();
        machine.faults.clear();
        machine.crash_at = None;
    }

    /// Bounds the bytes of all files together; none lifts the bound. What would pass it fails with
    /// [`ErrorKind::StorageFull`].
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine().capacity = bytes;
    }

    /// Flips one bit (0 is the lowest) of one byte of a file at rest, cached and durable.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such file, [`ErrorKind::UnexpectedEof`] if it ends before.
    pub fn flip(&self, path: &str, offset: u64, bit: u8) -> io::Result<()> {
        let there = self.machine().names.file(path)?.contents().flip(offset, bit);
        if there { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// The bytes of a file as a reader sees them; none if it is absent.
    pub fn read_file(&self, path: &str) -> Option<Vec<u8>> {
        let inode = self.machine().names.file(path).ok()?;
        Some(inode.contents().bytes().to_vec())
    }

    /// Makes a file hold these bytes, durable at once: missing directories are made, an existing file is
    /// overwritten in place, and its directory is synced.
    pub fn write_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let mut machine = self.machine();
        machine.names.create_parents(path)?;
        machine.names.open_or_create(path)?.contents().settle(bytes.to_vec());
        machine.names.sync(parent(path))
    }

    /// Removes a file, durable at once: its directory is synced.
    pub fn remove_file(&self, path: &str) -> io::Result<()> {
        let mut machine = self.machine();
        machine.names.remove(path)?;
        machine.names.sync(parent(path))
    }

    /// The paths of all files, sorted.
    pub fn files(&self) -> Vec<String> {
        self.machine().names.files().into_keys().collect()
    }

    /// Ends this life of the machine. Without a choice, a write that was under way leaves nothing.
    fn die(
        &self,
        choose: Option<&mut dyn FnMut(u64) -> u64>,
        lose: impl FnOnce(&mut super::Machine, &mut dyn FnMut(u64) -> u64),
    ) {
        let mut machine = self.machine();
        if let Some(choose) = choose {
            if let Some((inode, offset, bytes)) = machine.torn.take() {
                let lost = usize::try_from(choose(bytes.len() as u64 + 1)).unwrap_or(bytes.len());
                let done = bytes.get(..bytes.len().saturating_sub(lost)).unwrap_or_default();
                // A full disk stops the write earlier still: nothing of it is as good a beginning as any.
                drop(machine.write(&inode, offset, done));
            }
            lose(&mut machine, choose);
        }
        let life = machine.restart();
        self.life.store(life, Ordering::Relaxed);
        self.shared.unlocked.notify_all();
    }
}
