//! One version of a note or a row: what a delta of its chain said, when, and who wrote it.
//!
//! Owns how an envelope is read as a version. Does not know where frames stand, nor how a chain goes on.

use std::collections::BTreeSet;

use super::diff::Content;
use super::notes::{Note, NoteBody};
use super::vectors::VectorRow;
use super::{Bodies, HandleId, State, json};
use crate::codec::delta::{Body, HandleKind, Op, Origin};
use crate::codec::frame::{CheckedFrame, FrameKind};
use crate::codec::payload::{Delta, Deltas};
use crate::codec::wire::Malformed;
use crate::error::Result;
use crate::position::{Frame, Last, Time};

/// What became of a note or a row in one frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Version<T> {
    /// The frame that can be looked at for it: the one that wrote it, or that of the base which kept it.
    pub frame: Frame,
    /// Its time.
    pub time: Time,
    /// Who wrote it, where it says so.
    pub origin: Option<Origin>,
    /// What was done.
    pub operation: Operation,
    /// In what it came.
    pub by: By,
    /// What is saved since; none after a removal.
    pub content: Option<T>,
}

/// What was done to a note or a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The note was saved.
    Remember,
    /// The note was deleted.
    Forget,
    /// The row was saved.
    Upsert,
    /// The row was deleted.
    Delete,
    /// The whole table was cleared, this row with it.
    Clear,
}

/// In what an operation came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// A delta of its own.
    Delta,
    /// A snapshot that replaced the whole handle.
    Snapshot,
    /// A base, which holds the state at its frame; what came before was dropped.
    Base,
}

/// What has versions: notes and rows.
pub trait Versioned: Sized {
    /// The kind of handle that holds it.
    const KIND: HandleKind;

    /// What a state holds under a key.
    ///
    /// # Errors
    /// Its body cannot be read.
    fn saved(state: &State, handle: &str, key: &str, bodies: &dyn Bodies) -> Result<Option<Self>>;

    /// What an operation saves, by a frame and its time; none if it saves nothing. `offset` is where it stands.
    ///
    /// # Errors
    /// JSON that is none.
    fn of(op: &Op<'_>, by: (Frame, Time), offset: u64) -> Result<Option<Self>, Malformed>;
}

/// A version, and where its chain goes on.
#[derive(Debug)]
pub(crate) struct Link<T> {
    pub(crate) version: Version<T>,
    pub(crate) place: Last,
    pub(crate) previous: Last,
}

/// Which delta of a frame is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'k> {
    /// The one at an index, which must be of this key.
    Key(u32, &'k str),
    /// The one at an index, which must clear the table.
    Clear(u32),
    /// Whichever saves this key.
    Any(&'k str),
}

impl Operation {
    /// The operation's name, as interchange lines have it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Remember => "remember",
            Operation::Forget => "forget",
            Operation::Upsert => "upsert",
            Operation::Delete => "delete",
            Operation::Clear => "clear",
        }
    }

    fn of(op: &Op<'_>) -> Option<Operation> {
        Some(match op {
            Op::Remember(_) => Operation::Remember,
            Op::Forget { .. } => Operation::Forget,
            Op::Upsert(_) => Operation::Upsert,
            Op::Delete { .. } => Operation::Delete,
            Op::Clear(HandleKind::Vector) => Operation::Clear,
            _ => return None,
        })
    }
}

impl By {
    /// Its name: `delta`, `snapshot` or `base`.
    pub fn name(self) -> &'static str {
        match self {
            By::Delta => "delta",
            By::Snapshot => "snapshot",
            By::Base => "base",
        }
    }
}

impl Versioned for Note {
    const KIND: HandleKind = HandleKind::Notes;

    fn saved(state: &State, handle: &str, key: &str, bodies: &dyn Bodies) -> Result<Option<Note>> {
        state.notes(handle).map_or(Ok(None), |view| view.get(key, bodies))
    }

    fn of(op: &Op<'_>, (frame, time): (Frame, Time), offset: u64) -> Result<Option<Note>, Malformed> {
        let Op::Remember(note) = op else { return Ok(None) };
        let body = match note.body {
            Body::Text(text) => NoteBody::Text(text.to_owned()),
            Body::Json(text) => NoteBody::Json(json("note body", offset, text)?),
        };
        let (key, summary) = (note.key.to_owned(), note.summary.map(str::to_owned));
        Ok(Some(Note { key, summary, body, frame, time }))
    }
}

