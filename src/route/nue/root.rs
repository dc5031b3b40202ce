//! The root of the escape paths: the most central switch with respect to a set of destinations
//! (thesis 6.2.3).

use crate::model::{Fabric, SwitchId};

/// Switches on shortest paths between switches of `targets` (thesis Definition 6.3, Algorithm
/// 6.1): `result[switch]`. O(targets × channels).
pub(super) fn convex_subgraph(fabric: &Fabric, targets: &[SwitchId]) -> Vec<bool> {
    let switches = fabric.switches().len();
    let mut inside = vec![false; switches];
    let mut search = Search::new(switches);
    // Stamp of the target whose backward step last visited a switch.
    let mut visited = vec![usize::MAX; switches];
    for (nth, from) in targets.iter().enumerate() {
        search.run(fabric, *from, |_| true);
        let mut stack: Vec<SwitchId> =
            targets.iter().copied().filter(|t| search.distance[t.index()] != u32::MAX).collect();
        stack.iter().for_each(|t| visited[t.index()] = nth);
        while let Some(s) = stack.pop() {
            inside[s.index()] = true;
            for c in fabric.out(s) {
                let t = fabric.channel(*c).to;
                let closer = search.distance[t.index()].checked_add(1) == Some(search.distance[s.index()]);
                if closer && visited[t.index()] != nth {
                    visited[t.index()] = nth;
                    stack.push(t);
                }
            }
        }
    }
    inside
}

/// The switch of largest betweenness inside the subgraph (Brandes, "A faster algorithm for
/// betweenness centrality", 2001), the one with the lowest id among equals. Only paths
/// between `targets` count: centrality is wanted with respect to them, and over all layers together
/// each switch is a start only once. O(targets × channels) of the subgraph.
pub(super) fn most_central(fabric: &Fabric, inside: &[bool], targets: &[SwitchId]) -> Option<SwitchId> {
    let switches = fabric.switches().len();
    let mut centrality = vec![0.0f64; switches];
    let (mut paths, mut share) = (vec![0.0f64; switches], vec![0.0f64; switches]);
    let mut search = Search::new(switches);
    let mut ends = vec![0.0; switches];
    targets.iter().for_each(|t| ends[t.index()] = 1.0);
    for from in targets.iter().copied() {
        search.run(fabric, from, |s| inside[s.index()]);
        for s in &search.order {
            (paths[s.index()], share[s.index()]) = (0.0, 0.0);
        }
        paths[from.index()] = 1.0;
        let farther = |s: SwitchId, t: SwitchId| {
            inside[t.index()] && search.distance[t.index()] == search.distance[s.index()] + 1
        };
        for s in &search.order {
            for c in fabric.out(*s) {
                let t = fabric.channel(*c).to;
                if farther(*s, t) {
                    paths[t.index()] += paths[s.index()];
                }
            }
        }
        for s in search.order.iter().rev() {
            for c in fabric.out(*s) {
                let t = fabric.channel(*c).to;
                if farther(*s, t) {
                    share[s.index()] +=
                        paths[s.index()] / paths[t.index()] * (ends[t.index()] + share[t.index()]);
                }
            }
            if *s != from {
                centrality[s.index()] += share[s.index()];
            }
        }
    }
    let candidates = fabric.switch_ids().filter(|s| inside[s.index()]);
    candidates.max_by(|a, b| centrality[a.index()].total_cmp(&centrality[b.index()]).then(b.cmp(a)))
}

/// A reusable breadth-first search.
struct Search {
    /// Hops from the start; `u32::MAX` where it did not come.
    distance: Vec<u32>,
    /// Switches in the order of discovery.
    order: Vec<SwitchId>,
}

impl Search {
    fn new(switches: usize) -> Self {
        Self { distance: vec![u32::MAX; switches], order: Vec::with_capacity(switches) }
    }

    fn run(&mut self, fabric: &Fabric, from: SwitchId, allowed: impl Fn(SwitchId) -> bool) {
        self.distance.fill(u32::MAX);
        self.order.clear();
        self.distance[from.index()] = 0;
        self.order.push(from);
        let mut next = 0;
        while next < self.order.len() {
            let s = self.order[next];
            next += 1;
            for c in fabric.out(s) {
                let t = fabric.channel(*c).to;
                if self.distance[t.index()] == u32::MAX && allowed(t) {
                    self.distance[t.index()] = self.distance[s.index()] + 1;
                    self.order.push(t);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::generate;

    #[test]
    fn the_middle_of_a_line_is_central() {
        let fabric = generate("mesh:7").unwrap();
        let all: Vec<SwitchId> = fabric.switch_ids().collect();
        let inside = convex_subgraph(&fabric, &all);
        assert_eq!(most_central(&fabric, &inside, &all), Some(all[3]));
        let ends = [all[2], all[3], all[6]];
        let inside = convex_subgraph(&fabric, &ends);
        assert_eq!(inside, [false, false, true, true, true, true, true]);
        assert_eq!(most_central(&fabric, &inside, &ends), Some(all[4]));
    }

    #[test]
    fn a_convex_subgraph_holds_all_shortest_paths() {
        // Opposite corners of a 3x3 mesh: every switch lies on a shortest path.
        let fabric = generate("mesh:3x3").unwrap();
        let all: Vec<SwitchId> = fabric.switch_ids().collect();
        assert!(convex_subgraph(&fabric, &[all[0], all[8]]).iter().all(|i| *i));
        assert_eq!(convex_subgraph(&fabric, &[all[0], all[2]]).iter().filter(|i| **i).count(), 3);
    }
}
