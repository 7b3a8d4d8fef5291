//! Many frames by one caller: everything is held against the rules first, and the lanes are held until the end.
//!
//! It owns no rule of its own: limits, names of errors and the order of lanes are those of single writes.

use std::collections::BTreeSet;

use super::commit::{Change, check_origin};
use super::lane::Held;
use super::{Inner, past};
use crate::codec::delta::Origin;
use crate::codec::frame::Seed;
use crate::codec::payload;
use crate::error::Result;
use crate::log::{Files, Stay, Turn};
use crate::position::{Frame, Last};

/// The lanes of several workspaces and the right to append, until it is dropped.
#[derive(Debug)]
pub(crate) struct LanesHeld<'i> {
    _turn: Turn<'i>,
    lanes: Vec<Held>,
}

impl LanesHeld<'_> {
    /// Lets other writes of the workspaces in this process go on; the right to append stays until the end.
    pub(super) fn leave_lanes(&mut self) {
        self.lanes.clear();
    }
}

impl Inner {
    /// Waits for the lane of each workspace, then for the right to append. All who take several take them in the
    /// order of their paths, so none waits in a circle.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::InsideExclusive`]; [`Error::LaneBusy`]; as [`Inner::begin`].
    pub(crate) fn enter_lanes(&self, workspaces: &BTreeSet<&str>) -> Result<LanesHeld<'_>> {
        self.writable()?;
        let lanes = self.lanes.enter_each(workspaces.iter().copied(), self.options.lane_wait)?;
        Ok(LanesHeld { _turn: self.begin(Stay::Section)?, lanes })
    }

    /// Holds one change against the limits without writing it. Answers its size in a frame, in bytes.
    ///
    /// # Errors
    /// As [`Inner::append`] for the same change.
    pub(crate) fn check_change(&self, change: &Change<'_>, item: bool, scratch: &mut Vec<u8>) -> Result<u64> {
        self.options.limits.check(change.id, &change.op)?;
        scratch.clear();
        payload::encode(scratch, &Seed::new(0), change.id, Last::default(), &change.op, item)
            .map_err(super::commit::not_encodable)?;
        Ok(scratch.len() as u64)
    }

    /// Holds an origin against its limit without writing it.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub(crate) fn check_origin(&self, origin: Option<&Origin>) -> Result<()> {
        check_origin(origin)
    }

    /// The files that can answer for a frame.
    ///
    /// # Errors
    /// [`Error::NoSuchFrame`]; [`Error::Compacted`]; [`Error::Lost`].
    pub(crate) fn files_for(&self, frame: Frame) -> Result<Files> {
        past::check(self, frame)
    }
}
