//! Notes: keys and summaries in memory, in stored key order; bodies in the log.
//!
//! Owns which notes exist, what a search finds and the texts that a model reads. The rules of those texts
//! stand in `text`. Does not know who asks or what a note means.
//!
//! Invariants: a key is either saved or gone, never both; each keeps the head of its chain of versions until a
//! snapshot replaces the notes. What is damaged is never left out: typed reads fail, texts say so in its place.

mod scan;

use std::cmp::Reverse;

use super::packed::{ByteOrder, Entry, Order, Packed, Record};
use super::saved::{Loader, Saved, Saver};
use super::text::pattern::Pattern;
use super::text::{self, DAMAGED_BODY, MATCHES_SHOWN_MAX, code_points_before};
use super::working::approx_tokens;
use super::{Bodies, View, json, read};
use crate::codec::delta::{self, Body, Config, Op};
use crate::codec::json::Json;
use crate::codec::wire::{Malformed, Reader, put};
use crate::error::Result;
use crate::position::{Frame, Last, Place, Position, Time};

/// The state of the notes of one workspace.
#[derive(Clone, Debug, Default)]
pub struct NotesView {
    /// The texts are the summaries.
    notes: Packed<KeyOrder, Kept>,
    /// The heads of the chains of keys that are not saved now.
    gone: Packed<ByteOrder, Last>,
}

/// A note in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its key, as it was given.
    pub key: String,
    /// Its summary, as it was given.
    pub summary: Option<String>,
    /// Its body, whole.
    pub body: NoteBody,
    /// The commit that saved it, or brought it in a snapshot; it stays the same when history before it is dropped.
    pub frame: Frame,
    /// That commit's time; of a note that a base keeps, the base's.
    pub time: Time,
}

/// The body of a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteBody {
    /// Text.
    Text(String),
    /// A JSON value that is not a string.
    Json(Json),
}

/// What is known of a note without reading its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteHead<'a> {
    /// Its key, as it was given.
    pub key: &'a str,
    /// Its summary, as it was given.
    pub summary: Option<&'a str>,
    /// The delta that saved it: the head of its chain.
    pub last: Last,
    /// The time of that commit.
    pub time: Time,
    /// Where its envelope stands.
    pub at: Position,
}

/// A note that a pattern was found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Its key, as it was given.
    pub key: String,
    /// Its summary, as it was given.
    pub summary: Option<String>,
    /// One line: up to 240 code points of the body around the occurrence, or its opening where only key or
    /// summary hold the pattern, with the marks of what is left out.
    pub excerpt: String,
}

/// What a search shows: the first matches, whose bodies may be damaged, and how many there are.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) matches: Vec<Match>,
    pub(crate) total: usize,
}

impl Shown {
    /// The text of the search.
    pub(crate) fn text(&self) -> String {
        let shown = self.matches.iter().map(|found| text::Match {
            line: text::summary_line(&found.key, found.summary.as_deref()),
            excerpt: found.excerpt.clone(),
        });
        text::search(shown, self.total)
    }
}

/// Stored key order.
enum KeyOrder {}

impl Order for KeyOrder {
    /// How many slashes it has.
    type Known = usize;

    fn know(key: &[u8]) -> usize {
        text::slashes(key)
    }

    fn digest(key: &[u8], slashes: usize, skip: usize) -> u32 {
        text::key_digest(slashes, key.get(skip..).unwrap_or_default())
    }

    fn compare(stored: &[u8], key: &[u8], slashes: usize) -> std::cmp::Ordering {
        text::compare_key_bytes(stored, (key, slashes))
    }
}

/// What is kept of a note beyond its key and its summary.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at: Position,
    last: Last,
    time: Time,
    has_summary: bool,
}

impl Record for Kept {
    type Bytes = [u8; Kept::LEN];
    const LEN: usize = Position::LEN + Last::LEN + 8 + 1;

    fn to_bytes(self) -> [u8; Kept::LEN] {
        let mut bytes = [0; Kept::LEN];
        put(&mut bytes, 0, &self.at.to_bytes());
        put(&mut bytes, Position::LEN, &self.last.to_bytes());
        put(&mut bytes, Position::LEN + Last::LEN, &self.time.as_micros().to_le_bytes());
        put(&mut bytes, Position::LEN + Last::LEN + 8, &[u8::from(self.has_summary)]);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Kept> {
        let mut r = Reader::new(bytes, 0);
        let at = Position::from_bytes(r.bytes("position", Position::LEN).ok()?)?;
        let last = Last::from_bytes(r.bytes("last", Last::LEN).ok()?)?;
        let time = Time::from_micros(r.u64("time").ok()?)?;
        Some(Kept { at, last, time, has_summary: r.u8("summary").ok()? != 0 })
    }
}

impl NoteBody {
    /// What a reader of the note sees: the text, or the JSON text.
    pub fn as_str(&self) -> &str {
        match self {
            NoteBody::Text(text) => text,
            NoteBody::Json(json) => json.as_str(),
        }
    }
}

impl Note {
    /// Whether a reader sees the same, frames and commit times aside.
    pub fn says_the_same(&self, other: &Note) -> bool {
        (&self.key, &self.summary, &self.body) == (&other.key, &other.summary, &other.body)
    }

