//! The commit path: append under the writer's mutex, sync outside it, one sync for many.
//!
//! Laws: an acknowledged frame is durable; `durable` in a frame is the number captured before the sync that
//! proved it began; who waits is served by a sync that began after its frame was appended; the first failed
//! write or sync poisons the writer, and nothing is tried again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::catchup::Place;
use super::group::Group;
use super::promise::DURABLE;
use super::recover::{Opening, Writing};
use super::settle::random;
use super::{Files, Index, Mark, Start};
use crate::codec::frame::{
    self, FRAME_DELTAS_MAX, FRAME_HEADER_BYTES, FrameHeader, FrameKind, PAYLOAD_MAX, Seal, Seed,
};
use crate::codec::segment::{Durable, FRAMES_START, SegmentHeader, StoreId};
use crate::codec::wire::Malformed;
use crate::disk::{Disk, File};
use crate::error::{Error, Result};
use crate::position::{Frame, Position, SegmentId, Time};
use crate::segment::{Chain, LOG_DIR, SEAL_FRAME_BYTES, Segment, SegmentOptions, TRAILER_BYTES};

/// Where a segment is full, however large the options allow: offsets are 32 bits wide.
const SEGMENT_BYTES_MAX: u64 = u32::MAX as u64;

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Once it survives a loss of power.
    #[default]
    Sync,
    /// Once it is appended: it survives the death of the process, and a loss of power only after the
    /// operating system wrote it at its own pace, or after `flush`.
    Os,
}

/// How many processes may write to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writers {
    /// One: it holds the writers' lock for its life.
    #[default]
    One,
    /// Many: each holds the lock for a group of commits, from looking what others appended to the end of the
    /// sync. Every write is durable when it is acknowledged, whatever [`Durability`] says.
    Many,
}

/// Where the writer goes on.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) segment: Arc<Segment>,
    pub(super) ordinal: u32,
    /// Where the log ends.
    pub(super) place: Place,
    /// Whether `log/` was synced by this opening since the segment got its name.
    pub(super) dir_synced: bool,
    /// Whether this is what a look without the lock served, and the log must be opened anew to append.
    pub(super) served: bool,
    pub(super) writer: u32,
}

/// The log, open for appending.
#[derive(Debug)]
pub struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) store: StoreId,
    pub(super) files: Files,
    pub(super) options: SegmentOptions,
    pub(super) tail: Mutex<Option<Tail>>,
    pub(super) index: Mutex<Index>,
    /// Where the newest frame ends; changed only by the holder of `tail`.
    pub(super) mark: Mutex<Mark>,
    pub(super) durable: AtomicU64,
    /// True while a sync is under way.
    busy: Mutex<bool>,
    turn: Condvar,
    poison: OnceLock<Arc<Error>>,
    closed: AtomicBool,
    pub(super) durable_file: Mutex<Arc<dyn File>>,
    /// The lock, and who writes under it.
    pub(super) group: Group,
    /// Held by whoever looks what others appended, until it is known. Taken before `tail`.
    pub(super) looking: Mutex<()>,
    /// Held by whoever changes which files the store has: a change of several files, a checkpoint. Taken before
    /// `tail`.
    pub(super) shape: Mutex<()>,
}

/// A frame that was appended.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// Its number.
    pub frame: Frame,
    /// Its time.
    pub time: Time,
    /// Where it stands.
    pub at: Position,
}

/// The right to append: held from the decision to the fold, never across a sync.
#[derive(Debug)]
pub struct Writer<'l> {
    log: &'l Log,
    tail: MutexGuard<'l, Option<Tail>>,
    /// Behind the last commit that was appended.
    mark: Option<Mark>,
}

