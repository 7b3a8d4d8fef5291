//! The search over integers against the plain scan: ids, order and the bits of every score, on vectors that are made to
//! be told apart wrongly, and after any history.

use std::borrow::Cow;

use mnemolog::codec::delta::{HandleKind, Op, Upsert};
use mnemolog::codec::json::Json;
use mnemolog::view::VectorView;
use mnemolog::view::vectors::filter::Filter;
use proptest::prelude::*;
use proptest::sample::select;

use super::log::World;
use super::saved::reopened;

/// A row of a test: its id, its metadata, its floats.
type Row = (u32, &'static str, Vec<f32>);

/// Of so many fields that it looks as if it had any other.
const MANY_FIELDS: &str = r#"{"k0":0,"k1":1,"k2":2,"k3":3,"k4":4,"k5":5,"k6":6,"k7":7,"k8":8,"k9":9,"k10":10,"k11":11,"k12":12,"k13":13,"k14":14,"k15":15,"k16":16,"k17":17,"k18":18,"k19":19,"k20":20,"k21":21,"k22":22,"k23":23,"k24":24,"k25":25,"k26":26,"k27":27,"k28":28,"k29":29,"k30":30,"k31":31,"k32":32,"k33":33,"k34":34,"k35":35,"k36":36,"k37":37,"k38":38,"k39":39}"#;
const METADATA: [&str; 6] = [
    MANY_FIELDS,
    "{}",
    r#"{"kind":"a"}"#,
    r#"{"kind":"b","n":1}"#,
    r#"{"kind":"b","n":1.0,"tags":["x",2]}"#,
    "7",
];
const FILTERS: [&str; 6] = [
    "{}",
    r#"{"kind":"a"}"#,
    r#"{"kind":"b"}"#,
    r#"{"n":1e0}"#,
    r#"{"tags":["x",2.0],"kind":"b"}"#,
    r#"{"kind":"absent"}"#,
];

fn commit(world: &mut World, (id, metadata, floats): &Row) {
    let metadata = Json::parse(metadata).unwrap();
    let id = format!("{id:03}");
    let embedding = Cow::Borrowed(floats.as_slice());
    world.commit("t", &[Op::Upsert(Upsert { id: &id, text: &id, metadata: metadata.as_str(), embedding })]);
}

/// The score by its definition.
fn score(row: &[f32], query: &[f32]) -> f32 {
    let (mut dot, mut of_row, mut of_query) = (0.0f64, 0.0f64, 0.0f64);
    for (x, q) in row.iter().zip(query) {
        dot += f64::from(*q) * f64::from(*x);
        of_row += f64::from(*x) * f64::from(*x);
        of_query += f64::from(*q) * f64::from(*q);
    }
    let product = of_query.sqrt() * of_row.sqrt();
    if product == 0.0 { 0.0 } else { (dot / product).clamp(-1.0, 1.0) as f32 + 0.0 }
}

/// The answer by its definition: the scores of all rows that pass, in a loop, then a stable sort.
fn plain(world: &World, query: &[f32], k: usize, filter: Option<&Filter>) -> Vec<(String, u32)> {
    let view = view(world);
    let mut all = Vec::new();
    for head in view.heads() {
        let row = view.get(head.id, &world.log).unwrap().unwrap();
        if filter.is_none_or(|filter| filter.matches(row.metadata.as_str())) {
            all.push((row.id, score(&row.embedding, query)));
        }
    }
    all.sort_by(|(_, a), (_, b)| b.partial_cmp(a).unwrap());
    all.into_iter().take(k).map(|(id, score)| (id, score.to_bits())).collect()
}

fn view(world: &World) -> VectorView {
    world.state.vectors("t").cloned().unwrap_or_default()
}

fn check(world: &World, query: &[f32], k: usize, filter: Option<&str>) {
    let filter = filter.map(|filter| Filter::parse(&Json::parse(filter).unwrap()).unwrap());
    let found = view(world).search(query, k, filter.as_ref(), &world.log).unwrap();
    for hit in &found {
        assert_eq!(hit.id, hit.text, "the text of the row");
    }
    let found: Vec<_> = found.into_iter().map(|hit| (hit.id, hit.score.to_bits())).collect();
    assert_eq!(
        found,
        plain(world, query, k, filter.as_ref()),
        "{k} nearest to {:?}",
        &query[..query.len().min(8)]
    );
}

/// A float of any size that is finite.
fn any_float() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |x| x.is_finite())
}

/// One of the kinds of vector that integers serve badly, or well.
fn vector(width: usize) -> BoxedStrategy<Vec<f32>> {
    let floats = move |float: BoxedStrategy<f32>| proptest::collection::vec(float, width);
    let base: Vec<f32> = (0..width).map(|n| ((n * 37 + 11) % 101) as f32 - 50.5).collect();
    let near = (Just(base.clone()), 0..width, -3..4i32).prop_map(|(mut row, at, ulps)| {
        row[at] = f32::from_bits(row[at].to_bits().wrapping_add_signed(ulps));
        row
    });
    prop_oneof![
        Just(vec![0.0; width]),
        Just(vec![-0.0; width]),
        Just(base),
        near,
        any_float().prop_map(move |x| vec![x; width]),
        (any_float(), 0..width).prop_map(move |(x, at)| {
            let mut row = vec![1.0; width];
            row[at] = x;
            row
        }),
        (0..width, select(vec![f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1)])).prop_map(move |(at, x)| {
            let mut row = vec![f32::from_bits(3); width];
            row[at] = x;
            row
        }),
        floats((0..200u32).prop_map(f32::from_bits).boxed()),
        floats(any_float().boxed()),
        floats((-1.0f32..1.0).boxed()),
        floats(select(vec![-1.0f32, 0.0, 1.0, 0.5]).boxed()),
        floats((0.99f32..1.0).boxed()),
    ]
    .boxed()
}

