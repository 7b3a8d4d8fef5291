//! What is erased: by a key, as a whole handle, or by a text that stands in it.
//!
//! Law: no frame ever held it. An episode or an entry leaves its place behind.

use std::collections::BTreeSet;

use mnemolog::codec::delta::{HandleKind, Op};
use mnemolog::codec::snapshot;
use mnemolog::interchange::{DumpOptions, dump};
use mnemolog::{Erased, Result, Store};
use serde_json::Value;

use super::{Held, KEYS, Model, Rng, WORKSPACES};

/// The key of an episode or an entry that was erased: no history writes it.
pub(super) const ERASED: &str = "\0erased";

/// What is to be erased, of one workspace or, by a text, of all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Note(String),
    Row(String),
    Episode(String),
    Entry(String),
    Handle(HandleKind),
    Containing(String),
}

/// Notes and rows of which some version in the log holds a text, by handle and key.
type Keys = BTreeSet<(String, String)>;

/// What goes when it is erased from a store.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    at: usize,
    what: What,
    keys: Keys,
}

impl What {
    /// Mostly what some history of [`super::Step::random`] writes.
    pub(crate) fn random(rng: &mut Rng) -> What {
        let key = KEYS[rng.below(KEYS.len() as u64) as usize].to_owned();
        let kinds = [HandleKind::Notes, HandleKind::Vector, HandleKind::Episodic, HandleKind::Working];
        match rng.below(12) {
            0..=2 => What::Note(key),
            3 | 4 => What::Row(key),
            5 | 6 => What::Episode(key),
            7 => What::Entry(key),
            8 | 9 => What::Handle(kinds[rng.below(4) as usize]),
            _ => {
                let words = ["fox", "rot", "日本", "🚀", "log ", "\n", "Frame", "a/b"];
                let mut word = || words[rng.below(words.len() as u64) as usize];
                What::Containing([word(), word()].concat())
            }
        }
    }

    /// As its count is called.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            What::Note(_) => "a note",
            What::Row(_) => "a row",
            What::Episode(_) => "episodes",
            What::Entry(_) => "entries",
            What::Handle(_) => "a handle",
            What::Containing(_) => "by a text",
        }
    }

    /// Erases it.
    pub(crate) fn take(&self, store: &Store, at: usize) -> Result<Erased> {
        let workspace = store.workspace(WORKSPACES[at])?;
        match self {
            What::Note(key) => workspace.notes().erase(key),
            What::Row(id) => workspace.vectors("rows")?.erase(id),
            What::Episode(key) => workspace.episodic("turns")?.erase(key),
            What::Entry(label) => workspace.working("pad")?.erase(label),
            What::Handle(HandleKind::Notes) => workspace.notes().erase_all(),
            What::Handle(HandleKind::Vector) => workspace.vectors("rows")?.erase_all(),
            What::Handle(HandleKind::Episodic) => workspace.episodic("turns")?.erase_all(),
            What::Handle(HandleKind::Working) => workspace.working("pad")?.erase_all(),
            What::Containing(text) => store.erase_containing(text),
        }
    }

    /// What goes of a store, told from what its log says; none if that cannot be read.
    pub(crate) fn of(&self, store: &Store, at: usize) -> Option<Gone> {
        let keys = match self {
            What::Containing(text) => keys(store, text)?,
            _ => Keys::new(),
        };
        Some(Gone { at, what: self.clone(), keys })
    }

    /// Whether it is looked for in the log, and not only named.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self, What::Containing(_))
    }
}

impl Gone {
    /// Takes it out of what a store holds.
    pub(crate) fn leave(&self, model: &mut Model) {
        let Gone { at, what, keys } = self;
        match what {
            What::Note(key) => drop(model[*at].notes.remove(key)),
            What::Row(id) => model[*at].erase_rows(|known| known == id),
            What::Episode(key) => model[*at].erase_episodes(|known, _| known == key),
            What::Entry(label) => model[*at].erase_entries(|known, _| known == label),
            What::Handle(kind) => model[*at].erase_handle(*kind),
            What::Containing(text) => {
                let text = text.as_str();
                for (held, path) in model.iter_mut().zip(WORKSPACES) {
                    let goes =
                        |name: &str, key: &str| keys.contains(&(format!("{path}/{name}"), key.to_owned()));
                    held.notes.retain(|key, _| !goes("memory", key));
                    held.erase_rows(|id| goes("rows", id));
                    held.erase_episodes(|key, value| key.contains(text) || value.contains(text));
                    held.erase_entries(|label, content| label.contains(text) || content.contains(text));
                }
            }
        }
    }

