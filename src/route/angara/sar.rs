//! `angara-sar`: ours, for counts of routes. The construction of [`super::sssp`], then refined.
//!
//! Refinement rips up one route after another and takes the alternative that adds least to the sum
//! of the fourth powers of the loads (σ(4) ranks tables the same way), over all jobs together: only
//! channels that jobs share couple them. Then the maximum is lowered by negotiated congestion
//! (McMurchie, Ebeling: "PathFinder", FPGA 1995): routes over channels above the maximum wanted are
//! moved, ties drawn at random (seeded), and a channel that stays above grows dearer. The prices
//! are a solution of the dual linear program, so they also prove, in integers, when no table can
//! have the maximum wanted, and the search ends. Last, the fourth powers are reduced again without
//! raising the maximum.
//!
//! A state is compared by its maximum load, then the sum of fourth powers; the best one seen is
//! the result, so it is never worse than `angara-sssp`.

use super::augment::Turns;
use super::choice::{self, Choice, Flexible};
use super::minimal::Legal;
use super::shape::Shape;
use super::{Limits, TorusEngine, TorusRouteError, sssp};
use crate::model::rng::Rng;
use crate::model::{Torus, TorusDemand, TorusTables};

/// See the module.
pub struct Sar;

/// Channel visits of the search per round allowed: bounds time without a clock.
const VISITS_PER_ROUND: u64 = 120_000;
/// Rounds allowed per sweep of all routes that is made at least.
const ROUNDS_PER_SWEEP: u64 = 100;
/// Rounds that one maximum is sought.
const PATIENCE: u32 = 400;
/// Times it is sought so, the prices starting even each time.
const ATTEMPTS: u32 = 3;
/// Rounds that a maximum is sought while a larger one is not found either.
const HASTE: u32 = 20;
/// Rounds from one attempt to prove a maximum impossible to the next.
const PROOF_EVERY: u32 = 10;
/// Largest price of a channel: sums of costs fit 64 bits.
const DEAREST: u32 = 1 << 24;

impl TorusEngine for Sar {
    fn name(&self) -> &'static str {
        "angara-sar"
    }

    fn route(
        &self,
        torus: &Torus,
        demand: &TorusDemand,
        limits: &Limits<'_>,
    ) -> Result<TorusTables, TorusRouteError> {
        let turns = choice::turns(torus, demand)?;
        let (choices, load) = begin(torus, demand, &turns)?;
        let routes = refined(choices, load, limits).into_iter().map(Choice::into_routes).collect();
        Ok(choice::tables(torus, demand, self.name(), routes))
    }
}

/// The routes of `angara-sssp`, and how many of all jobs lead over each channel.
pub(super) fn begin<'a>(
    torus: &'a Torus,
    demand: &'a TorusDemand,
    turns: &'a Turns,
) -> Result<(Vec<Choice<'a>>, Vec<u32>), TorusRouteError> {
    let mut load: Vec<u32> = Vec::new();
    let mut choices = Vec::with_capacity(demand.jobs.len());
    for job in 0..demand.jobs.len() {
        let mut alone = Vec::new();
        let mut choice = Choice::new(torus, demand, job, turns, &mut alone)?;
        sssp::balance(&mut choice, &mut alone);
        load.resize(alone.len(), 0);
        load.iter_mut().zip(&alone).for_each(|(sum, l)| *sum += l);
        choices.push(choice);
    }
    Ok((choices, load))
}

/// Refined, with these loads.
pub(super) fn refined<'a>(choices: Vec<Choice<'a>>, load: Vec<u32>, limits: &Limits<'_>) -> Vec<Choice<'a>> {
    let mut search = LoadSearch::new(choices, load, limits);
    search.run();
    search.choices
}

/// What a state is worth: maximum load, sum of fourth powers.
type Worth = (u32, u128);

struct LoadSearch<'a, 'l> {
    choices: Vec<Choice<'a>>,
    load: Vec<u32>,
    best: Worth,
    /// Routes of flexible pairs in the best state, by job and place in its list.
    best_shapes: Vec<Vec<Shape>>,
    limits: &'l Limits<'l>,
    random: Rng,
    visits: u64,
    /// Channel visits of ripping up every route once.
    sweep_visits: u64,
    rounds: u32,
}

/// How a search for a maximum ended.
enum Outcome {
    Found,
    NotFound,
    Impossible,
    /// Out of time.
    Stopped,
}

impl<'a, 'l> LoadSearch<'a, 'l> {
    fn new(choices: Vec<Choice<'a>>, load: Vec<u32>, limits: &'l Limits<'l>) -> Self {
        let pairs = choices.iter().flat_map(|c| &c.flexible);
        let sweep_visits = pairs.map(visits_of).sum();
        let mut search = Self {
            choices,
            load,
            sweep_visits,
            best: (u32::MAX, u128::MAX),
            best_shapes: Vec::new(),
            limits,
            random: Rng::new(limits.seed),
            visits: 0,
            rounds: 0,
        };
        search.keep_if_better();
        search
    }

