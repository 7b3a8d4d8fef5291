//! Erasing: files of the log anew, with some envelopes blanked, as one change through INTENT.
//!
//! A rewritten file keeps its name, its offsets, and all that its frames say: numbers, times, promises, writers,
//! markers, the nonces of header and seal. Salt, chain and digest are new, so that no frame of the old file and no
//! checkpoint of it can be taken for one of the new. Everything in `checkpoints/` and `quarantine/` goes with it, temporary
//! files included: nobody knows what stands there. It does not know what envelopes say; the caller chooses them.

use std::sync::Arc;

use super::build::Build;
use super::change::{Change, contents};
use super::commit::{Log, locked};
use super::settle::QUARANTINE;
use super::{CatchUp, Cursor, Files, intent};
use crate::codec::blank::{Blank, blank};
use crate::codec::frame::{CheckedFrame, FRAME_HEADER_BYTES, FrameKind, Seal};
use crate::codec::segment::FRAMES_START;
use crate::codec::wire::Malformed;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::position::{Frame, Time};
use crate::segment::{LOG_DIR, Segment, Step, Walk};

/// Where checkpoints are.
const CHECKPOINTS: &str = "checkpoints";

/// Says which envelopes go.
pub trait Choose {
    /// Is shown every frame that holds deltas, in order, before anything is chosen.
    ///
    /// # Errors
    /// An envelope does not decode.
    fn look(&mut self, frame: &CheckedFrame<'_>) -> Result<(), Malformed>;

    /// Is shown every such frame once more, with the ordinal of its file, and chooses. Offsets are those in the file, in
    /// order.
    ///
    /// # Errors
    /// An envelope does not decode.
    fn choose(&mut self, file: u32, frame: &CheckedFrame<'_>) -> Result<Vec<(u64, Blank)>, Malformed>;
}

/// A file that was written anew, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blanked {
    /// Its ordinal in the log.
    pub ordinal: u32,
    /// Its path in the store.
    pub file: String,
    /// Frames in which something was blanked.
    pub frames: u64,
    /// Whether this process still reads the old file, whose blocks are free when the last who does so ends.
    pub open_here: bool,
}

/// What erasing did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The files that were written anew.
    pub files: Vec<Blanked>,
    /// What went from `checkpoints/`.
    pub checkpoints: Vec<String>,
    /// What went from `quarantine/`.
    pub quarantine: Vec<String>,
}

/// The envelopes that go from one file, by frame.
struct Plan {
    ordinal: u32,
    frames: Vec<(u64, Vec<(u64, Blank)>)>,
}

impl Log {
    /// Blanks what is chosen, and takes checkpoints and quarantine away; then opens the log anew. The caller holds its
    /// turn, and nothing is appended meanwhile. Durable when it returns. Takes as much memory as the largest file.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: a frame does not check out any more; [`Error::Invalid`]: something stands in `checkpoints/` or
    /// `quarantine/` that is no file of ours; [`Error::DiskFull`]: nothing was changed. [`Error::Poisoned`]: a failure of
    /// the disk; whoever takes the lock next finishes the change, if it was stated.
    pub fn erase(&self, choose: &mut dyn Choose, catch_up: &mut dyn CatchUp) -> Result<Removed> {
        let _shape = locked(&self.shape);
        let mut slot = locked(&self.tail);
        self.check_poison()?;
        let tail = slot.as_ref().ok_or(Error::Closed)?;
        // What the new files hold was acknowledged, or is from now on.
        self.sync_all(&tail.segment)?;
        self.remove_strays()?;
        let files = self.files.now();
        let plans = plan(&self.files, choose)?;
        let mut change = Change::begin(&*self.disk, self.store)?;
        let checkpoints = change.drop_all(CHECKPOINTS)?;
        let quarantine = change.drop_all(QUARANTINE)?;
        for plan in &plans {
            if let Some(segment) = files.get(plan.ordinal as usize) {
                rewrite(&*self.disk, &mut change, segment, plan, plan.ordinal as usize + 1 == files.len())?;
            }
        }
        if !change.is_empty() {
            match change.commit() {
                Err(e @ Error::DiskFull { .. }) => return Err(e),
                committed => committed.and_then(|()| self.open_anew(&mut slot, catch_up)),
            }
            .map_err(|e| self.poison(e))?;
        }
        drop(slot);
        Ok(Removed { files: blanked(&files, &plans), checkpoints, quarantine })
    }

    /// What a process left in `log/` that died in a change may hold anything. Nobody builds there now.
    fn remove_strays(&self) -> Result<()> {
        let disk = &*self.disk;
        let names = disk.list(LOG_DIR).map_err(|e| Error::io("listing", disk.root().join(LOG_DIR), e))?;
        let strays: Vec<_> = names.iter().filter(|name| name.ends_with(".tmp")).collect();
        for name in &strays {
            intent::remove(disk, &format!("{LOG_DIR}/{name}"))?;
        }
        if strays.is_empty() {
            return Ok(());
        }
        disk.sync_dir(LOG_DIR).map_err(|e| Error::io("syncing", disk.root().join(LOG_DIR), e))
    }
}

