//! Several searches for the routes of jobs on small fabrics: one beside another gains or loses a twentieth, in trees a
//! hundredth. Predicted time tells which is better where channels are not crowded; else, and in trees, where predictions
//! do not tell, runs of the packet simulator choose.

use rayon::prelude::*;

use super::net::Net;
use super::portfolio::{Candidate, Scene, entries, predicted};
use super::timed::is_whole_tree;
use super::{Aim, Balanced, is_narrow};
use crate::model::{Demand, Fabric, LayerBudget, Tables};
use crate::route::graph::is_indirect;
use crate::simulate::{Net as Wires, exchange};

/// Destinations × switches up to which there are this many more attempts; half as many at twice the size, and so on.
const ENTRIES: usize = 1 << 16;
/// See [`ENTRIES`]. Twice as many gain nothing.
const MORE: usize = 4;
/// Destinations × switches of trees up to which there are more attempts.
const ENTRIES_IN_TREES: usize = 1 << 18;
/// So many in trees, if jobs have no more than [`PAIRS`]; with more of these fewer.
const MORE_IN_TREES: usize = 7;
/// Pairs of ranks in all jobs of which coarse runs take less than a tenth of a second.
const PAIRS: usize = 20_000;

impl Balanced {
    /// Seeds of other searches for our own tables; none in large fabrics, and none with tables in force.
    pub(super) fn seeds(&self, scene: &Scene<'_>) -> Vec<u64> {
        let Scene { fabric, net, demand, budget, .. } = *scene;
        let is_alone = self.aim == Aim::Counts || is_narrow(fabric, budget);
        if demand.is_oblivious() || is_alone || self.in_force(fabric).0.is_some() {
            return Vec::new();
        }
        match is_indirect(&net.hosts) {
            true if entries(fabric) > ENTRIES_IN_TREES => Vec::new(),
            true => more_in_tree(net, demand, budget),
            false => more(fabric),
        }
    }

    /// Our own tables by searches with these seeds.
    pub(super) fn attempts(&self, scene: &Scene<'_>, seeds: Vec<u64>) -> Vec<Tables> {
        let Scene { fabric, net, demand, budget, .. } = *scene;
        let make = |seed| {
            let of = Balanced { options: self.options.clone(), aim: self.aim, seed };
            of.own(fabric, net, demand, budget).map(|own| own.tables).ok()
        };
        seeds.into_par_iter().filter_map(make).collect()
    }
}

/// Seeds of the attempts after the first.
pub(super) fn more(fabric: &Fabric) -> Vec<u64> {
    let many = MORE * ENTRIES / entries(fabric).max(ENTRIES);
    (2..2 + many as u64).collect()
}

/// The same in a small tree that is whole: where cables are lost, warm sweeps leave channels less level. A job alone has
/// what is known to meet nowhere, or nearly so; on one layer the simulator would choose what takes longer.
fn more_in_tree(net: &Net, demand: &Demand, budget: LayerBudget) -> Vec<u64> {
    let (jobs, pairs) = (demand.groups.len(), exchange::pairs(&demand.groups));
    if jobs < 2 || budget.get() == 1 || !exchange::is_short(&demand.groups) || !is_whole_tree(net) {
        return Vec::new();
    }
    (2..2 + (MORE_IN_TREES * PAIRS / pairs.max(PAIRS)) as u64).collect()
}

/// Runs of the simulator by which tables are chosen.
pub(super) enum Runs {
    /// One of each exchange for each of these sizes of messages, in bytes.
    Of(&'static [u32]),
    /// In less time, of large packets ([`exchange::coarse_runs`]).
    Coarse,
}

/// What counts in the choice of tables beside all their runs together, each as a power.
pub(super) struct Weights {
    /// Of the run in which the tables are furthest behind the best ones without jobs in that run.
    pub(super) worst: f64,
    /// Of predicted time.
    pub(super) predicted: f64,
    /// How they are run.
    pub(super) runs: Runs,
}

/// The tables with which the jobs' exchanges end first in the simulator, as the `weights` count. The first of equal
/// ones. A run per tables and exchange.
pub(super) fn fastest(
    fabric: &Fabric,
    demand: &Demand,
    mut candidates: Vec<Candidate>,
    weights: &Weights,
) -> Tables {
    forget_copies(fabric, &mut candidates);
    let wires = Wires::of_fabric(fabric);
    let simulated = |tables: &Tables| match weights.runs {
        Runs::Coarse => exchange::coarse_runs((fabric, &wires), tables, &demand.groups),
        Runs::Of(sizes) => {
            let runs = |bytes: &u32| exchange::runs((fabric, &wires), tables, &demand.groups, *bytes);
            sizes.iter().flat_map(runs).collect()
        }
    };
    let times: Vec<Vec<f64>> = candidates.par_iter().map(|candidate| simulated(&candidate.tables)).collect();
    // Those without jobs are what nobody may be behind; where there are none, the best of all.
    let has_blind = candidates.iter().any(|candidate| candidate.is_blind);
    let counts = |candidate: &Candidate| candidate.is_blind || !has_blind;
    let least = |i: usize| {
        let held = candidates.iter().zip(&times).filter(|(candidate, _)| counts(candidate));
        held.map(|(_, runs)| runs[i]).fold(f64::INFINITY, f64::min)
    };
    let least: Vec<f64> = (0..times[0].len()).map(least).collect();
    let score = |(Candidate { tables, .. }, runs): (&Candidate, &Vec<f64>)| {
        let behind = runs.iter().zip(&least).map(|(time, least)| time / least).fold(1.0, f64::max);
        let all = exchange::geometric(runs.iter().copied());
        all * behind.powf(weights.worst) * predicted(fabric, demand, tables).powf(weights.predicted)
    };
    let scores: Vec<f64> = candidates.par_iter().zip(&times).map(score).collect();
    let best = (1..scores.len()).fold(0, |best, i| if scores[i] < scores[best] { i } else { best });
    candidates.swap_remove(best).tables
}

/// Takes off tables that were there before; those that are left were made for no jobs if one of the same was.
fn forget_copies(fabric: &Fabric, candidates: &mut Vec<Candidate>) {
    let mut kept: Vec<Candidate> = Vec::with_capacity(candidates.len());
    for next in candidates.drain(..) {
        let is_same = |a: &Candidate| {
            let (a, b) = (&a.tables, &next.tables);
            fabric.dest_ids().all(|d| a.ports_to(d) == b.ports_to(d) && a.layers_to(d) == b.layers_to(d))
        };
        match kept.iter_mut().find(|a| is_same(a)) {
            Some(same) => same.is_blind |= next.is_blind,
            None => kept.push(next),
        }
    }
    *candidates = kept;
}
