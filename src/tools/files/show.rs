//! How files and directories are shown.

use std::collections::BTreeMap;
use std::ops::Range;

use super::edit::count_lines;
use super::error::FileError;
use super::path::{Place, can_be_named};
use crate::tools::answer::{ANSWER_MAX, Lines, clipped};
use crate::view::text::{DAMAGED_BODY, fold_line};

/// The most lines that a file may have to be viewed.
const LINES_MAX: usize = 999_999;
/// How many lines before and behind a change are shown with it.
const AROUND: usize = 2;
/// How deep a listing goes.
const LEVELS: usize = 2;

/// A listing of what is below a place: a size, a tab and a path each, directories with a `/` at the end. A directory has
/// the size of what is shown of it, however deep; what cannot be read adds nothing to it. None if it is no directory. The
/// root always is one. It shares its space with a text that stands before it.
pub(super) fn listing<'k>(
    place: &Place,
    sizes: impl Iterator<Item = (&'k str, Option<u64>)>,
    before: &str,
) -> Option<String> {
    let (mut entries, mut total, mut unnamed, mut any) = (BTreeMap::new(), 0, 0_usize, place.key().is_none());
    for (key, size) in sizes {
        let Some(relative) = place.relative(key) else { continue };
        any = true;
        if !can_be_named(relative) {
            unnamed += 1;
            continue;
        }
        let segments: Vec<&str> = relative.split('/').collect();
        if segments.iter().any(|segment| segment.starts_with('.') || *segment == "node_modules") {
            continue;
        }
        total += size.unwrap_or_default();
        for depth in 1..=segments.len().min(LEVELS) {
            let is_directory = depth < segments.len();
            let path: Vec<&str> = segments.iter().take(depth).copied().collect();
            if is_directory {
                *entries.entry((path, true)).or_insert(Some(0)).get_or_insert(0) += size.unwrap_or_default();
            } else {
                entries.insert((path, false), size);
            }
        }
    }
    if !any {
        return None;
    }
    let mut lines = Lines::beside(before);
    let count = entries.len();
    let shown = entries
        .iter()
        .take_while(|((path, is_directory), size)| {
            let slash = if *is_directory { "/" } else { "" };
            lines.push(&format!("{}\t{place}/{}{slash}", human_if_any(**size), fold_line(&path.join("/"))))
        })
        .count();
    let mut told = Vec::new();
    if shown < count {
        told.push(format!("(showing {shown} of {count} entries — view a directory for what is in it.)"));
    }
    if unnamed > 0 {
        told.push(format!("({unnamed} more have keys that no path can name.)"));
    }
    let header = format!(
        "Here're the files and directories up to 2 levels deep in {place}, excluding hidden items and \
            node_modules:"
    );
    let own = format!("{}\t{place}", human(total));
    let rest = lines.finish("", (!told.is_empty()).then(|| told.join("\n")));
    let rest = if shown == 0 { told.join("\n") } else { rest };
    Some([header, own, rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n"))
}

/// A file's lines, or those of a range, each behind its number and a tab.
///
/// # Errors
/// [`FileError::TooManyLines`]; [`FileError::BadRange`].
pub(super) fn content(place: &Place, body: &str, range: Option<[i64; 2]>) -> Result<String, FileError> {
    let count = count_lines(body);
    if count > LINES_MAX {
        return Err(FileError::TooManyLines { path: place.to_string() });
    }
    let range = match range {
        None => 0..count,
        Some([first, last]) => {
            within(first, last, count).ok_or(FileError::BadRange { first, last, lines: count })?
        }
    };
    let header = format!("Here's the content of {place} with line numbers:");
    let mut lines = Lines::default();
    let start = range.start;
    let (shown, is_cut) = number(&mut lines, body, range.clone());
    let end = start + shown;
    let mut told = Vec::new();
    if is_cut {
        told.push(format!("(no view shows more of a line than its first {ANSWER_MAX} characters.)"));
    }
    if end < range.end {
        let (first, next) = (start + 1, end + 1);
        told.push(format!(
            "(showing lines {first} to {end} of {count} — view it with view_range [{next}, -1] for more.)"
        ));
    }
    let told = (!told.is_empty()).then(|| told.join("\n"));
    Ok(if start == end { header } else { format!("{header}\n{}", lines.finish("", told)) })
}

/// The lines of a change and a few around it.
pub(super) fn snippet(body: &str, changed: Range<usize>) -> String {
    let from = changed.start.saturating_sub(AROUND);
    let to = (changed.end + AROUND).min(count_lines(body));
    let mut lines = Lines::default();
    let (shown, _) = number(&mut lines, body, from..to);
    let told = (shown < to.saturating_sub(from)).then(|| "(the rest of the change is left out.)".to_owned());
    lines.finish("(the file is empty)", told)
}

/// The lines from the first to the last, which count from 1, as a range that counts from 0. All lines of an empty file
/// are none.
fn within(first: i64, last: i64, count: usize) -> Option<Range<usize>> {
    if (first, last, count) == (1, -1, 0) {
        return Some(0..0);
    }
    let start = usize::try_from(first).ok()?.checked_sub(1)?;
    let end = if last == -1 { count } else { usize::try_from(last).ok()?.min(count) };
    (start < end).then_some(start..end)
}

/// Adds numbered lines; answers how many fit, and whether one of them is shown in part.
fn number(lines: &mut Lines, body: &str, range: Range<usize>) -> (usize, bool) {
    let (mut shown, mut is_cut) = (0, false);
    let numbered = body.split_inclusive('\n').enumerate().skip(range.start).take(range.len());
    for (index, line) in numbered {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let clipped = clipped(line);
        if !lines.push(&format!("{:>6}\t{clipped}", index + 1)) {
            break;
        }
        shown += 1;
        is_cut |= clipped.len() != line.len();
    }
    (shown, is_cut)
}

/// A size, or what stands for one of a file that cannot be read.
fn human_if_any(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| DAMAGED_BODY.to_owned(), human)
}

/// A size as `du -h` writes it.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 3] = ["K", "M", "G"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let (mut size, mut unit) = (bytes as f64 / 1024.0, "K");
    for larger in UNITS.into_iter().skip(1) {
        // What would be rounded to 1024.0 is one of the larger unit.
        if size < 1023.95 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    format!("{size:.1}{unit}")
}
