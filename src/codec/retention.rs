//! RETENTION: how much history a store keeps. One small record beside the log.

use super::segment::{BadHeader, FORMAT_VERSION, StoreId, begin, crc_without};
use super::wire::{Malformed, put};

/// Bytes of RETENTION.
pub const RETENTION_BYTES: usize = 64;
/// First bytes of RETENTION.
pub const RETENTION_MAGIC: [u8; 8] = *b"MNEMKEEP";

/// Offset of each field of RETENTION: a running sum.
pub mod retention_file {
    /// 8 bytes.
    pub const MAGIC: usize = 0;
    /// 4 bytes.
    pub const VERSION: usize = MAGIC + 8;
    /// 4 bytes, over the record without them.
    pub const CRC: usize = VERSION + 4;
    /// 16 bytes.
    pub const STORE_ID: usize = CRC + 4;
    /// 8 bytes.
    pub const UNIT: usize = STORE_ID + 16;
    /// 8 bytes.
    pub const AMOUNT: usize = UNIT + 8;
    /// 16 bytes, zero.
    pub const RESERVED: usize = AMOUNT + 8;
    /// Where the record ends.
    pub const END: usize = RESERVED + 16;
}
const _: () = assert!(retention_file::END == RETENTION_BYTES);
const _: () = assert!(retention_file::CRC == super::segment::segment_header::CRC);

/// What an amount of history is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Unit {
    /// Frames, from the last one back.
    Frames = 1,
    /// Microseconds, from the clock back.
    Micros = 2,
}

/// The content of RETENTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The store whose history it is about.
    pub store: StoreId,
    /// What `amount` counts.
    pub unit: Unit,
    /// How much history is kept.
    pub amount: u64,
}

impl Keep {
    /// The 64 bytes.
    pub fn encode(&self) -> [u8; RETENTION_BYTES] {
        use retention_file as at;
        let mut out = [0; RETENTION_BYTES];
        put(&mut out, at::MAGIC, &RETENTION_MAGIC);
        put(&mut out, at::VERSION, &FORMAT_VERSION.to_le_bytes());
        put(&mut out, at::STORE_ID, &self.store.0);
        put(&mut out, at::UNIT, &(self.unit as u64).to_le_bytes());
        put(&mut out, at::AMOUNT, &self.amount.to_le_bytes());
        let crc = crc_without(&out, at::CRC);
        put(&mut out, at::CRC, &crc.to_le_bytes());
        out
    }

    /// Reads the record.
    ///
    /// # Errors
    /// Too short, not the magic, a wrong checksum or version, an unknown unit, reserved bytes in use.
    pub fn decode(bytes: &[u8]) -> Result<Keep, BadHeader> {
        let mut r = begin(bytes, 0, "RETENTION", RETENTION_MAGIC, RETENTION_BYTES)?;
        let store = StoreId(r.array("store id")?);
        let unit_at = r.offset();
        let unit = r.u64("unit")?;
        let known = [Unit::Frames, Unit::Micros].into_iter().find(|known| *known as u64 == unit);
        let unit = known.ok_or_else(|| Malformed::new("unit", unit_at, "1 or 2", unit))?;
        let amount = r.u64("amount")?;
        r.zeros("reserved bytes", 16)?;
        Ok(Keep { store, unit, amount })
    }
}
