//! A tail: the durable frames behind a given one, as they come, each once and in order.
//!
//! It owns the waiting, and what a caller sees of a frame. A tail of the only writing process is woken by the
//! commits themselves. Any other follows a view of the log of its own, which it renews when the promise moves:
//! commits of this process wake it, and those of others are looked for, more and more rarely while nothing comes.
//!
//! Invariant: what a tail hands out no loss of power takes back. It holds at most [`READY_BYTES`] of frames, or one
//! that is larger; everything else stays in the log until it is asked for, so nobody waits for a slow tail.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Access, Inner, Store};
use crate::codec::delta::{Envelope, HandleKind, Op, Origin};
use crate::codec::frame::{FrameKind, LostRange};
use crate::codec::payload::Deltas;
use crate::codec::wire::Malformed;
use crate::error::{Error, Result};
use crate::log::{Follower, Log, Met, Reader, Sight, Writers};
use crate::position::{Frame, Time};
use crate::replay;

/// How many bytes of frames are read at a time.
const READY_BYTES: usize = 256 * 1024;
/// Between two looks for the frames of other processes, right after one was found.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The same, when nothing has come for long.
const PAUSE_MAX: Duration = Duration::from_millis(32);
/// After so long a whole look is taken, whatever the cheap one says: it finds what was replaced.
const LOOK_AT_LEAST: Duration = Duration::from_secs(1);

/// The durable frames of a store behind a given one. It keeps the store open.
///
/// As an iterator it waits without end for the next, and ends with the first error (without one when the store is
/// closed in this process). [`Tail::next_within`] waits for a while and can be called again after an error.
#[derive(Debug)]
pub struct Tail {
    inner: Arc<Inner>,
    /// A view of the log of its own; none in the only process that writes.
    own: Option<Own>,
    follower: Follower,
    ready: VecDeque<TailEvent>,
    seen: Frame,
    ended: bool,
}

/// What a tail comes upon.
#[derive(Clone, Debug)]
pub enum TailEvent {
    /// A commit.
    Frame(TailFrame),
    /// Frames that a repair had to give up: the numbers that no frame has, both ends included. The tail goes on
    /// behind them.
    Lost {
        /// The first lost frame behind the one seen before.
        first: Frame,
        /// The last lost frame.
        last: Frame,
    },
}

/// A durable commit with all that it changed.
#[derive(Clone)]
pub struct TailFrame {
    frame: Frame,
    time: Time,
    origin: Option<Origin>,
    deltas: usize,
    payload: Vec<u8>,
}

/// One change of one handle.
#[derive(Clone, Debug, PartialEq)]
pub struct TailDelta<'a> {
    /// The kind of memory.
    pub kind: HandleKind,
    /// Workspace path and name.
    pub id: &'a str,
    /// The operation.
    pub op: Op<'a>,
    /// Of a snapshot, what it holds: the operations that would create its items.
    pub items: Vec<Op<'a>>,
}

#[derive(Debug)]
struct Own {
    reader: Reader,
    looked: Instant,
    pause: Duration,
}

impl Store {
    /// The durable frames behind `from`, the last one that was seen (frame 0 for all), and those that come.
    ///
    /// Resuming with [`Tail::seen`] of an earlier tail, also of another process, misses nothing and repeats nothing.
    /// With [`crate::Durability::Os`] a frame comes when it is durable, not when it is acknowledged. A store that is
    /// open for reading, or with [`Writers::Many`], also shows the frames of other processes; its own reads are
    /// not refreshed by that.
    ///
    /// # Errors
    /// [`Error::Compacted`]: the frame behind `from` is not there any more, and `oldest` is the earliest to begin
    /// with. [`Error::NoSuchFrame`]: `from` is beyond the last. [`Error::Closed`]; [`Error::Io`].
    pub fn tail(&self, from: Frame) -> Result<Tail> {
        let inner = self.inner().clone();
        let reader = match &inner.log {
            Access::Write(_) if inner.options.writers == Writers::One => None,
            Access::Write(log) => Some(log.apart()?),
            Access::Read(reader) => Some(reader.apart()?),
        };
        let own = reader.map(|reader| Own { reader, looked: Instant::now(), pause: PAUSE_MIN });
        let follower = Follower::behind(from);
        let tail = Tail { inner, own, follower, ready: VecDeque::new(), seen: from, ended: false };
        match (tail.follower.check(&tail.sight()), &tail.own) {
            // What was seen elsewhere may be newer than what is known here.
            (Err(Error::NoSuchFrame { .. }), Some(own)) => {
                own.reader.look()?;
                tail.follower.check(&tail.sight())?;
            }
            (checked, _) => checked?,
        }
        Ok(tail)
    }
}

