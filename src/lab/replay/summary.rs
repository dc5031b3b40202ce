//! The series in the form of thesis Tables 5.1 and 5.2, and what the changes cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kept;
use super::series::{Cost, EngineSnapshot};
use crate::report::align;

/// What engines are compared by: slow-down, then the four metrics of Figure 5.8.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name in JSON.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    /// Whether less is better.
    pub less_is_better: bool,
    /// Whether it is a share, and differences are points.
    pub is_share: bool,
    /// Digits after the point, for people.
    pub digits: usize,
    value: fn(&EngineSnapshot) -> f64,
}

/// In the order of the tables' columns and rows.
pub const METRICS: [Metric; 6] = [
    Metric {
        key: "slowdown_mean",
        title: "slow-down of jobs",
        less_is_better: true,
        is_share: false,
        digits: 3,
        value: |r| r.slowdown_mean,
    },
    Metric {
        key: "slowdown_p95",
        title: "of 95 % of jobs",
        less_is_better: true,
        is_share: false,
        digits: 3,
        value: |r| r.slowdown_p95,
    },
    Metric {
        key: "max_effective",
        title: "max effective EFI",
        less_is_better: true,
        is_share: false,
        digits: 1,
        value: |r| r.max_effective as f64,
    },
    Metric {
        key: "max_per_job_mean",
        title: "mean of jobs' max EFI",
        less_is_better: true,
        is_share: false,
        digits: 1,
        value: |r| r.max_per_job_mean,
    },
    Metric {
        key: "dark_fiber",
        title: "dark fiber, %",
        less_is_better: true,
        is_share: true,
        digits: 1,
        value: |r| 100.0 * r.dark_fiber,
    },
    Metric {
        key: "links_per_job_mean",
        title: "links per job",
        less_is_better: false,
        is_share: false,
        digits: 1,
        value: |r| r.links_per_job_mean,
    },
];

impl Metric {
    /// The value of a row; shares in percent.
    pub fn of(&self, row: &EngineSnapshot) -> f64 {
        (self.value)(row)
    }

    /// A value as people read it.
    fn text(&self, value: f64) -> String {
        format!("{value:.*}", self.digits)
    }
}

/// How much better one engine is than another in one metric. Positive is better.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Improvement {
    /// Key of the metric.
    pub metric: String,
    /// Largest improvement at a snapshot.
    pub max: f64,
    /// Largest improvement at a snapshot, in percent of the other engine's value there.
    pub max_percent: f64,
    /// Mean over snapshots.
    pub mean: f64,
    /// Mean over snapshots, in percent of the other engine's mean.
    pub mean_percent: f64,
}

/// A job-aware engine beside another engine.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Comparison {
    /// The job-aware engine.
    pub engine: String,
    /// The other one.
    pub beside: String,
    /// By metric.
    pub improvements: Vec<Improvement>,
}

/// An engine by itself.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct EngineSummary {
    /// Name as `sarouter engines` lists it.
    pub engine: String,
    /// Means over snapshots, by metric, in the order of [`METRICS`].
    pub means: Vec<f64>,
    /// Mean of what no tables can have less of.
    pub lower_bound: f64,
    /// Times at which other routes came into force.
    pub epochs: usize,
    /// The same per day.
    pub epochs_per_day: f64,
    /// Mean over epochs of the host-to-host routes that changed.
    pub routes_changed: f64,
    /// Mean over epochs of the LFT blocks that changed.
    pub blocks_changed: f64,
    /// Snapshots at which other routes were due and none were to be had.
    pub refused: usize,
    /// Node-hours a day that jobs lose to contention, as predicted.
    #[serde(default)]
    pub lost_per_day: f64,
    /// Geometric mean over the snapshots that were simulated with all engines of the jobs' times, us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_us: Option<f64>,
}

/// All of one placement.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Summary {
    /// Where the jobs' nodes come from.
    pub placement: String,
    /// Moments at which the tables of each engine were measured.
    pub snapshots: usize,
    /// Those of them that were simulated with all engines.
    #[serde(default)]
    pub simulated: usize,
    /// Those of them without multi-switch jobs: they count in no mean.
    pub idle: usize,
    /// Mean number of jobs, over all snapshots.
    pub jobs_mean: f64,
    /// Mean number of multi-switch jobs, over all snapshots.
    pub multi_switch_mean: f64,
    /// By engine.
    pub engines: Vec<EngineSummary>,
    /// Each job-aware engine beside each engine before it in `engines` and each static one.
    pub comparisons: Vec<Comparison>,
    /// What routes for jobs gain here, in a sentence.
    #[serde(default)]
    pub verdict: String,
}

