//! JSON values as the log stores them: compact text, keys sorted, numbers exactly as they were given.
//!
//! A number such as `12345678901234567890` or `1.50` keeps its digits; a float type would not. Of two
//! equal keys in one object the later one counts, as in every common JSON library.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::value::RawValue;

/// How deep arrays and objects may nest. Common readers, `serde_json` among them, stop at 127 levels, and a line of
/// a dump nests a value a few levels deeper.
pub const JSON_DEPTH_MAX: usize = 120;

/// A JSON value in its canonical text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Json(Box<str>);

/// What kept a text from being a [`Json`].
#[derive(Debug, thiserror::Error)]
pub enum BadJson {
    /// Not JSON.
    #[error("not valid JSON ({0}): check quotes, commas and brackets there")]
    Syntax(#[from] serde_json::Error),
    /// Nested too deeply.
    #[error("JSON nested deeper than {JSON_DEPTH_MAX} levels: flatten it")]
    TooDeep,
}

impl Json {
    /// Reads any JSON text and brings it into the canonical form.
    ///
    /// # Errors
    /// [`BadJson`]: not JSON, or nested deeper than [`JSON_DEPTH_MAX`].
    pub fn parse(text: &str) -> Result<Json, BadJson> {
        let raw: &RawValue = serde_json::from_str(text)?;
        let mut out = String::with_capacity(text.len());
        canonical(raw, 0, &mut out)?;
        Ok(Json(out.into()))
    }

    /// The canonical form of a value that `serde_json` holds. What its types have rounded before is not known here.
    ///
    /// # Errors
    /// [`BadJson::TooDeep`]: nested deeper than [`JSON_DEPTH_MAX`].
    pub fn from_value(value: &serde_json::Value) -> Result<Json, BadJson> {
        Json::parse(&value.to_string())
    }

    /// The empty object.
    pub fn object() -> Json {
        Json("{}".into())
    }

    /// The JSON string that holds `text`.
    pub fn string(text: &str) -> Json {
        Json(serde_json::Value::from(text).to_string().into())
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The canonical text, owned.
    pub fn into_string(self) -> String {
        self.0.into()
    }

    /// The text that the value holds, if it is a string.
    pub fn to_text(&self) -> Option<String> {
        if self.0.starts_with('"') { serde_json::from_str(&self.0).ok() } else { None }
    }

    /// The value as `serde_json` holds it; numbers beyond its types lose digits there, and with one beyond every double
    /// the whole value is null.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(&self.0).unwrap_or(serde_json::Value::Null)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn canonical(raw: &RawValue, depth: usize, out: &mut String) -> Result<(), BadJson> {
    let text = raw.get();
    let open = text.bytes().next();
    if depth >= JSON_DEPTH_MAX && matches!(open, Some(b'{' | b'[')) {
        return Err(BadJson::TooDeep);
    }
    match open {
        Some(b'{') => {
            let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text)?;
            out.push('{');
            for (i, (key, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&serde_json::to_string(key)?);
                out.push(':');
                canonical(value, depth + 1, out)?;
            }
            out.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                canonical(item, depth + 1, out)?;
            }
            out.push(']');
        }
        Some(b'"') => {
            let string: Cow<'_, str> = serde_json::from_str(text)?;
            out.push_str(&serde_json::to_string(&string)?);
        }
        _ => out.push_str(text),
    }
    Ok(())
}
