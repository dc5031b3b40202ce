//! Placement on a direct torus (Angara). See [`super`] for what is best.
//!
//! Tried are boxes of the torus that hold the job with few nodes to spare, in the places where
//! they leave the fewest free neighbours behind, and sets grown node by node. Each is judged with
//! the legal minimal routes of its pairs, spread evenly over a pair's alternatives
//! ([`crate::route::angara::minimal`]): what cannot be routed, under the job's own transit rule,
//! is dropped. Of the pairs of large jobs a sample is looked at, the same for the same question.

#[cfg(test)]
mod tests;

use super::exchange::{Asked, grade};
use super::usual::{usual, windows};
use super::{Choice, Predicted, Question, natural};
use crate::model::rng::Rng;
use crate::model::torus::MAX_DIMS;
use crate::model::{Adapters, Direction, Mix, NodeId, NodeName, Torus, TorusDemand, TorusJob, Transit};
use crate::route::angara::augment::Turns;
use crate::route::angara::minimal::Legal;
use crate::route::angara::shape::Shape;

/// Sets that are judged at most.
const JUDGED: usize = 14;
/// The same in all for a job that says what it exchanges.
const JUDGED_OF_OWN: usize = 2 * JUDGED;
/// Visits of routes to channels after which no further set is judged: all sets of a job of a thousand nodes are.
const STEPS: usize = 500_000_000;
/// Pairs of a set that are looked at: all of a job of two thousand nodes, and an even sample of so many of a larger one.
pub(super) const PAIRS: usize = 4_000_000;
/// Boxes looked at per shape, and nodes visited for all.
const PER_SHAPE: usize = 2;
const VISITS: usize = 2_000_000;
/// Nodes from which sets are grown.
const SEEDS: usize = 4;

/// What the sets of a question are judged with.
struct Judging<'q> {
    asked: Option<Asked<'q>>,
    /// Visits of routes to channels so far.
    steps: usize,
}

impl<'q> Judging<'q> {
    fn new(mix: Option<&'q Mix>) -> Self {
        Self { asked: mix.map(Asked::new), steps: 0 }
    }
}

/// A direct torus, prepared for questions.
#[derive(Debug)]
pub struct Direct {
    torus: Torus,
    transit: Transit,
    names: Vec<NodeName>,
    /// Position of each numbered node.
    nodes: Vec<NodeId>,
    /// Number of each node that has one.
    number: Vec<u32>,
}

/// The running jobs on it.
#[derive(Debug, Clone)]
pub struct Traffic {
    jobs: Vec<TorusJob>,
    /// Routes of all jobs by channel.
    load: Vec<f64>,
    /// The same in the mean step of each job.
    mean: Vec<f64>,
}

impl Direct {
    /// Healthy nodes only; `transit` is the rule of all jobs.
    pub fn new(torus: Torus, transit: Transit) -> Self {
        let mut nodes = torus.healthy_nodes();
        nodes.sort_by(|a, b| natural(torus.name(*a), torus.name(*b)));
        let names = nodes.iter().map(|n| torus.name(*n).clone()).collect();
        let mut number = vec![u32::MAX; torus.len()];
        nodes.iter().enumerate().for_each(|(i, node)| number[node.index()] = i as u32);
        Self { torus, transit, names, nodes, number }
    }

    /// See [`super::Board::names`].
    pub fn names(&self) -> &[NodeName] {
        &self.names
    }

