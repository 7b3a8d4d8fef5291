//! The notes that everybody saves: random distinct keys, summaries of 33 bytes, bodies of 240 bytes.

/// Bytes of a body.
pub const BODY_BYTES: usize = 240;
/// Every note has this summary.
pub const SUMMARY: &str = "a summary of thirty-three letters";
/// What is searched for: a few bodies hold it, in other letters' case.
pub const PATTERN: &str = "zePPelin";
/// One of so many notes holds the pattern.
pub const RARE: u64 = 200_000;

const PREFIX: &[u8; 5] = b"user/";
const BODIES: u64 = 1024;
const WORDS: [&str; 32] = [
    "river", "stone", "market", "window", "letter", "garden", "silver", "morning", "bridge", "paper",
    "winter", "orange", "table", "music", "harbor", "forest", "station", "candle", "mirror", "basket", "and",
    "the", "of", "with", "Anna", "Berlin", "likes", "prefers", "asked", "about", "2026", "meeting",
];

/// A key, made without an allocation, because making it is timed with the write.
pub struct Key([u8; 21]);

impl Key {
    /// The `n`th key of a sequence without order. Different numbers have different keys.
    pub fn new(n: u64) -> Key {
        let (mut bytes, mixed) = ([0; 21], mix(n));
        bytes[..5].copy_from_slice(PREFIX);
        for (place, byte) in bytes[5..].iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(mixed >> (4 * place)) as usize & 15];
        }
        Key(bytes)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The bodies that the notes have in turn.
pub struct Bodies {
    common: Vec<String>,
    rare: String,
}

impl Bodies {
    /// Words in random order.
    pub fn new() -> Bodies {
        let common: Vec<String> = (0..BODIES).map(body).collect();
        let mut rare = body(BODIES);
        rare.replace_range(100..108, "Zeppelin");
        Bodies { common, rare }
    }

    /// The body of the `n`th note.
    pub fn of(&self, n: u64) -> &str {
        if n % RARE == RARE / 2 { &self.rare } else { &self.common[(n % BODIES) as usize] }
    }

    /// How many of the first `notes` hold the pattern.
    pub fn rare_of(notes: u64) -> u64 {
        (notes + RARE / 2 - 1) / RARE
    }
}

fn body(n: u64) -> String {
    let mut text = String::new();
    for word in 0.. {
        if text.len() >= BODY_BYTES {
            break;
        }
        text += WORDS[(mix(n << 8 | word) % WORDS.len() as u64) as usize];
        text.push(' ');
    }
    text.truncate(BODY_BYTES);
    text
}

/// A permutation of the numbers (the finalizer of SplitMix64).
pub fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
