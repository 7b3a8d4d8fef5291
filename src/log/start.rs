//! Where a log goes on behind a state that is known: for a checkpoint, what to stamp it with, and for an opening,
//! whether the stamp is that of this log.
//!
//! The files before the place are known by their salts, and the last frame by its checksum; nothing else of them
//! is read. That they were durable is known too: a checkpoint is made of durable frames only.

use std::sync::Arc;

use super::catchup::Place;
use super::found::Found;
use super::recover::Checked;
use super::{Files, Index};
use crate::codec::checkpoint::{FileStamp, PlaceStamp, Stamp};
use crate::codec::frame::FrameKind;
use crate::codec::segment::Durable;
use crate::disk::{Access, Disk};
use crate::error::Result;
use crate::position::{Frame, SegmentId, Time};
use crate::segment::{Chain, Opened, Segment, SegmentOptions, Step, Walk};

/// The place behind a frame that was just folded.
#[derive(Clone, Debug)]
pub struct Start {
    /// The ordinal of the file that holds it.
    pub(super) ordinal: u32,
    pub(super) place: Place,
    /// Bytes of the log up to it.
    pub(super) log_bytes: u64,
}

impl Start {
    /// The last number that was given before the place.
    pub fn frame(&self) -> Frame {
        self.place.chain.number
    }

    /// Bytes of the log before the place: headers, frames and markers of all files.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// The files that the place rests on.
    #[must_use]
    pub fn files(&self, files: &Files) -> Vec<Arc<Segment>> {
        let mut files = files.now().to_vec();
        files.truncate(self.ordinal as usize + 1);
        files
    }

    /// What a checkpoint of the state at the place is stamped with. `files` are those of [`Start::files`], and
    /// `index` is that of the same log, at the place or later.
    pub fn stamp(&self, files: &[Arc<Segment>], index: &Index) -> Stamp {
        let Place { end, ref chain, last_at, sealed, frames, commits, last_kind, .. } = self.place;
        let stamp = |segment: &Arc<Segment>| FileStamp {
            first: segment.id().first().0,
            part: part(segment.id()),
            salt: segment.header().salt,
            end: segment.published(),
        };
        let mut files: Vec<FileStamp> = files.iter().map(stamp).collect();
        if let Some(last) = files.last_mut() {
            last.end = end;
        }
        let place = PlaceStamp {
            last: last_at.map(|at| (at, chain.previous_crc)),
            number: chain.number.0,
            time_us: chain.time.as_micros(),
            frames,
            commits,
            last_kind: last_kind.map_or(0, |kind| kind as u8),
            sealed,
        };
        let mut stamp = Stamp { store: self.place.store, files, place, ..Stamp::default() };
        index.save(chain.number, &mut stamp);
        stamp
    }
}

fn part(id: SegmentId) -> u32 {
    match id {
        SegmentId::Base { part, .. } => part,
        SegmentId::Segment { .. } => 0,
    }
}

fn id(stamp: &FileStamp) -> SegmentId {
    let first = Frame(stamp.first);
    match stamp.part {
        0 => SegmentId::Segment { first },
        part => SegmentId::Base { first, part },
    }
}

/// Whether files of the log are those that a stamp names.
pub(super) fn matches(files: &[Arc<Segment>], stamp: &Stamp) -> bool {
    let same = |(segment, file): (&Arc<Segment>, &FileStamp)| {
        segment.id() == id(file) && segment.header().salt == file.salt && segment.published() >= file.end
    };
    files.len() >= stamp.files.len() && files.iter().zip(&stamp.files).all(same)
}

impl Files {
    /// Whether these are the files that a stamp names, unchanged up to its place.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn agree_with(&self, stamp: &Stamp) -> Result<bool> {
        let files = self.now();
        if stamp.files.is_empty() || !matches(&files, stamp) {
            return Ok(false);
        }
        let Some(segment) = files.get(stamp.files.len() - 1) else { return Ok(false) };
        Ok(place(stamp, segment)?.is_some())
    }
}

/// The place that a stamp names in its last file; none if the frame before it is not the one that was folded.
fn place(stamp: &Stamp, segment: &Segment) -> Result<Option<Place>> {
    let PlaceStamp { last, number, time_us, frames, commits, last_kind, sealed } = stamp.place;
    let Some(file) = stamp.files.last() else { return Ok(None) };
    let Some(time) = Time::from_micros(time_us) else { return Ok(None) };
    if segment.header().store != stamp.store {
        return Ok(None);
    }
    let chain = Chain { previous_crc: last.map_or(0, |(_, crc)| crc), number: Frame(number), time };
    if let Some((at, crc)) = last {
        match Walk::new(segment, at, file.end).step()? {
            Step::Frame { frame, bytes, .. }
                if frame.header.crc == crc && at + bytes.len() as u64 == file.end => {}
            _ => return Ok(None),
        }
    }
    Ok(Some(Place {
        store: stamp.store,
        end: file.end,
        chain,
        last_at: last.map(|(at, _)| at),
        sealed,
        frames,
        commits,
        last_kind: FrameKind::from_tag(last_kind),
    }))
}

/// A log that is known up to a place: its files so far are open, none of their frames is read again. None if the
/// files that were found are not those of the stamp.
///
/// # Errors
/// [`crate::error::Error::Io`]; [`crate::error::Error::NewerFormat`].
pub(super) fn known(
    found: &Found,
    disk: &dyn Disk,
    options: SegmentOptions,
    promised: Option<Durable>,
    stamp: &Stamp,
) -> Result<Option<Checked>> {
    let named = |((found, _), file): (&(SegmentId, String), &FileStamp)| *found == id(file);
    if stamp.files.last().is_none_or(|last| last.part > 0)
        || found.files.len() < stamp.files.len()
        || !found.files.iter().zip(&stamp.files).all(named)
    {
        return Ok(None);
    }
    let mut segments = Vec::with_capacity(found.files.len());
    for (ordinal, (file, (id, name))) in stamp.files.iter().zip(&found.files).enumerate() {
        let access = if ordinal + 1 == found.files.len() { found.access } else { Access::Read };
        let Opened::Segment(segment) = Segment::open(disk, name, *id, access, options)? else {
            return Ok(None);
        };
        if segment.header().salt != file.salt || segment.size()? < file.end {
            return Ok(None);
        }
        segment.publish(file.end);
        segments.push(Arc::new(segment));
    }
    let Some(place) = segments.last().map(|last| place(stamp, last)).transpose()?.flatten() else {
        return Ok(None);
    };
    let (promised, known) = (promised.filter(|durable| durable.store == place.store), place.chain.number);
    let mut checked = Checked::at(place, segments, promised);
    checked.promise = checked.promise.max(known);
    checked.index = Index::load(stamp);
    Ok(Some(checked))
}
