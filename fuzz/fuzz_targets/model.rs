//! The fuzz target `model`. Its body stands in `tests/it/fuzzing/model.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mnemolog_fuzz::run("model", data));
