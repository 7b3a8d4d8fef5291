//! Why a command on files is refused, in the sentences of the memory tool's documentation where it has one.

use std::fmt::{self, Write as _};

use super::edit::LINES_TOLD_MAX;
use super::path::Place;
use crate::error::Error;
use crate::tools::answer::clip;

/// How much of a text or a path an error repeats, in code points.
const REPEATED_MAX: usize = 1000;

/// A command of the memory tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileVerb {
    /// Show a file or a directory.
    View,
    /// Make a file.
    Create,
    /// Replace a text in a file.
    StrReplace,
    /// Insert a text into a file.
    Insert,
    /// Delete a file or a directory.
    Delete,
    /// Move a file or a directory.
    Rename,
}

/// Why a command was refused. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A path that is not below `/memories`, or leads out of it.
    #[error(
        "Error: The path {} is not inside /memories. Please provide a path such as /memories/notes.md",
        Repeated(path)
    )]
    BadPath {
        /// The path, as it was given.
        path: String,
    },
    /// A command that cannot be done to `/memories` itself, in whatever spelling.
    #[error("Error: /memories is the memory directory itself and cannot be {}", .verb.done())]
    Root {
        /// The command.
        verb: FileVerb,
    },
    /// There is no such file; where the command takes directories, no such directory either.
    #[error("{}", Absent(path, *verb))]
    Absent {
        /// The path.
        path: String,
        /// The command.
        verb: FileVerb,
    },
    /// There is a file already.
    #[error("Error: File {} already exists", Repeated(path))]
    Exists {
        /// The path.
        path: String,
    },
    /// There is a file or a directory where something should be moved to.
    #[error("Error: The destination {} already exists", Repeated(path))]
    DestinationExists {
        /// The path.
        path: String,
    },
    /// A directory cannot be moved into itself.
    #[error(
        "Error: The directory {} cannot be moved to {}, which lies in it",
        Repeated(old_path),
        Repeated(new_path)
    )]
    IntoItself {
        /// Where it is.
        old_path: String,
        /// Where it should go.
        new_path: String,
    },
    /// A file that is too long to be viewed.
    #[error("File {} exceeds maximum line limit of 999,999 lines.", Repeated(path))]
    TooManyLines {
        /// The path.
        path: String,
    },
    /// The text to be replaced is not there.
    #[error(
        "No replacement was performed, old_str `{}` did not appear verbatim in {}.",
        Repeated(old_str),
        Repeated(path)
    )]
    NotInFile {
        /// The path.
        path: String,
        /// The text.
        old_str: String,
    },
    /// The text to be replaced is there more than once.
    #[error(
        "No replacement was performed. Multiple occurrences of old_str `{}` in lines: {}. Please ensure it \
            is unique",
        Repeated(old_str),
        Numbers(lines)
    )]
    NotUnique {
        /// The text.
        old_str: String,
        /// The lines in which it begins, counted from 1, each once; if there are more than 20, the first 21, the
        /// last of which the message leaves out.
        lines: Vec<usize>,
    },
    /// No line has this number.
    #[error(
        "Error: Invalid `insert_line` parameter: {insert_line}. It should be within the range of lines of \
            the file: [0, {lines}]"
    )]
    BadLine {
        /// The number, as it was given.
        insert_line: i64,
        /// How many lines there are.
        lines: usize,
    },
    /// No line is in this range.
    #[error(
        "Error: Invalid `view_range` parameter: [{first}, {last}]. {}", WithinLines(*lines)
    )]
    BadRange {
        /// The first line, as it was given.
        first: i64,
        /// The last line, as it was given.
        last: i64,
        /// How many lines there are.
        lines: usize,
    },
    /// What the store answers.
    #[error("Error: {0}")]
    Store(#[from] Error),
}

impl FileError {
    pub(super) fn absent(place: &Place, verb: FileVerb) -> FileError {
        FileError::Absent { path: place.to_string(), verb }
    }
}

impl FileVerb {
    /// Every command, in the order of the documentation.
    pub const ALL: [FileVerb; 6] = [
        FileVerb::View,
        FileVerb::Create,
        FileVerb::StrReplace,
        FileVerb::Insert,
        FileVerb::Delete,
        FileVerb::Rename,
    ];

    /// The command's name in a call.
    pub const fn name(self) -> &'static str {
        match self {
            FileVerb::View => "view",
            FileVerb::Create => "create",
            FileVerb::StrReplace => "str_replace",
            FileVerb::Insert => "insert",
            FileVerb::Delete => "delete",
            FileVerb::Rename => "rename",
        }
    }

    fn done(self) -> &'static str {
        match self {
            FileVerb::View => "viewed",
            FileVerb::Create => "created as a file",
            FileVerb::StrReplace | FileVerb::Insert => "edited",
            FileVerb::Delete => "deleted",
            FileVerb::Rename => "renamed",
        }
    }
}

struct Absent<'a>(&'a str, FileVerb);

impl fmt::Display for Absent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, verb) = (Repeated(self.0), self.1);
        match verb {
            FileVerb::View => write!(f, "The path {path} does not exist. Please provide a valid path."),
            FileVerb::StrReplace => {
                write!(f, "Error: The path {path} does not exist. Please provide a valid path.")
            }
            _ => write!(f, "Error: The path {path} does not exist"),
        }
    }
}

/// What the caller gave, as an error repeats it: in one line.
struct Repeated<'a>(&'a str);

impl fmt::Display for Repeated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, beyond) = clip(self.0, REPEATED_MAX);
        for c in shown.chars() {
            match c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
                true => write!(f, "{}", c.escape_debug())?,
                false => f.write_char(c)?,
            }
        }
        if beyond > 0 { f.write_str("…") } else { Ok(()) }
    }
}

/// Which lines there are.
struct WithinLines(usize);

impl fmt::Display for WithinLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("The file is empty"),
            lines => write!(f, "It should be within the range of lines of the file: [1, {lines}]"),
        }
    }
}

struct Numbers<'a>(&'a [usize]);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().take(LINES_TOLD_MAX).map(usize::to_string).collect();
        f.write_str(&numbers.join(", "))?;
        if self.0.len() > LINES_TOLD_MAX { f.write_str(", …") } else { Ok(()) }
    }
}
