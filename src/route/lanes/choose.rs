//! Tables inside a closure: one tree per terminal of its home's next hops, by load.
//!
//! Next hops of one home lead in no circle, so that the cheapest ways are found in one sweep, and any
//! single next hop may be exchanged for another without a look at the rest. Trees come one after the
//! other over the lightest channels; then next hops are exchanged while that makes full channels
//! lighter.

mod loads;

use self::loads::{Before, Loads, Pair};
use crate::model::rng::Rng;
use crate::model::{Closure, Demand, DestId, Fabric, StorageFlows, SwitchId, Tables, TerminalId};
use crate::route::RouteError;
use crate::route::forest::{Forest, Shared};
use crate::route::graph::{Graph, hosts_per_switch};
use crate::route::ways::bits;

/// Load of the reference, of the fullest channel.
const NEAR: f64 = 0.95;
/// Sweeps in which many channels count as full, where some are far fuller than the mean.
const COARSE: usize = 8;
/// Sweeps of exchanges, at most, and next hops they look at together.
const SWEEPS: usize = 24;
const LOOKS: usize = 400_000_000;
/// How much all routes between hosts count beside those inside jobs.
const BESIDE: f64 = 0.1;

/// Tables of trees inside a closure, all on layer 0. Routes inside jobs count first, then those between
/// all hosts. Trees that are `kept` weigh, but do not move. Switches that the closure leads nowhere (no packet
/// starts there) get any way.
///
/// Deterministic. O(terminals × next hops × hops × sweeps).
///
/// # Errors
/// If the arrays do not fit the fabric, which would be a bug.
pub fn choose(
    fabric: &Fabric,
    demand: &Demand,
    closure: &Closure,
    kept: Option<Kept<'_>>,
    engine: &str,
) -> Result<Tables, RouteError> {
    Chooser::chosen(fabric, demand, closure, &Graph::new(fabric), kept).tables(engine)
}

/// Trees of tables in force that stay as they are.
#[derive(Clone, Copy)]
pub struct Kept<'a> {
    /// The tables, of the same fabric.
    pub tables: &'a Tables,
    /// By terminal, whether its tree stays. Each of these must be inside the closure ([`is_inside`]).
    pub stays: &'a [bool],
}

/// Whether all next hops to a destination are inside a closure. O(switches).
pub fn is_inside(fabric: &Fabric, closure: &Closure, tables: &Tables, d: DestId) -> bool {
    let home = fabric.home(d);
    fabric.switch_ids().filter(|s| *s != home).all(|s| is_inside_at(fabric, closure, tables, (s, d)))
}

/// Whether all next hops of tables are inside a closure. O(entries).
pub fn are_inside(fabric: &Fabric, closure: &Closure, tables: &Tables) -> bool {
    fabric.dest_ids().all(|d| is_inside(fabric, closure, tables, d))
}

/// Whether the next hop of a switch to a destination is inside a closure. O(next hops).
pub fn is_inside_at(fabric: &Fabric, closure: &Closure, tables: &Tables, (s, d): (SwitchId, DestId)) -> bool {
    // Where the closure leads nowhere, no packet starts.
    let leads = closure.slots(s, fabric.home(d)).iter().any(|word| *word != 0);
    !leads || is_next_hop(fabric, closure, tables, s, d)
}

/// Whether the next hop of a switch to a destination is one of a closure. O(next hops).
pub(super) fn is_next_hop(
    fabric: &Fabric,
    closure: &Closure,
    tables: &Tables,
    s: SwitchId,
    d: DestId,
) -> bool {
    let mut ways = closure.ways(fabric, s, fabric.home(d));
    ways.any(|c| Some(fabric.channel(c).from_port) == tables.port(s, d))
}

/// Most routes between hosts on a channel, if tables choose inside a closure.
pub(super) fn fullest(fabric: &Fabric, graph: &Graph, closure: &Closure) -> f64 {
    Chooser::chosen(fabric, &Demand::oblivious(), closure, graph, None).loads.fullest()[1]
}

/// Next hops of a home, in an order in which each switch comes behind all it may forward to.
#[derive(Clone, Default)]
struct Ways {
    order: Vec<u32>,
    /// `ways[first[i]..first[i + 1]]`: channels by which `order[i]` may forward.
    first: Vec<u32>,
    ways: Vec<u32>,
}

