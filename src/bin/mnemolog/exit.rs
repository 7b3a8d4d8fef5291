//! What a command's exit code says.
//!
//! Owns the mapping from errors to codes. It looks at the variant of an error and never at its text.

use std::io;
use std::process::ExitCode;

use mnemolog::Error;

use crate::output::Closed;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, also with nothing found.
    Done = 0,
    /// Refused, not found, a conflict, no such store, not a store, a newer format.
    Refused = 1,
    /// The command was not understood.
    Usage = 2,
    /// The store is damaged.
    Damaged = 3,
    /// Another process holds the store.
    Locked = 4,
    /// The disk is full, reading or writing failed, or an earlier failure stopped all writing.
    Failed = 5,
}

/// A refusal of the command line's own, and the code that it ends with.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub(crate) struct Refusal {
    pub(crate) exit: Exit,
    pub(crate) sentence: String,
}

impl Refusal {
    pub(crate) fn new(exit: Exit, sentence: impl Into<String>) -> Refusal {
        Refusal { exit, sentence: sentence.into() }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The code for an error.
pub(crate) fn exit_for(error: &anyhow::Error) -> Exit {
    if error.is::<Closed>() {
        return Exit::Done;
    }
    for cause in error.chain() {
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            return refusal.exit;
        }
        if let Some(error) = cause.downcast_ref::<Error>() {
            return exit_for_store(error);
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return if error.kind() == io::ErrorKind::NotFound { Exit::Refused } else { Exit::Failed };
        }
    }
    Exit::Refused
}

/// The code for an error of the library.
pub(crate) fn exit_for_store(error: &Error) -> Exit {
    match error {
        Error::Damaged(_) | Error::Corrupt { .. } => Exit::Damaged,
        Error::Locked { .. } => Exit::Locked,
        Error::DiskFull { .. } | Error::Io { .. } | Error::Poisoned { .. } | Error::OutcomeUnknown { .. } => {
            Exit::Failed
        }
        _ => Exit::Refused,
    }
}