    /// The change that saves it.
    pub fn delta(&self) -> delta::Note<'_> {
        let body = match &self.body {
            NoteBody::Text(text) => Body::Text(text),
            NoteBody::Json(json) => Body::Json(json.as_str()),
        };
        delta::Note { key: &self.key, summary: self.summary.as_deref(), body }
    }
}

impl NotesView {
    /// The note under `key`, if there is one.
    ///
    /// # Errors
    /// Its body cannot be read.
    pub fn get(&self, key: &str, bodies: &dyn Bodies) -> Result<Option<Note>> {
        let Some(head) = self.head(key) else { return Ok(None) };
        let body = head.with(bodies, |note| match note.body {
            Body::Text(text) => Ok(NoteBody::Text(text.to_owned())),
            Body::Json(text) => Ok(NoteBody::Json(json("note body", u64::from(head.at.offset), text)?)),
        })?;
        let summary = head.summary.map(str::to_owned);
        Ok(Some(Note { key: key.to_owned(), summary, body, frame: head.last.frame, time: head.time }))
    }

    /// What is known of the note under `key` without reading its body.
    pub fn head(&self, key: &str) -> Option<NoteHead<'_>> {
        self.notes.get(key).map(note_head)
    }

    /// What is known of every note without reading a body, in stored key order.
    pub fn heads(&self) -> impl DoubleEndedIterator<Item = NoteHead<'_>> {
        self.notes.iter().map(note_head)
    }

    /// Every key, in stored key order: fewer `/`-segments first, then segment by segment as bytes.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.notes.iter().map(|entry| entry.key)
    }

    /// The head of a key's chain of versions, also after it was deleted; [`Last::default`] without one.
    pub fn last(&self, key: &str) -> Last {
        let saved = self.notes.get(key).map(|entry| entry.record.last);
        saved.or_else(|| Some(self.gone.get(key)?.record)).unwrap_or_default()
    }

    /// Every note whose key, summary or body holds `pattern`, in stored key order; the empty pattern is in
    /// every note. Case does not count, by Unicode's simple folding.
    ///
    /// # Errors
    /// A body cannot be read.
    pub fn find(&self, pattern: &str, bodies: &dyn Bodies) -> Result<Vec<Match>> {
        let pattern = Pattern::new(pattern);
        if let Some(found) = scan::scan(self, &pattern, usize::MAX, bodies) {
            return Ok(found.matches);
        }
        let mut found = Vec::new();
        for head in self.heads() {
            if let Some(occurrence) = head.search(&pattern, bodies)? {
                let excerpt = head.excerpt(occurrence, bodies)?;
                found.push(head.matched(excerpt));
            }
        }
        Ok(found)
    }

    /// The full body as text, or the sentence that nothing is saved under the key.
    pub fn recall(&self, key: &str, bodies: &dyn Bodies) -> String {
        match self.head(key) {
            None => text::absent(key),
            Some(head) => head
                .with(bodies, |note| Ok(note.body.as_str().to_owned()))
                .unwrap_or_else(|_| DAMAGED_BODY.to_owned()),
        }
    }

    /// One `- key: summary` line a note, or `(no memories)`.
    pub fn list(&self) -> String {
        text::list(self.lines())
    }

    /// The same lines behind the head that tells a model how to use them; empty without a note.
    pub fn index_note(&self) -> String {
        text::index(self.lines())
    }

    /// As [`NotesView::index_note`], if that costs at most `tokens` by [`approx_tokens`]. Otherwise the lines of the
    /// newest notes, newest first, as many whole ones as fit, and how many there are; a line too long for what is left
    /// is passed over. Only where no line fits may the answer, which then says just that, cost more.
    pub fn index_note_within(&self, tokens: u64) -> String {
        let whole = self.index_note();
        if u64::from(approx_tokens(&whole)) <= tokens {
            return whole;
        }
        let mut heads: Vec<NoteHead<'_>> = self.heads().collect();
        heads.sort_by_key(|head| Reverse(head.last));
        let budget = usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX);
        text::index_within(heads.iter().map(|head| text::summary_line(head.key, head.summary)), budget)
    }

    /// The first 8 matches as text, and how many there are. The scan is complete. A note whose body cannot be
    /// read counts as a match, whatever the pattern, and says that it is damaged.
    pub fn search(&self, pattern: &str, bodies: &dyn Bodies) -> String {
        self.search_shown(pattern, MATCHES_SHOWN_MAX, bodies).text()
    }

    /// As [`NotesView::search`], the first `max` matches as values.
    pub(crate) fn search_shown(&self, pattern: &str, max: usize, bodies: &dyn Bodies) -> Shown {
        let pattern = Pattern::new(pattern);
        if let Some(found) = scan::scan(self, &pattern, max, bodies) {
            return found;
        }
        let mut found = Shown { matches: Vec::new(), total: 0 };
        for head in self.heads() {
            let occurrence = head.search(&pattern, bodies);
            if matches!(occurrence, Ok(None)) {
                continue;
            }
            found.total += 1;
            if found.matches.len() < max {
                let excerpt = occurrence.map(Option::unwrap_or_default);
                let excerpt = excerpt.and_then(|at| head.excerpt(at, bodies));
                found.matches.push(head.matched(excerpt.unwrap_or_else(|_| DAMAGED_BODY.to_owned())));
            }
        }
        found
    }

    /// Every key of those meant with the length of its body in bytes, in stored key order; none where the body cannot
    /// be read. Reads no other body.
    pub(crate) fn sizes(
        &self,
        is_meant: impl Fn(&str) -> bool,
        bodies: &dyn Bodies,
    ) -> impl Iterator<Item = (&str, Option<u64>)> {
        let size = |head: &NoteHead<'_>| head.with(bodies, |note| Ok(note.body.as_str().len() as u64));
        self.heads().filter(move |head| is_meant(head.key)).map(move |head| (head.key, size(&head).ok()))
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        self.heads().map(|head| text::summary_line(head.key, head.summary))
    }

    fn remember(&mut self, place: Place, time: Time, note: &delta::Note<'_>) {
        self.gone.remove(note.key);
        let kept = Kept { at: place.at, last: place.last, time, has_summary: note.summary.is_some() };
        self.notes.insert(note.key, kept, note.summary.unwrap_or_default());
    }

    fn forget(&mut self, place: Place, key: &str) {
        self.notes.remove(key);
        self.gone.insert(key, place.last, "");
    }
}

