//! When a checkpoint is made: while the store is written to, at its close, and on demand.
//!
//! A moment (the state and the place in the log that it belongs to) is taken under the writer's mutex, in constant
//! time. The checkpoint is then written beside the writers, in a thread of its own, once the moment's frame is
//! durable. What goes wrong there is told to `tracing` and costs later openings time; only a checkpoint that was
//! asked for fails. Does not know what a checkpoint holds.

mod filling;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::Store;
use crate::error::Result;
use crate::log::locked;
use crate::log::{Files, Log, Start, Stay, Writer};
use crate::position::Frame;
use crate::replay::checkpoint::{Checkpoints, Listed, is_due, redundant};
use crate::segment::Segment;
use crate::view::State;

/// The state of a store, and where in its log.
#[derive(Clone, Debug)]
struct Moment {
    state: State,
    start: Start,
    files: Vec<Arc<Segment>>,
}

/// Makes checkpoints of one open store.
#[derive(Debug)]
pub(super) struct Saving {
    checkpoints: Checkpoints,
    /// The least log between two checkpoints.
    distance: u64,
    /// Bytes that were appended since it was last asked whether one is due.
    grown: AtomicU64,
    /// Whether a moment waits to be durable.
    waits: AtomicBool,
    inner: Arc<Mutex<Progress>>,
}

/// How many moments may wait for their turn: each keeps what was forgotten since.
const WAITING_MAX: usize = 16;

#[derive(Debug, Default)]
struct Progress {
    /// Where the newest moment is in the log that was taken, and how long the newest checkpoint is.
    last: Option<(u64, u64)>,
    /// Taken, by frame, and not saved yet.
    waiting: VecDeque<Moment>,
    /// The last frame that counts as written.
    acknowledged: Frame,
    /// Set while the thread is at it.
    busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl Moment {
    fn take(writer: &Writer<'_>, files: &Files, state: State) -> Option<Moment> {
        let start = writer.start()?;
        let files = start.files(files);
        Some(Moment { state, start, files })
    }

    /// Writes the checkpoint and lets go of those that are not needed any more. The moment's frame is durable.
    /// Answers false if the log was changed meanwhile.
    fn save(&self, log: &Log, checkpoints: &Checkpoints, distance: u64) -> Result<bool> {
        let frame = self.start.frame();
        let Some(begun) = log.under_lock(&self.files, || checkpoints.begin(frame))? else { return Ok(false) };
        // Without a draft somebody else is at it, or was.
        let Some(draft) = begun else { return Ok(true) };
        let stamp = log.index(|index| self.start.stamp(&self.files, index));
        let log_bytes = self.start.log_bytes();
        let filled = checkpoints.fill(&draft, &self.state, &stamp, log_bytes);
        let published =
            filled.and_then(|()| log.under_lock(&self.files, || checkpoints.publish(&draft, frame)));
        if !matches!(published, Ok(Some(true))) {
            let _ = log.under_lock(&[], || {
                checkpoints.discard(&draft);
                Ok(())
            });
            return published.map(|_| false);
        }
        log.under_lock(&[], || {
            checkpoints.remove_all(&redundant(&checkpoints.list(), log_bytes, distance));
            Ok(true)
        })?;
        Ok(true)
    }
}

impl Saving {
    pub(super) fn new(checkpoints: Checkpoints, distance: u64, last: Option<&Listed>) -> Saving {
        let last = last.map(|last| (last.log_bytes, last.bytes));
        let inner = Arc::new(Mutex::new(Progress { last, ..Progress::default() }));
        let (grown, waits) = (AtomicU64::new(0), AtomicBool::new(false));
        Saving { checkpoints, distance, grown, waits, inner }
    }

    pub(super) fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// A commit of so many bytes was appended and folded, and the writer is still held: takes the moment if a
    /// checkpoint is due.
    pub(super) fn appended(&self, bytes: usize, writer: &Writer<'_>, files: &Files, state: &State) {
        let grown = self.grown.fetch_add(bytes as u64, Ordering::Relaxed).saturating_add(bytes as u64);
        if grown < self.distance / 16 {
            return;
        }
        self.grown.store(0, Ordering::Relaxed);
        let mut progress = locked(&self.inner);
        let moment = Moment::take(writer, files, state.clone());
        let due = moment.filter(|moment| is_due(progress.last, moment.start.log_bytes(), self.distance));
        if let Some(moment) = due.filter(|_| progress.waiting.len() < WAITING_MAX) {
            let size = progress.last.map_or(0, |(_, bytes)| bytes);
            progress.last = Some((moment.start.log_bytes(), size));
            progress.waiting.push_back(moment);
            self.waits.store(true, Ordering::Release);
        }
    }

