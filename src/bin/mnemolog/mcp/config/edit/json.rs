//! An entry in a configuration in JSON, which may have comments and trailing commas.
//!
//! Owns the edit as a text to a text. Invariants: of an entry that stands there, only the fields that start the server
//! change, and what reached another one goes. A name that stands twice is refused: readers take the later one, and an
//! edit would be of one of them.

use anyhow::Result;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};

use super::{Entry, Merged, refused};
use crate::render;

/// What an entry for a server at an address has, and one for a command has not.
const OF_AN_ADDRESS: [&str; 2] = ["url", "headers"];

/// A field of an entry.
enum Field<'a> {
    Text(&'a str),
    List(&'a [String]),
}

/// The configuration with the entry in it, and all else as it was.
///
/// # Errors
/// The text is no JSON, or has something else where the servers should stand, or a name twice.
pub(super) fn merged(entry: &Entry<'_>, text: &str) -> Result<Merged> {
    let (mark, text) = super::byte_order_mark(text);
    let source = if text.trim().is_empty() { "{}\n" } else { text };
    let root = parse(source)?;
    let top = root.object_value().ok_or_else(|| refused("it holds no JSON object".to_owned()))?;
    let servers = entry.place.servers;
    only(&top, servers)?;
    let servers = top
        .object_value_or_create(servers)
        .ok_or_else(|| refused(format!("`{servers}` in it is no JSON object")))?;
    let before = only(&servers, entry.name)?;
    let replaced = before.is_some();
    match before.as_ref().map(|before| (before, before.object_value())) {
        Some((_, Some(object))) => change(entry, &object)?,
        Some((before, None)) => before.set_value(whole(entry)),
        None => drop(servers.append(entry.name, whole(entry))),
    }
    Ok(Merged { text: format!("{mark}{root}"), replaced })
}

fn parse(text: &str) -> Result<CstRootNode> {
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        ..ParseOptions::default()
    };
    CstRootNode::parse(text, &options)
        .map_err(|error| refused(format!("it is no JSON: {}", render::line(&error.to_string()))))
}

/// The property with a name, if there is one.
fn only(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>> {
    let is = |property: &CstObjectProp| property.decoded_name().is_some_and(|found| found == name);
    let mut found = object.properties().into_iter().filter(is);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(refused(format!("`{name}` stands in it twice; take one of them out"))),
        (first, None) => Ok(first),
    }
}

/// Makes an entry that stands there start the server, and leaves everything else in it.
fn change(entry: &Entry<'_>, object: &CstObject) -> Result<()> {
    for name in OF_AN_ADDRESS {
        if let Some(property) = only(object, name)? {
            property.remove();
        }
    }
    let is_typed = entry.place.is_typed || only(object, "type")?.is_some();
    for (name, field) in fields(entry, is_typed) {
        match only(object, name)? {
            Some(property) if property.value().is_some_and(|value| field.is(&value)) => {}
            Some(property) => property.set_value(field.value()),
            None => drop(object.append(name, field.value())),
        }
    }
    Ok(())
}

fn whole(entry: &Entry<'_>) -> CstInputValue {
    let fields = fields(entry, entry.place.is_typed).into_iter();
    CstInputValue::Object(fields.map(|(name, field)| (name.to_owned(), field.value())).collect())
}

/// The fields that start the server.
fn fields<'a>(entry: &'a Entry<'_>, is_typed: bool) -> Vec<(&'static str, Field<'a>)> {
    let kind = is_typed.then_some(("type", Field::Text("stdio")));
    let own = [("command", Field::Text(&entry.command.program)), ("args", Field::List(&entry.command.args))];
    kind.into_iter().chain(own).collect()
}

impl Field<'_> {
    /// Whether this is the value that stands there, however it is written.
    fn is(&self, found: &CstNode) -> bool {
        let is_text = |node: &CstNode, text: &str| {
            node.as_string_lit().is_some_and(|found| found.decoded_value().is_ok_and(|found| found == text))
        };
        match self {
            Field::Text(text) => is_text(found, text),
            Field::List(list) => found.as_array().is_some_and(|found| {
                let found = found.elements();
                found.len() == list.len() && found.iter().zip(*list).all(|(found, text)| is_text(found, text))
            }),
        }
    }

    fn value(&self) -> CstInputValue {
        let text = |text: &str| CstInputValue::String(text.to_owned());
        match self {
            Field::Text(value) => text(value),
            Field::List(list) => CstInputValue::Array(list.iter().map(|value| text(value)).collect()),
        }
    }
}
