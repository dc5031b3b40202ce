//! Checks a torus once, at construction.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::{Coords, Direction, MAX_DIMS, Torus};
use crate::model::{Fingerprint, IdError, NodeId, NodeName};

/// Largest size of one dimension.
pub const MAX_SIZE: usize = 64;
/// Largest number of nodes: tables for larger jobs would not fit anyway.
pub const MAX_NODES: usize = 1 << 20;

/// A torus that cannot exist, or words that are not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TorusError {
    /// Wrong number of dimensions.
    #[error("a torus has 1 to 4 dimensions, not {dims} dimensions")]
    Dimensions {
        /// As given.
        dims: usize,
    },
    /// Wrong size.
    #[error("dimension {dim} has size {size}, sizes are 2 to 64")]
    Size {
        /// Number of the dimension, from 1.
        dim: usize,
        /// As given.
        size: usize,
    },
    /// More than [`MAX_NODES`].
    #[error("{nodes} nodes, the most is 1048576")]
    TooManyNodes {
        /// Product of the sizes.
        nodes: usize,
    },
    /// Text that is not coordinates.
    #[error("{text:?} is not coordinates such as 3.1.0.1")]
    NotCoordinates {
        /// As given.
        text: String,
    },
    /// Text that is not a direction.
    #[error("{text:?} is not one of +X +Y +Z +K -X -Y -Z -K")]
    NotDirection {
        /// As given.
        text: String,
    },
    /// Coordinates outside.
    #[error("node {at} is outside the torus {sizes}")]
    Outside {
        /// As given.
        at: String,
        /// Sizes of the torus.
        sizes: String,
    },
    /// A cable that is not there.
    #[error("there is no link {link} to fail")]
    NoLink {
        /// Node and direction.
        link: String,
    },
    /// A name that a node cannot have.
    #[error(transparent)]
    Name(#[from] IdError),
    /// Two nodes of one name.
    #[error("{name:?} is the name of {one} and {other}")]
    DuplicateName {
        /// The name.
        name: String,
        /// Coordinates of the first node.
        one: String,
        /// Coordinates of the second.
        other: String,
    },
    /// A list of names that does not fit.
    #[error("{found} names for {nodes} nodes")]
    NameCount {
        /// Names given.
        found: usize,
        /// Nodes of the torus.
        nodes: usize,
    },
    /// A pattern with something else in braces than x, y, z, k.
    #[error("name pattern {pattern:?}: {{{word}}} is not {{x}}, {{y}}, {{z}} or {{k}}")]
    Pattern {
        /// As given.
        pattern: String,
        /// What stands in the braces.
        word: String,
    },
    /// A job on a failed node.
    #[error("job {job}: node {node} has failed")]
    JobOnFailedNode {
        /// The job.
        job: String,
        /// Name of the node.
        node: String,
    },
}

/// How nodes are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// `n1`, `n2`, … in the order of indices.
    Numbered,
    /// `node{x}{y}{z}{k}`: braces are replaced by coordinates.
    Pattern(String),
    /// One name per node, in the order of indices.
    List(Vec<NodeName>),
}

/// Collects what is known of a torus.
#[derive(Debug, Clone)]
pub struct TorusBuilder {
    torus: Torus,
    names: Names,
    failed_links: BTreeSet<(NodeId, Direction)>,
}

