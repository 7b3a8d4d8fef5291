//! The bodies of the fuzz targets: bytes go in, and a law that is broken panics.
//!
//! `fuzz/` compiles these same files for the fuzzer; here [`crate::corpora`] replays what it found. A body decides
//! by its input alone. What a store draws at random (salts, writer ids) decides nothing about what must hold.

pub(crate) mod decode;
pub(crate) mod deltas;
pub(crate) mod interchange;
pub(crate) mod model;
pub(crate) mod recover;

mod checksums;
mod input;
mod look;

/// A target: its name, which is that of its corpus, and its body.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// Every target.
pub(crate) const TARGETS: [Target; 5] = [
    ("decode", decode::run),
    ("recover", recover::run),
    ("model", model::run),
    ("interchange", interchange::run),
    ("deltas", deltas::run),
];
