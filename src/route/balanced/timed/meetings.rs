//! How many messages of each step of a job are on each channel, and what that costs.

use super::super::net::Net;
use super::exchange::Unit;

/// No counters yet.
const NONE: u32 = u32::MAX;
/// Counters that lie together by switch, at most: more of them would not stay near.
const MOST_TOGETHER: usize = 1 << 21;
/// Slots are rounded up to so many.
const AT_ONCE: usize = 4;

/// The messages of one unit. Two things cost, on each channel:
///
/// * in each step, the square of the messages beyond the first, times the step's share;
/// * for each pair of units, the product of the shares of time in which they use the channel;
///
/// each times what the unit is worth, the mean of both for a pair.
pub(super) struct Meetings {
    /// By channel.
    uses: Vec<Use>,
    /// Where the counters of each channel are.
    places: Vec<Place>,
    /// Channels with counters.
    used: Vec<u32>,
    count: Vec<u16>,
    /// What one message more in each step costs on each channel, but for what the unit is worth; places as those of the
    /// counters.
    one_more: Vec<f32>,
    /// The time at which messages of any unit were last added to each channel.
    joined: Vec<u32>,
    /// Goes on with each destination that is looked at.
    pub(super) time: u32,
}

/// How a channel is used. Together, because they are asked for together.
#[derive(Clone)]
struct Use {
    /// Share of time in which this unit uses it.
    own: f32,
    /// The same of all units.
    all: f32,
    /// The same, each unit times its worth.
    worth: f32,
}

/// Where counters are: that of the first step, and how far that of the next one is from it.
#[derive(Clone, Copy)]
struct Place {
    at: u32,
    stride: u32,
}

impl Place {
    const NONE: Self = Self { at: NONE, stride: 1 };

    #[inline]
    fn of(self, step: usize) -> usize {
        self.at as usize + step * self.stride as usize
    }
}

impl Meetings {
    pub(super) fn new(channels: usize) -> Self {
        let none = Use { own: 0.0, all: 0.0, worth: 0.0 };
        Self {
            uses: vec![none; channels],
            places: vec![Place::NONE; channels],
            used: Vec::new(),
            count: Vec::new(),
            one_more: Vec::new(),
            joined: vec![0; channels],
            time: 0,
        }
    }

    /// Forgets the counters of a unit. O(channels it used).
    pub(super) fn clear(&mut self) {
        for c in self.used.drain(..) {
            self.places[c as usize] = Place::NONE;
            self.uses[c as usize].own = 0.0;
        }
        self.count.clear();
        self.one_more.clear();
    }

    /// Lets the counters of all channels that leave a switch where a unit sends lie together, step by step, so that
    /// [`Meetings::all_to_join`] sees them at once. O(channels of these switches × steps).
    pub(super) fn put_together(&mut self, unit: &Unit, net: &Net) {
        let width = unit.weight.len();
        let stride = |s: u32| net.degree(s as usize).next_multiple_of(AT_ONCE);
        if unit.sending.iter().map(|s| stride(*s)).sum::<usize>() * width > MOST_TOGETHER {
            return;
        }
        for s in &unit.sending {
            let (at, stride) = (self.count.len(), stride(*s));
            for (slot, c) in net.out(*s as usize).enumerate() {
                self.places[c] = Place { at: (at + slot) as u32, stride: stride as u32 };
                self.used.push(c as u32);
            }
            self.grow(stride * width);
        }
    }

    fn grow(&mut self, more: usize) {
        self.count.resize(self.count.len() + more, 0);
        self.one_more.resize(self.count.len(), 0.0);
    }

    /// Adds to what all units use.
    #[inline]
    pub(super) fn share(&mut self, unit: &Unit, channel: usize, share: f32) {
        let of = &mut self.uses[channel];
        of.all += share;
        of.worth += share * unit.worth;
    }

    /// Adds messages of these steps to a channel, which [`Meetings::share`] knows of.
    pub(super) fn count(&mut self, unit: &Unit, channel: usize, steps: &[u32], share: f32) {
        let width = unit.weight.len();
        self.uses[channel].own += share;
        if self.places[channel].at == NONE {
            self.places[channel] = Place { at: self.count.len() as u32, stride: 1 };
            self.used.push(channel as u32);
            self.grow(width);
        }
        self.add(unit, channel, steps, 1);
    }

    /// Changes the counters of a channel.
    #[inline]
    fn add(&mut self, unit: &Unit, channel: usize, steps: &[u32], change: i16) {
        let place = self.places[channel];
        for s in steps.iter().map(|s| *s as usize) {
            let count = &mut self.count[place.of(s)];
            *count = count.wrapping_add_signed(change);
            self.one_more[place.of(s)] = unit.weight[s] * (2.0 * f32::from(*count) - 1.0).max(0.0);
        }
    }

    /// Adds messages to a channel, for all units to see.
    pub(super) fn join(&mut self, unit: &Unit, channel: usize, steps: &[u32], share: f32) {
        self.count(unit, channel, steps, share);
        self.share(unit, channel, share);
        self.joined[channel] = self.time;
    }