impl Ways {
    fn of(graph: &Graph, closure: &Closure, home: usize) -> Self {
        let n = graph.switches();
        let channels = |s: usize| {
            let slots = closure.slots(SwitchId::at(s), SwitchId::at(home));
            let words = slots.iter().enumerate();
            words.flat_map(|(word, slots)| bits(*slots).map(move |slot| 64 * word + slot)).collect::<Vec<_>>()
        };
        let mut left: Vec<usize> = (0..n).map(|s| channels(s).len()).collect();
        let mut ways = Self { order: vec![home as u32], first: vec![0, 0], ways: Vec::new() };
        let mut next = 0;
        while let Some(&at) = ways.order.get(next) {
            next += 1;
            for back in graph.out(at as usize) {
                let (s, c) = (graph.to(back), graph.reverse(back));
                let slot = usize::from(graph.slot_at(s, c));
                if s == home || !closure.allows(SwitchId::at(s), SwitchId::at(home), slot) {
                    continue;
                }
                left[s] -= 1;
                if left[s] == 0 {
                    ways.order.push(s as u32);
                    let first = graph.out(s).start;
                    ways.ways.extend(channels(s).into_iter().map(|slot| (first + slot) as u32));
                    ways.first.push(ways.ways.len() as u32);
                }
            }
        }
        ways
    }

    fn of_place(&self, i: usize) -> &[u32] {
        &self.ways[self.first[i] as usize..self.first[i + 1] as usize]
    }
}

struct Chooser<'a> {
    fabric: &'a Fabric,
    graph: &'a Graph,
    ways: Vec<Ways>,
    /// Flows of jobs and of all hosts by sending switch, by terminal, and terminal by terminal.
    demand: &'a Demand,
    groups: Vec<Vec<u32>>,
    spread: Vec<Vec<(u32, u32)>>,
    stored: StorageFlows,
    hosts: Vec<f64>,
    loads: Loads,
    /// Channel of each switch, by terminal; [`NO_WAY`].
    next: Vec<u32>,
    /// Flows through each switch to the terminal at hand.
    flow: Vec<Pair>,
    rng: Rng,
}

const NO_WAY: u32 = u32::MAX;

impl<'a> Chooser<'a> {
    fn new(fabric: &'a Fabric, demand: &'a Demand, closure: &Closure, graph: &'a Graph) -> Self {
        let n = graph.switches();
        let spread = demand.groups.iter().map(|g| {
            let mut at: Vec<u32> =
                g.terminals.iter().map(|t| fabric.terminal(*t).switch.index() as u32).collect();
            at.sort_unstable();
            at.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect()
        });
        let is_oblivious = demand.is_oblivious();
        Self {
            fabric,
            graph,
            ways: (0..n).map(|home| Ways::of(graph, closure, home)).collect(),
            demand,
            groups: demand.groups_of(fabric),
            spread: spread.collect(),
            stored: StorageFlows::of(fabric, demand),
            hosts: hosts_per_switch(fabric).into_iter().map(f64::from).collect(),
            loads: Loads::new(graph.channels(), if is_oblivious { [0.0, 1.0] } else { [1.0, BESIDE] }),
            next: vec![NO_WAY; fabric.terminals().len() * n],
            flow: vec![[0.0; 2]; n],
            rng: Rng::new(1),
        }
    }

    /// With the trees of all terminals.
    fn chosen(
        fabric: &'a Fabric,
        demand: &'a Demand,
        closure: &Closure,
        graph: &'a Graph,
        kept: Option<Kept<'_>>,
    ) -> Self {
        let mut chooser = Self::new(fabric, demand, closure, graph);
        let mut free: Vec<usize> = (0..fabric.terminals().len()).collect();
        if let Some(kept) = kept {
            let (stay, rest) = free.into_iter().partition::<Vec<usize>, _>(|t| kept.stays[*t]);
            stay.into_iter().for_each(|t| chooser.adopt(t, kept.tables));
            free = rest;
        }
        chooser.start(&mut free);
        chooser.exchange(&mut free);
        chooser
    }

    /// Takes over a tree, with its load.
    fn adopt(&mut self, terminal: usize, tables: &Tables) {
        let (graph, n, home) = (self.graph, self.graph.switches(), self.home(terminal));
        let ports = tables.ports_to(self.fabric.dest_of_terminal(TerminalId::at(terminal)));
        let ways = &self.ways[home];
        for (i, s) in ways.order.iter().enumerate().skip(1) {
            let mut own = ways.of_place(i).iter().filter(|c| graph.port(**c as usize) == ports[*s as usize]);
            self.next[terminal * n + *s as usize] = *own.next().unwrap_or(&ways.of_place(i)[0]);
        }
        self.add(terminal);
    }

