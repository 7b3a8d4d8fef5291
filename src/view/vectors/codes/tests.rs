//! The bound against scores, and the integers against wider ones.
#![expect(clippy::indexing_slicing, reason = "a test that fails may panic")]

use proptest::prelude::*;

use super::*;

fn score(row: &[f32], query: &[f32]) -> f64 {
    let exact =
        |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    let product = exact(query, query).sqrt() * exact(row, row).sqrt();
    if product == 0.0 { 0.0 } else { f64::from((exact(query, row) / product).clamp(-1.0, 1.0) as f32) }
}

/// The integers of a row, its sketch, and its dot product with a query's.
fn measure(row: &[f32], query: &Probe) -> (Vec<i8>, Sketch, i32) {
    let mut codes = vec![0; row.len()];
    let (scale, residual) = encode_row(row, &mut codes);
    let mut out = Vec::new();
    query.dots(&codes, &[0], &mut out);
    (codes, Sketch { scale, residual, fields: 0 }, out[0])
}

fn floats(width: usize) -> BoxedStrategy<Vec<f32>> {
    let any_size = any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |x| x.is_finite());
    let of = |float: BoxedStrategy<f32>| proptest::collection::vec(float, width);
    let tiny = (0..300u32).prop_map(f32::from_bits);
    prop_oneof![of(any_size.boxed()), of((-1.0f32..1.0).boxed()), of(tiny.boxed()), of(Just(0.7).boxed())]
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_score_is_within_its_bounds(
        (row, query) in (1..200usize).prop_flat_map(|width| (floats(width), floats(width))),
    ) {
        for query in [&query, &row] {
            let probe = Probe::new(query);
            let (codes, sketch, dot) = measure(&row, &probe);
            let exact: i64 = codes.iter().zip(&probe.integers).map(|(c, b)| i64::from(*c) * i64::from(*b)).sum();
            prop_assert_eq!(i64::from(dot), exact);
            let (least, most) = probe.bounds(sketch, dot);
            let score = score(&row, query);
            prop_assert!((least..=most).contains(&score), "{score} within {least} and {most}");
        }
    }
}

#[test]
fn the_bounds_are_narrow_where_floats_are_of_one_size() {
    let row: Vec<f32> = (0..384).map(|n| ((n * 7919) % 1009) as f32 / 504.0 - 1.0).collect();
    let query: Vec<f32> = row.iter().rev().copied().collect();
    let probe = Probe::new(&query);
    let (_, sketch, dot) = measure(&row, &probe);
    let (least, most) = probe.bounds(sketch, dot);
    assert!(most - least < 0.01, "{least} to {most}");
}

#[test]
fn no_sum_overflows_whatever_was_loaded() {
    for width in [1, 2, 500, 516, 517, 4096, 65_536] {
        let probe = Probe { integers: vec![limit(width) as i16; width], scale: 1.0, within: (1.0, 0.0) };
        let mut out = Vec::new();
        probe.dots(&vec![-128; width], &[0], &mut out);
        assert_eq!(i64::from(out[0]), -128 * i64::from(limit(width)) * width as i64);
        assert!(limit(width) >= 255);
    }
}

#[test]
fn rows_that_no_integers_stand_for_are_within_any_bound() {
    for row in [[f32::from_bits(1); 3], [f32::from_bits(1), 0.0, 0.0]] {
        let probe = Probe::new(&[1.0, 1.0, 1.0]);
        let (codes, sketch, dot) = measure(&row, &probe);
        assert_eq!((codes.as_slice(), dot), (&[0, 0, 0][..], 0));
        assert!(sketch.residual >= 1.0 && sketch.residual < 1.001);
    }
    assert_eq!(measure(&[0.0; 3], &Probe::new(&[0.0; 3])).1, Sketch { scale: 0.0, residual: 0.0, fields: 0 });
}
