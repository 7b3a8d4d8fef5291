//! Erasing, with everything that can come between. Whether an erasure happened that nobody was told of, is seen in what
//! the next writer shows of the past.

use std::sync::Arc;

use mnemolog::{Error, Store};

use super::history::Kind;
use super::truth::Check;
use super::world::{World, ensure, held};
use crate::model::{Gone, Held, What};

impl World {
    /// A process erases something.
    pub(super) fn erase(&mut self, process: usize, at: usize, what: &What) -> Check {
        let Some(store) = self.store(process)? else { return Ok(()) };
        if self.writers[process].poisoned {
            return self.refused(process, &store);
        }
        // What a repair left of an embedding anew is rows that nobody can tell from each other.
        let is_unknown = |held: &Held| held.shadow.as_ref().is_some_and(|shadow| !shadow.is_known());
        let unknown = self.truth.now().is_some_and(|now| now.iter().any(is_unknown));
        if self.rotten.is_some() || self.scarred || unknown {
            return Ok(());
        }
        let Some(gone) = self.what_goes(&store, at, what) else { return Ok(()) };
        let done = what.take(&store, at);
        let disk = self.writers[process].disk.clone();
        match done {
            Ok(receipt) => {
                self.counts.met(if receipt.found() { "erased" } else { "erasures that found nothing" });
                self.counts.add(&format!("erased {}", what.kind()), u64::from(receipt.found()));
                self.erased(&gone);
                self.truth.found(store.appended().0, &|| held(&disk, &store), true)?;
                self.truth.claimed(store.appended().0)?;
                let shown = || disk.undisturbed(|| gone.is_shown(&store));
                ensure!(!disk.is_alive() || self.fired || !shown(), "what was erased is shown");
                self.others_look(Some(process))
            }
            Err(e) => {
                let alive = disk.is_alive();
                if !alive || matches!(e, Error::Poisoned { .. }) {
                    self.writers[process].poisoned |= alive;
                    self.erasing = Some(gone);
                }
                self.truth.claimed(store.durable().0)?;
                self.excuse(&e, alive, "erasing")
            }
        }
    }

    /// What an erasure will take. A text is looked for in what a reader finds, who sees what others appended meanwhile.
    fn what_goes(&self, store: &Store, at: usize, what: &What) -> Option<Gone> {
        if !what.is_text() {
            return what.of(store, at);
        }
        let process = self.disk.process();
        let gone = self.disk.undisturbed(|| {
            let reader = self.options(Kind::Many).open_read_only_on(Arc::new(process.clone())).ok()?;
            what.of(&reader, at)
        });
        process.kill();
        gone
    }

    /// A writer that has the store open looks, if an erasure is in doubt: it finishes what was stated.
    pub(super) fn look_after_erasing(&mut self, process: usize) -> Check {
        let own = &self.writers[process];
        let in_doubt = self.erasing.is_some() && !own.poisoned;
        let Some(store) = own.store.clone().filter(|_| in_doubt) else { return Ok(()) };
        match store.refresh() {
            Ok(last) if self.is_all(last) => self.settle_erasing(process, &store),
            // It does not see all there is, and what it does not show may be there.
            Ok(_) => Ok(()),
            Err(e) => {
                self.writers[process].store = None;
                let alive = self.writers[process].disk.is_alive();
                self.excuse(&e, alive, "looking after an erasure")
            }
        }
    }

    /// A writer has looked: an erasure that it would have finished has happened, or not.
    pub(super) fn settle_erasing(&mut self, process: usize, store: &Store) -> Check {
        let Some(gone) = self.erasing.take() else { return Ok(()) };
        if self.disk.undisturbed(|| gone.is_shown(store)) {
            self.counts.met("erasures of unknown outcome, not done");
            return Ok(());
        }
        self.counts.met("erasures of unknown outcome, done");
        self.erased(&gone);
        self.others_look(Some(process))
    }

    fn erased(&mut self, gone: &Gone) {
        self.truth.erase(gone);
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
