//! VLs for lanes: a lane that is proved free of cycles is several VLs, if there are so many.
//!
//! By SL, which keeps packets apart that wait for different hosts: programs that ask are told one. Whichever VL of
//! its lane a packet is on, it is on that lane, so that nothing has to be proved of SLs. Who sends on SL 0 is
//! spread over the VLs of a lane by in port.

use crate::model::lanes::SLS;
use crate::model::{Fabric, LaneMap, LaneRow, LayerBudget, PortNum, PortPeer, SwitchId, Vl};
use crate::route::graph::Graph;

/// How many VLs there are for each lane.
pub(super) struct Vls {
    lanes: u8,
    /// VLs of each.
    parts: u8,
}

impl Vls {
    /// All VLs, shared out evenly.
    pub(super) fn new(vls: LayerBudget, lanes: u8) -> Self {
        Self { lanes, parts: (vls.get() / lanes).max(1) }
    }

    /// The map with these lanes behind turns, by channel in of the graph and slot out.
    pub(super) fn map(&self, fabric: &Fabric, graph: &Graph, behind: impl Fn(usize, u8) -> u8) -> LaneMap {
        let mut channel = vec![0; graph.channels()];
        (0..graph.channels()).for_each(|c| channel[graph.id(c).index()] = c);
        LaneMap::fill(fabric, |s, from, to| {
            let rank = rank(fabric, s, from);
            let lane = match (fabric.peer(s, from), fabric.peer(s, to)) {
                (Some(PortPeer::Channel(back)), Some(PortPeer::Channel(next))) => {
                    let next = channel[next.index()];
                    behind(channel[back.reverse().index()], graph.slot_at(s.index(), next))
                }
                // The last cable, behind which nothing waits.
                (_, Some(PortPeer::Terminal(_))) => return [Vl::at(rank % (self.lanes * self.parts)); SLS],
                _ => 0,
            };
            row(lane, self.parts, rank)
        })
    }
}

/// The VLs of a lane by SL, of packets that came by the in port of this rank. On lane 0, where packets start, and on the
/// others SLs choose in different ways: so two that share a VL on one are apart on the other. There are as
/// many ways as two lanes have VLs.
pub(super) fn row(lane: u8, parts: u8, rank: u8) -> LaneRow {
    std::array::from_fn(|sl| {
        let part = match (sl as u8 % (2 * parts), lane) {
            (0, _) => rank,
            (told, 0) => told - 1,
            (told, _) => told - 1 + (told - 1) / parts,
        };
        Vl::at(lane * parts + part % parts)
    })
}

/// Position of a port among those of its kind: terminals, cables to switches.
pub(super) fn rank(fabric: &Fabric, s: SwitchId, port: PortNum) -> u8 {
    let same = match fabric.peer(s, port) {
        Some(PortPeer::Channel(c)) => fabric.out(s).iter().position(|other| *other == c),
        Some(PortPeer::Terminal(t)) => fabric.attached(s).iter().position(|other| *other == t),
        _ => None,
    };
    same.unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_its_own_vls_whatever_the_sl() {
        for (lane, parts, rank) in (0..2).flat_map(|l| (1..8).map(move |p| (l, p, p + 2))) {
            let row = row(lane, parts, rank);
            assert!(row.iter().all(|vl| vl.get() / parts == lane));
            // Those who ask may be told any VL of a lane.
            let mut vls: Vec<u8> = row[1..].iter().map(|vl| vl.get()).collect();
            vls.sort_unstable();
            vls.dedup();
            assert_eq!(vls.len(), usize::from(parts));
        }
    }

    #[test]
    fn who_shares_a_vl_on_the_first_lane_is_apart_on_the_next() {
        let (first, next) = (row(0, 4, 0), row(1, 4, 0));
        for (a, b) in (1..8).flat_map(|a| (1..a).map(move |b| (a, b))) {
            assert!(first[a] != first[b] || next[a] != next[b], "SL {a} and {b}");
        }
    }
}
