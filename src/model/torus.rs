//! A direct torus: nodes that forward themselves (Angara, 1 to 4 dimensions).
//!
//! A channel is a pair of the node it leaves and a direction; its index is
//! [`Torus::channel`]. Directions are ordered `+X +Y +Z +K -X -Y -Z -K` whatever the number of
//! dimensions.

mod builder;
mod demand;
mod direction;
mod routes;

use std::fmt;

use super::{Fingerprint, NodeId, NodeName};

pub use builder::{MAX_NODES, MAX_SIZE, Names, TorusBuilder, TorusError};
pub use demand::{TorusDemand, TorusJob, Transit};
pub use direction::{DIRECTIONS, Direction, MAX_DIMS, Step};
pub use routes::{Routes, TorusTables};

/// A position; dimensions a torus does not have are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Coords {
    at: [u8; MAX_DIMS],
    dims: u8,
}

impl Coords {
    /// From as many coordinates as there are dimensions (1 to 4, anything more is dropped).
    pub fn new(at: &[u8]) -> Self {
        let mut all = [0; MAX_DIMS];
        let dims = at.len().min(MAX_DIMS);
        all[..dims].copy_from_slice(&at[..dims]);
        Self { at: all, dims: dims as u8 }
    }
    /// One coordinate per dimension.
    pub fn as_slice(&self) -> &[u8] {
        &self.at[..usize::from(self.dims)]
    }
    /// All four, absent ones 0.
    #[inline]
    pub fn all(&self) -> [u8; MAX_DIMS] {
        self.at
    }
}

