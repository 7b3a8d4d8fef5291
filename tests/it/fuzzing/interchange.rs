//! Any lines into a store: what is refused changes nothing, and what is taken comes out and in again as the same.

use std::sync::Arc;

use mnemolog::disk::MemoryDisk;
use mnemolog::interchange::{DumpOptions, LoadError, LoadOptions, LoadReport, dump, load};
use mnemolog::{Frame, Store, Time};

use super::look;

pub(crate) fn run(data: &[u8]) {
    let store = empty();
    match load_into(&store, data, false) {
        Ok(_) => {}
        Err(LoadError::Refused(_)) => {
            assert_eq!(store.appended(), Frame::ZERO, "what is refused changes nothing");
            if let Err(e) = load_into(&store, data, true) {
                assert!(matches!(e, LoadError::Input(_)), "keeping going refuses line by line: {e}");
            }
        }
        // Text that is not UTF-8 ends the input.
        Err(LoadError::Input(_)) => return assert_eq!(store.appended(), Frame::ZERO),
        Err(e) => panic!("a store in memory takes writes: {e}"),
    }
    look::around(&store);
    let text = dumped(&store);
    let again = empty();
    let report = load_into(&again, &text, false).unwrap_or_else(|e| panic!("{e}\n{}", lossy(&text)));
    assert!(!report.renumbered && report.raised_times == 0 && report.embedded == 0, "{report:?}");
    assert_eq!(frames(&again), frames(&store), "{}", lossy(&text));
    assert_eq!(lossy(&dumped(&again)), lossy(&text));
}

fn empty() -> Store {
    look::options().open_on(Arc::new(MemoryDisk::new())).expect("opens")
}

fn load_into(store: &Store, mut lines: &[u8], keep_going: bool) -> Result<LoadReport, LoadError> {
    load(store, &mut lines, LoadOptions { keep_going, trust_times: true })
}

fn dumped(store: &Store) -> Vec<u8> {
    let mut out = Vec::new();
    dump(store, &mut out, DumpOptions::default()).expect("dumps");
    out
}

fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The time and the digest of each frame.
fn frames(store: &Store) -> Vec<(Frame, Time, u128)> {
    let mut frames = Vec::new();
    let visit = &mut |step: &mut mnemolog::Step<'_>| {
        frames.push((step.frame(), step.time(), step.digest()?));
        Ok(())
    };
    store.replay(store.appended(), visit).expect("replays");
    frames
}
