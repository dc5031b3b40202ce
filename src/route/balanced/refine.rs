//! Tears up single routes over the fullest channels and leads them elsewhere.

use super::bound;
use super::net::{NONE, Net};
use super::routing::{LARGE, Routing};

/// Most passes over all trees.
const ROUNDS: usize = 40;
/// Channels looked at by wandering, at most, each once per tree and round.
const WANDERING: usize = 24_000_000;
/// Looks at switches, in passes one after the other that leave the fullest channel as it is, after which small fabrics
/// get no more passes, either.
const WASTED: usize = 1_000_000;
/// Moves per switch of a tree below which a pass is the last one.
const PATIENCE: usize = 50_000;
/// Ports to other switches, in the mean, from which on those that lead nearer are listed.
const MANY_PORTS: usize = 12;
/// Of large fabrics: part of its load that the fullest channel loses in a pass, or the pass is the last one; and in
/// one over routes that no job uses.
const LEAST_FALL: u32 = 256;
const LEAST_FALL_AROUND: u32 = 64;

/// An eighth of the load is spared from so many times twice the size on at which a fabric is large.
const MOST_SPARED: f64 = 6.0;

/// What bounds a move that need not be a gain.
#[derive(Clone, Copy)]
struct Sideways {
    /// The sum of loads above this must not grow.
    target: u32,
    /// No channel may get more than this.
    most: u32,
}

/// A better way for one switch.
pub(super) struct Detour {
    slot: u8,
    /// First switch that is on both ways.
    pub(super) meets: usize,
    /// Fullest channel of the new way up to there, with the flow on it.
    pub(super) fullest: u32,
    /// Fullest channel of the present way up to there.
    fullest_now: u32,
    /// How much more load there would be above the limit, over all channels.
    spill: i64,
}

