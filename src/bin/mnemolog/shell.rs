//! `completions` and `man`: what a shell and a manual know of the command line. No store is opened.

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Cli;
use crate::answer::Text;
use crate::exit::{Exit, Refusal};
use crate::output::Output;

/// Which shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Which page.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The verb, such as `vector search` [default: the whole command]
    verb: Vec<String>,
}

/// Writes the completions.
pub(crate) fn completions(args: &CompletionsArgs, out: &Output) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "mnemolog", &mut script);
    write(script, out)
}

/// Writes a page in the language of manual pages.
pub(crate) fn man(args: &ManArgs, out: &Output) -> Result<Exit> {
    let mut command = Cli::command();
    command.build();
    for verb in &args.verb {
        let Some(found) = command.find_subcommand(verb) else {
            let sentence = format!("there is no verb `{}`; see `mnemolog help`", verb.escape_debug());
            return Err(Refusal::new(Exit::Usage, sentence).into());
        };
        command = found.clone();
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    write(page, out)
}

fn write(text: Vec<u8>, out: &Output) -> Result<Exit> {
    let text = String::from_utf8(text)?;
    out.answer(&Text { text }, |answer| answer.text.clone())?;
    out.flush()?;
    Ok(Exit::Done)
}
