//! Lines into a store: read, check, embed, check again under the lanes, write.
//!
//! Invariants: nothing is written before every line was checked as the store itself would check it. Lines of one
//! frame stand or fall together. From the last check to the last write the lanes of all workspaces concerned are
//! held, so what was checked is what is written.

mod check;
mod embed;
pub(super) mod items;
mod read;
mod write;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::{self, BufRead};

use super::line::reason::{LineError, LineReason};
use super::line::{Args, Line, RowArgs};
use crate::codec::delta::{Config, HandleKind, Identity, Op, Origin};
use crate::error::Error;
use crate::position::{Frame, Time};
use crate::store::{Change, Store};

/// How lines are loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Loads all frames without a refused line, and reports every refused line; otherwise the first refused line
    /// is an error and nothing is loaded.
    pub keep_going: bool,
    /// Accepts times more than a day ahead of the clock.
    pub trust_times: bool,
}

/// What was loaded.
#[derive(Debug, Default)]
pub struct LoadReport {
    /// Commits written.
    pub frames: u64,
    /// Lines loaded.
    pub lines: u64,
    /// Every refused line, in the order of the input; empty unless told to keep going.
    pub refused: Vec<LineError>,
    /// The first commit written.
    pub first: Option<Frame>,
    /// The last commit written.
    pub last: Option<Frame>,
    /// True if a commit got another number than its lines gave.
    pub renumbered: bool,
    /// How many commits had a time before that of the commit in front of them, and got that one's.
    pub raised_times: u64,
    /// How many embeddings were computed.
    pub embedded: u64,
}

/// What kept lines from being loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A line is refused; nothing was loaded.
    #[error("{0} (nothing was loaded)")]
    Refused(LineError),
    /// The input cannot be read; nothing was loaded.
    #[error("the input could not be read ({0}); see to where it comes from, nothing was loaded")]
    Input(io::Error),
    /// The store takes no writes; nothing was loaded.
    #[error(transparent)]
    Store(#[from] Error),
    /// A write failed on the way.
    #[error("{cause}; {}", Committed(.last))]
    Writing {
        /// The last line, and its frame, that are known to be saved.
        last: Option<(u64, Frame)>,
        /// The failure.
        cause: Error,
    },
}

/// How far loading came, as an error says it.
struct Committed<'a>(&'a Option<(u64, Frame)>);

impl fmt::Display for Committed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, frame)) => write!(f, "loaded up to line {line}, which is frame {frame}"),
            None => f.write_str("no line was loaded"),
        }
    }
}

/// Loads lines into a store.
///
/// Times that lie before that of the frame in front of them are raised to it. Missing frames, times, token costs
/// and episode times are assigned, stamped and computed; missing embeddings come from the store's embedder, whose
/// identity is written before the first of a table that has none. Numbers are kept in an empty store where they
/// run on from 1 or from a base that comes first; otherwise frames are numbered as they come, the snapshots of a base
/// in one frame, and the report says so.
///
/// # Errors
/// [`LoadError::Refused`]: a line is wrong, or the store would refuse what it says; [`LoadError::Input`];
/// [`LoadError::Store`]: nothing was loaded. [`LoadError::Writing`]: a write failed on the way.
pub fn load(store: &Store, input: &mut dyn BufRead, options: LoadOptions) -> Result<LoadReport, LoadError> {
    let inner = store.inner();
    drop(inner.enter_lanes(&BTreeSet::new())?);
    let mut refused = Refused { keep_going: options.keep_going, lines: Vec::new() };
    let mut drafts = read::drafts(inner, input, options)?;
    refused.take(&mut drafts)?;
    let checked = check::check(inner, &mut drafts);
    refused.take(&mut drafts)?;
    embed::embed(&*inner.options().embedder, &mut drafts, options.keep_going);
    let whole = refused.take(&mut drafts)?;
    let _lanes = inner.enter_lanes(&workspaces(&drafts))?;
    if !whole || inner.state().frame() != checked {
        check::check(inner, &mut drafts);
        refused.take(&mut drafts)?;
    }
    refused.lines.sort_by_key(|refused| refused.line);
    write::write(inner, &drafts, LoadReport { refused: refused.lines, ..LoadReport::default() })
}