    /// A frame counts as written: the moments up to it can be saved.
    pub(super) fn acknowledged(&self, log: &Arc<Log>, frame: Frame) {
        if !self.waits.load(Ordering::Acquire) {
            return;
        }
        let mut progress = locked(&self.inner);
        progress.acknowledged = progress.acknowledged.max(frame);
        self.waits.store(false, Ordering::Release);
        if progress.busy {
            return;
        }
        let (log, checkpoints, distance) = (log.clone(), self.checkpoints.clone(), self.distance);
        let inner = self.inner.clone();
        let work = move || {
            while let Some(moment) = next(&inner) {
                match log
                    .wait_durable(moment.start.frame())
                    .and_then(|()| moment.save(&log, &checkpoints, distance))
                {
                    Ok(_) => note_size(&inner, &checkpoints),
                    Err(cause) => tracing::warn!(%cause, "a checkpoint was not made"),
                }
            }
        };
        match std::thread::Builder::new().name("mnemolog-checkpoint".into()).spawn(work) {
            Ok(thread) => (progress.busy, progress.thread) = (true, Some(thread)),
            Err(cause) => tracing::warn!(%cause, "a checkpoint was not made"),
        }
    }

    /// Waits for the checkpoint that is being written.
    pub(super) fn wait(&self) {
        let thread = locked(&self.inner).thread.take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that writes checkpoints panicked");
        }
    }

    /// Every checkpoint was taken away, and what waits belongs to files that are gone.
    pub(super) fn forget(&self) {
        let mut progress = locked(&self.inner);
        progress.last = None;
        progress.waiting.clear();
    }

    /// The store closes: the one that is being written is finished, and if another is due, it is made now.
    pub(super) fn close(&self, log: &Log, files: &Files, state: &State) {
        self.wait();
        let moment = log.writer().ok().and_then(|writer| Moment::take(&writer, files, state.clone()));
        let last = locked(&self.inner).last;
        let Some(moment) = moment.filter(|m| is_due(last, m.start.log_bytes(), self.distance)) else {
            return;
        };
        let saved = log.flush().and_then(|()| moment.save(log, &self.checkpoints, self.distance));
        if let Err(cause) = saved {
            tracing::warn!(%cause, "a checkpoint was not made");
        }
    }
}

/// The next moment to save; without one the thread ends.
fn next(progress: &Mutex<Progress>) -> Option<Moment> {
    let mut progress = locked(progress);
    let acknowledged = progress.acknowledged;
    let ready = progress.waiting.front().is_some_and(|moment| moment.start.frame() <= acknowledged);
    let moment = if ready { progress.waiting.pop_front() } else { None };
    progress.busy = moment.is_some();
    moment
}

/// The next distance depends on how large checkpoints are by now.
fn note_size(progress: &Mutex<Progress>, checkpoints: &Checkpoints) {
    let newest = checkpoints.list().pop();
    let mut progress = locked(progress);
    if let (Some((_, bytes)), Some(newest)) = (&mut progress.last, newest) {
        *bytes = newest.bytes;
    }
}

impl Store {
    /// Saves a checkpoint of the store as it is now, so that later openings need not fold what came before. The
    /// store makes them by itself too, when the log grew enough. Where earlier ones are missing, because the log
    /// came from elsewhere or they were deleted, the log is folded once more and they are made again. Answers the
    /// frame of the last.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`]; [`crate::Error::Locked`]; [`crate::Error::Closed`]; [`crate::Error::Poisoned`];
    /// [`crate::Error::DiskFull`]; [`crate::Error::Io`]. A checkpoint that fails changes no answer.
    pub fn checkpoint(&self) -> Result<Frame> {
        let inner = self.inner();
        let log = inner.writable()?;
        inner.saving.wait();
        loop {
            let moment = {
                let _turn = inner.begin(Stay::Commit)?;
                let writer = log.writer()?;
                Moment::take(&writer, &inner.files, inner.state())
            };
            let Some(moment) = moment.filter(|moment| moment.start.frame() > Frame::ZERO) else {
                return Ok(Frame::ZERO);
            };
            let frame = moment.start.frame();
            log.wait_durable(frame)?;
            // Each time that the log was changed under it, a whole change of several files came between.
            if moment.save(log, inner.saving.checkpoints(), inner.saving.distance)? {
                filling::fill(inner, log, moment.start.log_bytes())?;
                return Ok(frame);
            }
        }
    }

    /// The checkpoints that there are, by frame. Whether one serves is seen when it is used.
    pub fn checkpoints(&self) -> Vec<Listed> {
        self.inner().saving.checkpoints().list()
    }
}
