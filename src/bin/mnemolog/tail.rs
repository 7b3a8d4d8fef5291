//! `tail`: what was written last, and what is written while it runs.
//!
//! Frames are handed on whole, each with one write, once they are durable. Whoever was interrupted goes on with
//! `--from` and the last frame that was seen.

use std::time::Duration;

use anyhow::Result;
use mnemolog::interchange::Line;
use mnemolog::{Error, Frame, Store, Tail, TailEvent};
use serde::Serialize;

use crate::context::{At, Context};
use crate::exit::Exit;
use crate::render;
use crate::repair::Lost;

/// How long a wait goes on before it is looked whether anybody still reads.
const LOOK: Duration = Duration::from_millis(200);

/// Where to begin, and whether to stay.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Begin behind this frame, such as the last one that was seen, or behind a time (RFC 3339)
    #[arg(long, value_name = "FRAME|TIME")]
    from: Option<At>,
    /// Begin with the last N frames
    #[arg(short = 'n', long = "last", value_name = "N", default_value_t = 10, conflicts_with = "from")]
    last: u64,
    /// End behind what is there instead of waiting for more
    #[arg(long)]
    no_follow: bool,
}

/// Frames that a repair had to give up.
#[derive(Serialize)]
struct LostLine {
    lost: Lost,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let store = context.open_read_only()?;
    let mut tail = begin(args, context, &store)?;
    // A damaged store serves what is before the damage, and more may come once it is repaired.
    let wait = if args.no_follow { Duration::ZERO } else { LOOK };
    loop {
        match tail.next_within(wait)? {
            Some(event) => {
                show(&event, context)?;
                context.out.flush()?;
            }
            None if args.no_follow || context.out.is_closed() => return Ok(Exit::Done),
            None => {}
        }
    }
}

fn begin(args: &Args, context: &Context, store: &Store) -> Result<Tail> {
    if let Some(at) = args.from {
        let [from] = context.frames(store, [at])?;
        return Ok(store.tail(from)?);
    }
    match store.tail(Frame(store.durable().0.saturating_sub(args.last))) {
        // Fewer are left.
        Err(Error::Compacted { oldest }) => Ok(store.tail(oldest)?),
        begun => Ok(begun?),
    }
}

fn show(event: &TailEvent, context: &Context) -> Result<()> {
    let frame = match event {
        TailEvent::Frame(frame) => frame,
        TailEvent::Lost { first, last } => {
            let lost = LostLine { lost: Lost { first: first.0, last: last.0 } };
            return context.out.answer(&lost, |lost| render::tail::lost(&lost.lost));
        }
    };
    if !context.out.is_json() {
        return context.out.text(&render::tail::frame(frame));
    }
    let mut text = Vec::new();
    for line in frame.lines() {
        Line::write_to(&line, &mut text)?;
        text.push(b'\n');
    }
    context.out.raw(&text)
}
