//! The texts of time: histories, differences, ways back.
//!
//! Every line of a text from the store stands behind a mark of ours, with control characters escaped, so that none
//! can forge a line.

use mnemolog::{Frame, Restored, RolledBack};
use similar::{ChangeTag, TextDiff};

use super::{count, line};
use crate::answer::RowAnswer;
use crate::diff::{Difference, Side};
use crate::history::{OriginAnswer, VersionAnswer};

/// Lines shown around a change.
const CONTEXT_LINES: usize = 2;

/// What a terminal shows in another colour.
#[derive(Clone, Copy)]
enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
}

/// One version, as `git log` shows a commit.
pub(crate) fn version(version: &VersionAnswer, first: bool, styled: bool) -> String {
    let VersionAnswer { frame, time, op, by, origin, summary, shown, .. } = version;
    let by = match *by {
        "snapshot" => ", with a snapshot of all",
        "base" => ", kept in the base: what was before it is dropped",
        _ => "",
    };
    let op = if *op == "clear" { "clear of the whole table" } else { op };
    let gap = if first { "" } else { "\n" };
    let mut text =
        format!("{gap}{}  {time}  {op}{by}", painted(&format!("frame {frame}"), Colour::Yellow, styled));
    if let Some(origin) = origin.as_ref().map(who).filter(|who| !who.is_empty()) {
        text.push_str(&format!("\norigin   {origin}"));
    }
    if let Some(summary) = summary {
        text.push_str(&format!("\nsummary  {}", line(summary)));
    }
    if let Some(shown) = shown {
        text.push('\n');
        for line in shown.lines() {
            text.push_str(&format!("\n    {}", printable(line)));
        }
    }
    text
}

fn who(origin: &OriginAnswer) -> String {
    let parts = [("agent", &origin.agent), ("session", &origin.session), ("tool", &origin.tool)];
    let parts = parts.into_iter().filter_map(|(name, part)| Some(format!("{name} {}", line(part.as_ref()?))));
    parts.collect::<Vec<_>>().join(", ")
}

/// Nothing is known under a key.
pub(crate) fn no_history(key: &str) -> String {
    format!("nothing was ever saved under {}", line(key))
}

/// A note or row was brought back.
pub(crate) fn restored(key: &str, to: Frame, restored: Restored) -> String {
    let key = line(key);
    match restored {
        Restored::Saved => format!("restored {key} as it was at frame {to}"),
        Restored::Removed => format!("forgot {key}, which was not there at frame {to} (its history stays)"),
        Restored::Unchanged => format!("{key} is as it was at frame {to}; nothing was written"),
        Restored::WasAbsent => {
            format!("nothing is saved under {key}, and nothing was at frame {to}; nothing was written")
        }
    }
}

/// A workspace was brought back.
pub(crate) fn rolled_back(workspace: &str, to: Frame, back: &RolledBack) -> String {
    let workspace = if workspace.is_empty() { "the whole store" } else { workspace };
    match back.frame {
        Some(frame) => {
            let changes = count(back.deltas as u64, "change");
            format!("rolled {workspace} back to frame {to}: {changes}, written as frame {frame}")
        }
        None => format!("{workspace} is as it was at frame {to}; nothing was written"),
    }
}

/// What differs between two moments, as `git diff` shows it.
pub(crate) fn differences(differences: &[Difference], styled: bool) -> String {
    if differences.is_empty() {
        return "(no differences)".to_owned();
    }
    let mut out = Vec::new();
    let mut handle = None;
    for difference in differences {
        let this = (difference.kind, difference.id.as_str());
        if handle != Some(this) {
            out.push(painted(&format!("{} {}", this.0, this.1), Colour::Cyan, styled));
            handle = Some(this);
        }
        let item = difference.item.as_deref().map_or_else(|| "(configuration)".to_owned(), line);
        let (before, after) = (&difference.before, &difference.after);
        let frames = [before, after].map(|side| side.as_ref().and_then(Side::frame));
        let (mark, colour, frames) = match (before.is_some(), after.is_some(), frames) {
            (true, true, [Some(a), Some(b)]) => ('~', Colour::Yellow, format!("  (frame {a} → {b})")),
            (true, true, _) => ('~', Colour::Yellow, String::new()),
            (true, false, [a, _]) => ('-', Colour::Red, in_frame(a)),
            (false, _, [_, b]) => ('+', Colour::Green, in_frame(b)),
        };
        out.push(format!("  {}{frames}", painted(&format!("{mark} {item}"), colour, styled)));
        let text = |side: &Option<Side>| side.as_ref().map(Side::whole).unwrap_or_default();
        lines(&text(before), &text(after), styled, &mut out);
    }
    out.join("\n")
}

fn in_frame(frame: Option<u64>) -> String {
    frame.map_or_else(String::new, |frame| format!("  (frame {frame})"))
}

/// The lines that differ, and a few around them.
fn lines(before: &str, after: &str, styled: bool, out: &mut Vec<String>) {
    if before == after {
        out.push("      (only what is not shown differs)".to_owned());
        return;
    }
    let diff = TextDiff::from_lines(before, after);
    for (i, hunk) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if i > 0 {
            out.push("      …".to_owned());
        }
        for change in hunk.iter().flat_map(|op| diff.iter_changes(op)) {
            let (mark, colour) = match change.tag() {
                ChangeTag::Delete => ('-', Some(Colour::Red)),
                ChangeTag::Insert => ('+', Some(Colour::Green)),
                ChangeTag::Equal => (' ', None),
            };
            let text = printable(change.value().trim_end_matches(['\n', '\r']));
            let text = format!("{mark} {text}");
            let text = text.trim_end();
            out.push(match colour {
                Some(colour) => format!("      {}", painted(text, colour, styled)),
                None => format!("      {text}"),
            });
        }
    }
}

/// A row as lines.
pub(crate) fn row_text(row: &RowAnswer) -> String {
    match row.metadata.get() {
        "{}" => row.text.clone(),
        metadata => format!("{}\nmetadata: {metadata}", row.text),
    }
}

/// A line with its control characters escaped.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\t' {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

fn painted(text: &str, colour: Colour, styled: bool) -> String {
    if styled { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_owned() }
}
