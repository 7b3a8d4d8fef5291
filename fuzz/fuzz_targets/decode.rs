//! The fuzz target `decode`. Its body stands in `tests/it/fuzzing/decode.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mnemolog_fuzz::run("decode", data));
