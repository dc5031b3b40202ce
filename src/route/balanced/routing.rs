//! One tree of routes per destination terminal, and what the trees put on the channels.

use super::bound;
use super::climb::Climb;
use super::layers::Layers;
use super::level::Hold;
use super::nearer::Nearer;
use super::net::{NONE, Net};
use super::search::{Ground, TreeSearch, fitting};
use super::traffic::{Class, Traffic};
use crate::model::rng::Rng;
use crate::route::graph::is_indirect;

/// Switches of trees in large fabrics.
pub(super) const LARGE: usize = 1_000_000;
/// The same in small ones, where time does not matter.
const SMALL: usize = 1 << 18;

/// The trees under construction.
pub(super) struct Routing<'a> {
    pub(super) net: &'a Net,
    pub(super) layers: &'a Layers,
    pub(super) traffic: &'a Traffic<'a>,
    /// Home switch of each terminal.
    pub(super) home: Vec<u32>,
    /// Slot towards each terminal: `rows[terminal * switches + switch]`.
    pub(super) rows: Vec<u8>,
    /// Routes that count over each channel.
    pub(super) load: Vec<u32>,
    /// Price of the reverse of each channel.
    pub(super) price_back: Vec<f32>,
    no_price: Vec<f32>,
    pub(super) search: TreeSearch,
    /// Slots that lead nearer to the destination at hand.
    pub(super) nearer: Nearer,
    /// Flow into the tree at each switch, from it and from all behind it.
    pub(super) flow: Vec<u32>,
    /// Switches still to visit, with the layers and hops of their routes.
    pub(super) stack: Vec<(u32, u16, u16)>,
    /// Channels of the route at hand.
    pub(super) way: Vec<u32>,
    /// How much longer a route may become when it is moved.
    pub(super) slack: u16,
    /// Whether the route of a switch has a channel that is too full.
    pub(super) is_full: Vec<bool>,
    /// Of all that is drawn at random for these routes.
    pub(super) seed: u64,
    pub(super) rng: Rng,
    /// Set once the routes of jobs must stay as they are.
    pub(super) hold: Option<Hold<'a>>,
    /// Whether the route of a switch must stay, in the tree at hand.
    pub(super) held: Vec<bool>,
    /// Routes over each channel inside the jobs of the terminal at hand, as far as they were added
    /// since these jobs came up.
    pub(super) own: Vec<u32>,
    pub(super) own_groups: Vec<u32>,
    /// A tree needed the last resort, whose turns layers that start with full channels lack.
    pub(super) is_lost: bool,
    /// Routes of jobs are only what a search for time begins with: settled ones stay, and none is moved for counts.
    pub(super) is_start: bool,
    /// The switches by level, in a tree where all routes climb and then descend.
    pub(super) climb: Option<Climb>,
}

impl<'a> Routing<'a> {
    pub(super) fn new(
        net: &'a Net,
        layers: &'a Layers,
        traffic: &'a Traffic<'a>,
        home: Vec<u32>,
        seed: u64,
    ) -> Self {
        let switches = net.switches();
        Self {
            rows: vec![NONE; home.len() * switches],
            home,
            load: vec![0; net.channels()],
            price_back: vec![0.0; net.channels()],
            no_price: vec![0.0; net.channels()],
            search: TreeSearch::new(switches),
            nearer: Nearer::default(),
            flow: vec![0; switches],
            stack: Vec::new(),
            way: Vec::new(),
            slack: 0,
            is_full: vec![false; switches],
            seed,
            rng: Rng::new(seed),
            hold: None,
            held: vec![false; switches],
            own: vec![0; net.channels()],
            own_groups: Vec::new(),
            is_lost: false,
            is_start: false,
            climb: None,
            net,
            layers,
            traffic,
        }
    }

    /// The tree of a terminal.
    #[inline]
    pub(super) fn row(&self, terminal: usize) -> &[u8] {
        let switches = self.net.switches();
        &self.rows[terminal * switches..(terminal + 1) * switches]
    }

    /// Routes these terminals and balances them among themselves, whatever was routed before.
    ///
    /// Those that are `settled` have routes, which only make room where a channel is too full with
    /// the routes of jobs, unless they are only a start.
    pub(super) fn route(&mut self, class: Class, settled: &[bool], within: u16) {
        let terminals = &self.traffic.destinations(class);
        let (old, new): (Vec<usize>, Vec<usize>) = terminals.iter().partition(|t| settled[**t]);
        self.sum_up(&old);
        for &t in &new {
            self.grow(t, within);
        }
        let is_last = class == Class::Other && !self.traffic.is_oblivious();
        if is_last || (class != Class::Job && !old.is_empty()) {
            // All routes between hosts are balanced in the end.
            return;
        }
        let is_small = !self.is_large(new.len());
        let is_shift = class == Class::Job && self.traffic.is_oblivious() && old.is_empty();
        let once = (is_shift && is_small && is_indirect(&self.net.hosts)).then(|| self.rows.clone());
        if is_small {
            // Once more, now that the load of all others is known.
            for &t in &new {
                self.lift(t);
                self.grow(t, within);
            }
        }
        if self.is_start && class == Class::Job {
            return;
        }
        let floor = bound::floor(self, terminals);
        if !new.is_empty() {
            self.balance(&new, floor);
            if let Some(once) = once {
                self.take_if_better(&new, floor, once);
                self.keep_apart(&new);
            }
        }
        if !old.is_empty() {
            self.make_room(terminals, floor);
        }
        if class == Class::Job {
            self.widen(&new, within);
        }
    }

