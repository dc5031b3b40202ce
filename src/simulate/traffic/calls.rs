//! Calls between programs that keep their connections: requests and answers on the SL that the caller chose
//! when it connected, whatever tables say since.

use schemars::JsonSchema;
use std::collections::VecDeque;

use super::endpoints::{Endpoints, Held, Leaving};
use super::open::{Destinations, exponential};
use super::{Delivery, Loss, Message, Next, Traffic};
use crate::model::rng::Rng;
use crate::model::{DestId, Tables};

/// Programs that were told their SL and keep no connection for long ask anew before one request in so many.
const ASKS_ANEW: usize = 8;

/// What is called, by whom, and how.
#[derive(Debug, Clone)]
pub struct Calling {
    /// Terminals that take part.
    pub members: Vec<u32>,
    /// Where requests go.
    pub destinations: Destinations,
    /// Payload of a request, and of an answer.
    pub bytes: u32,
    /// Mean ticks from a message that a terminal sends to the next one, answers among them; 0 for no pause.
    pub gap: f64,
    /// Requests that wait at a terminal, at most.
    pub queue: u32,
    /// Share of programs that do not ask which SL to use: half of them send on SL 0, half on one of their own.
    pub untold: f64,
    /// Share of requests that are answered. None, where programs leave.
    pub answers: f64,
    /// What programs do when routes will change ([`Calls::notify`]).
    pub leaving: Leaving,
    /// Whether programs keep each connection for the whole run, and its SL until they come back to base LIDs.
    pub keeps: bool,
    /// Of everything that is drawn.
    pub seed: u64,
}

/// How the program of a terminal chooses its SL. There is one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    /// That of the tables when it connects. Half of these connect once, half ask anew from time to time.
    Told { asks_anew: bool },
    /// One for good.
    Fixed(u8),
}

/// What was sent and what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, serde::Serialize)]
pub struct Counts {
    /// Connections, from caller to called.
    pub connections: u64,
    /// Requests sent.
    pub requests: u64,
    /// Requests that arrived whole.
    pub requests_arrived: u64,
    /// Answers sent.
    pub answers: u64,
    /// Answers that arrived whole.
    pub answers_arrived: u64,
    /// Messages on the SL that the caller was told when it connected.
    pub told: u64,
    /// Those of them that the tables in force would tell another SL by now.
    pub on_old_sl: u64,
    /// Messages on SL 0 of callers that never ask.
    pub on_sl_0: u64,
    /// Messages on an SL that the caller chose itself.
    pub on_own_sl: u64,
    /// Packets that came after one of a later message of the same connection and direction, or after the
    /// last one of their own message.
    pub out_of_order: u64,
    /// Packets that a switch had no entry for.
    pub lost: u64,
    /// Packets lost on a cable that died, or on their way onto it.
    pub lost_on_cable: u64,
}

/// A message on its way.
#[derive(Debug, Clone, Copy)]
struct Flight {
    /// Twice the connection, and 1 more for the answer.
    flow: u32,
    /// Among those of its flow.
    number: u32,
    /// Bytes that have not arrived.
    left: u32,
    sl: u8,
    lid: u8,
    wants_answer: bool,
    /// Its last packet is there.
    is_ended: bool,
    /// One of its packets was lost.
    is_broken: bool,
}

/// Not connected yet.
const NO_SL: u8 = u8::MAX;

/// Open-loop calls. Connection `i * members + j` is that from the program of the i-th to the j-th member.
/// A terminal takes every packet at once and answers before it sends requests of its own.
#[derive(Debug, Clone)]
pub struct Calls {
    what: Calling,
    place: Vec<u32>,
    home: Vec<u32>,
    programs: Vec<Program>,
    /// Of each connection.
    sl: Vec<u8>,
    /// SL that the tables in force tell: `told[home * terminals + destination]`.
    told: Vec<u8>,
    /// Next messages of each place: when made.
    born: Vec<f64>,
    /// Messages sent of each flow, and one more than the newest of which a packet arrived.
    sent: Vec<u32>,
    seen: Vec<u32>,
    /// Connections that each terminal owes an answer on.
    owed: Vec<VecDeque<u32>>,
    flights: Vec<Flight>,
    free: Vec<u32>,
    is_closed: bool,
    endpoints: Endpoints,
    /// Payload that arrived at base and at high LIDs.
    pub(in crate::simulate) bytes: [u64; 2],
    rng: Rng,
    /// What was counted.
    pub counts: Counts,
}

