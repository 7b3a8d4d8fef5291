//! `episodic record`, `recent`, `search`, `clear`, `configure`: what happened, in order.

use anyhow::Result;
use clap::Subcommand;
use mnemolog::Json;
use mnemolog::view::episodic::Episode;

use crate::answer::{EpisodeAnswer, Written};
use crate::context::{AtArg, Context};
use crate::exit::Exit;
use crate::render;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Record an episode now
    Record {
        /// The ring's name
        name: String,
        /// Names the episode; keys may repeat
        key: String,
        /// What happened: any JSON value
        #[arg(value_name = "VALUE_JSON", value_parser = Json::parse, allow_negative_numbers = true)]
        value: Json,
    },
    /// Print the last episodes, newest first
    Recent {
        /// The ring's name
        name: String,
        /// The most episodes
        #[arg(short, value_name = "N", default_value_t = 10)]
        n: usize,
        #[command(flatten)]
        at: AtArg,
    },
    /// Print the episodes whose key begins with a text, in the order in which they were recorded
    Search {
        /// The ring's name
        name: String,
        /// How the key begins
        prefix: String,
        #[command(flatten)]
        at: AtArg,
    },
    /// Delete all episodes from now on; their history stays
    Clear {
        /// The ring's name
        name: String,
    },
    /// Set how many episodes the ring holds; beyond that the oldest go
    Configure {
        /// The ring's name
        name: String,
        /// The most episodes, at least 1
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        max: u64,
    },
}

/// Runs a verb.
pub(crate) fn run(verb: Verb, context: &Context) -> Result<Exit> {
    match verb {
        Verb::Record { name, key, value } => {
            context.check_handle(&name)?;
            let writing = context.write()?;
            writing.workspace.episodic(&name)?.record(&key, &value)?;
            let answer = Written::new(&*key, writing.store.appended(), render::recorded(&key));
            writing.close(&context.out);
            context.out.answer(&answer, |answer| answer.text.clone())?;
        }
        Verb::Recent { name, n, at } => {
            show(context, context.read(at)?.workspace.episodic(&name)?.recent(n)?)?;
        }
        Verb::Search { name, prefix, at } => {
            show(context, context.read(at)?.workspace.episodic(&name)?.search_by_key(&prefix)?)?;
        }
        Verb::Clear { name } => {
            context.check_handle(&name)?;
            let writing = context.write_existing()?;
            writing.workspace.episodic(&name)?.clear()?;
            let answer = Written::new(None, writing.store.appended(), render::cleared(&name));
            writing.close(&context.out);
            context.out.answer(&answer, |answer| answer.text.clone())?;
        }
        Verb::Configure { name, max } => {
            context.check_handle(&name)?;
            let writing = context.write()?;
            writing.workspace.episodic(&name)?.with_max(max)?;
            let answer = Written::new(None, writing.store.appended(), render::ring(&name, max));
            writing.close(&context.out);
            context.out.answer(&answer, |answer| answer.text.clone())?;
        }
    }
    Ok(Exit::Done)
}

fn show(context: &Context, episodes: Vec<Episode>) -> Result<()> {
    let episodes = episodes.into_iter().map(EpisodeAnswer::new).collect::<Result<Vec<_>>>()?;
    context.out.list(&episodes, render::episode, render::NO_EPISODES)
}
