//! Placement on a switched fabric. See [`super`] for what is best, `super::flow` for the
//! prediction, `super::sets` for what is tried.

use std::collections::{BTreeMap, BTreeSet};

use super::exchange::{Asked, grade};
use super::flow::{Flow, Members, Ways, Whole};
use super::sets::{Supply, Take};
use super::usual::{usual, windows};
use super::{Choice, Predicted, Question, natural};
use crate::model::{Adapters, Fabric, Mix, NodeMap, NodeName, Rails};

/// Channel visits after which no further set is tried: about a millisecond.
const STEPS: usize = 500_000;
/// The same for a job that says what it exchanges: its steps are looked at one by one.
const STEPS_OF_OWN: usize = 8 * STEPS;

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
    /// Switch of each terminal of each node, in order.
    homes: Vec<Vec<u32>>,
    /// Which adapters of jobs exchange that do not say it.
    rails: Rails,
    ways: Ways,
}

/// The running jobs on it.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// Even flow of all jobs, by channel of the graph.
    load: Vec<f64>,
    /// The same in the mean step of each job.
    mean: Vec<f64>,
    /// Indivisible routes of all jobs, by switch.
    whole: Vec<Whole>,
}

/// A set to be judged.
struct Set {
    take: Take,
    /// The nodes, if it matters which of a spot they are.
    nodes: Option<Vec<u32>>,
}

/// A set and what it is judged by.
struct Judged {
    take: Take,
    /// The nodes, if it matters which of a spot they are.
    nodes: Option<Vec<u32>>,
    predicted: Predicted,
    /// What the set adds to the sum of squared loads: how much it gets in the way.
    added: u64,
}

/// Room to judge sets in.
struct Scratch<'q> {
    flow: Flow,
    /// What the job exchanges, if it says it.
    asked: Option<Asked<'q>>,
    /// Its messages in the mean of its steps, by channel; zero for all but `touched`.
    own: Vec<f64>,
    touched: Vec<usize>,
}

impl Judged {
    fn routable(&self) -> Option<Predicted> {
        Some(self.predicted).filter(|p| p.max < APART)
    }

    /// What decides, the smaller the better: see [`super`].
    fn key(&self) -> (bool, u64, u64, u64) {
        let Predicted { max, extent, slowdown, .. } = self.predicted;
        (max == APART, extent, slowdown.map_or(max, grade), self.added)
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
        let switches = |name| nodes.terminals(name).iter().map(|t| fabric.terminal(*t).switch.0).collect();
        let homes: Vec<Vec<u32>> = names.iter().map(switches).collect();
        let mut all: Vec<u32> = homes.iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        let ways = Ways::new(fabric, all.into_iter());
        Self { names, spot, spots, homes, rails: nodes.rails(), ways }
    }

    /// See [`super::Board::names`].
    pub fn names(&self) -> &[NodeName] {
        &self.names
    }

    /// Prepares the running jobs. O(sum over jobs of `super::flow`'s cost).
    pub fn traffic(&self, jobs: &[Vec<u32>]) -> Traffic {
        let graph = self.ways.graph();
        let mut traffic = Traffic {
            load: vec![0.0; graph.channels()],
            mean: vec![0.0; graph.channels()],
            whole: vec![Whole::default(); graph.switches()],
        };
        let mut flow = Flow::new(&self.ways);
        for job in jobs {
            let members = self.members(&self.take(job));
            flow.spread(&self.ways, &members);
            // All pairs in steps in which each terminal sends one message.
            let steps = members.iter().map(|(_, here)| here).sum::<u32>().saturating_sub(1).max(1);
            for (c, load) in flow.loads() {
                traffic.load[c] += load;
                traffic.mean[c] += load / f64::from(steps);
            }
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

    /// What a set is predicted to cost.
    fn judge(&self, traffic: &Traffic, scratch: &mut Scratch<'_>, set: Set) -> Judged {
        let mut judged = self.judge_pairs(traffic, &mut scratch.flow, set.take);
        let own = set.nodes.as_ref().and_then(|nodes| self.judge_own(traffic, scratch, nodes));
        if let Some((slowdown, added)) = own {
            judged.predicted.slowdown = Some(slowdown);
            judged.added = added;
        }
        Judged { nodes: set.nodes, ..judged }
    }

    /// Slow-down of what the job says that it exchanges, and what that adds to the sum of squared loads.
    fn judge_own(&self, traffic: &Traffic, scratch: &mut Scratch<'_>, nodes: &[u32]) -> Option<(f64, u64)> {
        let Scratch { flow, asked: Some(asked), own, touched } = scratch else { return None };
        let homes = || nodes.iter().map(|node| &self.homes[*node as usize]);
        let ranks: Vec<u32> = homes().flatten().copied().collect();
        let mut each = homes().map(Vec::len);
        let per_node = each.next().filter(|first| each.all(|other| other == *first)).unwrap_or(1) as u32;
        let rails = asked.mix().rails().unwrap_or(self.rails);
        let adapters = if per_node > 1 { Adapters { per_node, rails } } else { Adapters::default() };
        let mut messages = Vec::with_capacity(ranks.len());
        let slowdown = asked.among(ranks.len(), adapters).slowdown(|partners, part| {
            let ends = partners.pairs().map(|(from, to)| (ranks[to as usize], ranks[from as usize]));
            messages.clear();
            messages.extend(ends.filter(|(to, from)| to != from));
            messages.sort_unstable();
            flow.send(&self.ways, &messages);
            let mut fullest = self.crowd(&messages);
            for (c, load) in flow.loads() {
                fullest = fullest.max(load + traffic.mean[c]);
                if own[c] == 0.0 {
                    touched.push(c);
                }
                own[c] += part * load;
            }
            fullest
        });
        let added = touched.drain(..).map(|c| {
            let own = std::mem::take(&mut own[c]);
            own * (2.0 * traffic.mean[c] + own)
        });
        // In thousandths: a mean may be small.
        Some((slowdown, (added.sum::<f64>() * 1000.0).round() as u64))
    }

    /// Messages on the fullest channel of a switch that sends or receives some: they cannot be split.
    fn crowd(&self, messages: &[(u32, u32)]) -> f64 {
        let ends = [counted(messages.iter().map(|m| (m.0, 1))), counted(messages.iter().map(|m| (m.1, 1)))];
        let fullest = |(s, n): &(u32, u32)| n.div_ceil(self.ways.uplinks(*s).max(1) as u32);
        f64::from(ends.iter().flatten().map(fullest).max().unwrap_or(0))
    }

    /// The same for everybody with everybody.
    fn judge_pairs(&self, traffic: &Traffic, flow: &mut Flow, take: Take) -> Judged {
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
        let predicted = Predicted { slowdown: None, max, channels, shared, extent: members.len() as u64 };
        Judged { take, nodes: None, predicted, added: added.round() as u64 }
    }

    /// Room for a job that exchanges this.
    fn scratch<'q>(&self, mix: Option<&'q Mix>) -> Scratch<'q> {
        let own = vec![0.0; self.ways.graph().channels()];
        Scratch { flow: Flow::new(&self.ways), asked: mix.map(Asked::new), own, touched: Vec::new() }
    }

