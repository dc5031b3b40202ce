//! Moves of single next hops that make messages of one step meet less often, counted exactly.

use super::super::net::{NONE, Net};
use super::super::routing::Routing;
use super::exchange::Unit;
use super::meetings::Meetings;
use crate::model::rng::Rng;
use crate::model::{Closure, SwitchId};

/// A move must be worth more: less is a rounding error.
const LEAST_GAIN: f32 = 1e-4;

/// Cold sweeps over a tree that look at all routes; later ones only look at those that others have joined since.
const FULL_SWEEPS: usize = 3;

/// In large fabrics sweeps end when one moves so many times fewer routes than the first cold one: those after it save
/// a thousandth of the time.
const FEWER: usize = 4;

/// Where a switch may be led.
pub(super) enum Room<'a> {
    /// In a tree without layers to heed: up where it went up, down where it went down, never longer.
    Tree {
        /// How far above the hosts each switch is.
        levels: &'a [u32],
    },
    /// Where some layer allows it.
    Layered { reach: &'a Reach },
    /// Inside a closure, whose next hops lead in no circle.
    Closed { closure: &'a Closure, reach: &'a Reach },
}

/// How long routes may become.
pub(super) struct Reach {
    switches: usize,
    /// Hops between each two switches.
    hops: Vec<u8>,
    /// Hops beyond the shortest.
    pub(super) slack: u16,
}

impl Reach {
    /// O(switches × channels).
    pub(super) fn new(net: &Net) -> Self {
        let switches = net.switches();
        let from = |s| net.hops_from([s]).into_iter().map(|h| h.min(255) as u8).collect::<Vec<u8>>();
        Self { switches, hops: (0..switches).flat_map(from).collect(), slack: 0 }
    }

    fn allows(&self, v: usize, home: usize, now: u16, hops: u16) -> bool {
        let shortest = u16::from(self.hops[v * self.switches + home]);
        hops <= now && hops < now.max(shortest + self.slack)
    }
}

impl Room<'_> {
    /// Whether layers need no look.
    fn is_free(&self) -> bool {
        !matches!(self, Room::Layered { .. })
    }

    /// Whether hops are known only where they were asked for.
    fn is_lazy(&self) -> bool {
        matches!(self, Room::Tree { .. })
    }

    /// Whether `v` may go over a slot on its way to a terminal, layers apart.
    fn allows(&self, routing: &mut Routing<'_>, terminal: usize, v: usize, now: u8, slot: u8) -> bool {
        let (net, home) = (routing.net, routing.home[terminal] as usize);
        let u = net.to(net.channel(v, slot));
        if let Room::Tree { levels } = self {
            if levels[u] != levels[net.to(net.channel(v, now))] {
                return false;
            }
            routing.look(terminal, u);
        }
        let search = &routing.search;
        if search.layers[u] == 0 {
            return false;
        }
        match self {
            Room::Tree { .. } => search.hops[u] < search.hops[v],
            Room::Layered { reach } => reach.allows(v, home, search.hops[v], search.hops[u]),
            Room::Closed { closure, reach } => {
                closure.allows(SwitchId::at(v), SwitchId::at(home), usize::from(slot))
                    && reach.allows(v, home, search.hops[v], search.hops[u])
            }
        }
    }
}

/// One sweep over all routes.
#[derive(Clone, Copy)]
struct Sweep<'a> {
    room: &'a Room<'a>,
    /// Temperature.
    heat: f32,
    /// Whether routes are left alone that no others have joined since they were looked at.
    is_picky: bool,
}

/// Buffers of one destination.
struct Work {
    /// Number of the destination for which each switch is on a way.
    mark: Vec<u32>,
    stamp: u32,
    /// Sender at each marked switch.
    sender: Vec<u32>,
    /// First of the marked switches that lead to each marked switch.
    child: Vec<u32>,
    /// The next one that leads to the same switch.
    sibling: Vec<u32>,
    /// Marked switches, the farthest first, and then those that moves brought.
    on_way: Vec<u32>,
    /// Steps and share of what goes over the switch at hand.
    steps: Vec<u32>,
    share: f32,
    /// What leaving each channel of its present way would gain.
    gains: Vec<f32>,
    /// What [`Meetings::all_to_join`] says of its channels, if it was asked.
    costs: Vec<f32>,
    stack: Vec<u32>,
    /// When each terminal's routes were last looked at.
    looked: Vec<u32>,
    /// Hops to the destination before are known only where they were asked for.
    is_lazy: bool,
    rng: Rng,
}

