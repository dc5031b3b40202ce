//! Tables that change while packets fly: one epoch after the other, switch by switch in random order, under
//! traffic of programs that keep their connections.
//!
//! What is modelled: an epoch is announced (programs that ask are told its SLs), and then each switch gets its
//! forwarding entries at a time of its own, in random order. After the last of them, as OpenSM does it, each
//! switch gets its SL2VL table, if that is another one. Times are spread over the whole time to the next epoch,
//! so that switches of two epochs stand side by side nearly always. A packet keeps its SL; a switch looks it up
//! when it is first in its input buffer, and the packet keeps that out port and VL until it is on the cable.
//! A cable may die while an epoch is written: what is in its output buffers, waits for them or is on it is lost,
//! and so is all that switches send to it until they have an epoch that leads around it.
//! Not modelled: time limits after which switches drop packets that wait (they would end a deadlock by losses),
//! and the management packets themselves.

use schemars::JsonSchema;
use serde::Serialize;

use super::deadlock::Wait;
use super::engine::{Ended, Simulator};
use super::live::LiveRouter;
use super::net::Net;
use super::run::{Measured, Outcome, per_message};
use super::settings::Settings;
use super::traffic::calls::{Calling, Calls, Counts};
use super::traffic::endpoints::Leaving;
use super::traffic::open::Destinations;
use crate::model::rng::Rng;
use crate::model::{Fabric, LayerBudget, PortNum, SwitchId, Tables};

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Changes, one after the other.
    pub changes: u32,
    /// Time from the beginning of one to that of the next.
    pub every_ns: f64,
    /// Terminals that take part.
    pub members: Vec<u32>,
    /// Where requests go.
    pub destinations: Destinations,
    /// Payload of a message.
    pub bytes: u32,
    /// Offered load as a share of the cable's rate, answers among it; `None` for as much as possible.
    pub offered: Option<f64>,
    /// Share of programs that do not ask for an SL: half on SL 0, half on one of their own.
    pub untold: f64,
    /// Share of requests that are answered, on the SL of the caller.
    pub answers: f64,
    /// VLs of all ports.
    pub vls: LayerBudget,
    /// Of everything that is drawn.
    pub seed: u64,
}

/// What each switch is given in its turn.
#[derive(Debug, Clone)]
pub struct Epoch {
    /// Of a fabric with the same switches and terminals, in the same order.
    pub tables: Tables,
    /// A port of a cable that dies while switches are written.
    pub dies: Option<(SwitchId, PortNum)>,
    /// Whether hosts that the cable cut off get their ways with the next epoch.
    pub waits: bool,
}

/// What was changed, and what it did to connections.
#[derive(Debug, Clone, Copy, Default, JsonSchema, Serialize)]
pub struct Changes {
    /// Changes that were begun.
    pub made: u32,
    /// Forwarding entries that switches were given and that differ from those before.
    pub entries: u64,
    /// The same of SL2VL.
    pub sl2vl_entries: u64,
    /// Cables that died.
    pub cables_lost: u32,
    /// Packets lost on dead cables when all switches had tables that lead around them.
    pub lost_later: u64,
    /// Packets without an entry while hosts waited for the second of two steps.
    pub lost_waiting: u64,
    /// Change during which packets were found to wait in a circle; 1 for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlock_in: Option<u32>,
    /// Messages and packets, of the whole run.
    #[serde(flatten)]
    pub counts: Counts,
}

impl Changes {
    /// Whether everything arrived that was sent, but for what was on a cable that died.
    pub fn is_whole(&self) -> bool {
        let Counts { requests, requests_arrived, answers, answers_arrived, .. } = self.counts;
        let missing = requests + answers - requests_arrived - answers_arrived;
        let excused = self.counts.lost_on_cable + self.lost_waiting;
        self.counts.lost == self.lost_waiting && self.lost_later == 0 && missing <= excused
    }
}

/// Tells losses that tables explain from others.
#[derive(Default)]
struct Losses {
    /// Lost on cables when all switches knew of all that had died; `None` while some do not.
    known: Option<u64>,
    /// Packets that had no entry before hosts began to wait for the next epoch; `None` while none wait.
    waiting: Option<u64>,
}

