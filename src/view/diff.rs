//! What differs between two states of one log, handle by handle.
//!
//! Owns what counts as the same: notes and rows by their keys and what a reader sees. A ring or scratchpad that went
//! on lost its oldest items and got newer ones, whatever these hold; one that was emptied in between is compared by
//! what a reader sees, in its order. So what was restored as it had been is no difference.
//!
//! Invariants: a state does not differ from itself; states that differ in nothing have equal snapshots, except for
//! placeholders of erased items. Bodies are read only where another delta brought the item.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

use super::episodic::Episode;
use super::history::Versioned;
use super::notes::{Note, NoteHead};
use super::text::compare_keys;
use super::vectors::{RowHead, VectorRow};
use super::{Bodies, EpisodicView, HandleId, NotesView, State, VectorView, WorkingView};
use crate::codec::delta::{Config, HandleKind, Op, Push};
use crate::codec::wire::Malformed;
use crate::error::Result;
use crate::position::{Frame, Position, Time};

/// What differs in one handle.
#[derive(Clone, Debug, PartialEq)]
pub struct HandleDiff {
    /// Which handle.
    pub handle: HandleId,
    /// Its configuration before and after, where it differs.
    pub config: Option<(Config<'static>, Config<'static>)>,
    /// Notes and rows in the order of their keys; of a ring first what was removed, then what was added.
    pub items: Vec<Difference>,
}

/// One note, row, episode or entry that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Its key, id or label.
    pub item: String,
    /// What became of it.
    pub change: Change,
    /// What it was; none if it was added.
    pub before: Option<Content>,
    /// What it is; none if it was removed.
    pub after: Option<Content>,
}

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// It was not there before.
    Added,
    /// Its content differs.
    Changed,
    /// It is there no more.
    Removed,
}

/// An item in full.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A note.
    Note(Note),
    /// A row of a table.
    Row(VectorRow),
    /// An episode.
    Episode(Episode),
    /// A scratchpad entry.
    Entry {
        /// Its short name.
        label: String,
        /// Its text.
        content: String,
        /// Its whole cost.
        tokens: u32,
    },
}

impl Change {
    /// The change's name: `added`, `changed` or `removed`.
    pub fn name(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Changed => "changed",
            Change::Removed => "removed",
        }
    }
}

impl Content {
    /// What of it a person wants to see: the body of a note, the text of a row, the value of an episode, an
    /// entry's content.
    pub fn text(&self) -> &str {
        match self {
            Content::Note(note) => note.body.as_str(),
            Content::Row(row) => &row.text,
            Content::Episode(episode) => episode.value.as_str(),
            Content::Entry { content, .. } => content,
        }
    }

    /// What an operation saves, by a frame and its time; none if it saves nothing. `offset` is where it stands.
    ///
    /// # Errors
    /// JSON that is none.
    pub(crate) fn of(op: &Op<'_>, by: (Frame, Time), offset: u64) -> Result<Option<Content>, Malformed> {
        Ok(match op.kind() {
            HandleKind::Notes => Note::of(op, by, offset)?.map(Content::Note),
            HandleKind::Vector => VectorRow::of(op, by, offset)?.map(Content::Row),
            HandleKind::Episodic => Episode::of(op, by, offset)?.map(Content::Episode),
            HandleKind::Working => match op {
                Op::Push(Push { label, content, tokens }) => {
                    let (label, content) = ((*label).to_owned(), (*content).to_owned());
                    Some(Content::Entry { label, content, tokens: *tokens })
                }
                _ => None,
            },
        })
    }

    fn name(&self) -> &str {
        match self {
            Content::Note(note) => &note.key,
            Content::Row(row) => &row.id,
            Content::Episode(episode) => &episode.key,
            Content::Entry { label, .. } => label,
        }
    }

    /// Whether a reader sees the same, frames and commit times aside.
    fn same(&self, other: &Content) -> bool {
        match (self, other) {
            (Content::Note(a), Content::Note(b)) => a.says_the_same(b),
            (Content::Row(a), Content::Row(b)) => a.says_the_same(b),
            (a, b) => a == b,
        }
    }
}

impl Difference {
    fn of(before: Option<Content>, after: Option<Content>) -> Option<Difference> {
        let change = match (&before, &after) {
            (None, None) => return None,
            (None, Some(_)) => Change::Added,
            (Some(_), None) => Change::Removed,
            (Some(a), Some(b)) if a.same(b) => return None,
            (Some(_), Some(_)) => Change::Changed,
        };
        let item = after.as_ref().or(before.as_ref()).map_or("", Content::name).to_owned();
        Some(Difference { item, change, before, after })
    }
}

/// The handles that differ, by kind and id. Both states are of one log, which `bodies` reads.
///
/// # Errors
/// A body cannot be read.
pub fn diff(a: &State, b: &State, bodies: &dyn Bodies) -> Result<Vec<HandleDiff>> {
    let handles: BTreeSet<HandleId> = a.handles().chain(b.handles()).collect();
    handles.into_iter().filter_map(|handle| handle_diff(handle, a, b, bodies).transpose()).collect()
}

