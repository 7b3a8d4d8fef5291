//! The log: all segments as one sequence of frames, and the promises about its end.
//!
//! It owns continuity across files, rotation, recovery, group sync and DURABLE; it does not know what a
//! delta means. Readers share the list of files and the published lengths; one writer appends.
//!
//! Invariants:
//! - No byte of segment N+1 is durable before segment N is.
//! - Never are two syncs of the log under way in this process; the first that fails stops the writer for good.
//! - DURABLE is raised after a sync and before that sync's frames are acknowledged, and never lowered.

mod backup;
mod base;
mod beside;
mod build;
mod catchup;
mod change;
mod commit;
mod compact;
mod cursor;
mod erase;
mod follow;
mod fork;
mod found;
mod glance;
mod group;
mod grow;
mod index;
mod intent;
mod promise;
mod reader;
mod recover;
mod repair;
mod retention;
mod settle;
mod start;
mod target;
mod unproven;
mod verify;

use std::sync::{Arc, RwLock};

pub use backup::{BackedUp, backup};
pub use catchup::Place;
pub use commit::{Appended, Durability, Log, Writer, Writers};
pub use compact::{Near, Plan, Pour, Shape, base_frame_bytes};
pub use cursor::{Cursor, Met};
pub use erase::{Blanked, Choose, Removed};
pub use follow::{Follower, Sight};
pub use fork::{Forked, fork};
pub use glance::Glance;
pub use group::{CatchUp, Stay, Turn};
pub use index::Index;
pub use reader::Reader;
pub use recover::{Fold, Mode, Opening, ROOT_NAMES, looks_like_store, open};
pub use repair::{Repaired, Rewritten, repair};
pub use retention::{Retention, read as retention};
pub use start::Start;
pub use verify::{Finding, Severity, Verification, verify};

pub(crate) use commit::locked;

use crate::position::{Frame, Position};
use crate::segment::{Reads, Segment};

/// The files of the log, in order; an ordinal in a [`Position`] counts them.
#[derive(Clone, Debug, Default)]
pub struct Files(Arc<RwLock<Arc<Vec<Arc<Segment>>>>>);

impl Files {
    fn new(segments: Vec<Arc<Segment>>) -> Files {
        Files(Arc::new(RwLock::new(Arc::new(segments))))
    }

    /// The files as they are now.
    pub fn now(&self) -> Arc<Vec<Arc<Segment>>> {
        self.0.read().map_or_else(|poisoned| poisoned.into_inner().clone(), |files| files.clone())
    }

    /// The files as they are now, in a list of its own that stays as it is.
    #[must_use]
    pub fn frozen(&self) -> Files {
        Files(Arc::new(RwLock::new(self.now())))
    }

    /// Replaces the list: whoever holds the old one keeps the old files.
    fn replace(&self, segments: Vec<Arc<Segment>>) {
        *self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(segments);
    }

    fn push(&self, segment: Arc<Segment>) {
        let mut files = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::make_mut(&mut files).push(segment);
    }

    /// The file with an ordinal; `None` if the log has no such file.
    pub fn segment(&self, at: Position) -> Option<Arc<Segment>> {
        self.now().get(at.segment as usize).cloned()
    }
}

/// Bytes of the log and how many files hold them: what `info` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSize {
    /// Files of the log.
    pub segments: usize,
    /// Their sizes together, reserved space included.
    pub bytes: u64,
    /// The bytes of them that hold headers and frames.
    pub used: u64,
}

impl Files {
    /// How large the log is.
    pub fn size(&self) -> LogSize {
        let files = self.now();
        LogSize {
            segments: files.len(),
            bytes: files.iter().map(|s| s.reserved()).sum(),
            used: files.iter().map(|s| s.published()).sum(),
        }
    }

    /// What was read of the files in the list since they were opened.
    pub fn reads(&self) -> Reads {
        self.now().iter().map(|file| file.reads()).fold(Reads::default(), |sum, reads| Reads {
            frames: sum.frames + reads.frames,
            envelopes: sum.envelopes + reads.envelopes,
        })
    }

    /// A cursor over the published frames from a place on.
    pub fn cursor(&self, from: Position) -> Cursor {
        Cursor::new(self.now(), from)
    }
}

/// Where the newest frame ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The frame.
    pub frame: Frame,
    /// The first frame of the segment that holds it.
    pub segment: Frame,
    /// Where that segment's frames end.
    pub offset: u64,
}
