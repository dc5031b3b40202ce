//! Keeps routes of a tree apart that are used at the same time.
//!
//! Levelled loads say nothing of which routes meet. In step k of a shift each rank sends to the k-th
//! after it, and wherever neighbours in the order of ranks send to neighbours a few of these steps are
//! all there is: the most routes of one step on a channel say how long the step takes.

use super::net::NONE;
use super::routing::Routing;

/// Most passes over all trees.
const ROUNDS: usize = 4;

/// How many routes of each step of a shift are on each channel.
struct Steps {
    /// Number of ranks, and of steps.
    ranks: usize,
    /// Ranks at each switch.
    at: Vec<Vec<usize>>,
    /// Routes by channel and step: `met[channel * ranks + step]`.
    met: Vec<u16>,
    /// Steps of the routes at hand.
    of: Vec<usize>,
    /// What these meet on each channel of their present way.
    now: Vec<i64>,
}

impl Steps {
    /// O(terminals × switches × hops + pairs of terminals × hops).
    fn new(routing: &Routing<'_>, terminals: &[usize]) -> Self {
        let (net, ranks) = (routing.net, terminals.len());
        let (at, met) = (vec![Vec::new(); net.switches()], vec![0; ranks * net.channels()]);
        let mut steps = Self { ranks, at, met, of: Vec::new(), now: Vec::new() };
        let home = |t: usize| routing.home[t] as usize;
        terminals.iter().enumerate().for_each(|(rank, t)| steps.at[home(*t)].push(rank));
        for (rank, t) in terminals.iter().enumerate() {
            for v in 0..net.switches() {
                steps.of.clear();
                steps.take(v, rank);
                if !steps.of.is_empty() {
                    routing.each_channel(*t, v, home(*t), |c| steps.count(c, u16::wrapping_add));
                }
            }
        }
        steps
    }

    /// Sum over the steps of the most routes on a channel.
    fn time(&self) -> u64 {
        let mut most = vec![0u16; self.ranks];
        for met in self.met.chunks(self.ranks) {
            most.iter_mut().zip(met).for_each(|(most, met)| *most = (*most).max(*met));
        }
        most.iter().map(|m| u64::from(*m)).sum()
    }

    /// Adds the steps in which the ranks at a switch send to another rank.
    fn take(&mut self, switch: usize, to: usize) {
        let step = |from: &usize| if to >= *from { to - from } else { to + self.ranks - from };
        self.of.extend(self.at[switch].iter().map(step));
    }

    /// What the routes at hand meet on a channel, and how many they are.
    fn meet(&self, channel: usize) -> i64 {
        let met = &self.met[channel * self.ranks..(channel + 1) * self.ranks];
        self.of.iter().map(|step| i64::from(met[*step])).sum()
    }

    fn count(&mut self, channel: usize, change: fn(u16, u16) -> u16) {
        let met = &mut self.met[channel * self.ranks..(channel + 1) * self.ranks];
        self.of.iter().for_each(|step| met[*step] = change(met[*step], 1));
    }
}

