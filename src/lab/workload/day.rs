//! A seeded batch system: jobs arrive, wait, get nodes, end. For the demo and for replays without
//! a trace.

use std::collections::VecDeque;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::rng::Rng;
use crate::model::{Job, JobId, JobMap, JobState, NodeName};

/// Sizes in nodes and their relative frequency. Most jobs need more than one leaf switch of 18
/// or get their nodes scattered, as on the systems of the thesis' Figure 5.1 (half to two thirds
/// of the jobs there are multi-switch).
const SIZES: &[(usize, usize)] =
    &[(1, 4), (2, 4), (4, 5), (8, 6), (12, 4), (16, 5), (24, 4), (32, 4), (48, 2), (64, 1)];

/// Shortest and longest run time, minutes; log-uniform between them.
const RUN_MINUTES: (f64, f64) = (8.0, 150.0);

/// A simulated batch system over named nodes: first come first served, lowest free nodes first,
/// a job may pass one that does not fit yet. Fragmentation arises by itself.
#[derive(Debug, Clone)]
pub struct Workload {
    rng: Rng,
    nodes: Vec<NodeName>,
    /// `free[n]`: whether `nodes[n]` runs nothing.
    free: Vec<bool>,
    running: Vec<Running>,
    waiting: VecDeque<Waiting>,
    now: DateTime<Utc>,
    next_id: u64,
}

#[derive(Debug, Clone)]
struct Running {
    id: u64,
    nodes: Vec<usize>,
    start: DateTime<Utc>,
    end: DateTime<Utc>,
}

#[derive(Debug, Clone)]
struct Waiting {
    id: u64,
    size: usize,
    minutes: i64,
}

impl Workload {
    /// An empty cluster at a point in time.
    pub fn new(nodes: Vec<NodeName>, start: DateTime<Utc>, seed: u64) -> Self {
        let free = vec![true; nodes.len()];
        let (running, waiting) = (Vec::new(), VecDeque::new());
        Self { rng: Rng::new(seed), nodes, free, running, waiting, now: start, next_id: 1 }
    }

    /// Lets time pass, minute by minute: jobs end, arrive and start. The queue is kept long enough
    /// that nodes never idle for want of jobs. O(minutes × (waiting + nodes)).
    pub fn advance(&mut self, minutes: u32) {
        for _ in 0..minutes {
            self.now += TimeDelta::minutes(1);
            let now = self.now;
            let free = &mut self.free;
            self.running.retain(|job| {
                let ended = job.end <= now;
                if ended {
                    job.nodes.iter().for_each(|n| free[*n] = true);
                }
                !ended
            });
            while self.waiting.len() < 6 {
                self.submit();
            }
            self.start_what_fits();
        }
    }

    /// The jobs that own nodes now.
    pub fn snapshot(&self) -> JobMap {
        let jobs = self.running.iter().filter_map(|r| {
            let nodes = r.nodes.iter().map(|n| self.nodes[*n].clone()).collect();
            let id = JobId::new(r.id.to_string()).ok()?;
            Some(Job::new(id, JobState::Running, nodes, Some(r.start)))
        });
        JobMap::new(self.now, jobs.collect())
    }

    fn submit(&mut self) {
        let total = SIZES.iter().map(|s| s.1).sum();
        let mut ticket = self.rng.below(total);
        let mut size = 1;
        for &(nodes, share) in SIZES {
            size = nodes;
            if ticket < share {
                break;
            }
            ticket -= share;
        }
        let (low, high) = RUN_MINUTES;
        let minutes = (low * (high / low).powf(self.rng.unit())) as i64;
        self.waiting.push_back(Waiting { id: self.next_id, size: size.min(self.nodes.len()), minutes });
        self.next_id += 1;
    }

    fn start_what_fits(&mut self) {
        let mut left = self.free.iter().filter(|f| **f).count();
        for _ in 0..self.waiting.len() {
            let Some(job) = self.waiting.pop_front() else { break };
            if job.size > left {
                self.waiting.push_back(job);
                continue;
            }
            left -= job.size;
            let nodes: Vec<usize> = (0..self.free.len()).filter(|n| self.free[*n]).take(job.size).collect();
            nodes.iter().for_each(|n| self.free[*n] = false);
            let end = self.now + TimeDelta::minutes(job.minutes);
            self.running.push(Running { id: job.id, nodes, start: self.now, end });
        }
        self.waiting.make_contiguous().sort_by_key(|w| w.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(seed: u64) -> Workload {
        let nodes = (1..=180).map(|i| NodeName::new(format!("n{i}")).unwrap()).collect();
        Workload::new(nodes, DateTime::UNIX_EPOCH, seed)
    }

    #[test]
    fn no_node_runs_two_jobs_and_most_are_busy() {
        let mut w = cluster(7);
        for _ in 0..40 {
            w.advance(5);
            let map = w.snapshot();
            let mut nodes: Vec<&NodeName> = map.jobs.iter().flat_map(|j| &j.nodes).collect();
            let busy = nodes.len();
            nodes.sort();
            nodes.dedup();
            assert_eq!(nodes.len(), busy, "a node is given twice");
            assert!(busy > 110, "only {busy} of 180 nodes busy at {}", map.time);
        }
    }

    #[test]
    fn the_seed_decides_everything() {
        let run = |seed| {
            let mut w = cluster(seed);
            w.advance(120);
            w.snapshot()
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }
}
