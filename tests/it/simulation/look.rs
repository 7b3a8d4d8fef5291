//! Who looks back, and who follows: pasts, and tails of durable frames.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mnemolog::{Error, Frame, TailEvent};

use super::history::Kind;
use super::truth::Check;
use super::world::{World, ensure, held};
use crate::model;

/// What a reader saw in the middle of a sync.
type Peeked = Arc<Mutex<Option<(Frame, model::Model)>>>;

impl World {
    pub(super) fn past(&mut self, process: usize, at: u64) -> Check {
        let own = &self.writers[process];
        let Some(store) = own.store.clone().filter(|_| !own.poisoned) else { return Ok(()) };
        let frame = at % (store.appended().0 + 1);
        let past = store.at(Frame(frame));
        // It may have died in a call that a past can do without.
        let alive = self.writers[process].disk.is_alive();
        let held = past.map(|past| alive.then(|| self.disk.undisturbed(|| model::held_at(&past))));
        self.note_faults();
        match held {
            Ok(None) => Ok(()),
            Ok(_) if self.fired => Ok(()),
            Ok(Some(held)) => {
                self.counts.met("looks into the past");
                let differs = self.truth.state(frame).is_some_and(|state| **state != held);
                ensure!(!self.truth.gone.contains(&frame), "frame {frame} is lost, and shown");
                ensure!(!differs, "frame {frame} was something else in the past");
                Ok(())
            }
            Err(Error::Lost { .. }) if self.truth.gone.contains(&frame) => Ok(()),
            Err(Error::Compacted { oldest }) if frame < oldest.0 && self.truth.bases.contains(&oldest.0) => {
                Ok(())
            }
            Err(e) => {
                let alive = self.writers[process].disk.is_alive();
                self.excuse(&e, alive, "looking into the past")
            }
        }
    }

    /// One of many writers looks at what the others wrote.
    pub(super) fn look(&mut self, process: usize) -> Check {
        let own = &self.writers[process];
        let many = own.kind == Kind::Many && !own.poisoned;
        let calm = many && self.rotten.is_none() && self.erasing.is_none();
        let Some(store) = own.store.clone().filter(|_| calm) else { return Ok(()) };
        self.counts.met("looks of a writer");
        self.catches_up(process, &store).map(drop)
    }

    /// Whether a writer that looked and ends at a frame has seen all there is. Beside the only writer nobody can tell
    /// what becomes of that one's frames above the promise, and whoever cannot mend what stands there shows the promise.
    pub(super) fn is_all(&mut self, last: Frame) -> bool {
        self.note_faults();
        !self.disk.is_locked() && last.0 >= self.truth.last() && !self.fired && !self.full
    }

    pub(super) fn arm_peek(&mut self, writes: usize) -> Option<Peeked> {
        let who = self.peek.take()?;
        let reader = match self.readers.get(who) {
            Some(reader) => reader,
            None => {
                let many = |at: &usize| *at != writes && self.writers[*at].kind == Kind::Many;
                self.writers.get(Some(who - self.readers.len()).filter(many)?)?
            }
        };
        // The reader's own: it may die at this look while the machine goes on.
        let disk = reader.disk.clone();
        let reader = reader.store.clone().filter(|_| !reader.poisoned)?;
        let seen = Arc::new(Mutex::new(None));
        let shared = seen.clone();
        self.disk.meanwhile(0, move || {
            if let Ok(last) = reader.refresh()
                && reader.recovery().damage.is_none()
            {
                *shared.lock().expect("one thread") = held(&disk, &reader).map(|held| (last, held));
            }
        });
        Some(seen)
    }

    pub(super) fn check_peek(&mut self, peeked: Option<Peeked>) -> Check {
        let seen = peeked.and_then(|seen| seen.lock().ok()?.take());
        // A read that a fault met shows an error in the place of a body.
        let Some((last, held)) = seen.filter(|_| !self.fired && self.disk.is_alive()) else { return Ok(()) };
        self.counts.met("reader in the middle of a sync");
        let differs = self.truth.state(last.0).is_some_and(|state| **state != held);
        ensure!(!differs, "in the middle of a sync a reader saw another frame {last}");
        Ok(())
    }

    /// Somebody follows the log from a frame on. What is told is durable, and never told otherwise.
    pub(super) fn tail(&mut self, reader: usize, from: u64) -> Check {
        let own = if reader.is_multiple_of(2) { &self.readers[reader / 2] } else { &self.writers[0] };
        let (disk, poisoned) = (own.disk.clone(), own.poisoned);
        // After a failed sync, what was seen and not durable may leave the cache.
        let calm = !poisoned && !self.told && self.rotten.is_none() && self.erasing.is_none();
        let Some(store) = own.store.clone().filter(|_| calm) else {
            return Ok(());
        };
        let last = store.appended().0.min(self.truth.durable);
        let oldest = self.truth.oldest;
        // What it has seen so far may be dropped by the time it looks again.
        if oldest > last {
            return Ok(());
        }
        let from = Frame(oldest + from % (last - oldest + 1));
        let mut tail = match store.tail(from) {
            Ok(tail) => tail,
            Err(e) => return self.excuse(&e, disk.is_alive(), "beginning a tail"),
        };
        loop {
            let behind = tail.seen();
            match tail.next_within(Duration::ZERO) {
                Ok(Some(event)) => self.told(behind, &event)?,
                Ok(None) => return Ok(()),
                // The reader had not seen yet that the log begins later.
                Err(Error::Compacted { oldest })
                    if behind < oldest && self.truth.bases.contains(&oldest.0) =>
                {
                    return Ok(());
                }
                Err(e) => return self.excuse(&e, disk.is_alive(), "following a tail"),
            }
        }
    }

    fn told(&mut self, behind: Frame, event: &TailEvent) -> Check {
        self.counts.met("told by a tail");
        let last = event.last();
        self.truth.claimed(last.0)?;
        let TailEvent::Frame(frame) = event else {
            ensure!(self.truth.gone.contains(&last.0), "a tail calls frame {last} lost");
            return Ok(());
        };
        ensure!(Some(last) == behind.next(), "a tail tells of frame {last} behind {behind}");
        let mut text = Vec::new();
        for line in frame.lines() {
            line.write_to(&mut text).map_err(|e| e.to_string())?;
        }
        let before = self.lines.entry(last.0).or_insert_with(|| text.clone());
        ensure!(*before == text, "a tail tells something else of frame {last}");
        Ok(())
    }
}
