//! Names of places: workspace paths and the handles in them.
//!
//! Owns: which names are valid, and the handle id that stands in the log. Does not know: stores, lanes, files.
//!
//! Invariants: a value of [`WorkspacePath`] is valid, so no check follows later; a bad name is an error that
//! shows it and never another place. No valid name holds `.`, NUL, a space, an upper-case letter or an empty
//! segment, so none climbs, is absolute, or looks like another in any encoding.

use std::fmt;

/// How many code points of a bad name an error shows.
const FOUND_SHOWN_MAX: usize = 80;

/// The path of a workspace inside a store: `/`-separated segments, or nothing for the root.
///
/// A segment is one or more of the lower-case ASCII letters, digits, `-` and `_`.
///
/// ```
/// use mnemolog::WorkspacePath;
///
/// let scribe = WorkspacePath::parse("core")?.join("workers/scribe")?;
/// assert_eq!(scribe.as_str(), "core/workers/scribe");
/// assert_eq!(scribe.handle("memory")?, "core/workers/scribe/memory");
/// assert!(WorkspacePath::parse("../escape").is_err());
/// # Ok::<(), mnemolog::NameError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspacePath(String);

/// A workspace path or a handle name that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} \"{}\" {reason}; {}", Shown(.found), .reason.remedy())]
pub struct NameError {
    /// What was named: `workspace` or `handle name`.
    pub what: &'static str,
    /// The name as it was given, whole. The sentence shows it escaped and cut to 80 code points.
    pub found: String,
    /// What is wrong with it.
    pub reason: NameReason,
}

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameReason {
    /// A name, or one segment of a path, is empty; a leading, trailing or doubled `/` does this.
    EmptySegment,
    /// The first character that no segment may hold.
    Character(char),
    /// The whole path, or the whole handle id, would be this long. The limit is [`WorkspacePath::MAX_BYTES`].
    TooLong {
        /// The length in bytes.
        len_bytes: usize,
    },
}

impl WorkspacePath {
    /// The longest workspace path and the longest handle id, in bytes.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// The root workspace, whose path is empty.
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// A path from the root. It is taken as it stands or refused; nothing is trimmed, lower-cased or resolved.
    ///
    /// # Errors
    ///
    /// [`NameError`] about a `workspace`. The empty path is one too: the root is [`root`](Self::root), and an
    /// empty name is more often a missing one.
    pub fn parse(path: &str) -> Result<Self, NameError> {
        Self::root().join(path)
    }

    /// The workspace at `path` inside this one. `path` may have several segments.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse), also when the whole path would be too long.
    pub fn join(&self, path: &str) -> Result<Self, NameError> {
        let refuse = |reason| NameError { what: "workspace", found: path.to_owned(), reason };
        path.split('/').try_for_each(check_segment).map_err(refuse)?;
        self.append(path).map(Self).map_err(refuse)
    }

    /// The path as text, without a leading or trailing `/`; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id that a handle of this workspace has in the log: the path, `/` and the name; at the root the name
    /// alone.
    ///
    /// # Errors
    ///
    /// [`NameError`] about a `handle name`, which is exactly one segment, and when the id would be longer than
    /// [`WorkspacePath::MAX_BYTES`].
    pub fn handle(&self, name: &str) -> Result<String, NameError> {
        let refuse = |reason| NameError { what: "handle name", found: name.to_owned(), reason };
        check_segment(name).map_err(refuse)?;
        self.append(name).map_err(refuse)
    }

    fn append(&self, tail: &str) -> Result<String, NameReason> {
        let separator = if self.0.is_empty() { "" } else { "/" };
        let len_bytes = self.0.len().saturating_add(separator.len()).saturating_add(tail.len());
        if len_bytes > WorkspacePath::MAX_BYTES {
            return Err(NameReason::TooLong { len_bytes });
        }
        Ok([&self.0, separator, tail].concat())
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A proposed name made into a valid segment by trimming white space and lower-casing ASCII letters; none if
/// it is still not valid. Nothing is replaced or dropped inside, so two names seldom become one.
///
/// ```
/// use mnemolog::safe_segment;
///
/// assert_eq!(safe_segment("  Scribe-2 "), Some("scribe-2".to_owned()));
/// assert_eq!(safe_segment("../escape"), None);
/// ```
pub fn safe_segment(name: &str) -> Option<String> {
    let segment = name.trim().to_ascii_lowercase();
    check_segment(&segment).ok().map(|()| segment)
}

fn check_segment(segment: &str) -> Result<(), NameReason> {
    if segment.is_empty() {
        return Err(NameReason::EmptySegment);
    }
    if segment.len() > WorkspacePath::MAX_BYTES {
        return Err(NameReason::TooLong { len_bytes: segment.len() });
    }
    match segment.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-' | '_')) {
        Some(bad) => Err(NameReason::Character(bad)),
        None => Ok(()),
    }
}

impl NameReason {
    /// What to do about it, as the second half of a sentence.
    const fn remedy(self) -> &'static str {
        match self {
            Self::TooLong { .. } => "choose a shorter one",
            Self::EmptySegment | Self::Character(_) => {
                "each segment takes lower-case letters a to z, digits, '-' and '_', at least one"
            }
        }
    }
}

impl fmt::Display for NameReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptySegment => f.write_str("has an empty segment"),
            Self::Character(bad) => write!(f, "holds '{}'", bad.escape_debug()),
            Self::TooLong { len_bytes } => {
                write!(f, "makes {len_bytes} bytes where {} are the most", WorkspacePath::MAX_BYTES)
            }
        }
    }
}

/// A name as an error shows it: escaped, so that it is one line and cannot act on a terminal, and cut.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.chars();
        for c in rest.by_ref().take(FOUND_SHOWN_MAX) {
            write!(f, "{}", c.escape_debug())?;
        }
        if rest.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// What the name of a handle ends with that holds the vectors of another one while they are embedded anew. No program
/// can choose it: names have no such character.
const SHADOW: &str = "~reembed";

/// The id of the handle that holds the vectors of table `id` while it is embedded anew. Erasing a row of the table
/// must erase the row with the same id there.
pub fn shadow(id: &str) -> String {
    format!("{id}{SHADOW}")
}

/// The id of the table that a handle holds vectors for; none if it is no such handle.
pub fn shadowed(id: &str) -> Option<&str> {
    id.strip_suffix(SHADOW)
}
