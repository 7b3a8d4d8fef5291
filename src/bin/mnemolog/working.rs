//! `working push`, `render`, `clear`, `configure`: the scratchpad.

use anyhow::Result;
use clap::Subcommand;
use mnemolog::handle::Working;
use serde::Serialize;

use crate::answer::Written;
use crate::context::{AtArg, Context};
use crate::exit::Exit;
use crate::render;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Add an entry; the oldest go where the budget would not hold
    Push {
        /// The scratchpad's name
        name: String,
        /// A short name for the entry
        label: String,
        /// Its text
        #[arg(allow_hyphen_values = true)]
        content: String,
    },
    /// Print the scratchpad as a section of a prompt
    Render {
        /// The scratchpad's name
        name: String,
        #[command(flatten)]
        at: AtArg,
    },
    /// Remove all entries from now on; their history stays
    Clear {
        /// The scratchpad's name
        name: String,
    },
    /// Set the budget
    Configure {
        /// The scratchpad's name
        name: String,
        /// The budget in tokens; 0 counts as 1
        #[arg(long, value_name = "TOKENS")]
        budget: u64,
    },
}

#[derive(Serialize)]
struct Rendered {
    text: String,
    tokens: u64,
    budget: u64,
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    label: String,
    content: String,
    tokens: u32,
}

/// A write, and what it leaves of the budget.
#[derive(Serialize)]
struct Spent<'a> {
    #[serde(flatten)]
    written: Written<'a>,
    tokens: u64,
    budget: u64,
}

/// Runs a verb.
pub(crate) fn run(verb: Verb, context: &Context) -> Result<Exit> {
    match verb {
        Verb::Push { name, label, content } => change(context, &name, true, |working| {
            working.push(&label, &content)?;
            let text = render::pushed(&label, working.current_tokens(), working.budget());
            Ok((Some(&*label), text))
        }),
        Verb::Clear { name } => change(context, &name, false, |working| {
            working.clear()?;
            Ok((None, render::cleared(&name)))
        }),
        Verb::Configure { name, budget } => change(context, &name, true, |working| {
            let budget = working.clone().with_budget(budget)?.budget();
            Ok((None, render::budget(&name, budget)))
        }),
        Verb::Render { name, at } => {
            let working = context.read(at)?.workspace.working(&name)?;
            let entry = |(label, content, tokens)| Entry { label, content, tokens };
            let rendered = Rendered {
                text: working.render(),
                tokens: working.current_tokens(),
                budget: working.budget(),
                entries: working.entries().into_iter().map(entry).collect(),
            };
            context.out.answer(&rendered, |rendered| rendered.text.clone())?;
            Ok(Exit::Done)
        }
    }
}

/// A write to a scratchpad, which `may_create` the store.
fn change<'a>(
    context: &Context,
    name: &str,
    may_create: bool,
    write: impl FnOnce(&Working) -> mnemolog::Result<(Option<&'a str>, String)>,
) -> Result<Exit> {
    context.check_handle(name)?;
    let writing = if may_create { context.write()? } else { context.write_existing()? };
    let working = writing.workspace.working(name)?;
    let (label, text) = write(&working)?;
    let written = Written::new(label, writing.store.appended(), text);
    let spent = Spent { written, tokens: working.current_tokens(), budget: working.budget() };
    writing.close(&context.out);
    context.out.answer(&spent, |spent| spent.written.text.clone())?;
    Ok(Exit::Done)
}
