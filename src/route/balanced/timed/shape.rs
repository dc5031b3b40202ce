//! Trees of any height: leaves with hosts, one switch of each plane above each leaf, and, in higher trees, above each
//! pod one switch of each plane of the next level, up to the tops, which join all pods of a plane.

use super::super::net::{NONE, Net};

/// A place that is none.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Levels above the leaves, at most: hops are counted in bytes.
const MOST_LEVELS: u32 = 100;

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
    /// Leaves and planes by switch; [`NOWHERE`] where a switch is in none.
    pub(super) leaf_of: Vec<u32>,
    pub(super) plane_of: Vec<u32>,
    /// Switch of each leaf.
    pub(super) leaves: Vec<u32>,
    /// All ways, and those that each leaf has.
    pub(super) ways: Vec<Way>,
    pub(super) ways_of: Vec<Vec<u32>>,
    /// Slot of each leaf by way: `up[leaf * ways + way]`.
    up: Vec<u8>,
    /// How pods are joined: into those of the second level, of the third, and so on.
    pub(super) stages: Vec<Stage>,
}

/// From the switches of one level, the first or a higher one, to those of the next.
pub(super) struct Stage {
    /// The level that it leads to.
    pub(super) level: u32,
    /// Pods: connected parts of the switches below that level, by switch.
    pub(super) pod_of: Vec<u32>,
    pub(super) pods: usize,
    /// Planes: connected parts of the switches from that level on, by switch. At the highest level these are the tops.
    pub(super) plane_of: Vec<u32>,
    pub(super) planes: usize,
    /// Planes of the level below.
    planes_below: usize,
    /// The planes above each pod's switch of a plane of the level below, as [`Stage::at`] numbers these.
    pub(super) planes_at: Vec<Vec<u32>>,
}

impl Stage {
    /// `None` if a pod has two switches of one plane below.
    fn of(net: &Net, levels: &[u32], level: u32, below: &[u32], planes_below: usize) -> Option<Self> {
        let (pod_of, pods) = parts(net, |s| levels[s] < level && net.degree(s) > 0);
        let (plane_of, planes) = parts(net, |s| levels[s] >= level);
        let mut stage = Self { level, pod_of, pods, plane_of, planes, planes_below, planes_at: Vec::new() };
        stage.planes_at = vec![Vec::new(); pods * planes_below];
        let mut is_there = vec![false; pods * planes_below];
        for s in (0..net.switches()).filter(|s| levels[*s] + 1 == level) {
            let at = stage.at(stage.pod_of[s], below[s]);
            if std::mem::replace(&mut is_there[at], true) {
                return None;
            }
            let ups = net.out(s).map(|c| net.to(c)).filter(|t| levels[*t] == level);
            let mut planes: Vec<u32> = ups.map(|t| stage.plane_of[t]).collect();
            planes.sort_unstable();
            planes.dedup();
            stage.planes_at[at] = planes;
        }
        Some(stage)
    }

    /// Place in [`Stage::planes_at`] of a pod's switch of a plane of the level below.
    pub(super) fn at(&self, pod: u32, plane_below: u32) -> usize {
        pod as usize * self.planes_below + plane_below as usize
    }
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
    /// levels only, and above each pod one switch of each plane. O(levels × channels × ports).
    pub(super) fn of(net: &Net) -> Option<Self> {
        let mut levels = net.hops_from((0..net.switches()).filter(|s| net.hosts[*s] > 0));
        // A switch without cables is in nobody's way.
        (0..net.switches()).filter(|s| net.degree(*s) == 0).for_each(|s| levels[s] = 0);
        let height = levels.iter().copied().max().unwrap_or(0);
        let is_level = |c| levels[net.from(c)].abs_diff(levels[net.to(c)]) == 1;
        let is_leaf_only = (0..net.switches()).all(|s| levels[s] == 0 || !net.is_source[s]);
        if !(1..=MOST_LEVELS).contains(&height) || !is_leaf_only || !(0..net.channels()).all(is_level) {
            return None;
        }
        let (plane_of, planes) = parts(net, |s| levels[s] > 0);
        let leaves: Vec<u32> = (0..net.switches() as u32).filter(|s| net.hosts[*s as usize] > 0).collect();
        let mut leaf_of = vec![NOWHERE; net.switches()];
        leaves.iter().enumerate().for_each(|(i, s)| leaf_of[*s as usize] = i as u32);
        let mut stages: Vec<Stage> = Vec::new();
        for level in 2..=height {
            let below = stages.last().map_or((&plane_of[..], planes), |s| (&s.plane_of[..], s.planes));
            let stage = Stage::of(net, &levels, level, below.0, below.1)?;
            stages.push(stage);
        }
        let mut shape = Self {
            ways: Vec::new(),
            ways_of: vec![Vec::new(); leaves.len()],
            up: Vec::new(),
            levels,
            leaf_of,
            plane_of,
            leaves,
            stages,
        };
        shape.find_ways(net);
        // A leaf that is cut off has hosts to route for, and no way.
        (!shape.ways_of.iter().any(Vec::is_empty)).then_some(shape)
    }

    /// The level of the tops.
    pub(super) fn height(&self) -> usize {
        self.stages.len() + 1
    }

    /// Whether fewer channels lead up from some level than there are hosts, lost cables apart. O(channels).
    pub(super) fn is_tapered(&self, net: &Net) -> bool {
        let hosts: usize = net.hosts.iter().map(|n| *n as usize).sum();
        let mut up = vec![0usize; self.height()];
        for c in 0..net.channels() {
            let level = self.levels[net.from(c)];
            if self.levels[net.to(c)] > level {
                up[level as usize] += 1;
            }
        }
        up.into_iter().any(|channels| channels * 8 < hosts * 7)
    }

    /// Whether each leaf has as many ways as the others, and each pod's switch as many planes as those of its level: no cable
    /// is lost.
    pub(super) fn is_whole(&self) -> bool {
        let are_alike = |lists: &[Vec<u32>]| lists.windows(2).all(|two| two[0].len() == two[1].len());
        are_alike(&self.ways_of) && self.stages.iter().all(|stage| are_alike(&stage.planes_at))
    }

    /// The lowest level over which shortest routes between two switches turn, if nothing is cut; neither is above
    /// the other.
    pub(super) fn turn(&self, a: usize, b: usize) -> usize {
        // Pods of the stage to a level are joined by that level.
        let is_joined = |stage: &Stage| stage.pod_of[a] != NOWHERE && stage.pod_of[a] == stage.pod_of[b];
        1 + self.stages.iter().take_while(|stage| !is_joined(stage)).count()
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
}

/// Whether it is a tree, perhaps with cables that are lost.
pub(in super::super) fn is_tree(net: &Net) -> bool {
    Shape::of(net).is_some()
}

/// Whether it is one tree, and not several beside each other.
pub(in super::super) fn is_one_tree(net: &Net) -> bool {
    is_tree(net) && net.part.iter().all(|part| *part == net.part[0])
}

/// Whether it is a tree that has lost no cable.
pub(in super::super) fn is_whole_tree(net: &Net) -> bool {
    Shape::of(net).is_some_and(|shape| shape.is_whole())
}
