//! Tears up single routes over the fullest channels and leads them elsewhere.

use super::net::{NONE, Net};
use super::routing::Routing;

/// A better way for one switch.
struct Detour {
    slot: u8,
    /// First switch that is on both ways.
    meets: usize,
    /// Fullest channel of the new way up to there, with the flow on it.
    fullest: u32,
}

impl Routing<'_> {
    /// Moves routes away from channels with more than `limit` until nothing helps or `rounds` are
    /// over. Each move makes the fullest channel it touches less full.
    /// O(rounds × terminals × channels) at worst, much less if few channels are that full.
    pub(super) fn refine(&mut self, terminals: &[usize], limit: u32, rounds: usize) {
        for _ in 0..rounds {
            let fullest = self.load.iter().max().copied().unwrap_or(0);
            if fullest <= limit {
                return;
            }
            // The very fullest channels first: most of what they lose has to go to fuller than average ones.
            let above = limit + (fullest - limit) * 3 / 5;
            let moved: usize = terminals.iter().map(|t| self.relieve(*t, above)).sum();
            if moved == 0 && terminals.iter().map(|t| self.relieve(*t, limit)).sum::<usize>() == 0 {
                return;
            }
        }
    }

    /// Moves what can be moved of one tree; returns the number of moves.
    fn relieve(&mut self, terminal: usize, limit: u32) -> usize {
        let switches = self.net.switches();
        let row = &self.rows[terminal * switches..(terminal + 1) * switches];
        let is_full =
            |(v, slot): (usize, &u8)| *slot != NONE && self.load[self.net.channel(v, *slot)] > limit;
        if !row.iter().enumerate().any(is_full) {
            return 0;
        }
        self.follow(terminal);
        self.gather(terminal);
        let mut moved = 0;
        for i in (1..self.search.reached.len()).rev() {
            let v = self.search.reached[i] as usize;
            if self.flow[v] == 0 || !self.is_full_behind(terminal, v, limit) {
                continue;
            }
            if let Some(detour) = self.best_detour(terminal, v) {
                self.apply(terminal, v, &detour);
                moved += 1;
            }
        }
        moved
    }

    fn is_full_behind(&self, terminal: usize, mut v: usize, limit: u32) -> bool {
        let row = self.row(terminal);
        while row[v] != NONE {
            let c = self.net.channel(v, row[v]);
            if self.load[c] > limit {
                return true;
            }
            v = self.net.to(c);
        }
        false
    }

    fn best_detour(&mut self, terminal: usize, v: usize) -> Option<Detour> {
        let now = self.row(terminal)[v];
        let mut best: Option<Detour> = None;
        for (slot, c) in self.net.out(v).enumerate() {
            let (u, slot) = (self.net.to(c), slot as u8);
            if slot == now || self.search.hops[u] >= self.search.hops[v] || self.search.layers[u] == 0 {
                continue;
            }
            let detour = self.try_detour(terminal, v, slot);
            if let Some(detour) = detour.filter(|d| best.as_ref().is_none_or(|b| d.fullest < b.fullest)) {
                if self.layers_behind(terminal, v, slot, false) {
                    best = Some(detour);
                }
            }
        }
        best
    }

    /// What the way over another slot would be worth; `None` if it is no better.
    fn try_detour(&self, terminal: usize, v: usize, slot: u8) -> Option<Detour> {
        let (net, hops, row) = (self.net, &self.search.hops, self.row(terminal));
        let flow = self.flow[v];
        let first = net.channel(v, row[v]);
        let other = net.channel(v, slot);
        let (mut a, mut b) = (net.to(first), net.to(other));
        let (mut old, mut new) = (self.load[first], self.load[other] + flow);
        while a != b {
            if hops[a] >= hops[b] {
                let c = net.channel(a, row[a]);
                old = old.max(self.load[c]);
                a = net.to(c);
            } else {
                let c = net.channel(b, row[b]);
                new = new.max(self.load[c] + flow);
                b = net.to(c);
            }
        }
        (new < old).then_some(Detour { slot, meets: a, fullest: new })
    }

    fn apply(&mut self, terminal: usize, v: usize, detour: &Detour) {
        let net = self.net;
        let flow = self.flow[v];
        self.shift(terminal, v, detour.meets, |load| load - flow);
        self.layers_behind(terminal, v, detour.slot, true);
        let at = terminal * net.switches() + v;
        self.rows[at] = detour.slot;
        self.shift(terminal, v, detour.meets, |load| load + flow);
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
    fn layers_behind(&mut self, terminal: usize, v: usize, slot: u8, keep: bool) -> bool {
        let (net, fit) = (self.net, &self.layers.fit);
        let row = &self.rows[terminal * net.switches()..(terminal + 1) * net.switches()];
        let search = &mut self.search;
        let home = self.home[terminal] as usize;
        let (layers, hops) = extend(net, fit, home, row, search, v, slot);
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
    net: &Net,
    fit: &[u16],
    home: usize,
    row: &[u8],
    search: &super::search::Search,
    v: usize,
    slot: u8,
) -> (u16, u16) {
    let c = net.channel(v, slot);
    let u = net.to(c);
    let turn = if u == home { u16::MAX } else { fit[net.turn(u, net.back_slot[c], row[u])] };
    (search.layers[u] & turn, search.hops[u] + 1)
}
