//! Rows as small integers, and how far a score can be from what the integers say.
//!
//! Owns the integers, the bound and the proof of it. Does not know which rows there are, nor what is done with a bound.
//!
//! # The bound
//!
//! For a row `x` that is not all zeros, `u = x/‖x‖`; for a query `q`, `v = q/‖q‖`. Their cosine is `u·v`. Of the row are
//! kept integers `c` of -127 to 127, a scale `f` and a residual `r ≥ ‖u − f·c‖`; of the query integers `b`, a scale `g` and
//! a residual `s ≥ ‖v − g·b‖`. `D = c·b` is computed in integers, `a = f·g·D`. Then **every score lies within
//! `w = r + (1 + r)·s + 2⁻²⁴` of `a`**, where the score is what `Query::cosine` computes: in `f64`, rounded to `f32`
//! last. Below, `ε = 2⁻⁵³` and the width `d` is at most 2¹⁶.
//!
//! 1. *No integer overflows.* `|c| ≤ 128` whatever bytes were loaded, and `|b| ≤ limit(d)`, which is at most
//!    `(2³¹ − 1)/(128·d)`. So every sum of products `c·b`, in any order and of any part of them, fits into an `i32`.
//!    (With `|b| ≤ 127` it would too: 127·127·65,536 = 1,057,030,144.) `D` is exact.
//! 2. *In real numbers*, `u·v − f·g·D = (u − f·c)·v + f·c·(v − g·b)`. By Cauchy and Schwarz, and since
//!    `‖f·c‖ ≤ ‖u‖ + ‖u − f·c‖ ≤ 1 + r`, its size is at most `r + (1 + r)·s`. This holds for all `f`, `c`, `g` and `b`:
//!    badly chosen ones make the residual larger and nothing wrong.
//! 3. *The residuals.* The squares of `f32`s are exact in `f64`, and neither they nor anything below overflows or
//!    underflows there: what is not 0 lies between 2⁻⁷⁰⁰ and 2³⁰⁰. A sum of `d` numbers that are not negative has a relative error
//!    below `d·ε ≤ 2⁻³⁷`, in any order. So the computed inverse of the norm is right to 2⁻³⁷ + 3ε, and the computed
//!    `u` to 2⁻³⁶ in each component, hence as a vector. `f·c` is exact (24 and 8 bits, 24 and 16 for a query). What rounding the differences,
//!    their squares, the sum and the root adds is a relative 2⁻³⁶. As `r ≤ 2`, the computed residual is less than 2⁻³⁴
//!    below the true one. That is added; multiplying by `1 + 2⁻²³` makes up for rounding to `f32`.
//! 4. *The score.* The products of `f32`s are exact in `f64`. Their sum is wrong by at most
//!    `d·ε·Σ|qᵢ·xᵢ| ≤ 2⁻³⁷·‖q‖·‖x‖`, each norm by a relative 2⁻³⁷, the product and the quotient by a few `ε`: before it is
//!    rounded to `f32`, the score is within 2⁻³⁴ of the cosine. Clamping to [-1, 1], where the cosine lies, does not take it
//!    further away. Rounding numbers up to 1 to `f32` adds 2⁻²⁵.
//! 5. *The bound itself.* `f·g` is exact (24 bits each), `|a| ≤ (1 + r)·(1 + s) ≤ 9`; all roundings in `a`, `w` and
//!    `a ± w` together are below 2⁻⁴⁶.
//! 6. 2⁻³⁴ + 2⁻²⁵ + 2⁻⁴⁶ < 2⁻²⁴.
//! 7. *Zeros.* A row or a query of zeros has the score 0; it has zeros for integers, scale and residual, so `a = 0`, and
//!    0 is within `w` of it.
//!
//! A row or a query of subnormals may be so small that its integers cannot be computed in `f32`: it has zeros instead and a residual
//! just above 1, and is always scored exactly.

#[cfg(test)]
mod tests;

use multiversion::multiversion;

/// The greatest integer of a row.
const ROW_LIMIT: u16 = 127;
/// What the arithmetic of a residual may have lost.
const RESIDUAL_SLACK: f64 = 1.0 / (1u64 << 34) as f64;
/// More than rounding up to the next `f32` takes.
const UP: f64 = 1.0 + 1.0 / (1u64 << 23) as f64;
/// What the arithmetic of a score and of its bound may differ by.
const SCORE_SLACK: f64 = 1.0 / (1u64 << 24) as f64;
/// Sums are kept in so many parts, so that a processor can add several at a time; how many they are is part of the result.
const LANES: usize = 8;

/// What a scan reads of a row besides its integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sketch {
    /// What an integer stands for, of a row of length 1.
    pub(super) scale: f32,
    /// How far the integers are from that row, at most.
    pub(super) residual: f32,
    /// The marks of the fields of the metadata.
    pub(super) fields: u64,
}

