//! What is to be replayed, and in which parts.

use std::sync::Arc;

use crate::model::{Fabric, LayerBudget, NodeMap, Pattern, Promise, Storage, Tables};
use crate::pass::plan::Policy;
use crate::pass::worth::Price;

/// What is to be replayed.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The fabric on which jobs are replayed.
    pub fabric: Arc<Fabric>,
    /// Which hosts are whose adapters.
    pub nodes: Arc<NodeMap>,
    /// Engines as named: `NAME`; `NAME:static` for one that is asked once, for everybody; `NAME:gain=SECONDS`
    /// and `NAME:epochs=NUMBER` for one that asks something else of a change than `price` does.
    pub engines: Vec<String>,
    /// Names and tables of others, such as those in force at a site; they stay as they are, and
    /// need not pass the checker.
    pub given: Vec<(String, Arc<Tables>)>,
    /// Virtual layers.
    pub budget: LayerBudget,
    /// All routes inside one job on one layer.
    pub layer_per_job: bool,
    /// Servers that all jobs talk to.
    pub storage: Storage,
    /// What a change for jobs alone must be worth.
    pub price: Price,
    /// First snapshot, seconds since 1970.
    pub from: i64,
    /// Seconds between snapshots.
    pub every: i64,
    /// Number of snapshots.
    pub samples: usize,
    /// Snapshots per chunk.
    pub chunk: usize,
    /// What is simulated beside.
    pub simulated: Simulated,
}

/// Snapshots whose jobs are simulated too, all at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Simulated {
    /// How many of each placement, evenly over its time.
    pub snapshots: usize,
    /// What all jobs exchange, one pattern after the other.
    pub patterns: Vec<Pattern>,
    /// Payload of the largest message.
    pub bytes: u32,
}

impl Simulated {
    /// Whether a snapshot is one of them.
    pub(super) fn has(&self, sample: usize, samples: usize) -> bool {
        let before = |sample: usize| sample * self.snapshots / samples.max(1);
        before(sample) < before(sample + 1)
    }
}

/// A chunk's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Index of the history.
    pub history: usize,
    /// First snapshot.
    pub first: usize,
    /// The one after the last.
    pub end: usize,
}

impl Setup {
    /// All chunks: placement by placement, in the order of time.
    pub fn chunks(&self, histories: usize) -> Vec<Chunk> {
        let of = |history| {
            let firsts = (0..self.samples).step_by(self.chunk.max(1));
            firsts.map(move |first| Chunk {
                history,
                first,
                end: (first + self.chunk.max(1)).min(self.samples),
            })
        };
        (0..histories).flat_map(of).collect()
    }

    pub(super) fn time(&self, sample: usize) -> i64 {
        self.from + sample as i64 * self.every
    }

    pub(super) fn policy(&self, engine: &str) -> Policy {
        Policy {
            layer_per_job: self.layer_per_job,
            storage: self.storage.clone(),
            price: self.price,
            ..Policy::new(engine, self.budget, Promise::TOLD)
        }
    }
}
