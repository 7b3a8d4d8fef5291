//! Bringing a whole workspace back to an earlier state, as one new frame.
//!
//! A workspace is a path prefix: the workspaces below it go back with it, and all their lanes are held from the
//! comparison to the append. Handles of other workspaces are not touched, whatever their names begin with.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::commit::{Change, Stamp};
use super::past::Past;
use super::{Inner, Reading, Workspace};
use crate::codec::delta::{Op, Origin};
use crate::codec::frame::FRAME_DELTAS_MAX;
use crate::error::{Error, Result};
use crate::position::Frame;
use crate::view::HandleId;
use crate::view::back::{Back, Side};

/// What a rollback wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// The new frame; none if everything was as it had been, so that nothing was written.
    pub frame: Option<Frame>,
    /// How many deltas it has. A ring that was replaced is one.
    pub deltas: usize,
}

impl Workspace {
    /// Brings every handle of this workspace and of the workspaces below it back to its state at a frame, its
    /// configuration included, by one new frame that holds what differs. History stays, so a rollback can be rolled
    /// back. Nothing else can write to these workspaces in between.
    ///
    /// # Errors
    /// As [`super::Store::at`]; [`Error::TooLarge`]: more than 65,535 notes, rows and configurations differ, or
    /// they are more than 1 GiB; [`Error::ReadOnly`] in a past; [`Error::InsideExclusive`] in a critical section;
    /// [`Error::LaneBusy`]; what committing answers.
    pub fn rollback(&self, frame: Frame) -> Result<RolledBack> {
        let store = self.source().live_store(self.path().as_str())?;
        store.rollback(self.path().as_str(), frame, self.source().origin())
    }
}

impl Inner {
    fn rollback(self: &Arc<Self>, path: &str, frame: Frame, origin: Option<&Origin>) -> Result<RolledBack> {
        self.catch_up_to(frame)?;
        let mut generation = self.generation();
        let mut then = Past::at(self, frame)?.reading();
        loop {
            let handles = self.handles_in(path, &then);
            let workspaces: BTreeSet<&str> = handles.iter().map(workspace_of).chain([path]).collect();
            let mut held = self.enter_lanes(&workspaces)?;
            if self.generation() != generation {
                // What was read may have been erased meanwhile.
                drop(held);
                generation = self.generation();
                then = Past::at(self, frame)?.reading();
                continue;
            }
            let handles = self.handles_in(path, &then);
            if handles.iter().any(|handle| !workspaces.contains(workspace_of(handle))) {
                // A workspace came to be before its lane was held.
                continue;
            }
            let backs = backs(handles, &self.reading(), &then)?;
            let mut changes = Vec::new();
            for (handle, back) in &backs {
                let ops = back.ops(handle.kind)?.into_iter();
                changes.extend(ops.map(|op| Change { id: &handle.id, op }));
            }
            let deltas = deltas(&changes)?;
            if deltas == 0 {
                return Ok(RolledBack { frame: None, deltas });
            }
            let frame = self.append(&changes, Stamp { origin, time: None })?;
            held.leave_lanes();
            self.acknowledge(frame)?;
            return Ok(RolledBack { frame: Some(frame), deltas });
        }
    }

    /// The handles of a workspace and of those below it that are in use now, or were then.
    fn handles_in(&self, path: &str, then: &Reading) -> BTreeSet<HandleId> {
        let now = self.state();
        let all = now.handles().chain(then.state.handles());
        all.filter(|handle| is_within(workspace_of(handle), path)).collect()
    }
}

fn backs(handles: BTreeSet<HandleId>, now: &Reading, then: &Reading) -> Result<Vec<(HandleId, Back)>> {
    let now = Side { state: &now.state, bodies: &now.bodies };
    let then = Side { state: &then.state, bodies: &then.bodies };
    handles.into_iter().map(|handle| Ok((handle.clone(), Back::of(&handle, now, then)?))).collect()
}

/// How many deltas the changes are: a snapshot with its items is one.
fn deltas(changes: &[Change<'_>]) -> Result<usize> {
    let items: u64 =
        changes.iter().map(|change| if let Op::Snapshot { items, .. } = change.op { items } else { 0 }).sum();
    let deltas = changes.len().saturating_sub(usize::try_from(items).unwrap_or(usize::MAX));
    if deltas > FRAME_DELTAS_MAX {
        let (limit, found) = (FRAME_DELTAS_MAX as u64, deltas as u64);
        return Err(Error::TooLarge { what: "the number of changes in one commit", limit, found });
    }
    Ok(deltas)
}

fn workspace_of(handle: &HandleId) -> &str {
    handle.id.rsplit_once('/').map_or("", |(workspace, _)| workspace)
}

fn is_within(workspace: &str, path: &str) -> bool {
    let below = || workspace.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    path.is_empty() || workspace == path || below()
}
