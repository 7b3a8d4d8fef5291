//! What an embedder or a caller may get wrong about vectors, and what then must not be stored.

use mnemolog::error::EmbeddingFault;
use mnemolog::{EmbedError, Embedder, Error, Frame, Json, Store, StubEmbedder, VectorItem, VectorStore};
use std::sync::Arc;

use super::{disk, open, refused};

/// How an embedder answers a batch.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Right,
    Missing,
    Extra,
    Fails,
    Float(usize, f32),
    Zeros(usize),
    Width(usize, usize),
}

/// An embedder of four floats, name `guest`, that answers so.
#[derive(Debug)]
struct Guest(Answer);

impl Embedder for Guest {
    fn name(&self) -> &str {
        "guest"
    }

    fn dim(&self) -> usize {
        4
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.embed_batch(&[text]).map(|mut vectors| vectors.remove(0))
    }

    fn embed_batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors: Vec<_> = (0..texts.len()).map(|n| vec![1.0, n as f32, 0.5, 0.25]).collect();
        match self.0 {
            Answer::Right => {}
            Answer::Missing => drop(vectors.pop()),
            Answer::Extra => vectors.push(vec![1.0; 4]),
            Answer::Fails => return Err(EmbedError::new("the service is overloaded")),
            Answer::Float(at, float) => vectors[at][2] = float,
            Answer::Zeros(at) => vectors[at].fill(-0.0),
            Answer::Width(at, width) => vectors[at].resize(width, 1.0),
        }
        Ok(vectors)
    }
}

/// An embedder without a batch call of its own, which fails on its eighth text.
#[derive(Debug)]
struct OneByOne;

impl Embedder for OneByOne {
    fn name(&self) -> &str {
        "guest"
    }

    fn dim(&self) -> usize {
        4
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        if text.ends_with('7') { Err(EmbedError::new("too long")) } else { Ok(vec![1.0; 4]) }
    }
}

fn ten() -> Vec<VectorItem> {
    (0..10)
        .map(|n| VectorItem { id: format!("id{n}"), text: format!("text {n}"), metadata: Json::object() })
        .collect()
}

fn table(store: &Store, embedder: impl Embedder + 'static) -> VectorStore {
    store.root().vectors("docs").expect("a name").with_embedder(Arc::new(embedder))
}

fn fault(error: Error) -> Arc<EmbeddingFault> {
    match error {
        Error::Embedding(fault) => fault,
        other => panic!("another error: {other}"),
    }
}

/// Every wrong answer to ten texts, and whether a fault is the right name for it.
type Wrong = (Answer, fn(&EmbeddingFault) -> bool);

const WRONG: [Wrong; 11] = [
    (Answer::Missing, |f| matches!(f, EmbeddingFault::Count { expected: 10, found: 9 })),
    (Answer::Extra, |f| matches!(f, EmbeddingFault::Count { expected: 10, found: 11 })),
    (Answer::Fails, |f| matches!(f, EmbeddingFault::Failed { name, .. } if name == "guest")),
    (Answer::Float(3, f32::NAN), |f| matches!(f, EmbeddingFault::NotFinite { index: 3 })),
    (Answer::Float(9, f32::INFINITY), |f| matches!(f, EmbeddingFault::NotFinite { index: 9 })),
    (Answer::Float(0, f32::NEG_INFINITY), |f| matches!(f, EmbeddingFault::NotFinite { index: 0 })),
    (Answer::Zeros(5), |f| matches!(f, EmbeddingFault::Zero { index: 5 })),
    (Answer::Width(6, 3), |f| matches!(f, EmbeddingFault::Width { index: 6, expected: 4, found: 3 })),
    (Answer::Width(6, 5), |f| matches!(f, EmbeddingFault::Width { index: 6, expected: 4, found: 5 })),
    (Answer::Width(6, 0), |f| matches!(f, EmbeddingFault::Width { index: 6, expected: 4, found: 0 })),
    (Answer::Width(0, 64), |f| matches!(f, EmbeddingFault::Width { index: 0, expected: 4, found: 64 })),
];

