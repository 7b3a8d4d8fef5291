//! `mcp config`: what a client's configuration needs so that it starts this server, printed or written there.
//!
//! Owns the command that a client runs, with absolute paths. `clients` knows where each client keeps its
//! configuration, `edit` how a file is changed without touching anything else in it.

mod clients;
mod edit;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use mnemolog::Store;
use mnemolog::tools::{Choice, Toolbox};
use serde::Serialize;

use super::{Offer, chosen};
use crate::context::{Context, LOCK_WAIT};
use crate::exit::{Exit, Refusal};
use crate::render;
use clients::Client;

/// The verb.
#[derive(Debug, Args)]
pub(super) struct Config {
    /// The client
    client: Client,

    /// Merge it into the client's configuration, after a copy of the file was made
    #[arg(long)]
    write: bool,

    /// The configuration's file [default: the one that the client reads for this user]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// The server's name there
    #[arg(long, value_name = "NAME", default_value = "mnemolog", value_parser = name)]
    name: String,

    #[command(flatten)]
    offer: Offer,
}

/// How a client starts the server.
struct Command {
    program: String,
    args: Vec<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    client: String,
    file: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    snippet: Option<String>,
    written: bool,
    backup: Option<PathBuf>,
}

/// Runs the verb.
pub(super) fn run(config: &Config, context: &Context) -> Result<Exit> {
    check(&config.offer)?;
    let command = command(&config.offer, context)?;
    let place = config.client.place()?;
    let file = config.file.as_ref().unwrap_or(&place.file);
    let file = std::path::absolute(file)
        .with_context(|| format!("the path {} cannot be made absolute", file.display()))?;
    let entry = edit::Entry { place: &place, name: &config.name, command: &command };
    let client = config.client.name();
    if !config.write {
        let snippet = entry.merged("")?.text;
        let answer = Answer { client, file: &file, snippet: Some(snippet), written: false, backup: None };
        context.out.answer(&answer, |answer| answer.snippet.clone().unwrap_or_default())?;
        context.out.note(&format!("this belongs in {}; --write merges it there", file.display()));
        return Ok(Exit::Done);
    }
    let written = edit::write(&entry, &file)?;
    let text = match &written {
        None => render::mcp::configured_already(&file),
        Some(written) => render::mcp::configured(&file, written.backup.as_deref(), written.replaced),
    };
    let answer = Answer {
        client,
        file: &file,
        snippet: None,
        written: written.is_some(),
        backup: written.and_then(|written| written.backup),
    };
    context.out.answer(&answer, |_| text)?;
    Ok(Exit::Done)
}

/// Whether a server can offer that.
///
/// # Errors
/// The server's own, for a tool that is not there.
fn check(offer: &Offer) -> Result<()> {
    let mut tools = Toolbox::new(&Store::in_memory()?.root());
    if offer.read_only {
        tools = chosen(tools, Choice::ReadOnly)?;
    }
    if !offer.tools.is_empty() {
        chosen(tools, Choice::Names(offer.tools.clone()))?;
    }
    Ok(())
}

/// This program, and what makes it serve this store.
fn command(offer: &Offer, context: &Context) -> Result<Command> {
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let mut args = vec!["--store".to_owned(), utf8(context.store_path())?];
    if !context.workspace().as_str().is_empty() {
        args.extend(["--workspace".to_owned(), context.workspace().as_str().to_owned()]);
    }
    if context.lock_wait() != LOCK_WAIT {
        args.extend(["--lock-wait".to_owned(), context.lock_wait().as_secs().to_string()]);
    }
    args.push("mcp".to_owned());
    if offer.read_only {
        args.push("--read-only".to_owned());
    }
    if !offer.tools.is_empty() {
        args.extend(["--tools".to_owned(), offer.tools.join(",")]);
    }
    if let Some(origin) = &offer.origin {
        args.extend(["--origin".to_owned(), origin.clone()]);
    }
    Ok(Command { program: utf8(&program)?, args })
}

fn utf8(path: &Path) -> Result<String> {
    path.to_str().map(String::from).ok_or_else(|| {
        let sentence = format!("{} is no UTF-8, which a configuration must be", path.display());
        Refusal::new(Exit::Refused, sentence).into()
    })
}

/// A name that every client takes.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if text.is_empty() || text.len() > 64 || !text.chars().all(fits) {
        return Err("expected up to 64 letters, digits, `-` and `_`".to_owned());
    }
    Ok(text.to_owned())
}
