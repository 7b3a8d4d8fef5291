//! What other programs keep, brought into a workspace: knowledge graphs, directories of text, rows with vectors.
//!
//! Two steps: a parser makes [`Parsed`] of bytes and knows no store; [`import`] brings that into a workspace.
//! Invariants: everything is parsed before anything is written. A part that is malformed is reported with its place and the
//! rest is kept; nothing is left out without a word. What the store says already is not written again, so importing
//! the same thing twice changes nothing. All that is parsed is held in memory.

mod mcp_memory;
mod text;
mod vectors;

use std::fmt;

pub use super::load::items::Fate;
pub use mcp_memory::mcp_memory;
pub use text::{TextFile, Unread, text};
pub use vectors::vectors;

use super::line::Args;
use super::line::reason::LineReason;
use super::load::LoadError;
use super::load::items;
use crate::codec::delta::HandleKind;
use crate::error::{Error, Result};
use crate::position::Frame;
use crate::store::Workspace;

/// The longest summary that is made of a longer text, in code points. A list shows fewer of them.
const SUMMARY_CHARS_MAX: usize = 1_000;

/// What a parser understood, and what it did not.
#[derive(Debug)]
pub struct Parsed {
    kind: HandleKind,
    /// Each with a key of its own.
    items: Vec<Item>,
    problems: Vec<Problem>,
}

#[derive(Debug)]
struct Item {
    place: Place,
    args: Args<'static>,
}

/// Where something stands in what is imported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line, counted from 1.
    Line(u64),
    /// An element of an array.
    Element {
        /// Counted from 1.
        number: u64,
        /// The line on which it begins, counted from 1.
        line: u64,
    },
    /// A file, by its path in the directory.
    File(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Element { number, line } => write!(f, "element {number} (line {line})"),
            Place::File(name) => write!(f, "{}", name.escape_debug()),
        }
    }
}

/// Something that does not come in as it is, or at all.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What.
    pub reason: ImportReason,
    /// True if the item does not come in; otherwise it does, but for what the reason says.
    pub refused: bool,
}

/// Why something does not come in as it is. Each reads as one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportReason {
    /// It cannot be understood, or the store would refuse it.
    #[error("{0}")]
    Line(#[from] LineReason),
    /// A line of a knowledge graph that is neither an entity nor a relation.
    #[error("`{}` is no type of line in a knowledge graph; entity and relation are", .found.escape_debug())]
    UnknownType {
        /// Its type.
        found: String,
    },
    /// A field that nothing is made of.
    #[error("its field `{}` was left out", .field.escape_debug())]
    Unused {
        /// The field.
        field: String,
    },
    /// An observation that is not a string.
    #[error("observation {number} is not a string and was left out")]
    Observation {
        /// Counted from 1.
        number: usize,
    },
    /// An entity whose name an earlier one has.
    #[error("the entity of line {first} has the same name; what this one adds was put into its note")]
    SameName {
        /// The line of the earlier one.
        first: u64,
    },
    /// A relation that an earlier line says.
    #[error("line {first} says the same")]
    SameRelation {
        /// That line.
        first: u64,
    },
    /// A relation one end of which is no entity.
    #[error("no entity is named `{}`; the relation stands in the note of its other end only", .name.escape_debug())]
    Dangling {
        /// The name.
        name: String,
    },
    /// A relation neither end of which is an entity.
    #[error(
        "no entity has the name of either end of the relation, so there is no note that it could stand in"
    )]
    NoEnds,
    /// An id that an earlier element has.
    #[error("element {first} has the same id; give this one another")]
    SameId {
        /// The number of the earlier one.
        first: u64,
    },
    /// The input is no JSON array.
    #[error("the input is not a JSON array; nothing can be read from here on")]
    NotAnArray,
    /// The input ends inside the array.
    #[error("the input ends before the array does; it was probably cut")]
    Unended,
    /// Something stands behind the end of the array.
    #[error("something stands behind the end of the array, and was left out")]
    Behind,
    /// A file that was not read.
    #[error("{0}")]
    Unread(#[from] Unread),
    /// A file with a zero byte.
    #[error("byte {at} is zero, so this is not text")]
    Binary {
        /// Counted from 1.
        at: usize,
    },
    /// A file in another encoding.
    #[error("byte {at} is not UTF-8; save the file as UTF-8")]
    NotUtf8 {
        /// Counted from 1.
        at: usize,
    },
    /// A second file of a name.
    #[error("another file has the same name")]
    SameFile,
}

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Says what would come in, and writes and embeds nothing.
    pub dry_run: bool,
}

