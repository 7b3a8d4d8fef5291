//! `checkpoint`: saves the state of the store, so that opening it need not fold what came before.

use anyhow::Result;
use mnemolog::replay::checkpoint::Listed;
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::{output, render};

/// What there is now.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// The frame that was saved.
    pub(crate) frame: u64,
    /// All checkpoints, by frame.
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// A checkpoint.
#[derive(Serialize)]
pub(crate) struct Checkpoint {
    pub(crate) frame: u64,
    pub(crate) bytes: u64,
}

/// Runs the verb.
pub(crate) fn run(context: &Context) -> Result<Exit> {
    let writing = context.write_existing()?;
    let bar = output::progress("checkpoint", None);
    let frame = writing.store.checkpoint();
    bar.finish_and_clear();
    let answer = Answer { frame: frame?.0, checkpoints: all(writing.store.checkpoints()) };
    writing.close(&context.out);
    context.out.answer(&answer, render::checkpoint)?;
    Ok(Exit::Done)
}

pub(crate) fn all(listed: Vec<Listed>) -> Vec<Checkpoint> {
    listed.into_iter().map(|listed| Checkpoint { frame: listed.frame.0, bytes: listed.bytes }).collect()
}
