//! Appends checked frames, and waits for the disk once in a while instead of for each.

use super::{Draft, LoadError, LoadReport};
use crate::error::Result;
use crate::handle::vectors::identity;
use crate::position::Frame;
use crate::store::{Change, Inner, Stamp};

/// Bytes that are appended before waiting until they are durable.
const FLUSH_BYTES: u64 = 8 << 20;

/// Writes all frames. Returns once they count as written.
///
/// # Errors
/// [`LoadError::Writing`] with the last line that counts as written.
pub(super) fn write(inner: &Inner, drafts: &[Draft], report: LoadReport) -> Result<LoadReport, LoadError> {
    let mut writing = Writing { inner, report, appended: None, saved: None, bytes: 0 };
    match writing.all(drafts) {
        Ok(()) => Ok(writing.report),
        Err(cause) => {
            // What was appended before may well be saved; if not, the last known to be counts.
            let _ = writing.save();
            Err(LoadError::Writing { last: writing.saved, cause })
        }
    }
}

struct Writing<'s> {
    inner: &'s Inner,
    report: LoadReport,
    /// The last line that was appended, and its frame.
    appended: Option<(u64, Frame)>,
    /// The last line that counts as written, and its frame.
    saved: Option<(u64, Frame)>,
    /// Appended since.
    bytes: u64,
}

impl Writing<'_> {
    fn all(&mut self, drafts: &[Draft]) -> Result<()> {
        let store = identity(&*self.inner.options().embedder);
        for draft in drafts {
            let changes: Vec<_> = draft.lines.iter().flat_map(|l| l.changes(&store, &[])).collect();
            if changes.is_empty() {
                continue;
            }
            let before = self.inner.state().time();
            let stamp = Stamp { origin: draft.origin.as_ref(), time: Some(draft.stamp) };
            let frame = self.put(draft, &changes, stamp)?;
            self.count(draft, frame);
            self.report.raised_times += u64::from(draft.time.is_some_and(|time| time < before));
            if self.bytes >= FLUSH_BYTES {
                self.save()?;
            }
        }
        self.save()
    }

    /// Writes one frame; a base that is numbered becomes that of a store that is empty.
    fn put(&self, draft: &Draft, changes: &[Change<'_>], stamp: Stamp<'_>) -> Result<Frame> {
        let empty = self.inner.state().frame() == Frame::ZERO;
        match draft.begins_at().filter(|_| empty) {
            Some(frame) => self.inner.begin_at(frame, changes, stamp).map(|()| frame),
            None => self.inner.append(changes, stamp),
        }
    }

    fn count(&mut self, draft: &Draft, frame: Frame) {
        let report = &mut self.report;
        report.frames += 1;
        report.lines += draft.lines.len() as u64;
        report.first.get_or_insert(frame);
        report.last = Some(frame);
        report.renumbered |= draft.frame.is_some_and(|given| given != frame);
        report.embedded += draft.lines.iter().map(|loaded| loaded.embedded.len() as u64).sum::<u64>();
        self.appended = draft.lines.last().map(|loaded| (loaded.number, frame));
        self.bytes = self.bytes.saturating_add(draft.bytes);
    }

    fn save(&mut self) -> Result<()> {
        if let Some((_, frame)) = self.appended {
            self.inner.acknowledge(frame)?;
        }
        (self.saved, self.bytes) = (self.appended, 0);
        Ok(())
    }
}
