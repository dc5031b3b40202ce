//! Placement on a switched fabric. See [`super`] for what is best, `super::flow` for the
//! prediction, `super::sets` for what is tried.

use std::collections::{BTreeMap, BTreeSet};

use super::exchange::{Asked, grade};
use super::flow::{Flow, Members, Ways, Whole};
use super::parts::{Parts, Rooms, best_fit};
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
    parts: Parts,
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
    /// How it breaks parts of the fabric: see [`Parts::broken`].
    broken: Vec<u64>,
    /// What the set adds to the sum of squared loads: how much it gets in the way.
    added: u64,
}

/// Room to judge sets in.
struct Scratch<'q> {
    flow: Flow,
    /// Free nodes of each part.
    rooms: &'q Rooms,
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
    fn key(&self) -> (bool, &[u64], u64, u64, u64) {
        let Predicted { max, extent, slowdown, .. } = self.predicted;
        (max == APART, &self.broken, extent, slowdown.map_or(max, grade), self.added)
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
        let parts = Parts::new(fabric, &all);
        let ways = Ways::new(fabric, all.into_iter());
        Self { names, spot, spots, homes, rails: nodes.rails(), ways, parts }
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
        let mut judged = self.judge_pairs(traffic, scratch, set.take);
        let own = set.nodes.as_ref().and_then(|nodes| self.judge_own(traffic, scratch, nodes));
        if let Some((slowdown, added)) = own {
            judged.predicted.slowdown = Some(slowdown);
            judged.added = added;
        }
        Judged { nodes: set.nodes, ..judged }
    }

    /// Slow-down of what the job says that it exchanges, and what that adds to the sum of squared loads.
    fn judge_own(&self, traffic: &Traffic, scratch: &mut Scratch<'_>, nodes: &[u32]) -> Option<(f64, u64)> {
        let Scratch { flow, asked: Some(asked), own, touched, .. } = scratch else { return None };
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
    fn judge_pairs(&self, traffic: &Traffic, scratch: &mut Scratch<'_>, take: Take) -> Judged {
        let flow = &mut scratch.flow;
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
        let broken = self.parts.broken(scratch.rooms, self.homes(&take));
        Judged { take, nodes: None, predicted, broken, added: added.round() as u64 }
    }

    /// Room for a job that exchanges this.
    fn scratch<'q>(&self, mix: Option<&'q Mix>, rooms: &'q Rooms) -> Scratch<'q> {
        let own = vec![0.0; self.ways.graph().channels()];
        let (flow, asked) = (Flow::new(&self.ways), mix.map(Asked::new));
        Scratch { flow, rooms, asked, own, touched: Vec::new() }
    }

    /// Nodes by the switches that stand for their spots.
    fn homes<'a>(&'a self, take: &'a [(u32, u32)]) -> impl Iterator<Item = (u32, u32)> + Clone + 'a {
        take.iter().map(|(spot, n)| (self.home(*spot), *n))
    }

    /// What a set is predicted to cost, and what decides between sets; `None` if its nodes cannot reach each other.
    pub(super) fn weigh(
        &self,
        traffic: &Traffic,
        nodes: &[u32],
        mix: Option<&Mix>,
    ) -> Option<(Predicted, [u64; 4])> {
        let rooms = self.parts.rooms(std::iter::empty());
        let judged = self.judge(traffic, &mut self.scratch(mix, &rooms), self.set(nodes.to_vec()));
        let predicted = judged.routable()?;
        // Numbers of parts above leaves as one: few of the higher ones go first.
        let above = judged.broken.iter().rev().skip(2).rev().step_by(2);
        let above = above.fold(0u64, |all, n| all.saturating_mul(1 << 12) + n);
        let (_, _, extent, time, added) = judged.key();
        Some((predicted, [above, extent, time, added]))
    }

    /// The switch that stands for a spot.
    fn home(&self, spot: u32) -> u32 {
        self.spots[spot as usize][0].0
    }

    /// Free spots of the smallest part with room for a job, the fullest of equals. Of equally full ones it is the one whose
    /// smaller parts Slurm's choice would break least. `None` if it shall be alone on its channels and there is none. Then nobody else may cross the smaller parts that it has nodes in.
    fn part(&self, traffic: &Traffic, free: &[(u32, u32)], question: Question<'_>) -> Option<Take> {
        let levels = self.parts.levels();
        let graph = self.ways.graph();
        let used = (0..graph.channels()).filter(|c| traffic.load[*c] > 0.0);
        let crossed = (question.isolated && levels.len() > 1)
            .then(|| self.parts.crossed(used.map(|c| (graph.from(c), graph.to(c)))));
        for level in 1..=levels.len() {
            let open = |spot: u32| {
                let is_crossed = |crossed: &Vec<bool>| crossed[self.home(spot) as usize];
                !crossed.iter().flat_map(|crossed| &crossed[..level]).any(is_crossed)
            };
            let part = |spot: u32| levels.get(level).map(|of| of[self.home(spot) as usize]);
            let mut rooms: BTreeMap<Option<u32>, Take> = BTreeMap::new();
            for (spot, n) in free.iter().filter(|(spot, _)| open(*spot)) {
                rooms.entry(part(*spot)).or_default().push((*spot, *n));
            }
            let room = |free: &Take| free.iter().map(|(_, n)| n).sum::<u32>();
            let mut fits: Vec<Take> = rooms.into_values().collect();
            fits.retain(|free| room(free) as usize >= question.nodes);
            let Some(least) = fits.iter().map(room).min() else { continue };
            fits.retain(|free| room(free) == least);
            if fits.len() == 1 {
                return fits.pop();
            }
            let rooms = self.parts.rooms(self.homes(free));
            let broken = |free: &Take| {
                let take = self.best_fit(free, question.nodes);
                self.parts.broken(&rooms, self.homes(&take))
            };
            return fits.into_iter().min_by_key(broken);
        }
        None
    }

    /// Sets that are worth a judgement.
    pub(super) fn proposed(&self, traffic: &Traffic, question: Question<'_>) -> Vec<Vec<u32>> {
        let free = self.take(question.candidates);
        let one = self.one_spot(traffic, &free, question);
        let part = self.part(traffic, &free, question);
        let several = part.map_or_else(Vec::new, |part| self.several(traffic, &part, question));
        let sets = one.into_iter().chain(several);
        sets.map(|set| self.chosen(&set.take, set.nodes, question)).collect()
    }

    /// One spot that has room for the whole job.
    fn one_spot(&self, traffic: &Traffic, free: &[(u32, u32)], question: Question<'_>) -> Option<Set> {
        let (busy, distance) = (self.busy(traffic, free), self.distances(free));
        let supply = Supply { free, need: question.nodes as u32, busy: &busy, distance: &distance };
        supply.one_spot().map(|take| Set { take, nodes: None })
    }

    /// Sets on several spots of a part; those of neighbours in the list first, for a job that says what it exchanges.
    fn several(&self, traffic: &Traffic, free: &[(u32, u32)], question: Question<'_>) -> Vec<Set> {
        let (busy, distance) = (self.busy(traffic, free), self.distances(free));
        let supply = Supply { free, need: question.nodes as u32, busy: &busy, distance: &distance };
        let own = question.own().map(|_| windows(question.nodes, question.candidates));
        let mut sets: Vec<Set> = own.into_iter().flatten().map(|nodes| self.set(nodes)).collect();
        sets.push(Set { take: self.best_fit(free, question.nodes), nodes: None });
        sets.extend(supply.several_spots().into_iter().map(|take| Set { take, nodes: None }));
        let mut seen = BTreeSet::new();
        sets.retain(|set| seen.insert(set.take.clone()));
        sets
    }

    /// What Slurm would take of a part of a tree.
    fn best_fit(&self, free: &[(u32, u32)], nodes: usize) -> Take {
        let left: Vec<usize> = free.iter().map(|(_, n)| *n as usize).collect();
        let of = |of: &Vec<u32>| free.iter().map(|(spot, _)| of[self.home(*spot) as usize]).collect();
        let mut groups: Vec<Vec<u32>> = self.parts.levels().iter().map(of).collect();
        groups[0] = (0..free.len() as u32).collect();
        counted(best_fit(&groups, &left, nodes).into_iter().map(|(leaf, n)| (free[leaf].0, n as u32)))
    }

    fn set(&self, nodes: Vec<u32>) -> Set {
        Set { take: self.take(&nodes), nodes: Some(nodes) }
    }

    fn chosen(&self, take: &[(u32, u32)], nodes: Option<Vec<u32>>, question: Question<'_>) -> Vec<u32> {
        nodes.unwrap_or_else(|| self.nodes(take, question.candidates))
    }

    /// Channels between two spots, given as positions.
    fn distances<'a>(&'a self, free: &'a [(u32, u32)]) -> impl Fn(usize, usize) -> u16 + 'a {
        let home = move |i: usize| self.home(free[i].0);
        move |a: usize, b: usize| self.ways.to(home(a))[home(b) as usize]
    }

    /// The best set found, and what the usual one costs; `None` if no set is connected, or none is alone on its
    /// channels that is to be. There must be enough candidates.
    pub fn choose(&self, traffic: &Traffic, question: Question<'_>) -> Option<Choice> {
        let free = self.take(question.candidates);
        let rooms = self.parts.rooms(self.homes(&free));
        let mut scratch = self.scratch(question.own(), &rooms);
        let steps = if question.own().is_some() { STEPS_OF_OWN } else { STEPS };
        let usual = self.set(usual(question.nodes, question.candidates));
        let usual = self.judge(traffic, &mut scratch, usual);
        let usual_predicted = usual.routable();
        let part = self.part(traffic, &free, question);
        let may_be = |judged: &Judged| question.allows(judged.predicted.shared);
        let mut judge = |Set { take, mut nodes }: Set| {
            if question.own().is_some() {
                nodes = Some(self.chosen(&take, nodes, question));
            }
            let judged = self.judge(traffic, &mut scratch, Set { take, nodes });
            (Some(judged).filter(may_be), scratch.flow.steps() > steps)
        };
        let mut best = Some(usual).filter(may_be);
        if let Some(set) = self.one_spot(traffic, &free, question) {
            best = better(best, judge(set).0);
        }
        if best.as_ref().is_none_or(|best| best.predicted.max > 0) {
            let several = part.map_or_else(Vec::new, |part| self.several(traffic, &part, question));
            for set in several {
                // Known without a prediction.
                let broken = self.parts.broken(&rooms, self.homes(&set.take));
                if best.as_ref().is_some_and(|best| best.predicted.max < APART && broken > best.broken) {
                    continue;
                }
                let (judged, enough) = judge(set);
                best = better(best, judged);
                if enough {
                    break;
                }
            }
        }
        let best = best?;
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

/// The better of two, the first of equals.
fn better(a: Option<Judged>, b: Option<Judged>) -> Option<Judged> {
    match (a, b) {
        (Some(a), Some(b)) if b.key() < a.key() => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

/// Sums by key, ascending.
fn counted(items: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let mut sums: BTreeMap<u32, u32> = BTreeMap::new();
    items.for_each(|(key, n)| *sums.entry(key).or_default() += n);
    sums.into_iter().collect()
}