impl Log {
    /// A log from an opening for writing; `None` from one for reading. `writers` says for how long the lock that
    /// comes with the opening is held, and `lock_wait` how long to wait when it is taken again.
    pub fn new(
        disk: Arc<dyn Disk>,
        options: SegmentOptions,
        writers: Writers,
        lock_wait: Duration,
        opening: &mut Opening,
    ) -> Option<Log> {
        let Writing { tail, lock, durable_file } = opening.writing.take()?;
        let segment = tail.segment.id().first();
        let mark = Mark { frame: tail.place.chain.number, segment, offset: tail.place.end };
        Some(Log {
            disk,
            store: opening.store,
            files: opening.files.clone(),
            options,
            mark: Mutex::new(mark),
            tail: Mutex::new(Some(tail)),
            index: Mutex::new(std::mem::take(&mut opening.index)),
            durable: AtomicU64::new(opening.durable.0),
            busy: Mutex::new(false),
            turn: Condvar::new(),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            durable_file: Mutex::new(durable_file),
            group: Group::new(writers, lock_wait, lock),
            looking: Mutex::new(()),
            shape: Mutex::new(()),
        })
    }

    /// The last frame that was appended.
    pub fn appended(&self) -> Frame {
        locked(&self.mark).frame
    }

    /// The last frame known durable.
    pub fn durable(&self) -> Frame {
        Frame(self.durable.load(Ordering::Acquire))
    }

