//! Layers for the routes of jobs: packets are to wait behind few others that go elsewhere.
//!
//! A layer is a lane with buffers of its own on every channel. Where packets to different destinations share one, each
//! waits for what is ahead of it, wherever that goes. So routes of jobs to different destinations that share a channel
//! are kept on different layers as far as there are layers, the busiest ones first of all. Which layers a route may be
//! on its turns say; in a tree it may be on any.

use std::borrow::Cow;

use super::super::keep::Slots;
use super::super::layers::Layers;
use super::super::net::{NONE, Net};
use super::super::search::{TreeSearch, fitting};
use super::exchange::Unit;
use crate::model::lanes::SLS;
use crate::model::{DestId, Fabric, LaneMap, LaneRow, LayerBudget, PortNum, SwitchId, Tables, Vl};
use crate::route::spread::{self, Turn};

/// How often the routes to each destination choose. More change little: 0.860 as mean of five trees with 4 and with 12.
const SWEEPS: usize = 4;
/// What it saves to be on a layer with another route from the same switch, beside what it costs to share it on one
/// channel with one that goes elsewhere. At 0.1 it changes nothing, on tori and trees at 0.5 it costs 2 and 15 %.
const TOGETHER: f32 = 0.5;
/// Less is a rounding error.
const LEAST_GAIN: f32 = 1e-4;

/// The layer of the routes from one switch to one destination.
pub(in super::super) struct Choice {
    dest: u32,
    switch: u32,
    layer: u8,
}

/// Writes layers that were chosen into those of tables, a row of `switches` per destination.
pub(in super::super) fn write(choices: &[Choice], switches: usize, layers: &mut [u8]) {
    for choice in choices {
        layers[choice.dest as usize * switches + choice.switch as usize] = choice.layer;
    }
}

/// Which layers routes may be on.
pub(in super::super) struct May<'a> {
    /// Layers that allow each turn; `None` where any route may be on any: it climbs and then descends, or is inside a
    /// closure.
    fit: Option<Cow<'a, [u16]>>,
    all: u16,
    /// What says on which VL a layer is behind each turn; `None`: on that of the same number.
    map: Option<&'a LaneMap>,
}

impl<'a> May<'a> {
    /// What these layers allow.
    pub(in super::super) fn of(layers: &'a Layers) -> Self {
        let fit = (!layers.is_climbing).then_some(Cow::Borrowed(&layers.fit[..]));
        Self { fit, all: layers.all, map: None }
    }

    /// A layer takes whatever only turns as some route does that is on it already, or may be: `masks` says which
    /// layers the routes of each layer may be on. `rows` has slots. O(entries × hops).
    fn as_in(net: &Net, tables: &Tables, rows: &[u8], homes: &[usize], masks: &[u16]) -> Self {
        let mut fit = vec![0; net.turns()];
        for ((t, row), home) in rows.chunks(net.switches()).enumerate().zip(homes) {
            let layers = tables.layers_to(DestId::at(t));
            for first in (0..row.len()).filter(|s| s != home && row[*s] != NONE) {
                let Some(mask) = masks.get(usize::from(layers[first])) else { continue };
                let (mut v, mut came) = (first, None);
                while v != *home && row[v] != NONE {
                    let c = net.channel(v, row[v]);
                    if let Some(came) = came.replace(net.back_slot[c]) {
                        fit[net.turn(v, came, row[v])] |= mask;
                    }
                    v = net.to(c);
                }
            }
        }
        let all = masks.iter().fold(0, |all, mask| all | mask);
        Self { fit: Some(Cow::Owned(fit)), all, map: None }
    }

    /// Any of these SLs, inside the closure of a lane map.
    fn inside(map: &'a LaneMap, sls: u16) -> Self {
        Self { fit: None, all: sls, map: Some(map) }
    }
}

/// What is wanted beside few others on a layer.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Wish<'a> {
    /// Tables in force, and the terminals to which their routes stay on their layers.
    pub(in super::super) keep: Option<(&'a Tables, &'a [bool])>,
    /// Whether routes from one switch share layers, as far as that costs little. On crowded grids a crowd before the
    /// packets of one switch then keeps fewer of others.
    pub(in super::super) by_source: bool,
}

/// Tables of another engine with their layers split over the budget, the routes of jobs so that they wait behind few
/// others. O(entries × hops), and as [`part`].
pub(in super::super) fn split(
    fabric: &Fabric,
    net: &Net,
    tables: Tables,
    budget: LayerBudget,
    units: &[Unit],
    wish: Wish<'_>,
) -> Tables {
    let (switches, used) = (net.switches(), usize::from(tables.layers_used()));
    let layers: Vec<u8> = fabric.dest_ids().flat_map(|d| tables.layers_to(d).iter().copied()).collect();
    let parts = spread::parts_of(net, &layers, used, usize::from(budget.get()));
    let masks: Vec<u16> = parts.iter().map(|parts| parts.iter().fold(0, |mask, l| mask | 1 << l)).collect();
    let homes: Vec<usize> = fabric.terminals().iter().map(|t| t.switch.index()).collect();
    let (slots, mut rows) = (Slots::new(net), vec![NONE; homes.len() * switches]);
    for (t, row) in rows.chunks_mut(switches).enumerate() {
        slots.read(fabric, &tables, DestId::at(t), row);
    }
    let may = May::as_in(net, &tables, &rows, &homes, &masks);
    let choices = part(fabric, net, &may, &rows, units, wish);
    let tables = spread::spread_over(fabric, net, tables, budget);
    tables.edited(|_, layers| write(&choices, switches, layers))
}

