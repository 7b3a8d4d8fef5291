//! Blanking: what is left of an envelope whose content is erased.
//!
//! Nothing moves and no length changes, so whatever points at the envelope, or behind it, goes on doing so. The
//! checksum is not touched: it belongs to the file, and blanked envelopes are always written to a new one.

use super::delta::{FLAG_CONTINUES, FLAG_ERASED, envelope as at};
use super::wire::{Malformed, Reader, put};

/// How much of an envelope goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blank {
    /// Embedding and body.
    Content,
    /// The handle's id as well: the whole handle is erased.
    Handle,
}

/// Blanks the envelope that begins `from` bytes into a payload, which is sound.
///
/// # Errors
/// No whole envelope stands there; nothing was changed.
pub fn blank(payload: &mut [u8], from: usize, what: Blank) -> Result<(), Malformed> {
    let offset = from as u64;
    let rest = payload.get_mut(from..).unwrap_or_default();
    let mut r = Reader::new(rest, offset);
    let length = r.u32("envelope length")? as usize;
    let field = |field: usize| -> Result<usize, Malformed> {
        let mut r = Reader::new(rest, offset);
        r.bytes("envelope header", field)?;
        Ok(r.u32("envelope header")? as usize)
    };
    let (id, width) = (field(at::ID_LENGTH)?, field(at::EMBEDDING_WIDTH)?);
    let mut r = Reader::new(rest, offset);
    r.bytes("envelope header", at::FLAGS)?;
    let flags = (r.u16("flags")? | FLAG_ERASED) & !FLAG_CONTINUES;
    let embedding = at::END..at::END.saturating_add(width.saturating_mul(4));
    let body = embedding.end.saturating_add(id)..length;
    let whole = rest.get_mut(..length).filter(|whole| body.start <= whole.len());
    let whole = whole.ok_or_else(|| Malformed::new("envelope", offset, "a whole one", "less"))?;
    put(whole, at::FLAGS, &flags.to_le_bytes());
    let zeroed = match what {
        Blank::Content => [embedding, body],
        Blank::Handle => [at::END..length, length..length],
    };
    for range in zeroed {
        whole.get_mut(range).unwrap_or_default().fill(0);
    }
    if what == Blank::Handle {
        put(whole, at::ID_LENGTH, &0u32.to_le_bytes());
    }
    Ok(())
}
