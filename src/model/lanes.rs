//! Lanes that no program has to know: the lane map of a fabric and the closure that fits it.
//!
//! An InfiniBand switch chooses the VL of the next cable by in port, out port and SL of a packet,
//! not by the VL on which the packet came. One static map per fabric keeps all traffic free of cycles
//! whatever SL it carries, if next hops stay inside a [`Closure`].

use std::sync::Arc;

use super::{ChannelId, Fabric, Fingerprint, PortNum, Sl, SwitchId, Vl};

/// Number of service levels: entries of a row of a [`LaneMap`].
pub const SLS: usize = 16;

/// The VLs of one turn, by SL.
pub type LaneRow = [Vl; SLS];

/// VL by switch, in port, out port and SL.
///
/// The in port is that of the cable a packet came by, a terminal's port for packets that start
/// there, and 0 for those of the switch itself. Pairs of ports that nothing can use are on VL 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneMap {
    fabric: Fingerprint,
    /// Ports of each switch, port 0 included.
    width: Vec<u16>,
    /// `index[start[switch] + in * width[switch] + out]` into `rows`.
    start: Vec<u32>,
    index: Vec<u16>,
    /// Different rows, in the order of their first use.
    rows: Vec<LaneRow>,
}

impl LaneMap {
    /// Asks for the row of every turn that a packet may take: switch, in port (0 or connected), out
    /// port (connected), which differ. O(sum over switches of ports²).
    pub fn fill(fabric: &Fabric, mut row: impl FnMut(SwitchId, PortNum, PortNum) -> LaneRow) -> Self {
        let mut map = Self {
            fabric: fabric.fingerprint(),
            width: fabric.switches().iter().map(|s| u16::from(s.ports) + 1).collect(),
            start: Vec::with_capacity(fabric.switches().len()),
            index: Vec::new(),
            rows: vec![[Vl::ZERO; SLS]],
        };
        for s in fabric.switch_ids() {
            let width = usize::from(map.width[s.index()]);
            let start = map.index.len();
            map.start.push(start as u32);
            map.index.resize(start + width * width, 0);
            for (from, to) in Self::turns(fabric, s) {
                let at = start + usize::from(from.get()) * width + usize::from(to.get());
                map.index[at] = map.number(row(s, from, to));
            }
        }
        map
    }

    /// The same lane for all SLs of each turn.
    pub fn uniform(fabric: &Fabric, mut lane: impl FnMut(SwitchId, PortNum, PortNum) -> Vl) -> Self {
        Self::fill(fabric, |s, from, to| [lane(s, from, to); SLS])
    }

