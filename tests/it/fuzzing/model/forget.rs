//! What changes files, or makes another store of this one: erasing, dropping history, backups, embedding anew.

use std::sync::Arc;

use mnemolog::codec::delta::HandleKind;
use mnemolog::disk::{Disk, Tear};
use mnemolog::{EmbedError, Error, Frame, Reembedded, Store};

use super::super::super::model::{self, Ending, Held, Telling, WORKSPACES, What, anew};
use super::super::input::Input;
use super::super::look;
use super::World;

impl World<'_, '_> {
    /// One of these. Answers whether the store goes on.
    pub(super) fn forget(&mut self, writer: &Store, choice: u64) -> bool {
        match choice / 4 {
            0 => self.erase(writer),
            1 => self.compact(writer),
            2 => self.backup(writer),
            _ => self.reembed(writer),
        }
    }

    /// All who have the store open look again, and so see what was erased. Answers whether they could.
    pub(super) fn all_look(&self, all: &[Option<&Store>]) -> bool {
        let failed = all.iter().flatten().find_map(|store| store.refresh().err());
        if let Some(e) = &failed {
            assert!(self.faulty, "no fault was planned: {e}");
        }
        failed.is_none()
    }

    /// A call failed. Answers whether the store goes on: it does if the disk was full, and nothing was changed.
    fn failed(&self, e: &Error) -> bool {
        assert!(self.faulty, "no fault was planned: {e}");
        matches!(e, Error::DiskFull { .. })
    }

    fn erase(&mut self, writer: &Store) -> bool {
        let at = self.input.place(WORKSPACES.len());
        let Some(what) = what(self.input) else { return true };
        // What others appended, and the writer has not seen, goes too.
        let gone = self.disk.undisturbed(|| what.of(&look::open_read_only(&self.disk).ok()?, at));
        let Some(gone) = gone else { return true };
        match what.take(writer, at) {
            Ok(_) => {
                self.states.iter_mut().for_each(|state| gone.leave(state));
                assert_eq!(writer.appended().0, self.states.len() as u64 - 1, "erasing writes no frame");
                assert!(
                    !self.disk.undisturbed(|| gone.is_shown(writer)),
                    "what was erased is shown: {what:?}"
                );
                self.acknowledged = writer.appended();
                true
            }
            Err(e) => {
                let goes_on = self.failed(&e);
                self.erasing = Some(gone).filter(|_| !goes_on);
                goes_on
            }
        }
    }

    /// Somebody has opened the store again, and finished what was stated.
    pub(super) fn settle_erasing(&mut self, store: &Store) {
        let Some(gone) = self.erasing.take() else { return };
        if !gone.is_shown(store) {
            self.states.iter_mut().for_each(|state| gone.leave(state));
        }
    }

    fn compact(&mut self, writer: &Store) -> bool {
        let before = Frame(self.input.below(writer.appended().0 + 2));
        let oldest = before.previous();
        self.bases.insert(oldest);
        self.oldest = self.oldest.max(oldest);
        match writer.compact(before, false) {
            Ok(done) => {
                assert_eq!(writer.appended().0, self.states.len() as u64 - 1, "compacting writes no frame");
                assert!(done.oldest >= oldest && self.bases.contains(&done.oldest), "{done:?}");
                true
            }
            Err(e) => self.failed(&e),
        }
    }

    fn backup(&mut self, writer: &Store) -> bool {
        let crash = self.input.chance(2).then(|| self.input.below(70));
        if let Some(call) = crash {
            self.copy.0.crash_at(call);
        }
        let made = writer.backup_on(&(Arc::new(self.copy.0.clone()) as Arc<dyn Disk>));
        if crash.is_some() {
            let input = &mut *self.input;
            self.copy.0.power_loss(&mut |n| input.below(n), Tear::Sector);
        }
        let told = made.as_ref().ok().map(|made| made.frame);
        self.look_at_the_copy(told);
        match made {
            Ok(made) => {
                self.acknowledged = self.acknowledged.max(made.frame);
                true
            }
            Err(Error::Poisoned { .. } | Error::OutcomeUnknown { .. }) if self.faulty => false,
            Err(e) => {
                assert!(self.faulty || crash.is_some(), "no fault was planned: {e}");
                true
            }
        }
    }

    /// A backup is the store as of the frame that was told, otherwise as of the one before or of a newer one.
    fn look_at_the_copy(&mut self, told: Option<Frame>) {
        let before = self.copy.1;
        let copy = match look::open_read_only(&self.copy.0) {
            Err(Error::NoSuchStore { .. }) if before == Frame::ZERO => return,
            copy => copy.expect("a backup opens"),
        };
        let frame = copy.appended();
        assert!(copy.recovery().damage.is_none(), "a backup is whole");
        assert!(frame >= before && told.is_none_or(|told| told == frame), "{before}, {told:?}, {frame}");
        assert!(frame.0 < self.states.len() as u64, "a backup of a frame that was never written");
        if told.is_some() {
            assert_eq!(model::held(&copy), self.states[frame.0 as usize], "a backup of {frame}");
        }
        assert!(mnemolog::log::verify(&self.copy.0).expect("readable").is_whole(), "a backup verifies");
        self.copy.1 = frame;
    }

