//! The writers' lock in time: for life with one writing process, for a group of commits with many.
//!
//! A group begins when its first member takes the lock and folds what others appended. More threads of this
//! process join until the group's first sync begins, and beside a critical section also later, because the lock
//! stays taken until its end anyway; the lock is free again when the last member has its acknowledgement. So a
//! free lock means a clean log, wholly durable, unless its holder died.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Mark;
use super::catchup::{self, Caught, More};
use super::commit::{Log, Tail, Writers, locked};
use super::recover::{self, Fold, Opening, Writing, lock_error, open_locked};
use crate::disk::{Holder, Lock, LockError};
use crate::error::{Error, Result};
use crate::position::Time;

/// The lock, and who writes under it.
#[derive(Debug)]
pub(super) struct Group {
    writers: Writers,
    lock_wait: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lock: Option<Lock>,
    members: usize,
    /// Threads that wait for a change: without one there is nobody to wake, and that is a call to the system saved.
    waiting: usize,
    /// Members of the beginning that stay for long. Those that joined beside them do not count, so that the group
    /// ends when they do.
    sections: usize,
    /// Set while the first member takes the lock and looks, and from the group's first sync to its end.
    shut: bool,
    /// Set from the end of the first member's look to the end of the group: its members append, and nobody else.
    open: bool,
}

/// Membership in a group: the right to decide, append and sync. With one writing process it is free.
#[derive(Debug)]
pub struct Turn<'l> {
    group: Option<&'l Group>,
    /// Whether it is counted as a section.
    section: bool,
}

/// For how long a member stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// For one commit.
    Commit,
    /// For a critical section or a load, whose length the caller decides.
    Section,
}

/// How a member joined.
struct Joined {
    /// A new group begins with it.
    first: bool,
    section: bool,
    /// What is left of the wait.
    left: Duration,
}

impl Group {
    pub(super) fn new(writers: Writers, lock_wait: Duration, lock: Lock) -> Group {
        let lock = (writers == Writers::One).then_some(lock);
        let state = Mutex::new(State { lock, ..State::default() });
        Group { writers, lock_wait, state, changed: Condvar::new() }
    }

    pub(super) fn holds_for_life(&self) -> bool {
        self.writers == Writers::One
    }

    /// Nobody joins from here on: a sync begins. The next group takes the lock again. Answers whether the lock is
    /// held; it is not where a member left without waiting for its frame.
    pub(super) fn shut(&self) -> bool {
        let mut state = locked(&self.state);
        // Without a member there is no group, and nobody would open it again.
        state.shut |= state.members > 0;
        state.lock.is_some()
    }

    /// Takes the lock out, for opening the log anew under it.
    pub(super) fn take_lock(&self) -> Option<Lock> {
        locked(&self.state).lock.take()
    }

    /// Puts back the lock that was taken out.
    pub(super) fn put_lock(&self, lock: Lock) {
        locked(&self.state).lock = Some(lock);
    }

    /// How long to wait for the lock.
    pub(super) fn lock_wait(&self) -> Duration {
        self.lock_wait
    }

    /// Whether the lock is held now.
    pub(super) fn is_held(&self) -> bool {
        locked(&self.state).lock.is_some()
    }

    /// Whether members of a group may be appending, and nobody else.
    pub(super) fn is_open(&self) -> bool {
        locked(&self.state).open
    }

    /// Lets go of a lock that was held for life.
    pub(super) fn release(&self) {
        if self.holds_for_life() {
            locked(&self.state).lock = None;
        }
    }

    /// Joins the group under way, or says that a new one begins with the caller. `None` after the wait: the lock is
    /// held by a group of this process that takes nobody in, or one of its threads waits for it or looks.
    fn join(&self, wait: Duration, stay: Stay) -> Option<Joined> {
        let until = Instant::now().checked_add(wait);
        let mut state = locked(&self.state);
        loop {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if !state.shut || (state.sections > 0 && state.lock.is_some()) {
                let first = state.members == 0;
                let section = stay == Stay::Section && !state.shut;
                state.members += 1;
                state.sections += usize::from(section);
                state.shut |= first;
                return Some(Joined { first, section, left });
            }
            if left.is_zero() {
                return None;
            }
            state.waiting += 1;
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
    }

    fn open(&self, lock: Lock) {
        let mut state = locked(&self.state);
        (state.lock, state.shut, state.open) = (Some(lock), false, true);
        self.wake(&state);
    }

    fn leave(&self, section: bool) {
        let mut state = locked(&self.state);
        state.members -= 1;
        state.sections -= usize::from(section);
        if state.members == 0 {
            (state.lock, state.shut, state.open) = (None, false, false);
            self.wake(&state);
        }
    }

    fn wake(&self, state: &State) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            group.leave(self.section);
        }
    }
}

