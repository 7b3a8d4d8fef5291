//! The same work on `mnemolog`, on what a user would pick instead, and on the bare file.
//!
//! One run makes every comparison, in interleaved rounds, and writes `peers.md` and `peers.svg`. Every round asserts
//! its result. A durable figure is compared with durable ones alone, a buffered one with buffered ones.

mod chart;
mod machine;
mod notes;
mod report;
mod settings;
mod stores;
mod works;

use std::error::Error;
use std::fs;
use std::time::Instant;

use report::Report;
use settings::Settings;

/// What goes wrong ends the run: a figure of work that failed is none.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let settings = Settings::from_environment()?;
    fs::create_dir_all(&settings.dir)?;
    let begin = Instant::now();
    let mut report = Report::new(&settings);
    let parts: [(&str, works::Work); 6] = [
        ("durable", works::durable::run),
        ("threads", works::threads::run),
        ("buffered", works::buffered::run),
        ("reads", works::reads::run),
        ("beside", works::beside::run),
        ("flat", works::flat::run),
    ];
    for (name, work) in parts {
        if settings.parts.is_empty() || settings.parts.iter().any(|part| part == name) {
            work(&settings, &mut report)?;
            eprintln!("{name}: {:.0} s since the beginning", begin.elapsed().as_secs_f64());
        }
    }
    report.write(&settings, begin.elapsed())
}
