//! The two verdicts about the end of a log, and the mending of an unclean one.
//!
//! An end is cut only where nothing on disk contradicts an unclean end, and then the tail is kept in
//! `quarantine/` and durable there before it is zeroed. Frames above the last promise are written again from
//! the buffer in which they were checked: the page cache may show what the disk never got.

use std::sync::Arc;

use super::catchup::Place;
use super::commit::Tail;
use super::promise::DURABLE;
use super::recover::{Checked, Opening, Writing, damage};
use super::{Files, intent};
use crate::codec::segment::{DURABLE_BYTES, Durable, SegmentHeader, StoreId};
use crate::codec::wire::Malformed;
use crate::disk::{Access, Disk, File, Lock};
use crate::error::{Cut, Damage, Error, Evidence, Recovery, Result};
use crate::position::{Frame, SegmentId, Time};
use crate::segment::{LOG_DIR, Segment, SegmentOptions, find_promise};

/// Where cut bytes are kept.
pub(super) const QUARANTINE: &str = "quarantine";
/// How many zeros are written at a time.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// What the end of the log is.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Nothing stands behind the last frame.
    Clean,
    /// The last append was torn, and nobody was told that it was saved.
    Unclean {
        /// The bytes behind the last frame, up to the last that is not zero.
        tail: Vec<u8>,
        /// What did not check out.
        reason: Malformed,
    },
    /// Frames that had been acknowledged are not there.
    Damaged(Damage),
}

/// Looks at what stands behind the last checked frame, and at the promises.
pub(super) fn verdict(disk: &dyn Disk, checked: &Checked) -> Result<Verdict> {
    let last = checked.chain.number;
    let wanted = last.next().unwrap_or(Frame(u64::MAX));
    let name = checked.segments.last().map(|s| s.id().to_string()).unwrap_or_default();
    let damaged = |name: &str, offset, reason, evidence| {
        let (path, segment) = (disk.root().to_path_buf(), name.to_owned());
        Ok(Verdict::Damaged(Damage { path, segment, offset, frame: wanted, reason, evidence }))
    };
    if let Some(stop) = &checked.stop
        && let Some(evidence) = stop.evidence
    {
        return damaged(&stop.name, stop.offset, stop.reason.clone(), evidence);
    }
    let reason = match &checked.stop {
        Some(stop) => stop.reason.clone(),
        None => Malformed::new("frame header", checked.end, format_args!("frame {wanted}"), "zeros"),
    };
    let mut tail = tail(checked)?;
    let used = tail.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    // Searched before the zeros are cut off: those of a frame's own padding belong to it.
    if used > 0
        && let Some(segment) = checked.segments.last()
        && let Some((offset, frame)) = find_promise(&tail, checked.end, segment.seed(), wanted)
        && frame > last
    {
        return damaged(&name, checked.end, reason, Evidence::Promise { offset, frame });
    }
    if let Some(durable) = checked.promised.filter(|d| d.frame > last) {
        return damaged(&name, checked.end, reason, Evidence::Durable(durable.frame));
    }
    if used == 0 {
        return Ok(Verdict::Clean);
    }
    tail.truncate(used);
    Ok(Verdict::Unclean { tail, reason })
}

/// The bytes behind the last checked frame, to the end of the file. Behind a seal there are none.
fn tail(checked: &Checked) -> Result<Vec<u8>> {
    let Some(segment) = checked.segments.last().filter(|_| checked.sealed.is_none()) else {
        return Ok(Vec::new());
    };
    // No frame begins beyond: its place in the file has 32 bits.
    let end = segment.reserved().min(u64::from(u32::MAX));
    let len = usize::try_from(end.saturating_sub(checked.end)).unwrap_or(usize::MAX);
    segment.read_raw(checked.end, len)
}

/// A log served for reading, up to what checks out.
pub(super) fn serve(checked: Checked, verdict: Verdict) -> Opening {
    let name = checked.segments.last().map(|s| s.id().to_string()).unwrap_or_default();
    let mut recovery = Recovery::default();
    match verdict {
        Verdict::Clean => {}
        Verdict::Unclean { tail, reason } => {
            let (offset, len_bytes) = (checked.end, tail.len() as u64);
            recovery.cut = Some(Cut { segment: name, offset, len_bytes, quarantine: None, reason });
        }
        Verdict::Damaged(damage) => recovery.damage = Some(damage),
    }
    Opening {
        store: checked.store,
        durable: checked.promise.min(checked.chain.number),
        time: checked.chain.time,
        place: Place::of(&checked),
        files: Files::new(checked.segments),
        index: checked.index,
        recovery,
        writing: None,
    }
}

