//! Routes of a tree: for each destination one way down from everywhere, chosen for the jobs' exchanges.
//!
//! With one way down per destination, and ranks in a row on different ways, no two messages of a shift meet in
//! a tree without taper (Zahavi, JPDC 2012). Where leaves are shared unevenly that cannot be met everywhere:
//! ways are chosen rank by rank, then changed and swapped inside leaves, and planes of higher levels inside pods and
//! planes below likewise ([`Field`]).

use super::super::net::{NONE, Net};
use super::super::routing::Routing;
use super::exchange::Job;
use super::field::Field;
use super::shape::{NOWHERE, Shape, Stage, cable};
use crate::model::rng::Rng;

/// Warm passes over all blocks, then cold ones.
const WARM_SWEEPS: usize = 18;
const COLD_SWEEPS: usize = 2;
/// Temperature of the first warm pass, and of the last.
const WARM: f32 = 0.1;
const COOL: f32 = 0.02;

/// The way of each terminal, and its plane of each level from the second on, by stage.
#[derive(Clone)]
pub(super) struct Choices {
    pub(super) ways: Vec<u32>,
    pub(super) planes: Vec<Vec<u32>>,
}

impl Choices {
    pub(super) fn none(shape: &Shape, terminals: usize) -> Self {
        let none = vec![NOWHERE; terminals];
        Self { planes: vec![none.clone(); shape.stages.len()], ways: none }
    }

    /// Sets what a terminal has.
    pub(super) fn set(&mut self, t: usize, way: u32, planes: &[u32]) {
        self.ways[t] = way;
        self.planes.iter_mut().zip(planes).for_each(|(of_stage, plane)| of_stage[t] = *plane);
    }

    /// Where the terminals of a leaf or pod choose a plane of a stage: place in its `planes_at`.
    fn place(&self, shape: &Shape, stage: usize, home: u32, t: usize) -> usize {
        let below = match stage {
            0 => shape.ways[self.ways[t] as usize].plane,
            _ => self.planes[stage - 1][t],
        };
        let stage = &shape.stages[stage];
        stage.at(stage.pod_of[home as usize], below)
    }

    /// Whether a terminal has what it chooses a plane of a stage by.
    fn has(&self, stage: usize, t: usize) -> bool {
        (if stage == 0 { &self.ways } else { &self.planes[stage - 1] })[t] != NOWHERE
    }

    /// The planes of a terminal by stage.
    pub(super) fn planes_of(&self, t: usize) -> Vec<u32> {
        self.planes.iter().map(|planes| planes[t]).collect()
    }
}

/// Temperatures of so many warm sweeps, none or two at least, from one to another, each the same part of the one before.
pub(super) fn cooling(sweeps: usize, (warm, cool): (f32, f32)) -> impl Iterator<Item = f32> {
    (0..sweeps).map(move |k| warm * (cool / warm).powf(k as f32 / (sweeps - 1) as f32))
}

/// Chooses for the terminals of jobs that have no choice yet; those that have one keep it. The others'
/// are left as they are.
pub(super) fn choose(shape: &Shape, jobs: &[Job], home: &[u32], choices: &mut Choices, seed: u64) {
    let mut rng = Rng::new(seed);
    let (leaves, options) = (shape.leaves.len(), shape.ways.len());
    let mut ways = Field::new(jobs, home.len(), leaves, options, &shape.leaf_of, &choices.ways);
    let leaf = |t: usize| shape.leaf_of[home[t] as usize] as usize;
    for (rank, t) in jobs.iter().flat_map(|job| job.ranks.iter().enumerate()) {
        if ways.choice[*t as usize] == NOWHERE {
            ways.choose_best(*t, &shape.ways_of[leaf(*t as usize)], rank);
        }
    }
    let mut blocks: Vec<(Vec<u32>, &[u32])> =
        shape.ways_of.iter().map(|ways| (Vec::new(), ways.as_slice())).collect();
    for t in (0..home.len()).filter(|t| ways.has(*t) && !ways.is_fixed[*t]) {
        blocks[leaf(t)].0.push(t as u32);
    }
    anneal(&mut ways, &mut blocks, &mut rng);
    choices.ways = ways.choice;
    let mut turn = shape.ways.len().max(1);
    for (i, stage) in shape.stages.iter().enumerate() {
        choose_planes(shape, (i, turn), jobs, home, choices, &mut rng);
        turn *= stage.planes_at.iter().map(Vec::len).max().unwrap_or(0).max(1);
    }
}