/// C1, C3: part of a batch is wrong; so nothing of it is stored, in a new table and in one with rows.
#[test]
fn a_batch_is_stored_whole_or_not_at_all() {
    let disk = disk();
    let store = open(&disk);
    for rows in [0, 1] {
        for (answer, names) in WRONG {
            let docs = table(&store, Guest(answer));
            let error = refused(&disk, &store, || docs.upsert_batch(&ten()));
            assert!(names(&fault(error.clone())), "{answer:?}: {error}");
            assert_eq!((docs.len(), docs.identity().is_some()), (rows, rows > 0), "{answer:?}");
            let inside = refused(&disk, &store, || {
                store.root().exclusive(|tx| {
                    let docs = tx.vectors("docs")?.with_embedder(Arc::new(Guest(answer)));
                    docs.upsert_batch(&ten())
                })
            });
            assert!(names(&fault(inside)), "{answer:?} in a critical section");
        }
        let eighth = refused(&disk, &store, || table(&store, OneByOne).upsert_batch(&ten()));
        assert!(matches!(&*fault(eighth), EmbeddingFault::Failed { .. }), "one by one");
        table(&store, Guest(Answer::Right)).upsert("there", "a text", &Json::object()).expect("stored");
    }
    let docs = table(&store, Guest(Answer::Right));
    assert_eq!(docs.len(), 1);
    docs.upsert_batch(&ten()).expect("the right answer is stored");
    assert_eq!((docs.len(), store.appended()), (11, Frame(3)), "as one frame");
    assert!(ten().iter().all(|item| docs.get(&item.id).expect("readable").is_some()));
}

/// C1, C3: the same for one text, and for a query.
#[test]
fn a_single_text_is_checked_like_a_batch() {
    let disk = disk();
    let store = open(&disk);
    table(&store, Guest(Answer::Right)).upsert("there", "a text", &Json::object()).expect("stored");
    for answer in
        [Answer::Extra, Answer::Fails, Answer::Float(0, f32::NAN), Answer::Zeros(0), Answer::Width(0, 3)]
    {
        let docs = table(&store, Guest(answer));
        fault(refused(&disk, &store, || docs.upsert("a", "b", &Json::object())));
        fault(refused(&disk, &store, || docs.search("b", 3)));
    }
}

/// C3: vectors of the caller's own.
#[test]
fn a_vector_that_no_search_could_find_is_refused() {
    let disk = disk();
    let store = open(&disk);
    let docs = store.root().vectors("docs").expect("a name");
    let put = |vector: &[f32]| docs.upsert_embedding("a", "b", &Json::object(), vector);
    type Is = fn(&EmbeddingFault) -> bool;
    let wrong: [(&[f32], Is); 5] = [
        (&[0.0, -0.0], |f| matches!(f, EmbeddingFault::Zero { index: 0 })),
        (&[1.0, f32::NAN], |f| matches!(f, EmbeddingFault::NotFinite { index: 0 })),
        (&[f32::INFINITY, 0.0], |f| matches!(f, EmbeddingFault::NotFinite { index: 0 })),
        (&[0.0, f32::NEG_INFINITY], |f| matches!(f, EmbeddingFault::NotFinite { index: 0 })),
        (&[], |f| matches!(f, EmbeddingFault::Width { index: 0, expected: 1, found: 0 })),
    ];
    for (vector, names) in wrong {
        let error = refused(&disk, &store, || put(vector));
        assert!(names(&fault(error.clone())), "{vector:?}: {error}");
    }
    put(&[f32::MIN_POSITIVE / 2.0, 0.0]).expect("the smallest length is a direction, too");
    let hits = docs.search_by_vector(&[1.0, 0.0], 1).expect("searched");
    assert_eq!((hits[0].id.as_str(), hits[0].score), ("a", 1.0));
}

/// C3: the stub has no direction for a text without a word; that row is stored and scores 0.
#[test]
fn the_stub_stores_a_text_without_words_and_it_scores_nothing() {
    let store = Store::in_memory().expect("opens");
    let docs = store.root().vectors("docs").expect("a name");
    docs.upsert("none", "…!?", &Json::object()).expect("stored");
    docs.upsert("word", "a fox", &Json::object()).expect("stored");
    let scores: Vec<_> = docs.search("fox", 5).expect("hits").into_iter().map(|h| (h.id, h.score)).collect();
    assert_eq!(scores[1], ("none".to_owned(), 0.0));
    assert!(docs.search("!!", 5).expect("hits").iter().all(|hit| hit.score == 0.0));
}

fn width(error: &Error) -> (usize, usize) {
    match error {
        Error::Dimension { expected, found, table } if table == "docs" => (*expected, *found),
        other => panic!("another error: {other}"),
    }
}

