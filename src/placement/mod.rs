//! Which nodes route best for a job that is about to start. Pure: no clock, no I/O.
//!
//! The question is always the same: a job of so many nodes, the nodes it may get, the jobs that
//! run. The answer is a set of exactly that many of those nodes, with what it is predicted to cost
//! beside what the batch system's own choice would ([`usual`]).
//!
//! - On a **switched fabric** ([`switched`]): one switch, the fullest that fits, if there is one:
//!   such a job needs no channel. Else in the smallest part of a tree that has room ([`parts`]), the fullest of
//!   these, a set on as few switches as possible; of those the one with the
//!   smallest predicted largest effective EFI (Definition 5.1) of the job and of the jobs it shares
//!   channels with; among those the one that adds the least to channels in use. On a fabric with one
//!   host per switch that is the prediction alone. (The prediction first, and switches last, spreads
//!   small jobs over all leaves: best for the job that starts, worse for all that follow, see
//!   `docs/results/placement.md`.)
//! - On a **direct torus** ([`direct`]) the set must be routable as a whole, should share few
//!   channels with running jobs, then have a small largest load, then be compact.
//! - On **several fabrics** ([`several`]) each puts the sets in its own order, and the worst place counts.
//!
//! A job that says what it exchanges is predicted with that (`exchange`). The slow-down of its own pattern takes the
//! place of the largest effective EFI. What its messages add to those of running jobs takes the place of what its
//! routes add. On a direct torus the slow-down comes first, as it counts what is shared. Ranks are on nodes in the
//! order of the batch system's list.
//!
//! The prediction runs no engine: it would take too long for a scheduler that waits. It is the
//! larger of two things (`flow`): the load if every route were spread evenly over all shortest
//! ways, and what indivisible routes need at each switch of the job. `balanced-efi` comes close
//! to both; `docs/results/placement.md` compares prediction and routes.
//!
//! Which rank goes to which of the nodes once they are known is another question: [`order`].
//!
//! Same question, same answer: work is bounded by counted steps, never by time.

pub mod direct;
mod exchange;
mod flow;
pub mod order;
pub mod parts;
mod sets;
pub mod several;
pub mod switched;
pub mod usual;

use schemars::JsonSchema;
use serde::Serialize;

pub use self::direct::Direct;
pub use self::several::Several;
pub use self::switched::Switched;
use crate::model::{Mix, NodeName};

/// How much a job wants a good set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Insist {
    /// A good set if there is one, else any.
    Prefer,
    /// Rather wait than run elsewhere.
    Require,
}

impl std::str::FromStr for Insist {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            _ => Err(format!("{text:?} is neither prefer nor require")),
        }
    }
}

/// A job that is about to start. Nodes are numbers: positions in [`Board::names`].
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// How many nodes it wants, at least 1.
    pub nodes: usize,
    /// The nodes it may get, ascending, without repetition.
    pub candidates: &'a [u32],
    /// What to answer if no good set is found.
    pub insist: Insist,
    /// What it exchanges, if that is known; the default mix is everybody with everybody.
    pub mix: Option<&'a Mix>,
    /// Whether it must be alone on all channels of shortest ways between its nodes.
    pub isolated: bool,
}

impl<'a> Question<'a> {
    /// Whether a set may be chosen that shares so many channels with running jobs.
    fn allows(&self, shared: usize) -> bool {
        !self.isolated || shared == 0
    }

    /// What it exchanges, if that is not everybody with everybody.
    fn own(&self) -> Option<&'a Mix> {
        own(self.mix)
    }
}

fn own(mix: Option<&Mix>) -> Option<&Mix> {
    mix.filter(|mix| !mix.is_default())
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Recommendation {
    /// Exactly as many candidates as asked.
    Chosen(Choice),
    /// Nothing to recommend, and the job only prefers: let the batch system choose.
    Any(Why),
    /// Nothing to recommend, and the job insists: let it wait.
    No(Why),
}

/// Why there is nothing to recommend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Fewer candidates than the job wants nodes.
    #[error("only {candidates} of {nodes} nodes are free")]
    TooFew {
        /// Candidates there are.
        candidates: usize,
        /// Nodes the job wants.
        nodes: usize,
    },
    /// No set that was tried can be routed.
    #[error("no set of candidates can be routed as a whole")]
    NotRoutable,
    /// Every set that was tried shares a channel with a job that runs.
    #[error("no set of candidates has its channels to itself")]
    Shared,
}

/// A set of nodes and its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The nodes, ascending.
    pub nodes: Vec<u32>,
    /// What is predicted for them.
    pub predicted: Predicted,
    /// The same for the batch system's own choice; `None` if that cannot be routed.
    pub usual: Option<Predicted>,
}

impl Choice {
    /// By how much the predicted maximum is below that of the usual choice.
    pub fn gain(&self) -> u64 {
        self.usual.map_or(0, |usual| usual.max.saturating_sub(self.predicted.max))
    }
}

/// What a set of nodes is predicted to cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, JsonSchema, Serialize)]
pub struct Predicted {
    /// Slow-down of what the job says that it exchanges; `None` if it says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
    /// Largest load of a channel that the job uses, all jobs counted. 0 if it uses none.
    pub max: u64,
    /// Channels that the job uses.
    pub channels: usize,
    /// Those of them that running jobs use too.
    pub shared: usize,
    /// Switches that the nodes are on (switched fabric), or the sum of distances of all ordered
    /// pairs in hops (direct torus).
    pub extent: u64,
}