fn workspaces(drafts: &[Draft]) -> BTreeSet<&str> {
    let ids = drafts.iter().flat_map(|draft| &draft.lines).map(|loaded| &*loaded.line.id);
    ids.map(|id| id.rsplit_once('/').map_or("", |(workspace, _)| workspace)).collect()
}

/// A frame to be written.
#[derive(Debug)]
struct Draft {
    /// The number that its lines give.
    frame: Option<Frame>,
    base: bool,
    /// The time that its lines give.
    time: Option<Time>,
    /// That time, or the clock's.
    stamp: Time,
    origin: Option<Origin>,
    lines: Vec<Loaded>,
    /// Of a base, which of the lines holds the state of a handle.
    parts: HashMap<(HandleKind, Cow<'static, str>), usize>,
    /// The lines for which the frame is refused.
    refused: Vec<LineError>,
    /// Its size in the log.
    bytes: u64,
}

/// A line to be written.
#[derive(Debug)]
struct Loaded {
    number: u64,
    line: Line<'static>,
    /// True if the store's embedder becomes the table's with this line.
    identify: bool,
    /// The computed embeddings of the rows that came without one, in order.
    embedded: Vec<Vec<f32>>,
}

impl Draft {
    /// The frame whose state an empty store begins with by this draft.
    fn begins_at(&self) -> Option<Frame> {
        self.frame.filter(|frame| self.base && *frame > Frame::ZERO)
    }

    fn refuse(&mut self, line: u64, reason: LineReason) {
        self.refused.push(LineError { line, reason });
    }
}

impl Loaded {
    /// Every row that the line brings.
    fn rows(&self) -> impl Iterator<Item = &RowArgs<'static>> {
        let items = self.line.args.items().iter();
        std::iter::once(&self.line.args).chain(items).filter_map(|args| match args {
            Args::Upsert(row) => Some(row),
            _ => None,
        })
    }

    /// The changes of the line. Rows whose embedding is not computed yet have `placeholder`.
    fn changes<'d>(&'d self, store: &Identity<'static>, placeholder: &'d [f32]) -> Vec<Change<'d>> {
        let (id, kind) = (&*self.line.id, self.line.kind);
        let mut changes = Vec::with_capacity(1);
        if self.identify {
            let op = Op::Configure(Config::Vector(Some(store.clone())));
            changes.push(Change { id, op });
        }
        let mut embedded = self.embedded.iter();
        for args in std::iter::once(&self.line.args).chain(self.line.args.items()) {
            let mut op = args.op(kind);
            if let (Op::Upsert(row), Args::Upsert(RowArgs { embedding: None, .. })) = (&mut op, args) {
                row.embedding = embedded.next().map_or(placeholder, Vec::as_slice).into();
            }
            changes.push(Change { id, op });
        }
        changes
    }
}

/// The refused lines so far.
struct Refused {
    keep_going: bool,
    lines: Vec<LineError>,
}

impl Refused {
    /// Takes the refused frames out. Answers whether none was refused.
    ///
    /// # Errors
    /// [`LoadError::Refused`], unless told to keep going.
    fn take(&mut self, drafts: &mut Vec<Draft>) -> Result<bool, LoadError> {
        let before = drafts.len();
        for mut draft in drafts.extract_if(.., |draft| !draft.refused.is_empty()) {
            let Some(other) = draft.refused.first().map(|refused| refused.line) else { continue };
            if !self.keep_going {
                return Err(LoadError::Refused(draft.refused.swap_remove(0)));
            }
            let itself: BTreeSet<u64> = draft.refused.iter().map(|refused| refused.line).collect();
            let companions = draft.lines.iter().filter(|loaded| !itself.contains(&loaded.number));
            let companion =
                |loaded: &Loaded| LineError { line: loaded.number, reason: LineReason::Companion { other } };
            self.lines.extend(companions.map(companion));
            self.lines.append(&mut draft.refused);
        }
        Ok(drafts.len() == before)
    }
}
