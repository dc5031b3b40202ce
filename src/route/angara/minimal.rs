//! The legal minimal routes of a pair, enumerated instead of searched.
//!
//! The router obeys direction order, so a route is fixed by its non-standard steps and a signed
//! hop count per dimension: at most `(1 + n)² 3ⁿ` shapes, each checked in O(n) with the number of
//! consecutive usable channels from every node in every direction. These are exactly the shortest
//! paths of the routing graph ([`super::graph`]); equal physical paths are listed once, in their
//! standard form. Almost every pair has a route of the torus distance, found among
//! at most `2ⁿ` shapes; the others are tried only where failures block all of those.

use super::augment::Turns;
use super::lanes::{Lanes, Span};
use super::shape::{DIRS, Dir, MAX_HOPS, Shape};
use crate::model::torus::MAX_DIMS;
use crate::model::{Direction, NodeId, Step, Torus};

/// The legal routes of one job.
pub struct Legal<'a> {
    torus: &'a Torus,
    turns: &'a Turns,
    /// Layout of numbers per channel that [`Legal::spans`] speaks of.
    pub lanes: Lanes,
    dims: usize,
    coords: Vec<[u8; MAX_DIMS]>,
    sizes: [u8; MAX_DIMS],
    ring: [bool; MAX_DIMS],
    /// By channel: usable channels in a row from there in its direction, at most once round.
    run: Vec<u8>,
    /// Every channel that is cabled is usable: no check is needed.
    whole: bool,
    /// By source: bit `dim` is set where a first step in `+dim` may be followed against the order.
    early: Vec<u8>,
    /// By destination: bit `dim` is set where a last step in `-dim` may end a route against it.
    late: Vec<u8>,
}

impl<'a> Legal<'a> {
    /// `usable[node]` has bit `d` set where the job may use the channel in direction `d`; `turns`
    /// must have been made for these channels or more. O(channels × size).
    pub fn new(torus: &'a Torus, usable: &[u8], turns: &'a Turns) -> Self {
        let mut sizes = [1; MAX_DIMS];
        let mut ring = [false; MAX_DIMS];
        for dim in 0..torus.dims() {
            (sizes[dim], ring[dim]) = (torus.size(dim), torus.is_ring(dim));
        }
        let coords = torus.nodes().map(|n| torus.coords(n).all()).collect();
        let (early, late) = ends_against_order(torus, turns);
        let (dims, run) = (torus.dims(), Vec::new());
        let lanes = Lanes::new(torus);
        let mut legal =
            Self { torus, turns, lanes, dims, coords, sizes, ring, run, whole: true, early, late };
        legal.run = legal.runs(usable);
        legal
    }

    fn runs(&mut self, usable: &[u8]) -> Vec<u8> {
        let mut run = vec![0; self.torus.channel_slots()];
        for direction in Direction::all().filter(|d| d.dim() < self.dims) {
            for node in self.torus.nodes() {
                let cabled = self.torus.cabled(node, direction);
                if usable[node.index()] & direction.bit() == 0 {
                    self.whole &= cabled.is_none();
                    continue;
                }
                // Continues the run of the node ahead if that is known, else walks.
                let ahead = cabled.map_or(0, |to| run[self.torus.channel(to, direction)]);
                let limit = self.sizes[direction.dim()];
                run[self.torus.channel(node, direction)] =
                    if ahead > 0 { limit.min(ahead + 1) } else { self.walk(node, direction, usable, limit) };
            }
        }
        run
    }

    fn walk(&self, node: NodeId, direction: Direction, usable: &[u8], limit: u8) -> u8 {
        let mut at = node;
        for hops in 0..limit {
            match self.torus.cabled(at, direction) {
                Some(to) if usable[at.index()] & direction.bit() != 0 => at = to,
                _ => return hops,
            }
        }
        limit
    }

    /// Calls `visit` with every straight run of a route, in order.
    #[inline]
    pub fn spans(&self, source: NodeId, shape: &Shape, mut visit: impl FnMut(Span)) {
        let mut at = source.0;
        let mut coords = self.coords[source.index()];
        let mut run = |direction: Direction, hops: u8| {
            let dim = direction.dim();
            visit(self.lanes.span(at, coords[dim], direction, hops));
            (at, coords[dim]) = self.ahead_of(at, coords[dim], direction, hops);
        };
        if let Some(first) = shape.first {
            run(first.get(), 1);
        }
        for (dim, hops) in shape.hops.iter().enumerate().filter(|(_, h)| **h > 0) {
            run(Direction::positive(dim), hops.unsigned_abs());
        }
        for (dim, hops) in shape.hops.iter().enumerate().filter(|(_, h)| **h < 0) {
            run(Direction::negative(dim), hops.unsigned_abs());
        }
        if let Some(last) = shape.last {
            run(last.get(), 1);
        }
    }

