//! What programs exchange: sequences of phases over ranks, one variant per exchange.
//!
//! A rank is a node in the order of the batch system's node list. [`PATTERNS`] names them all;
//! [`Pattern::phases`] says who sends to whom. Measures, engines and the simulator read them here
//! and nowhere else.

mod grid;
mod mix;
mod partners;
mod phases;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use grid::{Grid, balanced_factors};
pub use mix::{Adapters, Mix, MixError, Rails};
pub use partners::Partners;
pub use phases::Phase;
pub use text::PatternError;

/// Seed of everything drawn in patterns: they are part of what a job asks for, so they never vary.
const SEED: u64 = 0x5EED;

/// Phases of [`Pattern::Permutations`].
const PERMUTATIONS: u32 = 16;

/// An exchange among the ranks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Pattern {
    /// All to all: shifts +1, +2, …, n−1.
    Linear,
    /// All to all: shifts +1, −1, +2, −2, ….
    Shift,
    /// All to all: with `rank XOR step` for powers of two, else shifts; each step waits for the one
    /// before.
    Pairwise,
    /// All to all: each rank in an order of its own.
    Random,
    /// One message to the next rank.
    Neighbor,
    /// A ring around all ranks, 2(n−1) steps: all-reduce.
    Ring,
    /// Two binary trees up and down: all-reduce.
    DoubleTree,
    /// All-reduce of short vectors: XOR 1, 2, 4, ….
    Doubling,
    /// All-reduce of long vectors: halves to XOR 1, quarters to XOR 2, …, and back.
    Halving,
    /// All to all of short messages: shifts by 1, 2, 4, ….
    Bruck,
    /// Broadcast from rank 0 along a binomial tree.
    Binomial,
    /// Exchange with the neighbours in a periodic grid.
    Halo(Grid),
    /// All to all inside groups of so many consecutive ranks, rings across the groups.
    Groups(u32),
    /// Random permutations: what any traffic may do.
    Permutations,
    /// All to all between nodes of so many consecutive ranks, each rank with those at its place.
    RailAllToAll(u32),
    /// All-reduce inside nodes of so many consecutive ranks, around a ring of nodes at each place, inside again.
    Hierarchical(u32),
}

/// A row of [`PATTERNS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PatternRow {
    /// One form of it.
    #[serde(skip)]
    pub pattern: Pattern,
    /// How it is written.
    pub form: &'static str,
    /// One sentence: who sends to whom, and where programs do that.
    pub what: &'static str,
    /// Where it is described.
    pub source: &'static str,
}

