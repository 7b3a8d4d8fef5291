//! What notes say: the order of their keys, and every text that a person or a model reads about them.
//!
//! Owns: the literal sentences, the bounds and how each announces itself, folding to one line, and what a
//! search pattern matches. Does not know: where a note lives, how its body is read, what else is in the view.
//!
//! Invariants: bounds are counted in code points, never bytes. Keys, summaries and excerpts are folded before
//! they stand in a line, so no stored text can forge another line; no text ends with a line break. What is
//! cut says so. Nothing here fails, and nothing stored is changed: all of it is display.

pub(crate) mod pattern;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Ordering;

/// A summary as displayed, in code points, its marker included.
pub(crate) const SUMMARY_MAX: usize = 120;
/// What of a body an excerpt shows, in code points before folding; markers are extra.
pub(crate) const EXCERPT_MAX: usize = 240;
/// How far before the occurrence an excerpt begins, in code points.
pub(crate) const EXCERPT_LEAD: usize = 60;
/// How many matches a search shows.
pub(crate) const MATCHES_SHOWN_MAX: usize = 8;

const SUMMARY_CUT: &str = "…(summary cut)";
const EXCERPT_CUT: &str = "…(excerpt cut — recall this key for the full note)";
const EXCERPT_LATER: &str = "…";
const NO_SUMMARY: &str = "(no summary)";
const EMPTY_BODY: &str = "(empty body)";

const NO_MATCHES: &str = "(no matches)";
const INDEX_HEAD: &str =
    "[memory index] recall(key) reads a note in full; search(pattern) looks inside notes";

/// The list of no notes.
pub(crate) const NO_MEMORIES: &str = "(no memories)";

/// What stands in the place of a body that cannot be read back.
pub(crate) const DAMAGED_BODY: &str = "(damaged: run verify)";

/// One match of a search, as its two lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    /// What [`summary_line`] gave.
    pub(crate) line: String,
    /// What [`excerpt`] gave.
    pub(crate) excerpt: String,
}

/// Stored key order: fewer `/`-segments first, then segment by segment as UTF-8 bytes. The empty key has one
/// segment, which is empty. Only equal keys compare equal.
pub(crate) fn compare_keys(a: &str, b: &str) -> Ordering {
    compare_key_bytes(a.as_bytes(), (b.as_bytes(), slashes(b.as_bytes())))
}

/// [`compare_keys`] of the keys' bytes, of the second of which it is known how many slashes it has.
pub(crate) fn compare_key_bytes(a: &[u8], (b, slashes_of_b): (&[u8], usize)) -> Ordering {
    let common = common_bytes(a, b);
    // Where both have as many segments, an end is one of a segment, and comes before whatever goes on.
    let rank =
        |key: &[u8]| key.get(common).map_or(0, |byte| if *byte == b'/' { 1 } else { 2 + u16::from(*byte) });
    slashes(a).cmp(&slashes_of_b).then_with(|| rank(a).cmp(&rank(b)))
}

/// A number that is not higher for a key than for one behind it in stored key order, where both share what stands
/// before `rest`; `slashes` counts those of the whole key.
pub(crate) fn key_digest(slashes: usize, rest: &[u8]) -> u32 {
    // Of keys with so many slashes nothing is told.
    let Some(slashes) = u8::try_from(slashes).ok().filter(|slashes| *slashes < u8::MAX) else {
        return u32::MAX;
    };
    let rank = |place| match rest.get(place) {
        None => 0,
        Some(b'/') => 1,
        Some(byte) => byte.saturating_add(2),
    };
    u32::from_be_bytes([slashes, rank(0), rank(1), rank(2)])
}

/// How many slashes a key has: one less than segments.
pub(crate) fn slashes(key: &[u8]) -> usize {
    let (words, rest) = key.as_chunks();
    let whole: usize = words.iter().map(|word| slashes_in(u64::from_le_bytes(*word))).sum();
    match key.last_chunk() {
        _ if rest.is_empty() => whole,
        // The last eight bytes of the key, without those that were counted.
        Some(last) => whole + slashes_in(u64::from_le_bytes(*last) & (u64::MAX << (64 - 8 * rest.len()))),
        None => rest.iter().filter(|byte| **byte == b'/').count(),
    }
}

/// The text as one line: every run of white space and control characters is one space. Nothing is trimmed.
pub(crate) fn fold_line(text: &str) -> Cow<'_, str> {
    // As most keys are.
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Cow::Borrowed(text);
    }
    let mut in_run = false;
    let folded = |c: char| {
        let was_in_run = std::mem::replace(&mut in_run, is_blank(c));
        !in_run || (c == ' ' && !was_in_run)
    };
    if text.chars().all(folded) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    let mut in_run = false;
    for c in text.chars() {
        if !is_blank(c) {
            line.push(c);
        } else if !in_run {
            line.push(' ');
        }
        in_run = is_blank(c);
    }
    Cow::Owned(line)
}

/// The line of one note: `- key: summary`. The key is folded and never fitted; the summary is folded and
/// fitted to [`SUMMARY_MAX`].
pub(crate) fn summary_line(key: &str, summary: Option<&str>) -> String {
    format!("- {}: {}", fold_line(key), shown_summary(summary))
}

/// A summary as it stands in the line of its note.
pub(crate) fn shown_summary(summary: Option<&str>) -> Cow<'_, str> {
    match summary {
        Some(summary) if !summary.chars().all(is_blank) => fit_summary(fold_line(summary)),
        _ => Cow::Borrowed(NO_SUMMARY),
    }
}

