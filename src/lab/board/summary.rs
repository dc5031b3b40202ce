//! The board's answer: each cell beside others of the same mix of jobs, and means over all.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{ADAPTIVE, Cell, Order, geometric, order};
use crate::model::Pattern;
use crate::report::align;

/// A cell beside others with the same fabric, pattern and mix of jobs. Ratios are of times, `None` where one
/// of the two did not end.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Beside {
    /// The cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// Over one switch that joins all hosts.
    pub to_crossbar: Option<f64>,
    /// Over minimal adaptive routing.
    pub to_adaptive: Option<f64>,
    /// Over the best engine that knows no jobs.
    pub to_best_oblivious: Option<f64>,
    /// That engine.
    pub best_oblivious: Option<String>,
}

/// An engine over all fabrics and patterns. A cell is here the geometric mean over mixes of jobs.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Engine {
    /// Its name.
    pub engine: String,
    /// Geometric mean of its times over those of the best engine that knows no jobs.
    pub geometric_mean: f64,
    /// The cells, worst first: ratio, fabric, pattern.
    #[serde(skip)]
    pub ratios: Vec<(f64, String, Pattern)>,
    /// The worst of them.
    pub worst: Option<(f64, String, Pattern)>,
}

/// What `bench time` answers.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Summary {
    /// Every cell.
    pub cells: Vec<Beside>,
    /// Of the first engine that is told the jobs.
    pub geometric_mean: f64,
    /// Its worst cell.
    pub worst: Option<(f64, String, Pattern)>,
    /// All engines that are told the jobs, and adaptive routing.
    pub engines: Vec<Engine>,
    /// How the predicted slow-down orders tables.
    pub slowdown_order: Order,
    /// How the largest effective EFI does.
    pub efi_order: Order,
}

/// Per fabric and pattern, in the order of the cells: the engines with the geometric means of their times and
/// of those on one switch.
struct PatternMeans<'a> {
    fabric: &'a str,
    pattern: Pattern,
    engines: Vec<Mean<'a>>,
}

/// Cells by engine.
type ByEngine<'a> = BTreeMap<&'a str, Vec<&'a Cell>>;

struct Mean<'a> {
    engine: &'a str,
    knows_jobs: bool,
    time: f64,
    alone: f64,
}

impl<'a> PatternMeans<'a> {
    fn all(cells: impl Iterator<Item = &'a Cell>) -> Vec<Self> {
        let mut rows: Vec<(&str, Pattern, ByEngine<'_>)> = Vec::new();
        for c in cells {
            let at = rows.iter().position(|r| r.0 == c.fabric && r.1 == c.pattern).unwrap_or_else(|| {
                rows.push((&c.fabric, c.pattern, BTreeMap::new()));
                rows.len() - 1
            });
            rows[at].2.entry(&c.engine).or_default().push(c);
        }
        let mean = |(engine, cells): (&'a str, Vec<&'a Cell>)| {
            let times: Option<Vec<f64>> = cells.iter().map(|c| c.time_ns).collect();
            let alone = geometric(cells.iter().map(|c| c.alone_ns));
            Some(Mean { engine, knows_jobs: cells[0].knows_jobs, time: geometric(times?), alone })
        };
        let row = |(fabric, pattern, engines): (&'a str, Pattern, ByEngine<'a>)| PatternMeans {
            fabric,
            pattern,
            engines: engines.into_iter().filter_map(mean).collect(),
        };
        rows.into_iter().map(row).collect()
    }

    fn best_oblivious(&self) -> Option<&Mean<'a>> {
        let blind = self.engines.iter().filter(|m| !m.knows_jobs && m.engine != ADAPTIVE);
        blind.min_by(|a, b| a.time.total_cmp(&b.time))
    }

    fn ratio(&self, engine: &str) -> Option<f64> {
        let own = self.engines.iter().find(|m| m.engine == engine)?;
        Some(own.time / self.best_oblivious()?.time)
    }
}

impl Summary {
    /// Of all cells. `engines` are those that are told the jobs.
    pub fn new(cells: Vec<Cell>, engines: &[String]) -> Self {
        let rows = PatternMeans::all(cells.iter());
        let named = engines.iter().map(String::as_str).chain([ADAPTIVE]);
        let engines: Vec<Engine> = named.map(|name| Engine::new(name, &rows)).collect();
        let engines: Vec<Engine> = engines.into_iter().filter(|e| !e.ratios.is_empty()).collect();
        let (slowdown_order, efi_order) =
            (order(&cells, |c| c.slowdown), order(&cells, |c| c.efi_max as f64));
        Self {
            geometric_mean: engines.first().map_or(1.0, |e| e.geometric_mean),
            worst: engines.first().and_then(|e| e.worst.clone()),
            engines,
            slowdown_order,
            efi_order,
            cells: beside(cells),
        }
    }

