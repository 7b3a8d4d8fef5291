//! A store as four plain collections, too simple to be wrong, and random operations that both go through.
//!
//! What is erased, and what is embedded anew, stand in files of their own beside this one.

mod anew;
mod gone;

use std::collections::BTreeMap;

use mnemolog::{Error, Frame, Json, Past, Result, Store, Workspace};

pub(crate) use anew::{Ending, Shadow, Telling, anew};
pub(crate) use gone::{Gone, What};

/// Random numbers from a seed: the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is at least 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// The two workspaces that histories write to.
pub(crate) const WORKSPACES: [&str; 2] = ["core", "core/worker"];

/// One operation on one workspace: one frame, unless it finds nothing to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Remember(String, String, String),
    Forget(String),
    Upsert(String, String),
    Delete(String),
    Record(String, String),
    ClearEpisodes,
    Ring(u64),
    Push(String, String),
    Budget(u64),
    /// Restores everything as it is, through snapshots.
    Resave,
    /// Several steps as one frame.
    Together(Vec<Step>),
    /// Brings a note back to its state at a frame. As for the next two, see [`Step::apply_to`].
    RestoreNote(String, u64),
    RestoreRow(String, u64),
    /// Brings the workspace and what lies below it back to a frame.
    Rollback(u64),
}

/// What one workspace holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Held {
    pub(crate) notes: BTreeMap<String, (String, String)>,
    pub(crate) rows: BTreeMap<String, String>,
    /// The width of the table's embedder, [`anew::OWN`] where it is the store's own.
    pub(crate) embedder: Option<u32>,
    /// The width of the rows of a table that has no embedder.
    pub(crate) loose: Option<u32>,
    /// What was embedded anew and is not switched to.
    pub(crate) shadow: Option<Shadow>,
    /// An erased one holds its place, as [`gone::ERASED`] without a value.
    pub(crate) episodes: Vec<(String, String)>,
    pub(crate) ring: Option<u64>,
    /// As for the episodes; an erased one has its cost.
    pub(crate) entries: Vec<(String, String, u32)>,
    pub(crate) budget: u64,
}

/// What a store holds, by workspace.
pub(crate) type Model = [Held; 2];

pub(crate) fn empty() -> Model {
    let held = Held { budget: 2048, ..Held::default() };
    [held.clone(), held]
}

fn text(rng: &mut Rng, most: u64) -> String {
    let words = ["fox", "rot", "日本", "🚀", "log ", "x", "\n", "Frame"];
    (0..rng.below(most)).map(|_| words[rng.below(words.len() as u64) as usize]).collect()
}

/// The keys of all histories: few, so that they meet themselves.
const KEYS: [&str; 6] = ["", "a", "a/b", "b", "ünï", "c/d/e"];

fn key(rng: &mut Rng) -> String {
    KEYS[rng.below(6) as usize].to_owned()
}

impl Step {
    pub(crate) fn random(rng: &mut Rng) -> Step {
        match rng.below(8) {
            0 => Step::Together(
                (0..=rng.below(4)).map(|_| Step::single(rng)).filter(|s| *s != Step::Resave).collect(),
            ),
            _ => Step::single(rng),
        }
    }

    /// As [`Step::random`], and sometimes a step back to one of the frames up to `last`.
    pub(crate) fn random_back(rng: &mut Rng, last: Frame) -> Step {
        if !rng.chance(8) {
            return Step::random(rng);
        }
        let (frame, key) = (rng.below(last.0 + 1), key(rng));
        match rng.below(4) {
            0 => Step::RestoreNote(key, frame),
            1 => Step::RestoreRow(key, frame),
            _ => Step::Rollback(frame),
        }
    }

