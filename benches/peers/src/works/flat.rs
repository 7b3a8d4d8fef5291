//! Durable notes behind a long log and behind a short one.

use std::path::Path;

use super::{Scratch, Until, write};
use crate::Result;
use crate::notes::{Bodies, Key, SUMMARY};
use crate::report::{Report, Row};
use crate::settings::Settings;
use crate::stores::{Mode, Note, Store, ours};

/// The short log is so many times shorter.
const SHORTER: u64 = 100;

pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let scratch = Scratch::new(settings)?;
    let (short_frames, long_frames) = (settings.frames / SHORTER, settings.frames);
    let short = built(&scratch.path().join("short"), short_frames)?;
    let long = built(&scratch.path().join("long"), long_frames)?;
    let (mut short_rates, mut long_rates) = (Vec::new(), Vec::new());
    for round in 1..=settings.runs as u64 {
        for (store, rates, frames) in
            [(&short, &mut short_rates, short_frames), (&long, &mut long_rates, long_frames)]
        {
            let before = store.len()?;
            assert!(before >= frames, "every frame saved a note of its own");
            rates.push(write(&**store, 1, Until::Time(settings.time), before, round)?.rate);
        }
    }
    let work = format!("durable note behind {long_frames} frames");
    report.add(Row::rates(&work, &long_rates, &format!("behind {short_frames} frames"), &short_rates, 0.9));
    Ok(())
}

/// A log of so many frames, a note each, open for durable writes.
fn built(dir: &Path, frames: u64) -> Result<Box<dyn Store>> {
    std::fs::create_dir_all(dir)?;
    {
        let store = ours::open(dir, Mode::Buffered)?;
        let (mut session, bodies) = (store.session()?, Bodies::new());
        for n in 0..frames {
            session.put(Note { key: Key::new(n).as_str(), summary: SUMMARY, body: bodies.of(n) })?;
        }
    }
    ours::open(dir, Mode::Durable)
}
