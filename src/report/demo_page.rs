//! The page that `sarouter demo` leaves behind.

use serde::Serialize;

use super::curves::{Curve, chart};
use super::heat_map::heat_map;
use super::sheet::{Cells, Sheet};
use crate::measure::Figures;
use crate::model::Fabric;

/// One look at the cluster, at a poll.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Time of day.
    pub time: String,
    /// Multi-switch jobs.
    pub multi_switch: usize,
    /// The engine that knows no jobs and is best for these.
    pub oblivious_engine: &'static str,
    /// Figures of its routes.
    pub oblivious: Figures,
    /// Figures of the routes in force.
    pub ours: Figures,
    /// Number and cost of the epoch published at this poll, if one was.
    pub epoch: Option<PublishedEpoch>,
}

/// What a poll published.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PublishedEpoch {
    /// Counts up from 1.
    pub number: u64,
    /// Multi-switch node sets that were not served before.
    pub added: usize,
    /// Those that are served no more.
    pub removed: usize,
    /// Figures of the routes it replaced, for the same jobs.
    pub before: Option<Figures>,
    /// From the job map to the published epoch, milliseconds.
    pub milliseconds: f64,
}

/// Effective loads of one moment under two routings, both indexed by channel.
pub struct Moment<'a> {
    /// What was measured at that time.
    pub sample: &'a Sample,
    /// Under routes that know no jobs.
    pub oblivious: &'a [u64],
    /// Under the routes in force.
    pub ours: &'a [u64],
}

/// The page: key figures, heat maps of one moment before and after, curves, all epochs.
///
/// `verdict` is the demo's last word, `command` what makes it again, `json` all of it for programs.
pub fn demo_page(
    fabric: &Fabric,
    engine: &str,
    samples: &[Sample],
    moment: &Moment<'_>,
    [verdict, command, json]: [String; 3],
) -> String {
    let epochs = samples.iter().filter(|s| s.epoch.is_some()).count();
    let lead = format!(
        "{} hosts on {} switches, {} polls of a simulated batch system, {epochs} epochs. \u{201c}Oblivious\u{201d} is the \
         engine that knows no jobs and is best for those of the moment; sarouter used its engine {engine}. Counted are routes between \
         nodes of the same job.",
        fabric.terminals().len(),
        fabric.switches().len(),
        samples.len()
    );
    let at = format!("Load at {}, when routes for jobs gained most", moment.sample.time);
    let several = mean(samples, |s| s.multi_switch as f64);
    let sheet = Sheet {
        title: "sarouter demo: routes for the jobs that run now".into(),
        verdict,
        lead,
        charts: vec![tiles(samples), curves(engine, samples)],
        for_whom: format!(
            "{several:.1} jobs on average are on several switches. Only their exchanges can gain, by as much as they \
             communicate."
        ),
        tables: vec![epoch_table(samples)],
        folded: vec![(at, heat_maps(fabric, engine, moment))],
        command,
        json,
    };
    sheet.html()
}

