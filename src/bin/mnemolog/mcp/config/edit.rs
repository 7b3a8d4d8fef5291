//! Changes to a client's configuration: one entry, and nothing else.
//!
//! Owns the way to the disk: a copy first, then a new file in place of the old one. `json` and `toml` own the edit as a
//! text to a text.
//!
//! Invariants: comments, order, layout and line ends of everything but the entry stay as they are. A file that is not
//! understood is not written. At every moment there is the old file or the new one, whole. What is written may be secret:
//! nobody can open it who could not open the file.

mod json;
mod toml;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::Command;
use super::clients::{Language, Place};
use crate::exit::{Exit, Refusal};

/// How many links in a row lead to a file. Systems follow as many.
const LINKS_MAX: usize = 40;

/// What is to stand in a configuration.
pub(super) struct Entry<'a> {
    pub(super) place: &'a Place,
    pub(super) name: &'a str,
    pub(super) command: &'a Command,
}

/// A configuration with the entry in it.
pub(super) struct Merged {
    pub(super) text: String,
    /// There was another entry under the name.
    pub(super) replaced: bool,
}

/// What was written.
pub(super) struct Written {
    /// The file as it was, if there was one.
    pub(super) backup: Option<PathBuf>,
    pub(super) replaced: bool,
}

impl Entry<'_> {
    /// The configuration with this entry, and all else as it was.
    ///
    /// # Errors
    /// The text is not in the file's language, or has something else where the servers should stand.
    pub(super) fn merged(&self, text: &str) -> Result<Merged> {
        match self.place.language {
            Language::Json => json::merged(self, text),
            Language::Toml => toml::merged(self, text),
        }
    }
}

/// Writes the entry into a file; none if it stands there already.
///
/// # Errors
/// As [`Entry::merged`]; the system's. The file is as it was then.
pub(super) fn write(entry: &Entry<'_>, file: &Path) -> Result<Option<Written>> {
    let target = target(file);
    let before = match fs::read(&target) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", target.display())),
    };
    let in_file = || format!("{} was not written", target.display());
    let text = match &before {
        None => "",
        Some(bytes) => std::str::from_utf8(bytes)
            .map_err(|_| refused("it is no UTF-8".to_owned()))
            .with_context(in_file)?,
    };
    let Merged { text: after, replaced } = entry.merged(text).with_context(in_file)?;
    if after == text {
        return Ok(None);
    }
    let directory = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    let backup = before.as_ref().map(|_| backup(&target)).transpose()?;
    replace(&target, after.as_bytes()).with_context(in_file)?;
    Ok(Some(Written { backup, replaced }))
}

/// Where a file stands. Whoever keeps it elsewhere behind a link has the link kept, also where there is no file yet.
fn target(file: &Path) -> PathBuf {
    let mut target = file.to_path_buf();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&target) {
            Ok(to) => target = target.parent().unwrap_or(Path::new(".")).join(to),
            Err(_) => break,
        }
    }
    fs::canonicalize(&target).unwrap_or(target)
}

/// Copies a file beside itself, under a name that nothing has.
fn backup(file: &Path) -> Result<PathBuf> {
    for number in 1_u32.. {
        let copy = beside(file, &format!("backup-{number}"));
        match create(&copy) {
            Ok(_) => {
                fs::copy(file, &copy)
                    .with_context(|| format!("{} cannot be copied to {}", file.display(), copy.display()))?;
                return Ok(copy);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("{} cannot be made", copy.display())),
        }
    }
    Err(refused("there is no name left for a copy of it".to_owned()))
}

/// A new file that nobody else can open, under a name that nothing has.
fn create(file: &Path) -> std::io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)
}

/// The mark with which some editors begin a file, and the text behind it.
fn byte_order_mark(text: &str) -> (&str, &str) {
    text.strip_prefix('\u{feff}').map_or(("", text), |rest| ("\u{feff}", rest))
}

/// Puts a new file in the place of the old one, with its permissions.
fn replace(file: &Path, content: &[u8]) -> Result<()> {
    let new = beside(file, &format!("new-{}", std::process::id()));
    let written = (|| {
        let mut out = create(&new)?;
        out.write_all(content)?;
        if let Ok(metadata) = fs::metadata(file) {
            out.set_permissions(metadata.permissions())?;
        }
        out.sync_all()?;
        fs::rename(&new, file)
    })();
    if written.is_err() {
        // The error that is told is the first one.
        let _ = fs::remove_file(&new);
    }
    Ok(written?)
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(suffix);
    file.with_file_name(name)
}

fn refused(sentence: String) -> anyhow::Error {
    Refusal::new(Exit::Refused, sentence).into()
}
