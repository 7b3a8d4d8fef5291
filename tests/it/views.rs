//! The views: every fold and every query, held against an oracle too simple to be wrong.
//!
//! `log` is a log in memory, `change` an owned delta and how to make random ones, `oracle` the plain fold.

mod change;
mod histories;
mod log;
mod nearest;
mod notes;
mod oracle;
mod packed;
mod rings;
mod saved;
mod senseless;
mod vectors;