/// What differs in one handle, if anything does.
///
/// # Errors
/// As [`diff`].
pub(crate) fn handle_diff(
    handle: HandleId,
    a: &State,
    b: &State,
    bodies: &dyn Bodies,
) -> Result<Option<HandleDiff>> {
    let (config, items) = match handle.kind {
        HandleKind::Notes => (None, notes(a.notes(&handle.id), b.notes(&handle.id), bodies)?),
        HandleKind::Vector => table(a.vectors(&handle.id), b.vectors(&handle.id), bodies)?,
        HandleKind::Episodic => episodes(a.episodic(&handle.id), b.episodic(&handle.id), bodies)?,
        HandleKind::Working => entries(a.working(&handle.id), b.working(&handle.id)),
    };
    let differs = config.is_some() || !items.is_empty();
    Ok(differs.then_some(HandleDiff { handle, config, items }))
}

/// What differs in a ring or scratchpad that was not emptied: what it has no more, and what it has since.
pub(crate) fn went_on(handle: HandleId, before: Vec<Content>, after: Vec<Content>) -> Option<HandleDiff> {
    let items = replaced(before, after, |item| item);
    (!items.is_empty()).then_some(HandleDiff { handle, config: None, items })
}

/// What differs in a handle of which only these notes or rows were touched, each as it was and as it is.
pub(crate) fn touched(
    handle: HandleId,
    mut pairs: Vec<(String, Option<Content>, Option<Content>)>,
) -> Option<HandleDiff> {
    match handle.kind {
        HandleKind::Notes => pairs.sort_by(|(x, ..), (y, ..)| compare_keys(x, y)),
        _ => pairs.sort_by(|(x, ..), (y, ..)| x.cmp(y)),
    }
    let items: Vec<_> =
        pairs.into_iter().filter_map(|(_, before, after)| Difference::of(before, after)).collect();
    (!items.is_empty()).then_some(HandleDiff { handle, config: None, items })
}

type Configs = Option<(Config<'static>, Config<'static>)>;

fn config<V, T: PartialEq>(
    (a, b): (Option<&V>, Option<&V>),
    of: impl Fn(&V) -> Option<T>,
    config: impl Fn(Option<T>) -> Config<'static>,
) -> Configs {
    let (before, after) = (a.and_then(&of), b.and_then(&of));
    (before != after).then(|| (config(before), config(after)))
}

fn notes(a: Option<&NotesView>, b: Option<&NotesView>, bodies: &dyn Bodies) -> Result<Vec<Difference>> {
    let before: Vec<NoteHead<'_>> = a.into_iter().flat_map(NotesView::heads).collect();
    let after: Vec<NoteHead<'_>> = b.into_iter().flat_map(NotesView::heads).collect();
    let read = |view: Option<&NotesView>, head: Option<&NoteHead<'_>>| -> Result<Option<Content>> {
        let (Some(view), Some(head)) = (view, head) else { return Ok(None) };
        Ok(view.get(head.key, bodies)?.map(Content::Note))
    };
    let mut items = Vec::new();
    for (before, after) in merge(&before, &after, |x, y| compare_keys(x.key, y.key)) {
        if before.map(|head| head.last) != after.map(|head| head.last) {
            items.extend(Difference::of(read(a, before)?, read(b, after)?));
        }
    }
    Ok(items)
}

fn table(
    a: Option<&VectorView>,
    b: Option<&VectorView>,
    bodies: &dyn Bodies,
) -> Result<(Configs, Vec<Difference>)> {
    let before: Vec<RowHead<'_>> = a.into_iter().flat_map(VectorView::heads).collect();
    let after: Vec<RowHead<'_>> = b.into_iter().flat_map(VectorView::heads).collect();
    let read = |view: Option<&VectorView>, head: Option<&RowHead<'_>>| -> Result<Option<Content>> {
        let (Some(view), Some(head)) = (view, head) else { return Ok(None) };
        Ok(view.get(head.id, bodies)?.map(Content::Row))
    };
    let mut items = Vec::new();
    for (before, after) in merge(&before, &after, |x, y| x.id.cmp(y.id)) {
        if before.map(|head| head.last) != after.map(|head| head.last) {
            items.extend(Difference::of(read(a, before)?, read(b, after)?));
        }
    }
    Ok((config((a, b), |view| view.identity().cloned(), Config::Vector), items))
}

