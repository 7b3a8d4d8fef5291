//! One interchange line as a type, and its text: keys in a fixed order, compact.
//!
//! Owns the names of fields and operations. A line may leave out what loading can add (frame, time, embedding,
//! token cost, episode time); what is there is exact. It knows no store and no limits.

pub(super) mod fields;
pub(super) mod numbered;
pub(super) mod parse;
pub(super) mod reason;

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{Error as _, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::codec::delta::{
    Body, Class, Config, HandleKind, Identity, Note, Op, Origin, Push, Record, Upsert,
};
use crate::error::Error;
use crate::position::{Frame, Time};

/// How far ahead of the clock a given time may be, in microseconds.
const AHEAD_MAX_US: u64 = 24 * 60 * 60 * 1_000_000;

/// One delta as a line. Parsed lines own their text; those of a dump borrow from the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'a> {
    /// The commit; lines of one frame are one commit.
    pub frame: Option<Frame>,
    /// When it was written.
    pub time: Option<Time>,
    /// Who wrote it.
    pub origin: Option<Origin>,
    /// True for a line of a base: the state before the first kept frame.
    pub base: bool,
    /// The kind of memory.
    pub kind: HandleKind,
    /// Workspace path and name.
    pub id: Cow<'a, str>,
    /// The operation.
    pub args: Args<'a>,
}

/// An operation and its arguments. JSON values are canonical text.
#[derive(Clone, Debug, PartialEq)]
pub enum Args<'a> {
    /// Saves or overwrites a note.
    Remember(NoteArgs<'a>),
    /// Deletes a note.
    Forget {
        /// The note's key.
        key: Cow<'a, str>,
    },
    /// Saves or overwrites a row.
    Upsert(RowArgs<'a>),
    /// Deletes a row.
    Delete {
        /// The row's id.
        id: Cow<'a, str>,
    },
    /// Adds an episode.
    Record(EpisodeArgs<'a>),
    /// Adds a scratchpad entry.
    Push(EntryArgs<'a>),
    /// Empties the handle.
    Clear,
    /// Sets or unsets the handle's configuration.
    Configure(Config<'a>),
    /// The whole state of the handle.
    Snapshot {
        /// Its configuration.
        config: Config<'a>,
        /// [`Args::Remember`], [`Args::Upsert`], [`Args::Record`], [`Args::Push`] or [`Args::Erased`].
        items: Vec<Args<'a>>,
    },
    /// What is left of an erased operation.
    Erased {
        /// What sort of operation it was.
        class: Class,
        /// What a scratchpad entry goes on costing.
        tokens: u32,
    },
}

/// The arguments of `remember`.
#[derive(Clone, Debug, PartialEq)]
pub struct NoteArgs<'a> {
    /// The note's key.
    pub key: Cow<'a, str>,
    /// May be missing.
    pub summary: Option<Cow<'a, str>>,
    /// The full note.
    pub body: NoteText<'a>,
}

/// The body of a note.
#[derive(Clone, Debug, PartialEq)]
pub enum NoteText<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// A JSON value that is not a string, in canonical text.
    Json(Cow<'a, str>),
}

/// The arguments of `upsert`.
#[derive(Clone, Debug, PartialEq)]
pub struct RowArgs<'a> {
    /// The row's id.
    pub id: Cow<'a, str>,
    /// What was or is embedded.
    pub text: Cow<'a, str>,
    /// Canonical JSON text; `{}` where it was left out.
    pub metadata: Cow<'a, str>,
    /// The row; loading asks the store's embedder where it was left out.
    pub embedding: Option<Cow<'a, [f32]>>,
}

/// The arguments of `record`.
#[derive(Clone, Debug, PartialEq)]
pub struct EpisodeArgs<'a> {
    /// The episode's key.
    pub key: Cow<'a, str>,
    /// Canonical JSON text.
    pub value: Cow<'a, str>,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: Option<i64>,
}

/// The arguments of `push`.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryArgs<'a> {
    /// The entry's label.
    pub label: Cow<'a, str>,
    /// Its text.
    pub content: Cow<'a, str>,
    /// Its whole cost, the overhead of an entry included.
    pub tokens: Option<u32>,
}