/// Chooses planes of a stage: ranks of a job that are so many apart take others, where `turn` are on different ways
/// below.
fn choose_planes(
    shape: &Shape,
    (i, turn): (usize, usize),
    jobs: &[Job],
    home: &[u32],
    choices: &mut Choices,
    rng: &mut Rng,
) {
    let stage = &shape.stages[i];
    let mut planes =
        Field::new(jobs, home.len(), stage.pods, stage.planes, &stage.pod_of, &choices.planes[i]);
    for (rank, t) in jobs.iter().flat_map(|job| job.ranks.iter().enumerate()) {
        let at = *t as usize;
        if planes.choice[at] == NOWHERE && choices.has(i, at) {
            let place = choices.place(shape, i, home[at], at);
            planes.choose_best(*t, &stage.planes_at[place], rank / turn);
        }
    }
    let mut blocks: Vec<(Vec<u32>, &[u32])> =
        stage.planes_at.iter().map(|planes| (Vec::new(), planes.as_slice())).collect();
    let moves = |t: &usize| planes.has(*t) && !planes.is_fixed[*t] && planes.counts(*t as u32);
    for t in (0..home.len()).filter(moves).filter(|t| planes.choice[*t] != NOWHERE) {
        blocks[choices.place(shape, i, home[t], t)].0.push(t as u32);
    }
    anneal(&mut planes, &mut blocks, rng);
    choices.planes[i] = planes.choice;
}

/// Where nothing meets, as with whole leaves and ranks in turn on their ways, there is nothing to search for.
fn anneal(field: &mut Field, blocks: &mut [(Vec<u32>, &[u32])], rng: &mut Rng) {
    if field.is_free() {
        return;
    }
    for heat in cooling(WARM_SWEEPS, (WARM, COOL)).chain([0.0; COLD_SWEEPS]) {
        rng.shuffle(blocks);
        blocks.iter().for_each(|(block, options)| field.shuffle(block, options, heat, rng));
    }
}

/// Gives the terminals in no job the ways and planes that fewest others at their leaf, and in their pod, have.
pub(super) fn choose_rest(shape: &Shape, home: &[u32], choices: &mut Choices) {
    let leaf = |t: usize| shape.leaf_of[home[t] as usize] as usize;
    let (known, rest): (Vec<usize>, Vec<usize>) = (0..home.len()).partition(|t| choices.ways[*t] != NOWHERE);
    let mut used = vec![0u32; shape.leaves.len() * shape.ways.len()];
    for t in known {
        used[leaf(t) * shape.ways.len() + choices.ways[t] as usize] += 1;
    }
    for t in &rest {
        let row = leaf(*t) * shape.ways.len();
        if let Some(way) = shape.ways_of[leaf(*t)].iter().min_by_key(|w| used[row + **w as usize]) {
            used[row + *way as usize] += 1;
            choices.ways[*t] = *way;
        }
    }
    for i in 0..shape.stages.len() {
        choose_rest_of(shape, i, home, &rest, choices);
    }
}

/// The same of the planes of a stage.
fn choose_rest_of(shape: &Shape, i: usize, home: &[u32], rest: &[usize], choices: &mut Choices) {
    let stage = &shape.stages[i];
    let pod = |t: usize| stage.pod_of[home[t] as usize] as usize;
    let mut used = vec![0u32; stage.pods * stage.planes];
    for (t, plane) in choices.planes[i].iter().enumerate().filter(|(_, plane)| **plane != NOWHERE) {
        used[pod(t) * stage.planes + *plane as usize] += 1;
    }
    for t in rest.iter().copied().filter(|t| choices.has(i, *t)).collect::<Vec<_>>() {
        let row = pod(t) * stage.planes;
        let planes = &stage.planes_at[choices.place(shape, i, home[t], t)];
        if let Some(plane) = planes.iter().min_by_key(|plane| used[row + **plane as usize]) {
            used[row + *plane as usize] += 1;
            choices.planes[i][t] = *plane;
        }
    }
}

