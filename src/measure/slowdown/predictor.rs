//! One job, many orders of its ranks: the prediction of [`super::slowdowns`], where what stays the same
//! from one order to the next is collected once.

use super::direct::OnTorus;
use super::others::Others;
use super::step::{Flows, Law, Room};
use super::{Average, MOST_STEPS, Network, Paths, Steps, patterns, share};
use crate::model::{Adapters, Fabric, Group, Mix, Phase, Routes, Tables, TerminalId, Torus, TorusJob};

/// Predicts the time of one job for any order of its ranks, others at work beside it, as if they were everywhere. An
/// order outlasts the jobs of now, and one that keeps to few cables is the better one for jobs that will come. So
/// where few others are there it predicts more than [`super::slowdowns`]. Long exchanges of a job that is alone are
/// predicted as there.
///
/// Unlike in a [`Group`], several ranks may be on one terminal: what they send each other takes no time, and
/// what others send them shares their cable.
pub struct Predictor<'a> {
    ways: Ways<'a>,
    /// The job's place among the groups, and how many ranks it has.
    job: usize,
    ranks: usize,
    parts: Vec<Part>,
    average: Average,
    room: Room,
    /// Messages out of and into each terminal in a step; all 0 between steps.
    cables: Vec<[u32; 2]>,
    /// Whether several ranks are on one terminal.
    shared: bool,
    /// Predicted time by group, of the last order.
    times: Vec<f64>,
    work: u64,
}

/// Where messages go from a place to another. A place is a terminal's number, or that of a node among those of
/// its job's routes.
enum Ways<'a> {
    Switches(Network<'a>),
    Torus(OnTorus<'a>),
}

impl Ways<'_> {
    /// Numbers of channels and of terminals.
    fn size(&self) -> [usize; 2] {
        match self {
            Self::Switches(network) => network.size(),
            Self::Torus(torus) => torus.size(),
        }
    }

    /// Adds the flows of a step of one group with its ranks on these places; `None` if one does not arrive.
    fn collect(&self, j: usize, ranks: &[u32], phase: Option<&Phase>, flows: &mut Flows) -> Option<()> {
        for (from, to) in phase.into_iter().flat_map(|phase| phase.partners.pairs()) {
            let [from, to] = [from, to].map(|rank| ranks[rank as usize] as usize);
            match self {
                Self::Switches(net) => net.walk(TerminalId::at(from), TerminalId::at(to), j, flows)?,
                Self::Torus(torus) => torus.way(j, from, to, flows)?,
            }
        }
        Some(())
    }
}

/// A group as it is, its ranks on places.
struct Party<'g> {
    ranks: Vec<u32>,
    adapters: Adapters,
    mix: &'g Mix,
}

/// A pattern of some of the groups.
struct Part {
    law: Law,
    /// Its part of each group's traffic.
    shares: Vec<f64>,
    /// Mean flows, by channel, of the other groups that do not have it.
    beside: Vec<f32>,
    /// By group.
    steps: Vec<Steps>,
    /// By step: the flows of the others, then those of the job.
    flows: Vec<Flows>,
    /// How many are those of the others.
    others: Vec<usize>,
}

impl<'a> Predictor<'a> {
    /// For a job that exchanges as `groups[job]` says, with as many ranks as that has. `None` if a route of
    /// the others does not arrive. O(patterns × steps × ranks × hops).
    pub fn new(fabric: &'a Fabric, tables: &'a Tables, groups: &[Group], job: usize) -> Option<Self> {
        let party = |g| {
            let Group { ranks, adapters, mix, .. }: &Group = g;
            Party { ranks: places(ranks), adapters: *adapters, mix }
        };
        let parties: Vec<Party<'_>> = groups.iter().map(party).collect();
        Self::of(Ways::Switches(Network::new(fabric, tables)), &parties, job)
    }

