//! `angara-sar`: ours, the default. Two constructions, each refined; the better one is kept.
//!
//! One construction is that of [`super::sssp`]; the other settles the pairs with the most turns
//! and hops first, because they can evade the most, and sees the load of all jobs. Refinement
//! rips up one route after another and takes the alternative that adds least to the sum of the
//! fourth powers of the loads (σ(4) ranks tables the same way), over all jobs together: only
//! channels that jobs share couple them. Then routes over the most loaded channels are moved under
//! a cost that grows eightfold per unit of load, ties drawn at random (seeded), so that plateaus
//! are crossed; last, the fourth powers are reduced again without raising the maximum.
//!
//! A state is compared by its maximum load, then the sum of fourth powers; the best one seen is
//! the result, so it is never worse than `angara-sssp`.

use super::choice::{self, Choice, Flexible};
use super::minimal::Shape;
use super::{Limits, TorusEngine, TorusRouteError, sssp};
use crate::generate::rng::Rng;
use crate::model::{Torus, TorusDemand, TorusTables};

/// See the module.
pub struct Sar;

/// Channel visits of the search per round allowed: bounds time without a clock. With the default
/// of 1,000 rounds small tori are searched until nothing improves; at 1,000 nodes there is time
/// for one or two sweeps.
const VISITS_PER_ROUND: u64 = 12_000;
/// Rounds without a better state after which the search for a smaller maximum stops.
const PATIENCE: u32 = 24;

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
        let mut load = vec![0; torus.channel_slots()];
        let mut choices = Vec::with_capacity(demand.jobs.len());
        for job in 0..demand.jobs.len() {
            let mut alone = vec![0; torus.channel_slots()];
            let mut choice = Choice::new(torus, demand, job, &turns, &mut alone)?;
            sssp::balance(&mut choice, &mut alone);
            load.iter_mut().zip(&alone).for_each(|(sum, l)| *sum += l);
            choices.push(choice);
        }
        let mut search = Search::new(choices, load, limits);
        search.run();
        let routes = search.choices.into_iter().map(Choice::into_routes).collect();
        Ok(choice::tables(torus, demand, self.name(), routes))
    }
}

/// What a state is worth: maximum load, sum of fourth powers.
type Worth = (u32, u128);

struct Search<'a, 'l> {
    choices: Vec<Choice<'a>>,
    load: Vec<u32>,
    best: Worth,
    /// Routes of flexible pairs in the best state, by job and place in its list.
    best_shapes: Vec<Vec<Shape>>,
    limits: &'l Limits<'l>,
    random: Rng,
    visits: u64,
    rounds: u32,
}

impl<'a, 'l> Search<'a, 'l> {
    fn new(choices: Vec<Choice<'a>>, load: Vec<u32>, limits: &'l Limits<'l>) -> Self {
        let mut search = Self {
            choices,
            load,
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
        if self.visits < self.budget() / 2 {
            self.most_turns_first();
            self.refine();
        }
        self.restore_best();
    }

    /// Descent, search for a smaller maximum, descent below that maximum.
    fn refine(&mut self) {
        while self.sweep(&Fourth, 0) > 0 && self.go_on() && self.visits < self.budget() {}
        self.keep_if_better();
        let mut idle = 0;
        while idle < PATIENCE && self.visits < self.budget() && self.go_on() {
            let cost = Steep { top: self.top() };
            let changed = self.sweep(&cost, cost.top.saturating_sub(1));
            idle = if self.keep_if_better() { 0 } else { idle + 1 };
            if changed == 0 {
                break;
            }
        }
        self.restore_best();
        let cost = Capped { top: self.best.0 };
        while self.visits < self.budget() && self.sweep(&cost, 0) > 0 && self.go_on() {}
        self.keep_if_better();
    }

    fn budget(&self) -> u64 {
        u64::from(self.limits.rounds) * VISITS_PER_ROUND
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

    /// Settles all flexible pairs anew, those with most turns and hops first.
    fn most_turns_first(&mut self) {
        for choice in &mut self.choices {
            for pair in &choice.flexible {
                let shape = choice.chosen[pair.pair as usize];
                choice.legal.channels(pair.source, &shape, |c| self.load[c] -= 1);
            }
        }
        for choice in &mut self.choices {
            let mut order = choice.flexible.clone();
            order.sort_by_key(|f| std::cmp::Reverse((f.turns, f.length)));
            for pair in order {
                let (shape, _) = cheapest(choice, &pair, &self.load, &Fourth, &mut self.random);
                choice.chosen[pair.pair as usize] = shape;
                choice.legal.channels(pair.source, &shape, |c| self.load[c] += 1);
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
                    choice.legal.channels(pair.source, &old, |c| most = most.max(self.load[c]));
                    self.visits += u64::from(pair.length);
                    if most < from {
                        continue;
                    }
                }
                choice.legal.channels(pair.source, &old, |c| self.load[c] -= 1);
                let (new, price) = cheapest(choice, &pair, &self.load, cost, &mut self.random);
                let mut stay = 0;
                choice.legal.channels(pair.source, &old, |c| stay += cost.of(self.load[c]));
                let moves = price < stay || (cost.drifts() && price == stay);
                let shape = if moves { new } else { old };
                changed += usize::from(shape != old);
                choice.chosen[pair.pair as usize] = shape;
                choice.legal.channels(pair.source, &shape, |c| self.load[c] += 1);
                self.visits += u64::from(pair.length) * (u64::from(pair.count) + 2);
            }
        }
        changed
    }
}

fn replace(
    legal: &super::minimal::Legal<'_>,
    pair: &Flexible,
    held: &mut Shape,
    new: Shape,
    load: &mut [u32],
) {
    if *held != new {
        legal.channels(pair.source, held, |c| load[c] -= 1);
        legal.channels(pair.source, &new, |c| load[c] += 1);
        *held = new;
    }
}

/// What one more route on a channel costs.
trait Cost {
    fn of(&self, load: u32) -> u64;
    /// Whether moves that cost nothing are made.
    fn drifts(&self) -> bool {
        false
    }
}

/// Growth of the fourth power.
struct Fourth;

impl Cost for Fourth {
    #[inline]
    fn of(&self, load: u32) -> u64 {
        let l = u64::from(load);
        // (l + 1)⁴ - l⁴; fits for any load of a table that fits in memory.
        4 * l * l * l + 6 * l * l + 4 * l + 1
    }
}

/// Eightfold per unit of load, counted from 17 below the maximum.
struct Steep {
    top: u32,
}

impl Cost for Steep {
    #[inline]
    fn of(&self, load: u32) -> u64 {
        1 << (3 * (load + 18).saturating_sub(self.top).min(18))
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
    fn of(&self, load: u32) -> u64 {
        if load >= self.top { 1 << 57 } else { Fourth.of(load) }
    }
}

/// The alternative that adds least, one of several by lot if the cost drifts, else the first.
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
        choice.legal.channels(pair.source, shape, |c| sum += cost.of(load[c]));
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
