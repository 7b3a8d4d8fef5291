//! Lanes: one for each workspace, first come, first served.
//!
//! A lane makes read-modify-write atomic against every other write of its workspace and lets other workspaces
//! pass. It is held from a write's read to its append, or for the whole of a critical section, and never while
//! waiting for a disk. A thread inside a critical section of a store enters no lane of that store again:
//! it would wait for itself, or for another thread that waits for it.
//!
//! Whoever changes what every workspace has ever held shuts all lanes at once: it waits until nobody is in one, and
//! nobody enters meanwhile. So nothing that was read before is written after.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::log::locked;

thread_local! {
    /// The stores (by address) and workspaces of the critical sections that this thread is inside of.
    static INSIDE: RefCell<Vec<(usize, Arc<str>)>> = const { RefCell::new(Vec::new()) };
}

/// The lanes of one store.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Mutex<BTreeMap<Arc<str>, Arc<Lane>>>,
    gate: Arc<Gate>,
}

/// What all lanes are behind.
#[derive(Debug, Default)]
struct Gate {
    traffic: Mutex<Traffic>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Traffic {
    /// How many lanes are held, or waited for by who was let in.
    inside: usize,
    shut: bool,
}

/// The way through the gate; dropping it leaves.
#[derive(Debug)]
struct Pass {
    gate: Arc<Gate>,
}

/// All lanes are shut, until this is dropped.
#[derive(Debug)]
pub(super) struct Shut {
    gate: Arc<Gate>,
}

impl Gate {
    /// Goes in if nobody has shut it; answers whether it came to that.
    fn enter(&self) -> bool {
        let mut traffic = locked(&self.traffic);
        traffic.inside += usize::from(!traffic.shut);
        !traffic.shut
    }

    /// Waits until `free` says so, and changes the traffic then. Answers whether it came to that.
    fn when(
        &self,
        until: Option<Instant>,
        free: impl Fn(&Traffic) -> bool,
        change: impl FnOnce(&mut Traffic),
    ) -> bool {
        let mut traffic = locked(&self.traffic);
        while !free(&traffic) {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            traffic = self.changed.wait_timeout(traffic, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        change(&mut traffic);
        true
    }
}

impl Pass {
    /// Another one for who is inside already: it does not wait for who shuts the gate and waits for this one.
    fn again(&self) -> Pass {
        locked(&self.gate.traffic).inside += 1;
        Pass { gate: self.gate.clone() }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut traffic = locked(&self.gate.traffic);
        traffic.inside -= 1;
        // Otherwise nobody waits, and waking nobody is a call of the system, too.
        let somebody_waits = traffic.shut;
        drop(traffic);
        if somebody_waits {
            self.gate.changed.notify_all();
        }
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        locked(&self.gate.traffic).shut = false;
        self.gate.changed.notify_all();
    }
}

/// Who holds a lane, and who waits for it.
#[derive(Debug, Default)]
struct Lane {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    held: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    /// Set, under the queue's mutex, by whoever hands the lane over.
    granted: AtomicBool,
}

/// A lane that is held; dropping it hands it to the first that waits.
#[derive(Debug)]
pub(super) struct Held {
    lane: Arc<Lane>,
    _pass: Pass,
}

impl Lanes {
    /// Waits for the lane of a workspace.
    ///
    /// # Errors
    /// [`Error::InsideExclusive`] on a thread that is inside a critical section of this store;
    /// [`Error::LaneBusy`] after `wait`.
    pub(super) fn enter(&self, workspace: &str, wait: Duration) -> Result<Held> {
        let pass = self.pass(workspace, wait)?;
        self.take(workspace, wait, pass)
    }

    /// Waits for the lanes of several workspaces, in the order in which they are given.
    ///
    /// # Errors
    /// As [`Lanes::enter`].
    pub(super) fn enter_each<'w>(
        &self,
        workspaces: impl Iterator<Item = &'w str>,
        wait: Duration,
    ) -> Result<Vec<Held>> {
        let mut held: Vec<Held> = Vec::new();
        for workspace in workspaces {
            // Who waited at the gate for the next one, with a lane in hand, could wait for who shuts it.
            let pass = match held.first() {
                Some(first) => first._pass.again(),
                None => self.pass(workspace, wait)?,
            };
            held.push(self.take(workspace, wait, pass)?);
        }
        Ok(held)
    }

    /// Waits until nobody is in a lane; nobody enters one until the answer is dropped.
    ///
    /// # Errors
    /// As [`Lanes::enter`].
    pub(super) fn shut(&self, wait: Duration) -> Result<Shut> {
        self.check_outside()?;
        let until = Instant::now().checked_add(wait);
        let busy = || Error::LaneBusy { workspace: String::new(), waited: wait };
        if !self.gate.when(until, |traffic| !traffic.shut, |traffic| traffic.shut = true) {
            return Err(busy());
        }
        // Opens again, should somebody stay inside for too long.
        let shut = Shut { gate: self.gate.clone() };
        if self.gate.when(until, |traffic| traffic.inside == 0, |_| {}) { Ok(shut) } else { Err(busy()) }
    }

    fn check_outside(&self) -> Result<()> {
        match self.inside() {
            Some(workspace) => Err(Error::InsideExclusive { workspace: workspace.to_string() }),
            None => Ok(()),
        }
    }

    fn pass(&self, workspace: &str, wait: Duration) -> Result<Pass> {
        self.check_outside()?;
        // The clock is read only by who has to wait.
        let until = || Instant::now().checked_add(wait);
        if self.gate.enter()
            || self.gate.when(until(), |traffic| !traffic.shut, |traffic| traffic.inside += 1)
        {
            return Ok(Pass { gate: self.gate.clone() });
        }
        Err(Error::LaneBusy { workspace: workspace.to_owned(), waited: wait })
    }

    fn take(&self, workspace: &str, wait: Duration, pass: Pass) -> Result<Held> {
        let lane = self.lane(workspace);
        let waiter = {
            let mut queue = locked(&lane.queue);
            if !queue.held {
                queue.held = true;
                drop(queue);
                return Ok(Held { lane, _pass: pass });
            }
            let waiter = Arc::new(Waiter { thread: thread::current(), granted: AtomicBool::new(false) });
            queue.waiting.push_back(waiter.clone());
            waiter
        };
        let until = Instant::now().checked_add(wait);
        while !waiter.granted.load(Ordering::Acquire) {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Self::give_up(lane, &waiter, (workspace, wait), pass);
            }
            thread::park_timeout(left);
        }
        Ok(Held { lane, _pass: pass })
    }

