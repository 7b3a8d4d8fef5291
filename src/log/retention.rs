//! RETENTION: how much history the store keeps, beside the log.
//!
//! Replaced as a whole: written under a temporary name, synced, renamed, the root synced, under the lock. So a crash
//! leaves the old policy or the new one, and a file that does not check out has rotted. That is an error of
//! whoever asks for the policy, and in nobody else's way. It does not know when history is dropped.

use std::time::Duration;

use super::commit::Log;
use super::intent::remove;
use crate::codec::retention::{Keep, RETENTION_BYTES, Unit};
use crate::codec::segment::{BadHeader, FORMAT_VERSION, StoreId};
use crate::codec::wire::Malformed;
use crate::disk::{Access, Disk};
use crate::error::{Damage, Error, Evidence, Result};
use crate::position::Frame;

/// The name of the policy.
pub(super) const RETENTION: &str = "RETENTION";
/// The name that a policy has until it is whole.
const BUILDING: &str = "RETENTION.tmp";

/// How much history a store keeps, beside what it holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retention {
    /// The last frames, so many; 0 keeps the state alone.
    Frames(u64),
    /// The frames that are not older than this, to the microsecond.
    Duration(Duration),
}

impl Retention {
    fn record(self, store: StoreId) -> Keep {
        match self {
            Retention::Frames(amount) => Keep { store, unit: Unit::Frames, amount },
            Retention::Duration(time) => {
                let amount = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
                Keep { store, unit: Unit::Micros, amount }
            }
        }
    }

    fn of(record: Keep) -> Retention {
        match record.unit {
            Unit::Frames => Retention::Frames(record.amount),
            Unit::Micros => Retention::Duration(Duration::from_micros(record.amount)),
        }
    }
}

/// The policy of a store; none if it keeps everything. That of another store is none.
///
/// # Errors
/// [`Error::Damaged`]: it does not check out. [`Error::NewerFormat`]; [`Error::Io`].
pub fn read(disk: &dyn Disk, store: StoreId) -> Result<Option<Retention>> {
    match examine(disk)? {
        Ok(keep) => Ok(keep.filter(|keep| keep.store == store).map(Retention::of)),
        Err(reason) => {
            let (path, segment) = (disk.root().to_path_buf(), RETENTION.to_owned());
            let (frame, evidence) = (Frame::ZERO, Evidence::Header);
            Err(Damage { path, segment, offset: 0, frame, reason, evidence }.into())
        }
    }
}

/// The record, if there is one, or what is wrong with it.
///
/// # Errors
/// [`Error::NewerFormat`]; [`Error::Io`].
pub(super) fn examine(disk: &dyn Disk) -> Result<std::result::Result<Option<Keep>, Malformed>> {
    let path = disk.root().join(RETENTION);
    let file = match disk.open(RETENTION, Access::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Ok(None)),
        Err(e) => return Err(Error::io("opening", path, e)),
    };
    let mut bytes = [0; RETENTION_BYTES];
    let read = file.read_at(0, &mut bytes).map_err(|e| Error::io("reading", &path, e))?;
    match Keep::decode(bytes.get(..read).unwrap_or_default()) {
        Ok(keep) => Ok(Ok(Some(keep))),
        Err(BadHeader::Malformed(reason)) => Ok(Err(reason)),
        Err(BadHeader::Newer { version: found }) => {
            Err(Error::NewerFormat { path, found, known: FORMAT_VERSION })
        }
    }
}

/// Puts a policy in the place of the one that is there, or takes that away; the lock is held.
///
/// # Errors
/// [`Error::DiskFull`], [`Error::Io`]: which of the two stands is not known then.
pub(super) fn replace(disk: &dyn Disk, store: StoreId, policy: Option<Retention>) -> Result<()> {
    let io = |doing, path: &str| {
        let path = disk.root().join(path);
        move |e| Error::io(doing, path, e)
    };
    let Some(policy) = policy else {
        remove(disk, RETENTION)?;
        return disk.sync_dir("").map_err(io("syncing", ""));
    };
    remove(disk, BUILDING)?;
    let file = disk.open(BUILDING, Access::Create).map_err(io("creating", BUILDING))?;
    let written = file
        .allocate(RETENTION_BYTES as u64)
        .and_then(|()| file.write_at(0, &policy.record(store).encode()))
        .and_then(|()| file.sync_data())
        .map_err(io("writing", BUILDING));
    if let Err(e) = written {
        remove(disk, BUILDING)?;
        return Err(e);
    }
    disk.rename(BUILDING, RETENTION).map_err(io("renaming", BUILDING))?;
    disk.sync_dir("").map_err(io("syncing", ""))
}

impl Log {
    /// Sets the store's policy, or takes it away; durable when it returns.
    ///
    /// # Errors
    /// [`Error::Locked`]; [`Error::Closed`]; [`Error::Poisoned`]; [`Error::DiskFull`], [`Error::Io`]: which of the two
    /// policies stands is not known then.
    pub fn set_retention(&self, policy: Option<Retention>) -> Result<()> {
        let work = || replace(&*self.disk, self.store, policy);
        self.under_lock(&[], work).map(|_| ())
    }
}