    /// What a set is predicted to cost, and what decides between sets; `None` if its nodes cannot reach each other.
    pub(super) fn weigh(
        &self,
        traffic: &Traffic,
        nodes: &[u32],
        mix: Option<&Mix>,
    ) -> Option<(Predicted, [u64; 4])> {
        let judged = self.judge(traffic, &mut self.scratch(mix), self.set(nodes.to_vec()));
        let predicted = judged.routable()?;
        let (_, extent, time, added) = judged.key();
        Some((predicted, [extent, time, added, 0]))
    }

    /// Sets that are worth a judgement.
    pub(super) fn proposed(&self, traffic: &Traffic, question: Question<'_>) -> Vec<Vec<u32>> {
        let free = self.take(question.candidates);
        let busy = self.busy(traffic, &free);
        let distance = self.distances(&free);
        let supply = Supply { free: &free, need: question.nodes as u32, busy: &busy, distance: &distance };
        let one = supply.one_spot().map(|take| Set { take, nodes: None });
        let sets = one.into_iter().chain(self.several(&supply, question));
        sets.map(|set| self.chosen(&set.take, set.nodes, question)).collect()
    }

    /// Sets on several spots; those of neighbours in the list first, for a job that says what it exchanges.
    fn several(&self, supply: &Supply<'_>, question: Question<'_>) -> Vec<Set> {
        let own = question.own().map(|_| windows(question.nodes, question.candidates));
        let mut sets: Vec<Set> = own.into_iter().flatten().map(|nodes| self.set(nodes)).collect();
        sets.extend(supply.several_spots().into_iter().map(|take| Set { take, nodes: None }));
        let mut seen = BTreeSet::new();
        sets.retain(|set| seen.insert(set.take.clone()));
        sets
    }

    fn set(&self, nodes: Vec<u32>) -> Set {
        Set { take: self.take(&nodes), nodes: Some(nodes) }
    }

    fn chosen(&self, take: &[(u32, u32)], nodes: Option<Vec<u32>>, question: Question<'_>) -> Vec<u32> {
        nodes.unwrap_or_else(|| self.nodes(take, question.candidates))
    }

    /// Channels between two spots, given as positions.
    fn distances<'a>(&'a self, free: &'a [(u32, u32)]) -> impl Fn(usize, usize) -> u16 + 'a {
        let home = move |i: usize| self.spots[free[i].0 as usize][0].0;
        move |a: usize, b: usize| self.ways.to(home(a))[home(b) as usize]
    }

    /// The best set found, and what the usual one costs; `None` if no set is connected. There must
    /// be enough candidates.
    pub fn choose(&self, traffic: &Traffic, question: Question<'_>) -> Option<Choice> {
        let mut scratch = self.scratch(question.own());
        let steps = if question.own().is_some() { STEPS_OF_OWN } else { STEPS };
        let usual = self.set(usual(question.nodes, question.candidates));
        let usual = self.judge(traffic, &mut scratch, usual);
        let free = self.take(question.candidates);
        let busy = self.busy(traffic, &free);
        let (need, distance) = (question.nodes as u32, self.distances(&free));
        let supply = Supply { free: &free, need, busy: &busy, distance: &distance };
        let usual_predicted = usual.routable();
        let mut judge = |Set { take, mut nodes }: Set| {
            if question.own().is_some() {
                nodes = Some(self.chosen(&take, nodes, question));
            }
            let judged = self.judge(traffic, &mut scratch, Set { take, nodes });
            (judged, scratch.flow.steps() > steps)
        };
        let mut best = usual;
        if let Some(take) = supply.one_spot() {
            best = better(best, judge(Set { take, nodes: None }).0);
        }
        if best.predicted.max > 0 {
            for set in self.several(&supply, question) {
                // Known without a prediction.
                if best.predicted.max < APART && self.members(&set.take).len() as u64 > best.predicted.extent
                {
                    continue;
                }
                let (judged, enough) = judge(set);
                best = better(best, judged);
                if enough {
                    break;
                }
            }
        }
        let predicted = best.routable()?;
        let nodes = self.chosen(&best.take, best.nodes, question);
        Some(Choice { nodes, predicted, usual: usual_predicted })
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
