//! Embedding a table anew, with whatever can come while the embedder is at work: the old vectors until the switch, and
//! what was saved by then is not embedded again.

use mnemolog::{EmbedError, Embedder, Error, Reembedded, Result, Store, StubEmbedder};

use super::history::{Action, Kind, Within};
use super::truth::Check;
use super::world::{World, ensure, held};
use crate::model::{Ending, Held, Telling, WORKSPACES, anew};

/// An embedding anew that was interrupted.
#[derive(Clone, Debug)]
pub(super) struct Embedding {
    at: usize,
    embedder: u32,
    /// The last frame before what is in doubt.
    last: u64,
}

/// What is known of an embedding anew while it is under way.
struct Work<'w> {
    world: &'w mut World,
    process: usize,
    at: usize,
    embedder: u32,
    within: &'w [Within],
    store: Store,
    /// What the process saw when it began to embed.
    seen: Held,
    /// Files may have been replaced meanwhile.
    replaced: bool,
    calls: usize,
    failed: bool,
    check: Check,
}

impl World {
    /// A process embeds a table anew.
    pub(super) fn reembed(&mut self, process: usize, at: usize, dim: usize, within: &[Within]) -> Check {
        let Some(store) = self.store(process)? else { return Ok(()) };
        if self.writers[process].poisoned {
            return self.refused(process, &store);
        }
        if self.rotten.is_some() || !self.catches_up(process, &store)? {
            return Ok(());
        }
        let Some(seen) = self.truth.now().map(|now| now[at].clone()) else { return Ok(()) };
        let embedder = Telling::which(dim);
        if seen.embedder == Some(embedder) || seen.shadow.as_ref().is_some_and(|shadow| !shadow.is_known()) {
            return self.abandon(process, at, &store, dim);
        }
        let resumes = seen.shadow.as_ref().is_some_and(|shadow| shadow.is_of(embedder));
        let exact = within.iter().all(|within| !matches!(within, Within::Act(_)));
        let texts = seen.missing(embedder).len();
        let (replaced, calls, failed, check) = (false, 0, false, Ok(()));
        let mut work =
            Work { world: self, process, at, embedder, within, store, seen, replaced, calls, failed, check };
        let done = work.run(dim);
        work.check.clone()?;
        match done {
            Ok(done) => {
                work.switched(&done)?;
                ensure!(!exact || done.embedded == texts, "{texts} texts are to be embedded: {done:?}");
                let counts = &mut work.world.counts;
                counts.met("embedded anew");
                counts.add("embedded anew, going on", u64::from(resumes));
                counts.add("embedded anew, with nothing left to embed", u64::from(resumes && texts == 0));
                Ok(())
            }
            Err(e) => work.interrupted(&e),
        }
    }

    /// Sees what others wrote. Answers whether it sees all there is.
    pub(super) fn catches_up(&mut self, process: usize, store: &Store) -> Check<bool> {
        let disk = self.writers[process].disk.clone();
        match store.refresh() {
            Ok(last) if disk.is_alive() => {
                if self.is_all(last) {
                    return self.truth.found(last.0, &|| held(&disk, store), true).map(|()| true);
                }
                ensure!(last.0 >= self.truth.durable, "frame {last} is the last that a writer sees");
                let held = held(&disk, store);
                let differs = self.truth.state(last.0).zip(held).is_some_and(|(is, held)| **is != held);
                ensure!(!differs, "a writer looks, and frame {last} holds something else");
                Ok(false)
            }
            Ok(_) => Ok(false),
            Err(e) => {
                self.writers[process].store = None;
                self.excuse(&e, disk.is_alive(), "catching up").map(|()| false)
            }
        }
    }

