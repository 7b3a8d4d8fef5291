//! What `import`, `backup` and `reembed` say to people.

use super::{count, line};
use crate::import::{Answer, Item, Told};

/// What was, or would be, imported.
pub(crate) fn imported(answer: &Answer) -> String {
    let Answer { added, changed, unchanged, frames, embedded, refused, .. } = answer;
    let mut text: String = answer.items.iter().map(item).collect();
    let verb = if answer.dry_run { "would import" } else { "imported" };
    text.push_str(&format!(
        "{verb} {}: {added} new, {changed} changed",
        count((added + changed) as u64, "item")
    ));
    if *unchanged > 0 {
        text.push_str(&format!("; {unchanged} stood there already"));
    }
    if *frames > 0 {
        text.push_str(&format!("; {} written", count(*frames, "frame")));
    }
    if *embedded > 0 {
        text.push_str(&format!(", {} computed", count(*embedded, "embedding")));
    }
    if !refused.is_empty() {
        text.push_str(&format!("\nrefused {}", count(refused.len() as u64, "part")));
    }
    text
}

fn item(item: &Item) -> String {
    let sign = if item.fate == "added" { '+' } else { '~' };
    format!("{sign} {}\n", line(&item.key))
}

/// What is to be said of a part.
pub(crate) fn told(told: &Told) -> String {
    format!("{}: {}", told.place, told.reason)
}

/// What was backed up.
pub(crate) fn backed_up(answer: &crate::backup::Answer) -> String {
    let crate::backup::Answer { backup, frame, copied_files, copied_bytes, segments, .. } = answer;
    let files = count(*copied_files as u64, "file");
    let verified = if answer.verified { "; every byte of it was read" } else { "" };
    format!(
        "{backup} holds the store up to frame {frame}: copied {files} of {segments}, {copied_bytes} bytes{verified}"
    )
}

/// What was embedded anew.
pub(crate) fn reembedded(answer: &crate::reembed::Answer) -> String {
    let rows = count(answer.rows as u64, "row");
    let after = line(&answer.after);
    if !answer.switched {
        return format!("{rows} of {after} already; nothing was embedded");
    }
    let texts = count(answer.embedded as u64, "text");
    format!("switched {rows} to {after}; embedded {texts}")
}

/// There is no table with the name.
pub(crate) fn no_table(name: &str) -> String {
    format!("nothing is saved in a table {}, and nothing was embedded", line(name))
}
