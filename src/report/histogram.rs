//! How many channels carry how much, as in thesis Figure 5.11.

use std::fmt::Write as _;

use super::svg::{ChartData, chart_head, escape, grid_line, ticks};

const WIDTH: f64 = 960.0;
const EACH: f64 = 120.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BINS: usize = 40;

/// One row of bars per engine, all on the same scales: load from left to right, number of channels
/// upwards, logarithmic so that a single full channel is seen. Channels without load are not drawn
/// but named. `rows` are name, CSS class of the curve's colour, and loads by channel.
pub fn histogram(title: &str, rows: &[(&str, String, &[u64])]) -> String {
    let most = rows.iter().flat_map(|(_, _, loads)| loads.iter()).max().copied().unwrap_or(0);
    let marks = ticks(most as f64);
    let full = marks.last().copied().unwrap_or(1.0);
    let height = TOP + EACH * rows.len() as f64 + 40.0;
    let counts: Vec<Vec<usize>> = rows.iter().map(|(_, _, loads)| bins(loads, full)).collect();
    let names: Vec<&str> = rows.iter().map(|(name, ..)| *name).collect();
    let mut svg = chart_head(title, WIDTH, height, data(&names, &counts, full, height));
    let mut bars = String::new();
    let tallest = counts.iter().flatten().max().copied().unwrap_or(1).max(10);
    let decades = (tallest as f64).log10().ceil();
    let step = (WIDTH - LEFT - RIGHT) / BINS as f64;
    let tall =
        |n: usize| if n == 0 { 0.0 } else { (EACH - 28.0) * ((n as f64).log10() + 0.3) / (decades + 0.3) };
    for (i, ((name, class, loads), counts)) in rows.iter().zip(&counts).enumerate() {
        let floor = TOP + EACH * (i + 1) as f64 - 8.0;
        let dark = loads.iter().filter(|n| **n == 0).count();
        let max = loads.iter().max().copied().unwrap_or(0);
        let _ = write!(
            svg,
            "<text x=\"12\" y=\"{:.1}\" class=\"label {class}\">{}</text>\
             <text x=\"12\" y=\"{:.1}\" class=\"small\">max {max}</text>\
             <text x=\"12\" y=\"{:.1}\" class=\"small\">{dark} unused</text>",
            floor - 50.0,
            escape(name),
            floor - 32.0,
            floor - 16.0
        );
        for decade in 0..=decades as usize {
            let n = 10usize.pow(decade as u32);
            svg.push_str(&grid_line(LEFT, WIDTH - RIGHT, floor - tall(n), n));
        }
        for (b, n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let x = LEFT + step * b as f64 + 1.0;
            let between = between(b, full);
            let _ = write!(
                bars,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" class=\"bar {class}\"><title>{n} channels with {between} routes</title></rect>",
                floor - tall(*n),
                step - 2.0,
                tall(*n)
            );
        }
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{floor:.1}\" y2=\"{floor:.1}\" class=\"floor\"/>",
            WIDTH - RIGHT
        );
    }
    let _ = write!(svg, "<g class=\"zooms\">{bars}</g><g class=\"axis\" data-y=\"{:.1}\">", height - 20.0);
    for mark in marks {
        let x = LEFT + (WIDTH - LEFT - RIGHT) * mark / full;
        let y = height - 20.0;
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"name\">{mark}</text>");
    }
    svg.push_str("</g></svg>");
    svg
}

/// Loads of a bin.
fn between(bin: usize, full: f64) -> String {
    format!("{:.0} to {:.0}", full * bin as f64 / BINS as f64, full * (bin + 1) as f64 / BINS as f64)
}

/// A row for each bin: channels of each engine.
fn data(names: &[&str], counts: &[Vec<usize>], full: f64, height: f64) -> ChartData {
    let of_bin = |b: usize| (between(b, full), counts.iter().map(|of| of[b] as f64).collect());
    ChartData {
        head: std::iter::once(&"routes").chain(names).map(ToString::to_string).collect(),
        rows: (0..BINS).map(of_bin).collect(),
        place: [LEFT, TOP, WIDTH - RIGHT, height - 40.0],
        along: 'x',
        scale: Some([0.0, full]),
    }
}

/// Channels per bin of loads above 0.
fn bins(loads: &[u64], full: f64) -> Vec<usize> {
    let mut counts = vec![0; BINS];
    for load in loads.iter().filter(|n| **n > 0) {
        let bin = (*load as f64 / full * BINS as f64) as usize;
        counts[bin.min(BINS - 1)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_every_channel_with_load() {
        let counts = bins(&[0, 1, 1, 50, 100, 100], 100.0);
        assert_eq!((counts[0], counts[20], counts[BINS - 1]), (2, 1, 2));
        assert_eq!(counts.iter().sum::<usize>(), 5);
    }
}