    /// A table per fabric: each pattern's best engine that knows no jobs, how much longer jobs take with it than on
    /// one switch, and the others' times over its own. Then the means and the worst cells.
    pub fn text(&self) -> String {
        let tables =
            self.tables().into_iter().map(|(fabric, lines)| format!("\n{fabric}\n{}", align(&lines)));
        tables.collect::<String>() + "\n" + &self.in_words()
    }

    /// The same, a title and cells each.
    pub fn tables(&self) -> Vec<(String, Vec<Vec<String>>)> {
        let mut tables: Vec<(String, Vec<Vec<String>>)> = Vec::new();
        for row in &PatternMeans::all(self.cells.iter().map(|c| &c.cell)) {
            if tables.last().is_none_or(|(fabric, _)| fabric != row.fabric) {
                let head = ["pattern", "best without jobs", "x one switch"].map(String::from);
                let head = head.into_iter().chain(self.engines.iter().map(|e| e.engine.clone())).collect();
                tables.push((row.fabric.to_string(), vec![head]));
            }
            let (Some(best), Some((_, lines))) = (row.best_oblivious(), tables.last_mut()) else { continue };
            let first =
                [row.pattern.to_string(), best.engine.to_string(), format!("{:.2}", best.time / best.alone)];
            let ratio = |e: &Engine| row.ratio(&e.engine).map_or("-".to_string(), |r| format!("{r:.3}"));
            lines.push(first.into_iter().chain(self.engines.iter().map(ratio)).collect());
        }
        tables
    }

    /// Means and worst cells of each engine, and how well predictions order tables: a line each.
    pub fn in_words(&self) -> String {
        let mut text: String = self.engines.iter().map(Engine::text).collect();
        let (slowdown, efi) = (self.slowdown_order, self.efi_order);
        text += &format!("{} pairs of tables differ by more than 5 %: ", slowdown.pairs);
        let percent = |o: Order| format!("{:.1} % (regret {:.1} %)", 100.0 * o.right, 100.0 * o.regret);
        text + &format!("slow-down orders {}, EFI {}\n", percent(slowdown), percent(efi))
    }
}

impl Engine {
    fn new(name: &str, rows: &[PatternMeans<'_>]) -> Self {
        let ratio = |r: &PatternMeans<'_>| Some((r.ratio(name)?, r.fabric.to_string(), r.pattern));
        let mut ratios: Vec<(f64, String, Pattern)> = rows.iter().filter_map(ratio).collect();
        ratios.sort_by(|a, b| b.0.total_cmp(&a.0));
        let geometric_mean = geometric(ratios.iter().map(|r| r.0));
        Self { engine: name.to_string(), geometric_mean, worst: ratios.first().cloned(), ratios }
    }

    /// Cells in which jobs take longer than with the best engine that knows none, by more than 3 %.
    pub fn behind(&self) -> usize {
        self.ratios.iter().filter(|r| r.0 > 1.03).count()
    }

    fn text(&self) -> String {
        let behind = self.behind();
        let worst = self.ratios.iter().take(3).map(|r| format!("{:.3} ({}, {})", r.0, r.1, r.2));
        format!(
            "{}: {} cells, geometric mean {:.3}, {behind} above 1.03; worst {}\n",
            self.engine,
            self.ratios.len(),
            self.geometric_mean,
            worst.collect::<Vec<_>>().join("; ")
        )
    }
}

/// Each cell beside the others of its mix.
fn beside(cells: Vec<Cell>) -> Vec<Beside> {
    let mut mixes: BTreeMap<(&str, Pattern, &str), Vec<&Cell>> = BTreeMap::new();
    for c in &cells {
        mixes.entry((&c.fabric, c.pattern, &c.mix)).or_default().push(c);
    }
    let of = |c: &Cell| {
        let mix = &mixes[&(c.fabric.as_str(), c.pattern, c.mix.as_str())];
        let blind = mix.iter().filter(|m| !m.knows_jobs && m.engine != ADAPTIVE);
        let ended = blind.filter_map(|m| Some((m.time_ns?, m.engine.clone())));
        let best = ended.min_by(|a, b| a.0.total_cmp(&b.0));
        let adaptive = mix.iter().find(|m| m.engine == ADAPTIVE).and_then(|m| m.time_ns);
        Beside {
            to_crossbar: c.time_ns.map(|t| t / c.alone_ns),
            to_adaptive: c.time_ns.zip(adaptive).map(|(t, a)| t / a),
            to_best_oblivious: c.time_ns.zip(best.as_ref()).map(|(t, b)| t / b.0),
            best_oblivious: best.map(|b| b.1),
            cell: c.clone(),
        }
    };
    cells.iter().map(of).collect()
}
