//! What other processes appended since this one looked last.
//!
//! The quick way goes on where the last look ended, and is taken only while nothing contradicts that place:
//! every file is still the one at its path, the last frame is unchanged, no change of several files is under
//! way, and (for a writer) DURABLE promises exactly the log's end, so that its last holder ended well. In any
//! other case the log is opened anew, with the two verdicts and all mending.

use std::sync::Arc;

use super::found::Found;
use super::recover::{self, Checked, Fold, Opening};
use super::{Files, Index, intent, promise};
use crate::codec::frame::{CheckedFrame, FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use crate::codec::segment::StoreId;
use crate::disk::{Access, Disk, File};
use crate::error::{Error, Result};
use crate::position::{Frame, SegmentId};
use crate::segment::{Chain, LOG_DIR, Segment, SegmentOptions};

/// A place behind checked frames, from which a later look goes on.
#[derive(Clone, Debug)]
pub struct Place {
    pub(super) store: StoreId,
    /// Where the checked frames of the last file end.
    pub(super) end: u64,
    pub(super) chain: Chain,
    /// Where the last frame of the last file stands; its checksum is the chain's.
    pub(super) last_at: Option<u64>,
    pub(super) sealed: Option<u64>,
    pub(super) frames: u64,
    pub(super) commits: u64,
    pub(super) last_kind: Option<FrameKind>,
}

/// What a look found.
#[derive(Debug)]
pub(super) enum Caught {
    /// No new frames; but the known ones may be promised by now.
    Same {
        /// The highest frame that is promised.
        promised: Frame,
    },
    /// Frames behind the known ones; they were folded on top of what was known.
    More(More),
    /// The log was opened anew; the fold began again.
    Anew(Box<Opening>),
}

/// Frames behind the known ones.
#[derive(Debug)]
pub(super) struct More {
    /// All files of the log.
    pub(super) segments: Vec<Arc<Segment>>,
    /// Where the new frames stand.
    pub(super) index: Index,
    pub(super) place: Place,
    /// The highest frame that is promised.
    pub(super) promised: Frame,
}

impl Place {
    /// The place behind a checked log.
    pub(super) fn of(checked: &Checked) -> Place {
        Place {
            store: checked.store,
            end: checked.end,
            chain: checked.chain.clone(),
            last_at: checked.last_at,
            sealed: checked.sealed,
            frames: checked.frames,
            commits: checked.commits,
            last_kind: checked.last_kind,
        }
    }

    fn checked(&self, segments: Vec<Arc<Segment>>) -> Checked {
        Checked::at(self.clone(), segments, None)
    }
}

impl Checked {
    /// Whether all was taken in that is wanted.
    pub(super) fn is_enough(&self) -> bool {
        self.until.is_some_and(|until| self.chain.number >= until)
    }

    /// Whether a frame is a close behind all that is wanted: it is not taken in, and behind it somebody else may have
    /// gone on.
    pub(super) fn is_passed_by(&self, frame: &CheckedFrame<'_>) -> bool {
        let number = frame.header.number;
        frame.header.kind == FrameKind::Close && self.until.is_some_and(|until| number >= until)
    }

    /// Whether a frame stands behind all that is wanted.
    pub(super) fn is_beyond(&mut self, frame: &CheckedFrame<'_>) -> bool {
        let commit = frame.header.kind == FrameKind::Commit;
        let beyond = self
            .until
            .is_some_and(|until| frame.header.number > until || (!commit && frame.header.number == until));
        // Behind a seal stands another file, or somebody is about to make it.
        self.more |= beyond && (commit || frame.header.kind == FrameKind::Seal);
        beyond
    }
}

/// Whether every file is the one at its path, and the last frame is as it was when it was checked.
fn unchanged(disk: &dyn Disk, segments: &[Arc<Segment>], place: &Place) -> Result<bool> {
    for segment in segments {
        if !is_there(disk, segment, &segment.id().to_string())? {
            return Ok(false);
        }
    }
    let (Some(segment), Some(at)) = (segments.last(), place.last_at) else { return Ok(true) };
    let header = segment.read_raw(at, FRAME_HEADER_BYTES)?;
    Ok(FrameHeader::decode(&header, at).is_ok_and(|header| header.crc == place.chain.previous_crc))
}

/// Whether every file is still the one at the name under which it was opened.
pub(super) fn all_there(
    disk: &dyn Disk,
    segments: &[Arc<Segment>],
    listed: &[(SegmentId, String)],
) -> Result<bool> {
    for (segment, (_, name)) in segments.iter().zip(listed) {
        if !is_there(disk, segment, name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a file is the one at a name.
pub(super) fn is_there(disk: &dyn Disk, segment: &Segment, name: &str) -> Result<bool> {
    let path = format!("{LOG_DIR}/{name}");
    match disk.id(&path) {
        Ok(id) => Ok(id == segment.file_id()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("examining", disk.root().join(path), e)),
    }
}

/// Whether a file had gone that had been listed.
pub(super) fn is_gone(e: &Error) -> bool {
    matches!(e, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}

/// Whether the log that was opened anew is of the store that was open before.
///
/// # Errors
/// [`Error::OtherStore`].
pub(super) fn same_store(disk: &dyn Disk, known: StoreId, found: StoreId) -> Result<()> {
    if known == found { Ok(()) } else { Err(Error::OtherStore { path: disk.root().to_path_buf() }) }
}

/// Goes on behind `place`: first in the last known file, then in files behind it.
fn go_on(
    disk: &dyn Disk,
    options: SegmentOptions,
    files: &Files,
    place: &Place,
    (access, until): (Access, Option<Frame>),
    fold: &mut dyn Fold,
) -> Result<Option<Checked>> {
    let segments = files.now().to_vec();
    if !unchanged(disk, &segments, place)? {
        return Ok(None);
    }
    let known = segments.last().map(|segment| segment.id());
    let behind = || -> Result<Found> {
        let mut found = Found::look(disk, access)?;
        found.files.retain(|(id, _)| Some(*id) > known);
        Ok(found)
    };
    // Who looks without the lock lists before: what is listed then is behind what is found.
    let locked = access == Access::Write && until.is_none();
    let listed = if locked { None } else { Some(behind()?) };
    let mut checked = Checked { until, ..place.checked(segments) };
    if checked.sealed.is_none() {
        checked.resume(fold)?;
    }
    let found = match listed {
        Some(found) => found,
        // Under the lock nobody is at it, and a file is begun only behind one whose seal is durable: while the last one has
        // none, there is nothing to list.
        None if checked.sealed.is_none() => return Ok(Some(checked)),
        None => behind()?,
    };
    if checked.is_enough() {
        checked.more |= !found.files.is_empty();
    } else if !found.files.is_empty() {
        if checked.sealed.is_none() {
            return Ok(None);
        }
        checked.extend(found, disk, options, fold)?;
    }
    Ok(Some(checked))
}

/// A writer's quick look; the lock is held. `durable` is what is known durable, and DURABLE's descriptor. `None` asks to open
/// the log anew.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn for_writing(
    disk: &Arc<dyn Disk>,
    options: SegmentOptions,
    files: &Files,
    place: &Place,
    (durable, durable_file): (Frame, &dyn File),
    fold: &mut dyn Fold,
) -> Result<Option<Caught>> {
    if durable < place.chain.number || intent::stands(&**disk)? {
        return Ok(None);
    }
    let promise = promise::read_through(&**disk, durable_file)?;
    let Some(promise) = promise.filter(|d| d.store == place.store) else { return Ok(None) };
    let Some(mut checked) = go_on(&**disk, options, files, place, (Access::Write, None), fold)? else {
        return Ok(None);
    };
    if checked.stop.is_some() || promise.frame != checked.chain.number {
        return Ok(None);
    }
    if checked.end == place.end && checked.segments.len() == files.now().len() {
        return Ok(Some(Caught::Same { promised: promise.frame }));
    }
    // Markers stand above the last promise: written again in place, the next sync proves them.
    checked.unproven.prove(promise.frame);
    if let Some(segment) = checked.segments.last()
        && let (start, bytes @ [_, ..]) = checked.unproven.bytes()
    {
        segment.write(start, bytes)?;
    }
    Ok(Some(Caught::More(More {
        place: Place::of(&checked),
        segments: checked.segments,
        index: checked.index,
        promised: promise.frame,
    })))
}

/// A reader's look, without a lock. A frame that does not check out yet is no news.
///
/// # Errors
/// [`Error::Damaged`] where a promise says that more must be there; [`Error::Io`].
pub(super) fn for_reading(
    disk: &dyn Disk,
    options: SegmentOptions,
    files: &Files,
    place: &Place,
    fold: &mut dyn Fold,
) -> Result<Caught> {
    let quick = intent::read(disk)?.is_none();
    let go_on = |fold: &mut dyn Fold| match go_on(disk, options, files, place, (Access::Read, None), fold) {
        Err(e) if is_gone(&e) => Ok(None),
        other => other,
    };
    let promise = promise::read(disk)?.filter(|d| d.store == place.store).map_or(Frame::ZERO, |d| d.frame);
    if quick
        && let Some(checked) = go_on(fold)?
        && checked.chain.number >= promise
        && checked.stop.as_ref().is_none_or(|stop| stop.evidence.is_none())
        && unchanged(disk, &checked.segments, &Place::of(&checked))?
        && intent::read(disk)?.is_none()
    {
        let promised = promise.max(checked.promise).min(checked.chain.number);
        if checked.end == place.end && checked.segments.len() == files.now().len() {
            return Ok(Caught::Same { promised });
        }
        let place = Place::of(&checked);
        return Ok(Caught::More(More { place, segments: checked.segments, index: checked.index, promised }));
    }
    let opening = recover::open_for_reading(disk, options, fold)?;
    match opening.recovery.damage {
        Some(damage) => Err(damage.into()),
        None => same_store(disk, place.store, opening.store).map(|()| Caught::Anew(Box::new(opening))),
    }
}

/// A writer's look without the lock: what is promised, and whether a commit stands behind that. The last file it finds
/// can be appended to. `None`: only an opening can tell.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn beside_writers(
    disk: &dyn Disk,
    options: SegmentOptions,
    files: &Files,
    place: &Place,
    fold: &mut dyn Fold,
) -> Result<Option<(Caught, bool)>> {
    if intent::read(disk)?.is_some() {
        return Ok(None);
    }
    // One that is torn may be whole a moment later.
    let promise = match promise::read(disk)? {
        None => promise::read(disk)?,
        some => some,
    };
    let Some(promise) = promise.filter(|d| d.store == place.store).map(|d| d.frame) else { return Ok(None) };
    let until = promise.max(place.chain.number);
    let checked = match go_on(disk, options, files, place, (Access::Write, Some(until)), fold) {
        Err(e) if is_gone(&e) => None,
        checked => checked?,
    };
    let Some(checked) = checked else { return Ok(None) };
    let behind = Place::of(&checked);
    if !checked.is_enough() || !unchanged(disk, &checked.segments, &behind)? || intent::read(disk)?.is_some()
    {
        return Ok(None);
    }
    let more = checked.more;
    if checked.end == place.end && checked.segments.len() == files.now().len() {
        return Ok(Some((Caught::Same { promised: promise }, more)));
    }
    let found = More { place: behind, segments: checked.segments, index: checked.index, promised: promise };
    Ok(Some((Caught::More(found), more)))
}
