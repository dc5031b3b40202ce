//! Routes of a tree: for each destination one way down from everywhere, chosen for the jobs' exchanges.
//!
//! With one way down per destination, and ranks in a row on different ways, no two messages of a shift meet in
//! a tree without taper (Zahavi, JPDC 2012). Where leaves are shared unevenly that cannot be met everywhere:
//! ways are chosen rank by rank, then changed and swapped inside leaves, and tops inside pods and planes
//! likewise ([`Field`]).

use super::super::net::{NONE, Net};
use super::exchange::Job;
use super::field::Field;
use super::shape::{NOWHERE, Shape, cable};
use crate::model::rng::Rng;

/// Passes over all blocks, the last two cold.
const SWEEPS: usize = 20;
/// Temperature of the first warm pass, and of the last.
const WARM: f32 = 0.1;
const COOL: f32 = 0.02;

/// The way and the top of each terminal.
pub(super) struct Choices {
    pub(super) ways: Vec<u32>,
    pub(super) tops: Vec<u32>,
}

impl Choices {
    pub(super) fn none(terminals: usize) -> Self {
        Self { ways: vec![NOWHERE; terminals], tops: vec![NOWHERE; terminals] }
    }
}

fn heats() -> impl Iterator<Item = f32> {
    let warm = SWEEPS - 2;
    let at = move |k| WARM * (COOL / WARM).powf(k as f32 / (warm - 1) as f32);
    (0..SWEEPS).map(move |k| if k < warm { at(k) } else { 0.0 })
}

/// Chooses for the terminals of jobs that have no choice yet; those that have one keep it. The others'
/// are left as they are.
pub(super) fn choose(shape: &Shape, jobs: &[Job], home: &[u32], choices: &mut Choices) {
    let mut rng = Rng::new(1);
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
    if shape.is_high() {
        choose_tops(shape, jobs, home, &ways, choices, &mut rng);
    }
    choices.ways = ways.choice;
}

fn choose_tops(
    shape: &Shape,
    jobs: &[Job],
    home: &[u32],
    ways: &Field,
    choices: &mut Choices,
    rng: &mut Rng,
) {
    let options = shape.tops.len();
    let mut tops = Field::new(jobs, home.len(), shape.pods, options, &shape.pod_of, &choices.tops);
    let plane_of = |t: usize| shape.ways[ways.choice[t] as usize].plane;
    let middle = |t: usize| shape.middle_at(shape.pod_of[home[t] as usize], plane_of(t));
    let planes = shape.ways.len().max(1);
    for (rank, t) in jobs.iter().flat_map(|job| job.ranks.iter().enumerate()) {
        if tops.choice[*t as usize] == NOWHERE {
            tops.choose_best(*t, &shape.tops_at[middle(*t as usize)], rank / planes);
        }
    }
    let mut blocks: Vec<(Vec<u32>, &[u32])> =
        (0..shape.middles()).map(|m| (Vec::new(), shape.tops_at[m].as_slice())).collect();
    let moves = |t: &usize| tops.has(*t) && !tops.is_fixed[*t] && tops.counts(*t as u32);
    for t in (0..home.len()).filter(moves).filter(|t| tops.choice[*t] != NOWHERE) {
        blocks[middle(t)].0.push(t as u32);
    }
    anneal(&mut tops, &mut blocks, rng);
    choices.tops = tops.choice;
}

fn anneal(field: &mut Field, blocks: &mut [(Vec<u32>, &[u32])], rng: &mut Rng) {
    for heat in heats() {
        rng.shuffle(blocks);
        blocks.iter().for_each(|(block, options)| field.shuffle(block, options, heat, rng));
    }
}

/// Gives the terminals in no job the ways and tops that fewest others at their leaf, and in their pod, have.
pub(super) fn choose_rest(shape: &Shape, home: &[u32], choices: &mut Choices) {
    let mut used = vec![0u32; shape.leaves.len() * shape.ways.len()];
    let mut used_tops = vec![0u32; shape.pods * shape.tops.len()];
    let leaf = |t: usize| shape.leaf_of[home[t] as usize] as usize;
    let pod = |t: usize| shape.pod_of[home[t] as usize] as usize;
    let (known, rest): (Vec<usize>, Vec<usize>) = (0..home.len()).partition(|t| choices.ways[*t] != NOWHERE);
    for t in known {
        used[leaf(t) * shape.ways.len() + choices.ways[t] as usize] += 1;
        if choices.tops[t] != NOWHERE {
            used_tops[pod(t) * shape.tops.len() + choices.tops[t] as usize] += 1;
        }
    }
    for t in rest {
        let row = leaf(t) * shape.ways.len();
        let Some(way) = shape.ways_of[leaf(t)].iter().min_by_key(|w| used[row + **w as usize]) else {
            continue;
        };
        used[row + *way as usize] += 1;
        choices.ways[t] = *way;
        if shape.is_high() {
            let row = pod(t) * shape.tops.len();
            let middle = shape.middle_at(pod(t) as u32, shape.ways[*way as usize].plane);
            let top = shape.tops_at[middle].iter().min_by_key(|top| used_tops[row + **top as usize]);
            if let Some(top) = top {
                used_tops[row + *top as usize] += 1;
                choices.tops[t] = *top;
            }
        }
    }
}

/// Fills in the slots of trees.
pub(super) struct Filler<'a> {
    net: &'a Net,
    shape: &'a Shape,
    /// Switches above leaves that are no tops.
    middles: Vec<usize>,
    /// Their slots towards each top: `slots_up[middle * tops + top]`.
    slots_up: Vec<u8>,
    /// All their slots upwards.
    ups: Vec<Vec<u8>>,
    /// Hops to the destination's switch at hand.
    hops: Vec<u8>,
}

