//! Placement on a switched fabric. See [`super`] for what is best, `super::flow` for the
//! prediction, `super::sets` for what is tried.

use std::collections::BTreeMap;

use super::flow::{Flow, Members, Ways, Whole};
use super::sets::{Supply, Take};
use super::usual::usual;
use super::{Choice, Predicted, Question, natural};
use crate::model::{Fabric, NodeMap, NodeName};

/// Channel visits after which no further set is tried: about a millisecond.
const STEPS: usize = 500_000;

/// The predicted maximum of nodes that cannot reach each other: worse than any other.
const APART: u64 = u64::MAX;

/// A switched fabric with its nodes, prepared for questions.
#[derive(Debug)]
pub struct Switched {
    names: Vec<NodeName>,
    /// Spot of each node.
    spot: Vec<u32>,
    /// Switches of one node of each spot, with its terminals there.
    spots: Vec<Members>,
    ways: Ways,
}

/// The running jobs on it.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// Even flow of all jobs, by channel of the graph.
    load: Vec<f64>,
    /// Indivisible routes of all jobs, by switch.
    whole: Vec<Whole>,
}

/// A set and what it is judged by.
struct Judged {
    take: Take,
    predicted: Predicted,
    /// What the set adds to the sum of squared loads: how much it gets in the way.
    added: u64,
}

impl Judged {
    fn routable(&self) -> Option<Predicted> {
        Some(self.predicted).filter(|p| p.max < APART)
    }

    /// What decides, the smaller the better: see [`super`].
    fn key(&self) -> (bool, u64, u64, u64) {
        (self.predicted.max == APART, self.predicted.extent, self.predicted.max, self.added)
    }
}

impl Switched {
    /// Prepares a fabric. O(switches with nodes × channels).
    pub fn new(fabric: &Fabric, nodes: &NodeMap) -> Self {
        let mut names: Vec<NodeName> =
            nodes.names().filter(|n| !nodes.terminals(n).is_empty()).cloned().collect();
        names.sort_by(natural);
        let mut known: BTreeMap<Members, u32> = BTreeMap::new();
        let mut spots = Vec::new();
        let mut spot = Vec::with_capacity(names.len());
        for name in &names {
            let switches = nodes.terminals(name).iter().map(|t| fabric.terminal(*t).switch.0);
            let members = counted(switches.map(|s| (s, 1)));
            let number = *known.entry(members.clone()).or_insert_with(|| {
                spots.push(members);
                spots.len() as u32 - 1
            });
            spot.push(number);
        }
        let mut homes: Vec<u32> = spots.iter().flatten().map(|(s, _)| *s).collect();
        homes.sort_unstable();
        homes.dedup();
        Self { names, spot, spots, ways: Ways::new(fabric, homes.into_iter()) }
    }

    /// See [`super::Board::names`].
    pub fn names(&self) -> &[NodeName] {
        &self.names
    }

    /// Prepares the running jobs. O(sum over jobs of `super::flow`'s cost).
    pub fn traffic(&self, jobs: &[Vec<u32>]) -> Traffic {
        let graph = self.ways.graph();
        let mut traffic =
            Traffic { load: vec![0.0; graph.channels()], whole: vec![Whole::default(); graph.switches()] };
        let mut flow = Flow::new(&self.ways);
        for job in jobs {
            let members = self.members(&self.take(job));
            flow.spread(&self.ways, &members);
            flow.loads().for_each(|(c, load)| traffic.load[c] += load);
            for (s, here) in &members {
                traffic.whole[*s as usize].add(*s, *here, &members);
            }
        }
        traffic
    }

    /// Spots of nodes.
    fn take(&self, nodes: &[u32]) -> Take {
        counted(nodes.iter().map(|n| (self.spot[*n as usize], 1)))
    }

    /// Terminals by switch of what is taken.
    fn members(&self, take: &[(u32, u32)]) -> Members {
        let of = |(spot, n): &(u32, u32)| {
            let n = *n;
            self.spots[*spot as usize].iter().map(move |(s, terminals)| (*s, terminals * n))
        };
        counted(take.iter().flat_map(of))
    }

    /// What a set is predicted to cost; `None` if its nodes cannot reach each other.
    pub fn predict(&self, traffic: &Traffic, nodes: &[u32]) -> Option<Predicted> {
        self.judge(traffic, &mut Flow::new(&self.ways), self.take(nodes)).routable()
    }

