//! A disk in RAM, with cached and durable bytes kept apart.
//!
//! A plain one ([`MemoryDisk::new`]) keeps only the bytes, and loses nothing until it is dropped. A simulated
//! one ([`MemoryDisk::simulated`]) also remembers what a loss of power could take back: per sector every version
//! written since the last sync, per file every size, per directory every operation. It can then lose power, let
//! processes die, fill up, fail at a chosen call ([`faults`]), and rot ([`damage`]). It does not know who uses it,
//! nor what the bytes mean.
//!
//! Invariants: one mutex orders all calls, then one per file (always in this order). Every descriptor, lock and
//! handle belongs to one process; once that is over, calls through them fail and change nothing.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Access, Disk, File, FileId, Holder, LOCK, Lock, LockError, system_random};
use descriptor::Descriptor;
use machine::Machine;

mod contents;
mod damage;
mod descriptor;
mod faults;
mod loss;
mod machine;
mod names;

pub use faults::{Call, Fault};
pub use loss::{Fill, Tear};

/// A disk in RAM. Clones are handles of the same process on the same disk; [`MemoryDisk::process`] makes one of
/// another process.
///
/// After [`MemoryDisk::power_loss`] or [`MemoryDisk::kill`] the handle it was called on goes on, as a new process,
/// and so do clones made from it later; every other handle of a process that is over fails.
pub struct MemoryDisk {
    shared: Arc<Shared>,
    process: AtomicU64,
}

#[derive(Debug)]
struct Shared {
    machine: Mutex<Machine>,
    unlocked: Condvar,
}

impl MemoryDisk {
    /// A disk that keeps only the bytes.
    pub fn new() -> Self {
        Self::with(Machine::new(false, None))
    }

    /// A disk that remembers what a loss of power could take back. It grows with what is written between syncs.
    pub fn simulated() -> Self {
        Self::with(Machine::new(true, None))
    }

    /// A simulated disk whose random numbers follow from a seed, and whose lock names no process of the real
    /// machine: the same calls leave the same bytes.
    pub fn seeded(seed: u64) -> Self {
        Self::with(Machine::new(true, Some(seed)))
    }

    fn with(machine: Machine) -> Self {
        let shared = Arc::new(Shared { machine: Mutex::new(machine), unlocked: Condvar::new() });
        Self { shared, process: AtomicU64::new(0) }
    }

    /// A handle of a new process of the machine. It shares nothing with this one but the disk.
    #[must_use]
    pub fn process(&self) -> MemoryDisk {
        let process = AtomicU64::new(self.machine().begin_process());
        Self { shared: Arc::clone(&self.shared), process }
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.shared.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self) -> u64 {
        self.process.load(Ordering::Relaxed)
    }

    /// Counts a call, and goes on if the process lives and no fault is due.
    fn admit(&self, call: Call) -> io::Result<MutexGuard<'_, Machine>> {
        let mut machine = self.machine();
        machine.admit(self.own(), call)?.or_fail()?;
        Ok(machine)
    }

    fn take_lock(&self, machine: &mut Machine) -> io::Result<Lock> {
        let process = self.own();
        let inode = machine.names.open_or_create(LOCK)?;
        let holder = match machine.entropy {
            Some(_) => Holder { pid: u32::try_from(process).unwrap_or(u32::MAX), host: "memory".to_owned() },
            None => Holder::this_process(),
        };
        inode.contents().replace(holder.line().as_bytes());
        let ticket = machine.lock(process);
        let shared = Arc::clone(&self.shared);
        Ok(Lock::new(move || {
            let mut machine = shared.machine.lock().unwrap_or_else(PoisonError::into_inner);
            // Of a process that stopped, the lock goes when it ends.
            if machine.alive(process).is_ok() && machine.locked_by == Some((process, ticket)) {
                machine.locked_by = None;
                shared.unlocked.notify_all();
            }
        }))
    }
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for MemoryDisk {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), process: AtomicU64::new(self.own()) }
    }
}

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDisk").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Disk for MemoryDisk {
    fn root(&self) -> &Path {
        Path::new("(in memory)")
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.admit(Call::List)?.names.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.admit(Call::Create)?.names.create_dir(dir)
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let call = if access == Access::Create { Call::Create } else { Call::Open };
        let mut machine = self.admit(call)?;
        let inode = match access {
            Access::Create => machine.names.create(path)?,
            Access::Read | Access::Write => machine.names.file(path)?,
        };
        Ok(Arc::new(Descriptor::new(self.clone(), inode, access)))
    }

    fn id(&self, path: &str) -> io::Result<FileId> {
        Ok(self.admit(Call::Examine)?.names.file(path)?.id())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut machine = self.admit(Call::Rename)?;
        if from != to {
            machine.leave(to);
        }
        machine.names.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut machine = self.admit(Call::Remove)?;
        machine.leave(path);
        machine.names.remove(path)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.admit(Call::Remove)?.names.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.admit(Call::SyncDir)?.names.sync(dir)
    }

    fn lock(&self, wait: Duration) -> Result<Lock, LockError> {
        let mut machine = self.admit(Call::Lock)?;
        machine.names.list("")?;
        // None: the wait is longer than the clock can count.
        let deadline = Instant::now().checked_add(wait);
        while machine.locked_by.is_some() {
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                let line = machine.names.file(LOCK)?.contents().bytes().to_vec();
                return Err(LockError::Held { holder: Holder::parse(&line) });
            }
            let woken = self.shared.unlocked.wait_timeout(machine, left);
            machine = woken.unwrap_or_else(PoisonError::into_inner).0;
            machine.alive(self.own())?;
        }
        Ok(self.take_lock(&mut machine)?)
    }

    fn network(&self) -> io::Result<Option<&'static str>> {
        drop(self.admit(Call::Examine)?);
        Ok(None)
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        match self.machine().random(bytes) {
            Some(()) => Ok(()),
            None => system_random(bytes),
        }
    }
}
