//! Folding frame by frame, for those who want to look in between.
//!
//! A step knows which handles its frame changed, so that the digest of each state along the way costs a new
//! snapshot of those handles and no others. The digests are those of [`State::digest`], by the same code.

use std::collections::{BTreeMap, BTreeSet};

use super::{LogBodies, each_frame, fold};
use crate::codec::frame::FrameKind;
use crate::codec::payload::Deltas;
use crate::error::Result;
use crate::log::{Cursor, Files};
use crate::position::{Frame, Time};
use crate::view::{HandleId, State, StateDigest};

/// One commit on the way, just folded.
#[derive(Debug)]
pub struct Step<'a> {
    frame: Frame,
    time: Time,
    deltas: &'a [HandleId],
    folding: &'a mut Folding,
}

/// The state so far, and the snapshots of the handles that were looked at.
#[derive(Debug)]
struct Folding {
    state: State,
    bodies: LogBodies,
    snapshots: BTreeMap<HandleId, Vec<u8>>,
    /// Changed since their snapshot was taken.
    stale: BTreeSet<HandleId>,
}

impl Step<'_> {
    /// The commit's number.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// The commit's time.
    pub fn time(&self) -> Time {
        self.time
    }

    /// The handle of each of its deltas, in their order. A snapshot is one delta, whatever its items.
    pub fn deltas(&self) -> &[HandleId] {
        self.deltas
    }

    /// The digest of the state at this frame, equal to [`State::digest`]. Takes new snapshots of the handles that
    /// changed since it was last asked for, and keeps the snapshots of all handles in memory.
    ///
    /// # Errors
    /// A body cannot be read.
    pub fn digest(&mut self) -> Result<u128> {
        self.folding.digest()
    }
}

impl Folding {
    fn digest(&mut self) -> Result<u128> {
        let used: Vec<HandleId> = self.state.handles().collect();
        while let Some(handle) = self.stale.pop_first() {
            if used.binary_search(&handle).is_ok() {
                let snapshot = self.state.snapshot(&handle, &self.bodies)?;
                self.snapshots.insert(handle, snapshot);
            } else {
                self.snapshots.remove(&handle);
            }
        }
        let mut digest = StateDigest::default();
        for (handle, snapshot) in &self.snapshots {
            digest.add(handle, snapshot);
        }
        Ok(digest.finish())
    }
}

/// Folds from the beginning of the log up to a frame, which the caller has seen that the log has, and visits
/// every commit on the way. A base is folded and not visited.
///
/// # Errors
/// As [`super::replay`]; whatever `visit` answers.
pub fn steps(files: &Files, to: Frame, visit: &mut dyn FnMut(&mut Step<'_>) -> Result<()>) -> Result<State> {
    let mut folding = Folding {
        state: State::default(),
        bodies: LogBodies::new(files),
        snapshots: BTreeMap::new(),
        stale: BTreeSet::new(),
    };
    let mut deltas = Vec::new();
    each_frame(files, Cursor::START, &mut |met| {
        let header = &met.frame.header;
        if header.number > to || to == Frame::ZERO {
            return Ok(false);
        }
        fold(files, &mut folding.state, &met)?;
        if !matches!(header.kind, FrameKind::Commit | FrameKind::Base) {
            return Ok(true);
        }
        deltas.clear();
        // The fold decoded every envelope of the frame already.
        let decoded = Deltas::of(&met.frame).map(|deltas| deltas.flatten());
        for envelope in decoded.into_iter().flatten().map(|delta| delta.envelope).filter(|e| !e.item) {
            deltas.push(HandleId { kind: envelope.op.kind(), id: envelope.id.into() });
        }
        folding.stale.extend(deltas.iter().cloned());
        if header.kind == FrameKind::Commit {
            let (frame, time) = (header.number, header.time);
            visit(&mut Step { frame, time, deltas: &deltas, folding: &mut folding })?;
        }
        Ok(header.number < to || header.kind != FrameKind::Commit)
    })?;
    Ok(folding.state)
}
