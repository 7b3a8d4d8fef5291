//! Changes to a client's configuration: one entry, and nothing else.
//!
//! Owns the edit as a text to a text, and the way to the disk: a copy first, then a new file in place of the old one.
//!
//! Invariants: comments, order and layout of everything but the entry stay as they are. A file that is not understood
//! is not written. At every moment there is the old file or the new one, whole.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::Command;
use super::clients::{Language, Place};
use crate::exit::{Exit, Refusal};
use crate::render;

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
            Language::Json => self.merged_json(text),
            Language::Toml => self.merged_toml(text),
        }
    }

    fn merged_json(&self, text: &str) -> Result<Merged> {
        let (mark, text) = match text.strip_prefix('\u{feff}') {
            Some(rest) => ("\u{feff}", rest),
            None => ("", text),
        };
        let source = if text.trim().is_empty() { "{}\n" } else { text };
        let options = ParseOptions {
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            ..ParseOptions::default()
        };
        let root = CstRootNode::parse(source, &options)
            .map_err(|error| refused(format!("it is no JSON: {}", render::line(&error.to_string()))))?;
        let top = root.object_value().ok_or_else(|| refused("it holds no JSON object".to_owned()))?;
        let servers = top
            .object_value_or_create(self.place.servers)
            .ok_or_else(|| refused(format!("`{}` in it is no JSON object", self.place.servers)))?;
        let before = servers.get(self.name);
        let replaced = before.is_some();
        match before {
            Some(entry) => entry.set_value(self.json()),
            None => drop(servers.append(self.name, self.json())),
        }
        Ok(Merged { text: format!("{mark}{root}"), replaced })
    }

    fn json(&self) -> CstInputValue {
        let args = self.command.args.iter().map(|arg| CstInputValue::String(arg.clone())).collect();
        let mut fields = Vec::new();
        if self.place.is_typed {
            fields.push(("type".to_owned(), CstInputValue::String("stdio".to_owned())));
        }
        fields.push(("command".to_owned(), CstInputValue::String(self.command.program.clone())));
        fields.push(("args".to_owned(), CstInputValue::Array(args)));
        CstInputValue::Object(fields)
    }

    fn merged_toml(&self, text: &str) -> Result<Merged> {
        let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            // Some messages have several lines.
            refused(format!("it is no TOML: {} on line {line}", render::line(error.message())))
        })?;
        let table = || {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        };
        let servers = document
            .entry(self.place.servers)
            .or_insert_with(table)
            .as_table_like_mut()
            .ok_or_else(|| refused(format!("`{}` in it is no table", self.place.servers)))?;
        let replaced = servers.contains_key(self.name);
        let entry = servers.entry(self.name).or_insert_with(|| Item::Table(Table::new()));
        let entry = entry
            .as_table_like_mut()
            .ok_or_else(|| refused(format!("`{}.{}` in it is no table", self.place.servers, self.name)))?;
        entry.insert("command", value(self.command.program.as_str()));
        entry.insert("args", value(self.command.args.iter().map(String::as_str).collect::<Array>()));
        Ok(Merged { text: document.to_string(), replaced })
    }
}

/// Writes the entry into a file; none if it stands there already.
///
/// # Errors
/// As [`Entry::merged`]; the system's. The file is as it was then.
pub(super) fn write(entry: &Entry<'_>, file: &Path) -> Result<Option<Written>> {
    // Whoever keeps the file elsewhere behind a link has the link kept.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
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

/// Copies a file beside itself, under a name that nothing has.
fn backup(file: &Path) -> Result<PathBuf> {
    for number in 1_u32.. {
        let copy = beside(file, &format!("backup-{number}"));
        match fs::OpenOptions::new().write(true).create_new(true).open(&copy) {
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

/// Puts a new file in the place of the old one, with its permissions.
fn replace(file: &Path, content: &[u8]) -> Result<()> {
    let new = beside(file, &format!("new-{}", std::process::id()));
    let written = (|| {
        let mut out = fs::OpenOptions::new().write(true).create_new(true).open(&new)?;
        out.write_all(content)?;
        if let Ok(metadata) = fs::metadata(file) {
            fs::set_permissions(&new, metadata.permissions())?;
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