impl Log {
    /// Waits for the right to decide and append; it is kept until the commit is acknowledged. With many writing
    /// processes the first of a group takes the lock and folds what others appended, through `catch_up`.
    ///
    /// # Errors
    /// [`Error::Locked`] after the wait; [`Error::Poisoned`]; [`Error::Closed`]; as [`super::open`].
    pub fn join(&self, stay: Stay, catch_up: &mut dyn CatchUp) -> Result<Turn<'_>> {
        self.join_within(self.group.lock_wait(), stay, catch_up)
    }

    /// As [`Log::join`], with a wait of the caller's.
    ///
    /// # Errors
    /// As [`Log::join`].
    pub fn join_within(&self, wait: Duration, stay: Stay, catch_up: &mut dyn CatchUp) -> Result<Turn<'_>> {
        self.check_poison()?;
        let group = &self.group;
        if group.holds_for_life() {
            return Ok(Turn { group: None, section: false });
        }
        let Some(Joined { first, section, left }) = group.join(wait, stay) else {
            // Who waits here waits behind a thread of this process, which may itself wait for another process.
            let held = LockError::Held { holder: Holder::named(&*self.disk) };
            return Err(lock_error(&*self.disk, held));
        };
        let turn = Turn { group: Some(group), section };
        if first {
            let lock = self.disk.lock(left).map_err(|e| lock_error(&*self.disk, e))?;
            // A look without the lock must not install what it found once others of this process append.
            let _looking = locked(&self.looking);
            group.open(self.look(lock, catch_up)?);
        }
        Ok(turn)
    }

    /// Folds what others appended; the lock is held, and nobody in this process appends.
    fn look(&self, lock: Lock, catch_up: &mut dyn CatchUp) -> Result<Lock> {
        let place = |tail: &Tail| (tail.place.clone(), tail.served);
        let (place, served) = locked(&self.tail).as_ref().map(place).ok_or(Error::Closed)?;
        let quick = if served {
            None
        } else {
            let fold = catch_up.fold();
            let file = locked(&self.durable_file).clone();
            let durable = (self.durable(), &*file);
            catchup::for_writing(&self.disk, self.options, &self.files, &place, durable, fold)?
        };
        match quick {
            Some(Caught::Same { .. }) => Ok(lock),
            Some(Caught::More(more)) => {
                self.take_in(&more, catch_up);
                Ok(lock)
            }
            Some(Caught::Anew(_)) | None => {
                if !recover::looks_like_store(&*self.disk)? {
                    return Err(Error::NoSuchStore { path: self.disk.root().to_path_buf() });
                }
                let now = catch_up.now();
                let mut opening = open_locked(&self.disk, self.options, lock, now, catch_up.fold())?;
                catchup::same_store(&*self.disk, place.store, opening.store)?;
                let Some(writing) = opening.writing.take() else { return Err(Error::ReadOnly) };
                let lock = self.replace(opening, writing, catch_up);
                Ok(lock)
            }
        }
    }

    /// Makes frames behind the known ones known, and the state folded from them the store's.
    pub(super) fn take_in(&self, more: &More, catch_up: &mut dyn CatchUp) {
        // Taken before the state, as a commit does.
        let mut tail = locked(&self.tail);
        if let Some(tail) = tail.as_mut() {
            catch_up.install(&mut || self.install(more, tail));
        }
    }

    fn install(&self, more: &More, tail: &mut Tail) {
        let Some(segment) = more.segments.last() else { return };
        {
            // Held over both: who looks into the index takes the files of the same log.
            let mut index = locked(&self.index);
            self.files.replace(more.segments.clone());
            index.append(more.index.clone());
        }
        // A segment that another process made may not have its name durable yet.
        tail.dir_synced &= Arc::ptr_eq(&tail.segment, segment);
        tail.segment = segment.clone();
        tail.ordinal = u32::try_from(more.segments.len() - 1).unwrap_or(u32::MAX);
        tail.place = more.place.clone();
        let first = segment.id().first();
        *locked(&self.mark) = Mark { frame: more.place.chain.number, segment: first, offset: more.place.end };
        self.durable.fetch_max(more.promised.0, Ordering::AcqRel);
    }

    fn replace(&self, opening: Opening, writing: Writing, catch_up: &mut dyn CatchUp) -> Lock {
        let Writing { tail, lock, durable_file } = writing;
        let mut parts = Some((opening, tail));
        {
            let mut slot = locked(&self.tail);
            catch_up.install(&mut || {
                if let Some((opening, tail)) = parts.take() {
                    self.take_over(opening, tail, &mut slot);
                }
            });
        }
        *locked(&self.durable_file) = durable_file;
        lock
    }

    /// Goes on with a log that was opened anew; `slot` is the content of `tail`.
    pub(super) fn take_over(&self, opening: Opening, tail: Tail, slot: &mut Option<Tail>) {
        let (segment, offset) = (tail.segment.id().first(), tail.place.end);
        let mark = Mark { frame: tail.place.chain.number, segment, offset };
        self.go_on_with(opening.files.now().to_vec(), opening.index, mark, opening.durable.0);
        // A log that was closed meanwhile stays closed.
        if let Some(old) = slot {
            *old = tail;
        }
    }
}

/// How the store takes in what other processes appended.
pub trait CatchUp {
    /// The clock, for the header of a segment that has to be made.
    fn now(&self) -> Time;

    /// The fold to go on with: on top of the state as it is, or from nothing once it is told to begin.
    fn fold(&mut self) -> &mut dyn Fold;

    /// Makes the folded state the store's, and calls `swap` in the same moment, so that no reader sees new
    /// files with an old state.
    fn install(&mut self, swap: &mut dyn FnMut());
}
