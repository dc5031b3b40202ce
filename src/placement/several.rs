//! Placement on several fabrics at once: rails, or a torus beside switches. See [`super`] for what is best on one.
//!
//! Each fabric proposes sets, and puts all that were proposed in its own order. A set is as good as its worst place
//! in these orders; among equals the sum of its places decides. So no unit of one kind of fabric is held against one
//! of another, and a fabric on which all sets are equal has no say. Before that counts on how many of the fabrics the
//! nodes are: one that has no adapter somewhere loads nothing there, and would seem better than it is.

use std::collections::BTreeSet;

use super::usual::usual;
use super::{Board, Choice, Predicted, Question, Running, direct, natural};
use crate::model::{Mix, NodeName};

/// Sets that one fabric proposes at most.
const PROPOSED: usize = 24;
/// Pairs of nodes that direct tori look at for all sets together.
const PAIRS: usize = 10 * direct::PAIRS;

/// Fabrics that have nodes in common, prepared for questions.
#[derive(Debug)]
pub struct Several {
    /// Those of all fabrics.
    names: Vec<NodeName>,
    boards: Vec<Board>,
    /// By fabric and node: its number there, if it is there.
    numbers: Vec<Vec<Option<u32>>>,
}

/// A set and what each fabric says of it.
struct Judged {
    nodes: Vec<u32>,
    /// Adapters that its nodes do not have.
    missing: usize,
    /// What decides on each fabric, the smaller the better.
    keys: Vec<[u64; 4]>,
    /// Channels that it shares with running jobs, on all fabrics.
    shared: usize,
    predicted: Predicted,
}

impl Several {
    /// Of boards that are not themselves of several fabrics.
    pub fn new(boards: Vec<Board>) -> Self {
        let mut names: Vec<NodeName> = boards.iter().flat_map(|board| board.names().to_vec()).collect();
        names.sort_by(natural);
        names.dedup();
        let number = |board: &Board, name: &NodeName| board.numbers([name]).first().copied();
        let numbers = boards.iter().map(|board| names.iter().map(|n| number(board, n)).collect()).collect();
        Self { names, boards, numbers }
    }

    /// See [`Board::names`].
    pub fn names(&self) -> &[NodeName] {
        &self.names
    }

    /// Those of the nodes that a fabric has, by its numbers.
    fn there(&self, fabric: usize, nodes: &[u32]) -> Vec<u32> {
        nodes.iter().filter_map(|node| self.numbers[fabric][*node as usize]).collect()
    }

    /// Prepares the running jobs.
    pub fn traffic(&self, jobs: &[Vec<u32>]) -> Vec<Running> {
        let of = |(fabric, board): (usize, &Board)| {
            let jobs: Vec<Vec<u32>> = jobs.iter().map(|job| self.there(fabric, job)).collect();
            board.running(&jobs)
        };
        self.boards.iter().enumerate().map(of).collect()
    }

    /// What a set is predicted to cost on the fabric where its fullest channel is; `None` if it cannot be routed on
    /// one.
    pub fn predict(&self, traffic: &[Running], nodes: &[u32], mix: Option<&Mix>) -> Option<Predicted> {
        self.judge(traffic, nodes.to_vec(), mix).map(|judged| judged.predicted)
    }

    fn judge(&self, traffic: &[Running], nodes: Vec<u32>, mix: Option<&Mix>) -> Option<Judged> {
        let (mut missing, mut shared, mut keys) = (0, 0, Vec::with_capacity(self.boards.len()));
        let mut worst: Option<Predicted> = None;
        for (fabric, (board, running)) in self.boards.iter().zip(traffic).enumerate() {
            let there = self.there(fabric, &nodes);
            missing += nodes.len() - there.len();
            let alone = Predicted { extent: there.len() as u64, ..Predicted::default() };
            let (predicted, key) = match there.len() {
                0 | 1 => (alone, [0; 4]),
                _ => board.weigh(running, &there, mix)?,
            };
            keys.push(key);
            shared += predicted.shared;
            let bad = |predicted: &Predicted| (predicted.slowdown, predicted.max);
            worst = worst.filter(|worst| bad(worst) >= bad(&predicted)).or(Some(predicted));
        }
        Some(Judged { nodes, missing, keys, shared, predicted: worst? })
    }

