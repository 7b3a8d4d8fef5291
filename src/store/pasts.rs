//! States as of earlier frames that were looked at lately: the next look begins with the nearest.
//!
//! A state shares what it can with the one it was folded from, so what it costs is bounded by the log that was
//! folded for it; the newest looks are kept while that sum is within a limit. Checkpoints cost nothing here: they
//! are mapped, or read again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::log::Files;
use crate::log::locked;
use crate::position::Frame;
use crate::replay::Known;
use crate::replay::checkpoint::Checkpoints;
use crate::segment::Segment;

/// The states of lately used pasts.
#[derive(Debug)]
pub(super) struct Pasts {
    /// How many bytes of folded log they may have cost.
    limit_bytes: u64,
    kept: Mutex<VecDeque<Kept>>,
}

#[derive(Clone, Debug)]
struct Kept {
    known: Known,
    /// The files whose places the state holds.
    files: Arc<Vec<Arc<Segment>>>,
}

impl Pasts {
    pub(super) fn new(limit_bytes: u64) -> Pasts {
        Pasts { limit_bytes, kept: Mutex::default() }
    }

    /// The state as of a frame, which the log has: folded from the nearest past, checkpoint, or beginning before it.
    ///
    /// # Errors
    /// As [`Known::fold_to`].
    pub(super) fn at(&self, files: &Files, checkpoints: &Checkpoints, frame: Frame) -> Result<Known> {
        if frame == Frame::ZERO {
            return Ok(Known::nothing());
        }
        let kept = self.nearest(files, frame);
        let cost = kept.as_ref().map_or(0, |known| known.read_bytes);
        let from = kept.as_ref().map_or(Frame::ZERO, |known| known.frame);
        let saved = checkpoints.before(files, from, frame)?;
        let (known, cost) = match saved {
            Some(known) => (known, 0),
            None => (kept.unwrap_or_else(Known::nothing), cost),
        };
        let known = Known { folded: 0, read_bytes: 0, ..known }.fold_to(files, frame)?;
        self.keep(Known { read_bytes: known.read_bytes.saturating_add(cost), ..known.clone() }, files);
        Ok(known)
    }

    /// The nearest state at or before a frame that was folded from the same files; it counts as used now.
    fn nearest(&self, files: &Files, frame: Frame) -> Option<Known> {
        let now = files.now();
        let mut kept = locked(&self.kept);
        let serves = |kept: &Kept| kept.known.frame <= frame && begins_with(&now, &kept.files);
        let places = kept.iter().enumerate().filter(|(_, kept)| serves(kept));
        let (place, _) = places.max_by_key(|(_, kept)| kept.known.frame)?;
        let used = kept.remove(place)?;
        let known = used.known.clone();
        kept.push_back(used);
        Some(known)
    }

    /// Lets go of the states whose files are not the log's any more, and of those files.
    pub(super) fn retain(&self, files: &Files) {
        let now = files.now();
        locked(&self.kept).retain(|kept| begins_with(&now, &kept.files));
    }

    fn keep(&self, known: Known, files: &Files) {
        let files = files.now();
        let mut kept = locked(&self.kept);
        kept.retain(|other| other.known.frame != known.frame && begins_with(&files, &other.files));
        kept.push_back(Kept { known, files });
        let cost = |kept: &VecDeque<Kept>| kept.iter().map(|kept| kept.known.read_bytes).sum::<u64>();
        while cost(&kept) > self.limit_bytes || kept.len() > KEPT_MAX {
            kept.pop_front();
        }
    }
}

/// How many are kept at most, however little they cost: each holds a map of its checkpoint.
const KEPT_MAX: usize = 64;

/// Whether the files that a state was folded from are among those of the log now, unchanged.
fn begins_with(now: &[Arc<Segment>], files: &[Arc<Segment>]) -> bool {
    now.len() >= files.len() && now.iter().zip(files).all(|(a, b)| Arc::ptr_eq(a, b))
}
