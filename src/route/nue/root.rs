//! The root of the escape paths: the most central switch with respect to a set of destinations
//! (thesis 6.2.3).

use crate::model::SwitchId;
use crate::route::graph::Graph;

/// Switches on shortest paths between switches of `targets` (thesis Definition 6.3, Algorithm
/// 6.1): `result[switch]`. O(targets × channels).
pub(super) fn convex_subgraph(graph: &Graph, targets: &[SwitchId]) -> Vec<bool> {
    let switches = graph.switches();
    let mut inside = vec![false; switches];
    let mut search = BreadthFirst::new(switches);
    // Stamp of the target whose backward step last visited a switch.
    let mut visited = vec![usize::MAX; switches];
    let mut stack: Vec<u32> = Vec::new();
    for (nth, from) in targets.iter().enumerate() {
        search.run(graph, from.index(), |_| true);
        let reached = |t: &u32| search.distance[*t as usize] != u32::MAX;
        stack.extend(targets.iter().map(|t| t.0).filter(reached));
        stack.iter().for_each(|t| visited[*t as usize] = nth);
        while let Some(s) = stack.pop() {
            inside[s as usize] = true;
            // At the start none is closer.
            let closer = search.distance[s as usize].wrapping_sub(1);
            for &t in graph.neighbours(s as usize) {
                if search.distance[t as usize] == closer && visited[t as usize] != nth {
                    visited[t as usize] = nth;
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
pub(super) fn most_central(graph: &Graph, inside: &[bool], targets: &[SwitchId]) -> Option<SwitchId> {
    let switches = graph.switches();
    let mut centrality = vec![0.0f64; switches];
    let (mut paths, mut share) = (vec![0.0f64; switches], vec![0.0f64; switches]);
    let mut search = BreadthFirst::new(switches);
    let mut ends = vec![0.0; switches];
    targets.iter().for_each(|t| ends[t.index()] = 1.0);
    for from in targets.iter().map(|t| t.index()) {
        search.run(graph, from, |s| inside[s]);
        for s in search.order.iter().map(|s| *s as usize) {
            (paths[s], share[s]) = (0.0, 0.0);
        }
        paths[from] = 1.0;
        // The search entered nothing outside.
        for s in search.order.iter().map(|s| *s as usize) {
            let farther = search.distance[s] + 1;
            for t in graph.neighbours(s).iter().map(|t| *t as usize) {
                if search.distance[t] == farther {
                    paths[t] += paths[s];
                }
            }
        }
        for s in search.order.iter().rev().map(|s| *s as usize) {
            let farther = search.distance[s] + 1;
            for t in graph.neighbours(s).iter().map(|t| *t as usize) {
                if search.distance[t] == farther {
                    share[s] += paths[s] / paths[t] * (ends[t] + share[t]);
                }
            }
            if s != from {
                centrality[s] += share[s];
            }
        }
    }
    let candidates = (0..switches).filter(|s| inside[*s]);
    let most = candidates.max_by(|a, b| centrality[*a].total_cmp(&centrality[*b]).then(b.cmp(a)));
    most.map(SwitchId::at)
}

/// A reusable breadth-first search.
struct BreadthFirst {
    /// Hops from the start; `u32::MAX` where it did not come.
    distance: Vec<u32>,
    /// Switches in the order of discovery.
    order: Vec<u32>,
}

impl BreadthFirst {
    fn new(switches: usize) -> Self {
        Self { distance: vec![u32::MAX; switches], order: Vec::with_capacity(switches) }
    }

    fn run(&mut self, graph: &Graph, from: usize, allowed: impl Fn(usize) -> bool) {
        self.distance.fill(u32::MAX);
        self.order.clear();
        self.distance[from] = 0;
        self.order.push(from as u32);
        let mut next = 0;
        while let Some(&s) = self.order.get(next) {
            next += 1;
            let farther = self.distance[s as usize] + 1;
            for &t in graph.neighbours(s as usize) {
                if self.distance[t as usize] == u32::MAX && allowed(t as usize) {
                    self.distance[t as usize] = farther;
                    self.order.push(t);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn the_middle_of_a_line_is_central() {
        let fabric = generate("mesh:7").unwrap();
        let all: Vec<SwitchId> = fabric.switch_ids().collect();
        let graph = Graph::new(&fabric);
        let inside = convex_subgraph(&graph, &all);
        assert_eq!(most_central(&graph, &inside, &all), Some(all[3]));
        let ends = [all[2], all[3], all[6]];
        let inside = convex_subgraph(&graph, &ends);
        assert_eq!(inside, [false, false, true, true, true, true, true]);
        assert_eq!(most_central(&graph, &inside, &ends), Some(all[4]));
    }

    #[test]
    fn a_convex_subgraph_holds_all_shortest_paths() {
        // Opposite corners of a 3x3 mesh: every switch lies on a shortest path.
        let fabric = generate("mesh:3x3").unwrap();
        let all: Vec<SwitchId> = fabric.switch_ids().collect();
        let graph = Graph::new(&fabric);
        assert!(convex_subgraph(&graph, &[all[0], all[8]]).iter().all(|i| *i));
        assert_eq!(convex_subgraph(&graph, &[all[0], all[2]]).iter().filter(|i| **i).count(), 3);
    }
}
