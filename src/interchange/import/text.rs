//! Files of text or Markdown: each becomes a note, whose key is its path and whose body is the text as it is.
//!
//! The summary is the first heading of a Markdown file, otherwise the first line with a letter or digit. It does
//! not know where the files come from: whoever reads them also says which could not be read.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;

use super::{ImportReason, Parsed, Place, summary};
use crate::codec::delta::HandleKind;
use crate::interchange::line::{Args, NoteArgs, NoteText};

/// A file, read or not.
#[derive(Debug)]
pub struct TextFile {
    /// Its path in the directory, `/`-separated: the note's key.
    pub name: String,
    /// Its bytes.
    pub content: Result<Vec<u8>, Unread>,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unread {
    /// A symbolic link, which may lead anywhere.
    #[error("this is a symbolic link, which is not followed")]
    Link,
    /// A pipe, a socket or a device.
    #[error("this is neither a file nor a directory")]
    Special,
    /// A name that begins with a dot: by custom, not content.
    #[error("its name begins with a dot, so it is not content; rename it to import it")]
    Hidden,
    /// A name that is not UTF-8, and cannot be a key.
    #[error("its name is not UTF-8; rename it")]
    Name,
    /// More than any note can hold.
    #[error("its {bytes} bytes are more than the {limit} that a note can have")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The system did not let it be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Parses files. A hidden one is left out with a word; every other that does not come in is refused.
pub fn text(files: impl IntoIterator<Item = TextFile>) -> Parsed {
    let mut parsed = Parsed::new(HandleKind::Notes);
    let mut names = BTreeSet::new();
    for TextFile { name, content } in files {
        let place = Place::File(name.clone());
        let note = match content {
            Err(hidden @ Unread::Hidden) => {
                parsed.note(place, hidden.into());
                continue;
            }
            Err(unread) => Err(unread.into()),
            Ok(_) if names.contains(&name) => Err(ImportReason::SameFile),
            Ok(bytes) => note(&name, bytes),
        };
        match note {
            Ok(note) => {
                names.insert(name);
                parsed.item(place, note);
            }
            Err(reason) => parsed.refuse(place, reason),
        }
    }
    parsed
}

fn note(name: &str, bytes: Vec<u8>) -> Result<Args<'static>, ImportReason> {
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(ImportReason::Binary { at: at + 1 });
    }
    let text = String::from_utf8(bytes)
        .map_err(|e| ImportReason::NotUtf8 { at: e.utf8_error().valid_up_to().saturating_add(1) })?;
    // The mark of the encoding is no part of the text.
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let markdown = matches!(extension.as_deref(), Some("md" | "markdown" | "mdown" | "mkd"));
    let heading = if markdown { heading(&text) } else { None };
    let line = || content(&text, markdown).find(|line| line.chars().any(char::is_alphanumeric));
    let said = heading.or_else(line).map(|line| Cow::Owned(summary(line)));
    Ok(Args::Remember(NoteArgs {
        key: name.to_owned().into(),
        summary: said,
        body: NoteText::Text(text.into()),
    }))
}

/// The lines behind the front matter of Markdown; of any other text all.
fn content(text: &str, markdown: bool) -> impl Iterator<Item = &str> {
    let fence = |line: &&str| line.trim_end() == "---";
    let closed = text.lines().skip(1).position(|line| fence(&line));
    let front = closed.filter(|_| markdown && text.lines().next().as_ref().is_some_and(fence));
    text.lines().skip(front.map_or(0, |end| end + 2))
}

/// The first heading that does not stand in a block of code.
fn heading(text: &str) -> Option<&str> {
    let mut code = None;
    for line in content(text, true) {
        let trimmed = line.trim_start_matches(' ');
        let fence = ["```", "~~~"].into_iter().find(|fence| trimmed.starts_with(fence));
        match (code, fence) {
            (None, Some(_)) => code = fence,
            (Some(open), Some(found)) if open == found => code = None,
            _ => {}
        }
        let marked = trimmed.trim_start_matches('#');
        let level = trimmed.len() - marked.len();
        let is_heading = code.is_none()
            && line.len() - trimmed.len() <= 3
            && (1..=6).contains(&level)
            && marked.starts_with([' ', '\t']);
        let title = marked.trim().trim_end_matches('#').trim_end();
        if is_heading && !title.is_empty() {
            return Some(title);
        }
    }
    None
}