    fn ids(&self, numbers: &[u32]) -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = numbers.iter().map(|n| self.nodes[*n as usize]).collect();
        ids.sort_unstable();
        ids
    }

    /// Prepares the running jobs. Pairs of theirs that cannot be routed load nothing.
    pub fn traffic(&self, jobs: &[Vec<u32>]) -> Traffic {
        let jobs: Vec<TorusJob> = jobs.iter().map(|j| TorusJob::new(None, self.ids(j))).collect();
        let none = vec![0.0; self.torus.channel_slots()];
        let mut traffic = Traffic { jobs: jobs.clone(), load: none.clone(), mean: none };
        let demand = TorusDemand { jobs, transit: self.transit };
        let turns = Turns::of(&self.torus, &demand);
        for j in 0..demand.jobs.len() {
            let usable = demand.usable(&self.torus, Some(j));
            let (legal, nodes) = (Legal::new(&self.torus, &usable, &turns), demand.jobs[j].nodes());
            // All pairs in steps in which each node sends one message.
            let steps = nodes.len().saturating_sub(1).max(1) as f64;
            add_routes(&legal, nodes, (PAIRS, true), &mut |c, share| {
                traffic.load[c] += share;
                traffic.mean[c] += share / steps;
            });
        }
        traffic
    }

    /// What a set is predicted to cost; `None` if it cannot be routed as a whole.
    fn judge(&self, traffic: &Traffic, nodes: &[NodeId], judging: &mut Judging<'_>) -> Option<Predicted> {
        let mut jobs = traffic.jobs.clone();
        jobs.push(TorusJob::new(None, nodes.to_vec()));
        let number = jobs.len() - 1;
        let demand = TorusDemand { jobs, transit: self.transit };
        let turns = Turns::of(&self.torus, &demand);
        let usable = demand.usable(&self.torus, Some(number));
        let legal = Legal::new(&self.torus, &usable, &turns);
        let mut own = vec![0.0; self.torus.channel_slots()];
        let Judging { asked, steps } = judging;
        let hops = add_routes(&legal, nodes, (PAIRS, false), &mut |c, share| {
            own[c] += share;
            *steps += 1;
        })?;
        let mut predicted = Predicted { extent: hops, ..Predicted::default() };
        if let Some(asked) = asked {
            predicted.slowdown = Some(self.slowdown(traffic, &legal, nodes, (asked, steps)));
        }
        let used = own.iter().zip(&traffic.load).filter(|(own, _)| **own > 0.0);
        let mut max = 0.0f64;
        for (own, before) in used {
            max = max.max(own + before);
            predicted.channels += 1;
            predicted.shared += usize::from(*before > 0.0);
        }
        predicted.max = (max - 1e-6).ceil() as u64;
        Some(predicted)
    }

    /// Slow-down of what the job says that it exchanges, its ranks in the order of names.
    fn slowdown(
        &self,
        traffic: &Traffic,
        legal: &Legal<'_>,
        nodes: &[NodeId],
        (asked, steps): (&mut Asked<'_>, &mut usize),
    ) -> f64 {
        let mut ranks = nodes.to_vec();
        ranks.sort_unstable_by_key(|node| self.number[node.index()]);
        let (mut load, mut touched, mut found) = (vec![0.0; traffic.mean.len()], Vec::new(), Vec::new());
        asked.among(ranks.len(), Adapters::default()).slowdown(|partners, _| {
            for (from, to) in partners.pairs() {
                spread(legal, ranks[from as usize], ranks[to as usize], &mut found, &mut |c, share| {
                    if load[c] == 0.0 {
                        touched.push(c);
                    }
                    load[c] += share;
                    *steps += 1;
                });
            }
            touched.drain(..).map(|c| std::mem::take(&mut load[c]) + traffic.mean[c]).fold(0.0, f64::max)
        })
    }

    /// What a set is predicted to cost, and what decides between sets; `None` if it cannot be routed as a whole.
    pub(super) fn weigh(
        &self,
        traffic: &Traffic,
        nodes: &[u32],
        mix: Option<&Mix>,
    ) -> Option<(Predicted, [u64; 4])> {
        let predicted = self.judge(traffic, &self.ids(nodes), &mut Judging::new(mix))?;
        Some((predicted, key(&predicted)))
    }

    /// Sets that are worth a judgement.
    pub(super) fn proposed(&self, question: Question<'_>) -> Vec<Vec<u32>> {
        self.sets(question).iter().map(|set| self.numbers(set, question.candidates)).collect()
    }

    /// The same; those of neighbours in the list first, for a job that says what it exchanges.
    fn sets(&self, question: Question<'_>) -> Vec<Vec<NodeId>> {
        let free = self.ids(question.candidates);
        let tries = Tries::new(&self.torus, &free, question.nodes).sets().into_iter().take(JUDGED);
        if question.own().is_none() {
            return tries.collect();
        }
        let windows = windows(question.nodes, question.candidates);
        let mut seen = std::collections::BTreeSet::new();
        let sets = tries.chain(windows.iter().map(|set| self.ids(set)));
        sets.filter(|set| seen.insert(set.clone())).take(JUDGED_OF_OWN).collect()
    }

    /// Those of the candidates that are in a set.
    fn numbers(&self, set: &[NodeId], candidates: &[u32]) -> Vec<u32> {
        let chosen = |n: &&u32| set.binary_search(&self.nodes[**n as usize]).is_ok();
        candidates.iter().filter(chosen).copied().collect()
    }

    /// The best set found, and what the usual one costs; `None` if no set that was tried can be
    /// routed. There must be enough candidates. Sets are tried until there have been [`STEPS`].
    pub fn choose(&self, traffic: &Traffic, question: Question<'_>) -> Option<Choice> {
        self.choose_within(traffic, question, STEPS)
    }

    fn choose_within(&self, traffic: &Traffic, question: Question<'_>, steps: usize) -> Option<Choice> {
        let ordinary = self.ids(&usual(question.nodes, question.candidates));
        let mut judging = Judging::new(question.own());
        let usual = self.judge(traffic, &ordinary, &mut judging);
        let mut all: Vec<(Predicted, Vec<NodeId>)> = usual.map(|p| (p, ordinary)).into_iter().collect();
        for set in self.sets(question) {
            all.extend(self.judge(traffic, &set, &mut judging).map(|p| (p, set)));
            if judging.steps > steps && !all.is_empty() {
                break;
            }
        }
        let allowed = all.into_iter().filter(|(p, _)| question.allows(p.shared));
        let (predicted, set) = allowed.min_by_key(|(p, _)| key(p))?;
        Some(Choice { nodes: self.numbers(&set, question.candidates), predicted, usual })
    }
}