    /// The same on a direct torus, where each job has routes of its own; the first of these is the one whose ranks
    /// change places, so many on each node. Places are those in the nodes of its routes.
    pub fn on_torus(torus: &'a Torus, jobs: &[(&'a TorusJob, &'a Routes)], per_node: usize) -> Option<Self> {
        let ways = OnTorus::new(torus, jobs.iter().copied());
        let party = |(j, (job, _)): (usize, &(&'a TorusJob, &Routes))| {
            let times = if j == 0 { per_node } else { 1 };
            let ranks = ways.places(j).iter().flat_map(|place| std::iter::repeat_n(*place, times));
            Party { ranks: ranks.collect(), adapters: Adapters::default(), mix: &job.mix }
        };
        let parties: Vec<Party<'a>> = jobs.iter().enumerate().map(party).collect();
        Self::of(Ways::Torus(ways), &parties, 0)
    }

    fn of(ways: Ways<'a>, groups: &[Party<'_>], job: usize) -> Option<Self> {
        let sizes: Vec<(usize, Adapters)> = groups.iter().map(|g| (g.ranks.len(), g.adapters)).collect();
        let of_others = |steps: &[Steps], s: usize| {
            let mut flows = Flows::default();
            for (j, group) in groups.iter().enumerate().filter(|(j, _)| *j != job) {
                ways.collect(j, &group.ranks, steps[j].phases.get(s), &mut flows)?;
            }
            Some(flows)
        };
        let mixes: Vec<&Mix> = groups.iter().map(|g| g.mix).collect();
        let others = Others::of(&sizes, &mixes, ways.size()[0], of_others);
        let part = |pattern| {
            let shares: Vec<f64> = groups.iter().map(|g| share(g.mix, pattern)).collect();
            let steps = Steps::all(&sizes, pattern, MOST_STEPS, |j| shares[j] > 0.0);
            let longest = steps.iter().map(|s| s.phases.len()).max().unwrap_or(0);
            let flows = (0..longest).map(|s| of_others(&steps, s)).collect::<Option<Vec<Flows>>>()?;
            let (count, beside) = (flows.iter().map(Flows::len).collect(), others.beside(pattern).to_vec());
            Some(Part { law: Law::of(pattern), shares, beside, steps, flows, others: count })
        };
        let parts = patterns(mixes.iter().copied()).into_iter().map(part).collect::<Option<Vec<Part>>>()?;
        Some(Self {
            parts,
            ranks: groups[job].ranks.len(),
            job,
            average: Average::new(ways.size()[0]),
            room: Room::new(ways.size()),
            cables: vec![[0; 2]; ways.size()[1]],
            shared: false,
            times: vec![1.0; groups.len()],
            work: 0,
            ways,
        })
    }

    /// Predicted time with these ranks: that of the job, over what it would take if each rank had a cable
    /// of its own and met nobody. Infinite if a route does not arrive. O(patterns × steps × ranks of all × hops).
    ///
    /// # Panics
    /// If there are not as many ranks as the job has.
    pub fn time(&mut self, ranks: &[TerminalId]) -> f64 {
        self.time_at(&places(ranks))
    }

    /// The same with ranks on places, as numbers.
    ///
    /// # Panics
    /// If there are not as many ranks as the job has.
    pub fn time_at(&mut self, ranks: &[u32]) -> f64 {
        assert_eq!(ranks.len(), self.ranks, "ranks of the job");
        ranks.iter().for_each(|t| self.cables[*t as usize][0] += 1);
        self.shared = ranks.iter().any(|t| self.cables[*t as usize][0] > 1);
        ranks.iter().for_each(|t| self.cables[*t as usize] = [0; 2]);
        let mut times = std::mem::take(&mut self.times);
        times.fill(0.0);
        let arrives = (0..self.parts.len()).all(|p| self.part(p, ranks, &mut times).is_some());
        self.times = times;
        if arrives { self.times[self.job] } else { f64::INFINITY }
    }

