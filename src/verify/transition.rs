//! The time of change: some switches forward by the tables that were in force, others by the new
//! ones already.
//!
//! Two tables that are free of deadlock need not be so together, and a packet may do what neither has:
//! arrive by a port of the one and leave by a port of the other. Until the last switch is programmed, a
//! layer is safe for sure if all that mixing may bring about has no cycle on it.

use std::fmt;

use rayon::prelude::*;
use serde::Serialize;

use super::cycles::{Dependencies, Turns};
use super::layers::bit;
use super::tasks;
use super::trees::{LOST, NO_CHANNEL, Tree, Trees};
use crate::model::{DestId, Fabric, Tables};

/// What mixing two tables may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Transition {
    /// Layers that routes of either use between switches.
    pub layers: u8,
    /// Those among them on which the dependencies of any mixture close a cycle.
    pub cyclic: u8,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cyclic {
            0 => f.write_str("no cycle on any layer while switches change"),
            cyclic => write!(f, "cycles on {cyclic} of {} layers while switches change", self.layers),
        }
    }
}

/// Judges the change from tables in force to new ones: at each switch a packet follows the one or the other,
/// on the layer that either gives it at its source. `None` if they are not both of this fabric.
///
/// A cycle is no deadlock yet: it takes packets that fill it while switches differ, and ends at the
/// latest when the fabric drops what waits too long. So this is for information.
///
/// O(destinations × switches × layers + layers × turns). Uses all threads, whose number changes nothing.
pub fn transition(fabric: &Fabric, before: &Tables, after: &Tables) -> Option<Transition> {
    if [before, after].iter().any(|t| t.fabric() != fabric.fingerprint()) {
        return None;
    }
    let turns = Turns::new(fabric);
    let both = Both { before: Trees::new(fabric, before), after: Trees::new(fabric, after), turns: &turns };
    let dests: Vec<DestId> = fabric.dest_ids().collect();
    let partial = tasks(&dests).map(|dests| {
        let (mut dependencies, mut room) = (turns.none(), both.room());
        dests.iter().for_each(|d| both.mark(*d, &mut room, &mut dependencies));
        dependencies
    });
    let dependencies = partial.reduce(|| turns.none(), |a, b| a.and(&b));
    let used = dependencies.layers();
    let is_cyclic = |l: &u8| used >> l & 1 == 1 && turns.cycle(&dependencies, *l).is_some();
    let cyclic = (0..u16::BITS as u8).filter(is_cyclic).count() as u8;
    Some(Transition { layers: used.count_ones() as u8, cyclic })
}

struct Both<'a> {
    before: Trees<'a>,
    after: Trees<'a>,
    turns: &'a Turns<'a>,
}

/// Room for one destination.
struct Room {
    before: Tree,
    after: Tree,
    /// Layers of the packets that may pass each switch.
    passing: Vec<u16>,
}

impl Room {
    /// Channels by which a switch may forward; none at home.
    fn ways(&self, s: usize) -> impl Iterator<Item = u32> + use<> {
        let (old, new) = (self.before.next[s], self.after.next[s]);
        [old, if new == old { NO_CHANNEL } else { new }].into_iter().filter(|c| *c != NO_CHANNEL)
    }
}

impl Both<'_> {
    fn room(&self) -> Room {
        let passing = vec![0; self.before.fabric.switches().len()];
        Room { before: self.before.room(), after: self.after.room(), passing }
    }

    /// Marks what packets to a destination may depend on.
    fn mark(&self, d: DestId, room: &mut Room, dependencies: &mut Dependencies) {
        let (fabric, to) = (self.before.fabric, &self.before.to);
        self.before.trace(d, &mut room.before);
        self.after.trace(d, &mut room.after);
        let layers = [&self.before, &self.after].map(|trees| trees.tables.layers_to(d));
        for s in fabric.switch_ids() {
            let own = bit(layers[0][s.index()]) | bit(layers[1][s.index()]);
            room.passing[s.index()] = if fabric.attached(s).is_empty() { 0 } else { own };
        }
        // From the far end to home by the tables in force, until nothing more is passed on.
        let tree = &mut room.before;
        tree.order.extend((0..tree.depth.len() as u32).filter(|s| tree.depth[*s as usize] == LOST));
        let mut is_done = false;
        while !std::mem::replace(&mut is_done, true) {
            for s in room.before.order.iter().rev().map(|s| *s as usize) {
                for next in room.ways(s).map(|c| to[c as usize] as usize) {
                    if room.passing[s] & !room.passing[next] != 0 {
                        room.passing[next] |= room.passing[s];
                        is_done = false;
                    }
                }
            }
        }
        for (s, layers) in room.passing.iter().enumerate().filter(|(_, layers)| **layers != 0) {
            for c1 in room.ways(s) {
                let next = to[c1 as usize] as usize;
                room.ways(next).for_each(|c2| self.turns.mark(dependencies, c1, c2, *layers));
            }
        }
    }
}
