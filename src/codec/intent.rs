//! INTENT: a change of several files, stated so that whoever comes next can finish it.
//!
//! It names files and salts, never content. Its rename into place is the commit of the change.

use serde::{Deserialize, Serialize};

use super::segment::{BadHeader, FORMAT_VERSION, StoreId, begin, crc_without};
use super::wire::{Malformed, put};

/// First bytes of INTENT.
pub const INTENT_MAGIC: [u8; 8] = *b"MNEMINTE";
/// Bytes before the body: magic, version, checksum, store id.
pub const INTENT_HEADER_BYTES: usize = 32;

/// Offset of each header field: a running sum.
pub mod intent_header {
    /// 8 bytes.
    pub const MAGIC: usize = 0;
    /// 4 bytes.
    pub const VERSION: usize = MAGIC + 8;
    /// 4 bytes, over all of the file without them.
    pub const CRC: usize = VERSION + 4;
    /// 16 bytes.
    pub const STORE_ID: usize = CRC + 4;
    /// Where the postcard body begins.
    pub const END: usize = STORE_ID + 16;
}
const _: () = assert!(intent_header::END == INTENT_HEADER_BYTES);
const _: () = assert!(intent_header::CRC == super::segment::segment_header::CRC);

/// A new file that is built under its temporary name and waits to be renamed; both in `log/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The name it was built under.
    pub temporary: String,
    /// The name it gets.
    pub target: String,
    /// The salt in its header, by which it is known under either name.
    pub salt: u64,
}

/// A file that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drop {
    /// `log`, `checkpoints` or `quarantine`.
    pub directory: String,
    /// Its name there.
    pub name: String,
}

/// The stated change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The store that it belongs to.
    pub store: StoreId,
    /// Random; part of every temporary name.
    pub id: u64,
    /// The new files.
    pub moves: Vec<Move>,
    /// The files that go.
    pub drops: Vec<Drop>,
}

/// The directories in which a drop may lie.
const DROP_DIRECTORIES: [&str; 3] = ["log", "checkpoints", "quarantine"];

impl Intent {
    /// The file's bytes.
    ///
    /// # Errors
    /// The body cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let mut out = vec![0; INTENT_HEADER_BYTES];
        put(&mut out, intent_header::MAGIC, &INTENT_MAGIC);
        put(&mut out, intent_header::VERSION, &FORMAT_VERSION.to_le_bytes());
        put(&mut out, intent_header::STORE_ID, &self.store.0);
        postcard::to_io(&(self.id, &self.moves, &self.drops), &mut out)
            .map_err(|e| Malformed::new("INTENT", 0, "a value that can be encoded", e))?;
        let crc = crc_without(&out, intent_header::CRC);
        put(&mut out, intent_header::CRC, &crc.to_le_bytes());
        Ok(out)
    }

    /// Reads the file. Names that would reach outside their directory are refused.
    ///
    /// # Errors
    /// Too short, not the magic, a wrong checksum, another version, a body that does not decode wholly, a
    /// name with a `/` or of a directory that holds nothing to drop.
    pub fn decode(bytes: &[u8]) -> Result<Intent, BadHeader> {
        let mut r = begin(bytes, 0, "INTENT", INTENT_MAGIC, bytes.len())?;
        let store = StoreId(r.array("store id")?);
        let at = r.offset();
        let ((id, moves, drops), rest): ((u64, Vec<Move>, Vec<Drop>), _) =
            postcard::take_from_bytes(r.rest())
                .map_err(|e| Malformed::new("INTENT", at, "a postcard value", e))?;
        let plain = |name: &str| {
            !name.is_empty() && !name.contains(['/', '\\', '\0']) && ![".", ".."].contains(&name)
        };
        let safe = moves.iter().all(|m| plain(&m.temporary) && plain(&m.target))
            && drops.iter().all(|d| plain(&d.name) && DROP_DIRECTORIES.contains(&d.directory.as_str()));
        if !safe || !rest.is_empty() {
            return Err(Malformed::new("INTENT", at, "plain file names and nothing more", "others").into());
        }
        Ok(Intent { store, id, moves, drops })
    }
}
