//! The fuzz target `interchange`. Its body stands in `tests/it/fuzzing/interchange.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mnemolog_fuzz::run("interchange", data));