/// Gains in slow-down below this are none, percent: predictions are no more exact than that.
const LEAST_GAIN: f64 = 1.0;

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(s, n), v| (s + v, n + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

/// Sums up the rows of one placement. `engines` are in the order wanted, `job_aware` those of them
/// that follow the jobs, `every` seconds lie between snapshots.
pub fn summarise(
    placement: &str,
    rows: &[EngineSnapshot],
    engines: &[String],
    job_aware: &[String],
    every: i64,
) -> Summary {
    let of = |engine: &str| -> Vec<&EngineSnapshot> {
        rows.iter().filter(|r| r.placement == placement && r.engine == engine).collect()
    };
    let all: Vec<Vec<&EngineSnapshot>> = engines.iter().map(|e| of(e)).collect();
    let first = all.first().map_or(&[][..], Vec::as_slice);
    let days = first.len() as f64 * every as f64 / 86_400.0;
    let mut comparisons = Vec::new();
    for (i, engine) in engines.iter().enumerate().filter(|(_, e)| job_aware.contains(e)) {
        let others =
            engines.iter().enumerate().filter(|(j, e)| *j != i && (*j < i || !job_aware.contains(e)));
        for (j, beside) in others {
            let improvements = METRICS.iter().map(|m| improvement(m, &all[i], &all[j])).collect();
            comparisons.push(Comparison { engine: engine.clone(), beside: beside.clone(), improvements });
        }
    }
    let mut engines: Vec<_> =
        engines.iter().zip(&all).map(|(e, rows)| engine_summary(e, rows, days)).collect();
    let by_all = |at: &usize| all.iter().all(|rows| rows.get(*at).is_some_and(|r| r.simulated_us.is_some()));
    let by_all: Vec<usize> = (0..first.len()).filter(by_all).collect();
    for (engine, rows) in engines.iter_mut().zip(&all).filter(|_| !by_all.is_empty()) {
        let times = by_all.iter().filter_map(|at| rows[*at].simulated_us);
        engine.simulated_us = Some(mean(times.map(f64::ln)).exp());
    }
    let idle = first.iter().filter(|r| r.multi_switch == 0).count();
    Summary {
        placement: placement.to_string(),
        snapshots: first.len(),
        simulated: by_all.len(),
        idle,
        jobs_mean: mean(first.iter().map(|r| r.jobs as f64)),
        multi_switch_mean: mean(first.iter().map(|r| r.multi_switch as f64)),
        verdict: if idle == first.len() {
            "No job is on several switches here: routes for jobs gain nothing.".to_string()
        } else {
            verdict(&engines, job_aware) + &simulated_verdict(&engines, job_aware, by_all.len())
        },
        engines,
        comparisons,
    }
}

/// The best engine that follows the jobs beside the best that does not; empty without either.
fn verdict(engines: &[EngineSummary], job_aware: &[String]) -> String {
    let slowdown = |e: &EngineSummary| e.means[0];
    let best = |follows: bool| {
        let kind = engines.iter().filter(|e| job_aware.contains(&e.engine) == follows);
        kind.min_by(|a, b| slowdown(a).total_cmp(&slowdown(b)))
    };
    let (Some(ours), Some(theirs)) = (best(true), best(false)) else { return String::new() };
    let gain = 100.0 * (1.0 - slowdown(ours) / slowdown(theirs));
    if !gain.is_finite() || gain < LEAST_GAIN {
        return format!(
            "Not for this place: {}, which knows no jobs, has a slow-down of {}, and {}, which follows them, {}.",
            theirs.engine,
            METRICS[0].text(slowdown(theirs)),
            ours.engine,
            METRICS[0].text(slowdown(ours)),
        );
    }
    format!(
        "With {} jobs' exchanges take {gain:.1} % less time than with {}, the best asked of those that know no jobs, and \
         jobs lose {:.1} node-hours a day less, as predicted.",
        ours.engine,
        theirs.engine,
        theirs.lost_per_day - ours.lost_per_day,
    )
}

/// The same of simulated times, where there are some.
fn simulated_verdict(engines: &[EngineSummary], job_aware: &[String], snapshots: usize) -> String {
    let best = |follows: bool| {
        let kind = engines.iter().filter(|e| job_aware.contains(&e.engine) == follows);
        kind.filter_map(|e| Some((e, e.simulated_us?))).min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (Some((ours, us)), Some((theirs, them))) = (best(true), best(false)) else { return String::new() };
    let (gain, less) = (100.0 * (1.0 - us / them), if us <= them { "less" } else { "more" });
    format!(
        " In the packet simulator ({snapshots} snapshots) they take {:.1} % {less} with {} than with {}.",
        gain.abs(),
        ours.engine,
        theirs.engine,
    )
}

fn engine_summary(engine: &str, rows: &[&EngineSnapshot], days: f64) -> EngineSummary {
    // Where no job is on several switches ever, all is as good as it can be.
    let is_idle = rows.iter().all(|r| r.multi_switch == 0);
    let busy = || rows.iter().filter(|r| r.multi_switch > 0 || is_idle);
    let epochs = rows.iter().filter(|r| r.epoch > 0).count();
    EngineSummary {
        engine: engine.to_string(),
        means: METRICS.iter().map(|m| mean(busy().map(|r| m.of(r)))).collect(),
        lower_bound: mean(busy().map(|r| r.lower_bound as f64)),
        epochs,
        epochs_per_day: if days > 0.0 { epochs as f64 / days } else { 0.0 },
        routes_changed: mean(rows.iter().filter_map(|r| r.routes_changed).map(|n| n as f64)),
        blocks_changed: mean(rows.iter().filter_map(|r| r.blocks_changed).map(|n| n as f64)),
        refused: rows.iter().filter(|r| r.refused > 0).count(),
        lost_per_day: if days > 0.0 {
            rows.iter().fold(0.0, |sum, r| sum + r.lost_node_hours) / days
        } else {
            0.0
        },
        simulated_us: None,
    }
}

/// Snapshots without multi-switch jobs do not count.
fn improvement(metric: &Metric, ours: &[&EngineSnapshot], theirs: &[&EngineSnapshot]) -> Improvement {
    let pairs = || {
        let both = ours.iter().zip(theirs).filter(|(r, _)| r.multi_switch > 0);
        both.map(|(o, t)| (metric.of(o), metric.of(t)))
    };
    let sign = if metric.less_is_better { -1.0 } else { 1.0 };
    let gain = |(o, t): (f64, f64)| sign * (o - t);
    let percent = |gain: f64, of: f64| if of == 0.0 { 0.0 } else { 100.0 * gain / of };
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
    let finite = |v: f64| if v.is_finite() { v } else { 0.0 };
    let mean_gain = mean(pairs().map(gain));
    Improvement {
        metric: metric.key.to_string(),
        max: finite(largest(&mut pairs().map(gain))),
        max_percent: finite(largest(&mut pairs().map(|(o, t)| percent(gain((o, t)), t)))),
        mean: mean_gain,
        mean_percent: percent(mean_gain, mean(pairs().map(|(_, t)| t))),
    }
}

impl Summary {
    /// Whether routes for jobs are worth it, in a sentence; `None` where no engine follows the jobs, or all do.
    pub fn worth_it(&self) -> Option<String> {
        let (first, rest) = (self.verdict.chars().next()?, &self.verdict[1..]);
        Some(match self.verdict.starts_with("With ") {
            true => format!("Worth it: {}{rest}", first.to_lowercase()),
            false => format!("Not worth it: {}{rest}", first.to_lowercase()),
        })
    }

    /// For people: engines by themselves, then one table per job-aware engine in the form of Tables
    /// 5.1 and 5.2.
    pub fn text(&self) -> String {
        let mut text = format!(
            "placement {}: {} snapshots, {} of them without multi-switch jobs; on average {:.1} jobs, {:.1} of them multi-switch\n",
            self.placement, self.snapshots, self.idle, self.jobs_mean, self.multi_switch_mean
        );
        text += &align(&self.engine_table());
        let mut engines: Vec<&str> = self.comparisons.iter().map(|c| c.engine.as_str()).collect();
        engines.dedup();
        for engine in engines {
            text += &format!("\nimprovements by {engine}: largest / in %, mean / in %\n");
            text += &align(&self.comparison_table(engine));
        }
        text + &kept::text(self)
    }

    /// Engines by themselves, as cells.
    pub fn engine_table(&self) -> Vec<Vec<String>> {
        let mut head: Vec<String> = vec!["mean over snapshots".into()];
        head.extend(METRICS.iter().map(|m| m.title.to_string()));
        head.extend(
            [
                "lower bound",
                "epochs/day",
                "routes/epoch",
                "LFT blocks/epoch",
                "refused",
                "node-hours lost/day",
            ]
            .map(String::from),
        );
        head.extend((self.simulated > 0).then(|| "simulated, us".to_string()));
        let rows = self.engines.iter().map(|e| {
            let mut row = vec![e.engine.clone()];
            row.extend(METRICS.iter().zip(&e.means).map(|(m, v)| m.text(*v)));
            row.push(format!("{:.1}", e.lower_bound));
            row.push(format!("{:.1}", e.epochs_per_day));
            row.push(format!("{:.0}", e.routes_changed));
            row.push(format!("{:.0}", e.blocks_changed));
            row.push(e.refused.to_string());
            row.push(format!("{:.1}", e.lost_per_day));
            row.extend(e.simulated_us.map(|us| format!("{us:.1}")));
            row
        });
        std::iter::once(head).chain(rows).collect()
    }

    /// An engine's improvements, as cells: a row per metric, two columns per other engine.
    pub fn comparison_table(&self, engine: &str) -> Vec<Vec<String>> {
        let of: Vec<&Comparison> = self.comparisons.iter().filter(|c| c.engine == engine).collect();
        let mut head = vec!["metric".to_string()];
        head.extend(of.iter().flat_map(|c| [format!("{} max", c.beside), format!("{} avg", c.beside)]));
        let rows = METRICS.iter().enumerate().map(|(i, metric)| {
            let mut row = vec![metric.title.to_string()];
            for improvement in of.iter().map(|c| &c.improvements[i]) {
                if metric.is_share {
                    row.extend([format!("{:.2}", improvement.max), format!("{:.2}", improvement.mean)]);
                } else {
                    row.push(format!("{} / {:.1}", metric.text(improvement.max), improvement.max_percent));
                    row.push(format!("{} / {:.1}", metric.text(improvement.mean), improvement.mean_percent));
                }
            }
            row
        });
        std::iter::once(head).chain(rows).collect()
    }
}

/// Placement against routing: one table per metric, a row per placement, a column per engine.
pub fn grid(summaries: &[Summary]) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let Some(first) = summaries.first().filter(|_| summaries.len() > 1) else { return Vec::new() };
    let mut head = vec!["placement".to_string(), "multi-switch".to_string()];
    head.extend(first.engines.iter().map(|e| e.engine.clone()));
    let table = |i: usize| {
        let rows = summaries.iter().map(|s| {
            let mut row = vec![s.placement.clone(), format!("{:.1}", s.multi_switch_mean)];
            row.extend(s.engines.iter().map(|e| METRICS[i].text(e.means[i])));
            row
        });
        std::iter::once(head.clone()).chain(rows).collect()
    };
    METRICS.iter().enumerate().map(|(i, m)| (m.title, table(i))).collect()
}

/// Median and largest time per reroute, by engine, as cells.
pub fn cost_table(costs: &[Cost], engines: &[String]) -> Vec<Vec<String>> {
    let head =
        ["time per reroute, ms", "route, median", "largest", "check, median", "largest"].map(String::from);
    let rows = engines.iter().filter_map(|engine| {
        let mut route: Vec<f64> = costs.iter().filter(|c| c.engine == *engine).map(|c| c.route_ms).collect();
        let mut verify: Vec<f64> =
            costs.iter().filter(|c| c.engine == *engine).map(|c| c.verify_ms).collect();
        let mut row = vec![engine.clone()];
        for values in [&mut route, &mut verify] {
            values.sort_by(f64::total_cmp);
            let (median, largest) = (values.get(values.len() / 2)?, values.last()?);
            row.extend([format!("{median:.1}"), format!("{largest:.1}")]);
        }
        Some(row)
    });
    std::iter::once(head.to_vec()).chain(rows).collect()
}
