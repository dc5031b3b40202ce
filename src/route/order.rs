//! Topological orders that are repaired while dependencies come: what [`super::cdg::AcyclicLayer`]
//! keeps of channels.

use super::ways::bits;

/// Dependencies among what is ordered, to be followed both ways.
pub trait Dag {
    /// What depends on it.
    fn after(&self, node: usize) -> impl Iterator<Item = usize>;
    /// What it depends on.
    fn before(&self, node: usize) -> impl Iterator<Item = usize>;
}

/// A total order of channels, or of what else is numbered from 0.
pub trait Order {
    /// This order: a permutation of `0..order.len()`.
    fn new(order: &[u32]) -> Self;
    /// Whether one channel comes before another.
    fn is_before(&self, one: usize, other: usize) -> bool;
    /// Position of each channel. O(channels).
    fn positions(&self) -> Vec<u32>;
    /// Makes room in the order for `source -> target`, of which `target` comes first or is the same;
    /// false if it already leads to `source`.
    fn repair(&mut self, dag: &impl Dag, source: usize, target: usize) -> bool;
}

/// The order as positions without gaps, repaired with as few channels moved as that allows (Pearce and Kelly, "A dynamic
/// topological sort algorithm for directed acyclic graphs", 2006). What a search finds is marked by
/// place in the order, so that marks come out sorted.
#[derive(Debug, Clone)]
pub struct Ranks {
    /// Position of each channel: dependencies lead to higher positions.
    rank: Vec<u32>,
    /// The channel at each position.
    at: Vec<u32>,
    /// Positions that the current search found; all clear between searches.
    forward: Vec<u64>,
    backward: Vec<u64>,
    found: Vec<u32>,
}

impl Order for Ranks {
    fn new(order: &[u32]) -> Self {
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(i, c)| rank[*c as usize] = i as u32);
        let words = order.len().div_ceil(64);
        let (forward, backward) = (vec![0; words], vec![0; words]);
        Self { rank, at: order.to_vec(), forward, backward, found: Vec::new() }
    }

    #[inline]
    fn is_before(&self, one: usize, other: usize) -> bool {
        self.rank[one] < self.rank[other]
    }

    fn positions(&self) -> Vec<u32> {
        self.rank.clone()
    }

    fn repair(&mut self, dag: &impl Dag, source: usize, target: usize) -> bool {
        let (lower, upper) = (self.rank[target], self.rank[source]);
        let free = self.search_forward(dag, target, upper);
        if free {
            self.search_backward(dag, source, lower);
            self.shift(lower, upper);
        }
        let touched = lower as usize / 64..=upper as usize / 64;
        self.forward[touched.clone()].fill(0);
        self.backward[touched].fill(0);
        free
    }
}

impl Ranks {
    /// Marks what `target` leads to, up to a position; false if the channel there is among it.
    fn search_forward(&mut self, dag: &impl Dag, target: usize, upper: u32) -> bool {
        if self.rank[target] == upper {
            return false;
        }
        mark(&mut self.forward, self.rank[target]);
        self.found.clear();
        self.found.push(target as u32);
        while let Some(c) = self.found.pop() {
            for next in dag.after(c as usize) {
                let rank = self.rank[next];
                if rank == upper {
                    return false;
                }
                if rank < upper && mark(&mut self.forward, rank) {
                    self.found.push(next as u32);
                }
            }
        }
        true
    }

    /// Marks what leads to `source`, down to a position.
    fn search_backward(&mut self, dag: &impl Dag, source: usize, lower: u32) {
        mark(&mut self.backward, self.rank[source]);
        self.found.clear();
        self.found.push(source as u32);
        while let Some(c) = self.found.pop() {
            for previous in dag.before(c as usize) {
                let rank = self.rank[previous];
                if rank > lower && mark(&mut self.backward, rank) {
                    self.found.push(previous as u32);
                }
            }
        }
    }

    /// Puts all of `backward` before all of `forward` on the positions that both hold, each in its
    /// old order.
    fn shift(&mut self, lower: u32, upper: u32) {
        let touched = lower as usize / 64..upper as usize / 64 + 1;
        self.found.clear();
        for marks in [&self.backward, &self.forward] {
            for word in touched.clone() {
                self.found.extend(bits(marks[word]).map(|bit| self.at[64 * word + bit]));
            }
        }
        let mut moved = self.found.iter();
        for word in touched {
            for (bit, c) in bits(self.backward[word] | self.forward[word]).zip(&mut moved) {
                self.at[64 * word + bit] = *c;
                self.rank[*c as usize] = (64 * word + bit) as u32;
            }
        }
    }
}

