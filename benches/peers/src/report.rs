//! The table, and what the chart is drawn from.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use crate::Result;
use crate::chart::{self, Chart};
use crate::machine;
use crate::settings::Settings;

/// The percentiles of the chart.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// One comparison. The ratio is the better the larger it is.
pub struct Row {
    work: String,
    figure: String,
    other: String,
    other_figure: String,
    ratio: f64,
    /// 0: nothing is asked for.
    bar: f64,
}

/// Everything that was measured.
pub struct Report {
    head: String,
    rows: Vec<Row>,
    chart: Chart,
}

impl Row {
    /// Compares writes a second, round by round.
    pub fn rates(work: &str, ours: &[f64], other: &str, others: &[f64], bar: f64) -> Row {
        let figure = |rates| format!("{:.0}/s", median(rates));
        let ratio = |(ours, other): (&f64, &f64)| ours / other;
        let ratios: Vec<f64> = ours.iter().zip(others).map(ratio).collect();
        Row {
            work: work.to_owned(),
            figure: figure(ours),
            other: other.to_owned(),
            other_figure: figure(others),
            ratio: median(&ratios),
            bar,
        }
    }

    /// Compares times in nanoseconds, round by round.
    pub fn times(work: &str, ours: &[f64], other: &str, others: &[f64], bar: f64) -> Row {
        let ratio = |(ours, other): (&f64, &f64)| other / ours;
        let ratios: Vec<f64> = ours.iter().zip(others).map(ratio).collect();
        Row {
            figure: time(median(ours)),
            other_figure: time(median(others)),
            ratio: median(&ratios),
            ..Row::rates(work, ours, other, others, bar)
        }
    }
}

impl Report {
    /// An empty one.
    pub fn new(settings: &Settings) -> Report {
        Report { head: machine::describe(&settings.dir), rows: Vec::new(), chart: Chart::default() }
    }

    /// Adds a comparison.
    pub fn add(&mut self, row: Row) {
        eprintln!("{}", line(&row));
        self.rows.push(row);
    }

    /// Adds a curve of durable notes a second by number of threads.
    pub fn threads(&mut self, name: &str, points: Vec<(u64, f64)>) {
        self.chart.threads.push((name.to_owned(), points));
    }

    /// Adds a curve of what a durable note takes.
    pub fn durable_latencies(&mut self, name: &str, latencies: Vec<u32>) {
        self.chart.durable.push((name.to_owned(), percentiles(latencies)));
    }

    /// Adds a curve of what reading a note takes.
    pub fn get_latencies(&mut self, name: &str, latencies: Vec<u32>) {
        self.chart.gets.push((name.to_owned(), percentiles(latencies)));
    }

    /// Prints the table, and writes it and the chart.
    pub fn write(self, settings: &Settings, took: Duration) -> Result<()> {
        let mut text = String::from("# Measured against others\n\n");
        writeln!(text, "{}\n", self.head)?;
        writeln!(
            text,
            "{} interleaved rounds; figures are medians, ratios the medians of each round's ratio (of times, the \
             other's by this one's). Written by `cargo run --release --manifest-path benches/peers/Cargo.toml` in \
             {} seconds; see [README.md](README.md).\n",
            settings.runs,
            took.as_secs()
        )?;
        text += "| work | mnemolog | against | its figure | ratio | bar | |\n|---|---|---|---|---|---|---|\n";
        for row in &self.rows {
            writeln!(text, "{}", line(row))?;
        }
        if self.chart.is_whole() {
            text += "\n![Durable notes a second by threads, and percentiles of latencies](peers.svg)\n";
        }
        print!("{text}");
        fs::create_dir_all(&settings.out)?;
        fs::write(settings.out.join("peers.md"), text)?;
        if self.chart.is_whole() {
            chart::draw(&self.chart, &settings.out.join("peers.svg"))?;
        }
        Ok(())
    }
}

fn line(row: &Row) -> String {
    let Row { work, figure, other, other_figure, ratio, bar } = row;
    let (bar, verdict) = match *bar {
        0.0 => (String::new(), ""),
        bar => (format!("{bar:.2}"), if *ratio >= bar { "holds" } else { "**short**" }),
    };
    format!("| {work} | {figure} | {other} | {other_figure} | {ratio:.2} | {bar} | {verdict} |")
}

fn time(ns: f64) -> String {
    match ns {
        ..10_000.0 => format!("{ns:.0} ns"),
        ..10_000_000.0 => format!("{:.0} µs", ns / 1e3),
        _ => format!("{:.0} ms", ns / 1e6),
    }
}

/// The middle one of some figures.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The latency that so many percent do not pass; sorts them.
pub fn percentile(latencies: &mut [u32], percent: f64) -> f64 {
    latencies.sort_unstable();
    let place = (latencies.len() as f64 * percent / 100.0) as usize;
    latencies.get(place.min(latencies.len().saturating_sub(1))).map_or(f64::NAN, |ns| f64::from(*ns))
}

fn percentiles(mut latencies: Vec<u32>) -> Vec<f64> {
    PERCENTILES.iter().map(|percent| percentile(&mut latencies, *percent)).collect()
}
