//! Lanes: one for each workspace, first come, first served.
//!
//! A lane makes read-modify-write atomic against every other write of its workspace and lets other workspaces
//! pass. It is held from a write's read to its append, or for the whole of a critical section, and never while
//! waiting for a disk. A thread inside a critical section of a store enters no lane of that store again:
//! it would wait for itself, or for another thread that waits for it.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
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
    lanes: Mutex<HashMap<Arc<str>, Arc<Lane>>>,
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
}

impl Lanes {
    /// Waits for the lane of a workspace.
    ///
    /// # Errors
    /// [`Error::InsideExclusive`] on a thread that is inside a critical section of this store;
    /// [`Error::LaneBusy`] after `wait`.
    pub(super) fn enter(&self, workspace: &str, wait: Duration) -> Result<Held> {
        if let Some(workspace) = self.inside() {
            return Err(Error::InsideExclusive { workspace: workspace.to_string() });
        }
        let lane = self.lane(workspace);
        let waiter = {
            let mut queue = locked(&lane.queue);
            if !queue.held {
                queue.held = true;
                drop(queue);
                return Ok(Held { lane });
            }
            let waiter = Arc::new(Waiter { thread: thread::current(), granted: AtomicBool::new(false) });
            queue.waiting.push_back(waiter.clone());
            waiter
        };
        let until = Instant::now().checked_add(wait);
        while !waiter.granted.load(Ordering::Acquire) {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Self::give_up(lane, &waiter, workspace, wait);
            }
            thread::park_timeout(left);
        }
        Ok(Held { lane })
    }

    /// Leaves the queue, unless the lane was handed over at the last moment.
    fn give_up(lane: Arc<Lane>, waiter: &Arc<Waiter>, workspace: &str, waited: Duration) -> Result<Held> {
        let mut queue = locked(&lane.queue);
        if waiter.granted.load(Ordering::Acquire) {
            drop(queue);
            return Ok(Held { lane });
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
