//! Changing a text and nothing around the change.
//!
//! A line ends with a line feed and with nothing else: carriage returns, form feeds and the line separators
//! of Unicode are characters of a line like any other, and stay where they are.

use std::ops::Range;

/// How many places of a text that should be unique are told.
const PLACES_TOLD_MAX: usize = 20;

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
/// The lines where it stands, counted from 1: none, or more than one; the first 20. The empty text stands
/// nowhere.
pub(super) fn replace(text: &str, old: &str, new: &str) -> Result<Edited, Vec<usize>> {
    let places = places(text, old);
    let [at] = places.as_slice() else {
        return Err(places.iter().map(|at| line_of(text, *at) + 1).collect());
    };
    let (before, rest) = text.split_at_checked(*at).unwrap_or((text, ""));
    let after = rest.get(old.len()..).unwrap_or_default();
    let first = line_of(text, *at);
    let lines = first..first + new.matches('\n').count() + 1;
    Ok(Edited { text: [before, new, after].concat(), lines })
}

/// Inserts a text behind the given number of lines. Where a line must be ended for it, it is ended as the
/// text's first line is.
pub(super) fn insert(text: &str, line: usize, inserted: &str) -> String {
    let at = text.split_inclusive('\n').take(line).map(str::len).sum();
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let has_cr = text.split_inclusive('\n').next().is_some_and(|first| first.ends_with("\r\n"));
    let end = if has_cr { "\r\n" } else { "\n" };
    let opens = if before.is_empty() || before.ends_with('\n') { "" } else { end };
    let closes = if after.is_empty() || inserted.ends_with('\n') { "" } else { end };
    [before, opens, inserted, closes, after].concat()
}

fn places(text: &str, old: &str) -> Vec<usize> {
    let mut places = Vec::new();
    let Some(first) = old.chars().next() else { return places };
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(old)) {
        places.push(from + at);
        if places.len() == PLACES_TOLD_MAX {
            break;
        }
        from += at + first.len_utf8();
    }
    places
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count()
}