    /// Whether some frame that can be looked at holds it.
    pub(crate) fn is_shown(&self, store: &Store) -> bool {
        (1..=store.appended().0).any(|frame| {
            let Ok(past) = store.at(mnemolog::Frame(frame)) else { return false };
            let held = super::held_at(&past);
            let mut without = held.clone();
            self.leave(&mut without);
            without != held
        })
    }
}

impl Held {
    fn erase_rows(&mut self, goes: impl Fn(&str) -> bool) {
        self.rows.retain(|id, _| !goes(id));
        if let Some(shadow) = &mut self.shadow {
            shadow.retain(|id| !goes(id));
        }
        self.loosen();
    }

    fn erase_episodes(&mut self, goes: impl Fn(&str, &str) -> bool) {
        for episode in &mut self.episodes {
            if goes(&episode.0, &episode.1) {
                *episode = (ERASED.to_owned(), String::new());
            }
        }
    }

    fn erase_entries(&mut self, goes: impl Fn(&str, &str) -> bool) {
        for entry in &mut self.entries {
            if goes(&entry.0, &entry.1) {
                *entry = (ERASED.to_owned(), String::new(), entry.2);
            }
        }
    }

    fn erase_handle(&mut self, kind: HandleKind) {
        let [unused, _] = super::empty();
        match kind {
            HandleKind::Notes => self.notes.clear(),
            HandleKind::Vector => {
                self.rows.clear();
                (self.embedder, self.loose, self.shadow) = (None, None, None);
            }
            HandleKind::Episodic => (self.episodes, self.ring) = (unused.episodes, unused.ring),
            HandleKind::Working => (self.entries, self.budget) = (unused.entries, unused.budget),
        }
    }
}

/// The notes and rows of which a line of the dump holds a text.
fn keys(store: &Store, text: &str) -> Option<Keys> {
    let mut lines = Vec::new();
    dump(store, &mut lines, DumpOptions::default()).ok()?;
    let mut keys = Keys::new();
    for line in String::from_utf8_lossy(&lines).lines() {
        let line: Value = serde_json::from_str(line).expect("a line of a dump is JSON");
        let handle = line["handle_id"].as_str().unwrap_or_default();
        let args = &line["args"];
        let items = args["items"].as_array().map_or(std::slice::from_ref(args), Vec::as_slice);
        for item in items {
            let key = item["key"].as_str().or(item["id"].as_str());
            let said = ["key", "id", "summary", "body", "text"].iter().filter_map(|name| item[name].as_str());
            if let Some(key) = key.filter(|_| said.into_iter().any(|said| said.contains(text))) {
                keys.insert((handle.to_owned(), key.to_owned()));
            }
        }
    }
    Some(keys)
}

/// Episodes with those between them that were erased, which only a snapshot shows.
pub(super) fn with_erased(
    bytes: &[u8],
    shown: impl Iterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    places(bytes, HandleKind::Episodic, shown, |_| (ERASED.to_owned(), String::new()))
}

/// As [`with_erased`] for the entries of a scratchpad.
pub(super) fn with_erased_entries(
    bytes: &[u8],
    shown: Vec<(String, String, u32)>,
) -> Vec<(String, String, u32)> {
    places(bytes, HandleKind::Working, shown.into_iter(), |tokens| (ERASED.to_owned(), String::new(), tokens))
}

fn places<T>(
    bytes: &[u8],
    kind: HandleKind,
    mut shown: impl Iterator<Item = T>,
    erased: impl Fn(u32) -> T,
) -> Vec<T> {
    let ops = snapshot::decode(bytes, kind).expect("a snapshot");
    let item = |op: &Op<'_>| match op {
        Op::Snapshot { .. } => None,
        Op::Erased { tokens, .. } => Some(erased(*tokens)),
        _ => Some(shown.next().expect("what a snapshot holds is shown")),
    };
    let items = ops.iter().filter_map(item).collect();
    assert!(shown.next().is_none(), "what is shown stands in the snapshot");
    items
}
