//! One choice per destination: its way down into its leaf, or its top switch. If it is the same from
//! everywhere, what messages of one step cost by meeting is a sum over pairs of destinations, so a search
//! runs over hosts and not over tables.

use super::exchange::Job;
use super::shape::NOWHERE;
use crate::model::rng::Rng;
use crate::route::steps;

/// Pairs of messages of a job that are looked at, at most.
const PAIRS: usize = 1 << 24;
/// Less is a rounding error.
const LEAST_GAIN: f32 = 1e-6;

/// What a field knows of destinations and jobs.
pub(super) struct Field {
    /// Group of each terminal: its leaf, or its pod.
    group: Vec<u32>,
    /// Job of each terminal; the first of several.
    job: Vec<u32>,
    /// Share of time in which something from another group is sent to each terminal.
    share: Vec<f32>,
    /// What it costs if two destinations of a job have the same choice, by destination.
    pairs: Vec<Vec<(u32, f32)>>,
    /// The same for pairs of jobs, per destination of each, by job.
    beside: Vec<Vec<(u32, f32)>>,
    /// What a meeting costs each job.
    worth: Vec<f32>,
    options: usize,
    /// What jobs in the same groups make an option cost for a job: `burden[job * options + option]`.
    burden: Vec<f32>,
    /// Choice of each terminal, or [`NOWHERE`].
    pub(super) choice: Vec<u32>,
    /// Terminals by group and option.
    at: Vec<Vec<u32>>,
    /// Which may no longer change.
    pub(super) is_fixed: Vec<bool>,
    rows: Rows,
}

/// Buffers of one block.
#[derive(Default)]
struct Rows {
    cost: Vec<f32>,
    pair: Vec<f32>,
    place: Vec<u32>,
    chosen: Vec<Vec<u32>>,
    now: Vec<u32>,
}

impl Field {
    /// `group_of` says which group a switch is in; terminals with one of the `choices` keep it.
    /// O(steps × ranks × ranks per group) for jobs that have others.
    pub(super) fn new(
        jobs: &[Job],
        terminals: usize,
        groups: usize,
        options: usize,
        group_of: &[u32],
        choices: &[u32],
    ) -> Self {
        let mut field = Self {
            group: vec![NOWHERE; terminals],
            job: vec![NOWHERE; terminals],
            share: vec![0.0; terminals],
            pairs: vec![Vec::new(); terminals],
            beside: vec![Vec::new(); jobs.len()],
            worth: jobs.iter().map(|job| job.worth).collect(),
            options,
            burden: vec![0.0; jobs.len() * options],
            choice: vec![NOWHERE; terminals],
            at: vec![Vec::new(); groups * options],
            is_fixed: vec![false; terminals],
            rows: Rows { place: vec![NOWHERE; terminals], ..Rows::default() },
        };
        let mut inside: Vec<Vec<(u32, f32)>> = vec![Vec::new(); groups];
        for (j, job) in jobs.iter().enumerate() {
            let group: Vec<u32> = job.homes.iter().map(|s| group_of[*s as usize]).collect();
            let members = field.join(j, job, &group, groups);
            if job.ranks.iter().any(|t| choices[*t as usize] == NOWHERE) {
                field.pair(job, &group, &members);
            }
            let others = (job.ranks.len() - 1) as f32;
            for (g, members) in members.iter().enumerate().filter(|(_, m)| !m.is_empty()) {
                inside[g].push((j as u32, members.len() as f32 / others));
            }
        }
        field.beside = meet(&inside, &field.worth);
        for (t, choice) in choices.iter().enumerate().filter(|(_, c)| **c != NOWHERE) {
            if field.has(t) {
                field.choose(t as u32, *choice);
                field.is_fixed[t] = true;
            }
        }
        field
    }

    /// Adds a job. Returns its ranks by group.
    fn join(&mut self, j: usize, job: &Job, group: &[u32], groups: usize) -> Vec<Vec<u32>> {
        let n = job.ranks.len();
        let mut members = vec![Vec::new(); groups];
        group.iter().enumerate().for_each(|(r, g)| members[*g as usize].push(r as u32));
        for (terminal, own) in job.ranks.iter().map(|t| *t as usize).zip(group) {
            if self.job[terminal] == NOWHERE {
                self.job[terminal] = j as u32;
                self.group[terminal] = *own;
            }
            self.share[terminal] += (n - members[*own as usize].len()) as f32 / (n - 1) as f32;
        }
        members
    }

