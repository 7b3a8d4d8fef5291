//! Deltas: what a commit changes, one envelope for each.
//!
//! The envelope is fixed so that one delta can be found, checked, shown or blanked without its frame and
//! without understanding its body. Blanking sets a flag and zeroes embedding and body in place: nothing
//! moves. A snapshot is one delta of several envelopes: its head, then one envelope an item.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::json::Json;
use super::wire::Malformed;
use crate::position::Last;

/// Bytes of an envelope before the embedding, the handle id and the body.
pub const ENVELOPE_HEADER_BYTES: usize = 40;
/// The widest embedding, in floats.
pub const EMBEDDING_WIDTH_MAX: usize = 65_536;
/// The longest handle id, key or vector id, in bytes.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// The largest origin, in bytes of its body.
pub const ORIGIN_BYTES_MAX: usize = 1024;

/// Offset of each envelope field: a running sum.
pub mod envelope {
    /// 4 bytes: header, embedding, handle id and body, without padding.
    pub const LENGTH: usize = 0;
    /// 4 bytes, begun with the segment's salt, over the envelope without them.
    pub const CRC: usize = LENGTH + 4;
    /// 1 byte.
    pub const KIND: usize = CRC + 4;
    /// 1 byte.
    pub const CLASS: usize = KIND + 1;
    /// 2 bytes.
    pub const FLAGS: usize = CLASS + 1;
    /// 4 bytes.
    pub const ID_LENGTH: usize = FLAGS + 2;
    /// 4 bytes.
    pub const TOKENS: usize = ID_LENGTH + 4;
    /// 4 bytes.
    pub const PREVIOUS_INDEX: usize = TOKENS + 4;
    /// 8 bytes.
    pub const PREVIOUS_FRAME: usize = PREVIOUS_INDEX + 4;
    /// 4 bytes.
    pub const EMBEDDING_WIDTH: usize = PREVIOUS_FRAME + 8;
    /// 4 bytes, zero.
    pub const RESERVED: usize = EMBEDDING_WIDTH + 4;
    /// Where the embedding begins.
    pub const END: usize = RESERVED + 4;
}
const _: () = assert!(envelope::END == ENVELOPE_HEADER_BYTES);
// Envelopes begin at multiples of 8, so the embedding behind the header is aligned for `f32`.
const _: () = assert!(ENVELOPE_HEADER_BYTES.is_multiple_of(8));

/// The envelope's content was erased: embedding and body are zeros.
pub const FLAG_ERASED: u16 = 1;
/// The envelope is an item of the snapshot whose head stands before it.
pub const FLAG_ITEM: u16 = 2;
/// A snapshot head that adds to the handle's state instead of replacing it (a base in several frames).
pub const FLAG_CONTINUES: u16 = 4;
pub(crate) const FLAGS_KNOWN: u16 = FLAG_ERASED | FLAG_ITEM | FLAG_CONTINUES;

/// The four kinds of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum HandleKind {
    /// Notes: a summary in the prompt, the body on demand.
    Notes = 1,
    /// A vector table.
    Vector = 2,
    /// A ring of episodes.
    Episodic = 3,
    /// A scratchpad with a token budget.
    Working = 4,
}

/// The tag of an origin's envelope, in place of a handle kind.
pub const ORIGIN_TAG: u8 = 5;

impl HandleKind {
    /// Every kind, in the order of the tags.
    pub const ALL: [HandleKind; 4] =
        [HandleKind::Notes, HandleKind::Vector, HandleKind::Episodic, HandleKind::Working];

    /// The kind of a tag byte.
    pub fn from_tag(tag: u8) -> Option<HandleKind> {
        HandleKind::ALL.into_iter().find(|k| *k as u8 == tag)
    }

    /// The kind's name in interchange lines and messages.
    pub fn name(self) -> &'static str {
        match self {
            HandleKind::Notes => "notes",
            HandleKind::Vector => "vector",
            HandleKind::Episodic => "episodic",
            HandleKind::Working => "working",
        }
    }
}

/// What sort of operation an envelope holds; readable also after its body was erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// `remember`, `upsert`, `record`, `push`.
    Put = 1,
    /// `forget`, `delete`.
    Remove = 2,
    /// `clear`.
    Clear = 3,
    /// `configure`.
    Configure = 4,
    /// The head of a snapshot.
    Snapshot = 5,
    /// Who wrote the frame.
    Origin = 6,
}

