//! Vector tables: the exact search against a naive one, filters, widths and damage.

use std::borrow::Cow;

use mnemolog::codec::delta::{Config, HandleKind, Identity, Op, Upsert};
use mnemolog::codec::json::Json;
use mnemolog::error::Error;
use mnemolog::position::{Frame, Last};
use mnemolog::view::vectors::filter::Filter;
use mnemolog::view::{VectorView, View};
use proptest::prelude::*;

use super::log::World;

fn upsert<'a>(id: &'a str, metadata: &'a str, embedding: &'a [f32]) -> Op<'a> {
    Op::Upsert(Upsert { id, text: "text", metadata, embedding: Cow::Borrowed(embedding) })
}

fn world(rows: &[(&str, &str, &[f32])]) -> World {
    let mut world = World::default();
    for (id, metadata, embedding) in rows {
        world.commit("t", &[upsert(id, metadata, embedding)]);
    }
    world
}

fn view(world: &World) -> VectorView {
    world.state.vectors("t").cloned().unwrap_or_default()
}

fn search(world: &World, query: &[f32], k: usize, filter: Option<&str>) -> Vec<(String, f32)> {
    let filter = filter.map(|filter| Filter::parse(&Json::parse(filter).unwrap()).unwrap());
    let hits = view(world).search(query, k, filter.as_ref(), &world.log).unwrap();
    hits.into_iter().map(|hit| (hit.id, hit.score)).collect()
}

fn ids(found: &[(String, f32)]) -> Vec<&str> {
    found.iter().map(|(id, _)| id.as_str()).collect()
}

#[test]
fn the_nearest_come_first_and_ties_come_by_id() {
    let world = world(&[
        ("up", "{}", &[0.0, 2.0]),
        ("z", "{}", &[3.0, 0.0]),
        ("a", "{}", &[0.5, 0.0]),
        ("back", "{}", &[-7.0, 0.0]),
        ("none", "{}", &[0.0, 0.0]),
        ("down", "{}", &[-0.0, -1.0]),
    ]);
    let expected = [("a", 1.0), ("z", 1.0), ("down", 0.0), ("none", 0.0), ("up", 0.0), ("back", -1.0)];
    let expected: Vec<_> = expected.into_iter().map(|(id, score)| (id.to_owned(), score)).collect();
    let found = search(&world, &[4.0, 0.0], 10, None);
    assert_eq!(found, expected);
    assert_eq!(search(&world, &[4.0, 0.0], 3, None), expected[..3]);
    assert_eq!(search(&world, &[4.0, 0.0], 0, None), []);
    let zeros = search(&world, &[0.0, 0.0], 2, None);
    assert_eq!(zeros, [("a".to_owned(), 0.0), ("back".to_owned(), 0.0)], "a zero query scores 0");
    assert!(search(&World::default(), &[1.0], 3, None).is_empty());
}

#[test]
fn extreme_floats_still_have_their_angle() {
    let tiny = f32::from_bits(1);
    let world = world(&[("big", "{}", &[f32::MAX, f32::MAX]), ("tiny", "{}", &[tiny, 0.0])]);
    let found = search(&world, &[f32::MAX, f32::MAX], 2, None);
    assert_eq!(found, [("big".to_owned(), 1.0), ("tiny".to_owned(), std::f32::consts::FRAC_1_SQRT_2)]);
}

#[test]
fn a_score_that_rounds_to_zero_ties_with_zero() {
    let hardly = [-f32::from_bits(1), f32::MAX];
    let world = world(&[("b", "{}", &[0.0, 1.0]), ("a", "{}", &hardly), ("c", "{}", &[0.0, 0.0])]);
    let found = search(&world, &[1.0, 0.0], 3, None);
    assert_eq!(ids(&found), ["a", "b", "c"]);
    assert!(found.iter().all(|(_, score)| score.to_bits() == 0), "one kind of zero");
}

#[test]
fn an_envelope_of_another_row_is_not_taken_for_this_one() {
    let mut world = world(&[("a", "{}", &[1.0])]);
    world.commit_over_all_before("t", &upsert("b", "{}", &[1.0]));
    assert!(matches!(view(&world).get("a", &world.log), Err(Error::Corrupt { .. })));
    assert!(view(&world).get("b", &world.log).is_ok());
}