/// No hops are known.
const FAR: u8 = u8::MAX;

impl<'a> Filler<'a> {
    pub(super) fn new(net: &'a Net, shape: &'a Shape) -> Self {
        let middles: Vec<usize> = (0..net.switches()).filter(|s| shape.levels[*s] == 1).collect();
        let tops = shape.tops.len();
        let mut slots_up = vec![NONE; middles.len() * tops];
        let is_up = |c: &usize| shape.levels[net.to(*c)] == 2;
        let ups: Vec<Vec<u8>> =
            middles.iter().map(|m| net.out(*m).filter(is_up).map(|c| net.slot_at(*m, c)).collect()).collect();
        for (i, m) in middles.iter().enumerate() {
            // Of several the first.
            for slot in ups[i].iter().rev() {
                slots_up[i * tops + shape.top_of[net.to(net.channel(*m, *slot))] as usize] = *slot;
            }
        }
        Self { net, shape, middles, slots_up, ups, hops: vec![FAR; net.switches()] }
    }

    /// The slots towards a terminal's switch by a way and a top: up to them, then down. False if some leaf
    /// finds no way up and down. O(switches + ports of the switches on ways down).
    pub(super) fn fill(&mut self, home: usize, way: u32, top: u32, turn: usize, row: &mut [u8]) -> bool {
        row.fill(NONE);
        self.hops.fill(FAR);
        self.hops[home] = 0;
        self.lead_down(home, way, row);
        if self.shape.is_high() {
            // Then those above a middle switch are all its ways, and need no look.
            let all_lead = self.shape.tops.iter().all(|t| self.hops[*t as usize] == 2);
            for i in 0..self.middles.len() {
                let m = self.middles[i];
                if self.hops[m] == FAR {
                    let wanted = self.slot_up(i, top, all_lead.then_some(turn));
                    self.lead_up(m, wanted.map(|slot| self.net.channel(m, slot)), &[2], turn, row);
                }
            }
        }
        let mut all = true;
        for (leaf, s) in self.shape.leaves.iter().enumerate().filter(|(_, s)| **s as usize != home) {
            let s = *s as usize;
            let wanted = self.shape.slot_up(leaf, way).map(|slot| self.net.channel(s, slot));
            let is_near = !self.shape.is_high() || self.shape.pod_of[s] == self.shape.pod_of[home];
            let nearest: &[u8] = if is_near { &[1, 3] } else { &[3] };
            all &= self.lead_up(s, wanted, nearest, turn, row);
        }
        all
    }

    /// The slot of a middle switch towards a top; where it has none, in turn one of those towards any.
    fn slot_up(&self, middle: usize, top: u32, turn: Option<usize>) -> Option<u8> {
        let slot = match top {
            NOWHERE => NONE,
            _ => self.slots_up[middle * self.shape.tops.len() + top as usize],
        };
        let ups = &self.ups[middle];
        let any = || turn.filter(|_| !ups.is_empty()).map(|turn| ups[turn % ups.len()]);
        if slot == NONE { any() } else { Some(slot) }
    }

    /// From all above a leaf, over the way's cable where there are several.
    fn lead_down(&mut self, home: usize, way: u32, row: &mut [u8]) {
        let (net, wanted) = (self.net, self.shape.ways[way as usize]);
        for c in net.out(home) {
            let m = net.to(c);
            if row[m] == NONE || cable(net, c) == wanted.cable {
                row[m] = net.back_slot[c];
                self.hops[m] = 1;
            }
        }
        for c in net.out(home).map(|c| net.to(c)).filter(|_| self.shape.is_high()).flat_map(|m| net.out(m)) {
            let t = net.to(c);
            if self.shape.levels[t] == 2 && row[t] == NONE {
                row[t] = net.back_slot[c];
                self.hops[t] = 2;
            }
        }
    }

    /// Over a wanted channel if what it leads to is so many hops away, else over another that does.
    fn lead_up(&mut self, s: usize, wanted: Option<usize>, hops: &[u8], turn: usize, row: &mut [u8]) -> bool {
        for near in hops {
            let leads = |c: &usize| self.hops[self.net.to(*c)] == *near;
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

/// The way and the top by which routes lead to a terminal, as the one that most of its job's take: the first
/// found from another pod, or from anywhere. O(leaves).
pub(super) fn read(net: &Net, shape: &Shape, home: usize, row: &[u8]) -> Option<(u32, u32)> {
    let pod = |s: usize| shape.pod_of[s] == shape.pod_of[home];
    let others = || shape.leaves.iter().map(|s| *s as usize).filter(|s| *s != home);
    let start = others().find(|s| !pod(*s)).or_else(|| others().next())?;
    let (mut at, mut top, mut last) = (start, NOWHERE, None);
    while at != home {
        let c = (row[at] != NONE).then(|| net.channel(at, row[at]))?;
        at = net.to(c);
        top = if shape.levels[at] == 2 { shape.top_of[at] } else { top };
        last = Some(net.reverse(c));
    }
    let up = last?;
    let wanted = (shape.plane_of[net.to(up)], cable(net, up));
    let is_it = |w: &u32| (shape.ways[*w as usize].plane, shape.ways[*w as usize].cable) == wanted;
    let way = shape.ways_of[shape.leaf_of[home] as usize].iter().copied().find(is_it)?;
    if shape.is_high() && top == NOWHERE {
        top = *shape.tops_at[shape.middle_at(shape.pod_of[home], wanted.0)].first()?;
    }
    Some((way, top))
}