    fn single(rng: &mut Rng) -> Step {
        match rng.below(14) {
            0..=3 => {
                let most = if rng.chance(8) { 1200 } else { 40 };
                Step::Remember(key(rng), text(rng, 12), text(rng, most))
            }
            4 => Step::Forget(key(rng)),
            5 | 6 => Step::Upsert(key(rng), text(rng, 30)),
            7 => Step::Delete(key(rng)),
            8 | 9 => Step::Record(key(rng), text(rng, 40)),
            10 if rng.chance(3) => Step::ClearEpisodes,
            10 => Step::Ring(1 + rng.below(6)),
            11 | 12 => Step::Push(key(rng), text(rng, 60)),
            13 if rng.chance(2) => Step::Budget(rng.below(60)),
            _ => Step::Resave,
        }
    }

    /// Applies the step to the workspace `at` of a store whose earlier states are known, by frame. Answers whether it
    /// writes anything; a rollback may still find nothing to do.
    pub(crate) fn apply_to<M: std::borrow::Borrow<Model>>(
        &self,
        model: &mut Model,
        at: usize,
        states: &[M],
    ) -> bool {
        let then = |frame: u64| -> &Model { states[frame as usize].borrow() };
        match self {
            Step::RestoreNote(key, frame) => put_back(&mut model[at].notes, &then(*frame)[at].notes, key),
            Step::RestoreRow(id, frame) => {
                let then = &then(*frame)[at];
                model[at].put_row_back(then, id)
            }
            Step::Rollback(frame) => {
                // The second workspace lies below the first.
                model[at..].clone_from_slice(&then(*frame)[at..]);
                true
            }
            step => step.apply(&mut model[at]),
        }
    }

    /// Applies a step that does not look back to the plain collections. Answers whether it writes anything.
    pub(crate) fn apply(&self, held: &mut Held) -> bool {
        match self {
            Step::Remember(key, summary, body) => {
                held.notes.insert(key.clone(), (summary.clone(), body.clone()));
            }
            Step::Forget(key) => return held.notes.remove(key).is_some(),
            Step::Upsert(id, text) => {
                held.embedder = held.width().or(Some(anew::OWN));
                held.loose = None;
                held.rows.insert(id.clone(), text.clone());
            }
            Step::Delete(id) => {
                let was_there = held.rows.remove(id).is_some();
                held.loosen();
                return was_there;
            }
            Step::Record(key, value) => {
                held.episodes.push((key.clone(), value.clone()));
                held.evict();
            }
            Step::ClearEpisodes => held.episodes.clear(),
            Step::Ring(max) => {
                let before = held.ring.replace(*max);
                held.evict();
                return before != Some(*max);
            }
            Step::Push(label, content) => {
                let quarter = |s: &str| s.chars().count().div_ceil(4) as u32;
                held.entries.push((label.clone(), content.clone(), quarter(label) + quarter(content) + 4));
                held.fit();
            }
            Step::Budget(tokens) => {
                let before = std::mem::replace(&mut held.budget, (*tokens).max(1));
                held.fit();
                return before != held.budget;
            }
            Step::Resave => {}
            Step::Together(steps) => {
                return steps.iter().fold(false, |wrote, step| step.apply(held) | wrote);
            }
            Step::RestoreNote(..) | Step::RestoreRow(..) | Step::Rollback(_) => {
                panic!("{self:?} needs to know what was: apply_to")
            }
        }
        true
    }

