//! The files of a log as the directory names them, and the check of all of them in order.

use super::recover::{Checked, Fold};
use super::start;
use crate::codec::intent::Intent;
use crate::codec::segment::Durable;
use crate::disk::{Access, Disk};
use crate::error::{Error, Result};
use crate::position::SegmentId;
use crate::segment::{LOG_DIR, SegmentOptions};

/// The files of a log as the directory names them.
#[derive(Debug)]
pub(super) struct Found {
    /// Identity, name of the file that holds it, in the order of the log.
    pub(super) files: Vec<(SegmentId, String)>,
    pub(super) access: Access,
}

impl Found {
    pub(super) fn look(disk: &dyn Disk, access: Access) -> Result<Found> {
        let names = match disk.list(LOG_DIR) {
            Ok(names) => names,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(Error::io("listing", disk.root().join(LOG_DIR), e)),
        };
        let mut files: Vec<_> =
            names.into_iter().filter_map(|name| Some((SegmentId::from_file_name(&name)?, name))).collect();
        files.sort();
        Ok(Found { files, access })
    }

    /// As a reader sees it while a change is under way: new files under either name, without the drops.
    pub(super) fn look_through(disk: &dyn Disk, intent: Option<&Intent>) -> Result<Found> {
        let mut found = Found::look(disk, Access::Read)?;
        let Some(intent) = intent else { return Ok(found) };
        found.files.retain(|(_, name)| {
            !intent.drops.iter().any(|drop| drop.directory == LOG_DIR && drop.name == *name)
                && !intent.moves.iter().any(|change| change.target == *name)
        });
        for change in &intent.moves {
            let Some(id) = SegmentId::from_file_name(&change.target) else { continue };
            let is_there = |name: &&String| disk.id(&format!("{LOG_DIR}/{name}")).is_ok();
            let name = [&change.temporary, &change.target].into_iter().find(is_there);
            found.files.extend(name.map(|name| (id, name.clone())));
        }
        found.files.sort();
        Ok(found)
    }

    /// Checks every frame in order and hands it to the fold, up to the first that does not check out.
    pub(super) fn check(
        self,
        disk: &dyn Disk,
        options: SegmentOptions,
        promised: Option<Durable>,
        fold: &mut dyn Fold,
    ) -> Result<Checked> {
        fold.begin();
        while let Some(stamp) = fold.resume() {
            if let Some(mut checked) = start::known(&self, disk, options, promised, &stamp)? {
                checked.go_on(self, disk, options, fold)?;
                return Ok(checked);
            }
        }
        let mut checked = Checked::new(promised);
        checked.extend(self, disk, options, fold)?;
        Ok(checked)
    }
}
