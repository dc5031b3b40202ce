//! The switches of a tree by level: what a destination's routes put on the channels, found in one pass.

use super::net::{NONE, Net};

/// The switches of a tree, by level.
pub(super) struct Climb {
    /// Leaves first, tops last.
    pub(super) switches: Vec<Vec<u32>>,
    levels: Vec<u32>,
}

impl Climb {
    /// `levels` says how far above the hosts each switch is.
    pub(super) fn new(levels: &[u32]) -> Self {
        let height = levels.iter().copied().max().unwrap_or(0);
        let at = |level| (0..levels.len()).filter(|s| levels[*s] == level).map(|s| s as u32).collect();
        Self { switches: (0..=height).map(at).collect(), levels: levels.to_vec() }
    }

    /// Where a switch forwards to.
    #[inline]
    fn next(net: &Net, row: &[u8], switch: usize) -> Option<usize> {
        (row[switch] != NONE).then(|| net.to(net.channel(switch, row[switch])))
    }

    /// Whether a cable leads up.
    #[inline]
    pub(super) fn is_up(&self, from: usize, to: usize) -> bool {
        self.levels[to] > self.levels[from]
    }

    /// All layers for a turn of a route that climbs and then descends, as [`fitting`](super::search::fitting).
    #[inline]
    pub(super) fn turns<'a>(&'a self, net: &'a Net, all: u16) -> impl Fn(usize, usize, u8) -> u16 + 'a {
        #[inline(always)]
        move |u, coming, leaving| {
            let is_back = net.back_slot[coming] == leaving;
            let is_down = self.is_up(u, net.from(coming));
            let climbs_again = is_down && self.is_up(u, net.to(net.channel(u, leaving)));
            if is_back || climbs_again { 0 } else { all }
        }
    }

    /// Adds to the flow of each switch that of all behind it. `None` if not all routes in `row` over which something
    /// passes climb and then descend, else whether all others do. O(switches × levels).
    pub(super) fn gather(&self, net: &Net, home: usize, row: &[u8], flow: &mut [u32]) -> Option<bool> {
        let mut all = true;
        let tops = self.switches.len() - 1;
        for s in self.switches[..tops].iter().flatten().map(|s| *s as usize).filter(|s| *s != home) {
            match Self::next(net, row, s) {
                Some(next) if self.is_up(s, next) => flow[next] += flow[s],
                // Nothing is below a leaf.
                _ if self.levels[s] == 0 && flow[s] > 0 => return None,
                _ if net.degree(s) == 0 => {}
                _ if self.levels[s] == 0 => all = false,
                // What goes down is looked at when all that comes up is known.
                _ => {}
            }
        }
        for level in (1..=tops).rev() {
            for s in self.switches[level].iter().map(|s| *s as usize) {
                match Self::next(net, row, s) {
                    Some(next) if self.is_up(s, next) => {}
                    Some(next) if self.descends(net, home, row, s) => {
                        flow[next] += if next == home { 0 } else { flow[s] };
                    }
                    _ if flow[s] > 0 => return None,
                    _ => all = false,
                }
            }
        }
        Some(all)
    }

    /// Adds the routes of all hosts in `row` to the load of the channels, or takes them away. As [`Climb::gather`], whose
    /// sums are left in the flow; `None`, and no change, also where it `is_strict` and others do not climb and descend.
    /// O(switches × levels).
    pub(super) fn weigh(
        &self,
        (net, home, row): (&Net, usize, &[u8]),
        (flow, load): (&mut [u32], &mut [u32]),
        change: fn(u32, u32) -> u32,
        is_strict: bool,
    ) -> Option<bool> {
        flow.copy_from_slice(&net.hosts);
        let all = self.gather(net, home, row, flow).filter(|all| *all || !is_strict)?;
        for (v, flow) in flow.iter().enumerate().filter(|(v, flow)| *v != home && **flow > 0) {
            let c = net.channel(v, row[v]);
            load[c] = change(load[c], *flow);
        }
        Some(all)
    }

    /// Whether the route of a switch leads down to another, and nowhere up.
    #[inline]
    pub(super) fn descends(&self, net: &Net, home: usize, row: &[u8], mut switch: usize) -> bool {
        while switch != home {
            match Self::next(net, row, switch) {
                Some(next) if !self.is_up(switch, next) => switch = next,
                _ => return false,
            }
        }
        true
    }

    /// Whether the route of a switch leads to one, down or up and down.
    #[inline]
    pub(super) fn arrives(&self, net: &Net, home: usize, row: &[u8], mut switch: usize) -> bool {
        while switch != home {
            match Self::next(net, row, switch) {
                Some(next) if self.is_up(switch, next) => switch = next,
                _ => return self.descends(net, home, row, switch),
            }
        }
        true
    }
}
