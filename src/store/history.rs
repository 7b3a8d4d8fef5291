//! The versions of one note or row, newest first: a walk along the chain of `previous` places, never over the log.
//!
//! Owns where a chain begins and ends, and how a frame of it is found. Each version costs one frame, which is
//! read whole, so that its number, time and origin are as certain as its content.
//!
//! A frame is named by its number, which no rewriting of files changes; where it stands is asked anew each time.

use std::marker::PhantomData;
use std::sync::Arc;

use super::past::{self, Past};
use super::{Inner, Source};
use crate::codec::frame::{CheckedFrame, FrameKind};
use crate::error::{Error, Result};
use crate::log::{Cursor, Files};
use crate::position::{Frame, Last, Position};
use crate::view::HandleId;
use crate::view::diff::Content;
use crate::view::history::{self, Link, Version, Versioned, Wanted};

/// The versions of a note or a row, newest first. Each is read when it is asked for.
///
/// An error ends the history: [`Error::Lost`] where the chain runs into frames that a repair gave up,
/// [`Error::Compacted`] where it runs into history that was dropped and the base does not hold the key,
/// [`Error::Corrupt`] and [`Error::Io`] where a frame cannot be read.
#[derive(Debug)]
pub struct History<T> {
    store: Arc<Inner>,
    handle: HandleId,
    key: String,
    /// The version to be read next.
    next: Last,
    /// The newest `clear` of the table that was not looked at.
    clear: Last,
    /// Was read already; a `clear` came first.
    held: Option<Version<T>>,
    item: PhantomData<T>,
}

impl<T: Versioned> Iterator for History<T> {
    type Item = Result<Version<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(version) = self.held.take() {
            return Some(Ok(version));
        }
        let step = self.step();
        if !matches!(step, Ok(Some(_))) {
            self.next = Last::default();
        }
        step.transpose()
    }
}

impl<T: Versioned> History<T> {
    fn step(&mut self) -> Result<Option<Version<T>>> {
        let Some(link) = self.store.link(&self.handle, &self.key, self.next)? else { return Ok(None) };
        let Link { version, place, previous } = link;
        self.next = previous;
        let clear = self.clear_since(place)?;
        if version.content.is_some() && clear.is_some() {
            self.held = Some(version);
            return Ok(clear);
        }
        Ok(Some(version))
    }

    /// The first `clear` behind a place, among those that were not looked at.
    fn clear_since(&mut self, place: Last) -> Result<Option<Version<T>>> {
        let mut first = None;
        while self.clear > place && self.clear.frame > self.store.index(|index| index.oldest()) {
            let link = self.store.clear_at(&self.handle, self.clear)?;
            self.clear = link.as_ref().map_or(Last::default(), |link| link.previous);
            first = link.map(|link| link.version).or(first);
        }
        Ok(first)
    }
}

impl Source {
    /// The versions of what is saved under a key: in a past, those up to its frame; in a critical section, those
    /// that were committed before it.
    pub(crate) fn history<T: Versioned>(&self, handle: &HandleId, key: &str) -> History<T> {
        let (store, state) = self.committed();
        History {
            next: state.last(handle.kind, &handle.id, key),
            clear: state.cleared(&handle.id),
            handle: handle.clone(),
            key: key.to_owned(),
            store,
            held: None,
            item: PhantomData,
        }
    }

