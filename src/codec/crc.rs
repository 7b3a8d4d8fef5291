//! The checksum of short and of long bytes: long ones by the processor's instructions, short ends eight at a time.
//!
//! Frames and envelopes take some hundred bytes, and most of them end eight bytes behind the blocks of 16 that those
//! instructions go through: byte by byte, that end took as long as all the rest. It knows no format.

use super::sums::POLYNOMIAL;

/// What a byte does to the checksum, when so many bytes follow it in the same step.
const TABLES: [[u32; 256]; 8] = tables();
/// What the processor's instructions go through at a time.
const BLOCK: usize = 16;

/// The checksum of something whose own is `before`, followed by `bytes`.
pub(super) fn behind(before: u32, bytes: &[u8]) -> u32 {
    let (blocks, end) = bytes.split_at_checked(bytes.len() / BLOCK * BLOCK).unwrap_or((bytes, &[]));
    if blocks.is_empty() {
        return short(before, end);
    }
    let mut hash = crc32fast::Hasher::new_with_initial(before);
    hash.update(blocks);
    short(hash.finalize(), end)
}

fn short(before: u32, bytes: &[u8]) -> u32 {
    let [one, two, three, four, five, six, seven, eight] = &TABLES;
    let look = |table: &[u32; 256], byte: u32| table.get((byte & 0xff) as usize).copied().unwrap_or_default();
    let mut state = !before;
    let (eights, rest) = bytes.as_chunks::<8>();
    for [a, b, c, d, e, f, g, h] in eights {
        let first = state ^ u32::from_le_bytes([*a, *b, *c, *d]);
        let last = u32::from_le_bytes([*e, *f, *g, *h]);
        state =
            look(eight, first) ^ look(seven, first >> 8) ^ look(six, first >> 16) ^ look(five, first >> 24);
        state ^= look(four, last) ^ look(three, last >> 8) ^ look(two, last >> 16) ^ look(one, last >> 24);
    }
    let (fours, rest) = rest.as_chunks::<4>();
    for four_bytes in fours {
        let word = state ^ u32::from_le_bytes(*four_bytes);
        state = look(four, word) ^ look(three, word >> 8) ^ look(two, word >> 16) ^ look(one, word >> 24);
    }
    for byte in rest {
        state = (state >> 8) ^ look(one, state ^ u32::from(*byte));
    }
    !state
}

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let (mut left, mut bits): (&mut [[u32; 256]], u32) = (&mut tables, 8);
    while let Some((table, behind)) = left.split_first_mut() {
        let (mut sums, mut byte): (&mut [u32], u32) = (table, 0);
        while let Some((sum, more)) = sums.split_first_mut() {
            *sum = shifted(byte, bits);
            (sums, byte) = (more, byte + 1);
        }
        (left, bits) = (behind, bits + 8);
    }
    tables
}

const fn shifted(mut sum: u32, bits: u32) -> u32 {
    let mut bit = 0;
    while bit < bits {
        sum = (sum >> 1) ^ (POLYNOMIAL * (sum & 1));
        bit += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_the_checksum_that_reading_it_as_a_whole_gives() {
        let bytes: Vec<u8> = (0..700_u32).map(|n| (n.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        for len in 0..bytes.len() {
            for cut in [0, 1, 4, 7, 8, 16, 300].into_iter().filter(|cut| *cut <= len) {
                let whole = bytes.get(..len).unwrap_or_default();
                let (head, tail) = whole.split_at_checked(cut).unwrap_or_default();
                assert_eq!(behind(behind(0, head), tail), crc32fast::hash(whole), "{cut} of {len}");
            }
        }
    }
}
