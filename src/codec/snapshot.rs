//! Snapshot bytes: the whole state of one handle as a value of its own, outside any log.
//!
//! A head and then the envelopes of the snapshot delta, written with an empty handle id, no chain and a
//! salt of 0: equal states have equal bytes, whatever store, workspace or machine they come from.

use super::delta::{HandleKind, Op};
use super::frame::Seed;
use super::payload::{self, Decoded, Trust};
use super::segment::{BadHeader, FORMAT_VERSION, begin, crc_without};
use super::wire::{Malformed, Reader, put};
use crate::position::Last;

/// First bytes of every snapshot.
pub const SNAPSHOT_MAGIC: [u8; 8] = *b"MNEMSNAP";
/// Bytes before the first envelope.
pub const SNAPSHOT_HEADER_BYTES: usize = 24;

/// Offset of each field of the head: a running sum.
pub mod snapshot_header {
    /// 8 bytes.
    pub const MAGIC: usize = 0;
    /// 4 bytes.
    pub const VERSION: usize = MAGIC + 8;
    /// 4 bytes, over all the snapshot without them.
    pub const CRC: usize = VERSION + 4;
    /// 1 byte.
    pub const KIND: usize = CRC + 4;
    /// 7 bytes, zero.
    pub const RESERVED: usize = KIND + 1;
    /// Where the envelopes begin.
    pub const END: usize = RESERVED + 7;
}
const _: () = assert!(snapshot_header::END == SNAPSHOT_HEADER_BYTES);
const _: () = assert!(snapshot_header::CRC == super::segment::segment_header::CRC);

/// Bytes that do not serve as the snapshot that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadSnapshot {
    /// Not a snapshot, or damaged.
    Malformed(Malformed),
    /// A snapshot of a later format version.
    Newer {
        /// The version in the bytes.
        version: u32,
    },
    /// A snapshot of another kind of handle.
    Kind {
        /// The handle's kind.
        expected: HandleKind,
        /// The snapshot's.
        found: HandleKind,
    },
}

impl From<Malformed> for BadSnapshot {
    fn from(m: Malformed) -> Self {
        BadSnapshot::Malformed(m)
    }
}

impl From<BadHeader> for BadSnapshot {
    fn from(bad: BadHeader) -> Self {
        match bad {
            BadHeader::Malformed(m) => BadSnapshot::Malformed(m),
            BadHeader::Newer { version } => BadSnapshot::Newer { version },
        }
    }
}

/// Builds snapshot bytes: the head operation first, then the items in order.
#[derive(Debug)]
pub struct SnapshotWriter {
    out: Vec<u8>,
    seed: Seed,
}

impl SnapshotWriter {
    /// Begins the snapshot of a handle; `head` is its [`Op::Snapshot`].
    ///
    /// # Errors
    /// The head cannot be encoded.
    pub fn new(head: &Op<'_>) -> Result<SnapshotWriter, Malformed> {
        let mut out = vec![0; SNAPSHOT_HEADER_BYTES];
        put(&mut out, snapshot_header::MAGIC, &SNAPSHOT_MAGIC);
        put(&mut out, snapshot_header::VERSION, &FORMAT_VERSION.to_le_bytes());
        put(&mut out, snapshot_header::KIND, &[head.kind() as u8]);
        let seed = Seed::new(0);
        payload::encode(&mut out, &seed, "", Last::default(), head, false)?;
        Ok(SnapshotWriter { out, seed })
    }

    /// Adds an item.
    ///
    /// # Errors
    /// The item cannot be encoded.
    pub fn item(&mut self, op: &Op<'_>) -> Result<(), Malformed> {
        payload::encode(&mut self.out, &self.seed, "", Last::default(), op, true)
    }

    /// The finished bytes.
    pub fn finish(mut self) -> Vec<u8> {
        let crc = crc_without(&self.out, snapshot_header::CRC);
        put(&mut self.out, snapshot_header::CRC, &crc.to_le_bytes());
        self.out
    }
}

/// Reads the snapshot of a `kind` handle: its head, then its items.
///
/// # Errors
/// [`BadSnapshot`]: not a snapshot, damaged, of another version or kind, with another number of items than its
/// head says, or with JSON that is not canonical.
pub fn decode(bytes: &[u8], kind: HandleKind) -> Result<Vec<Op<'_>>, BadSnapshot> {
    let mut r = begin(bytes, 0, "snapshot", SNAPSHOT_MAGIC, bytes.len())?;
    let kind_at = r.offset();
    let tag = r.u8("snapshot kind")?;
    let found = HandleKind::from_tag(tag)
        .ok_or_else(|| Malformed::new("snapshot kind", kind_at, "a kind from 1 to 4", tag))?;
    if found != kind {
        return Err(BadSnapshot::Kind { expected: kind, found });
    }
    r.zeros("reserved bytes", 7)?;
    envelopes(r, kind)
}

fn envelopes(mut r: Reader<'_>, kind: HandleKind) -> Result<Vec<Op<'_>>, BadSnapshot> {
    let seed = Seed::new(0);
    let mut ops = Vec::new();
    let mut items = None;
    while !r.rest().is_empty() {
        let offset = r.offset();
        let (decoded, rest) = payload::decode(r.rest(), offset, Trust::Alone(&seed))?;
        r.bytes("envelope", r.rest().len() - rest.len())?;
        match decoded {
            Decoded::Delta(e) if e.op.kind() == kind && e.item != items.is_none() && e.id.is_empty() => {
                e.op.check_json(offset)?;
                if let Op::Snapshot { items: n, continues, .. } = e.op {
                    if continues {
                        let expected = "a head that replaces what was there";
                        return Err(
                            Malformed::new("snapshot", offset, expected, "one that adds to it").into()
                        );
                    }
                    items = Some(n);
                }
                ops.push(e.op);
            }
            _ => return Err(Malformed::new("snapshot", offset, "a head, then its items", "another").into()),
        }
        if items.is_none() {
            return Err(Malformed::new("snapshot", offset, "a head", "another operation").into());
        }
    }
    let found = (ops.len() as u64).saturating_sub(1);
    match items {
        Some(n) if n == found => Ok(ops),
        n => Err(Malformed::new("snapshot items", 0, n.unwrap_or_default(), found).into()),
    }
}
