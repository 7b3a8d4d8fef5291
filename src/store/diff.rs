//! Comparing two frames of a store: what the frames between them touched, as it was and as it is.
//!
//! Each first delta of a note or row names the version before it, and each that adds to a ring or scratchpad names
//! what it evicts, so nothing else is read. What a delta does to a whole handle (cleared, configured, replaced by a
//! snapshot) depends on all that was there: for such handles, and where a chain does not tell because frames are
//! lost, compacted or erased, the state at the earlier frame is folded and then folded on. All of it is read from the
//! files as they were when it began.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::past;
use super::{Inner, Store};
use crate::codec::delta::{Class, HandleKind, Op};
use crate::codec::frame::FrameKind;
use crate::codec::payload::{Delta, Deltas};
use crate::codec::wire::Malformed;
use crate::error::{Error, Result};
use crate::log::{Cursor, Files, Met};
use crate::position::{Frame, Last, Position, Time};
use crate::replay::{self, LogBodies};
use crate::view::diff::{self, Content, HandleDiff};
use crate::view::history::{Link, Versioned};
use crate::view::notes::Note;
use crate::view::vectors::VectorRow;
use crate::view::{HandleId, State};

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

/// What the frames between touched.
#[derive(Default)]
struct Touched {
    keys: BTreeMap<HandleId, BTreeMap<String, Touch>>,
    rings: BTreeMap<HandleId, Ring>,
    /// Handles of which single items do not tell.
    whole: BTreeSet<HandleId>,
}

/// A note or row that was touched.
struct Touch {
    /// The version before the first touch.
    previous: Last,
    /// The last touch.
    last: Last,
    /// What it saved.
    content: Option<Content>,
}

/// A ring or scratchpad that items were added to.
#[derive(Default)]
struct Ring {
    /// What it got and still has, oldest first.
    got: BTreeMap<Last, Content>,
    /// What it had before and evicted, in that order.
    evicted: Vec<Last>,
}

impl Store {
    /// What became of each item from one frame to another, and which handles were configured otherwise. `after`
    /// may lie before `before`: then it says what going back would change.
    ///
    /// A ring or scratchpad that was not emptied in between lost its oldest items and got newer ones, whatever these
    /// hold; one that was emptied differs in what a reader sees.
    ///
    /// Reads the frames between, for each note or row that they touched the version before them, and what they evicted.
    /// Where they touched a whole handle (cleared or configured it, brought a snapshot), or frames are lost, compacted
    /// or erased that would tell, also what [`Store::at`] reads.
    ///
    /// # Errors
    /// As [`Store::at`]; [`crate::Error::Corrupt`] or [`crate::Error::Io`] where an item cannot be read.
    pub fn diff(&self, before: Frame, after: Frame) -> Result<Diff> {
        let inner = self.inner();
        let (early, late) = (before.min(after), before.max(after));
        // In one moment: a log that is opened anew, because it was compacted for instance, replaces them all.
        let (files, from, has_lost) = inner.index(|index| {
            past::can_answer(index, before)?;
            past::can_answer(index, after)?;
            let first = early.next().unwrap_or(early);
            let from = index.at(first).or_else(|| index.before_frame(first)).unwrap_or(Cursor::START);
            Ok::<_, Error>((inner.files.frozen(), from, index.has_lost(late)))
        })?;
        let range = Range { inner, files, from, has_lost, early, late, back: after < before };
        Ok(Diff { before, after, handles: range.diff()? })
    }
}

struct Range<'s> {
    inner: &'s Arc<Inner>,
    files: Files,
    /// Where the first frame between stands, or one before it.
    from: Position,
    /// Frames up to the later one are lost: whoever wrote what stands behind them knew of them, and nobody folds them.
    has_lost: bool,
    early: Frame,
    late: Frame,
    /// The later frame is the one before.
    back: bool,
}