fn rows(width: usize, most: usize) -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::vec((0..150u32, select(METADATA.to_vec()), vector(width)), 0..most)
}

fn any_case() -> impl Strategy<Value = (Vec<Row>, Vec<f32>)> {
    select(vec![1usize, 2, 3, 8, 33, 100, 384]).prop_flat_map(|width| (rows(width, 80), vector(width)))
}

#[derive(Clone, Debug)]
enum Step {
    Upsert(Row),
    Delete(u32),
    Clear,
    Reopen,
    Search(Vec<f32>, usize, Option<&'static str>),
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    select(vec![2usize, 40, 5000]).prop_flat_map(|width| {
        let upsert = (0..40u32, select(METADATA.to_vec()), vector(width)).prop_map(Step::Upsert);
        let filter = proptest::option::of(select(FILTERS.to_vec()));
        let search = (vector(width), 0..12usize, filter);
        proptest::collection::vec(
            prop_oneof![
                12 => upsert,
                4 => (0..40u32).prop_map(Step::Delete),
                1 => Just(Step::Clear),
                2 => Just(Step::Reopen),
                4 => search.prop_map(|(query, k, filter)| Step::Search(query, k, filter)),
            ],
            0..60,
        )
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn a_search_over_integers_is_the_plain_scan(
        (rows, query) in any_case(),
        k in 0..90usize,
        filter in proptest::option::of(select(FILTERS.to_vec())),
    ) {
        let mut world = World::default();
        rows.iter().for_each(|row| commit(&mut world, row));
        check(&world, &query, k, filter);
        for (_, _, row) in rows.iter().take(2) {
            check(&world, row, 1 + k % 5, filter);
        }
    }

    #[test]
    fn a_search_is_the_plain_scan_after_any_history(steps in any_steps()) {
        let mut world = World::default();
        let mut pasts = Vec::new();
        for step in &steps {
            match step {
                Step::Upsert(row) => commit(&mut world, row),
                Step::Delete(id) => drop(world.commit("t", &[Op::Delete { id: &format!("{id:03}") }])),
                Step::Clear => drop(world.commit("t", &[Op::Clear(HandleKind::Vector)])),
                Step::Reopen => world = reopened(&world),
                Step::Search(query, k, filter) if view(&world).dim().is_none_or(|dim| dim == query.len()) => {
                    check(&world, query, *k, *filter);
                    let answer = plain(&world, query, *k, None);
                    pasts.push((world.clone(), query, *k, answer));
                }
                Step::Search(..) => {}
            }
        }
        for (past, query, k, answer) in pasts {
            prop_assert_eq!(plain(&past, query, k, None), answer);
            check(&past, query, k, None);
        }
    }
}

proptest! {
    #![proptest_config(config(12))]

    #[test]
    fn the_widest_rows_are_searched_exactly(rows in rows(65_536, 8), query in vector(65_536), k in 1..5usize) {
        let mut world = World::default();
        rows.iter().for_each(|row| commit(&mut world, row));
        check(&world, &query, k, None);
        check(&reopened(&world), &query, k, Some(r#"{"kind":"b"}"#));
    }
}

#[test]
fn more_ties_than_places_are_resolved_by_id() {
    let mut world = World::default();
    for n in (0..300u32).rev() {
        let floats = if n % 3 == 0 { vec![0.5; 24] } else { vec![2.0; 24] };
        commit(&mut world, &(n, METADATA[1 + n as usize % 2], floats));
    }
    for k in [1, 2, 7, 299, 300, 301] {
        check(&world, &[1.0; 24], k, None);
        check(&world, &[-1.0; 24], k, Some(FILTERS[1]));
        check(&world, &[0.0; 24], k, None);
    }
}

#[test]
fn metadata_that_looks_as_if_it_passed_keeps_no_row_out() {
    let mut world = World::default();
    for n in 0..20 {
        commit(&mut world, &(n, MANY_FIELDS, vec![1.0, 0.0]));
    }
    for (n, metadata) in (20..).zip(METADATA) {
        commit(&mut world, &(n, metadata, vec![1.0, n as f32]));
    }
    for filter in FILTERS {
        for k in 1..4 {
            check(&world, &[1.0, 0.0], k, Some(filter));
        }
    }
}

#[test]
fn a_table_of_many_chunks_is_searched_whole() {
    let mut world = World::default();
    let floats = |n: u32| (0..2000).map(|i| ((n * 31 + i * i) % 97) as f32 - 48.0).collect::<Vec<f32>>();
    for n in 0..700 {
        commit(&mut world, &(n, "{}", floats(n)));
    }
    let past = world.clone();
    for n in (0..700).step_by(13) {
        commit(&mut world, &(n, "{}", floats(n + 1)));
    }
    for n in [0, 13, 511, 519, 520, 699] {
        check(&world, &floats(n), 3, None);
        check(&past, &floats(n), 3, None);
    }
    check(&reopened(&world), &floats(14), 700, None);
}
