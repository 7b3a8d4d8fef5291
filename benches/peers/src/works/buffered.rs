//! Buffered notes: acknowledged when they are in the page cache.

use super::{Scratch, Until, raw, write};
use crate::Result;
use crate::report::{Report, Row};
use crate::settings::Settings;
use crate::stores::{Mode, Open, fjall, ours, sqlite};

const STORES: [(&str, Open); 3] =
    [("mnemolog", ours::open), ("SQLite NORMAL", sqlite::open), ("fjall without sync", fjall::open)];

pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let (mut raw, mut rates) = (Vec::new(), vec![Vec::new(); STORES.len()]);
    let until = Until::Count(settings.buffered);
    for _ in 0..settings.runs {
        let scratch = Scratch::new(settings)?;
        let bytes = raw::frame_bytes(scratch.path())?;
        raw.push(raw::write(scratch.path(), bytes, until, false)?.rate);
        for ((_, open), rates) in STORES.iter().zip(&mut rates) {
            let scratch = Scratch::new(settings)?;
            let store = open(scratch.path(), Mode::Buffered)?;
            rates.push(write(&*store, 1, until, 0, 0)?.rate);
        }
    }
    let [ours, sqlite, fjall] = &rates[..] else { unreachable!("three") };
    let work = "buffered note (`Durability::Os`), 1 thread";
    report.add(Row::rates(work, ours, "raw buffered write", &raw, 0.5));
    report.add(Row::rates(work, ours, STORES[1].0, sqlite, 8.0));
    report.add(Row::rates(work, ours, STORES[2].0, fjall, 1.2));
    Ok(())
}