    /// Geometric mean over all groups of what [`Self::time`] found last.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.times.iter().map(|t| t.max(f64::MIN_POSITIVE).ln()).sum();
        (sum / self.times.len().max(1) as f64).exp()
    }

    /// Hops looked at so far: the work done, whatever the machine.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Most messages of one step on a channel between switches that the job uses, with these ranks: the
    /// worst contention. 0 if it uses none or a route does not arrive. As [`Self::time`].
    pub fn contention(&mut self, ranks: &[TerminalId]) -> u32 {
        self.contention_at(&places(ranks))
    }

    /// The same with ranks on places, as numbers.
    pub fn contention_at(&mut self, ranks: &[u32]) -> u32 {
        if self.time_at(ranks).is_infinite() {
            return 0;
        }
        let (room, job) = (&mut self.room, self.job);
        let steps = self.parts.iter().filter(|p| p.shares[job] > 0.0).flat_map(|p| &p.flows);
        steps.map(|flows| room.crowd(flows, job)).max().unwrap_or(0)
    }

    /// Adds a pattern's part of all groups' times; `None` if a route does not arrive.
    fn part(&mut self, p: usize, ranks: &[u32], times: &mut [f64]) -> Option<()> {
        let (job, part) = (self.job, &mut self.parts[p]);
        for (s, flows) in part.flows.iter_mut().enumerate() {
            flows.truncate(part.others[s]);
            self.ways.collect(job, ranks, part.steps[job].phases.get(s), flows)?;
            self.work += flows.all_hops() + flows.len() as u64;
        }
        self.average.take(&part.flows, &part.steps, &part.beside);
        let own = &part.steps[job];
        let mut cable = 1.0;
        if self.shared {
            let busy = own.phases.iter().map(|phase| f64::from(busiest(&mut self.cables, phase, ranks)));
            cable = busy.zip(&own.weight).map(|(busy, w)| busy * w).sum();
        }
        let Self { room, average, .. } = self;
        let mut scores = |law| {
            let mut scores = vec![0.0; times.len()];
            for (s, flows) in part.flows.iter().enumerate() {
                let delays = room.delays(flows, law, times.len(), &average.mean);
                for (j, delay) in delays.into_iter().enumerate() {
                    scores[j] += part.steps[j].weight.get(s).map_or(0.0, |w| w * delay);
                }
            }
            scores
        };
        let law = part.law;
        let mut found = scores(law);
        if part.steps.len() == 1 && law.is_long && cable > 0.0 {
            let in_step = scores(law.in_step())[0];
            found[0] = in_step + Law::set_apart(in_step / cable, 0.0) * (found[0] - in_step);
        }
        for (j, score) in found.into_iter().enumerate().filter(|(j, _)| part.shares[*j] > 0.0) {
            let own = match part.steps[j].phases.is_empty() {
                true => 1.0,
                // What shares a cable on its way out takes its turns, whatever the fabric does.
                false if j == job && cable > 0.0 => cable * law.slowdown(score / cable),
                false if j == job => 0.0,
                false => law.slowdown(score),
            };
            times[j] += part.shares[j] * own;
        }
        Some(())
    }
}

/// Most messages of a step out of or into one terminal; those that stay on it do not count.
fn busiest(cables: &mut [[u32; 2]], phase: &Phase, ranks: &[u32]) -> u32 {
    let ends = |(from, to): (u32, u32)| (ranks[from as usize] as usize, ranks[to as usize] as usize);
    let mut most = 0;
    for (from, to) in phase.partners.pairs().map(ends).filter(|(from, to)| from != to) {
        cables[from][0] += 1;
        cables[to][1] += 1;
        most = most.max(cables[from][0]).max(cables[to][1]);
    }
    ranks.iter().for_each(|t| cables[*t as usize] = [0; 2]);
    most
}

/// Terminals as numbers.
fn places(ranks: &[TerminalId]) -> Vec<u32> {
    ranks.iter().map(|terminal| terminal.index() as u32).collect()
}