/// Turns a checked log into one that can be appended to; the lock is held.
///
/// # Errors
/// [`Error::Damaged`]; [`Error::DiskFull`] when the tail cannot be kept; [`Error::Io`]. Nothing was cut then,
/// unless its copy was durable.
pub(super) fn settle(
    disk: &Arc<dyn Disk>,
    checked: Checked,
    lock: Lock,
    finished_intent: bool,
) -> Result<Opening> {
    let mut recovery = Recovery { finished_intent, ..Recovery::default() };
    let unclean = match verdict(&**disk, &checked)? {
        Verdict::Damaged(damage) => return Err(damage.into()),
        Verdict::Unclean { tail, reason } => Some((tail, reason)),
        Verdict::Clean => None,
    };
    let Some(segment) = checked.segments.last().cloned() else {
        let reason = Malformed::new("log", 0, "a segment", "none");
        return Err(damage(&**disk, LOG_DIR, 0, Frame(1), reason, Evidence::NotLast));
    };
    if let Some((tail, reason)) = unclean {
        recovery.cut = Some(cut(&**disk, &segment, checked.end, &tail, reason)?);
    }
    let durable_file = durable_file(&**disk)?;
    let (start, unproven) = checked.unproven.bytes();
    if !unproven.is_empty() {
        segment.write(start, unproven)?;
        segment.sync()?;
        recovery.rewritten_bytes = unproven.len() as u64;
    }
    let durable = checked.chain.number;
    // A checkpoint proves frames, too, but is only a cache: the promise must not depend on it.
    let late = durable > checked.promised.as_ref().map_or(Frame::ZERO, |promised| promised.frame);
    if recovery.cut.is_some() || recovery.rewritten_bytes > 0 || late {
        let first = segment.id().first();
        let promise = Durable {
            store: checked.store,
            frame: durable,
            segment: first,
            offset: checked.end,
            copied: false,
        };
        let io = |doing| move |e| Error::io(doing, disk.root().join(DURABLE), e);
        durable_file.write_at(0, &promise.encode()).map_err(io("writing"))?;
        durable_file.sync_data().map_err(io("syncing"))?;
    }
    let tail = Tail {
        ordinal: u32::try_from(checked.segments.len() - 1).unwrap_or(u32::MAX),
        segment,
        place: Place::of(&checked),
        dir_synced: false,
        served: false,
        writer: random_writer(&**disk)?,
    };
    Ok(Opening {
        store: checked.store,
        durable,
        time: checked.chain.time,
        place: Place::of(&checked),
        files: Files::new(checked.segments),
        index: checked.index,
        recovery,
        writing: Some(Writing { tail, lock, durable_file }),
    })
}

/// Keeps the tail, then zeroes it.
fn cut(disk: &dyn Disk, segment: &Segment, offset: u64, tail: &[u8], reason: Malformed) -> Result<Cut> {
    let name = format!("{}.{offset}.{:08x}", segment.id(), random_writer(disk)?);
    keep(disk, &name, tail)?;
    let mut at = offset;
    let end = segment.reserved();
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(ZEROS.len());
        segment.write(at, ZEROS.get(..len).unwrap_or_default())?;
        at += len as u64;
    }
    segment.sync()?;
    let (segment, len_bytes) = (segment.id().to_string(), tail.len() as u64);
    tracing::warn!(segment, offset, len_bytes, %reason, quarantine = name, "cut an unclean end");
    Ok(Cut { segment, offset, len_bytes, quarantine: Some(name), reason })
}