/// A fabric, prepared for questions.
#[derive(Debug)]
pub enum Board {
    /// InfiniBand.
    Switched(Switched),
    /// Angara.
    Direct(Direct),
    /// Several fabrics of the same nodes.
    Several(Several),
}

/// The running jobs on a board, prepared for questions.
#[derive(Debug, Clone)]
pub enum Running {
    /// See [`switched::Traffic`].
    Switched(switched::Traffic),
    /// See [`direct::Traffic`].
    Direct(direct::Traffic),
    /// Of each fabric.
    Several(Vec<Running>),
}

impl Board {
    /// All nodes, in the order that a batch system would list them.
    pub fn names(&self) -> &[NodeName] {
        match self {
            Self::Switched(board) => board.names(),
            Self::Direct(board) => board.names(),
            Self::Several(board) => board.names(),
        }
    }

    /// Numbers of those of these nodes that the board has, ascending, without repetition.
    /// O(nodes × log nodes of the board).
    pub fn numbers<'n>(&self, nodes: impl IntoIterator<Item = &'n NodeName>) -> Vec<u32> {
        let names = self.names();
        let number = |n: &NodeName| names.binary_search_by(|known| natural(known, n)).ok();
        let mut found: Vec<u32> = nodes.into_iter().filter_map(number).map(|i| i as u32).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Prepares the running jobs, given as numbers of their nodes.
    pub fn running(&self, jobs: &[Vec<u32>]) -> Running {
        match self {
            Self::Switched(board) => Running::Switched(board.traffic(jobs)),
            Self::Direct(board) => Running::Direct(board.traffic(jobs)),
            Self::Several(board) => Running::Several(board.traffic(jobs)),
        }
    }

    /// Answers. `running` must be of this board; candidates must be numbers of its nodes.
    pub fn choose(&self, running: &Running, question: Question<'_>) -> Recommendation {
        if question.candidates.len() < question.nodes || question.nodes == 0 {
            let why = Why::TooFew { candidates: question.candidates.len(), nodes: question.nodes };
            return nothing(question.insist, why);
        }
        let chosen = match (self, running) {
            (Self::Switched(board), Running::Switched(traffic)) => board.choose(traffic, question),
            (Self::Direct(board), Running::Direct(traffic)) => board.choose(traffic, question),
            (Self::Several(board), Running::Several(traffic)) => board.choose(traffic, question),
            _ => None,
        };
        let why = if question.isolated { Why::Shared } else { Why::NotRoutable };
        chosen.map_or_else(|| nothing(question.insist, why), Recommendation::Chosen)
    }

    /// What a set, ascending, is predicted to cost a job that exchanges this; `None` if it cannot be routed.
    pub fn predict(&self, running: &Running, nodes: &[u32], mix: Option<&Mix>) -> Option<Predicted> {
        match (self, running) {
            (Self::Several(board), Running::Several(traffic)) => board.predict(traffic, nodes, own(mix)),
            _ => self.weigh(running, nodes, own(mix)).map(|(predicted, _)| predicted),
        }
    }

    /// The same, and what decides between sets, the smaller the better.
    fn weigh(&self, running: &Running, nodes: &[u32], mix: Option<&Mix>) -> Option<(Predicted, [u64; 4])> {
        match (self, running) {
            (Self::Switched(board), Running::Switched(traffic)) => board.weigh(traffic, nodes, mix),
            (Self::Direct(board), Running::Direct(traffic)) => board.weigh(traffic, nodes, mix),
            _ => None,
        }
    }

    /// Sets that are worth a judgement, the most promising first; each ascending.
    fn proposed(&self, running: &Running, question: Question<'_>) -> Vec<Vec<u32>> {
        match (self, running) {
            (Self::Switched(board), Running::Switched(traffic)) => board.proposed(traffic, question),
            (Self::Direct(board), Running::Direct(_)) => board.proposed(question),
            _ => Vec::new(),
        }
    }
}

fn nothing(insist: Insist, why: Why) -> Recommendation {
    match insist {
        Insist::Prefer => Recommendation::Any(why),
        Insist::Require => Recommendation::No(why),
    }
}

/// Order of names as people read them: `n2` before `n10`. Total: names that differ are not equal.
pub fn natural(a: &NodeName, b: &NodeName) -> std::cmp::Ordering {
    let (mut left, mut right) = (a.as_str(), b.as_str());
    loop {
        let (x, y) = (split_number(&mut left), split_number(&mut right));
        let order = x.cmp(&y);
        if order.is_ne() {
            return order;
        }
        if left.is_empty() && right.is_empty() {
            return a.as_str().cmp(b.as_str());
        }
    }
}

/// Cuts off text up to and including the next number: the text, digits without leading zeros by
/// length and value.
fn split_number<'a>(rest: &mut &'a str) -> (&'a str, usize, &'a str) {
    let text_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
    let (text, tail) = rest.split_at(text_end);
    let number_end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
    let (number, tail) = tail.split_at(number_end);
    *rest = tail;
    let number = number.trim_start_matches('0');
    (text, number.len(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_as_people_read_them() {
        let mut names: Vec<NodeName> = ["n10", "n2", "m3", "n02", "r2n1", "r1n12", "n2b", "n"]
            .iter()
            .map(|n| NodeName::new(*n).unwrap())
            .collect();
        names.sort_by(natural);
        let names: Vec<&str> = names.iter().map(NodeName::as_str).collect();
        assert_eq!(names, ["m3", "n", "n02", "n2", "n2b", "n10", "r1n12", "r2n1"]);
    }
}
