//! Which envelopes go: those of a key or a handle, or those in which a text stands; and what was chosen, for the receipt.
//!
//! A text is looked for where a user can have put it, as it reads. Keys of notes and ids of rows that one of their
//! versions gave away are collected first, since their other versions go too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Erased, ErasedFile, ErasedItems, Stays, What};
use crate::codec::blank::Blank;
use crate::codec::delta::{Body, Config, Envelope, HandleKind, Note, Op, Origin, Push, Record, Upsert};
use crate::codec::frame::{CheckedFrame, FRAME_HEADER_BYTES};
use crate::codec::json::Json;
use crate::codec::payload::{self, Decoded, Trust};
use crate::codec::wire::Malformed;
use crate::error::{Error, Result};
use crate::log::{Choose, Removed};
use crate::store::name::shadowed;
use crate::view::HandleId;

/// Chooses, and keeps count.
#[derive(Debug)]
pub(super) struct Choice<'e> {
    what: &'e What,
    text: Text,
    /// Keys of notes and ids of rows of which a version holds the text.
    keys: BTreeSet<(HandleId, Box<str>)>,
    stays: BTreeSet<Stays>,
    chosen: BTreeMap<u32, Counts>,
}

/// What was chosen in one file.
#[derive(Debug, Default)]
struct Counts {
    origins: u64,
    items: BTreeMap<(HandleId, Option<String>), u64>,
}

impl<'e> Choice<'e> {
    /// Nothing is chosen yet.
    ///
    /// # Errors
    /// [`Error::Invalid`]: an empty text, which everything holds.
    pub(super) fn of(what: &'e What) -> Result<Choice<'e>> {
        let text = match what {
            What::Containing(text) if text.is_empty() => {
                let (what, expected) =
                    ("the text to erase", "at least one letter: every text holds the empty one");
                return Err(Error::Invalid { what, found: "an empty one".to_owned(), expected });
            }
            What::Containing(text) => Text::new(text),
            What::Key(..) | What::Handle(_) => Text::default(),
        };
        let (keys, stays) = (BTreeSet::new(), BTreeSet::new());
        Ok(Choice { what, text, keys, stays, chosen: BTreeMap::new() })
    }

    /// The receipt for what the log did, or would do.
    pub(super) fn receipt(mut self, removed: Removed, dry_run: bool) -> Erased {
        let Removed { files, checkpoints, quarantine } = removed;
        let files = files.into_iter().map(|file| {
            let Counts { origins, items } = self.chosen.remove(&file.ordinal).unwrap_or_default();
            let items = items.into_iter().map(|((handle, key), deltas)| ErasedItems { handle, key, deltas });
            let (frames, open_here) = (file.frames, file.open_here);
            ErasedFile { file: file.file, items: items.collect(), origins, frames, open_here }
        });
        let files = files.collect();
        Erased { dry_run, files, stays: self.stays.into_iter().collect(), checkpoints, quarantine }
    }

    /// What goes of an envelope.
    fn blank(&self, handle: &HandleId, envelope: &Envelope<'_>) -> Option<Blank> {
        let op = &envelope.op;
        let table = table_of(handle);
        let is = |wanted: &HandleId| wanted == handle || table.as_ref() == Some(wanted);
        match self.what {
            What::Handle(wanted) => is(wanted).then_some(Blank::Handle),
            What::Key(wanted, key) => (is(wanted) && op.key() == Some(key)).then_some(Blank::Content),
            What::Containing(_) => {
                let goes = match op.chain_key() {
                    Some(key) => [Some(handle), table.as_ref()]
                        .into_iter()
                        .flatten()
                        .any(|handle| self.keys.contains(&(handle.clone(), key.into()))),
                    None => self.text.stands_in(op),
                };
                goes.then_some(Blank::Content)
            }
        }
    }

    fn count(&mut self, file: u32, handle: HandleId, op: &Op<'_>) {
        let key = op.key().map(|key| self.text.masked(key));
        let key = key.filter(|_| !matches!(self.what, What::Handle(_)));
        *self.chosen.entry(file).or_default().items.entry((handle, key)).or_default() += 1;
    }
}

impl Choose for Choice<'_> {
    fn look(&mut self, frame: &CheckedFrame<'_>) -> Result<(), Malformed> {
        if !matches!(self.what, What::Containing(_)) {
            return Ok(());
        }
        each(frame, &mut |_, decoded| {
            let Decoded::Delta(envelope) = decoded else { return };
            let handle = handle_of(&envelope);
            if let Some(key) = envelope.op.chain_key().filter(|_| self.text.stands_in(&envelope.op)) {
                self.keys.insert((handle.clone(), key.into()));
            }
            if self.text.is_in(envelope.id) {
                self.stays.insert(Stays::Handle(handle.clone()));
            }
            if let Op::Configure(config) | Op::Snapshot { config, .. } = &envelope.op
                && let Config::Vector(Some(identity)) = config
                && (self.text.is_in(&identity.name) || self.text.is_in(&identity.model))
            {
                self.stays.insert(Stays::Embedder(handle));
            }
        })
    }