fn mean(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> f64 {
    samples.iter().map(value).sum::<f64>() / samples.len().max(1) as f64
}

fn tiles(samples: &[Sample]) -> String {
    let load =
        [mean(samples, |s| s.oblivious.effective.max as f64), mean(samples, |s| s.ours.effective.max as f64)];
    let dark =
        [mean(samples, |s| s.oblivious.effective.dark_fiber), mean(samples, |s| s.ours.effective.dark_fiber)];
    let time =
        [mean(samples, |s| s.oblivious.time.slowdown_mean), mean(samples, |s| s.ours.time.slowdown_mean)];
    let costs: Vec<f64> = samples.iter().filter_map(|s| s.epoch.map(|e| e.milliseconds)).collect();
    let slowest = costs.iter().fold(0.0f64, |a, b| a.max(*b));
    let tile =
        |value: String, label: &str| format!("<div class=\"tile\"><b>{value}</b><span>{label}</span></div>");
    format!(
        "<div class=\"tiles\">{}{}{}{}</div>",
        tile(
            format!("{:.2} \u{2192} {:.2}", time[0], time[1]),
            "mean over time of the slow-down of jobs (predicted time beside what their hosts' cables need)"
        ),
        tile(
            format!("{:.0} \u{2192} {:.0}", load[0], load[1]),
            "mean over time of the most loaded channel (max effective EFI)"
        ),
        tile(
            format!("{:.0} % \u{2192} {:.0} %", 100.0 * dark[0], 100.0 * dark[1]),
            "mean share of channels no job uses (dark fiber)"
        ),
        tile(format!("{slowest:.0} ms"), "slowest epoch, from job map to published tables")
    )
}

fn heat_maps(fabric: &Fabric, engine: &str, moment: &Moment<'_>) -> String {
    let full = moment.oblivious.iter().chain(moment.ours).max().copied().unwrap_or(1);
    let title = |name: &str, f: &Figures| {
        format!(
            "{name}: at most {} routes on a channel, {:.0} % dark",
            f.effective.max,
            100.0 * f.effective.dark_fiber
        )
    };
    let theirs = format!("Oblivious {}", moment.sample.oblivious_engine);
    let before = heat_map(fabric, moment.oblivious, full, &title(&theirs, &moment.sample.oblivious));
    let after =
        heat_map(fabric, moment.ours, full, &title(&format!("sarouter, {engine}"), &moment.sample.ours));
    before + &after
}

fn curves(engine: &str, samples: &[Sample]) -> String {
    let times: Vec<String> = samples.iter().map(|s| s.time.clone()).collect();
    let series = |value: &dyn Fn(&Sample) -> f64| samples.iter().map(value).collect::<Vec<f64>>();
    let (theirs, ours) =
        (series(&|s| s.oblivious.time.slowdown_mean), series(&|s| s.ours.time.slowdown_mean));
    let slow = [
        Curve { name: "best oblivious", class: "theirs", values: &theirs },
        Curve { name: engine, class: "ours", values: &ours },
    ];
    let slow = chart("Slow-down of jobs, geometric mean (1: nobody waits for anybody)", &times, &slow);
    let (theirs, ours) =
        (series(&|s| s.oblivious.effective.max as f64), series(&|s| s.ours.effective.max as f64));
    let bound = series(&|s| s.ours.effective.lower_bound as f64);
    let load = [
        Curve { name: "best oblivious", class: "theirs", values: &theirs },
        Curve { name: engine, class: "ours", values: &ours },
        Curve { name: "lower bound", class: "bound", values: &bound },
    ];
    let (theirs, ours) = (
        series(&|s| 100.0 * s.oblivious.effective.dark_fiber),
        series(&|s| 100.0 * s.ours.effective.dark_fiber),
    );
    let dark = [
        Curve { name: "best oblivious", class: "theirs", values: &theirs },
        Curve { name: engine, class: "ours", values: &ours },
    ];
    slow + &chart("Max effective EFI (routes inside jobs on the most loaded channel)", &times, &load)
        + &chart("Dark fiber, % of channels", &times, &dark)
}

fn epoch_table(samples: &[Sample]) -> Cells {
    let rows = samples.iter().filter_map(|s| {
        let epoch = s.epoch?;
        let slow = |f: &Figures| format!("{:.2}", f.time.slowdown_mean);
        Some(vec![
            epoch.number.to_string(),
            s.time.clone(),
            s.multi_switch.to_string(),
            slow(&s.oblivious),
            epoch.before.as_ref().map_or("\u{2013}".to_string(), slow),
            slow(&s.ours),
            s.oblivious.effective.max.to_string(),
            s.ours.effective.max.to_string(),
            s.ours.effective.lower_bound.to_string(),
            format!("{:.1} %", 100.0 * s.ours.effective.dark_fiber),
            format!("{:.1}", epoch.milliseconds),
        ])
    });
    let head = [
        "Epoch",
        "Time",
        "Multi-switch jobs",
        "Oblivious slow-down",
        "Slow-down before",
        "Slow-down after",
        "Oblivious max EFI",
        "Max EFI after",
        "Lower bound",
        "Dark fiber",
        "ms",
    ];
    ("Epochs".into(), std::iter::once(head.map(String::from).to_vec()).chain(rows).collect())
}
