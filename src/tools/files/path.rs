//! Which note a path names.
//!
//! A path is resolved as text and never looked up on the way: empty segments and `.` are nothing, `..` takes
//! the segment before it away. So every spelling of the root is the root, and no path leaves it. Letters keep
//! their case, and nothing is decoded: `%2e%2e` is a name like any other.

use std::fmt;

use super::error::{FileError, FileVerb};
use crate::view::text::fold_line;

const ROOT: &str = "/memories";

/// What a path names: the root, or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place(Option<String>);

impl Place {
    /// # Errors
    /// [`FileError::BadPath`].
    pub(super) fn resolve(path: &str) -> Result<Place, FileError> {
        let bad = || FileError::BadPath { path: path.to_owned() };
        let rest = path.strip_prefix(ROOT).ok_or_else(bad)?;
        if !rest.is_empty() && !rest.starts_with('/') {
            return Err(bad());
        }
        let mut segments = Vec::new();
        for segment in rest.split('/') {
            match segment {
                "" | "." => {}
                ".." => drop(segments.pop().ok_or_else(bad)?),
                name => segments.push(name),
            }
        }
        Ok(Place((!segments.is_empty()).then(|| segments.join("/"))))
    }

    /// The key; none for the root.
    pub(super) fn key(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The key of what a command changes.
    ///
    /// # Errors
    /// [`FileError::Root`].
    pub(super) fn named(&self, verb: FileVerb) -> Result<&str, FileError> {
        self.key().ok_or(FileError::Root { verb })
    }

    /// What a key below this place is called from here; none for one that is not below it.
    pub(super) fn relative<'k>(&self, key: &'k str) -> Option<&'k str> {
        match &self.0 {
            None => Some(key),
            Some(own) => key.strip_prefix(own.as_str())?.strip_prefix('/'),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ROOT)?;
        match &self.0 {
            None => Ok(()),
            Some(key) => write!(f, "/{}", fold_line(key)),
        }
    }
}

/// Whether a key goes on below another one.
pub(super) fn is_below(key: &str, above: &str) -> bool {
    key.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a path can name a key that ends like this: every segment is a name.
pub(super) fn can_be_named(relative: &str) -> bool {
    relative.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}
