//! Tables that change while packets fly: each switch has forwarding entries and SL2VL of its own.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use super::fetch::prefetch;
use super::net::{NO_LINK, Net};
use super::router::{Header, Hop, Router};
use super::state::View;
use crate::model::lanes::SLS;
use crate::model::rng::Rng;
use crate::model::{DestId, Fabric, LayerBudget, PortNum, SwitchId, Tables};

/// Follows what each switch has been written so far. A packet keeps its SL ([`Header::sl`]) on its whole way;
/// each switch chooses the VL of the next cable by in port, out port and SL. Where a switch has no entry,
/// the packet is lost.
///
/// A packet is looked up when it is first in its input buffer, and keeps out port and VL from then on, whatever
/// is written afterwards. Writing needs no exclusive access, so that it can be done between two runs of a
/// [`Simulator`](super::Simulator) that holds the router.
pub struct LiveRouter<'a> {
    net: &'a Net,
    fabric: &'a Fabric,
    vls: u8,
    /// `slots[(lid * switches + switch) * terminals + destination]`: which of the switch's channels, [`NO_SLOT`]
    /// for none.
    slots: Vec<AtomicU8>,
    /// `vl[start[switch] + (in * width[switch] + out) * 16 + SL]`.
    vl: Vec<AtomicU8>,
    start: Vec<u32>,
    width: Vec<u32>,
    /// Channels that are dead.
    cut: Vec<AtomicBool>,
}

/// No channel.
const NO_SLOT: u8 = u8::MAX;

impl<'a> LiveRouter<'a> {
    /// Switches of a fabric whose ports have so many VLs, all with the same tables. O(hosts × switches + sum
    /// over switches of ports²).
    pub fn new(fabric: &'a Fabric, net: &'a Net, vls: LayerBudget, tables: &Tables) -> Self {
        let width: Vec<u32> = fabric.switches().iter().map(|s| u32::from(s.ports) + 1).collect();
        let (mut start, mut end) = (Vec::with_capacity(width.len()), 0);
        for w in &width {
            start.push(end);
            end += w * w * SLS as u32;
        }
        let router = Self {
            net,
            fabric,
            vls: vls.get(),
            slots: (0..net.switches() * net.terminals()).map(|_| AtomicU8::new(NO_SLOT)).collect(),
            vl: (0..end).map(|_| AtomicU8::new(0)).collect(),
            start,
            width,
            cut: (0..net.channels()).map(|_| AtomicBool::new(false)).collect(),
        };
        for s in fabric.switch_ids() {
            router.write_forwarding(s, tables);
            router.write_lanes(s, tables);
        }
        router
    }

    /// Every terminal has a second LID, 1 ([`Header::lid`]), with routes of its own, which stay.
    #[must_use]
    pub fn with_high_lids(mut self, tables: &Tables) -> Self {
        self.slots.extend((0..self.net.switches() * self.net.terminals()).map(|_| AtomicU8::new(NO_SLOT)));
        self.fabric.switch_ids().for_each(|s| _ = self.write_lid(1, s, tables));
        self
    }

    /// A switch gets the forwarding entries of these tables; how many are others than before.
    pub fn write_forwarding(&self, s: SwitchId, tables: &Tables) -> usize {
        self.write_lid(0, s, tables)
    }

    fn write_lid(&self, lid: u8, s: SwitchId, tables: &Tables) -> usize {
        let (at, channels) = (s.index() as u32, self.net.out(s.index() as u32));
        let mut changed = 0;
        for dst in 0..self.net.terminals() as u32 {
            let link = self.net.behind(at, tables.ports_to(DestId(dst))[s.index()]);
            let slot = if channels.contains(&link) { (link - channels.start) as u8 } else { NO_SLOT };
            changed += usize::from(self.slots[self.place(lid, at, dst)].swap(slot, Relaxed) != slot);
        }
        changed
    }

    /// A channel is dead from now on: [`Simulator::cut`](super::Simulator::cut) does the rest.
    pub fn cut(&self, link: u32) {
        self.cut[link as usize].store(true, Relaxed);
    }

    /// A switch gets the SL2VL table that belongs to these tables: that of their lane map, or without one VL =
    /// SL modulo the number of VLs. Entries of dead ports stay: OpenSM writes none to a port that is down. How many
    /// entries are others than before.
    pub fn write_lanes(&self, s: SwitchId, tables: &Tables) -> usize {
        let mut changed = 0;
        let ports = || (0..=self.fabric.switch(s).ports).map(PortNum::at);
        let turns = ports().flat_map(|from| ports().map(move |to| (from, to)));
        let is_down = |port: PortNum| self.is_cut(self.net.behind(s.index() as u32, port.get()));
        for (turn, (from, to)) in turns.enumerate().filter(|(_, (from, to))| !is_down(*from) && !is_down(*to))
        {
            let at = self.start[s.index()] as usize + turn * SLS;
            for (sl, entry) in self.vl[at..at + SLS].iter().enumerate() {
                let vl = match tables.lanes() {
                    Some(map) => map.row(s, from, to)[sl].get(),
                    None => sl as u8 % self.vls,
                };
                changed += usize::from(entry.swap(vl, Relaxed) != vl);
            }
        }
        changed
    }

    #[inline]
    fn place(&self, lid: u8, at: u32, dst: u32) -> usize {
        (usize::from(lid) * self.net.switches() + at as usize) * self.net.terminals() + dst as usize
    }
}

impl Router for LiveRouter<'_> {
    const LOSES: bool = true;
    fn lanes(&self) -> u8 {
        self.vls
    }
    fn inject(&self, header: &mut Header, _view: &View<'_>, _rng: &mut Rng) -> u8 {
        header.state = self.net.ports(self.net.injection(header.src))[1].into();
        header.sl % self.vls
    }
    #[inline]
    fn hop(&self, at: u32, header: &Header, _view: &View<'_>, _rng: &mut Rng) -> Hop {
        let link = self.foresee(at, header);
        if link == NO_LINK {
            return Hop::to(NO_LINK, 0);
        }
        let turn = header.state * self.width[at as usize] + u32::from(self.net.ports(link)[0]);
        let entry = self.start[at as usize] + turn * SLS as u32 + u32::from(header.sl);
        Hop::to(link, self.vl[entry as usize].load(Relaxed))
    }
    #[inline]
    fn taken(&self, header: &mut Header, hop: Hop) {
        header.state = self.net.ports(hop.link)[1].into();
    }
    #[inline]
    fn is_cut(&self, link: u32) -> bool {
        self.cut.get(link as usize).is_some_and(|cut| cut.load(Relaxed))
    }
    #[inline]
    fn fetch(&self, at: u32, header: &Header) {
        prefetch(&self.slots, self.place(header.lid, at, header.dst));
    }
    #[inline]
    fn foresee(&self, at: u32, header: &Header) -> u32 {
        if at == header.home {
            return self.net.ejection(header.dst);
        }
        match self.slots[self.place(header.lid, at, header.dst)].load(Relaxed) {
            NO_SLOT => NO_LINK,
            slot => self.net.out(at).start + u32::from(slot),
        }
    }
}
