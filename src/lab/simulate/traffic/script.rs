//! Finite traffic: each terminal has a list of destinations and works it off.

use super::{Delivery, Message, Next, Traffic};
use crate::model::rng::Rng;

/// Which list a terminal works off. Places are positions among the `n` participants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Exchange {
    /// All to all with shifts +1, −1, +2, −2, … (thesis section 4.3.3.2); an even number of
    /// participants ends with the one shift of half of them.
    Shift,
    /// All to all in the linear order of shifts +1, +2, …, as pairwise exchanges of MPI libraries.
    Linear,
    /// All to all in the steps of MPICH's pairwise exchange for long messages: with `i XOR step`
    /// for powers of two, else to `i + step`; who has sent waits until as much has arrived.
    Pairwise,
    /// All to all, each participant in an order of its own, drawn by the seed.
    Random,
    /// One message from each participant to a given other one.
    Once,
}

/// A finite exchange between participants; every terminal sends its messages one after the other.
#[derive(Debug, Clone)]
pub struct Script {
    /// Terminals by place.
    members: Vec<u32>,
    /// Place by terminal; `u32::MAX` for those that take no part.
    place: Vec<u32>,
    exchange: Exchange,
    /// With [`Exchange::Once`]: receiving terminal by place; itself for none. With
    /// [`Exchange::Random`]: shifts, `n - 1` for each place.
    table: Vec<u32>,
    /// Messages started, by place.
    step: Vec<u32>,
    /// Bytes consumed, by place.
    got: Vec<u64>,
    bytes: u32,
    expected: u64,
    received: u64,
    finished: Option<u64>,
}

impl Script {
    /// All to all between `members`, `bytes` to each. `terminals` is that of the network.
    pub fn all_to_all(members: &[u32], terminals: usize, exchange: Exchange, bytes: u32) -> Self {
        let n = members.len() as u64;
        Self::new(members, terminals, exchange, Vec::new(), bytes, n * n.saturating_sub(1))
    }

    /// All to all with [`Exchange::Random`] orders.
    pub fn in_random_order(members: &[u32], terminals: usize, bytes: u32, seed: u64) -> Self {
        let (n, mut rng) = (members.len() as u32, Rng::new(seed));
        let mut table = Vec::with_capacity(members.len() * members.len());
        for _ in members {
            let first = table.len();
            table.extend(1..n);
            rng.shuffle(&mut table[first..]);
        }
        let messages = u64::from(n) * u64::from(n.saturating_sub(1));
        Self::new(members, terminals, Exchange::Random, table, bytes, messages)
    }

    /// One message of `bytes` from each of `members` to `to` at the same place; none to itself.
    pub fn once(members: &[u32], terminals: usize, to: Vec<u32>, bytes: u32) -> Self {
        let messages = members.iter().zip(&to).filter(|(a, b)| a != b).count() as u64;
        Self::new(members, terminals, Exchange::Once, to, bytes, messages)
    }

    fn new(
        members: &[u32],
        terminals: usize,
        exchange: Exchange,
        table: Vec<u32>,
        bytes: u32,
        messages: u64,
    ) -> Self {
        let bytes = bytes.max(1);
        let mut place = vec![u32::MAX; terminals];
        members.iter().enumerate().for_each(|(i, t)| place[*t as usize] = i as u32);
        let expected = messages * u64::from(bytes);
        let finished = (expected == 0).then_some(0);
        let (members, step, got) = (members.to_vec(), vec![0; members.len()], vec![0; members.len()]);
        Self { members, place, exchange, table, step, got, bytes, expected, received: 0, finished }
    }

    /// Payload of the whole exchange.
    pub fn total_bytes(&self) -> u64 {
        self.expected
    }
    /// Payload consumed so far.
    pub fn received_bytes(&self) -> u64 {
        self.received
    }
    /// Tick at which the last byte was consumed.
    pub fn finished(&self) -> Option<u64> {
        self.finished
    }
    /// Participants.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    fn destination(&self, place: u32, step: u32) -> Option<u32> {
        let n = self.members.len() as u32;
        let shift = match self.exchange {
            Exchange::Once => {
                let to = *self.table.get(place as usize)?;
                return (step == 0 && to != self.members[place as usize]).then_some(to);
            }
            _ if step + 1 >= n => return None,
            Exchange::Random => self.table[(place * (n - 1) + step) as usize],
            Exchange::Pairwise if n.is_power_of_two() => ((place ^ (step + 1)) + n - place) % n,
            Exchange::Linear | Exchange::Pairwise => step + 1,
            Exchange::Shift if step % 2 == 0 => step / 2 + 1,
            Exchange::Shift => n - (step / 2 + 1),
        };
        // Both are below n: no division.
        let to = place + shift;
        Some(self.members[(if to < n { to } else { to - n }) as usize])
    }
}

impl Traffic for Script {
    fn next(&mut self, host: u32, now: u64) -> Next {
        let place = self.place[host as usize];
        if place == u32::MAX {
            return Next::Idle;
        }
        let step = self.step[place as usize];
        let waits = self.exchange == Exchange::Pairwise;
        if waits && self.got[place as usize] < u64::from(step) * u64::from(self.bytes) {
            return Next::Idle;
        }
        match self.destination(place, step) {
            None => Next::Idle,
            Some(dst) => {
                self.step[place as usize] += 1;
                Next::Send(Message { dst, bytes: self.bytes, tag: 0, born: now })
            }
        }
    }
    fn delivered(&mut self, delivery: &Delivery, now: u64, wake: &mut Vec<u32>) {
        if self.exchange == Exchange::Pairwise {
            let place = self.place[delivery.dst as usize] as usize;
            self.got[place] += u64::from(delivery.bytes);
            if self.got[place] >= u64::from(self.step[place]) * u64::from(self.bytes) {
                wake.push(delivery.dst);
            }
        }
        self.received += u64::from(delivery.bytes);
        if self.received == self.expected {
            self.finished = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_exchanges_once_in_any_order() {
        for exchange in [Exchange::Shift, Exchange::Linear, Exchange::Pairwise, Exchange::Random] {
            for n in [2u32, 3, 4, 7, 8, 10] {
                let members: Vec<u32> = (0..n).map(|i| 2 * i + 1).collect();
                let terminals = 2 * n as usize + 1;
                let script = match exchange {
                    Exchange::Random => Script::in_random_order(&members, terminals, 8, 3),
                    _ => Script::all_to_all(&members, terminals, exchange, 8),
                };
                assert_eq!(script.total_bytes(), u64::from(n * (n - 1)) * 8);
                for place in 0..n {
                    let mut to: Vec<u32> = (0..).map_while(|step| script.destination(place, step)).collect();
                    to.sort_unstable();
                    let others: Vec<u32> =
                        members.iter().copied().filter(|t| *t != members[place as usize]).collect();
                    assert_eq!(to, others, "{exchange:?} of {n}");
                }
            }
        }
    }

    #[test]
    fn shifts_grow_in_both_directions() {
        let members: Vec<u32> = (0..8).collect();
        let script = Script::all_to_all(&members, 8, Exchange::Shift, 1);
        let to: Vec<u32> = (0..).map_while(|step| script.destination(0, step)).collect();
        assert_eq!(to, [1, 7, 2, 6, 3, 5, 4]);
    }
}