#[test]
fn a_hit_carries_the_text_and_the_metadata_of_its_row() {
    let world = world(&[("a", r#"{"n":1.50}"#, &[1.0])]);
    let hits = view(&world).search(&[2.0], 1, None, &world.log).unwrap();
    assert_eq!((hits[0].text.as_str(), hits[0].metadata.as_str()), ("text", r#"{"n":1.50}"#));
}

#[test]
fn a_filter_is_applied_before_the_top_k() {
    let ids_of_all: Vec<String> = (0..200).map(|n| format!("{n:03}")).collect();
    let near = [1.0, 0.0];
    let far = [0.1, 1.0];
    let rows: Vec<(&str, &str, &[f32])> = ids_of_all
        .iter()
        .map(|id| match id.as_str() {
            "017" | "150" => (id.as_str(), r#"{"kind":"rare"}"#, &far[..]),
            _ => (id.as_str(), r#"{"kind":"common"}"#, &near[..]),
        })
        .collect();
    let world = world(&rows);
    assert_eq!(ids(&search(&world, &near, 10, Some(r#"{"kind":"rare"}"#))), ["017", "150"]);
    assert_eq!(search(&world, &near, 10, Some(r#"{"kind":"common"}"#)).len(), 10);
    assert!(search(&world, &near, 10, Some(r#"{"kind":"absent"}"#)).is_empty());
}

/// Filter, metadata, whether it passes.
const FILTERS: &[(&str, &str, bool)] = &[
    ("{}", "{}", true),
    ("{}", "null", true),
    (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, true),
    (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, false),
    (r#"{"a":null}"#, "{}", false),
    (r#"{"a":null}"#, r#"{"a":null}"#, true),
    (r#"{"a":1}"#, r#"{"a":1.0}"#, true),
    (r#"{"a":10}"#, r#"{"a":1e1}"#, true),
    (r#"{"a":0.5}"#, r#"{"a":5E-1}"#, true),
    (r#"{"a":100}"#, r#"{"a":1.00e+2}"#, true),
    (r#"{"a":0}"#, r#"{"a":-0.0}"#, true),
    (r#"{"a":0}"#, r#"{"a":0e99999999999999999999}"#, true),
    (r#"{"a":1}"#, r#"{"a":-1}"#, false),
    (r#"{"a":1}"#, r#"{"a":10}"#, false),
    (r#"{"a":105}"#, r#"{"a":15}"#, false),
    (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
    (r#"{"a":1}"#, r#"{"a":true}"#, false),
    (r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#, false),
    (r#"{"a":"x"}"#, r#"{"a":"X"}"#, false),
    (r#"{"a":"x"}"#, r#"{"a":"\u0078"}"#, true),
    (r#"{"a":"1.0 \" 1"}"#, r#"{"a":"1.0 \" 1"}"#, true),
    (r#"{"a":"1.0"}"#, r#"{"a":"1.00"}"#, false),
    (r#"{"a":"\"1.0,"}"#, r#"{"a":"\"1.00,"}"#, false),
    (r#"{"a":["\\",1.0]}"#, r#"{"a":["\\",1]}"#, true),
    (r#"{"a":[1,{"b":2.0}]}"#, r#"{"a":[1.0,{"b":2}]}"#, true),
    (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
    (r#"{"a":{"b":1}}"#, r#"{"a":{"b":1,"c":2}}"#, false),
    (r#"{"a":{"c":2,"b":1}}"#, r#"{"a":{"b":1,"c":2}}"#, true),
    (r#"{"a":1}"#, "[1]", false),
];

#[test]
fn a_filter_compares_values_and_not_their_spelling() {
    for (filter, metadata, expected) in FILTERS {
        let filter = Filter::parse(&Json::parse(filter).unwrap()).unwrap();
        let metadata = Json::parse(metadata).unwrap();
        assert_eq!(filter.matches(metadata.as_str()), *expected, "{filter:?} on {metadata}");
    }
    for other in ["1", "[]", "null", r#""a""#] {
        let found = Filter::parse(&Json::parse(other).unwrap());
        assert!(matches!(found, Err(Error::Invalid { .. })), "{other}");
    }
}

#[test]
fn a_query_that_cannot_be_compared_is_refused() {
    let world = world(&[("a", "{}", &[1.0, 0.0])]);
    for query in [&[1.0][..], &[1.0, 2.0, 3.0], &[], &[f32::NAN, 1.0], &[1.0, f32::INFINITY]] {
        let found = view(&world).search(query, 1, None, &world.log);
        assert!(matches!(found, Err(Error::Invalid { .. })), "{query:?}");
    }
}

#[test]
fn the_embedders_width_holds_for_a_table_without_rows() {
    let mut world = World::default();
    let identity = Identity { name: Cow::Borrowed("e"), model: Cow::Borrowed("m"), dim: 3 };
    world.commit("t", &[Op::Configure(Config::Vector(Some(identity.clone())))]);
    assert_eq!((view(&world).dim(), view(&world).identity()), (Some(3), Some(&identity.into_owned())));
    world.commit("t", &[upsert("a", "{}", &[1.0])]);
    assert_eq!(view(&world).len(), 0);
    world.commit("t", &[upsert("a", "{}", &[1.0, 0.0, 0.0])]);
    world.commit("t", &[Op::Configure(Config::Vector(None))]);
    assert_eq!((view(&world).dim(), view(&world).identity()), (Some(3), None), "the rows' own width");
    world.commit("t", &[Op::Clear(HandleKind::Vector)]);
    assert_eq!((view(&world).dim(), world.state.handles().count()), (None, 0));
}

#[test]
fn chains_are_kept_on_delete_and_on_clear() {
    let mut world = world(&[("a", "{}", &[1.0]), ("b", "{}", &[1.0])]);
    world.commit("t", &[Op::Delete { id: "a" }]);
    world.commit("t", &[Op::Clear(HandleKind::Vector)]);
    let last = |world: &World, id| world.state.last(HandleKind::Vector, "t", id).frame;
    assert_eq!((last(&world, "a"), last(&world, "b"), last(&world, "c")), (Frame(3), Frame(2), Frame(0)));
    world.commit("t", &[upsert("b", "{}", &[1.0, 2.0])]);
    assert_eq!(world.state.last(HandleKind::Vector, "t", "b"), Last { frame: Frame(5), index: 0 });
    assert_eq!(view(&world).get("a", &world.log).unwrap(), None);
}

#[test]
fn a_damaged_row_is_an_error_where_its_text_is_needed() {
    let mut world = world(&[("far", r#"{"a":1}"#, &[-1.0, 0.0])]);
    world.rot_last_envelope();
    world.commit("t", &[upsert("near", r#"{"a":1}"#, &[1.0, 0.0])]);
    assert_eq!(ids(&search(&world, &[1.0, 0.0], 1, None)), ["near"], "only the answer's texts are read");
    let far = view(&world).search(&[1.0, 0.0], 2, None, &world.log);
    assert!(matches!(far, Err(Error::Corrupt { frame: Frame(1), .. })));
    let filtered = |filter: &str, k| {
        let filter = Filter::parse(&Json::parse(filter).unwrap()).unwrap();
        view(&world).search(&[1.0, 0.0], k, Some(&filter), &world.log)
    };
    assert_eq!(filtered(r#"{"a":1}"#, 1).unwrap().len(), 1, "a row that scores less is not asked");
    assert!(filtered(r#"{"a":1}"#, 2).is_err(), "its metadata may pass");
    assert_eq!(filtered(r#"{"a":2}"#, 2).unwrap(), [], "its metadata cannot pass");
    assert!(view(&world).get("far", &world.log).is_err());
}

/// The answer by the definition: every score in a loop, then a stable sort of all.
fn naive(rows: &[Vec<f32>], query: &[f32], k: usize) -> Vec<(String, u32)> {
    let score = |row: &[f32]| {
        let (mut dot, mut rows_squares, mut query_squares) = (0.0f64, 0.0f64, 0.0f64);
        for (x, q) in row.iter().zip(query) {
            dot += f64::from(*q) * f64::from(*x);
            rows_squares += f64::from(*x) * f64::from(*x);
            query_squares += f64::from(*q) * f64::from(*q);
        }
        let product = query_squares.sqrt() * rows_squares.sqrt();
        if product == 0.0 { 0.0 } else { (dot / product).clamp(-1.0, 1.0) as f32 }
    };
    let mut all: Vec<(String, f32)> =
        rows.iter().enumerate().map(|(n, row)| (format!("{n:03}"), score(row))).collect();
    all.sort_by(|(_, a), (_, b)| b.partial_cmp(a).unwrap());
    all.into_iter().take(k).map(|(id, score)| (id, (score + 0.0).to_bits())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_search_agrees_with_the_naive_one_bit_for_bit(
        rows in proptest::collection::vec(proptest::collection::vec(-2.0f32..2.0, 5), 0..60),
        query in proptest::collection::vec(-2.0f32..2.0, 5),
        k in 0..70usize,
    ) {
        let rows: Vec<Vec<f32>> = rows.iter().chain(rows.first()).cloned().collect();
        let names: Vec<String> = (0..rows.len()).map(|n| format!("{n:03}")).collect();
        let named: Vec<(&str, &str, &[f32])> =
            names.iter().zip(&rows).map(|(id, row)| (id.as_str(), "{}", row.as_slice())).rev().collect();
        let found = search(&world(&named), &query, k, None);
        let found: Vec<_> = found.into_iter().map(|(id, score)| (id, score.to_bits())).collect();
        prop_assert_eq!(found, naive(&rows, &query, k));
    }
}