impl Range<'_> {
    fn diff(&self) -> Result<Vec<HandleDiff>> {
        if self.has_lost {
            let (early, late) = self.states()?;
            let (a, b) = if self.back { (&late, &early) } else { (&early, &late) };
            return diff::diff(a, b, &LogBodies::new(&self.files));
        }
        let mut touched = Touched::default();
        self.each(&mut |met| touched.frame(&self.files, &met))?;
        let mut handles = BTreeMap::new();
        for (handle, keys) in std::mem::take(&mut touched.keys) {
            if touched.whole.contains(&handle) {
                continue;
            }
            match self.pairs(&handle, keys)? {
                Some(pairs) => drop(handles.insert(handle.clone(), diff::touched(handle, pairs))),
                None => drop(touched.whole.insert(handle)),
            }
        }
        for (handle, ring) in std::mem::take(&mut touched.rings) {
            if touched.whole.contains(&handle) {
                continue;
            }
            match self.went_on(&handle, ring)? {
                Some(differs) => drop(handles.insert(handle, differs)),
                None => drop(touched.whole.insert(handle)),
            }
        }
        if !touched.whole.is_empty() {
            let (early, late) = self.states()?;
            let (a, b) = if self.back { (&late, &early) } else { (&early, &late) };
            let bodies = LogBodies::new(&self.files);
            for handle in touched.whole {
                handles.insert(handle.clone(), diff::handle_diff(handle, a, b, &bodies)?);
            }
        }
        Ok(handles.into_values().flatten().collect())
    }

    /// Visits the frames behind the earlier one up to the later one, and no others where the index knows the way.
    fn each(&self, visit: &mut dyn FnMut(Met<'_>) -> Result<()>) -> Result<()> {
        if self.early == self.late {
            return Ok(());
        }
        replay::each_frame(&self.files, self.from, &mut |met| {
            let (number, kind) = (met.frame.header.number, met.frame.header.kind);
            if number > self.late {
                return Ok(false);
            }
            if number > self.early {
                visit(met)?;
            }
            Ok(number < self.late || kind != FrameKind::Commit)
        })
    }

    /// The states at both frames, the earlier first.
    fn states(&self) -> Result<(State, State)> {
        let checkpoints = self.inner.saving.checkpoints();
        let mut late = self.inner.pasts.at(&self.files, checkpoints, self.early)?.state;
        let early = late.clone();
        self.each(&mut |met| replay::fold(&self.files, &mut late, &met))?;
        Ok((early, late))
    }

    /// The touched notes or rows as they were and as they are; none where their chains do not tell.
    fn pairs(&self, handle: &HandleId, keys: BTreeMap<String, Touch>) -> Result<Option<Pairs>> {
        match handle.kind {
            HandleKind::Notes => self.pairs_of::<Note>(handle, keys, Content::Note),
            _ => self.pairs_of::<VectorRow>(handle, keys, Content::Row),
        }
    }

    fn pairs_of<T: Versioned>(
        &self,
        handle: &HandleId,
        keys: BTreeMap<String, Touch>,
        content: fn(T) -> Content,
    ) -> Result<Option<Pairs>> {
        let mut pairs = Vec::with_capacity(keys.len());
        // Asked once: it is found by going through all that came later.
        let cleared = match handle.kind {
            HandleKind::Vector => self.inner.cleared_at::<T>(handle, self.early)?,
            _ => Last::default(),
        };
        for (key, touch) in keys {
            let before = match self.before::<T>(handle, &key, touch.previous, cleared) {
                Ok(before) => before.map(content),
                Err(Error::Lost { .. } | Error::Compacted { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            let after = touch.content;
            let (before, after) = if self.back { (after, before) } else { (before, after) };
            pairs.push((key, before, after));
        }
        Ok(Some(pairs))
    }

    /// What differs in a ring that went on; none where its deltas do not tell.
    fn went_on(&self, handle: &HandleId, ring: Ring) -> Result<Option<Option<HandleDiff>>> {
        let mut before = Vec::with_capacity(ring.evicted.len());
        for places in ring.evicted.chunk_by(|a, b| a.frame == b.frame) {
            let Some(contents) = self.inner.contents(handle, places)? else { return Ok(None) };
            before.extend(contents);
        }
        let after = ring.got.into_values().collect();
        let (before, after) = if self.back { (after, before) } else { (before, after) };
        Ok(Some(diff::went_on(handle.clone(), before, after)))
    }

    /// What was saved under a key whose last version was the one at a place, in a table that was `cleared` last there.
    fn before<T: Versioned>(
        &self,
        handle: &HandleId,
        key: &str,
        place: Last,
        cleared: Last,
    ) -> Result<Option<T>> {
        let link = self.inner.link::<T>(handle, key, place)?;
        let Some(Link { version, place, .. }) = link else { return Ok(None) };
        Ok(version.content.filter(|_| place >= cleared))
    }
}

type Pairs = Vec<(String, Option<Content>, Option<Content>)>;

impl Touched {
    fn frame(&mut self, files: &Files, met: &Met<'_>) -> Result<()> {
        let header = &met.frame.header;
        if header.kind != FrameKind::Commit {
            return Ok(());
        }
        let corrupt = |reason: Malformed| match files.segment(met.at) {
            Some(segment) => segment.corrupt(header.number, reason),
            None => Error::Closed,
        };
        for delta in Deltas::of(&met.frame).map_err(corrupt)? {
            self.delta(&delta.map_err(corrupt)?, (header.number, header.time)).map_err(corrupt)?;
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Delta<'_>, by: (Frame, Time)) -> Result<(), Malformed> {
        let Delta { index, envelope, offset } = delta;
        let handle = HandleId { kind: envelope.op.kind(), id: envelope.id.into() };
        if matches!(envelope.op, Op::Record(_) | Op::Push(_)) && !envelope.item {
            return self.added(handle, delta, by);
        }
        let chained = matches!(handle.kind, HandleKind::Notes | HandleKind::Vector);
        if let Op::Erased { class, .. } = envelope.op {
            // An erased note or row folds to nothing. An erased episode or entry does not say any more what it evicted.
            let nothing = chained || class != Class::Put || envelope.id.is_empty();
            if !nothing {
                self.whole.insert(handle);
            }
            return Ok(());
        }
        let Some(key) = envelope.op.chain_key().filter(|_| !envelope.item) else {
            self.whole.insert(handle);
            return Ok(());
        };
        let last = Last { frame: by.0, index: *index };
        let content = Content::of(&envelope.op, by, *offset)?;
        match self.keys.entry(handle.clone()).or_default().entry(key.to_owned()) {
            Entry::Vacant(new) => drop(new.insert(Touch { previous: envelope.previous, last, content })),
            Entry::Occupied(known) if known.get().last == envelope.previous => {
                let touch = known.into_mut();
                (touch.last, touch.content) = (last, content);
            }
            // A chain that skips a touch: some delta did nothing.
            Entry::Occupied(_) => drop(self.whole.insert(handle)),
        }
        Ok(())
    }

    fn added(&mut self, handle: HandleId, delta: &Delta<'_>, by: (Frame, Time)) -> Result<(), Malformed> {
        let Delta { index, envelope, offset } = delta;
        let ring = self.rings.entry(handle).or_default();
        for place in &envelope.evicted {
            if ring.got.remove(place).is_none() {
                ring.evicted.push(*place);
            }
        }
        if let Some(content) = Content::of(&envelope.op, by, *offset)? {
            ring.got.insert(Last { frame: by.0, index: *index }, content);
        }
        Ok(())
    }
}
