//! Encoding and decoding of envelopes, and the walk over those of a frame.
//!
//! Bodies are postcard; what must be readable without them stands in the envelope's header. Every decoded
//! text is borrowed from the slice.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::delta::{
    Class, Config, EMBEDDING_WIDTH_MAX, ENVELOPE_HEADER_BYTES, Envelope, FLAG_CONTINUES, FLAG_ERASED,
    FLAG_ITEM, FLAGS_KNOWN, HandleKind, Links, ORIGIN_TAG, Op, Origin, envelope as at,
};
use super::frame::Seed;
use super::wire::{Malformed, Reader, padded, put};
use crate::position::{Frame, Last};

mod walk;

pub use walk::{Delta, Deltas, check};

/// The body of a snapshot's head.
#[derive(Serialize, Deserialize)]
struct HeadBody<'a> {
    #[serde(borrow)]
    config: Config<'a>,
    items: u64,
}

/// The fixed part of an envelope.
struct Fixed {
    tag: u8,
    class: Class,
    flags: u16,
    tokens: u32,
    previous: Last,
}

/// Appends the envelope of one operation, padded to 8 bytes. `out` must end at a multiple of 8.
///
/// # Errors
/// An operation that the format does not have (an item that does not put, a configuration of notes, a note that
/// evicts), a body that cannot be encoded, or an envelope beyond 4 GiB; `out` is then as it was.
pub fn encode<'l>(
    out: &mut Vec<u8>,
    seed: &Seed,
    id: &str,
    links: impl Into<Links<'l>>,
    op: &Op<'_>,
    item: bool,
) -> Result<(), Malformed> {
    let Links { previous, evicted } = links.into();
    if !evicted.is_empty() && (item || !matches!(op, Op::Record(_) | Op::Push(_))) {
        return Err(Malformed::new("operation", 0, "one that evicts nothing", op.class().name()));
    }
    let mut flags = if item { FLAG_ITEM } else { 0 };
    let mut tokens = 0;
    match op {
        Op::Erased { tokens: t, .. } => (flags, tokens) = (flags | FLAG_ERASED, *t),
        Op::Snapshot { continues: true, .. } => flags |= FLAG_CONTINUES,
        Op::Push(push) => tokens = push.tokens,
        _ => {}
    }
    let embedding: &[f32] = if let Op::Upsert(upsert) = op { &upsert.embedding } else { &[] };
    let fixed = Fixed { tag: op.kind() as u8, class: op.class(), flags, tokens, previous };
    combination(op.kind(), &fixed, !embedding.is_empty())
        .map_err(|expected| Malformed::new("operation", 0, expected, op.class().name()))?;
    write(out, seed, &fixed, id, embedding, |out| match op {
        Op::Remember(note) => body(out, note),
        Op::Upsert(upsert) => body(out, upsert),
        Op::Record(record) => body(out, record).and_then(|()| put_evicted(out, evicted)),
        Op::Push(push) => body(out, push).and_then(|()| put_evicted(out, evicted)),
        Op::Forget { key } | Op::Delete { id: key } => body(out, key),
        Op::Configure(config) => body(out, config),
        Op::Snapshot { config, items, .. } => body(out, &HeadBody { config: config.clone(), items: *items }),
        Op::Clear(_) | Op::Erased { .. } => Ok(()),
    })
}

/// Appends the envelope of an origin. It stands before a frame's deltas and counts as none.
///
/// # Errors
/// As [`encode`].
pub fn encode_origin(out: &mut Vec<u8>, seed: &Seed, origin: &Origin) -> Result<(), Malformed> {
    let previous = Last::default();
    let fixed = Fixed { tag: ORIGIN_TAG, class: Class::Origin, flags: 0, tokens: 0, previous };
    write(out, seed, &fixed, "", &[], |out| body(out, origin))
}

/// Bytes of an origin's body: what [`super::delta::ORIGIN_BYTES_MAX`] limits.
pub fn origin_bytes(origin: &Origin) -> usize {
    postcard::to_stdvec(origin).map_or(usize::MAX, |bytes| bytes.len())
}

fn body<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> postcard::Result<()> {
    postcard::to_io(value, out).map(|_| ())
}

/// What was evicted stands behind the other fields, and only if there is something.
fn put_evicted(out: &mut Vec<u8>, evicted: &[Last]) -> postcard::Result<()> {
    if evicted.is_empty() {
        return Ok(());
    }
    body(out, &(evicted.len() as u64))?;
    evicted.iter().try_for_each(|Last { frame, index }| body(out, &(frame.0, *index)))
}

