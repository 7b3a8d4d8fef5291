//! What no promise covers yet: whoever takes the lock writes it again, exactly as it was checked.

use std::collections::VecDeque;

use crate::codec::frame::FrameKind;
use crate::position::Frame;

/// The bytes of the last file that no promise covers, exactly as they were checked.
#[derive(Debug, Default)]
pub(super) struct Unproven {
    start: u64,
    /// The first `proven` of them are covered by now.
    held: Vec<u8>,
    proven: usize,
    /// Where the commits among them end.
    ends: VecDeque<(Frame, u64)>,
}

impl Unproven {
    pub(super) fn starting_at(start: u64) -> Unproven {
        Unproven { start, ..Unproven::default() }
    }

    /// The bytes, and where they stand.
    pub(super) fn bytes(&self) -> (u64, &[u8]) {
        (self.start + self.proven as u64, self.held.get(self.proven..).unwrap_or_default())
    }

    pub(super) fn add(&mut self, bytes: &[u8], kind: FrameKind, number: Frame, end: u64) {
        self.held.extend_from_slice(bytes);
        if kind == FrameKind::Commit {
            self.ends.push_back((number, end));
        }
    }

    /// Lets go of everything up to the end of the commit that a promise covers.
    pub(super) fn prove(&mut self, promise: Frame) {
        while let Some(&(number, end)) = self.ends.front()
            && number <= promise
        {
            let proven = usize::try_from(end.saturating_sub(self.start)).unwrap_or(usize::MAX);
            self.proven = proven.min(self.held.len());
            self.ends.pop_front();
        }
        // Moved only once there is less to keep than to let go of: each byte moves once at most for each that goes.
        if self.proven > self.held.len() / 2 {
            self.held.drain(..self.proven);
            self.start += self.proven as u64;
            self.proven = 0;
        }
    }
}