impl Tail {
    /// The last frame that was handed out, lost ones included: where another tail goes on. At first the frame that
    /// this one began behind.
    pub fn seen(&self) -> Frame {
        self.seen
    }

    /// The next frame; waits for it no longer than `wait`, and answers none then. Without a wait it answers what is
    /// there. Durable frames come first, whatever else is wrong.
    ///
    /// # Errors
    /// [`Error::Compacted`]: the next frame is not there any more; begin another tail at `oldest`.
    /// [`Error::Poisoned`], [`Error::Closed`]: everything durable was handed out, and this writer will not make
    /// more. [`Error::Damaged`], [`Error::Corrupt`]: the next frame is there and cannot be read.
    /// [`Error::OtherStore`], [`Error::NoSuchStore`]: the directory was exchanged or removed. [`Error::NoSuchFrame`]:
    /// an older copy of the store was put there. [`Error::Io`]. The tail stays where it is, so a later call may
    /// succeed.
    pub fn next_within(&mut self, wait: Duration) -> Result<Option<TailEvent>> {
        // None: the wait is longer than the clock can count.
        let until = Instant::now().checked_add(wait);
        loop {
            if self.ready.is_empty() {
                let durable = self.fill()?;
                if self.ready.is_empty() && !self.wait(durable, until)? {
                    return Ok(None);
                }
            }
            if let Some(event) = self.ready.pop_front() {
                self.seen = event.last();
                return Ok(Some(event));
            }
        }
    }

    fn sight(&self) -> Sight {
        match (&self.own, &self.inner.log) {
            (Some(own), _) => own.reader.sight(self.follower.next()),
            (None, Access::Write(log)) => log.sight(self.follower.next()),
            (None, Access::Read(reader)) => reader.sight(self.follower.next()),
        }
    }

    /// Reads the next durable frames that are known. Answers up to where frames are known durable.
    fn fill(&mut self) -> Result<Frame> {
        let sight = self.sight();
        let (ready, mut bytes) = (&mut self.ready, 0);
        let corrupt =
            |met: &Met<'_>, reason| replay::corrupt(sight.files(), met.at, met.frame.header.number, reason);
        self.follower.each(&sight, &mut |met, seen| {
            let event = TailEvent::of(&met, seen).map_err(|reason| corrupt(&met, reason))?;
            bytes += met.frame.payload.len();
            ready.push_back(event);
            Ok(bytes < READY_BYTES)
        })?;
        Ok(sight.durable())
    }

    /// Waits until more than `durable` is known durable. Answers whether it is.
    fn wait(&mut self, durable: Frame, until: Option<Instant>) -> Result<bool> {
        let left = || until.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        let log = match &self.inner.log {
            Access::Write(log) => Some(&**log),
            Access::Read(_) => None,
        };
        match (&mut self.own, log) {
            (Some(own), log) => own.wait(log, durable, &left),
            (None, Some(log)) => log.wait_beyond(durable, left()),
            (None, None) => Ok(false),
        }
    }
}