fn take_evicted(r: &mut Reader<'_>, item: bool) -> Result<Vec<Last>, Malformed> {
    if item || r.rest().is_empty() {
        return Ok(Vec::new());
    }
    let offset = r.offset();
    let places: u64 = take(r, "evicted")?;
    if places == 0 {
        return Err(Malformed::new("evicted", offset, "a place, or nothing at all", "no place"));
    }
    // Each takes a byte at least, so a number that is too high ends with the body.
    (0..places)
        .map(|_| take(r, "evicted place").map(|(frame, index)| Last { frame: Frame(frame), index }))
        .collect()
}

fn write(
    out: &mut Vec<u8>,
    seed: &Seed,
    fixed: &Fixed,
    id: &str,
    embedding: &[f32],
    body: impl FnOnce(&mut Vec<u8>) -> postcard::Result<()>,
) -> Result<(), Malformed> {
    let start = out.len();
    debug_assert!(start.is_multiple_of(8), "envelopes begin at multiples of 8");
    out.resize(start + ENVELOPE_HEADER_BYTES, 0);
    if cfg!(target_endian = "little") {
        out.extend_from_slice(bytemuck::cast_slice(embedding));
    } else {
        embedding.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
    }
    out.extend_from_slice(id.as_bytes());
    let encoded = body(out);
    let Ok(length) = u32::try_from(out.len() - start) else {
        out.truncate(start);
        return Err(Malformed::new("envelope", 0, "less than 4 GiB", "more"));
    };
    if let Err(e) = encoded {
        out.truncate(start);
        return Err(Malformed::new("delta body", 0, "a value that can be encoded", e));
    }
    let whole = out.get_mut(start..).unwrap_or_default();
    put(whole, at::LENGTH, &length.to_le_bytes());
    put(whole, at::KIND, &[fixed.tag]);
    put(whole, at::CLASS, &[fixed.class as u8]);
    put(whole, at::FLAGS, &fixed.flags.to_le_bytes());
    put(whole, at::ID_LENGTH, &(id.len() as u32).to_le_bytes());
    put(whole, at::TOKENS, &fixed.tokens.to_le_bytes());
    put(whole, at::PREVIOUS_INDEX, &fixed.previous.index.to_le_bytes());
    put(whole, at::PREVIOUS_FRAME, &fixed.previous.frame.0.to_le_bytes());
    put(whole, at::EMBEDDING_WIDTH, &(embedding.len() as u32).to_le_bytes());
    let crc = seed.crc_without(whole, at::CRC);
    put(whole, at::CRC, &crc.to_le_bytes());
    out.resize(start + padded(length as usize), 0);
    Ok(())
}

/// What an envelope holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<'a> {
    /// A delta, or an item of one.
    Delta(Envelope<'a>),
    /// Who wrote the frame; none if that was erased.
    Origin(Option<Origin>),
}

/// Whether an envelope's own checksum is looked at.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'s> {
    /// The frame's checksum was found right just now.
    Frame,
    /// The envelope is read alone: its checksum, begun with this seed, must be right.
    Alone(&'s Seed),
}

/// Bytes of the envelope at the beginning of `bytes`, padding included: what to read before [`decode`].
///
/// # Errors
/// Too short for a header, or a length smaller than one.
pub fn envelope_bytes(bytes: &[u8], offset: u64) -> Result<usize, Malformed> {
    let length = Reader::new(bytes, offset).u32("envelope length")? as usize;
    if length < ENVELOPE_HEADER_BYTES {
        return Err(Malformed::new("envelope length", offset, "at least 40", length));
    }
    Ok(padded(length))
}

/// Begins the checksum of every envelope of a payload anew, with the seed of another file. Nothing else changes.
///
/// # Errors
/// The envelopes do not fill the payload; those before were changed.
pub fn reseed(payload: &mut [u8], seed: &Seed) -> Result<(), Malformed> {
    let mut from = 0;
    while from < payload.len() {
        let rest = payload.get_mut(from..).unwrap_or_default();
        let padded = envelope_bytes(rest, from as u64)?;
        let length = Reader::new(rest, from as u64).u32("envelope length")? as usize;
        let Some(whole) = rest.get_mut(..length) else {
            return Err(Malformed::new("envelope", from as u64, length, rest.len()));
        };
        let crc = seed.crc_without(whole, at::CRC);
        put(whole, at::CRC, &crc.to_le_bytes());
        from += padded;
    }
    Ok(())
}

