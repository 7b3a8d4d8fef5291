//! Erasing, with everything that can come between. Whether an erasure happened that nobody was told of, is seen in what
//! the next writer shows of the past.

use mnemolog::{Error, Frame, Store};

use super::truth::Check;
use super::world::{World, ensure, held};
use crate::model::WORKSPACES;

/// An erasure of which nobody knows whether it happened.
#[derive(Clone, Debug)]
pub(super) struct Erasing {
    at: usize,
    key: String,
    row: bool,
}

impl World {
    /// A process erases a note or a row.
    pub(super) fn erase(&mut self, process: usize, at: usize, key: &str, row: bool) -> Check {
        let Some(store) = self.store(process)? else { return Ok(()) };
        if self.writers[process].poisoned {
            return self.refused(process, &store);
        }
        if self.rotten.is_some() || self.scarred {
            return Ok(());
        }
        let workspace = store.workspace(WORKSPACES[at]).map_err(|e| e.to_string())?;
        let done = match row {
            true => workspace.vectors("rows").and_then(|rows| rows.erase(key)),
            false => workspace.notes().erase(key),
        };
        let disk = self.writers[process].disk.clone();
        let erasing = Erasing { at, key: key.to_owned(), row };
        match done {
            Ok(receipt) => {
                self.counts.met(if receipt.found() { "erased" } else { "erasures that found nothing" });
                self.erased(&erasing);
                self.truth.found(store.appended().0, &|| held(&disk, &store), true)?;
                self.truth.claimed(store.appended().0)?;
                ensure!(self.fired || !shows(&store, &erasing), "what was erased is shown");
                self.others_look(Some(process))
            }
            Err(e) => {
                let alive = disk.is_alive();
                if !alive || matches!(e, Error::Poisoned { .. }) {
                    self.writers[process].poisoned |= alive;
                    self.erasing = Some(erasing);
                }
                self.truth.claimed(store.durable().0)?;
                self.excuse(&e, alive, "erasing")
            }
        }
    }

    /// A writer that has the store open looks, if an erasure is in doubt: it finishes what was stated.
    pub(super) fn look_after_erasing(&mut self, process: usize) -> Check {
        let own = &self.writers[process];
        let in_doubt = self.erasing.is_some() && !own.poisoned;
        let Some(store) = own.store.clone().filter(|_| in_doubt) else { return Ok(()) };
        match store.refresh() {
            Ok(_) => self.settle_erasing(process, &store),
            Err(e) => {
                self.writers[process].store = None;
                let alive = self.writers[process].disk.is_alive();
                self.excuse(&e, alive, "looking after an erasure")
            }
        }
    }

    /// A writer has looked: an erasure that it would have finished has happened, or not.
    pub(super) fn settle_erasing(&mut self, process: usize, store: &Store) -> Check {
        let Some(erasing) = self.erasing.take() else { return Ok(()) };
        if self.disk.undisturbed(|| shows(store, &erasing)) {
            self.counts.met("erasures of unknown outcome, not done");
            return Ok(());
        }
        self.counts.met("erasures of unknown outcome, done");
        self.erased(&erasing);
        self.others_look(Some(process))
    }

    fn erased(&mut self, erasing: &Erasing) {
        self.truth.erase(erasing.at, &erasing.key, erasing.row);
        self.lines.clear();
    }

    /// Who has the store open looks again, or lets it go: what was known before is not what is there.
    fn others_look(&mut self, but: Option<usize>) -> Check {
        for (process, own) in self.writers.iter_mut().enumerate() {
            let fails = |store: &Store| store.refresh().is_err();
            if but != Some(process) && own.store.as_ref().is_some_and(fails) {
                (own.store, own.poisoned) = (None, false);
            }
        }
        for own in &mut self.readers {
            if own.store.as_ref().is_some_and(|store| store.refresh().is_err()) {
                own.store = None;
            }
        }
        // Who died in it while it held the lock must not keep it from whoever looks next.
        if self.disk.is_alive() {
            self.bury_processes();
        }
        Ok(())
    }
}

/// Whether a note or a row is there in any frame that can be looked at.
fn shows(store: &Store, Erasing { at, key, row }: &Erasing) -> bool {
    let holds = |frame| {
        let past = store.at(Frame(frame)).ok()?;
        let workspace = past.workspace(WORKSPACES[*at]).ok()?;
        let held = match row {
            true => workspace.vectors("rows").ok()?.get(key).ok()?.is_some(),
            false => workspace.notes().summaries().iter().any(|(known, _)| known == key),
        };
        Some(held)
    };
    (1..=store.appended().0).any(|frame| holds(frame) == Some(true))
}
