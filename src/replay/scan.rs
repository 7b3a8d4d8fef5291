//! Going through the whole log at once, a file a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::codec::run::Run;
use crate::segment::Segment;

/// Below so many bytes for each, another thread costs more than it brings.
const THREAD_BYTES: u64 = 16 << 20;

/// Hands out every published frame of the files, each file's in order, with the place of the file among them. Answers
/// false if something could not be read, or did not check out: then the rest may be missing.
pub(super) fn scan(files: &[Arc<Segment>], look: &(dyn Fn(u32, &Run<'_>) + Sync)) -> bool {
    let (next, whole) = (AtomicUsize::new(0), AtomicBool::new(true));
    let work = || {
        while whole.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(place) else { break };
            let ordinal = u32::try_from(place).unwrap_or(u32::MAX);
            if !file.scan(&mut |run| look(ordinal, run)).unwrap_or(false) {
                whole.store(false, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads(files) {
            // Without another thread this one does it all.
            let _ = thread::Builder::new().name("mnemolog-scan".into()).spawn_scoped(scope, work);
        }
        work();
    });
    whole.load(Ordering::Relaxed)
}

fn threads(files: &[Arc<Segment>]) -> usize {
    let bytes: u64 = files.iter().map(|file| file.published()).sum();
    let worth = usize::try_from(bytes / THREAD_BYTES).unwrap_or(usize::MAX);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    worth.min(cores).min(files.len())
}
