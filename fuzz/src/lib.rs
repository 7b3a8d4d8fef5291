//! The bodies of the fuzz targets, compiled for the fuzzer.
//!
//! They stand in `tests/it/fuzzing`, where the ordinary tests replay the corpora on them: one text, so that what
//! the fuzzer holds true and what the tests hold true cannot drift apart.

#[path = "../../tests/it"]
mod it {
    #[expect(dead_code, reason = "the tests make the seeds")]
    pub(crate) mod fuzzing;
    #[expect(dead_code, reason = "the tests use more of the model than the targets do")]
    pub(crate) mod model;
}

/// Runs the target of this name on the bytes.
pub fn run(name: &str, data: &[u8]) {
    let target = it::fuzzing::TARGETS.iter().find(|(other, _)| *other == name);
    target.expect("a target of this name").1(data);
}
