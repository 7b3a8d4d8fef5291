//! The way back: what to write so that a handle is again as it was.
//!
//! Owns which deltas express the difference between two states of one handle. Notes and rows are written one by
//! one, so that no chain of versions ends; a ring or a scratchpad is added to or emptied where that is enough, and
//! replaced by a snapshot otherwise.
//!
//! Invariant: what is answered, applied to the later state, gives the snapshot of the earlier one.

use super::diff::merge;
use super::notes::{Note, NoteHead};
use super::text::compare_keys;
use super::vectors::{RowHead, VectorRow};
use super::{Bodies, HandleId, NotesView, State, VectorView};
use crate::codec::delta::{Config, HandleKind, Op};
use crate::codec::snapshot;
use crate::error::Result;

/// A state and what its bodies are read from.
#[derive(Clone, Copy)]
pub(crate) struct Side<'s> {
    pub(crate) state: &'s State,
    pub(crate) bodies: &'s dyn Bodies,
}

/// What brings one handle back.
#[derive(Debug)]
pub(crate) enum Back {
    /// Keys, each with the note to save, or none to forget it.
    Notes(Vec<(String, Option<Note>)>),
    /// As for notes, after the table was emptied and configured where that is needed.
    Rows { clear: bool, config: Option<Config<'static>>, rows: Vec<(String, Option<VectorRow>)> },
    /// The snapshots of a ring or a scratchpad as it is and as it was.
    Ring { now: Vec<u8>, then: Vec<u8> },
}

impl Back {
    /// What brings a handle from one state back to another.
    ///
    /// # Errors
    /// A body cannot be read.
    pub(crate) fn of(handle: &HandleId, now: Side<'_>, then: Side<'_>) -> Result<Back> {
        let id = &*handle.id;
        match handle.kind {
            HandleKind::Notes => notes(id, now, then).map(Back::Notes),
            HandleKind::Vector => rows(id, now, then),
            HandleKind::Episodic | HandleKind::Working => Ok(Back::Ring {
                now: now.state.snapshot(handle, now.bodies)?,
                then: then.state.snapshot(handle, then.bodies)?,
            }),
        }
    }

    /// The operations, in order; none if nothing differs.
    ///
    /// # Errors
    /// Never in practice: the snapshots of a ring were just made.
    pub(crate) fn ops<'s>(&'s self, kind: HandleKind) -> Result<Vec<Op<'s>>> {
        Ok(match self {
            Back::Notes(notes) => {
                let op = |(key, note): &'s (String, Option<Note>)| match note {
                    Some(note) => Op::Remember(note.delta()),
                    None => Op::Forget { key },
                };
                notes.iter().map(op).collect()
            }
            Back::Rows { clear, config, rows } => {
                let mut ops: Vec<Op<'_>> = clear.then_some(Op::Clear(kind)).into_iter().collect();
                ops.extend(config.clone().map(Op::Configure));
                ops.extend(rows.iter().map(|(id, row)| match row {
                    Some(row) => Op::Upsert(row.delta()),
                    None => Op::Delete { id },
                }));
                ops
            }
            Back::Ring { now, then } => ring(kind, now, then)?,
        })
    }
}

fn notes(id: &str, now: Side<'_>, then: Side<'_>) -> Result<Vec<(String, Option<Note>)>> {
    let (live, past) = (now.state.notes(id), then.state.notes(id));
    let before: Vec<NoteHead<'_>> = live.into_iter().flat_map(NotesView::heads).collect();
    let after: Vec<NoteHead<'_>> = past.into_iter().flat_map(NotesView::heads).collect();
    let mut changes = Vec::new();
    for (before, after) in merge(&before, &after, |x, y| compare_keys(x.key, y.key)) {
        let Some(key) = after.or(before).map(|head| head.key) else { continue };
        if before.map(|head| head.last) == after.map(|head| head.last) {
            continue;
        }
        let was = past.map_or(Ok(None), |view| view.get(key, then.bodies))?;
        let is = live.map_or(Ok(None), |view| view.get(key, now.bodies))?;
        match (&is, &was) {
            (Some(is), Some(was)) if is.says_the_same(was) => {}
            _ => changes.push((key.to_owned(), was)),
        }
    }
    Ok(changes)
}

fn rows(id: &str, now: Side<'_>, then: Side<'_>) -> Result<Back> {
    let (live, past) = (now.state.vectors(id), then.state.vectors(id));
    let (unused, unused_too) = (VectorView::default(), VectorView::default());
    let (live, past) = (live.unwrap_or(&unused), past.unwrap_or(&unused_too));
    let after: Vec<RowHead<'_>> = past.heads().collect();
    let mut before: Vec<RowHead<'_>> = live.heads().collect();
    // Rows of another width stand in the way of every row and of the identity.
    let clear = !before.is_empty() && (after.is_empty() || live.dim() != past.dim());
    if clear {
        before.clear();
    }
    let config = (live.identity() != past.identity()).then(|| Config::Vector(past.identity().cloned()));
    let mut changes = Vec::new();
    for (before, after) in merge(&before, &after, |x, y| x.id.cmp(y.id)) {
        let Some(id) = after.or(before).map(|head| head.id) else { continue };
        if before.map(|head| head.last) == after.map(|head| head.last) {
            continue;
        }
        let was = past.get(id, then.bodies)?;
        let is = if before.is_some() { live.get(id, now.bodies)? } else { None };
        match (&is, &was) {
            (Some(is), Some(was)) if is.says_the_same(was) => {}
            _ => changes.push((id.to_owned(), was)),
        }
    }
    Ok(Back::Rows { clear, config, rows: changes })
}

/// The least that brings a ring or a scratchpad back, told from its snapshots.
fn ring<'b>(kind: HandleKind, now: &'b [u8], then: &'b [u8]) -> Result<Vec<Op<'b>>> {
    if now == then {
        return Ok(Vec::new());
    }
    let (now, then) = (snapshot::decode(now, kind)?, snapshot::decode(then, kind)?);
    let (Some((head_now, items_now)), Some((head_then, items_then))) =
        (now.split_first(), then.split_first())
    else {
        return Ok(then);
    };
    let config = |head: &Op<'b>| match head {
        Op::Snapshot { config, .. } => Some(config.clone()),
        _ => None,
    };
    let (config_now, config_then) = (config(head_now), config(head_then));
    let configure = config_then.clone().filter(|_| config_now != config_then).map(Op::Configure);
    if items_now == items_then {
        return Ok(configure.into_iter().collect());
    }
    if items_then.is_empty() {
        return Ok([Op::Clear(kind)].into_iter().chain(configure).collect());
    }
    match items_then.strip_prefix(items_now) {
        // What fits as a whole fits one by one: nothing is evicted on the way.
        Some(more) if configure.is_none() && !more.iter().any(|op| matches!(op, Op::Erased { .. })) => {
            Ok(more.to_vec())
        }
        _ => Ok(then),
    }
}
