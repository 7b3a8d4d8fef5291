//! What a call answers, how much of it, and what it says when it fails.
//!
//! Invariants: an error's kind is chosen by the variant of the cause, never by its text. What is cut says so.

use serde_json::{Map, Value};

use crate::codec::json::Json;
use crate::error::{Damage, Error};
use crate::view::vectors::filter::are_equal;

/// The most code points in the text of an answer, some 10,000 tokens: whole lines as long as they fit, at
/// least one. What is left out is said in a line of its own, which is extra.
pub const ANSWER_MAX: usize = 40_000;

/// How much of a value that does not fit an error shows, in code points.
const FOUND_SHOWN_MAX: usize = 80;

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// For the model to read. Ends with a line break only where it is a stored text that does.
    pub text: String,
    /// The same as a JSON object, valid under the tool's output schema.
    pub structured: Value,
}

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
#[non_exhaustive]
pub struct ToolError {
    /// What is wrong and how to mend the call, for the model to read.
    pub text: String,
    /// What a program decides by.
    pub kind: ToolErrorKind,
    /// What the store said, if it was the store.
    #[source]
    pub cause: Option<Error>,
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolErrorKind {
    /// No tool of the set has this name.
    UnknownTool,
    /// The arguments are not those of the tool: other arguments may do.
    BadArguments,
    /// The call was understood, and the store as it is does not allow it.
    Refused,
    /// The store cannot do its work now: a disk, a lock, damage.
    StoreFailed,
}

impl ToolError {
    pub(super) fn unknown_tool(name: &str, known: &[&str]) -> ToolError {
        let text = format!("there is no tool {}; the tools are {}", shown(name), known.join(", "));
        ToolError { text, kind: ToolErrorKind::UnknownTool, cause: None }
    }

    pub(super) fn bad(text: String) -> ToolError {
        ToolError { text, kind: ToolErrorKind::BadArguments, cause: None }
    }
}

impl From<Error> for ToolError {
    fn from(cause: Error) -> ToolError {
        let kind = kind(&cause);
        let text = match &cause {
            Error::NoSuchFrame { last, .. } => format!("{cause}; ask for a frame from 0 to {last}"),
            Error::ReadOnly => "nothing can be written here: only the tools that read will answer".to_owned(),
            Error::LaneBusy { .. } | Error::Locked { .. } => {
                format!("{cause}; the same call may succeed later")
            }
            // What the cause says is for whoever has a command line.
            Error::Corrupt { frame, .. } => format!(
                "what frame {frame} saved cannot be read, because the store is damaged there; tell the user to run \
                    `mnemolog verify`. All else can be read as before"
            ),
            Error::Damaged(damage) => format!(
                "the store is damaged from frame {} on, and this cannot be done until it is mended; tell the user to \
                    run `mnemolog verify`",
                damage.frame
            ),
            _ => cause.to_string(),
        };
        ToolError { text, kind, cause: Some(cause) }
    }
}

fn kind(cause: &Error) -> ToolErrorKind {
    match cause {
        Error::BadName { .. }
        | Error::Json(_)
        | Error::Invalid { .. }
        | Error::NoSuchFrame { .. }
        | Error::TooLarge { .. }
        | Error::FutureTime { .. } => ToolErrorKind::BadArguments,
        Error::ReadOnly
        | Error::Compacted { .. }
        | Error::Lost { .. }
        | Error::NotFound { .. }
        | Error::Conflict { .. }
        | Error::Dimension { .. }
        | Error::EmbedderMismatch { .. }
        | Error::Embedding(_)
        | Error::InsideExclusive { .. }
        | Error::Snapshot(_)
        | Error::StoreExists { .. }
        | Error::BackupRefused { .. } => ToolErrorKind::Refused,
        Error::Damaged(_)
        | Error::Corrupt { .. }
        | Error::Io { .. }
        | Error::DiskFull { .. }
        | Error::Poisoned { .. }
        | Error::OutcomeUnknown { .. }
        | Error::Locked { .. }
        | Error::LaneBusy { .. }
        | Error::NoSuchStore { .. }
        | Error::OtherStore { .. }
        | Error::NotAStore { .. }
        | Error::NotADirectory { .. }
        | Error::NewerFormat { .. }
        | Error::NetworkFilesystem { .. }
        | Error::Closed => ToolErrorKind::StoreFailed,
    }
}

/// Lines of an answer, as many whole ones as [`ANSWER_MAX`] allows; the first is always there.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
    count: usize,
    code_points: usize,
}

