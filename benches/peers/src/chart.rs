//! The chart: durable notes a second by threads, and percentiles of latencies.

use std::path::Path;

use plotters::coord::ranged1d::{KeyPointHint, Ranged};
use plotters::prelude::*;

use crate::Result;
use crate::report::PERCENTILES;

/// A named curve by number of threads.
pub type Threads = (String, Vec<(u64, f64)>);
/// A named curve by percentile, in nanoseconds.
pub type Latencies = (String, Vec<f64>);

const SIZE: (u32, u32) = (1500, 480);
const COLORS: [RGBColor; 8] = [
    RGBColor(0x1f, 0x77, 0xb4),
    RGBColor(0xff, 0x7f, 0x0e),
    RGBColor(0x2c, 0xa0, 0x2c),
    RGBColor(0xd6, 0x27, 0x28),
    RGBColor(0x94, 0x67, 0xbd),
    RGBColor(0x8c, 0x56, 0x4b),
    RGBColor(0xe3, 0x77, 0xc2),
    RGBColor(0x7f, 0x7f, 0x7f),
];

/// What is drawn.
#[derive(Default)]
pub struct Chart {
    pub threads: Vec<Threads>,
    pub durable: Vec<Latencies>,
    pub gets: Vec<Latencies>,
}

impl Chart {
    /// Whether everything was measured that is drawn.
    pub fn is_whole(&self) -> bool {
        !self.threads.is_empty() && !self.durable.is_empty() && !self.gets.is_empty()
    }
}

/// One panel: curves over a few places of the horizontal axis, logarithmic upwards.
struct Panel<'p> {
    title: &'p str,
    across: &'p str,
    up: &'p str,
    places: Vec<String>,
    curves: Vec<(&'p str, Vec<f64>)>,
}

/// Draws the chart into a file.
pub fn draw(chart: &Chart, path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let panels = root.split_evenly((1, 3));
    let threads =
        chart.threads.first().map(|(_, points)| points.iter().map(|(n, _)| n.to_string()).collect());
    let curve = |(name, points): &'_ Threads| -> (String, Vec<f64>) {
        (name.clone(), points.iter().map(|(_, rate)| *rate).collect())
    };
    let by_threads: Vec<(String, Vec<f64>)> = chart.threads.iter().map(curve).collect();
    let percentiles: Vec<String> = PERCENTILES.iter().map(|percent| format!("p{percent}")).collect();
    let micros = |(name, ns): &'_ Latencies| (name.clone(), ns.iter().map(|ns| ns / 1e3).collect());
    let durable: Vec<(String, Vec<f64>)> = chart.durable.iter().map(micros).collect();
    let gets: Vec<(String, Vec<f64>)> = chart.gets.iter().map(micros).collect();
    let parts = [
        ("Durable notes", "threads", "notes a second", threads.unwrap_or_default(), by_threads),
        ("A durable note, one thread", "percentile", "µs", percentiles.clone(), durable),
        ("Reading a random note", "percentile", "µs", percentiles, gets),
    ];
    for (area, (title, across, up, places, curves)) in panels.iter().zip(&parts) {
        let curves = curves.iter().map(|(name, points)| (name.as_str(), points.clone())).collect();
        panel(area, &Panel { title, across, up, places: places.clone(), curves })?;
    }
    Ok(root.present()?)
}

fn panel(area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>, panel: &Panel<'_>) -> Result<()> {
    let points = || panel.curves.iter().flat_map(|(_, points)| points.iter().copied());
    let (least, most) = (points().fold(f64::INFINITY, f64::min), points().fold(0.0, f64::max));
    let last = panel.places.len().saturating_sub(1) as f64;
    let mut axes = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(70)
        // Room above the curves for their names.
        .build_cartesian_2d(Places(last), (least * 0.8..most * 6.0).log_scale())?;
    axes.configure_mesh()
        .x_desc(panel.across)
        .y_desc(panel.up)
        .x_label_formatter(&|place| panel.places.get(place.round() as usize).cloned().unwrap_or_default())
        .y_label_formatter(&|figure| format!("{figure}"))
        .light_line_style(WHITE)
        .draw()?;
    for ((name, points), color) in panel.curves.iter().zip(COLORS) {
        let points: Vec<(f64, f64)> =
            points.iter().enumerate().map(|(place, point)| (place as f64, *point)).collect();
        axes.draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        axes.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
    }
    axes.configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

/// The places 0, 1, … of a horizontal axis, evenly spaced.
struct Places(f64);

impl Ranged for Places {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        // A tenth of the width stays free on either side.
        let part = 0.1 + 0.8 * value / self.0.max(1.0);
        limit.0 + (f64::from(limit.1 - limit.0) * part) as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        (0..=self.0 as u32).map(f64::from).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..self.0
    }
}

impl plotters::coord::ranged1d::ValueFormatter<f64> for Places {}