impl Line<'_> {
    /// Reads a line.
    ///
    /// # Errors
    /// [`reason::LineReason`]: not JSON, an unknown or missing field, a value of another type, an unknown kind or
    /// operation, a handle id that names no place, a time that is none.
    pub fn parse(text: &str) -> Result<Line<'static>, reason::LineReason> {
        parse::line(text)
    }

    /// Refuses a time that is more than a day ahead of the clock: it would hold back all later ones.
    ///
    /// # Errors
    /// [`reason::LineReason`] with [`Error::FutureTime`].
    pub fn check_time(&self, now: Time) -> Result<(), reason::LineReason> {
        match self.time {
            Some(time) if time > now.saturating_add(AHEAD_MAX_US) => {
                Err(Error::FutureTime { time, now }.into())
            }
            _ => Ok(()),
        }
    }

    /// Writes the line as compact JSON, without a line break.
    ///
    /// # Errors
    /// What `out` answers.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(out, self).map_err(io::Error::from)
    }

    /// Adds the fields of the line to an object.
    pub(super) fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if let Some(frame) = self.frame {
            map.serialize_entry("frame", &frame.0)?;
        }
        if let Some(time) = self.time {
            map.serialize_entry("time", &format_args!("{time}"))?;
        }
        if let Some(origin) = &self.origin {
            map.serialize_entry("origin", &OriginText(origin))?;
        }
        if self.base {
            map.serialize_entry("base", &true)?;
        }
        map.serialize_entry("handle_kind", self.kind.name())?;
        map.serialize_entry("handle_id", &*self.id)?;
        map.serialize_entry("op", self.args.op_name())?;
        map.serialize_entry("args", &self.args)
    }
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

impl<'a> Args<'a> {
    /// The operation's name in lines.
    pub fn op_name(&self) -> &'static str {
        match self {
            Args::Remember(_) => "remember",
            Args::Forget { .. } => "forget",
            Args::Upsert(_) => "upsert",
            Args::Delete { .. } => "delete",
            Args::Record(_) => "record",
            Args::Push(_) => "push",
            Args::Clear => "clear",
            Args::Configure(_) => "configure",
            Args::Snapshot { .. } => "snapshot",
            Args::Erased { .. } => "erased",
        }
    }

    /// The arguments that an operation of the log amounts to; a snapshot's items are added afterwards.
    pub(super) fn of(op: Op<'a>) -> Args<'a> {
        match op {
            Op::Remember(Note { key, summary, body }) => Args::Remember(NoteArgs {
                key: key.into(),
                summary: summary.map(Cow::from),
                body: match body {
                    Body::Text(text) => NoteText::Text(text.into()),
                    Body::Json(text) => NoteText::Json(text.into()),
                },
            }),
            Op::Forget { key } => Args::Forget { key: key.into() },
            Op::Upsert(Upsert { id, text, metadata, embedding }) => Args::Upsert(RowArgs {
                id: id.into(),
                text: text.into(),
                metadata: metadata.into(),
                embedding: Some(embedding),
            }),
            Op::Delete { id } => Args::Delete { id: id.into() },
            Op::Record(Record { key, value, timestamp_ms }) => Args::Record(EpisodeArgs {
                key: key.into(),
                value: value.into(),
                timestamp_ms: Some(timestamp_ms),
            }),
            Op::Push(Push { label, content, tokens }) => {
                Args::Push(EntryArgs { label: label.into(), content: content.into(), tokens: Some(tokens) })
            }
            Op::Clear(_) => Args::Clear,
            Op::Configure(config) => Args::Configure(config),
            Op::Snapshot { config, .. } => Args::Snapshot { config, items: Vec::new() },
            Op::Erased { class, tokens, .. } => Args::Erased { class, tokens },
        }
    }

    /// The operation for the log; of a snapshot its head. What was left out counts as nothing.
    pub(super) fn op(&self, kind: HandleKind) -> Op<'_> {
        match self {
            Args::Remember(NoteArgs { key, summary, body }) => Op::Remember(Note {
                key,
                summary: summary.as_deref(),
                body: match body {
                    NoteText::Text(text) => Body::Text(text),
                    NoteText::Json(text) => Body::Json(text),
                },
            }),
            Args::Forget { key } => Op::Forget { key },
            Args::Upsert(RowArgs { id, text, metadata, embedding }) => {
                let embedding = Cow::Borrowed(embedding.as_deref().unwrap_or_default());
                Op::Upsert(Upsert { id, text, metadata, embedding })
            }
            Args::Delete { id } => Op::Delete { id },
            Args::Record(EpisodeArgs { key, value, timestamp_ms }) => {
                Op::Record(Record { key, value, timestamp_ms: timestamp_ms.unwrap_or_default() })
            }
            Args::Push(EntryArgs { label, content, tokens }) => {
                Op::Push(Push { label, content, tokens: tokens.unwrap_or_default() })
            }
            Args::Clear => Op::Clear(kind),
            Args::Configure(config) => Op::Configure(config.clone()),
            Args::Snapshot { config, items } => {
                Op::Snapshot { config: config.clone(), items: items.len() as u64, continues: false }
            }
            Args::Erased { class, tokens } => Op::Erased { kind, class: *class, tokens: *tokens },
        }
    }

    /// A snapshot's items; of any other operation none.
    pub(super) fn items(&self) -> &[Args<'a>] {
        match self {
            Args::Snapshot { items, .. } => items,
            _ => &[],
        }
    }
}

