//! How many messages of each step of a job are on each channel, and what that costs.

use super::exchange::Unit;

/// No counters yet.
const NONE: u32 = u32::MAX;

/// The messages of one unit. Two things cost, on each channel:
///
/// * in each step, the square of the messages beyond the first, times the step's share;
/// * for each pair of units, the product of the shares of time in which they use the channel;
///
/// each times what the unit is worth, the mean of both for a pair.
pub(super) struct Meetings {
    /// By channel.
    uses: Vec<Use>,
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
    /// Place of its counters, in units of steps.
    at: u32,
    /// Share of time in which this unit uses it.
    own: f32,
    /// The same of all units.
    all: f32,
    /// The same, each unit times its worth.
    worth: f32,
}

impl Meetings {
    pub(super) fn new(channels: usize) -> Self {
        let none = Use { at: NONE, own: 0.0, all: 0.0, worth: 0.0 };
        Self {
            uses: vec![none; channels],
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
            let of = &mut self.uses[c as usize];
            (of.at, of.own) = (NONE, 0.0);
        }
        self.count.clear();
        self.one_more.clear();
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
        let of = &mut self.uses[channel];
        of.own += share;
        if of.at == NONE {
            of.at = (self.count.len() / width) as u32;
            self.used.push(channel as u32);
            self.count.resize(self.count.len() + width, 0);
            self.one_more.resize(self.count.len(), 0.0);
        }
        self.add(unit, channel, steps, 1);
    }

    /// Changes the counters of a channel.
    #[inline]
    fn add(&mut self, unit: &Unit, channel: usize, steps: &[u32], change: i16) {
        let places = self.places(unit, channel);
        let (count, one_more) = (&mut self.count[places.clone()], &mut self.one_more[places]);
        for s in steps.iter().map(|s| *s as usize) {
            count[s] = count[s].wrapping_add_signed(change);
            one_more[s] = unit.weight[s] * (2.0 * f32::from(count[s]) - 1.0).max(0.0);
        }
    }

    /// Where the counters of a channel are.
    #[inline]
    fn places(&self, unit: &Unit, channel: usize) -> std::ops::Range<usize> {
        let from = self.uses[channel].at as usize * unit.weight.len();
        from..from + unit.weight.len()
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
        let Use { own, all, worth, .. } = self.uses[channel];
        let others = (all - own).max(0.0);
        let worth = (worth - unit.worth * own).max(0.0);
        0.5 * (unit.worth * others + worth)
    }

    /// What it would cost to add messages of these steps.
    #[inline]
    pub(super) fn to_join(&self, unit: &Unit, channel: usize, steps: &[u32], share: f32) -> f32 {
        let beside = share * self.beside(unit, channel);
        if self.uses[channel].at == NONE {
            return beside;
        }
        let one_more = &self.one_more[self.places(unit, channel)];
        unit.worth * steps.iter().map(|s| one_more[*s as usize]).sum::<f32>() + beside
    }

    /// What is gained by taking messages of these steps away.
    #[inline]
    pub(super) fn to_leave(&self, unit: &Unit, channel: usize, steps: &[u32], share: f32) -> f32 {
        let one_more = &self.one_more[self.places(unit, channel)];
        // The last one costs two weights less than one more would.
        let one = |s: &u32| (one_more[*s as usize] - 2.0 * unit.weight[*s as usize]).max(0.0);
        unit.worth * steps.iter().map(one).sum::<f32>() + share * self.beside(unit, channel)
    }

    /// Most messages of one step of a unit on one channel, and what those beyond the first cost. O(channels it uses ×
    /// steps).
    pub(super) fn met(&self, unit: &Unit) -> (u16, f32) {
        let of_channels = self.count.chunks(unit.weight.len().max(1));
        let all = || of_channels.clone().flat_map(|count| count.iter().zip(&unit.weight));
        let beyond = |(count, weight): (&u16, &f32)| weight * f32::from(count.saturating_sub(1)).powi(2);
        (all().map(|(count, _)| *count).max().unwrap_or(0), all().map(beyond).sum())
    }
}
