//! A store: open it, write to it, read from it, look into its past.
//!
//! It owns who may write when: the writers' lock, one lane for each workspace, critical sections, and the
//! moment of acknowledgement. It knows nothing of byte layouts.
//!
//! A write takes its workspace's lane, decides against the current state, appends and folds under the
//! writer's mutex, lets go of both, and only then waits until it is durable. A read clones the state, which
//! takes constant time, and holds no lock while it works.

mod backup;
mod bulk;
mod commit;
mod compact;
mod diff;
mod erase;
mod exclusive;
mod fork;
mod history;
mod lane;
pub mod name;
mod options;
mod past;
mod pasts;
mod retention;
mod rollback;
mod saving;
mod tail;
mod workspace;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

pub use commit::Limits;
pub(crate) use commit::{Change, Stamp};
pub use compact::Compaction;
pub use diff::Diff;
pub use erase::{Erase, Erased, ErasedFile, ErasedItems, Stays};
pub use exclusive::Tx;
pub use history::History;
pub use options::{Clock, Options, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SystemClock};
pub use past::Past;
pub use rollback::RolledBack;
pub use tail::{Tail, TailDelta, TailEvent, TailFrame};
pub use workspace::Workspace;
pub(crate) use workspace::{Source, Written};

use crate::codec::segment::StoreId;
use crate::disk::{Disk, MemoryDisk};
use crate::error::{Error, Recovery, Result};
use crate::log::{CatchUp, Files, Fold, Glance, Index, Log, LogSize, Mode, Reader, Stay, Turn};
use crate::position::{Frame, Time};
use crate::replay::checkpoint::Checkpoints;
use crate::replay::steps::Step;
use crate::replay::{LogBodies, StateFold};
use crate::segment::{Reads, Segment, SegmentOptions};
use crate::view::{HandleDigest, HandleId, State};
use lane::Lanes;
use name::WorkspacePath;
use pasts::Pasts;
use saving::Saving;

/// A store: one directory (or memory) with a log and the views folded from it. Clones share it; the last one
/// that goes closes it.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

/// What all handles of a store share.
#[derive(Debug)]
pub(crate) struct Inner {
    disk: Arc<dyn Disk>,
    id: StoreId,
    log: Access,
    files: Files,
    state: RwLock<State>,
    /// Reused from commit to commit.
    buffer: std::sync::Mutex<commit::Buffer>,
    lanes: Lanes,
    saving: Saving,
    pasts: Pasts,
    /// How often files of the log were replaced.
    generation: AtomicU64,
    options: Options,
    recovery: Recovery,
    opened: Opened,
}

/// How a store came to its state when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The frame of the checkpoint that it went on from; none if it began with the log.
    pub checkpoint: Option<Frame>,
    /// How many frames were folded behind it.
    pub folded: u64,
}

/// What the store is open for.
#[derive(Debug)]
enum Access {
    Write(Arc<Log>),
    Read(Box<Reader>),
}

/// A state and the reader of its bodies: one moment of a store.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) state: State,
    pub(crate) bodies: LogBodies,
}