/// Fills in the slots of trees.
pub(super) struct Filler<'a> {
    net: &'a Net,
    shape: &'a Shape,
    /// Switches between leaves and tops, by the stage that leads up from them.
    middles: Vec<Middles>,
    tops: Vec<u32>,
    /// Hops to the destination's switch at hand.
    hops: Vec<u8>,
    /// Switches above the destination's, of one level.
    above: Vec<u32>,
}

/// The switches from which one stage leads up.
struct Middles {
    switches: Vec<u32>,
    planes: usize,
    /// Their slots towards each plane: `slots_up[middle * planes + plane]`.
    slots_up: Vec<u8>,
    /// All their slots upwards.
    ups: Vec<Vec<u8>>,
}

impl Middles {
    fn new(net: &Net, shape: &Shape, stage: &Stage) -> Self {
        let is = |s: &u32| shape.levels[*s as usize] + 1 == stage.level;
        let switches: Vec<u32> = (0..net.switches() as u32).filter(is).collect();
        let is_up = |c: &usize| shape.levels[net.to(*c)] == stage.level;
        let ups = |m: &u32| {
            let m = *m as usize;
            net.out(m).filter(is_up).map(|c| net.slot_at(m, c)).collect::<Vec<u8>>()
        };
        let ups: Vec<Vec<u8>> = switches.iter().map(ups).collect();
        let mut slots_up = vec![NONE; switches.len() * stage.planes];
        for (i, m) in switches.iter().enumerate() {
            // Of several the first.
            for slot in ups[i].iter().rev() {
                let up = net.to(net.channel(*m as usize, *slot));
                slots_up[i * stage.planes + stage.plane_of[up] as usize] = *slot;
            }
        }
        Self { switches, planes: stage.planes, slots_up, ups }
    }

    /// The slot of a switch towards a plane; where it has none, in turn one of those towards any.
    fn slot_up(&self, middle: usize, plane: u32, turn: Option<usize>) -> Option<u8> {
        let slot = match plane {
            NOWHERE => NONE,
            _ => self.slots_up[middle * self.planes + plane as usize],
        };
        let ups = &self.ups[middle];
        let any = || turn.filter(|_| !ups.is_empty()).map(|turn| ups[turn % ups.len()]);
        if slot == NONE { any() } else { Some(slot) }
    }
}

/// No hops are known.
const FAR: u8 = u8::MAX;

impl<'a> Filler<'a> {
    pub(super) fn new(net: &'a Net, shape: &'a Shape) -> Self {
        let middles = shape.stages.iter().map(|stage| Middles::new(net, shape, stage)).collect();
        let is_top = |s: &u32| shape.levels[*s as usize] as usize == shape.height();
        let tops = (0..net.switches() as u32).filter(is_top).collect();
        Self { net, shape, middles, tops, hops: vec![FAR; net.switches()], above: Vec::new() }
    }

    /// The slots towards a terminal's switch by a way and planes: up to them, then down. False if some leaf
    /// finds no way up and down. O(switches + ports of the switches on ways down).
    pub(super) fn fill(
        &mut self,
        home: usize,
        way: u32,
        planes: &[u32],
        turn: usize,
        row: &mut [u8],
    ) -> bool {
        row.fill(NONE);
        self.hops.fill(FAR);
        self.hops[home] = 0;
        self.lead_down(home, way, row);
        let height = self.shape.height();
        for stage in (0..self.middles.len()).rev() {
            // Then those above a switch below tops are all its ways, and need no look.
            let is_last = stage + 1 == self.middles.len();
            let all_lead = is_last && self.tops.iter().all(|t| usize::from(self.hops[*t as usize]) == height);
            for i in 0..self.middles[stage].switches.len() {
                let m = self.middles[stage].switches[i] as usize;
                if self.hops[m] == FAR {
                    let wanted = self.middles[stage].slot_up(i, planes[stage], all_lead.then_some(turn));
                    self.lead_up(m, home, wanted.map(|slot| self.net.channel(m, slot)), turn, row);
                }
            }
        }
        let mut all = true;
        for (leaf, s) in self.shape.leaves.iter().enumerate().filter(|(_, s)| **s as usize != home) {
            let s = *s as usize;
            let wanted = self.shape.slot_up(leaf, way).map(|slot| self.net.channel(s, slot));
            all &= self.lead_up(s, home, wanted, turn, row);
        }
        all
    }

