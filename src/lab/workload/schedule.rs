//! A small batch system: jobs are submitted, wait, get nodes, end. First come first served with
//! backfilling that never delays the job at the head of the queue (EASY, Lifka 1995).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::placement::{Placement, Site};
use crate::model::rng::Rng;

/// A job as it is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When, in seconds.
    pub submit: i64,
    /// Run time in seconds; at least 1 is used.
    pub run: i64,
    /// Nodes wanted.
    pub size: usize,
}

/// When a job started and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// In seconds.
    pub start: i64,
    /// Indices into [`Site::nodes`], ascending.
    pub nodes: Vec<u32>,
}

/// Waiting jobs that backfilling looks at.
const DEPTH: usize = 100;

/// What a placement is asked: a job starts.
#[derive(Debug)]
pub struct Moment<'a> {
    /// By node: whether it is free.
    pub free: &'a [bool],
    /// Nodes wanted; not more than are free.
    pub size: usize,
    /// Nodes of the jobs that run, in no particular order.
    pub running: Vec<&'a [u32]>,
}

/// What a job gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// These nodes, ascending.
    Nodes(Vec<u32>),
    /// It waits, though nodes are free. Those behind it may pass as backfilling lets them.
    Later,
    /// It is never started.
    Never,
}

/// Says what a job gets.
pub type Choose<'a> = &'a mut dyn FnMut(&Moment<'_>) -> Pick;

/// Runs all requests on a site with one of its models; see [`schedule_with`].
pub fn schedule(site: &Site, placement: Placement, requests: &[Request], seed: u64) -> Vec<Option<Started>> {
    let mut rng = Rng::new(seed);
    let mut choose =
        |m: &Moment<'_>| site.choose(placement, m.free, m.size, &mut rng).map_or(Pick::Never, Pick::Nodes);
    schedule_with(site.nodes.len(), requests, &mut choose)
}

/// Runs all requests, which must be sorted by `submit`, on so many nodes; `result[i]` belongs to
/// `requests[i]` and is `None` if the job is larger than that. Starts do not depend on who chooses, unless he lets jobs
/// wait.
/// O(requests × (queue up to a fixed depth + nodes)).
pub fn schedule_with(nodes: usize, requests: &[Request], choose: Choose<'_>) -> Vec<Option<Started>> {
    let mut batch = Batch {
        choose,
        requests,
        free: vec![true; nodes],
        left: nodes,
        running: BinaryHeap::new(),
        waiting: VecDeque::new(),
        started: vec![None; requests.len()],
    };
    let mut next = 0;
    loop {
        let submit = requests.get(next).map(|r| r.submit);
        let end = batch.running.peek().map(|Reverse((end, _))| *end);
        let Some(now) = submit.into_iter().chain(end).min() else { return batch.started };
        batch.end_jobs(now);
        while let Some(request) = requests.get(next).filter(|r| r.submit <= now) {
            if request.size > 0 && request.size <= nodes {
                batch.waiting.push_back(next);
            }
            next += 1;
        }
        batch.start_jobs(now);
    }
}

/// Share of the nodes' time in which they have a job, from the first submission to the last. `started[i]` belongs to
/// `requests[i]`, which are sorted by `submit`.
pub fn used(nodes: usize, requests: &[Request], started: &[Option<Started>]) -> f64 {
    let (begin, end) = (requests.first().map_or(0, |r| r.submit), requests.last().map_or(0, |r| r.submit));
    let busy = started.iter().zip(requests).filter_map(|(s, r)| {
        let start = s.as_ref()?.start;
        Some(((start + r.run.max(1)).min(end) - start.min(end)) * r.size as i64)
    });
    busy.sum::<i64>() as f64 / ((end - begin).max(1) * nodes as i64) as f64
}

struct Batch<'a> {
    choose: Choose<'a>,
    requests: &'a [Request],
    free: Vec<bool>,
    left: usize,
    /// Ends and jobs, the next end first.
    running: BinaryHeap<Reverse<(i64, usize)>>,
    waiting: VecDeque<usize>,
    started: Vec<Option<Started>>,
}

