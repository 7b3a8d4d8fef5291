//! The stub embedder against vectors computed by an independent program, and the trait as others use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mnemolog::{EmbedError, Embedder, StubEmbedder};
use serde::Deserialize;

/// What `tests/conformance/stub_embedder.py` printed.
const EXPECTED: &str = include_str!("../conformance/stub_embedder.json");

#[derive(Deserialize)]
struct Case {
    text: String,
    dim: usize,
    /// Index to the bits of the float there, in hexadecimal; every other float is +0.0.
    nonzero: BTreeMap<String, String>,
}

impl Case {
    fn bits(&self) -> Vec<u32> {
        let mut bits = vec![0; self.dim];
        for (index, hex) in &self.nonzero {
            bits[index.parse::<usize>().unwrap()] = u32::from_str_radix(hex, 16).unwrap();
        }
        bits
    }
}

#[derive(Debug)]
struct FailsOn(&'static str);

impl Embedder for FailsOn {
    fn name(&self) -> &str {
        "fails"
    }

    fn dim(&self) -> usize {
        1
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        if text == self.0 { Err(EmbedError::new(std::io::Error::other("no model"))) } else { Ok(vec![1.0]) }
    }
}

fn bits(vector: &[f32]) -> Vec<u32> {
    vector.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn the_stub_gives_the_bits_of_an_independent_implementation() {
    let cases: Vec<Case> = serde_json::from_str(EXPECTED).unwrap();
    assert!(cases.len() >= 20, "only {} cases", cases.len());
    assert!(
        cases.iter().any(|case| case.nonzero.is_empty()) && cases.iter().any(|case| case.nonzero.len() > 60)
    );
    for case in &cases {
        let found = StubEmbedder::with_dim(case.dim).embed(&case.text).unwrap();
        assert_eq!(bits(&found), case.bits(), "{:.60?} in {} floats", case.text, case.dim);
    }
}

#[test]
fn the_stub_answers_with_its_fixed_identity() {
    let stub = StubEmbedder::new();
    assert_eq!((stub.name(), stub.model(), stub.dim()), ("stub-fnv", "stub-fnv", 64));
    assert_eq!(stub, StubEmbedder::default());
}

#[test]
fn a_stub_of_width_zero_is_clamped_to_one_float() {
    let stub = StubEmbedder::with_dim(0);
    assert_eq!(stub.dim(), 1);
    assert_eq!(stub.embed("word").unwrap().len(), 1);
}

#[test]
fn a_text_without_words_is_the_zero_vector() {
    for text in ["", " \n\t", "?!…", "🚀🎯", "\u{301}"] {
        assert_eq!(StubEmbedder::new().embed(text).unwrap(), vec![0.0; 64], "{text:?}");
    }
}

#[test]
fn a_batch_keeps_the_order_of_its_texts() {
    let stub: Arc<dyn Embedder> = Arc::new(StubEmbedder::new());
    let texts = ["one", "two", "", "one"];
    let one_by_one: Vec<_> = texts.iter().map(|text| stub.embed(text).unwrap()).collect();
    assert_eq!(stub.embed_batch(&texts).unwrap(), one_by_one);
    assert!(stub.embed_batch(&[]).unwrap().is_empty());
}

#[test]
fn a_batch_with_one_failing_text_fails_as_a_whole_and_keeps_the_cause() {
    let error = FailsOn("b").embed_batch(&["a", "b", "c"]).unwrap_err();
    assert_eq!(error.to_string(), "no model");
    assert!(error.cause().downcast_ref::<std::io::Error>().is_some());
}