impl Class {
    /// Every class, in the order of the tags.
    pub const ALL: [Class; 6] =
        [Class::Put, Class::Remove, Class::Clear, Class::Configure, Class::Snapshot, Class::Origin];

    /// The class of a tag byte.
    pub fn from_tag(tag: u8) -> Option<Class> {
        Class::ALL.into_iter().find(|c| *c as u8 == tag)
    }

    /// The class's name in interchange lines and messages.
    pub fn name(self) -> &'static str {
        match self {
            Class::Put => "put",
            Class::Remove => "remove",
            Class::Clear => "clear",
            Class::Configure => "configure",
            Class::Snapshot => "snapshot",
            Class::Origin => "origin",
        }
    }
}

/// A note's body: text, or (through `load`) any JSON value in canonical text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body<'a> {
    /// Plain text.
    Text(&'a str),
    /// Canonical JSON text that is not a string.
    Json(&'a str),
}

impl<'a> Body<'a> {
    /// The text that a reader of the note sees.
    pub fn as_str(&self) -> &'a str {
        match self {
            Body::Text(text) | Body::Json(text) => text,
        }
    }
}

/// `remember`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note<'a> {
    /// Free, path-like, may be empty.
    #[serde(borrow)]
    pub key: &'a str,
    /// One line for the prompt; may be missing.
    pub summary: Option<&'a str>,
    /// The full note.
    pub body: Body<'a>,
}

/// `upsert`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Upsert<'a> {
    /// Names the row.
    pub id: &'a str,
    /// What was embedded.
    pub text: &'a str,
    /// Canonical JSON text.
    pub metadata: &'a str,
    /// The row; stands raw in the envelope, not in the body.
    #[serde(skip)]
    pub embedding: Cow<'a, [f32]>,
}

/// `record`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record<'a> {
    /// Names the episode; keys may repeat.
    pub key: &'a str,
    /// Canonical JSON text.
    pub value: &'a str,
    /// Milliseconds since the Unix epoch, as the caller or the clock said.
    pub timestamp_ms: i64,
}

/// `push`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Push<'a> {
    /// Short name of the entry.
    pub label: &'a str,
    /// Its text.
    pub content: &'a str,
    /// The entry's whole cost; stands in the envelope, so that it survives erasing.
    #[serde(skip)]
    pub tokens: u32,
}

/// Which embedder made a table's rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity<'a> {
    /// The embedder's name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// The model behind it.
    #[serde(borrow)]
    pub model: Cow<'a, str>,
    /// Floats a row.
    pub dim: u32,
}

impl Identity<'_> {
    /// The same identity, owned.
    pub fn into_owned(self) -> Identity<'static> {
        Identity {
            name: Cow::Owned(self.name.into_owned()),
            model: Cow::Owned(self.model.into_owned()),
            dim: self.dim,
        }
    }
}

/// A handle's configuration; `None` is "not configured".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Config<'a> {
    /// Notes have nothing to configure.
    Notes,
    /// The embedder of a vector table.
    #[serde(borrow)]
    Vector(Option<Identity<'a>>),
    /// The most episodes that a ring holds.
    Episodic(Option<u64>),
    /// The token budget of a scratchpad.
    Working(Option<u64>),
}

impl Config<'_> {
    /// The kind of handle that this configures.
    pub fn kind(&self) -> HandleKind {
        match self {
            Config::Notes => HandleKind::Notes,
            Config::Vector(_) => HandleKind::Vector,
            Config::Episodic(_) => HandleKind::Episodic,
            Config::Working(_) => HandleKind::Working,
        }
    }
}