    fn home(&self, terminal: usize) -> usize {
        self.fabric.terminals()[terminal].switch.index()
    }

    /// Fills in what starts at each switch towards a terminal.
    fn fill(&mut self, terminal: usize) {
        let all = if self.fabric.is_host(TerminalId::at(terminal)) { 1.0 } else { 0.0 };
        self.flow.iter_mut().zip(&self.hosts).for_each(|(flow, hosts)| *flow = [0.0, all * hosts]);
        for g in &self.groups[terminal] {
            let weight = f64::from(self.demand.groups[*g as usize].weight);
            for (s, count) in &self.spread[*g as usize] {
                self.flow[*s as usize][0] += weight * f64::from(*count);
            }
        }
        for (s, count) in self.stored.to(&self.demand.storage, TerminalId::at(terminal)) {
            self.flow[s.index()][0] += f64::from(*count);
        }
    }

    /// Sums flows up along a terminal's tree.
    fn gather(&mut self, terminal: usize) {
        self.fill(terminal);
        let (n, home) = (self.graph.switches(), self.home(terminal));
        for s in self.ways[home].order[1..].iter().rev().map(|s| *s as usize) {
            let c = self.next[terminal * n + s];
            let (to, flow) = (self.graph.to(c as usize), self.flow[s]);
            (0..2).for_each(|k| self.flow[to][k] += flow[k]);
        }
    }

    /// Means that prices are measured by: of first trees.
    fn measure(&mut self) {
        let sum = self.loads.load.iter().fold([0.0; 2], |sum, load| [sum[0] + load[0], sum[1] + load[1]]);
        let channels = self.loads.load.len().max(1) as f64;
        self.loads.mean = sum.map(|sum| (sum / channels).max(1e-9));
    }

    /// Trees one after the other: terminals in jobs first, of one switch after those of the others.
    fn start(&mut self, terminals: &mut [usize]) {
        self.rng.shuffle(terminals);
        terminals.sort_by_key(|t| self.groups[*t].is_empty());
        let kept = self.loads.load.clone();
        if terminals.len() < self.fabric.terminals().len() {
            self.measure();
        }
        // Twice: the first time says how much there is in all.
        for _ in 0..2 {
            self.loads.load.copy_from_slice(&kept);
            for t in terminals.iter() {
                self.lead(*t);
            }
            self.measure();
        }
    }

    /// The cheapest tree of a terminal.
    fn lead(&mut self, terminal: usize) {
        let (graph, n, home) = (self.graph, self.graph.switches(), self.home(terminal));
        let ways = &self.ways[home];
        let mut cost = vec![0.0; n];
        for (i, s) in ways.order.iter().enumerate().skip(1) {
            let mut best = (f64::INFINITY, NO_WAY);
            for c in ways.of_place(i) {
                // Which of equals is another one for each terminal.
                let tie =
                    (u64::from(*c) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ (terminal as u64) << 17) >> 40;
                let price = self.loads.price(*c as usize) * (1.0 + tie as f64 * 1e-11);
                let new = cost[graph.to(*c as usize)] + price;
                if new < best.0 {
                    best = (new, *c);
                }
            }
            cost[*s as usize] = best.0;
            self.next[terminal * n + *s as usize] = best.1;
        }
        self.add(terminal);
    }

    /// Puts the load of a tree on its channels.
    fn add(&mut self, terminal: usize) {
        self.gather(terminal);
        let (n, home) = (self.graph.switches(), self.home(terminal));
        for s in &self.ways[home].order[1..] {
            let (c, flow) = (self.next[terminal * n + *s as usize], self.flow[*s as usize]);
            self.loads.add(c as usize, flow);
        }
    }

    /// Sweeps of single exchanges until they gain nothing.
    fn exchange(&mut self, terminals: &mut [usize]) {
        let looks: usize = terminals.iter().map(|t| self.ways[self.home(*t)].ways.len()).sum();
        let sweeps = (LOOKS / looks.max(1)).clamp(2, SWEEPS);
        // Their order decides which of equals is found: that of the terminals.
        terminals.sort_unstable();
        for sweep in 0..sweeps {
            let fullest = self.loads.fullest();
            let mut full = fullest.map(|load| NEAR * load);
            if self.demand.is_oblivious() && sweep < COARSE {
                full[1] = full[1].min((fullest[1] * self.loads.mean[1]).sqrt());
            }
            self.loads.refer([0, 1].map(|k| full[k].max(self.loads.mean[k]).max(1e-9)));
            self.rng.shuffle(terminals);
            let changes: usize = terminals.iter().map(|t| self.exchange_of(*t)).sum();
            if changes == 0 && sweep > 0 {
                break;
            }
        }
    }