/// What decides between sets, the smaller the better.
fn key(predicted: &Predicted) -> [u64; 4] {
    let Predicted { slowdown, max, shared, extent, .. } = *predicted;
    let shared = shared as u64;
    // The slow-down counts what running jobs send.
    slowdown.map_or([shared, max, extent, 0], |slowdown| [grade(slowdown), shared, max, extent])
}

/// Adds the routes of all pairs; returns their length together, `None` if a pair has no route. Then the others' are
/// added only if it `goes_on`. Of more than `most` pairs about so many are drawn, each of which counts for those left
/// out.
fn add_routes(
    legal: &Legal<'_>,
    nodes: &[NodeId],
    (most, goes_on): (usize, bool),
    add: &mut dyn FnMut(usize, f64),
) -> Option<u64> {
    let (mut found, mut hops, mut whole) = (Vec::new(), 0, true);
    let (every, mut rng) = ((nodes.len() * nodes.len()).div_ceil(most).max(1), Rng::new(0));
    for from in nodes {
        let drawn = nodes.iter().skip(rng.below(every)).step_by(every);
        for to in drawn.filter(|to| *to != from) {
            spread(legal, *from, *to, &mut found, &mut |c, share| add(c, share * every as f64));
            hops += found.first().map_or(0, |shape| (shape.len() * every) as u64);
            whole &= !found.is_empty();
            if !whole && !goes_on {
                return None;
            }
        }
    }
    whole.then_some(hops)
}

/// Adds the routes of a pair, a share of a message each, and leaves them in `found`.
fn spread(
    legal: &Legal<'_>,
    from: NodeId,
    to: NodeId,
    found: &mut Vec<Shape>,
    add: &mut dyn FnMut(usize, f64),
) {
    legal.minimal(from, to, found);
    let share = 1.0 / found.len() as f64;
    found.iter().for_each(|shape| legal.channels(from, shape, |c| add(c, share)));
}

/// Sets worth a judgement.
struct Tries<'a> {
    torus: &'a Torus,
    /// By node: whether the job may get it.
    free: Vec<bool>,
    all: &'a [NodeId],
    need: usize,
}

type Size = [u8; MAX_DIMS];

impl<'a> Tries<'a> {
    fn new(torus: &'a Torus, all: &'a [NodeId], need: usize) -> Self {
        let mut free = vec![false; torus.len()];
        all.iter().for_each(|n| free[n.index()] = true);
        Self { torus, free, all, need }
    }

    /// Boxes and grown sets in turn, without repetition; each ascending and of the right size.
    fn sets(&self) -> Vec<Vec<NodeId>> {
        let (boxes, grown) = (self.boxes(), self.grown());
        let mut sets = Vec::with_capacity(boxes.len() + grown.len());
        let (mut boxes, mut grown) = (boxes.into_iter(), grown.into_iter());
        loop {
            let next: Vec<_> = boxes.by_ref().take(2).chain(grown.next()).collect();
            if next.is_empty() {
                return sets;
            }
            for set in next {
                if !sets.contains(&set) {
                    sets.push(set);
                }
            }
        }
    }

    /// Boxes that hold the job and would not if one side were shorter, the roundest first.
    fn shapes(&self) -> Vec<Size> {
        let mut shapes = vec![[1u8; MAX_DIMS]];
        for dim in 0..self.torus.dims() {
            let longer = shapes.iter().flat_map(|shape| {
                (1..=self.torus.size(dim)).map(move |side| {
                    let mut shape = *shape;
                    shape[dim] = side;
                    shape
                })
            });
            shapes = longer.collect();
        }
        let volume = |shape: &Size| shape.iter().map(|s| usize::from(*s)).product::<usize>();
        shapes.retain(|shape| {
            let all = volume(shape);
            all >= self.need
                && shape
                    .iter()
                    .all(|side| *side == 1 || all / usize::from(*side) * (usize::from(*side) - 1) < self.need)
        });
        shapes.sort_by_key(|shape| {
            let sides: u32 = shape.iter().map(|s| u32::from(*s)).sum();
            (sides, volume(shape), *shape)
        });
        shapes
    }

