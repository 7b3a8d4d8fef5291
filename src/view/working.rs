//! The scratchpad: entries in the order they were pushed, as many of the last ones as the budget pays for.
//!
//! Owns eviction by cost, the rendered text, and the default way of counting tokens. Entries are small and are
//! rendered as a whole, so they stand in memory. Does not know who counted an entry's tokens: the cost stands
//! in the delta.
//!
//! Invariant: the entries together cost at most the budget, or there is exactly one.

use std::sync::Arc;

use imbl::Vector;

use super::saved::{self, Loader, Saved, SavedLast, SavedPosition, Saver};
use super::text::fold_line;
use super::{Bodies, View};
use crate::codec::delta::{Class, Config, HandleKind, Op, Push};
use crate::codec::wire::Malformed;
use crate::error::Result;
use crate::position::{Last, Place, Position, Time};

/// The budget of a scratchpad that was not configured, in tokens.
pub const DEFAULT_TOKEN_BUDGET: u64 = 2048;

/// What an entry costs beyond its label and content, in tokens.
pub const ENTRY_OVERHEAD_TOKENS: u32 = 4;

/// The state of a scratchpad.
#[derive(Clone, Debug, Default)]
pub struct WorkingView {
    entries: Vector<Entry>,
    cost_tokens: u64,
    placeholders: usize,
    budget: Option<u64>,
    /// The delta that emptied the scratchpad last.
    begun: Last,
}

/// One entry as a read sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkingEntry<'a> {
    /// Its short name.
    pub label: &'a str,
    /// Its text.
    pub content: &'a str,
    /// Its whole cost.
    pub tokens: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    place: Place,
    tokens: u32,
    /// None in the placeholder of an erased entry.
    said: Option<Said>,
}

#[derive(Clone, Debug)]
struct Said {
    label: Arc<str>,
    content: Arc<str>,
}

impl WorkingView {
    /// The entries, oldest first; erased ones are absent.
    pub fn entries(&self) -> impl Iterator<Item = WorkingEntry<'_>> {
        self.placed().map(|(_, entry)| entry)
    }

    /// As [`WorkingView::entries`], each with where its envelope stands.
    pub(super) fn placed(&self) -> impl Iterator<Item = (Position, WorkingEntry<'_>)> {
        self.entries.iter().filter_map(|entry| {
            let Said { label, content } = entry.said.as_ref()?;
            Some((entry.place.at, WorkingEntry { label, content, tokens: entry.tokens }))
        })
    }

    /// A heading and one `- **label**: content` line an entry, oldest first; empty without entries. Labels and
    /// contents are folded to one line each (every run of white space and control characters is one space), so
    /// that no entry can forge another or a heading; what is stored keeps its line breaks.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for WorkingEntry { label, content, .. } in self.entries() {
            if text.is_empty() {
                text.push_str("## Working Memory");
            }
            text.push_str(&format!("\n- **{}**: {}", fold_line(label), fold_line(content)));
        }
        text
    }

    /// What all entries cost together, the placeholders of erased ones included.
    pub fn current_tokens(&self) -> u64 {
        self.cost_tokens
    }

    /// The budget in force, in tokens.
    pub fn budget(&self) -> u64 {
        self.budget.unwrap_or(DEFAULT_TOKEN_BUDGET)
    }

    /// The configured budget, at least 1; none if it is the default's.
    pub fn configured_budget(&self) -> Option<u64> {
        self.budget
    }

    /// The delta that emptied the scratchpad last: scratchpads that it is the same of hold one run of entries.
    pub(super) fn begun(&self) -> Last {
        self.begun
    }

    /// Names what one more entry of this cost would push out, oldest first; erased ones are not named.
    pub(super) fn evicted_by_one_more(&self, tokens: u32, evicted: &mut Vec<Last>) {
        let mut cost = self.cost_tokens.saturating_add(u64::from(tokens));
        for entry in self.entries.iter() {
            if cost <= self.budget() {
                return;
            }
            cost -= u64::from(entry.tokens);
            evicted.extend(entry.said.as_ref().map(|_| entry.place.last));
        }
    }

    fn push(&mut self, entry: Entry) {
        self.cost_tokens = self.cost_tokens.saturating_add(u64::from(entry.tokens));
        self.placeholders += usize::from(entry.said.is_none());
        self.entries.push_back(entry);
        self.evict();
    }

    fn evict(&mut self) {
        while self.cost_tokens > self.budget() && self.entries.len() > 1 {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.cost_tokens -= u64::from(oldest.tokens);
            self.placeholders -= usize::from(oldest.said.is_none());
        }
    }

    fn configure(&mut self, config: &Config<'_>) {
        if let Config::Working(budget) = config {
            self.budget = budget.map(|tokens| tokens.max(1));
            self.evict();
        }
    }
}

