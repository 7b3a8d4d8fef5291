//! `tour`: a guided run on a sample conversation, in a temporary store that is gone afterwards.
//!
//! Owns the order of the tour. Each stop does one thing with the library, as a program would, and shows what it
//! answered and how long that took. It is also a test that a reader can run: the digests at the end must agree.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mnemolog::interchange::{self, LoadOptions};
use mnemolog::{Frame, Store, Time, Workspace};
use serde::Serialize;

use crate::answer::{EpisodeAnswer, HitAnswer, hex};
use crate::exit::{Exit, Refusal};
use crate::output::Output;
use crate::{diff, render, verify};

/// Four conversations between a woman who keeps an observatory and her assistant.
const SAMPLE: &str = include_str!("sample.jsonl");

/// The workspace of the sample.
const WORKSPACE: &str = "tour";

/// Between the second conversation and the third: before the deadline moved and a note was forgotten.
const EARLIER: &str = "2026-05-20T00:00:00Z";

/// One stop of the tour.
#[derive(Serialize)]
pub(crate) struct Stop {
    pub(crate) title: &'static str,
    /// The command that does the same.
    pub(crate) command: Option<String>,
    pub(crate) text: String,
    /// How long the library took.
    pub(crate) elapsed_us: u64,
}

#[derive(Serialize)]
struct Tour {
    store: String,
    frames: u64,
    digest: String,
    stops: Vec<Stop>,
}

/// A directory that goes when this does.
struct Temporary(PathBuf);

/// A tour under way.
struct Guide<'a> {
    out: &'a Output,
    stops: Vec<Stop>,
}

