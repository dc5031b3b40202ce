//! Several searches for the routes of jobs on small fabrics: one beside another gains or loses a twentieth. Predicted
//! time tells which is better. On one layer and on grids it does not: there a run of the packet simulator chooses.

use rayon::prelude::*;

use super::portfolio::{Scene, entries, predicted};
use super::{Aim, Balanced, is_narrow};
use crate::model::{Demand, Fabric, Group, Pattern, Tables};
use crate::route::graph::is_indirect;
use crate::simulate::{Net as Wires, exchange};

/// Destinations × switches up to which there are this many more attempts; half as many at twice the size, and so on.
const ENTRIES: usize = 1 << 16;
/// See [`ENTRIES`]. Twice as many gain nothing.
const MORE: usize = 4;
/// What a job that says nothing exchanges in each run: in steps, out of step, with neighbours.
const RUNS: [Pattern; 3] = [Pattern::Linear, Pattern::Random, Pattern::Ring];
/// Bytes of a message in a run.
const BYTES: u32 = 8192;
/// Pairs of ranks in all jobs, above which runs take more than a second.
const MOST_PAIRS: usize = 50_000;

impl Balanced {
    /// Our own tables by other searches; none in large fabrics, and none with tables in force. In trees one search
    /// finds what another does.
    pub(super) fn attempts(&self, scene: &Scene<'_>) -> Vec<Tables> {
        let Scene { fabric, net, demand, budget, .. } = *scene;
        let is_alone = self.aim == Aim::Counts || is_narrow(fabric, budget) || is_indirect(&net.hosts);
        if demand.is_oblivious() || is_alone || self.in_force(fabric).0.is_some() {
            return Vec::new();
        }
        let make = |seed| {
            let of = Balanced { options: self.options.clone(), aim: self.aim, seed };
            of.own(fabric, net, demand, budget).map(|own| own.tables).ok()
        };
        more(fabric).into_par_iter().filter_map(make).collect()
    }
}

/// Seeds of the attempts after the first.
pub(super) fn more(fabric: &Fabric) -> Vec<u64> {
    let many = MORE * ENTRIES / entries(fabric).max(ENTRIES);
    (2..2 + many as u64).collect()
}

/// Which tables are best by predicted time and by that of the jobs' exchanges in the simulator, as much by one
/// as by the other. Others must be below `margin` of the first; the first where that is too much to simulate.
pub(super) fn fastest(fabric: &Fabric, demand: &Demand, mut tables: Vec<Tables>, margin: f64) -> Tables {
    let pairs: usize = demand.groups.iter().map(|g| g.ranks.len() * g.ranks.len()).sum();
    if pairs > MOST_PAIRS || tables.len() == 1 {
        return tables.swap_remove(0);
    }
    let wires = Wires::of_fabric(fabric);
    let score = |tables: &Tables| {
        let run = |i: usize| {
            let of_each = |g: &Group| pattern(g, i);
            let time = exchange::of_each((fabric, &wires), tables, &demand.groups, of_each, BYTES);
            time.ok().flatten().unwrap_or(f64::INFINITY)
        };
        exchange::geometric((0..RUNS.len()).map(run)) * predicted(fabric, demand, tables)
    };
    let mut scores: Vec<f64> = tables.par_iter().map(score).collect();
    scores[0] *= margin;
    let best = (1..scores.len()).fold(0, |best, i| if scores[i] < scores[best] { i } else { best });
    tables.swap_remove(best)
}

/// What a job exchanges in a run.
fn pattern(group: &Group, run: usize) -> Pattern {
    match group.mix.is_default() {
        true => RUNS[run],
        false => group.mix.parts()[run % group.mix.parts().len()].0,
    }
}