/// Every exchange, with its source.
pub const PATTERNS: &[PatternRow] = &[
    row(
        Pattern::Linear,
        "linear",
        "all to all in shifts 1, 2, …, n-1",
        "Zahavi, Node ordering for MPI global collectives, JPDC 2012 (shift)",
    ),
    row(
        Pattern::Shift,
        "shift",
        "all to all in shifts +1, -1, +2, -2, …",
        "Domke, Routing on the channel dependency graph, thesis 2017, section 4.3.3.2",
    ),
    row(
        Pattern::Pairwise,
        "alltoall",
        "all to all in pairs: rank XOR step for powers of two, else shifts; each step waits",
        "Thakur, Rabenseifner and Gropp, Collectives in MPICH, IJHPCA 2005 (pairwise exchange)",
    ),
    row(
        Pattern::Random,
        "random",
        "all to all, each rank in an order of its own",
        "Hoefler, Schneider and Lumsdaine, Multistage switches are not crossbars, Cluster 2008",
    ),
    row(
        Pattern::Neighbor,
        "neighbor",
        "one message to the next rank: a step of a ring",
        "Dally and Towles, Principles of interconnection networks, 2004, table 3.1",
    ),
    row(
        Pattern::Ring,
        "ring",
        "all-reduce around a ring of all ranks, 2(n-1) steps",
        "Patarasuk and Yuan, Bandwidth optimal all-reduce, JPDC 2009; NCCL (ring)",
    ),
    row(
        Pattern::DoubleTree,
        "double-tree",
        "all-reduce along two binary trees, each half of the vector up one and down again",
        "Sanders, Speck and Träff, Two-tree algorithms, Parallel Computing 2009; NCCL (tree)",
    ),
    row(
        Pattern::Doubling,
        "doubling",
        "all-reduce of short vectors: whole vectors to rank XOR 1, 2, 4, …",
        "Thakur, Rabenseifner and Gropp, IJHPCA 2005 (recursive doubling)",
    ),
    row(
        Pattern::Halving,
        "halving",
        "all-reduce of long vectors: halves, quarters, … to rank XOR 1, 2, 4, …, and back",
        "Rabenseifner, Optimization of collective reduction operations, ICCS 2004",
    ),
    row(
        Pattern::Bruck,
        "bruck",
        "all to all of short messages: blocks in bundles to rank + 1, 2, 4, …",
        "Bruck et al., Efficient algorithms for all-to-all communications, TPDS 1997",
    ),
    row(
        Pattern::Binomial,
        "binomial",
        "broadcast from rank 0 along a binomial tree",
        "Thakur, Rabenseifner and Gropp, IJHPCA 2005 (broadcast)",
    ),
    row(
        Pattern::Halo(Grid::PLANE),
        "halo2d",
        "neighbours in a periodic plane, its sides as MPI_Dims_create makes them",
        "MPI 4.1, section 8.5 (MPI_Cart_create, MPI_Dims_create)",
    ),
    row(
        Pattern::Halo(Grid::SPACE),
        "halo3d",
        "the same in three dimensions",
        "MPI 4.1, section 8.5 (MPI_Cart_create, MPI_Dims_create)",
    ),
    row(
        Pattern::Halo(Grid::given(4, 4, 2)),
        "halo:AxB[xC]",
        "the same with given sides, the last one running fastest; 0 leaves a side open",
        "MPI 4.1, section 8.5 (MPI_Cart_create)",
    ),
    row(
        Pattern::Groups(8),
        "groups:G",
        "all to all inside groups of G ranks, then rings of the groups' first, second, … ranks",
        "Narayanan et al., Megatron-LM on GPU clusters, SC 2021; Rajbhandari et al., DeepSpeed-MoE, ICML 2022",
    ),
    row(
        Pattern::RailAllToAll(8),
        "rail-alltoall:G",
        "all to all between nodes of G ranks, each rank with those at its place; what is left stays in the node",
        "NCCL 2.12 (PXN): messages go to the adapter on the receiver's rail inside the node, and then out",
    ),
    row(
        Pattern::Hierarchical(8),
        "hierarchical:G",
        "all-reduce: inside nodes of G ranks, around a ring of nodes at each place, inside again",
        "Cho et al., BlueConnect, MLSys 2019; NCCL (rings on rails)",
    ),
    row(
        Pattern::Permutations,
        "permutations",
        "16 random permutations of the ranks: any traffic whose ends have enough room",
        "Duffield et al., A flexible model for resource management (hose), SIGCOMM 1999",
    ),
];

const fn row(pattern: Pattern, form: &'static str, what: &'static str, source: &'static str) -> PatternRow {
    PatternRow { pattern, form, what, source }
}

impl Pattern {
    /// Who sends to whom among `n` ranks, in turn. Empty for fewer than two ranks.
    /// O(phases), times `n` where partners are no shift and no XOR.
    ///
    /// ```
    /// use sarouter_core::model::Pattern;
    /// let phases = Pattern::Linear.phases(4);
    /// let to: Vec<Option<u32>> = phases.iter().map(|phase| phase.partners.to(3)).collect();
    /// assert_eq!(to, [Some(0), Some(1), Some(2)]);
    /// ```
    pub fn phases(self, n: usize) -> Vec<Phase> {
        phases::of(self, n as u32)
    }

    /// The same where nodes have several ranks each, which must divide `n`. On rails every node is a rank of the
    /// pattern, and each of its ranks meets those at its place in other nodes; else ranks of one node meet
    /// without the fabric, which is left out.
    pub fn phases_among(self, n: usize, adapters: Adapters) -> Vec<Phase> {
        let Adapters { per_node, rails } = adapters;
        if per_node < 2 {
            return self.phases(n);
        }
        let ranks = if rails == Rails::Same { n as u32 / per_node } else { n as u32 };
        let among = |partners: Partners| match rails {
            Rails::Same => partners.on_rails(per_node),
            Rails::All => partners.between_nodes(per_node),
        };
        let phases = phases::of(self, ranks).into_iter();
        let phases = phases.map(|phase| Phase { partners: among(phase.partners), ..phase });
        phases.filter(|phase| phase.partners.pairs().next().is_some()).collect()
    }

    /// Whether a rank sends in a phase only when all of the phases before has reached it: exchanges
    /// that pass on what they received, and those that MPI libraries make with blocking calls.
    pub fn waits(self) -> bool {
        match self {
            Self::Linear | Self::Shift | Self::Random | Self::Neighbor => false,
            Self::Halo(_) | Self::Permutations => false,
            Self::Pairwise | Self::Ring | Self::DoubleTree | Self::Doubling | Self::Halving => true,
            Self::Bruck | Self::Binomial | Self::Groups(_) | Self::Hierarchical(_) => true,
            Self::RailAllToAll(_) => false,
        }
    }
}
