//! The connections: how many there may be, and which one goes when there are too many.
//!
//! Whoever brought the token once is known, and stays. Of those that are not known the oldest makes room for a new one,
//! so that whoever connects and says nothing keeps nobody out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The most connections at a time; a further one waits, if all are known.
pub(super) const CONNECTIONS_MAX: usize = 64;

/// All connections.
pub(super) struct Connections {
    room: Arc<Semaphore>,
    /// Those that are not known, the oldest first, each with what ends it.
    unknown: Mutex<VecDeque<Arc<Notify>>>,
}

/// One connection; dropping it makes room for another.
pub(super) struct Connection {
    all: Arc<Connections>,
    end: Arc<Notify>,
    _room: OwnedSemaphorePermit,
}

impl Connections {
    pub(super) fn new() -> Connections {
        Connections { room: Arc::new(Semaphore::new(CONNECTIONS_MAX)), unknown: Mutex::default() }
    }

    /// Makes room for a connection that came, and waits for it.
    pub(super) async fn admit(self: &Arc<Connections>) -> Option<Connection> {
        if self.room.available_permits() == 0
            && let Some(oldest) = self.unknown().pop_front()
        {
            oldest.notify_one();
        }
        let room = Arc::clone(&self.room).acquire_owned().await.ok()?;
        let end = Arc::new(Notify::new());
        self.unknown().push_back(Arc::clone(&end));
        Some(Connection { all: Arc::clone(self), end, _room: room })
    }

    fn forget(&self, end: &Arc<Notify>) {
        self.unknown().retain(|other| !Arc::ptr_eq(other, end));
    }

    fn unknown(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        // Nothing panics while it is held.
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// It brought the token.
    pub(super) fn is_known(&self) {
        self.all.forget(&self.end);
    }

    /// Waits until it has to make room for another one.
    pub(super) async fn told_to_go(&self) {
        self.end.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.forget(&self.end);
    }
}