    /// Takes the step on a store.
    pub(crate) fn take(&self, at: &Workspace) -> Result<()> {
        match self {
            Step::Remember(key, summary, body) => at.notes().remember(key, summary, body).map(drop),
            Step::Forget(key) => at.notes().forget(key).map(drop),
            Step::Upsert(id, text) => anew::upsert(at, id, text),
            Step::Delete(id) => match at.vectors("rows")?.delete(id) {
                Err(Error::NotFound { .. }) => Ok(()),
                other => other,
            },
            Step::Record(key, value) => at.episodic("turns")?.record(key, &Json::string(value)),
            Step::ClearEpisodes => at.episodic("turns")?.clear(),
            Step::Ring(max) => at.episodic("turns")?.with_max(*max).map(drop),
            Step::Push(label, content) => at.working("pad")?.push(label, content),
            Step::Budget(tokens) => at.working("pad")?.with_budget(*tokens).map(drop),
            Step::Resave => {
                let (notes, rows, turns, pad) =
                    (at.notes(), at.vectors("rows")?, at.episodic("turns")?, at.working("pad")?);
                at.exclusive(|tx| {
                    tx.notes().restore_bytes(&notes.snapshot_bytes()?)?;
                    tx.vectors("rows")?.restore_bytes(&rows.snapshot_bytes()?)?;
                    tx.episodic("turns")?.restore_bytes(&turns.snapshot_bytes()?)?;
                    tx.working("pad")?.restore_bytes(&pad.snapshot_bytes()?)
                })
            }
            Step::Together(steps) => at.exclusive(|tx| steps.iter().try_for_each(|step| step.take(tx))),
            Step::RestoreNote(key, frame) => at.notes().restore(key, Frame(*frame)).map(drop),
            Step::RestoreRow(id, frame) => match at.vectors("rows")?.restore(id, Frame(*frame)) {
                // A row of an embedder before.
                Err(Error::Dimension { .. }) => Ok(()),
                other => other.map(drop),
            },
            Step::Rollback(frame) => at.rollback(Frame(*frame)).map(drop),
        }
    }
}

/// Makes one entry what it was. Answers whether it was something else.
fn put_back<V: Clone + PartialEq>(
    now: &mut BTreeMap<String, V>,
    then: &BTreeMap<String, V>,
    key: &str,
) -> bool {
    let before = match then.get(key) {
        Some(value) => now.insert(key.to_owned(), value.clone()),
        None => now.remove(key),
    };
    before.as_ref() != then.get(key)
}

impl Held {
    fn evict(&mut self) {
        let most = self.ring.map_or(usize::MAX, |max| max as usize);
        self.episodes.drain(..self.episodes.len().saturating_sub(most));
    }

    fn fit(&mut self) {
        let cost = |entries: &[(String, String, u32)]| entries.iter().map(|e| u64::from(e.2)).sum::<u64>();
        while self.entries.len() > 1 && cost(&self.entries) > self.budget {
            self.entries.remove(0);
        }
    }

    /// What a workspace of a store holds, read through its handles, and the shadow of its table.
    fn read(at: &Workspace, shadow: Option<usize>) -> Held {
        let notes = at.notes().summaries().into_iter().map(|(key, summary)| {
            let body = at.notes().recall(&key);
            (key, (summary.expect("every summary was given"), body))
        });
        let rows = at.vectors("rows").expect("a valid name");
        let turns = at.episodic("turns").expect("a valid name");
        let episodes = turns.search_by_key("").expect("readable").into_iter();
        let episodes = episodes.map(|e| (e.key, e.value.to_value().as_str().unwrap_or_default().into()));
        let pad = at.working("pad").expect("a valid name");
        let mut held = Held {
            notes: notes.collect(),
            shadow: shadow.map(Shadow::of_unknown),
            episodes: gone::with_erased(&turns.snapshot_bytes().expect("readable"), episodes),
            ring: turns.max(),
            entries: gone::with_erased_entries(&pad.snapshot_bytes().expect("readable"), pad.entries()),
            budget: pad.budget(),
            ..Held::default()
        };
        held.read_rows(&rows);
        held
    }
}

/// What a store holds now.
pub(crate) fn held(store: &Store) -> Model {
    let sizes = store.handles();
    WORKSPACES.map(|path| {
        Held::read(&store.workspace(path).expect("a valid path"), anew::size_of_shadow(&sizes, path))
    })
}

/// What a past holds.
pub(crate) fn held_at(past: &Past) -> Model {
    let sizes = past.handles();
    WORKSPACES.map(|path| {
        Held::read(&past.workspace(path).expect("a valid path"), anew::size_of_shadow(&sizes, path))
    })
}
