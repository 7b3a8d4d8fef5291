//! The command line of mnemolog: parses a command, runs its verb, and ends with a code that says how it went.
//!
//! It owns the grammar of the command line. Every verb has its file; `render` alone formats for people; `exit`
//! alone chooses the code. The binary uses nothing of the library but what is public.

mod answer;
mod backup;
mod checkpoint;
mod compact;
mod context;
mod diff;
mod dump;
mod episodic;
mod erase;
mod exit;
mod fork;
mod history;
mod import;
mod info;
mod load;
#[cfg(feature = "mcp")]
mod mcp;
mod notes;
mod output;
mod reembed;
mod render;
mod repair;
mod replay;
mod shell;
mod tail;
mod tour;
mod vector;
mod verify;
mod working;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use context::{Context, Global};
use exit::{Exit, Refusal, exit_for};
use output::Output;

/// An embedded memory for LLM agents: one append-only log, four kinds of memory, replay to any frame.
#[derive(Debug, Parser)]
#[command(
    name = "mnemolog",
    version,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    after_help = EXIT_CODES,
    after_long_help = AFTER_LONG_HELP
)]
struct Cli {
    #[command(flatten)]
    global: Global,

    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 refused or not found, 2 usage, 3 damage, 4 locked, 5 disk full or a failed read or write.";

const AFTER_LONG_HELP: &str = "\
Data goes to standard output and everything else to standard error. With --json, a verb prints one object, and a \
verb that lists prints one object per line. Names of fields do not change. What only reads never creates a store.

Exit codes:
  0  done; a search that finds nothing is done
  1  refused: not found, a conflict, no such store, not a store, a store in a newer format
  2  the command was not understood
  3  damage was found; what a read prints then is what stands before it
  4  another process holds the lock
  5  the disk is full, reading or writing failed, or an earlier failure has stopped all writing";

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Notes(notes::Verb),

    /// Texts that are found by similarity
    #[command(subcommand)]
    Vector(vector::Verb),

    /// What happened, in order
    #[command(subcommand)]
    Episodic(episodic::Verb),

    /// The scratchpad, with a budget of tokens
    #[command(subcommand)]
    Working(working::Verb),

    /// Fold the log up to a frame, and say what that amounts to
    Replay(replay::Args),

    /// What differs between two moments
    Diff(diff::Args),

    /// Make another store as of a moment, which shares nothing with this one
    Fork(fork::Args),

    /// Copy the store into a directory, or bring the copy there up to date
    Backup(backup::Args),

    /// The frames that were written last, and those that are written meanwhile
    Tail(tail::Args),

    /// Bring the workspace, and those below it, back to a moment; history stays
    Rollback(history::RollbackArgs),

    /// Take something out of every file of the store, its history too; this cannot be undone
    Erase(erase::Args),

    /// Where the store is and how large
    Info(info::Args),

    /// Write the log as JSON lines
    Dump(dump::Args),

    /// Read JSON lines into the store
    Load(load::Args),

    /// Bring in what other programs keep: notes of an MCP memory server, text files, vectors
    Import(import::Args),

    /// Check every byte of the store
    Verify,

    /// Embed the texts of a table anew with another embedder, and switch it over
    Reembed(reembed::Args),

    /// Save the state, so that opening the store need not fold what came before
    Checkpoint,

    /// Drop the history before a moment; the state and later frames stay
    Compact(compact::Args),

    /// Make a damaged store whole again, and say what it has lost
    Repair,

    /// Serve the memory to an agent's client (Model Context Protocol), or tell the client where it is
    #[cfg(feature = "mcp")]
    Mcp(mcp::Mcp),

    /// A guided run on a sample in a temporary store
    Tour,

    /// Write completions for a shell
    Completions(shell::CompletionsArgs),

    /// Write the manual page, of one verb if it is named
    Man(shell::ManArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output, and whoever closed that has seen enough.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    let out = Output::new(cli.global.json);
    end(run(cli, out)).into()
}

fn run(cli: Cli, out: Output) -> Result<Exit> {
    match cli.verb {
        Verb::Tour => return tour::run(&out),
        Verb::Completions(args) => return shell::completions(&args, &out),
        Verb::Man(args) => return shell::man(&args, &out),
        _ => {}
    }
    let context = Context::new(&cli.global, out)?;
    let result = match cli.verb {
        Verb::Notes(verb) => notes::run(verb, &context),
        Verb::Vector(verb) => vector::run(verb, &context),
        Verb::Episodic(verb) => episodic::run(verb, &context),
        Verb::Working(verb) => working::run(verb, &context),
        Verb::Replay(args) => replay::run(&args, &context),
        Verb::Diff(args) => diff::run(&args, &context),
        Verb::Fork(args) => fork::run(&args, &context),
        Verb::Backup(args) => backup::run(&args, &context),
        Verb::Tail(args) => tail::run(&args, &context),
        Verb::Rollback(args) => history::rollback(&args, &context),
        Verb::Erase(args) => erase::run(args, &context),
        Verb::Info(args) => info::run(args, &context),
        Verb::Dump(args) => dump::run(&args, &context),
        Verb::Load(args) => load::run(&args, &context),
        Verb::Import(args) => import::run(&args, &context),
        Verb::Reembed(args) => reembed::run(&args, &context),
        Verb::Verify => verify::run(&context),
        Verb::Checkpoint => checkpoint::run(&context),
        Verb::Compact(args) => compact::run(&args, &context),
        Verb::Repair => repair::run(&context),
        #[cfg(feature = "mcp")]
        Verb::Mcp(args) => mcp::run(&args, &context),
        Verb::Tour | Verb::Completions(_) | Verb::Man(_) => Ok(Exit::Done),
    };
    let result = result.and_then(|exit| context.out.flush().map(|()| exit));
    match result {
        Ok(Exit::Done | Exit::Refused) if context.saw_damage() => Ok(Exit::Damaged),
        Err(error) if context.saw_damage() && exit_for(&error) == Exit::Refused => {
            output::note(&sentence(&error));
            Ok(Exit::Damaged)
        }
        result => result,
    }
}

fn end(result: Result<Exit>) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(error) => {
            let exit = exit_for(&error);
            if exit != Exit::Done {
                output::note(&sentence(&error));
            }
            exit
        }
    }
}

/// The error's sentence. Those of the library and of [`Refusal`] contain their causes already.
fn sentence(error: &anyhow::Error) -> String {
    let mut parts = Vec::new();
    for cause in error.chain() {
        parts.push(cause.to_string());
        if cause.is::<mnemolog::Error>() || cause.is::<Refusal>() {
            break;
        }
    }
    parts.join(": ")
}
