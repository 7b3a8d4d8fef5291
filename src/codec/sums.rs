//! Checksums of many ranges of one buffer, in time that does not grow with the ranges.
//!
//! A CRC-32 is linear: that of a range follows from those of two prefixes, by one multiplication of polynomials.
//! Whoever looks for frames in bytes that somebody arranged would otherwise read the same bytes once for each place
//! that claims to be a frame. It knows no format.

/// CRC-32 of IEEE 802.3, its bits reflected: the highest bit is the lowest power.
pub(super) const POLYNOMIAL: u32 = 0xEDB8_8320;
/// Ranges begin and end at multiples of this many bytes.
const STEP: usize = 8;
/// The polynomial `x`; each squaring doubles its power.
const X: u32 = 1 << 30;
/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// The checksum of every prefix of a buffer whose length is a multiple of 8. Takes half of the buffer's size.
#[derive(Debug)]
pub struct Sums {
    prefixes: Vec<u32>,
    /// `x` to the power of 64, 128, 256 …: what 8, 16, 32 … more bytes multiply with.
    powers: [u32; 32],
}

impl Sums {
    /// Reads the buffer once.
    pub fn of(bytes: &[u8]) -> Sums {
        let mut hash = crc32fast::Hasher::new();
        let mut prefixes = Vec::with_capacity(bytes.len() / STEP + 1);
        prefixes.push(hash.clone().finalize());
        for step in bytes.chunks_exact(STEP) {
            hash.update(step);
            prefixes.push(hash.clone().finalize());
        }
        let mut power = X;
        (0..6).for_each(|_| power = product(power, power));
        let powers = std::array::from_fn(|_| {
            let next = product(power, power);
            std::mem::replace(&mut power, next)
        });
        Sums { prefixes, powers }
    }

    /// The checksum of something whose own is `before`, followed by the bytes from `from` to `to` of the buffer, both
    /// multiples of 8. `None` if the buffer does not hold them.
    pub fn behind(&self, before: u32, from: usize, to: usize) -> Option<u32> {
        let prefix = |at: usize| self.prefixes.get(at / STEP).copied();
        let steps = to.checked_sub(from)? / STEP;
        let mut shift = ONE;
        for (bit, power) in self.powers.iter().enumerate() {
            if steps >> bit & 1 == 1 {
                shift = product(shift, *power);
            }
        }
        Some(product(before ^ prefix(from)?, shift) ^ prefix(to)?)
    }
}

/// The product of two polynomials, modulo that of the checksum.
fn product(a: u32, mut b: u32) -> u32 {
    let mut sum = 0;
    for bit in (0..u32::BITS).rev() {
        sum ^= b * (a >> bit & 1);
        b = (b >> 1) ^ (POLYNOMIAL * (b & 1));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_a_range_is_the_one_that_reading_it_gives() {
        let mut bytes = Vec::new();
        for n in 0_u32..700 {
            bytes.extend_from_slice(&n.wrapping_mul(0x9E37_79B9).to_le_bytes());
        }
        let sums = Sums::of(&bytes);
        for from in (0..bytes.len()).step_by(8 * 7) {
            for to in (from..=bytes.len()).step_by(8 * 5) {
                let mut hash = crc32fast::Hasher::new();
                hash.update(b"before");
                let before = hash.clone().finalize();
                hash.update(bytes.get(from..to).unwrap_or_default());
                assert_eq!(sums.behind(before, from, to), Some(hash.finalize()), "{from} to {to}");
            }
        }
        assert_eq!(sums.behind(0, 0, bytes.len() + 8), None);
        assert_eq!(sums.behind(0, 16, 8), None);
    }
}
