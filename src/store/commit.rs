//! Turning operations into one frame: limits, chains, encoding, append, fold, acknowledgement.

use std::collections::HashMap;
use std::sync::PoisonError;

use super::{Inner, Newer};
use crate::codec::delta::{
    Config, EMBEDDING_WIDTH_MAX, HandleKind, KEY_BYTES_MAX, Links, ORIGIN_BYTES_MAX, Op, Origin,
};
use crate::codec::frame::Seed;
use crate::codec::payload;
use crate::codec::wire::Malformed;
use crate::error::{Error, Result};
use crate::log::{Durability, Writers, base_frame_bytes};
use crate::position::{Frame, Last, Place, Position, Time};
use crate::view::{State, base};

/// Limits that every path into the log holds, because it is held here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest item: its texts in bytes, and 4 bytes for each float. An embedder's name and model are one, too.
    pub item_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { item_bytes: 32 << 20 }
    }
}

impl Limits {
    /// Holds an operation on the handle `id` against the limits.
    ///
    /// # Errors
    /// [`Error::TooLarge`] naming what is too large, the limit and the size.
    pub fn check(&self, id: &str, op: &Op<'_>) -> Result<()> {
        let within = |what, found: usize, limit: u64| {
            let found = found as u64;
            if found > limit { Err(Error::TooLarge { what, limit, found }) } else { Ok(()) }
        };
        within("the handle's name in bytes", id.len(), KEY_BYTES_MAX as u64)?;
        within("the key in bytes", op.key().map_or(0, str::len), KEY_BYTES_MAX as u64)?;
        let item = match op {
            Op::Remember(n) => n.key.len() + n.summary.map_or(0, str::len) + n.body.as_str().len(),
            Op::Upsert(u) => {
                within("the vector in floats", u.embedding.len(), EMBEDDING_WIDTH_MAX as u64)?;
                u.id.len() + u.text.len() + u.metadata.len() + 4 * u.embedding.len()
            }
            Op::Record(r) => r.key.len() + r.value.len(),
            Op::Push(p) => p.label.len() + p.content.len(),
            Op::Configure(Config::Vector(Some(i))) | Op::Snapshot { config: Config::Vector(Some(i)), .. } => {
                i.name.len() + i.model.len()
            }
            _ => 0,
        };
        within("the item in bytes", item, self.item_bytes)
    }
}

/// One operation on the handle with this id; items follow the head of their snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) id: &'a str,
    pub(crate) op: Op<'a>,
}

/// Who writes, and when it counts as written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamp<'a> {
    pub(crate) origin: Option<&'a Origin>,
    /// A given time; the clock's otherwise.
    pub(crate) time: Option<Time>,
}

/// Space that is reused from commit to commit.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    frame: Vec<u8>,
    /// Where each envelope begins in the frame.
    offsets: Vec<usize>,
    /// What the operation being encoded pushes out.
    evicted: Vec<Last>,
}

impl Inner {
    /// Appends one frame of at least one change and folds it; it is not durable yet.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::DiskFull`], [`Error::ReadOnly`], [`Error::Closed`], [`Error::Poisoned`]:
    /// nothing was written. [`Error::OutcomeUnknown`]: a write failed.
    pub(crate) fn append(&self, changes: &[Change<'_>], stamp: Stamp<'_>) -> Result<Frame> {
        let log = self.writable()?;
        for change in changes {
            self.options.limits.check(change.id, &change.op)?;
        }
        check_origin(stamp.origin)?;
        let mut writer = log.writer()?;
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let Buffer { frame, offsets, evicted } = &mut *buffer;
        let time = stamp.time.unwrap_or_else(|| self.options.clock.now());
        let (before, number) = (self.state(), writer.next_frame());
        let appended = writer.append(time, frame, &mut |out, seed| {
            offsets.clear();
            let chains = Chains::new(&before, number, changes.len(), evicted);
            encode(out, seed, changes, stamp.origin, chains, offsets)
        })?;
        // Only the state in place is left, so that folding copies no node that nobody else reads.
        drop(before);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for (index, (change, offset)) in changes.iter().zip(offsets.iter()).enumerate() {
            let offset = appended.at.offset.saturating_add(*offset as u32);
            let last = Last { frame: appended.frame, index: index as u32 };
            let place = Place { last, at: Position { offset, ..appended.at } };
            state.apply(place, appended.time, change.id, &change.op);
        }
        state.advance(appended.frame, appended.time);
        self.saving.appended(frame.len(), &writer, &self.files, &state);
        Ok(appended.frame)
    }

    /// Waits until a frame counts as written.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`]: the sync failed.
    pub(crate) fn acknowledge(&self, frame: Frame) -> Result<()> {
        match (self.options.durability, self.options.writers) {
            (Durability::Os, Writers::One) => {}
            _ => self.writable()?.wait_durable(frame)?,
        }
        self.saving.acknowledged(self.writable()?, frame);
        Ok(())
    }
}

/// Holds an origin against its limit.
///
/// # Errors
/// [`Error::TooLarge`].
pub(super) fn check_origin(origin: Option<&Origin>) -> Result<()> {
    let found = origin.map_or(0, payload::origin_bytes) as u64;
    let limit = ORIGIN_BYTES_MAX as u64;
    if found > limit {
        return Err(Error::TooLarge { what: "the origin in bytes", limit, found });
    }
    Ok(())
}

impl Inner {
    /// Makes an empty store begin with the state at a frame: the changes are the snapshots of its handles. The
    /// caller holds its turn. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::log::Log::begin_with`]; [`Error::TooLarge`]: an item that fills a frame alone.
    pub(crate) fn begin_at(&self, frame: Frame, changes: &[Change<'_>], stamp: Stamp<'_>) -> Result<()> {
        let frame_bytes = base_frame_bytes(self.options.segment_bytes);
        let pour = &mut |put: &mut dyn FnMut(&[u8], u16) -> Result<()>| {
            let snapshots = changes.iter().map(|Change { id, op }| (*id, op));
            base::frames(stamp.origin, snapshots, frame_bytes, put)
        };
        self.writable()?.begin_with((frame, stamp.time.unwrap_or_default()), pour, &mut Newer::of(self))
    }
}

/// Encodes all changes, each with its links to the deltas before it. Answers how many deltas they are: a snapshot
/// with its items is one.
fn encode<'c>(
    out: &mut Vec<u8>,
    seed: &Seed,
    changes: &'c [Change<'c>],
    origin: Option<&Origin>,
    mut chains: Chains<'c>,
    offsets: &mut Vec<usize>,
) -> Result<usize> {
    if let Some(origin) = origin {
        payload::encode_origin(out, seed, origin).map_err(not_encodable)?;
    }
    let mut deltas = 0;
    let mut items = 0;
    for (index, Change { id, op }) in changes.iter().enumerate() {
        let item = items > 0;
        if item {
            items -= 1;
        } else {
            deltas += 1;
        }
        if let Op::Snapshot { items: n, .. } = op {
            items = *n;
        }
        offsets.push(out.len());
        let links = chains.next(id, op, item, index as u32);
        payload::encode(out, seed, id, links, op, item).map_err(not_encodable)?;
    }
    Ok(deltas)
}