impl Batch<'_> {
    fn end_jobs(&mut self, now: i64) {
        while let Some(Reverse((_, job))) = self.running.peek().copied().filter(|Reverse((e, _))| *e <= now) {
            self.running.pop();
            let nodes = self.started[job].iter().flat_map(|s| &s.nodes);
            nodes.for_each(|n| self.free[*n as usize] = true);
            self.left += self.requests[job].size;
        }
    }

    fn start_jobs(&mut self, now: i64) {
        while let Some(&head) = self.waiting.front() {
            if self.requests[head].size > self.left || !self.start(head, now) {
                break;
            }
            self.waiting.pop_front();
        }
        let Some(&head) = self.waiting.front() else { return };
        let (shadow, mut spare) = self.reservation(head);
        let mut at = 1;
        while at < self.waiting.len().min(DEPTH) {
            let job = self.waiting[at];
            let Request { run, size, .. } = self.requests[job];
            let in_time = now.saturating_add(run.max(1)) <= shadow;
            if size > self.left || !(in_time || size <= spare) || !self.start(job, now) {
                at += 1;
                continue;
            }
            if !in_time {
                spare -= size;
            }
            self.waiting.remove(at);
        }
    }

    /// When the head of the queue will have its nodes, and how many nodes it leaves over then.
    fn reservation(&self, head: usize) -> (i64, usize) {
        let wanted = self.requests[head].size;
        let mut ends: Vec<(i64, usize)> = self.running.iter().map(|Reverse(r)| *r).collect();
        ends.sort_unstable();
        let mut left = self.left;
        for (end, job) in ends {
            left += self.requests[job].size;
            if left >= wanted {
                return (end, left - wanted);
            }
        }
        (i64::MAX, 0)
    }

    /// Whether the job need not wait any more.
    fn start(&mut self, job: usize, now: i64) -> bool {
        let Request { run, size, .. } = self.requests[job];
        let running = self.running.iter().filter_map(|Reverse((_, job))| self.started[*job].as_ref());
        let running = running.map(|s| s.nodes.as_slice()).collect();
        let moment = Moment { free: &self.free, size, running };
        let nodes = match (self.choose)(&moment) {
            Pick::Nodes(nodes) => nodes,
            Pick::Later => return false,
            Pick::Never => return true,
        };
        nodes.iter().for_each(|n| self.free[*n as usize] = false);
        self.left -= size;
        self.running.push(Reverse((now.saturating_add(run.max(1)), job)));
        self.started[job] = Some(Started { start: now, nodes });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::NodeMap;

    /// Hosts n1, n2, … of a generated fabric as nodes.
    fn site(spec: &str) -> Site {
        let fabric = generate(spec).unwrap();
        let by_name = fabric
            .host_ids()
            .map(|t| (crate::model::NodeName::new(&fabric.terminal(t).description).unwrap(), vec![t]));
        let map = NodeMap::new(by_name.collect(), Vec::new());
        Site::new(&fabric, &map)
    }

    fn place(site: &Site, placement: Placement, busy: &[u32], size: usize) -> Vec<u32> {
        let free: Vec<bool> = (0..site.nodes.len() as u32).map(|n| !busy.contains(&n)).collect();
        site.choose(placement, &free, size, &mut Rng::new(1)).unwrap()
    }

    #[test]
    fn models_place_as_they_say() {
        let site = site("fattree:4x4,2");
        assert_eq!(site.nodes[9].as_str(), "n10");
        assert_eq!(place(&site, Placement::Linear, &[1], 4), [0, 2, 3, 4]);
        assert_eq!(place(&site, Placement::Interleaved, &[1], 6), [0, 2, 4, 5, 8, 12]);
        let random = place(&site, Placement::Random, &[1], 6);
        assert!(random.len() == 6 && !random.contains(&1));
        assert!(site.choose(Placement::Linear, &[true; 16], 17, &mut Rng::new(1)).is_none());
    }

    #[test]
    fn tree_takes_the_tightest_leaf_that_suffices_else_the_emptiest_ones() {
        let one_level = site("fattree:4x4,2");
        // Leaf 1 has three free nodes, leaf 2 two, the others four.
        let busy = [4, 8, 9];
        assert_eq!(place(&one_level, Placement::Tree, &busy, 2), [10, 11]);
        assert_eq!(place(&one_level, Placement::Tree, &busy, 3), [5, 6, 7]);
        assert_eq!(place(&one_level, Placement::Tree, &busy, 4), [0, 1, 2, 3]);
        // Four from the emptiest leaf, and the remaining two from where two just suffice.
        assert_eq!(place(&one_level, Placement::Tree, &busy, 6), [0, 1, 2, 3, 10, 11]);
    }

    #[test]
    fn tree_stays_below_the_lowest_switch_that_suffices() {
        // Two pods of two leaves with two nodes each.
        let two_levels = site("kary:2,3");
        assert_eq!(two_levels.groups.len(), 3, "leaves, pods, all");
        // The first pod has two nodes free, the second three: a job of three fits the second.
        assert_eq!(place(&two_levels, Placement::Tree, &[0, 3, 4], 3), [5, 6, 7]);
        // Five fit neither: it starts at the emptiest leaf, and the pod nearby comes first.
        assert_eq!(place(&two_levels, Placement::Tree, &[0, 3, 4], 5), [1, 2, 5, 6, 7]);
    }

    #[test]
    fn partitions_keep_jobs_in_one_part_unless_none_is_large_enough() {
        let pods = site("kary:2,3");
        let free = |busy: &[u32]| (0..8).map(|n| !busy.contains(&n)).collect::<Vec<_>>();
        let choose = |busy: &[u32], size, seed| {
            pods.choose(Placement::Partitions, &free(busy), size, &mut Rng::new(seed))
        };
        // Three nodes are free in the second pod only; two and one there do not make three.
        assert_eq!(choose(&[0, 3, 4], 3, 1), Some(vec![5, 6, 7]));
        assert_eq!(choose(&[0, 3, 4, 5], 3, 1), None);
        assert_eq!(choose(&[0], 5, 1), choose(&[0], 5, 2), "no pod has five: as on the tree");
        let pods_taken: std::collections::BTreeSet<_> =
            (0..9).filter_map(|seed| Some(choose(&[], 2, seed)?[0] / 4)).collect();
        assert_eq!(pods_taken.len(), 2);
    }

    #[test]
    fn a_job_that_is_put_off_lets_those_pass_that_end_in_time() {
        let job = |submit, run, size| Request { submit, run, size };
        // The second is put off while anybody runs; the fourth would end too late to pass it.
        let requests = [job(0, 100, 1), job(1, 10, 3), job(2, 50, 1), job(3, 200, 2)];
        let mut choose = |m: &Moment<'_>| match m.running.is_empty() || m.size != 3 {
            true => Pick::Nodes((0..4).filter(|n| m.free[*n as usize]).take(m.size).collect()),
            false => Pick::Later,
        };
        let started = schedule_with(4, &requests, &mut choose);
        let starts: Vec<Option<i64>> = started.iter().map(|s| s.as_ref().map(|s| s.start)).collect();
        assert_eq!(starts, [Some(0), Some(100), Some(2), Some(110)]);
    }

    #[test]
    fn backfilling_never_delays_the_head_of_the_queue() {
        let site = site("fattree:2x2,1");
        let job = |submit, run, size| Request { submit, run, size };
        let requests = [job(0, 100, 3), job(1, 50, 4), job(2, 98, 1), job(3, 99, 1), job(4, 10, 9)];
        let started = schedule(&site, Placement::Linear, &requests, 1);
        let starts: Vec<Option<i64>> = started.iter().map(|s| s.as_ref().map(|s| s.start)).collect();
        // The third fits before the second can start, the fourth would delay it, the fifth never fits.
        assert_eq!(starts, [Some(0), Some(100), Some(2), Some(150), None]);
    }
}
