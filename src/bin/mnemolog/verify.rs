//! `verify`: every byte of the store, and whether what is folded from it is what a fresh opening shows.

use std::path::Path;

use anyhow::Result;
use mnemolog::{Error, Store};
use serde::Serialize;

use crate::answer::hex;
use crate::context::Context;
use crate::exit::{Exit, exit_for};
use crate::render;

/// What was found.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) store: String,
    /// True if nothing is damaged; an unclean end is no damage.
    pub(crate) whole: bool,
    /// The last frame that can be read.
    pub(crate) frame: u64,
    /// Files of the log, their bytes, and those of them in use.
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
    pub(crate) used: u64,
    /// Of the state at that frame; null where it cannot be read.
    pub(crate) digest: Option<String>,
    /// What is wrong, one sentence each.
    pub(crate) damage: Vec<String>,
    /// Bytes of an unclean end, which the next write sets aside.
    pub(crate) unclean_bytes: u64,
}

/// Runs the verb.
pub(crate) fn run(context: &Context) -> Result<Exit> {
    let report = report(context.store_path())?;
    context.out.answer(&report, render::verified)?;
    Ok(if report.whole { Exit::Done } else { Exit::Damaged })
}

/// Opens the store at a path, which checks every frame, and folds it again.
pub(crate) fn report(path: &Path) -> Result<Report> {
    let store = Store::open_read_only(path)?;
    let (recovery, size) = (store.recovery(), store.log_size());
    let mut damage: Vec<String> = recovery.damage.iter().map(ToString::to_string).collect();
    let digest = match digests(&store) {
        Ok((live, folded)) => {
            if live != folded {
                damage.push(render::digests_differ(&hex(live), &hex(folded)));
            }
            Some(hex(live))
        }
        Err(error) => {
            let error = anyhow::Error::from(error);
            if exit_for(&error) != Exit::Damaged {
                return Err(error);
            }
            damage.push(error.to_string());
            None
        }
    };
    Ok(Report {
        store: store.path().display().to_string(),
        whole: damage.is_empty(),
        frame: store.appended().0,
        segments: size.segments,
        bytes: size.bytes,
        used: size.used,
        digest,
        damage,
        unclean_bytes: recovery.cut.as_ref().map_or(0, |cut| cut.len_bytes),
    })
}

/// Of the state that opening folded, and of one folded from the beginning now.
fn digests(store: &Store) -> Result<(u128, u128), Error> {
    Ok((store.digest()?, store.at(store.appended())?.digest()?))
}
