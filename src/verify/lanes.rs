//! On which VL a packet is behind each turn: VL = SL, or what lane maps say.

use super::cycles::Turns;
use crate::model::lanes::SLS;
use crate::model::{Fabric, LaneMap, LaneRow, PortNum, SwitchId};

/// Lanes of packets, by columns: SLs that the maps treat alike share one.
///
/// Without a map there is one column, in which each SL stays on its own VL.
pub(super) enum Lanes {
    /// VL = SL, and SL 15 has none: VL 15 is that of management, no switch takes data there.
    Layers,
    /// What maps say, each of which may be in force at any switch. Where there is none, SL 15 has no VL, either.
    Mapped(Mapped),
}

/// Tables of [`Lanes`], all as bits of VLs.
pub(super) struct Mapped {
    columns: usize,
    /// SLs of each column, as bits.
    sls: Vec<u16>,
    /// `behind[turn * columns + column]`.
    behind: Vec<u16>,
    /// `hosts[channel * columns + column]`: for packets that start at terminals of its sender.
    hosts: Vec<u16>,
    /// The same for packets that start at the sender itself.
    own: Vec<u16>,
}

/// VLs that carry data, as bits.
const DATA_VLS: u16 = 0x7FFF;

/// Where packets start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Start {
    /// SLs of packets from terminals, as bits.
    pub(super) hosts: u16,
    /// SLs of packets from the switch itself.
    pub(super) own: u16,
}

impl Lanes {
    /// For maps each of which may be in force at any switch; `None` is VL = SL.
    /// O(turns × columns × maps).
    pub(super) fn new(turns: &Turns<'_>, maps: &[Option<&LaneMap>]) -> Self {
        Self::taken(turns, maps, &EACH)
    }

    /// The same with VLs taken together, if there are maps that treat SLs differently.
    pub(super) fn together(turns: &Turns<'_>, maps: &[Option<&LaneMap>]) -> Option<(Self, Together)> {
        let as_one = any_together(maps)?;
        Some((Self::taken(turns, maps, &as_one), as_one))
    }

    fn taken(turns: &Turns<'_>, maps: &[Option<&LaneMap>], as_one: &Together) -> Self {
        if maps.iter().all(Option::is_none) {
            return Self::Layers;
        }
        let fabric = turns.fabric;
        let column_of = columns(maps, as_one);
        let columns = usize::from(column_of.iter().max().map_or(1, |c| c + 1));
        let sl_of: Vec<usize> =
            (0..columns).filter_map(|c| column_of.iter().position(|k| usize::from(*k) == c)).collect();
        let vls = |s: SwitchId, from: PortNum, to: PortNum, column: usize| {
            let sl = sl_of[column];
            let vl = |map: &Option<&LaneMap>| map.map_or(sl as u8, |m| m.row(s, from, to)[sl].get());
            maps.iter().fold(0u16, |all, map| all | 1 << as_one[usize::from(vl(map))]) & DATA_VLS
        };
        let mut mapped = Mapped {
            columns,
            sls: vec![0; columns],
            behind: vec![0; turns.len() * columns],
            hosts: vec![0; fabric.channels().len() * columns],
            own: vec![0; fabric.channels().len() * columns],
        };
        for (sl, column) in column_of.iter().enumerate() {
            mapped.sls[usize::from(*column)] |= 1 << sl;
        }
        for c in fabric.channel_ids() {
            let (first, at) = (*fabric.channel(c), c.index() * columns);
            for column in 0..columns {
                for t in fabric.attached(first.from) {
                    let port = fabric.terminal(*t).port;
                    mapped.hosts[at + column] |= vls(first.from, port, first.from_port, column);
                }
                mapped.own[at + column] = vls(first.from, PortNum::ZERO, first.from_port, column);
                for (turn, next) in turns.from(c) {
                    let out = fabric.channel(next).from_port;
                    mapped.behind[turn * columns + column] = vls(first.to, first.to_port, out, column);
                }
            }
        }
        Self::Mapped(mapped)
    }

    /// Columns of packets.
    #[inline]
    pub(super) fn columns(&self) -> usize {
        match self {
            Self::Layers => 1,
            Self::Mapped(mapped) => mapped.columns,
        }
    }

    /// Whether packets stay on one VL.
    pub(super) fn are_layers(&self) -> bool {
        matches!(self, Self::Layers)
    }

    /// VLs behind a turn of packets that are on `vls` before it; `at` is `turn * columns + column`.
    #[inline]
    pub(super) fn pass(&self, at: usize, vls: u16) -> u16 {
        match self {
            Self::Layers => vls,
            Self::Mapped(_) if vls == 0 => 0,
            Self::Mapped(mapped) => mapped.behind[at],
        }
    }

