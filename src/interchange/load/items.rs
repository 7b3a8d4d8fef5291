//! Changes that stand each for itself: one is refused alone, and all that are kept are written in few frames.
//!
//! Owns no rule: what the store would refuse is found by the checks of lines, each change as a frame of its own;
//! only then are they put together. What the store says already is not written again.

use std::borrow::Cow;
use std::collections::HashMap;

use super::super::line::reason::LineError;
use super::super::line::{Args, Line, NoteArgs, NoteText, RowArgs};
use super::{Draft, LoadError, LoadReport, Loaded, Refused, check, embed, workspaces, write};
use crate::codec::delta::{HandleKind, Origin};
use crate::codec::frame::FRAME_DELTAS_MAX;
use crate::error::Result;
use crate::handle::vectors::identity;
use crate::store::{Inner, Reading};
use crate::view::VectorView;
use crate::view::notes::NoteBody;

/// Bytes of changes that are put into one frame; a larger change has a frame of its own.
const FRAME_BYTES: u64 = 8 << 20;

/// What a change does to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing had its key.
    Added,
    /// Something else had its key, and is its history now.
    Changed,
    /// The store says the same already; nothing is written.
    Unchanged,
}

/// What became of changes.
#[derive(Debug)]
pub(in crate::interchange) struct Brought {
    /// By the numbers that the changes were given.
    pub(in crate::interchange) fates: Vec<(u64, Fate)>,
    pub(in crate::interchange) refused: Vec<LineError>,
    pub(in crate::interchange) written: LoadReport,
}

