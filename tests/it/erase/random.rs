//! Random histories of all four kinds, with a secret in every place where somebody can put one.

use std::sync::Arc;

use mnemolog::disk::MemoryDisk;
use mnemolog::interchange::{DumpError, EventKind, LoadOptions, events, load};
use mnemolog::{Frame, Json, Origin, Result, Store, Workspace, Writers};

use super::{open, options};
use crate::model::{Rng, WORKSPACES};

/// A store that was written to.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) disk: MemoryDisk,
    pub(super) writers: Writers,
    pub(super) secret: String,
    /// Where the secret was put: each place by its name.
    pub(super) places: Vec<&'static str>,
    kept: Vec<(usize, [Vec<u8>; 4])>,
}

/// 32 bytes that nobody else writes; some of them have another form in JSON.
fn secret(rng: &mut Rng) -> String {
    let letters = br#"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ0123456789_+-=/.:{}[]," \"#;
    let mut letter = || match rng.below(20) {
        0 => '\n',
        1 => '"',
        2 => '\\',
        3 => '\u{1}',
        _ => char::from(letters[rng.below(letters.len() as u64) as usize]),
    };
    (0..32).map(|_| letter()).collect()
}

impl World {
    pub(super) fn new(seed: u64, simulated: bool) -> World {
        let mut rng = Rng::new(seed);
        let writers = if rng.chance(2) { Writers::Many } else { Writers::One };
        let secret = secret(&mut rng);
        let disk = if simulated { MemoryDisk::simulated() } else { MemoryDisk::new() };
        World { rng, disk, writers, secret, places: Vec::new(), kept: Vec::new() }
    }

    /// Writes a history, and answers the store.
    pub(super) fn write(&mut self, steps: u64) -> Store {
        let mut store = open(&self.disk, self.writers);
        for _ in 0..steps {
            match self.rng.below(40) {
                0 => {
                    drop(store);
                    store = open(&self.disk, self.writers);
                }
                1 => drop(store.checkpoint().expect("saves")),
                2 => {
                    let first = super::oldest(&store).0;
                    let before = Frame(first + self.rng.below(store.appended().0 - first + 1));
                    if before.0 > 1 {
                        store.compact(before, false).expect("compacts");
                    }
                }
                _ => self.step(&store).expect("writes"),
            }
        }
        if self.rng.chance(3) {
            // What an earlier crash may have left.
            for path in ["quarantine/cut.1", "checkpoints/00000000000000000003.tmp"] {
                self.disk.write_file(path, self.secret.as_bytes()).expect("writes");
            }
        }
        store
    }

    /// Makes the store begin at a base that holds the state of a history.
    pub(super) fn write_base(&mut self, steps: u64) {
        let source = {
            let disk = std::mem::replace(&mut self.disk, MemoryDisk::new());
            let source = self.write(steps);
            self.disk = disk;
            source
        };
        let mut lines = Vec::new();
        events::<DumpError>(&source, None, &mut |event| {
            if event.kind == EventKind::Snapshot && event.line.frame == Some(source.appended()) {
                let mut line = event.line.clone();
                line.base = true;
                line.origin = None;
                line.write_to(&mut lines)?;
                lines.push(b'\n');
            }
            Ok(())
        })
        .expect("tells");
        self.kept.clear();
        let store = options().open_on(Arc::new(self.disk.clone())).expect("opens");
        // A snapshot of the last frame itself comes before that of its handle: only the later one is the state.
        let mut last: Vec<&str> = Vec::new();
        let text = String::from_utf8(lines).expect("UTF-8");
        for line in text.lines() {
            let handle = |line: &str| {
                let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
                (value["handle_kind"].clone(), value["handle_id"].clone())
            };
            last.retain(|other| handle(other) != handle(line));
            last.push(line);
        }
        load(&store, &mut last.join("\n").as_bytes(), LoadOptions::default()).expect("loads");
    }

    fn text(&mut self, place: &'static str) -> String {
        let words = ["fox", "日本", "a \"quoted\" word", "line\n", "x", "Frame", "{\"a\":1}"];
        let mut text = String::new();
        for _ in 0..self.rng.below(5) {
            text.push_str(words[self.rng.below(words.len() as u64) as usize]);
        }
        if self.rng.chance(6) {
            self.places.push(place);
            match self.rng.below(4) {
                // Somebody pasted JSON.
                0 => text.push_str(Json::string(&self.secret).as_str()),
                _ => text.push_str(&self.secret),
            }
            text.push_str(words[self.rng.below(words.len() as u64) as usize]);
        }
        text
    }