impl Calls {
    /// Between terminals at these switches. Nobody is connected yet. Memory O(members² + switches × terminals).
    pub fn new(what: Calling, home: &[u32], switches: usize) -> Self {
        let mut place = vec![u32::MAX; home.len()];
        what.members.iter().enumerate().for_each(|(i, t)| place[*t as usize] = i as u32);
        let mut rng = Rng::new(what.seed);
        let gap = what.gap * (1.0 + what.answers);
        let born = what.members.iter().map(|_| exponential(&mut rng, gap)).collect();
        let program = |_| match Program::draw(&mut rng, what.untold) {
            Program::Told { .. } if what.keeps => Program::Told { asks_anew: false },
            program => program,
        };
        let programs = what.members.iter().map(program).collect();
        let connections = what.members.len() * what.members.len();
        Self {
            place,
            home: home.to_vec(),
            programs,
            sl: vec![NO_SL; connections],
            told: vec![0; switches * home.len()],
            born,
            sent: vec![0; 2 * connections],
            seen: vec![0; 2 * connections],
            owed: vec![VecDeque::new(); home.len()],
            flights: Vec::new(),
            free: Vec::new(),
            is_closed: false,
            endpoints: Endpoints::new(what.leaving, what.members.len(), what.queue),
            bytes: [0; 2],
            rng,
            counts: Counts::default(),
            what: Calling { gap, ..what },
        }
    }

    /// From now on programs that ask are told the SLs of these tables. O(switches × terminals).
    pub fn tell(&mut self, tables: &Tables) {
        let terminals = self.home.len();
        for dst in 0..terminals {
            for (s, layer) in tables.layers_to(DestId::at(dst)).iter().enumerate() {
                self.told[s * terminals + dst] = if *layer == Tables::NO_LAYER { 0 } else { *layer };
            }
        }
    }

    /// From now on there are no new requests; answers that are owed are still sent.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// A program, by its place, is told to leave base LIDs, or to come back to them with the SLs that the tables
    /// in force tell. Terminals that may send again are pushed to `wake`.
    pub fn notify(&mut self, program: u32, leave: bool, wake: &mut Vec<u32>) {
        for connection in self.endpoints.tell(program, leave) {
            self.moved(connection);
        }
        wake.push(self.what.members[program as usize]);
    }

    /// Programs all of whose connections have done what they were told, since this was asked last.
    pub fn confirmed(&mut self) -> Vec<u32> {
        self.endpoints.take_done()
    }

    /// A connection sends to other LIDs from now on: when it has come back, on the SL of the tables in force.
    fn moved(&mut self, connection: u32) {
        let (lid, _) = self.endpoints.lid(connection);
        if lid == 0 && self.sl[connection as usize] != NO_SL {
            self.sl[connection as usize] = self.told_now(connection);
        }
    }

    /// Caller and called, as places.
    fn ends(&self, connection: u32) -> (usize, usize) {
        let (connection, n) = (connection as usize, self.what.members.len());
        (connection / n, connection % n)
    }

    fn told_now(&self, connection: u32) -> u8 {
        let (from, to) = self.ends(connection);
        let home = self.home[self.what.members[from] as usize] as usize;
        self.told[home * self.home.len() + self.what.members[to] as usize]
    }

    /// Connects, unless that was done before and the program stays with it.
    fn connect(&mut self, connection: u32) {
        let is_new = self.sl[connection as usize] == NO_SL;
        self.counts.connections += u64::from(is_new);
        self.sl[connection as usize] = match self.programs[self.ends(connection).0] {
            Program::Fixed(sl) => sl,
            Program::Told { asks_anew } if is_new || asks_anew && self.rng.below(ASKS_ANEW) == 0 => {
                self.told_now(connection)
            }
            Program::Told { .. } => return,
        };
    }

