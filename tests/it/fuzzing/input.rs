//! Choices out of bytes: what a body asks for is there, also behind the end of its input, where every choice is
//! the first one.

use arbitrary::{Arbitrary, Unstructured};

/// The bytes that a body has not used yet.
pub(super) struct Input<'a>(Unstructured<'a>);

impl<'a> Input<'a> {
    pub(super) fn new(data: &'a [u8]) -> Input<'a> {
        Input(Unstructured::new(data))
    }

    /// True once every byte is used: what comes now is always the same.
    pub(super) fn is_used_up(&self) -> bool {
        self.0.is_empty()
    }

    /// A number below `n`, which is at least 1.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0.int_in_range(0..=n - 1).unwrap_or_default()
    }

    /// A place in something of `len` bytes, which may be none.
    pub(super) fn place(&mut self, len: usize) -> usize {
        self.below(len.max(1) as u64) as usize
    }

    pub(super) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == one_in - 1
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.place(from.len())]
    }

    /// A number of any size, mostly with many bits.
    pub(super) fn number<T: Arbitrary<'a> + Default>(&mut self) -> T {
        self.0.arbitrary().unwrap_or_default()
    }

    /// Up to `most` bytes.
    pub(super) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = self.place(most + 1).min(self.0.len());
        self.0.bytes(len).unwrap_or_default()
    }

    /// Short text, some of it not ASCII.
    pub(super) fn text(&mut self, words: u64) -> String {
        const WORDS: [&str; 8] = ["fox", "rot", "日本", "🚀", "log ", "x", "\n", "Frame"];
        (0..self.below(words)).map(|_| self.pick(&WORDS)).collect()
    }

    /// One of a few keys, so that histories meet themselves.
    pub(super) fn key(&mut self) -> &'static str {
        self.pick(&["", "a", "a/b", "b", "ünï", "c/d/e"])
    }
}