impl fmt::Display for Coords {
    /// `3.1.0.1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, c) in self.as_slice().iter().enumerate() {
            write!(f, "{}{c}", if i > 0 { "." } else { "" })?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Coords {
    type Err = TorusError;
    fn from_str(s: &str) -> Result<Self, TorusError> {
        let plain = |p: &str| !p.starts_with('+') && p.len() <= 3;
        let parts: Option<Vec<u8>> = s.split('.').map(|p| p.parse().ok().filter(|_| plain(p))).collect();
        match parts {
            Some(at) if at.len() <= MAX_DIMS => Ok(Self::new(&at)),
            _ => Err(TorusError::NotCoordinates { text: s.to_string() }),
        }
    }
}

/// An immutable, validated direct torus.
#[derive(Debug, Clone)]
pub struct Torus {
    sizes: Vec<u8>,
    ring: Vec<bool>,
    /// Distance in node indices between neighbours of a dimension.
    strides: [u32; MAX_DIMS],
    /// By node: its coordinates, absent ones 0.
    at: Vec<[u8; MAX_DIMS]>,
    healthy: Vec<bool>,
    /// By node: bit `d` is set where the channel in direction `d` exists and works.
    exits: Vec<u8>,
    names: Vec<NodeName>,
    /// Nodes by ascending name.
    by_name: Vec<NodeId>,
    fingerprint: Fingerprint,
}

impl Torus {
    /// Size of each dimension.
    pub fn sizes(&self) -> &[u8] {
        &self.sizes
    }
    /// Number of dimensions.
    pub fn dims(&self) -> usize {
        self.sizes.len()
    }
    /// Size of a dimension, 1 for one the torus does not have.
    #[inline]
    pub fn size(&self, dim: usize) -> u8 {
        self.sizes.get(dim).copied().unwrap_or(1)
    }
    /// Whether the dimension is cabled as a ring. A dimension of size 2 never is: one cable.
    #[inline]
    pub fn is_ring(&self, dim: usize) -> bool {
        self.ring.get(dim).copied().unwrap_or(false)
    }
    /// Number of nodes, failed ones included.
    pub fn len(&self) -> usize {
        self.healthy.len()
    }
    /// Never: a torus has at least two nodes.
    pub fn is_empty(&self) -> bool {
        self.healthy.is_empty()
    }
    /// All nodes, failed ones included, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.healthy.len()).map(NodeId::at)
    }
    /// Nodes that work, ascending.
    pub fn healthy_nodes(&self) -> Vec<NodeId> {
        self.nodes().filter(|n| self.is_healthy(*n)).collect()
    }
    /// Whether the node works.
    #[inline]
    pub fn is_healthy(&self, node: NodeId) -> bool {
        self.healthy[node.index()]
    }
    /// Where a node is.
    #[inline]
    pub fn coords(&self, node: NodeId) -> Coords {
        Coords { at: self.at[node.index()], dims: self.dims() as u8 }
    }
    /// The node at a position, `None` outside the torus.
    pub fn node_at(&self, coords: Coords) -> Option<NodeId> {
        let at = coords.as_slice();
        let inside = at.len() == self.dims() && at.iter().zip(&self.sizes).all(|(c, size)| c < size);
        inside.then(|| NodeId(at.iter().zip(self.strides).map(|(c, s)| u32::from(*c) * s).sum()))
    }
    /// The neighbour a cable leads to, `None` at the end of a line. Says nothing about health.
    pub fn cabled(&self, node: NodeId, direction: Direction) -> Option<NodeId> {
        let dim = direction.dim();
        if dim >= self.dims() {
            return None;
        }
        let (size, c) = (self.sizes[dim], self.at[node.index()][dim]);
        let (edge, over) = if direction.is_negative() { (0, size - 1) } else { (size - 1, 0) };
        if c == edge {
            return self.ring[dim].then(|| self.moved(node, dim, c, over));
        }
        Some(self.moved(node, dim, c, if direction.is_negative() { c - 1 } else { c + 1 }))
    }
    /// The neighbour over a working channel.
    #[inline]
    pub fn neighbour(&self, node: NodeId, direction: Direction) -> Option<NodeId> {
        if self.exits[node.index()] & direction.bit() == 0 { None } else { self.cabled(node, direction) }
    }
    /// Directions of the working channels that leave a node, one bit each.
    #[inline]
    pub fn exits(&self, node: NodeId) -> u8 {
        self.exits[node.index()]
    }
    /// The hops of a route, each by the node it leaves and its direction, as far as there are cables.
    pub fn walk<'a>(
        &'a self,
        source: NodeId,
        steps: &'a [Step],
    ) -> impl Iterator<Item = (NodeId, Direction)> + use<'a> {
        let mut at = Some(source);
        steps.iter().map_while(move |step| {
            let (node, direction) = (at?, step.direction());
            at = self.cabled(node, direction);
            Some((node, direction))
        })
    }
    /// Index of a channel, below [`Torus::channel_slots`]. Not every slot is a channel that exists.
    #[inline]
    pub fn channel(&self, node: NodeId, direction: Direction) -> usize {
        node.index() * DIRECTIONS + direction.index()
    }
    /// Length of an array indexed by channel.
    pub fn channel_slots(&self) -> usize {
        self.len() * DIRECTIONS
    }
    /// Index of the node with one coordinate changed.
    #[inline]
    pub fn moved(&self, node: NodeId, dim: usize, from: u8, to: u8) -> NodeId {
        let stride = self.strides[dim];
        NodeId(node.0 + u32::from(to) * stride - u32::from(from) * stride)
    }
    /// Name of a node.
    pub fn name(&self, node: NodeId) -> &NodeName {
        &self.names[node.index()]
    }
    /// The node of that name. O(log nodes).
    pub fn node_named(&self, name: &NodeName) -> Option<NodeId> {
        let found = self.by_name.binary_search_by(|n| self.names[n.index()].cmp(name));
        found.ok().map(|i| self.by_name[i])
    }
    /// Digest of sizes, shape, failures and names.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
    /// Whether the same nodes and channels work.
    pub fn works_like(&self, other: &Self) -> bool {
        (&self.sizes, &self.healthy, &self.exits) == (&other.sizes, &other.healthy, &other.exits)
    }
    /// The same torus without the channels that do not work in another state of it. Its fingerprint stays.
    #[must_use]
    pub fn without_failures_of(&self, other: &Self) -> Self {
        let mut narrowed = self.clone();
        if self.sizes == other.sizes {
            narrowed.exits.iter_mut().zip(&other.exits).for_each(|(exits, others)| *exits &= others);
        }
        narrowed
    }
    /// The same torus without these channels, each by the node it leaves. Its fingerprint stays.
    #[must_use]
    pub fn without_channels(&self, channels: impl IntoIterator<Item = (NodeId, Direction)>) -> Self {
        let mut narrowed = self.clone();
        for (node, direction) in channels {
            narrowed.exits[node.index()] &= !direction.bit();
        }
        narrowed
    }
    /// The same torus after these nodes and links failed, each link by one of its ends. Its fingerprint stays.
    #[must_use]
    pub fn failing(&self, nodes: &[NodeId], links: &[(NodeId, Direction)]) -> Self {
        let of_nodes = nodes.iter().flat_map(|node| Direction::all().map(|d| (*node, d)));
        let links = of_nodes.chain(links.iter().copied()).flat_map(|(node, d)| {
            let other = self.cabled(node, d).map(|other| (other, d.opposite()));
            other.into_iter().chain([(node, d)])
        });
        let mut failing = self.without_channels(links);
        nodes.iter().for_each(|node| failing.healthy[node.index()] = false);
        failing
    }
    /// `4x2x2x2`
    pub fn size_text(&self) -> String {
        self.sizes.iter().map(u8::to_string).collect::<Vec<_>>().join("x")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(torus: &Torus, text: &str) -> NodeId {
        torus.node_at(text.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_dimension_of_size_two_has_one_cable() {
        let torus = TorusBuilder::new(&[4, 2]).unwrap().build().unwrap();
        let (x, y) = (Direction::positive(0), Direction::positive(1));
        assert_eq!(torus.neighbour(at(&torus, "3.0"), x), Some(at(&torus, "0.0")));
        assert_eq!(torus.neighbour(at(&torus, "0.0"), x.opposite()), Some(at(&torus, "3.0")));
        assert_eq!(torus.neighbour(at(&torus, "1.0"), y), Some(at(&torus, "1.1")));
        assert_eq!(torus.neighbour(at(&torus, "1.1"), y.opposite()), Some(at(&torus, "1.0")));
        assert_eq!(torus.neighbour(at(&torus, "1.1"), y), None);
        assert_eq!(torus.neighbour(at(&torus, "1.0"), y.opposite()), None);
        assert_eq!(torus.nodes().map(|n| torus.exits(n).count_ones()).sum::<u32>(), 8 * 2 + 8);
    }

    #[test]
    fn failures_take_channels_of_both_ends() {
        let mut builder = TorusBuilder::new(&[3, 3]).unwrap();
        builder.fail_node("1.1".parse().unwrap()).unwrap();
        builder.fail_link("0.2".parse().unwrap(), Direction::positive(1)).unwrap();
        let torus = builder.build().unwrap();
        assert_eq!(torus.exits(at(&torus, "1.1")), 0);
        assert_eq!(torus.neighbour(at(&torus, "0.1"), Direction::positive(0)), None);
        assert_eq!(torus.neighbour(at(&torus, "0.2"), Direction::positive(1)), None);
        assert_eq!(torus.neighbour(at(&torus, "0.0"), Direction::positive(1).opposite()), None);
        assert_eq!(torus.healthy_nodes().len(), 8);
    }

    #[test]
    fn bad_tori_are_refused() {
        let refused = |sizes: &[usize]| TorusBuilder::new(sizes).unwrap_err().to_string();
        assert!(refused(&[4, 1]).contains("size 1"));
        assert!(refused(&[0, 4]).contains("size 0"));
        assert!(refused(&[65]).contains("size 65"));
        assert!(refused(&[2; 5]).contains("5 dimensions"));
        assert!(refused(&[]).contains("0 dimensions"));
        assert!(refused(&[64; 4]).contains("nodes"));
        let mut builder = TorusBuilder::new(&[4, 2]).unwrap();
        assert!(builder.fail_node("4.0".parse().unwrap()).is_err());
        let end = builder.fail_link("0.1".parse().unwrap(), Direction::positive(1));
        assert!(end.unwrap_err().to_string().contains("0.1+Y"));
        builder.names(Names::Pattern("n{x}".into()));
        assert!(builder.build().unwrap_err().to_string().contains("\"n0\" is the name of 0.0 and 0.1"));
        assert!("1.x".parse::<Coords>().is_err() && "1.2.3.4.5".parse::<Coords>().is_err());
    }
}