/// What was, or would be, imported.
#[derive(Debug, Default)]
pub struct ImportReport {
    /// What becomes of each item that is not refused, in the order of the input.
    pub items: Vec<Imported>,
    /// Everything that does not come in as it is, in the order of the input.
    pub problems: Vec<Problem>,
    /// Commits written.
    pub frames: u64,
    /// The first of them.
    pub first: Option<Frame>,
    /// The last of them.
    pub last: Option<Frame>,
    /// How many embeddings were computed.
    pub embedded: u64,
}

impl ImportReport {
    /// How many items have a fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.items.iter().filter(|item| item.fate == fate).count()
    }
}

/// An item that came in, or would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Where it stands in the input.
    pub place: Place,
    /// Its key or id.
    pub key: String,
    /// What becomes of it.
    pub fate: Fate,
}

/// What kept an import from being done.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Nothing was written.
    #[error(transparent)]
    Store(#[from] Error),
    /// A write failed on the way. Importing once more writes what is missing.
    #[error("{cause}; {}, and importing once more writes what is missing", Until(.last))]
    Writing {
        /// The place of the last item that is known to be saved.
        last: Option<Place>,
        /// The failure.
        cause: Error,
    },
}

struct Until<'a>(&'a Option<Place>);

impl fmt::Display for Until<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(place) => write!(f, "what stands up to {place} was imported"),
            None => f.write_str("nothing was imported"),
        }
    }
}

impl Parsed {
    fn new(kind: HandleKind) -> Parsed {
        Parsed { kind, items: Vec::new(), problems: Vec::new() }
    }

    fn item(&mut self, place: Place, args: Args<'static>) {
        self.items.push(Item { place, args });
    }

    /// The item comes in, but for this.
    fn note(&mut self, place: Place, reason: ImportReason) {
        self.problems.push(Problem { place, reason, refused: false });
    }

    /// It does not come in.
    fn refuse(&mut self, place: Place, reason: ImportReason) {
        self.problems.push(Problem { place, reason, refused: true });
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What was not understood, as far as the parser can tell; the store may refuse more.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// Brings what was parsed into a workspace: notes into its notes, rows into its table `table` (which nothing else
/// needs). An item whose key is taken replaces what is there, which becomes its history. Rows without an embedding
/// get the store's embedder's. Items go together into frames of about 8 MiB, and nothing comes between.
///
/// # Errors
/// [`ImportError::Store`]: [`Error::BadName`] for the table's name; the store takes no writes, or an item that is
/// there cannot be read. [`ImportError::Writing`].
pub fn import(
    workspace: &Workspace,
    table: &str,
    parsed: Parsed,
    options: &ImportOptions,
) -> Result<ImportReport, ImportError> {
    let Parsed { kind, items, mut problems } = parsed;
    let name = if kind == HandleKind::Notes { "memory" } else { table };
    let id = workspace.handle_id(name)?;
    let (inner, origin) = workspace.source().live_writer(workspace.path().as_str())?;
    let known: Vec<(Place, String)> =
        items.iter().map(|item| (item.place.clone(), key(&item.args).to_owned())).collect();
    let numbered = (0..).zip(items).map(|(n, item)| (n, items::change(kind, &id, item.args))).collect();
    let at = |number: u64| usize::try_from(number).ok().and_then(|number| known.get(number));
    let brought = items::bring(inner, numbered, origin, options.dry_run).map_err(|e| match e {
        LoadError::Writing { last, cause } => {
            let last = last.and_then(|(number, _)| at(number)).map(|(place, _)| place.clone());
            ImportError::Writing { last, cause }
        }
        LoadError::Store(cause) => ImportError::Store(cause),
        // Whatever is refused is reported, and nothing is read.
        LoadError::Refused(_) | LoadError::Input(_) => ImportError::Store(Error::Closed),
    })?;
    let items::Brought { mut fates, refused, written } = brought;
    fates.sort_by_key(|(number, _)| *number);
    let imported = fates.into_iter().filter_map(|(number, fate)| {
        let (place, key) = at(number)?.clone();
        Some(Imported { place, key, fate })
    });
    problems.extend(refused.into_iter().filter_map(|error| {
        let place = at(error.line)?.0.clone();
        Some(Problem { place, reason: error.reason.into(), refused: true })
    }));
    problems.sort_by(|a, b| a.place.cmp(&b.place));
    Ok(ImportReport {
        items: imported.collect(),
        problems,
        frames: written.frames,
        first: written.first,
        last: written.last,
        embedded: written.embedded,
    })
}

fn key<'a>(args: &'a Args<'_>) -> &'a str {
    match args {
        Args::Remember(note) => &note.key,
        Args::Upsert(row) => &row.id,
        _ => "",
    }
}

/// A summary made of a line of text.
fn summary(line: &str) -> String {
    let line = line.trim();
    match line.char_indices().nth(SUMMARY_CHARS_MAX) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}