/// One change of one handle.
#[derive(Clone, Debug, PartialEq)]
pub enum Op<'a> {
    /// Saves or overwrites a note.
    Remember(Note<'a>),
    /// Deletes a note from now on.
    Forget {
        /// The note's key.
        key: &'a str,
    },
    /// Saves or overwrites a row.
    Upsert(Upsert<'a>),
    /// Deletes a row from now on.
    Delete {
        /// The row's id.
        id: &'a str,
    },
    /// Adds an episode.
    Record(Record<'a>),
    /// Adds a scratchpad entry.
    Push(Push<'a>),
    /// Empties a handle of the kind.
    Clear(HandleKind),
    /// Sets a handle's configuration.
    Configure(Config<'a>),
    /// The head of a snapshot: the handle is emptied and configured, and `items` envelopes follow.
    Snapshot {
        /// The handle's configuration.
        config: Config<'a>,
        /// Item envelopes behind the head.
        items: u64,
        /// True for a further part of a base: nothing is emptied.
        continues: bool,
    },
    /// What is left of an erased delta.
    Erased {
        /// The handle's kind.
        kind: HandleKind,
        /// What sort of operation it was.
        class: Class,
        /// What a scratchpad entry cost, and goes on costing.
        tokens: u32,
    },
}

impl Op<'_> {
    /// The kind of handle that the operation is for.
    pub fn kind(&self) -> HandleKind {
        match self {
            Op::Remember(_) | Op::Forget { .. } => HandleKind::Notes,
            Op::Upsert(_) | Op::Delete { .. } => HandleKind::Vector,
            Op::Record(_) => HandleKind::Episodic,
            Op::Push(_) => HandleKind::Working,
            Op::Configure(config) | Op::Snapshot { config, .. } => config.kind(),
            Op::Clear(kind) | Op::Erased { kind, .. } => *kind,
        }
    }

    /// The operation's class.
    pub fn class(&self) -> Class {
        match self {
            Op::Remember(_) | Op::Upsert(_) | Op::Record(_) | Op::Push(_) => Class::Put,
            Op::Forget { .. } | Op::Delete { .. } => Class::Remove,
            Op::Clear(_) => Class::Clear,
            Op::Configure(_) => Class::Configure,
            Op::Snapshot { .. } => Class::Snapshot,
            Op::Erased { class, .. } => *class,
        }
    }

    /// The key or id whose chain of versions the operation continues: notes and vectors have such chains.
    pub fn chain_key(&self) -> Option<&str> {
        match self {
            Op::Remember(Note { key, .. }) | Op::Forget { key } => Some(key),
            Op::Upsert(Upsert { id, .. }) | Op::Delete { id } => Some(id),
            _ => None,
        }
    }

    /// Whether the JSON that the operation holds is canonical text, and a note's not a string, which is text.
    /// `offset` is where the operation stands.
    ///
    /// # Errors
    /// [`Malformed`]: what is not, and what stands there.
    pub fn check_json(&self, offset: u64) -> Result<(), Malformed> {
        let (what, text) = match self {
            Op::Record(Record { value, .. }) => ("episode value", *value),
            Op::Upsert(Upsert { metadata, .. }) => ("vector metadata", *metadata),
            Op::Remember(Note { body: Body::Json(text), .. }) => ("note body", *text),
            _ => return Ok(()),
        };
        let found = match Json::parse(text) {
            Ok(json) if json.as_str() != text => "another text of the same value".to_owned(),
            Ok(_) if matches!(self, Op::Remember(_)) && text.starts_with('"') => {
                "a string, which is stored as text".to_owned()
            }
            Ok(_) => return Ok(()),
            Err(e) => e.to_string(),
        };
        Err(Malformed::new(what, offset, "canonical JSON", found))
    }

    /// The name that the key limit holds for: key, id or label.
    pub fn key(&self) -> Option<&str> {
        match self {
            Op::Record(Record { key, .. }) => Some(key),
            Op::Push(Push { label, .. }) => Some(label),
            _ => self.chain_key(),
        }
    }
}

/// Who wrote a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The agent.
    pub agent: Option<String>,
    /// Its session.
    pub session: Option<String>,
    /// The tool it called.
    pub tool: Option<String>,
}

/// How a delta hangs together with those before it: what a writer that knows the state says of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links<'a> {
    /// As [`Envelope::previous`].
    pub previous: Last,
    /// As [`Envelope::evicted`].
    pub evicted: &'a [Last],
}

impl From<Last> for Links<'_> {
    fn from(previous: Last) -> Self {
        Links { previous, evicted: &[] }
    }
}

/// A decoded envelope.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope<'a> {
    /// The handle's id: workspace path and name.
    pub id: &'a str,
    /// The delta before this one of the same key, or the `clear` before this one of the same table; frame 0 if there
    /// is none.
    pub previous: Last,
    /// What a `record` or `push` pushed out of its ring or scratchpad, oldest first: the places of the deltas that had
    /// brought it. Erased ones are left out.
    pub evicted: Vec<Last>,
    /// True for an item of a snapshot.
    pub item: bool,
    /// The change.
    pub op: Op<'a>,
}

impl Envelope<'_> {
    /// What the envelope says of the deltas before it.
    pub fn links(&self) -> Links<'_> {
        Links { previous: self.previous, evicted: &self.evicted }
    }
}
