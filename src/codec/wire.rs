//! Reading and writing little-endian fields, and the one error of this layer.
//!
//! A [`Reader`] walks a slice and remembers how far it is, so that [`Malformed`] can say where. It never
//! panics and never reads past the end.

use std::fmt;

/// Bytes that are not what the format says. Pure: which file and frame it concerns is added above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The field or part.
    pub what: &'static str,
    /// Byte offset in what was decoded (a file for headers and frames, an envelope for deltas).
    pub offset: u64,
    /// What the format asks for.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

impl Malformed {
    /// An error about `what` at `offset`.
    pub fn new(
        what: &'static str,
        offset: u64,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Malformed { what, offset, expected: expected.to_string(), found: found.to_string() }
    }

    /// The same error, its offset counted from a place `base` bytes earlier.
    #[must_use]
    pub fn shifted(mut self, base: u64) -> Self {
        self.offset = self.offset.saturating_add(base);
        self
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Malformed { what, offset, expected, found } = self;
        write!(f, "{what} at byte {offset}: expected {expected}, found {found}")
    }
}

impl std::error::Error for Malformed {}

/// A cursor over a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    offset: u64,
}

impl<'a> Reader<'a> {
    /// Begins at the start of `bytes`; offsets in errors count from `offset`.
    pub fn new(bytes: &'a [u8], offset: u64) -> Self {
        Reader { rest: bytes, offset }
    }

    /// The bytes not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Where the next field stands.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn bytes(&mut self, what: &'static str, len: usize) -> Result<&'a [u8], Malformed> {
        let Some((head, tail)) = self.rest.split_at_checked(len) else {
            let found = format_args!("{} bytes", self.rest.len()).to_string();
            return Err(Malformed::new(what, self.offset, format_args!("{len} bytes"), found));
        };
        self.rest = tail;
        self.offset += len as u64;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(what, N)?);
        Ok(out)
    }

    /// One byte.
    ///
    /// # Errors
    /// None is left.
    #[inline]
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        self.array::<1>(what).map(|[b]| b)
    }

    /// Two bytes, little-endian.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// Four bytes, little-endian.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// `len` bytes that must be zero (reserved fields, padding).
    ///
    /// # Errors
    /// Fewer are left, or one is not zero.
    pub fn zeros(&mut self, what: &'static str, len: usize) -> Result<(), Malformed> {
        let start = self.offset;
        let bytes = self.bytes(what, len)?;
        match bytes.iter().position(|&b| b != 0) {
            None => Ok(()),
            Some(i) => {
                let found = bytes.get(i).copied().unwrap_or_default();
                Err(Malformed::new(what, start + i as u64, "zero", format_args!("{found:#04x}")))
            }
        }
    }
}

/// Writes a little-endian field at `offset` of a buffer that is known to hold it.
///
/// Layout constants put every field inside its struct (compile-time asserts), so a field that does not
/// fit is a fault of this crate; the bytes then stay as they are and the checksum test of the encoder fails.
pub(crate) fn put(buffer: &mut [u8], offset: usize, bytes: &[u8]) {
    debug_assert!(offset + bytes.len() <= buffer.len(), "field outside its struct");
    if let Some(field) = buffer.get_mut(offset..).and_then(|b| b.get_mut(..bytes.len())) {
        field.copy_from_slice(bytes);
    }
}

/// `len` rounded up to a multiple of 8.
pub const fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}
