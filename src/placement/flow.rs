//! The prediction on a switched fabric: loads of channels without routing.
//!
//! 1. **Even flow.** Every pair of terminals of a job sends one route's worth, at each switch split
//!    evenly over all channels that lie on a shortest way (parallel cables count each). This is
//!    what a routing that levels loads approaches.
//! 2. **Whole routes.** Forwarding is by destination: all routes from the terminals of a switch to
//!    one terminal elsewhere leave through one channel, and those from one switch enter a
//!    terminal's switch through one. [`packing`] says what the fullest channel of a switch then
//!    holds at least.

use crate::measure::{Hops, TOGETHER, packing};
use crate::model::Fabric;
use crate::route::graph::Graph;

/// Terminals of one job by switch: (switch, terminals), ascending, terminals at least 1.
pub type Members = Vec<(u32, u32)>;

const FAR: u16 = u16::MAX;

/// Shortest ways of a fabric.
#[derive(Debug)]
pub struct Ways {
    graph: Graph,
    /// Row of `distance` of each switch with terminals; `u32::MAX` for others.
    row: Vec<u32>,
    /// `distance[row * switches + s]`: channels from switch `s` to the row's switch.
    distance: Vec<u16>,
}

impl Ways {
    /// Two bytes per home and switch. As [`Hops::to`] for every so many homes.
    pub fn new(fabric: &Fabric, homes: impl Iterator<Item = u32>) -> Self {
        let graph = Graph::new(fabric);
        let mut row = vec![u32::MAX; graph.switches()];
        let homes: Vec<usize> = homes.map(|home| home as usize).collect();
        homes.iter().enumerate().for_each(|(i, home)| row[*home] = i as u32);
        let short = |hops: &u32| u16::try_from(*hops).unwrap_or(FAR);
        let mut distance = Vec::with_capacity(homes.len() * graph.switches());
        for homes in homes.chunks(TOGETHER) {
            let hops = Hops::to(fabric, homes);
            (0..homes.len()).for_each(|i| distance.extend(hops.of(i).iter().map(short)));
        }
        Self { graph, row, distance }
    }

    /// Distances of all switches to a home.
    pub fn to(&self, home: u32) -> &[u16] {
        let start = self.row[home as usize] as usize * self.graph.switches();
        &self.distance[start..start + self.graph.switches()]
    }

    /// The switch graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Channels that leave a switch.
    pub fn uplinks(&self, switch: u32) -> usize {
        self.graph.out(switch as usize).len()
    }
}

/// Loads that one job adds, and the scratch to find them.
#[derive(Debug, Default)]
pub struct Flow {
    /// Load by channel of the graph; zero for all but `touched`.
    load: Vec<f64>,
    /// Channels with a load, in no particular order.
    touched: Vec<u32>,
    weight: Vec<f64>,
    /// Switches by distance to the destination.
    levels: Vec<Vec<u32>>,
    steps: usize,
}

impl Flow {
    /// For a fabric.
    pub fn new(ways: &Ways) -> Self {
        let (channels, switches) = (ways.graph.channels(), ways.graph.switches());
        Self { load: vec![0.0; channels], weight: vec![0.0; switches], ..Self::default() }
    }

    /// Channel visits since this was made.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Channels with a load and the load.
    pub fn loads(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.touched.iter().map(|c| (*c as usize, self.load[*c as usize]))
    }

    /// Replaces what is here by the even flow of a job, and says whether all its terminals can
    /// reach each other: those that cannot send nothing.
    /// O(switches of the job × channels on shortest ways between them).
    pub fn spread(&mut self, ways: &Ways, members: &[(u32, u32)]) -> bool {
        self.clear();
        members.iter().fold(true, |all, (home, there)| {
            let sources = members.iter().map(|(s, here)| (*s, f64::from(*here) * f64::from(*there)));
            self.towards(ways, *home, sources) && all
        })
    }

    /// Replaces what is here by the even flow of messages between switches, given as (to, from) and sorted.
    /// O(switches that receive × channels on shortest ways to each).
    pub fn send(&mut self, ways: &Ways, messages: &[(u32, u32)]) {
        self.clear();
        for towards in messages.chunk_by(|a, b| a.0 == b.0) {
            self.towards(ways, towards[0].0, towards.iter().map(|(_, from)| (*from, 1.0)));
        }
    }

    fn clear(&mut self) {
        for c in self.touched.drain(..) {
            self.load[c as usize] = 0.0;
        }
    }