    fn reembed(&mut self, writer: &Store) -> bool {
        let (at, dim) = (self.input.place(WORKSPACES.len()), self.input.pick(&[2, 3, 5]));
        let fails = self.input.below(8) as usize;
        let step = self.input.chance(3).then(|| super::step(self.input));
        if let Err(e) = writer.refresh() {
            return self.failed(&e);
        }
        let embedder = Telling::which(dim);
        let mut seen = self.now(at);
        let texts = seen.missing(embedder).len();
        let has_it = seen.embedder == Some(embedder);
        let (mut wrote, mut goes_on, mut refused) = (false, true, false);
        let done = {
            let telling = Telling::new(
                dim,
                Box::new(|call| {
                    if call > 0 {
                        self.save_anew(writer, at, embedder, &seen);
                        seen = self.now(at);
                    }
                    if let Some(step) = step.as_ref().filter(|_| call == 0) {
                        goes_on = self.write(writer, step);
                        wrote = true;
                    }
                    refused |= fails == call + 2 || fails == call + 5;
                    match fails {
                        n if n == call + 2 => Err(EmbedError::new("the service is overloaded")),
                        n if n == call + 5 => Ok(Ending::TooFew),
                        _ => Ok(Ending::Vectors),
                    }
                }),
            );
            let table = writer.workspace(WORKSPACES[at]).and_then(|at| at.vectors("rows"));
            table.and_then(|table| table.reembed(&telling, &mut |_| {}))
        };
        assert!(refused || !matches!(done, Err(Error::Embedding(_))), "no embedder failed: {done:?}");
        if let Ok(done) = &done {
            assert!(wrote || has_it || done.embedded == texts, "{texts} texts to embed: {done:?}");
            assert_eq!(done.switched, !has_it, "{done:?}");
        }
        let now = self.now(at);
        let frames = match has_it {
            true => now.shadow.is_some().then_some(Held { shadow: None, ..now }).into_iter().collect(),
            false => anew(&seen, &now, embedder, false).frames,
        };
        self.embedded(writer, at, frames, done) && goes_on
    }

    /// What a workspace holds by now.
    fn now(&self, at: usize) -> Held {
        self.states.last().expect("a first state")[at].clone()
    }

    fn push(&mut self, at: usize, held: Held) {
        let mut next = self.states.last().expect("a first state").clone();
        next[at] = held;
        self.states.push(next);
    }

    /// The vectors of a round were saved before the next one began.
    fn save_anew(&mut self, writer: &Store, at: usize, embedder: u32, seen: &Held) {
        let mut now = self.now(at);
        now.save_anew(embedder, seen.missing(embedder));
        self.push(at, now);
        assert_eq!(writer.appended().0, self.states.len() as u64 - 1, "a round is one frame");
    }

    /// The table was switched over, or some of the frames that lead there were written. Answers whether the store goes on.
    fn embedded(
        &mut self,
        writer: &Store,
        at: usize,
        frames: Vec<Held>,
        done: Result<Reembedded, Error>,
    ) -> bool {
        match done {
            Ok(_) => {
                frames.into_iter().for_each(|held| self.push(at, held));
                assert_eq!(writer.appended().0, self.states.len() as u64 - 1, "each frame is known");
                self.acknowledged = self.acknowledged.max(writer.durable());
                true
            }
            // Nothing is written after the embedder failed.
            Err(Error::Embedding(_)) => true,
            Err(e) => {
                let goes_on = self.failed(&e);
                let written = (writer.appended().0 + 1).saturating_sub(self.states.len() as u64) as usize;
                let kept = if goes_on { written } else { frames.len() };
                frames.into_iter().take(kept).for_each(|held| self.push(at, held));
                self.acknowledged = self.acknowledged.max(writer.durable());
                goes_on
            }
        }
    }
}

/// What to erase, as the input says; none if that is nothing.
fn what(input: &mut Input<'_>) -> Option<What> {
    let key = input.key().to_owned();
    let kinds = [HandleKind::Notes, HandleKind::Vector, HandleKind::Episodic, HandleKind::Working];
    Some(match input.below(6) {
        0 => What::Note(key),
        1 => What::Row(key),
        2 => What::Episode(key),
        3 => What::Entry(key),
        4 => What::Handle(input.pick(&kinds)),
        _ => What::Containing(Some(input.text(4)).filter(|text| !text.is_empty())?),
    })
}