    /// Whether messages were added to a channel after a time.
    #[inline]
    pub(super) fn is_fuller(&self, channel: usize, since: u32) -> bool {
        self.joined[channel] > since
    }

    /// Takes such messages away.
    pub(super) fn leave(&mut self, unit: &Unit, channel: usize, steps: &[u32], share: f32) {
        self.uses[channel].own -= share;
        self.share(unit, channel, -share);
        self.add(unit, channel, steps, -1);
    }

    /// Share of time in which other units use a channel: the least that joining it costs, for a share of 1.
    #[inline]
    pub(super) fn beside(&self, unit: &Unit, channel: usize) -> f32 {
        let Use { own, all, worth } = self.uses[channel];
        let others = (all - own).max(0.0);
        let worth = (worth - unit.worth * own).max(0.0);
        0.5 * (unit.worth * others + worth)
    }

    /// What it would cost to add messages of these steps.
    #[inline]
    pub(super) fn to_join(&self, unit: &Unit, channel: usize, steps: &[u32], share: f32) -> f32 {
        let beside = share * self.beside(unit, channel);
        let place = self.places[channel];
        if place.at == NONE {
            return beside;
        }
        unit.worth * steps.iter().map(|s| self.one_more[place.of(*s as usize)]).sum::<f32>() + beside
    }

    /// What it would cost to add messages of these steps to each channel that leaves a switch, by slot, but for what
    /// other units put there. Nothing where its counters do not lie together.
    pub(super) fn all_to_join(&self, unit: &Unit, first: usize, steps: &[u32], costs: &mut Vec<f32>) {
        let Place { at, stride } = self.places[first];
        costs.clear();
        if stride == 1 {
            return;
        }
        costs.resize(stride as usize, 0.0);
        for s in steps {
            let row = &self.one_more[at as usize + *s as usize * stride as usize..][..stride as usize];
            costs.iter_mut().zip(row).for_each(|(cost, one_more)| *cost += one_more);
        }
        costs.iter_mut().for_each(|cost| *cost *= unit.worth);
    }

    /// What is gained by taking messages of these steps away.
    #[inline]
    pub(super) fn to_leave(&self, unit: &Unit, channel: usize, steps: &[u32], share: f32) -> f32 {
        let place = self.places[channel];
        // The last one costs two weights less than one more would.
        let one = |s: &u32| (self.one_more[place.of(*s as usize)] - 2.0 * unit.weight[*s as usize]).max(0.0);
        unit.worth * steps.iter().map(one).sum::<f32>() + share * self.beside(unit, channel)
    }

    /// Most messages of one step of a unit on one channel, and what those beyond the first cost, where no counters lie
    /// together. O(channels it uses × steps).
    pub(super) fn met(&self, unit: &Unit) -> (u16, f32) {
        let of_channels = self.count.chunks(unit.weight.len().max(1));
        let all = || of_channels.clone().flat_map(|count| count.iter().zip(&unit.weight));
        let beyond = |(count, weight): (&u16, &f32)| weight * f32::from(count.saturating_sub(1)).powi(2);
        (all().map(|(count, _)| *count).max().unwrap_or(0), all().map(beyond).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::super::exchange;
    use super::*;
    use crate::lab::board::mix;
    use crate::lab::generate::generate;
    use crate::model::rng::Rng;
    use crate::model::{Demand, Storage};

    /// Where counters are changes no cost.
    #[test]
    fn counters_that_lie_together_say_what_others_say() {
        let fabric = generate("random:12,36,40,seed=3").unwrap();
        let net = Net::new(&fabric);
        let demand = Demand::new(mix(&fabric, 5, &[9, 16]), Storage::default());
        let home: Vec<u32> = fabric.terminals().iter().map(|t| t.switch.index() as u32).collect();
        let (_, units) = exchange::units(&demand, &home);
        let [mut apart, mut together] = [(); 2].map(|()| Meetings::new(net.channels()));
        let (mut rng, mut costs, mut seen) = (Rng::new(7), Vec::new(), 0);
        for unit in units.iter().chain(&units) {
            together.put_together(unit, &net);
            for at in (0..unit.dests.len()).flat_map(|d| unit.senders(d)) {
                let (c, steps, share) = (rng.below(net.channels()), unit.steps(at), unit.sender(at).share);
                [&mut apart, &mut together].into_iter().for_each(|m| m.join(unit, c, steps, share));
                let start = unit.sender(at).switch as usize;
                assert!(unit.sending.contains(&(start as u32)));
                together.all_to_join(unit, net.channel(start, 0), steps, &mut costs);
                for (slot, c) in net.out(start).enumerate() {
                    let joins = apart.to_join(unit, c, steps, share);
                    assert_eq!(together.to_join(unit, c, steps, share), joins);
                    assert_eq!(costs[slot] + share * together.beside(unit, c), joins);
                    seen += usize::from(costs[slot] > 0.0);
                }
                assert_eq!(together.to_leave(unit, c, steps, share), apart.to_leave(unit, c, steps, share));
            }
            apart.clear();
            together.clear();
        }
        assert!(seen > 50, "{seen} meetings");
    }
}