/// Sets a bit; whether it was clear.
#[inline]
fn mark(marks: &mut [u64], at: u32) -> bool {
    let (word, bit) = (&mut marks[at as usize / 64], 1 << (at % 64));
    let is_new = *word & bit == 0;
    *word |= bit;
    is_new
}

/// An order in a linked list with labels that grow along it, where a few channels move next to
/// another without the rest.
///
/// Two searches between the ends of a new dependency take turns. The one that ends first says what to move to the
/// other end (after Haeupler, Kavitha, Mathew, Sen, Tarjan, "Incremental cycle detection, topological ordering, and
/// strong component maintenance", 2012). Of `nue` on a torus one side has three channels on average where both
/// together have 136.
#[derive(Debug, Clone)]
pub struct Labels {
    /// Grows along the list, so that one comparison tells which of two comes first.
    label: Vec<u64>,
    /// Neighbours in the list, in a ring that the number `n` closes.
    next: Vec<u32>,
    previous: Vec<u32>,
    /// Twice the number of the search that found a channel last, one more if from behind.
    stamp: Vec<u32>,
    searches: u32,
    /// What the two searches of a repair found.
    ahead: Vec<u32>,
    behind: Vec<u32>,
}

impl Order for Labels {
    fn new(order: &[u32]) -> Self {
        let n = order.len();
        let (mut next, mut previous) = (vec![n as u32; n + 1], vec![n as u32; n + 1]);
        let mut last = n as u32;
        for &c in order {
            (next[last as usize], previous[c as usize]) = (c, last);
            last = c;
        }
        (next[last as usize], previous[n]) = (n as u32, last);
        let mut new = Self {
            label: vec![0; n],
            next,
            previous,
            stamp: vec![0; n],
            searches: 0,
            ahead: Vec::new(),
            behind: Vec::new(),
        };
        new.relabel();
        new
    }

    #[inline]
    fn is_before(&self, one: usize, other: usize) -> bool {
        self.label[one] < self.label[other]
    }

    fn positions(&self) -> Vec<u32> {
        let n = self.label.len();
        let (mut rank, mut at) = (vec![0; n], self.next[n]);
        for position in 0..n as u32 {
            rank[at as usize] = position;
            at = self.next[at as usize];
        }
        rank
    }

    fn repair(&mut self, dag: &impl Dag, source: usize, target: usize) -> bool {
        self.repair_within(dag, source, target, usize::MAX) == Repair::Done
    }
}

impl Labels {
    /// Like [`Order::repair`], of a search of at most so many steps from both ends.
    pub fn repair_within(&mut self, dag: &impl Dag, source: usize, target: usize, steps: usize) -> Repair {
        match self.search(dag, source, target, steps) {
            End::Met => return Repair::Cycle,
            End::GaveUp => return Repair::GaveUp,
            End::Ahead => {
                let mut moved = std::mem::take(&mut self.ahead);
                self.move_behind(&mut moved, source as u32);
                self.ahead = moved;
            }
            End::Behind => {
                let mut moved = std::mem::take(&mut self.behind);
                self.move_before(&mut moved, target as u32);
                self.behind = moved;
            }
        }
        Repair::Done
    }

    /// A number for each place: it grows along the order.
    #[inline]
    pub fn place(&self, node: usize) -> u64 {
        self.label[node]
    }

    /// All labels are below: even halved at one place again and again they last a while.
    pub const END: u64 = 1 << 63;

