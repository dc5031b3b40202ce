//! Finite traffic: each terminal sends its messages of an exchange, one after the other.

use super::{Delivery, Message, Next, Traffic};
use crate::model::rng::Rng;
use crate::model::{Adapters, Partners, Pattern, Phase};

/// Steps that are left of a longer exchange of which only some are done.
const FEWEST_STEPS: u32 = 8;

/// A finite exchange between participants; every terminal sends its messages one after the other.
/// Places are positions among the participants.
#[derive(Debug, Clone)]
pub struct Script {
    /// Terminals by place.
    members: Vec<u32>,
    /// Place by terminal; `u32::MAX` for those that take no part.
    place: Vec<u32>,
    order: Order,
    /// What each place does next.
    turns: Vec<Turn>,
    /// Bytes consumed, by place.
    got: Vec<u64>,
    expected: u64,
    received: u64,
    finished: Option<u64>,
}

/// Who sends what, in which order.
#[derive(Debug, Clone)]
enum Order {
    /// The phases of a pattern; in those that wait, who has received less than was sent to it in the
    /// phases before does not begin.
    Phases { phases: Vec<Sends>, waits: bool },
    /// Shifts, `each` for each place, and the bytes of each message.
    Own { shifts: Vec<u32>, each: u32, bytes: u32 },
    /// Receiving place of one message, by place; itself for none.
    Once { to: Vec<u32>, bytes: u32 },
    /// Receiving terminals, so many for each of the first places.
    Between { to: Vec<u32>, each: u32, bytes: u32 },
}

/// A phase: the bytes of each of its messages, and how often it is done.
#[derive(Debug, Clone)]
struct Sends {
    partners: Partners,
    bytes: u32,
    times: u32,
}

/// Where a place is in its order.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    phase: u32,
    /// Times that the phase is done.
    done: u32,
    /// Bytes that have been sent to it before this.
    due: u64,
}

impl Script {
    /// An exchange in a pattern; the largest of its messages is of `bytes`. `seed` draws the orders of
    /// [`Pattern::Random`]. `terminals` is that of the network.
    pub fn exchange(members: &[u32], terminals: usize, pattern: Pattern, bytes: u32, seed: u64) -> Self {
        Self::among((members, Adapters::default()), terminals, pattern, (bytes, 1), seed)
    }

    /// The same where nodes have several of the members each, and of `every` steps in a row one is done, which the
    /// seed draws.
    pub fn among(
        (members, adapters): (&[u32], Adapters),
        terminals: usize,
        pattern: Pattern,
        (bytes, every): (u32, u32),
        seed: u64,
    ) -> Self {
        let (n, bytes) = (members.len() as u32, bytes.max(1));
        if pattern == Pattern::Random && adapters.is_default() {
            let steps = n.saturating_sub(1);
            let each = steps.div_ceil(stride(steps, every));
            let order = Order::Own { shifts: orders(n, each, seed), each, bytes };
            let messages = u64::from(n) * u64::from(each);
            return Self::new(members, terminals, order, messages * u64::from(bytes));
        }
        let phases = some_of(pattern.phases_among(members.len(), adapters), every, seed);
        let size = |p: &Phase| f64::from(p.share) / f64::from(p.times);
        let largest = phases.iter().map(size).fold(0.0, f64::max);
        let sends = |p: Phase| {
            let bytes = (f64::from(bytes) * size(&p) / largest).round().max(1.0) as u32;
            Sends { partners: p.partners, bytes, times: p.times }
        };
        let phases: Vec<Sends> = phases.into_iter().map(sends).collect();
        let of = |p: &Sends| p.partners.pairs().count() as u64 * u64::from(p.bytes) * u64::from(p.times);
        let expected = phases.iter().map(of).sum();
        Self::new(members, terminals, Order::Phases { phases, waits: pattern.waits() }, expected)
    }

    /// One message of `bytes` from each of `members` to `to` at the same place; none to itself.
    pub fn once(members: &[u32], terminals: usize, to: Vec<u32>, bytes: u32) -> Self {
        let bytes = bytes.max(1);
        let messages = members.iter().zip(&to).filter(|(a, b)| a != b).count() as u64;
        Self::new(members, terminals, Order::Once { to, bytes }, messages * u64::from(bytes))
    }

    /// One message of `bytes` from each of `senders` to each of `receivers`, which are others: in an order of its
    /// own that the seed draws, as nobody keeps step with others where files are read and written.
    pub fn between(senders: &[u32], receivers: &[u32], terminals: usize, bytes: u32, seed: u64) -> Self {
        let (bytes, mut rng) = (bytes.max(1), Rng::new(seed));
        let messages = senders.len() as u64 * receivers.len() as u64;
        let mut to = receivers.repeat(senders.len());
        to.chunks_mut(receivers.len().max(1)).for_each(|own| rng.shuffle(own));
        let order = Order::Between { to, each: receivers.len() as u32, bytes };
        Self::new(&[senders, receivers].concat(), terminals, order, messages * u64::from(bytes))
    }

