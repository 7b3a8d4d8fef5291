//! Why a line is refused: one type, one sentence each.

use crate::codec::delta::{Class, HandleKind};
use crate::codec::json::BadJson;
use crate::error::Error;
use crate::position::{BadTime, Frame};
use crate::store::name::NameError;

/// A line that is refused, and why.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LineError {
    /// Counts the lines of the input from 1, blank ones included.
    pub line: u64,
    /// What is wrong with it.
    pub reason: LineReason,
}

/// What is wrong with a line. Each reads as one sentence with what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineReason {
    /// The bytes are not UTF-8.
    #[error("byte {at} is not UTF-8; save the input as UTF-8")]
    NotUtf8 {
        /// Counts the bytes of the line from 1.
        at: usize,
    },
    /// Not JSON, or nested too deeply.
    #[error("{0}")]
    Json(#[from] BadJson),
    /// A field that no such line has.
    #[error("`{}` is no field of {within}; remove it or correct its name", .field.escape_debug())]
    UnknownField {
        /// The field.
        field: String,
        /// What it stands in: `a line`, or the operation's name.
        within: &'static str,
    },
    /// A field that stands there twice.
    #[error("`{}` stands twice in {within}; leave one", .field.escape_debug())]
    Twice {
        /// The field.
        field: String,
        /// What it stands in.
        within: &'static str,
    },
    /// A field that every such line has.
    #[error("`{field}` is missing in {within}; add it")]
    Missing {
        /// The field.
        field: &'static str,
        /// What it belongs in.
        within: &'static str,
    },
    /// A field with a value of another type or range.
    #[error("`{field}` is not {expected}; correct it")]
    WrongType {
        /// The field, or `the line`.
        field: &'static str,
        /// What is allowed.
        expected: &'static str,
    },
    /// A kind of memory that does not exist.
    #[error("`{}` is no kind of memory; use notes, vector, episodic or working", .found.escape_debug())]
    UnknownKind {
        /// The value of `handle_kind`.
        found: String,
    },
    /// An operation that the kind does not have.
    #[error("{} has no operation `{}`; use one of: {}", .kind.name(), .found.escape_debug(), ops_of(*.kind))]
    UnknownOp {
        /// The line's kind.
        kind: HandleKind,
        /// The value of `op`.
        found: String,
    },
    /// A class that no operation of the kind has.
    #[error("{} has no operation of class `{}` to erase; correct the class", .kind.name(), .found.escape_debug())]
    UnknownClass {
        /// The line's kind.
        kind: HandleKind,
        /// The value of `class`.
        found: String,
    },
    /// A handle id that names no place.
    #[error("{0}")]
    BadName(#[from] NameError),
    /// Notes under another name than the one they have everywhere.
    #[error("the notes of a workspace are named `memory`, not `{found}`; correct `handle_id`")]
    NotesName {
        /// The name.
        found: String,
    },
    /// A time that is none.
    #[error("{0}")]
    BadTime(#[from] BadTime),
    /// A line of a base that is no snapshot.
    #[error("a line of a base holds a snapshot; remove `base`")]
    NotInBase,
    /// Lines of one frame that say different things about it.
    #[error("an earlier line of frame {frame} says another {what}; make them equal, or number them apart")]
    Conflict {
        /// The frame.
        frame: Frame,
        /// `time` or `origin`.
        what: &'static str,
    },
    /// Another line of the same frame was refused, and a frame stands or falls as one.
    #[error("line {other} of the same frame is refused; correct that one")]
    Companion {
        /// The line that is refused for itself.
        other: u64,
    },
    /// What the store would answer to the same write.
    #[error("{0}")]
    Store(#[from] Error),
}

fn ops_of(kind: HandleKind) -> &'static str {
    match kind {
        HandleKind::Notes => "remember, forget, snapshot, erased",
        HandleKind::Vector => "upsert, delete, clear, configure, snapshot, erased",
        HandleKind::Episodic => "record, clear, configure, snapshot, erased",
        HandleKind::Working => "push, clear, configure, snapshot, erased",
    }
}

/// Whether an operation of this class exists for the kind.
pub(super) fn has_class(kind: HandleKind, class: Class) -> bool {
    match class {
        Class::Put | Class::Snapshot => true,
        Class::Remove => matches!(kind, HandleKind::Notes | HandleKind::Vector),
        Class::Clear | Class::Configure => kind != HandleKind::Notes,
        Class::Origin => false,
    }
}