impl Losses {
    /// So many are lost until now, when a cable dies, or something else is about to happen.
    fn settle(&mut self, lost: u64, changes: &mut Changes, all_know: bool) {
        changes.lost_later += self.known.map_or(0, |known| lost - known);
        self.known = all_know.then_some(lost);
    }

    /// So many packets had no entry until now, when an epoch is begun for which hosts wait, or not.
    fn wait(&mut self, lost: u64, waits: bool) {
        self.waiting = self.waiting.or(waits.then_some(lost));
    }

    /// All switches have an epoch: whether they know of all that died, and whether hosts wait for the next one.
    fn written(&mut self, counts: &Counts, changes: &mut Changes, (all_know, waits): (bool, bool)) {
        self.settle(counts.lost_on_cable, changes, all_know);
        if !waits {
            changes.lost_waiting += self.waiting.take().map_or(0, |before| counts.lost - before);
        }
    }
}

/// What happens to a switch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write {
    Forwarding(SwitchId),
    Lanes(SwitchId),
    /// None: the cable behind a port dies.
    Death(SwitchId, PortNum),
}

pub(super) type Flying<'a> = Simulator<'a, LiveRouter<'a>, Calls>;

/// Begins with the tables of epoch 0, asks for those of each epoch in turn, and at the end lets all packets
/// arrive and all answers that are owed be sent. The outcome's rates are those while tables changed.
///
/// # Errors
/// See [`Simulator::new`]; a random arbiter; what `epochs` says.
pub fn run<E: From<String>>(
    fabric: &Fabric,
    net: &Net,
    settings: Settings,
    plan: &Plan,
    mut epochs: impl FnMut(u32) -> Result<Epoch, E>,
) -> Result<Outcome, E> {
    if settings.random_arbiter {
        return Err("tables cannot change under a random arbiter: use other hardware".to_string().into());
    }
    let per_message = per_message(&settings, plan.bytes);
    let mut force = epochs(0)?.tables;
    let router = LiveRouter::new(fabric, net, plan.vls, &force);
    let mut calls = Calls::new(plan.calling(per_message, settings.source_queue), &net.home, net.switches());
    calls.tell(&force);
    let mut simulator = Simulator::new(net, settings, &router, calls, plan.seed.wrapping_add(1))?;
    let interval = ((plan.every_ns / settings.nanoseconds(1)).round() as u64).max(1);
    let mut rng = Rng::new(plan.seed.wrapping_add(2));
    let (mut changes, mut losses) = (Changes::default(), Losses { known: Some(0), waiting: None });
    let (mut ended, mut circle) = (simulator.run(interval), Vec::new());
    while ended != Ended::Deadlock && changes.made < plan.changes {
        let next = epochs(changes.made + 1)?;
        changes.made += 1;
        let begin = simulator.now().max(u64::from(changes.made) * interval);
        losses.wait(simulator.traffic.counts.lost, next.waits);
        simulator.traffic.tell(&next.tables);
        for (at, write) in writes(fabric, &force, &next, interval, &mut rng) {
            ended = simulator.run(begin + at);
            let lost = simulator.traffic.counts.lost_on_cable;
            match write {
                Write::Forwarding(s) => changes.entries += router.write_forwarding(s, &next.tables) as u64,
                Write::Lanes(s) => changes.sl2vl_entries += router.write_lanes(s, &next.tables) as u64,
                Write::Death(s, port) => {
                    losses.settle(lost, &mut changes, false);
                    changes.cables_lost += 1;
                    cut(&mut simulator, s, port);
                }
            }
        }
        losses.written(&simulator.traffic.counts, &mut changes, (next.dies.is_none(), next.waits));
        force = next.tables;
        circle = simulator.standing_cycle();
        ended = if circle.is_empty() { ended } else { Ended::Deadlock };
    }
    let measured =
        Measured { from: 0, full: f64::from(plan.bytes) / per_message, offered: plan.offered, reached: true };
    let mut outcome = simulator.measured(ended, &plan.members, measured);
    if ended == Ended::Deadlock {
        changes.deadlock_in = Some(changes.made);
    } else {
        (outcome.ended, circle) = run_out(&mut simulator);
    }
    outcome.deadlock = if circle.is_empty() { outcome.deadlock } else { simulator.named(circle) };
    changes.counts = simulator.traffic.counts;
    losses.written(&changes.counts.clone(), &mut changes, (true, false));
    outcome.changes = Some(changes);
    Ok(outcome)
}

