//! Descriptors: what a process does with one open file.
//!
//! A sync has a beginning and an end; what others write between them is not covered, and where the machine stops
//! there nothing is proved.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::MemoryDisk;
use super::contents::Inode;
use super::faults::{Call, Fault};
use super::machine::Verdict;
use crate::disk::{Access, File, FileId, Map};

/// A file that a process has open.
#[derive(Debug)]
pub(super) struct Descriptor {
    disk: MemoryDisk,
    inode: Arc<Inode>,
    access: Access,
    /// How many failed syncs of the file this descriptor knows of.
    seen: AtomicU64,
}

impl Descriptor {
    pub(super) fn new(disk: MemoryDisk, inode: Arc<Inode>, access: Access) -> Self {
        let seen = AtomicU64::new(inode.contents().errors_to_report_from());
        Self { disk, inode, access, seen }
    }

    fn writable(&self) -> io::Result<()> {
        if self.access == Access::Read { Err(ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }
}

impl File for Descriptor {
    fn len(&self) -> io::Result<u64> {
        let _machine = self.disk.admit(Call::Examine)?;
        Ok(self.inode.contents().bytes().len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let verdict = self.disk.machine().admit(self.disk.own(), Call::Read)?;
        let wanted = match verdict {
            Verdict::Fail(Fault::ShortRead(beginning)) => buf.len().min(beginning),
            _ => buf.len(),
        };
        if !matches!(verdict, Verdict::Fail(Fault::ShortRead(_))) {
            verdict.or_fail()?;
        }
        let contents = self.inode.contents();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let there = contents.bytes().get(start..).unwrap_or_default();
        let n = there.len().min(wanted);
        if let (Some(to), Some(from)) = (buf.get_mut(..n), there.get(..n)) {
            to.copy_from_slice(from);
        }
        verdict.or_fail().map(|()| n)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writable()?;
        let mut machine = self.disk.machine();
        match machine.admit(self.disk.own(), Call::Write)? {
            Verdict::Go => machine.write(&self.inode, offset, bytes),
            Verdict::Fail(Fault::ShortWrite(prefix)) => {
                machine.write(&self.inode, offset, bytes.get(..prefix).unwrap_or(bytes))?;
                Err(Fault::Io.error())
            }
            Verdict::Crash => {
                if let Some(process) = machine.processes.get_mut(&self.disk.own()) {
                    process.torn = Some((Arc::clone(&self.inode), offset, bytes.to_vec()));
                }
                Verdict::Crash.or_fail()
            }
            failed => failed.or_fail(),
        }
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.writable()?;
        let machine = self.disk.admit(Call::Reserve)?;
        machine.room_for(&self.inode, len)?;
        self.inode.contents().grow(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut machine = self.disk.machine();
        let verdict = machine.admit(self.disk.own(), Call::Sync)?;
        if matches!(verdict, Verdict::Crash) {
            return verdict.or_fail();
        }
        let begun = self.inode.contents().begin_sync();
        if let Some(others) = machine.others() {
            drop(machine);
            others();
            machine = self.disk.machine();
            machine.alive(self.disk.own())?;
        }
        let mut contents = self.inode.contents();
        match verdict {
            Verdict::Go => contents.end_sync(&begun),
            Verdict::Fail(Fault::SyncLost) => contents.lose_sync(&begun),
            _ => contents.fail_sync(),
        }
        let errors = contents.report_errors();
        drop(machine);
        if self.seen.swap(errors, Ordering::Relaxed) == errors { Ok(()) } else { Err(Fault::Io.error()) }
    }

    fn id(&self) -> io::Result<FileId> {
        let _machine = self.disk.admit(Call::Examine)?;
        Ok(self.inode.id())
    }

    fn map(&self, _: u64) -> io::Result<Option<Map>> {
        drop(self.disk.admit(Call::Examine)?);
        Ok(None)
    }
}
