//! One layer for all routes inside a job.

use petgraph::unionfind::UnionFind;

use super::routing::Routing;
use crate::model::{Demand, Fabric};

/// The layer of each set of jobs that share terminals (usually one job).
#[derive(Default)]
pub(super) struct JobLayers {
    /// Set of each terminal.
    set: Vec<Option<u32>>,
    /// Layer and switches of each set.
    sets: Vec<(u8, Vec<u32>)>,
}

impl JobLayers {
    /// Whether no job has a layer of its own.
    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The switches whose routes to a terminal are of one job, and their layer.
    pub(super) fn of(&self, terminal: usize) -> Option<&(u8, Vec<u32>)> {
        let set = self.set.get(terminal).copied().flatten()?;
        self.sets.get(set as usize)
    }
}

impl Routing<'_> {
    /// Finds a layer that allows all routes inside a job; where there is none, routes the job's
    /// terminals again in the layer of the last resort, which allows all of them.
    /// O(terminals in jobs × switches), or × channels where routes change.
    pub(super) fn one_layer_per_job(&mut self, fabric: &Fabric, demand: &Demand) -> JobLayers {
        let groups = demand.groups.len();
        let mut union = UnionFind::<usize>::new(groups);
        let of = demand.groups_of(fabric);
        for same in &of {
            same.windows(2).for_each(|w| {
                union.union(w[0] as usize, w[1] as usize);
            });
        }
        let set: Vec<Option<u32>> =
            of.iter().map(|groups| groups.first().map(|g| union.find(*g as usize) as u32)).collect();
        let mut members = vec![Vec::new(); groups];
        for (t, set) in set.iter().enumerate() {
            if let Some(set) = set {
                members[*set as usize].push(t);
            }
        }
        let sets = members.iter().map(|members| self.common_layer(members)).collect();
        JobLayers { set, sets }
    }

    fn common_layer(&mut self, members: &[usize]) -> (u8, Vec<u32>) {
        let mut switches: Vec<u32> = members.iter().map(|t| self.home[*t]).collect();
        switches.sort_unstable();
        switches.dedup();
        let mut common = self.layers.all;
        for &t in members {
            self.follow(t);
            let connected = switches.iter().filter(|s| self.search.hops[**s as usize] != u16::MAX);
            common = connected.fold(common, |common, s| common & self.search.layers[*s as usize]);
        }
        if common == 0 {
            common = self.layers.refuge_layer;
            for &t in members {
                self.lift(t);
                self.grow(t, common);
            }
        }
        (common.trailing_zeros() as u8, switches)
    }
}