impl Serialize for Args<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Args::Remember(note) => note.entries(&mut map)?,
            Args::Upsert(row) => row.entries(&mut map)?,
            Args::Record(EpisodeArgs { key, value, timestamp_ms }) => {
                map.serialize_entry("key", key)?;
                optional(&mut map, "timestamp_ms", timestamp_ms.as_ref())?;
                map.serialize_entry("value", &JsonText(value))?;
            }
            Args::Push(EntryArgs { label, content, tokens }) => {
                map.serialize_entry("label", label)?;
                map.serialize_entry("content", content)?;
                optional(&mut map, "tokens", tokens.as_ref())?;
            }
            Args::Forget { key } => map.serialize_entry("key", key)?,
            Args::Delete { id } => map.serialize_entry("id", id)?,
            Args::Clear => {}
            Args::Configure(config) => config_entries(&mut map, config)?,
            Args::Snapshot { config, items } => {
                map.serialize_entry("config", &ConfigText(config))?;
                map.serialize_entry("items", &items.iter().map(ItemText).collect::<Vec<_>>())?;
            }
            Args::Erased { class, tokens } => {
                map.serialize_entry("class", class.name())?;
                optional(&mut map, "tokens", (*tokens != 0).then_some(tokens))?;
            }
        }
        map.end()
    }
}

impl NoteArgs<'_> {
    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("key", &self.key)?;
        optional(map, "summary", self.summary.as_ref())?;
        match &self.body {
            NoteText::Text(text) => map.serialize_entry("body", text),
            NoteText::Json(text) => map.serialize_entry("body", &JsonText(text)),
        }
    }
}

impl RowArgs<'_> {
    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("text", &self.text)?;
        map.serialize_entry("metadata", &JsonText(&self.metadata))?;
        optional(map, "embedding", self.embedding.as_deref().map(Floats).as_ref())
    }
}

/// Floats as the exact values that they are, so that a reader with doubles gets every bit as well.
struct Floats<'a>(&'a [f32]);

impl Serialize for Floats<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|x| f64::from(*x)))
    }
}

/// JSON text as it is.
struct JsonText<'a>(&'a str);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

struct OriginText<'a>(&'a Origin);

impl Serialize for OriginText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Origin { agent, session, tool } = self.0;
        let mut map = serializer.serialize_map(None)?;
        optional(&mut map, "agent", agent.as_ref())?;
        optional(&mut map, "session", session.as_ref())?;
        optional(&mut map, "tool", tool.as_ref())?;
        map.end()
    }
}

struct ConfigText<'a>(&'a Config<'a>);

impl Serialize for ConfigText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        config_entries(&mut map, self.0)?;
        map.end()
    }
}

/// An item of a snapshot: its arguments, or `{"erased": …}`.
struct ItemText<'a>(&'a Args<'a>);

impl Serialize for ItemText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !matches!(self.0, Args::Erased { .. }) {
            return self.0.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("erased", self.0)?;
        map.end()
    }
}

fn config_entries<M: SerializeMap>(map: &mut M, config: &Config<'_>) -> Result<(), M::Error> {
    match config {
        Config::Notes => Ok(()),
        Config::Vector(identity) => map.serialize_entry("embedder", &identity.as_ref().map(IdentityText)),
        Config::Episodic(max) => map.serialize_entry("max", max),
        Config::Working(budget) => map.serialize_entry("budget", budget),
    }
}

struct IdentityText<'a>(&'a Identity<'a>);

impl Serialize for IdentityText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.0.name)?;
        map.serialize_entry("model", &self.0.model)?;
        map.serialize_entry("dim", &self.0.dim)?;
        map.end()
    }
}

fn optional<M: SerializeMap>(
    map: &mut M,
    field: &'static str,
    value: Option<&(impl Serialize + ?Sized)>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(field, value))
}