    /// Calls `visit` with every channel of a route, in order.
    pub fn channels(&self, source: NodeId, shape: &Shape, mut visit: impl FnMut(usize)) {
        let (mut at, mut steps) = (source.0, [Step::plain(Direction::at(0)); MAX_HOPS]);
        for step in shape.steps(&mut steps) {
            let direction = step.direction();
            visit(self.torus.channel(NodeId(at), direction));
            (at, _) = self.ahead_of(at, self.coords[at as usize][direction.dim()], direction, 1);
        }
    }

    /// Node and coordinate after some hops, at most once round, from a coordinate.
    #[inline]
    fn ahead_of(&self, at: u32, c: u8, direction: Direction, hops: u8) -> (u32, u8) {
        let dim = direction.dim();
        let forth = if direction.is_negative() { self.sizes[dim] - hops } else { hops };
        let to = c + forth;
        let to = if to >= self.sizes[dim] { to - self.sizes[dim] } else { to };
        (self.torus.moved(NodeId(at), dim, c, to).0, to)
    }

    /// All distinct minimal routes from one node to another, in a fixed order; `found` is emptied
    /// first. Nothing if there is no route, or the nodes are the same.
    pub fn minimal(&self, source: NodeId, destination: NodeId, found: &mut Vec<Shape>) {
        found.clear();
        if source == destination {
            return;
        }
        self.shortest(source, destination, found);
        if found.is_empty() {
            self.detours(source, destination, found);
        }
    }

    /// Routes as long as the healthy torus would allow.
    fn shortest(&self, source: NodeId, destination: NodeId, found: &mut Vec<Shape>) {
        let (from, to) = (&self.coords[source.index()], &self.coords[destination.index()]);
        let mut shape = Shape::default();
        let mut halves = [0usize; MAX_DIMS];
        let mut free = 0;
        for dim in 0..self.dims {
            let (ahead, size) = (self.ahead(dim, from[dim], to[dim]), self.sizes[dim]);
            if !self.ring[dim] {
                shape.hops[dim] = to[dim] as i8 - from[dim] as i8;
            } else if 2 * ahead > size {
                shape.hops[dim] = ahead as i8 - size as i8;
            } else {
                shape.hops[dim] = ahead as i8;
                if 2 * ahead == size {
                    halves[free] = dim;
                    free += 1;
                }
            }
        }
        for signs in 0..1usize << free {
            let mut shape = shape;
            for (bit, dim) in halves[..free].iter().enumerate() {
                if signs >> bit & 1 == 1 {
                    shape.hops[*dim] = -shape.hops[*dim];
                }
            }
            if self.whole || self.is_open(source, &shape.hops) {
                found.push(shape);
            }
            let (early, late) = (self.early[source.index()], self.late[destination.index()]);
            if early | late != 0 {
                self.reordered([source, destination], &shape, early, late, found);
            }
        }
    }

    /// Routes with the hops of `shape` of which the first (in a dimension of `early`) or last (of
    /// `late`) is taken out of order.
    fn reordered(&self, ends: [NodeId; 2], shape: &Shape, early: u8, late: u8, found: &mut Vec<Shape>) {
        let (hops, [source, destination]) = (&shape.hops, ends);
        // The turns at the ends are looked at first: most routes fail there.
        let early = |dim: usize| {
            let lower = hops[..dim].iter().position(|lower| *lower > 0);
            let turn = || self.turns.after(self.torus.channel(source, Direction::positive(dim)));
            early >> dim & 1 == 1 && hops[dim] > 0 && lower.is_some_and(|to| turn() >> to & 1 == 1)
        };
        let late = |dim: usize| {
            let higher = hops[dim + 1..self.dims].iter().rposition(|higher| *higher < 0);
            let turn = |from: usize| {
                let (c, to) = (self.coords[destination.index()], Direction::negative(dim));
                let (at, _) = self.ahead_of(destination.0, c[dim], Direction::positive(dim), 1);
                let (at, _) = self.ahead_of(at, c[from], Direction::positive(from), 1);
                self.turns.after(self.torus.channel(NodeId(at), Direction::negative(from))) & to.bit() != 0
            };
            late >> dim & 1 == 1 && hops[dim] < 0 && higher.is_some_and(|h| turn(dim + 1 + h))
        };
        for first in 0..=self.dims {
            let Some(first) = pick(first, self.dims, early) else { continue };
            for last in 0..=self.dims {
                let Some(last) = pick(last, self.dims, late) else { continue };
                if first.is_none() && last.is_none() {
                    continue;
                }
                let mut tried = *shape;
                if let Some(dim) = first {
                    tried.hops[dim] -= 1;
                    tried.first = Some(DIRS[dim]);
                }
                if let Some(dim) = last {
                    tried.hops[dim] += 1;
                    tried.last = Some(DIRS[dim + MAX_DIMS]);
                }
                if self.is_legal(source, &tried) {
                    found.push(tried);
                }
            }
        }
    }

