//! The receipt of erasing.

use super::{count, line};
use crate::erase::{Items, Receipt};

/// What was erased, or would be.
pub(crate) fn erased(receipt: &Receipt) -> String {
    let (goes, rewritten) =
        if receipt.dry_run { ("would erase", "would rewrite") } else { ("erased", "rewrote") };
    let mut text = String::new();
    for file in &receipt.files {
        let frames = count(file.frames, "frame");
        text.push_str(&format!("{rewritten} {}, in which {frames} lost something\n", file.file));
        for items in &file.items {
            text.push_str(&format!("  {}\n", item(items)));
        }
        if file.origins > 0 {
            text.push_str(&format!("  {}\n", count(file.origins, "origin")));
        }
    }
    for (names, what) in [(&receipt.checkpoints, "checkpoint"), (&receipt.quarantine, "quarantined file")] {
        if !names.is_empty() {
            let dropped = if receipt.dry_run { "would drop" } else { "dropped" };
            text.push_str(&format!("{dropped} {}\n", count(names.len() as u64, what)));
        }
    }
    for name in &receipt.stays {
        let of = if name.name == "embedder" { "the embedder of " } else { "" };
        let (kind, id) = (name.kind, line(&name.id));
        text.push_str(&format!("the name of {of}{kind} {id} holds the text and stays; see --handle\n"));
    }
    let blanked: u64 = receipt
        .files
        .iter()
        .map(|file| file.origins + file.items.iter().map(|items| items.deltas).sum::<u64>())
        .sum();
    text + &match receipt.found {
        false => "nothing in the log is to be erased".to_owned(),
        true => format!("{goes} {}; copies and backups are beyond this", count(blanked, "part")),
    }
}

fn item(items: &Items) -> String {
    let deltas = count(items.deltas, "delta");
    let (kind, id) = (items.kind, line(&items.id));
    match &items.key {
        Some(key) => format!("{kind} {id}: {deltas} of {}", line(key)),
        None => format!("{kind} {id}: {deltas}, its name too"),
    }
}
