//! The embedder that needs nothing: hashed words, **not semantic, word overlap only**.
//!
//! Owns: the algorithm `stub-fnv`, which is part of the promise that a store gives the same answers on every
//! machine. Does not know: models, networks, files.
//!
//! Invariants: the same text gives the same bits everywhere (whole numbers are summed, so no order of
//! addition matters; one division and one rounding follow, both exactly specified by IEEE 754). An
//! independent implementation in `tests/conformance/stub_embedder.py` holds it to that.

use super::{EmbedError, Embedder};

const NAME: &str = "stub-fnv";
const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The default embedder: a bag of hashed words. It is **not semantic**: two texts are near each other only as
/// far as they share whole words, and `car` is as far from `automobile` as from `soup`.
///
/// Everything that is not alphanumeric ([`char::is_alphanumeric`]) becomes a space, ASCII letters (only
/// those) are lower-cased, and the text is split at white space. Each token's UTF-8 bytes are hashed with
/// 64-bit FNV-1a; it adds +1 or −1 (bit 32 of the hash: 0 or 1) to the float at `hash % dim`. The sum is
/// scaled to length 1 and rounded to `f32` last.
///
/// A text without tokens gives the zero vector, which scores 0 against everything. So does a text whose
/// tokens cancel each other out, which takes a collision of buckets with opposite signs. Which characters are
/// alphanumeric is decided by the Unicode tables of the Rust release that built the program; a script without
/// spaces between words is one token per run.
///
/// ```
/// use mnemolog::{Embedder, StubEmbedder};
///
/// let stub = StubEmbedder::new();
/// assert_eq!((stub.name(), stub.dim()), ("stub-fnv", 64));
/// assert_eq!(stub.embed("Hello, world!")?, stub.embed("world hello")?);
/// # Ok::<(), mnemolog::EmbedError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StubEmbedder {
    dim: usize,
}

impl StubEmbedder {
    /// How many floats a vector has unless [`with_dim`](Self::with_dim) says otherwise.
    pub const DEFAULT_DIM: usize = 64;

    /// The name under which its vectors are stored.
    pub const NAME: &str = NAME;

    /// The stub with [`DEFAULT_DIM`](Self::DEFAULT_DIM) floats.
    pub const fn new() -> Self {
        Self { dim: Self::DEFAULT_DIM }
    }

    /// The stub with `dim` floats. A vector has at least one float: 0 is clamped to 1.
    pub const fn with_dim(dim: usize) -> Self {
        Self { dim: if dim == 0 { 1 } else { dim } }
    }

    fn vector(self, text: &str) -> Vec<f32> {
        let mut sums = vec![0.0_f64; self.dim];
        // No alphanumeric character is white space, so splitting at what would become a space is the same.
        for token in text.split(|c: char| !c.is_alphanumeric()).filter(|token| !token.is_empty()) {
            let hash = fnv1a_64_ascii_lowercase(token);
            if let Some(sum) = sums.get_mut(bucket(hash, self.dim)) {
                *sum += if hash >> 32 & 1 == 0 { 1.0 } else { -1.0 };
            }
        }
        let norm = sums.iter().map(|sum| sum * sum).sum::<f64>().sqrt();
        if norm == 0.0 {
            return vec![0.0; self.dim];
        }
        sums.into_iter().map(|sum| (sum / norm) as f32).collect()
    }
}

impl Default for StubEmbedder {
    fn default() -> Self {
        Self::new()
    }
}

impl Embedder for StubEmbedder {
    fn name(&self) -> &str {
        NAME
    }

    fn dim(&self) -> usize {
        self.dim
    }

    /// Never fails.
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        Ok(self.vector(text))
    }
}

fn fnv1a_64_ascii_lowercase(token: &str) -> u64 {
    // The bytes of a multi-byte character are never ASCII, so lower-casing bytes touches ASCII letters only.
    token.bytes().fold(FNV_OFFSET_BASIS, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(FNV_PRIME)
    })
}

/// Reduced in 64 bits first: the bucket is the same where `usize` is narrower.
fn bucket(hash: u64, dim: usize) -> usize {
    (hash % dim as u64) as usize
}
