//! The switches of a tree by level: what a destination's routes put on the channels, found in one pass.

use super::net::{NONE, Net};

/// The switches of a tree of two or three levels, by level.
pub(super) struct Climb {
    pub(super) leaves: Vec<u32>,
    pub(super) middles: Vec<u32>,
    tops: Vec<u32>,
    levels: Vec<u32>,
}

impl Climb {
    /// `levels` says how far above the hosts each switch is.
    pub(super) fn new(levels: &[u32]) -> Self {
        let at = |level| (0..levels.len()).filter(|s| levels[*s] == level).map(|s| s as u32).collect();
        Self { leaves: at(0), middles: at(1), tops: at(2), levels: levels.to_vec() }
    }

    /// Whether a switch is one that joins pods.
    pub(super) fn is_top(&self, switch: usize) -> bool {
        self.levels[switch] == 2
    }

    /// Adds to the flow of each switch that of all behind it; false if not all routes in `row` climb and then
    /// descend: where something passes, or everywhere if it `is_strict`. O(switches).
    pub(super) fn gather(
        &self,
        net: &Net,
        home: usize,
        row: &[u8],
        flow: &mut [u32],
        is_strict: bool,
    ) -> bool {
        let next = |v: usize| net.to(net.channel(v, row[v]));
        for s in self.leaves.iter().map(|s| *s as usize).filter(|s| *s != home) {
            if row[s] != NONE {
                flow[next(s)] += flow[s];
            } else if is_strict || flow[s] > 0 {
                return false;
            }
        }
        for m in self.middles.iter().map(|m| *m as usize) {
            if row[m] != NONE && self.is_top(next(m)) {
                flow[next(m)] += flow[m];
            } else if (is_strict || flow[m] > 0) && (row[m] == NONE || next(m) != home) {
                return false;
            }
        }
        for t in self.tops.iter().map(|t| *t as usize) {
            if self.descends(net, home, row, t) {
                flow[next(t)] += flow[t];
            } else if is_strict || flow[t] > 0 {
                return false;
            }
        }
        true
    }

    /// Whether the route of a top leads down to a switch.
    #[inline]
    fn descends(&self, net: &Net, home: usize, row: &[u8], top: usize) -> bool {
        let next = |v: usize| (row[v] != NONE).then(|| net.to(net.channel(v, row[v])));
        next(top).and_then(next) == Some(home)
    }

    /// Whether the route of a switch that is no leaf leads to one, down or up and down.
    #[inline]
    pub(super) fn arrives(&self, net: &Net, home: usize, row: &[u8], switch: usize) -> bool {
        if self.is_top(switch) || row[switch] == NONE {
            return self.descends(net, home, row, switch);
        }
        let above = net.to(net.channel(switch, row[switch]));
        above == home || (self.is_top(above) && self.descends(net, home, row, above))
    }
}
