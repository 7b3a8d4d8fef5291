//! Workspaces, and the one way in which handles read and write, whatever they belong to: a live store, a past,
//! or a critical section.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::commit::{Change, Stamp, check_origin};
use super::exclusive::{Pending, Tx};
use super::lane::Held;
use super::name::WorkspacePath;
use super::past::{self, Past, PastInner};
use super::{Inner, Reading, within};
use crate::codec::delta::{Op, Origin};
use crate::embed::Embedder;
use crate::error::{Damage, Error, Result};
use crate::log::{Stay, Turn};
use crate::position::{Frame, Time};
use crate::view::State;

/// A path prefix inside a store, and the serial domain of its writes. Cheap to clone.
///
/// Handles of different workspaces share nothing; those of equal workspaces share everything.
#[derive(Clone, Debug)]
pub struct Workspace {
    source: Source,
    path: WorkspacePath,
}

/// What a handle reads from and writes to.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    to: To,
    workspace: Arc<str>,
    origin: Option<Arc<Origin>>,
    written: Option<Written>,
    /// When a write stops waiting for its turn, if it has not stopped before.
    deadline: Option<Instant>,
}

/// The last frame that was written through a workspace, for a caller that must name it. 0: none yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(Arc<AtomicU64>);

impl Written {
    /// The frame, if there is one.
    pub(crate) fn frame(&self) -> Option<Frame> {
        Some(Frame(self.0.load(Ordering::Acquire))).filter(|frame| *frame > Frame::ZERO)
    }
}

#[derive(Clone, Debug)]
enum To {
    Live(Arc<Inner>),
    Past(Arc<PastInner>),
    Tx(Arc<Pending>),
}

impl Workspace {
    pub(super) fn new(source: Source, path: WorkspacePath) -> Workspace {
        let workspace = path.as_str().into();
        Workspace { source: Source { workspace, ..source }, path }
    }

    /// A workspace below this one.
    ///
    /// # Errors
    /// [`Error::BadName`]: a segment is empty or has other characters than `a-z`, `0-9`, `-`, `_`.
    pub fn workspace(&self, path: &str) -> Result<Workspace> {
        let path = self.path.join(path).map_err(|e| Error::BadName { reason: e.to_string() })?;
        Ok(Workspace::new(self.source.clone(), path))
    }

    /// The path: empty at the root.
    pub fn path(&self) -> &WorkspacePath {
        &self.path
    }

    /// The same workspace, whose writes say who made them.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: the origin takes more than 1 KiB.
    pub fn with_origin(&self, origin: Origin) -> Result<Workspace> {
        check_origin(Some(&origin))?;
        let source = Source { origin: Some(Arc::new(origin)), ..self.source.clone() };
        Ok(Workspace { source, path: self.path.clone() })
    }

    /// The same workspace, whose writes and critical sections wait for others until a moment at the most, for the lane
    /// and for another process's lock taken together. [`Options::lane_wait`](super::Options::lane_wait) and
    /// [`Options::lock_wait`](super::Options::lock_wait) bound each of the two besides. Who comes too late finds
    /// [`Error::LaneBusy`] or [`Error::Locked`] unless nobody is in the way.
    #[must_use]
    pub fn with_deadline(&self, deadline: Instant) -> Workspace {
        let source = Source { deadline: Some(deadline), ..self.source.clone() };
        Workspace { source, path: self.path.clone() }
    }

    /// The same workspace as of a frame: every read, no writes. In a past, a frame up to its own; in a critical
    /// section, one that was committed before it.
    ///
    /// # Errors
    /// As [`super::Store::at`].
    pub fn at(&self, frame: Frame) -> Result<Workspace> {
        if let To::Past(within) = &self.source.to
            && frame > within.frame()
        {
            return Err(Error::NoSuchFrame { asked: frame, last: within.frame() });
        }
        let past = Past::at(self.source.inner(), frame)?;
        Ok(Workspace::new(past.root().source, self.path.clone()))
    }

    /// The same workspace as of a time: as of the last frame that is not later. In a past, as of its own frame at
    /// the latest.
    ///
    /// # Errors
    /// As [`super::Store::at_time`].
    pub fn at_time(&self, time: Time) -> Result<Workspace> {
        let frame = past::frame_at(self.source.inner(), time)?;
        self.at(match &self.source.to {
            To::Past(within) => frame.min(within.frame()),
            To::Live(_) | To::Tx(_) => frame,
        })
    }

    /// The same workspace, and what tells which frame was written through it.
    pub(crate) fn telling(&self) -> (Workspace, Written) {
        let written = Written::default();
        let source = Source { written: Some(written.clone()), ..self.source.clone() };
        (Workspace { source, path: self.path.clone() }, written)
    }