    /// What was saved under a key as of a frame. The chain says it, unless it ended since.
    ///
    /// # Errors
    /// As [`super::Store::at`]; [`Error::ReadOnly`] in a past.
    pub(crate) fn item_at<T: Versioned>(
        &self,
        handle: &HandleId,
        key: &str,
        frame: Frame,
    ) -> Result<Option<T>> {
        if self.is_past() {
            return Err(Error::ReadOnly);
        }
        self.inner().catch_up_to(frame)?;
        let mut history = self.history::<T>(handle, key);
        past::check(&history.store, frame)?;
        for version in &mut history {
            match version {
                Ok(version) if version.frame <= frame => return Ok(version.content),
                Ok(_) => {}
                Err(Error::Lost { .. } | Error::Compacted { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        // A snapshot that left the key out ended its chain: only the state itself knows what was before.
        let reading = Past::at(&history.store, frame)?.reading();
        T::saved(&reading.state, &handle.id, key, &reading.bodies)
    }
}

impl Inner {
    /// Reads the version at a place; none where there is none, or it was erased.
    ///
    /// # Errors
    /// As an item of [`History`].
    pub(super) fn link<T: Versioned>(
        &self,
        handle: &HandleId,
        key: &str,
        place: Last,
    ) -> Result<Option<Link<T>>> {
        let Some(at) = self.locate(place.frame)? else { return Ok(None) };
        match at {
            Located::Frame(files, at) => read(&files, at, place.frame, handle, Wanted::Key(place.index, key)),
            Located::Base(files, oldest) => {
                in_base(&files, oldest, handle, key)?.map(Some).ok_or(Error::Compacted { oldest })
            }
        }
    }

    /// Reads what deltas of one frame added to a handle; those that were erased are left out. None where nobody knows:
    /// the frame was lost or compacted, or holds something else there.
    ///
    /// # Errors
    /// The frame cannot be read.
    pub(super) fn contents(&self, handle: &HandleId, places: &[Last]) -> Result<Option<Vec<Content>>> {
        let Some(Last { frame, .. }) = places.first() else { return Ok(None) };
        match self.locate(*frame) {
            Ok(Some(Located::Frame(files, at))) => {
                let Some(segment) = files.segment(at) else { return Ok(None) };
                let read = |frame: &CheckedFrame<'_>| history::contents(frame, handle, places);
                segment.frame(u64::from(at.offset), *frame, read)
            }
            Ok(Some(Located::Base(..)) | None) | Err(Error::Lost { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the `clear` of a table at a place.
    fn clear_at<T: Versioned>(&self, handle: &HandleId, place: Last) -> Result<Option<Link<T>>> {
        match self.locate(place.frame)? {
            Some(Located::Frame(files, at)) => {
                read(&files, at, place.frame, handle, Wanted::Clear(place.index))
            }
            _ => Ok(None),
        }
    }

    /// The last `clear` of a table up to the end of frame `until`; [`Last::default`] if there is none.
    ///
    /// # Errors
    /// As an item of [`History`].
    pub(super) fn cleared_at<T: Versioned>(&self, handle: &HandleId, until: Frame) -> Result<Last> {
        let mut clear = self.state().cleared(&handle.id);
        while clear.frame > until {
            let Some(link) = self.clear_at::<T>(handle, clear)? else { return Ok(Last::default()) };
            clear = link.previous;
        }
        Ok(clear)
    }

    /// Where a commit stands; none for frame 0.
    fn locate(&self, frame: Frame) -> Result<Option<Located>> {
        if frame == Frame::ZERO {
            return Ok(None);
        }
        // Taken in one moment with the files: opening anew replaces both.
        let (exact, before, oldest, lost, files) = self.index(|index| {
            let (exact, before) = (index.at(frame), index.before_frame(frame));
            (exact, before, index.oldest(), index.lost(frame), self.files.frozen())
        });
        if let Some(range) = lost {
            return Err(Error::Lost { asked: frame, first: range.first, last: range.last });
        }
        if frame <= oldest {
            return Ok(Some(Located::Base(files, oldest)));
        }
        let at = match exact {
            Some(at) => Some(at),
            None => walk_to(&files, before.unwrap_or(Cursor::START), frame)?,
        };
        Ok(at.map(|at| Located::Frame(files, at)))
    }
}

/// Where a commit stands.
enum Located {
    Frame(Files, Position),
    /// It was compacted: the base holds the state at this frame.
    Base(Files, Frame),
}

fn read<T: Versioned>(
    files: &Files,
    at: Position,
    frame: Frame,
    handle: &HandleId,
    wanted: Wanted<'_>,
) -> Result<Option<Link<T>>> {
    let Some(segment) = files.segment(at) else { return Ok(None) };
    segment.frame(u64::from(at.offset), frame, |frame| history::link(frame, &handle.id, wanted))
}

/// Walks to a commit from a place before it, where the index does not know its own.
fn walk_to(files: &Files, from: Position, frame: Frame) -> Result<Option<Position>> {
    let mut found = None;
    files.cursor(from).each(&mut |met| {
        let header = &met.frame.header;
        if header.kind == FrameKind::Commit && header.number == frame {
            found = Some(met.at);
        }
        Ok(header.number < frame)
    })?;
    Ok(found)
}

/// What the base holds under a key: it is not sorted for that, so all of it is read up to the key.
fn in_base<T: Versioned>(
    files: &Files,
    oldest: Frame,
    handle: &HandleId,
    key: &str,
) -> Result<Option<Link<T>>> {
    let mut found = None;
    files.cursor(Cursor::START).each(&mut |met| {
        if met.frame.header.number > oldest {
            return Ok(false);
        }
        if met.frame.header.kind == FrameKind::Base {
            found = history::link(&met.frame, &handle.id, Wanted::Any(key)).map_err(|reason| {
                let segment = files.segment(met.at);
                segment.map_or(Error::Compacted { oldest }, |segment| segment.corrupt(oldest, reason))
            })?;
        }
        Ok(found.is_none())
    })?;
    // What the base says of the time before names frames that are gone.
    Ok(found.map(|link: Link<T>| Link { previous: Last::default(), ..link }))
}