    fn judge(&self, traffic: &Traffic, flow: &mut Flow, take: Take) -> Judged {
        let members = self.members(&take);
        let connected = flow.spread(&self.ways, &members);
        let (mut max, mut added, mut channels, mut shared) = (0.0f64, 0.0, 0, 0);
        for (c, own) in flow.loads() {
            let before = traffic.load[c];
            max = max.max(before + own);
            added += own * (2.0 * before + own);
            channels += 1;
            shared += usize::from(before > 0.0);
        }
        // Sums of shares: not quite whole where they should be.
        let mut max = (max - 1e-6).ceil() as u64;
        for (s, here) in members.iter().filter(|_| channels > 0) {
            let whole = traffic.whole[*s as usize].with(*s, *here, &members, self.ways.uplinks(*s));
            max = max.max(whole);
        }
        if !connected {
            max = APART;
        }
        let predicted = Predicted { max, channels, shared, extent: members.len() as u64 };
        Judged { take, predicted, added: added.round() as u64 }
    }

    /// The same, and what decides between sets.
    pub(super) fn weigh(&self, traffic: &Traffic, nodes: &[u32]) -> Option<(Predicted, [u64; 4])> {
        let judged = self.judge(traffic, &mut Flow::new(&self.ways), self.take(nodes));
        let predicted = judged.routable()?;
        Some((predicted, [predicted.extent, predicted.max, judged.added, 0]))
    }

    /// Sets that are worth a judgement.
    pub(super) fn proposed(&self, traffic: &Traffic, question: Question<'_>) -> Vec<Vec<u32>> {
        let (free, need) = (self.take(question.candidates), question.nodes as u32);
        let busy = self.busy(traffic, &free);
        let distance = self.distances(&free);
        let supply = Supply { free: &free, need, busy: &busy, distance: &distance };
        let takes = supply.one_spot().into_iter().chain(supply.several_spots());
        takes.map(|take| self.nodes(&take, question.candidates)).collect()
    }

    /// Channels between two spots, given as positions.
    fn distances<'a>(&'a self, free: &'a [(u32, u32)]) -> impl Fn(usize, usize) -> u16 + 'a {
        let home = move |i: usize| self.spots[free[i].0 as usize][0].0;
        move |a: usize, b: usize| self.ways.to(home(a))[home(b) as usize]
    }

    /// The best set found, and what the usual one costs; `None` if no set is connected. There must
    /// be enough candidates.
    pub fn choose(&self, traffic: &Traffic, question: Question<'_>) -> Option<Choice> {
        let mut flow = Flow::new(&self.ways);
        let usual = usual(question.nodes, question.candidates);
        let usual = self.judge(traffic, &mut flow, self.take(&usual));
        let free = self.take(question.candidates);
        let busy = self.busy(traffic, &free);
        let (need, distance) = (question.nodes as u32, self.distances(&free));
        let supply = Supply { free: &free, need, busy: &busy, distance: &distance };
        let usual_predicted = usual.routable();
        let mut best = usual;
        if let Some(one) = supply.one_spot() {
            best = better(best, self.judge(traffic, &mut flow, one));
        }
        if best.predicted.max > 0 {
            for take in supply.several_spots() {
                if flow.steps() > STEPS {
                    break;
                }
                // Known without a prediction.
                if best.predicted.max < APART && self.members(&take).len() as u64 > best.predicted.extent {
                    continue;
                }
                best = better(best, self.judge(traffic, &mut flow, take));
            }
        }
        let predicted = best.routable()?;
        Some(Choice { nodes: self.nodes(&best.take, question.candidates), predicted, usual: usual_predicted })
    }

    /// Load of the fullest channel out of each spot's switches, by position in `free`.
    fn busy(&self, traffic: &Traffic, free: &[(u32, u32)]) -> Vec<u64> {
        let graph = self.ways.graph();
        let load = |s: u32| graph.out(s as usize).map(|c| traffic.load[c]).fold(0.0, f64::max);
        let of = |spot: u32| self.spots[spot as usize].iter().map(|(s, _)| load(*s)).fold(0.0, f64::max);
        free.iter().map(|(spot, _)| (of(*spot) * 1000.0).round() as u64).collect()
    }

    /// The first candidates of each spot.
    fn nodes(&self, take: &[(u32, u32)], candidates: &[u32]) -> Vec<u32> {
        let mut left: BTreeMap<u32, u32> = take.iter().copied().collect();
        let mut wanted = |n: &&u32| match left.get_mut(&self.spot[**n as usize]) {
            Some(more) if *more > 0 => {
                *more -= 1;
                true
            }
            _ => false,
        };
        candidates.iter().filter(|n| wanted(n)).copied().collect()
    }
}

fn better(a: Judged, b: Judged) -> Judged {
    if b.key() < a.key() { b } else { a }
}

/// Sums by key, ascending.
fn counted(items: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let mut sums: BTreeMap<u32, u32> = BTreeMap::new();
    items.for_each(|(key, n)| *sums.entry(key).or_default() += n);
    sums.into_iter().collect()
}