    fn boxes(&self) -> Vec<Vec<NodeId>> {
        let mut found = Vec::new();
        let mut visits = 0;
        for shape in self.shapes() {
            let mut best: Vec<(usize, Vec<NodeId>)> = Vec::new();
            for origin in self.torus.nodes() {
                if visits > VISITS || found.len() >= JUDGED {
                    return found;
                }
                let Some(set) = self.in_box(origin, shape, &mut visits) else { continue };
                best.push((self.left_behind(&set), set));
                best.sort();
                best.truncate(PER_SHAPE);
            }
            found.extend(best.into_iter().map(|(_, set)| set));
        }
        found
    }

    /// The job's nodes in the box at `origin`, whole slices across its longest side first; `None`
    /// if the box sticks out or has too few free nodes.
    fn in_box(&self, origin: NodeId, shape: Size, visits: &mut usize) -> Option<Vec<NodeId>> {
        let at = self.torus.coords(origin).all();
        let fits = |dim: usize| self.torus.is_ring(dim) || at[dim] + shape[dim] <= self.torus.size(dim);
        if !(0..self.torus.dims()).all(fits) {
            return None;
        }
        let mut order = [0, 1, 2, 3];
        order.sort_by_key(|dim| std::cmp::Reverse(shape[*dim]));
        let (mut set, mut offset) = (Vec::with_capacity(self.need), [0u8; MAX_DIMS]);
        loop {
            *visits += 1;
            let node = (0..self.torus.dims()).fold(origin, |n, dim| {
                let to = (at[dim] + offset[dim]) % self.torus.size(dim);
                self.torus.moved(n, dim, at[dim], to)
            });
            if self.free[node.index()] {
                set.push(node);
            }
            if set.len() == self.need {
                set.sort_unstable();
                return Some(set);
            }
            // Counts up, the longest side slowest.
            let dim = order.iter().rev().find(|dim| offset[**dim] + 1 < shape[**dim])?;
            offset[*dim] += 1;
            let position = order.iter().position(|d| d == dim)?;
            order[position + 1..].iter().for_each(|d| offset[*d] = 0);
        }
    }

    /// Free neighbours of a set: the fewer, the less it breaks up what is free.
    fn left_behind(&self, set: &[NodeId]) -> usize {
        let mut seen: Vec<NodeId> = set.iter().flat_map(|n| self.neighbours(*n)).collect();
        seen.sort_unstable();
        seen.dedup();
        seen.iter().filter(|n| self.free[n.index()] && set.binary_search(n).is_err()).count()
    }

    fn neighbours(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        Direction::all().filter_map(move |d| self.torus.neighbour(node, d))
    }

    /// Sets that grow from a node by the free node with the most neighbours inside, the nearest to
    /// the first of equals.
    fn grown(&self) -> Vec<Vec<NodeId>> {
        let step = self.all.len().div_ceil(SEEDS).max(1);
        self.all.iter().step_by(step).filter_map(|seed| self.grow(*seed)).collect()
    }

    fn grow(&self, seed: NodeId) -> Option<Vec<NodeId>> {
        let mut inside = vec![0u8; self.torus.len()];
        const TAKEN: u8 = u8::MAX;
        let (mut set, mut edge, mut next) = (vec![], vec![], seed);
        loop {
            set.push(next);
            inside[next.index()] = TAKEN;
            if set.len() == self.need {
                set.sort_unstable();
                return Some(set);
            }
            for n in self.neighbours(next).filter(|n| self.free[n.index()]) {
                if inside[n.index()] == 0 {
                    edge.push(n);
                }
                inside[n.index()] = inside[n.index()].saturating_add(1);
            }
            edge.retain(|n: &NodeId| inside[n.index()] != TAKEN);
            let nearest = |n: &&NodeId| (std::cmp::Reverse(inside[n.index()]), self.far(seed, **n), **n);
            next = *edge.iter().min_by_key(nearest)?;
        }
    }

    /// Hops between two nodes of the whole torus.
    fn far(&self, a: NodeId, b: NodeId) -> u32 {
        let (a, b) = (self.torus.coords(a).all(), self.torus.coords(b).all());
        let side = |dim: usize| {
            let straight = u32::from(a[dim].abs_diff(b[dim]));
            let round = u32::from(self.torus.size(dim)) - straight;
            if self.torus.is_ring(dim) { straight.min(round) } else { straight }
        };
        (0..self.torus.dims()).map(side).sum()
    }
}