impl Store {
    /// Opens a store for reading and writing, and creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Options::new().open(path)
    }

    /// Opens a store for reading. Nothing is created, locked, mended or written; damage and an unclean end
    /// are in [`Store::recovery`], and what is before them is served.
    ///
    /// # Errors
    /// As [`Options::open_read_only`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Store> {
        Options::new().open_read_only(path)
    }

    /// A store in memory, gone when the last clone of it is.
    ///
    /// # Errors
    /// None in practice: memory does not fail to open.
    pub fn in_memory() -> Result<Store> {
        Options::new().open_on(Arc::new(MemoryDisk::new()))
    }

    pub(crate) fn open_with(disk: Arc<dyn Disk>, options: Options, mode: Mode) -> Result<Store> {
        let segments = SegmentOptions { segment_bytes: options.segment_bytes, map: options.map };
        let checkpoints = Checkpoints::new(disk.clone(), options.map);
        let mut fold = StateFold::new(State::default(), checkpoints.clone());
        let mut opening = crate::log::open(&disk, segments, mode, &mut fold)?;
        let (id, files, recovery) = (opening.store, opening.files.clone(), opening.recovery.clone());
        let log = match Log::new(disk.clone(), segments, options.writers, options.lock_wait, &mut opening) {
            Some(log) => Access::Write(Arc::new(log)),
            None => Access::Read(Box::new(Reader::new(disk.clone(), segments, opening))),
        };
        let opened = Opened { checkpoint: fold.from().map(|from| from.frame), folded: fold.folded() };
        let saving = Saving::new(checkpoints, options.checkpoint_distance, fold.from());
        Ok(Store {
            inner: Arc::new(Inner {
                disk,
                id,
                log,
                files,
                state: RwLock::new(fold.state),
                buffer: std::sync::Mutex::default(),
                lanes: Lanes::default(),
                saving,
                pasts: Pasts::new(options.pasts_bytes),
                generation: AtomicU64::new(0),
                options,
                recovery,
                opened,
            }),
        })
    }

    /// The workspace at the root of the store.
    pub fn root(&self) -> Workspace {
        Workspace::new(Source::live(self.inner.clone()), WorkspacePath::root())
    }

    /// The workspace with this path, such as `core` or `workers/scribe`.
    ///
    /// # Errors
    /// [`Error::BadName`]: a segment is empty or has other characters than `a-z`, `0-9`, `-`, `_`.
    pub fn workspace(&self, path: &str) -> Result<Workspace> {
        self.root().workspace(path)
    }

    /// The last frame that was appended. A loss of power may take back what is above [`Store::durable`].
    pub fn appended(&self) -> Frame {
        match &self.inner.log {
            Access::Write(log) => log.appended(),
            Access::Read(_) => self.inner.state().frame(),
        }
    }

    /// The last frame known durable.
    pub fn durable(&self) -> Frame {
        match &self.inner.log {
            Access::Write(log) => log.durable(),
            Access::Read(reader) => reader.durable(),
        }
    }

    /// The oldest frame that can be looked at: 0, unless history was compacted.
    pub fn oldest(&self) -> Frame {
        self.inner.index(|index| index.oldest())
    }

    /// Makes durable all that was written before the call.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] if the sync fails; [`Error::Poisoned`] if an earlier one did.
    pub fn flush(&self) -> Result<()> {
        match &self.inner.log {
            Access::Write(log) => log.flush(),
            Access::Read(_) => Ok(()),
        }
    }

    /// Ends the log with a close marker, syncs it and frees the lock; later writes are [`Error::Closed`], reads
    /// go on. Dropping the last handle does the same, without telling of failures.
    ///
    /// # Errors
    /// What the disk answers. The lock is free in any case.
    pub fn close(&self) -> Result<()> {
        match &self.inner.log {
            Access::Write(log) => self.inner.end(log),
            Access::Read(_) => Ok(()),
        }
    }

    /// Folds what other processes have appended, and answers the last frame. It waits for no writer: a store that is
    /// open for reading takes no lock for it; one of many writers takes it where it is free and the last holder left
    /// something to mend; the only writer has nothing to look for. One of many writers shows of what others appended
    /// what is durable, as [`Store::durable`] says.
    ///
    /// # Errors
    /// [`Error::Damaged`] where frames are missing that were promised; [`Error::Poisoned`];
    /// [`Error::Closed`]; [`Error::NoSuchStore`] and [`Error::OtherStore`] where the directory was replaced;
    /// [`Error::Io`]. What was known stays as it was.
    pub fn refresh(&self) -> Result<Frame> {
        self.inner.refresh()?;
        Ok(self.appended())
    }

    /// The store as of a frame: all reads, no writes. Behind frames that a repair gave up, what those changed is
    /// simply absent; they themselves are [`Error::Lost`].
    ///
    /// # Errors
    /// [`Error::NoSuchFrame`] beyond the last; [`Error::Compacted`]; [`Error::Lost`]; [`Error::Corrupt`];
    /// [`Error::Io`].
    pub fn at(&self, frame: Frame) -> Result<Past> {
        Past::at(&self.inner, frame)
    }

    /// The store as of a time: as of the last frame that is not later. Before the first, frame 0. Where lost
    /// frames stand between that frame and the time, one of them may have been the last: [`Error::Lost`].
    ///
    /// # Errors
    /// As [`Store::at`].
    pub fn at_time(&self, time: Time) -> Result<Past> {
        Past::at_time(&self.inner, time)
    }

    /// The last frame that is not later than a time, also one that is lost; frame 0 before the first.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Io`].
    pub fn frame_at(&self, time: Time) -> Result<Frame> {
        past::frame_at(&self.inner, time)
    }

    /// Replays to a frame and visits every commit on the way; answers the store as of that frame.
    ///
    /// # Errors
    /// As [`Store::at`]; whatever `visit` answers.
    pub fn replay(&self, to: Frame, visit: &mut dyn FnMut(&mut Step<'_>) -> Result<()>) -> Result<Past> {
        Past::stepping(&self.inner, to, visit)
    }

    /// xxh3-128 over every handle that was used, in order: equal states have equal digests anywhere.
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
    /// As [`Store::digest`].
    pub fn digests(&self) -> Result<(u128, Vec<HandleDigest>)> {
        let reading = self.inner.reading();
        reading.state.handle_digests(&reading.bodies)
    }

    /// The handles that differ from an unused one, by kind and id, each with how many notes, rows, episodes or
    /// entries a read can see. Reads no body.
    pub fn handles(&self) -> Vec<(HandleId, usize)> {
        self.inner.state().sizes()
    }

    /// The store's random name.
    pub fn id(&self) -> StoreId {
        self.inner.id
    }

    /// The store's directory, absolute.
    pub fn path(&self) -> &Path {
        self.inner.disk.root()
    }

    /// What opening found and mended.
    pub fn recovery(&self) -> &Recovery {
        &self.inner.recovery
    }

    /// How opening came to the state: from which checkpoint, and how many frames it folded.
    pub fn opened(&self) -> Opened {
        self.inner.opened
    }

    /// How many files the log has, and how large they are.
    pub fn log_size(&self) -> LogSize {
        self.inner.files.size()
    }

    /// What was read of the log so far, opening included: a statistic that begins anew where files were replaced.
    /// What is read is counted, not what the system fetched for it.
    pub fn reads(&self) -> Reads {
        self.inner.files.reads()
    }

    /// The time of the last frame; none in an empty store.
    pub fn last_time(&self) -> Option<Time> {
        let state = self.inner.state();
        (state.frame() > Frame::ZERO).then(|| state.time())
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Inner {
    /// The state as it is now.
    pub(crate) fn state(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The state as it is now, and its bodies.
    pub(crate) fn reading(&self) -> Reading {
        // The list of files is taken under the same lock: opening anew replaces both in one moment.
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        Reading { state: state.clone(), bodies: LogBodies::new(&self.files) }
    }

    /// Waits for the right to decide and append, and folds what other processes appended. It is kept until the
    /// commit is acknowledged.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Locked`]; [`Error::Poisoned`]; [`Error::Closed`]; what opening answers.
    fn begin(&self, stay: Stay) -> Result<Turn<'_>> {
        self.begin_by(None, stay)
    }

    /// As [`Inner::begin`], waiting until a moment at the most.
    ///
    /// # Errors
    /// As [`Inner::begin`].
    fn begin_by(&self, deadline: Option<Instant>, stay: Stay) -> Result<Turn<'_>> {
        let wait = within(self.options.lock_wait, deadline);
        self.writable()?.join_within(wait, stay, &mut Newer::of(self))
    }

    /// For a write that names a frame: another process may have appended it, and this one not folded it yet.
    ///
    /// # Errors
    /// As [`Inner::begin`].
    fn catch_up_to(&self, frame: Frame) -> Result<()> {
        self.writable()?;
        if frame > self.state().frame() { self.begin(Stay::Commit).map(drop) } else { Ok(()) }
    }

    /// As [`Store::refresh`].
    fn refresh(&self) -> Result<()> {
        match &self.log {
            Access::Write(log) => self.glance(log),
            Access::Read(reader) => reader.refresh(&mut Newer::of(self)),
        }
    }

    /// Reads never wait for a writer. Where a look without the lock leaves something open, the lock may be free.
    fn glance(&self, log: &Log) -> Result<()> {
        let seen = log.glance(&mut Newer::of(self))?;
        if seen == Glance::All {
            return Ok(());
        }
        match log.settle(&mut Newer::of(self)) {
            Err(e) if tells_of_the_store(&e) => Err(e),
            // Held by somebody, or nothing can be mended, on a full disk for instance: what is promised can be read.
            Err(_) if seen == Glance::Promised => Ok(()),
            Err(_) => log.serve(&mut Newer::of(self)),
            Ok(()) => Ok(()),
        }
    }

    /// Looks into the index of frames.
    pub(crate) fn index<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        match &self.log {
            Access::Write(log) => log.index(look),
            Access::Read(reader) => reader.index(look),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Changes whenever the files of the log were replaced: what was read of them before may be erased by now.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes the checkpoint that is due, then ends the log.
    fn end(&self, log: &Log) -> Result<()> {
        self.saving.close(log, &self.files, &self.state());
        log.close()
    }

    fn writable(&self) -> Result<&Arc<Log>> {
        match &self.log {
            Access::Write(log) => Ok(log),
            Access::Read(_) => Err(Error::ReadOnly),
        }
    }
}

/// Whether an error says what the store is, and not only that it could not be locked or mended.
fn tells_of_the_store(e: &Error) -> bool {
    matches!(
        e,
        Error::Poisoned { .. }
            | Error::Closed
            | Error::Damaged(_)
            | Error::NoSuchStore { .. }
            | Error::OtherStore { .. }
            | Error::NewerFormat { .. }
    )
}

/// Takes in what other processes appended.
struct Newer<'s> {
    inner: &'s Inner,
    fold: Option<StateFold>,
}

impl<'s> Newer<'s> {
    fn of(inner: &'s Inner) -> Newer<'s> {
        Newer { inner, fold: None }
    }
}

impl CatchUp for Newer<'_> {
    fn now(&self) -> Time {
        self.inner.options.clock.now()
    }

    fn fold(&mut self) -> &mut dyn Fold {
        let inner = self.inner;
        let checkpoints = || inner.saving.checkpoints().clone();
        self.fold.get_or_insert_with(|| StateFold::new(inner.state(), checkpoints()))
    }

    fn install(&mut self, swap: &mut dyn FnMut()) {
        let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(fold) = self.fold.take() {
            *state = fold.state;
        }
        let before = self.inner.files.now();
        swap();
        self.inner.pasts.retain(&self.inner.files);
        if !begins_with(&self.inner.files.now(), &before) {
            self.inner.generation.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// A wait, or what is left until the deadline if that is less.
fn within(wait: Duration, deadline: Option<Instant>) -> Duration {
    deadline.map_or(wait, |deadline| wait.min(deadline.saturating_duration_since(Instant::now())))
}

/// Whether the files of a log are among those of another, unchanged, whoever opened them: a file that was written anew
/// has another salt.
fn begins_with(now: &[Arc<Segment>], files: &[Arc<Segment>]) -> bool {
    let same =
        |(a, b): (&Arc<Segment>, &Arc<Segment>)| a.id() == b.id() && a.header().salt == b.header().salt;
    now.len() >= files.len() && now.iter().zip(files).all(same)
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Access::Write(log) = &self.log
            && let Err(cause) = self.end(log)
        {
            tracing::error!(%cause, "a store that was dropped did not close cleanly");
        }
    }
}
