//! Figures over time as an SVG line chart.

use std::fmt::Write as _;

use super::svg::{ChartData, chart_head, escape, grid_line, ticks};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 34.0;

/// One line of a chart. All lines have as many values as the chart has times.
pub struct Curve<'a> {
    /// Legend.
    pub name: &'a str,
    /// CSS class that gives it its colour and dash: `ours`, `theirs` or `bound`.
    pub class: &'a str,
    /// Values, by time.
    pub values: &'a [f64],
}

/// Draws curves as steps (a value holds until the next time). `times` are labels, evenly spaced.
pub fn chart(title: &str, times: &[String], curves: &[Curve<'_>]) -> String {
    let max = curves.iter().flat_map(|c| c.values).fold(0.0f64, |a, b| a.max(*b));
    let ticks = ticks(max);
    let top = ticks.last().copied().unwrap_or(1.0);
    let x = |i: usize| LEFT + (WIDTH - LEFT - RIGHT) * i as f64 / times.len().max(1) as f64;
    let y = |v: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - v / top);
    let mut svg = chart_head(title, WIDTH, HEIGHT, data(times, curves));
    for tick in &ticks {
        svg.push_str(&grid_line(LEFT, WIDTH - RIGHT, y(*tick), tick));
    }
    let _ = write!(svg, "<g class=\"axis\" data-y=\"{:.1}\">", HEIGHT - BOTTOM + 18.0);
    for i in (0..times.len()).step_by(times.len().div_ceil(8).max(1)) {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"name\">{}</text>",
            x(i),
            HEIGHT - BOTTOM + 18.0,
            escape(&times[i])
        );
    }
    svg.push_str("</g><g class=\"zooms\">");
    for curve in curves {
        let mut path = String::new();
        for (i, value) in curve.values.iter().enumerate() {
            let command = if i == 0 { 'M' } else { 'L' };
            let at = y(*value);
            let _ = write!(path, "{command}{:.1} {at:.1}L{:.1} {at:.1}", x(i), x(i + 1));
        }
        let _ = write!(svg, "<path d=\"{path}\" class=\"curve {}\"/>", curve.class);
    }
    svg.push_str("</g>");
    svg.push_str(&legend(curves, y));
    svg.push_str("</svg>");
    svg
}

/// A row for each time.
fn data(times: &[String], curves: &[Curve<'_>]) -> ChartData {
    let values = |i: usize| curves.iter().map(|c| c.values.get(i).copied().unwrap_or(f64::NAN)).collect();
    ChartData {
        head: std::iter::once("time").chain(curves.iter().map(|c| c.name)).map(String::from).collect(),
        rows: times.iter().enumerate().map(|(i, time)| (time.clone(), values(i))).collect(),
        place: [LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM],
        along: 'x',
        scale: None,
    }
}

/// Names beside the last values, pushed apart where they would overlap.
fn legend(curves: &[Curve<'_>], y: impl Fn(f64) -> f64) -> String {
    let mut labels: Vec<(f64, &Curve<'_>)> =
        curves.iter().map(|c| (y(c.values.last().copied().unwrap_or(0.0)), c)).collect();
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    for i in 1..labels.len() {
        labels[i].0 = labels[i].0.max(labels[i - 1].0 + 15.0);
    }
    // The lowest label must stay above the time axis.
    let overflow = labels.last().map_or(0.0, |l| (l.0 - (HEIGHT - BOTTOM)).max(0.0));
    let mut svg = String::new();
    for (at, curve) in labels {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"label {}\">{}</text>",
            WIDTH - RIGHT + 8.0,
            at - overflow + 4.0,
            curve.class,
            escape(curve.name)
        );
    }
    svg
}