impl Own {
    fn wait(&mut self, log: Option<&Log>, durable: Frame, left: &dyn Fn() -> Duration) -> Result<bool> {
        loop {
            let here = log.map_or(Frame::ZERO, Log::durable);
            if !self.reader.is_quiet() || self.looked.elapsed() >= LOOK_AT_LEAST {
                self.reader.look()?;
                self.looked = Instant::now();
            }
            if self.reader.durable() > durable {
                self.pause = PAUSE_MIN;
                return Ok(true);
            }
            let pause = self.pause.min(left());
            if pause.is_zero() {
                return Ok(false);
            }
            match log.map(|log| log.wait_beyond(here, pause)) {
                Some(Ok(_)) => {}
                Some(Err(Error::Closed)) => return Err(Error::Closed),
                // Others write on.
                Some(Err(_)) | None => thread::sleep(pause),
            }
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
    }
}

impl Iterator for Tail {
    type Item = Result<TailEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.next_within(Duration::MAX) {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) => {}
                Err(error) => {
                    self.ended = true;
                    return (!matches!(error, Error::Closed)).then_some(Err(error));
                }
            }
        }
        None
    }
}

impl TailEvent {
    fn of(met: &Met<'_>, seen: Frame) -> Result<TailEvent, Malformed> {
        let header = &met.frame.header;
        if header.kind == FrameKind::Lost {
            let LostRange { first, last } = LostRange::decode(met.frame.payload, u64::from(met.at.offset))?;
            // A range that goes on from where the caller was says only what is new.
            let first = seen.next().unwrap_or(first).max(first);
            return Ok(TailEvent::Lost { first, last });
        }
        let mut deltas = Deltas::of(&met.frame)?;
        let origin = deltas.origin().cloned();
        // Every envelope is decoded once here, so that nobody meets one later that does not.
        deltas.try_for_each(|delta| delta.map(drop))?;
        Ok(TailEvent::Frame(TailFrame {
            frame: header.number,
            time: header.time,
            origin,
            deltas: usize::from(header.delta_count),
            payload: met.frame.payload.to_vec(),
        }))
    }

    /// The frame, or the last of the lost ones.
    pub fn last(&self) -> Frame {
        match self {
            TailEvent::Frame(frame) => frame.frame,
            TailEvent::Lost { last, .. } => *last,
        }
    }
}

impl TailFrame {
    /// The commit's number.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// When it was written.
    pub fn time(&self) -> Time {
        self.time
    }

    /// Who wrote it, where that was said.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// How many deltas it holds: at least 1. A snapshot is one, whatever its items.
    pub fn len(&self) -> usize {
        self.deltas
    }

    /// False: a commit changes something.
    pub fn is_empty(&self) -> bool {
        self.deltas == 0
    }

    /// Its deltas, in their order.
    pub fn deltas(&self) -> Vec<TailDelta<'_>> {
        let mut deltas: Vec<TailDelta<'_>> = Vec::with_capacity(self.deltas);
        for envelope in self.envelopes() {
            match deltas.last_mut().filter(|_| envelope.item) {
                Some(snapshot) => snapshot.items.push(envelope.op),
                None => deltas.push(TailDelta {
                    kind: envelope.op.kind(),
                    id: envelope.id,
                    op: envelope.op,
                    items: Vec::new(),
                }),
            }
        }
        deltas
    }

    /// The envelopes, which were found to decode when the frame was read.
    pub(crate) fn envelopes(&self) -> impl Iterator<Item = Envelope<'_>> {
        let deltas = Deltas::new(&self.payload, 0).into_iter().flatten();
        deltas.filter_map(|delta| delta.ok().map(|delta| delta.envelope))
    }
}

impl std::fmt::Debug for TailFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TailFrame { frame, time, origin, .. } = self;
        let mut shown = f.debug_struct("TailFrame");
        shown.field("frame", frame).field("time", time).field("origin", origin);
        shown.field("deltas", &self.deltas()).finish()
    }
}
