//! The plain fold: owned values in vectors and sorted maps, every rule written as it is said.

use std::collections::BTreeMap;

use mnemolog::codec::delta::{Class, HandleKind};
use mnemolog::position::{Frame, Last};

use super::change::Change;

/// One handle of each kind, under one id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handles {
    pub(crate) notes: BTreeMap<String, Saved>,
    pub(crate) rows: BTreeMap<String, Row>,
    pub(crate) embedder: Option<(String, u32)>,
    pub(crate) ring: Vec<Option<Episode>>,
    pub(crate) max: Option<u64>,
    pub(crate) entries: Vec<(u32, Option<(String, String)>)>,
    pub(crate) budget: Option<u64>,
    pub(crate) chains: BTreeMap<(HandleKind, String), Last>,
    /// The last `clear` of the table.
    pub(crate) cleared: Last,
}

#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub(crate) summary: Option<String>,
    pub(crate) body: String,
    pub(crate) json: bool,
    pub(crate) frame: Frame,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) text: String,
    pub(crate) metadata: String,
    pub(crate) embedding: Vec<f32>,
    pub(crate) frame: Frame,
}

#[derive(Clone, Debug)]
pub(crate) struct Episode {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) timestamp_ms: i64,
    pub(crate) frame: Frame,
}

impl Handles {
    /// Applies one commit of one delta.
    pub(crate) fn apply(&mut self, frame: Frame, change: &Change) {
        let Change::Snapshot { head, items, continues } = change else {
            return self.apply_one(Last { frame, index: 0 }, change);
        };
        if !continues {
            self.empty(head.kind());
        }
        if matches!(**head, Change::Embedder(_) | Change::Max(_) | Change::Budget(_)) {
            self.apply_one(Last { frame, index: 0 }, head);
        }
        for (index, item) in (1..).zip(items) {
            self.apply_one(Last { frame, index }, item);
        }
    }

    pub(crate) fn dim(&self) -> Option<usize> {
        let of_embedder = self.embedder.as_ref().map(|(_, dim)| *dim as usize);
        of_embedder.or(self.rows.values().next().map(|row| row.embedding.len()))
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.entries.iter().map(|(tokens, _)| u64::from(*tokens)).sum()
    }

    /// Keys of the notes: fewer `/`-segments first, then segment by segment.
    pub(crate) fn keys_in_order(&self) -> Vec<&str> {
        let mut keys: Vec<Vec<&str>> = self.notes.keys().map(|key| key.split('/').collect()).collect();
        keys.sort_by_key(|segments| (segments.len(), segments.clone()));
        let find = |segments: Vec<&str>| self.notes.get_key_value(&segments.join("/")).unwrap().0.as_str();
        keys.into_iter().map(find).collect()
    }

    fn empty(&mut self, kind: HandleKind) {
        self.chains.retain(|(of, _), _| *of != kind);
        match kind {
            HandleKind::Notes => self.notes.clear(),
            HandleKind::Vector => (self.rows, self.embedder) = (BTreeMap::new(), None),
            HandleKind::Episodic => (self.ring, self.max) = (vec![], None),
            HandleKind::Working => (self.entries, self.budget) = (vec![], None),
        }
    }

    fn apply_one(&mut self, last: Last, change: &Change) {
        let frame = last.frame;
        match change.clone() {
            Change::Remember { key, summary, body, json } => {
                self.chains.insert((HandleKind::Notes, key.clone()), last);
                self.notes.insert(key, Saved { summary, body, json, frame });
            }
            Change::Forget { key } => {
                self.notes.remove(&key);
                self.chains.insert((HandleKind::Notes, key), last);
            }
            Change::Upsert { id, text, metadata, embedding } => {
                let makes_sense = !embedding.is_empty()
                    && embedding.iter().all(|x| x.is_finite())
                    && (self.dim().is_none() || self.dim() == Some(embedding.len()));
                if makes_sense {
                    self.chains.insert((HandleKind::Vector, id.clone()), last);
                    self.rows.insert(id, Row { text, metadata, embedding, frame });
                }
            }
            Change::Delete { id } => {
                self.rows.remove(&id);
                self.chains.insert((HandleKind::Vector, id), last);
            }
            Change::Record { key, value, timestamp_ms } => {
                self.ring.push(Some(Episode { key, value, timestamp_ms, frame }));
            }
            Change::Push { label, content, tokens } => self.entries.push((tokens, Some((label, content)))),
            Change::Erased { kind: HandleKind::Episodic, class: Class::Put, .. } => self.ring.push(None),
            Change::Erased { kind: HandleKind::Working, class: Class::Put, tokens } => {
                self.entries.push((tokens, None));
            }
            Change::Erased { .. } => {}
            Change::Clear(HandleKind::Notes) => {}
            Change::Clear(HandleKind::Vector) => {
                self.rows.clear();
                self.cleared = last;
            }
            Change::Clear(HandleKind::Episodic) => self.ring.clear(),
            Change::Clear(HandleKind::Working) => self.entries.clear(),
            Change::Embedder(None) => self.embedder = None,
            Change::Embedder(Some((name, dim))) => {
                let fits = self.rows.values().all(|row| row.embedding.len() == dim as usize);
                if fits && dim > 0 {
                    self.embedder = Some((name, dim));
                }
            }
            Change::Max(max) => self.max = max.map(|max| max.max(1)),
            Change::Budget(budget) => self.budget = budget.map(|budget| budget.max(1)),
            Change::Snapshot { .. } => unreachable!("a snapshot is no item"),
        }
        while self.max.is_some_and(|max| self.ring.len() as u64 > max) {
            self.ring.remove(0);
        }
        while self.tokens() > self.budget.unwrap_or(2048) && self.entries.len() > 1 {
            self.entries.remove(0);
        }
    }
}
