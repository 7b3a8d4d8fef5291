//! What verbs answer, as JSON: the names of the fields are a promise to programs.
//!
//! Owns the shape of every object that `--json` prints and that several verbs share. `render` turns the same
//! values into text for people, so the two cannot tell different stories.

use anyhow::Result;
use mnemolog::view::HandleDigest;
use mnemolog::view::episodic::Episode;
use mnemolog::view::notes::{Match, Note, NoteBody};
use mnemolog::view::vectors::{Hit, VectorRow};
use mnemolog::{Frame, Json, Time};
use serde::Serialize;
use serde_json::value::RawValue;

/// A write: what was written under which name, in which frame.
#[derive(Debug, Serialize)]
pub(crate) struct Written<'a> {
    /// The key, id or label; absent for what concerns the whole handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<&'a str>,
    /// The frame that holds the change; the last one if nothing changed.
    pub(crate) frame: u64,
    /// The sentence for people.
    pub(crate) text: String,
}

/// A removal, or a read by name: whether there was anything.
#[derive(Debug, Serialize)]
pub(crate) struct Sought<'a> {
    pub(crate) key: &'a str,
    pub(crate) found: bool,
    /// The sentence for people.
    pub(crate) text: String,
}

/// A text that a model reads.
#[derive(Debug, Serialize)]
pub(crate) struct Text {
    pub(crate) text: String,
}

/// A note in full.
#[derive(Debug, Serialize)]
pub(crate) struct NoteAnswer {
    key: String,
    found: bool,
    pub(crate) summary: Option<String>,
    /// A string, or the JSON value that was loaded.
    pub(crate) body: Box<RawValue>,
    pub(crate) frame: u64,
    time: String,
    /// The body as a text is printed.
    #[serde(skip)]
    pub(crate) text: String,
}

/// A note that was found.
#[derive(Debug, Serialize)]
pub(crate) struct MatchAnswer {
    key: String,
    summary: Option<String>,
    excerpt: String,
}

/// A row that was found.
#[derive(Debug, Serialize)]
pub(crate) struct HitAnswer {
    pub(crate) id: String,
    pub(crate) score: f32,
    pub(crate) text: String,
    pub(crate) metadata: Box<RawValue>,
}

/// A row in full.
#[derive(Debug, Serialize)]
pub(crate) struct RowAnswer {
    pub(crate) id: String,
    pub(crate) found: bool,
    pub(crate) text: String,
    pub(crate) metadata: Box<RawValue>,
    pub(crate) embedding: Vec<f32>,
    pub(crate) frame: u64,
}

/// An episode.
#[derive(Debug, Serialize)]
pub(crate) struct EpisodeAnswer {
    pub(crate) key: String,
    pub(crate) value: Box<RawValue>,
    pub(crate) timestamp_ms: i64,
    pub(crate) frame: u64,
    pub(crate) time: String,
}

/// A handle's state, in short.
#[derive(Debug, Serialize)]
pub(crate) struct HandleAnswer {
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) len: usize,
    pub(crate) digest: String,
}

impl NoteAnswer {
    pub(crate) fn new(note: Note) -> Result<NoteAnswer> {
        let body = match &note.body {
            NoteBody::Text(text) => raw(&Json::string(text))?,
            NoteBody::Json(json) => raw(json)?,
        };
        Ok(NoteAnswer {
            text: note.body.as_str().to_owned(),
            key: note.key,
            found: true,
            summary: note.summary,
            body,
            frame: note.frame.0,
            time: note.time.to_string(),
        })
    }
}

impl From<Match> for MatchAnswer {
    fn from(found: Match) -> MatchAnswer {
        MatchAnswer { key: found.key, summary: found.summary, excerpt: found.excerpt }
    }
}

impl HitAnswer {
    pub(crate) fn new(hit: Hit) -> Result<HitAnswer> {
        Ok(HitAnswer { metadata: raw(&hit.metadata)?, id: hit.id, score: hit.score, text: hit.text })
    }
}

impl RowAnswer {
    pub(crate) fn new(row: VectorRow) -> Result<RowAnswer> {
        Ok(RowAnswer {
            metadata: raw(&row.metadata)?,
            id: row.id,
            found: true,
            text: row.text,
            embedding: row.embedding,
            frame: row.frame.0,
        })
    }
}

impl EpisodeAnswer {
    pub(crate) fn new(episode: Episode) -> Result<EpisodeAnswer> {
        Ok(EpisodeAnswer {
            value: raw(&episode.value)?,
            key: episode.key,
            timestamp_ms: episode.timestamp_ms,
            frame: episode.frame.0,
            time: episode.time.to_string(),
        })
    }
}

impl From<HandleDigest> for HandleAnswer {
    fn from(handle: HandleDigest) -> HandleAnswer {
        HandleAnswer {
            kind: handle.handle.kind.name(),
            id: handle.handle.id.to_string(),
            len: handle.len,
            digest: hex(handle.digest),
        }
    }
}

impl<'a> Written<'a> {
    pub(crate) fn new(key: impl Into<Option<&'a str>>, frame: Frame, text: impl Into<String>) -> Written<'a> {
        Written { key: key.into(), frame: frame.0, text: text.into() }
    }
}

/// A digest as it is written everywhere: 32 hexadecimal digits.
pub(crate) fn hex(digest: u128) -> String {
    format!("{digest:032x}")
}

/// A time, where there is one.
pub(crate) fn time(time: Option<Time>) -> Option<String> {
    time.map(|time| time.to_string())
}

/// A JSON value, digit for digit.
pub(crate) fn raw(json: &Json) -> Result<Box<RawValue>> {
    Ok(RawValue::from_string(json.as_str().to_owned())?)
}
