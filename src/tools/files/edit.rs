//! Changing a text and nothing around the change.
//!
//! A line ends with a line feed and with nothing else: carriage returns, form feeds and the line separators
//! of Unicode are characters of a line like any other, and stay where they are.

use std::ops::Range;

/// How many lines are told in which a text begins that should be unique.
pub(super) const LINES_TOLD_MAX: usize = 20;

/// A text that was edited.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edited {
    pub(super) text: String,
    /// The lines that hold what is new, counted from 0.
    pub(super) lines: Range<usize>,
}

/// How many lines a text has; a line feed at its end begins no line.
pub(super) fn count_lines(text: &str) -> usize {
    text.split_inclusive('\n').count()
}

/// Replaces what stands in a text exactly once, overlaps included.
///
/// # Errors
/// The lines where it stands, counted from 1, each once: none, or those of more than one place, and at most one
/// more than [`LINES_TOLD_MAX`]. The empty text stands nowhere.
pub(super) fn replace(text: &str, old: &str, new: &str) -> Result<Edited, Vec<usize>> {
    let first_char = old.chars().next().map_or(0, char::len_utf8);
    let Some(at) = find(text, old, 0).filter(|_| first_char > 0) else { return Err(Vec::new()) };
    if find(text, old, at + first_char).is_some() {
        return Err(lines_with(text, old));
    }
    let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    let after = rest.get(old.len()..).unwrap_or_default();
    let first = before.matches('\n').count();
    let lines = first..first + new.matches('\n').count() + 1;
    Ok(Edited { text: [before, new, after].concat(), lines })
}

/// Inserts a text behind the given number of lines. Where a line must be ended for it, it is ended as the
/// text's first line is.
pub(super) fn insert(text: &str, line: usize, inserted: &str) -> Edited {
    let at = text.split_inclusive('\n').take(line).map(str::len).sum();
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let has_cr = text.split_inclusive('\n').next().is_some_and(|first| first.ends_with("\r\n"));
    let end = if has_cr { "\r\n" } else { "\n" };
    let opens = if before.is_empty() || before.ends_with('\n') { "" } else { end };
    let closes = if after.is_empty() || inserted.ends_with('\n') { "" } else { end };
    let lines = line..line + count_lines(inserted);
    Edited { text: [before, opens, inserted, closes, after].concat(), lines }
}

/// Where a text begins in another one, from a place on.
fn find(text: &str, part: &str, from: usize) -> Option<usize> {
    Some(from + text.get(from..)?.find(part)?)
}

fn lines_with(text: &str, part: &str) -> Vec<usize> {
    let (mut lines, mut from, mut line) = (Vec::new(), 0, 1);
    while lines.len() <= LINES_TOLD_MAX
        && let Some(at) = find(text, part, from)
    {
        line += text.get(from..at).unwrap_or_default().matches('\n').count();
        lines.push(line);
        let Some(end) = find(text, "\n", at) else { break };
        (from, line) = (end + 1, line + 1);
    }
    lines
}
