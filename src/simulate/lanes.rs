//! A lane map as the simulator looks it up.

use super::net::Net;
use super::router::Header;
use crate::model::{Fabric, LaneMap, PortNum};

/// Lanes by switch, in port, out port and class of SLs. A packet's header carries the port by which
/// it came ([`Header::state`]) and the class of its SL ([`Header::phase`]).
pub(super) struct TurnLanes {
    /// `lanes[start[switch] + (in * width[switch] + out) * classes + class]`.
    lanes: Vec<u8>,
    start: Vec<u32>,
    width: Vec<u32>,
    classes: u32,
    class: [u8; 16],
    /// Lanes there are: an adapter sends on VL = SL, modulo these.
    vls: u8,
}

impl TurnLanes {
    /// O(sum over switches of ports²).
    pub(super) fn new(fabric: &Fabric, net: &Net, map: &LaneMap) -> Self {
        let class = map.classes();
        let classes = u32::from(class.iter().max().map_or(1, |c| c + 1));
        let width: Vec<u32> = fabric.switches().iter().map(|s| u32::from(s.ports) + 1).collect();
        let (mut start, mut lanes) = (Vec::with_capacity(net.switches()), Vec::new());
        for s in fabric.switch_ids() {
            start.push(lanes.len() as u32);
            let ports = || (0..=fabric.switch(s).ports).map(PortNum::at);
            for (from, to) in ports().flat_map(|from| ports().map(move |to| (from, to))) {
                let row = map.row(s, from, to);
                let of_class = |c: u32| class.iter().position(|k| u32::from(*k) == c).unwrap_or(0);
                lanes.extend((0..classes).map(|c| row[of_class(c)].get()));
            }
        }
        Self { lanes, start, width, classes, class, vls: map.vls() }
    }

    /// Sets up a header; the lane from the terminal to its switch.
    pub(super) fn inject(&self, header: &mut Header, sl: u8, net: &Net) -> u8 {
        header.state = net.ports(net.injection(header.src))[1].into();
        header.phase = self.class[usize::from(sl & 15)];
        sl % self.vls
    }

    /// The lane of a packet at a switch that goes on by `link`.
    #[inline]
    pub(super) fn lane(&self, at: u32, header: &Header, link: u32, net: &Net) -> u8 {
        let out = u32::from(net.ports(link)[0]);
        let turn = header.state * self.width[at as usize] + out;
        let class = u32::from(header.phase);
        self.lanes[(self.start[at as usize] + turn * self.classes + class) as usize]
    }
}
