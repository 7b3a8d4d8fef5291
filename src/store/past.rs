//! The store as of a frame or a time: every read, through the same code as live reads; no writes.

use std::sync::Arc;

use super::name::WorkspacePath;
use super::workspace::{Source, Workspace};
use super::{Inner, Reading};
use crate::error::{Error, Result};
use crate::log::{Files, Index};
use crate::position::{Frame, Time};
use crate::replay::steps::{self, Step};
use crate::replay::{self, LogBodies};
use crate::view::{HandleDigest, HandleId, State};

/// A store as of a frame. Cheap to clone; keeps the store open.
#[derive(Clone, Debug)]
pub struct Past {
    inner: Arc<PastInner>,
}

#[derive(Debug)]
pub(super) struct PastInner {
    store: Arc<Inner>,
    state: State,
    /// Of the files that the state was folded from, whatever the store opens later.
    bodies: LogBodies,
    frame: Frame,
    folded: u64,
}

impl PastInner {
    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.store
    }

    pub(super) fn frame(&self) -> Frame {
        self.frame
    }

    pub(super) fn reading(&self) -> Reading {
        Reading { state: self.state.clone(), bodies: self.bodies.clone() }
    }
}

impl Past {
    pub(super) fn at(store: &Arc<Inner>, frame: Frame) -> Result<Past> {
        let files = check(store, frame)?;
        let known = store.pasts.at(&files, store.saving.checkpoints(), frame)?;
        Ok(Past::new(store, &files, known.state, frame, known.folded))
    }

    pub(super) fn stepping(
        store: &Arc<Inner>,
        frame: Frame,
        visit: &mut dyn FnMut(&mut Step<'_>) -> Result<()>,
    ) -> Result<Past> {
        let files = check(store, frame)?;
        let mut folded = 0;
        let state = steps::steps(&files, frame, &mut |step| {
            folded += 1;
            visit(step)
        })?;
        Ok(Past::new(store, &files, state, frame, folded))
    }

    fn new(store: &Arc<Inner>, files: &Files, state: State, frame: Frame, folded: u64) -> Past {
        let bodies = LogBodies::new(files);
        Past { inner: Arc::new(PastInner { store: store.clone(), state, bodies, frame, folded }) }
    }

    pub(super) fn at_time(store: &Arc<Inner>, time: Time) -> Result<Past> {
        Past::at(store, frame_at(store, time)?)
    }

    pub(super) fn reading(&self) -> Reading {
        self.inner.reading()
    }

    /// The frame.
    pub fn frame(&self) -> Frame {
        self.inner.frame
    }

    /// How many frames were folded to get here, behind the checkpoint or the earlier past that it began with.
    pub fn folded(&self) -> u64 {
        self.inner.folded
    }

    /// When the frame was written; none for frame 0.
    pub fn time(&self) -> Option<Time> {
        (self.inner.frame > Frame::ZERO).then(|| self.inner.state.time())
    }

    /// The workspace at the root, as it was.
    pub fn root(&self) -> Workspace {
        Workspace::new(Source::past(self.inner.clone()), WorkspacePath::root())
    }

    /// The workspace with this path, as it was.
    ///
    /// # Errors
    /// As [`super::Store::workspace`].
    pub fn workspace(&self, path: &str) -> Result<Workspace> {
        self.root().workspace(path)
    }

    /// The digest of the state: equal to that of the store when the frame was the last.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Io`].
    pub fn digest(&self) -> Result<u128> {
        let reading = self.inner.reading();
        reading.state.digest(&reading.bodies)
    }

    /// The digest, and what each handle amounts to.
    ///
    /// # Errors
    /// As [`Past::digest`].
    pub fn digests(&self) -> Result<(u128, Vec<HandleDigest>)> {
        let reading = self.inner.reading();
        reading.state.handle_digests(&reading.bodies)
    }

    /// The handles that differ from an unused one, as [`super::Store::handles`].
    pub fn handles(&self) -> Vec<(HandleId, usize)> {
        self.inner.state.sizes()
    }
}

/// The last frame that is not later than a time.
pub(super) fn frame_at(store: &Inner, time: Time) -> Result<Frame> {
    let (from, files) = store.index(|index| (index.before_time(time), store.files.frozen()));
    replay::frame_at(&files, from, time)
}

/// Whether the log can answer for a frame, and the files that do. They are taken while the index is held: a log
/// that is opened anew replaces both in one moment.
pub(super) fn check(store: &Inner, frame: Frame) -> Result<Files> {
    store.index(|index| can_answer(index, frame).map(|()| store.files.frozen()))
}

/// Whether the log of an index can answer for a frame.
pub(super) fn can_answer(index: &Index, frame: Frame) -> Result<()> {
    // A writer's index ends with the last commit; frame 0 is always there unless it was compacted.
    let last = index.last();
    if frame > last {
        return Err(Error::NoSuchFrame { asked: frame, last });
    }
    if frame < index.oldest() {
        return Err(Error::Compacted { oldest: index.oldest() });
    }
    match index.lost(frame) {
        Some(range) => Err(Error::Lost { asked: frame, first: range.first, last: range.last }),
        None => Ok(()),
    }
}
