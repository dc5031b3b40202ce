//! Whole experiments: run traffic to its end or to a steady state, and say what came out.

use schemars::JsonSchema;
use serde::Serialize;

use super::changes::Changes;
use super::deadlock::Wait;
use super::engine::{Ended, Simulator};
use super::net::Net;
use super::router::Router;
use super::settings::Settings;
use super::traffic::Traffic;
use super::traffic::jobs::Jobs;
use super::traffic::open::{Destinations, Open};
use super::traffic::ping::Ping;
use super::traffic::script::Script;
use super::update::Update;

/// What came out of a run. Rates in Gbyte/s (bytes per nanosecond) of payload.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// Duration: until the last delivery or the deadlock, or of the measuring window.
    pub time_ns: f64,
    /// Payload over duration, all terminals together (thesis Equation 4.2 for an exchange).
    pub throughput: f64,
    /// Packets consumed.
    pub packets: u64,
    /// Payload consumed.
    pub bytes: u64,
    /// Cables taken by packets.
    pub packet_hops: u64,
    /// Mean latency of a packet from the making of its message.
    pub latency_mean_ns: f64,
    /// Half of the packets were not slower.
    pub latency_p50_ns: f64,
    /// 99 % of the packets were not slower.
    pub latency_p99_ns: f64,
    /// Mean number of channels between switches.
    pub mean_hops: f64,
    /// Packets by number of channels.
    pub hops: Vec<u64>,
    /// Share of the time, or of the measuring window, in which the busiest channel between switches sent.
    pub busiest_channel: f64,
    /// Only for traffic without end: see [`Steady`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// Only where tables changed: see [`Changes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Only where programs took part in it: see [`Update`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    /// The circle of waiting packets, after a deadlock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deadlock: Vec<Waiting>,
}

/// A [`Wait`] with names.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Waiting {
    /// Where it is and what it wants, as numbers.
    #[serde(flatten)]
    pub wait: Wait,
    /// Name of the link in whose buffer the packet is.
    pub channel: String,
    /// Name of the link that it wants.
    pub wanted: String,
}

/// Rates that terminals got, as shares of the cable's rate for payload, in a measuring window.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize)]
pub struct Steady {
    /// Offered load as a share, if it was limited.
    pub offered: Option<f64>,
    /// Mean over terminals.
    pub accepted: f64,
    /// Worst, first quartile, median, third quartile and best terminal, by what they sent and
    /// others consumed.
    pub quartiles: [f64; 5],
    /// Whether the run became steady before the time was over (always, with a given window).
    pub reached: bool,
    /// Length of what was simulated before the measuring window.
    pub warm_up_ns: f64,
}

/// What rates are measured by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// Tick at which measuring began.
    pub(super) from: u64,
    /// Payload per tick of a cable that never pauses.
    pub(super) full: f64,
    /// Offered load, if it was limited.
    pub(super) offered: Option<f64>,
    /// Whether the run became steady.
    pub(super) reached: bool,
}

/// How long to simulate traffic without end.
#[derive(Debug, Clone, Copy)]
pub enum Windows {
    /// Given times.
    Given {
        /// Not measured.
        warm_up_ns: f64,
        /// Measured.
        measure_ns: f64,
    },
    /// Until the mean bandwidth of 99 % of the sinks is known to within 5 % (half the width of
    /// its 99 % confidence interval), or the time is over (thesis section 4.3.4.1, which does not
    /// say how wide its interval may be).
    UntilSteady {
        /// Longest time.
        most_ns: f64,
    },
}

/// Traffic without end.
#[derive(Debug, Clone)]
pub struct Load {
    /// Who takes part.
    pub members: Vec<u32>,
    /// Where to.
    pub destinations: Destinations,
    /// Payload of a message.
    pub bytes: u32,
    /// Offered load as a share of the cable's rate; `None` for as much as possible.
    pub offered: Option<f64>,
    /// Simulated time.
    pub windows: Windows,
    /// After measuring, stop sending and see that everything arrives: finds deadlocks of a part
    /// of the network.
    pub drain: bool,
}

impl Load {
    /// Members that somebody sends to.
    fn sinks(&self) -> Vec<u32> {
        let Destinations::Fixed(to) = &self.destinations else { return self.members.clone() };
        let sent = self.members.iter().zip(to).filter(|(from, to)| from != to);
        let receive: std::collections::BTreeSet<&u32> = sent.map(|(_, to)| to).collect();
        self.members.iter().filter(|t| receive.contains(t)).copied().collect()
    }
}

/// Packet times per window of the search for a steady state.
const WINDOW: u64 = 40;
/// 99.5th percentile of the normal distribution.
const Z995: f64 = 2.576;

