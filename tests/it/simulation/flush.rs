//! Making durable what was appended, while others append.

use std::sync::{Arc, Mutex};

use mnemolog::Error;

use super::history::Kind;
use super::truth::Check;
use super::world::{World, held};
use crate::model::{Step, WORKSPACES};

impl World {
    /// A process makes everything durable. If it is the only one, another thread of it appends meanwhile.
    pub(super) fn flush(&mut self, process: usize, meanwhile: &[String]) -> Check {
        let Some(store) = self.writers[process].store.clone().filter(|_| !self.writers[process].poisoned)
        else {
            return Ok(());
        };
        let alone = self.writers[process].kind == Kind::Os && self.has_room();
        let results = Arc::new(Mutex::new(Vec::new()));
        if alone {
            let (store, results, bodies) = (store.clone(), results.clone(), meanwhile.to_vec());
            let disk = self.writers[process].disk.clone();
            self.disk.meanwhile(0, move || {
                for body in bodies {
                    let step = Step::Remember("meanwhile".to_owned(), String::new(), body);
                    let done = store.workspace(WORKSPACES[0]).and_then(|workspace| step.take(&workspace));
                    let seen = (store.appended(), held(&disk, &store));
                    results.lock().expect("one thread").push((step, done, seen));
                }
            });
        }
        let before = store.appended();
        let flushed = store.flush();
        self.disk.meanwhile(u64::MAX, || ());
        for (step, done, (last, held)) in std::mem::take(&mut *results.lock().expect("one thread")) {
            match done {
                Ok(()) => self.truth.wrote(0, &step, last.0, &|| held.clone())?,
                Err(e) => self.failed(process, &e, 0, &step)?,
            }
            self.counts.met("appended while a sync was under way");
        }
        match flushed {
            Ok(()) => {
                self.counts.met("flushed");
                if self.writers[process].kind != Kind::Many {
                    self.truth.claimed(before.0)?;
                }
                self.truth.claimed(store.durable().0)
            }
            Err(e) => {
                let alive = self.writers[process].disk.is_alive();
                self.writers[process].poisoned |=
                    matches!(e, Error::Poisoned { .. } | Error::OutcomeUnknown { .. });
                self.excuse(&e, alive, "flushing")
            }
        }
    }

    /// Whether small frames fit without a rotation, which would wait for the sync.
    fn has_room(&self) -> bool {
        let last = self.disk.files().into_iter().rfind(|path| path.ends_with(".seg"));
        let bytes = last.and_then(|path| self.disk.read_file(&path)).unwrap_or_default();
        bytes.iter().rposition(|byte| *byte != 0).unwrap_or_default() < 13 * 1024
    }
}
