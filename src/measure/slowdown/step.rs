//! One step of all jobs: how long each job's flows take.

use crate::model::Pattern;

/// A host takes in a tenth less than a cable brings.
const CONSUMPTION: f32 = 1.1;
/// VLs that can be told apart: 15, rounded up.
const LANES: usize = 16;
/// How much longer than the hosts' cables the steps of a job that is alone take, when its ranks drift apart as those of
/// many jobs do.
const APART: f64 = 0.5;

/// What of the average counts where few others are there, if messages meet in each step.
const MEETING_ALONE: f64 = 0.5;

/// The flows of a step in flat arrays. The last hop's sink is the receiving terminal.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Channels in order, of one flow after the other; `lanes` likewise.
    hops: Vec<u32>,
    lanes: Vec<u8>,
    /// Where the hops of each flow end.
    ends: Vec<u32>,
    /// Receiving terminal and group by flow.
    sinks: Vec<u32>,
    jobs: Vec<u32>,
    /// Group of each message that stays on its terminal: it takes no time on the fabric.
    stays: Vec<u32>,
}

impl Flows {
    /// Takes off all flows but the first `n`, and all messages that stay.
    pub(super) fn truncate(&mut self, n: usize) {
        let hops = if n == 0 { 0 } else { self.ends[n - 1] as usize };
        self.hops.truncate(hops);
        self.lanes.truncate(hops);
        [&mut self.ends, &mut self.sinks, &mut self.jobs].into_iter().for_each(|v| v.truncate(n));
        self.stays.clear();
    }

    /// A message from a terminal to itself: between ranks of one node.
    pub(super) fn stay(&mut self, job: usize) {
        self.stays.push(job as u32);
    }

    #[inline]
    pub(super) fn hop(&mut self, channel: u32, lane: u8) {
        self.hops.push(channel);
        self.lanes.push(lane);
    }

    /// The hops since the last flow are one.
    pub(super) fn end(&mut self, job: usize, sink: u32) {
        self.ends.push(self.hops.len() as u32);
        self.sinks.push(sink);
        self.jobs.push(job as u32);
    }

    pub(super) fn len(&self) -> usize {
        self.sinks.len()
    }

    /// Hops of all flows together.
    pub(super) fn all_hops(&self) -> u64 {
        self.hops.len() as u64
    }

    pub(super) fn job(&self, flow: usize) -> usize {
        self.jobs[flow] as usize
    }

    #[inline]
    fn range(&self, flow: usize) -> std::ops::Range<usize> {
        let start = if flow == 0 { 0 } else { self.ends[flow - 1] };
        start as usize..self.ends[flow] as usize
    }

    pub(super) fn hops(&self, flow: usize) -> &[u32] {
        &self.hops[self.range(flow)]
    }

    /// Number of the lane of a hop among those of all channels.
    #[inline]
    fn place(&self, hop: usize) -> usize {
        self.hops[hop] as usize * LANES + usize::from(self.lanes[hop])
    }
}

/// What the delays of flows make of a job's time. The constants are those that order the board's tables
/// best (docs/experiments.md).
#[derive(Debug, Clone, Copy)]
pub(super) struct Law {
    /// Share of the others in a lane that a flow waits for.
    waits: f32,
    /// Weight of the average traffic of all jobs: they drift.
    drifts: f32,
    /// Weight of the slowest flow of a step; the rest is that of the mean.
    slowest: f64,
    /// Simulated times grow as this power of the score.
    power: f64,
    /// Whether ranks meet all others in turn.
    pub(super) is_long: bool,
}

/// Long exchanges: a rank that is late in one step catches up in the next.
const EXCHANGE: Law = Law { waits: 1.0, drifts: 2.0, slowest: 0.3, power: 0.5, is_long: true };
/// Few steps, or the same step again: all wait for the slowest.
const ROUND: Law = Law { waits: 0.2, drifts: 1.0, slowest: 0.7, power: 0.6, is_long: false };
/// Few steps in which ranks meet those that they met before.
const MEETING: Law = Law { waits: 1.0, drifts: 1.0, slowest: 0.5, power: 0.5, is_long: false };

impl Law {
    pub(super) fn of(pattern: Pattern) -> Self {
        match pattern {
            Pattern::Linear | Pattern::Shift | Pattern::Pairwise | Pattern::Random => EXCHANGE,
            Pattern::Permutations | Pattern::Groups(_) | Pattern::RailAllToAll(_) => EXCHANGE,
            Pattern::Halo(_) | Pattern::Doubling => MEETING,
            Pattern::Neighbor | Pattern::Ring | Pattern::DoubleTree | Pattern::Hierarchical(_) => ROUND,
            Pattern::Halving | Pattern::Bruck | Pattern::Binomial => ROUND,
        }
    }

    /// How much a mean flow of jobs that are never in step counts beside one of those that may be.
    pub(super) fn of_others(&self) -> f32 {
        (1.0 + self.drifts) / self.drifts
    }