impl<R: Router, T: Traffic> Simulator<'_, R, T> {
    fn outcome(&self, ended: Ended, ticks: u64) -> Outcome {
        let ns = |t: f64| t * f64::from(self.settings.tick_ps) / 1000.0;
        let (stats, time) = (&self.stats, ns(ticks as f64));
        let busiest = self.links[..self.net.channels()].iter().map(|l| l.busy).max().unwrap_or(0);
        let circle = if ended == Ended::Deadlock { self.wait_cycle() } else { Vec::new() };
        Outcome {
            ended,
            time_ns: if ended == Ended::Deadlock { ns(self.now() as f64) } else { time },
            throughput: stats.delivered_bytes as f64 / time.max(f64::MIN_POSITIVE),
            packets: stats.delivered_packets,
            bytes: stats.delivered_bytes,
            packet_hops: stats.links,
            latency_mean_ns: ns(stats.mean_latency()),
            latency_p50_ns: ns(stats.latency_percentile(0.5) as f64),
            latency_p99_ns: ns(stats.latency_percentile(0.99) as f64),
            mean_hops: stats.mean_hops(),
            hops: stats.hops.clone(),
            // What began to be sent at the very end goes on after it.
            busiest_channel: (busiest as f64 / (self.now() - self.since).max(1) as f64).min(1.0),
            steady: None,
            changes: None,
            update: None,
            deadlock: self.named(circle),
        }
    }

    /// With names of links.
    pub(super) fn named(&self, circle: Vec<Wait>) -> Vec<Waiting> {
        let name = |wait: Wait| Waiting {
            channel: self.net.link_name(wait.link),
            wanted: self.net.link_name(wait.wants),
            wait,
        };
        circle.into_iter().map(name).collect()
    }

    /// The outcome until now of traffic without end.
    pub(super) fn measured(&self, ended: Ended, members: &[u32], what: Measured) -> Outcome {
        let measured = self.now().saturating_sub(what.from).max(1);
        let mut outcome = self.outcome(ended, measured);
        let accepted = |t: &u32| self.stats.accepted_from[*t as usize] as f64 / measured as f64 / what.full;
        let mut shares: Vec<f64> = members.iter().map(accepted).collect();
        shares.sort_by(f64::total_cmp);
        let n = shares.len();
        let quartile = |q: usize| shares.get(q * n.saturating_sub(1) / 4).copied().unwrap_or(0.0);
        outcome.steady = Some(Steady {
            offered: what.offered,
            accepted: shares.iter().sum::<f64>() / n.max(1) as f64,
            quartiles: [0, 1, 2, 3, 4].map(quartile),
            reached: what.reached,
            warm_up_ns: self.settings.nanoseconds(what.from),
        });
        outcome
    }

    fn run_out(&mut self) -> Outcome {
        let ended = self.run(u64::MAX);
        self.outcome(ended, self.stats.last_delivery)
    }
}

/// Refuses traffic between terminals that the routing does not connect, as those of different jobs on a direct torus.
fn need_ways<R: Router>(
    net: &Net,
    router: &R,
    pairs: impl Iterator<Item = (u32, u32)>,
) -> Result<(), String> {
    match router.unconnected(pairs.map(|(from, to)| (net.home(from), net.home(to)))) {
        None => Ok(()),
        Some((from, to)) => Err(format!("there is no route from switch {from} to switch {to}")),
    }
}

/// All pairs of some terminals.
fn among(members: &[u32]) -> impl Iterator<Item = (u32, u32)> + '_ {
    members.iter().flat_map(|from| members.iter().map(|to| (*from, *to)))
}

/// Runs one exchange to its end.
///
/// # Errors
/// See [`Simulator::new`]; a pair that the routing does not connect.
pub fn exchange<R: Router>(
    net: &Net,
    settings: Settings,
    router: &R,
    script: Script,
    seed: u64,
) -> Result<Outcome, String> {
    need_ways(net, router, among(script.members()))?;
    Ok(Simulator::new(net, settings, router, script, seed)?.run_out())
}

/// Runs several exchanges at once to their end; also when each of them was finished, in ns.
///
/// # Errors
/// See [`Simulator::new`]; a pair that the routing does not connect.
pub fn jobs<R: Router>(
    net: &Net,
    settings: Settings,
    router: &R,
    jobs: Jobs,
    seed: u64,
) -> Result<(Outcome, Vec<Option<f64>>), String> {
    jobs.scripts().iter().try_for_each(|script| need_ways(net, router, among(script.members())))?;
    let mut simulator = Simulator::new(net, settings, router, jobs, seed)?;
    let outcome = simulator.run_out();
    let finished = |s: &Script| s.finished().map(|t| settings.nanoseconds(t));
    Ok((outcome, simulator.traffic.scripts().iter().map(finished).collect()))
}

/// Runs pairs that answer each other; also the time of each round in ns, by pair.
///
/// # Errors
/// See [`Simulator::new`]; a pair that the routing does not connect.
pub fn ping<R: Router>(
    net: &Net,
    settings: Settings,
    router: &R,
    ping: Ping,
    seed: u64,
) -> Result<(Outcome, Vec<Vec<f64>>), String> {
    need_ways(net, router, ping.pairs().flat_map(|(from, to)| [(from, to), (to, from)]))?;
    let mut simulator = Simulator::new(net, settings, router, ping, seed)?;
    let outcome = simulator.run_out();
    let times = simulator.traffic.times().iter();
    let times = times.map(|rounds| rounds.iter().map(|t| settings.nanoseconds(*t)).collect()).collect();
    Ok((outcome, times))
}

