//! Traffic that does not end: each terminal offers a load, or as much as it can.

use super::{Message, Next, Traffic};
use crate::model::rng::Rng;

/// Where messages go.
#[derive(Debug, Clone)]
pub enum Destinations {
    /// Uniformly at random, not to itself (thesis section 4.3.3.1).
    Uniform,
    /// Always the same: receiving terminal by place; itself for none.
    Fixed(Vec<u32>),
}

/// Open-loop traffic: messages are made at random with a given mean gap, whatever the network
/// does, up to a queue's length; with no gap a terminal sends without pause.
#[derive(Debug, Clone)]
pub struct Open {
    members: Vec<u32>,
    place: Vec<u32>,
    destinations: Destinations,
    bytes: u32,
    /// Mean ticks between messages; 0 for no pause.
    gap: f64,
    queue: u32,
    /// Next messages of each place: when made.
    born: Vec<f64>,
    rng: Rng,
}

impl Open {
    /// Some of so many terminals send; `gap` is the mean number of ticks from a message to the next; at most `queue` wait.
    pub fn new(
        (members, terminals): (&[u32], usize),
        destinations: Destinations,
        bytes: u32,
        gap: f64,
        queue: u32,
        seed: u64,
    ) -> Self {
        let mut place = vec![u32::MAX; terminals];
        members.iter().enumerate().for_each(|(i, t)| place[*t as usize] = i as u32);
        let mut rng = Rng::new(seed);
        let born = members.iter().map(|_| exponential(&mut rng, gap)).collect();
        Self { members: members.to_vec(), place, destinations, bytes, gap, queue, born, rng }
    }
}

/// An exponentially distributed time.
pub(super) fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.unit()).ln()
}

impl Traffic for Open {
    fn next(&mut self, host: u32, now: u64) -> Next {
        let place = self.place[host as usize] as usize;
        let n = self.members.len();
        if place >= n || n < 2 {
            return Next::Idle;
        }
        let born = self.born[place].ceil() as u64;
        if self.gap > 0.0 && born > now {
            return Next::At(born);
        }
        let dst = match &self.destinations {
            Destinations::Uniform => self.members[(place + 1 + self.rng.below(n - 1)) % n],
            Destinations::Fixed(to) => to[place],
        };
        if dst == host {
            return Next::Idle;
        }
        let born = if self.gap > 0.0 {
            // A full queue lets nothing in: the oldest message is then at most that old.
            let oldest = now as f64 - self.gap * f64::from(self.queue);
            let born = self.born[place].max(oldest);
            self.born[place] = born + exponential(&mut self.rng, self.gap);
            born.max(0.0) as u64
        } else {
            now
        };
        Next::Send(Message { dst, bytes: self.bytes, tag: 0, born: born.min(now) })
    }
}
