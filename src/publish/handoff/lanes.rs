//! The lane map in a hand-off file: which VLs there are by SL, and which of them each turn has.

use super::sections::Kind;
use super::{HandoffError, RECORD, little_endian};
use crate::model::lanes::{LaneRow, SLS};
use crate::model::{Fabric, Guid, LaneMap, PortNum, PortPeer, SwitchId, Vl};

/// A decoded lane map: positions as in [`LaneMap`], by the switches of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lanes {
    rows: Vec<LaneRow>,
    /// Ports of each switch, port 0 included.
    width: Vec<usize>,
    /// First turn of each switch.
    start: Vec<usize>,
    /// Row of each turn.
    index: Vec<u16>,
}

/// Rows and index of a map, as bytes. What comes by a port that leads nowhere has the lanes of what
/// starts at the switch itself: a host that is plugged in there sends by the switch's own routes.
pub(super) fn encode(fabric: &Fabric, map: &LaneMap) -> [Vec<u8>; 2] {
    let rows = map.rows().iter().flatten().map(|vl| vl.get()).collect();
    let mut index = Vec::new();
    for s in fabric.switch_ids() {
        let ports = || (0..=fabric.switch(s).ports).map(PortNum::at);
        for from in ports() {
            let leads = from == PortNum::ZERO || fabric.peer(s, from).is_some_and(|p| p != PortPeer::Nothing);
            let from = if leads { from } else { PortNum::ZERO };
            index.extend(ports().flat_map(|to| map.row_index(s, from, to).to_le_bytes()));
        }
    }
    [rows, index]
}

/// Reads rows and index; `switches` are the records of the switches.
pub(super) fn decode(switches: &[u8], rows: &[u8], index: &[u8]) -> Result<Lanes, HandoffError> {
    let wrong = |kind: Kind, what| HandoffError::Section { kind: kind as u64, what };
    if rows.is_empty() || rows.len() % SLS != 0 || rows.len() / SLS > usize::from(u16::MAX) {
        return Err(wrong(Kind::LaneRows, "rows have 16 bytes, and there are 1 to 65535"));
    }
    let vl = |b: &u8| Vl::new(u64::from(*b)).map_err(|_| wrong(Kind::LaneRows, "a VL is above 14"));
    let vls = rows.iter().map(vl).collect::<Result<Vec<Vl>, _>>()?;
    let rows: Vec<LaneRow> = vls.chunks_exact(SLS).map(|row| std::array::from_fn(|sl| row[sl])).collect();
    let width: Vec<usize> = switches.chunks_exact(RECORD).map(|record| usize::from(record[8]) + 1).collect();
    let mut turns = 0;
    let mut start = Vec::with_capacity(width.len());
    for w in &width {
        start.push(turns);
        turns += w * w;
    }
    if index.len() != 2 * turns {
        return Err(wrong(Kind::LaneIndex, "it is longer or shorter than the switches want"));
    }
    let index: Vec<u16> = index.chunks_exact(2).map(|b| little_endian(b) as u16).collect();
    if index.iter().any(|i| usize::from(*i) >= rows.len()) {
        return Err(wrong(Kind::LaneIndex, "there is no such row"));
    }
    Ok(Lanes { rows, width, start, index })
}

impl Lanes {
    /// The row of a turn at a switch of the file; the first if it has no such ports.
    fn row(&self, switch: usize, from: PortNum, to: PortNum) -> &LaneRow {
        let (width, from, to) = (self.width[switch], usize::from(from.get()), usize::from(to.get()));
        let known = from < width && to < width;
        let at = if known { usize::from(self.index[self.start[switch] + from * width + to]) } else { 0 };
        &self.rows[at]
    }

    /// The map on a fabric, found by the GUIDs of the file's switches; VL 0 at switches that the file
    /// does not have. O(sum over switches of ports²).
    pub fn on(&self, fabric: &Fabric, switches: &[Guid]) -> LaneMap {
        let find = |s: SwitchId| switches.binary_search(&fabric.switch(s).guid).ok();
        let found: Vec<Option<usize>> = fabric.switch_ids().map(find).collect();
        LaneMap::fill(fabric, |s, from, to| {
            found[s.index()].map_or([Vl::ZERO; SLS], |at| *self.row(at, from, to))
        })
    }
}
