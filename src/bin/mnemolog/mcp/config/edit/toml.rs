//! An entry in a configuration in TOML.
//!
//! Owns the edit as a text to a text. Invariants: of an entry that stands there, only the fields that start the server
//! change, and what reached another one goes. Every line before and behind the change keeps its own end.

use anyhow::Result;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value};

use super::{Entry, Merged, refused};
use crate::render;

/// What an entry for a server at an address has, and one for a command has not.
const OF_AN_ADDRESS: [&str; 5] =
    ["url", "bearer_token", "bearer_token_env_var", "http_headers", "env_http_headers"];

/// The configuration with the entry in it, and all else as it was.
///
/// # Errors
/// The text is no TOML, or has something else where the servers should stand.
pub(super) fn merged(entry: &Entry<'_>, text: &str) -> Result<Merged> {
    let (mark, text) = super::byte_order_mark(text);
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        // Some messages have several lines.
        refused(format!("it is no TOML: {} on line {line}", render::line(error.message())))
    })?;
    let before = document.to_string();
    let (servers, name) = (entry.place.servers, entry.name);
    let table = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let tables = document
        .entry(servers)
        .or_insert_with(table)
        .as_table_like_mut()
        .ok_or_else(|| refused(format!("`{servers}` in it is no table")))?;
    let replaced = tables.contains_key(name);
    let fields = tables
        .entry(name)
        .or_insert_with(|| Item::Table(Table::new()))
        .as_table_like_mut()
        .ok_or_else(|| refused(format!("`{servers}.{name}` in it is no table")))?;
    change(entry, fields);
    let after = document.to_string();
    let text = if after == before { text.to_owned() } else { with_line_ends(text, &after) };
    Ok(Merged { text: format!("{mark}{text}"), replaced })
}

/// Makes an entry start the server, and leaves everything else in it.
fn change(entry: &Entry<'_>, fields: &mut dyn TableLike) {
    let args = entry.command.args.iter().map(String::as_str);
    let has = |found: Option<&str>, text: &str| found == Some(text);
    let program = entry.command.program.as_str();
    if !has(fields.get("command").and_then(Item::as_str), program) {
        put(fields, "command", program.into());
    }
    let is_same = fields.get("args").and_then(Item::as_array).is_some_and(|found| {
        found.len() == args.len()
            && found.iter().zip(args.clone()).all(|(found, arg)| has(found.as_str(), arg))
    });
    if !is_same {
        put(fields, "args", args.collect::<Array>().into());
    }
    for name in OF_AN_ADDRESS {
        fields.remove(name);
    }
}

/// Sets a field, in the place and between the comments of a value that stands there.
fn put(fields: &mut dyn TableLike, name: &str, value: Value) {
    match fields.get_mut(name).and_then(Item::as_value_mut) {
        Some(found) => {
            let decor = std::mem::take(found.decor_mut());
            *found = value;
            *found.decor_mut() = decor;
        }
        None => drop(fields.insert(name, Item::Value(value))),
    }
}

/// A changed text whose lines end as they did, before and behind what is changed; that has the ends that most lines
/// have.
fn with_line_ends(before: &str, after: &str) -> String {
    let bare = |line: &str| line.trim_end_matches(['\r', '\n']).to_owned();
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let alike = |(old, new): &(&&str, &&str)| bare(old) == bare(new);
    let head = old.iter().zip(&new).take_while(alike).count();
    let room = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(room).take_while(alike).count();
    let returns = old.iter().filter(|line| line.ends_with("\r\n")).count();
    let end = if 2 * returns > old.len() { "\r\n" } else { "\n" };
    let mut text = String::with_capacity(before.len() + after.len());
    for (at, line) in new.iter().enumerate() {
        let behind = new.len() - at;
        let kept = if at < head {
            old.get(at)
        } else if behind <= tail {
            old.len().checked_sub(behind).and_then(|at| old.get(at))
        } else {
            None
        };
        match kept {
            // The last line may have had no end.
            Some(kept) if kept.ends_with('\n') || behind == 1 => text.push_str(kept),
            _ => text.extend([bare(line).as_str(), end]),
        }
    }
    text
}