    /// The shortest routes that are longer than the torus distance: the long way round a ring, or
    /// a first or last step aside.
    fn detours(&self, source: NodeId, destination: NodeId, found: &mut Vec<Shape>) {
        let (from, to) = (self.coords[source.index()], self.coords[destination.index()]);
        let mut best = usize::MAX;
        for first in std::iter::once(None).chain((0..self.dims).map(|dim| Some(DIRS[dim]))) {
            let Some(start) = self.after(from, source, first) else { continue };
            for last in std::iter::once(None).chain((0..self.dims).map(|dim| Some(DIRS[dim + MAX_DIMS]))) {
                let Some(end) = self.before(to, last) else { continue };
                let aside = first.is_some() || last.is_some();
                let ways = std::array::from_fn(|dim| self.ways(dim, start[dim], end[dim], aside));
                for hops in combinations(&ways) {
                    let shape = Shape { hops, first, last };
                    if shape.len() <= best && !self.is_standard(&shape) && self.is_legal(source, &shape) {
                        if shape.len() < best {
                            (best, _) = (shape.len(), found.clear());
                        }
                        found.push(shape);
                    }
                }
            }
        }
        self.drop_equal_paths(source, found);
    }

    /// Hops that lead from one coordinate to another, and how many such ways there are. A whole
    /// circle leads nowhere, but the turn to or from it may be free of deadlock where a direct
    /// turn to or from a step `aside` is not.
    fn ways(&self, dim: usize, start: u8, end: u8, aside: bool) -> ([i8; 3], usize) {
        let (ahead, size) = (self.ahead(dim, start, end) as i8, self.sizes[dim] as i8);
        match (self.ring[dim], start == end) {
            (true, true) if aside => ([0, size, -size], 3),
            (true, false) => ([ahead, ahead - size, 0], 2),
            _ => ([end as i8 - start as i8, 0, 0], 1),
        }
    }

    fn drop_equal_paths(&self, source: NodeId, found: &mut Vec<Shape>) {
        let path = |shape: &Shape| {
            let mut channels = Vec::with_capacity(shape.len());
            self.channels(source, shape, |c| channels.push(c));
            channels
        };
        let mut paths: Vec<Vec<usize>> = Vec::new();
        found.retain(|shape| {
            let new = path(shape);
            let fresh = !paths.contains(&new);
            paths.push(new);
            fresh
        });
    }

    /// Whether a first or last step of the shape could as well be an ordered hop, or has no
    /// ordered hop beside it: such shapes repeat others.
    fn is_standard(&self, shape: &Shape) -> bool {
        let ends = || shape.segments().fold((None, None), |(a, _), (d, _)| (a.or(Some(d)), Some(d)));
        let repeats = |step: Option<Dir>, beside: Option<Direction>, after: bool| {
            let Some(step) = step.map(Dir::get) else { return false };
            let Some(beside) = beside else { return true };
            let ordered = if after { beside <= step } else { step <= beside };
            let hops = shape.hops[step.dim()];
            ordered && if step.is_negative() { hops <= 0 } else { hops >= 0 }
        };
        if shape.first.is_none() && shape.last.is_none() {
            return false;
        }
        let (head, tail) = ends();
        repeats(shape.first, head, false) || repeats(shape.last, tail, true)
    }

    /// Hops in the positive direction of a ring.
    #[inline]
    fn ahead(&self, dim: usize, from: u8, to: u8) -> u8 {
        if to >= from { to - from } else { to + self.sizes[dim] - from }
    }