impl Work {
    fn new(switches: usize, terminals: usize, seed: u64) -> Self {
        Self {
            looked: vec![0; terminals],
            mark: vec![0; switches],
            stamp: 0,
            sender: vec![NOBODY; switches],
            child: vec![NOBODY; switches],
            sibling: vec![NOBODY; switches],
            on_way: Vec::new(),
            steps: Vec::new(),
            share: 0.0,
            gains: Vec::new(),
            costs: Vec::new(),
            stack: Vec::new(),
            is_lazy: false,
            rng: Rng::new(seed),
        }
    }

    fn visit(&mut self, v: usize) -> bool {
        if self.mark[v] == self.stamp {
            return false;
        }
        self.mark[v] = self.stamp;
        self.sender[v] = NOBODY;
        self.child[v] = NOBODY;
        self.on_way.push(v as u32);
        true
    }

    /// Notes that a switch leads to another; both are marked.
    fn link(&mut self, v: usize, next: usize) {
        self.sibling[v] = std::mem::replace(&mut self.child[next], v as u32);
    }

    /// Forgets that a switch leads to another. O(switches that do).
    fn unlink(&mut self, v: usize, next: usize) {
        let (mut at, after) = (self.child[next], self.sibling[v]);
        if at == v as u32 {
            self.child[next] = after;
            return;
        }
        while self.sibling[at as usize] != v as u32 {
            at = self.sibling[at as usize];
        }
        self.sibling[at as usize] = after;
    }
}

/// No switch, no sender.
const NOBODY: u32 = u32::MAX;

