//! The machine around the bytes: its processes, its lock, its capacity, and the faults that are due.
//!
//! It counts every call made through a live handle or descriptor; a fault is due at a count, of all calls or of
//! one kind, and nothing else decides about it, so that the same calls meet the same faults.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use super::contents::Inode;
use super::faults::{Call, Fault};
use super::names::Names;

/// What becomes of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Go,
    Fail(Fault),
    /// The machine, or the process, stops within this call.
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

/// A process. Its handles, descriptors and locks are good for as long as it is in the machine's list and runs.
#[derive(Debug, Default)]
pub(super) struct Process {
    calls: u64,
    pub(super) stop_at: Option<u64>,
    pub(super) stopped: bool,
    /// The write that was under way when it stopped.
    pub(super) torn: Option<(Arc<Inode>, u64, Vec<u8>)>,
}

impl Process {
    /// Lets it stop within a call from now.
    pub(super) fn stop_within(&mut self, call: u64) {
        self.stop_at = Some(self.calls.saturating_add(call));
    }
}

/// What others do in the middle of a sync.
pub(super) struct Meanwhile(pub(super) u64, pub(super) Box<dyn FnOnce() + Send>);

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meanwhile").field(&self.0).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) simulated: bool,
    pub(super) names: Names,
    pub(super) capacity: Option<u64>,
    pub(super) processes: BTreeMap<u64, Process>,
    born: u64,
    pub(super) calls: u64,
    pub(super) faults: BTreeMap<u64, Fault>,
    /// Faults of a kind of call, each with the number of such calls before it.
    pub(super) planned: Vec<(Call, u64, Fault)>,
    pub(super) fired: Vec<(Call, Fault)>,
    pub(super) crash_at: Option<u64>,
    pub(super) crashed: bool,
    /// No call is counted and none fails.
    pub(super) undisturbed: bool,
    pub(super) meanwhile: Option<Meanwhile>,
    /// The process and the ticket.
    pub(super) locked_by: Option<(u64, u64)>,
    tickets: u64,
    /// What files held that are gone, the newest last.
    pub(super) leftovers: Vec<Vec<u8>>,
    /// Where the next random numbers come from; the system's otherwise.
    pub(super) entropy: Option<u64>,
}

impl Machine {
    pub(super) fn new(simulated: bool, entropy: Option<u64>) -> Self {
        Self {
            simulated,
            names: Names::new(simulated),
            capacity: None,
            processes: BTreeMap::from([(0, Process::default())]),
            born: 0,
            calls: 0,
            faults: BTreeMap::new(),
            planned: Vec::new(),
            fired: Vec::new(),
            crash_at: None,
            crashed: false,
            undisturbed: false,
            meanwhile: None,
            locked_by: None,
            tickets: 0,
            leftovers: Vec::new(),
            entropy,
        }
    }

    pub(super) fn alive(&self, process: u64) -> io::Result<()> {
        match self.processes.get(&process) {
            Some(running) if !running.stopped && !self.crashed => Ok(()),
            _ => Err(dead()),
        }
    }

    pub(super) fn admit(&mut self, process: u64, call: Call) -> io::Result<Verdict> {
        self.alive(process)?;
        if self.undisturbed {
            return Ok(Verdict::Go);
        }
        let number = self.calls;
        self.calls += 1;
        if let Some(own) = self.processes.get_mut(&process) {
            own.stopped = own.stop_at == Some(own.calls);
            own.calls += 1;
            self.crashed = self.crash_at == Some(number);
            if own.stopped || self.crashed {
                return Ok(Verdict::Crash);
            }
        }
        let fault = self.faults.remove(&number).or(self.planned(call));
        self.fired.extend(fault.map(|fault| (call, fault)));
        Ok(fault.map_or(Verdict::Go, Verdict::Fail))
    }

    fn planned(&mut self, call: Call) -> Option<Fault> {
        let mut due = None;
        for (at, (kind, left, fault)) in self.planned.iter_mut().enumerate() {
            if *kind != call {
                continue;
            }
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None if due.is_none() => due = Some((at, *fault)),
                None => {}
            }
        }
        let (at, fault) = due?;
        self.planned.remove(at);
        Some(fault)
    }

    /// What others do in the middle of the sync that begins now.
    pub(super) fn others(&mut self) -> Option<Box<dyn FnOnce() + Send>> {
        match self.meanwhile.take()? {
            Meanwhile(0, other) => Some(other),
            Meanwhile(left, other) => {
                self.meanwhile = Some(Meanwhile(left - 1, other));
                None
            }
        }
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

    /// Remembers what a file held whose name goes.
    pub(super) fn leave(&mut self, path: &str) {
        const LEFT: usize = 3;
        if self.simulated
            && let Ok(inode) = self.names.file(path)
        {
            self.leftovers.push(inode.contents().bytes().to_vec());
            let old = self.leftovers.len().saturating_sub(LEFT);
            self.leftovers.drain(..old);
        }
    }

    /// The writers' lock goes to a process; answers the ticket that gives it back.
    pub(super) fn lock(&mut self, process: u64) -> u64 {
        self.tickets += 1;
        self.locked_by = Some((process, self.tickets));
        self.tickets
    }

    pub(super) fn begin_process(&mut self) -> u64 {
        self.born += 1;
        self.processes.insert(self.born, Process::default());
        self.born
    }

    /// A beginning of the writes that were under way in processes that stopped.
    pub(super) fn tear(&mut self, processes: &[u64], choose: &mut dyn FnMut(u64) -> u64) {
        for process in processes {
            let Some((inode, offset, bytes)) = self.processes.get_mut(process).and_then(|p| p.torn.take())
            else {
                continue;
            };
            let lost = usize::try_from(choose(bytes.len() as u64 + 1)).unwrap_or(bytes.len());
            let done = bytes.get(..bytes.len().saturating_sub(lost)).unwrap_or_default();
            // A full disk stops the write earlier still: nothing of it is as good a beginning as any.
            drop(self.write(&inode, offset, done));
        }
    }

    /// Processes are gone, with their descriptors and locks.
    pub(super) fn end_processes(&mut self, processes: &[u64]) {
        for process in processes {
            self.processes.remove(process);
        }
        if self.locked_by.is_some_and(|(process, _)| processes.contains(&process)) {
            self.locked_by = None;
        }
    }

    /// Faults of this life of the machine are forgotten.
    pub(super) fn restart(&mut self) {
        self.clear_faults();
        self.crashed = false;
    }

    pub(super) fn clear_faults(&mut self) {
        self.faults.clear();
        self.planned.clear();
        self.crash_at = None;
        self.meanwhile = None;
        for process in self.processes.values_mut() {
            process.stop_at = None;
        }
    }

    /// Fills a buffer from the seed; none if there is no seed.
    pub(super) fn random(&mut self, bytes: &mut [u8]) -> Option<()> {
        let state = self.entropy.as_mut()?;
        for chunk in bytes.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            for (to, from) in chunk.iter_mut().zip((z ^ (z >> 31)).to_le_bytes()) {
                *to = from;
            }
        }
        Some(())
    }
}

fn dead() -> io::Error {
    io::Error::other("the machine lost power")
}