/// Both directions of a cable die.
fn cut(simulator: &mut Flying<'_>, s: SwitchId, port: PortNum) {
    let there = simulator.net.behind(s.index() as u32, port.get());
    let back = simulator.net.behind(simulator.net.to(there), simulator.net.ports(there)[1]);
    [there, back].iter().for_each(|link| simulator.router.cut(*link));
    [there, back].iter().for_each(|link| simulator.cut(*link));
}

/// No new requests; what is on its way arrives, or waits in a circle.
pub(super) fn run_out(simulator: &mut Flying<'_>) -> (Ended, Vec<Wait>) {
    simulator.traffic.close();
    let ended = simulator.run(u64::MAX);
    let circle = if ended == Ended::Deadlock { simulator.wait_cycle() } else { Vec::new() };
    (ended, circle)
}

/// What happens when, from the beginning of a change.
pub(super) fn writes(
    fabric: &Fabric,
    before: &Tables,
    next: &Epoch,
    interval: u64,
    rng: &mut Rng,
) -> Vec<(u64, Write)> {
    let mut order: Vec<SwitchId> = fabric.switch_ids().collect();
    rng.shuffle(&mut order);
    let mut writes: Vec<Write> = order.iter().map(|s| Write::Forwarding(*s)).collect();
    if before.lanes() != next.tables.lanes() {
        rng.shuffle(&mut order);
        writes.extend(order.iter().map(|s| Write::Lanes(*s)));
    }
    let mut times: Vec<u64> = writes.iter().map(|_| rng.below(interval as usize) as u64).collect();
    times.sort_unstable();
    let mut all: Vec<(u64, Write)> = times.into_iter().zip(writes).collect();
    if let Some((s, port)) = next.dies {
        let time = rng.below(interval as usize) as u64;
        all.insert(all.partition_point(|(at, _)| *at <= time), (time, Write::Death(s, port)));
    }
    all
}

impl Plan {
    pub(super) fn calling(&self, per_message: f64, queue: u32) -> Calling {
        Calling {
            members: self.members.clone(),
            destinations: self.destinations.clone(),
            bytes: self.bytes,
            gap: self.offered.map_or(0.0, |share| per_message / share.max(1e-9)),
            queue,
            untold: self.untold,
            answers: self.answers,
            leaving: Leaving::Stay,
            keeps: false,
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::model::{Demand, LaneMap, Vl};
    use crate::route::{EngineOptions, engine};

    #[test]
    fn each_switch_is_written_once_and_sl2vl_comes_last() {
        let fabric = generate("torus:4x4").unwrap();
        let minhop = engine("minhop", &EngineOptions::default()).unwrap();
        let plain = minhop.route(&fabric, &Demand::oblivious(), LayerBudget::new(1).unwrap()).unwrap();
        let map = LaneMap::uniform(&fabric, |_, _, _| Vl::ZERO);
        let mapped = plain.clone().with_lanes(Some(std::sync::Arc::new(map)));
        let epoch = |tables: &Tables, dies| Epoch { tables: tables.clone(), dies, waits: false };
        let port = (SwitchId(3), PortNum::at(1));
        let mut orders = Vec::new();
        for seed in 0..5 {
            let mut rng = Rng::new(seed);
            let dying = writes(&fabric, &plain, &epoch(&plain, Some(port)), 1000, &mut rng);
            assert!(dying.len() == 17 && dying.is_sorted_by_key(|(at, _)| *at));
            let all = writes(&fabric, &plain, &epoch(&mapped, None), 1000, &mut rng);
            assert!(all.is_sorted_by_key(|(at, _)| *at) && all[31].0 < 1000);
            let mut forwarding: Vec<SwitchId> = all[..16]
                .iter()
                .filter_map(|(_, w)| if let Write::Forwarding(s) = w { Some(*s) } else { None })
                .collect();
            let mut lanes: Vec<SwitchId> = all[16..]
                .iter()
                .filter_map(|(_, w)| if let Write::Lanes(s) = w { Some(*s) } else { None })
                .collect();
            orders.push(forwarding.clone());
            for switches in [&mut forwarding, &mut lanes] {
                switches.sort_unstable();
                assert!(switches.iter().copied().eq(fabric.switch_ids()));
            }
        }
        orders.dedup();
        assert_eq!(orders.len(), 5);
    }
}
