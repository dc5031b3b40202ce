//! Squares of cables, and the classes of parallel cables that they make.

use super::{MOST_DIMENSIONS, NotAGrid, name};
use crate::model::Fabric;

/// Switches and their neighbours; parallel cables are one.
pub(super) struct Net {
    /// Lower switch first.
    pub cables: Vec<(usize, usize)>,
    /// By switch: its neighbours, ascending, and the index of the cable to each.
    pub near: Vec<Vec<(usize, usize)>>,
}

impl Net {
    /// O(switches + cables × log dimensions).
    pub fn new(fabric: &Fabric) -> Result<Self, NotAGrid> {
        let mut cables = Vec::new();
        let mut near = vec![Vec::new(); fabric.switches().len()];
        for s in fabric.switch_ids() {
            let mut to: Vec<usize> = fabric.out(s).iter().map(|c| fabric.channel(*c).to.index()).collect();
            to.sort_unstable();
            to.dedup();
            if to.len() > MOST_DIMENSIONS {
                let neighbours = to.len();
                return Err(NotAGrid::Neighbours { switch: name(fabric, s.index()), neighbours });
            }
            for other in to.into_iter().filter(|other| *other > s.index()) {
                near[s.index()].push((other, cables.len()));
                near[other].push((s.index(), cables.len()));
                cables.push((s.index(), other));
            }
        }
        near.iter_mut().for_each(|n: &mut Vec<(usize, usize)>| n.sort_unstable());
        Ok(Self { cables, near })
    }

    /// All cycles of four cables: switches around them from the lowest on, and the cable after each.
    fn squares(&self, fabric: &Fabric) -> Result<Vec<[(usize, usize); 4]>, NotAGrid> {
        let mut squares = Vec::new();
        let mut two_steps = Vec::new();
        for v in 0..self.near.len() {
            two_steps.clear();
            for &(a, first) in &self.near[v] {
                two_steps.extend(self.near[a].iter().filter(|(w, _)| *w > v).map(|&(w, c)| (w, a, first, c)));
            }
            two_steps.sort_unstable();
            for ways in two_steps.chunk_by(|x, y| x.0 == y.0) {
                let [(w, a, va, aw), (_, b, vb, bw), more @ ..] = ways else { continue };
                if !more.is_empty() || self.near[v].iter().any(|(n, _)| n == w) {
                    return Err(NotAGrid::Squares(name(fabric, v), name(fabric, *w)));
                }
                if v < *a && v < *b {
                    squares.push([(v, *va), (*a, *aw), (*w, *bw), (*b, *vb)]);
                }
            }
        }
        Ok(squares)
    }
}

/// Parallel cables: opposite sides of squares, and what is opposite to these.
pub(super) struct Classes {
    /// By cable: its class, and whether the class leads from its higher switch to its lower.
    pub of: Vec<(usize, bool)>,
    /// By class: its cables.
    pub cables: Vec<Vec<usize>>,
    /// By class: classes with which it has a square in common, ascending.
    pub across: Vec<Vec<usize>>,
}

impl Classes {
    /// O(squares × log squares).
    pub fn new(fabric: &Fabric, net: &Net) -> Result<Self, NotAGrid> {
        let squares = net.squares(fabric)?;
        let mut union = Union { parent: (0..net.cables.len()).map(|c| (c, false)).collect() };
        for &[(v, va), (a, aw), (w, wb), (b, bv)] in &squares {
            // v to a is as b to w, and a to w as v to b.
            let parallel = union.join((va, v > a), (wb, b > w)) && union.join((aw, a > w), (bv, v > b));
            if !parallel {
                return Err(NotAGrid::Squares(name(fabric, v), name(fabric, w)));
            }
        }
        let mut number = vec![usize::MAX; net.cables.len()];
        let (mut of, mut cables) = (Vec::with_capacity(net.cables.len()), Vec::new());
        for c in 0..net.cables.len() {
            let (root, turned) = union.find(c);
            if number[root] == usize::MAX {
                number[root] = cables.len();
                cables.push(Vec::new());
            }
            cables[number[root]].push(c);
            of.push((number[root], turned));
        }
        let mut across = vec![Vec::new(); cables.len()];
        for &[(v, va), (_, aw), (w, _), _] in &squares {
            let (x, y): (usize, usize) = (of[va].0, of[aw].0);
            if x == y {
                return Err(NotAGrid::Squares(name(fabric, v), name(fabric, w)));
            }
            across[x].push(y);
            across[y].push(x);
        }
        for others in &mut across {
            others.sort_unstable();
            others.dedup();
        }
        Ok(Self { of, cables, across })
    }

    /// Whether some square has cables parallel to both.
    pub fn share_a_square(&self, a: usize, b: usize) -> bool {
        self.across[self.of[a].0].binary_search(&self.of[b].0).is_ok()
    }
}

/// Sets of cables, each with its direction relative to the set's.
struct Union {
    parent: Vec<(usize, bool)>,
}

impl Union {
    fn find(&mut self, cable: usize) -> (usize, bool) {
        let (parent, turned) = self.parent[cable];
        if parent == cable {
            return (cable, false);
        }
        let (root, further) = self.find(parent);
        self.parent[cable] = (root, turned ^ further);
        self.parent[cable]
    }

    /// Makes two cables, each perhaps taken backwards, parallel; `false` if they are the opposite.
    fn join(&mut self, (a, a_turned): (usize, bool), (b, b_turned): (usize, bool)) -> bool {
        let ((a, x), (b, y)) = (self.find(a), self.find(b));
        let turned = a_turned ^ b_turned ^ x ^ y;
        if a != b {
            self.parent[b.max(a)] = (a.min(b), turned);
        }
        a != b || !turned
    }
}
