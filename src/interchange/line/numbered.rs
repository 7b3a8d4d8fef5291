//! The lines of an input, one by one with their numbers. What they say is none of its business.

use std::io::{self, BufRead};

/// What some editors put before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Lines that are read one after the other. Blank ones are counted and left out.
pub(in crate::interchange) struct Numbered<'i> {
    input: &'i mut dyn BufRead,
    bytes: Vec<u8>,
    number: u64,
}

impl<'i> Numbered<'i> {
    pub(in crate::interchange) fn new(input: &'i mut dyn BufRead) -> Numbered<'i> {
        Numbered { input, bytes: Vec::new(), number: 0 }
    }

    /// The next line that is not blank, and its number, counted from 1; none at the end.
    ///
    /// # Errors
    /// What reading answers.
    pub(in crate::interchange) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        loop {
            self.bytes.clear();
            if self.input.read_until(b'\n', &mut self.bytes)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if !text(self.number, &self.bytes).trim_ascii().is_empty() {
                return Ok(Some((self.number, text(self.number, &self.bytes))));
            }
        }
    }
}

fn text(number: u64, line: &[u8]) -> &[u8] {
    match line.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) if number == 1 => rest,
        _ => line,
    }
}