    /// Leaves the queue, unless the lane was handed over at the last moment.
    fn give_up(
        lane: Arc<Lane>,
        waiter: &Arc<Waiter>,
        (workspace, waited): (&str, Duration),
        pass: Pass,
    ) -> Result<Held> {
        let mut queue = locked(&lane.queue);
        if waiter.granted.load(Ordering::Acquire) {
            drop(queue);
            return Ok(Held { lane, _pass: pass });
        }
        queue.waiting.retain(|other| !Arc::ptr_eq(other, waiter));
        Err(Error::LaneBusy { workspace: workspace.to_owned(), waited })
    }

    fn lane(&self, workspace: &str) -> Arc<Lane> {
        let mut lanes = locked(&self.lanes);
        if let Some(lane) = lanes.get(workspace) {
            return lane.clone();
        }
        let lane = Arc::new(Lane::default());
        lanes.insert(workspace.into(), lane.clone());
        lane
    }

    /// The workspace of the critical section of this store that the thread is inside of.
    fn inside(&self) -> Option<Arc<str>> {
        let address = std::ptr::from_ref(self) as usize;
        INSIDE
            .with_borrow(|inside| inside.iter().find(|(store, _)| *store == address).map(|(_, w)| w.clone()))
    }

    /// Marks the thread as being inside a critical section until the answer is dropped.
    pub(super) fn mark(&self, workspace: &str) -> Inside {
        let address = std::ptr::from_ref(self) as usize;
        INSIDE.with_borrow_mut(|inside| inside.push((address, workspace.into())));
        Inside { address }
    }
}

/// The mark of a thread that is inside a critical section.
#[derive(Debug)]
pub(super) struct Inside {
    address: usize,
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| {
            if let Some(i) = inside.iter().rposition(|(store, _)| *store == self.address) {
                inside.remove(i);
            }
        });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut queue = locked(&self.lane.queue);
        match queue.waiting.pop_front() {
            Some(next) => {
                next.granted.store(true, Ordering::Release);
                next.thread.unpark();
            }
            None => queue.held = false,
        }
    }
}