/// C7: a query of another width.
#[test]
fn a_query_of_another_width_is_an_error_and_not_an_empty_answer() {
    let store = Store::in_memory().expect("opens");
    let docs = table(&store, Guest(Answer::Right));
    docs.upsert("a", "b", &Json::object()).expect("stored");
    for query in [&[1.0; 3][..], &[1.0; 5], &[]] {
        let error = docs.search_by_vector(query, 3).expect_err("another width");
        assert_eq!(width(&error), (4, query.len()));
        let error = docs.search_by_vector_where(query, 3, None).expect_err("another width");
        assert_eq!(width(&error), (4, query.len()));
    }
    docs.delete("a").expect("deleted");
    let error = docs.search_by_vector(&[1.0; 3], 3).expect_err("the width outlives the last row");
    assert_eq!(width(&error), (4, 3));
    for query in [f32::NAN, f32::INFINITY] {
        let error = docs.search_by_vector(&[query; 4], 3).expect_err("not finite");
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        let unused = store.root().vectors("unused").expect("a name");
        let error = unused.search_by_vector(&[query; 4], 3).expect_err("not finite, whatever is stored");
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
}

/// C8: vectors of two widths in one table.
#[test]
fn a_table_takes_vectors_of_one_width_only() {
    let disk = disk();
    let store = open(&disk);
    let docs = store.root().vectors("docs").expect("a name");
    docs.upsert_embedding("a", "b", &Json::object(), &[1.0, 0.0, 0.0]).expect("the first says the width");
    let other = refused(&disk, &store, || docs.upsert_embedding("c", "d", &Json::object(), &[1.0, 0.0]));
    assert_eq!(width(&other), (3, 2));
    let same_id = refused(&disk, &store, || docs.upsert_embedding("a", "d", &Json::object(), &[1.0]));
    assert_eq!(width(&same_id), (3, 1), "also when it would replace the only row");
    let stub = refused(&disk, &store, || docs.upsert("c", "d", &Json::object()));
    assert_eq!(width(&stub), (3, StubEmbedder::DEFAULT_DIM), "an embedder is held to the rows, too");
    let inside = refused(&disk, &store, || {
        store.root().exclusive(|tx| {
            tx.vectors("docs")?.clear()?;
            tx.vectors("docs")?.upsert_embedding("x", "y", &Json::object(), &[1.0, 0.0])?;
            tx.vectors("docs")?.upsert_embedding("z", "y", &Json::object(), &[1.0, 0.0, 0.0])
        })
    });
    assert_eq!(width(&inside), (2, 3), "the section's own rows count");
    assert_eq!((docs.len(), docs.get("a").expect("readable").expect("there").embedding.len()), (1, 3));
}

#[test]
fn a_changed_model_is_refused_by_name_and_embedding_anew_loses_nothing() {
    let (disk, n) = (disk(), 300);
    let store = open(&disk);
    let rows: Vec<_> = (0..n)
        .map(|n| VectorItem { id: format!("id{n}"), text: format!("text {n}"), metadata: Json::object() })
        .collect();
    store.root().vectors("docs").expect("a name").upsert_batch(&rows).expect("stored");
    let wider = table(&store, StubEmbedder::with_dim(128));
    let guest = table(&store, Guest(Answer::Right));
    for other in [&wider, &guest] {
        assert!(matches!(other.search("text", 1), Err(Error::EmbedderMismatch { .. })));
        assert_eq!(
            (other.len(), other.get("id7").expect("reads").expect("a row").text.as_str()),
            (n, "text 7")
        );
    }
    guest.reembed(&Guest(Answer::Right), &mut |_| ()).expect("embedded");
    assert_eq!((guest.len(), guest.search("text 7", n).expect("searches").len()), (n, n));
    wider.reembed(&StubEmbedder::with_dim(128), &mut |_| ()).expect("embedded");
    assert_eq!((wider.len(), wider.search("text 7", n).expect("searches").len()), (n, n));
}

#[test]
fn embedding_fifteen_thousand_rows_anew_five_times_leaves_no_more_than_one_copy_after_compacting() {
    let store = open(&disk());
    let rows: Vec<_> = (0..15_000)
        .map(|n| VectorItem { id: format!("id{n}"), text: format!("text {n}"), metadata: Json::object() })
        .collect();
    let docs = store.root().vectors("docs").expect("a name");
    docs.upsert_batch(&rows).expect("stored");
    let once = store.log_size().used;
    for dim in [32, 64, 32, 96, 64] {
        docs.reembed(&StubEmbedder::with_dim(dim), &mut |_| ()).expect("embedded");
    }
    assert!(store.log_size().used > 5 * once, "every run stands in the history");
    // The frame of the switch would be kept beside the state before it.
    store.root().notes().remember("later", "s", "b").expect("saved");
    store.compact(store.appended(), false).expect("compacted");
    let used = store.log_size().used;
    assert!(used as f64 <= 1.3 * once as f64, "{used} bytes, and the rows alone took {once}");
    assert_eq!((docs.len(), docs.search("text 7", 1).expect("searches").len()), (15_000, 1));
}
