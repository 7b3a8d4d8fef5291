//! The format: a slice goes in, a value and the rest come out.
//!
//! This layer knows what bytes mean and nothing of where they live: no files, no maps, no clocks. Whatever
//! a disk or a stranger hands it, it answers with a value or with [`wire::Malformed`]; it never panics. The
//! prose of `format/` is held against the constants here by a test.

pub mod wire;

mod crc;

pub mod sums;

pub mod segment;

pub mod frame;

pub mod run;

pub mod delta;

pub mod payload;

pub mod blank;

pub mod snapshot;

pub mod intent;

pub mod retention;

pub mod checkpoint;

pub mod json;
