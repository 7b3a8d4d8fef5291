//! Critical sections: many reads and writes of one workspace as one frame.
//!
//! The section folds its writes into a clone of the state, so that it sees them and nobody else does. They
//! become one frame when it ends well, and vanish when it does not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::commit::{Change, Stamp};
use super::workspace::{Source, Workspace};
use super::{Inner, Reading};
use crate::codec::delta::Op;
use crate::codec::frame::{FRAME_DELTAS_MAX, PAYLOAD_MAX, Seed};
use crate::codec::payload::{self, Decoded, Trust};
use crate::error::{Error, Result};
use crate::log::{Stay, locked};
use crate::position::{Last, Place, Position};
use crate::replay::LogBodies;
use crate::view::State;

/// A critical section under way: a workspace whose writes wait for its end.
#[derive(Debug)]
pub struct Tx {
    workspace: Workspace,
}

impl std::ops::Deref for Tx {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.workspace
    }
}

/// The writes of a critical section so far.
#[derive(Debug)]
pub(super) struct Pending {
    inner: Arc<Inner>,
    workspace: Arc<str>,
    writes: Mutex<Writes>,
    over: AtomicBool,
}

#[derive(Debug)]
struct Writes {
    /// The state before the section with its writes applied.
    state: State,
    /// The files that it was folded from: compacting puts others in their place meanwhile.
    bodies: LogBodies,
    /// Their envelopes, one behind the other, under a seed of their own.
    encoded: Arc<Vec<u8>>,
    envelopes: u32,
    deltas: usize,
}

impl Pending {
    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// The section's own state; after its end, the store's.
    pub(super) fn reading(&self) -> Reading {
        let writes = locked(&self.writes);
        if self.is_over() { self.inner.reading() } else { self.reading_of(&writes) }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn reading_of(&self, writes: &Writes) -> Reading {
        let bodies = writes.bodies.clone().with_pending(writes.encoded.clone());
        Reading { state: writes.state.clone(), bodies }
    }

    /// Decides against the section's own state, and adds the operations to its frame.
    ///
    /// # Errors
    /// [`Error::Closed`] after the section's end; [`Error::BadName`] for a handle of another workspace; limits;
    /// whatever `decide` answers. Nothing is added then.
    pub(super) fn change<'a, T>(
        &self,
        id: &'a str,
        decide: impl FnOnce(&Reading) -> Result<(Vec<Op<'a>>, T)>,
    ) -> Result<T> {
        // Held from the decision to the end: other threads of the section wait, and the section's end too, so
        // that a write is either part of its frame or refused.
        let mut writes = locked(&self.writes);
        if self.is_over() {
            return Err(Error::Closed);
        }
        let within = id.rsplit_once('/').map_or("", |(path, _)| path) == &*self.workspace;
        if !within {
            let reason = format!("`{id}` is not in workspace `{}`, which this section holds", self.workspace);
            return Err(Error::BadName { reason });
        }
        let (ops, answer) = decide(&self.reading_of(&writes))?;
        for op in &ops {
            self.inner.options.limits.check(id, op)?;
        }
        self.add(&mut writes, id, &ops)?;
        Ok(answer)
    }

    fn add(&self, writes: &mut Writes, id: &str, ops: &[Op<'_>]) -> Result<()> {
        let Writes { state, encoded, envelopes, deltas, .. } = writes;
        // A snapshot with all its items is one delta, and comes alone.
        let more = if matches!(ops.first(), Some(Op::Snapshot { .. })) { 1 } else { ops.len() };
        let (limit, found) = (FRAME_DELTAS_MAX as u64, (*deltas + more) as u64);
        if found > limit {
            return Err(Error::TooLarge { what: "the number of changes in one commit", limit, found });
        }
        let encoded = Arc::make_mut(encoded);
        let before = encoded.len();
        let mut offsets = Vec::with_capacity(ops.len());
        let seed = Seed::new(0);
        let mut items = 0;
        for op in ops {
            offsets.push(encoded.len());
            if let Err(reason) = payload::encode(encoded, &seed, id, Last::default(), op, items > 0) {
                encoded.truncate(before);
                let expected = "a value that the format can hold";
                return Err(Error::Invalid { what: reason.what, found: reason.found, expected });
            }
            items = if let Op::Snapshot { items, .. } = op { *items } else { items.saturating_sub(1) };
        }
        if encoded.len() > PAYLOAD_MAX {
            // No frame could hold it: refused now, so that the section can still end with what it had.
            let (limit, found) = (PAYLOAD_MAX as u64, encoded.len() as u64);
            encoded.truncate(before);
            return Err(Error::TooLarge { what: "the commit in bytes", limit, found });
        }
        let (frame, time) = (state.frame().next().unwrap_or_default(), self.inner.options.clock.now());
        for (op, offset) in ops.iter().zip(offsets) {
            let last = Last { frame, index: *envelopes };
            let at =
                Position { segment: Position::PENDING, offset: u32::try_from(offset).unwrap_or(u32::MAX) };
            state.apply(Place { last, at }, time, id, op);
            *envelopes = envelopes.saturating_add(1);
        }
        *deltas += more;
        Ok(())
    }
}

/// Runs a section on a live store, and commits what it wrote.
pub(super) fn run<T, E: From<Error>>(
    inner: &Arc<Inner>,
    workspace: &Workspace,
    section: impl FnOnce(&Tx) -> Result<T, E>,
) -> Result<T, E> {
    inner.writable()?;
    let path = workspace.path();
    let (lane, _turn) = workspace.source().turn(inner, Stay::Section)?;
    let Reading { state, bodies } = inner.reading();
    let writes = Writes { state, bodies, encoded: Arc::default(), envelopes: 0, deltas: 0 };
    let pending = Arc::new(Pending {
        inner: inner.clone(),
        workspace: path.as_str().into(),
        writes: Mutex::new(writes),
        over: AtomicBool::new(false),
    });
    // Ends the section however its closure ends: a handle that outlives it writes nothing any more.
    let end = End(pending.clone());
    let tx = Tx { workspace: Workspace::new(Source::tx(pending.clone()), path.clone()) };
    let answer = {
        let _inside = inner.lanes.mark(path.as_str());
        section(&tx)?
    };
    drop(end);
    let encoded = {
        let mut writes = locked(&pending.writes);
        // The clone goes before the fold, so that folding copies no node that nobody else reads.
        writes.state = State::default();
        writes.encoded.clone()
    };
    let changes = decode(&encoded)?;
    if changes.is_empty() {
        return Ok(answer);
    }
    let source = workspace.source();
    let frame = inner.append(&changes, Stamp { origin: source.origin(), time: None })?;
    drop(lane);
    inner.acknowledge(frame)?;
    source.tell(frame);
    Ok(answer)
}

struct End(Arc<Pending>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

/// The section's operations, borrowed from their envelopes.
fn decode(encoded: &[u8]) -> Result<Vec<Change<'_>>> {
    let mut changes = Vec::new();
    let mut rest = encoded;
    while !rest.is_empty() {
        let (decoded, behind) = payload::decode(rest, 0, Trust::Frame).map_err(|reason| Error::Invalid {
            what: reason.what,
            found: reason.found,
            expected: "what this critical section wrote",
        })?;
        if let Decoded::Delta(envelope) = decoded {
            changes.push(Change { id: envelope.id, op: envelope.op });
        }
        rest = behind;
    }
    Ok(changes)
}
