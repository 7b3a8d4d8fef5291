//! Notes: a summary in the prompt every turn, the full note on demand.
//!
//! The texts that a model reads are made by the view; this file decides what is written and answers in the
//! sentences of the view. Keys are free: nothing validates or rewrites them.

use std::fmt;

use super::{Handle, Restored};
use crate::codec::delta::{Body, HandleKind, Note as NoteDelta, Op};
use crate::codec::json::Json;
use crate::error::{Error, Result};
use crate::position::{Frame, Time};
use crate::store::{Erased, History, Reading, Workspace};
use crate::view::history::Versioned;
use crate::view::notes::{Match, Note};
use crate::view::{NotesView, text};

/// The fixed place of a workspace's notes.
const PLACE: &str = "memory";

/// The notes of one workspace. Cheap to clone; every clone is the same notes.
#[derive(Clone, Debug)]
pub struct Notes {
    handle: Handle,
}

/// What `forget` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// The note is gone from now on; holds the sentence that says so.
    Forgot(String),
    /// There was none; holds the sentence that says so.
    WasAbsent(String),
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Forgotten::Forgot(sentence) | Forgotten::WasAbsent(sentence)) = self;
        f.write_str(sentence)
    }
}

impl Workspace {
    /// The workspace's notes.
    pub fn notes(&self) -> Notes {
        let path = self.path().as_str();
        let id = if path.is_empty() { PLACE.into() } else { format!("{path}/{PLACE}").into() };
        Notes { handle: Handle::new(self.source(), HandleKind::Notes, id) }
    }
}

impl Notes {
    /// Saves a note, or overwrites the one under the key. Answers `saved KEY`.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`]: a key over 64 KiB, an item over the store's limit; nothing is saved then.
    /// [`crate::Error::ReadOnly`] in a past. What committing answers.
    pub fn remember(&self, key: &str, summary: &str, body: &str) -> Result<String> {
        self.save(key, Some(summary), Body::Text(body))
    }

    /// As [`Notes::remember`], with a summary that may be missing and a JSON value as the body. A JSON string is
    /// the text that it holds.
    ///
    /// # Errors
    /// As [`Notes::remember`].
    pub fn remember_json(&self, key: &str, summary: Option<&str>, body: &Json) -> Result<String> {
        let text = body.to_text();
        self.save(key, summary, text.as_deref().map_or(Body::Json(body.as_str()), Body::Text))
    }

    /// As [`Notes::remember`], if the note is still the one that the caller read: `expected` is its
    /// [`Note::frame`], or none (or frame 0) if nothing was saved under the key, never or not any more. Decided
    /// while no other write can come in between, in this process and in others.
    ///
    /// # Errors
    /// [`crate::Error::Conflict`]: something else is saved; nothing is written then. As [`Notes::remember`].
    pub fn remember_if(
        &self,
        key: &str,
        expected: Option<Frame>,
        summary: &str,
        body: &str,
    ) -> Result<String> {
        let expected = expected.unwrap_or_default();
        let note = NoteDelta { key, summary: Some(summary), body: Body::Text(body) };
        self.handle.source.change(&self.handle.id.id, |reading| {
            let head = reading.state.notes(self.handle.name()).and_then(|view| view.head(key));
            let found = head.map(|head| head.last.frame).unwrap_or_default();
            if found != expected {
                return Err(Error::Conflict { key: key.to_owned(), expected, found });
            }
            Ok((vec![Op::Remember(note)], text::saved(key)))
        })
    }

    /// Every version of a note, newest first, also of one that was deleted. Reads one frame a version. In a
    /// past, the versions up to its frame; in a critical section, those before it. A snapshot that was restored
    /// ends the histories of the notes that it left out.
    pub fn history(&self, key: &str) -> History<Note> {
        self.handle.source.history(&self.handle.id, key)
    }

    /// Brings one note back to its state at a frame, by a new frame: saves it as it was, or deletes it if it was
    /// not there. Nothing is written if it is so already.
    ///
    /// # Errors
    /// As [`crate::Store::at`]; [`crate::Error::ReadOnly`] in a past; what committing answers.
    pub fn restore(&self, key: &str, frame: Frame) -> Result<Restored> {
        loop {
            let generation = self.handle.source.generation();
            let then = self.handle.source.item_at::<Note>(&self.handle.id, key, frame)?;
            let restored = self.handle.source.change(&self.handle.id.id, |reading| {
                if self.handle.source.generation() != generation {
                    // What was read may have been erased meanwhile.
                    return Ok((Vec::new(), None));
                }
                let now = Note::saved(&reading.state, self.handle.name(), key, &reading.bodies)?;
                let (ops, done) = match (&then, now) {
                    (Some(then), Some(now)) if then.says_the_same(&now) => (Vec::new(), Restored::Unchanged),
                    (Some(then), _) => (vec![Op::Remember(then.delta())], Restored::Saved),
                    (None, Some(_)) => (vec![Op::Forget { key }], Restored::Removed),
                    (None, None) => (Vec::new(), Restored::WasAbsent),
                };
                Ok((ops, Some(done)))
            })?;
            if let Some(restored) = restored {
                return Ok(restored);
            }
        }
    }

