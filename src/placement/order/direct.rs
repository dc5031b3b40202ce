//! The same on a direct torus: every node is a place, and the job's routes lead between all of them, so that an
//! order needs no others.

use super::{Order, OrderSearch, starts};
use crate::measure::Predictor;
use crate::model::{NodeId, Torus, TorusJob};

/// A job of a direct torus whose ranks are to be put in order.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Where its nodes are.
    pub torus: &'a Torus,
    /// Its nodes in the order as given, and what it exchanges.
    pub job: &'a TorusJob,
    /// Ranks on each node; they follow each other in the list as given.
    pub per_node: usize,
    /// Ranks that stay together, as in [`super::Question::unit`].
    pub unit: usize,
    /// As in [`super::Question::work`].
    pub work: u64,
}

impl Job<'_> {
    /// The places of the ranks as given, for [`Predictor::time_at`].
    pub fn places(&self) -> Vec<u32> {
        let place = |node: &NodeId| self.job.nodes().partition_point(|n| n < node) as u32;
        self.job.ranks().iter().flat_map(|node| std::iter::repeat_n(place(node), self.per_node)).collect()
    }
}

/// As [`super::order`].
///
/// # Panics
/// If the predictor is for another number of ranks.
pub fn on_torus(job: Job<'_>, predictor: &mut Predictor<'_>) -> Order {
    let given = job.places();
    let (unit, mix) = (job.unit.max(1), &job.job.mix);
    let units = given.iter().step_by(unit).map(|place| job.job.nodes()[*place as usize]).collect();
    let starts = starts::on_torus(job.torus, units, given.len(), unit, mix);
    OrderSearch { predictor, ranks: given.clone(), given, unit, work: job.work, tried: 0 }.run(starts)
}