    fn new(members: &[u32], terminals: usize, order: Order, expected: u64) -> Self {
        let mut place = vec![u32::MAX; terminals];
        members.iter().enumerate().for_each(|(i, t)| place[*t as usize] = i as u32);
        let finished = (expected == 0).then_some(0);
        let (turns, got) = (vec![Turn::default(); members.len()], vec![0; members.len()]);
        Self { members: members.to_vec(), place, order, turns, got, expected, received: 0, finished }
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

    /// The next message of a place, receiving terminal and bytes, if it may be sent already.
    fn message(&mut self, place: usize) -> Option<(u32, u32)> {
        let (n, turn) = (self.members.len() as u32, &mut self.turns[place]);
        match &self.order {
            Order::Once { to, bytes } => {
                let to = *to.get(place)?;
                let first = std::mem::replace(&mut turn.phase, 1) == 0;
                (first && to != self.members[place]).then_some((to, *bytes))
            }
            Order::Between { to, each, bytes } => {
                if turn.phase >= *each {
                    return None;
                }
                let to = *to.get(place * *each as usize + turn.phase as usize)?;
                turn.phase += 1;
                Some((to, *bytes))
            }
            Order::Own { shifts, each, bytes } => {
                if turn.phase >= *each {
                    return None;
                }
                // Both are below n: no division.
                let to = place as u32 + shifts[place * *each as usize + turn.phase as usize];
                turn.phase += 1;
                Some((self.members[(if to < n { to } else { to - n }) as usize], *bytes))
            }
            Order::Phases { phases, waits } => loop {
                let phase = phases.get(turn.phase as usize)?;
                let to = phase.partners.to(place as u32);
                if to.is_some() && *waits && self.got[place] < turn.due {
                    return None;
                }
                turn.end(phase, place as u32);
                if let Some(to) = to {
                    return Some((self.members[to as usize], phase.bytes));
                }
            },
        }
    }
}

impl Turn {
    /// A phase is done once more.
    fn end(&mut self, phase: &Sends, place: u32) {
        if phase.partners.from(place).is_some() {
            self.due += u64::from(phase.bytes);
        }
        self.done += 1;
        if self.done == phase.times {
            (self.phase, self.done) = (self.phase + 1, 0);
        }
    }
}

/// `each` of `n - 1` shifts for each of `n` places, in an order of its own.
fn orders(n: u32, each: u32, seed: u64) -> Vec<u32> {
    let (mut rng, each) = (Rng::new(seed), each as usize);
    let mut shifts = Vec::with_capacity(n as usize * each);
    let mut all: Vec<u32> = Vec::with_capacity(n as usize);
    for _ in 0..n {
        all.clear();
        all.extend(1..n);
        rng.draw(&mut all, each);
        shifts.extend_from_slice(&all[all.len() - each..]);
    }
    shifts
}

/// `every`, or fewer: so that [`FEWEST_STEPS`] are left, if there are as many. An exchange of few has nothing to spare.
fn stride(steps: u32, every: u32) -> u32 {
    every.min(steps / FEWEST_STEPS).max(1)
}

/// One of `every` steps in a row, which the seed draws; of a phase that is done many times as many fewer.
fn some_of(phases: Vec<Phase>, every: u32, seed: u64) -> Vec<Phase> {
    let steps: u32 = phases.iter().map(|phase| phase.times).sum();
    let every = stride(steps, every);
    if every == 1 {
        return phases;
    }
    let mut rng = Rng::new(seed);
    let one_of = |row: &[Phase]| {
        let mut phase = row[rng.below(row.len())].clone();
        let times = phase.times.div_ceil(every);
        phase.share *= times as f32 / phase.times as f32;
        phase.times = times;
        phase
    };
    let many = phases.iter().any(|phase| phase.times > 1);
    phases.chunks(if many { 1 } else { every as usize }).map(one_of).collect()
}

impl Traffic for Script {
    fn next(&mut self, host: u32, now: u64) -> Next {
        let place = self.place[host as usize];
        if place == u32::MAX {
            return Next::Idle;
        }
        match self.message(place as usize) {
            None => Next::Idle,
            Some((dst, bytes)) => Next::Send(Message { dst, bytes, tag: 0, born: now }),
        }
    }
    fn delivered(&mut self, delivery: &Delivery, now: u64, wake: &mut Vec<u32>) {
        if let Order::Phases { waits: true, .. } = self.order {
            let place = self.place[delivery.dst as usize] as usize;
            self.got[place] += u64::from(delivery.bytes);
            if self.got[place] >= self.turns[place].due {
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

    /// All that is sent, by place, as if nobody ever waited.
    fn sent(members: &[u32], terminals: usize, pattern: Pattern) -> (u64, Vec<Vec<u32>>) {
        let mut script = Script::exchange(members, terminals, pattern, 8, 3);
        script.got.fill(u64::MAX);
        let all = |place| std::iter::from_fn(|| script.message(place).map(|m| m.0)).collect();
        let messages = (0..members.len()).map(all).collect();
        (script.total_bytes(), messages)
    }

    #[test]
    fn every_pair_exchanges_once_in_any_order() {
        for pattern in [Pattern::Shift, Pattern::Linear, Pattern::Pairwise, Pattern::Random] {
            for n in [2u32, 3, 4, 7, 8, 10] {
                let members: Vec<u32> = (0..n).map(|i| 2 * i + 1).collect();
                let (bytes, messages) = sent(&members, 2 * n as usize + 1, pattern);
                assert_eq!(bytes, u64::from(n * (n - 1)) * 8);
                for (place, mut to) in messages.into_iter().enumerate() {
                    to.sort_unstable();
                    let others: Vec<u32> = members.iter().copied().filter(|t| *t != members[place]).collect();
                    assert_eq!(to, others, "{pattern} of {n}");
                }
            }
        }
    }

    /// All that is sent by places of a part of an exchange among 65.
    fn part(pattern: Pattern, every: u32) -> (u64, Vec<Vec<u32>>) {
        let members: Vec<u32> = (0..65).collect();
        let mut script = Script::among((&members, Adapters::default()), 65, pattern, (8, every), 1);
        script.got.fill(u64::MAX);
        let all = |place| std::iter::from_fn(|| script.message(place).map(|m| m.0)).collect();
        let messages = (0..65).map(all).collect();
        (script.total_bytes(), messages)
    }

    #[test]
    fn a_part_of_an_exchange_has_the_same_steps_for_all() {
        let whole = part(Pattern::Linear, 1);
        let (bytes, messages) = part(Pattern::Linear, 4);
        assert_eq!((bytes, messages[0].len()), (65 * 16 * 8, 16));
        let steps: Vec<u32> = messages[0].clone();
        for (i, step) in steps.iter().enumerate() {
            assert!(
                (4 * i as u32..4 * i as u32 + 4).contains(&(step - 1)),
                "one of each four, in their order"
            );
        }
        let shifted = |place: u32| steps.iter().map(|by| (place + by) % 65).collect::<Vec<_>>();
        assert!((0..65).all(|place| messages[place as usize] == shifted(place)));
        assert!(
            steps.windows(2).any(|two| two[1] - two[0] != 4),
            "drawn, as steps of one size are much alike"
        );
        assert_eq!(whole.1[0].len(), 64);
    }

    #[test]
    fn a_part_of_a_ring_goes_around_less_and_short_exchanges_stay_whole() {
        assert_eq!((part(Pattern::Ring, 1).1[3].len(), part(Pattern::Ring, 4).1[3].len()), (128, 32));
        let halo = Pattern::Halo(crate::model::pattern::Grid::SPACE);
        assert_eq!(part(halo, 4), part(halo, 1));
        let (bytes, messages) = part(Pattern::Random, 4);
        assert_eq!(bytes, 65 * 16 * 8);
        let mut to = messages[2].clone();
        to.sort_unstable();
        to.dedup();
        assert!(to.len() == 16 && !to.contains(&2), "each partner once");
        assert_eq!(part(Pattern::Linear, 40).1[0].len(), 8, "so many are always left");
    }

    #[test]
    fn each_sender_reaches_each_receiver_in_an_order_of_its_own() {
        let receivers = [0, 1, 5, 3, 7, 6, 8];
        let mut script = Script::between(&[4, 2], &receivers, 9, 8, 1);
        assert_eq!(script.total_bytes(), 2 * 7 * 8);
        let mut all = |place| std::iter::from_fn(|| script.message(place).map(|m| m.0)).collect::<Vec<_>>();
        let [mut one, mut other] = [all(0), all(1)];
        assert_ne!(one, other);
        one.sort_unstable();
        other.sort_unstable();
        assert_eq!((one, other), (vec![0, 1, 3, 5, 6, 7, 8], vec![0, 1, 3, 5, 6, 7, 8]));
        assert!(all(2).is_empty());
    }

    #[test]
    fn shifts_grow_in_both_directions() {
        let members: Vec<u32> = (0..8).collect();
        assert_eq!(sent(&members, 8, Pattern::Shift).1[0], [1, 7, 2, 6, 3, 5, 4]);
    }

    #[test]
    fn a_rank_passes_on_only_what_has_reached_it() {
        let members = [4, 5, 6];
        let mut script = Script::exchange(&members, 8, Pattern::Ring, 100, 0);
        let to = |next: Next| if let Next::Send(m) = next { Some(m.dst) } else { None };
        assert_eq!(to(script.next(4, 0)), Some(5));
        assert_eq!(to(script.next(4, 0)), None);
        let mut wake = Vec::new();
        let part = |bytes| Delivery { src: 6, dst: 4, bytes, tag: 0, last: true, born: 0 };
        script.delivered(&part(60), 1, &mut wake);
        assert_eq!((wake.as_slice(), to(script.next(4, 1))), (&[][..], None));
        script.delivered(&part(40), 2, &mut wake);
        assert_eq!((wake.as_slice(), to(script.next(4, 2))), (&[4][..], Some(5)));
    }
}