    /// In and out port of all turns that a packet may take at a switch, in order.
    pub fn turns(fabric: &Fabric, s: SwitchId) -> impl Iterator<Item = (PortNum, PortNum)> + '_ {
        let connected =
            move |p: PortNum| fabric.peer(s, p).is_some_and(|peer| peer != super::PortPeer::Nothing);
        let ports = move || (1..=fabric.switch(s).ports).map(PortNum::at).filter(move |p| connected(*p));
        let ins = std::iter::once(PortNum::ZERO).chain(ports());
        ins.flat_map(move |from| ports().filter(move |to| *to != from).map(move |to| (from, to)))
    }

    fn number(&mut self, row: LaneRow) -> u16 {
        let at = self.rows.iter().position(|r| *r == row).unwrap_or_else(|| {
            self.rows.push(row);
            self.rows.len() - 1
        });
        at as u16
    }

    /// Where its ports are.
    pub fn fabric(&self) -> Fingerprint {
        self.fabric
    }

    /// Position in [`LaneMap::rows`] of a turn; 0, all on VL 0, if the switch has no such ports.
    #[inline]
    pub fn row_index(&self, s: SwitchId, from: PortNum, to: PortNum) -> u16 {
        let width = self.width[s.index()];
        let (from, to) = (u16::from(from.get()), u16::from(to.get()));
        if from >= width || to >= width {
            return 0;
        }
        let at = usize::from(from) * usize::from(width) + usize::from(to);
        self.index[self.start[s.index()] as usize + at]
    }

    /// The VLs of a turn by SL.
    #[inline]
    pub fn row(&self, s: SwitchId, from: PortNum, to: PortNum) -> &LaneRow {
        &self.rows[usize::from(self.row_index(s, from, to))]
    }

    /// The VL on the cable behind `to` of a packet of this SL that came by `from`.
    #[inline]
    pub fn vl(&self, s: SwitchId, from: PortNum, to: PortNum, sl: Sl) -> Vl {
        self.row(s, from, to)[usize::from(sl.get())]
    }

    /// The different rows. The first is all VL 0, used or not.
    pub fn rows(&self) -> &[LaneRow] {
        &self.rows
    }

    /// How many VLs the ports must have: the highest one plus one.
    pub fn vls(&self) -> u8 {
        self.rows.iter().flatten().map(|v| v.get()).max().unwrap_or(0) + 1
    }

    /// How many neighbouring VLs are one lane: by their SL packets are on any of them, but on no other lane. 1 where
    /// all SLs are treated alike. O(rows × SLs × VLs).
    pub fn vls_per_lane(&self) -> u8 {
        let is_one_lane = |row: &LaneRow, vls| row.iter().all(|vl| vl.get() / vls == row[0].get() / vls);
        let are_lanes = |vls: &u8| self.rows.iter().all(|row| is_one_lane(row, *vls));
        (1..=self.vls()).find(are_lanes).unwrap_or(1)
    }

    /// Class of each SL: those of one class are on the same VL at every turn. Classes are numbered
    /// from 0 in the order of their first SL. O(rows × SLs²).
    pub fn classes(&self) -> [u8; SLS] {
        let mut classes = [0; SLS];
        let mut count = 0;
        for sl in 0..SLS {
            let same = |other: &usize| self.rows.iter().all(|r| r[*other] == r[sl]);
            classes[sl] = match (0..sl).find(same) {
                Some(other) => classes[other],
                None => {
                    count += 1;
                    count - 1
                }
            };
        }
        classes
    }

    /// The same lanes for a fabric with the same switches and cables: other terminals may be attached, and
    /// devices may have other names.
    #[must_use]
    pub fn for_same_cables(&self, fabric: &Fabric) -> Self {
        Self { fabric: fabric.fingerprint(), ..self.clone() }
    }

    /// The same lanes on another fabric, found by switch and port: `row` says those of turns that
    /// only the other one has. O(sum over switches of ports²).
    pub fn on(
        &self,
        from: &Fabric,
        to: &Fabric,
        mut row: impl FnMut(SwitchId, PortNum, PortNum) -> LaneRow,
    ) -> Self {
        let before: Vec<Option<SwitchId>> =
            to.switches().iter().map(|s| from.switch_by_guid(s.guid)).collect();
        let connected = |s, p: PortNum| {
            p == PortNum::ZERO || !matches!(from.peer(s, p), None | Some(super::PortPeer::Nothing))
        };
        Self::fill(to, |s, a, b| match before[s.index()] {
            Some(old) if connected(old, a) && connected(old, b) => *self.row(old, a, b),
            _ => row(s, a, b),
        })
    }
}

/// For each switch and home switch the next hops inside which any mixture of any tables is free of
/// cycles on the lanes of a [`LaneMap`].
///
/// Next hops are slots: positions in [`Fabric::out`] of the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    fabric: Fingerprint,
    switches: usize,
    words: usize,
    /// `slots[(home * switches + switch) * words ..][..words]`: bit `slot % 64` of word `slot / 64`.
    slots: Vec<u64>,
}

impl Closure {
    /// No next hop anywhere.
    pub fn empty(fabric: &Fabric) -> Self {
        let switches = fabric.switches().len();
        let most = fabric.switch_ids().map(|s| fabric.out(s).len()).max().unwrap_or(0);
        let words = most.div_ceil(64).max(1);
        Self { fabric: fabric.fingerprint(), switches, words, slots: vec![0; switches * switches * words] }
    }

    /// Where its next hops are.
    pub fn fabric(&self) -> Fingerprint {
        self.fabric
    }

    /// Words of 64 slots per set: 1 unless a switch has more than 64 channels.
    pub fn words(&self) -> usize {
        self.words
    }

    #[inline]
    fn at(&self, s: SwitchId, home: SwitchId) -> usize {
        (home.index() * self.switches + s.index()) * self.words
    }

    /// The slots by which a switch may forward what goes to `home`, as bits; none at home.
    #[inline]
    pub fn slots(&self, s: SwitchId, home: SwitchId) -> &[u64] {
        let at = self.at(s, home);
        &self.slots[at..at + self.words]
    }

    /// The sets of all switches for one home, [`Closure::words`] words each: for hot loops.
    #[inline]
    pub fn of_home(&self, home: SwitchId) -> &[u64] {
        let width = self.switches * self.words;
        &self.slots[home.index() * width..(home.index() + 1) * width]
    }

    /// Whether a switch may forward by this slot.
    #[inline]
    pub fn allows(&self, s: SwitchId, home: SwitchId, slot: usize) -> bool {
        slot < 64 * self.words && self.slots(s, home)[slot / 64] >> (slot % 64) & 1 == 1
    }

