//! A filter on metadata: fields that must be there, with their values.
//!
//! Owns when two JSON values are equal: as values, so that `1`, `1.0` and `10e-1` are one number, and exactly,
//! so that no two numbers are equal because a float type cannot tell them apart. And the marks by which most rows that
//! do not pass are told without reading their metadata.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::codec::json::Json;
use crate::error::{Error, Result};

/// A filter on metadata. The empty one lets every row pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    fields: BTreeMap<String, String>,
    marks: u64,
}

/// How many of 64 bits are set for a field. Of metadata with three fields, one row in 450 has those of a field that it has
/// not; with five one in 100, with ten one in 20.
const MARKS_OF_FIELD: u32 = 3;

impl Filter {
    /// Reads a filter: a JSON object, each of whose fields the metadata must have with an equal value. Arrays
    /// and objects are equal if all their parts are.
    ///
    /// # Errors
    /// [`Error::Invalid`]: not an object.
    pub fn parse(filter: &Json) -> Result<Filter> {
        let fields = object(filter.as_str()).and_then(|fields| {
            fields.into_iter().map(|(name, value)| Some((name.into_owned(), comparable(value)?))).collect()
        });
        let fields: BTreeMap<String, String> = fields.ok_or_else(|| Error::Invalid {
            what: "the filter",
            found: filter.as_str().chars().take(80).collect(),
            expected: "a JSON object",
        })?;
        let marks = fields.iter().fold(0, |marks, (name, value)| marks | marks_of(name, value));
        Ok(Filter { fields, marks })
    }

    /// True if every row passes.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The marks that metadata must have to pass; it may have them and not pass.
    pub(super) fn marks(&self) -> u64 {
        self.marks
    }

    /// True if metadata in canonical JSON text passes.
    pub fn matches(&self, metadata: &str) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        let Some(found) = object(metadata) else { return false };
        self.fields.iter().all(|(name, wanted)| {
            let value = found.get(name.as_str()).and_then(|value| comparable(value));
            value.as_deref() == Some(wanted)
        })
    }
}

/// The marks of metadata in canonical JSON text: those of every field that a filter can name. None of what is no object.
pub(super) fn marks(metadata: &str) -> u64 {
    let fields = if metadata == "{}" { None } else { object(metadata) };
    fields
        .unwrap_or_default()
        .iter()
        .fold(0, |marks, (name, value)| marks | comparable(value).map_or(0, |value| marks_of(name, &value)))
}

fn marks_of(name: &str, value: &str) -> u64 {
    let hash = xxh3_64_with_seed(value.as_bytes(), xxh3_64(name.as_bytes()));
    (0..MARKS_OF_FIELD).fold(0, |marks, n| marks | 1 << (hash >> (6 * n) & 63))
}

/// Whether two values are equal, as a filter has it.
pub(crate) fn are_equal(a: &Json, b: &Json) -> bool {
    let comparable = |json: &Json| {
        let mut out = String::new();
        write_comparable(json.as_str(), &mut out).map(|()| out)
    };
    a == b || comparable(a).is_some_and(|a| comparable(b) == Some(a))
}

fn object(text: &str) -> Option<BTreeMap<Cow<'_, str>, &RawValue>> {
    serde_json::from_str(text).ok()
}

/// A text that is the same for equal values.
fn comparable(value: &RawValue) -> Option<String> {
    let mut out = String::new();
    write_comparable(value.get(), &mut out)?;
    Some(out)
}

/// Canonical JSON has no white space and one way to write each string, so only numbers have to be rewritten.
fn write_comparable(text: &str, out: &mut String) -> Option<()> {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_bytes(rest),
            '-' | '0'..='9' => rest.find([',', ']', '}']).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at_checked(length)?;
        match first {
            '-' | '0'..='9' => out.push_str(&number(token)),
            _ => out.push_str(token),
        }
        rest = behind;
    }
    Some(())
}

/// Bytes of the JSON string at the beginning of `text`, its quotes included.
fn string_bytes(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            _ => escaped = byte == b'\\' && !escaped,
        }
    }
    text.len()
}

/// A JSON number as its significant digits and the power of ten behind them: `-1.50` as `-15e-1`.
fn number(text: &str) -> Cow<'_, str> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (sign, magnitude) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let digits = [whole, fraction].concat();
    let kept = digits.trim_end_matches('0');
    let behind = (digits.len() - kept.len()) as i64 - fraction.len() as i64;
    let power = exponent.parse::<i64>().ok().and_then(|exponent| exponent.checked_add(behind));
    match (kept.trim_start_matches('0'), power) {
        ("", _) => Cow::Borrowed("0"),
        (significant, Some(power)) => Cow::Owned(format!("{sign}{significant}e{power}")),
        // A power of ten beyond any use: equal only to the same text.
        (_, None) => Cow::Borrowed(text),
    }
}
