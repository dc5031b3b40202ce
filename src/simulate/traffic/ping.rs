//! Pairs of terminals that answer each other (RDR paper, section 3).

use super::{Delivery, Message, Next, Traffic};

/// What each pair does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// Rounds, one after the other.
    pub rounds: u32,
    /// Messages that the sender sends before it waits: 1 for ping-pong, 10 in the bulk trial.
    pub messages: u32,
    /// Payload of each.
    pub bytes: u32,
    /// Payload of the answer.
    pub answer: u32,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    to: u32,
    round: u32,
    /// Messages of this round that are sent.
    sent: u32,
    /// Bytes of this round that arrived.
    arrived: u64,
    began: u64,
}

/// One to one: senders send, wait for the receiver's answer, and start again.
#[derive(Debug, Clone)]
pub struct Ping {
    what: Rounds,
    /// By terminal: the pair it sends for.
    sender: Vec<u32>,
    /// By terminal: the pair it answers for.
    receiver: Vec<u32>,
    pairs: Vec<Pair>,
    from: Vec<u32>,
    /// Answers that a terminal has to send.
    owed: Vec<u32>,
    /// Bytes of the answer that arrived, by pair.
    answered: Vec<u32>,
    /// Ticks of each finished round, by pair.
    times: Vec<Vec<u64>>,
}

impl Ping {
    /// From pairs of different terminals, no terminal twice.
    pub fn new(pairs: &[(u32, u32)], terminals: usize, what: Rounds) -> Self {
        let (mut sender, mut receiver) = (vec![u32::MAX; terminals], vec![u32::MAX; terminals]);
        for (i, (from, to)) in pairs.iter().enumerate() {
            sender[*from as usize] = i as u32;
            receiver[*to as usize] = i as u32;
        }
        let pair = |(_, to): &(u32, u32)| Pair { to: *to, round: 0, sent: 0, arrived: 0, began: 0 };
        Self {
            what,
            sender,
            receiver,
            pairs: pairs.iter().map(pair).collect(),
            from: pairs.iter().map(|p| p.0).collect(),
            owed: vec![0; pairs.len()],
            answered: vec![0; pairs.len()],
            times: vec![Vec::new(); pairs.len()],
        }
    }

    /// Who sends to whom.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        self.from.iter().zip(&self.pairs).map(|(from, pair)| (*from, pair.to))
    }

    /// Ticks from the first byte of a round to the last of its answer, by pair and round.
    pub fn times(&self) -> &[Vec<u64>] {
        &self.times
    }
}

impl Traffic for Ping {
    fn next(&mut self, host: u32, now: u64) -> Next {
        let asked = self.receiver[host as usize] as usize;
        if asked < self.pairs.len() && self.owed[asked] > 0 {
            self.owed[asked] -= 1;
            let (dst, bytes) = (self.from[asked], self.what.answer);
            return Next::Send(Message { dst, bytes, tag: asked as u32, born: now });
        }
        let Some(pair) = self.pairs.get_mut(self.sender[host as usize] as usize) else { return Next::Idle };
        if pair.round == self.what.rounds || pair.sent == self.what.messages {
            return Next::Idle;
        }
        if pair.sent == 0 {
            pair.began = now;
        }
        pair.sent += 1;
        Next::Send(Message {
            dst: pair.to,
            bytes: self.what.bytes,
            tag: self.sender[host as usize],
            born: now,
        })
    }

    fn delivered(&mut self, delivery: &Delivery, now: u64, wake: &mut Vec<u32>) {
        let i = delivery.tag as usize;
        let pair = &mut self.pairs[i];
        if delivery.dst == pair.to {
            pair.arrived += u64::from(delivery.bytes);
            if pair.arrived == u64::from(self.what.messages) * u64::from(self.what.bytes) {
                self.owed[i] += 1;
                wake.push(pair.to);
            }
            return;
        }
        self.answered[i] += delivery.bytes;
        if self.answered[i] == self.what.answer {
            self.times[i].push(now - pair.began);
            let to = pair.to;
            *pair = Pair { to, round: pair.round + 1, sent: 0, arrived: 0, began: 0 };
            self.answered[i] = 0;
            wake.push(delivery.dst);
        }
    }
}