/// Decodes the envelope at the beginning of `bytes`, and answers the bytes behind its padding.
///
/// # Errors
/// Too short; a wrong checksum (if asked for); an unknown kind, class or flag, or a combination that does
/// not exist; reserved or padding bytes in use; an erased body that is not zero; a body that does not decode
/// wholly; text that is not UTF-8.
pub fn decode<'a>(
    bytes: &'a [u8],
    offset: u64,
    trust: Trust<'_>,
) -> Result<(Decoded<'a>, &'a [u8]), Malformed> {
    let length = Reader::new(bytes, offset).u32("envelope length")? as usize;
    envelope_bytes(bytes, offset)?;
    let mut outer = Reader::new(bytes, offset);
    let whole = outer.bytes("envelope", length)?;
    outer.zeros("envelope padding", padded(length) - length)?;
    if let Trust::Alone(seed) = trust {
        check_crc(whole, offset, seed)?;
    }
    let mut r = Reader::new(whole, offset);
    r.bytes("envelope length", 8)?;
    let tag = r.u8("handle kind")?;
    let class_at = r.offset();
    let class = r.u8("operation class")?;
    let class =
        Class::from_tag(class).ok_or_else(|| Malformed::new("operation class", class_at, "1 to 6", class))?;
    let flags_at = r.offset();
    let flags = r.u16("flags")?;
    if flags & !FLAGS_KNOWN != 0 {
        return Err(Malformed::new("flags", flags_at, "known flags", format!("{flags:#06x}")));
    }
    let id_length = r.u32("handle id length")? as usize;
    let tokens = r.u32("token cost")?;
    let index = r.u32("previous index")?;
    let previous = Last { frame: Frame(r.u64("previous frame")?), index };
    let width_at = r.offset();
    let width = r.u32("embedding width")? as usize;
    if width > EMBEDDING_WIDTH_MAX {
        return Err(Malformed::new("embedding width", width_at, "at most 65,536", width));
    }
    r.zeros("reserved bytes", 4)?;
    let embedding = r.bytes("embedding", width * 4)?;
    let id = text(&mut r, "handle id", id_length)?;
    let fixed = Fixed { tag, class, flags, tokens, previous };
    Ok((interpret(&fixed, embedding, id, r)?, outer.rest()))
}

/// Holds the envelope at the beginning of `bytes` against its own checksum, without decoding it.
///
/// # Errors
/// Too short; a wrong checksum; padding in use.
pub fn check_alone(bytes: &[u8], offset: u64, seed: &Seed) -> Result<(), Malformed> {
    let length = Reader::new(bytes, offset).u32("envelope length")? as usize;
    envelope_bytes(bytes, offset)?;
    let mut outer = Reader::new(bytes, offset);
    let whole = outer.bytes("envelope", length)?;
    // First, because it goes through memory in its order; the padding alone would be waited for.
    check_crc(whole, offset, seed)?;
    outer.zeros("envelope padding", padded(length) - length)
}

fn check_crc(whole: &[u8], offset: u64, seed: &Seed) -> Result<(), Malformed> {
    let mut r = Reader::new(whole, offset);
    r.u32("envelope length")?;
    let crc_at = r.offset();
    let stored = r.u32("envelope checksum")?;
    let crc = seed.crc_without(whole, at::CRC);
    if stored == crc {
        return Ok(());
    }
    Err(Malformed::new("envelope checksum", crc_at, format!("{crc:#010x}"), format!("{stored:#010x}")))
}

fn text<'a>(r: &mut Reader<'a>, what: &'static str, len: usize) -> Result<&'a str, Malformed> {
    let offset = r.offset();
    let bytes = r.bytes(what, len)?;
    std::str::from_utf8(bytes).map_err(|e| Malformed::new(what, offset, "UTF-8", e))
}

fn interpret<'a>(
    fixed: &Fixed,
    embedding: &'a [u8],
    id: &'a str,
    mut r: Reader<'a>,
) -> Result<Decoded<'a>, Malformed> {
    let offset = r.offset();
    let bad = |expected: &str| {
        Malformed::new("handle kind", offset, expected, format!("{} of {}", fixed.class.name(), fixed.tag))
    };
    if fixed.tag == ORIGIN_TAG {
        let bare = fixed.tokens == 0 && fixed.previous == Last::default();
        let bare = bare && fixed.flags & !FLAG_ERASED == 0;
        if fixed.class != Class::Origin || !bare || !embedding.is_empty() || !id.is_empty() {
            return Err(bad("a bare origin"));
        }
        if fixed.flags & FLAG_ERASED != 0 {
            r.zeros("erased body", r.rest().len())?;
            return Ok(Decoded::Origin(None));
        }
        let origin = take(&mut r, "origin")?;
        ended(&r)?;
        return Ok(Decoded::Origin(Some(origin)));
    }
    let kind = HandleKind::from_tag(fixed.tag).ok_or_else(|| bad("a kind from 1 to 5"))?;
    combination(kind, fixed, !embedding.is_empty()).map_err(bad)?;
    let item = fixed.flags & FLAG_ITEM != 0;
    let mut evicted = Vec::new();
    let op = if fixed.flags & FLAG_ERASED != 0 {
        let mut blank = Reader::new(embedding, offset);
        blank.zeros("erased embedding", embedding.len())?;
        r.zeros("erased body", r.rest().len())?;
        Op::Erased { kind, class: fixed.class, tokens: fixed.tokens }
    } else {
        let op = operation(kind, fixed, embedding, &mut r)?;
        if matches!(op, Op::Record(_) | Op::Push(_)) {
            evicted = take_evicted(&mut r, item)?;
        }
        ended(&r)?;
        op
    };
    Ok(Decoded::Delta(Envelope { id, previous: fixed.previous, evicted, item, op }))
}