/// Runs traffic without end: warms up, measures, and drains if asked.
///
/// # Errors
/// See [`Simulator::new`]; a pair that the routing does not connect.
pub fn load<R: Router>(
    net: &Net,
    settings: Settings,
    router: &R,
    load: &Load,
    seed: u64,
) -> Result<Outcome, String> {
    match &load.destinations {
        Destinations::Uniform => need_ways(net, router, among(&load.members))?,
        Destinations::Fixed(to) => {
            need_ways(net, router, load.members.iter().copied().zip(to.iter().copied()))?;
        }
    }
    let per_message = per_message(&settings, load.bytes);
    let gap = load.offered.map_or(0.0, |share| per_message / share.max(1e-9));
    let (members, to) = (&load.members, load.destinations.clone());
    let open = Open::new((members, net.terminals()), to, load.bytes, gap, settings.source_queue, seed);
    let mut simulator = Simulator::new(net, settings, router, open, seed.wrapping_add(1))?;
    let (ended, from, reached) = match load.windows {
        Windows::Given { warm_up_ns, measure_ns } => given(&mut simulator, warm_up_ns, measure_ns),
        Windows::UntilSteady { most_ns } => until_steady(&mut simulator, &load.sinks(), most_ns),
    };
    let full = f64::from(load.bytes) / per_message;
    let measured = Measured { from, full, offered: load.offered, reached };
    let mut outcome = simulator.measured(ended, members, measured);
    if load.drain && outcome.ended != Ended::Deadlock {
        simulator.stop();
        if simulator.run(u64::MAX) == Ended::Deadlock {
            outcome.ended = Ended::Deadlock;
            outcome.deadlock = simulator.named(simulator.wait_cycle());
        }
    }
    Ok(outcome)
}

/// Ticks that a message with that much payload takes on a cable.
pub(super) fn per_message(settings: &Settings, bytes: u32) -> f64 {
    let full = bytes.div_ceil(settings.mtu).max(1) - 1;
    let ticks = |payload| f64::from(settings.ticks_at(payload, settings.link_rate));
    f64::from(full) * ticks(settings.mtu) + ticks(bytes - full * settings.mtu)
}

fn given<R: Router, T: Traffic>(
    simulator: &mut Simulator<'_, R, T>,
    warm_up_ns: f64,
    measure_ns: f64,
) -> (Ended, u64, bool) {
    let tick = f64::from(simulator.settings.tick_ps) / 1000.0;
    let (warm_up, measure) = ((warm_up_ns / tick) as u64, (measure_ns / tick) as u64);
    let mut ended = simulator.run(warm_up);
    if ended == Ended::Time {
        simulator.count_anew();
        ended = simulator.run(warm_up + measure.max(1));
    }
    (ended, warm_up, true)
}

fn until_steady<R: Router, T: Traffic>(
    simulator: &mut Simulator<'_, R, T>,
    sinks: &[u32],
    most_ns: f64,
) -> (Ended, u64, bool) {
    let settings = simulator.settings;
    let window = WINDOW * u64::from(settings.ticks_at(settings.mtu, settings.link_rate));
    let most = (most_ns * 1000.0 / f64::from(settings.tick_ps)) as u64;
    // The first windows fill the network.
    let warm_up = 4 * window;
    let mut ended = simulator.run(warm_up);
    simulator.count_anew();
    let mut sums = vec![(0.0, 0.0); sinks.len()];
    let mut before = vec![0; sinks.len()];
    let mut windows = 0;
    while ended == Ended::Time {
        ended = simulator.run(warm_up + (windows + 1) * window);
        windows += 1;
        for ((t, sum), before) in sinks.iter().zip(&mut sums).zip(&mut before) {
            let all = simulator.stats.consumed_by[*t as usize];
            let bytes = (all - std::mem::replace(before, all)) as f64;
            *sum = (sum.0 + bytes, sum.1 + bytes * bytes);
        }
        let steady = sums.iter().filter(|s| is_known(**s, windows as f64)).count();
        if windows >= 5 && 100 * steady >= 99 * sinks.len() {
            return (ended, warm_up, true);
        }
        if simulator.now() >= most {
            break;
        }
    }
    (ended, warm_up, false)
}

/// Whether a mean is known to within 5 %, from the sum of `n` values and that of their squares. Of one who got nothing
/// yet nothing is known.
fn is_known((sum, squares): (f64, f64), n: f64) -> bool {
    let mean = sum / n;
    let variance = (squares / n - mean * mean).max(0.0) * n / (n - 1.0).max(1.0);
    mean > 0.0 && Z995 * (variance / n).sqrt() <= 0.05 * mean
}
