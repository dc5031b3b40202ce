//! Tori and meshes recognised from their cables alone: names, order and ports of switches do not
//! matter, parallel cables count once, and some cables and switches may be missing.
//!
//! In a torus or mesh every cycle of four cables is a square of two dimensions. (A ring of four is one too: it is the
//! same graph as two dimensions of two switches.) So opposite sides of a square are parallel, and cables fall into
//! classes of parallel ones. Missing cables split classes but never join two. The cables of one switch fix the
//! dimension and direction of some classes, and the others follow: two classes that share a square are of different
//! dimensions, and no two cables leave a switch in one direction. Where that leaves a choice (the place of a switch
//! that has kept one cable, say) one is tried after the other, and held against everything else: the coordinates must
//! explain every cable, or there are none.

mod classes;
mod labels;

use std::collections::BTreeMap;

use self::classes::{Classes, Net};
use self::labels::Labels;
use crate::model::{Fabric, Shape, SwitchId};

/// Most dimensions of a torus or mesh, rings of four counted as two.
const MOST_DIMENSIONS: usize = 12;

/// So many switches are asked which of their neighbours are of one dimension. Of a switch that has lost a cable, or
/// beside which one is lost, it cannot be told.
const SEEDS: usize = 16;

/// Why a fabric is no torus or mesh of up to six dimensions. Switches by description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAGrid {
    /// A tree of two leaves is a mesh too, but nobody means one.
    #[error("{without} of {switches} switches have no hosts, more than a quarter")]
    Hosts {
        /// Switches without hosts.
        without: usize,
        /// All switches.
        switches: usize,
    },
    /// Six dimensions give a switch twelve neighbours.
    #[error("{switch} is cabled to {neighbours} switches, more than 12")]
    Neighbours {
        /// The switch.
        switch: String,
        /// How many.
        neighbours: usize,
    },
    /// Cables that no torus or mesh has: two switches with three neighbours in common, a diagonal, a
    /// strip that comes back turned around.
    #[error("the cables between {0} and {1} and their neighbours make no squares")]
    Squares(String, String),
    /// The switch with the most neighbours does not tell dimensions apart.
    #[error("which neighbours of {0} are of one dimension cannot be told")]
    Dimensions(String),
    /// A cable that leads nowhere along a dimension.
    #[error("the cable between {0} and {1} fits no dimension")]
    Cable(String, String),
    /// Two places for one switch, two switches on one place, or no place at all.
    #[error("{0} has no place of its own")]
    Place(String),
    /// A graph that is nearly empty can be drawn on any grid.
    #[error("more than half of {what} would be missing from {sizes}")]
    Missing {
        /// Switches or cables.
        what: &'static str,
        /// Of which grid.
        sizes: String,
    },
}

/// Recognises a torus or mesh: sizes, which dimensions are rings, and coordinates for each switch, by
/// the cables alone. For rings of four, which two embeddings explain, ports decide. Rings that have
/// lost all their cables between two neighbouring layers are none. O(switches × dimensions² + cables),
/// times the choices where cables are missing.
///
/// # Errors
/// What is in the way. The answer is the same for the same fabric.
pub fn recognise(fabric: &Fabric) -> Result<Shape, NotAGrid> {
    let switches = fabric.switches().len();
    let without = fabric.switch_ids().filter(|s| !fabric.has_hosts(*s)).count();
    if without * 4 > switches {
        return Err(NotAGrid::Hosts { without, switches });
    }
    let net = Net::new(fabric)?;
    let classes = Classes::new(fabric, &net)?;
    // Where more has to be tried, it is another kind of fabric; and each waits on the stack for the next.
    let mut tries = (64 + net.cables.len() / 16).min(1000);
    let mut failed = None;
    let most = net.near.iter().map(Vec::len).max().unwrap_or(0);
    for seed in labels::seeds(&net, &classes).into_iter().take(SEEDS) {
        match Labels::new((fabric, &net, &classes), seed).and_then(|labels| labels.solve(&mut tries)) {
            // From a rim a wrong grid may be found too, but none that all switches fill.
            Ok(shape) if net.near[seed].len() == most || is_full(&shape, switches) => {
                return Ok(merge_rings_of_four(fabric, shape));
            }
            Ok(_) => {}
            Err(why) => drop(failed.get_or_insert(why)),
        }
    }
    Err(failed.unwrap_or_else(|| NotAGrid::Dimensions(name(fabric, 0))))
}

/// The fabric with its shape, or the reason why it is irregular. See [`recognise`].
pub fn shaped(fabric: Fabric) -> Fabric {
    let shape = recognise(&fabric).unwrap_or_else(|why| Shape::Irregular(why.to_string()));
    fabric.shaped(shape)
}