    /// Coordinates after a first step, if it can be made.
    fn after(&self, mut at: [u8; MAX_DIMS], node: NodeId, step: Option<Dir>) -> Option<[u8; MAX_DIMS]> {
        if let Some(direction) = step.map(Dir::get) {
            if self.run[self.torus.channel(node, direction)] == 0 {
                return None;
            }
            at[direction.dim()] = (at[direction.dim()] + 1) % self.sizes[direction.dim()];
        }
        Some(at)
    }

    /// Coordinates from which a negative last step leads to `at`, if there is a cable.
    fn before(&self, mut at: [u8; MAX_DIMS], step: Option<Dir>) -> Option<[u8; MAX_DIMS]> {
        if let Some(dim) = step.map(|s| s.get().dim()) {
            if !self.ring[dim] && at[dim] + 1 == self.sizes[dim] {
                return None;
            }
            at[dim] = (at[dim] + 1) % self.sizes[dim];
        }
        Some(at)
    }

    /// Whether every channel of a route in direction order is usable; its turns always are.
    #[inline]
    fn is_open(&self, source: NodeId, hops: &[i8; MAX_DIMS]) -> bool {
        let (mut at, from) = (source.0, &self.coords[source.index()]);
        let mut clear = |direction: Direction, hops: u8| {
            let open = self.run[self.torus.channel(NodeId(at), direction)] >= hops;
            (at, _) = self.ahead_of(at, from[direction.dim()], direction, hops);
            open
        };
        let up = |dim: &usize| hops[*dim] > 0;
        let down = |dim: &usize| hops[*dim] < 0;
        (0..self.dims).filter(up).all(|dim| clear(Direction::positive(dim), hops[dim].unsigned_abs()))
            && (0..self.dims)
                .filter(down)
                .all(|dim| clear(Direction::negative(dim), hops[dim].unsigned_abs()))
    }

    /// Whether every channel is usable and every turn free of deadlock.
    fn is_legal(&self, source: NodeId, shape: &Shape) -> bool {
        let mut at = source.0;
        let mut coords = self.coords[source.index()];
        let mut before: Option<(usize, Direction)> = None;
        let first = shape.first.map(|d| (d.get(), 1));
        for (direction, hops) in
            first.into_iter().chain(shape.segments()).chain(shape.last.map(|d| (d.get(), 1)))
        {
            if self.run[self.torus.channel(NodeId(at), direction)] < hops {
                return false;
            }
            if before.is_some_and(|(channel, from)| !self.turns.allows(channel, from, direction)) {
                return false;
            }
            let c = coords[direction.dim()];
            let (turned_at, _) = self.ahead_of(at, c, direction, hops - 1);
            before = Some((self.torus.channel(NodeId(turned_at), direction), direction));
            (at, coords[direction.dim()]) = self.ahead_of(at, c, direction, hops);
        }
        true
    }
}

/// Where routes may start or end against the order: by node, a bit per dimension. O(channels).
fn ends_against_order(torus: &Torus, turns: &Turns) -> (Vec<u8>, Vec<u8>) {
    let (mut early, mut late) = (vec![0; torus.len()], vec![0; torus.len()]);
    for node in torus.nodes().filter(|_| turns.any()) {
        for from in Direction::all() {
            let after = turns.after(torus.channel(node, from));
            let Some(head) = torus.cabled(node, from).filter(|_| after != 0) else { continue };
            if !from.is_negative() {
                early[node.index()] |= 1 << from.dim();
                continue;
            }
            for to in Direction::all().filter(|to| after & to.bit() != 0) {
                if let Some(end) = torus.cabled(head, to) {
                    late[end.index()] |= 1 << to.dim();
                }
            }
        }
    }
    (early, late)
}

/// Every choice of one way per dimension.
fn combinations(ways: &[([i8; 3], usize); MAX_DIMS]) -> impl Iterator<Item = [i8; MAX_DIMS]> + '_ {
    (0..ways.iter().map(|(_, count)| count).product()).map(|mut number| {
        ways.map(|(hops, count)| {
            let way = hops[number % count];
            number /= count;
            way
        })
    })
}

/// Place 0 stands for "none", place `i` for dimension `i - 1` if it qualifies.
fn pick(place: usize, dims: usize, qualifies: impl Fn(usize) -> bool) -> Option<Option<usize>> {
    match place.checked_sub(1) {
        None => Some(None),
        Some(dim) => (dim < dims && qualifies(dim)).then_some(Some(dim)),
    }
}
