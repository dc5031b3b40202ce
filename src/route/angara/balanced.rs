//! `angara-balanced`: ours, the default. The tables of [`super::sar`], then moves of single routes that let jobs
//! finish sooner.
//!
//! A count of routes is not time: what delays an exchange is how many messages of *one step* meet on a channel,
//! and how much else is on its way there, for neither ranks nor jobs stay in step. Two things cost, on each channel:
//!
//! * in each step of each job, the square of its messages, times the step's share;
//! * the square of the mean number of messages of all jobs.
//!
//! One route after another is taken up and laid where it costs least, over all legal minimal ones. Of the tables
//! of `angara-sar`, `angara-sssp` and `angara-bfs` and those that the moves lead to from there, the ones with the least
//! predicted slow-down ([`crate::measure::slowdown`]) are the answer: it is never worse than they are. Where jobs are
//! small, some routes of the best are then drawn by lot, and the moves begin again, as often as a budget of work
//! allows. Jobs without an id stand for jobs that may come. Where there are others, these alone are judged.

use std::sync::Arc;

use super::choice::{self, Choice, Flexible};
use super::shape::Shape;
use super::{Limits, TorusEngine, TorusRouteError, bfs, sar};
use crate::measure::slowdown::{Time, of_routes};
use crate::model::rng::Rng;
use crate::model::{Adapters, Routes, Torus, TorusDemand, TorusJob, TorusTables};
use crate::route::steps;

/// See the module.
pub struct Balanced;

/// Messages of a job that are looked at, at most: in larger exchanges some of the steps stand for all.
const MESSAGES: usize = 1 << 21;
/// Steps of a job that are looked at in any case, if it has so many.
const FEWEST_STEPS: usize = 64;
/// Times that all jobs are looked at, one after the other.
const ROUNDS: usize = 4;
/// Sweeps over the routes of a job each time.
const SWEEPS: usize = 4;
/// Channel visits of the moves per round allowed: bounds time without a clock.
const VISITS_PER_ROUND: u64 = 1_000_000;
/// Channel visits of moves that begin elsewhere, per round allowed.
const VISITS_ELSEWHERE: u64 = 20_000;
/// Times that they begin elsewhere, at most.
const STARTS: usize = 60;
/// One route in so many is drawn by lot where the moves begin again.
const SHAKEN: usize = 12;
/// Less is a rounding error.
const LEAST_GAIN: f32 = 1e-6;

impl TorusEngine for Balanced {
    fn name(&self) -> &'static str {
        "angara-balanced"
    }

    fn route(
        &self,
        torus: &Torus,
        demand: &TorusDemand,
        limits: &Limits<'_>,
    ) -> Result<TorusTables, TorusRouteError> {
        let turns = choice::turns(torus, demand)?;
        let (choices, load) = sar::begin(torus, demand, &turns)?;
        let mut best = Best::of(torus, &demand.jobs, &choices);
        let choices = sar::refined(choices, load, limits);
        best.take(torus, &demand.jobs, &choices);
        let mut search = TimeSearch::new(torus, &demand.jobs, choices, limits);
        search.run();
        best.take(torus, &demand.jobs, &search.choices);
        for (job, choice) in search.choices.iter_mut().enumerate() {
            choice.choose(torus, &bfs::routes_of(torus, demand, job, &turns)?);
        }
        best.take(torus, &demand.jobs, &search.choices);
        search.run_elsewhere(&mut best);
        let routes = search.choices.into_iter().zip(best.chosen).map(|(mut choice, chosen)| {
            choice.chosen = chosen;
            choice.into_routes()
        });
        Ok(choice::tables(torus, demand, self.name(), routes.collect()))
    }
}

/// The routes that are predicted best so far.
struct Best {
    slowdown: f64,
    /// [`Choice::chosen`] by job.
    chosen: Vec<Vec<Shape>>,
}

