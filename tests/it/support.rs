//! What several test files need.

use std::sync::Arc;

use mnemolog::disk::{Disk, MemoryDisk, Tear};
use mnemolog::interchange::{DumpOptions, dump};
use mnemolog::{Frame, Store};

use crate::model::Rng;

/// Says that a test was skipped, and why. Where `MNEMOLOG_STRICT=1` is set, a skip is a failure.
pub(crate) fn skip(reason: &str) {
    println!("SKIPPED: {reason}");
    assert_ne!(std::env::var("MNEMOLOG_STRICT").as_deref(), Ok("1"), "skipped: {reason}");
}

/// The disk as a store takes it.
pub(crate) fn shared(disk: &MemoryDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// Opens the store on a disk, of small segments.
pub(crate) fn open(disk: &MemoryDisk) -> Store {
    crate::tail::options().open_on(shared(disk)).expect("opens")
}

/// A dump up to a frame.
pub(crate) fn dumped(store: &Store, frame: Frame) -> String {
    let mut out = Vec::new();
    dump(store, &mut out, DumpOptions { up_to: Some(frame) }).expect("dumped");
    String::from_utf8(out).expect("JSON")
}

/// A crash within a call, in one of six ways: five losses of power, and the death of all processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crash {
    pub(crate) call: u64,
    pub(crate) mode: u64,
}

/// How often something was as before after a crash, and how often as it was to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcomes {
    /// How many calls it takes.
    pub(crate) calls: u64,
    pub(crate) before: u64,
    pub(crate) after: u64,
}

impl Crash {
    /// The disk stopped, and comes back with what survives.
    pub(crate) fn happens(self, disk: &MemoryDisk) {
        let Crash { call, mode } = self;
        let mut rng = Rng::new(call * 6 + mode);
        let mut choose = |n: u64| match mode {
            0 => 0,
            1 => n - 1,
            _ => rng.below(n),
        };
        match mode {
            5 => disk.kill(),
            3 => disk.power_loss(&mut choose, Tear::Byte),
            _ => disk.power_loss(&mut choose, Tear::Sector),
        }
    }
}

/// Lets a crash happen at every call that something makes, in every way that is not left out. `attempt` says whether it
/// was done by then, and whether it is there afterwards: what was done is there.
pub(crate) fn crash_at_every_call(
    what: &str,
    leave_out: impl Fn(Crash) -> bool,
    mut attempt: impl FnMut(Crash) -> (bool, bool),
) -> Outcomes {
    let mut outcomes = Outcomes { calls: 0, before: 0, after: 0 };
    for call in 0.. {
        let mut all_done = false;
        for crash in (0..6).map(|mode| Crash { call, mode }).filter(|crash| !leave_out(*crash)) {
            let (done, there) = attempt(crash);
            assert!(there || !done, "{what}, {crash:?}: it was done, and it is gone");
            if there {
                outcomes.after += 1
            } else {
                outcomes.before += 1
            }
            all_done = done;
        }
        if all_done {
            break;
        }
        outcomes.calls += 1;
    }
    outcomes
}