    /// Sets of so many nodes that each fabric may propose: every direct torus looks at the pairs of all of them.
    fn most(&self, nodes: usize) -> usize {
        let tori = self.boards.iter().filter(|board| matches!(board, Board::Direct(_))).count();
        let pairs = nodes.saturating_mul(nodes).min(direct::PAIRS);
        (PAIRS / (pairs * tori * self.boards.len()).max(1)).clamp(1, PROPOSED)
    }

    /// The best set found, and what the usual one costs; `None` if no set can be routed on all fabrics. There must be
    /// enough candidates.
    pub fn choose(&self, traffic: &[Running], question: Question<'_>) -> Option<Choice> {
        let (ordinary, most) = (usual(question.nodes, question.candidates), self.most(question.nodes));
        let mut seen = BTreeSet::from([ordinary.clone()]);
        let mut sets = vec![ordinary.clone()];
        for (fabric, (board, running)) in self.boards.iter().zip(traffic).enumerate() {
            let at_home =
                question.candidates.iter().filter(|n| self.numbers[fabric][**n as usize].is_some()).copied();
            let at_home: Vec<u32> = at_home.collect();
            let candidates = self.there(fabric, &at_home);
            if candidates.len() < question.nodes {
                continue;
            }
            let own = Question { candidates: &candidates, ..question };
            for set in board.proposed(running, own).into_iter().take(most) {
                // Both lists ascend alike: names are in one order everywhere.
                let back = |n: &u32| candidates.binary_search(n).ok().map(|i| at_home[i]);
                let set: Vec<u32> = set.iter().filter_map(back).collect();
                if seen.insert(set.clone()) {
                    sets.push(set);
                }
            }
        }
        let mut judged: Vec<Judged> =
            sets.into_iter().filter_map(|set| self.judge(traffic, set, question.own())).collect();
        let usual = judged.iter().find(|judged| judged.nodes == ordinary).map(|judged| judged.predicted);
        judged.retain(|judged| question.allows(judged.shared));
        let places = self.places(&judged);
        let best = (0..judged.len()).min_by_key(|set| {
            let own = places.iter().map(|place| place[*set]);
            (judged[*set].missing, own.clone().max(), own.sum::<usize>())
        })?;
        let Judged { nodes, predicted, .. } = &judged[best];
        Some(Choice { nodes: nodes.clone(), predicted: *predicted, usual })
    }

    /// By fabric and set: its place in the order of the fabric; equal sets have one place.
    fn places(&self, judged: &[Judged]) -> Vec<Vec<usize>> {
        let of = |fabric: usize| {
            let mut order: Vec<[u64; 4]> = judged.iter().map(|judged| judged.keys[fabric]).collect();
            order.sort_unstable();
            order.dedup();
            judged.iter().map(|judged| order.partition_point(|key| *key < judged.keys[fabric])).collect()
        };
        (0..self.boards.len()).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::{NodeMap, TorusBuilder, Transit};
    use crate::placement::{Direct, Switched};

    #[test]
    fn fewer_sets_of_large_jobs_are_held_against_each_other_on_a_direct_torus() {
        let nobody = NodeMap::new([].into(), Vec::new());
        let switched = || {
            let fabric = generate("fattree:4x4,2").unwrap();
            Board::Switched(Switched::new(&fabric, &nobody.clone().on(&fabric)))
        };
        let torus = TorusBuilder::new(&[4, 4]).unwrap().build().unwrap();
        let beside = Several::new(vec![switched(), Board::Direct(Direct::new(torus, Transit::Any))]);
        let sizes = [16, 512, 1024, 2048, 8192];
        assert_eq!(sizes.map(|nodes| beside.most(nodes)), [24, 24, 19, 5, 5]);
        let rails = Several::new(vec![switched(), switched()]);
        assert_eq!(sizes.map(|nodes| rails.most(nodes)), [24; 5]);
    }
}
