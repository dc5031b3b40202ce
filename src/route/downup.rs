//! `downup`: away from the hosts and back (thesis section 3.3.4: Down*/Up*), one layer.
//!
//! The rule of `updown` with ranks counted from the other end: hops from the nearest switch with
//! terminals instead of hops from a root. So no roots need be found, and trees may have hosts at
//! several levels.

use super::graph::Graph;
use super::updown::Heights;
use super::{Engine, RouteError};
use crate::model::{Demand, Fabric, LayerBudget, Tables};

/// Down*/Up*. Ignores demand and budget: it needs one layer.
#[derive(Debug, Clone, Copy, Default)]
pub struct DownUp;

impl Engine for DownUp {
    fn name(&self) -> &'static str {
        "downup"
    }

    /// O(trees × (switches + channels)).
    ///
    /// # Errors
    /// If two switches with terminals have no such route. Where all switches have some, only their numbers say
    /// what is away, and that fails on dragonflies and Kautz graphs.
    fn route(&self, fabric: &Fabric, _demand: &Demand, _budget: LayerBudget) -> Result<Tables, RouteError> {
        let graph = Graph::new(fabric);
        let hops = graph.hops_from(with_terminals(&graph));
        let top = hops.iter().copied().filter(|h| *h < u32::MAX).max().unwrap_or(0);
        let rank: Vec<u32> = hops.iter().map(|h| top.saturating_sub(*h)).collect();
        let heights = Heights::from_ranks(&graph, &rank);
        if !heights.connects(&graph) {
            let reason =
                "some hosts have no route that leads away from hosts first and then back".to_string();
            return Err(RouteError::NotApplicable { engine: self.name(), reason });
        }
        heights.tables(fabric, &graph, self.name())
    }
}

fn with_terminals(graph: &Graph) -> impl Iterator<Item = usize> + '_ {
    (0..graph.switches()).filter(|s| graph.terminals()[*s] > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::PortPeer;

    /// Levels of a tree rise and then fall on every route.
    #[test]
    fn routes_lead_away_from_hosts_and_then_back() {
        let fabric = generate("kary:3,3,hosts=2").unwrap();
        let graph = Graph::new(&fabric);
        let hops = graph.hops_from(with_terminals(&graph));
        assert_eq!(hops.iter().max(), Some(&2));
        let tables = DownUp.route(&fabric, &Demand::oblivious(), LayerBudget::new(1).unwrap()).unwrap();
        for source in fabric.switch_ids().filter(|s| !fabric.attached(*s).is_empty()) {
            for dest in fabric.dest_ids() {
                let (mut at, mut levels) = (source, vec![0]);
                while at != fabric.home(dest) {
                    let port = tables.port(at, dest).unwrap();
                    let Some(PortPeer::Channel(c)) = fabric.peer(at, port) else { panic!("no channel") };
                    at = fabric.channel(c).to;
                    levels.push(hops[at.index()]);
                }
                let top = levels.iter().position(|l| Some(l) == levels.iter().max()).unwrap();
                assert!(
                    levels[..=top].is_sorted() && levels[top..].is_sorted_by(|a, b| a >= b),
                    "{levels:?}"
                );
            }
        }
    }

    /// All switches have hosts, so all are of one rank: nothing leads away from them.
    #[test]
    fn what_has_no_such_route_is_refused() {
        let fabric = generate("dragonfly:4,2,2,9").unwrap();
        let refused = DownUp.route(&fabric, &Demand::oblivious(), LayerBudget::new(1).unwrap()).err();
        assert!(matches!(refused, Some(RouteError::NotApplicable { engine: "downup", .. })), "{refused:?}");
    }
}
