//! What is saved beside the log, or apart from it: checkpoints, sound and rotten, and forks. Neither changes an answer.

use std::sync::Arc;

use mnemolog::disk::MemoryDisk;
use mnemolog::{Error, Frame};

use super::history::Kind;
use super::truth::Check;
use super::world::{World, ensure, held};
use crate::model::Rng;

impl World {
    /// A process saves a checkpoint.
    pub(super) fn checkpoint(&mut self, process: usize) -> Check {
        let own = &self.writers[process];
        let (disk, poisoned) = (own.disk.clone(), own.poisoned);
        let calm = !poisoned && self.rotten.is_none() && self.erasing.is_none();
        let Some(store) = own.store.clone().filter(|_| calm) else {
            return Ok(());
        };
        let saved = store.checkpoint();
        self.truth.claimed(store.durable().0)?;
        match saved {
            Ok(frame) => {
                self.counts.met("checkpoints");
                self.truth.found(store.appended().0, &|| held(&disk, &store), false)?;
                ensure!(frame <= store.durable(), "a checkpoint of frame {frame}, which is not durable");
                Ok(())
            }
            Err(e) => {
                self.writers[process].poisoned |=
                    matches!(e, Error::Poisoned { .. } | Error::OutcomeUnknown { .. });
                self.excuse(&e, disk.is_alive(), "saving a checkpoint")
            }
        }
    }

    /// A process drops the history before a frame that it has seen.
    pub(super) fn compact(&mut self, process: usize, at: u64) -> Check {
        let own = &self.writers[process];
        let (disk, poisoned) = (own.disk.clone(), own.poisoned);
        let calm = !poisoned && self.rotten.is_none() && self.erasing.is_none();
        let Some(store) = own.store.clone().filter(|_| calm) else {
            return Ok(());
        };
        let before = Frame(at % (store.appended().0 + 2));
        // Behind lost frames the history begins with them.
        let mut oldest = before.0.saturating_sub(1);
        while self.truth.gone.contains(&oldest) {
            oldest -= 1;
        }
        self.truth.bases.insert(oldest);
        self.truth.oldest = self.truth.oldest.max(oldest);
        let done = store.compact(before, false);
        self.note_faults();
        match done {
            Ok(done) => {
                self.counts.met(if done.done { "compactions" } else { "compactions with nothing to drop" });
                self.truth.found(store.appended().0, &|| held(&disk, &store), true)?;
                self.truth.claimed(store.durable().0)?;
                ensure!(done.oldest.0 >= oldest, "{done:?}: the oldest was to be {oldest}");
                ensure!(self.truth.bases.contains(&done.oldest.0), "nobody asked for {done:?}");
                let gone = oldest == 0 || matches!(store.at(Frame(0)), Err(Error::Compacted { .. }));
                ensure!(gone, "frame 0 is there behind a base");
                Ok(())
            }
            Err(e) => {
                self.writers[process].poisoned |=
                    matches!(e, Error::Poisoned { .. } | Error::OutcomeUnknown { .. });
                // A body that a fault kept from being read is told as a corrupt one.
                let read = self.fired && matches!(e, Error::Corrupt { .. });
                if read { Ok(()) } else { self.excuse(&e, disk.is_alive(), "compacting") }
            }
        }
    }

    /// A bit of a checkpoint flips.
    pub(super) fn spoil(&mut self, seed: u64) {
        let mut rng = Rng::new(seed);
        let saved = |path: &String| path.starts_with("checkpoints/");
        let paths: Vec<String> = self.disk.files().into_iter().filter(saved).collect();
        if paths.is_empty() {
            return;
        }
        let path = &paths[rng.below(paths.len() as u64) as usize];
        let len = self.disk.read_file(path).map_or(0, |bytes| bytes.len() as u64);
        if len > 0 && self.disk.flip(path, rng.below(len), rng.below(8) as u8).is_ok() {
            self.counts.met("checkpoints spoiled");
        }
    }

    /// Bytes of the log will rot: who goes on from a checkpoint would not read them.
    pub(super) fn forget_checkpoints(&self) {
        for path in self.disk.files().into_iter().filter(|path| path.starts_with("checkpoints/")) {
            self.disk.remove_file(&path).expect("it is there");
        }
    }

    /// A process makes another store as of a frame, and that one opens and takes a write.
    pub(super) fn fork(&mut self, process: usize, at: u64) -> Check {
        let own = &self.writers[process];
        let (disk, poisoned) = (own.disk.clone(), own.poisoned);
        // While an erasure is in doubt, nobody can say what the fork is to hold.
        let calm = !poisoned && self.rotten.is_none() && self.erasing.is_none();
        let Some(store) = own.store.clone().filter(|_| calm) else { return Ok(()) };
        let (last, oldest) = (store.appended().0, self.truth.oldest.min(store.appended().0));
        let frame = oldest + at % (last - oldest + 1);
        let target = MemoryDisk::seeded(at);
        let forked =
            store.fork_on(&(Arc::new(target.clone()) as Arc<dyn mnemolog::disk::Disk>), Frame(frame));
        self.truth.claimed(store.durable().0)?;
        match forked {
            Ok(_) => {
                self.counts.met("forks");
                let fork = self.options(Kind::One).open_on(Arc::new(target.clone()));
                let fork = fork.map_err(|e| format!("a fork does not open: {e}"))?;
                ensure!(fork.id() != store.id(), "a fork is another store");
                ensure!(fork.appended().0 == frame, "a fork of {frame} ends at {}", fork.appended());
                let differs = self
                    .truth
                    .state(frame)
                    .is_some_and(|state| held(&target, &fork) != Some((**state).clone()));
                ensure!(!differs, "a fork of frame {frame} holds something else");
                let done = fork.root().notes().remember("apart", "", "");
                ensure!(done.is_ok(), "a fork takes no write");
                Ok(())
            }
            Err(Error::Lost { .. }) if self.truth.gone.contains(&frame) => Ok(()),
            Err(e) => {
                self.writers[process].poisoned |=
                    matches!(e, Error::Poisoned { .. } | Error::OutcomeUnknown { .. });
                self.excuse(&e, disk.is_alive(), "forking")
            }
        }
    }
}
