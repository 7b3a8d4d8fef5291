//! State folded from the log.

#[cfg_attr(not(test), expect(dead_code, reason = "the notes, which speak through it, are not built yet"))]
pub(crate) mod text;