impl TorusBuilder {
    /// A healthy torus: rings where the size is above 2, nodes `n1`..
    ///
    /// # Errors
    /// Dimensions and sizes out of range.
    pub fn new(sizes: &[usize]) -> Result<Self, TorusError> {
        if sizes.is_empty() || sizes.len() > MAX_DIMS {
            return Err(TorusError::Dimensions { dims: sizes.len() });
        }
        if let Some(dim) = sizes.iter().position(|s| !(2..=MAX_SIZE).contains(s)) {
            return Err(TorusError::Size { dim: dim + 1, size: sizes[dim] });
        }
        let nodes: usize = sizes.iter().product();
        if nodes > MAX_NODES {
            return Err(TorusError::TooManyNodes { nodes });
        }
        let mut strides = [0; MAX_DIMS];
        let mut stride = nodes;
        for (dim, size) in sizes.iter().enumerate() {
            stride /= size;
            strides[dim] = stride as u32;
        }
        let at = (0..nodes as u32).map(|node| {
            std::array::from_fn(|dim| {
                let size = sizes.get(dim).copied().unwrap_or(1) as u32;
                (node / strides[dim].max(1) % size) as u8
            })
        });
        let torus = Torus {
            at: at.collect(),
            sizes: sizes.iter().map(|s| *s as u8).collect(),
            ring: sizes.iter().map(|s| *s > 2).collect(),
            strides,
            healthy: vec![true; nodes],
            exits: vec![0; nodes],
            names: Vec::new(),
            by_name: Vec::new(),
            fingerprint: Fingerprint([0; 32]),
        };
        Ok(Self { torus, names: Names::Numbered, failed_links: BTreeSet::new() })
    }
    /// Cables a dimension (from 0) as a line instead of a ring. Before failing links.
    pub fn line(&mut self, dim: usize) -> &mut Self {
        if let Some(ring) = self.torus.ring.get_mut(dim) {
            *ring = false;
        }
        self
    }
    /// Names the nodes.
    pub fn names(&mut self, names: Names) -> &mut Self {
        self.names = names;
        self
    }
    /// Marks a node as failed.
    ///
    /// # Errors
    /// Coordinates outside the torus.
    pub fn fail_node(&mut self, at: Coords) -> Result<(), TorusError> {
        let node = self.inside(at)?;
        self.torus.healthy[node.index()] = false;
        Ok(())
    }
    /// Marks a cable as failed, named by either end.
    ///
    /// # Errors
    /// Coordinates outside the torus; no cable there.
    pub fn fail_link(&mut self, at: Coords, direction: Direction) -> Result<(), TorusError> {
        let node = self.inside(at)?;
        let to = self.torus.cabled(node, direction);
        let to = to.ok_or_else(|| TorusError::NoLink { link: format!("{at}{direction}") })?;
        self.failed_links.insert((node, direction));
        self.failed_links.insert((to, direction.opposite()));
        Ok(())
    }
    /// Every cable once, from its end with the positive direction.
    pub fn links(&self) -> Vec<(Coords, Direction)> {
        let positive = |n: NodeId| (0..self.torus.dims()).map(move |dim| (n, Direction::positive(dim)));
        let all = self.torus.nodes().flat_map(positive);
        all.filter(|(n, d)| self.torus.cabled(*n, *d).is_some())
            .map(|(n, d)| (self.torus.coords(n), d))
            .collect()
    }
    fn inside(&self, at: Coords) -> Result<NodeId, TorusError> {
        let found = self.torus.node_at(at);
        found.ok_or_else(|| TorusError::Outside { at: at.to_string(), sizes: self.torus.size_text() })
    }

    /// Checks names and finishes.
    ///
    /// # Errors
    /// Names that are not valid, do not fit, or occur twice.
    pub fn build(mut self) -> Result<Torus, TorusError> {
        for node in self.torus.nodes() {
            for direction in Direction::all() {
                let to = self.torus.cabled(node, direction);
                let works = |to: NodeId| self.torus.is_healthy(node) && self.torus.is_healthy(to);
                if to.is_some_and(works) && !self.failed_links.contains(&(node, direction)) {
                    self.torus.exits[node.index()] |= direction.bit();
                }
            }
        }
        self.torus.names = self.make_names()?;
        let names = &self.torus.names;
        let mut by_name: Vec<NodeId> = self.torus.nodes().collect();
        by_name.sort_by(|a, b| names[a.index()].cmp(&names[b.index()]));
        if let Some(pair) = by_name.windows(2).find(|w| names[w[0].index()] == names[w[1].index()]) {
            return Err(TorusError::DuplicateName {
                name: names[pair[0].index()].to_string(),
                one: self.torus.coords(pair[0]).to_string(),
                other: self.torus.coords(pair[1]).to_string(),
            });
        }
        self.torus.by_name = by_name;
        self.torus.fingerprint = self.fingerprint();
        Ok(self.torus)
    }

    fn make_names(&mut self) -> Result<Vec<NodeName>, TorusError> {
        let nodes = self.torus.len();
        match std::mem::replace(&mut self.names, Names::Numbered) {
            Names::Numbered => {
                Ok((1..=nodes).map(|i| NodeName::new(format!("n{i}"))).collect::<Result<_, _>>()?)
            }
            Names::Pattern(pattern) => {
                self.torus.nodes().map(|n| fill(&pattern, self.torus.coords(n))).collect()
            }
            Names::List(names) if names.len() == nodes => Ok(names),
            Names::List(names) => Err(TorusError::NameCount { found: names.len(), nodes }),
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        let mut digest = Sha256::new();
        digest.update(b"sarouter torus 1\n");
        digest.update(self.torus.size_text());
        self.torus.ring.iter().for_each(|r| digest.update([u8::from(*r)]));
        for node in self.torus.nodes() {
            digest.update([u8::from(self.torus.is_healthy(node)), self.torus.exits(node)]);
            digest.update(self.torus.name(node).as_str());
            digest.update([0]);
        }
        Fingerprint(digest.finalize().into())
    }
}

fn fill(pattern: &str, at: Coords) -> Result<NodeName, TorusError> {
    let mut name = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        let (word, tail) = after.split_once('}').unwrap_or((after, ""));
        let dim = ["x", "y", "z", "k"].iter().position(|w| *w == word);
        let coordinate = dim.and_then(|d| at.as_slice().get(d));
        let Some(coordinate) = coordinate else {
            return Err(TorusError::Pattern { pattern: pattern.to_string(), word: word.to_string() });
        };
        name += before;
        name += &coordinate.to_string();
        rest = tail;
    }
    Ok(NodeName::new(name + rest)?)
}
