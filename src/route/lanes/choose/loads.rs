//! What full channels cost.

/// What a route over channels of mean load costs, in hops.
const BALANCE: f64 = 0.05;
/// What a channel at the reference load costs more, in hops, and how steeply.
const FULL: f64 = 2.0;
const STEEP: i32 = 20;

/// Two loads: routes inside jobs, and all between hosts.
pub(super) type Pair = [f64; 2];

/// How full channels are, and what that costs.
pub(super) struct Loads {
    pub(super) load: Vec<Pair>,
    pub(super) mean: Pair,
    /// What a route counts.
    pub(super) weight: Pair,
    /// Load that counts as full; none yet.
    reference: Option<Pair>,
    /// What all routes on each channel cost; nothing before there is a reference.
    costs: Vec<f64>,
}

/// A channel's load and cost of before.
pub(super) struct Before {
    channel: usize,
    load: Pair,
    cost: f64,
}

impl Loads {
    pub(super) fn new(channels: usize, weight: Pair) -> Self {
        Self { load: vec![[0.0; 2]; channels], mean: [1.0; 2], weight, reference: None, costs: Vec::new() }
    }

    pub(super) fn add(&mut self, c: usize, flow: Pair) {
        (0..2).for_each(|k| self.load[c][k] += flow[k]);
        if !self.costs.is_empty() {
            self.costs[c] = self.cost(self.load[c]);
        }
    }

    /// Sets the load that counts as full.
    pub(super) fn refer(&mut self, full: Pair) {
        self.reference = Some(full);
        self.costs = self.load.iter().map(|load| self.cost(*load)).collect();
    }

    /// What one more route costs on a channel, by its load.
    pub(super) fn price(&self, c: usize) -> f64 {
        let of = |k: usize| {
            let load = self.load[c][k];
            let full = self.reference.map_or(0.0, |r| FULL * (load / r[k]).powi(STEEP));
            self.weight[k] * self.mean[0] / self.mean[k]
                * (1.0 + BALANCE * load / self.mean[k] + full.min(1e3))
        };
        of(0) + of(1)
    }

    /// What all routes on a channel cost: prices summed up to its load.
    fn cost(&self, load: Pair) -> f64 {
        let of = |k: usize| {
            let (l, mean) = (load[k], self.mean[k]);
            let full = self
                .reference
                .map_or(0.0, |r| FULL * r[k] / f64::from(STEEP + 1) * (l / r[k]).powi(STEEP + 1));
            self.weight[k] / mean * (l + BALANCE / 2.0 * l * l / mean + full)
        };
        of(0) + of(1)
    }

    /// What changes with a flow more on a channel, after [`Loads::refer`]. Never below zero.
    pub(super) fn change(&self, c: usize, flow: Pair) -> f64 {
        let before = self.load[c];
        self.cost([before[0] + flow[0], before[1] + flow[1]]) - self.costs[c]
    }

    /// Adds a flow to a channel, after [`Loads::refer`]; what was there before.
    pub(super) fn exchange(&mut self, c: usize, flow: Pair) -> Before {
        let before = Before { channel: c, load: self.load[c], cost: self.costs[c] };
        self.add(c, flow);
        before
    }

    /// Puts back what was there before.
    pub(super) fn restore(&mut self, before: &Before) {
        self.load[before.channel] = before.load;
        self.costs[before.channel] = before.cost;
    }

    /// What a channel's routes cost now beside what they cost before.
    pub(super) fn since(&self, before: &Before) -> f64 {
        self.costs[before.channel] - before.cost
    }

    pub(super) fn fullest(&self) -> Pair {
        self.load.iter().fold([0.0; 2], |most, load| [most[0].max(load[0]), most[1].max(load[1])])
    }
}
