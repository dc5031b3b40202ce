//! Routes spread over all layers of the budget, though fewer would do. A layer is a lane with buffers
//! of its own: where all routes share one, packets wait behind others that go elsewhere.
//!
//! A part of the routes of an acyclic layer is acyclic too, so a layer may be split at will. Which part
//! a route belongs to depends on its ends alone: a route that stays as it is keeps its layer when
//! others change.

use super::graph::{Graph, hosts_per_switch, is_indirect};
use crate::model::rng::Rng;
use crate::model::{DestId, Fabric, LayerBudget, PortNum, Tables};

/// Decides between layers that are equally good for a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    by: By,
}

/// What a route's layer depends on: the switch where it starts, the one where it ends, or the former
/// and the port that it ends at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Source,
    Home,
    Ends,
}

impl Turn {
    /// By source switch where every switch has hosts: so a crowd before one source's packets keeps none
    /// of another's. In a tree, where there are switches without hosts, by both ends. Found by
    /// simulating full exchanges in two orders: in ten trees, by pair of switches is 6 % behind in random order;
    /// elsewhere by both ends gains or loses up to a fifth, and on a dragonfly it may take twice as long.
    /// Numbers of switches are scattered, because they follow the structure of many fabrics: by number
    /// alone all switches of a column of a grid would share a layer.
    pub fn new(fabric: &Fabric) -> Self {
        Self { by: if is_indirect(&hosts_per_switch(fabric)) { By::Ends } else { By::Source } }
    }

    /// By the destination's switch, where the channels that limit the fabric each serve few sources.
    pub fn by_home() -> Self {
        Self { by: By::Home }
    }

