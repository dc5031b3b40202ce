//! What jobs exchange, step by step, as an optimiser asks for it.

use std::collections::BTreeMap;

use petgraph::unionfind::UnionFind;
use rayon::prelude::*;

use crate::model::pattern::Grid;
use crate::model::{Demand, Group, Mix, Partners, Pattern};
use crate::route::steps;

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
    /// What a meeting of its messages costs, 1 in the mean ([`count_alike`]).
    pub(super) worth: f32,
}

impl Job {
    /// O(phases of its patterns).
    pub(super) fn new(group: &Group, home: &[u32]) -> Self {
        let ranks: Vec<u32> = group.ranks.iter().map(|t| t.index() as u32).collect();
        let homes = ranks.iter().map(|t| home[*t as usize]).collect();
        let most = (MESSAGES / ranks.len().max(1)).max(FEWEST_STEPS);
        let steps = steps::of(&group.mix, ranks.len(), group.adapters, group.weight as f32, most);
        Self { ranks, homes, steps, worth: 1.0 }
    }

    /// Adds what a rank receives from other switches: from which, and in which step, `first` being the job's
    /// first.
    fn receive(&self, rank: u32, first: u32, messages: &mut Vec<(u32, u32)>) {
        let home = self.homes[rank as usize];
        for (step, (_, partners)) in (first..).zip(&self.steps) {
            if let Some(from) = partners.from(rank).map(|from| self.homes[from as usize]) {
                if from != home {
                    messages.push((from, step));
                }
            }
        }
    }
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
pub(in super::super) struct Unit {
    /// Terminals, ascending.
    pub(super) dests: Vec<u32>,
    /// Of each step: that of the second job follow those of the first, and so on.
    pub(super) weight: Vec<f32>,
    /// What a meeting of its messages costs, 1 in the mean ([`count_alike`]).
    pub(super) worth: f32,
    /// Switches that send, ascending.
    pub(super) sending: Vec<u32>,
    /// First sender of each destination.
    first: Vec<u32>,
    senders: Vec<Sender>,
    /// In which steps each sender sends; no two terminals send to one destination in one step.
    steps: Vec<u32>,
}

impl Unit {
    /// O(messages × log steps).
    fn new(jobs: &[&Job]) -> Self {
        let mut dests: Vec<u32> = jobs.iter().flat_map(|j| j.ranks.iter().copied()).collect();
        dests.sort_unstable();
        dests.dedup();
        // Ranks by destination, and switches by rank, of each job.
        let mut roles: Vec<Vec<(usize, u32)>> = vec![Vec::new(); dests.len()];
        for (j, job) in jobs.iter().enumerate() {
            for (rank, t) in job.ranks.iter().enumerate() {
                let place = dests.binary_search(t).unwrap_or(0);
                roles[place].push((j, rank as u32));
            }
        }
        let mut first_step = vec![0];
        jobs.iter()
            .for_each(|job| first_step.push(first_step[first_step.len() - 1] + job.steps.len() as u32));
        let weight: Vec<f32> =
            jobs.iter().flat_map(|job| job.steps.iter().map(|(share, _)| *share)).collect();
        let (mut first, mut senders, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        let mut messages: Vec<(u32, u32)> = Vec::new();
        for roles in &roles {
            first.push(senders.len() as u32);
            messages.clear();
            for (j, rank) in roles {
                jobs[*j].receive(*rank, first_step[*j], &mut messages);
            }
            messages.sort_unstable();
            for same in messages.chunk_by(|a, b| a.0 == b.0) {
                let start = steps.len() as u32;
                steps.extend(same.iter().map(|m| m.1));
                let share = same.iter().map(|m| weight[m.1 as usize]).sum();
                senders.push(Sender { switch: same[0].0, start, share });
            }
        }
        let mut sending: Vec<u32> = senders.iter().map(|sender: &Sender| sender.switch).collect();
        sending.sort_unstable();
        sending.dedup();
        first.push(senders.len() as u32);
        senders.push(Sender { switch: u32::MAX, start: steps.len() as u32, share: 0.0 });
        Self { dests, weight, worth: 1.0, sending, first, senders, steps }
    }

    /// Its messages between switches, all steps together.
    pub(super) fn messages(&self) -> usize {
        self.steps.len()
    }

    /// Senders to a destination, as places to ask with.
    #[inline]
    pub(super) fn senders(&self, dest: usize) -> std::ops::Range<usize> {
        self.first[dest] as usize..self.first[dest + 1] as usize
    }

    #[inline]
    pub(super) fn sender(&self, at: usize) -> Sender {
        self.senders[at]
    }

    #[inline]
    pub(super) fn steps(&self, sender: usize) -> &[u32] {
        &self.steps[self.senders[sender].start as usize..self.senders[sender + 1].start as usize]
    }
}

/// Lets jobs count alike, whatever their sizes: a meeting costs the more, the fewer ranks a job has that could meet.
/// Else a job of many ranks is served first, and one of few takes longer.
pub(super) fn count_alike(jobs: &mut [Job], units: &mut [Unit]) {
    let ranks: usize = units.iter().map(|unit| unit.dests.len()).sum();
    let mean = ranks as f32 / units.len().max(1) as f32;
    let worth = |own: usize| mean / own.max(1) as f32;
    jobs.iter_mut().for_each(|job| job.worth = worth(job.ranks.len()));
    units.iter_mut().for_each(|unit| unit.worth = worth(unit.dests.len()));
}

/// The same demand, jobs that say nothing of their traffic with steps of more exchanges.
pub(super) fn widened(demand: &Demand) -> Demand {
    let parts = [
        (Pattern::Linear, 6),
        (Pattern::Pairwise, 4),
        (Pattern::Ring, 3),
        (Pattern::Halo(Grid::SPACE), 1),
        (Pattern::Doubling, 1),
    ];
    let (mut demand, wide) = (demand.clone(), Mix::new(parts).unwrap_or_default());
    let silent = demand.groups.iter_mut().filter(|group| group.mix.is_default());
    silent.for_each(|group| group.mix = wide.clone());
    demand
}

/// The jobs of a demand, and which share terminals. O(messages × log steps).
pub(super) fn units(demand: &Demand, home: &[u32]) -> (Vec<Job>, Vec<Unit>) {
    let jobs: Vec<Job> = demand.groups.par_iter().map(|group| Job::new(group, home)).collect();
    let mut union = UnionFind::<usize>::new(jobs.len());
    let mut job_of = BTreeMap::new();
    for (j, job) in jobs.iter().enumerate() {
        for t in &job.ranks {
            union.union(*job_of.entry(*t).or_insert(j), j);
        }
    }
    let mut together: BTreeMap<usize, Vec<&Job>> = BTreeMap::new();
    jobs.iter().enumerate().for_each(|(j, job)| together.entry(union.find(j)).or_default().push(job));
    let together: Vec<Vec<&Job>> = together.into_values().collect();
    let units = together.par_iter().map(|jobs| Unit::new(jobs)).collect();
    (jobs, units)
}