impl Versioned for VectorRow {
    const KIND: HandleKind = HandleKind::Vector;

    fn saved(state: &State, handle: &str, key: &str, bodies: &dyn Bodies) -> Result<Option<VectorRow>> {
        state.vectors(handle).map_or(Ok(None), |view| view.get(key, bodies))
    }

    fn of(op: &Op<'_>, (frame, _): (Frame, Time), offset: u64) -> Result<Option<VectorRow>, Malformed> {
        let Op::Upsert(row) = op else { return Ok(None) };
        let metadata = json("metadata", offset, row.metadata)?;
        let (id, text) = (row.id.to_owned(), row.text.to_owned());
        Ok(Some(VectorRow { id, text, metadata, embedding: row.embedding.to_vec(), frame }))
    }
}

/// Reads one version out of its frame. None: the delta was erased, or (for [`Wanted::Any`]) there is none.
///
/// # Errors
/// The frame does not decode, or holds another delta than the one that is wanted.
pub(crate) fn link<T: Versioned>(
    frame: &CheckedFrame<'_>,
    handle: &str,
    wanted: Wanted<'_>,
) -> Result<Option<Link<T>>, Malformed> {
    let mut deltas = Deltas::of(frame)?;
    let origin = deltas.origin().cloned();
    let found = deltas.find_map(|delta| match delta {
        Ok(delta) if is_wanted(&delta, T::KIND, handle, wanted) => Some(Ok(delta)),
        Ok(_) => None,
        Err(reason) => Some(Err(reason)),
    });
    let Some(delta) = found.transpose()? else { return Ok(None) };
    let Delta { index, offset, envelope } = delta;
    let (number, time) = (frame.header.number, frame.header.time);
    let fits = match wanted {
        Wanted::Clear(_) => matches!(envelope.op, Op::Clear(_)),
        Wanted::Key(_, key) | Wanted::Any(key) => envelope.op.chain_key() == Some(key),
    };
    if matches!(envelope.op, Op::Erased { .. }) {
        return Ok(None);
    }
    let operation = Operation::of(&envelope.op)
        .filter(|_| fits && envelope.op.kind() == T::KIND && envelope.id == handle);
    let Some(operation) = operation else {
        return Err(Malformed::new("previous place", offset, "a delta of the same key", "another"));
    };
    let by = match (frame.header.kind, envelope.item) {
        (FrameKind::Base, _) => By::Base,
        (_, true) => By::Snapshot,
        (_, false) => By::Delta,
    };
    let place = match by {
        By::Base if envelope.previous.frame > Frame::ZERO => envelope.previous,
        _ => Last { frame: number, index },
    };
    let content = T::of(&envelope.op, (place.frame, time), offset)?;
    let version = Version { frame: number, time, origin, operation, by, content };
    Ok(Some(Link { version, place, previous: envelope.previous }))
}

/// What the deltas at these places of a frame added to a handle, without those that were erased. None: something else
/// stands at one of them.
///
/// # Errors
/// The frame does not decode.
pub(crate) fn contents(
    frame: &CheckedFrame<'_>,
    handle: &HandleId,
    places: &[Last],
) -> Result<Option<Vec<Content>>, Malformed> {
    let by = (frame.header.number, frame.header.time);
    let mut due = places.iter().map(|place| place.index).collect::<BTreeSet<u32>>();
    let mut contents = Vec::with_capacity(due.len());
    for delta in Deltas::of(frame)? {
        let Delta { index, offset, envelope } = delta?;
        if !due.remove(&index) {
            continue;
        }
        if matches!(envelope.op, Op::Erased { .. }) {
            continue;
        }
        let content = Content::of(&envelope.op, by, offset)?;
        match content.filter(|_| envelope.op.kind() == handle.kind && envelope.id == &*handle.id) {
            Some(content) => contents.push(content),
            None => return Ok(None),
        }
    }
    // An item that went with its erased head is not met.
    Ok(Some(contents))
}

fn is_wanted(delta: &Delta<'_>, kind: HandleKind, handle: &str, wanted: Wanted<'_>) -> bool {
    match wanted {
        Wanted::Key(index, _) | Wanted::Clear(index) => delta.index == index,
        Wanted::Any(key) => {
            let envelope = &delta.envelope;
            envelope.op.kind() == kind && envelope.id == handle && envelope.op.chain_key() == Some(key)
        }
    }
}