/// Tables inside the closure of their lane map, with these SLs told, those of jobs so that they wait behind few others.
/// O(entries × hops), and as [`part`].
pub(in super::super) fn tell(
    fabric: &Fabric,
    net: &Net,
    tables: Tables,
    sls: u16,
    units: &[Unit],
    wish: Wish<'_>,
) -> Tables {
    let Some(map) = tables.lanes().cloned() else { return tables };
    let switches = net.switches();
    let (slots, mut rows) = (Slots::new(net), vec![NONE; fabric.terminals().len() * switches]);
    for (t, row) in rows.chunks_mut(switches).enumerate() {
        slots.read(fabric, &tables, DestId::at(t), row);
    }
    let may = May::inside(&map, sls);
    let choices = part(fabric, net, &may, &rows, units, wish);
    let turn = Turn::new(fabric);
    tables.edited(|_, layers| {
        for d in fabric.dest_ids() {
            let (home, port) = (fabric.home(d).index(), fabric.last_port(d));
            let row = &mut layers[d.index() * switches..][..switches];
            let stays = |(_, settled): &(_, &[bool])| settled.get(d.index()).is_some_and(|settled| *settled);
            if let Some((before, _)) = wish.keep.filter(stays) {
                row.copy_from_slice(before.layers_to(d));
                continue;
            }
            let row = row.iter_mut().enumerate();
            for (s, layer) in row.filter(|(s, layer)| *s != home && **layer != Tables::NO_LAYER) {
                *layer = turn.pick(s, home, port, sls);
            }
        }
        write(&choices, switches, layers);
    })
}

/// Layers for the routes in `rows`, a row of slots per terminal, between ranks of the same jobs. The routes to those
/// destinations that the `wish` keeps stay on the layers that they have in force, if they may.
///
/// O((sweeps × layers + 1) × hops of the routes of jobs).
pub(in super::super) fn part(
    fabric: &Fabric,
    net: &Net,
    may: &May<'_>,
    rows: &[u8],
    units: &[Unit],
    wish: Wish<'_>,
) -> Vec<Choice> {
    let mut parts = Parts::new(net, may, Turn::new(fabric), wish.by_source);
    for unit in units {
        for place in 0..unit.dests.len() {
            parts.add(fabric, rows, (unit, place), wish.keep);
        }
    }
    parts.crowd();
    for _ in 0..SWEEPS {
        let moved = (0..parts.dests.len()).filter(|d| parts.choose(*d)).count();
        if moved == 0 {
            break;
        }
    }
    parts.choices()
}

/// The routes from one switch to a destination in a job.
struct Flow {
    switch: u32,
    /// Share of the time in which something is sent.
    share: f32,
    layer: u8,
    /// Layers that it may be on.
    allowed: u16,
    /// Where its channels end in [`Parts::channels`]; they begin where those of the flow before end.
    end: u32,
}

struct Parts<'a> {
    net: &'a Net,
    may: &'a May<'a>,
    /// Layers to begin with.
    turn: Turn,
    search: TreeSearch,
    /// Highest layer that may be used, plus one.
    budget: usize,
    vls: usize,
    flows: Vec<Flow>,
    /// Channels of the flows, one flow after the other.
    channels: Vec<u32>,
    /// For each of them, which of `rows` says its VL by layer.
    row: Vec<u16>,
    rows: Vec<LaneRow>,
    /// Each destination, where its flows end, and whether they keep their layers.
    dests: Vec<(u32, u32, bool)>,
    /// Shares by channel and VL: `crowd[channel * VLs + vl]`.
    crowd: Vec<f32>,
    /// The same by switch where routes start and layer, if routes from one switch are to share layers.
    sent: Vec<f32>,
}

impl<'a> Parts<'a> {
    fn new(net: &'a Net, may: &'a May<'a>, turn: Turn, by_source: bool) -> Self {
        let budget = (u16::BITS - may.all.leading_zeros()) as usize;
        let (flows, channels, row, dests) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let rows = may
            .map
            .map_or_else(|| vec![std::array::from_fn(|sl| Vl::at(sl as u8))], |map| map.rows().to_vec());
        let vls = may.map.map_or(budget, |map| usize::from(map.vls()));
        let crowd = vec![0.0; net.channels() * vls];
        let sent = if by_source { vec![0.0; net.switches() * budget] } else { Vec::new() };
        let search = TreeSearch::new(net.switches());
        Self { net, may, turn, search, budget, vls, flows, channels, row, rows, dests, crowd, sent }
    }

