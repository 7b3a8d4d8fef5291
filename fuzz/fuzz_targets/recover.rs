//! The fuzz target `recover`. Its body stands in `tests/it/fuzzing/recover.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mnemolog_fuzz::run("recover", data));
