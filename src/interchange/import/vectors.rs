//! A JSON array of `{id, text, embedding, metadata}`: each element becomes a row.
//!
//! The array is taken apart by its brackets, commas and strings alone, so that an element that is no JSON (`NaN`,
//! which many programs write) takes no other with it. It knows no store.

use std::collections::HashMap;

use super::{ImportReason, Parsed, Place};
use crate::codec::delta::HandleKind;
use crate::interchange::line::fields::{Field, Fields};
use crate::interchange::line::reason::LineReason;
use crate::interchange::line::{Args, RowArgs};

/// Parses an array of rows. `metadata` may be left out, and `embedding` too: the store's embedder makes it then. Of
/// several elements of one id the first counts.
pub fn vectors(input: &[u8]) -> Parsed {
    let mut parsed = Parsed::new(HandleKind::Vector);
    let mut ids: HashMap<String, u64> = HashMap::new();
    let mut elements = Elements::new(input);
    while let Some((place, bytes)) = elements.next() {
        let number = elements.number;
        match row(bytes) {
            Ok((row, unused)) => {
                if let Some(first) = ids.get(&*row.id).copied() {
                    parsed.refuse(place, ImportReason::SameId { first });
                    continue;
                }
                ids.insert(row.id.to_string(), number);
                for field in unused {
                    parsed.note(place.clone(), ImportReason::Unused { field });
                }
                parsed.item(place, Args::Upsert(row));
            }
            Err(reason) => parsed.refuse(place, reason),
        }
    }
    if let Some(reason) = elements.end() {
        let place = Place::Line(elements.line);
        parsed.refuse(place, reason);
    }
    parsed
}

/// A row, and the fields that nothing was made of.
fn row(bytes: &[u8]) -> Result<(RowArgs<'static>, Vec<String>), ImportReason> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| LineReason::NotUtf8 { at: e.valid_up_to().saturating_add(1) })?;
    let mut fields = Fields::parse(text, "the element", "an element")?;
    let row = RowArgs {
        id: fields.required("id")?.text()?.into(),
        text: fields.required("text")?.text()?.into(),
        metadata: fields.optional("metadata").map_or(Ok("{}".to_owned()), Field::json)?.into(),
        embedding: fields.optional("embedding").map(Field::floats).transpose()?.map(Into::into),
    };
    Ok((row, fields.names().map(str::to_owned).collect()))
}

/// The elements of an array, as bytes.
struct Elements<'a> {
    rest: &'a [u8],
    line: u64,
    number: u64,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Start,
    Inside,
    /// Behind the closing bracket.
    Over,
    NoArray,
    Cut,
}

impl<'a> Elements<'a> {
    fn new(input: &'a [u8]) -> Elements<'a> {
        let rest = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
        Elements { rest, line: 1, number: 0, state: State::Start }
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at_checked(count).unwrap_or((self.rest, &[]));
        self.line += taken.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.rest = rest;
        taken
    }

    fn skip_white(&mut self) {
        let white = self.rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.take(white);
    }

    fn next(&mut self) -> Option<(Place, &'a [u8])> {
        self.skip_white();
        if self.state == State::Start {
            if self.rest.first() != Some(&b'[') {
                self.state = State::NoArray;
                return None;
            }
            self.take(1);
            self.skip_white();
            self.state = if self.rest.first() == Some(&b']') { State::Over } else { State::Inside };
            if self.state == State::Over {
                self.take(1);
            }
        }
        if self.state != State::Inside {
            return None;
        }
        if self.rest.is_empty() {
            self.state = State::Cut;
            return None;
        }
        self.number += 1;
        let place = Place::Element { number: self.number, line: self.line };
        let len = element_bytes(self.rest);
        let element = self.take(len);
        match self.take(1) {
            b"," => {}
            b"]" => self.state = State::Over,
            _ => self.state = State::Cut,
        }
        Some((place, element.trim_ascii_end()))
    }

    /// What is wrong with the array itself.
    fn end(&mut self) -> Option<ImportReason> {
        self.skip_white();
        match self.state {
            State::NoArray => Some(ImportReason::NotAnArray),
            State::Cut => Some(ImportReason::Unended),
            _ if !self.rest.is_empty() => Some(ImportReason::Behind),
            _ => None,
        }
    }
}

/// How many bytes stand before the comma or bracket that ends the element.
fn element_bytes(bytes: &[u8]) -> usize {
    let (mut depth, mut string, mut escaped) = (0_usize, false, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            _ if string => {}
            b'[' | b'{' => depth += 1,
            b',' | b']' if depth == 0 => return at,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    bytes.len()
}
