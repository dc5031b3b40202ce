//! Which rank goes to which node: the order with the least predicted time for what a job exchanges, on given
//! nodes and with given routes.
//!
//! The list of nodes that a job gets says nothing of the fabric, and programs follow it: rank 0 on the first,
//! rank 1 on the second. Several orders are tried ([`starts`]), and the best is improved by small changes that
//! are drawn with a fixed seed, until they find nothing more or the work is done. What decides is the time that
//! [`Predictor`] predicts. The list as given is among the orders, so that no answer is worse than it.
//!
//! Orders of nodes along the tree are Zahavi's (Fat-tree routing and node ordering providing contention free
//! traffic for MPI global collectives, JPDC 2012). Blocks of grids for blocks of nodes are those of recursive
//! bipartitioning (Pellegrini, Static mapping by dual recursive bipartitioning, SHPCC 1994).

mod direct;
mod joint;
pub mod starts;

use crate::measure::Predictor;
use crate::model::rng::Rng;
use crate::model::{Fabric, Mix, TerminalId};

pub use self::direct::{Job, on_torus};
pub use self::joint::{Movable, Together, order_all, time, together};

/// Hops that a search may look at unless told otherwise: a few seconds.
pub const WORK: u64 = 1 << 27;

/// Changes in a row that find nothing, per unit that can be moved, after which a search ends.
const PATIENCE: usize = 40;

/// Seed of the changes: the same question has the same answer.
const SEED: u64 = 0x0DE7;

/// What an order must save of the time of all or of the job, or the list as given stays: less is an error of the prediction.
const LEAST_GAIN: f64 = 5e-4;

/// An order that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// By rank: its place in the list as given.
    pub places: Vec<u32>,
    /// Where the search began.
    pub start: &'static str,
    /// Predicted time of the list as given and of this order: see [`Predictor::time`].
    pub before: f64,
    /// Never more than `before`.
    pub after: f64,
    /// Orders that were looked at.
    pub tried: usize,
}

/// Ranks to be put in order.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Where its hosts are.
    pub fabric: &'a Fabric,
    /// The terminal of each rank, as given.
    pub ranks: &'a [TerminalId],
    /// Ranks that stay together and in order: those of one node, or 1. Divides the number of ranks.
    pub unit: usize,
    /// What they exchange.
    pub mix: &'a Mix,
    /// Hops that may be looked at; at least the starts are, whatever it says.
    pub work: u64,
}

/// How good an order is: the mean over all groups, and the job's own time, which must not be more than as given.
type Value = (f64, f64);

/// A search: the place of each rank as given, and as the current order of units has it.
struct OrderSearch<'p, 'a> {
    predictor: &'p mut Predictor<'a>,
    given: Vec<u32>,
    ranks: Vec<u32>,
    unit: usize,
    work: u64,
    tried: usize,
}

/// The best order found. Where other groups are part of the prediction, what counts is the geometric mean of all
/// times, and the job's own is not more than as given. Deterministic.
///
/// # Panics
/// If the predictor is for another number of ranks.
pub fn order(question: Question<'_>, predictor: &mut Predictor<'_>) -> Order {
    let Question { fabric, ranks, unit, mix, work } = question;
    let given: Vec<u32> = ranks.iter().map(|terminal| terminal.index() as u32).collect();
    let search = OrderSearch { predictor, ranks: given.clone(), given, unit, work, tried: 0 };
    search.run(starts::all(fabric, ranks, unit, mix))
}

impl OrderSearch<'_, '_> {
    /// Improves the best of the list as given and these starts.
    fn run(mut self, starts: Vec<(&'static str, Vec<u32>)>) -> Order {
        let list: Vec<u32> = (0..(self.given.len() / self.unit.max(1)) as u32).collect();
        let before = self.value(&list);
        let mut best = (before, list, "list");
        for (name, order) in starts {
            let value = self.value(&order);
            if value.1 <= before.1 && value.0 < best.0.0 {
                best = (value, order, name);
            }
        }
        let (mut value, mut order, mut start) = best;
        self.improve(&mut order, &mut value, before.1);
        if value.0 > before.0 * (1.0 - LEAST_GAIN) && value.1 > before.1 * (1.0 - LEAST_GAIN) {
            (value, order, start) = (before, (0..order.len() as u32).collect(), "list");
        }
        let unit = self.unit as u32;
        let places = order.iter().flat_map(|u| u * unit..(u + 1) * unit).collect();
        Order { places, start, before: before.1, after: value.1, tried: self.tried }
    }

    fn value(&mut self, order: &[u32]) -> Value {
        let unit = self.unit;
        for (place, u) in order.iter().enumerate() {
            let from = &self.given[*u as usize * unit..][..unit];
            self.ranks[place * unit..][..unit].copy_from_slice(from);
        }
        self.tried += 1;
        let own = self.predictor.time_at(&self.ranks);
        (if own.is_finite() { self.predictor.mean() } else { own }, own)
    }

    /// Changes that are not worse are kept: they lead across plains, and back to the best that was seen. At 1 nobody
    /// meets anybody.
    fn improve(&mut self, order: &mut [u32], value: &mut Value, most: f64) {
        let (mut rng, mut vain) = (Rng::new(SEED), 0);
        let until = self.predictor.work().saturating_add(self.work);
        let patience = PATIENCE * order.len();
        let mut best = order.to_vec();
        while order.len() > 2 && vain < patience && self.predictor.work() < until && value.0 != 1.0 {
            let change = Change::draw(&mut rng, order.len());
            change.make(order);
            let found = self.value(order);
            if found.0 > value.0 || found.1 > most {
                change.undo(order);
                vain += 1;
                continue;
            }
            vain += 1;
            if found.0 < value.0 {
                vain = 0;
                best.copy_from_slice(order);
            }
            *value = found;
        }
        order.copy_from_slice(&best);
    }
}

/// A small change of an order.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// Two change places.
    Swap(usize, usize),
    /// A stretch is turned around, both ends included.
    Turn(usize, usize),
    /// One goes elsewhere, those between move up.
    Move(usize, usize),
}

impl Change {
    /// Of two different places of `n`, which is at least 2.
    fn draw(rng: &mut Rng, n: usize) -> Self {
        let a = rng.below(n);
        let b = (a + 1 + rng.below(n - 1)) % n;
        match rng.below(4) {
            0 => Self::Turn(a.min(b), a.max(b)),
            1 => Self::Move(a, b),
            _ => Self::Swap(a, b),
        }
    }

    fn make(self, order: &mut [u32]) {
        match self {
            Self::Swap(a, b) => order.swap(a, b),
            Self::Turn(a, b) => order[a..=b].reverse(),
            Self::Move(from, to) if from < to => order[from..=to].rotate_left(1),
            Self::Move(from, to) => order[to..=from].rotate_right(1),
        }
    }

    fn undo(self, order: &mut [u32]) {
        match self {
            Self::Move(from, to) => Self::Move(to, from).make(order),
            same => same.make(order),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_undone_is_none() {
        let mut rng = Rng::new(3);
        for n in [2, 3, 9] {
            for _ in 0..200 {
                let given: Vec<u32> = (0..n as u32).collect();
                let (mut order, change) = (given.clone(), Change::draw(&mut rng, n));
                change.make(&mut order);
                assert_ne!(order, given, "{change:?} of {n}");
                change.undo(&mut order);
                assert_eq!(order, given, "{change:?} of {n}");
            }
        }
    }
}
