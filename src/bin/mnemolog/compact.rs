//! `compact`: drops the history before a moment, on demand or by the policy that lies in the store.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use mnemolog::{Compaction, Frame, Retention, Store, Time};
use serde::Serialize;

use crate::context::{At, Context};
use crate::exit::Exit;
use crate::{output, render};

/// What to drop.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["before", "policy", "set_policy"]))]
pub(crate) struct Args {
    /// Drop the frames before this one, or those that are older than this time (RFC 3339)
    #[arg(long, value_name = "FRAME|TIME")]
    before: Option<At>,

    /// Drop what the store's policy does not keep
    #[arg(long)]
    policy: bool,

    /// Set how much history the store keeps: 30d, 12h, 90m, 45s or 1000frames; none keeps all. Drops nothing yet
    #[arg(long, value_name = "POLICY", conflicts_with = "dry_run")]
    set_policy: Option<Policy>,

    /// Change nothing, and say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// How much history a store keeps, as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy(pub(crate) Option<Retention>);

/// What was done, or would be.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// True if history was dropped.
    pub(crate) done: bool,
    pub(crate) dry_run: bool,
    /// The oldest frame that can be looked at, and how many cannot any more.
    pub(crate) oldest: u64,
    pub(crate) frames: u64,
    /// Files of the log that go or are built anew.
    pub(crate) files: usize,
    /// Bytes of the state that takes the place of what is dropped, and of the kept frames.
    pub(crate) base_bytes: u64,
    pub(crate) kept_bytes: u64,
    /// Bytes of the log in use.
    pub(crate) used_before: u64,
    pub(crate) used_after: u64,
    /// Bytes of free space that it takes meanwhile.
    pub(crate) needs_bytes: u64,
    /// The store's policy; null if it keeps everything.
    pub(crate) policy: Option<String>,
}

/// The policy that was set.
#[derive(Serialize)]
pub(crate) struct PolicyAnswer {
    pub(crate) policy: Option<String>,
}

/// What policies count, the largest first, with the microseconds that a unit of time is.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("us", 1)];
const FRAMES: &str = "frames";

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        if text == "none" {
            return Ok(Policy(None));
        }
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let number = number.parse::<u64>().ok();
        let micros = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, micros)| *micros);
        let policy = match (number, micros) {
            (Some(number), None) if unit == FRAMES => Some(Retention::Frames(number)),
            (Some(number), Some(micros)) => {
                number.checked_mul(micros).map(|micros| Retention::Duration(Duration::from_micros(micros)))
            }
            _ => None,
        };
        policy.map(|policy| Policy(Some(policy))).ok_or_else(|| {
            "expected a number and d, h, m, s or frames, such as 30d or 1000frames, or none".to_owned()
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(Retention::Frames(count)) => write!(f, "{count}{FRAMES}"),
            Some(Retention::Duration(time)) => {
                let micros = time.as_micros();
                let fits = |(_, unit): &&(&str, u64)| micros.is_multiple_of(u128::from(*unit));
                let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("us", 1));
                write!(f, "{}{name}", micros / u128::from(*unit))
            }
        }
    }
}

/// A store's policy as text; none if it keeps everything.
pub(crate) fn text(policy: Option<Retention>) -> Option<String> {
    policy.map(|policy| Policy(Some(policy)).to_string())
}

/// Runs the verb.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    if let Some(Policy(policy)) = args.set_policy {
        let writing = context.write_existing()?;
        writing.store.set_retention(policy)?;
        writing.close(&context.out);
        context.out.answer(&PolicyAnswer { policy: text(policy) }, render::compact::policy)?;
        return Ok(Exit::Done);
    }
    if args.dry_run {
        let store = context.open_read_only()?;
        return answer(args, context, &store, compact(args, context, &store)?);
    }
    let writing = context.write_existing()?;
    let bar = output::progress("compact", None);
    let done = compact(args, context, &writing.store);
    bar.finish_and_clear();
    let exit = answer(args, context, &writing.store, done?)?;
    writing.close(&context.out);
    Ok(exit)
}

fn compact(args: &Args, context: &Context, store: &Store) -> Result<Compaction> {
    let Some(before) = args.before else { return Ok(store.compact_by_policy(args.dry_run)?) };
    let before = match before {
        At::Frame(frame) => frame,
        // A frame of that very time is kept.
        At::Time(time) => match time.as_micros().checked_sub(1).and_then(Time::from_micros) {
            Some(until) => {
                let [last] = context.frames(store, [At::Time(until)])?;
                last.next().unwrap_or(last)
            }
            None => Frame::ZERO,
        },
    };
    Ok(store.compact(before, args.dry_run)?)
}

fn answer(args: &Args, context: &Context, store: &Store, compaction: Compaction) -> Result<Exit> {
    let Compaction { done, oldest, frames, files, base_bytes, kept_bytes, .. } = compaction;
    let Compaction { used_before, used_after, needs_bytes, .. } = compaction;
    let answer = Answer {
        done,
        dry_run: args.dry_run,
        oldest: oldest.0,
        frames,
        files,
        base_bytes,
        kept_bytes,
        used_before,
        used_after,
        needs_bytes,
        policy: text(store.retention()?),
    };
    context.out.answer(&answer, render::compact::compacted)?;
    Ok(Exit::Done)
}
