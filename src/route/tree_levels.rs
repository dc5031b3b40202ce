//! The levels of a tree, found from its cabling.

use std::collections::BTreeSet;

use super::graph::Graph;
use super::updown::{Distances, Heights, histogram_roots};

/// The level of each switch: 0 for leaves, growing towards the roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeLevels {
    /// Per switch.
    pub level: Vec<u32>,
    /// Switches, highest level first.
    pub top_down: Vec<u32>,
}

impl TreeLevels {
    /// From the leaves, or else from the roots. The error is a channel within one level, if there is one
    /// as seen from the leaves. O(switches × channels) at most.
    pub fn find(graph: &Graph) -> Result<Self, Option<usize>> {
        Self::from_leaves(graph).or_else(|within| {
            let roots = histogram_roots(graph, &Distances::new(graph));
            let depth = hops_from(graph, &roots);
            if roots.is_empty() || inside_level(graph, &depth).is_some() {
                return Err(within);
            }
            let deepest = depth.iter().max().copied().unwrap_or(0);
            Ok(Self::new(depth.iter().map(|d| deepest - d).collect()))
        })
    }

    /// By hops from the leaves; the error is a channel within one level.
    ///
    /// Few terminals do not make a leaf where that would join two switches of one level: spines
    /// often have one for management or in-network reduction. At most an eighth of all may be on
    /// such switches. O(different numbers of terminals × channels).
    pub fn from_leaves(graph: &Graph) -> Result<Self, Option<usize>> {
        let terminals = graph.terminals();
        let all: u32 = terminals.iter().sum();
        let counts: BTreeSet<u32> = std::iter::once(0).chain(terminals.iter().copied()).collect();
        let aside = |few: u32| terminals.iter().filter(|n| **n <= few).sum::<u32>();
        let mut within = None;
        for few in counts.into_iter().take_while(|few| aside(*few) <= all / 8) {
            let leaves: Vec<usize> = (0..graph.switches()).filter(|s| terminals[*s] > few).collect();
            let from_leaves = hops_from(graph, &leaves);
            match inside_level(graph, &from_leaves) {
                None => return Ok(Self::new(from_leaves)),
                Some(channel) => within = within.or(Some(channel)),
            }
        }
        Err(within)
    }

    /// The height of the roots.
    pub fn top(&self) -> u32 {
        self.top_down.first().map_or(0, |s| self.level[*s as usize])
    }

    fn new(level: Vec<u32>) -> Self {
        let mut top_down: Vec<u32> = (0..level.len() as u32).collect();
        top_down.sort_by_key(|s| std::cmp::Reverse(level[*s as usize]));
        Self { level, top_down }
    }
}

/// Hops from the nearest of some switches; parts without any count from their own first switch.
fn hops_from(graph: &Graph, starts: &[usize]) -> Vec<u32> {
    let heights = Heights::from_roots(graph, starts);
    let mut hops = vec![u32::MAX; graph.switches()];
    starts.iter().for_each(|s| hops[*s] = 0);
    // By height, each switch comes after the nearer neighbour it was found from.
    for &s in &heights.by_height {
        let nearest = graph.out(s as usize).map(|c| hops[graph.to(c)]).min().unwrap_or(u32::MAX);
        let own = &mut hops[s as usize];
        *own = (*own).min(if nearest == u32::MAX { 0 } else { nearest + 1 });
    }
    hops
}

/// A channel between two switches that are not on neighbouring levels.
fn inside_level(graph: &Graph, level: &[u32]) -> Option<usize> {
    (0..graph.channels()).find(|c| level[graph.from(*c)].abs_diff(level[graph.to(*c)]) != 1)
}
