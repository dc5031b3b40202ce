//! Tables to verdict. Rebuilds everything from the tables alone: it never imports `route` and does
//! not know which engine ran.

mod accept;
pub mod angara;
mod certificate;
mod changed;
mod cycles;
mod finding;
mod flight;
mod jobs;
mod lanes;
mod reach;
mod senders;
mod transition;
pub mod trees;
mod update;

use std::sync::Arc;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

pub use self::accept::{Verified, accept, accept_certified, accept_promise};
pub use self::certificate::{Certificate, certify, judge_certified};
use self::changed::Order;
pub use self::changed::Proved;
use self::cycles::{Buffer, Dependencies, Graph, Turns};
pub use self::finding::{CycleStep, DestinationName, Finding, SwitchName};
use self::finding::{Findings, Kind, switch_name};
use self::flight::Flight;
pub use self::jobs::{is_safe_with, layers_of_group, safe_layers};
use self::lanes::{Lanes, Together};
use self::reach::Later;
use self::senders::Senders;
pub use self::transition::{Transition, transition};
use self::trees::Trees;
pub use self::update::{Step, Update, UpdateVerdict, judge_update};
use crate::model::{DestId, Fabric, Group, LaneMap, LayerBudget, Promise, Tables};

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Verdict {
    /// Whether the tables may be used.
    pub accepted: bool,
    /// What they were judged for.
    pub promise: Promise,
    /// Why not (at most ten per kind), in a fixed order.
    pub findings: Vec<Finding>,
    /// How many findings there were before the list was cut.
    pub findings_total: u64,
    /// Ordered pairs of hosts in different parts of a fabric that is not connected: listed, not a fault.
    pub unreachable_pairs: u64,
}

impl Verdict {
    /// The first findings, in a line; empty if there are none.
    pub fn in_words(&self) -> String {
        const SAID: usize = 3;
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_string();
        let some: Vec<String> =
            self.findings.iter().take(SAID).map(|finding| first_line(finding.to_string())).collect();
        let more = if self.findings.len() > some.len() { "; …" } else { "" };
        some.join("; ") + more
    }
}

/// What is checked beyond what is always checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// What must be proved.
    pub promise: Promise,
    /// Judge only routes to hosts. Some subnet managers leave the management ports of switches
    /// out of their promises: no route to them at all, or one on layer 0 outside of any proof.
    pub hosts_only: bool,
}

/// Programs were told their SLs, and nothing more; all destinations.
impl Default for Checks {
    fn default() -> Self {
        Self { promise: Promise::TOLD, hosts_only: false }
    }
}

/// What else may be in flight beside the tables in question, all of the same fabric.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// Tables of earlier epochs: connections made under them keep their SLs ([`Promise::since`]).
    pub since: &'a [Tables],
    /// Tables that any switch may have instead ([`Promise::mixed`]). Their SLs count as well.
    pub mixed: &'a [Tables],
    /// Tables of the ports' other LIDs, in force as well: packets to those follow them alone.
    pub apart: &'a [Tables],
    /// Switches without hosts may have no way to hosts yet, nor these to them: nothing but management waits. So it
    /// is after the first of two steps, which the loss of a cable may take.
    pub answers_later: bool,
    /// Who is not led to a destination by any of [`Beside::mixed`] may be without a way there: the loss of a cable cut it
    /// off, and it waits for the second of two steps. Nobody else may. Without tables to compare with, anybody may.
    pub lost_later: bool,
    /// What is proved of the tables in force already: others that differ little from them are judged by what differs.
    /// Part of no promise.
    pub proved: Option<&'a Proved>,
    /// An order of buffers that is kept if all climbs it. Part of no promise, and not trusted: it is checked.
    pub order: Option<&'a Arc<Certificate>>,
}