impl Best {
    fn of(torus: &Torus, jobs: &[TorusJob], choices: &[Choice<'_>]) -> Self {
        let chosen = choices.iter().map(|choice| choice.chosen.clone()).collect();
        Self { slowdown: predicted(torus, jobs, choices), chosen }
    }

    /// Takes other routes if they are not predicted worse.
    fn take(&mut self, torus: &Torus, jobs: &[TorusJob], choices: &[Choice<'_>]) {
        let slowdown = predicted(torus, jobs, choices);
        if slowdown <= self.slowdown {
            self.slowdown = slowdown;
            self.chosen = choices.iter().map(|choice| choice.chosen.clone()).collect();
        }
    }
}

/// Predicted slow-down over the jobs that are there, or over all if none is.
fn predicted(torus: &Torus, jobs: &[TorusJob], choices: &[Choice<'_>]) -> f64 {
    let named = jobs.iter().any(|job| job.id.is_some());
    let there = jobs.iter().zip(choices).filter(|(job, _)| job.id.is_some() || !named);
    let (jobs, routes): (Vec<&TorusJob>, Vec<Routes>) =
        there.map(|(job, choice)| (job, choice.routes())).unzip();
    Time::of(&of_routes(torus, jobs.into_iter().zip(&routes))).slowdown_mean
}

struct TimeSearch<'a, 'l> {
    torus: &'a Torus,
    jobs: &'a [TorusJob],
    choices: Vec<Choice<'a>>,
    /// By job.
    exchanges: Arc<[Exchange]>,
    /// Mean messages of all jobs, by channel.
    mean: Vec<f32>,
    limits: &'l Limits<'l>,
    visits: u64,
}

impl<'a, 'l> TimeSearch<'a, 'l> {
    fn new(torus: &'a Torus, jobs: &'a [TorusJob], choices: Vec<Choice<'a>>, limits: &'l Limits<'l>) -> Self {
        let mean = vec![0.0; torus.channel_slots()];
        let exchanges = jobs.iter().map(Exchange::new).collect();
        Self { torus, jobs, choices, exchanges, mean, limits, visits: 0 }
    }

    /// Goes on from the routes that are chosen now, then from the best ones with a few of them drawn by lot.
    fn run_elsewhere(&mut self, best: &mut Best) {
        let flexible: Vec<(usize, Flexible)> = (self.choices.iter().enumerate())
            .flat_map(|(job, choice)| choice.flexible.iter().map(move |pair| (job, *pair)))
            .collect();
        let budget = u64::from(self.limits.rounds) * VISITS_ELSEWHERE;
        let (mut random, begun) = (Rng::new(self.limits.seed), self.visits);
        let mut cost = begun;
        for _ in 0..STARTS {
            let before = self.visits;
            let is_best = best.slowdown <= 1.0;
            if is_best || flexible.is_empty() || before - begun + cost > budget || !self.goes_on() {
                break;
            }
            self.run();
            best.take(self.torus, self.jobs, &self.choices);
            // A prediction looks at about as many channels as a sweep over all routes.
            self.visits += self.choices.iter().map(Choice::visits).sum::<u64>();
            cost = self.visits - before;
            for (choice, chosen) in self.choices.iter_mut().zip(&best.chosen) {
                choice.chosen.clone_from(chosen);
            }
            for _ in 0..flexible.len().div_ceil(SHAKEN) {
                let (job, pair) = flexible[random.below(flexible.len())];
                let choice = &mut self.choices[job];
                let shape = choice.alternatives(&pair)[random.below(pair.count.into())];
                choice.chosen[pair.pair as usize] = shape;
            }
        }
    }

    /// Moves routes of one job after the other, until none moves or the budget is spent.
    fn run(&mut self) {
        if self.choices.iter().all(|choice| choice.flexible.is_empty()) {
            return;
        }
        self.mean.fill(0.0);
        let exchanges = Arc::clone(&self.exchanges);
        for (exchange, choice) in exchanges.iter().zip(&self.choices) {
            exchange.each_hop(self.torus, choice, |_, share, c| self.mean[c] += share);
        }
        for _ in 0..ROUNDS {
            let mut moved = 0;
            for (number, exchange) in exchanges.iter().enumerate() {
                if self.goes_on() && !self.choices[number].flexible.is_empty() {
                    moved += self.polish(number, exchange);
                }
            }
            if moved == 0 {
                break;
            }
        }
    }

    fn goes_on(&self) -> bool {
        let budget = u64::from(self.limits.rounds) * VISITS_PER_ROUND;
        // The rounds were those of the search before.
        self.visits < budget && (self.limits.go_on)(self.limits.rounds)
    }

    /// Sweeps over the routes of one job. Returns how many moved.
    fn polish(&mut self, number: usize, exchange: &Exchange) -> usize {
        let slots = self.torus.channel_slots();
        let mut meetings = Meetings {
            exchange,
            mean: std::mem::take(&mut self.mean),
            count: vec![0; exchange.weight.len() * slots],
        };
        let choice = &mut self.choices[number];
        exchange.each_hop(self.torus, choice, |step, _, c| meetings.count[step * slots + c] += 1);
        let mut all = 0;
        for _ in 0..SWEEPS {
            let moved = sweep(choice, &mut meetings);
            all += moved;
            self.visits += choice.visits();
            if moved == 0 {
                break;
            }
        }
        self.mean = meetings.mean;
        all
    }
}

/// Takes up each route that has a choice, and lays it where it costs least. Returns how many moved.
fn sweep(choice: &mut Choice<'_>, meetings: &mut Meetings<'_>) -> usize {
    let mut moved = 0;
    for place in 0..choice.flexible.len() {
        let pair = choice.flexible[place];
        let steps = meetings.exchange.steps_of(pair.pair as usize);
        if steps.is_empty() {
            continue;
        }
        let share: f32 = steps.iter().map(|s| meetings.exchange.weight[*s as usize]).sum();
        let old = choice.chosen[pair.pair as usize];
        let legal = &choice.legal;
        legal.channels(pair.source, &old, |c| meetings.leave(c, steps, share));
        let cost = |shape: &Shape| {
            let mut sum = 0.0;
            legal.channels(pair.source, shape, |c| sum += meetings.to_join(c, steps, share));
            sum
        };
        let mut best = (old, cost(&old) - LEAST_GAIN);
        for shape in choice.alternatives(&pair).iter().filter(|shape| **shape != old) {
            let cost = cost(shape);
            if cost < best.1 {
                best = (*shape, cost);
            }
        }
        legal.channels(pair.source, &best.0, |c| meetings.join(c, steps, share));
        moved += usize::from(best.0 != old);
        choice.chosen[pair.pair as usize] = best.0;
    }
    moved
}

/// How many messages of each step of a job are on each channel, and of all jobs in the mean.
struct Meetings<'e> {
    exchange: &'e Exchange,
    /// Messages of the job, by step and channel.
    count: Vec<u16>,
    /// By channel.
    mean: Vec<f32>,
}

impl Meetings<'_> {
    /// Adds a route to a channel.
    #[inline]
    fn join(&mut self, channel: usize, steps: &[u32], share: f32) {
        let slots = self.mean.len();
        steps.iter().for_each(|s| self.count[*s as usize * slots + channel] += 1);
        self.mean[channel] += share;
    }

    /// Takes it away.
    #[inline]
    fn leave(&mut self, channel: usize, steps: &[u32], share: f32) {
        let slots = self.mean.len();
        steps.iter().for_each(|s| self.count[*s as usize * slots + channel] -= 1);
        self.mean[channel] -= share;
    }

    /// Growth of the squares if it were added.
    #[inline]
    fn to_join(&self, channel: usize, steps: &[u32], share: f32) -> f32 {
        let slots = self.mean.len();
        let of_step = |s: &u32| {
            let n = f32::from(self.count[*s as usize * slots + channel]);
            self.exchange.weight[*s as usize] * (2.0 * n + 1.0)
        };
        share * (2.0 * self.mean[channel] + share) + steps.iter().map(of_step).sum::<f32>()
    }
}

/// The steps of a job's exchange, by pair of its nodes.
struct Exchange {
    /// Share of each step.
    weight: Vec<f32>,
    /// By pair of places: where its steps begin in `steps`; the last is their end.
    first: Vec<u32>,
    steps: Vec<u32>,
    /// Number of nodes.
    nodes: usize,
}

impl Exchange {
    /// O(messages).
    fn new(job: &TorusJob) -> Self {
        let (nodes, ranks) = (job.nodes(), job.ranks());
        let most = (MESSAGES / nodes.len().max(1)).max(FEWEST_STEPS);
        let of_mix = steps::of(&job.mix, ranks.len(), Adapters::default(), 1.0, most);
        let place: Vec<usize> =
            ranks.iter().map(|node| nodes.binary_search(node).unwrap_or_default()).collect();
        let pair = |(from, to): (u32, u32)| place[from as usize] * nodes.len() + place[to as usize];
        let mut first = vec![0u32; nodes.len() * nodes.len() + 1];
        of_mix.iter().flat_map(|(_, p)| p.pairs()).for_each(|ends| first[pair(ends) + 1] += 1);
        (1..first.len()).for_each(|i| first[i] += first[i - 1]);
        let mut free = first.clone();
        let mut steps = vec![0; first.last().map_or(0, |n| *n as usize)];
        for (step, (_, partners)) in of_mix.iter().enumerate() {
            for ends in partners.pairs() {
                let at = &mut free[pair(ends)];
                steps[*at as usize] = step as u32;
                *at += 1;
            }
        }
        Self {
            weight: of_mix.into_iter().map(|(weight, _)| weight).collect(),
            first,
            steps,
            nodes: nodes.len(),
        }
    }

    fn steps_of(&self, pair: usize) -> &[u32] {
        &self.steps[self.first[pair] as usize..self.first[pair + 1] as usize]
    }

    /// Calls `visit` with step, share and channel of every message.
    fn each_hop(&self, torus: &Torus, choice: &Choice<'_>, mut visit: impl FnMut(usize, f32, usize)) {
        for pair in 0..self.first.len() - 1 {
            let steps = self.steps_of(pair);
            if !steps.is_empty() {
                choice.channels(torus, [pair / self.nodes, pair % self.nodes], |c| {
                    steps.iter().for_each(|s| visit(*s as usize, self.weight[*s as usize], c));
                });
            }
        }
    }
}
