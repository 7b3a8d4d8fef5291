//! `backup`: a copy of the store, brought up to date.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use mnemolog::disk::FileDisk;
use serde::Serialize;

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::render;

/// Where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The backup's directory: missing, empty, or an earlier backup of the same store
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Read every byte of the backup afterwards, also what was copied before
    #[arg(long)]
    verify: bool,
}

/// The receipt.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// The backup's directory, absolute.
    pub(crate) backup: String,
    /// 32 hexadecimal digits, the same as the store's.
    pub(crate) store_id: String,
    /// The last frame in the backup.
    pub(crate) frame: u64,
    /// Files of its log, and the bytes of them that are in use.
    pub(crate) segments: usize,
    pub(crate) used: u64,
    pub(crate) copied_files: usize,
    pub(crate) copied_bytes: u64,
    /// Files that the backup had and the store has no more.
    pub(crate) replaced_files: usize,
    /// Whether every byte was read afterwards.
    pub(crate) verified: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let store = context.open_read_only()?;
    let dir = std::path::absolute(&args.dir)
        .with_context(|| format!("the path {} cannot be made absolute", args.dir.display()))?;
    let made = store.backup(&dir)?;
    if args.verify {
        verify(&dir)?;
    }
    let answer = Answer {
        backup: dir.display().to_string(),
        store_id: made.store.to_string(),
        frame: made.frame.0,
        segments: made.files,
        used: made.bytes,
        copied_files: made.copied_files,
        copied_bytes: made.copied_bytes,
        replaced_files: made.replaced_files,
        verified: args.verify,
    };
    context.out.answer(&answer, render::imported::backed_up)?;
    Ok(Exit::Done)
}

fn verify(dir: &std::path::Path) -> Result<()> {
    let disk = FileDisk::new(dir).with_context(|| format!("finding {} failed", dir.display()))?;
    let report = mnemolog::log::verify(&disk)?;
    if report.is_whole() {
        return Ok(());
    }
    let sentence = format!("the backup {} is damaged; remove it and make a new one", dir.display());
    Err(Refusal::new(Exit::Damaged, sentence).into())
}