    /// Runs a critical section: no other write of this workspace comes between its reads and its writes.
    ///
    /// Reads through `tx` see its own writes; nobody else does until the end. All writes become one frame, or
    /// none if the closure returns an error or panics; an empty section writes nothing. Other workspaces pass.
    ///
    /// # Errors
    /// [`Error::InsideExclusive`] on a thread that is inside a critical section of this store already;
    /// [`Error::LaneBusy`]; [`Error::ReadOnly`]; [`Error::Closed`] on what is left of a section that ended; what
    /// committing answers; whatever the closure returns.
    pub fn exclusive<T, E: From<Error>>(&self, section: impl FnOnce(&Tx) -> Result<T, E>) -> Result<T, E> {
        match &self.source.to {
            To::Live(inner) => super::exclusive::run(inner, self, section),
            To::Past(_) => Err(Error::ReadOnly.into()),
            To::Tx(pending) if pending.is_over() => Err(Error::Closed.into()),
            To::Tx(_) => Err(Error::InsideExclusive { workspace: self.path.as_str().to_owned() }.into()),
        }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The id of a handle of this workspace.
    ///
    /// # Errors
    /// [`Error::BadName`].
    pub(crate) fn handle_id(&self, name: &str) -> Result<Arc<str>> {
        let id = self.path.handle(name).map_err(|e| Error::BadName { reason: e.to_string() })?;
        Ok(id.into())
    }
}

impl Source {
    fn new(to: To) -> Source {
        Source { to, workspace: "".into(), origin: None, written: None, deadline: None }
    }

    pub(super) fn live(inner: Arc<Inner>) -> Source {
        Source::new(To::Live(inner))
    }

    pub(super) fn past(past: Arc<PastInner>) -> Source {
        Source::new(To::Past(past))
    }

    pub(super) fn tx(pending: Arc<Pending>) -> Source {
        Source::new(To::Tx(pending))
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        match &self.to {
            To::Live(inner) => inner,
            To::Past(past) => past.inner(),
            To::Tx(pending) => pending.inner(),
        }
    }

    /// The store, and the state that frames of its log add up to: the live one, that of a past, or the one before
    /// the critical section.
    pub(super) fn committed(&self) -> (Arc<Inner>, State) {
        let state = match &self.to {
            To::Past(past) => past.reading().state,
            To::Live(inner) => inner.state(),
            To::Tx(pending) => pending.inner().state(),
        };
        (self.inner().clone(), state)
    }

    /// The live store.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] in a past; [`Error::InsideExclusive`] in a critical section of `workspace`.
    pub(super) fn live_store(&self, workspace: &str) -> Result<&Arc<Inner>> {
        match &self.to {
            To::Live(inner) => Ok(inner),
            To::Past(_) => Err(Error::ReadOnly),
            To::Tx(_) => Err(Error::InsideExclusive { workspace: workspace.to_owned() }),
        }
    }

    /// The path of the workspace.
    pub(super) fn workspace(&self) -> &str {
        &self.workspace
    }

    /// As [`Inner::generation`].
    pub(crate) fn generation(&self) -> u64 {
        self.inner().generation()
    }

    /// The live store, and who writes to it.
    ///
    /// # Errors
    /// As [`Source::live_store`].
    pub(crate) fn live_writer(&self, workspace: &str) -> Result<(&Arc<Inner>, Option<&Origin>)> {
        Ok((self.live_store(workspace)?, self.origin()))
    }

    /// Who is named as the writer.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }

    pub(super) fn is_past(&self) -> bool {
        matches!(self.to, To::Past(_))
    }

    /// One moment: the state and its bodies.
    pub(crate) fn reading(&self) -> Reading {
        match &self.to {
            To::Live(inner) => inner.reading(),
            To::Past(past) => past.reading(),
            To::Tx(pending) => pending.reading(),
        }
    }

    /// Decides on operations for the handle `id` against the current state, and writes them as one frame (in a
    /// critical section: adds them to its frame). No other write of the workspace comes in between. No
    /// operations write nothing. Returns once the write counts as written.
    ///
    /// # Errors
    /// Whatever `decide` answers: nothing is written then. What committing answers.
    pub(crate) fn change<'a, T>(
        &self,
        id: &'a str,
        decide: impl FnOnce(&Reading) -> Result<(Vec<Op<'a>>, T)>,
    ) -> Result<T> {
        match &self.to {
            To::Past(_) => Err(Error::ReadOnly),
            To::Tx(pending) => pending.change(id, decide),
            To::Live(_) => self.change_all(|reading| {
                let (ops, answer) = decide(reading)?;
                Ok((ops.into_iter().map(|op| Change { id, op }).collect(), answer))
            }),
        }
    }

