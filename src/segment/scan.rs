//! Going through all frames of a file at once, for whoever looks for bytes wherever they stand.

use std::sync::atomic::Ordering;

use super::Segment;
use crate::codec::run::{Run, Stop};
use crate::codec::segment::FRAMES_START;
use crate::error::Result;

/// How much is checked before it is handed out: it is still in the processor's cache then.
const RUN_BYTES: usize = 64 * 1024;

impl Segment {
    /// Hands out every published frame, many at a time and in their order, once its checksum was found right. Answers
    /// false where something else stands: then nothing was said of what comes there and behind.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn scan(&self, look: &mut dyn FnMut(&Run<'_>)) -> Result<bool> {
        let (end, mut at, mut want) = (self.published(), FRAMES_START, RUN_BYTES);
        let mut starts = Vec::new();
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            let Some(bytes) = self.read(at, want.min(left))? else { return Ok(false) };
            let (run, stop) = Run::new(&bytes, at, self.seed(), &mut starts);
            if !run.is_empty() {
                self.frames_read.fetch_add(run.len() as u64, Ordering::Relaxed);
                look(&run);
                (at, want) = (at + run.bytes().len() as u64, RUN_BYTES);
                continue;
            }
            // A frame that is longer than what was read.
            match stop {
                Stop::Short(Some(len)) if len > want && len <= left => want = len,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}