    fn save(&self, key: &str, summary: Option<&str>, body: Body<'_>) -> Result<String> {
        self.handle.source.put(&self.handle.id.id, Op::Remember(NoteDelta { key, summary, body }))?;
        Ok(text::saved(key))
    }

    /// The note's full body, or the sentence that nothing is saved under the key.
    pub fn recall(&self, key: &str) -> String {
        self.look(|view, reading| view.recall(key, &reading.bodies))
    }

    /// The note under a key.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] or [`crate::Error::Io`]: its body cannot be read.
    pub fn get(&self, key: &str) -> Result<Option<Note>> {
        let reading = self.handle.reading();
        match reading.state.notes(self.handle.name()) {
            Some(view) => view.get(key, &reading.bodies),
            None => Ok(None),
        }
    }

    /// Deletes a note from now on; its history stays until it is erased.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`] in a past. What committing answers. An absent note is none.
    pub fn forget(&self, key: &str) -> Result<Forgotten> {
        let id = self.handle.id.id.clone();
        self.handle.source.change(&id, |reading| {
            let view = reading.state.notes(self.handle.name());
            if view.and_then(|view| view.head(key)).is_none() {
                return Ok((Vec::new(), Forgotten::WasAbsent(text::absent(key))));
            }
            Ok((vec![Op::Forget { key }], Forgotten::Forgot(text::forgot(key))))
        })
    }

    /// Removes a note for good: every version of it, from every file of the store. Its history is that of a key that was
    /// never used. See [`crate::Store::erase`].
    ///
    /// # Errors
    /// As [`crate::Store::erase`]; [`crate::Error::ReadOnly`] in a past.
    pub fn erase(&self, key: &str) -> Result<Erased> {
        self.handle.erase(Some(key))
    }

    /// Removes all notes of the workspace for good, and the name of the workspace with them.
    ///
    /// # Errors
    /// As [`Notes::erase`].
    pub fn erase_all(&self) -> Result<Erased> {
        self.handle.erase(None)
    }

    /// One `- key: summary` line a note, shallow keys first, or `(no memories)`.
    pub fn list_memories(&self) -> String {
        self.look(|view, _| view.list())
    }

    /// Every note that holds the pattern in key, summary or body, as text; at most 8 are shown, all are counted. Where
    /// the notes are much of the log, it goes through the log instead of from note to note, a file of the log a thread.
    pub fn search(&self, pattern: &str) -> String {
        self.look(|view, reading| view.search(pattern, &reading.bodies))
    }

    /// Every note that holds the pattern, in stored key order.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] or [`crate::Error::Io`]: a body cannot be read.
    pub fn find(&self, pattern: &str) -> Result<Vec<Match>> {
        let reading = self.handle.reading();
        match reading.state.notes(self.handle.name()) {
            Some(view) => view.find(pattern, &reading.bodies),
            None => Ok(Vec::new()),
        }
    }

    /// What a prompt shows every turn: how to use the notes, and one line for each; empty without a note.
    pub fn index_note(&self) -> String {
        self.look(|view, _| view.index_note())
    }

    /// As [`Notes::index_note`], within a budget in tokens (a quarter of the code points): if not all lines fit, whole
    /// ones of the newest notes, newest first, and how many notes there are.
    pub fn index_note_within(&self, tokens: u64) -> String {
        self.look(|view, _| view.index_note_within(tokens))
    }

    /// Every key with its summary, in stored key order.
    pub fn summaries(&self) -> Vec<(String, Option<String>)> {
        let reading = self.handle.reading();
        let Some(view) = reading.state.notes(self.handle.name()) else { return Vec::new() };
        view.heads().map(|head| (head.key.to_owned(), head.summary.map(str::to_owned))).collect()
    }

    /// The notes that nobody has written since a time, the oldest first: when it was, the key, the summary. Reads no
    /// body.
    pub fn not_written_since(&self, time: Time) -> Vec<(Time, String, Option<String>)> {
        let reading = self.handle.reading();
        let Some(view) = reading.state.notes(self.handle.name()) else { return Vec::new() };
        let mut heads: Vec<_> = view.heads().filter(|head| head.time <= time).collect();
        // Stable: those of one moment stay in stored key order.
        heads.sort_by_key(|head| head.time);
        heads
            .into_iter()
            .map(|head| (head.time, head.key.to_owned(), head.summary.map(str::to_owned)))
            .collect()
    }

    /// How many notes there are.
    pub fn len(&self) -> usize {
        self.handle.len()
    }

    /// True if there is no note.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All notes as bytes: equal for equal notes, on every platform.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] or [`crate::Error::Io`]: a body cannot be read.
    pub fn snapshot_bytes(&self) -> Result<Vec<u8>> {
        self.handle.snapshot_bytes()
    }

    /// Replaces all notes by those of a snapshot, as one delta.
    ///
    /// # Errors
    /// [`crate::Error::Snapshot`]: not a snapshot of notes; nothing changes then. What committing answers.
    pub fn restore_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.handle.restore_bytes(bytes, |_| Ok(()))
    }

    /// Looks at one moment of the notes.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&NotesView, &Reading) -> T) -> T {
        let reading = self.handle.reading();
        match reading.state.notes(self.handle.name()) {
            Some(view) => look(view, &reading),
            None => look(&NotesView::default(), &reading),
        }
    }
}
