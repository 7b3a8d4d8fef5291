//! State folded from the log.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[cfg_attr(not(test), expect(dead_code, reason = "the notes, which speak through it, are not built yet"))]
pub(crate) mod text;