/// Puts bytes into `quarantine/` under a name; both are durable then.
///
/// # Errors
/// [`Error::DiskFull`]; [`Error::Io`]. No copy is left then, as far as the disk lets us.
pub(super) fn keep(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<()> {
    let path = format!("{QUARANTINE}/{name}");
    let display = disk.root().join(&path);
    let io = |doing| move |e| Error::io(doing, &display, e);
    disk.create_dir(QUARANTINE).map_err(io.clone()("creating the directory of"))?;
    disk.sync_dir("").map_err(io.clone()("syncing the directory of"))?;
    let file = disk.open(&path, Access::Create).map_err(io.clone()("creating"))?;
    let kept = file
        .allocate(bytes.len() as u64)
        .and_then(|()| file.write_at(0, bytes))
        .and_then(|()| file.sync_data())
        .and_then(|()| disk.sync_dir(QUARANTINE));
    if let Err(e) = kept {
        // A copy that is not whole would only take space from the next try.
        let _ = disk.remove(&path);
        return Err(io("keeping a copy in")(e));
    }
    Ok(())
}

/// Opens DURABLE for writing, or makes it; its name is durable then.
pub(super) fn durable_file(disk: &dyn Disk) -> Result<Arc<dyn File>> {
    let io = |doing| move |e| Error::io(doing, disk.root().join(DURABLE), e);
    let file = match disk.open(DURABLE, Access::Write) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let file = disk.open(DURABLE, Access::Create).map_err(io("creating"))?;
            disk.sync_dir("").map_err(io("syncing the directory of"))?;
            file
        }
        other => other.map_err(io("opening"))?,
    };
    // Raising a promise must not fail for want of space.
    file.allocate(DURABLE_BYTES as u64).map_err(io("reserving space for"))?;
    Ok(file)
}

/// Makes whatever an interrupted (or not begun) creation left out: directories and first segment.
pub(super) fn complete_creation(
    disk: &dyn Disk,
    id: SegmentId,
    options: SegmentOptions,
    now: Time,
) -> Result<()> {
    let io = |doing, dir: &str| {
        let path = disk.root().join(dir);
        move |e| Error::io(doing, path, e)
    };
    disk.create_dir("").map_err(io("creating", ""))?;
    disk.create_dir(LOG_DIR).map_err(io("creating", LOG_DIR))?;
    durable_file(disk)?;
    disk.sync_dir("").map_err(io("syncing", ""))?;
    let header = SegmentHeader {
        store: StoreId(random_bytes(disk)?),
        first: id.first(),
        salt: random(disk)?,
        previous_nonce: 0,
        created: now,
    };
    Segment::build(disk, id, header, options)?.name(disk)
}

/// Makes the names of a store durable in which nothing is yet: its parents', its own, its first segment's.
pub(super) fn sync_names(disk: &dyn Disk) -> Result<()> {
    let io = |doing, dir: &str| {
        let path = disk.root().join(dir);
        move |e| Error::io(doing, path, e)
    };
    disk.create_dir("").map_err(io("syncing the parents of", ""))?;
    disk.sync_dir("").map_err(io("syncing", ""))?;
    disk.sync_dir(LOG_DIR).map_err(io("syncing", LOG_DIR))
}

/// Removes files that were being built when their builder died. Those of a change under way are not among
/// them: INTENT was finished before. One that cannot be removed is in nobody's way: names are random.
pub(super) fn remove_temporaries(disk: &dyn Disk, dirs: &[&str]) -> Result<()> {
    for dir in dirs {
        let names = match disk.list(dir) {
            Ok(names) => names,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(Error::io("listing", disk.root().join(dir), e)),
        };
        for name in names.iter().filter(|name| name.ends_with(".tmp")) {
            if let Err(cause) = intent::remove(disk, format!("{dir}/{name}").trim_start_matches('/')) {
                tracing::warn!(%cause, "a stray temporary file stays");
            }
        }
    }
    Ok(())
}

/// A random number that is not 0, because zero means "none" in the format.
pub(super) fn random(disk: &dyn Disk) -> Result<u64> {
    random_bytes(disk).map(|bytes| u64::from_le_bytes(bytes).max(1))
}

/// A random number for this opening: it makes an identical frame written again another frame.
pub(super) fn random_writer(disk: &dyn Disk) -> Result<u32> {
    random_bytes(disk).map(|bytes| u32::from_le_bytes(bytes).max(1))
}

/// Random bytes.
pub(super) fn random_bytes<const N: usize>(disk: &dyn Disk) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    disk.random(&mut bytes).map_err(|e| Error::io("finding random numbers for", disk.root(), e))?;
    Ok(bytes)
}
