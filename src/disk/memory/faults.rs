//! What can befall a disk: loss of power, death of a process, failing calls, a full disk.
//!
//! Nothing here is random. Where there is a choice the caller makes it: `choose(n)` answers a number below `n`,
//! and 0 always means that nothing is lost, so the same answers give the same disk.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::MemoryDisk;
use super::contents::Inode;
use super::loss::{Fill, Loss, Tear};
use super::machine::{Machine, Meanwhile};

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
    /// A read stops after so many bytes, with an I/O error; another call fails as with [`Fault::Io`].
    ShortRead(usize),
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

/// A kind of call, for planning which one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Call {
    /// Listing a directory.
    List,
    /// Making a directory or a file.
    Create,
    /// Opening a file that exists.
    Open,
    /// Asking for an identity, a size, a map or the kind of filesystem.
    Examine,
    /// Giving a file another name.
    Rename,
    /// Taking a file's name away.
    Remove,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Reserving space.
    Reserve,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Taking the writers' lock.
    Lock,
}

impl MemoryDisk {
    /// The machine loses power and starts again, through this handle.
    ///
    /// What is not durable is kept or lost as `choose` says: one version of each sector, one size of each file,
    /// any subset of the operations of each directory. All processes are over with their locks, and faults that
    /// were due are forgotten. A plain disk loses nothing.
    pub fn power_loss(&self, choose: &mut dyn FnMut(u64) -> u64, tear: Tear) {
        self.power_loss_filling(choose, tear, Fill::Zeros);
    }

    /// As [`MemoryDisk::power_loss`], and space that had been added to a file and was not synced holds what
    /// `fill` says where nothing that was written there survives.
    pub fn power_loss_filling(&self, choose: &mut dyn FnMut(u64) -> u64, tear: Tear, fill: Fill) {
        self.end(Some(choose), true, |machine, choose| {
            let mut stale = Vec::new();
            if fill == Fill::Stale {
                stale.append(&mut machine.leftovers);
                stale
                    .extend(machine.names.files().into_values().map(|file| file.contents().bytes().to_vec()));
            }
            machine.names.power_loss(choose);
            let inodes: BTreeMap<u64, Arc<Inode>> =
                machine.names.files().into_values().map(|inode| (inode.number(), inode)).collect();
            let loss = Loss { tear, fill, stale: &stale };
            for inode in inodes.values() {
                inode.contents().power_loss(choose, &loss);
            }
        });
    }

    /// The process dies and starts again, through this handle: what was written stays, its locks are released, and
    /// its descriptors and other handles fail. Other processes go on, unless the machine was stopped by
    /// [`MemoryDisk::crash_at`]: then it dies with all of them. With the last process, faults that were due are
    /// forgotten. Of a write that was stopped, nothing was done.
    pub fn kill(&self) {
        self.end(None, false, |_, _| {});
    }

    /// Like [`MemoryDisk::kill`], but of a write that was under way a beginning stays, as `choose` says.
    pub fn kill_torn(&self, choose: &mut dyn FnMut(u64) -> u64) {
        self.end(Some(choose), false, |_, _| {});
    }

    /// Pages that a failed sync marked clean leave the cache: readers see what reached the disk, as `choose` says.
    pub fn evict(&self, choose: &mut dyn FnMut(u64) -> u64) {
        for inode in self.machine().names.files().values() {
            inode.contents().evict(choose);
        }
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

    /// Lets the n-th call of a kind from now fail once: 0 is the next one of that kind.
    pub fn fail_kind(&self, kind: Call, nth: u64, fault: Fault) {
        self.machine().planned.push((kind, nth, fault));
    }

    /// The calls that failed as planned, since this was asked last.
    pub fn fired(&self) -> Vec<(Call, Fault)> {
        std::mem::take(&mut self.machine().fired)
    }

    /// Does something that no fault meets and that counts no calls.
    pub fn undisturbed<T>(&self, look: impl FnOnce() -> T) -> T {
        let before = std::mem::replace(&mut self.machine().undisturbed, true);
        let seen = look();
        self.machine().undisturbed = before;
        seen
    }

    /// Lets others act in the middle of a sync of a file: 0 is the next one. What they write is not covered by
    /// it. They hold nothing of the disk, and must not wait for the one who syncs.
    pub fn meanwhile(&self, syncs: u64, others: impl FnOnce() + Send + 'static) {
        self.machine().meanwhile = Some(Meanwhile(syncs, Box::new(others)));
    }

    /// Stops the process of this handle within a call of its own from now: 0 is the next one. That call and all
    /// later ones fail, and its lock stays taken, until [`MemoryDisk::kill`] ends it. If it is a write, a
    /// beginning of it may have been done; any other call has done nothing.
    pub fn stop_at(&self, call: u64) {
        if let Some(process) = self.machine().processes.get_mut(&self.own()) {
            process.stop_within(call);
        }
    }

    /// Whether the machine and the process of this handle go on.
    pub fn is_alive(&self) -> bool {
        self.machine().alive(self.own()).is_ok()
    }

    /// Whether a process holds the writers' lock, also one that stopped and has not ended.
    pub fn is_locked(&self) -> bool {
        self.machine().locked_by.is_some()
    }

    /// Stops the machine within a call from now: 0 is the next one. That call and all later ones fail, until
    /// [`MemoryDisk::power_loss`] or [`MemoryDisk::kill`] starts it again. If it is a write, a beginning of it
    /// may have been done; any other call has done nothing.
    pub fn crash_at(&self, call: u64) {
        let mut machine = self.machine();
        machine.crash_at = Some(machine.calls.saturating_add(call));
    }

    /// Forgets the faults, stops and crashes that are still due, and what others were to do meanwhile.
    pub fn clear_faults(&self) {
        self.machine().clear_faults();
    }

    /// Bounds the bytes of all files together; none lifts the bound. What would pass it fails with
    /// [`ErrorKind::StorageFull`].
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine().capacity = bytes;
    }

    /// Ends the process of this handle, or all of them; the handle goes on as a new one. Without a choice, a write
    /// that was under way leaves nothing.
    fn end(
        &self,
        choose: Option<&mut dyn FnMut(u64) -> u64>,
        power: bool,
        lose: impl FnOnce(&mut Machine, &mut dyn FnMut(u64) -> u64),
    ) {
        let mut machine = self.machine();
        let all = power || machine.crashed || machine.processes.len() == 1;
        let ending: Vec<u64> = match all {
            true => machine.processes.keys().copied().collect(),
            false => vec![self.own()],
        };
        if let Some(choose) = choose {
            machine.tear(&ending, choose);
            lose(&mut machine, choose);
        }
        machine.end_processes(&ending);
        if all {
            machine.restart();
        }
        self.process.store(machine.begin_process(), Ordering::Relaxed);
        self.shared.unlocked.notify_all();
    }
}