fn episodes(
    a: Option<&EpisodicView>,
    b: Option<&EpisodicView>,
    bodies: &dyn Bodies,
) -> Result<(Configs, Vec<Difference>)> {
    let configs = config((a, b), EpisodicView::max, Config::Episodic);
    let read = |view: Option<&EpisodicView>, other: Option<&EpisodicView>| -> Result<Vec<Episode>> {
        let there = places(other, |view| view.heads().map(|head| head.at()));
        let heads = view.into_iter().flat_map(EpisodicView::heads);
        heads.filter(|head| !there.contains(&head.at())).map(|head| head.read(bodies)).collect()
    };
    let (before, after) = (read(a, b)?, read(b, a)?);
    let begun = |view: Option<&EpisodicView>| view.map(EpisodicView::begun).unwrap_or_default();
    if begun(a) == begun(b) {
        return Ok((configs, replaced(before, after, Content::Episode)));
    }
    let content = |e: &Episode| (e.key.clone(), e.timestamp_ms, e.value.clone());
    Ok((configs, ring(before, after, content, Content::Episode)))
}

fn entries(a: Option<&WorkingView>, b: Option<&WorkingView>) -> (Configs, Vec<Difference>) {
    let configs = config((a, b), WorkingView::configured_budget, Config::Working);
    let read = |view: Option<&WorkingView>, other: Option<&WorkingView>| -> Vec<(String, String, u32)> {
        let there = places(other, |view| view.placed().map(|(at, _)| at));
        let entries = view.into_iter().flat_map(WorkingView::placed).filter(|(at, _)| !there.contains(at));
        entries.map(|(_, e)| (e.label.to_owned(), e.content.to_owned(), e.tokens)).collect()
    };
    let (before, after) = (read(a, b), read(b, a));
    let begun = |view: Option<&WorkingView>| view.map(WorkingView::begun).unwrap_or_default();
    let whole = |(label, content, tokens)| Content::Entry { label, content, tokens };
    if begun(a) == begun(b) {
        return (configs, replaced(before, after, whole));
    }
    (configs, ring(before, after, Clone::clone, whole))
}

/// Where the items of a ring stand.
fn places<'v, V, I: Iterator<Item = Position> + 'v>(
    view: Option<&'v V>,
    of: impl Fn(&'v V) -> I,
) -> BTreeSet<Position> {
    view.into_iter().flat_map(of).collect()
}

/// Both sides in one order, equal ones together.
pub(super) fn merge<'h, H>(
    a: &'h [H],
    b: &'h [H],
    order: impl Fn(&H, &H) -> Ordering,
) -> Vec<(Option<&'h H>, Option<&'h H>)> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut pairs = Vec::new();
    loop {
        let which = match (a.peek(), b.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(x), Some(y)) => order(x, y),
        };
        pairs
            .push((if which.is_le() { a.next() } else { None }, if which.is_ge() { b.next() } else { None }));
    }
}

/// What a ring lost, then what it got. Items of equal content are the same as far as they keep their order.
fn ring<T, K: Eq + Hash>(
    before: Vec<T>,
    after: Vec<T>,
    content: impl Fn(&T) -> K,
    whole: impl Fn(T) -> Content,
) -> Vec<Difference> {
    let mut places: HashMap<K, VecDeque<usize>> = HashMap::new();
    for (place, item) in after.iter().enumerate() {
        places.entry(content(item)).or_default().push_back(place);
    }
    let pairs: Vec<(usize, usize)> = before
        .iter()
        .enumerate()
        .filter_map(|(i, item)| Some((i, places.get_mut(&content(item))?.pop_front()?)))
        .collect();
    let kept = longest_rising(&pairs);
    let kept_before: BTreeSet<usize> = kept.iter().map(|(i, _)| *i).collect();
    let kept_after: BTreeSet<usize> = kept.iter().map(|(_, place)| *place).collect();
    let rest = |items: Vec<T>, kept: &BTreeSet<usize>| {
        items.into_iter().enumerate().filter(|(i, _)| !kept.contains(i)).map(|(_, item)| item).collect()
    };
    replaced(rest(before, &kept_before), rest(after, &kept_after), whole)
}

fn replaced<T>(before: Vec<T>, after: Vec<T>, whole: impl Fn(T) -> Content) -> Vec<Difference> {
    let mut items: Vec<_> =
        before.into_iter().filter_map(|item| Difference::of(Some(whole(item)), None)).collect();
    items.extend(after.into_iter().filter_map(|item| Difference::of(None, Some(whole(item)))));
    items
}

/// The longest run of pairs, not necessarily neighbours, whose second numbers rise as their first ones do.
fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length, the pair that ends a run of that length lowest; and each pair's one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::new();
    let second = |i: &usize| pairs.get(*i).map(|(_, place)| *place);
    for i in 0..pairs.len() {
        let len = ends.partition_point(|end| second(end) < second(&i));
        before.push(len.checked_sub(1).and_then(|shorter| ends.get(shorter).copied()));
        match ends.get_mut(len) {
            Some(end) => *end = i,
            None => ends.push(i),
        }
    }
    let mut run = Vec::new();
    let mut at = ends.last().copied();
    while let Some(i) = at {
        run.extend(pairs.get(i));
        at = before.get(i).copied().flatten();
    }
    run
}