    /// VLs on a channel of packets of a column that start at its sender.
    #[inline]
    pub(super) fn enter(&self, channel: u32, column: usize, start: Start) -> u16 {
        match self {
            Self::Layers => (start.hosts | start.own) & DATA_VLS,
            Self::Mapped(mapped) => {
                let (at, sls) = (channel as usize * mapped.columns + column, mapped.sls[column]);
                let hosts = if start.hosts & sls != 0 { mapped.hosts[at] } else { 0 };
                let own = if start.own & sls != 0 { mapped.own[at] } else { 0 };
                hosts | own
            }
        }
    }

    /// SLs of packets of a column that are on a VL where they start, as bits.
    pub(super) fn sls(&self, column: usize, vl: u8) -> u16 {
        match self {
            Self::Layers => 1 << vl,
            Self::Mapped(mapped) => mapped.sls[column],
        }
    }
}

/// By VL, the lowest one of those that are taken together with it.
///
/// Where what waits for each other is free of cycles with some VLs taken for one, it is so with each by itself: a cycle
/// of buffers would be one of these as well. So a proof may take together what SLs are told apart by.
pub(super) type Together = [u8; SLS];

/// Nothing taken together.
const EACH: Together = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// The VLs to be taken together, if there are any: see [`Lanes::together`].
pub(super) fn any_together(maps: &[Option<&LaneMap>]) -> Option<Together> {
    let maps_only: Vec<&LaneMap> = maps.iter().copied().collect::<Option<_>>()?;
    Some(together(&maps_only)).filter(|as_one| *as_one != EACH)
}

/// The VLs that a VL stands for: those that carry data of all that are taken together with it. Where none are, itself.
pub(super) fn each(as_one: Option<&Together>, vl: u8) -> impl Iterator<Item = u8> + use<'_> {
    let is_one = move |other: &u8| match as_one {
        None => *other == vl,
        Some(as_one) => DATA_VLS >> other & 1 == 1 && as_one[usize::from(*other)] == vl,
    };
    (0..SLS as u8).filter(is_one)
}

/// All VLs together on which packets of different SLs are behind one turn. O(maps × rows × SLs).
fn together(maps: &[&LaneMap]) -> Together {
    let mut as_one = EACH;
    for row in maps.iter().flat_map(|map| map.rows()) {
        for vl in row {
            let (a, b) = (as_one[usize::from(row[0].get())], as_one[usize::from(vl.get())]);
            let (low, high) = (a.min(b), a.max(b));
            as_one.iter_mut().filter(|of| **of == high).for_each(|of| *of = low);
        }
    }
    as_one
}

/// Column of each SL: those share one that are on the same VLs at every turn of every map.
fn columns(maps: &[Option<&LaneMap>], as_one: &Together) -> [u8; SLS] {
    let mut columns = [0; SLS];
    let mut count = 0;
    for sl in 0..SLS {
        let same_in = |map: &LaneMap, other: usize| {
            let vl = |row: &LaneRow, sl: usize| as_one[usize::from(row[sl].get())];
            map.rows().iter().all(|row| vl(row, other) == vl(row, sl))
        };
        let same = |other: &usize| maps.iter().all(|map| map.is_some_and(|map| same_in(map, *other)));
        columns[sl] = match (0..sl).find(same) {
            Some(other) => columns[other],
            None => {
                count += 1;
                count - 1
            }
        };
    }
    columns
}

/// A turn of a map on a VL beyond the budget, of an SL that counts (bits): switch, in port, out
/// port, VL. O(rows × SLs), and O(turns) if there is any.
pub(super) fn over_budget(
    fabric: &Fabric,
    map: &LaneMap,
    sls: u16,
    budget: u8,
) -> impl Iterator<Item = (SwitchId, PortNum, PortNum, u8)> {
    let highest = move |row: &LaneRow| {
        let counted = row.iter().enumerate().filter(move |(sl, _)| sls >> sl & 1 == 1);
        counted.map(|(_, vl)| vl.get()).max().unwrap_or(0)
    };
    let is_over = map.rows().iter().any(|row| highest(row) >= budget);
    let switches = fabric.switch_ids().filter(move |_| is_over);
    let turns = switches.flat_map(move |s| LaneMap::turns(fabric, s).map(move |(a, b)| (s, a, b)));
    let with_vl = turns.map(move |(s, a, b)| (s, a, b, highest(map.row(s, a, b))));
    with_vl.filter(move |(.., vl)| *vl >= budget)
}
