//! Work under the writers' lock beside whoever appends: what concerns other files than the log's.

use std::sync::Arc;

use super::commit::{Log, locked};
use super::recover::lock_error;
use super::{catchup, intent};
use crate::error::{Error, Result};
use crate::segment::Segment;

impl Log {
    /// Runs `work` under the writers' lock, with every change of several files finished, if each of `files` is
    /// still the one at its path; answers none if one is not. The only writing process goes on appending meanwhile, one
    /// of many waits.
    ///
    /// # Errors
    /// [`Error::Locked`]; [`Error::Closed`]; [`Error::Poisoned`]; [`Error::Io`]; whatever `work` answers.
    pub fn under_lock<T>(
        &self,
        files: &[Arc<Segment>],
        work: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        self.check_poison()?;
        let disk = &*self.disk;
        let _lock = if self.group.holds_for_life() {
            None
        } else {
            Some(disk.lock(self.group.lock_wait()).map_err(|e| lock_error(disk, e))?)
        };
        // With one writing process the lock is held anyway, and only its own changes can come between.
        let _shape = locked(&self.shape);
        if self.group.holds_for_life() && !self.group.is_held() {
            return Err(Error::Closed);
        }
        intent::finish(disk)?;
        for segment in files {
            if !catchup::is_there(disk, segment, &segment.id().to_string())? {
                return Ok(None);
            }
        }
        work().map(Some)
    }
}
