//! The integration tests: one binary, one module per file.

mod embed;
mod names;
mod tidy;