    /// Finds what destinations of a job cost beside each other.
    fn pair(&mut self, job: &Job, group: &[u32], members: &[Vec<u32>]) {
        let n = job.ranks.len();
        let look: usize = members.iter().map(|m| 2 * m.len() * m.len()).sum();
        let steps = steps::sample(job.steps.clone(), (PAIRS / look.max(1)).max(16));
        let mut sum = vec![0.0f32; n];
        // For each step, whom each rank sends to and receives from, if that is in another group.
        let (mut to, mut from) = (Vec::with_capacity(n * steps.len()), Vec::with_capacity(n * steps.len()));
        for (_, partners) in &steps {
            let outside = |r: u32, other: Option<u32>| {
                other.filter(|other| group[*other as usize] != group[r as usize]).unwrap_or(NOWHERE)
            };
            to.extend((0..n as u32).map(|r| outside(r, partners.to(r))));
            from.extend((0..n as u32).map(|r| outside(r, partners.from(r))));
        }
        for d in 0..n {
            let (terminal, inside) = (job.ranks[d] as usize, &members[group[d] as usize]);
            let partners = to.chunks(n).zip(from.chunks(n));
            for ((weight, _), (to, from)) in steps.iter().zip(partners) {
                let source = from[d];
                if source == NOWHERE {
                    continue;
                }
                let there = members[group[source as usize] as usize].iter().filter(|r| **r != source);
                for e in there.map(|r| to[*r as usize]).filter(|e| *e != NOWHERE) {
                    sum[e as usize] += weight;
                }
                for e in inside.iter().map(|e| *e as usize).filter(|e| *e != d && from[*e] != NOWHERE) {
                    sum[e] += weight;
                }
            }
            let some = sum.iter_mut().enumerate().filter(|(_, sum)| **sum > 0.0);
            self.pairs[terminal].extend(some.map(|(e, sum)| (job.ranks[e], job.worth * std::mem::take(sum))));
        }
    }

    /// What a choice costs beside those of all others but one.
    fn cost(&self, t: u32, option: u32) -> f32 {
        let (job, own) = (self.job[t as usize], self.share[t as usize]);
        let pairs = self.pairs[t as usize].iter().filter(|(e, _)| self.choice[*e as usize] == option);
        let here = self.at[self.group[t as usize] as usize * self.options + option as usize].iter();
        let others = here.filter(|e| self.job[**e as usize] != job);
        self.burden[job as usize * self.options + option as usize]
            + pairs.map(|(_, weight)| weight).sum::<f32>()
            + others.map(|e| own * self.share[*e as usize] * self.between(job, *e)).sum::<f32>()
    }

    /// What a meeting costs of messages of a job and those to a terminal of another.
    #[inline]
    fn between(&self, job: u32, other: u32) -> f32 {
        mean(&self.worth, job as usize, self.job[other as usize] as usize)
    }

    /// Whether a terminal is in a job.
    pub(super) fn has(&self, t: usize) -> bool {
        self.job[t] != NOWHERE
    }

    /// Whether the choices that were made cost nothing. O(terminals × pairs).
    pub(super) fn is_free(&self) -> bool {
        let choices = self.choice.iter().enumerate().filter(|(_, choice)| **choice != NOWHERE);
        choices.map(|(t, choice)| self.cost(t as u32, *choice)).all(|cost| cost < LEAST_GAIN)
    }

    /// Whether a choice matters for a terminal: something comes from other groups.
    pub(super) fn counts(&self, t: u32) -> bool {
        self.share[t as usize] > 0.0
    }

    /// Sets or changes a choice.
    pub(super) fn choose(&mut self, t: u32, option: u32) {
        let (group, job) = (self.group[t as usize] as usize, self.job[t as usize] as usize);
        let before = std::mem::replace(&mut self.choice[t as usize], option);
        if before != NOWHERE {
            self.at[group * self.options + before as usize].retain(|e| *e != t);
        }
        self.at[group * self.options + option as usize].push(t);
        if self.share[t as usize] > 0.0 {
            for (k, weight) in &self.beside[job] {
                let row = *k as usize * self.options;
                self.burden[row + option as usize] += weight;
                if before != NOWHERE {
                    self.burden[row + before as usize] -= weight;
                }
            }
        }
    }

    /// Makes the cheapest choice among options, of equal ones the first from `turn` on.
    pub(super) fn choose_best(&mut self, t: u32, options: &[u32], turn: usize) {
        let mut best = (f32::INFINITY, NOWHERE);
        for i in 0..options.len() {
            let option = options[(turn + i) % options.len()];
            let cost = self.cost(t, option);
            if cost < best.0 - LEAST_GAIN {
                best = (cost, option);
            }
        }
        if best.1 != NOWHERE {
            self.choose(t, best.1);
        }
    }

    /// Lets terminals of one group change and swap their choices at random, by what that costs: at heat 0
    /// only for less. All must have one of the options. O(terminals × (options + pairs)), and as many
    /// trials as half the terminals times the options.
    pub(super) fn shuffle(&mut self, block: &[u32], options: &[u32], heat: f32, rng: &mut Rng) {
        let (h, o) = (block.len(), options.len());
        if h == 0 || o < 2 {
            return;
        }
        self.fill(block, options);
        let mut rows = std::mem::take(&mut self.rows);
        let mut is_other = false;
        for _ in 0..(h * o / 2).max(1) {
            let (x, to) = (rng.below(h), rng.below(o));
            let from = rows.now[x] as usize;
            if from == to {
                continue;
            }
            let there = &rows.chosen[to];
            let swap = match there.len() {
                0 => None,
                n if n < rows.chosen[from].len() => None,
                n => Some(there[rng.below(n)] as usize),
            };
            let mut change = rows.at(x, to, swap) - rows.at(x, from, swap);
            if let Some(e) = swap {
                change += rows.at(e, from, Some(x)) - rows.at(e, to, Some(x));
            }
            if change < 0.0 || (heat > 0.0 && rng.unit() < f64::from(-change / heat).exp()) {
                is_other = true;
                rows.lead(x, to);
                swap.into_iter().for_each(|e| rows.lead(e, from));
            }
        }
        block.iter().for_each(|t| rows.place[*t as usize] = NOWHERE);
        if is_other {
            for (x, t) in block.iter().enumerate() {
                let option = options[rows.now[x] as usize];
                if self.choice[*t as usize] != option {
                    self.choose(*t, option);
                }
            }
        }
        self.rows = rows;
    }

