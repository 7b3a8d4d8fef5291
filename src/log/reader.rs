//! The log, open for reading: what was there at opening, and after each refresh what has come since.

use std::sync::{Arc, Mutex};

use super::catchup::{Caught, Place, for_reading};
use super::commit::locked;
use super::{CatchUp, Files, Index, Opening};
use crate::disk::Disk;
use crate::error::Result;
use crate::position::Frame;
use crate::segment::{Segment, SegmentOptions};

/// A log that another process may be appending to. It takes no lock and changes nothing.
#[derive(Debug)]
pub struct Reader {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: SegmentOptions,
    pub(super) files: Files,
    pub(super) at: Mutex<At>,
}

#[derive(Debug)]
pub(super) struct At {
    pub(super) place: Place,
    pub(super) index: Index,
    pub(super) durable: Frame,
}

impl Reader {
    /// A log from an opening for reading.
    pub fn new(disk: Arc<dyn Disk>, options: SegmentOptions, opening: Opening) -> Reader {
        let Opening { files, place, index, durable, .. } = opening;
        Reader { disk, options, files, at: Mutex::new(At { place, index, durable }) }
    }

    /// A log that is known up to a place.
    pub(super) fn at(
        disk: Arc<dyn Disk>,
        options: SegmentOptions,
        files: Vec<Arc<Segment>>,
        place: Place,
        index: Index,
        durable: Frame,
    ) -> Reader {
        Reader { disk, options, files: Files::new(files), at: Mutex::new(At { place, index, durable }) }
    }

    /// The last frame known durable.
    pub fn durable(&self) -> Frame {
        locked(&self.at).durable
    }

    /// Looks into the index of frames.
    pub fn index<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        look(&locked(&self.at).index)
    }

    /// Folds what has come since the last look. A frame that does not check out yet is no news.
    ///
    /// # Errors
    /// [`crate::error::Error::Damaged`] where a promise says that more must be there; [`crate::error::Error::Io`].
    /// What was known stays as it was.
    pub fn refresh(&self, catch_up: &mut dyn CatchUp) -> Result<()> {
        let mut at = locked(&self.at);
        match for_reading(&*self.disk, self.options, &self.files, &at.place, catch_up.fold())? {
            Caught::Same { promised } => at.durable = at.durable.max(promised),
            Caught::More(more) => catch_up.install(&mut || {
                self.files.replace(more.segments.clone());
                at.index.append(more.index.clone());
                at.place = more.place.clone();
                at.durable = at.durable.max(more.promised);
            }),
            Caught::Anew(opening) => catch_up.install(&mut || {
                self.files.replace(opening.files.now().to_vec());
                *at = At {
                    place: opening.place.clone(),
                    index: opening.index.clone(),
                    durable: opening.durable,
                };
            }),
        }
        Ok(())
    }
}
