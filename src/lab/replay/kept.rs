//! What is left of the time gained where fewer changes of routes are made: the curve of an engine's prices.

use std::fmt::Write as _;

use super::summary::{EngineSummary, Summary};
use crate::report::svg::{escape, grid_line, ticks};

/// An engine at one price.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Its name, with the price.
    pub engine: String,
    /// Changes of routes a day.
    pub epochs_per_day: f64,
    /// Share of what the most changes gain over none, 0..=1 as a rule.
    pub kept: f64,
}

/// The prices of each engine that ran `:static` too, and what they keep, from few changes to many. The most changes of
/// an engine stand for publishing every difference.
pub fn kept(summary: &Summary) -> Vec<Vec<Kept>> {
    let statics = summary.engines.iter().filter_map(|e| Some((e.engine.strip_suffix(":static")?, e)));
    let curves = statics.map(|(plain, without)| {
        let is_of = |e: &&EngineSummary| {
            e.engine != without.engine && e.engine.split(':').next().is_some_and(|name| name == plain)
        };
        let mut prices: Vec<&EngineSummary> = summary.engines.iter().filter(is_of).collect();
        prices.sort_by(|a, b| a.epochs_per_day.total_cmp(&b.epochs_per_day));
        let most = prices.last().map_or(0.0, |all| without.lost_per_day - all.lost_per_day);
        let of = |e: &EngineSummary| Kept {
            engine: e.engine.clone(),
            epochs_per_day: e.epochs_per_day,
            kept: if most > 0.0 { (without.lost_per_day - e.lost_per_day) / most } else { 0.0 },
        };
        prices.into_iter().map(of).collect::<Vec<Kept>>()
    });
    curves.filter(|curve| curve.len() > 1).collect()
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 44.0;

/// The curve as a picture of its own: time kept over changes a day. Empty where no engine ran at two prices.
pub fn picture(summary: &Summary) -> Option<String> {
    let curves = kept(summary);
    let most = curves.iter().flatten().map(|k| k.epochs_per_day).fold(0.0, f64::max);
    if curves.is_empty() || most <= 0.0 {
        return None;
    }
    let across = ticks(most);
    let end = across.last().copied().unwrap_or(most);
    let x = |epochs: f64| LEFT + (WIDTH - LEFT - RIGHT) * epochs / end;
    let y = |kept: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - kept.clamp(0.0, 1.1) / 1.1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><style>\
         text{{font:13px sans-serif;fill:#222}}.end{{text-anchor:end}}.title{{font-weight:bold}}.mid{{text-anchor:middle}}\
         .grid{{stroke:#ccc}}.curve{{fill:none;stroke:#1f5fa8;stroke-width:2}}circle{{fill:#1f5fa8}}</style>\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\
         <text x=\"12\" y=\"22\" class=\"title\">Time gained that is kept, %, over changes of routes a day ({})</text>",
        escape(&summary.placement)
    );
    for tenth in (0..=10).step_by(2) {
        svg += &grid_line(LEFT, WIDTH - RIGHT, y(f64::from(tenth) / 10.0), tenth * 10);
    }
    for tick in &across {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"mid\">{tick}</text>",
            x(*tick),
            HEIGHT - BOTTOM + 20.0
        );
    }
    for curve in &curves {
        let mut path = format!("M{:.1} {:.1}", x(0.0), y(0.0));
        curve.iter().for_each(|k| {
            let _ = write!(path, "L{:.1} {:.1}", x(k.epochs_per_day), y(k.kept));
        });
        let _ = write!(svg, "<path d=\"{path}\" class=\"curve\"/>");
        for k in curve {
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}: {:.1} a day, {:.1} %</title></circle>",
                x(k.epochs_per_day),
                y(k.kept),
                escape(&k.engine),
                k.epochs_per_day,
                100.0 * k.kept
            );
        }
    }
    Some(svg + "</svg>\n")
}

/// The same as lines of text.
pub fn text(summary: &Summary) -> String {
    let line = |k: &Kept| {
        format!(
            "{}: {:.1} epochs a day keep {:.1} % of the time gained\n",
            k.engine,
            k.epochs_per_day,
            100.0 * k.kept
        )
    };
    kept(summary).iter().flatten().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(name: &str, epochs_per_day: f64, lost_per_day: f64) -> EngineSummary {
        EngineSummary {
            engine: name.to_string(),
            means: Vec::new(),
            lower_bound: 0.0,
            epochs: 0,
            epochs_per_day,
            routes_changed: 0.0,
            blocks_changed: 0.0,
            refused: 0,
            lost_per_day,
            simulated_us: None,
        }
    }

    #[test]
    fn prices_are_compared_with_the_most_changes_of_their_engine() {
        let summary = Summary {
            placement: "tree".to_string(),
            snapshots: 1,
            simulated: 0,
            idle: 0,
            jobs_mean: 0.0,
            multi_switch_mean: 0.0,
            engines: vec![
                engine("dfsssp", 0.0, 90.0),
                engine("balanced:static", 0.0, 100.0),
                engine("balanced", 40.0, 60.0),
                engine("balanced:epochs=10", 10.0, 62.0),
            ],
            comparisons: Vec::new(),
            verdict: String::new(),
        };
        let found = kept(&summary);
        let of: Vec<(&str, f64)> = found[0].iter().map(|k| (k.engine.as_str(), k.kept)).collect();
        assert_eq!(of, [("balanced:epochs=10", 0.95), ("balanced", 1.0)]);
        assert!(picture(&summary).unwrap().contains("balanced:epochs=10: 10.0 a day, 95.0 %"));
        assert!(text(&summary).starts_with("balanced:epochs=10: 10.0 epochs a day keep 95.0 %"));
        let alone = Summary { engines: vec![engine("balanced", 40.0, 60.0)], ..summary };
        assert_eq!(picture(&alone), None);
    }
}