    /// Adds the flows to a destination of a unit, on the layers in force or those that their ends say.
    fn add(
        &mut self,
        fabric: &Fabric,
        rows: &[u8],
        (unit, place): (&Unit, usize),
        keep: Option<(&Tables, &[bool])>,
    ) {
        let (net, t) = (self.net, unit.dests[place] as usize);
        let d = DestId::at(t);
        let (home, port) = (fabric.home(d).index(), fabric.last_port(d));
        let row = &rows[t * net.switches()..][..net.switches()];
        let now = keep.filter(|(_, settled)| settled[t]).map(|(tables, _)| tables.layers_to(d));
        self.search.start_lazily(home, self.may.all, !self.dests.is_empty());
        for sender in unit.senders(place).map(|at| unit.sender(at)) {
            let first = sender.switch as usize;
            let allowed = self.allowed(home, first, row);
            if allowed == 0 {
                continue;
            }
            let mut v = first;
            let mut came = fabric
                .attached(SwitchId::at(first))
                .first()
                .map_or(PortNum::ZERO, |t| fabric.terminal(*t).port);
            while v != home && row[v] != NONE {
                let c = net.channel(v, row[v]);
                self.channels.push(c as u32);
                let out = PortNum::at(net.port(c));
                self.row.push(self.may.map.map_or(0, |map| map.row_index(SwitchId::at(v), came, out)));
                came = PortNum::at(net.port(net.reverse(c)));
                v = net.to(c);
            }
            let kept = now.map(|now| now[first]).filter(|l| *l < 16 && allowed >> l & 1 == 1);
            let layer = kept.unwrap_or_else(|| self.turn.pick(first, home, port, allowed));
            let end = self.channels.len() as u32;
            self.flows.push(Flow { switch: sender.switch, share: sender.share, layer, allowed, end });
        }
        self.dests.push((t as u32, self.flows.len() as u32, now.is_some()));
    }

    /// The layers that the route from a switch may be on; none if there is no route.
    fn allowed(&mut self, home: usize, first: usize, row: &[u8]) -> u16 {
        let (net, may, at) = (self.net, self.may, (home, first));
        match &may.fit {
            None => self.search.look(net, |_, _, _| may.all, at, row),
            Some(fit) => self.search.look(net, fitting(net, fit), at, row),
        }
        self.search.layers[first]
    }

    fn way(&self, flow: usize) -> std::ops::Range<usize> {
        let start = if flow == 0 { 0 } else { self.flows[flow - 1].end };
        start as usize..self.flows[flow].end as usize
    }

    fn of(&self, dest: usize) -> std::ops::Range<usize> {
        let start = if dest == 0 { 0 } else { self.dests[dest - 1].1 };
        start as usize..self.dests[dest].1 as usize
    }

    fn put(&mut self, flow: usize, share: f32) {
        let layer = usize::from(self.flows[flow].layer);
        if !self.sent.is_empty() {
            self.sent[self.flows[flow].switch as usize * self.budget + layer] += share;
        }
        for at in self.way(flow) {
            let vl = usize::from(self.rows[usize::from(self.row[at])][layer].get());
            self.crowd[self.channels[at] as usize * self.vls + vl] += share;
        }
    }

    fn crowd(&mut self) {
        (0..self.flows.len()).for_each(|f| self.put(f, self.flows[f].share));
    }

    /// Leads the flows to a destination where others crowd least. Those to the same one do not count: they wait for
    /// its cable anyway. Whether some moved.
    fn choose(&mut self, dest: usize) -> bool {
        let flows = self.of(dest);
        if self.dests[dest].2 {
            return false;
        }
        flows.clone().for_each(|f| self.put(f, -self.flows[f].share));
        let mut moved = false;
        for f in flows.clone() {
            let best = self.best(f);
            moved |= best != self.flows[f].layer;
            self.flows[f].layer = best;
        }
        flows.for_each(|f| self.put(f, self.flows[f].share));
        moved
    }

    fn best(&self, flow: usize) -> u8 {
        let Flow { switch, layer: now, allowed, .. } = self.flows[flow];
        let mut sums = [0.0f32; SLS];
        for at in self.way(flow) {
            let crowd = &self.crowd[self.channels[at] as usize * self.vls..][..self.vls];
            let row = &self.rows[usize::from(self.row[at])][..self.budget];
            sums.iter_mut().zip(row).for_each(|(sum, vl)| *sum += crowd[usize::from(vl.get())]);
        }
        if !self.sent.is_empty() {
            let row = &self.sent[switch as usize * self.budget..][..self.budget];
            sums.iter_mut().zip(row).for_each(|(sum, sent)| *sum -= TOGETHER * sent);
        }
        let mut best = (sums[usize::from(now)] - LEAST_GAIN, now);
        for l in (0..self.budget).filter(|l| allowed >> l & 1 == 1) {
            if sums[l] < best.0 {
                best = (sums[l], l as u8);
            }
        }
        best.1
    }

    fn choices(&self) -> Vec<Choice> {
        let of = |(at, (dest, ..)): (usize, &(u32, u32, bool))| {
            let dest = *dest;
            self.flows[self.of(at)].iter().map(move |f| Choice { dest, switch: f.switch, layer: f.layer })
        };
        self.dests.iter().enumerate().flat_map(of).collect()
    }
}