    /// A process that has this embedder's vectors, or of which nobody knows what it has of them, forgets what was embedded.
    fn abandon(&mut self, process: usize, at: usize, store: &Store, dim: usize) -> Check {
        let disk = self.writers[process].disk.clone();
        let table = store.workspace(WORKSPACES[at]).and_then(|at| at.vectors("rows"));
        let table = table.map_err(|e| e.to_string())?;
        let has_it = self.truth.now().is_some_and(|now| now[at].embedder == Some(Telling::which(dim)));
        let done = match has_it {
            true => table.reembed(&StubEmbedder::with_dim(dim), &mut |_| {}).map(|done| done.switched),
            false => table.abandon_reembed().map(|()| false),
        };
        let abandoned = |held: &Held| match held.shadow {
            Some(_) => vec![Held { shadow: None, ..held.clone() }],
            None => Vec::new(),
        };
        match done {
            Ok(switched) => {
                ensure!(!switched, "a table that has the vectors is switched");
                self.counts.met("embeddings anew that were given up");
                self.truth.grow(at, &|held| vec![abandoned(held)]);
                self.truth.found(store.appended().0, &|| held(&disk, store), true)?;
                self.acknowledged(process, store)
            }
            Err(e) => {
                self.truth.grow(at, &|held| vec![Vec::new(), abandoned(held)]);
                self.stopped(process, store, &e, "giving up an embedding anew")
            }
        }
    }

    fn acknowledged(&mut self, process: usize, store: &Store) -> Check {
        let os = self.writers[process].kind == Kind::Os;
        self.truth.claimed(if os { store.durable().0 } else { store.appended().0 })
    }

    fn stopped(&mut self, process: usize, store: &Store, e: &Error, doing: &str) -> Check {
        let own = &mut self.writers[process];
        let stopped = matches!(e, Error::Poisoned { .. } | Error::OutcomeUnknown { .. });
        own.poisoned |= own.store.is_some() && stopped;
        let alive = own.disk.is_alive();
        self.truth.claimed(store.durable().0)?;
        self.excuse(e, alive, doing)
    }

    /// Somebody has looked: an embedding anew that was interrupted had come so far.
    pub(super) fn settle_embedding(&mut self) {
        let Some(now) = self.truth.now().filter(|_| self.truth.is_known()).cloned() else { return };
        let Some(Embedding { at, embedder, last }) = self.embedding.take() else { return };
        let partly = now[at].shadow.as_ref().is_some_and(|shadow| shadow.is_of(embedder));
        if self.truth.last() <= last {
            self.counts.met("embeddings anew that were interrupted, not begun");
        } else if now[at].embedder == Some(embedder) {
            self.counts.met("embeddings anew that were interrupted, switched");
        } else if partly {
            self.counts.met("embeddings anew that were interrupted, in part");
        }
    }
}