impl View for NotesView {
    fn apply(&mut self, place: Place, time: Time, op: &Op<'_>) {
        match op {
            Op::Remember(note) => self.remember(place, time, note),
            Op::Forget { key } => self.forget(place, key),
            Op::Snapshot { config: Config::Notes, continues: false, .. } => *self = NotesView::default(),
            _ => {}
        }
    }

    fn snapshot_head(&self) -> (Config<'static>, usize) {
        (Config::Notes, self.notes.len())
    }

    fn items(&self, bodies: &dyn Bodies, item: &mut dyn FnMut(Last, &Op<'_>) -> Result<()>) -> Result<()> {
        self.heads().try_for_each(|head| {
            head.with(bodies, |note| Ok(item(head.last, &Op::Remember(note.clone()))))?
        })
    }

    fn len(&self) -> usize {
        self.notes.len()
    }

    fn is_unused(&self) -> bool {
        self.notes.is_empty()
    }
}

impl Saved for NotesView {
    fn save(&self, saver: &mut Saver<'_>) -> Result<()> {
        self.notes.save(saver)?;
        self.gone.save(saver)
    }

    fn load(loader: &mut Loader<'_>) -> Result<Self, Malformed> {
        Ok(NotesView { notes: Packed::load(loader)?, gone: Packed::load(loader)? })
    }
}

impl NoteHead<'_> {
    /// As [`occurrence`], of the note that is read back.
    fn search(&self, pattern: &Pattern, bodies: &dyn Bodies) -> Result<Option<Option<usize>>> {
        self.with(bodies, |note| Ok(occurrence(note, pattern)))
    }

    fn matched(&self, excerpt: String) -> Match {
        Match { key: self.key.to_owned(), summary: self.summary.map(str::to_owned), excerpt }
    }

    fn excerpt(&self, occurrence: Option<usize>, bodies: &dyn Bodies) -> Result<String> {
        self.with(bodies, |note| Ok(text::excerpt(note.body.as_str(), occurrence)))
    }

    fn with<R>(
        &self,
        bodies: &dyn Bodies,
        take: impl FnOnce(&delta::Note<'_>) -> Result<R, Malformed>,
    ) -> Result<R> {
        read(bodies, (self.at, self.last.frame), "this note", |op| match op {
            Op::Remember(note) if note.key == self.key => take(note).map(Some),
            _ => Ok(None),
        })
    }
}

/// None: the note does not hold the pattern. Some(None): key or summary do. Some(Some(n)): the body does, first at
/// its n-th code point.
fn occurrence(note: &delta::Note<'_>, pattern: &Pattern) -> Option<Option<usize>> {
    let body = note.body.as_str();
    let occurrence = pattern.find(body).map(|offset| code_points_before(body, offset));
    let named = || pattern.find(note.key).or_else(|| pattern.find(note.summary?)).is_some();
    (occurrence.is_some() || named()).then_some(occurrence)
}

fn note_head(entry: Entry<'_, Kept>) -> NoteHead<'_> {
    let Entry { key, record: Kept { at, last, time, has_summary }, text } = entry;
    NoteHead { key, summary: has_summary.then_some(text), last, time, at }
}