    /// The same for jobs whose ranks are all in the same step.
    pub(super) fn in_step(self) -> Self {
        Self { drifts: 0.0, ..self }
    }

    /// How much of the average traffic counts for a group, from the mean score of its steps [in step](Self::in_step), 0..=1:
    /// what sets its ranks apart is that messages meet, or that others are everywhere.
    pub(super) fn set_apart(score: f64, crowd: f64) -> f64 {
        let meet = ((score / f64::from(CONSUMPTION) - 1.0) / APART).clamp(0.0, 1.0);
        (MEETING_ALONE * meet).max(crowd)
    }

    /// The same where each step takes so many times what the hosts' cables need.
    pub(super) fn slowdown_at(&self, steps: f64) -> f64 {
        self.slowdown(steps * f64::from(CONSUMPTION))
    }

    /// Time of the exchange beside what the hosts' cables need, from the mean score of its steps.
    pub(super) fn slowdown(&self, score: f64) -> f64 {
        (score / f64::from(CONSUMPTION)).max(1.0).powf(self.power)
    }
}

/// Scratch of one thread.
pub(super) struct Room {
    /// Flows of the step by channel, then by terminal.
    count: Vec<u32>,
    channels: usize,
    /// By channel and lane: sum and largest of what its flows meet after the channel.
    sum: Vec<f32>,
    most: Vec<f32>,
    /// Largest share from each hop to the sink, as [`Flows::hops`].
    after: Vec<f32>,
}

impl Room {
    /// For so many channels and terminals.
    pub(super) fn new([channels, terminals]: [usize; 2]) -> Self {
        Self {
            count: vec![0; channels + terminals],
            channels,
            sum: vec![0.0; channels * LANES],
            most: vec![0.0; channels * LANES],
            after: Vec::new(),
        }
    }

    /// The score of a step by job, 0 for those without a flow in it. `average` flows by channel.
    pub(super) fn delays(&mut self, step: &Flows, law: Law, jobs: usize, average: &[f32]) -> Vec<f64> {
        self.add(step, 1);
        self.shares(step, law, average);
        let (mut sum, mut slowest, mut flows) = (vec![0.0f64; jobs], vec![0.0f64; jobs], vec![0u32; jobs]);
        for flow in 0..step.len() {
            let (job, delay) = (step.job(flow), f64::from(self.delay(step, flow, law)));
            sum[job] += delay;
            slowest[job] = slowest[job].max(delay);
            flows[job] += 1;
        }
        step.stays.iter().for_each(|job| flows[*job as usize] += 1);
        self.add(step, u32::MAX);
        let mean = |job: usize| sum[job] / f64::from(flows[job].max(1));
        (0..jobs).map(|job| mean(job) * (1.0 - law.slowest) + slowest[job] * law.slowest).collect()
    }

    /// Most flows of the step on a channel that a group uses.
    pub(super) fn crowd(&mut self, step: &Flows, job: usize) -> u32 {
        self.add(step, 1);
        let own = (0..step.len()).filter(|flow| step.job(*flow) == job);
        let most = own.flat_map(|flow| step.hops(flow)).map(|c| self.count[*c as usize]).max();
        self.add(step, u32::MAX);
        most.unwrap_or(0)
    }

    /// Counts the flows, or takes them off again and clears the lanes.
    fn add(&mut self, step: &Flows, one: u32) {
        for flow in 0..step.len() {
            let sink = self.channels + step.sinks[flow] as usize;
            self.count[sink] = self.count[sink].wrapping_add(one);
            for i in step.range(flow) {
                let c = step.hops[i] as usize;
                self.count[c] = self.count[c].wrapping_add(one);
                let lane = step.place(i);
                (self.sum[lane], self.most[lane]) = (0.0, 0.0);
            }
        }
    }

    /// What a flow meets at its sink.
    fn at_sink(&self, step: &Flows, flow: usize) -> f32 {
        CONSUMPTION * self.count[self.channels + step.sinks[flow] as usize] as f32
    }

    /// What each flow meets from each hop on, and what that makes of the lanes.
    fn shares(&mut self, step: &Flows, law: Law, average: &[f32]) {
        self.after.clear();
        self.after.resize(step.hops.len(), 0.0);
        for flow in 0..step.len() {
            let mut most = self.at_sink(step, flow);
            for i in step.range(flow).rev() {
                let (c, lane) = (step.hops[i] as usize, step.place(i));
                self.sum[lane] += most;
                self.most[lane] = self.most[lane].max(most);
                most = most.max(self.count[c] as f32 + law.drifts * average[c]);
                self.after[i] = most;
            }
        }
    }

    fn delay(&self, step: &Flows, flow: usize, law: Law) -> f32 {
        let range = step.range(flow);
        if range.is_empty() {
            return self.at_sink(step, flow);
        }
        let waits = |i: usize| {
            let lane = step.place(i);
            self.most[lane] + law.waits * (self.sum[lane] - self.most[lane])
        };
        let first = self.after[range.start];
        range.map(waits).fold(first, f32::max)
    }
}
