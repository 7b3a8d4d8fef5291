//! Claude's file-like memory tool (`memory_20250818`) over the notes of a workspace: files below `/memories`.
//!
//! Owns the six commands, their sentences, which are those that the tool's documentation gives, and what a
//! file is here: the note whose key is the path below `/memories`. A directory is nothing of its own: it is
//! there as long as a key goes on below it, and a key may hold a note and have notes below it. Does not know
//! how a call arrives.
//!
//! Invariants: a command that changes something is one frame, or none if it is refused. Nothing but what a
//! command names is changed: bodies keep every byte that is not replaced, whatever their line ends; notes
//! keep their summaries, save those that are the first line of a body that changes. A body that is JSON stays
//! JSON, in its canonical text, if it is that still when it was edited; otherwise it is a text from then on.

mod edit;
mod error;
mod path;
mod show;

pub use error::{FileError, FileVerb};

use std::ops::Range;

use super::answer::clip;
use crate::codec::json::Json;
use crate::error::Error;
use crate::handle::Notes;
use crate::store::{Tx, Workspace};
use crate::view::notes::{Note, NoteBody};
use edit::Edited;
use path::Place;

/// The longest summary that is made of a first line, in code points.
const SUMMARY_MAX: usize = 120;

/// The notes of a workspace as files below `/memories`.
///
/// ```
/// use mnemolog::tools::Files;
///
/// let store = mnemolog::Store::in_memory()?;
/// let files = Files::new(&store.workspace("core")?);
/// files.create("/memories/todo.md", "# To do\n- water the plants\n")?;
/// files.insert("/memories/todo.md", 1, "- feed the cat\n")?;
/// let body = store.workspace("core")?.notes().recall("todo.md");
/// assert_eq!(body, "# To do\n- feed the cat\n- water the plants\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Files {
    workspace: Workspace,
}

impl Files {
    /// The notes of this workspace.
    pub fn new(workspace: &Workspace) -> Files {
        Files { workspace: workspace.clone() }
    }

    /// A file with its lines numbered from 1, a directory with what is in it two levels deep, or both. Of a
    /// file, only the lines of `range` if one is given, first and last, and no directory then; -1 as the
    /// last is the end. Holds whole lines as long as they fit [`super::ANSWER_MAX`], at least one of each, and
    /// says what it leaves out. Reads no body but those of the files that it shows or measures.
    ///
    /// # Errors
    /// [`FileError::BadPath`]; [`FileError::Absent`]; [`FileError::BadRange`]; [`FileError::TooManyLines`];
    /// [`FileError::Store`]: what reading answers.
    pub fn view(&self, path: &str, range: Option<[i64; 2]>) -> Result<String, FileError> {
        let place = Place::resolve(path)?;
        // One moment for both.
        self.workspace.notes().look(|view, reading| {
            let note = place.key().map_or(Ok(None), |key| view.get(key, &reading.bodies))?;
            let content = note.map(|note| show::content(&place, note.body.as_str(), range)).transpose()?;
            if let Some(content) = &content
                && range.is_some()
            {
                return Ok(content.clone());
            }
            let sizes = view.sizes(|key| place.relative(key).is_some(), &reading.bodies);
            match (&content, show::listing(&place, sizes, content.as_deref().unwrap_or_default())) {
                (Some(content), Some(listing)) => Ok(format!("{content}\n\n{listing}")),
                (Some(content), None) => Ok(content.clone()),
                (None, Some(listing)) => Ok(listing),
                (None, None) => Err(FileError::absent(&place, FileVerb::View)),
            }
        })
    }

    /// Makes a file. Its note's summary is its first line.
    ///
    /// # Errors
    /// [`FileError::BadPath`]; [`FileError::Root`]; [`FileError::Exists`]; [`FileError::Store`]: what writing
    /// answers.
    pub fn create(&self, path: &str, file_text: &str) -> Result<String, FileError> {
        let place = Place::resolve(path)?;
        let key = place.named(FileVerb::Create)?;
        self.workspace.exclusive(|tx| {
            if has_note(&tx.notes(), key) {
                return Err(FileError::Exists { path: place.to_string() });
            }
            tx.notes().remember(key, &first_line(file_text), file_text)?;
            Ok(format!("File created successfully at: {place}"))
        })
    }

    /// Replaces a text that stands in a file exactly once, and shows the lines around it.
    ///
    /// # Errors
    /// [`FileError::BadPath`]; [`FileError::Absent`], also for a directory; [`FileError::NotInFile`];
    /// [`FileError::NotUnique`]; [`FileError::Store`]: what writing answers.
    pub fn str_replace(&self, path: &str, old_str: &str, new_str: &str) -> Result<String, FileError> {
        let (_, body, lines) = self.edit(path, FileVerb::StrReplace, |place, body| {
            edit::replace(body, old_str, new_str).map_err(|lines| match lines.is_empty() {
                true => FileError::NotInFile { path: place.to_string(), old_str: old_str.to_owned() },
                false => FileError::NotUnique { old_str: old_str.to_owned(), lines },
            })
        })?;
        let snippet = show::snippet(body.as_str(), lines);
        Ok(format!(
            "The memory file has been edited. Here is the snippet showing the change (with line \
                numbers):\n{snippet}"
        ))
    }

    /// Inserts a text behind a line, counted from 1; 0 is the beginning. The text ends its line if it does
    /// not do so itself and something comes behind it.
    ///
    /// # Errors
    /// [`FileError::BadPath`]; [`FileError::Absent`], also for a directory; [`FileError::BadLine`];
    /// [`FileError::Store`]: what writing answers.
    pub fn insert(&self, path: &str, insert_line: i64, insert_text: &str) -> Result<String, FileError> {
        let (place, ..) = self.edit(path, FileVerb::Insert, |_, body| {
            let lines = edit::count_lines(body);
            let line = usize::try_from(insert_line).ok().filter(|line| *line <= lines);
            let line = line.ok_or(FileError::BadLine { insert_line, lines })?;
            Ok(edit::insert(body, line, insert_text))
        })?;
        Ok(format!("The file {place} has been edited."))
    }

