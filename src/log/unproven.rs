//! What no promise covers yet: whoever takes the lock writes it again, exactly as it was checked.

use std::collections::VecDeque;

use crate::codec::frame::FrameKind;
use crate::position::Frame;

/// The bytes of the last file that no promise covers, exactly as they were checked.
#[derive(Debug, Default)]
pub(super) struct Unproven {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    /// Where the commits among them end.
    ends: VecDeque<(Frame, u64)>,
}

impl Unproven {
    pub(super) fn starting_at(start: u64) -> Unproven {
        Unproven { start, ..Unproven::default() }
    }

    pub(super) fn add(&mut self, bytes: &[u8], kind: FrameKind, number: Frame, end: u64) {
        self.bytes.extend_from_slice(bytes);
        if kind == FrameKind::Commit {
            self.ends.push_back((number, end));
        }
    }

    /// Lets go of everything up to the end of the commit that a promise covers.
    pub(super) fn prove(&mut self, promise: Frame) {
        let mut start = self.start;
        while let Some(&(number, end)) = self.ends.front()
            && number <= promise
        {
            start = end;
            self.ends.pop_front();
        }
        let proven = usize::try_from(start - self.start).unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes.drain(..proven);
        self.start = start;
    }
}