fn is_full(shape: &Shape, switches: usize) -> bool {
    matches!(shape, Shape::Grid { sizes, .. } if sizes.iter().map(|n| usize::from(*n)).product::<usize>() == switches)
}

fn name(fabric: &Fabric, s: usize) -> String {
    let switch = fabric.switch(SwitchId::at(s));
    if switch.description.is_empty() { switch.guid.to_string() } else { switch.description.clone() }
}

/// Places of switches as far as labelled cables lead to them.
struct Layout {
    /// By switch; empty: not reached. Within `0..ring` where there is one.
    at: Vec<Vec<i32>>,
    /// By dimension: length of the ring; 0: none is known.
    ring: Vec<i32>,
    low: Vec<i32>,
    high: Vec<i32>,
    /// Who is where; of two at one place, the later.
    taken: BTreeMap<Vec<i32>, usize>,
}

impl Layout {
    /// Places switches one step after the other from the seed. A cable that closes to a place other than
    /// expected goes around a ring, of whose length the distance is a multiple. O(cables × dimensions).
    fn new(net: &Net, labels: &Labels<'_>) -> Self {
        let dimensions = labels.dimensions();
        let mut at: Vec<Vec<i32>> = vec![Vec::new(); net.near.len()];
        let mut ring = vec![0; dimensions];
        at[labels.seed()] = vec![0; dimensions];
        let mut reached = vec![labels.seed()];
        let mut next = 0;
        while let Some(&s) = reached.get(next) {
            next += 1;
            for &(to, cable) in &net.near[s] {
                let Some((dimension, up)) = labels.step(cable, s > to) else { continue };
                let mut expected = at[s].clone();
                expected[dimension] += if up { 1 } else { -1 };
                if at[to].is_empty() {
                    at[to] = expected;
                    reached.push(to);
                    continue;
                }
                for (i, ring) in ring.iter_mut().enumerate() {
                    *ring = gcd(*ring, (expected[i] - at[to][i]).abs());
                }
            }
        }
        for place in at.iter_mut().filter(|p| !p.is_empty()) {
            for (x, ring) in place.iter_mut().zip(&ring).filter(|(_, ring)| **ring > 0) {
                *x = x.rem_euclid(*ring);
            }
        }
        let placed = || at.iter().filter(|p| !p.is_empty());
        let low = (0..dimensions).map(|i| placed().map(|p| p[i]).min().unwrap_or(0)).collect();
        let high = (0..dimensions).map(|i| placed().map(|p| p[i]).max().unwrap_or(0)).collect();
        let taken =
            at.iter().enumerate().filter(|(_, p)| !p.is_empty()).map(|(s, p)| (p.clone(), s)).collect();
        Self { at, ring, low, high, taken }
    }

    fn size(&self, dimension: usize) -> i32 {
        match self.ring[dimension] {
            0 => self.high[dimension] - self.low[dimension] + 1,
            ring => ring,
        }
    }

    /// Dimension and direction of the step from one placed switch to another. The two ends of a line
    /// that is not yet known to be a ring are a step apart.
    fn step(&self, from: usize, to: usize) -> Option<(usize, bool)> {
        let (from, to) = (&self.at[from], &self.at[to]);
        let mut differing = (0..from.len()).filter(|i| from[*i] != to[*i]);
        let dimension = differing.next().filter(|_| differing.next().is_none())?;
        let (difference, size) = (to[dimension] - from[dimension], self.size(dimension));
        if difference == 1 || (size > 2 && difference == 1 - size) {
            Some((dimension, true))
        } else if difference == -1 || (size > 2 && difference == size - 1) {
            Some((dimension, false))
        } else {
            None
        }
    }

    /// The place one step from a switch.
    fn beside(&self, from: usize, dimension: usize, up: bool) -> Vec<i32> {
        let mut place = self.at[from].clone();
        place[dimension] += if up { 1 } else { -1 };
        if self.ring[dimension] > 0 {
            place[dimension] = place[dimension].rem_euclid(self.ring[dimension]);
        }
        place
    }

    /// Whether the place one step from a switch is free and within what is known of the grid.
    fn is_free(&self, from: usize, dimension: usize, up: bool) -> bool {
        let place = self.beside(from, dimension, up);
        (self.low[dimension]..=self.high[dimension]).contains(&place[dimension])
            && !self.taken.contains_key(&place)
    }