    fn choose(&mut self, file: u32, frame: &CheckedFrame<'_>) -> Result<Vec<(u64, Blank)>, Malformed> {
        let mut chosen = Vec::new();
        each(frame, &mut |offset, decoded| match decoded {
            Decoded::Origin(Some(origin)) if self.text.stands_in_origin(&origin) => {
                self.chosen.entry(file).or_default().origins += 1;
                chosen.push((offset, Blank::Content));
            }
            Decoded::Origin(_) => {}
            Decoded::Delta(envelope) => {
                let handle = handle_of(&envelope);
                if let Some(blank) = self.blank(&handle, &envelope) {
                    self.count(file, handle, &envelope.op);
                    chosen.push((offset, blank));
                }
            }
        })?;
        Ok(chosen)
    }
}

fn handle_of(envelope: &Envelope<'_>) -> HandleId {
    HandleId { kind: envelope.op.kind(), id: Arc::from(envelope.id) }
}

/// The table whose rows this one holds the vectors of, while they are embedded anew: what goes there goes here too.
fn table_of(handle: &HandleId) -> Option<HandleId> {
    let table = shadowed(&handle.id).filter(|_| handle.kind == HandleKind::Vector)?;
    Some(HandleId { kind: HandleKind::Vector, id: table.into() })
}

/// Visits every envelope of a frame with its offset in the file, also those that an erased head left behind.
fn each(frame: &CheckedFrame<'_>, visit: &mut dyn FnMut(u64, Decoded<'_>)) -> Result<(), Malformed> {
    let mut rest = frame.payload;
    let mut offset = u64::from(frame.header.own_offset) + FRAME_HEADER_BYTES as u64;
    while !rest.is_empty() {
        let (decoded, behind) = payload::decode(rest, offset, Trust::Frame)?;
        visit(offset, decoded);
        offset += (rest.len() - behind.len()) as u64;
        rest = behind;
    }
    Ok(())
}

/// The forms of a text that is looked for; without one, nothing holds it.
#[derive(Debug, Default)]
struct Text {
    /// As it is, and as JSON writes it, where that differs.
    forms: Vec<String>,
    /// Whether it can span several parts of a JSON value.
    spans: bool,
}

impl Text {
    fn new(text: &str) -> Text {
        let quoted = Json::string(text);
        let written = quoted.as_str().get(1..quoted.as_str().len() - 1).unwrap_or(text);
        let mut forms = vec![text.to_owned()];
        if written != text {
            forms.push(written.to_owned());
        }
        Text { forms, spans: text.contains(['"', '{', '}', '[', ']', ':', ',', '\\']) }
    }

    fn is_in(&self, text: &str) -> bool {
        self.forms.iter().any(|form| text.contains(form.as_str()))
    }

    /// The text with what is looked for left out.
    fn masked(&self, text: &str) -> String {
        self.forms.iter().fold(text.to_owned(), |text, form| text.replace(form.as_str(), "[erased]"))
    }

    fn stands_in(&self, op: &Op<'_>) -> bool {
        match op {
            Op::Remember(Note { key, summary, body }) => {
                let body = match body {
                    Body::Text(text) => self.is_in(text),
                    Body::Json(json) => self.is_in_json(json),
                };
                body || self.is_in(key) || summary.is_some_and(|summary| self.is_in(summary))
            }
            Op::Upsert(Upsert { id, text, metadata, .. }) => {
                self.is_in(id) || self.is_in(text) || self.is_in_json(metadata)
            }
            Op::Record(Record { key, value, .. }) => self.is_in(key) || self.is_in_json(value),
            Op::Push(Push { label, content, .. }) => self.is_in(label) || self.is_in(content),
            Op::Forget { key } | Op::Delete { id: key } => self.is_in(key),
            Op::Clear(_) | Op::Configure(_) | Op::Snapshot { .. } | Op::Erased { .. } => false,
        }
    }

    fn stands_in_origin(&self, origin: &Origin) -> bool {
        let Origin { agent, session, tool } = origin;
        [agent, session, tool].into_iter().flatten().any(|text| self.is_in(text))
    }

    /// Whether a string or a number of a canonical JSON text holds it, or the text as it stands where it can.
    fn is_in_json(&self, json: &str) -> bool {
        if self.spans && self.is_in(json) {
            return true;
        }
        let mut rest = json;
        while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
            let token = rest.get(at..).unwrap_or_default();
            let len = if token.starts_with('"') { string_bytes(token) } else { number_bytes(token) };
            let (token, behind) = token.split_at_checked(len).unwrap_or((token, ""));
            let held = match serde_json::from_str::<String>(token) {
                Ok(string) => self.is_in(&string),
                Err(_) => self.is_in(token),
            };
            if held {
                return true;
            }
            rest = behind;
        }
        false
    }
}

/// Bytes of the string that a JSON text begins with, its quotes included.
fn string_bytes(json: &str) -> usize {
    let mut escaped = true;
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

/// Bytes of the number that a JSON text begins with.
fn number_bytes(json: &str) -> usize {
    json.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(json.len())
}
