//! `erase`: takes something out of every file of the store, and prints the receipt.

use anyhow::Result;
use clap::ArgGroup;
use mnemolog::codec::delta::HandleKind;
use mnemolog::view::HandleId;
use mnemolog::{Erase, Erased, ErasedFile, ErasedItems, Stays};
use serde::Serialize;

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::render;

/// Reaching beyond what this does is said here, where whoever erases reads it.
const BEYOND: &str = "\
What is beyond it: copies and backups of the store, forks, dumps, what other programs remember, and the blocks of the \
device, which are free from then on but not overwritten. A process that has a file of the store open for reading keeps \
the old blocks until it looks again or ends.

Every checkpoint and everything in quarantine/ goes as well. Frames keep their numbers and times.";

/// What goes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = BEYOND, group = ArgGroup::new("what").required(true))]
pub(crate) struct Args {
    /// The note with this key: every version, its history too
    #[arg(group = "what", allow_hyphen_values = true)]
    key: Option<String>,

    /// The row ID of the vector table NAME
    #[arg(long, group = "what", num_args = 2, value_names = ["NAME", "ID"])]
    vector: Option<Vec<String>>,

    /// Every episode with the key KEY in the ring NAME
    #[arg(long, group = "what", num_args = 2, value_names = ["NAME", "KEY"])]
    episode: Option<Vec<String>>,

    /// A whole handle, its name included: KIND is notes, vector, episodic or working (those of notes is memory)
    #[arg(long, group = "what", num_args = 2, value_names = ["KIND", "NAME"])]
    handle: Option<Vec<String>>,

    /// Whatever holds this text, letter by letter, in every workspace and kind, origins too
    #[arg(long, group = "what", value_name = "TEXT", allow_hyphen_values = true)]
    containing: Option<String>,

    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}

/// The receipt.
#[derive(Serialize)]
pub(crate) struct Receipt {
    /// Whether anything of the log went, or would go.
    pub(crate) found: bool,
    /// True if nothing was done.
    pub(crate) dry_run: bool,
    /// The files that were written anew.
    pub(crate) files: Vec<File>,
    /// Names that hold the text and stay.
    pub(crate) stays: Vec<Name>,
    /// What went from `checkpoints/` and `quarantine/`.
    pub(crate) checkpoints: Vec<String>,
    pub(crate) quarantine: Vec<String>,
}

/// One file that was written anew.
#[derive(Serialize)]
pub(crate) struct File {
    /// A path in the store.
    pub(crate) file: String,
    /// The frames in it that lost something.
    pub(crate) frames: u64,
    /// Origins that were blanked.
    pub(crate) origins: u64,
    pub(crate) items: Vec<Items>,
}

/// What was blanked of one handle and key.
#[derive(Serialize)]
pub(crate) struct Items {
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    /// Null where the whole handle goes.
    pub(crate) key: Option<String>,
    pub(crate) deltas: u64,
}

/// A name that stays.
#[derive(Serialize)]
pub(crate) struct Name {
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    /// `handle`, or `embedder` of the table.
    pub(crate) name: &'static str,
}

/// Runs the verb.
pub(crate) fn run(args: Args, context: &Context) -> Result<Exit> {
    let dry_run = args.dry_run;
    let erase = what(args, context)?.dry_run(dry_run);
    let receipt = if dry_run {
        Receipt::from(context.open_read_only()?.erase(&erase)?)
    } else {
        let writing = context.write_existing()?;
        let erased = writing.store.erase(&erase)?;
        writing.close(&context.out);
        Receipt::from(erased)
    };
    context.out.answer(&receipt, render::erased)?;
    Ok(if receipt.found { Exit::Done } else { Exit::Refused })
}

fn what(args: Args, context: &Context) -> Result<Erase> {
    let pair = |given: Option<Vec<String>>| <[String; 2]>::try_from(given?).ok();
    let of = |kind, name: &str| context.handle_id(name).map(|id| HandleId { kind, id: id.into() });
    if let Some(text) = args.containing {
        return Ok(Erase::containing(text));
    }
    if let Some([name, id]) = pair(args.vector) {
        return Ok(Erase::key(of(HandleKind::Vector, &name)?, id));
    }
    if let Some([name, key]) = pair(args.episode) {
        return Ok(Erase::key(of(HandleKind::Episodic, &name)?, key));
    }
    if let Some([kind, name]) = pair(args.handle) {
        let Some(kind) = HandleKind::ALL.into_iter().find(|known| known.name() == kind) else {
            let known = HandleKind::ALL.map(HandleKind::name).join(", ");
            let sentence = format!("there is no kind `{}`; it is one of {known}", kind.escape_debug());
            return Err(Refusal::new(Exit::Usage, sentence).into());
        };
        return Ok(Erase::handle(of(kind, &name)?));
    }
    Ok(Erase::key(of(HandleKind::Notes, "memory")?, args.key.unwrap_or_default()))
}

impl From<Erased> for Receipt {
    fn from(erased: Erased) -> Receipt {
        Receipt {
            found: erased.found(),
            dry_run: erased.dry_run,
            files: erased.files.into_iter().map(File::from).collect(),
            stays: erased.stays.iter().map(Name::from).collect(),
            checkpoints: erased.checkpoints,
            quarantine: erased.quarantine,
        }
    }
}

impl From<ErasedFile> for File {
    fn from(file: ErasedFile) -> File {
        let items = |items: ErasedItems| Items {
            kind: items.handle.kind.name(),
            id: items.handle.id.to_string(),
            key: items.key,
            deltas: items.deltas,
        };
        let (frames, origins) = (file.frames, file.origins);
        File { file: file.file, frames, origins, items: file.items.into_iter().map(items).collect() }
    }
}

impl From<&Stays> for Name {
    fn from(stays: &Stays) -> Name {
        let (handle, name) = match stays {
            Stays::Handle(handle) => (handle, "handle"),
            Stays::Embedder(handle) => (handle, "embedder"),
        };
        Name { kind: handle.kind.name(), id: handle.id.to_string(), name }
    }
}
