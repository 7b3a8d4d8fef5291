//! Forks: an independent store as of a frame. What a fork is made of belongs to the log; this asks whether the
//! frame is there, and sees to it that a writer does not fork what it could still lose.

use std::path::Path;
use std::sync::Arc;

use super::{Access, Store, past};
use crate::disk::Disk;
use crate::error::Result;
use crate::log::{self, Forked};
use crate::position::Frame;

impl Store {
    /// Makes an independent store in a directory, which must be missing or empty, as of a frame. It has an id of its
    /// own, and the frames, times and history of this one up to the frame; it begins with the same base, where this
    /// one has been compacted. Nothing is shared: writing to one, compacting or erasing leaves the other as it is.
    ///
    /// The fork is whole and durable when this returns; a crash meanwhile leaves no store there or the whole one. A
    /// writer first makes the frame durable. A store that is open for reading forks what it shows, also a frame that
    /// its writer could still lose: the fork keeps it. Writers go on meanwhile. Everything up to the frame is read
    /// and written once.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchFrame`]; [`crate::Error::Compacted`]; [`crate::Error::Lost`];
    /// [`crate::Error::StoreExists`]; [`crate::Error::NotAStore`]: other files are there;
    /// [`crate::Error::BackupRefused`]: the directory lies in the store; [`crate::Error::Locked`];
    /// [`crate::Error::NetworkFilesystem`]; [`crate::Error::DiskFull`]; [`crate::Error::OutcomeUnknown`]: the frame
    /// could not be made durable; [`crate::Error::Corrupt`]; [`crate::Error::Io`].
    pub fn fork(&self, path: impl AsRef<Path>, frame: Frame) -> Result<Forked> {
        self.fork_on(&self.disk_apart(path.as_ref())?, frame)
    }

    /// As [`Store::fork`], on any disk.
    ///
    /// # Errors
    /// As [`Store::fork`].
    pub fn fork_on(&self, disk: &Arc<dyn Disk>, frame: Frame) -> Result<Forked> {
        let inner = self.inner();
        let files = past::check(inner, frame)?;
        if let Access::Write(log) = &inner.log
            && frame > log.durable()
        {
            log.wait_durable(frame)?;
        }
        log::fork(&files, frame, &**disk, inner.options().allow_network)
    }
}