pub(super) fn not_encodable(reason: Malformed) -> Error {
    Error::Invalid { what: reason.what, found: reason.found, expected: "a value that the format can hold" }
}

/// Finds the delta before each one of the same key, and what each pushes out of a ring or scratchpad, also where
/// that stands in the same frame.
struct Chains<'c> {
    before: &'c State,
    /// The rings and scratchpads with the changes so far; none before the first one in a frame of several.
    rings: Option<State>,
    evicted: &'c mut Vec<Last>,
    /// Places in the frame being written, by kind, handle and key.
    here: HashMap<(HandleKind, &'c str, &'c str), Last>,
    /// Handles whose chains a snapshot in this frame ended.
    ended: Vec<(HandleKind, &'c str)>,
    /// Tables that were cleared in this frame, and where.
    cleared: HashMap<&'c str, Last>,
    frame: Frame,
    single: bool,
}

impl<'c> Chains<'c> {
    fn new(before: &'c State, frame: Frame, changes: usize, evicted: &'c mut Vec<Last>) -> Chains<'c> {
        Chains {
            before,
            rings: None,
            evicted,
            here: HashMap::new(),
            ended: Vec::new(),
            cleared: HashMap::new(),
            frame,
            single: changes == 1,
        }
    }

    fn next(&mut self, id: &'c str, op: &'c Op<'_>, item: bool, index: u32) -> Links<'_> {
        match op.kind() {
            HandleKind::Notes | HandleKind::Vector => self.previous(id, op, item, index).into(),
            HandleKind::Episodic | HandleKind::Working => {
                self.evict(id, op, item, index);
                Links { previous: Last::default(), evicted: self.evicted }
            }
        }
    }

    fn evict(&mut self, id: &str, op: &Op<'_>, item: bool, index: u32) {
        self.evicted.clear();
        let rings = self.rings.as_ref().unwrap_or(self.before);
        if !item {
            rings.evicted_by(id, op, self.evicted);
        }
        if !self.single {
            let last = Last { frame: self.frame, index };
            let at = Position { segment: Position::PENDING, offset: index };
            let rings = self.rings.get_or_insert_with(|| self.before.clone());
            rings.apply(Place { last, at }, self.before.time(), id, op);
        }
    }

    fn previous(&mut self, id: &'c str, op: &'c Op<'_>, item: bool, index: u32) -> Last {
        let kind = op.kind();
        if let Op::Snapshot { continues: false, .. } = op {
            // Items go on with the chains they had; whatever comes after the snapshot has only theirs.
            self.here.retain(|(k, i, _), _| (*k, *i) != (kind, id));
            self.ended.push((kind, id));
        }
        let own = Last { frame: self.frame, index };
        if let Op::Clear(HandleKind::Vector) = op {
            return self.cleared.insert(id, own).unwrap_or_else(|| self.before.cleared(id));
        }
        let Some(key) = op.chain_key() else { return Last::default() };
        let stored = || self.before.last(kind, id, key);
        if self.single {
            return stored();
        }
        match self.here.insert((kind, id, key), own) {
            Some(earlier) => earlier,
            None if item || !self.ended.contains(&(kind, id)) => stored(),
            None => Last::default(),
        }
    }
}
