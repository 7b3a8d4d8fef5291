//! The oracle: a history as lines, with what goes replaced by what is left of it. It knows nothing of how the store does
//! it: it takes JSON apart, and looks into every string.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// What goes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Goes {
    /// Kind, handle, key.
    Key(&'static str, String, String),
    /// Kind, handle.
    Handle(&'static str, String),
    Text(String),
}

/// The lines of a dump as they are after erasing.
pub(super) fn without(lines: &str, goes: &Goes) -> Vec<Value> {
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut keys = BTreeSet::new();
    for line in &lines {
        let args = &line["args"];
        for item in std::iter::once(args).chain(args["items"].as_array().into_iter().flatten()) {
            if let (Goes::Text(text), Some(key)) = (goes, chain_key(line, item))
                && holds(item, text)
            {
                keys.insert(key);
            }
        }
    }
    lines.into_iter().map(|line| erased(line, goes, &keys)).collect()
}

type Key = (String, String, String);

fn chain_key(line: &Value, args: &Value) -> Option<Key> {
    let (kind, id) = (line["handle_kind"].as_str()?, line["handle_id"].as_str()?);
    let key = match kind {
        "notes" => args["key"].as_str()?,
        "vector" => args["id"].as_str()?,
        _ => return None,
    };
    Some((kind.to_owned(), id.to_owned(), key.to_owned()))
}

fn erased(mut line: Value, goes: &Goes, keys: &BTreeSet<Key>) -> Value {
    if let Goes::Text(text) = goes
        && line.get("origin").is_some_and(|origin| holds(origin, text))
    {
        line.as_object_mut().expect("an object").remove("origin");
    }
    let op = line["op"].as_str().expect("an op").to_owned();
    if let Goes::Handle(kind, id) = goes {
        if line["handle_kind"] == *kind && line["handle_id"] == **id {
            let left = if op == "erased" { line["args"].clone() } else { left(&op, &line["args"]) };
            (line["op"], line["args"], line["handle_id"]) = (json!("erased"), left, json!(""));
        }
        return line;
    }
    if op == "snapshot" {
        let items = line["args"]["items"].as_array().expect("items").clone();
        let item = |item: Value| match goes_away(&line, &item, goes, keys) {
            true => json!({ "erased": left("put", &item) }),
            false => item,
        };
        let items: Vec<Value> = items.into_iter().map(item).collect();
        line["args"]["items"] = Value::Array(items);
    } else if goes_away(&line, &line["args"], goes, keys) {
        (line["op"], line["args"]) = (json!("erased"), left(&op, &line["args"]));
    }
    line
}

fn goes_away(line: &Value, args: &Value, goes: &Goes, keys: &BTreeSet<Key>) -> bool {
    if args.get("class").is_some() || args.get("erased").is_some() {
        return false;
    }
    match goes {
        Goes::Text(text) => match chain_key(line, args) {
            Some(key) => keys.contains(&key),
            None => args.get("embedder").is_none() && holds(args, text),
        },
        Goes::Key(kind, id, key) => {
            let named = ["key", "id", "label"].iter().find_map(|name| args.get(name));
            line["handle_kind"] == *kind && line["handle_id"] == **id && named.is_some_and(|n| *n == **key)
        }
        Goes::Handle(..) => false,
    }
}

/// What is left of an operation.
fn left(op: &str, args: &Value) -> Value {
    let class = match op {
        "forget" | "delete" => "remove",
        "clear" | "configure" | "snapshot" => op,
        _ => "put",
    };
    let mut left = Map::new();
    left.insert("class".to_owned(), json!(class));
    if let Some(tokens) = args.get("tokens").filter(|tokens| **tokens != json!(0)) {
        left.insert("tokens".to_owned(), tokens.clone());
    }
    Value::Object(left)
}

/// Whether a string or a name in a value holds a text, or the form that it has in JSON.
fn holds(value: &Value, text: &str) -> bool {
    let quoted = json!(text).to_string();
    let written = &quoted[1..quoted.len() - 1];
    match value {
        Value::String(s) => s.contains(text) || s.contains(written),
        Value::Array(values) => values.iter().any(|value| holds(value, text)),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| holds(&json!(name), text) || holds(value, text))
        }
        _ => false,
    }
}
