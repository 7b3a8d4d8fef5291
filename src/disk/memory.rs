//! A disk in RAM, with cached and durable bytes kept apart.
//!
//! A plain one ([`MemoryDisk::new`]) keeps only the bytes, and loses nothing until it is dropped. A simulated
//! one ([`MemoryDisk::simulated`]) also remembers what a loss of power could take back: per sector every version
//! written since the last sync, per file every size, per directory every operation. It can then lose power, kill
//! the process, fill up, fail at a chosen call, and flip bits ([`faults`]). It does not know who uses it, nor
//! what the bytes mean.
//!
//! Invariants: one mutex orders all calls, then one per file (always in this order). Every descriptor, lock and
//! handle belongs to one life of the machine; once that is over, calls through them fail and change nothing.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Access, Disk, File, FileId, Holder, LOCK, Lock, LockError, Map};
use contents::Inode;
use machine::{Machine, Verdict};

mod contents;
mod faults;
mod machine;
mod names;

pub use faults::{Fault, Tear};

/// A disk in RAM. Clones are handles on the same disk.
///
/// After [`MemoryDisk::power_loss`] or [`MemoryDisk::kill`] the handle it was called on goes on, in the next
/// life of the machine, and so do clones made from it later; every other clone belongs to the life that is over,
/// and fails.
pub struct MemoryDisk {
    shared: Arc<Shared>,
    life: AtomicU64,
}

#[derive(Debug)]
struct Shared {
    machine: Mutex<Machine>,
    unlocked: Condvar,
}

impl MemoryDisk {
    /// A disk that keeps only the bytes.
    pub fn new() -> Self {
        Self::with(false)
    }

    /// A disk that remembers what a loss of power could take back. It grows with what is written between syncs.
    pub fn simulated() -> Self {
        Self::with(true)
    }

    fn with(simulated: bool) -> Self {
        let machine = Mutex::new(Machine::new(simulated));
        let shared = Arc::new(Shared { machine, unlocked: Condvar::new() });
        Self { shared, life: AtomicU64::new(0) }
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.shared.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and goes on if the machine lives and no fault is due.
    fn admit(&self) -> io::Result<MutexGuard<'_, Machine>> {
        let mut machine = self.machine();
        machine.admit(self.life.load(Ordering::Relaxed))?.or_fail()?;
        Ok(machine)
    }

    fn open_inode(&self, inode: Arc<Inode>, access: Access) -> Arc<dyn File> {
        let seen = AtomicU64::new(inode.contents().errors_to_report_from());
        Arc::new(OpenFile { disk: self.clone(), inode, access, seen })
    }

    fn take_lock(&self, machine: &mut Machine) -> io::Result<Lock> {
        machine.tickets += 1;
        let ticket = machine.tickets;
        let inode = machine.names.open_or_create(LOCK)?;
        inode.contents().replace(Holder::this_process().line().as_bytes());
        machine.locked_by = Some(ticket);
        let shared = Arc::clone(&self.shared);
        Ok(Lock::new(move || {
            let mut machine = shared.machine.lock().unwrap_or_else(PoisonError::into_inner);
            if machine.locked_by == Some(ticket) {
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
        let life = AtomicU64::new(self.life.load(Ordering::Relaxed));
        Self { shared: Arc::clone(&self.shared), life }
    }
}

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDisk").field("life", &self.life).finish_non_exhaustive()
    }
}

impl Disk for MemoryDisk {
    fn root(&self) -> &Path {
        Path::new("(in memory)")
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.admit()?.names.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.admit()?.names.create_dir(dir)
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let mut machine = self.admit()?;
        let inode = match access {
            Access::Create => machine.names.create(path)?,
            Access::Read | Access::Write => machine.names.file(path)?,
        };
        Ok(self.open_inode(inode, access))
    }

    fn id(&self, path: &str) -> io::Result<FileId> {
        Ok(self.admit()?.names.file(path)?.id())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.admit()?.names.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.admit()?.names.remove(path)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.admit()?.names.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.admit()?.names.sync(dir)
    }

    fn lock(&self, wait: Duration) -> Result<Lock, LockError> {
        let mut machine = self.admit()?;
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
            machine.alive(self.life.load(Ordering::Relaxed))?;
        }
        Ok(self.take_lock(&mut machine)?)
    }

    fn network(&self) -> io::Result<Option<&'static str>> {
        drop(self.admit()?);
        Ok(None)
    }
}

/// A descriptor.
#[derive(Debug)]
struct OpenFile {
    disk: MemoryDisk,
    inode: Arc<Inode>,
    access: Access,
    /// How many failed syncs of the file this descriptor knows of.
    seen: AtomicU64,
}

impl OpenFile {
    fn writable(&self) -> io::Result<()> {
        if self.access == Access::Read { Err(ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    fn life(&self) -> u64 {
        self.disk.life.load(Ordering::Relaxed)
    }
}

impl File for OpenFile {
    fn len(&self) -> io::Result<u64> {
        let _machine = self.disk.admit()?;
        Ok(self.inode.contents().bytes().len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        drop(self.disk.admit()?);
        let contents = self.inode.contents();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let there = contents.bytes().get(start..).unwrap_or_default();
        let n = there.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), there.get(..n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writable()?;
        let mut machine = self.disk.machine();
        match machine.admit(self.life())? {
            Verdict::Go => machine.write(&self.inode, offset, bytes),
            Verdict::Fail(Fault::ShortWrite(prefix)) => {
                machine.write(&self.inode, offset, bytes.get(..prefix).unwrap_or(bytes))?;
                Err(Fault::Io.error())
            }
            Verdict::Crash => {
                machine.torn = Some((Arc::clone(&self.inode), offset, bytes.to_vec()));
                Verdict::Crash.or_fail()
            }
            failed => failed.or_fail(),
        }
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.writable()?;
        let machine = self.disk.admit()?;
        machine.room_for(&self.inode, len)?;
        self.inode.contents().grow(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut machine = self.disk.machine();
        let verdict = machine.admit(self.life())?;
        let mut contents = self.inode.contents();
        match verdict {
            Verdict::Go => contents.sync(),
            Verdict::Fail(Fault::SyncLost) => contents.lose_sync(),
            Verdict::Fail(_) => contents.fail_sync(),
            Verdict::Crash => return verdict.or_fail(),
        }
        let errors = contents.report_errors();
        if self.seen.swap(errors, Ordering::Relaxed) == errors { Ok(()) } else { Err(Fault::Io.error()) }
    }

    fn id(&self) -> io::Result<FileId> {
        let _machine = self.disk.admit()?;
        Ok(self.inode.id())
    }

    fn map(&self, _: u64) -> io::Result<Option<Map>> {
        drop(self.disk.admit()?);
        Ok(None)
    }
}
