//! `remember`, `recall`, `forget`, `list`, `search`, `index-note`, `history`, `restore`: the notes of a workspace.

use std::io::{self, IsTerminal, Read};

use anyhow::{Context as _, Result};
use clap::Subcommand;
use mnemolog::handle::Forgotten;
use mnemolog::{Error, Frame, Limits};
use serde::Serialize;

use crate::answer::{MatchAnswer, NoteAnswer, Sought, Text, Written};
use crate::context::{At, AtArg, Context};
use crate::exit::{Exit, Refusal};
use crate::history::{self, Shown};
use crate::render;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Save a note, or overwrite the one under the key
    Remember {
        /// Any text, such as user/name
        key: String,
        /// One line for the prompt
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        summary: String,
        /// The note itself, kept as it is [default: read from standard input]
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        body: Option<String>,
        /// Only if the note is the one that this frame saved; 0 if there is none [default: in any case]
        #[arg(long, value_name = "FRAME")]
        if_frame: Option<u64>,
    },
    /// Print a note in full
    Recall {
        /// Its key
        key: String,
        #[command(flatten)]
        at: AtArg,
    },
    /// Delete a note from now on; its history stays
    Forget {
        /// Its key
        key: String,
    },
    /// Print key and summary of every note
    List {
        #[command(flatten)]
        at: AtArg,
    },
    /// Print the notes that hold a text in key, summary or body; case does not count
    Search {
        /// A plain text; the empty one is in every note
        #[arg(allow_hyphen_values = true)]
        pattern: String,
        #[command(flatten)]
        at: AtArg,
    },
    /// Print every version of a note, newest first, also of a deleted one
    History {
        /// Its key
        key: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// Bring a note back to its state at a moment; history stays
    Restore {
        /// Its key
        key: String,
        /// The moment: a frame, or a time (RFC 3339)
        #[arg(value_name = "FRAME|TIME")]
        to: At,
    },
    /// Print the index of notes that a prompt shows every turn
    IndexNote {
        /// The most tokens (a quarter of the characters): the newest notes, as many whole lines as fit [default: all]
        #[arg(long, value_name = "N")]
        budget: Option<u64>,
        #[command(flatten)]
        at: AtArg,
    },
}

#[derive(Serialize)]
struct Line {
    key: String,
    summary: Option<String>,
}

/// Runs a verb.
pub(crate) fn run(verb: Verb, context: &Context) -> Result<Exit> {
    match verb {
        Verb::Remember { key, summary, body, if_frame } => {
            remember(context, &key, &summary, body, if_frame.map(Frame))
        }
        Verb::Recall { key, at } => recall(context, &key, at),
        Verb::Forget { key } => forget(context, &key),
        Verb::List { at } => list(context, at),
        Verb::Search { pattern, at } => search(context, &pattern, at),
        Verb::History { key, shown } => history::of_note(context, &key, &shown),
        Verb::Restore { key, to } => history::restore_note(context, &key, to),
        Verb::IndexNote { budget, at } => {
            let notes = context.read(at)?.workspace.notes();
            let text = budget.map_or_else(|| notes.index_note(), |tokens| notes.index_note_within(tokens));
            context.out.answer(&Text { text }, |answer| answer.text.clone())?;
            Ok(Exit::Done)
        }
    }
}

fn remember(
    context: &Context,
    key: &str,
    summary: &str,
    body: Option<String>,
    expected: Option<Frame>,
) -> Result<Exit> {
    let body = body.map_or_else(|| body_from_stdin(context), Ok)?;
    let writing = context.write()?;
    let notes = writing.workspace.notes();
    let text = match expected {
        None => notes.remember(key, summary, &body),
        expected => notes.remember_if(key, expected, summary, &body),
    }?;
    let answer = Written::new(key, writing.store.appended(), text);
    writing.close(&context.out);
    context.out.answer(&answer, |answer| answer.text.clone())?;
    Ok(Exit::Done)
}

fn recall(context: &Context, key: &str, at: AtArg) -> Result<Exit> {
    let notes = context.read(at)?.workspace.notes();
    match notes.get(key)? {
        Some(note) => {
            context.out.answer(&NoteAnswer::new(note)?, |note| note.text.clone())?;
            Ok(Exit::Done)
        }
        None => {
            let answer = Sought { key, found: false, text: notes.recall(key) };
            context.out.answer(&answer, |answer| answer.text.clone())?;
            Ok(Exit::Refused)
        }
    }
}

fn forget(context: &Context, key: &str) -> Result<Exit> {
    let writing = context.write_existing()?;
    let forgotten = writing.workspace.notes().forget(key)?;
    writing.close(&context.out);
    let (found, text, exit) = match forgotten {
        Forgotten::Forgot(text) => (true, text, Exit::Done),
        Forgotten::WasAbsent(text) => (false, text, Exit::Refused),
    };
    context.out.answer(&Sought { key, found, text }, |answer| answer.text.clone())?;
    Ok(exit)
}

fn list(context: &Context, at: AtArg) -> Result<Exit> {
    let notes = context.read(at)?.workspace.notes();
    if context.out.is_json() {
        for (key, summary) in notes.summaries() {
            context.out.object(&Line { key, summary })?;
        }
    } else {
        context.out.text(&notes.list_memories())?;
    }
    Ok(Exit::Done)
}

fn search(context: &Context, pattern: &str, at: AtArg) -> Result<Exit> {
    let notes = context.read(at)?.workspace.notes();
    if context.out.is_json() {
        for found in notes.find(pattern)? {
            context.out.object(&MatchAnswer::from(found))?;
        }
        return Ok(Exit::Done);
    }
    let text = notes.search(pattern);
    context.out.text(&text)?;
    if text.contains(render::DAMAGED_BODY) {
        // A note may say those words itself; the typed search knows.
        notes.find(pattern)?;
    }
    Ok(Exit::Done)
}

/// All of standard input, as it is.
fn body_from_stdin(context: &Context) -> Result<String> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        context.out.note(render::READING_STDIN);
    }
    let limit = Limits::default().item_bytes;
    let mut bytes = Vec::new();
    let reading = "reading the body from standard input failed";
    stdin.lock().take(limit + 1).read_to_end(&mut bytes).context(reading)?;
    if bytes.len() as u64 > limit {
        let rest = io::copy(&mut stdin.lock(), &mut io::sink()).context(reading)?;
        let found = bytes.len() as u64 + rest;
        return Err(Error::TooLarge { what: "the body in bytes", limit, found }.into());
    }
    String::from_utf8(bytes).map_err(|bad| {
        let sentence = render::not_utf8(bad.utf8_error().valid_up_to());
        Refusal::new(Exit::Refused, sentence).into()
    })
}