    /// Looks into the index of frames.
    pub fn index<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        look(&locked(&self.index))
    }

    /// Waits for the right to append.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed write or sync; [`Error::Closed`].
    pub fn writer(&self) -> Result<Writer<'_>> {
        let tail = locked(&self.tail);
        self.check_poison()?;
        if tail.is_none() {
            return Err(Error::Closed);
        }
        Ok(Writer { log: self, tail, mark: None })
    }

    pub(super) fn check_poison(&self) -> Result<()> {
        self.poison.get().map_or(Ok(()), |cause| Err(Error::Poisoned { cause: cause.clone() }))
    }

    pub(super) fn poison(&self, cause: Error) -> Error {
        let cause = self.poison.get_or_init(|| Arc::new(cause)).clone();
        tracing::error!(%cause, "a write failed; this writer stops");
        self.wake();
        Error::Poisoned { cause }
    }

    /// Waits until a frame is durable, by syncing what was appended or by waiting for a sync that began after
    /// the frame was appended.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] if a sync failed before the frame was known durable; [`Error::NoSuchFrame`] if
    /// it was never appended: no sync would ever cover it.
    pub fn wait_durable(&self, frame: Frame) -> Result<()> {
        loop {
            // Each time: a log that was opened anew may be shorter.
            let last = self.appended();
            if frame > last {
                return Err(Error::NoSuchFrame { asked: frame, last });
            }
            let mut busy = locked(&self.busy);
            if self.durable() >= frame {
                return Ok(());
            }
            if let Some(cause) = self.poison.get() {
                return Err(Error::OutcomeUnknown { frame, cause: cause.clone() });
            }
            if *busy {
                // A sync that is under way may have begun before this frame was appended; whether it
                // covers the frame, `durable` says afterwards.
                drop(self.turn.wait(busy).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            *busy = true;
            drop(busy);
            let locked_out = !self.group.shut();
            // From here to `finish_sync` no rotation and no other sync can begin.
            let mark = *locked(&self.mark);
            let files = self.files.now();
            let synced = match files.last() {
                // The promise is written under the lock alone: another process may have raised it higher.
                Some(segment) if locked_out => segment.sync().map(|()| self.prove(mark)),
                Some(segment) => segment.sync().and_then(|()| self.raise(mark)),
                None => Ok(()),
            };
            self.finish_sync(synced).map_err(|e| outcome_unknown(frame, e))?;
        }
    }

    /// Waits until a frame behind `known` is durable. Answers whether one is; no longer than `wait`.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`]: no further frame of this process will be.
    pub fn wait_beyond(&self, known: Frame, wait: Duration) -> Result<bool> {
        // None: the wait is longer than the clock can count.
        let until = Instant::now().checked_add(wait);
        let mut busy = locked(&self.busy);
        while self.durable() <= known {
            self.check_poison()?;
            if self.closed.load(Ordering::Acquire) {
                return Err(Error::Closed);
            }
            let left = until.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(false);
            }
            busy = self.turn.wait_timeout(busy, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(true)
    }

    /// Wakes whoever waits for a frame to be durable.
    pub(super) fn wake(&self) {
        // Under the mutex of the waiters, so that none can check before and sleep after.
        let _busy = locked(&self.busy);
        self.turn.notify_all();
    }

    /// Waits until no sync is under way; none begins while what this answers is held.
    fn idle(&self) -> MutexGuard<'_, bool> {
        let mut busy = locked(&self.busy);
        while *busy {
            busy = self.turn.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        busy
    }

    /// A sync by the holder of the writer: waits for the one under way, then syncs everything appended.
    pub(super) fn sync_all(&self, segment: &Segment) -> Result<()> {
        let mut busy = self.idle();
        self.check_poison()?;
        *busy = true;
        drop(busy);
        let mark = *locked(&self.mark);
        let synced = segment.sync().and_then(|()| self.raise(mark));
        self.finish_sync(synced)
    }

    /// Waits for the sync under way; none begins until [`Log::finish_sync`].
    pub(super) fn begin_sync(&self) {
        let mut busy = self.idle();
        *busy = true;
    }

    pub(super) fn finish_sync(&self, synced: Result<()>) -> Result<()> {
        let result = synced.map_err(|e| self.poison(e));
        *locked(&self.busy) = false;
        self.turn.notify_all();
        result
    }

    /// Writes the promise, then lets it be known. Only whoever set `busy` comes here.
    fn raise(&self, mark: Mark) -> Result<()> {
        if mark.frame <= self.durable() {
            return Ok(());
        }
        let Mark { frame, segment, offset } = mark;
        let promise = Durable { store: self.store, frame, segment, offset, copied: false };
        locked(&self.durable_file)
            .write_at(0, &promise.encode())
            .map_err(|e| Error::io("writing", self.disk.root().join(DURABLE), e))?;
        self.prove(mark);
        Ok(())
    }

    fn prove(&self, mark: Mark) {
        self.durable.fetch_max(mark.frame.0, Ordering::AcqRel);
    }

    /// Makes everything durable that was appended before the call.
    ///
    /// # Errors
    /// As [`Log::wait_durable`].
    pub fn flush(&self) -> Result<()> {
        self.wait_durable(self.appended())
    }

    /// Ends the log cleanly: a close marker, a sync, and the lock is free. Later writes are refused, and closing
    /// again does nothing.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if a write or sync failed, now or earlier. The lock is free in any case.
    pub fn close(&self) -> Result<()> {
        let mut tail = locked(&self.tail);
        let result = match tail.as_mut() {
            Some(tail) => self.check_poison().and_then(|()| {
                // With many writers a free lock says what a close marker says, without a sync of its own.
                if self.group.holds_for_life() { self.end(tail) } else { Ok(()) }
            }),
            None => Ok(()),
        };
        *tail = None;
        // Whoever takes the lock next may raise the promise; a sync still under way here would lower it again.
        let _idle = self.idle();
        self.group.release();
        self.closed.store(true, Ordering::Release);
        self.turn.notify_all();
        result
    }

    fn end(&self, tail: &mut Tail) -> Result<()> {
        let ended = matches!(tail.place.last_kind, None | Some(FrameKind::Close | FrameKind::Seal));
        if ended {
            return if self.durable() < tail.place.chain.number {
                self.sync_all(&tail.segment)
            } else {
                Ok(())
            };
        }
        // Every append left room for the marker; a file that was mended may have none, and needs none.
        if tail
            .segment
            .reserve(tail.place.end + FRAME_HEADER_BYTES as u64, self.options.segment_bytes)
            .is_ok()
        {
            let mut buffer = vec![0; FRAME_HEADER_BYTES];
            let header =
                self.header(tail, FrameKind::Close, tail.place.chain.number, tail.place.chain.time, 0);
            self.put(tail, &mut buffer, header)?;
        }
        self.sync_all(&tail.segment)
    }

    fn header(
        &self,
        tail: &Tail,
        kind: FrameKind,
        number: Frame,
        time: Time,
        delta_count: u16,
    ) -> FrameHeader {
        FrameHeader {
            payload_length: 0,
            crc: 0,
            number,
            own_offset: u32::try_from(tail.place.end).unwrap_or(u32::MAX),
            previous_crc: tail.place.chain.previous_crc,
            durable: self.durable(),
            time,
            kind,
            delta_count,
            writer: tail.writer,
        }
    }

    /// Writes a frame for which space is reserved, and lets readers see it. Answers the mark behind it, which of
    /// a commit is set only when the writer is let go.
    fn put(&self, tail: &mut Tail, buffer: &mut Vec<u8>, mut header: FrameHeader) -> Result<Mark> {
        if tail.place.end == FRAMES_START && !tail.dir_synced {
            self.disk
                .sync_dir(LOG_DIR)
                .map_err(|e| self.poison(Error::io("syncing", self.disk.root().join(LOG_DIR), e)))?;
        }
        tail.dir_synced = true;
        let crc = frame::finish(buffer, &mut header, tail.segment.seed());
        tail.segment.write(tail.place.end, buffer).map_err(|e| self.poison(e))?;
        tail.place.last_at = Some(tail.place.end);
        tail.place.end += buffer.len() as u64;
        tail.place.chain = Chain { previous_crc: crc, number: header.number, time: header.time };
        tail.place.frames += 1;
        tail.place.commits += u64::from(header.kind == FrameKind::Commit);
        tail.place.last_kind = Some(header.kind);
        tail.segment.publish(tail.place.end);
        let mark = Mark { frame: header.number, segment: tail.segment.id().first(), offset: tail.place.end };
        if header.kind != FrameKind::Commit {
            *locked(&self.mark) = mark;
        }
        Ok(mark)
    }

    /// Seals the full segment and begins the next. A failure to make the next one, such as a full disk, leaves
    /// the sealed segment, and the next append tries again.
    fn rotate(&self, tail: &mut Tail) -> Result<()> {
        self.sync_all(&tail.segment)?;
        let nonce = match tail.place.sealed {
            Some(nonce) => nonce,
            None => self.seal(tail)?,
        };
        let first = tail.place.chain.number.next().ok_or_else(numbers_end)?;
        let header = SegmentHeader {
            store: self.store,
            first,
            salt: random(&*self.disk)?,
            previous_nonce: nonce,
            created: tail.place.chain.time,
        };
        let id = SegmentId::Segment { first };
        let segment = match Segment::build(&*self.disk, id, header, self.options) {
            Ok(segment) => Arc::new(segment),
            Err(e @ Error::DiskFull { .. }) => return Err(e),
            Err(e) => return Err(self.poison(e)),
        };
        // From the rename on the file may be found, so a failure cannot be tried again, a full disk's neither.
        segment.name(&*self.disk).map_err(|e| self.poison(e))?;
        self.files.push(segment.clone());
        tail.ordinal += 1;
        tail.place.end = FRAMES_START;
        tail.place.chain.previous_crc = 0;
        (tail.place.sealed, tail.place.last_at, tail.place.last_kind) = (None, None, None);
        (tail.place.frames, tail.place.commits) = (0, 0);
        tail.dir_synced = true;
        tail.segment = segment;
        Ok(())
    }

    fn seal(&self, tail: &mut Tail) -> Result<u64> {
        let digest = digest(&tail.segment, tail.place.end)?;
        let seal = Seal { frames: tail.place.frames, digest, nonce: random(&*self.disk)? };
        let mut buffer = vec![0; FRAME_HEADER_BYTES];
        buffer.extend_from_slice(&seal.encode());
        tail.segment.reserve(tail.place.end + SEAL_FRAME_BYTES, self.options.segment_bytes)?;
        let header = self.header(tail, FrameKind::Seal, tail.place.chain.number, tail.place.chain.time, 0);
        self.put(tail, &mut buffer, header)?;
        tail.place.sealed = Some(seal.nonce);
        self.sync_all(&tail.segment)?;
        Ok(seal.nonce)
    }
}

impl Writer<'_> {
    /// The number that the next commit gets.
    pub fn next_frame(&self) -> Frame {
        self.tail.as_ref().and_then(|tail| tail.place.chain.number.next()).unwrap_or_default()
    }

    /// The place behind the last commit.
    pub fn start(&self) -> Option<Start> {
        let tail = self.tail.as_ref()?;
        let before =
            self.log.files.now().iter().take(tail.ordinal as usize).map(|s| s.published()).sum::<u64>();
        Some(Start { ordinal: tail.ordinal, place: tail.place.clone(), log_bytes: before + tail.place.end })
    }

    /// Appends a commit. `encode` puts its envelopes behind the header's room, with the seed it is given, and
    /// answers how many deltas they are; it is called again if the segment turns out to be full. Says where
    /// the commit stands; the caller then folds it and lets go of the writer before it waits.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Invalid`] (no delta), [`Error::DiskFull`], [`Error::Poisoned`]: refused, the
    /// commit was not written. [`Error::OutcomeUnknown`]: its write failed, and the writer is poisoned. Whatever
    /// `encode` answers.
    pub fn append(
        &mut self,
        time: Time,
        buffer: &mut Vec<u8>,
        encode: &mut dyn FnMut(&mut Vec<u8>, &Seed) -> Result<usize>,
    ) -> Result<Appended> {
        self.publish();
        let log = self.log;
        log.check_poison()?;
        let tail = self.tail.as_mut().ok_or(Error::Closed)?;
        let number = tail.place.chain.number.next().ok_or_else(numbers_end)?;
        let mut count = fill(buffer, tail, encode)?;
        let full = log.options.segment_bytes.min(SEGMENT_BYTES_MAX);
        let end = |tail: &Tail, buffer: &[u8]| tail.place.end + buffer.len() as u64 + TRAILER_BYTES;
        if tail.place.sealed.is_some() || (end(tail, buffer) > full && tail.place.commits > 0) {
            log.rotate(tail)?;
            count = fill(buffer, tail, encode)?;
        }
        tail.segment.reserve(end(tail, buffer), full)?;
        let time = time.max(tail.place.chain.time);
        let header = log.header(tail, FrameKind::Commit, number, time, count);
        let at = Position { segment: tail.ordinal, offset: header.own_offset };
        let mark = log.put(tail, buffer, header).map_err(|e| outcome_unknown(number, e))?;
        locked(&log.index).commit(number, time, at);
        self.mark = Some(mark);
        Ok(Appended { frame: number, time, at })
    }

    /// Only now is the last commit called appended, and can a sync prove it: its fold is done, so nobody is told
    /// of a frame that reads do not show.
    fn publish(&mut self) {
        if let Some(mark) = self.mark.take() {
            *locked(&self.log.mark) = mark;
        }
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.publish();
    }
}

/// Encodes a commit for the segment that the tail is in, and holds it against the limits.
fn fill(
    buffer: &mut Vec<u8>,
    tail: &Tail,
    encode: &mut dyn FnMut(&mut Vec<u8>, &Seed) -> Result<usize>,
) -> Result<u16> {
    buffer.clear();
    buffer.resize(FRAME_HEADER_BYTES, 0);
    let count = encode(buffer, tail.segment.seed())?;
    let payload = buffer.len() - FRAME_HEADER_BYTES;
    if payload > PAYLOAD_MAX {
        let (limit, found) = (PAYLOAD_MAX as u64, payload as u64);
        return Err(Error::TooLarge { what: "the commit in bytes", limit, found });
    }
    if count == 0 {
        let (what, expected) = ("the number of changes in one commit", "at least 1");
        return Err(Error::Invalid { what, found: count.to_string(), expected });
    }
    u16::try_from(count).map_err(|_| {
        let (limit, found) = (FRAME_DELTAS_MAX as u64, count as u64);
        Error::TooLarge { what: "the number of changes in one commit", limit, found }
    })
}

/// xxh3-128 of a segment's frames up to `end`, read back from the file.
pub(crate) fn digest(segment: &Segment, end: u64) -> Result<u128> {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    let mut at = FRAMES_START;
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(1 << 20);
        let bytes = segment.read_raw(at, len)?;
        if bytes.is_empty() {
            let reason = Malformed::new("segment file", at, format_args!("{end} bytes"), "its end");
            return Err(segment.corrupt(segment.id().first(), reason));
        }
        hash.update(&bytes);
        at += bytes.len() as u64;
    }
    Ok(hash.digest128())
}

fn outcome_unknown(frame: Frame, e: Error) -> Error {
    match e {
        Error::Poisoned { cause } => Error::OutcomeUnknown { frame, cause },
        other => other,
    }
}

fn numbers_end() -> Error {
    Error::TooLarge { what: "the frame number", limit: u64::MAX, found: u64::MAX }
}

/// The content of a mutex. A thread that panicked while it held one left it between two whole states.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