    fn run(&mut self) {
        self.refine();
        self.restore_best();
    }

    /// Descent, search for a smaller maximum, descent below that maximum.
    fn refine(&mut self) {
        while self.visits < self.budget() / 4 && self.sweep(&Fourth, 0) > 0 && self.go_on() {}
        self.keep_if_better();
        self.squeeze();
        self.restore_best();
        let cost = Capped { top: self.best.0 };
        while self.visits < self.budget() && self.sweep(&cost, 0) > 0 && self.go_on() {}
        self.keep_if_better();
    }

    /// Looks for ever smaller maxima, halfway between the best one and what seems out of reach
    /// first, until the next smaller one is proven impossible or was sought for long enough.
    fn squeeze(&mut self) {
        let mut price = vec![1u32; self.load.len()];
        // No table has a maximum below the first; below the second none was found at once.
        let (mut proven, mut least) = (0, self.mean());
        let mut attempts = 0;
        while proven < self.best.0 {
            let below = self.best.0 - 1;
            let wanted = if least < below { (least + below) / 2 } else { below };
            let patience = if wanted < below { HASTE } else { PATIENCE };
            let outcome = self.negotiate(wanted, patience, &mut price);
            match outcome {
                Outcome::Found => attempts = 0,
                Outcome::Impossible => (proven, least) = (wanted + 1, least.max(wanted + 1)),
                Outcome::NotFound if wanted < below => least = wanted + 1,
                Outcome::NotFound => attempts += 1,
                Outcome::Stopped => return,
            }
            if attempts == ATTEMPTS {
                return;
            }
            if !matches!(outcome, Outcome::Found) {
                price.fill(1);
                self.restore_best();
            }
        }
    }

    /// Negotiated congestion: as long as a channel is above the maximum wanted, routes over such
    /// channels are ripped up, and those channels grow dearer with every round they stay above.
    fn negotiate(&mut self, wanted: u32, patience: u32, price: &mut [u32]) -> Outcome {
        for round in 1..=patience {
            // The rest is for the fourth powers.
            if self.visits >= self.budget() / 4 * 3 || !self.go_on() {
                return Outcome::Stopped;
            }
            self.sweep(&Negotiated { wanted, price }, wanted + 1);
            self.keep_if_better();
            if self.best.0 <= wanted {
                return Outcome::Found;
            }
            for (price, load) in price.iter_mut().zip(&self.load).filter(|(_, l)| **l > wanted) {
                *price = price.saturating_add(load - wanted).min(DEAREST);
            }
            if round % PROOF_EVERY == 0 && self.is_impossible(wanted, price) {
                return Outcome::Impossible;
            }
        }
        Outcome::NotFound
    }

    /// Whether the prices prove that no table has a maximum as small as wanted: even if every pair
    /// took the route over the cheapest channels, these would carry more than they may. (Duality: a
    /// weighted mean of the loads is never above their maximum.)
    fn is_impossible(&mut self, wanted: u32, price: &[u32]) -> bool {
        let weight = |c: usize| u64::from(price[c] - 1);
        let cost = |legal: &Legal<'_>, pair: &Flexible, shape: &Shape| {
            let mut sum = 0;
            legal.spans(pair.source, shape, |s| sum += s.slots().map(weight).sum::<u64>());
            sum
        };
        // Every channel has two copies.
        let carried = self.load.iter().enumerate().map(|(c, l)| i128::from(*l) * i128::from(weight(c)));
        let room: i128 = (0..price.len()).map(|c| i128::from(weight(c)) * i128::from(wanted)).sum();
        let mut above = (carried.sum::<i128>() - room) / 2;
        for choice in &self.choices {
            for pair in &choice.flexible {
                let chosen = cost(&choice.legal, pair, &choice.chosen[pair.pair as usize]);
                let least =
                    choice.alternatives(pair).iter().map(|shape| cost(&choice.legal, pair, shape)).min();
                above -= i128::from(chosen - least.unwrap_or(chosen));
                self.visits += visits_of(pair);
            }
        }
        above > 0
    }

    fn budget(&self) -> u64 {
        u64::from(self.limits.rounds) * VISITS_PER_ROUND.max(self.sweep_visits / ROUNDS_PER_SWEEP)
    }

    /// Mean load of the channels that carry anything, rounded up.
    fn mean(&self) -> u32 {
        let used = self.load.iter().filter(|l| **l > 0).count().max(1) as u64;
        self.load.iter().map(|l| u64::from(*l)).sum::<u64>().div_ceil(used) as u32
    }

    fn go_on(&mut self) -> bool {
        self.rounds += 1;
        self.rounds < self.limits.rounds && (self.limits.go_on)(self.rounds)
    }

    fn top(&self) -> u32 {
        self.load.iter().copied().max().unwrap_or(0)
    }

    fn worth(&self) -> Worth {
        (self.top(), self.load.iter().map(|l| u128::from(*l).pow(4)).sum())
    }

    fn keep_if_better(&mut self) -> bool {
        let worth = self.worth();
        let better = worth < self.best;
        if better {
            self.best = worth;
            let shapes = |c: &Choice<'_>| c.flexible.iter().map(|f| c.chosen[f.pair as usize]).collect();
            self.best_shapes = self.choices.iter().map(shapes).collect();
        }
        better
    }

    fn restore_best(&mut self) {
        for (choice, shapes) in self.choices.iter_mut().zip(&self.best_shapes) {
            for (pair, shape) in choice.flexible.iter().zip(shapes) {
                replace(&choice.legal, pair, &mut choice.chosen[pair.pair as usize], *shape, &mut self.load);
            }
        }
    }

    /// Rips up and re-routes every flexible pair that passes a channel of at least `from` routes.
    /// Returns how many routes changed.
    fn sweep(&mut self, cost: &impl Cost, from: u32) -> usize {
        let mut changed = 0;
        for choice in &mut self.choices {
            for place in 0..choice.flexible.len() {
                let pair = choice.flexible[place];
                let old = choice.chosen[pair.pair as usize];
                if from > 0 {
                    let mut most = 0;
                    choice.legal.spans(pair.source, &old, |s| {
                        most = self.load[s.slots()].iter().fold(most, |m, l| m.max(*l));
                    });
                    self.visits += u64::from(pair.length);
                    if most < from {
                        continue;
                    }
                }
                choice.legal.spans(pair.source, &old, |s| s.each(|c| self.load[c] -= 1));
                let (new, price) = cheapest(choice, &pair, &self.load, cost, &mut self.random);
                let mut stay = 0;
                choice.legal.spans(pair.source, &old, |s| {
                    stay += s.slots().map(|c| cost.of(c, self.load[c])).sum::<u64>();
                });
                let moves = price < stay || (cost.drifts() && price == stay);
                let shape = if moves { new } else { old };
                changed += usize::from(shape != old);
                choice.chosen[pair.pair as usize] = shape;
                choice.legal.spans(pair.source, &shape, |s| s.each(|c| self.load[c] += 1));
                self.visits += visits_of(&pair);
            }
        }
        changed
    }
}