impl Files {
    /// What [`Log::erase`] would do with the files as they are now.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Invalid`]; [`Error::Io`].
    pub fn would_erase(&self, disk: &dyn Disk, choose: &mut dyn Choose) -> Result<Removed> {
        let files = self.frozen();
        let plans = plan(&files, choose)?;
        let (checkpoints, quarantine) = (contents(disk, CHECKPOINTS)?, contents(disk, QUARANTINE)?);
        let mut files = blanked(&files.now(), &plans);
        files.iter_mut().for_each(|file| file.open_here = false);
        Ok(Removed { files, checkpoints, quarantine })
    }
}

/// What goes, file by file; files from which nothing goes are not among them.
fn plan(files: &Files, choose: &mut dyn Choose) -> Result<Vec<Plan>> {
    each(files, &mut |_, _, frame| choose.look(frame))?;
    let mut plans: Vec<Plan> = Vec::new();
    each(files, &mut |ordinal, offset, frame| {
        let chosen = choose.choose(ordinal, frame)?;
        if chosen.is_empty() {
            return Ok(());
        }
        if plans.last().is_none_or(|plan| plan.ordinal != ordinal) {
            plans.push(Plan { ordinal, frames: Vec::new() });
        }
        if let Some(plan) = plans.last_mut() {
            plan.frames.push((offset, chosen));
        }
        Ok(())
    })?;
    Ok(plans)
}

/// Visits every frame that holds deltas, with the ordinal of its file and its offset there.
fn each(
    files: &Files,
    visit: &mut dyn FnMut(u32, u64, &CheckedFrame<'_>) -> Result<(), Malformed>,
) -> Result<()> {
    let segments = files.now();
    files.cursor(Cursor::START).each(&mut |met| {
        if !matches!(met.frame.header.kind, FrameKind::Commit | FrameKind::Base) {
            return Ok(true);
        }
        visit(met.at.segment, u64::from(met.at.offset), &met.frame).map(|()| true).map_err(|reason| {
            match segments.get(met.at.segment as usize) {
                Some(segment) => segment.corrupt(met.frame.header.number, reason),
                None => Error::Closed,
            }
        })
    })
}

/// Builds a file anew without what goes from it. The last one keeps the space that is reserved for it.
fn rewrite(
    disk: &dyn Disk,
    change: &mut Change<'_>,
    segment: &Segment,
    plan: &Plan,
    last: bool,
) -> Result<()> {
    let id = segment.id();
    let mut build = Build::begin(disk, segment.header().clone(), id.first().previous(), Time::ZERO)?;
    let mut walk = Walk::new(segment, FRAMES_START, segment.published());
    let mut blanks = plan.frames.iter().peekable();
    loop {
        let at = walk.offset();
        match walk.step()? {
            Step::Frame { frame, .. } if frame.header.kind == FrameKind::Seal => {
                let corrupt = |reason| segment.corrupt(frame.header.number, reason);
                let nonce = Seal::decode(frame.payload, at).map_err(corrupt)?.nonce;
                build.seal(nonce, Some(&frame.header))?;
            }
            Step::Frame { offset, frame, .. } => match blanks.next_if(|(frame, _)| *frame == offset) {
                None => build.copy(&frame)?,
                Some((_, chosen)) => {
                    let blanked = without(&frame, offset, chosen);
                    let payload = blanked.map_err(|reason| segment.corrupt(frame.header.number, reason))?;
                    build.copy(&CheckedFrame { header: frame.header, payload: &payload })?;
                }
            },
            Step::End => break,
            Step::Bad(reason) => return Err(segment.corrupt(build.chain().number, reason)),
        }
    }
    if build.bytes().len() as u64 != segment.published() || blanks.peek().is_some() {
        // Not reached while frames keep their lengths: what points into the file would point elsewhere.
        let (expected, found) = (segment.published(), build.bytes().len());
        return Err(segment.corrupt(Frame::ZERO, Malformed::new("rewritten file", 0, expected, found)));
    }
    let reserved = if last { segment.size()? } else { 0 };
    change.build(id.to_string(), build.salt(), build.bytes(), reserved)
}

/// The payload of a frame that stands at an offset of its file, with the chosen envelopes blanked.
fn without(frame: &CheckedFrame<'_>, offset: u64, chosen: &[(u64, Blank)]) -> Result<Vec<u8>, Malformed> {
    let mut payload = frame.payload.to_vec();
    let begin = offset + FRAME_HEADER_BYTES as u64;
    for (at, what) in chosen {
        blank(&mut payload, usize::try_from(at.saturating_sub(begin)).unwrap_or(usize::MAX), *what)?;
    }
    Ok(payload)
}

fn blanked(files: &Arc<Vec<Arc<Segment>>>, plans: &[Plan]) -> Vec<Blanked> {
    let shared = Arc::strong_count(files) > 1;
    let of = |plan: &Plan| {
        let segment = files.get(plan.ordinal as usize)?;
        Some(Blanked {
            ordinal: plan.ordinal,
            file: format!("{LOG_DIR}/{}", segment.id()),
            frames: plan.frames.len() as u64,
            open_here: shared || Arc::strong_count(segment) > 1,
        })
    };
    plans.iter().filter_map(of).collect()
}
