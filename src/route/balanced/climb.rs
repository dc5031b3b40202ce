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
    /// descend. O(switches).
    pub(super) fn gather(&self, net: &Net, home: usize, row: &[u8], flow: &mut [u32]) -> bool {
        let next = |v: usize| net.to(net.channel(v, row[v]));
        for s in self.leaves.iter().map(|s| *s as usize).filter(|s| *s != home) {
            if row[s] == NONE {
                return false;
            }
            flow[next(s)] += flow[s];
        }
        for m in self.middles.iter().map(|m| *m as usize) {
            if row[m] == NONE {
                return false;
            }
            let above = next(m);
            if self.is_top(above) {
                flow[above] += flow[m];
            } else if above != home {
                return false;
            }
        }
        for t in self.tops.iter().map(|t| *t as usize) {
            if row[t] == NONE || next(next(t)) != home {
                return false;
            }
            flow[next(t)] += flow[t];
        }
        true
    }

    /// Changes the loads by the routes of all hosts to a switch, whose sums are left in `flow`; false, and no
    /// change, if they do not climb and then descend. O(switches).
    pub(super) fn count(
        &self,
        net: &Net,
        home: usize,
        row: &[u8],
        flow: &mut [u32],
        load: &mut [u32],
        change: fn(u32, u32) -> u32,
    ) -> bool {
        flow.copy_from_slice(&net.hosts);
        if !self.gather(net, home, row, flow) {
            return false;
        }
        for (v, flow) in flow.iter().enumerate().filter(|(v, flow)| *v != home && **flow > 0) {
            let c = net.channel(v, row[v]);
            load[c] = change(load[c], *flow);
        }
        true
    }
}