/// What a match shows of a body: [`EXCERPT_MAX`] code points from [`EXCERPT_LEAD`] before the occurrence, or
/// from the opening where the body holds none, as one line. `occurrence` counts code points from the body's
/// first ([`code_points_before`] turns a byte offset into it).
pub(crate) fn excerpt(body: &str, occurrence: Option<usize>) -> String {
    if body.chars().all(is_blank) {
        return EMPTY_BODY.to_owned();
    }
    let begin = occurrence.unwrap_or(0).saturating_sub(EXCERPT_LEAD);
    let from = split_at_code_point(body, begin).1;
    let (window, rest) = split_at_code_point(from, EXCERPT_MAX);
    let opens = if begin > 0 { EXCERPT_LATER } else { "" };
    let ends = if rest.is_empty() { "" } else { EXCERPT_CUT };
    [opens, &fold_line(window), ends].concat()
}

/// How many code points of `text` begin before the byte at `offset`.
pub(crate) fn code_points_before(text: &str, offset: usize) -> usize {
    text.char_indices().take_while(|&(at, _)| at < offset).count()
}

/// `list_memories()`, from what [`summary_line`] gave for each note in stored key order.
pub(crate) fn list<L: AsRef<str>>(lines: impl IntoIterator<Item = L>) -> String {
    joined("", lines).unwrap_or_else(|| NO_MEMORIES.to_owned())
}

/// `index_note()`, from the same lines as [`list`]; empty when nothing is saved.
pub(crate) fn index<L: AsRef<str>>(lines: impl IntoIterator<Item = L>) -> String {
    joined(INDEX_HEAD, lines).unwrap_or_default()
}

/// As [`index`], of lines of which not all fit into a budget of code points: those that fit, in the given order, and
/// how many were left out. Where none fits, that alone.
pub(crate) fn index_within<L: AsRef<str>>(lines: impl ExactSizeIterator<Item = L>, budget: usize) -> String {
    let all = lines.len();
    let told = |shown: usize, left_out: usize| {
        format!(
            "(showing {shown} of {all} notes, newest first; {left_out} left out — search(pattern) looks inside all.)"
        )
    };
    let longest = told(all, all);
    let fixed = INDEX_HEAD.chars().count() + 1 + longest.chars().count();
    let mut left = budget.saturating_sub(fixed);
    let kept: Vec<L> = lines
        .filter(|line| {
            let cost = line.as_ref().chars().count() + 1;
            let fits = cost <= left;
            left -= if fits { cost } else { 0 };
            fits
        })
        .collect();
    let told = told(kept.len(), all.saturating_sub(kept.len()));
    joined(INDEX_HEAD, kept).map_or_else(|| told.clone(), |text| format!("{text}\n{told}"))
}

/// `search(pattern)`, from at least the first [`MATCHES_SHOWN_MAX`] matches in stored key order, and the true
/// number of all.
pub(crate) fn search(matches: impl IntoIterator<Item = Match>, total: usize) -> String {
    let mut lines: Vec<String> = matches
        .into_iter()
        .take(MATCHES_SHOWN_MAX)
        .map(|Match { line, excerpt }| format!("{line}\n  {excerpt}"))
        .collect();
    if lines.is_empty() {
        return NO_MATCHES.to_owned();
    }
    if total > lines.len() {
        let shown = lines.len();
        lines.push(format!("(showing {shown} of {total} matches — narrow the pattern to see the rest.)"));
    }
    lines.join("\n")
}

/// The answer of `remember`.
pub(crate) fn saved(key: &str) -> String {
    // Of one piece: it is the only thing that saving a note allocates.
    ["saved ", &fold_line(key)].concat()
}

/// The answer of `recall` and `forget` where there is no such note.
pub(crate) fn absent(key: &str) -> String {
    format!("nothing is saved under {}", fold_line(key))
}

/// The answer of `forget`.
pub(crate) fn forgot(key: &str) -> String {
    format!("forgot {} (its history stays until erased)", fold_line(key))
}

fn slashes_in(word: u64) -> usize {
    const SLASHES: u64 = u64::from_ne_bytes([b'/'; 8]);
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    let differs = word ^ SLASHES;
    // The high bit of each byte that is not zero.
    8 - ((((differs & LOW) + LOW) | differs) & !LOW).count_ones() as usize
}

/// How many bytes both begin with.
fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    let (words_a, words_b) = (a.as_chunks().0, b.as_chunks().0);
    let mut common = 0;
    for (x, y) in words_a.iter().zip(words_b) {
        let differs = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differs != 0 {
            return common + differs.trailing_zeros() as usize / 8;
        }
        common += 8;
    }
    let (rest_a, rest_b) = (a.get(common..).unwrap_or_default(), b.get(common..).unwrap_or_default());
    common + rest_a.iter().zip(rest_b).take_while(|(x, y)| x == y).count()
}

/// What folding makes a space. A text of nothing else counts as empty, since nothing of it would show.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

fn fit_summary(line: Cow<'_, str>) -> Cow<'_, str> {
    if split_at_code_point(&line, SUMMARY_MAX).1.is_empty() {
        return line;
    }
    let kept = SUMMARY_MAX.saturating_sub(SUMMARY_CUT.chars().count());
    Cow::Owned([split_at_code_point(&line, kept).0, SUMMARY_CUT].concat())
}

/// The first `count` code points, or all there are, and the rest.
fn split_at_code_point(text: &str, count: usize) -> (&str, &str) {
    let at = text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    text.split_at_checked(at).unwrap_or((text, ""))
}

/// The head, if it is not empty, and the lines; none without a line.
fn joined<L: AsRef<str>>(head: &str, lines: impl IntoIterator<Item = L>) -> Option<String> {
    let mut text = head.to_owned();
    let mut any = false;
    for line in lines {
        if any || !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line.as_ref());
        any = true;
    }
    any.then_some(text)
}
