//! `repair`: makes a damaged store whole again, and says what it has lost.

use std::sync::Arc;

use anyhow::Result;
use mnemolog::disk::{Disk, FileDisk};
use mnemolog::log::{self, Repaired};
use mnemolog::{Clock, Error, SystemClock};
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::verify::Found;
use crate::{output, render};

/// What was found and done. Nothing was done where nothing is damaged.
#[derive(Serialize)]
pub(crate) struct Answer {
    pub(crate) store: String,
    /// True if the store was damaged.
    pub(crate) repaired: bool,
    /// The last frame number that was given: the next write gets the one after it.
    pub(crate) frame: u64,
    /// How many frames are gone, and which.
    pub(crate) frames_lost: u64,
    pub(crate) lost: Vec<Lost>,
    /// Files that were built anew or taken out of the log.
    pub(crate) files: Vec<File>,
    /// The damage that was found, as `verify` shows it.
    pub(crate) findings: Vec<Found>,
}

/// A range of frames that are gone, both ends included.
#[derive(Serialize)]
pub(crate) struct Lost {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// One file that was changed.
#[derive(Serialize)]
pub(crate) struct File {
    /// A path in the store.
    pub(crate) file: String,
    /// The path of the copy of what it was; null for a file that was missing.
    pub(crate) copy: Option<String>,
    /// Bytes of an unclean end that were left out; they were never acknowledged.
    pub(crate) cut_bytes: u64,
}

/// Runs the verb.
pub(crate) fn run(context: &Context) -> Result<Exit> {
    let path = context.store_path();
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(path).map_err(|e| Error::io("finding", path, e))?);
    let bar = output::progress("repair", None);
    let repaired = log::repair(&disk, context.lock_wait(), false, SystemClock.now());
    bar.finish_and_clear();
    let answer = Answer::new(path.display().to_string(), repaired?);
    context.out.answer(&answer, render::repaired)?;
    Ok(Exit::Done)
}

impl Answer {
    fn new(store: String, repaired: Repaired) -> Answer {
        let lost: Vec<Lost> =
            repaired.lost.iter().map(|range| Lost { first: range.first.0, last: range.last.0 }).collect();
        let file = |file: log::Rewritten| File {
            file: file.file,
            copy: file.quarantine.map(|name| format!("quarantine/{name}")),
            cut_bytes: file.cut_bytes,
        };
        Answer {
            store,
            repaired: !repaired.damage.is_empty(),
            frame: repaired.last.0,
            frames_lost: lost.iter().map(|range| range.last - range.first + 1).sum(),
            lost,
            files: repaired.rewritten.into_iter().map(file).collect(),
            findings: repaired.damage.iter().map(Found::from).collect(),
        }
    }
}