    /// Adds a next hop, or takes it away.
    pub fn set(&mut self, s: SwitchId, home: SwitchId, slot: usize, allowed: bool) {
        let at = self.at(s, home) + slot / 64;
        let bit = 1 << (slot % 64);
        if allowed {
            self.slots[at] |= bit;
        } else {
            self.slots[at] &= !bit;
        }
    }

    /// The channels by which a switch may forward what goes to `home`.
    pub fn ways<'a>(
        &'a self,
        fabric: &'a Fabric,
        s: SwitchId,
        home: SwitchId,
    ) -> impl Iterator<Item = ChannelId> + 'a {
        let slots = self.slots(s, home);
        fabric.out(s).iter().enumerate().filter(|(i, _)| slots[i / 64] >> (i % 64) & 1 == 1).map(|(_, c)| *c)
    }

    /// How many next hops there are in all.
    pub fn len(&self) -> usize {
        self.slots.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(|w| *w == 0)
    }

    /// Whether a next hop leads over each channel. O(switches² × ports).
    pub fn used(&self, fabric: &Fabric) -> Vec<bool> {
        let mut used = vec![false; fabric.channels().len()];
        for (s, home) in fabric.switch_ids().flat_map(|s| fabric.switch_ids().map(move |home| (s, home))) {
            self.ways(fabric, s, home).for_each(|c| used[c.index()] = true);
        }
        used
    }

    /// The next hops that another fabric has too, found by switch and port. O(switches² × ports).
    pub fn on(&self, from: &Fabric, to: &Fabric) -> Self {
        let before = |s: SwitchId| from.switch_by_guid(to.switch(s).guid);
        Self::translated(
            to,
            before,
            |s, c| same_cable(from, to, s, c),
            |s, home, slot| self.allows(s, home, slot),
        )
    }

    /// What another form of a closure allows on a fabric: `before` is a switch there, `cable` what a
    /// channel out of a switch is there, `allows` whether it leads from a switch to a home there. What is not
    /// there is not allowed. O(switches² × ports).
    pub fn translated<S: Copy, C: Copy>(
        to: &Fabric,
        before: impl Fn(SwitchId) -> Option<S>,
        cable: impl Fn(S, ChannelId) -> Option<C>,
        allows: impl Fn(S, S, C) -> bool,
    ) -> Self {
        let mut closure = Self::empty(to);
        let before: Vec<Option<S>> = to.switch_ids().map(before).collect();
        for s in to.switch_ids() {
            let Some(old) = before[s.index()] else { continue };
            let cables: Vec<Option<C>> = to.out(s).iter().map(|c| cable(old, *c)).collect();
            for home in to.switch_ids() {
                let Some(old_home) = before[home.index()] else { continue };
                for (slot, cable) in cables.iter().enumerate() {
                    if cable.is_some_and(|cable| allows(old, old_home, cable)) {
                        closure.set(s, home, slot, true);
                    }
                }
            }
        }
        closure
    }
}

/// Slot of a channel of `to` on the same ports of the same switches of `from`, whose sender there is `s`.
fn same_cable(from: &Fabric, to: &Fabric, s: SwitchId, c: ChannelId) -> Option<usize> {
    let now = to.channel(c);
    from.out(s).iter().position(|c| {
        let before = from.channel(*c);
        before.from_port == now.from_port
            && before.to_port == now.to_port
            && from.switch(before.to).guid == to.switch(now.to).guid
    })
}

/// What is computed once per fabric: the map, and the closure that is safe with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FabricLanes {
    /// VL by in port, out port and SL.
    pub map: Arc<LaneMap>,
    /// Next hops among which every epoch chooses.
    pub closure: Arc<Closure>,
}

impl FabricLanes {
    /// What is left of them on another fabric: next hops over cables that are there too, new turns on VL 0.
    #[must_use]
    pub fn on(&self, from: &Fabric, to: &Fabric) -> Self {
        let map = self.map.on(from, to, |_, _, _| [Vl::ZERO; SLS]);
        Self { map: Arc::new(map), closure: Arc::new(self.closure.on(from, to)) }
    }

    /// See [`LaneMap::for_same_cables`].
    #[must_use]
    pub fn for_same_cables(&self, fabric: &Fabric) -> Self {
        let closure = Closure { fabric: fabric.fingerprint(), ..Closure::clone(&self.closure) };
        Self { map: Arc::new(self.map.for_same_cables(fabric)), closure: Arc::new(closure) }
    }
}
