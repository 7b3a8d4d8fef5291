//! The machine around the bytes: its lives, its lock, its capacity, and the faults that are due.
//!
//! It counts every call made through a live handle or descriptor; a fault is due at a count, and nothing else
//! decides about it, so that the same calls meet the same faults.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::contents::Inode;
use super::faults::Fault;
use super::names::Names;

/// What becomes of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Go,
    Fail(Fault),
    /// The machine stops within this call.
    Crash,
}

impl Verdict {
    /// For calls that either happen or do not.
    pub(super) fn or_fail(self) -> io::Result<()> {
        match self {
            Self::Go => Ok(()),
            Self::Fail(fault) => Err(fault.error()),
            Self::Crash => Err(dead()),
        }
    }
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) names: Names,
    pub(super) capacity: Option<u64>,
    pub(super) life: u64,
    pub(super) calls: u64,
    pub(super) faults: BTreeMap<u64, Fault>,
    pub(super) crash_at: Option<u64>,
    pub(super) crashed: bool,
    /// The write that was under way when the machine stopped.
    pub(super) torn: Option<(Arc<Inode>, u64, Vec<u8>)>,
    pub(super) locked_by: Option<u64>,
    pub(super) tickets: u64,
}

impl Machine {
    pub(super) fn new(simulated: bool) -> Self {
        Self {
            names: Names::new(simulated),
            capacity: None,
            life: 0,
            calls: 0,
            faults: BTreeMap::new(),
            crash_at: None,
            crashed: false,
            torn: None,
            locked_by: None,
            tickets: 0,
        }
    }

    pub(super) fn alive(&self, life: u64) -> io::Result<()> {
        if self.crashed || self.life != life { Err(dead()) } else { Ok(()) }
    }

    pub(super) fn admit(&mut self, life: u64) -> io::Result<Verdict> {
        self.alive(life)?;
        let call = self.calls;
        self.calls += 1;
        if self.crash_at == Some(call) {
            self.crashed = true;
            return Ok(Verdict::Crash);
        }
        Ok(self.faults.remove(&call).map_or(Verdict::Go, Verdict::Fail))
    }

    pub(super) fn write(&self, inode: &Inode, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.room_for(inode, offset.saturating_add(bytes.len() as u64))?;
        inode.contents().write(offset, bytes)
    }

    /// Whether a file may become `len` bytes long.
    pub(super) fn room_for(&self, inode: &Inode, len: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let more = len.saturating_sub(inode.contents().bytes().len() as u64);
        let used: u64 = self.names.files().values().map(|file| file.contents().bytes().len() as u64).sum();
        if more > 0 && used.saturating_add(more) > capacity { Err(Fault::Full.error()) } else { Ok(()) }
    }

    /// Begins the next life: faults, locks and descriptors of this one are gone.
    pub(super) fn restart(&mut self) -> u64 {
        self.life += 1;
        self.faults.clear();
        self.crash_at = None;
        self.crashed = false;
        self.torn = None;
        self.locked_by = None;
        self.life
    }
}

fn dead() -> io::Error {
    io::Error::other("the machine lost power")
}
