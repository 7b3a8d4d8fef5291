//! Whole logs in and out.
