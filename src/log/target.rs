//! A directory in which a copy of a log comes to be: a fork, or a backup.
//!
//! Owns how such a directory is taken, made ready, promised and, where nothing came of it, left as it was found. It does
//! not know what is copied.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use super::promise::DURABLE;
use super::recover::{lock_error, refuse_network};
use super::{intent, settle};
use crate::codec::segment::Durable;
use crate::disk::{Disk, File, LOCK, Lock};
use crate::error::{Error, Result};
use crate::position::{Frame, SegmentId};
use crate::segment::{LOG_DIR, Segment};

/// Hands out bytes that stand at a place in pieces of so many, each with its own place.
pub(super) fn in_pieces(
    len: usize,
    at: u64,
    bytes: &[u8],
    mut put: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut at = at;
    for piece in bytes.chunks(len) {
        put(at, piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// A directory under its lock.
pub(super) struct Target<'d> {
    disk: &'d dyn Disk,
    /// What was in it; none if it was not there.
    before: Option<Vec<String>>,
    _lock: Lock,
}

impl Target<'_> {
    /// Makes the directory where it is missing, and takes its lock.
    ///
    /// # Errors
    /// [`Error::NetworkFilesystem`]; [`Error::Locked`]; [`Error::Io`].
    pub(super) fn take(disk: &dyn Disk, wait: Duration, allow_network: bool) -> Result<Target<'_>> {
        refuse_network(disk, allow_network)?;
        let before = names(disk, "")?;
        disk.create_dir("").map_err(|e| Error::io("creating", disk.root(), e))?;
        let lock = disk.lock(wait).map_err(|e| lock_error(disk, e))?;
        Ok(Target { disk, before, _lock: lock })
    }

    /// Copies into it; if that fails and there is no store of before, what was made is taken away again.
    pub(super) fn fill<T>(self, first: bool, copy: impl FnOnce() -> Result<T>) -> Result<T> {
        let made = copy();
        if made.is_err() && first {
            clear(self.disk, self.before.as_deref());
        }
        made
    }
}

/// Makes the directory of the log, and takes the room for a promise before anything is stated. It is none yet.
pub(super) fn prepare(disk: &dyn Disk) -> Result<Arc<dyn File>> {
    disk.create_dir(LOG_DIR).map_err(|e| Error::io("creating", disk.root().join(LOG_DIR), e))?;
    let room = settle::durable_file(disk)?;
    disk.sync_dir("").map_err(|e| Error::io("syncing", disk.root(), e))?;
    Ok(room)
}

/// Writes the promise into its room, durably.
pub(super) fn promise(disk: &dyn Disk, room: &dyn File, promise: &Durable) -> Result<()> {
    let io = |doing, e| Error::io(doing, disk.root().join(DURABLE), e);
    room.write_at(0, &promise.encode()).map_err(|e| io("writing", e))?;
    room.sync_data().map_err(|e| io("syncing", e))
}

/// The files that hold the frames up to one. There is always a segment, also one without a frame: a log neither is
/// empty nor ends in a base.
pub(super) fn up_to(files: &[Arc<Segment>], last: Frame) -> Vec<Arc<Segment>> {
    let bases = files.iter().take_while(|segment| segment.id().is_base()).count();
    let segments = files.iter().skip(bases).filter(|s| s.id().first() <= last).count().max(1);
    files.iter().take(bases + segments).cloned().collect()
}

/// The names in a directory; none if it is absent.
pub(super) fn names(disk: &dyn Disk, dir: &str) -> Result<Option<Vec<String>>> {
    match disk.list(dir) {
        Ok(names) => Ok(Some(names)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("listing", disk.root().join(dir), e)),
    }
}

/// Whether the log has a file, or a change that will give it one.
pub(super) fn is_stated(disk: &dyn Disk) -> Result<bool> {
    if intent::read(disk)?.is_some() {
        return Ok(true);
    }
    let log = if names(disk, "")?.is_some_and(|root| root.iter().any(|name| name == LOG_DIR)) {
        names(disk, LOG_DIR)?
    } else {
        None
    };
    Ok(log.into_iter().flatten().any(|name| SegmentId::from_file_name(&name).is_some()))
}

/// Takes away what a fork or first backup that failed has made, unless it was stated: then it is a store.
fn clear(disk: &dyn Disk, before: Option<&[String]>) {
    let mine = |name: &str| !before.is_some_and(|names| names.iter().any(|before| before == name));
    if !matches!(is_stated(disk), Ok(false)) {
        return;
    }
    let mut left = settle::remove_temporaries(disk, &["", LOG_DIR]).is_err();
    let mut done = |removed: std::io::Result<()>| {
        left |= removed.is_err_and(|e| e.kind() != ErrorKind::NotFound);
    };
    for name in [DURABLE, LOCK] {
        if mine(name) {
            done(disk.remove(name));
        }
    }
    if mine(LOG_DIR) {
        done(disk.remove_dir(LOG_DIR));
    }
    if before.is_none() {
        done(disk.remove_dir(""));
    }
    if left {
        tracing::warn!(root = %disk.root().display(), "not all of a copy that failed could be removed");
    }
}
