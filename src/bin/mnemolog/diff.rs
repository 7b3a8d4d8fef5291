//! `diff`: what was added, changed and removed between two moments, handle by handle.

use anyhow::Result;
use mnemolog::codec::delta::Config;
use mnemolog::view::diff::{Content, HandleDiff};
use serde::Serialize;

use crate::answer::{EpisodeAnswer, NoteAnswer, RowAnswer};
use crate::context::{At, Context};
use crate::exit::Exit;
use crate::render;

/// Two moments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The moment to begin with: a frame, or a time (RFC 3339)
    #[arg(value_name = "FRAME|TIME")]
    a: At,
    /// The moment to compare with it
    #[arg(value_name = "FRAME|TIME")]
    b: At,
}

/// One difference.
#[derive(Serialize)]
pub(crate) struct Difference {
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    /// Key, id or label; null for a configuration.
    pub(crate) item: Option<String>,
    /// `added`, `changed` or `removed`; `configured` for a configuration.
    pub(crate) change: &'static str,
    /// What was there; null if nothing was.
    pub(crate) before: Option<Side>,
    /// What is there; null if nothing is.
    pub(crate) after: Option<Side>,
}

/// One side of a difference.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Side {
    Note(NoteAnswer),
    Row(RowAnswer),
    Episode(EpisodeAnswer),
    Entry(Entry),
    Setting(Option<String>),
}

/// A scratchpad entry.
#[derive(Serialize)]
pub(crate) struct Entry {
    pub(crate) label: String,
    pub(crate) content: String,
    pub(crate) tokens: u32,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let store = context.open_read_only()?;
    let [a, b] = context.frames(&store, [args.a, args.b])?;
    let differences = differences(store.diff(a, b)?.handles)?;
    if context.out.is_json() {
        differences.iter().try_for_each(|difference| context.out.object(difference))?;
    } else {
        context.out.text(&render::changes::differences(&differences, context.out.is_styled()))?;
    }
    Ok(Exit::Done)
}

/// The differences one by one, a handle's configuration before its items.
pub(crate) fn differences(handles: Vec<HandleDiff>) -> Result<Vec<Difference>> {
    let mut differences = Vec::new();
    for HandleDiff { handle, config, items } in handles {
        let difference = |item, change, before, after| Difference {
            kind: handle.kind.name(),
            id: handle.id.to_string(),
            item,
            change,
            before,
            after,
        };
        if let Some((before, after)) = config {
            differences.push(difference(None, "configured", Some(setting(&before)), Some(setting(&after))));
        }
        for item in items {
            let before = item.before.map(side).transpose()?;
            let after = item.after.map(side).transpose()?;
            differences.push(difference(Some(item.item), item.change.name(), before, after));
        }
    }
    Ok(differences)
}

fn side(content: Content) -> Result<Side> {
    Ok(match content {
        Content::Note(note) => Side::Note(NoteAnswer::new(note)?),
        Content::Row(row) => Side::Row(RowAnswer::new(row)?),
        Content::Episode(episode) => Side::Episode(EpisodeAnswer::new(episode)?),
        Content::Entry { label, content, tokens } => Side::Entry(Entry { label, content, tokens }),
    })
}

fn setting(config: &Config<'_>) -> Side {
    Side::Setting(match config {
        Config::Notes => None,
        Config::Vector(identity) => identity.as_ref().map(|identity| {
            format!("embedder {} ({}, {} floats)", identity.name, identity.model, identity.dim)
        }),
        Config::Episodic(max) => max.map(|max| format!("max {max}")),
        Config::Working(budget) => budget.map(|budget| format!("budget {budget}")),
    })
}

impl Side {
    /// All of it that a person reads, as lines.
    pub(crate) fn whole(&self) -> String {
        match self {
            Side::Note(note) => match &note.summary {
                Some(summary) => format!("summary: {}\n{}", render::line(summary), note.text),
                None => note.text.clone(),
            },
            Side::Row(row) => render::changes::row_text(row),
            Side::Episode(episode) => episode.value.get().to_owned(),
            Side::Entry(entry) => entry.content.clone(),
            Side::Setting(setting) => setting.clone().unwrap_or_else(|| "not configured".to_owned()),
        }
    }

    /// The frame that brought it, where that is told.
    pub(crate) fn frame(&self) -> Option<u64> {
        match self {
            Side::Note(note) => Some(note.frame),
            Side::Row(row) => Some(row.frame),
            Side::Episode(episode) => Some(episode.frame),
            Side::Entry(_) | Side::Setting(_) => None,
        }
    }
}