/// Runs the verb.
pub(crate) fn run(out: &Output) -> Result<Exit> {
    let temporary = Temporary::new()?;
    let store = Store::open(temporary.0.join("store"))?;
    if !out.is_json() {
        out.text(&render::tour::welcome(store.path(), out.is_styled()))?;
    }
    let mut guide = Guide { out, stops: Vec::new() };
    load(&mut guide, &store)?;
    memories(&mut guide, &store.workspace(WORKSPACE)?)?;
    let earlier = store.frame_at(EARLIER.parse::<Time>()?)?;
    past(&mut guide, &store, earlier)?;
    let digest = proof(&mut guide, &store)?;
    let tour = Tour {
        store: store.path().display().to_string(),
        frames: store.appended().0,
        digest,
        stops: guide.stops,
    };
    match out.is_json() {
        true => out.object(&tour)?,
        false => out.text(&render::tour::farewell(&tour.stops, out.is_styled()))?,
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn load(guide: &mut Guide<'_>, store: &Store) -> Result<()> {
    guide.stop("Load the sample", Some("load sample.jsonl"), || {
        let options = LoadOptions { trust_times: true, ..LoadOptions::default() };
        let report = interchange::load(store, &mut SAMPLE.as_bytes(), options)?;
        let size = store.log_size();
        Ok(render::tour::loaded(report.lines, report.frames, report.embedded, size.used))
    })
}

fn memories(guide: &mut Guide<'_>, workspace: &Workspace) -> Result<()> {
    let notes = workspace.notes();
    guide.stop("Notes: the index that a prompt shows every turn", Some("index-note"), || {
        Ok(notes.index_note())
    })?;
    guide.stop("Notes: one in full", Some("recall places/observatory/telescope"), || {
        Ok(render::tour::wrapped(&notes.recall("places/observatory/telescope")))
    })?;
    guide.stop("Notes: substring search", Some("search 星を待つ"), || Ok(notes.search("星を待つ")))?;
    let (turns, query) = (workspace.vectors("turns")?, "who carries the mirror");
    let command = format!("vector search turns '{query}' -k 2");
    guide.stop("Vectors: by overlap of words (the default embedder is a stub)", Some(&command), || {
        let hits = turns.search(query, 2)?.into_iter().map(HitAnswer::new).collect::<Result<Vec<_>>>()?;
        Ok(render::tour::lines(hits.iter().map(render::hit)))
    })?;
    let episodes = workspace.episodic("turns")?;
    guide.stop("Episodes: the last ones, newest first", Some("episodic recent turns -n 2"), || {
        let recent = episodes.recent(2)?.into_iter().map(EpisodeAnswer::new).collect::<Result<Vec<_>>>()?;
        Ok(render::tour::lines(recent.iter().map(render::episode)))
    })?;
    let scratch = workspace.working("scratch")?;
    guide.stop(
        "Working memory: the scratchpad, within its budget",
        Some("working render scratch"),
        || Ok(scratch.render()),
    )?;
    let command = "remember visitors/you --summary 'who took this tour' --body 'You did.'";
    guide.stop("One more note, safe on the disk before the call returns", Some(command), || {
        Ok(notes.remember("visitors/you", "who took this tour", "You did.")?)
    })
}

fn past(guide: &mut Guide<'_>, store: &Store, earlier: Frame) -> Result<()> {
    let key = "places/observatory/door-code";
    guide.stop(
        "The past: what the agent knew weeks earlier",
        Some(&format!("recall {key} --at {earlier}")),
        || {
            let (then, now) =
                (store.at(earlier)?.workspace(WORKSPACE)?.notes(), store.workspace(WORKSPACE)?.notes());
            Ok(render::tour::then_and_now(&then.recall(key), &now.recall(key)))
        },
    )?;
    let command = format!("diff {earlier} {}", store.appended());
    guide.stop("What differs between then and now, in the notes", Some(&command), || {
        let mut differences = diff::differences(store.diff(earlier, store.appended())?.handles)?;
        differences.retain(|difference| difference.kind == "notes");
        Ok(render::changes::differences(&differences, false))
    })
}

/// The digests of the live state, of a replay and of the verified files must be one; answers it.
fn proof(guide: &mut Guide<'_>, store: &Store) -> Result<String> {
    let last = store.appended();
    let (mut frames, live) = (0, store.digest()?);
    guide.stop("Replay the log from nothing", Some("replay"), || {
        let replayed = store.replay(last, &mut |_| {
            frames += 1;
            Ok(())
        })?;
        agree(live, replayed.digest()?)?;
        Ok(render::tour::agreed(frames, &hex(live)))
    })?;
    store.close()?;
    let path = store.path().to_path_buf();
    guide.stop("Verify every byte on the disk", Some("verify"), || {
        let report = verify::report(&path)?;
        if !report.whole || report.digest.as_deref() != Some(&hex(live)) {
            return Err(Refusal::new(Exit::Damaged, render::verified(&report)).into());
        }
        Ok(render::verified(&report))
    })?;
    Ok(hex(live))
}

fn agree(live: u128, other: u128) -> Result<()> {
    if live == other {
        return Ok(());
    }
    Err(Refusal::new(Exit::Damaged, render::digests_differ(&hex(live), &hex(other))).into())
}

impl Guide<'_> {
    /// Does one thing, and shows what it answered.
    fn stop(
        &mut self,
        title: &'static str,
        command: Option<&str>,
        visit: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        let begin = Instant::now();
        let text = visit()?;
        let elapsed_us = micros(begin.elapsed());
        let stop = Stop { title, command: command.map(str::to_owned), text, elapsed_us };
        if !self.out.is_json() {
            let number = self.stops.len() + 1;
            self.out.text(&render::tour::stop(number, &stop, WORKSPACE, self.out.is_styled()))?;
            self.out.flush()?;
        }
        self.stops.push(stop);
        Ok(())
    }
}

impl Temporary {
    fn new() -> Result<Temporary> {
        let random = getrandom::u64().context("no random name for a temporary store")?;
        let path = std::env::temp_dir().join(format!("mnemolog-tour-{random:016x}"));
        fs::create_dir(&path).with_context(|| format!("{} cannot be created", path.display()))?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing more can be done for a directory that does not go; it is in the place for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn micros(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}
