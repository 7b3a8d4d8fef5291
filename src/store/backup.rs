//! Backups: a copy of the store that is brought up to date again and again. What it is made of belongs to the log; this
//! sees to it that what was acknowledged before is durable, and known, when the copy begins.

use std::path::Path;
use std::sync::Arc;

use super::{Access, Store, options};
use crate::disk::Disk;
use crate::error::{BackupRefusal, Error, Result};
use crate::log::{self, BackedUp, Durability, Sight, Writers};
use crate::position::Frame;

impl Store {
    /// Makes a backup in a directory that is missing or empty, or brings the one there up to date. A backup is a
    /// store with the same id: restoring is opening it, or a copy of it. It holds every write that was acknowledged before the
    /// call, and only what is durable.
    ///
    /// Writers go on meanwhile and wait for nothing; other processes' writes come along too. Files of the log that are in the
    /// backup already are not copied again; of one that grew, what is new. What was erased or compacted away is
    /// then gone from the backup as well. Every frame that is copied is checked; what was copied before is not read again:
    /// [`crate::log::verify`] does that. A crash meanwhile, a full disk or a failure leaves a whole backup: the one that was
    /// there, the new one, or one that ends between them.
    ///
    /// A backup that was opened and written to is a store that has gone its own way: it is refused from then on.
    ///
    /// # Errors
    /// [`Error::BackupRefused`]: another store is there, or the store itself, or frames that this store does not have;
    /// [`Error::NotAStore`]: other files are there; [`Error::Locked`]: another process writes to the backup;
    /// [`Error::NetworkFilesystem`]; [`Error::DiskFull`]; [`Error::OutcomeUnknown`]: what was written could not be made
    /// durable; [`Error::Damaged`], [`Error::Corrupt`]: the store is; [`Error::Closed`]; [`Error::Io`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<BackedUp> {
        self.backup_on(&self.disk_apart(path.as_ref())?)
    }

    /// The disk for a copy of this store, which does not lie in the store.
    ///
    /// # Errors
    /// [`Error::BackupRefused`]; [`Error::Io`].
    pub(super) fn disk_apart(&self, path: &Path) -> Result<Arc<dyn Disk>> {
        let disk = options::file_disk(path)?;
        let root = disk.root();
        if root != self.path() && root.starts_with(self.path()) {
            let path = root.to_path_buf();
            return Err(Error::BackupRefused { path, reason: BackupRefusal::Itself });
        }
        Ok(disk)
    }

    /// As [`Store::backup`], on any disk.
    ///
    /// # Errors
    /// As [`Store::backup`].
    pub fn backup_on(&self, disk: &Arc<dyn Disk>) -> Result<BackedUp> {
        let inner = self.inner();
        let options = inner.options();
        log::backup(
            &*inner.disk,
            &|next| self.durable_sight(next),
            &**disk,
            options.lock_wait,
            options.allow_network,
        )
    }

    /// The log with all that was acknowledged, by whichever process, and a place near a frame.
    fn durable_sight(&self, near: Frame) -> Result<Sight> {
        let inner = self.inner();
        let own = match &inner.log {
            Access::Write(log) if inner.options().writers == Writers::One => {
                if inner.options().durability == Durability::Os {
                    log.flush()?;
                }
                return Ok(log.sight(near));
            }
            Access::Write(log) => log.apart()?,
            Access::Read(reader) => reader.apart()?,
        };
        own.look()?;
        Ok(own.sight(near))
    }
}