/// Refuses what no writer writes; the error is what the format asks for instead.
fn combination(kind: HandleKind, fixed: &Fixed, embeds: bool) -> Result<(), &'static str> {
    let has = |flag: u16| fixed.flags & flag != 0;
    match (kind, fixed.class) {
        (_, Class::Origin) => return Err("no origin"),
        (HandleKind::Notes, Class::Clear | Class::Configure)
        | (HandleKind::Episodic | HandleKind::Working, Class::Remove) => {
            return Err("an operation that exists");
        }
        _ => {}
    }
    let put_of = |of: HandleKind| (kind, fixed.class) == (of, Class::Put);
    if embeds && !put_of(HandleKind::Vector) {
        Err("no embedding")
    } else if fixed.tokens != 0 && !put_of(HandleKind::Working) {
        Err("no token cost")
    } else if has(FLAG_ITEM) && fixed.class != Class::Put {
        Err("an item that puts")
    } else if has(FLAG_CONTINUES) && (fixed.class != Class::Snapshot || has(FLAG_ERASED)) {
        Err("only a whole snapshot that continues")
    } else {
        Ok(())
    }
}

fn operation<'a>(
    kind: HandleKind,
    fixed: &Fixed,
    embedding: &'a [u8],
    r: &mut Reader<'a>,
) -> Result<Op<'a>, Malformed> {
    let op = match (fixed.class, kind) {
        (Class::Put, HandleKind::Notes) => Op::Remember(take(r, "note")?),
        (Class::Put, HandleKind::Vector) => {
            let mut upsert: super::delta::Upsert<'a> = take(r, "vector")?;
            upsert.embedding = floats(embedding);
            Op::Upsert(upsert)
        }
        (Class::Put, HandleKind::Episodic) => Op::Record(take(r, "episode")?),
        (Class::Put, HandleKind::Working) => {
            let mut push: super::delta::Push<'a> = take(r, "entry")?;
            push.tokens = fixed.tokens;
            Op::Push(push)
        }
        (Class::Remove, HandleKind::Notes) => Op::Forget { key: take(r, "key")? },
        (Class::Remove, HandleKind::Vector) => Op::Delete { id: take(r, "id")? },
        (Class::Clear, _) => Op::Clear(kind),
        (Class::Configure, _) => Op::Configure(take(r, "configuration")?),
        (Class::Snapshot, _) => {
            let head: HeadBody<'a> = take(r, "snapshot head")?;
            let continues = fixed.flags & FLAG_CONTINUES != 0;
            Op::Snapshot { config: head.config, items: head.items, continues }
        }
        _ => {
            let found = format!("{} of {}", fixed.class.name(), kind.name());
            return Err(Malformed::new("operation class", r.offset(), "an operation that exists", found));
        }
    };
    if op.kind() != kind {
        return Err(Malformed::new("configuration", r.offset(), kind.name(), op.kind().name()));
    }
    Ok(op)
}

fn ended(r: &Reader<'_>) -> Result<(), Malformed> {
    if r.rest().is_empty() {
        return Ok(());
    }
    Err(Malformed::new("delta body", r.offset(), "its end", format!("{} more", r.rest().len())))
}

fn take<'a, T: Deserialize<'a>>(r: &mut Reader<'a>, what: &'static str) -> Result<T, Malformed> {
    let offset = r.offset();
    let (value, rest) = postcard::take_from_bytes(r.rest())
        .map_err(|e| Malformed::new(what, offset, "a postcard value", e))?;
    r.bytes(what, r.rest().len() - rest.len())?;
    Ok(value)
}

/// Raw little-endian floats: borrowed where the slice is aligned and the machine little-endian.
fn floats(bytes: &[u8]) -> Cow<'_, [f32]> {
    if cfg!(target_endian = "little")
        && let Ok(floats) = bytemuck::try_cast_slice(bytes)
    {
        return Cow::Borrowed(floats);
    }
    let (quads, _) = bytes.as_chunks::<4>();
    Cow::Owned(quads.iter().map(|quad| f32::from_le_bytes(*quad)).collect())
}