impl Routing<'_> {
    /// Moves routes away from full channels: first without making them longer, then by at most one
    /// hop, then sideways in small fabrics. `floor` is what cannot be beaten.
    pub(super) fn balance(&mut self, terminals: &[usize], floor: u32) {
        let mean = self.mean_load();
        let is_large = self.is_large(terminals.len());
        let spare = self.spare(terminals.len(), mean);
        let limit = floor.max(mean + spare);
        // Shortest routes that have one way only are not worth a look.
        let is_forced = is_large && self.traffic.is_oblivious() && self.fullest() > limit;
        let near = if is_forced { limit.max(bound::of_shortest(self.net)) } else { limit };
        self.refine(terminals, near, if is_large { near } else { mean });
        if !is_large || self.fullest() > near + near / 8 {
            let base = if is_large { limit } else { mean };
            self.slack = 1;
            self.refine(terminals, limit, base);
            self.slack = 0;
        }
        // Where the floor is no higher than the mean no routing comes near it: so step by step.
        let mut left = WANDERING;
        for target in [mean + mean / 8, mean + mean / 16, mean + mean / 32, 0] {
            left = self.wander(terminals, floor.max(target), left);
        }
    }

    /// What the fullest channel may carry beyond the mean for the sake of time: in large fabrics more and more, up to an
    /// eighth. No size of a fabric is where tables suddenly become worse.
    fn spare(&self, trees: usize, mean: u32) -> u32 {
        let beyond = ((trees * self.net.switches()) as f64 / LARGE as f64).log2();
        (f64::from(mean) / 8.0 * (beyond / MOST_SPARED).clamp(0.0, 1.0)) as u32
    }

    /// Moves as few routes as possible: those over channels with an eighth more than the bound.
    pub(super) fn make_room(&mut self, terminals: &[usize], floor: u32) {
        let mean = self.mean_load();
        let limit = floor.max(mean);
        let limit = limit + limit / 8;
        self.refine(terminals, limit, limit);
        self.slack = 1;
        self.refine(terminals, limit, limit);
        self.slack = 0;
    }

    /// Moves routes until no channel has more than `limit` or nothing helps; `base` is what a channel
    /// has at least to be worth a look. Each move makes the
    /// fullest channel it touches less full. Routes that are held stay. O(rounds × terminals × channels) at worst, much less
    /// if few channels are that full.
    pub(super) fn refine(&mut self, terminals: &[usize], limit: u32, base: u32) {
        let size = terminals.len() * self.net.switches();
        let is_large = self.is_large(terminals.len());
        let mut wasted = 0;
        for _ in 0..ROUNDS {
            let fullest = self.fullest();
            if fullest <= limit {
                return;
            }
            // The very fullest channels first: what they lose fills others. In large fabrics the tree
            // at hand loses all that helps at once, as looking at it costs more than moving.
            let above = base + if is_large { (fullest - base) / 4 } else { (fullest - base) * 3 / 5 };
            let least = if is_large { base } else { above };
            let mut moved: usize = terminals.iter().map(|t| self.relieve(*t, above, least, None)).sum();
            if moved == 0 && !is_large {
                moved = terminals.iter().map(|t| self.relieve(*t, limit, limit, None)).sum();
            }
            wasted = if self.fullest() < fullest { 0 } else { wasted + size };
            if !is_large && wasted > WASTED.max(size) {
                return;
            }
            let least_fall = fullest / if self.hold.is_some() { LEAST_FALL_AROUND } else { LEAST_FALL };
            if is_large && fullest.saturating_sub(self.fullest()) < least_fall {
                return;
            }
            if moved <= if is_large { size / PATIENCE } else { 0 } {
                return;
            }
        }
    }

    /// Moves routes over channels with more than `target` to others as long as the sum of what is
    /// above does not grow, at random, until holes are found: loads made of a few large pieces
    /// cannot be levelled by gains alone. No channel becomes fuller than the fullest was. `left` is
    /// how many channels may be looked at, each once per tree; half of them at most are, and the rest is
    /// returned.
    fn wander(&mut self, terminals: &[usize], target: u32, left: usize) -> usize {
        let size = (terminals.len() * self.net.channels()).max(1);
        let rounds = (left / 2 / size).min(500);
        for round in 0..rounds {
            let fullest = self.fullest();
            if fullest <= target {
                return left - round * size;
            }
            // Now and then all routes over channels that are just full move on, too: to find new holes.
            let above = if round % 8 == 7 { target - 1 } else { target };
            terminals.iter().for_each(|t| {
                self.relieve(*t, above, above, Some(Sideways { target, most: fullest }));
            });
        }
        left - rounds * size
    }

    /// Mean over all channels, rounded down.
    pub(super) fn mean_load(&self) -> u32 {
        (self.load.iter().map(|l| u64::from(*l)).sum::<u64>() / self.load.len().max(1) as u64) as u32
    }

    /// Load of the fullest channel.
    pub(super) fn fullest(&self) -> u32 {
        self.load.iter().max().copied().unwrap_or(0)
    }

    /// Moves what can be moved of one tree away from channels with more than `limit`, if it uses one
    /// with more than `above`; returns the number of moves.
    fn relieve(&mut self, terminal: usize, above: u32, limit: u32, sideways: Option<Sideways>) -> usize {
        let is_full = |(slot, start): (&u8, &u32)| {
            *slot != NONE && self.load[*start as usize + usize::from(*slot)] > above
        };
        if !self.row(terminal).iter().zip(self.net.starts()).any(is_full) {
            return 0;
        }
        self.follow(terminal);
        self.mark_held(terminal);
        self.gather(terminal);
        self.mark_full(terminal, limit);
        let mut nearer = std::mem::take(&mut self.nearer);
        let is_listed = self.is_listed(sideways);
        if is_listed {
            nearer.find(self.net, self.home[terminal] as usize);
        }
        let mut moved = 0;
        for i in (1..self.search.reached.len()).rev() {
            let v = self.search.reached[i] as usize;
            if self.flow[v] == 0 || self.held[v] || !self.is_full[v] {
                continue;
            }
            let listed = if is_listed { nearer.slots(v, self.search.hops[v]) } else { None };
            // The only slot that leads nearer is in use.
            if listed.is_some_and(|slots| slots.len() == 1) {
                continue;
            }
            let most = self.fullest_ahead(terminal, v);
            if most <= limit {
                continue;
            }
            if let Some(detour) = self.best_detour(terminal, v, most, listed, sideways) {
                self.lead_over(terminal, v, detour.slot, detour.meets);
                moved += 1;
            }
        }
        self.nearer = nearer;
        moved
    }

    /// Whether slots that lead nearer are found for all switches at once: with few ports that saves nothing.
    fn is_listed(&self, sideways: Option<Sideways>) -> bool {
        let is_wide = self.net.channels() >= MANY_PORTS * self.net.switches();
        self.slack == 0 && sideways.is_none() && is_wide && self.is_large(self.home.len())
    }

    fn mark_full(&mut self, terminal: usize, limit: u32) {
        let switches = self.net.switches();
        let row = &self.rows[terminal * switches..(terminal + 1) * switches];
        self.is_full[self.home[terminal] as usize] = false;
        for &v in self.search.reached.iter().skip(1) {
            let c = self.net.channel(v as usize, row[v as usize]);
            self.is_full[v as usize] = self.load[c] > limit || self.is_full[self.net.to(c)];
        }
    }

    /// Load of the fullest channel on the way of a switch. O(hops).
    fn fullest_ahead(&self, terminal: usize, mut v: usize) -> u32 {
        let (row, mut most) = (self.row(terminal), 0);
        while row[v] != NONE {
            let c = self.net.channel(v, row[v]);
            most = most.max(self.load[c]);
            v = self.net.to(c);
        }
        most
    }

    /// The best other way for a switch, the fullest channel of whose present way has `most`, over one of the slots
    /// that are `listed`, or any.
    fn best_detour(
        &mut self,
        terminal: usize,
        v: usize,
        most: u32,
        listed: Option<&[u8]>,
        sideways: Option<Sideways>,
    ) -> Option<Detour> {
        let now = self.row(terminal)[v];
        let mut best: Option<Detour> = None;
        // A gain leaves all channels that it joins below the fullest there is.
        let mut below = if sideways.is_some() { u32::MAX } else { most.saturating_sub(self.flow[v]) };
        let degree = self.net.degree(v);
        let first = if sideways.is_some() { self.rng.below(degree) } else { 0 };
        for i in 0..listed.map_or(degree, <[u8]>::len) {
            let i = first + i;
            let slot = match listed {
                Some(slots) => slots[i],
                None => (if i < degree { i } else { i - degree }) as u8,
            };
            let c = self.net.channel(v, slot);
            if self.load[c] >= below {
                continue;
            }
            let u = self.net.to(c);
            let is_near = self.search.hops[u] < self.search.hops[v] + self.slack;
            if slot == now || !is_near || self.search.layers[u] == 0 {
                continue;
            }
            let target = sideways.map_or(0, |s| s.target);
            let Some(detour) = self.try_detour(terminal, v, slot, target, below) else { continue };
            let (is_better, key) = match sideways {
                Some(bounds) => (detour.spill <= 0 && detour.fullest <= bounds.most, detour.spill),
                None => (detour.fullest < detour.fullest_now, i64::from(detour.fullest)),
            };
            let is_best = best
                .as_ref()
                .is_none_or(|b| key < if sideways.is_some() { b.spill } else { b.fullest.into() });
            if is_better && is_best && self.layers_behind(terminal, v, slot, false) {
                if sideways.is_none() {
                    below = detour.fullest - self.flow[v];
                }
                best = Some(detour);
            }
        }
        best
    }

    /// What the way over another slot would be worth; `None` if it joins a channel with no load `below`.
    fn try_detour(&self, terminal: usize, v: usize, slot: u8, limit: u32, below: u32) -> Option<Detour> {
        let flow = self.flow[v];
        let above = |load: u32| i64::from(load.saturating_sub(limit));
        let mut detour = Detour { slot, meets: v, fullest: 0, fullest_now: 0, spill: 0 };
        let meets = self.each_change(terminal, v, slot, |c, joins| {
            let load = self.load[c];
            if joins {
                if load >= below {
                    return false;
                }
                detour.fullest = detour.fullest.max(load + flow);
                detour.spill += above(load + flow) - above(load);
            } else {
                detour.fullest_now = detour.fullest_now.max(load);
                detour.spill -= above(load) - above(load - flow);
            }
            true
        })?;
        Some(Detour { meets, ..detour })
    }

    /// Calls with each channel that the route of `v` would leave over another slot, or join (`true`),
    /// and returns the first switch that is on both ways; `None` as soon as a call says no.
    #[inline]
    pub(super) fn each_change(
        &self,
        terminal: usize,
        v: usize,
        slot: u8,
        mut call: impl FnMut(usize, bool) -> bool,
    ) -> Option<usize> {
        let (net, hops, row) = (self.net, &self.search.hops, self.row(terminal));
        let (mut old, mut new) = (net.channel(v, row[v]), net.channel(v, slot));
        let (mut leave, mut join) = (true, true);
        loop {
            if (std::mem::take(&mut leave) && !call(old, false))
                || (std::mem::take(&mut join) && !call(new, true))
            {
                return None;
            }
            let (a, b) = (net.to(old), net.to(new));
            if a == b {
                return Some(a);
            }
            if hops[a] >= hops[b] {
                (old, leave) = (net.channel(a, row[a]), true);
            } else {
                (new, join) = (net.channel(b, row[b]), true);
            }
        }
    }

    /// Leads a switch over another slot, which is on the present way again from `meets` on.
    pub(super) fn lead_over(&mut self, terminal: usize, v: usize, slot: u8, meets: usize) {
        let flow = self.flow[v];
        self.shift(terminal, v, meets, |load| load - flow);
        self.layers_behind(terminal, v, slot, true);
        self.rows[terminal * self.net.switches() + v] = slot;
        self.shift(terminal, v, meets, |load| load + flow);
    }

    /// Changes the load of the channels from `v` to `end`, and the flow of the switches between.
    fn shift(&mut self, terminal: usize, v: usize, end: usize, change: impl Fn(u32) -> u32) {
        let mut at = v;
        while at != end {
            let c = self.net.channel(at, self.row(terminal)[at]);
            self.set_load(c, change(self.load[c]));
            if at != v {
                self.flow[at] = change(self.flow[at]);
            }
            at = self.net.to(c);
        }
    }

    /// Whether some layer allows the route of `v` over `slot`, and those of all switches behind it;
    /// if `keep`, notes the layers and hops. O(size of the subtree × ports).
    pub(super) fn layers_behind(&mut self, terminal: usize, v: usize, slot: u8, keep: bool) -> bool {
        let (net, fit) = (self.net, &self.layers.fit);
        let row = &self.rows[terminal * net.switches()..(terminal + 1) * net.switches()];
        let search = &mut self.search;
        let home = self.home[terminal] as usize;
        let (layers, hops) = extend((net, fit), home, row, search, v, slot);
        if layers == 0 {
            return false;
        }
        self.stack.clear();
        self.stack.push((v as u32, layers, hops));
        while let Some((u, layers, hops)) = self.stack.pop() {
            let u = u as usize;
            let leaving = if u == v { slot } else { row[u] };
            for (i, c) in net.out(u).enumerate() {
                let w = net.to(c);
                if w == home || row[w] != net.back_slot[c] || search.layers[w] == 0 {
                    continue;
                }
                let behind = layers & fit[net.turn(u, i as u8, leaving)];
                if behind == 0 {
                    return false;
                }
                if behind != search.layers[w] || u == v || keep {
                    self.stack.push((w as u32, behind, hops + 1));
                }
            }
            if keep {
                search.layers[u] = layers;
                search.hops[u] = hops;
            }
        }
        true
    }
}

fn extend(
    (net, fit): (&Net, &[u16]),
    home: usize,
    row: &[u8],
    search: &super::search::TreeSearch,
    v: usize,
    slot: u8,
) -> (u16, u16) {
    let c = net.channel(v, slot);
    let u = net.to(c);
    let turn = if u == home { u16::MAX } else { fit[net.turn(u, net.back_slot[c], row[u])] };
    (search.layers[u] & turn, search.hops[u] + 1)
}