    /// As [`Source::change`], on several handles of the workspace; in a live store only.
    ///
    /// # Errors
    /// As [`Source::change`]; [`Error::InsideExclusive`] in a critical section.
    pub(crate) fn change_all<'a, T>(
        &self,
        decide: impl FnOnce(&Reading) -> Result<(Vec<Change<'a>>, T)>,
    ) -> Result<T> {
        let inner = self.live_store(&self.workspace)?;
        let (lane, _turn) = self.enter(inner)?;
        let (changes, answer) = decide(&inner.reading())?;
        if !changes.is_empty() {
            self.commit(inner, lane, &changes)?;
        }
        Ok(answer)
    }

    /// As [`Source::change`], of one operation that is the same whatever the state is. Needs no memory of its own.
    ///
    /// # Errors
    /// As [`Source::change`].
    pub(crate) fn put<'a>(&self, id: &'a str, op: Op<'a>) -> Result<()> {
        let To::Live(inner) = &self.to else { return self.change(id, |_| Ok((vec![op], ()))) };
        let (lane, _turn) = self.enter(inner)?;
        self.commit(inner, lane, &[Change { id, op }])
    }

    /// Waits for the lane, and for the right to decide and append.
    fn enter<'i>(&self, inner: &'i Arc<Inner>) -> Result<(Held, Turn<'i>)> {
        inner.writable()?;
        self.turn(inner, Stay::Commit)
    }

    /// The lane, and the turn in it: how every write and critical section begins.
    ///
    /// # Errors
    /// [`Error::LaneBusy`]; as [`Inner::begin`].
    pub(super) fn turn<'i>(&self, inner: &'i Inner, stay: Stay) -> Result<(Held, Turn<'i>)> {
        let wait = within(inner.options.lane_wait, self.deadline);
        let lane = inner.lanes.enter(&self.workspace, wait)?;
        Ok((lane, inner.begin_by(self.deadline, stay)?))
    }

    fn commit(&self, inner: &Inner, lane: Held, changes: &[Change<'_>]) -> Result<()> {
        let stamp = Stamp { origin: self.origin.as_deref(), time: None };
        let frame = inner.append(changes, stamp)?;
        drop(lane);
        inner.acknowledge(frame)?;
        self.tell(frame);
        Ok(())
    }

    /// For whoever asked by [`Workspace::telling`].
    pub(super) fn tell(&self, frame: Frame) {
        if let Some(Written(last)) = &self.written {
            last.store(frame.0, Ordering::Release);
        }
    }

    /// Takes in what other processes wrote, so that a read sees it; a past or a critical section stays as it is. A
    /// store that was closed or stopped writing has nothing to look for, and its reads go on. So do those of a store
    /// that was damaged when it was opened for reading: answers the damage, as long as it is there.
    ///
    /// # Errors
    /// As [`super::Store::refresh`], those three aside.
    pub(crate) fn refresh(&self) -> Result<Option<Box<Damage>>> {
        let To::Live(inner) = &self.to else { return Ok(None) };
        match inner.refresh() {
            Ok(()) | Err(Error::Closed | Error::Poisoned { .. }) => Ok(None),
            Err(Error::Damaged(damage)) if inner.recovery.damage.is_some() => Ok(Some(damage)),
            Err(error) => Err(error),
        }
    }

    /// Whether this is a live store that takes writes.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::InsideExclusive`].
    pub(crate) fn check_live(&self) -> Result<()> {
        self.live_store(&self.workspace)?.writable().map(drop)
    }

    /// The clock.
    pub(crate) fn now(&self) -> Time {
        self.inner().options.clock.now()
    }

    /// The store's embedder.
    pub(crate) fn embedder(&self) -> Arc<dyn Embedder> {
        self.inner().options.embedder.clone()
    }

    /// Whether the program chose the store's embedder.
    pub(crate) fn embedder_is_chosen(&self) -> bool {
        self.inner().options.embedder_is_chosen
    }

    /// The last frame that is not later than a time, whoever wrote it.
    ///
    /// # Errors
    /// As [`super::Store::refresh`] and [`super::Store::frame_at`].
    pub(crate) fn frame_at(&self, time: Time) -> Result<Frame> {
        self.refresh()?;
        past::frame_at(self.inner(), time)
    }

    /// Makes durable all that was written before the call.
    ///
    /// # Errors
    /// As [`super::Store::flush`]; [`Error::ReadOnly`] in a past.
    pub(crate) fn flush(&self) -> Result<()> {
        match &self.to {
            To::Live(inner) => inner.writable()?.flush(),
            To::Past(_) => Err(Error::ReadOnly),
            To::Tx(_) => Ok(()),
        }
    }
}