impl Sketch {
    /// Of a place without a row.
    pub(super) const FREE: Sketch = Sketch { scale: 0.0, residual: -1.0, fields: 0 };

    /// The sketch as it is kept.
    pub(super) fn to_cell(self) -> [u32; 4] {
        let Sketch { scale, residual, fields } = self;
        [scale.to_bits(), residual.to_bits(), fields as u32, (fields >> 32) as u32]
    }

    /// The sketch that was kept.
    pub(super) fn from_cell([scale, residual, low, high]: [u32; 4]) -> Sketch {
        let fields = u64::from(high) << 32 | u64::from(low);
        Sketch { scale: f32::from_bits(scale), residual: f32::from_bits(residual), fields }
    }

    /// True if there is no row.
    pub(super) fn is_free(self) -> bool {
        self.residual < 0.0
    }
}

/// A query as integers, finer than a row's as far as the width allows.
pub(super) struct Probe {
    integers: Vec<i16>,
    scale: f64,
    /// `1 + s` and `s + 2⁻²⁴` of the bound.
    within: (f64, f64),
}

impl Probe {
    /// The integers of a finite query.
    pub(super) fn new(query: &[f32]) -> Probe {
        let mut integers = vec![0; query.len()];
        let limit = limit(query.len());
        let (scale, residual) = encode(query, limit, &mut integers, |integer| integer as i16);
        let residual = f64::from(residual);
        Probe { integers, scale: f64::from(scale), within: (1.0 + residual, residual + SCORE_SLACK) }
    }

    /// Puts the dot product with each of these rows of a block into `out`.
    pub(super) fn dots(&self, codes: &[i8], rows: &[u32], out: &mut Vec<i32>) {
        out.clear();
        out.resize(rows.len(), 0);
        dots(codes, &self.integers, rows, out);
    }

    /// The least and the greatest score that a row with this sketch and dot product can have.
    #[inline]
    pub(super) fn bounds(&self, sketch: Sketch, dot: i32) -> (f64, f64) {
        let middle = f64::from(sketch.scale) * self.scale * f64::from(dot);
        let within = f64::from(sketch.residual) * self.within.0 + self.within.1;
        (middle - within, middle + within)
    }
}

/// Writes the integers of a finite row; answers the scale and the residual.
pub(super) fn encode_row(row: &[f32], codes: &mut [i8]) -> (f32, f32) {
    encode(row, ROW_LIMIT, codes, |integer| integer as i8)
}

/// The greatest integer of a query of this width: step 1 of the proof.
fn limit(width: usize) -> u16 {
    let most = i32::MAX as usize / (128 * width.max(1));
    u16::try_from(most).unwrap_or(u16::MAX).min(i16::MAX as u16)
}

fn encode<T: Copy + Into<f64>>(
    row: &[f32],
    limit: u16,
    integers: &mut [T],
    integer: impl Fn(i32) -> T,
) -> (f32, f32) {
    let norm = sum(row, row, |x, _| f64::from(x) * f64::from(x)).sqrt();
    let most = row.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let steps = f32::from(limit) / most;
    let steps = if steps.is_finite() { steps } else { 0.0 };
    // Adding it makes the bits behind the point fall off: what is added to its bits is the integer.
    const ROUND: f32 = 12_582_912.0;
    for (to, x) in integers.iter_mut().zip(row) {
        *to = integer((x * steps + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32);
    }
    if norm == 0.0 {
        return (0.0, 0.0);
    }
    let (scale, inverse) = ((f64::from(most) / norm / f64::from(limit)) as f32, 1.0 / norm);
    let exact_scale = f64::from(scale);
    let square = |x: f32, integer: T| {
        let difference = f64::from(x) * inverse - exact_scale * integer.into();
        difference * difference
    };
    let residual = sum(row, integers, square).sqrt();
    (scale, ((residual + RESIDUAL_SLACK) * UP) as f32)
}

/// The terms of all pairs, summed in one order.
fn sum<A: Copy, B: Copy>(a: &[A], b: &[B], term: impl Fn(A, B) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += term(*a, *b);
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(a_rest).zip(b_rest) {
        *sum += term(*a, *b);
    }
    sums.iter().sum()
}

/// The dot products of rows with a query. The compiler turns the loop into the multiply-and-add of pairs that each of
/// these kinds of processor has; the sums are exact, so that all give the same. Only what is inlined here is compiled for
/// them: plain loops are, the closure of an adapter may not be.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+avx512vnni+avx2+bmi1+bmi2+fma+lzcnt+popcnt",
    "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt",
))]
fn dots(codes: &[i8], query: &[i16], rows: &[u32], out: &mut [i32]) {
    for (row, out) in rows.iter().zip(out) {
        let from = *row as usize * query.len();
        let Some(row) = codes.get(from..from + query.len()) else { continue };
        let mut sum = 0;
        for (c, b) in row.iter().zip(query) {
            sum += i32::from(*c) * i32::from(*b);
        }
        *out = sum;
    }
}
