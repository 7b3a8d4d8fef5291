//! What the processes of a test said, and whether a store bears it out.

use std::collections::{BTreeMap, BTreeSet};

use mnemolog::interchange::{self, DumpOptions};
use mnemolog::{Frame, Store};
use serde_json::Value;

use super::parts::sum;

/// Everything that was said, in the order of frames.
#[derive(Default)]
pub(super) struct Ledger {
    /// Kind, handle, key and checksum, with the frame where the writer knew it (0 otherwise).
    acknowledged: BTreeMap<String, u64>,
    frames: BTreeSet<u64>,
    /// The digests that readers had, by frame.
    seen: BTreeMap<u64, String>,
    pub(super) looks: u64,
    /// The last frame that was acknowledged.
    pub(super) last: Frame,
}

impl Ledger {
    /// Takes a report; answers whether it was of a write.
    pub(super) fn take(&mut self, line: &str) -> bool {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["ack", frame, ..] => {
                let wrote = line.splitn(3, ' ').nth(2).expect("kind, handle, key, checksum");
                let frame = frame.parse().expect("a frame");
                assert!(frame == 0 || self.frames.insert(frame), "frame {frame} was acknowledged twice");
                assert_eq!(self.acknowledged.insert(wrote.to_owned(), frame), None, "texts are unique");
                self.last = self.last.max(Frame(frame));
                true
            }
            ["saw" | "at", frame, digest] => {
                let frame = frame.parse().expect("a frame");
                let before = self.seen.insert(frame, digest.to_owned());
                assert!(
                    before.is_none_or(|before| before == digest),
                    "two states of frame {frame} were seen"
                );
                false
            }
            ["looks", n] => {
                self.looks += n.parse::<u64>().expect("a number");
                false
            }
            _ => false,
        }
    }

    /// Takes a report of whatever kind.
    pub(super) fn note(&mut self, line: &str) {
        self.take(line);
    }

    pub(super) fn writes(&self) -> usize {
        self.acknowledged.len()
    }

    /// Everything that was acknowledged is in the log, once, in its frame; the log's frames run on from 1; and
    /// each state that a reader saw is the one that replay gives.
    pub(super) fn check(&self, store: &Store) {
        let mut dump = Vec::new();
        interchange::dump(store, &mut dump, DumpOptions::default()).expect("a store that can be dumped");
        let mut found = BTreeMap::new();
        let mut last = 0;
        for line in dump.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
            let line: Value = serde_json::from_slice(line).expect("JSON");
            let frame = line["frame"].as_u64().expect("a frame");
            assert!(frame == last || frame == last + 1, "frame {frame} behind frame {last}");
            last = frame;
            if let Some(wrote) = wrote(&line) {
                assert_eq!(found.insert(wrote.clone(), frame), None, "{wrote} is there twice");
            }
        }
        assert_eq!(Frame(last), store.appended());
        for (wrote, &frame) in &self.acknowledged {
            let at = found.get(wrote).copied();
            assert!(at.is_some(), "LOST: {wrote} was acknowledged in frame {frame} of {last}");
            assert!(frame == 0 || at == Some(frame), "{wrote}: acknowledged in {frame}, found in {at:?}");
        }
        let mut states = 0;
        let count = |step: &mut mnemolog::Step<'_>| {
            if let Some(digest) = self.seen.get(&step.frame().0) {
                assert_eq!(&format!("{:032x}", step.digest()?), digest, "frame {}", step.frame());
                states += 1;
            }
            Ok(())
        };
        store.replay(store.appended(), &mut { count }).expect("replays");
        let none_seen = usize::from(self.seen.contains_key(&0));
        assert_eq!(states + none_seen, self.seen.len(), "a reader saw a frame that is not there");
    }
}

/// What a line of a dump says was written, as writers say it. Every text in it must be whole.
fn wrote(line: &Value) -> Option<String> {
    let args = &line["args"];
    let (key, text) = match line["op"].as_str()? {
        "remember" => (&args["key"], &args["body"]),
        "upsert" => (&args["id"], &args["text"]),
        "record" => (&args["key"], &args["value"]),
        "push" => (&args["label"], &args["content"]),
        _ => return None,
    };
    let handle = line["handle_id"].as_str()?;
    if !handle.starts_with('w') {
        return None;
    }
    let text = text.as_str()?;
    let sum = sum(text).unwrap_or_else(|| panic!("a torn text in the log: {text}"));
    Some(format!("{} {handle} {} {sum}", line["handle_kind"].as_str()?, key.as_str()?))
}
