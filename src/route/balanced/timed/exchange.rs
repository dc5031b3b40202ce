//! What jobs exchange, step by step, as an optimiser asks for it.

use std::collections::BTreeMap;

use petgraph::unionfind::UnionFind;

use crate::model::{Demand, Group, Partners};

/// Messages of a job that are looked at, at most: in larger exchanges some of the steps stand for all.
const MESSAGES: usize = 1 << 20;
/// Steps of a job that are looked at in any case, if it has so many.
const FEWEST_STEPS: usize = 64;

/// One job: who is where, and the steps of what it exchanges.
pub(super) struct Job {
    /// Terminal of each rank.
    pub(super) ranks: Vec<u32>,
    /// Switch of each rank.
    pub(super) homes: Vec<u32>,
    /// Each with the share of the job's traffic that it is of.
    pub(super) steps: Vec<(f32, Partners)>,
}

impl Job {
    /// O(phases of its patterns).
    pub(super) fn new(group: &Group, home: &[u32]) -> Self {
        let ranks: Vec<u32> = group.ranks.iter().map(|t| t.index() as u32).collect();
        let homes = ranks.iter().map(|t| home[*t as usize]).collect();
        let parts = group.mix.parts();
        let sum: f32 = parts.iter().map(|(_, weight)| f32::from(*weight)).sum();
        let (mut steps, mut known): (Vec<(f32, Partners)>, _) = (Vec::new(), BTreeMap::new());
        for (pattern, weight) in parts {
            let weight = group.weight as f32 * f32::from(*weight) / sum;
            for phase in pattern.phases(ranks.len()) {
                let key = (phase.partners.as_shift(), phase.partners.as_xor());
                let at =
                    if key == (None, None) { steps.len() } else { *known.entry(key).or_insert(steps.len()) };
                match steps.get_mut(at) {
                    Some((share, _)) => *share += weight * phase.share,
                    None => steps.push((weight * phase.share, phase.partners)),
                }
            }
        }
        let steps = sample(steps, (MESSAGES / ranks.len().max(1)).max(FEWEST_STEPS));
        Self { ranks, homes, steps }
    }
}

/// So many of the steps at most, that stand for all: those that weigh much, and of the others each n-th.
pub(super) fn sample(steps: Vec<(f32, Partners)>, most: usize) -> Vec<(f32, Partners)> {
    if steps.len() <= most {
        return steps;
    }
    let sum: f32 = steps.iter().map(|(weight, _)| weight).sum();
    let is_heavy = |weight: f32| weight * most as f32 > 2.0 * sum;
    let (heavy, light): (Vec<_>, Vec<_>) = steps.into_iter().partition(|(weight, _)| is_heavy(*weight));
    let every = light.len().div_ceil((most - heavy.len()).max(1));
    let total: f32 = light.iter().map(|(weight, _)| weight).sum();
    let mut chosen: Vec<_> = light.into_iter().skip(every / 2).step_by(every).collect();
    let kept: f32 = chosen.iter().map(|(weight, _)| weight).sum();
    chosen.iter_mut().for_each(|(weight, _)| *weight *= total / kept);
    chosen.extend(heavy);
    chosen
}

/// What the terminals at one switch send to a destination.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub(super) switch: u32,
    /// Where their steps begin; they end where those of the next begin.
    start: u32,
    /// Share of the time in which one of them sends.
    pub(super) share: f32,
}

/// Jobs that share terminals: usually one job.
pub(super) struct Unit {
    /// Terminals, ascending.
    pub(super) dests: Vec<u32>,
    /// Of each step: that of the second job follow those of the first, and so on.
    pub(super) weight: Vec<f32>,
    /// First sender of each destination.
    first: Vec<u32>,
    senders: Vec<Sender>,
    /// In which steps each sender sends; no two terminals send to one destination in one step.
    steps: Vec<u32>,
}

impl Unit {
    /// O(messages × log messages).
    fn new(jobs: &[&Job]) -> Self {
        let mut dests: Vec<u32> = jobs.iter().flat_map(|j| j.ranks.iter().copied()).collect();
        dests.sort_unstable();
        dests.dedup();
        let (mut weight, mut messages) = (Vec::new(), Vec::new());
        for job in jobs {
            let place: Vec<u32> =
                job.ranks.iter().map(|t| dests.binary_search(t).unwrap_or(0) as u32).collect();
            for (share, partners) in &job.steps {
                let step = weight.len() as u32;
                weight.push(*share);
                let pairs = partners.pairs().map(|(from, to)| (from as usize, to as usize));
                let apart = pairs.filter(|(from, to)| job.homes[*from] != job.homes[*to]);
                messages.extend(apart.map(|(from, to)| (place[to], job.homes[from], step)));
            }
        }
        messages.sort_unstable();
        let (mut first, mut senders) = (vec![0], Vec::new());
        let mut steps: Vec<u32> = Vec::with_capacity(messages.len());
        for same in messages.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            while first.len() <= same[0].0 as usize {
                first.push(senders.len() as u32);
            }
            let start = steps.len() as u32;
            steps.extend(same.iter().map(|m| m.2));
            let share = same.iter().map(|m| weight[m.2 as usize]).sum();
            senders.push(Sender { switch: same[0].1, start, share });
        }
        first.resize(dests.len() + 1, senders.len() as u32);
        senders.push(Sender { switch: u32::MAX, start: steps.len() as u32, share: 0.0 });
        Self { dests, weight, first, senders, steps }
    }

    /// Senders to a destination, as places to ask with.
    pub(super) fn senders(&self, dest: usize) -> std::ops::Range<usize> {
        self.first[dest] as usize..self.first[dest + 1] as usize
    }

    pub(super) fn sender(&self, at: usize) -> Sender {
        self.senders[at]
    }

    pub(super) fn steps(&self, sender: usize) -> &[u32] {
        &self.steps[self.senders[sender].start as usize..self.senders[sender + 1].start as usize]
    }
}

/// The jobs of a demand, and which share terminals. O(messages × log messages).
pub(super) fn units(demand: &Demand, home: &[u32]) -> (Vec<Job>, Vec<Unit>) {
    let jobs: Vec<Job> = demand.groups.iter().map(|group| Job::new(group, home)).collect();
    let mut union = UnionFind::<usize>::new(jobs.len());
    let mut job_of = BTreeMap::new();
    for (j, job) in jobs.iter().enumerate() {
        for t in &job.ranks {
            union.union(*job_of.entry(*t).or_insert(j), j);
        }
    }
    let mut together: BTreeMap<usize, Vec<&Job>> = BTreeMap::new();
    jobs.iter().enumerate().for_each(|(j, job)| together.entry(union.find(j)).or_default().push(job));
    let units = together.values().map(|jobs| Unit::new(jobs)).collect();
    (jobs, units)
}
