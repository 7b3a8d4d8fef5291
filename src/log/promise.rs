//! DURABLE: the promise beside the log.
//!
//! One that is missing, torn or of another kind promises nothing. One of a newer format is not torn: what it says
//! was meant, so the store belongs to a newer program.

use crate::codec::segment::{BadHeader, DURABLE_BYTES, Durable, FORMAT_VERSION};
use crate::codec::wire::Malformed;
use crate::disk::{Access, Disk, File};
use crate::error::{Error, Result};

/// The name of the promise.
pub(super) const DURABLE: &str = "DURABLE";

/// The promise, if there is one that checks out; whose store it is about, the caller must look at.
///
/// # Errors
/// [`Error::Io`]; [`Error::NewerFormat`].
pub(super) fn read(disk: &dyn Disk) -> Result<Option<Durable>> {
    Ok(examine(disk)?.ok())
}

/// As [`read`], with what is wrong where there is none.
///
/// # Errors
/// As [`read`].
pub(super) fn examine(disk: &dyn Disk) -> Result<std::result::Result<Durable, Malformed>> {
    let path = || disk.root().join(DURABLE);
    let file = match disk.open(DURABLE, Access::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Err(Malformed::new("DURABLE", 0, "a promise", "no file")));
        }
        Err(e) => return Err(Error::io("opening", path(), e)),
    };
    decode(disk, &*file)
}

/// As [`read`], through a descriptor that is open; nothing if it is not of the file at its path any more, since a promise
/// that is raised through it would not be there.
///
/// # Errors
/// As [`read`].
pub(super) fn read_through(disk: &dyn Disk, open: &dyn File) -> Result<Option<Durable>> {
    let id = open.id().map_err(|e| Error::io("examining", disk.root().join(DURABLE), e))?;
    match disk.id(DURABLE) {
        Ok(found) if found == id => Ok(decode(disk, open)?.ok()),
        // Whatever became of it, opening says.
        _ => Ok(None),
    }
}

fn decode(disk: &dyn Disk, file: &dyn File) -> Result<std::result::Result<Durable, Malformed>> {
    let path = || disk.root().join(DURABLE);
    let mut bytes = [0; DURABLE_BYTES];
    let read = file.read_at(0, &mut bytes).map_err(|e| Error::io("reading", path(), e))?;
    match Durable::decode(bytes.get(..read).unwrap_or_default()) {
        Ok(durable) => Ok(Ok(durable)),
        Err(BadHeader::Malformed(reason)) => Ok(Err(reason)),
        Err(BadHeader::Newer { version: found }) => {
            Err(Error::NewerFormat { path: path(), found, known: FORMAT_VERSION })
        }
    }
}
