//! The closure in a hand-off file: by which ports each switch may forward what goes to each home switch.
//!
//! Written for the next epoch, which must choose inside it; who programs switches need not read it.

use std::collections::BTreeMap;

use super::sections::Kind;
use super::{HandoffError, RECORD, little_endian};
use crate::model::{ChannelId, Closure, Fabric, Guid, SwitchId};

/// A decoded closure, by the switches, ports and cables of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextHops {
    switches: usize,
    /// Bytes of a set: one bit per port, port 0 included.
    bytes: usize,
    /// `sets[(home * switches + switch) * bytes ..][..bytes]`: bit `port % 8` of byte `port / 8`.
    sets: Vec<u8>,
    /// Both ends of each cable, as (switch, port).
    cables: BTreeMap<(usize, u8), (usize, u8)>,
}

/// Bytes of a set, if a switch has at most so many ports.
fn bytes_of(ports: u8) -> usize {
    usize::from(ports) / 8 + 1
}

/// The sets of all homes and switches. O(switches² × ports).
pub(super) fn encode(fabric: &Fabric, closure: &Closure) -> Vec<u8> {
    let switches = fabric.switches().len();
    let bytes = bytes_of(fabric.switches().iter().map(|s| s.ports).max().unwrap_or(0));
    let mut sets = vec![0; switches * switches * bytes];
    for home in fabric.switch_ids() {
        for s in fabric.switch_ids() {
            let at = (home.index() * switches + s.index()) * bytes;
            for c in closure.ways(fabric, s, home) {
                let port = fabric.channel(c).from_port.get();
                sets[at + usize::from(port / 8)] |= 1 << (port % 8);
            }
        }
    }
    sets
}

/// Reads the sets; `switches` and `cables` are the records of the file.
pub(super) fn decode(switches: &[u8], cables: &[u8], sets: &[u8]) -> Result<NextHops, HandoffError> {
    let records = switches.chunks_exact(RECORD);
    let count = records.len();
    let bytes = bytes_of(records.map(|record| record[8]).max().unwrap_or(0));
    if sets.len() != count * count * bytes {
        let what = "it is longer or shorter than the switches want";
        return Err(HandoffError::Section { kind: Kind::NextHops as u64, what });
    }
    let mut ends = BTreeMap::new();
    for cable in cables.chunks_exact(RECORD) {
        let end = |at: usize, port: usize| (little_endian(&cable[at..at + 4]) as usize, cable[port]);
        let (from, to) = (end(0, 8), end(4, 9));
        ends.extend([(from, to), (to, from)]);
    }
    Ok(NextHops { switches: count, bytes, sets: sets.to_vec(), cables: ends })
}

impl NextHops {
    fn allows(&self, home: usize, switch: usize, port: u8) -> bool {
        let at = (home * self.switches + switch) * self.bytes + usize::from(port / 8);
        usize::from(port / 8) < self.bytes && self.sets[at] >> (port % 8) & 1 == 1
    }

    /// The next hops over cables that a fabric has as well, between the same ports of the same switches,
    /// found by the GUIDs of the file's switches. O(switches² × ports).
    pub fn on(&self, fabric: &Fabric, switches: &[Guid]) -> Closure {
        let find = |s: SwitchId| switches.binary_search(&fabric.switch(s).guid).ok();
        let cable = |old: usize, c: ChannelId| {
            let c = fabric.channel(c);
            let (near, far) = ((old, c.from_port.get()), (find(c.to)?, c.to_port.get()));
            (self.cables.get(&near) == Some(&far)).then_some(near.1)
        };
        Closure::translated(fabric, find, cable, |s, home, port| self.allows(home, s, port))
    }
}