impl Routing<'_> {
    /// Takes other trees of these terminals, balanced too, if their fullest channel is no fuller and a
    /// shift takes less time. O(as [`Routing::balance`]).
    pub(super) fn take_if_better(&mut self, terminals: &[usize], floor: u32, others: Vec<u8>) {
        let worth = |routing: &Self| (routing.fullest(), Steps::new(routing, terminals).time());
        let before = worth(self);
        let rows = std::mem::replace(&mut self.rows, others);
        self.sum_up(terminals);
        self.balance(terminals, floor);
        if worth(self) >= before {
            self.rows = rows;
            self.sum_up(terminals);
        }
    }

    /// Moves routes so that the squares of the routes of each step on each channel, summed over both, are
    /// small, as long as no channel gets more than the fullest one has. Routes become no longer.
    /// The ranks are the terminals in the order given.
    /// O(rounds × pairs of terminals × ports × hops); two bytes per terminal and channel.
    pub(super) fn keep_apart(&mut self, terminals: &[usize]) {
        let (limit, mut steps) = (self.fullest(), Steps::new(self, terminals));
        for _ in 0..ROUNDS {
            let numbered = terminals.iter().enumerate();
            if numbered.map(|(rank, t)| self.keep_one_apart(*t, rank, limit, &mut steps)).sum::<usize>() == 0
            {
                break;
            }
        }
    }

    /// Does so once for one tree, and says how many routes it moved.
    fn keep_one_apart(&mut self, terminal: usize, rank: usize, limit: u32, steps: &mut Steps) -> usize {
        self.follow(terminal);
        self.gather(terminal);
        let home = self.home[terminal] as usize;
        let mut moved = 0;
        for i in (1..self.search.reached.len()).rev() {
            let v = self.search.reached[i] as usize;
            if self.flow[v] == 0 {
                continue;
            }
            self.take_behind(terminal, v, rank, steps);
            if !self.note_present(terminal, v, home, steps) {
                continue;
            }
            let now = self.row(terminal)[v];
            let mut best = (0, now, v);
            for slot in 0..self.net.degree(v) as u8 {
                let is_too_full = self.load[self.net.channel(v, slot)] + self.flow[v] > limit;
                if is_too_full || !self.is_nearer(terminal, v, slot) {
                    continue;
                }
                let Some((change, meets)) = self.meetings(terminal, v, slot, limit, steps) else { continue };
                if change < best.0 && self.layers_behind(terminal, v, slot, false) {
                    best = (change, slot, meets);
                }
            }
            let (_, slot, meets) = best;
            if slot != now {
                self.each_channel(terminal, v, meets, |c| steps.count(c, u16::wrapping_sub));
                self.lead_over(terminal, v, slot, meets);
                self.each_channel(terminal, v, meets, |c| steps.count(c, u16::wrapping_add));
                moved += 1;
            }
        }
        moved
    }

    /// Notes what the routes at hand, those of `v`, meet on each channel, themselves included, and says
    /// whether they meet any others.
    fn note_present(&self, terminal: usize, v: usize, home: usize, steps: &mut Steps) -> bool {
        let mut now = std::mem::take(&mut steps.now);
        now.clear();
        self.each_channel(terminal, v, home, |c| now.push(steps.meet(c)));
        steps.now = now;
        steps.now.iter().any(|met| *met > steps.of.len() as i64)
    }

    /// How much more the routes at hand would meet if `v` went over another slot, and where that meets
    /// the present way; `None` if a channel would be too full.
    fn meetings(
        &self,
        terminal: usize,
        v: usize,
        slot: u8,
        limit: u32,
        steps: &Steps,
    ) -> Option<(i64, usize)> {
        let (routes, mut now, mut change) = (steps.of.len() as i64, steps.now.iter(), 0);
        let meets = self.each_change(terminal, v, slot, |c, joins| {
            change += match joins {
                true if self.load[c] + self.flow[v] > limit => return false,
                true => 2 * steps.meet(c) + routes,
                false => routes - 2 * now.next().unwrap_or(&0),
            };
            true
        })?;
        Some((change, meets))
    }

    /// Makes the routes of `v`, and of all that go over it, those at hand.
    fn take_behind(&mut self, terminal: usize, v: usize, rank: usize, steps: &mut Steps) {
        let switches = self.net.switches();
        let row = &self.rows[terminal * switches..(terminal + 1) * switches];
        steps.of.clear();
        self.stack.clear();
        self.stack.push((v as u32, 0, 0));
        while let Some((u, ..)) = self.stack.pop() {
            steps.take(u as usize, rank);
            let behind = self.net.out(u as usize).filter(|c| row[self.net.to(*c)] == self.net.back_slot[*c]);
            self.stack.extend(behind.map(|c| (self.net.to(c) as u32, 0, 0)));
        }
    }

    /// Calls with each channel from one switch to another on its way to a terminal.
    fn each_channel(&self, terminal: usize, mut at: usize, end: usize, mut call: impl FnMut(usize)) {
        let row = self.row(terminal);
        while at != end && row[at] != NONE {
            let c = self.net.channel(at, row[at]);
            call(c);
            at = self.net.to(c);
        }
    }
}
