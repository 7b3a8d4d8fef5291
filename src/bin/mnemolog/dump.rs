//! `dump` and `replay --dump-json`: the log as JSON lines.

use anyhow::Result;
use mnemolog::interchange::{self, DumpError, DumpOptions};
use mnemolog::{Frame, Store};

use crate::context::{AtArg, Context};
use crate::exit::Exit;
use crate::output;

/// How far.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    at: AtArg,
}

/// Writes every delta of the log.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let store = context.open_read_only()?;
    let up_to = args.at.at.map(|at| context.frames(&store, [at]).map(|[frame]| frame)).transpose()?;
    match interchange::dump(&store, &mut context.out.writer(), DumpOptions { up_to }) {
        Ok(_) => Ok(Exit::Done),
        Err(DumpError::Store(error)) => Err(error.into()),
        Err(DumpError::Output(error)) => Err(output::failure(error)),
    }
}

/// Writes every event up to a frame, then a snapshot of every handle.
pub(crate) fn events(store: &Store, up_to: Frame, context: &Context) -> Result<Exit> {
    let mut line = Vec::new();
    interchange::events(store, Some(up_to), &mut |event| -> Result<()> {
        line.clear();
        event.write_to(&mut line)?;
        line.push(b'\n');
        context.out.raw(&line)
    })?;
    Ok(Exit::Done)
}