    /// From all above a leaf, over the way's cable where there are several.
    fn lead_down(&mut self, home: usize, way: u32, row: &mut [u8]) {
        let (net, wanted) = (self.net, self.shape.ways[way as usize]);
        self.above.clear();
        for c in net.out(home) {
            let m = net.to(c);
            if row[m] == NONE {
                self.above.push(m as u32);
            }
            if row[m] == NONE || cable(net, c) == wanted.cable {
                row[m] = net.back_slot[c];
                self.hops[m] = 1;
            }
        }
        let mut start = 0;
        for stage in &self.shape.stages {
            let end = self.above.len();
            for i in start..end {
                for c in net.out(self.above[i] as usize) {
                    let t = net.to(c);
                    if self.shape.levels[t] == stage.level && row[t] == NONE {
                        row[t] = net.back_slot[c];
                        self.hops[t] = stage.level as u8;
                        self.above.push(t as u32);
                    }
                }
            }
            start = end;
        }
    }

    /// Over a wanted channel if it is on a shortest way up and down, else over another that is.
    fn lead_up(&mut self, s: usize, home: usize, wanted: Option<usize>, turn: usize, row: &mut [u8]) -> bool {
        let level = self.shape.levels[s] as usize;
        for top in self.shape.turn(s, home).max(level + 1)..=self.shape.height() {
            let near = (2 * top - level - 1) as u8;
            let leads = |c: &usize| self.hops[self.net.to(*c)] == near;
            let found = wanted.filter(leads).or_else(|| {
                let ways: Vec<usize> = self.net.out(s).filter(leads).collect();
                (!ways.is_empty()).then(|| ways[turn % ways.len()])
            });
            if let Some(c) = found {
                row[s] = self.net.slot_at(s, c);
                self.hops[s] = near + 1;
                return true;
            }
        }
        false
    }
}

/// Those of the terminals that are `settled`. O(terminals × leaves).
pub(super) fn read_all(net: &Net, shape: &Shape, routing: &Routing<'_>, settled: &[bool]) -> Choices {
    let mut choices = Choices::none(shape, settled.len());
    for t in (0..settled.len()).filter(|t| settled[*t]) {
        if let Some((way, planes)) = read(net, shape, routing.home[t] as usize, routing.row(t)) {
            choices.set(t, way, &planes);
        }
    }
    choices
}

/// The way and the planes by which routes lead to a terminal, as those that most of its job's take: the first
/// found from another pod, or from anywhere. O(leaves).
fn read(net: &Net, shape: &Shape, home: usize, row: &[u8]) -> Option<(u32, Vec<u32>)> {
    let others = || shape.leaves.iter().map(|s| *s as usize).filter(|s| *s != home);
    let start = others().find(|s| shape.turn(*s, home) == shape.height()).or_else(|| others().next())?;
    let (mut at, mut planes, mut last) = (start, vec![NOWHERE; shape.stages.len()], None);
    while at != home {
        let c = (row[at] != NONE).then(|| net.channel(at, row[at]))?;
        at = net.to(c);
        let on = shape.stages.iter().position(|stage| stage.level == shape.levels[at]);
        on.into_iter().for_each(|i| planes[i] = shape.stages[i].plane_of[at]);
        last = Some(net.reverse(c));
    }
    let up = last?;
    let wanted = (shape.plane_of[net.to(up)], cable(net, up));
    let is_it = |w: &u32| (shape.ways[*w as usize].plane, shape.ways[*w as usize].cable) == wanted;
    let way = shape.ways_of[shape.leaf_of[home] as usize].iter().copied().find(is_it)?;
    let mut below = wanted.0;
    for (stage, plane) in shape.stages.iter().zip(&mut planes) {
        if *plane == NOWHERE {
            *plane = *stage.planes_at[stage.at(stage.pod_of[home], below)].first()?;
        }
        below = *plane;
    }
    Some((way, planes))
}