impl Routing<'_> {
    /// Moves routes to the destinations of the units, those that are `free`, in so many sweeps, warm at the
    /// beginning: `heats` is the temperature of each.
    ///
    /// O(sweeps × (routes of jobs × ports × hops × messages per route)).
    pub(super) fn polish(&mut self, units: &[Unit], free: &[bool], room: &Room<'_>, heats: &[f32]) {
        let mut meetings = Meetings::new(self.net.channels());
        let mut work = Work::new(self.net.switches(), self.home.len(), self.seed);
        for unit in units {
            self.each_way(unit, |c, at| meetings.share(unit, c, unit.sender(at).share));
        }
        let mut order: Vec<usize> = Vec::new();
        let mut first = 0;
        let warm = heats.iter().take_while(|heat| **heat > 0.0).count();
        for (i, heat) in heats.iter().enumerate() {
            let mut moved = 0;
            let sweep = Sweep { room, heat: *heat, is_picky: room.is_lazy() && i >= warm + FULL_SWEEPS };
            for unit in units {
                order.clear();
                order.extend((0..unit.dests.len()).filter(|d| free[unit.dests[*d] as usize]));
                if order.is_empty() {
                    continue;
                }
                meetings.put_together(unit, self.net);
                self.each_way(unit, |c, at| meetings.count(unit, c, unit.steps(at), unit.sender(at).share));
                work.rng.shuffle(&mut order);
                for d in &order {
                    moved += self.polish_one(unit, *d, &mut meetings, &mut work, sweep);
                }
                meetings.clear();
            }

            if *heat > 0.0 {
                continue;
            }
            first = first.max(moved);
            if moved <= self.by_size(first / FEWER) {
                break;
            }
        }
    }

    /// Most messages of one step of a unit on one channel, and what those beyond the first cost. O(its routes × hops ×
    /// messages per route).
    pub(super) fn met(&self, unit: &Unit) -> (u16, f32) {
        let mut meetings = Meetings::new(self.net.channels());
        self.each_way(unit, |c, at| meetings.count(unit, c, unit.steps(at), unit.sender(at).share));
        meetings.met(unit)
    }

    /// What the units' messages put on all channels. O(routes of jobs × hops).
    pub(super) fn carried(&self, units: &[Unit]) -> f32 {
        let mut sum = 0.0;
        units.iter().for_each(|unit| self.each_way(unit, |_, at| sum += unit.sender(at).share));
        sum
    }

    /// Calls with the channels of the way of each sender of a unit.
    fn each_way(&self, unit: &Unit, mut call: impl FnMut(usize, usize)) {
        for (d, t) in unit.dests.iter().enumerate() {
            let (row, home) = (self.row(*t as usize), self.home[*t as usize] as usize);
            for at in unit.senders(d) {
                let mut v = unit.sender(at).switch as usize;
                while v != home && row[v] != NONE {
                    let c = self.net.channel(v, row[v]);
                    call(c, at);
                    v = self.net.to(c);
                }
            }
        }
    }

    /// Looks once at each switch that something passes on the way to a destination.
    fn polish_one(
        &mut self,
        unit: &Unit,
        dest: usize,
        meetings: &mut Meetings,
        work: &mut Work,
        sweep: Sweep<'_>,
    ) -> usize {
        let room = sweep.room;
        let terminal = unit.dests[dest] as usize;
        let home = self.home[terminal] as usize;
        if room.is_lazy() {
            self.search.start_lazily(home, self.layers.all, std::mem::replace(&mut work.is_lazy, true));
        } else {
            self.follow(terminal);
        }
        self.mark_ways(unit, dest, work);
        let mut moved = 0;
        meetings.time += 1;
        let since = std::mem::replace(&mut work.looked[terminal], meetings.time);
        for i in 0..work.on_way.len() {
            let v = work.on_way[i] as usize;
            if sweep.is_picky && !self.is_joined(terminal, v, meetings, since) {
                continue;
            }
            Self::take_over(unit, v, work);
            if work.steps.is_empty() {
                continue;
            }
            let Some((slot, meets)) = self.best_move(unit, (terminal, v), meetings, work, sweep) else {
                continue;
            };
            self.each_hop(terminal, v, meets, |c| meetings.leave(unit, c, &work.steps, work.share));
            let u = self.net.to(self.net.channel(v, slot));
            if !room.is_free() || self.search.hops[u] + 1 != self.search.hops[v] {
                self.layers_behind(terminal, v, slot, true);
            }
            let before = std::mem::replace(&mut self.rows[terminal * self.net.switches() + v], slot);
            self.each_hop(terminal, v, meets, |c| meetings.join(unit, c, &work.steps, work.share));
            let before = self.net.to(self.net.channel(v, before));
            if before != home {
                work.unlink(v, before);
            }
            self.mark_on(terminal, v, work);
            moved += 1;
        }
        moved
    }

    /// Marks the switches on the way from a marked one to a terminal, as far as they are not, and notes who leads to whom.
    fn mark_on(&self, terminal: usize, mut at: usize, work: &mut Work) {
        let (row, home) = (self.row(terminal), self.home[terminal] as usize);
        loop {
            let next = self.net.to(self.net.channel(at, row[at]));
            if next == home {
                break;
            }
            let is_new = work.visit(next);
            work.link(at, next);
            if !is_new {
                break;
            }
            at = next;
        }
    }

    /// Notes which switches the messages to a destination pass.
    fn mark_ways(&mut self, unit: &Unit, dest: usize, work: &mut Work) {
        let terminal = unit.dests[dest] as usize;
        work.stamp += 1;
        work.on_way.clear();
        if work.is_lazy {
            unit.senders(dest).for_each(|at| self.look(terminal, unit.sender(at).switch as usize));
        }
        let home = self.home[terminal] as usize;
        for at in unit.senders(dest) {
            let start = unit.sender(at).switch as usize;
            if self.search.hops[start] == u16::MAX {
                continue;
            }
            if start != home && work.visit(start) {
                self.mark_on(terminal, start, work);
            }
            work.sender[start] = at as u32;
        }
        let hops = &self.search.hops;
        work.on_way.sort_unstable_by_key(|v| (std::cmp::Reverse(hops[*v as usize]), *v));
    }

    /// Collects what goes over a switch to a terminal.
    fn take_over(unit: &Unit, v: usize, work: &mut Work) {
        work.steps.clear();
        work.share = 0.0;
        work.stack.clear();
        work.stack.push(v as u32);
        while let Some(u) = work.stack.pop() {
            let u = u as usize;
            if work.sender[u] != NOBODY {
                let at = work.sender[u] as usize;
                work.steps.extend_from_slice(unit.steps(at));
                work.share += unit.sender(at).share;
            }
            let mut next = work.child[u];
            while next != NOBODY {
                work.stack.push(next);
                next = work.sibling[next as usize];
            }
        }
    }

    /// The best other slot for a switch, and where that way meets the present one.
    fn best_move(
        &mut self,
        unit: &Unit,
        (terminal, v): (usize, usize),
        meetings: &Meetings,
        work: &mut Work,
        Sweep { room, heat, .. }: Sweep<'_>,
    ) -> Option<(u8, usize)> {
        let (net, home) = (self.net, self.home[terminal] as usize);
        let now = self.row(terminal)[v];
        work.gains.clear();
        let (steps, gains) = (&work.steps, &mut work.gains);
        self.each_hop(terminal, v, home, |c| gains.push(meetings.to_leave(unit, c, steps, work.share)));
        let most: f32 = work.gains.iter().sum();
        if most < LEAST_GAIN && heat == 0.0 {
            return None;
        }
        // Adding noise of this distribution to each and taking the least draws by exp(-cost / heat).
        let mut noise =
            || if heat > 0.0 { heat * (-(work.rng.unit().max(1e-12).ln())).ln() as f32 } else { 0.0 };
        let mut best = (if heat > 0.0 { noise() } else { -LEAST_GAIN }, None);
        let mut is_asked = false;
        for slot in 0..net.degree(v) as u8 {
            // What is seen at once comes first: the channel alone may cost too much.
            let costs = || work.share * meetings.beside(unit, net.channel(v, slot)) - most;
            if slot == now || (heat == 0.0 && costs() >= best.0) || !room.allows(self, terminal, v, now, slot)
            {
                continue;
            }
            if !std::mem::replace(&mut is_asked, true) {
                meetings.all_to_join(unit, net.channel(v, 0), &work.steps, &mut work.costs);
            }
            let mut own = work.costs.get(usize::from(slot)).copied();
            let (mut joins, mut leaves, mut gains) = (noise(), 0.0, work.gains.iter());
            let meets = self.each_change(terminal, v, slot, |c, is_joining| {
                if is_joining {
                    let beside = work.share * meetings.beside(unit, c);
                    if joins + beside - most >= best.0 {
                        return false;
                    }
                    // The first channel is that of the slot.
                    joins += match own.take() {
                        Some(own) => own + beside,
                        None => meetings.to_join(unit, c, &work.steps, work.share),
                    };
                } else {
                    leaves += gains.next().copied().unwrap_or(0.0);
                }
                joins - most < best.0
            });
            let Some(meets) = meets else { continue };
            if joins - leaves < best.0 && (room.is_free() || self.layers_behind(terminal, v, slot, false)) {
                best = (joins - leaves, Some((slot, meets)));
            }
        }
        best.1
    }

    /// Whether messages were added after a time to what a switch uses on its way to a terminal.
    fn is_joined(&self, terminal: usize, switch: usize, meetings: &Meetings, since: u32) -> bool {
        let mut is_joined = false;
        let home = self.home[terminal] as usize;
        self.each_hop(terminal, switch, home, |c| is_joined |= meetings.is_fuller(c, since));
        is_joined
    }

    /// Calls with each channel from one switch to another on its way to a terminal.
    fn each_hop(&self, terminal: usize, mut at: usize, end: usize, mut call: impl FnMut(usize)) {
        let row = self.row(terminal);
        while at != end && row[at] != NONE {
            let c = self.net.channel(at, row[at]);
            call(c);
            at = self.net.to(c);
        }
    }
}