impl Work<'_> {
    fn run(&mut self, dim: usize) -> Result<Reembedded> {
        let table = self.store.workspace(WORKSPACES[self.at])?.vectors("rows")?;
        let telling = Telling::new(dim, Box::new(|call| self.asked(call)));
        table.reembed(&telling, &mut |_| {})
    }

    /// The embedder is asked once more.
    fn asked(&mut self, call: usize) -> Result<Ending, EmbedError> {
        self.calls += 1;
        let checked = self.before(call).and_then(|()| match self.within.get(call) {
            Some(Within::Act(action)) => {
                let befalls =
                    matches!(action, Action::Stop { .. } | Action::Down { .. } | Action::Fail { .. });
                self.replaced = matches!(action, Action::Erase { .. } | Action::Compact { .. });
                self.world.counts.add("acted while a table was embedded anew", u64::from(!befalls));
                self.world.embeds = Some(self.process);
                let taken = self.world.take(action);
                self.world.embeds = None;
                // Before the switch gives the table anew what an erasure of it may have taken.
                taken.and_then(|()| self.world.look_after_erasing(self.process))
            }
            _ => Ok(()),
        });
        self.failed = matches!(self.within.get(call), Some(Within::Fails));
        if let Err(what) = checked {
            self.check = Err(format!("while a table is embedded anew: {what}"));
            self.failed = true;
        }
        if self.failed {
            return Err(EmbedError::new("the service is overloaded"));
        }
        let too_few = matches!(self.within.get(call), Some(Within::TooFew));
        self.failed = too_few;
        Ok(if too_few { Ending::TooFew } else { Ending::Vectors })
    }

    /// What was embedded at the call before is saved by now, and the table is still searched by its old vectors.
    fn before(&mut self, call: usize) -> Check {
        if call > 0 {
            let (seen, embedder, lost) = (self.seen.clone(), self.embedder, self.replaced);
            self.world.truth.grow(self.at, &|now| {
                let mut saved = now.clone();
                saved.save_anew(embedder, seen.missing(embedder));
                if lost { vec![Vec::new(), vec![saved]] } else { vec![vec![saved]] }
            });
            self.look()?;
            self.replaced = false;
        }
        let Some(now) = self.world.truth.now() else { return Ok(()) };
        self.seen = now[self.at].clone();
        let disk = self.world.writers[self.process].disk.clone();
        let searched = disk.is_alive().then(|| disk.undisturbed(|| self.search()));
        let expected = (self.seen.embedder, self.seen.rows.len());
        ensure!(
            searched.is_none_or(|searched| searched.as_ref().ok() == Some(&expected)),
            "a search before the switch, {expected:?}"
        );
        self.world.counts.met("searched by the old vectors");
        Ok(())
    }

    /// What the process shows is one of the things that are possible.
    fn look(&mut self) -> Check {
        let (world, store) = (&mut *self.world, &self.store);
        world.look_after_erasing(self.process)?;
        let disk = world.writers[self.process].disk.clone();
        world.truth.found(store.appended().0, &|| held(&disk, store), true)?;
        world.acknowledged(self.process, store)
    }

    /// Which embedder's vectors find how many rows.
    fn search(&self) -> Result<(Option<u32>, usize)> {
        let table = self.store.workspace(WORKSPACES[self.at])?.vectors("rows")?;
        let Some(identity) = table.identity() else { return Ok((None, table.len())) };
        let vector = StubEmbedder::with_dim(identity.dim as usize).embed("fox").unwrap_or_default();
        let hits = table.search_by_vector(&vector, 20)?;
        Ok((Some(Telling::which(identity.dim as usize)), hits.len()))
    }

    /// The table was switched over.
    fn switched(&mut self, done: &Reembedded) -> Check {
        ensure!(done.switched, "not switched: {done:?}");
        let (seen, embedder) = (self.seen.clone(), self.embedder);
        let lost: &[bool] = if self.replaced { &[false, true] } else { &[false] };
        self.world
            .truth
            .grow(self.at, &|now| lost.iter().map(|lost| anew(&seen, now, embedder, *lost).frames).collect());
        self.look()?;
        let rows = self.world.truth.now().map(|now| now[self.at].rows.len());
        ensure!(rows.is_none_or(|rows| rows == done.rows), "{rows:?} rows were switched: {done:?}");
        Ok(())
    }

    /// Embedding anew failed, or the process died, or the machine did: any beginning of it may be there.
    fn interrupted(&mut self, e: &Error) -> Check {
        let world = &mut *self.world;
        if self.failed && matches!(e, Error::Embedding(_)) {
            let partly = self.seen.shadow.as_ref().is_some_and(|shadow| shadow.is_of(self.embedder));
            world.counts.met(if partly { "embedders that failed, in part" } else { "embedders that failed" });
            return Ok(());
        }
        let (seen, embedder) = (self.seen.clone(), self.embedder);
        let lost: &[bool] = if self.replaced { &[false, true] } else { &[false] };
        world.embedding = Some(Embedding { at: self.at, embedder, last: world.truth.last() });
        world.truth.grow(self.at, &|now| {
            let runs = lost.iter().map(|lost| anew(&seen, now, embedder, *lost).frames);
            runs.flat_map(|run| (0..=run.len()).map(move |kept| run[..kept].to_vec())).collect()
        });
        world.counts.met("embeddings anew that were interrupted");
        world.stopped(self.process, &self.store, e, "embedding anew")
    }
}