    fn key(&mut self, place: &'static str) -> String {
        if self.rng.chance(12) {
            self.places.push(place);
            return format!("k/{}/{}", self.secret, self.rng.below(2));
        }
        ["", "a", "a/b", "b", "ünï", "c/d/e"][self.rng.below(6) as usize].to_owned()
    }

    fn json(&mut self, name: &'static str, value: &'static str) -> Json {
        let (key, inner) = (self.text(name), self.text(value));
        let json = match self.rng.below(4) {
            0 => serde_json::json!({ "n": 12, key: [true, null, inner, 1.5] }),
            1 => serde_json::json!([inner, { "deep": { key: 3 } }]),
            2 => serde_json::json!({ key: inner }),
            _ => serde_json::json!({ "plain": 7 }),
        };
        Json::from_value(&json).expect("flat enough")
    }

    fn origin(&mut self) -> Origin {
        let mut part = |chance| (self.rng.chance(chance)).then(|| self.text("origin"));
        Origin { agent: part(2), session: part(3), tool: part(4) }
    }

    fn step(&mut self, store: &Store) -> Result<()> {
        let at = self.rng.below(2) as usize;
        let mut ws = store.workspace(WORKSPACES[at])?;
        if self.rng.chance(3) {
            ws = ws.with_origin(self.origin())?;
        }
        match self.rng.below(12) {
            0 => {
                let n = 1 + self.rng.below(4);
                ws.exclusive(|tx| (0..n).try_for_each(|_| self.write_one(tx)))
            }
            1 => self.back(store, &ws, at),
            _ => self.write_one(&ws),
        }
    }

    fn write_one(&mut self, ws: &Workspace) -> Result<()> {
        match self.rng.below(16) {
            0..3 => {
                let (key, summary, body) = (self.key("key"), self.text("summary"), self.text("body"));
                ws.notes().remember(&key, &summary, &body).map(drop)
            }
            3 | 4 => {
                let (key, body) = (self.key("key"), self.json("name in a body", "JSON body"));
                let summary = self.rng.chance(2).then(|| self.text("summary"));
                ws.notes().remember_json(&key, summary.as_deref(), &body).map(drop)
            }
            5 => ws.notes().forget(&self.key("forgotten key")).map(drop),
            6..9 => {
                let (id, text) = (self.key("id"), self.text("text"));
                let metadata = self.json("metadata key", "metadata value");
                ws.vectors("rows")?.upsert(&id, &text, &metadata)
            }
            9 => match ws.vectors("rows")?.delete(&self.key("deleted id")) {
                Err(mnemolog::Error::NotFound { .. }) => Ok(()),
                other => other,
            },
            10 | 11 => {
                let (key, value) = (self.key("episode key"), self.json("episode name", "episode value"));
                ws.episodic("turns")?.record(&key, &value)
            }
            12 | 13 => {
                let (label, content) = (self.text("label"), self.text("content"));
                ws.working("pad")?.push(&label, &content)
            }
            14 => match self.rng.below(3) {
                0 => ws.vectors("rows")?.clear(),
                1 => ws.episodic("turns")?.clear(),
                _ => ws.working("pad")?.clear(),
            },
            _ if self.rng.chance(2) => ws.episodic("turns")?.with_max(1 + self.rng.below(6)).map(drop),
            _ => ws.working("pad")?.with_budget(20 + self.rng.below(60)).map(drop),
        }
    }

    /// A way back: to a frame, or to what was kept as bytes.
    fn back(&mut self, store: &Store, ws: &Workspace, at: usize) -> Result<()> {
        let first = super::oldest(store).0;
        let frame = Frame(first + self.rng.below(store.appended().0 - first + 1));
        match self.rng.below(5) {
            0 => ws.rollback(frame).map(drop),
            1 => ws.notes().restore(&self.key("restored key"), frame).map(drop),
            2 => {
                let bytes = [
                    ws.notes().snapshot_bytes()?,
                    ws.vectors("rows")?.snapshot_bytes()?,
                    ws.episodic("turns")?.snapshot_bytes()?,
                    ws.working("pad")?.snapshot_bytes()?,
                ];
                self.kept.push((at, bytes));
                Ok(())
            }
            _ => {
                let kept: Vec<_> = self.kept.iter().filter(|kept| kept.0 == at).cloned().collect();
                if kept.is_empty() {
                    return Ok(());
                }
                let [notes, rows, turns, pad] = &kept[self.rng.below(kept.len() as u64) as usize].1;
                ws.exclusive(|tx| {
                    tx.notes().restore_bytes(notes)?;
                    tx.vectors("rows")?.restore_bytes(rows)?;
                    tx.episodic("turns")?.restore_bytes(turns)?;
                    tx.working("pad")?.restore_bytes(pad)
                })
            }
        }
    }
}
