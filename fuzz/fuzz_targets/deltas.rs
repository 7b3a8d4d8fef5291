//! The fuzz target `deltas`. Its body stands in `tests/it/fuzzing/deltas.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mnemolog_fuzz::run("deltas", data));
