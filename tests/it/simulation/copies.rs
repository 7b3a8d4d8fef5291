//! Backups: a store elsewhere that is brought up to date again and again, also by who dies in the middle of it.

use std::sync::Arc;

use mnemolog::disk::{Disk, Tear};
use mnemolog::{Error, Frame, log};

use super::truth::Check;
use super::world::{World, ensure, held};
use crate::model::Rng;

impl World {
    /// A process brings the backup up to date; the backup's machine may go down meanwhile.
    pub(super) fn backup(&mut self, process: usize, seed: u64) -> Check {
        let own = &self.writers[process];
        let (disk, poisoned) = (own.disk.clone(), own.poisoned);
        // After a repair the store has frames of its own where the backup has the lost ones. Whether an erasure was done
        // must be known before anybody can say what the backup is to hold.
        let calm = !poisoned && self.rotten.is_none() && self.truth.gone.is_empty() && self.erasing.is_none();
        let Some(store) = own.store.clone().filter(|_| calm) else { return Ok(()) };
        let mut rng = Rng::new(seed);
        let crash = rng.chance(2).then(|| rng.below(70));
        if let Some(call) = crash {
            self.copy.0.crash_at(call);
        }
        let made = store.backup_on(&(Arc::new(self.copy.0.clone()) as Arc<dyn Disk>));
        self.note_faults();
        if crash.is_some() {
            let tear = [Tear::Sector, Tear::Byte, Tear::Mix][rng.below(3) as usize];
            self.copy.0.power_loss(&mut |n| rng.below(n), tear);
        }
        self.truth.claimed(store.durable().0)?;
        let before = self.copy.1;
        match made {
            Ok(made) => {
                self.counts.met("backups");
                self.counts.add("backups of what had grown", u64::from(before > 0 && made.copied_files > 0));
                self.truth.claimed(made.frame.0)?;
                ensure!(made.frame.0 >= before, "a backup went back from {before} to {}", made.frame);
                self.copy.1 = made.frame.0;
                self.look_at_the_copy(before, Some(made.frame.0))
            }
            Err(e) => {
                self.counts.met("backups that failed");
                let stopped = matches!(e, Error::Poisoned { .. } | Error::OutcomeUnknown { .. });
                self.writers[process].poisoned |= stopped;
                if stopped || crash.is_none() {
                    self.excuse(&e, disk.is_alive(), "backing up")?;
                }
                self.look_at_the_copy(before, None)
            }
        }
    }

    /// The backup is the store as of the frame that was told, otherwise as of the one before or of a newer one.
    fn look_at_the_copy(&mut self, before: u64, told: Option<u64>) -> Check {
        let copy =
            match self.options(super::history::Kind::One).open_read_only_on(Arc::new(self.copy.0.clone())) {
                Ok(copy) => copy,
                Err(Error::NoSuchStore { .. }) if self.copy.1 == 0 => return Ok(()),
                Err(e) => return Err(format!("a backup does not open: {e}")),
            };
        ensure!(copy.recovery().damage.is_none(), "a backup is damaged: {:?}", copy.recovery());
        let frame = copy.appended().0;
        ensure!(told.is_none_or(|told| told == frame), "a backup of {told:?} ends at {frame}");
        ensure!(frame >= before, "a backup of {before} ends at {frame}");
        self.truth.claimed(frame)?;
        // One that was not brought up to date still holds what was erased since.
        let differs = told.is_some()
            && self
                .truth
                .state(frame)
                .is_some_and(|state| held(&self.copy.0, &copy) != Some((**state).clone()));
        ensure!(!differs, "a backup of frame {frame} holds something else");
        let whole = log::verify(&self.copy.0).map_err(|e| e.to_string())?.is_whole();
        ensure!(whole, "a backup of {} does not verify", Frame(frame));
        self.copy.1 = frame;
        Ok(())
    }
}
