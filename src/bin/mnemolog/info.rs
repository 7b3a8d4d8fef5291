//! `info`: where the store is, how large, and what is in it.

use std::collections::BTreeSet;

use anyhow::Result;
use mnemolog::codec::segment::FORMAT_VERSION;
use serde::Serialize;

use crate::answer;
use crate::checkpoint::{self, Checkpoint};
use crate::compact;
use crate::context::{AtArg, Context};
use crate::exit::Exit;
use crate::render;

/// What to tell of.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    at: AtArg,
}

/// A store in numbers.
#[derive(Serialize)]
pub(crate) struct Info {
    /// The directory, absolute.
    pub(crate) store: String,
    /// 32 hexadecimal digits.
    pub(crate) store_id: String,
    /// The last frame.
    pub(crate) frame: u64,
    /// Its time; null in an empty store.
    pub(crate) time: Option<String>,
    /// The last frame known durable.
    pub(crate) durable: u64,
    /// The oldest frame that can be looked at; 0 if the store was never compacted.
    pub(crate) oldest: u64,
    /// How much history the store keeps; null if it keeps everything.
    pub(crate) policy: Option<String>,
    /// Files of the log.
    pub(crate) segments: usize,
    /// Their bytes, reserved space included.
    pub(crate) bytes: u64,
    /// Those of them that are in use.
    pub(crate) used: u64,
    /// States that were saved, from which opening and looks into the past begin.
    pub(crate) checkpoints: Vec<Checkpoint>,
    /// The version of the format.
    pub(crate) format: u32,
    /// The damage beyond which nothing is served, as a sentence.
    pub(crate) damage: Option<String>,
    /// Bytes of an unclean end, which the next write cuts and keeps a copy of.
    pub(crate) unclean_bytes: u64,
    /// Paths of the workspaces in use; the root is the empty one.
    pub(crate) workspaces: Vec<String>,
    /// The handles in use: at the frame `at`.
    pub(crate) handles: Vec<Handle>,
    /// The frame that workspaces and handles are of.
    pub(crate) at: u64,
}

/// A handle in use.
#[derive(Serialize)]
pub(crate) struct Handle {
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) len: usize,
}

/// Runs the verb.
pub(crate) fn run(args: Args, context: &Context) -> Result<Exit> {
    let reading = context.read(args.at)?;
    let store = &reading.store;
    let (size, recovery) = (store.log_size(), store.recovery());
    let handles = reading.past.as_ref().map_or_else(|| store.handles(), |past| past.handles());
    let workspace = |id: &str| id.rsplit_once('/').map_or("", |(path, _)| path).to_owned();
    let workspaces: BTreeSet<String> = handles.iter().map(|(handle, _)| workspace(&handle.id)).collect();
    let handle = |(handle, len): (mnemolog::view::HandleId, usize)| Handle {
        kind: handle.kind.name(),
        id: handle.id.to_string(),
        len,
    };
    let info = Info {
        store: store.path().display().to_string(),
        store_id: store.id().to_string(),
        frame: store.appended().0,
        time: answer::time(store.last_time()),
        durable: store.durable().0,
        oldest: store.oldest().0,
        policy: compact::text(store.retention()?),
        segments: size.segments,
        bytes: size.bytes,
        used: size.used,
        checkpoints: checkpoint::all(store.checkpoints()),
        format: FORMAT_VERSION,
        damage: recovery.damage.as_ref().map(ToString::to_string),
        unclean_bytes: recovery.cut.as_ref().map_or(0, |cut| cut.len_bytes),
        workspaces: workspaces.into_iter().collect(),
        handles: handles.into_iter().map(handle).collect(),
        at: reading.past.as_ref().map_or(store.appended(), |past| past.frame()).0,
    };
    context.out.answer(&info, render::info)?;
    Ok(Exit::Done)
}
