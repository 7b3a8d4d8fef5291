//! `vector upsert`, `search`, `get`, `delete`, `history`, `restore`: texts that are found by similarity.

use anyhow::Result;
use clap::Subcommand;
use mnemolog::view::vectors::filter::Filter;
use mnemolog::{Error, Json};

use crate::answer::{HitAnswer, RowAnswer, Sought, Written};
use crate::context::{At, AtArg, Context};
use crate::exit::Exit;
use crate::history::{self, Shown};
use crate::render;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Save a text, or overwrite the one under the id
    Upsert {
        /// The table's name
        name: String,
        /// Names the row
        id: String,
        /// What is embedded, by a stub that knows words and no meaning
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        text: String,
        /// What is stored with it; the fields of an object can be filtered on
        #[arg(long, value_name = "JSON", value_parser = Json::parse, allow_hyphen_values = true)]
        metadata: Option<Json>,
        /// Your own vector, an array of numbers, instead of the stub's
        #[arg(long, value_name = "JSON", value_parser = floats)]
        embedding: Option<Floats>,
    },
    /// Print the rows nearest to a text, best first; the default embedder is a stub: word overlap, no meaning
    Search {
        /// The table's name
        name: String,
        /// The text
        #[arg(allow_hyphen_values = true)]
        query: String,
        /// The most rows
        #[arg(short, value_name = "N", default_value_t = 10)]
        k: usize,
        /// Only rows whose metadata has all fields of this object, with equal values
        #[arg(long, value_name = "JSON", value_parser = filter)]
        filter: Option<Filter>,
        #[command(flatten)]
        at: AtArg,
    },
    /// Print a row
    Get {
        /// The table's name
        name: String,
        /// The row's id
        id: String,
        #[command(flatten)]
        at: AtArg,
    },
    /// Delete a row from now on; its history stays
    Delete {
        /// The table's name
        name: String,
        /// The row's id
        id: String,
    },
    /// Print every version of a row, newest first, also of a deleted one
    History {
        /// The table's name
        name: String,
        /// The row's id
        id: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// Bring a row back to its state at a moment; history stays
    Restore {
        /// The table's name
        name: String,
        /// The row's id
        id: String,
        /// The moment: a frame, or a time (RFC 3339)
        #[arg(value_name = "FRAME|TIME")]
        to: At,
    },
}

/// A vector; a type of its own, because `clap` reads a `Vec` as several values.
#[derive(Clone, Debug)]
pub(crate) struct Floats(Vec<f32>);

/// Runs a verb.
pub(crate) fn run(verb: Verb, context: &Context) -> Result<Exit> {
    match verb {
        Verb::Upsert { name, id, text, metadata, embedding } => {
            let metadata = metadata.unwrap_or_else(Json::object);
            upsert(context, (&name, &id), &text, &metadata, embedding)
        }
        Verb::Search { name, query, k, filter, at } => {
            let table = context.read(at)?.workspace.vectors(&name)?;
            let hits = table.search_where(&query, k, filter.as_ref())?;
            let hits = hits.into_iter().map(HitAnswer::new).collect::<Result<Vec<_>>>()?;
            context.out.list(&hits, render::hit, render::NO_MATCHES)?;
            Ok(Exit::Done)
        }
        Verb::Get { name, id, at } => get(context, &name, &id, at),
        Verb::Delete { name, id } => delete(context, &name, &id),
        Verb::History { name, id, shown } => history::of_row(context, &name, &id, &shown),
        Verb::Restore { name, id, to } => history::restore_row(context, &name, &id, to),
    }
}

fn upsert(
    context: &Context,
    (name, id): (&str, &str),
    text: &str,
    metadata: &Json,
    embedding: Option<Floats>,
) -> Result<Exit> {
    context.check_handle(name)?;
    let writing = context.write()?;
    let table = writing.workspace.vectors(name)?;
    match embedding {
        Some(Floats(embedding)) => table.upsert_embedding(id, text, metadata, &embedding)?,
        None => table.upsert(id, text, metadata)?,
    }
    let answer = Written::new(id, writing.store.appended(), render::saved(id));
    writing.close(&context.out);
    context.out.answer(&answer, |answer| answer.text.clone())?;
    Ok(Exit::Done)
}

fn get(context: &Context, name: &str, id: &str, at: AtArg) -> Result<Exit> {
    let table = context.read(at)?.workspace.vectors(name)?;
    match table.get(id)? {
        Some(row) => {
            context.out.answer(&RowAnswer::new(row)?, render::row)?;
            Ok(Exit::Done)
        }
        None => absent(context, id),
    }
}

fn delete(context: &Context, name: &str, id: &str) -> Result<Exit> {
    context.check_handle(name)?;
    let writing = context.write_existing()?;
    let deleted = writing.workspace.vectors(name)?.delete(id);
    writing.close(&context.out);
    match deleted {
        Ok(()) => {
            let answer = Sought { key: id, found: true, text: render::deleted(id) };
            context.out.answer(&answer, |answer| answer.text.clone())?;
            Ok(Exit::Done)
        }
        Err(Error::NotFound { .. }) => absent(context, id),
        Err(error) => Err(error.into()),
    }
}

fn absent(context: &Context, id: &str) -> Result<Exit> {
    let answer = Sought { key: id, found: false, text: render::absent(id) };
    context.out.answer(&answer, |answer| answer.text.clone())?;
    Ok(Exit::Refused)
}

fn floats(text: &str) -> Result<Floats, String> {
    let floats = serde_json::from_str(text);
    floats.map(Floats).map_err(|bad| format!("expected a JSON array of numbers ({bad})"))
}

fn filter(text: &str) -> Result<Filter> {
    Ok(Filter::parse(&Json::parse(text)?)?)
}