/// Brings numbered changes into the store: notes and rows, no two of them with one key. With `dry_run`, nothing is
/// embedded or written.
///
/// # Errors
/// [`LoadError::Store`]: nothing was written; [`LoadError::Writing`].
pub(in crate::interchange) fn bring(
    inner: &Inner,
    changes: Vec<(u64, Line<'static>)>,
    origin: Option<&Origin>,
    dry_run: bool,
) -> Result<Brought, LoadError> {
    if !dry_run {
        // Refused before the work, and what other processes wrote is known.
        drop(inner.enter_lanes(&std::collections::BTreeSet::new())?);
    }
    let mut drafts: Vec<Draft> = changes.into_iter().map(|change| alone(inner, origin, change)).collect();
    let mut refused = Refused { keep_going: true, lines: Vec::new() };
    let mut fates = unchanged(inner, &mut drafts)?;
    let checked = check::check(inner, &mut drafts);
    refused.take(&mut drafts)?;
    if dry_run {
        fates.extend(changed(&inner.reading(), &drafts));
        return Ok(Brought { fates, refused: refused.lines, written: LoadReport::default() });
    }
    embed::embed(&*inner.options().embedder, &mut drafts, true);
    let whole = refused.take(&mut drafts)?;
    let _lanes = inner.enter_lanes(&workspaces(&drafts))?;
    if !whole || inner.state().frame() != checked {
        fates.extend(unchanged(inner, &mut drafts)?);
        check::check(inner, &mut drafts);
        refused.take(&mut drafts)?;
    }
    fates.extend(changed(&inner.reading(), &drafts));
    let written = write::write(inner, &together(drafts), LoadReport::default())?;
    Ok(Brought { fates, refused: refused.lines, written })
}

/// A frame of one change.
fn alone(inner: &Inner, origin: Option<&Origin>, (number, line): (u64, Line<'static>)) -> Draft {
    Draft {
        frame: None,
        base: false,
        time: None,
        stamp: inner.options().clock.now(),
        origin: origin.cloned(),
        parts: HashMap::new(),
        lines: vec![Loaded { number, line, identify: false, embedded: Vec::new() }],
        refused: Vec::new(),
        bytes: 0,
    }
}

/// Puts changes together, in their order.
fn together(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut frames: Vec<Draft> = Vec::new();
    let mut deltas = 0;
    for mut draft in drafts {
        let more: usize = draft.lines.iter().map(|loaded| 1 + usize::from(loaded.identify)).sum();
        let fits = |frame: &&mut Draft| {
            frame.bytes.saturating_add(draft.bytes) <= FRAME_BYTES && deltas + more <= FRAME_DELTAS_MAX
        };
        match frames.last_mut().filter(fits) {
            Some(frame) => {
                frame.bytes += draft.bytes;
                frame.lines.append(&mut draft.lines);
                deltas += more;
            }
            None => {
                frames.push(draft);
                deltas = more;
            }
        }
    }
    frames
}

/// Takes out what the store says already.
fn unchanged(inner: &Inner, drafts: &mut Vec<Draft>) -> Result<Vec<(u64, Fate)>> {
    let reading = inner.reading();
    let store = identity(&*inner.options().embedder);
    let mut error = None;
    let same = |draft: &mut Draft| {
        let mut lines = draft.lines.iter();
        lines.all(|loaded| match stands(&reading, &loaded.line, &store) {
            Ok(same) => same,
            Err(e) => {
                error.get_or_insert(e);
                false
            }
        })
    };
    let out: Vec<Draft> = drafts.extract_if(.., same).collect();
    error.map_or(Ok(()), Err)?;
    Ok(out.iter().flat_map(|draft| &draft.lines).map(|loaded| (loaded.number, Fate::Unchanged)).collect())
}

/// Whether the store says what the line would make it say.
fn stands(
    reading: &Reading,
    line: &Line<'_>,
    store: &crate::codec::delta::Identity<'static>,
) -> Result<bool> {
    match (&line.args, line.kind) {
        (Args::Remember(NoteArgs { key, summary, body }), HandleKind::Notes) => {
            let Some(view) = reading.state.notes(&line.id) else { return Ok(false) };
            let Some(note) = view.get(key, &reading.bodies)? else { return Ok(false) };
            let same_body = match (&note.body, body) {
                (NoteBody::Text(now), NoteText::Text(text)) => now == text,
                (NoteBody::Json(now), NoteText::Json(text)) => now.as_str() == text,
                _ => false,
            };
            Ok(same_body && note.summary.as_deref() == summary.as_deref())
        }
        (Args::Upsert(RowArgs { id, text, metadata, embedding }), HandleKind::Vector) => {
            let Some(view) = reading.state.vectors(&line.id) else { return Ok(false) };
            let Some(row) = view.get(id, &reading.bodies)? else { return Ok(false) };
            let bits = |floats: &[f32]| floats.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let same_embedding = match embedding {
                Some(embedding) => bits(embedding) == bits(&row.embedding),
                None => view.identity() == Some(store),
            };
            Ok(same_embedding && row.text == *text && row.metadata.as_str() == metadata)
        }
        _ => Ok(false),
    }
}

/// What changes do to what is there.
fn changed(reading: &Reading, drafts: &[Draft]) -> Vec<(u64, Fate)> {
    let is_there = |line: &Line<'_>| match &line.args {
        Args::Remember(NoteArgs { key, .. }) => {
            reading.state.notes(&line.id).is_some_and(|view| view.head(key).is_some())
        }
        Args::Upsert(RowArgs { id, .. }) => {
            let view: Option<&VectorView> = reading.state.vectors(&line.id);
            view.is_some_and(|view| view.head(id).is_some())
        }
        _ => false,
    };
    let fate = |loaded: &Loaded| {
        let fate = if is_there(&loaded.line) { Fate::Changed } else { Fate::Added };
        (loaded.number, fate)
    };
    drafts.iter().flat_map(|draft| &draft.lines).map(fate).collect()
}

/// A change of a handle by a line that gives nothing but that.
pub(in crate::interchange) fn change(kind: HandleKind, id: &str, args: Args<'static>) -> Line<'static> {
    let id = Cow::Owned(id.to_owned());
    Line { frame: None, time: None, origin: None, base: false, kind, id, args }
}