/// Channel visits of ripping up and re-routing one pair.
fn visits_of(pair: &Flexible) -> u64 {
    u64::from(pair.length) * (u64::from(pair.count) + 2)
}

fn replace(
    legal: &super::minimal::Legal<'_>,
    pair: &Flexible,
    held: &mut Shape,
    new: Shape,
    load: &mut [u32],
) {
    if *held != new {
        legal.spans(pair.source, held, |s| s.each(|c| load[c] -= 1));
        legal.spans(pair.source, &new, |s| s.each(|c| load[c] += 1));
        *held = new;
    }
}

/// What one more route on a channel costs.
trait Cost {
    fn of(&self, channel: usize, load: u32) -> u64;
    /// Whether moves that cost nothing are made.
    fn drifts(&self) -> bool {
        false
    }
}

/// Growth of the fourth power.
struct Fourth;

impl Cost for Fourth {
    #[inline]
    fn of(&self, _channel: usize, load: u32) -> u64 {
        let l = u64::from(load);
        // (l + 1)⁴ - l⁴; fits for any load of a table that fits in memory.
        4 * l * l * l + 6 * l * l + 4 * l + 1
    }
}

/// The price of a channel per unit above the load wanted; below, the fuller the dearer by far less.
struct Negotiated<'p> {
    wanted: u32,
    price: &'p [u32],
}

impl Cost for Negotiated<'_> {
    #[inline]
    fn of(&self, channel: usize, load: u32) -> u64 {
        if load >= self.wanted {
            (u64::from(load - self.wanted + 1) * u64::from(self.price[channel])) << 12
        } else {
            1 << (3 * (load + 4).saturating_sub(self.wanted).min(3))
        }
    }
    fn drifts(&self) -> bool {
        true
    }
}

/// Fourth powers, but prohibitive above the maximum.
struct Capped {
    top: u32,
}

impl Cost for Capped {
    #[inline]
    fn of(&self, channel: usize, load: u32) -> u64 {
        if load >= self.top { 1 << 57 } else { Fourth.of(channel, load) }
    }
}

/// The alternative that adds least, one of several, chosen at random, if the cost drifts, else the first.
fn cheapest(
    choice: &Choice<'_>,
    pair: &Flexible,
    load: &[u32],
    cost: &impl Cost,
    lot: &mut Rng,
) -> (Shape, u64) {
    let mut best = (choice.chosen[pair.pair as usize], u64::MAX);
    let mut equal = 1;
    for shape in choice.alternatives(pair) {
        let mut sum = 0;
        choice.legal.spans(pair.source, shape, |s| {
            sum += s.slots().map(|c| cost.of(c, load[c])).sum::<u64>();
        });
        if sum < best.1 {
            (best, equal) = ((*shape, sum), 1);
        } else if sum == best.1 && cost.drifts() {
            equal += 1;
            if lot.below(equal) == 0 {
                best.0 = *shape;
            }
        }
    }
    best
}