    /// A message on a connection: a request, or an answer.
    fn send(&mut self, connection: u32, answer: bool, born: u64) -> Next {
        let (lid, high) = self.endpoints.lid(connection);
        let (own, (from, to)) = (self.sl[connection as usize], self.ends(connection));
        let sl = high.unwrap_or(own);
        let counts = &mut self.counts;
        match self.programs[from] {
            Program::Fixed(0) => counts.on_sl_0 += 1,
            Program::Fixed(_) => counts.on_own_sl += 1,
            Program::Told { .. } => counts.told += 1,
        }
        if matches!(self.programs[from], Program::Told { .. }) && self.told_now(connection) != own {
            self.counts.on_old_sl += 1;
        }
        let wants_answer = !answer && self.rng.unit() < self.what.answers;
        let flow = 2 * connection + u32::from(answer);
        let number = self.sent[flow as usize];
        self.sent[flow as usize] += 1;
        self.endpoints.sent(connection);
        let left = self.what.bytes;
        let flight = Flight { flow, number, left, sl, lid, wants_answer, is_ended: false, is_broken: false };
        let tag = match self.free.pop() {
            Some(tag) => {
                self.flights[tag as usize] = flight;
                tag
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        };
        let to = if answer { from } else { to };
        Next::Send(Message { dst: self.what.members[to], bytes: self.what.bytes, tag, born })
    }

    /// Bytes of a message came or were lost; the message, if it was the last of it. A terminal that may send
    /// again is pushed to `wake`.
    fn end(&mut self, tag: u32, bytes: u32, wake: &mut Vec<u32>) -> Option<Flight> {
        let flight = &mut self.flights[tag as usize];
        flight.left -= bytes.min(flight.left);
        if flight.left > 0 {
            return None;
        }
        let flight = *flight;
        self.free.push(tag);
        if self.endpoints.ended(flight.flow / 2) {
            self.moved(flight.flow / 2);
            wake.push(self.what.members[self.ends(flight.flow / 2).0]);
        }
        Some(flight)
    }
}

impl Program {
    fn draw(rng: &mut Rng, untold: f64) -> Self {
        let (kind, sl) = (rng.unit(), rng.below(crate::model::lanes::SLS) as u8);
        match kind {
            _ if kind < untold / 2.0 => Self::Fixed(0),
            _ if kind < untold => Self::Fixed(sl),
            _ => Self::Told { asks_anew: sl % 2 == 0 },
        }
    }
}

impl Traffic for Calls {
    fn next(&mut self, host: u32, now: u64) -> Next {
        if let Some(connection) = self.owed[host as usize].pop_front() {
            self.counts.answers += 1;
            return self.send(connection, true, now);
        }
        let (place, n) = (self.place[host as usize] as usize, self.what.members.len());
        if place >= n {
            return Next::Idle;
        }
        loop {
            if let Some(held) = self.endpoints.take_held(place) {
                self.counts.requests += 1;
                return self.send(held.connection, false, held.born.min(now));
            }
            if self.is_closed || n < 2 || self.endpoints.is_full(place) {
                return Next::Idle;
            }
            let gap = self.what.gap;
            let born = self.born[place].ceil() as u64;
            if gap > 0.0 && born > now {
                return Next::At(born);
            }
            let to = match &self.what.destinations {
                Destinations::Uniform => (place + 1 + self.rng.below(n - 1)) % n,
                Destinations::Fixed(to) => self.place[to[place] as usize] as usize,
            };
            if to == place {
                return Next::Idle;
            }
            let born = if gap > 0.0 {
                let oldest = now as f64 - gap * f64::from(self.what.queue);
                let born = self.born[place].max(oldest);
                self.born[place] = born + exponential(&mut self.rng, gap);
                born.max(0.0) as u64
            } else {
                now
            };
            let connection = (place * n + to) as u32;
            self.connect(connection);
            self.endpoints.hold(Held { connection, born });
        }
    }

    fn sl(&self, message: &Message) -> u8 {
        self.flights[message.tag as usize].sl
    }

    fn lid(&self, message: &Message) -> u8 {
        self.flights[message.tag as usize].lid
    }

    fn delivered(&mut self, delivery: &Delivery, _now: u64, wake: &mut Vec<u32>) {
        let flight = &mut self.flights[delivery.tag as usize];
        self.bytes[usize::from(flight.lid)] += u64::from(delivery.bytes);
        let newest = &mut self.seen[flight.flow as usize];
        self.counts.out_of_order += u64::from(flight.number + 1 < *newest || flight.is_ended);
        *newest = (*newest).max(flight.number + 1);
        flight.is_ended |= delivery.last;
        let ended = self.end(delivery.tag, delivery.bytes, wake);
        let Some(flight) = ended.filter(|f| !f.is_broken) else { return };
        if flight.flow % 2 == 1 {
            self.counts.answers_arrived += 1;
            return;
        }
        self.counts.requests_arrived += 1;
        if flight.wants_answer {
            self.owed[delivery.dst as usize].push_back(flight.flow / 2);
            wake.push(delivery.dst);
        }
    }

    fn lost(&mut self, delivery: &Delivery, why: Loss) {
        match why {
            Loss::NoEntry => self.counts.lost += 1,
            Loss::Cable => self.counts.lost_on_cable += 1,
        }
        self.flights[delivery.tag as usize].is_broken = true;
        self.end(delivery.tag, delivery.bytes, &mut Vec::new());
    }
}

#[cfg(test)]
mod tests;