impl Beside<'_> {
    /// Who may still be without a way in an epoch that may be the first of several steps, with a lane map or without.
    /// In the first of three, `drained`, switches and those whom a loss cut off.
    pub fn of_step(halfway: bool, in_lanes: bool, drained: bool) -> Self {
        let (answers_later, lost_later) =
            (halfway && (!in_lanes || drained), halfway && (in_lanes || drained));
        Self { answers_later, lost_later, ..Self::default() }
    }
}

/// Destinations that one task handles, at least, before its results are merged.
const TASK: usize = 64;

/// Destinations shared out to tasks, about four per thread.
fn tasks(dests: &[DestId]) -> rayon::slice::Chunks<'_, DestId> {
    dests.par_chunks(TASK.max(dests.len().div_ceil(4 * rayon::current_num_threads())))
}

/// Judges tables.
///
/// Every switch must have a live port for every destination that the fabric connects it to. Between two switches
/// without hosts it may say that it has none: no route is there. The ports of a destination must form an in-tree that
/// ends at its own port. Each route from a switch with hosts must have a layer below the budget. The dependencies of
/// all packets that may be in flight, between channels on their virtual lanes, must have no cycle, which is
/// sufficient against deadlock (Dally and Seitz 1987; thesis chapter 3). Which packets, a [`Promise`] says: here
/// those of programs that were told their SLs.
///
/// O(destinations × switches + VLs × turns), a turn being a channel into a switch and one out
/// of it. Uses all threads; the verdict does not depend on their number.
pub fn judge(fabric: &Fabric, tables: &Tables, budget: LayerBudget) -> Verdict {
    judge_with(fabric, tables, budget, Checks::default())
}

/// Like [`judge`], for another promise.
pub fn judge_with(fabric: &Fabric, tables: &Tables, budget: LayerBudget, checks: Checks) -> Verdict {
    judge_beside(fabric, std::slice::from_ref(tables), budget, checks, Beside::default())
}

/// Like [`judge_with`], for tables that are in force together: a subnet manager may give hosts of
/// one switch different layers. Ports agree then, and each element has the layers of other hosts.
/// No cycle may come from all of them together.
pub fn judge_all(fabric: &Fabric, tables: &[Tables], budget: LayerBudget, checks: Checks) -> Verdict {
    judge_beside(fabric, tables, budget, checks, Beside::default())
}

/// Like [`judge_all`], with what else may be in flight.
pub fn judge_beside(
    fabric: &Fabric,
    tables: &[Tables],
    budget: LayerBudget,
    checks: Checks,
    beside: Beside<'_>,
) -> Verdict {
    Case { fabric, tables, budget, checks, beside }.judge().0
}

/// Everything that is judged.
#[derive(Clone, Copy)]
struct Case<'a> {
    fabric: &'a Fabric,
    tables: &'a [Tables],
    budget: LayerBudget,
    checks: Checks,
    beside: Beside<'a>,
}

impl<'a> Case<'a> {
    /// The verdict; also, if there is no cycle, an order that shows it, that of before if it does, and whether with all
    /// VLs taken together that can be.
    fn judge(&self) -> (Verdict, Option<(Order, bool)>) {
        let Self { fabric, tables, checks, beside, .. } = *self;
        let mut findings = Findings::default();
        let verdict = |findings, pairs| verdict(findings, pairs, checks.promise);
        let everything = || tables.iter().chain(beside.since).chain(beside.mixed).chain(beside.apart);
        let maps = everything().filter_map(|t| t.lanes()).map(|map| map.fabric());
        if let Some(other) = everything().map(Tables::fabric).chain(maps).find(|f| *f != fabric.fingerprint())
        {
            findings.add(Kind::WrongFabric, || Finding::WrongFabric {
                fabric: fabric.fingerprint().to_string(),
                tables: other.to_string(),
            });
            return (verdict(findings, 0), None);
        }
        let parts = fabric.parts();
        let (findings, order) = match self.examine_together(&parts) {
            Some((findings, order)) => (findings, order.map(|order| (order, true))),
            None => self.examine(&parts, |flights, graph, mut findings| {
                let order =
                    self.order(graph, None).map(|order| (order, lanes::any_together(&self.maps()).is_none()));
                let cycles = if order.is_some() { Vec::new() } else { graph.cycles() };
                for cycle in cycles {
                    findings.add(Kind::Cycle, || explain(flights, &cycle));
                }
                (findings, order)
            }),
        };
        (verdict(findings, reach::unreachable_pairs(fabric, &parts)), order)
    }