/// How far some lines went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    len_bytes: usize,
    count: usize,
    code_points: usize,
}

impl Lines {
    /// Lines that share their space with a text.
    pub(super) fn beside(text: &str) -> Lines {
        Lines { code_points: text.chars().count(), ..Lines::default() }
    }

    /// How far the lines go now.
    pub(super) fn mark(&self) -> Mark {
        Mark { len_bytes: self.text.len(), count: self.count, code_points: self.code_points }
    }

    /// Takes away all lines behind a mark.
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.text.truncate(mark.len_bytes);
        (self.count, self.code_points) = (mark.count, mark.code_points);
    }

    /// Adds a line, or answers that it does not fit.
    pub(super) fn push(&mut self, line: &str) -> bool {
        let code_points = self.code_points.saturating_add(line.chars().count()).saturating_add(1);
        if self.count > 0 && code_points > ANSWER_MAX {
            return false;
        }
        if self.count > 0 {
            self.text.push('\n');
        }
        self.text.push_str(line);
        self.count += 1;
        self.code_points = code_points;
        true
    }

    /// The lines; the sentence about nothing if there is none; and what is said of what was left out.
    pub(super) fn finish(self, nothing: &str, left_out: Option<String>) -> String {
        let mut text = if self.count == 0 { nothing.to_owned() } else { self.text };
        if let Some(sentence) = left_out {
            text.push('\n');
            text.push_str(&sentence);
        }
        text
    }
}

/// What a list says of its part from `offset` on: how many come behind it; and, if it is not the whole list, which part
/// it is and how the rest is read, which `rest` says of the next offset.
pub(super) fn part(
    what: &str,
    offset: usize,
    shown: usize,
    total: usize,
    rest: impl FnOnce(usize) -> String,
) -> (usize, Option<String>) {
    let end = offset.saturating_add(shown).min(total);
    let left_out = total.saturating_sub(end);
    if shown == 0 || (left_out == 0 && offset == 0) {
        return (left_out, None);
    }
    let first = offset.saturating_add(1);
    let rest = if left_out > 0 { format!(" — {}", rest(end)) } else { String::new() };
    (left_out, Some(format!("(showing {what} {first} to {end} of {total}{rest}.)")))
}

/// A text behind which stands, if the store is damaged, a line that says so.
pub(super) fn with_damage(mut text: String, damage: Option<&Damage>) -> String {
    if let Some(Damage { frame, .. }) = damage {
        text.push_str(&format!(
            "\n(the store is damaged: what was before frame {frame} is shown — tell the user to run `mnemolog verify`.)"
        ));
    }
    text
}

/// The first code points of a text, and how many it has beyond them.
pub(super) fn clip(text: &str, max: usize) -> (&str, usize) {
    match text.char_indices().nth(max) {
        None => (text, 0),
        Some((at, _)) => {
            let (shown, rest) = text.split_at_checked(at).unwrap_or((text, ""));
            (shown, rest.chars().count())
        }
    }
}

/// Adds a stored value to a result: under its name, if `serde_json` holds the same numbers; otherwise its JSON text as
/// `NAME_text`. Of one that is too long for an answer, the beginning of its JSON text, and `cut`.
pub(super) fn insert_json(fields: &mut Map<String, Value>, name: &str, json: &Json) {
    let (shown, beyond) = clip(json.as_str(), ANSWER_MAX);
    let value = json.to_value();
    if beyond > 0 {
        fields.insert(name.to_owned(), shown.into());
        fields.insert("cut".to_owned(), true.into());
    } else if Json::from_value(&value).is_ok_and(|held| are_equal(&held, json)) {
        fields.insert(name.to_owned(), value);
    } else {
        fields.insert(format!("{name}_text"), shown.into());
    }
}

/// The text, or the beginning of one of more than [`ANSWER_MAX`] code points with a mark that says so.
pub(super) fn clipped(text: &str) -> String {
    match clip(text, ANSWER_MAX) {
        (text, 0) => text.to_owned(),
        (shown, beyond) => format!("{shown}…({beyond} more characters are left out)"),
    }
}

/// Names of the caller's as an error shows them.
pub(super) fn names(names: &[String]) -> String {
    names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ")
}

/// A text of the caller's as an error shows it.
pub(super) fn shown(text: &str) -> String {
    let (shown, beyond) = clip(text, FOUND_SHOWN_MAX);
    format!("`{}{}`", shown.escape_debug(), if beyond > 0 { "…" } else { "" })
}
