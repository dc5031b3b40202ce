//! What tables in force lead over, on the fabric as it is now: what must stay while new ones come.
//!
//! A change in two steps. First switches get the lanes of turns that no packet takes yet, and no other next hops: who
//! was cut off by the loss waits. Then all get the new tables. In the first step every packet goes by the old tables, on
//! the lanes of before. In the second one the old next hops by which nobody arrives are gone, and what is new may use any
//! turn on the lane that suits.

use super::terrain::Terrain;
use crate::model::{Closure, Fabric, SwitchId, Tables, Wiring};
use crate::route::cdg::Dependencies;
use crate::route::graph::Graph;
use crate::route::ways::bits;

/// The next hops of tables, of packets from where some start.
pub(super) struct InForce {
    /// Next hops of all destinations.
    pub(super) all: Closure,
    /// Those by which packets arrive.
    pub(super) alive: Closure,
}

/// What is known of a switch while routes to a destination are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unknown,
    Arrives,
    IsLost,
}

impl InForce {
    /// Of tables on the fabric of now; next hops outside of `within` are left out. O(destinations × switches).
    pub(super) fn new(terrain: &Terrain<'_>, fabric: &Fabric, tables: &Tables, within: &Closure) -> Self {
        let (n, wiring) = (fabric.switches().len(), fabric.wiring());
        let mut slot_of = vec![0; fabric.channels().len()];
        for s in fabric.switch_ids() {
            fabric.out(s).iter().enumerate().for_each(|(slot, c)| slot_of[c.index()] = slot);
        }
        let mut hops = Self { all: Closure::empty(fabric), alive: Closure::empty(fabric) };
        for d in fabric.dest_ids() {
            let home = fabric.home(d);
            let ports = tables.ports_to(d);
            let mut fate = vec![Fate::Unknown; n];
            fate[home.index()] = Fate::Arrives;
            for start in (0..n).filter(|s| terrain.starts(home.index(), *s)) {
                for s in follow(&wiring, ports, start, &mut fate) {
                    let slot = slot_of[wiring.channel(s, ports[s]) as usize];
                    if !within.allows(SwitchId::at(s), home, slot) {
                        continue;
                    }
                    hops.all.set(SwitchId::at(s), home, slot, true);
                    if fate[s] == Fate::Arrives {
                        hops.alive.set(SwitchId::at(s), home, slot, true);
                    }
                }
            }
        }
        hops
    }

    /// Turns between next hops to one home, by number. O(homes × next hops × ports).
    pub(super) fn turns(&self, graph: &Graph) -> Vec<bool> {
        let numbers = Dependencies::new(graph);
        let mut taken = vec![false; numbers.len()];
        for home in 0..graph.switches() {
            let mut is_way = vec![false; graph.channels()];
            next_hops(graph, &self.all, home).for_each(|c| is_way[c] = true);
            for from in next_hops(graph, &self.all, home) {
                let behind = numbers.of(from).zip(graph.out(graph.to(from)));
                behind.filter(|(_, to)| is_way[*to]).for_each(|(turn, _)| taken[turn] = true);
            }
        }
        taken
    }
}

/// Follows the route from a switch as far as it is not known, and notes its fate; the switches on it that have a next
/// hop.
fn follow(wiring: &Wiring, ports: &[u8], start: usize, fate: &mut [Fate]) -> Vec<usize> {
    let (mut way, mut at) = (Vec::new(), start);
    // Whoever comes back to a switch of the way is lost.
    let end = loop {
        if fate[at] != Fate::Unknown {
            break fate[at];
        }
        fate[at] = Fate::IsLost;
        let c = wiring.channel(at, ports[at]);
        if c == Wiring::NONE {
            break Fate::IsLost;
        }
        way.push(at);
        at = wiring.to[c as usize] as usize;
    };
    way.iter().for_each(|s| fate[*s] = end);
    way
}

/// The next hops to a home.
pub(super) fn next_hops<'a>(
    graph: &'a Graph,
    sets: &'a Closure,
    home: usize,
) -> impl Iterator<Item = usize> + 'a {
    (0..graph.switches()).flat_map(move |s| {
        let words = sets.slots(SwitchId::at(s), SwitchId::at(home)).iter().enumerate();
        words.flat_map(move |(word, slots)| {
            bits(*slots).map(move |slot| graph.out(s).start + 64 * word + slot)
        })
    })
}

/// Which turns are so, by number. O(turns).
pub(super) fn turns_that(graph: &Graph, is_so: impl Fn(usize, usize) -> bool) -> Vec<bool> {
    let numbers = Dependencies::new(graph);
    let mut so = vec![false; numbers.len()];
    for from in 0..graph.channels() {
        for (turn, to) in numbers.of(from).zip(graph.out(graph.to(from))) {
            so[turn] = is_so(from, to);
        }
    }
    so
}