impl View for WorkingView {
    fn apply(&mut self, place: Place, _: Time, op: &Op<'_>) {
        match op {
            Op::Push(Push { label, content, tokens }) => {
                let said = Said { label: Arc::from(*label), content: Arc::from(*content) };
                self.push(Entry { place, tokens: *tokens, said: Some(said) });
            }
            Op::Erased { kind: HandleKind::Working, class: Class::Put, tokens } => {
                self.push(Entry { place, tokens: *tokens, said: None });
            }
            Op::Clear(HandleKind::Working) => {
                *self = WorkingView { budget: self.budget, begun: place.last, ..WorkingView::default() };
            }
            Op::Configure(config) => self.configure(config),
            Op::Snapshot { config: config @ Config::Working(_), continues, .. } => {
                if !continues {
                    *self = WorkingView { begun: place.last, ..WorkingView::default() };
                }
                self.configure(config);
            }
            _ => {}
        }
    }

    fn snapshot_head(&self) -> (Config<'static>, usize) {
        (Config::Working(self.budget), self.entries.len())
    }

    fn items(&self, _: &dyn Bodies, item: &mut dyn FnMut(Last, &Op<'_>) -> Result<()>) -> Result<()> {
        self.entries.iter().try_for_each(|Entry { tokens, said, .. }| {
            let tokens = *tokens;
            let op = match said {
                Some(Said { label, content }) => Op::Push(Push { label, content, tokens }),
                None => Op::Erased { kind: HandleKind::Working, class: Class::Put, tokens },
            };
            item(Last::default(), &op)
        })
    }

    fn len(&self) -> usize {
        self.entries.len() - self.placeholders
    }

    fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.budget.is_none()
    }
}

/// An entry as it is saved: its place, its cost, label and content.
type SavedEntry<'a> = (SavedLast, SavedPosition, u32, Option<(&'a str, &'a str)>);

impl Saved for WorkingView {
    fn save(&self, saver: &mut Saver<'_>) -> Result<()> {
        saver.say(&(self.budget, saved::last(self.begun)))?;
        saver.items(self.entries.iter().map(|Entry { place, tokens, said }| -> SavedEntry<'_> {
            let said = said.as_ref().map(|Said { label, content }| (&**label, &**content));
            (saved::last(place.last), saved::position(place.at), *tokens, said)
        }))
    }

    fn load(loader: &mut Loader<'_>) -> Result<Self, Malformed> {
        let (budget, begun) = loader.take("budget and beginning")?;
        let mut view = WorkingView { budget, begun: saved::last_of(begun), ..WorkingView::default() };
        loader.items("saved entries", |bytes| {
            let ((last, at, tokens, said), rest): (SavedEntry<'_>, _) = saved::item("saved entry", bytes)?;
            let place = Place { last: saved::last_of(last), at: saved::position_of(at) };
            let said = said.map(|(label, content)| Said { label: label.into(), content: content.into() });
            view.push(Entry { place, tokens, said });
            Ok(rest)
        })?;
        Ok(view)
    }
}

/// An estimate of a text's tokens: a quarter of its code points, rounded up.
pub fn approx_tokens(text: &str) -> u32 {
    u32::try_from(text.chars().count().div_ceil(4)).unwrap_or(u32::MAX)
}

/// The whole cost of an entry whose label and content cost this much; `u32::MAX` where it would be more.
pub fn entry_tokens(label_tokens: u32, content_tokens: u32) -> u32 {
    label_tokens.saturating_add(content_tokens).saturating_add(ENTRY_OVERHEAD_TOKENS)
}