    /// The same; also, all routes inside each of these groups must be on one layer.
    fn judge_jobs(&self, groups: &[Group]) -> (Verdict, Option<(Order, bool)>) {
        let (all, order) = self.judge();
        if self.tables.iter().any(|tables| tables.fabric() != self.fabric.fingerprint()) {
            return (all, None);
        }
        let mut findings = Findings::default();
        self.tables.iter().for_each(|tables| jobs::check(self.fabric, tables, groups, &mut findings));
        let own = verdict(findings, 0, self.checks.promise);
        let both = Verdict {
            accepted: all.accepted && own.accepted,
            findings: [all.findings, own.findings].concat(),
            findings_total: all.findings_total + own.findings_total,
            ..all
        };
        (both, order)
    }

    /// The lane maps that may be in force.
    fn maps(&self) -> Vec<Option<&'a LaneMap>> {
        let in_force = self.tables.iter().chain(self.beside.mixed).chain(self.beside.apart);
        let mut maps: Vec<_> = in_force.map(|t| t.lanes().map(AsRef::as_ref)).collect();
        maps.dedup();
        maps
    }

    /// Findings, and an order, with the VLs of each lane taken for one, which costs less where SLs have VLs of their
    /// own. `None` where that is not so, or proves nothing.
    fn examine_together(&self, parts: &[u32]) -> Option<(Findings, Option<Order>)> {
        let turns = Turns::new(self.fabric);
        let (lanes, as_one) = Lanes::together(&turns, &self.maps())?;
        let dests = self.dests();
        let (findings, order) = self.examine_on((&turns, &lanes), (parts, &dests), |_, graph, findings| {
            (findings, self.order(graph, Some(&as_one)))
        });
        order.map(|order| (findings, Some(order)))
    }

    /// An order that all packets of a graph climb, of VLs each of which stands for those that are taken together.
    fn order(&self, graph: &Graph<'_>, as_one: Option<&Together>) -> Option<Order> {
        let kept = self.beside.order.filter(|order| changed::all_climb(order, graph, as_one));
        kept.map(|order| Order::Kept(Arc::clone(order))).or_else(|| {
            let order = graph.order()?;
            let each = |b: Buffer| lanes::each(as_one, b.vl).map(move |vl| Buffer { vl, ..b });
            Some(Order::Found(order.into_iter().flat_map(each).collect()))
        })
    }

    /// Checks each destination, and hands on what packets depend on.
    fn examine<R>(&self, parts: &[u32], then: impl FnOnce(&[Flight<'_>], &Graph<'_>, Findings) -> R) -> R {
        let turns = Turns::new(self.fabric);
        let lanes = Lanes::new(&turns, &self.maps());
        self.examine_on((&turns, &lanes), (parts, &self.dests()), then)
    }

    fn dests(&self) -> Vec<DestId> {
        self.fabric.dest_ids().collect()
    }

    /// The same of some destinations, on these lanes.
    fn examine_on<R>(
        &self,
        (turns, lanes): (&Turns<'_>, &Lanes),
        (parts, dests): (&[u32], &[DestId]),
        then: impl FnOnce(&[Flight<'_>], &Graph<'_>, Findings) -> R,
    ) -> R {
        let Self { fabric, tables, beside, checks, .. } = *self;
        let changing = tables.iter().map(|t| (t, beside.mixed));
        let all = changing.chain(beside.apart.iter().map(|t| (t, Default::default())));
        let flight = |(t, mixed): (_, &'a [Tables])| Flight {
            trees: std::iter::once(t).chain(mixed).map(|t| Trees::new(fabric, t)).collect(),
            senders: Senders::new(fabric, t, beside.since.iter().chain(mixed), checks.promise),
            turns,
            lanes,
        };
        let flights: Vec<Flight<'_>> = all.map(flight).collect();
        let mut findings = Findings::default();
        let mut dependencies = Dependencies::none(turns, lanes);
        for flight in &flights {
            let (found, own) = self.sweep(flight, parts, dests);
            findings = findings.then(found);
            dependencies = dependencies.and(&own);
        }
        let sls = flights.iter().fold(0, |all, flight| all | flight.senders.sls());
        for map in self.maps().into_iter().flatten() {
            self.check_lanes(map, sls, &mut findings);
        }
        then(&flights, &Graph { turns, lanes, dependencies: &dependencies }, findings)
    }

    /// Checks destinations and collects the dependencies of all routes to them.
    fn sweep(&self, flight: &Flight<'_>, parts: &[u32], dests: &[DestId]) -> (Findings, Dependencies) {
        let nothing = || (Findings::default(), Dependencies::none(flight.turns, flight.lanes));
        let (trees, budget) = (&flight.trees[0], self.budget.get());
        let partial = tasks(dests).map(|dests| {
            let (mut findings, mut dependencies) = nothing();
            let mut room = flight.room();
            for d in dests {
                if self.checks.hosts_only && !trees.fabric.is_host_dest(*d) {
                    continue;
                }
                flight.trace(*d, &mut room);
                let (tree, others) = (&room.trees[0], &room.trees[1..]);
                let later =
                    Later { answers: self.beside.answers_later, lost: self.beside.lost_later, others };
                reach::check(trees, *d, tree, (parts, later), &mut findings);
                flight.senders.check(trees.tables, *d, tree, budget, &mut findings);
                flight.mark(*d, &mut room, &mut dependencies);
            }
            (findings, dependencies)
        });
        partial.reduce(nothing, |(f1, d1), (f2, d2)| (f1.then(f2), d1.and(&d2)))
    }

    fn check_lanes(&self, map: &LaneMap, sls: u16, findings: &mut Findings) {
        let budget = self.budget.get();
        for (s, from, to, vl) in lanes::over_budget(self.fabric, map, sls, budget) {
            findings.add(Kind::LaneOverBudget, || Finding::LaneOverBudget {
                switch: switch_name(self.fabric, s.index()),
                from: from.get(),
                to: to.get(),
                vl,
                budget,
            });
        }
    }
}

fn verdict(findings: Findings, unreachable_pairs: u64, promise: Promise) -> Verdict {
    let (findings, findings_total) = findings.finish();
    Verdict { accepted: findings_total == 0, promise, findings, findings_total, unreachable_pairs }
}

/// Names the routes of a cycle. O(its length × destinations × switches).
fn explain(flights: &[Flight<'_>], cycle: &[Buffer]) -> Finding {
    let follower = cycle.iter().cycle().skip(1);
    let steps = cycle.iter().zip(follower).filter_map(|(b1, b2)| {
        flights.iter().find_map(|flight| flight.example(*b1, *b2, &mut flight.room()))
    });
    Finding::Cycle { layer: cycle.first().map_or(0, |b| b.vl), channels: steps.collect() }
}

/// Like [`judge_beside`]; also, all routes inside each of these groups must be on one layer.
pub fn judge_jobs(
    fabric: &Fabric,
    tables: &Tables,
    budget: LayerBudget,
    checks: Checks,
    beside: Beside<'_>,
    groups: &[Group],
) -> Verdict {
    Case { fabric, tables: std::slice::from_ref(tables), budget, checks, beside }.judge_jobs(groups).0
}
