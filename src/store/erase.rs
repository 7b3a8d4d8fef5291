//! Erasing: what somebody put into the store is taken out of every file of it, history included.
//!
//! Owns what erasing means to whoever asks: what goes, what stays and is only told, and the receipt. Which envelopes
//! that are stands in `choice`; how files are written anew, the log knows. All lanes are shut meanwhile, so nothing that
//! was read before is written after.

mod choice;

use std::sync::Arc;

use super::{Inner, Newer, Source, Store};
use crate::error::Result;
use crate::log::Stay;
use crate::view::HandleId;
use choice::Choice;

/// What is to be erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erase {
    what: What,
    dry_run: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Key(HandleId, String),
    Handle(HandleId),
    Containing(String),
}

impl Erase {
    /// All that a handle ever held under a key: every version of a note or row, its deletions too; every episode with
    /// the key; every scratchpad entry with the label.
    pub fn key(handle: HandleId, key: impl Into<String>) -> Erase {
        Erase { what: What::Key(handle, key.into()), dry_run: false }
    }

    /// A whole handle: all that was ever written to it, its configuration and its name. It is then as if it had never
    /// been used.
    pub fn handle(handle: HandleId) -> Erase {
        Erase { what: What::Handle(handle), dry_run: false }
    }

    /// Whatever holds a text, letter by letter: keys, summaries, bodies, ids, texts, metadata, episodes, labels, contents
    /// and origins. Of JSON, the strings and names in it as they read, its numbers as they are written, and what spans
    /// several of them as it stands; of all texts also those that hold the text in the form in which JSON writes it.
    ///
    /// A note or a row goes with all its versions if one of them holds the text. An episode or an entry goes alone, and an
    /// origin is taken from its frame. Names of handles, and of workspaces and embedders, stay and are told.
    pub fn containing(text: impl Into<String>) -> Erase {
        Erase { what: What::Containing(text.into()), dry_run: false }
    }

    /// The same, but only told and not done.
    #[must_use]
    pub fn dry_run(self, dry_run: bool) -> Erase {
        Erase { dry_run, ..self }
    }
}

/// The receipt: what was erased from which file, or would be.
///
/// It says nothing of what is beyond the store's directory: copies and backups, forks, what a reader remembers, and the
/// blocks of the device, which are free and not overwritten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Whether this only says what would be done.
    pub dry_run: bool,
    /// The files of the log that were written anew, in their order.
    pub files: Vec<ErasedFile>,
    /// Names of handles and embedders that hold the text; they go when the handle is erased.
    pub stays: Vec<Stays>,
    /// The checkpoints that went, by their names in `checkpoints/`: all there were.
    pub checkpoints: Vec<String>,
    /// What went from `quarantine/`: everything, since nobody knows what stands there.
    pub quarantine: Vec<String>,
}

/// A file of the log from which something was erased.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasedFile {
    /// Its path in the store.
    pub file: String,
    /// What was blanked in it, by handle and key.
    pub items: Vec<ErasedItems>,
    /// Origins that were blanked in it.
    pub origins: u64,
    /// The frames that lost something. They keep their numbers, times and places.
    pub frames: u64,
    /// Whether something in this process, such as a [`super::Past`], still reads the old file. As long as somebody does,
    /// here or in another process, its blocks are not free.
    pub open_here: bool,
}

/// What was blanked of one handle and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasedItems {
    /// Which handle.
    pub handle: HandleId,
    /// The key, id or label. Where a text was erased that it holds, that is written `[erased]`. None for what concerns
    /// the whole handle.
    pub key: Option<String>,
    /// How many deltas and items of snapshots.
    pub deltas: u64,
}

/// A name that holds an erased text, and stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stays {
    /// The handle's own name, or that of its workspace.
    Handle(HandleId),
    /// The embedder of the table, by its name or model.
    Embedder(HandleId),
}

impl Erased {
    /// Whether anything of the log was erased, or would be.
    pub fn found(&self) -> bool {
        !self.files.is_empty()
    }

    /// How many deltas, items of snapshots and origins were blanked in all files.
    pub fn blanked(&self) -> u64 {
        let of = |file: &ErasedFile| file.origins + file.items.iter().map(|items| items.deltas).sum::<u64>();
        self.files.iter().map(of).sum()
    }
}

impl Store {
    /// Erases: afterwards no file of the store's directory holds what goes, in whatever version, and no past shows it.
    /// Frames keep their numbers, times and digests' places; an erased episode or entry keeps its place and its cost, so
    /// that nothing older comes back.
    ///
    /// Every file of the log that holds some of it is written anew, all checkpoints and everything in `quarantine/` go,
    /// also where nothing is found, and the log is folded anew: that takes the time of an opening without checkpoints,
    /// free space for the new files, and as much memory as the largest of them. Other writes wait. It is durable
    /// when it returns; after a crash it has happened wholly or not at all. Readers in other processes see it when they
    /// refresh; a [`super::Past`] that was made before keeps showing what it showed.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`]: an empty text; something in `checkpoints/` or `quarantine/` that is no file of the store.
    /// [`crate::Error::ReadOnly`], unless it is a dry run; [`crate::Error::InsideExclusive`]; [`crate::Error::LaneBusy`];
    /// [`crate::Error::Locked`]; [`crate::Error::Corrupt`]: a frame rotted; [`crate::Error::DiskFull`]: nothing was changed.
    /// [`crate::Error::Poisoned`]: the disk failed; if the change was stated by then, the next opening finishes it.
    pub fn erase(&self, what: &Erase) -> Result<Erased> {
        self.inner().erase(what)
    }

    /// [`Store::erase`] of [`Erase::containing`].
    ///
    /// # Errors
    /// As [`Store::erase`].
    pub fn erase_containing(&self, text: &str) -> Result<Erased> {
        self.erase(&Erase::containing(text))
    }
}

impl Source {
    /// Erases from the live store.
    ///
    /// # Errors
    /// As [`Store::erase`]; [`crate::Error::ReadOnly`] in a past.
    pub(crate) fn erase(&self, what: &Erase) -> Result<Erased> {
        self.live_store(self.workspace())?.erase(what)
    }
}

impl Inner {
    fn erase(self: &Arc<Self>, erase: &Erase) -> Result<Erased> {
        let mut choice = Choice::of(&erase.what)?;
        if erase.dry_run {
            let removed = self.files.would_erase(&*self.disk, &mut choice)?;
            return Ok(choice.receipt(removed, true));
        }
        let log = self.writable()?;
        let _shut = self.lanes.shut(self.options.lane_wait)?;
        self.saving.wait();
        let _turn = self.begin(Stay::Section)?;
        let removed = log.erase(&mut choice, &mut Newer::of(self))?;
        self.saving.forget();
        Ok(choice.receipt(removed, false))
    }
}