    /// The grid, if it explains every switch and every cable and most of it is there.
    fn shape(mut self, fabric: &Fabric, net: &Net) -> Result<Shape, NotAGrid> {
        let dimensions = self.ring.len();
        // Switches without any cable may be wherever there is room.
        let lone: Vec<usize> = (0..self.at.len()).filter(|s| net.near[*s].is_empty()).collect();
        let mut place = self.low.clone();
        for s in lone {
            while self.taken.contains_key(&place) {
                let Some(i) = (0..dimensions).rev().find(|i| place[*i] < self.high[*i]) else {
                    return Err(NotAGrid::Place(name(fabric, s)));
                };
                place[i] += 1;
                place[i + 1..].copy_from_slice(&self.low[i + 1..]);
            }
            self.taken.insert(place.clone(), s);
            self.at[s].clone_from(&place);
        }
        for (s, place) in self.at.iter().enumerate() {
            if self.taken.get(place) != Some(&s) {
                return Err(NotAGrid::Place(name(fabric, s)));
            }
        }
        for &(a, b) in &net.cables {
            if self.step(a, b).is_none() {
                return Err(NotAGrid::Cable(name(fabric, a), name(fabric, b)));
            }
        }
        let sizes: Vec<i32> = (0..dimensions).map(|i| self.size(i)).collect();
        self.most_is_there(&sizes, net.cables.len())?;
        let mut coords = Vec::with_capacity(self.at.len() * dimensions);
        for place in &self.at {
            let low = |i: usize| if self.ring[i] > 0 { 0 } else { self.low[i] };
            coords.extend((0..dimensions).map(|i| (place[i] - low(i)) as u16));
        }
        let closes = |i: usize| {
            let ends = |a: i32, b: i32| (a - b).abs() == sizes[i] - 1;
            net.cables.iter().any(|&(a, b)| ends(self.at[a][i], self.at[b][i]))
        };
        let wrap = (0..dimensions).map(|i| sizes[i] > 2 && (self.ring[i] > 0 || closes(i))).collect();
        Ok(Shape::Grid { sizes: sizes.iter().map(|n| *n as u16).collect(), wrap, coords })
    }

    fn most_is_there(&self, sizes: &[i32], cables: usize) -> Result<(), NotAGrid> {
        let places: f64 = sizes.iter().map(|n| f64::from(*n)).product();
        let missing = |what| {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            Err(NotAGrid::Missing { what, sizes: sizes.join("x") })
        };
        if (self.at.len() as f64) < places / 2.0 {
            return missing("the switches");
        }
        let has_neighbour_up = |s: usize, i: &usize| self.taken.contains_key(&self.beside(s, *i, true));
        let neighbours_up = |s: usize| (0..sizes.len()).filter(|i| has_neighbour_up(s, i)).count();
        let wanted: usize = (0..self.at.len()).map(neighbours_up).sum();
        if 2 * cables < wanted { missing("the cables") } else { Ok(()) }
    }
}

/// Makes one ring of four out of two dimensions of two whose cables use the same two ports: in a
/// ring one leads up and one down, while a dimension of two needs one port only.
fn merge_rings_of_four(fabric: &Fabric, shape: Shape) -> Shape {
    let Shape::Grid { mut sizes, mut wrap, coords } = shape else { return shape };
    let mut rows: Vec<Vec<u16>> = coords.chunks(sizes.len()).map(<[u16]>::to_vec).collect();
    let mut ports: Vec<Option<[u8; 2]>> =
        (0..sizes.len()).map(|i| if sizes[i] == 2 { two_ports(fabric, &rows, i) } else { None }).collect();
    let mut i = 0;
    while i < sizes.len() {
        let partner = (i + 1..sizes.len()).find(|j| ports[i].is_some() && ports[*j] == ports[i]);
        if let Some(j) = partner {
            for row in &mut rows {
                // Around the ring: (0,0), (0,1), (1,1), (1,0).
                row[i] = 2 * row[i] + (row[i] ^ row[j]);
                row.remove(j);
            }
            (sizes[i], wrap[i], ports[i]) = (4, true, None);
            sizes.remove(j);
            wrap.remove(j);
            ports.remove(j);
        }
        i += 1;
    }
    Shape::Grid { sizes, wrap, coords: rows.concat() }
}

/// The two ports that most cables of a dimension use, ascending; `None` if it is one.
fn two_ports(fabric: &Fabric, rows: &[Vec<u16>], dimension: usize) -> Option<[u8; 2]> {
    let mut count = [0usize; 256];
    for c in fabric.channels() {
        if rows[c.from.index()][dimension] != rows[c.to.index()][dimension] {
            count[usize::from(c.from_port.get())] += 1;
        }
    }
    let mut order: Vec<usize> = (0..256).collect();
    order.sort_by_key(|p| std::cmp::Reverse(count[*p]));
    let mut two = [order[0] as u8, order[1] as u8];
    two.sort_unstable();
    (5 * count[order[1]] >= count.iter().sum()).then_some(two)
}

fn gcd(a: i32, b: i32) -> i32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