    /// What each choice in a block costs beside what is outside, and each pair inside.
    fn fill(&mut self, block: &[u32], options: &[u32]) {
        let (h, o) = (block.len(), options.len());
        let mut rows = std::mem::take(&mut self.rows);
        rows.cost.clear();
        rows.pair.clear();
        rows.now.clear();
        rows.cost.resize(h * o, 0.0);
        rows.pair.resize(h * h, 0.0);
        rows.chosen.iter_mut().for_each(Vec::clear);
        rows.chosen.resize(rows.chosen.len().max(o), Vec::new());
        let mut number = vec![NOWHERE; self.options];
        options.iter().enumerate().for_each(|(i, option)| number[*option as usize] = i as u32);
        block.iter().enumerate().for_each(|(x, t)| rows.place[*t as usize] = x as u32);
        for (x, t) in block.iter().enumerate() {
            let t = *t as usize;
            let (job, own, group) = (self.job[t] as usize, self.share[t], self.group[t] as usize);
            let now = number[self.choice[t] as usize];
            rows.now.push(now);
            rows.chosen[now as usize].push(x as u32);
            for (y, option) in options.iter().enumerate() {
                let here = self.at[group * self.options + *option as usize].iter();
                let outside = here.filter(|e| {
                    rows.place[**e as usize] == NOWHERE && self.job[**e as usize] as usize != job
                });
                let meets = |e: &u32| own * self.share[*e as usize] * self.between(job as u32, *e);
                let fixed: f32 = outside.map(meets).sum();
                rows.cost[x * o + y] = self.burden[job * self.options + *option as usize] + fixed;
            }
            for (e, weight) in &self.pairs[t] {
                let (place, chosen) = (rows.place[*e as usize], self.choice[*e as usize]);
                if place != NOWHERE {
                    rows.pair[x * h + place as usize] += weight;
                } else if chosen != NOWHERE && number[chosen as usize] != NOWHERE {
                    rows.cost[x * o + number[chosen as usize] as usize] += weight;
                }
            }
            for (y, e) in block.iter().enumerate() {
                if self.job[*e as usize] as usize != job {
                    rows.pair[x * h + y] += own * self.share[*e as usize] * self.between(job as u32, *e);
                }
            }
        }
        self.rows = rows;
    }
}

impl Rows {
    /// What a choice costs without one other of the block.
    fn at(&self, x: usize, option: usize, without: Option<usize>) -> f32 {
        let (h, o) = (self.now.len(), self.cost.len() / self.now.len());
        let here = self.chosen[option].iter().map(|e| *e as usize);
        let others = here.filter(|e| *e != x && Some(*e) != without);
        self.cost[x * o + option] + others.map(|e| self.pair[x * h + e]).sum::<f32>()
    }

    fn lead(&mut self, x: usize, option: usize) {
        let before = std::mem::replace(&mut self.now[x], option as u32) as usize;
        self.chosen[before].retain(|e| *e as usize != x);
        self.chosen[option].push(x as u32);
    }
}

/// What a meeting of messages of two jobs costs.
fn mean(worth: &[f32], job: usize, other: usize) -> f32 {
    0.5 * (worth[job] + worth[other])
}

/// For each job, what one destination of it and one of another cost that have the same choice: what both
/// have `inside` the same groups, times what a meeting costs.
fn meet(inside: &[Vec<(u32, f32)>], worth: &[f32]) -> Vec<Vec<(u32, f32)>> {
    let jobs = worth.len();
    let mut groups_of: Vec<Vec<(usize, f32)>> = vec![Vec::new(); jobs];
    for (g, of) in inside.iter().enumerate() {
        of.iter().for_each(|(j, share)| groups_of[*j as usize].push((g, *share)));
    }
    let mut sum = vec![0.0f32; jobs];
    let row = |(j, groups): (usize, &Vec<(usize, f32)>)| {
        for (g, own) in groups {
            inside[*g].iter().filter(|(k, _)| *k as usize != j).for_each(|(k, share)| {
                sum[*k as usize] += own * share;
            });
        }
        let some = sum.iter_mut().enumerate().filter(|(_, sum)| **sum > 0.0);
        some.map(|(k, sum)| (k as u32, std::mem::take(sum) * mean(worth, j, k))).collect()
    };
    groups_of.iter().enumerate().map(row).collect()
}