    /// Which of two searches ends first: the one forward from `target`, or that back from `source`.
    /// Both stay between the two; where they meet there is a cycle.
    fn search(&mut self, dag: &impl Dag, source: usize, target: usize, steps: usize) -> End {
        if source == target {
            return End::Met;
        }
        if self.searches == u32::MAX / 2 {
            self.stamp.fill(0);
            self.searches = 0;
        }
        self.searches += 1;
        let (forward, backward) = (2 * self.searches, 2 * self.searches + 1);
        (self.stamp[target], self.stamp[source]) = (forward, backward);
        let (low, high) = (self.label[target], self.label[source]);
        self.ahead.clear();
        self.behind.clear();
        self.ahead.push(target as u32);
        self.behind.push(source as u32);
        for turn in 0..steps {
            let Some(&c) = self.ahead.get(turn) else { return End::Ahead };
            for found in dag.after(c as usize) {
                let stamp = &mut self.stamp[found];
                if *stamp == backward {
                    return End::Met;
                }
                if *stamp != forward && self.label[found] < high {
                    *stamp = forward;
                    self.ahead.push(found as u32);
                }
            }
            let Some(&c) = self.behind.get(turn) else { return End::Behind };
            for found in dag.before(c as usize) {
                let stamp = &mut self.stamp[found];
                if *stamp == forward {
                    return End::Met;
                }
                if *stamp != backward && self.label[found] > low {
                    *stamp = backward;
                    self.behind.push(found as u32);
                }
            }
        }
        End::GaveUp
    }

    /// Puts some, which are sorted first, right behind another, which is not among them.
    /// O(moved × log moved), now and then O(all).
    fn move_behind(&mut self, moved: &mut [u32], place: u32) {
        self.unlink(moved);
        self.link(moved, place);
    }

    /// Puts some right before another; see [`Labels::move_behind`].
    fn move_before(&mut self, moved: &mut [u32], place: u32) {
        self.unlink(moved);
        self.link(moved, self.previous[place as usize]);
    }

    fn unlink(&mut self, moved: &mut [u32]) {
        moved.sort_unstable_by_key(|c| self.label[*c as usize]);
        for &c in &*moved {
            let (previous, next) = (self.previous[c as usize], self.next[c as usize]);
            self.next[previous as usize] = next;
            self.previous[next as usize] = previous;
        }
    }

    fn link(&mut self, moved: &[u32], place: u32) {
        let behind = self.next[place as usize];
        let low = self.label.get(place as usize).copied().unwrap_or(0);
        let high = self.label.get(behind as usize).copied().unwrap_or(Self::END);
        let step = (high - low) / (moved.len() as u64 + 1);
        let (mut last, mut label) = (place, low);
        for &c in moved {
            label += step;
            self.label[c as usize] = label;
            (self.next[last as usize], self.previous[c as usize]) = (c, last);
            last = c;
        }
        (self.next[last as usize], self.previous[behind as usize]) = (behind, last);
        if step == 0 {
            self.relabel();
        }
    }

    /// Spreads the labels evenly.
    fn relabel(&mut self) {
        let n = self.label.len();
        let step = Self::END / (n as u64 + 1);
        let (mut at, mut label) = (self.next[n], 0);
        while (at as usize) < n {
            label += step;
            self.label[at as usize] = label;
            at = self.next[at as usize];
        }
    }
}

/// How two searches ended: the first that did, or both.
enum End {
    Ahead,
    Behind,
    Met,
    GaveUp,
}

/// What became of a new dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// The order has room for it.
    Done,
    /// It closes a cycle. Nothing changed.
    Cycle,
    /// The search took too long. Nothing changed.
    GaveUp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rng::Rng;

    /// Agrees with a plain list, far beyond what the first labels last.
    #[test]
    fn moves_what_a_list_moves() {
        let mut rng = Rng::new(3);
        let mut list: Vec<u32> = vec![3, 0, 4, 2, 1, 6, 5];
        let mut order = Labels::new(&list);
        for turn in 0..2000 {
            // Mostly the same place, which wears its gap out fastest.
            let place = if turn % 4 == 0 { rng.below(7) as u32 } else { 4 };
            let mut moved: Vec<u32> = (0..7).filter(|c| *c != place && rng.below(3) == 0).collect();
            let sorted: Vec<u32> = list.iter().copied().filter(|c| moved.contains(c)).collect();
            list.retain(|c| !moved.contains(c));
            let at = list.iter().position(|c| *c == place).unwrap();
            if turn % 2 == 0 {
                order.move_behind(&mut moved, place);
                list.splice(at + 1..at + 1, sorted);
            } else {
                order.move_before(&mut moved, place);
                list.splice(at..at, sorted);
            }
            let agrees = list.windows(2).all(|w| order.is_before(w[0] as usize, w[1] as usize));
            assert!(agrees, "turn {turn}: {list:?}");
        }
    }
}
