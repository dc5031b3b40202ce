//! Dark channels that no single move lights: chains of moves, where each takes the channel that the
//! one before left dark.
//!
//! Where each channel has a route or two, nearly every move onto a dark channel leaves another one
//! dark, so that moves that each must be a gain end early.

use super::routing::Routing;
use super::traffic::Class;
use super::widen::DARK;

/// Most moves in a chain.
const LONGEST: u8 = 4;
/// How often chains are searched.
const ROUNDS: usize = 3;
/// How much more crowded one move may be, in units of one route: one that joins another of its job
/// is (2³ - 1). So a whole chain costs less than the channel is worth.
const MOST_CROWDED: f32 = (DARK - 1.0) / LONGEST as f32;
/// Channels looked at, at most, each once per tree and pass. All rounds are made for 234 terminals in
/// jobs on 1,064 channels; with several hundred on TSUBAME2, chains cost as much as all else and gain
/// 0.03 % of the channels.
const LOOKS: usize = 6_000_000;

impl Routing<'_> {
    /// Leads routes inside jobs over channels that have none, by chains of moves, in small fabrics.
    /// No channel becomes fuller than the fullest was. O(terminals × channels × hops).
    pub(super) fn light_up(&mut self) {
        let terminals = self.traffic.destinations(Class::Job);
        let limit = self.fullest();
        let size = (terminals.len() * self.net.channels()).max(1);
        let rounds = LOOKS / size / (2 * usize::from(LONGEST));
        for _ in 0..rounds.min(ROUNDS) {
            // How many moves light a channel, if it is dark, and leave no other dark.
            let mut moves_to = vec![u8::MAX; self.net.channels()];
            let mut pass = |routing: &mut Self, is_moving: bool| {
                let mut changes = 0;
                routing.each_job(&terminals, |routing, same| {
                    let each = same.iter().map(|t| routing.chain(*t, limit, &mut moves_to, is_moving));
                    changes += each.sum::<usize>();
                });
                changes
            };
            (0..LONGEST).take_while(|_| pass(self, false) > 0).count();
            if (0..LONGEST).take_while(|_| pass(self, true) > 0).count() == 0 {
                return;
            }
        }
    }

    /// Notes in `moves_to` what the moves of one tree make possible, or makes those that light a dark
    /// channel and at most leave one that fewer moves light; returns the number of moves. `own` must
    /// be that of the terminal's jobs. O(switches + routes of the job × ports × hops).
    fn chain(&mut self, terminal: usize, limit: u32, moves_to: &mut [u8], is_moving: bool) -> usize {
        self.follow(terminal);
        self.gather(terminal);
        let mut changes = 0;
        for i in (1..self.search.reached.len()).rev() {
            let v = self.search.reached[i] as usize;
            if self.flow[v] == 0 {
                continue;
            }
            for slot in 0..self.net.degree(v) as u8 {
                if !self.is_nearer(terminal, v, slot) {
                    continue;
                }
                let Some(change) = self.crowding(terminal, v, slot, limit) else { continue };
                let then = change.left.map_or(0, |c| moves_to[c]);
                let crowded = change.gain - DARK * (f32::from(change.darkened) - f32::from(change.lit));
                if change.darkened > 1 || crowded > MOST_CROWDED || then >= LONGEST {
                    continue;
                }
                // A channel it joins is dark and farther from light, or not known to be that near.
                let mut is_of_use = false;
                self.each_change(terminal, v, slot, |c, joins| {
                    let is_farther = match is_moving {
                        true => self.load[c] == 0 && moves_to[c] > then,
                        false => moves_to[c] > then + 1,
                    };
                    is_of_use |= joins && is_farther;
                    true
                });
                if !is_of_use || !self.layers_behind(terminal, v, slot, false) {
                    continue;
                }
                changes += 1;
                if is_moving {
                    self.lead_own_over(terminal, v, slot, change.meets);
                } else {
                    self.each_change(terminal, v, slot, |c, joins| {
                        moves_to[c] = if joins { moves_to[c].min(then + 1) } else { moves_to[c] };
                        true
                    });
                }
            }
        }
        changes
    }
}
