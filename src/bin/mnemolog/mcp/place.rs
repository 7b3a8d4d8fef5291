//! The URIs of resources: a note, a note at a moment, the index.
//!
//! Owns how a workspace and a key stand in a URI, and back. Reads no store.
//!
//! A URI is read as text and never normalised, so every key has one: what a URI reserves is escaped, and what a
//! client left as it is (`{+key}` escapes nothing that is reserved) is taken as it is. `?at=` and a moment at the end
//! are the moment, so a key that ends like that must be escaped.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

pub(super) use crate::context::At;

/// A note of a workspace.
pub(super) const TEMPLATE: &str = "memory://{workspace}/{+key}";

/// The same as of a frame.
pub(super) const TEMPLATE_AT: &str = "memory://{workspace}/{+key}?at={frame}";

const NOTES: &str = "memory://";
const INDEX: &str = "memory-index:///";

const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');

/// What a URI names in the workspace that is served.
#[derive(Debug)]
pub(super) enum Place {
    /// The index of the notes.
    Index(Option<At>),
    /// A note.
    Note {
        /// Its key.
        key: String,
        /// When.
        at: Option<At>,
    },
}

impl Place {
    /// The note under a key, now.
    pub(super) fn note(key: &str) -> Place {
        Place::Note { key: key.to_owned(), at: None }
    }

    /// What the URI names, if it names anything of this workspace.
    pub(super) fn parse(uri: &str, workspace: &str) -> Option<Place> {
        if let Some(rest) = uri.strip_prefix(INDEX) {
            let (path, at) = split(rest);
            return (decoded(path)? == workspace).then_some(Place::Index(at));
        }
        let (authority, rest) = uri.strip_prefix(NOTES)?.split_once('/')?;
        if decoded(authority)? != workspace {
            return None;
        }
        let (key, at) = split(rest);
        Some(Place::Note { key: decoded(key)?, at })
    }

    /// Its URI as of now.
    pub(super) fn uri(&self, workspace: &str) -> String {
        match self {
            Place::Index(_) => format!("{INDEX}{}", utf8_percent_encode(workspace, PATH)),
            Place::Note { key, .. } => format!(
                "{NOTES}{}/{}",
                utf8_percent_encode(workspace, UNRESERVED),
                utf8_percent_encode(key, PATH)
            ),
        }
    }
}

/// The path, and the moment behind it.
fn split(rest: &str) -> (&str, Option<At>) {
    let moment = rest.rsplit_once("?at=").and_then(|(path, moment)| {
        let at = decoded(moment)?.parse().ok()?;
        Some((path, at))
    });
    moment.map_or((rest, None), |(path, at)| (path, Some(at)))
}

fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}
