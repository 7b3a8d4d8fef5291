//! Checkpoints that are missing between others: the log is folded from its beginning, and one is saved wherever a
//! frame would otherwise be out of reach of the one before.

use std::sync::Arc;

use super::super::Inner;
use super::Moment;
use crate::error::Result;
use crate::log::{self, Fold, Log, Met, Mode, Start};
use crate::replay::StateFold;
use crate::replay::checkpoint::{Checkpoints, is_due, reach};
use crate::segment::SegmentOptions;
use crate::view::State;

/// Saves what is missing in a log of so many bytes; nothing if every frame is within reach of a checkpoint.
///
/// # Errors
/// As [`log::open`] for reading; what saving answers.
pub(super) fn fill(inner: &Inner, log: &Arc<Log>, log_bytes: u64) -> Result<()> {
    let (checkpoints, distance) = (inner.saving.checkpoints(), inner.saving.distance);
    let places = places(checkpoints);
    let whole = places.windows(2).all(|pair| !matches!(pair, [a, b] if is_far(*a, b.0, log_bytes, distance)));
    if whole {
        return Ok(());
    }
    let options = SegmentOptions { segment_bytes: inner.options.segment_bytes, map: inner.options.map };
    let fold = StateFold::new(State::default(), checkpoints.clone());
    let mut filling = Filling { inner, log, fold, places, at: (0, 0), log_bytes, grown: 0, failed: Ok(()) };
    let opening = log::open(&inner.disk, options, Mode::Read, &mut filling)?;
    match opening.recovery.damage {
        Some(damage) => Err(damage.into()),
        None => filling.failed,
    }
}

/// Where each checkpoint is in the log, and how long it is; the beginning of the log first.
fn places(checkpoints: &Checkpoints) -> Vec<(u64, u64)> {
    let listed = checkpoints.list().into_iter().map(|listed| (listed.log_bytes, listed.bytes));
    std::iter::once((0, 0)).chain(listed).collect()
}

/// Whether the frames before `next` are out of reach of a checkpoint.
fn is_far((at, bytes): (u64, u64), next: u64, log_bytes: u64, distance: u64) -> bool {
    next.saturating_sub(at) > reach(bytes, log_bytes.saturating_sub(next), distance)
}

struct Filling<'i> {
    inner: &'i Inner,
    log: &'i Arc<Log>,
    fold: StateFold,
    /// Those that are ahead, and the one before.
    places: Vec<(u64, u64)>,
    /// The nearest checkpoint behind.
    at: (u64, u64),
    log_bytes: u64,
    /// Since it was last asked whether one is missing here.
    grown: u64,
    failed: Result<()>,
}

impl Filling<'_> {
    /// Saves the state at a place if the next checkpoint is too far from the last one, and the place far enough.
    fn pass(&mut self, start: Start) -> Result<()> {
        let here = start.log_bytes();
        while let Some(&next) = self.places.first().filter(|next| next.0 <= here) {
            self.at = next;
            self.places.remove(0);
        }
        let distance = self.inner.saving.distance;
        let Some(&(next, _)) = self.places.first() else { return Ok(()) };
        let reach = reach(self.at.1, self.log_bytes.saturating_sub(here), distance);
        let far = is_far(self.at, next, self.log_bytes, distance);
        if !far || !is_due(Some((self.at.0, 0)), here, reach) {
            return Ok(());
        }
        let (files, frame) = (start.files(&self.inner.files), start.frame());
        let moment = Moment { state: self.fold.state.clone(), start, files };
        moment.save(self.log, self.inner.saving.checkpoints(), distance)?;
        let made = self.inner.saving.checkpoints().list();
        let made = made.iter().find(|listed| listed.frame == frame);
        self.at = (here, made.map_or(0, |listed| listed.bytes));
        Ok(())
    }
}

impl Fold for Filling<'_> {
    fn begin(&mut self) {
        self.fold.begin();
    }

    fn frame(&mut self, met: &Met<'_>) {
        self.grown += met.frame.header.frame_bytes() as u64;
        self.fold.frame(met);
    }

    fn behind(&mut self, start: &dyn Fn() -> Start) {
        if self.grown < self.inner.saving.distance / 16 || self.failed.is_err() {
            return;
        }
        self.grown = 0;
        self.failed = self.pass(start());
    }
}
