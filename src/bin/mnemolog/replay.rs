//! `replay`: folds the log up to a frame, and says what that amounts to, at the end or at every step.

use std::collections::BTreeMap;

use anyhow::Result;
use mnemolog::codec::delta::HandleKind;
use mnemolog::view::HandleId;
use mnemolog::{Error, Past, Step, Time};
use serde::Serialize;

use crate::answer::{self, HandleAnswer, hex};
use crate::context::{AtArg, Context};
use crate::exit::Exit;
use crate::{dump, output, render};

/// How far, and what to print.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    at: AtArg,
    /// Print the digest of every frame's state, then the totals
    #[arg(long, conflicts_with = "dump_json")]
    step: bool,
    /// Print every event as JSON, then a snapshot of every handle
    #[arg(long)]
    dump_json: bool,
}

/// What a replay amounts to.
#[derive(Serialize)]
pub(crate) struct Replay {
    /// The frame it went up to.
    pub(crate) frame: u64,
    /// That frame's time; null at frame 0.
    pub(crate) time: Option<String>,
    /// The time of the first frame folded.
    pub(crate) first_time: Option<String>,
    /// Frames folded.
    pub(crate) frames: u64,
    /// Deltas folded.
    pub(crate) deltas: u64,
    /// Of each kind.
    pub(crate) deltas_per_kind: BTreeMap<&'static str, u64>,
    /// Of each handle, also of those that are empty by now.
    pub(crate) deltas_per_handle: Vec<Deltas>,
    /// Of the whole state.
    pub(crate) digest: String,
    /// The handles in use at the frame.
    pub(crate) handles: Vec<HandleAnswer>,
}

/// How many deltas a handle had.
#[derive(Serialize)]
pub(crate) struct Deltas {
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) deltas: u64,
}

/// One frame on the way.
#[derive(Serialize)]
pub(crate) struct StepAnswer {
    pub(crate) frame: u64,
    pub(crate) time: String,
    pub(crate) deltas: usize,
    pub(crate) digest: String,
}

#[derive(Default)]
struct Totals {
    frames: u64,
    first: Option<Time>,
    deltas: BTreeMap<HandleId, u64>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let store = context.open_read_only()?;
    let to = args.at.at.map(|at| context.frames(&store, [at]).map(|[frame]| frame)).transpose()?;
    let to = to.unwrap_or_else(|| store.appended());
    if args.dump_json {
        return dump::events(&store, to, context);
    }
    let bar = output::progress("replay", Some(to.0));
    let mut totals = Totals::default();
    let mut stopped = None;
    let past = store.replay(to, &mut |step| {
        bar.inc(1);
        totals.add(step);
        if !args.step {
            return Ok(());
        }
        let answer = step_answer(step)?;
        // Nobody reads on: the error that ends the replay is not the one that is told.
        stopped = context.out.answer(&answer, render::step).err();
        if stopped.is_some() { Err(Error::Closed) } else { Ok(()) }
    });
    bar.finish_and_clear();
    if let Some(error) = stopped {
        return Err(error);
    }
    context.out.answer(&totals.answer(&past?)?, render::replay)?;
    Ok(Exit::Done)
}

fn step_answer(step: &mut Step<'_>) -> mnemolog::Result<StepAnswer> {
    Ok(StepAnswer {
        frame: step.frame().0,
        time: step.time().to_string(),
        deltas: step.deltas().len(),
        digest: hex(step.digest()?),
    })
}

impl Totals {
    fn add(&mut self, step: &Step<'_>) {
        self.frames += 1;
        self.first.get_or_insert(step.time());
        for handle in step.deltas() {
            *self.deltas.entry(handle.clone()).or_default() += 1;
        }
    }

    fn answer(&self, past: &Past) -> Result<Replay> {
        let (digest, handles) = past.digests()?;
        let mut per_kind: BTreeMap<&'static str, u64> =
            HandleKind::ALL.into_iter().map(|kind| (kind.name(), 0)).collect();
        for (handle, deltas) in &self.deltas {
            *per_kind.entry(handle.kind.name()).or_default() += deltas;
        }
        let per_handle = self.deltas.iter().map(|(handle, deltas)| Deltas {
            kind: handle.kind.name(),
            id: handle.id.to_string(),
            deltas: *deltas,
        });
        Ok(Replay {
            frame: past.frame().0,
            time: answer::time(past.time()),
            first_time: answer::time(self.first),
            frames: self.frames,
            deltas: per_kind.values().sum(),
            deltas_per_kind: per_kind,
            deltas_per_handle: per_handle.collect(),
            digest: hex(digest),
            handles: handles.into_iter().map(HandleAnswer::from).collect(),
        })
    }
}
