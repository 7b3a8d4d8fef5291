//! What several test files need.

/// Says that a test was skipped, and why. Where `MNEMOLOG_STRICT=1` is set, a skip is a failure.
pub(crate) fn skip(reason: &str) {
    println!("SKIPPED: {reason}");
    assert_ne!(std::env::var("MNEMOLOG_STRICT").as_deref(), Ok("1"), "skipped: {reason}");
}
