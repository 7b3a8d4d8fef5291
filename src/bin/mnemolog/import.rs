//! `import`: what other programs keep, into the workspace.
//!
//! Owns the reading of files and directories. Links are not followed, and everything that is not read is handed on
//! with its reason, so that the report names it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use mnemolog::interchange::import::{self, Fate, ImportError, ImportOptions, ImportReport, Parsed};
use mnemolog::interchange::import::{TextFile, Unread};
use serde::Serialize;

use crate::context::{Context, Writing};
use crate::exit::{Exit, Refusal, exit_for_store};
use crate::{output, render};

/// What a file is read up to: the most that an item of the store can have.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// What to import, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What it is
    #[arg(value_enum)]
    kind: Kind,
    /// The file or directory
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The table that vectors go into [default: the file's name without its ending]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Say what would come in, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// What can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The JSON lines of the reference MCP memory server: one note per entity
    McpMemory,
    /// A directory of text or Markdown files: one note per file
    Text,
    /// A JSON array of {id, text, embedding, metadata}: one row each
    Vectors,
}

/// What was imported.
#[derive(Serialize)]
pub(crate) struct Answer {
    pub(crate) dry_run: bool,
    pub(crate) added: usize,
    pub(crate) changed: usize,
    pub(crate) unchanged: usize,
    /// Frames written, the first and the last of them; null if none was.
    pub(crate) frames: u64,
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
    /// Embeddings computed.
    pub(crate) embedded: u64,
    /// What does not come in.
    pub(crate) refused: Vec<Told>,
    /// What comes in otherwise than it stands there, and what was left out on purpose.
    pub(crate) noted: Vec<Told>,
    /// With --dry-run, what would come in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) items: Vec<Item>,
}

/// A part of the input, and what is to be said of it.
#[derive(Serialize)]
pub(crate) struct Told {
    pub(crate) place: String,
    pub(crate) reason: String,
}

/// An item that would come in.
#[derive(Serialize)]
pub(crate) struct Item {
    pub(crate) key: String,
    /// `added` or `changed`.
    pub(crate) fate: &'static str,
    pub(crate) place: String,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let table = table(args)?;
    if args.kind == Kind::Vectors {
        context.check_handle(&table)?;
    }
    let parsed = parse(args)?;
    let options = ImportOptions { dry_run: args.dry_run };
    let writing = if args.dry_run || parsed.is_empty() { context.look()? } else { context.write()? };
    let nothing = ImportOptions { dry_run: args.dry_run || parsed.is_empty() };
    let bar = output::progress("import", None);
    let report = import(&writing, &table, parsed, &nothing);
    bar.finish_and_clear();
    writing.close(&context.out);
    let answer = answer(report?, options.dry_run);
    for told in answer.refused.iter().chain(&answer.noted) {
        context.out.note(&render::imported::told(told));
    }
    context.out.answer(&answer, render::imported::imported)?;
    Ok(if answer.refused.is_empty() { Exit::Done } else { Exit::Refused })
}

fn import(writing: &Writing, table: &str, parsed: Parsed, options: &ImportOptions) -> Result<ImportReport> {
    import::import(&writing.workspace, table, parsed, options).map_err(|error| match error {
        ImportError::Store(cause) => cause.into(),
        ImportError::Writing { ref cause, .. } => {
            Refusal::new(exit_for_store(cause), error.to_string()).into()
        }
    })
}

fn answer(report: ImportReport, dry_run: bool) -> Answer {
    let (added, changed) = (report.count(Fate::Added), report.count(Fate::Changed));
    let unchanged = report.count(Fate::Unchanged);
    let told = |refused| {
        let problems = report.problems.iter().filter(move |problem| problem.refused == refused);
        problems.map(|p| Told { place: p.place.to_string(), reason: p.reason.to_string() }).collect()
    };
    let (refused, noted) = (told(true), told(false));
    let items = report.items.iter().filter_map(|item| {
        let fate = match item.fate {
            Fate::Added => "added",
            Fate::Changed => "changed",
            Fate::Unchanged => return None,
        };
        Some(Item { key: item.key.clone(), fate, place: item.place.to_string() })
    });
    let items = if dry_run { items.collect() } else { Vec::new() };
    let (first, last) = (report.first.map(|frame| frame.0), report.last.map(|frame| frame.0));
    let (frames, embedded) = (report.frames, report.embedded);
    Answer { dry_run, added, changed, unchanged, frames, first, last, embedded, refused, noted, items }
}

/// The table for vectors; nothing else has one.
fn table(args: &Args) -> Result<String> {
    if let Some(table) = &args.table {
        return Ok(table.clone());
    }
    let stem = args.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    match mnemolog::safe_segment(&stem) {
        Some(name) => Ok(name),
        None if args.kind != Kind::Vectors => Ok("unused".to_owned()),
        None => {
            let sentence =
                format!("`{}` cannot be the name of a table; name one with --table", render::line(&stem));
            Err(Refusal::new(Exit::Usage, sentence).into())
        }
    }
}

fn parse(args: &Args) -> Result<Parsed> {
    let name = args.path.display().to_string();
    let failed = || format!("{} cannot be read; nothing was imported", render::line(&name));
    match args.kind {
        Kind::McpMemory => {
            let file = fs::File::open(&args.path).with_context(failed)?;
            import::mcp_memory(&mut io::BufReader::new(file)).with_context(failed)
        }
        Kind::Vectors => fs::read(&args.path).map(|bytes| import::vectors(&bytes)).with_context(failed),
        Kind::Text => {
            let mut files = Vec::new();
            // The directory itself may be reached by a link: it was named.
            walk(&args.path, "", &mut files).with_context(failed)?;
            files.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(import::text(files))
        }
    }
}

/// Reads what is in a directory, and in those below it.
fn walk(dir: &Path, prefix: &str, files: &mut Vec<TextFile>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let name = format!("{prefix}{}", file_name.to_string_lossy());
        let found = if file_name.to_str().is_none() {
            Err(Unread::Name)
        } else if name.rsplit('/').next().is_some_and(|last| last.starts_with('.')) {
            Err(Unread::Hidden)
        } else {
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => Err(Unread::Link),
                Ok(kind) if kind.is_dir() => match walk(&entry.path(), &format!("{name}/"), files) {
                    Ok(()) => continue,
                    Err(e) => Err(Unread::Io(e)),
                },
                Ok(kind) if kind.is_file() => read(&entry.path()),
                Ok(_) => Err(Unread::Special),
                Err(e) => Err(Unread::Io(e)),
            }
        };
        files.push(TextFile { name, content: found });
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Unread> {
    let bytes = fs::metadata(path)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(Unread::TooLarge { bytes, limit: FILE_BYTES_MAX });
    }
    Ok(fs::read(path)?)
}
