//! Comparing two frames of a store: the earlier state is folded once and then folded on to the later one.

use super::{Inner, Store, past};
use crate::codec::frame::FrameKind;
use crate::error::Result;
use crate::log::Cursor;
use crate::position::Frame;
use crate::replay::{self, LogBodies};
use crate::view::diff::HandleDiff;
use crate::view::{self, State};

/// What differs between two frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// The frame before.
    pub before: Frame,
    /// The frame after; it may be the earlier one.
    pub after: Frame,
    /// The handles that differ, by kind and id.
    pub handles: Vec<HandleDiff>,
}

impl Store {
    /// What became of each item from one frame to another, and which handles were configured otherwise. `after`
    /// may lie before `before`: then it says what going back would change.
    ///
    /// # Errors
    /// As [`Store::at`]; [`crate::Error::Corrupt`] or [`crate::Error::Io`] where an item cannot be read.
    pub fn diff(&self, before: Frame, after: Frame) -> Result<Diff> {
        let inner = self.inner();
        past::check(inner, before)?;
        past::check(inner, after)?;
        let (early, late) = states(inner, before.min(after), before.max(after))?;
        let (a, b) = if before <= after { (&early, &late) } else { (&late, &early) };
        let handles = view::diff::diff(a, b, &LogBodies::new(&inner.files))?;
        Ok(Diff { before, after, handles })
    }
}

/// The states at two frames, the earlier first.
fn states(inner: &Inner, early: Frame, late: Frame) -> Result<(State, State)> {
    let mut state = replay::replay(&inner.files, early)?;
    let earlier = state.clone();
    let from = inner.index(|index| index.before_frame(early)).unwrap_or(Cursor::START);
    replay::each_frame(&inner.files, from, &mut |met| {
        let header = &met.frame.header;
        if header.number > late {
            return Ok(false);
        }
        if header.number > early {
            replay::fold(&inner.files, &mut state, &met)?;
        }
        Ok(header.number < late || header.kind != FrameKind::Commit)
    })?;
    Ok((earlier, state))
}