    /// Exchanges next hops of one terminal's tree where that costs less; how many.
    fn exchange_of(&mut self, terminal: usize) -> usize {
        let (graph, n, home) = (self.graph, self.graph.switches(), self.home(terminal));
        self.gather(terminal);
        let mut changes = 0;
        let mut before: Vec<Before> = Vec::new();
        for i in 1..self.ways[home].order.len() {
            let s = self.ways[home].order[i] as usize;
            let flow = self.flow[s];
            if flow == [0.0; 2] || self.ways[home].of_place(i).len() < 2 {
                continue;
            }
            let old = self.next[terminal * n + s] as usize;
            let less = flow.map(|f| -f);
            let mut saved = 0.0;
            before.clear();
            self.follow(terminal, home, old, |loads, c| {
                before.push(loads.exchange(c, less));
                saved += loads.since(&before[before.len() - 1]);
                true
            });
            let mut best = (-1e-9, old);
            for at in self.ways[home].first[i]..self.ways[home].first[i + 1] {
                let c = self.ways[home].ways[at as usize] as usize;
                if c != old {
                    let mut cost = saved;
                    // Each channel costs more, so that a way which costs too much already is none.
                    self.follow(terminal, home, c, |loads, c| {
                        cost += loads.change(c, flow);
                        cost < best.0
                    });
                    if cost < best.0 {
                        best = (cost, c);
                    }
                }
            }
            if best.1 == old {
                before.iter().for_each(|before| self.loads.restore(before));
            } else {
                self.follow(terminal, home, best.1, |loads, c| {
                    loads.add(c, flow);
                    true
                });
                changes += 1;
                self.shift(terminal, home, graph.to(old), less);
                self.shift(terminal, home, graph.to(best.1), flow);
                self.next[terminal * n + s] = best.1 as u32;
            }
        }
        changes
    }

    /// A channel and those that packets to a terminal take behind it, as long as `visit` says to go on.
    fn follow(
        &mut self,
        terminal: usize,
        home: usize,
        from: usize,
        mut visit: impl FnMut(&mut Loads, usize) -> bool,
    ) {
        let n = self.graph.switches();
        let mut c = from;
        loop {
            let goes_on = visit(&mut self.loads, c);
            let to = self.graph.to(c);
            if to == home || !goes_on {
                return;
            }
            c = self.next[terminal * n + to] as usize;
        }
    }

    /// Adds to the flows through a switch and all behind it.
    fn shift(&mut self, terminal: usize, home: usize, from: usize, flow: Pair) {
        let mut at = from;
        loop {
            (0..2).for_each(|k| self.flow[at][k] += flow[k]);
            if at == home {
                return;
            }
            at = self.graph.to(self.next[terminal * self.graph.switches() + at] as usize);
        }
    }

    fn tables(&self, engine: &str) -> Result<Tables, RouteError> {
        let (graph, n) = (self.graph, self.graph.switches());
        let mut shared = Shared::new(self.fabric);
        for s in self.fabric.switch_ids() {
            let attached = self.fabric.attached(s);
            let own = std::iter::once(self.fabric.dest_of_switch(s));
            let lists: Vec<Option<usize>> = match attached {
                [] => vec![None],
                all => all.iter().map(|t| Some(t.index())).collect(),
            };
            for (i, terminal) in lists.into_iter().enumerate() {
                let dests = terminal.map(|_| self.fabric.dest_of_terminal(attached[i]));
                let dests = dests.into_iter().chain(own.clone().filter(|_| i == 0));
                let row = shared.add(dests);
                row[s.index()] = Forest::HOME;
                let ways = &self.ways[s.index()];
                for (place, at) in ways.order.iter().enumerate().skip(1) {
                    let at = *at as usize;
                    let c = match terminal {
                        Some(t) => self.next[t * n + at] as usize,
                        None => ways.of_place(place)[s.index() % ways.of_place(place).len()] as usize,
                    };
                    row[at] = graph.slot_at(at, c);
                }
            }
        }
        shared.into_flat_tables(self.fabric, graph, engine)
    }
}