    /// What time costs: all of this price in large fabrics, nothing in small ones, between them a part of it.
    pub(super) fn by_size(&self, price: usize) -> usize {
        let entries = (self.home.len() * self.net.switches()).clamp(SMALL, LARGE);
        price * (entries - SMALL) / (LARGE - SMALL)
    }

    /// Whether quality has to pay for its time.
    pub(super) fn is_large(&self, trees: usize) -> bool {
        trees * self.net.switches() > LARGE
    }

    /// Forgets all loads.
    pub(super) fn clear_load(&mut self) {
        self.load.fill(0);
        self.price_back.fill(0.0);
    }

    /// Adds the load of a tree, or takes it away; `search` need not describe it. Says whether all of its routes are known
    /// to climb and then descend. O(switches).
    pub(super) fn weigh(&mut self, terminal: usize, change: fn(u32, u32) -> u32) -> bool {
        let (net, home) = (self.net, self.home[terminal] as usize);
        if let Some(climb) = &self.climb {
            let row = &self.rows[terminal * net.switches()..(terminal + 1) * net.switches()];
            if let Some(all) = climb.weigh((net, home, row), (&mut self.flow, &mut self.load), change, false)
            {
                return all;
            }
        }
        self.follow(terminal);
        self.gather(terminal);
        self.count(terminal, change);
        false
    }

    /// Routes a terminal anew and adds its load. O(channels).
    pub(super) fn grow(&mut self, terminal: usize, within: u16) {
        let switches = self.net.switches();
        let home = self.home[terminal] as usize;
        let (net, layers) = (self.net, self.layers);
        // In large fabrics the search for time moves routes of one tree apart soon enough.
        let is_rough = self.is_start && self.is_large(self.home.len());
        if self.hold.is_none() && !is_rough && self.spread(terminal, within, None) {
            return;
        }
        let span = terminal * switches..(terminal + 1) * switches;
        let (fit, row, search) = (&layers.fit, &mut self.rows[span.clone()], &mut self.search);
        search.run(Ground { net, fit, home, price_back: &self.price_back }, within, row);
        let mut is_done = covers(net, search, home) || self.repair(terminal);
        if !is_done {
            let (row, search) = (&mut self.rows[span.clone()], &mut self.search);
            search.run(Ground { net, fit, home, price_back: &self.no_price }, within, row);
            is_done = covers(net, search, home) || self.repair(terminal);
        }
        if !is_done {
            let (row, search) = (&mut self.rows[span.clone()], &mut self.search);
            search.run(Ground { net, fit, home, price_back: &self.price_back }, layers.refuge_layer, row);
            if !covers(net, search, home) {
                self.is_lost |= layers.is_hot_first;
                layers.refuge_routes(net, home, row);
                search.trace(net, fit, layers.refuge_layer, home, row);
            }
        }
        self.search.attach_rest(net, &mut self.rows[span]);
        self.gather(terminal);
        self.count(terminal, u32::wrapping_add);
    }

    /// Takes the tree's load off the channels. O(switches).
    pub(super) fn lift(&mut self, terminal: usize) {
        self.follow(terminal);
        self.gather(terminal);
        self.count(terminal, u32::wrapping_sub);
    }

    /// Makes `search` describe the tree of a terminal. O(switches).
    pub(super) fn follow(&mut self, terminal: usize) {
        let switches = self.net.switches();
        let row = &self.rows[terminal * switches..(terminal + 1) * switches];
        let home = self.home[terminal] as usize;
        self.search.trace(self.net, &self.layers.fit, self.layers.all, home, row);
    }

    /// Makes `search`, which began lazily, know of a switch on its way to a terminal. O(hops).
    #[inline]
    pub(super) fn look(&mut self, terminal: usize, switch: usize) {
        let switches = self.net.switches();
        let row = &self.rows[terminal * switches..(terminal + 1) * switches];
        let (net, at) = (self.net, (self.home[terminal] as usize, switch));
        match &self.climb {
            // Levels say the same as the table of turns, which is large.
            Some(climb) => self.search.look(net, climb.turns(net, self.layers.all), at, row),
            None => self.search.look(net, fitting(net, &self.layers.fit), at, row),
        }
    }

    /// Sums the flows of the tree that `search` describes. O(switches).
    pub(super) fn gather(&mut self, terminal: usize) {
        self.traffic.fill(self.net, terminal, &mut self.flow);
        let switches = self.net.switches();
        let row = &self.rows[terminal * switches..(terminal + 1) * switches];
        for &v in self.search.reached.iter().skip(1).rev() {
            let next = self.net.to(self.net.channel(v as usize, row[v as usize]));
            self.flow[next] += self.flow[v as usize];
        }
    }

    pub(super) fn count(&mut self, terminal: usize, change: fn(u32, u32) -> u32) {
        for i in 1..self.search.reached.len() {
            let v = self.search.reached[i] as usize;
            let flow = self.flow[v];
            if flow > 0 {
                let c = self.net.channel(v, self.row(terminal)[v]);
                self.set_load(c, change(self.load[c], flow));
            }
        }
    }

    #[inline]
    pub(super) fn set_load(&mut self, channel: usize, load: u32) {
        self.load[channel] = load;
        self.price_back[self.net.reverse(channel)] = price(load);
    }
}

/// Steep, so that a route avoids its fullest channel before it counts the others.
pub(super) fn price(load: u32) -> f32 {
    let load = load as f32;
    load * load * load
}

/// Whether each switch with terminals has a route in some layer, as far as it is connected.
pub(super) fn covers(net: &Net, search: &TreeSearch, home: usize) -> bool {
    (0..net.switches()).all(|s| !net.is_source[s] || net.part[s] != net.part[home] || search.layers[s] != 0)
}
