//! Trees of two and three levels: leaves with hosts, one switch of each plane above each leaf, and, in trees
//! of three levels, top switches that join the pods of a plane.

use super::super::net::{NONE, Net};

/// A place that is none.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A way out of a leaf, and into it: a plane, and which of the parallel cables into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) plane: u32,
    pub(super) cable: u32,
}

/// The shape of a tree.
pub(super) struct Shape {
    /// How far above the hosts each switch is.
    pub(super) levels: Vec<u32>,
    /// Leaves, pods and planes by switch; [`NOWHERE`] where a switch is in none.
    pub(super) leaf_of: Vec<u32>,
    pub(super) pod_of: Vec<u32>,
    pub(super) plane_of: Vec<u32>,
    /// Switch of each leaf.
    pub(super) leaves: Vec<u32>,
    pub(super) pods: usize,
    /// All ways, and those that each leaf has.
    pub(super) ways: Vec<Way>,
    pub(super) ways_of: Vec<Vec<u32>>,
    /// Slot of each leaf by way: `up[leaf * ways + way]`.
    up: Vec<u8>,
    /// The middle switch of each pod and plane: `middle[pod * planes + plane]`.
    middle: Vec<u32>,
    planes: usize,
    /// Top switches, and the number of each.
    pub(super) tops: Vec<u32>,
    pub(super) top_of: Vec<u32>,
    /// The tops that hang on each middle switch, as [`Shape::middle`] numbers these.
    pub(super) tops_at: Vec<Vec<u32>>,
}

/// Connected parts of the switches that count, by switch, and how many there are.
fn parts(net: &Net, counts: impl Fn(usize) -> bool) -> (Vec<u32>, usize) {
    let (mut part, mut parts) = (vec![NOWHERE; net.switches()], 0);
    let mut queue = Vec::new();
    for first in (0..net.switches()).filter(|s| counts(*s)) {
        if part[first] != NOWHERE {
            continue;
        }
        part[first] = parts as u32;
        queue.push(first);
        while let Some(u) = queue.pop() {
            for w in net.out(u).map(|c| net.to(c)) {
                if counts(w) && part[w] == NOWHERE {
                    part[w] = parts as u32;
                    queue.push(w);
                }
            }
        }
        parts += 1;
    }
    (part, parts)
}

/// Which of the cables between the same two switches a channel is.
pub(super) fn cable(net: &Net, channel: usize) -> u32 {
    let before = net.out(net.from(channel)).take_while(|c| *c < channel);
    before.filter(|c| net.to(*c) == net.to(channel)).count() as u32
}

impl Shape {
    /// The shape of a fabric, if it is such a tree: all terminals on leaves, cables between neighbouring
    /// levels only, and above each pod one switch of each plane. O(channels × ports).
    pub(super) fn of(net: &Net) -> Option<Self> {
        let levels = net.hops_from((0..net.switches()).filter(|s| net.hosts[*s] > 0));
        let height = levels.iter().copied().max().unwrap_or(0);
        let is_level = |c| levels[net.from(c)].abs_diff(levels[net.to(c)]) == 1;
        let is_leaf_only = (0..net.switches()).all(|s| levels[s] == 0 || !net.is_source[s]);
        if !(1..=2).contains(&height) || !is_leaf_only || !(0..net.channels()).all(is_level) {
            return None;
        }
        let (pod_of, pods) = parts(net, |s| levels[s] < height);
        let (plane_of, planes) = parts(net, |s| levels[s] > 0);
        let numbered = |level: u32| {
            let all: Vec<u32> = (0..net.switches() as u32).filter(|s| levels[*s as usize] == level).collect();
            let mut number = vec![NOWHERE; net.switches()];
            all.iter().enumerate().for_each(|(i, s)| number[*s as usize] = i as u32);
            (all, number)
        };
        let (leaves, leaf_of) = numbered(0);
        let (tops, top_of) =
            if height == 2 { numbered(2) } else { (Vec::new(), vec![NOWHERE; net.switches()]) };
        let mut shape = Self {
            ways: Vec::new(),
            ways_of: vec![Vec::new(); leaves.len()],
            up: Vec::new(),
            middle: vec![NOWHERE; pods * planes],
            tops_at: vec![Vec::new(); if height == 2 { pods * planes } else { 0 }],
            levels,
            leaf_of,
            pod_of,
            plane_of,
            leaves,
            pods,
            planes,
            tops,
            top_of,
        };
        if height == 2 && !shape.join_pods(net) {
            return None;
        }
        shape.find_ways(net);
        // A leaf that is cut off has hosts to route for, and no way.
        (!shape.ways_of.iter().any(Vec::is_empty)).then_some(shape)
    }

    /// Whether there are tops.
    pub(super) fn is_high(&self) -> bool {
        !self.tops.is_empty()
    }

    /// Notes the middle switches; false if a pod has two of one plane.
    fn join_pods(&mut self, net: &Net) -> bool {
        for s in (0..net.switches()).filter(|s| self.levels[*s] == 1) {
            let at = self.pod_of[s] as usize * self.planes + self.plane_of[s] as usize;
            if self.middle[at] != NOWHERE {
                return false;
            }
            self.middle[at] = s as u32;
            let ups = net.out(s).map(|c| net.to(c)).filter(|t| self.levels[*t] == 2);
            let mut tops: Vec<u32> = ups.map(|t| self.top_of[t]).collect();
            tops.sort_unstable();
            tops.dedup();
            self.tops_at[at] = tops;
        }
        true
    }

    fn find_ways(&mut self, net: &Net) {
        let way = |c: usize| Way { plane: self.plane_of[net.to(c)], cable: cable(net, c) };
        let of_leaf: Vec<Vec<(Way, u8)>> = self
            .leaves
            .iter()
            .map(|s| net.out(*s as usize).map(|c| (way(c), net.slot(c))).collect())
            .collect();
        let mut ways: Vec<Way> = of_leaf.iter().flatten().map(|(way, _)| *way).collect();
        ways.sort_unstable_by_key(|way| (way.cable, way.plane));
        ways.dedup();
        self.up = vec![NONE; self.leaves.len() * ways.len()];
        let number = |w: &Way| ways.iter().position(|way| way == w).unwrap_or(0);
        for (leaf, own) in of_leaf.iter().enumerate() {
            for (way, slot) in own {
                let w = number(way);
                self.up[leaf * ways.len() + w] = *slot;
                self.ways_of[leaf].push(w as u32);
            }
            self.ways_of[leaf].sort_unstable();
        }
        self.ways = ways;
    }

    /// The slot of a leaf for a way, of another cable into its plane if it has not this one; `None` if it
    /// has none into that plane.
    pub(super) fn slot_up(&self, leaf: usize, way: u32) -> Option<u8> {
        let slots = &self.up[leaf * self.ways.len()..(leaf + 1) * self.ways.len()];
        let plane = self.ways[way as usize].plane;
        let exact = slots[way as usize];
        if exact != NONE {
            return Some(exact);
        }
        let mut others = self.ways_of[leaf].iter().filter(|w| self.ways[**w as usize].plane == plane);
        others.next().map(|w| slots[*w as usize])
    }

    /// Place of a middle switch in [`Shape::tops_at`].
    pub(super) fn middle_at(&self, pod: u32, plane: u32) -> usize {
        pod as usize * self.planes + plane as usize
    }

    /// Blocks of hosts that share channels up to tops: pods times planes.
    pub(super) fn middles(&self) -> usize {
        self.pods * self.planes
    }
}
