//! Tables of a tree for no jobs: one way down to each destination from everywhere. Where these put no more on any
//! channel than every routing must, as in whole trees, no search is needed.

use rayon::prelude::*;

use super::super::bound::sum;
use super::super::climb::Climb;
use super::super::jobs::JobLayers;
use super::super::layers::Layers;
use super::super::net::{NONE, Net};
use super::super::{Balanced, homes};
use super::shape::{NOWHERE, Shape, Stage};
use super::tree::{Choices, Filler, choose_rest};
use crate::model::{Demand, Fabric, LayerBudget, Tables};
use crate::route::RouteError;
use crate::route::spread::Turn;

/// Fewest destinations that are worth a thread.
const FEWEST: usize = 512;

impl Balanced {
    /// Tables for no jobs of a tree, if no tables have fewer routes on a channel, and no others are in force.
    /// O(terminals × switches), on all threads.
    pub(in super::super) fn known_tree(
        &self,
        fabric: &Fabric,
        net: &Net,
        demand: &Demand,
        budget: LayerBudget,
    ) -> Option<Result<Tables, RouteError>> {
        if !demand.is_oblivious() || self.options.layer_per_job {
            return None;
        }
        let shape = Shape::of(net)?;
        let home = homes(fabric);
        let mut choices = Choices::none(&shape, home.len());
        choose_rest(&shape, &home, &mut choices);
        let least = least(net, &shape);
        if most_at_leaves(net, &shape, &home, &choices) > u64::from(least) {
            return None;
        }
        let mut rows = vec![NONE; home.len() * net.switches()];
        let loads = fill_all(net, &shape, &home, &choices, &mut rows)?;
        if loads.into_iter().max().unwrap_or(0) > least {
            return None;
        }
        let layers = Layers::climbing(net, &shape.levels, budget.get());
        let turn = Some(Turn::new(fabric));
        let tables = self.write((fabric, net), &layers, rows, &JobLayers::default(), turn);
        if tables.as_ref().is_ok_and(|tables| !self.may_follow(fabric, tables)) {
            return None;
        }
        Some(tables)
    }
}

/// What the fullest channel out of a leaf, or out of a pod, carries at least. O(channels).
fn least(net: &Net, shape: &Shape) -> u32 {
    let all: u64 = net.hosts.iter().map(|n| u64::from(*n)).sum();
    let bound = |hosts: u64, channels: u64| (hosts * (all - hosts)).div_ceil(channels.max(1));
    let at_leaf = |s: &u32| bound(net.hosts[*s as usize].into(), net.degree(*s as usize) as u64);
    let leaves = shape.leaves.iter().map(at_leaf).max().unwrap_or(0);
    let at_pods = |stage: &Stage| {
        let (mut hosts, mut up) = (vec![0u64; stage.pods], vec![0u64; stage.pods]);
        for s in (0..net.switches()).filter(|s| stage.pod_of[*s] != NOWHERE) {
            let pod = stage.pod_of[s] as usize;
            hosts[pod] += u64::from(net.hosts[s]);
            up[pod] += net.out(s).filter(|c| stage.pod_of[net.to(*c)] != stage.pod_of[s]).count() as u64;
        }
        (0..stage.pods).map(|pod| bound(hosts[pod], up[pod])).max().unwrap_or(0)
    };
    let pods = shape.stages.iter().map(at_pods).max().unwrap_or(0);
    u32::try_from(leaves.max(pods)).unwrap_or(u32::MAX)
}

/// Most routes on the way down into a leaf. O(terminals + leaves × ways).
fn most_at_leaves(net: &Net, shape: &Shape, home: &[u32], choices: &Choices) -> u64 {
    let all: u64 = net.hosts.iter().map(|n| u64::from(*n)).sum();
    let mut down = vec![0u64; shape.leaves.len() * shape.ways.len()];
    for (t, way) in choices.ways.iter().enumerate().filter(|(_, way)| **way != NOWHERE) {
        let leaf = shape.leaf_of[home[t] as usize] as usize;
        down[leaf * shape.ways.len() + *way as usize] += all - u64::from(net.hosts[home[t] as usize]);
    }
    down.into_iter().max().unwrap_or(0)
}

/// Fills the rows of all terminals; returns the routes between all hosts on each channel, or `None` if some switch
/// has no way up and down to a leaf.
fn fill_all(net: &Net, shape: &Shape, home: &[u32], choices: &Choices, rows: &mut [u8]) -> Option<Vec<u32>> {
    let climb = Climb::new(&shape.levels);
    let start = || (Filler::new(net, shape), vec![0u32; net.switches()], vec![0u32; net.channels()]);
    let loads = rows.par_chunks_mut(net.switches()).enumerate().with_min_len(FEWEST).try_fold(
        start,
        |(mut filler, mut flow, mut load), (t, row)| {
            let to = home[t] as usize;
            let is_whole = filler.fill(to, choices.ways[t], &choices.planes_of(t), t, row)
                && climb.weigh((net, to, row), (&mut flow, &mut load), u32::wrapping_add, true).is_some();
            is_whole.then_some((filler, flow, load))
        },
    );
    let loads = loads.map(|worker| worker.map(|(_, _, load)| load));
    loads.try_reduce(|| vec![0; net.channels()], |a, b| Some(sum(a, b)))
}
