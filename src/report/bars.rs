//! Values beside each other as horizontal bars.

use std::fmt::Write as _;

use super::svg::{ChartData, chart_head, escape, ticks};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 220.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 36.0;
const EACH: f64 = 24.0;

/// A bar for each row, from zero, with its value beside it. `mark` is a value that all are seen against, and its name:
/// a bound, or a baseline. A value that is not finite has no bar but says so.
pub fn bars(title: &str, rows: &[(String, f64)], mark: Option<(f64, &str)>) -> String {
    let values = rows.iter().map(|r| r.1).chain(mark.map(|m| m.0)).filter(|v| v.is_finite());
    let marks = ticks(values.fold(0.0, f64::max));
    let full = marks.last().copied().unwrap_or(1.0);
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * (value / full).clamp(0.0, 1.0);
    let floor = TOP + EACH * rows.len() as f64;
    let data = ChartData {
        head: vec![String::new(), title.to_string()],
        rows: rows.iter().map(|(name, value)| (name.clone(), vec![*value])).collect(),
        place: [LEFT, TOP, WIDTH - RIGHT, floor],
        along: 'y',
        scale: Some([0.0, full]),
    };
    let mut svg = chart_head(title, WIDTH, floor + 42.0, data);
    let (mut drawn, mut values) = (String::new(), String::new());
    for (i, (name, value)) in rows.iter().enumerate() {
        let y = TOP + EACH * i as f64;
        let (end, said) = match value.is_finite() {
            true => (x(*value), figure(*value)),
            false => (LEFT, "never".to_string()),
        };
        let name = escape(name);
        let _ =
            write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" class=\"end\">{name}</text>", LEFT - 8.0, y + 16.0);
        let _ = write!(
            drawn,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" class=\"bar\"><title>{name}: {said}</title></rect>",
            y + 3.0,
            end - LEFT,
            EACH - 6.0,
        );
        let _ = write!(values, "<text x=\"{:.1}\" y=\"{:.1}\">{said}</text>", end + 6.0, y + 16.0);
    }
    if let Some((value, name)) = mark {
        let at = x(value);
        let _ = write!(
            drawn,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{floor:.1}\" class=\"mark\"/>",
            TOP - 4.0,
        );
        let _ = write!(
            values,
            "<text x=\"{at:.1}\" y=\"{:.1}\" class=\"name\">{} {}</text>",
            floor + 16.0,
            escape(name),
            figure(value),
        );
    }
    let _ = write!(svg, "<g class=\"zooms\">{drawn}</g><g class=\"values\">{values}</g>");
    let _ = write!(svg, "<g class=\"axis\" data-y=\"{:.1}\">", floor + 34.0);
    for mark in marks {
        let _ =
            write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" class=\"name\">{mark}</text>", x(mark), floor + 34.0);
    }
    svg + "</g></svg>"
}

/// Three digits that count.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values_and_the_mark_stands_among_them() {
        let svg = bars(
            "t",
            &[("a".into(), 50.0), ("b".into(), 100.0), ("c".into(), f64::INFINITY)],
            Some((75.0, "m")),
        );
        let widths: Vec<f64> = svg
            .split("<rect ")
            .skip(1)
            .map(|rect| rect.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(widths[1], 2.0 * widths[0]);
        assert_eq!(widths[2], 0.0);
        let mark: f64 = svg.split("<line x1=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        assert!((mark - LEFT - 1.5 * widths[0]).abs() < 0.2, "{svg}");
        assert!(svg.contains("never"), "{svg}");
    }
}
