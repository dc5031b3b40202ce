//! The pictures and the page of `sarouter replay`.

use super::curves::{Curve, chart};
use super::heat_map::{heat_map, heat_sheet};
use super::histogram::histogram;
use super::page::STYLE;
use super::sheet::{Cells, Sheet};
use crate::model::Fabric;

/// Curves of one metric.
#[derive(Debug, Clone)]
pub struct Plot {
    /// What stands above it.
    pub title: String,
    /// Labels, evenly spaced.
    pub times: Vec<String>,
    /// Values by engine, in the order of the page's engines.
    pub values: Vec<Vec<f64>>,
}

/// Loads of one moment.
#[derive(Debug, Clone)]
pub struct Picture {
    /// What is seen.
    pub title: String,
    /// Titles and loads by channel, in the order of the page's engines.
    pub maps: Vec<(String, Vec<u64>)>,
}

/// All that the page shows.
#[derive(Debug, Clone)]
pub struct ReplayPage {
    /// Whether it is worth it, as text.
    pub verdict: String,
    /// What was replayed, as text.
    pub lead: String,
    /// How much of the time is that of jobs that can gain.
    pub for_whom: String,
    /// Engines, in the order of their colours.
    pub engines: Vec<String>,
    /// In the order in which they are shown.
    pub tables: Vec<Cells>,
    /// Time series.
    pub plots: Vec<Plot>,
    /// All of it for programs.
    pub json: String,
    /// Heat maps, each with its histogram.
    pub pictures: Vec<Picture>,
}

/// Colours of engines that people with any colour vision tell apart (Okabe and Ito 2008), for light
/// and dark paper, and dashes for those who see none.
const COLOURS: [(&str, &str, &str); 8] = [
    ("#b8520a", "#f2a463", "none"),
    ("#00735c", "#4cc9a6", "7 3"),
    ("#a0437f", "#e79ac6", "2 2"),
    ("#0b63a5", "#6cb6f2", "none"),
    ("#1c2430", "#e6ebf1", "none"),
    ("#8a6d00", "#e6cf4a", "9 3 2 3"),
    ("#4a5a8a", "#9fb0e8", "4 4"),
    ("#7a3b2e", "#d99c8f", "1 3"),
];

fn class(engine: usize) -> String {
    format!("e{}", engine % COLOURS.len())
}

fn style() -> String {
    let rules = |dark: bool| -> String {
        let rule = |(i, (light, night, dash)): (usize, &(&str, &str, &str))| {
            let colour = if dark { night } else { light };
            format!(
                ".curve.e{i}{{stroke:{colour};stroke-dasharray:{dash};stroke-width:1.4}}svg .label.e{i}{{fill:{colour}}}.bar.e{i}{{fill:{colour}}}"
            )
        };
        COLOURS.iter().enumerate().map(rule).collect()
    };
    format!(
        ".floor{{stroke:var(--soft)}}{}@media (prefers-color-scheme:dark){{{}}}",
        rules(false),
        rules(true)
    )
}

impl ReplayPage {
    /// The page, made by a command.
    pub fn html(&self, fabric: &Fabric, command: String) -> String {
        let mut charts: Vec<String> = self.plots.iter().map(|plot| self.plot(plot)).collect();
        if let Some(first) = charts.first_mut() {
            *first = format!("<style>{}</style>{first}", style());
        }
        let folded = |picture: &Picture| {
            let full = picture.maps.iter().flat_map(|(_, loads)| loads).max().copied().unwrap_or(1);
            let maps = picture.maps.iter().map(|(title, loads)| heat_map(fabric, loads, full, title));
            (picture.title.clone(), self.histogram(picture) + &maps.collect::<String>())
        };
        let sheet = Sheet {
            title: "Job history replayed".into(),
            verdict: self.verdict.clone(),
            lead: self.lead.clone(),
            charts,
            for_whom: self.for_whom.clone(),
            tables: self.tables.clone(),
            folded: self.pictures.iter().map(folded).collect(),
            command,
            json: self.json.clone(),
        };
        sheet.html()
    }

    /// Pictures as files of their own: names and contents.
    pub fn files(&self, fabric: &Fabric) -> Vec<(String, String)> {
        let mut files = Vec::new();
        let curves: Vec<String> = self.plots.iter().map(|p| self.plot(p)).collect();
        if !curves.is_empty() {
            files.push(("series.svg".to_string(), sheet(&curves, 250.0)));
        }
        for (i, picture) in self.pictures.iter().enumerate() {
            let name = if i == 0 { "all-jobs" } else { "largest-job" };
            files.push((format!("heat-{name}.svg"), heat_sheet(fabric, &picture.maps)));
            let height = 80.0 + 120.0 * picture.maps.len() as f64;
            files.push((format!("histogram-{name}.svg"), sheet(&[self.histogram(picture)], height)));
        }
        files
    }

    fn plot(&self, plot: &Plot) -> String {
        let classes: Vec<String> = (0..self.engines.len()).map(class).collect();
        let curves = self.engines.iter().zip(&classes).zip(&plot.values);
        let curves: Vec<Curve<'_>> =
            curves.map(|((name, class), values)| Curve { name, class, values }).collect();
        chart(&plot.title, &plot.times, &curves)
    }

    fn histogram(&self, picture: &Picture) -> String {
        let rows = self.engines.iter().zip(&picture.maps).enumerate();
        let rows: Vec<(&str, String, &[u64])> =
            rows.map(|(i, (engine, (_, loads)))| (engine.as_str(), class(i), loads.as_slice())).collect();
        histogram("Channels by the number of routes inside jobs (logarithmic)", &rows)
    }
}

/// Charts below each other as a file of its own; each is `height` tall.
fn sheet(charts: &[String], height: f64) -> String {
    let total = height * charts.len() as f64;
    let placed = charts.iter().enumerate().map(|(i, chart)| {
        let y = height * i as f64;
        chart.replacen("<svg ", &format!("<svg y=\"{y}\" width=\"960\" height=\"{height}\" "), 1)
    });
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 {total}\"><style>{STYLE}{}</style>\
         <rect width=\"960\" height=\"{total}\" style=\"fill:var(--paper)\"/>\n{}</svg>\n",
        style(),
        placed.collect::<Vec<_>>().join("\n")
    )
}