    /// The place of the routes from one switch to a port of another among `places`, at least one.
    #[inline]
    pub fn of(self, source: usize, home: usize, port: PortNum, places: usize) -> usize {
        let switch = match self.by {
            By::Source => source,
            By::Home => home,
            By::Ends => {
                let ends = (source as u64) << 40 | (home as u64) << 8 | u64::from(port.get());
                return Rng::new(ends).below(places);
            }
        };
        // The golden ratio scatters multiples evenly (Knuth, volume 3, section 6.4).
        let scattered = (switch as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (scattered >> 40) as usize % places
    }

    /// The layer of such routes among those of a mask, which must not be empty.
    #[inline]
    pub fn pick(self, source: usize, home: usize, port: PortNum, mut layers: u16) -> u8 {
        let place = self.of(source, home, port, layers.count_ones() as usize);
        if layers & layers.wrapping_add(1) == 0 {
            // All up to the last one.
            return place as u8;
        }
        for _ in 0..place {
            layers &= layers - 1;
        }
        layers.trailing_zeros() as u8
    }
}

/// Splits the fullest of `used` layers until `budget` are in use. `layers` has a row per destination
/// with a layer per source switch, [`Tables::NO_LAYER`] where no route starts. O(entries).
pub fn split(fabric: &Fabric, graph: &Graph, layers: &mut [u8], used: usize, budget: usize) {
    if used >= budget {
        return;
    }
    let switches = graph.switches();
    let parts = parts_of(graph, layers, used, budget);
    let turn = Turn::new(fabric);
    for (dest, row) in layers.chunks_mut(switches).enumerate() {
        let (home, port) = (fabric.home(DestId::at(dest)).index(), fabric.last_port(DestId::at(dest)));
        for (source, layer) in row.iter_mut().enumerate().filter(|(_, l)| **l != Tables::NO_LAYER) {
            let parts = &parts[usize::from(*layer)];
            *layer = parts[turn.of(source, home, port, parts.len())];
        }
    }
}

/// Tables that use fewer layers than are allowed, split over all of them. O(entries).
pub fn spread_over(fabric: &Fabric, graph: &Graph, tables: Tables, budget: LayerBudget) -> Tables {
    let (used, switches) = (usize::from(tables.layers_used()), fabric.switches().len());
    tables.edited(|_, layers| {
        split(fabric, graph, layers, used, usize::from(budget.get()));
        for d in fabric.dest_ids() {
            let own = &mut layers[d.index() * switches + fabric.home(d).index()];
            *own = if *own == Tables::NO_LAYER { Tables::NO_LAYER } else { 0 };
        }
    })
}

/// The layers below `budget` that the routes of each of `used` layers may be split over. `layers` as in [`split`].
/// O(entries).
pub fn parts_of(graph: &Graph, layers: &[u8], used: usize, budget: usize) -> Vec<Vec<u8>> {
    let mut routes = vec![0u64; used];
    for row in layers.chunks(graph.switches()) {
        for (layer, terminals) in row.iter().zip(graph.terminals()).filter(|(l, _)| **l != Tables::NO_LAYER) {
            routes[usize::from(*layer)] += u64::from(*terminals);
        }
    }
    parts(&routes, budget)
}

/// The layers, below `budget`, that the routes of each layer may be split over, itself first: each
/// further one goes to the layer whose parts are largest. O(budget × layers).
fn parts(routes: &[u64], budget: usize) -> Vec<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = (0..routes.len() as u8).map(|l| vec![l]).collect();
    for next in routes.len()..budget {
        let size = |l: &usize| routes[*l] / parts[*l].len() as u64;
        // The first of several.
        let Some(fullest) = (0..routes.len()).rev().max_by_key(size) else { break };
        parts[fullest].push(next as u8);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn the_fullest_layers_get_most_parts() {
        assert_eq!(parts(&[70, 29, 1], 8), [vec![0, 3, 4, 6, 7], vec![1, 5], vec![2]]);
        assert_eq!(parts(&[4, 4], 3), [vec![0, 2], vec![1]]);
        assert_eq!(parts(&[4, 4], 2), [vec![0], vec![1]]);
    }

    #[test]
    fn a_pick_is_one_of_the_mask_and_all_are_picked() {
        for by in [By::Source, By::Home, By::Ends] {
            let turn = Turn { by };
            let mut count = [0; 8];
            (0..3000).for_each(|n| {
                count[usize::from(turn.pick(n % 1000, n % 999, PortNum::ZERO, 0b1010_0010))] += 1
            });
            assert!(count.iter().all(|n| [0..1, 900..1100].iter().any(|r| r.contains(n))), "{count:?}");
            assert_eq!(count.iter().sum::<i32>(), 3000);
        }
    }

    /// As the columns of a grid, whose switches would else share one layer.
    #[test]
    fn switches_at_equal_distances_have_different_layers() {
        let turn = Turn { by: By::Source };
        for distance in [4, 6, 8, 16, 96] {
            let mut count = [0; 4];
            (0..48).for_each(|i| count[turn.of(i * distance, 0, PortNum::ZERO, 4)] += 1);
            assert!(count.iter().all(|n| (10..=14).contains(n)), "{distance}: {count:?}");
        }
    }

    #[test]
    fn parts_hold_routes_of_one_layer_only_and_equally_many() {
        let fabric = generate("torus:1000,hosts=1").unwrap();
        let mut layers: Vec<u8> = (0..2_000_000).map(|at| u8::from(at % 1000 == at / 1000)).collect();
        layers[1_999_999] = Tables::NO_LAYER;
        for budget in 4..=8 {
            let mut split_up = layers.clone();
            split(&fabric, &Graph::new(&fabric), &mut split_up, 2, budget);
            let mut count = [0; 8];
            for (old, new) in layers.iter().zip(&split_up) {
                assert_eq!((*old == Tables::NO_LAYER, *old == 1), (*new == Tables::NO_LAYER, *new == 1));
                if *new != Tables::NO_LAYER {
                    count[usize::from(*new)] += 1;
                }
            }
            // All but those of layer 1, within 4 %: which part is up to the source.
            let even = 1_998_999 / (budget - 1);
            let parts = (0..budget).filter(|part| *part != 1);
            assert!(parts.map(|part| count[part]).all(|n: usize| n.abs_diff(even) <= even / 25), "{count:?}");
        }
    }
}