    /// Deletes a file, or a directory with all that is in it; both where a path is both. What was there stays
    /// in history.
    ///
    /// # Errors
    /// [`FileError::BadPath`]; [`FileError::Root`]; [`FileError::Absent`]; [`FileError::Store`]: what writing
    /// answers.
    pub fn delete(&self, path: &str) -> Result<String, FileError> {
        let place = Place::resolve(path)?;
        let key = place.named(FileVerb::Delete)?;
        self.workspace.exclusive(|tx| {
            let keys = keys_at(&tx.notes(), key);
            if keys.is_empty() {
                return Err(FileError::absent(&place, FileVerb::Delete));
            }
            for key in keys {
                tx.notes().forget(&key)?;
            }
            Ok(format!("Successfully deleted {place}"))
        })
    }

    /// Moves a file, or a directory with all that is in it; both where a path is both.
    ///
    /// # Errors
    /// [`FileError::BadPath`]; [`FileError::Root`]; [`FileError::Absent`]; [`FileError::DestinationExists`];
    /// [`FileError::IntoItself`]; [`FileError::Store`]: what writing answers.
    pub fn rename(&self, old_path: &str, new_path: &str) -> Result<String, FileError> {
        let (old, new) = (Place::resolve(old_path)?, Place::resolve(new_path)?);
        let old_key = old.named(FileVerb::Rename)?;
        let Some(new_key) = new.key() else {
            return Err(FileError::DestinationExists { path: new.to_string() });
        };
        self.workspace.exclusive(|tx| {
            let keys = keys_at(&tx.notes(), old_key);
            if keys.is_empty() {
                return Err(FileError::absent(&old, FileVerb::Rename));
            }
            if !keys_at(&tx.notes(), new_key).is_empty() {
                return Err(FileError::DestinationExists { path: new.to_string() });
            }
            let is_directory = keys.iter().any(|key| key != old_key);
            if is_directory && path::is_below(new_key, old_key) {
                return Err(FileError::IntoItself { old_path: old.to_string(), new_path: new.to_string() });
            }
            for key in keys {
                let rest = key.get(old_key.len()..).unwrap_or_default();
                move_note(tx, &key, &format!("{new_key}{rest}"))?;
            }
            Ok(format!("Successfully renamed {old} to {new}"))
        })
    }

    /// Saves a file as `change` makes it of its body, and answers what is saved and which of its lines are new.
    fn edit(
        &self,
        path: &str,
        verb: FileVerb,
        change: impl FnOnce(&Place, &str) -> Result<Edited, FileError>,
    ) -> Result<(Place, NoteBody, Range<usize>), FileError> {
        let place = Place::resolve(path)?;
        self.workspace.exclusive(|tx| {
            let notes = tx.notes();
            let note = place.key().map_or(Ok(None), |key| notes.get(key))?;
            let note = note.ok_or_else(|| FileError::absent(&place, verb))?;
            let before = note.body.as_str();
            let Edited { text, lines } = change(&place, before)?;
            let body = body_like(&note.body, text);
            let was_first_line = note.summary.as_ref().is_some_and(|summary| *summary == first_line(before));
            let summary = if was_first_line { Some(first_line(body.as_str())) } else { note.summary };
            save(&notes, &note.key, summary.as_deref(), &body)?;
            Ok((place, body, lines))
        })
    }
}

/// A text as a body: JSON where it is that and the body before was.
fn body_like(before: &NoteBody, text: String) -> NoteBody {
    let was_json = matches!(before, NoteBody::Json(_));
    // A JSON string would be saved as the text in it.
    match was_json.then(|| Json::parse(&text).ok()).flatten().filter(|json| json.to_text().is_none()) {
        Some(json) => NoteBody::Json(json),
        None => NoteBody::Text(text),
    }
}

/// The first line of a text, cut to what a line of the index shows.
fn first_line(text: &str) -> String {
    let line = text.split('\n').next().unwrap_or_default().trim_end_matches('\r');
    match clip(line, SUMMARY_MAX) {
        (line, 0) => line.to_owned(),
        _ => format!("{}…", clip(line, SUMMARY_MAX - 1).0),
    }
}

fn has_note(notes: &Notes, key: &str) -> bool {
    notes.look(|view, _| view.head(key).is_some())
}

/// The key, if it holds a note, and those below it.
fn keys_at(notes: &Notes, key: &str) -> Vec<String> {
    let is_at = |other: &str| other == key || path::is_below(other, key);
    notes.look(|view, _| view.keys().filter(|other| is_at(other)).map(str::to_owned).collect())
}

fn move_note(tx: &Tx, key: &str, to: &str) -> Result<(), Error> {
    let notes = tx.notes();
    if let Some(Note { summary, body, .. }) = notes.get(key)? {
        save(&notes, to, summary.as_deref(), &body)?;
        notes.forget(key)?;
    }
    Ok(())
}

fn save(notes: &Notes, key: &str, summary: Option<&str>, body: &NoteBody) -> Result<(), Error> {
    match (summary, body) {
        (Some(summary), NoteBody::Text(text)) => notes.remember(key, summary, text),
        (None, NoteBody::Text(text)) => notes.remember_json(key, None, &Json::string(text)),
        (summary, NoteBody::Json(json)) => notes.remember_json(key, summary, json),
    }
    .map(drop)
}