    /// Adds the flow from switches to a home, and says whether all reach it. What is at home stays there.
    fn towards(&mut self, ways: &Ways, home: u32, sources: impl Iterator<Item = (u32, f64)>) -> bool {
        let distance = ways.to(home);
        let mut all = true;
        for (s, weight) in sources.filter(|(s, _)| *s != home) {
            let far = distance[s as usize];
            if far == FAR {
                all = false;
            } else {
                self.arrive(s, far, weight);
            }
        }
        for far in (1..self.levels.len()).rev() {
            let mut level = std::mem::take(&mut self.levels[far]);
            for s in level.drain(..) {
                let weight = std::mem::take(&mut self.weight[s as usize]);
                let nearer = |c: &usize| usize::from(distance[ways.graph.to(*c)]) + 1 == far;
                let out = ways.graph.out(s as usize);
                self.steps += 2 * out.len();
                let share = weight / out.clone().filter(nearer).count() as f64;
                for c in out.filter(nearer) {
                    if self.load[c] == 0.0 {
                        self.touched.push(c as u32);
                    }
                    self.load[c] += share;
                    if far > 1 {
                        self.arrive(ways.graph.to(c) as u32, far as u16 - 1, share);
                    }
                }
            }
            self.levels[far] = level;
        }
        all
    }

    fn arrive(&mut self, s: u32, far: u16, weight: f64) {
        let level = usize::from(far);
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Vec::new);
        }
        if self.weight[s as usize] == 0.0 {
            self.levels[level].push(s);
        }
        self.weight[s as usize] += weight;
    }
}

/// Routes that leave and enter one switch and cannot be split, by size.
#[derive(Debug, Clone, Default)]
pub struct Whole {
    egress: Vec<u64>,
    ingress: Vec<u64>,
}

impl Whole {
    /// Adds the routes of a job with `here` terminals at `switch`.
    pub fn add(&mut self, switch: u32, here: u32, members: &[(u32, u32)]) {
        for (_, there) in members.iter().filter(|(s, _)| *s != switch) {
            self.egress.extend(std::iter::repeat_n(u64::from(here), *there as usize));
            self.ingress.extend(std::iter::repeat_n(u64::from(*there), here as usize));
        }
    }

    /// What the fullest of so many channels holds at least, one job more counted.
    pub fn with(&self, switch: u32, here: u32, members: &[(u32, u32)], channels: usize) -> u64 {
        if channels == 0 {
            return 0;
        }
        let mut both = self.clone();
        both.add(switch, here, members);
        packing(both.egress, channels as u64).max(packing(both.ingress, channels as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::SwitchId;

    fn flow(spec: &str, members: &[(u32, u32)]) -> Vec<f64> {
        let fabric = generate(spec).unwrap();
        let ways = Ways::new(&fabric, members.iter().map(|m| m.0));
        let mut flow = Flow::new(&ways);
        flow.spread(&ways, members);
        let mut loads = vec![0.0; ways.graph.channels()];
        flow.loads().for_each(|(c, load)| loads[c] = load);
        loads
    }

    #[test]
    fn a_job_on_two_leaves_loads_all_uplinks_alike() {
        // 2 leaves, 4 spines: 2 × 4 routes each way over four channels.
        let fabric = generate("fattree:2x4,4").unwrap();
        let leaves: Vec<u32> = fabric.host_ids().map(|t| fabric.terminal(t).switch.0).collect();
        let (a, b) = (leaves[0], leaves[7]);
        let loads = flow("fattree:2x4,4", &[(a, 2), (b, 4)]);
        let (sum, used) = (loads.iter().sum::<f64>(), loads.iter().filter(|l| **l > 0.0).count());
        assert!((sum - 32.0).abs() < 1e-9, "{sum}");
        let uplinks = fabric.out(SwitchId(a)).len();
        assert_eq!(used, 4 * uplinks);
        assert!(loads.iter().all(|l| *l == 0.0 || (l - 8.0 / uplinks as f64).abs() < 1e-9));
    }

    #[test]
    fn a_ring_is_crossed_on_both_sides_of_its_half_only() {
        // Ring of 4 with one host each: neighbours one way, the opposite node both ways.
        let loads = flow("torus:4,hosts=1", &[(0, 1), (2, 1)]);
        assert_eq!(loads.iter().filter(|l| **l == 0.5).count(), 8);
        let loads = flow("torus:4,hosts=1", &[(0, 1), (1, 1)]);
        assert_eq!(loads.iter().filter(|l| **l == 1.0).count(), 2);
        assert_eq!(loads.iter().sum::<f64>(), 2.0);
    }

    #[test]
    fn whole_routes_are_not_halved() {
        // The leaf of Figure 5.2: 18 here, 42 elsewhere, 18 uplinks.
        let mut whole = Whole::default();
        let members = [(0, 18), (1, 18), (2, 18), (3, 6)];
        assert_eq!(whole.with(0, 18, &members, 18), 54);
        whole.add(0, 18, &members);
        assert_eq!(whole.with(0, 18, &members, 18), 90);
    }
}
