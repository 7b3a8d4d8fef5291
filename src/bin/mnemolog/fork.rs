//! `fork`: another store as of a frame.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::context::{AtArg, Context};
use crate::exit::Exit;
use crate::render;

/// Where to, and as of when.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The new store's directory, which must be missing or empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    at: AtArg,
}

/// The store that was made.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// Its directory, absolute.
    pub(crate) store: String,
    /// 32 hexadecimal digits.
    pub(crate) store_id: String,
    /// Its last frame.
    pub(crate) frame: u64,
    /// Files of its log.
    pub(crate) segments: usize,
    /// Bytes of them that are in use.
    pub(crate) used: u64,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let store = context.open_read_only()?;
    let at = args.at.at.map(|at| context.frames(&store, [at]).map(|[frame]| frame)).transpose()?;
    let dir = std::path::absolute(&args.dir)
        .with_context(|| format!("the path {} cannot be made absolute", args.dir.display()))?;
    let forked = store.fork(&dir, at.unwrap_or_else(|| store.appended()))?;
    let answer = Answer {
        store: dir.display().to_string(),
        store_id: forked.store.to_string(),
        frame: forked.frame.0,
        segments: forked.files,
        used: forked.bytes,
    };
    context.out.answer(&answer, render::tail::forked)?;
    Ok(Exit::Done)
}
