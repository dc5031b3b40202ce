//! Tables of a direct torus to verdict, from the routes alone.
//!
//! Every route is walked hop by hop and held against the router's rules (order `+X +Y +Z +K -X -Y -Z -K`, one sign
//! per dimension, at most one first and one last step). The turns that routes make form the dependency graph. In it a
//! complete ring is one vertex (bubble rule), and channels of an incomplete ring count one by one.
//!
//! A route is minimal if no shorter one obeys the rules with turns that are in order, or that some route already
//! makes at that place. Such a shorter route would add no dependency that the tables do not have.

mod reach;

use schemars::JsonSchema;
use std::collections::BTreeMap;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use serde::Serialize;

use self::reach::Reach;
use super::Verified;
use crate::model::torus::DIRECTIONS;
use crate::model::{Direction, NodeId, Promise, Routes, Step, Torus, TorusDemand, TorusTables};

/// Findings listed per kind; the rest is counted.
const LISTED: usize = 20;

/// One reason to reject. Nodes are named by coordinates.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TorusFinding {
    /// Tables are for another torus.
    WrongTorus,
    /// Tables do not have one set of routes per job on the job's nodes.
    WrongJobs,
    /// A job on a node that has failed.
    FailedNode {
        /// The node.
        node: String,
    },
    /// A pair without a route.
    Missing {
        /// Source and destination.
        pair: [String; 2],
    },
    /// A route that ends elsewhere.
    WrongEnd {
        /// Source and destination.
        pair: [String; 2],
        /// Steps as in `routes.txt`.
        steps: String,
        /// Where it ends.
        ends: String,
    },
    /// A step against the rules of the router.
    IllegalStep {
        /// Source and destination.
        pair: [String; 2],
        /// Steps as in `routes.txt`.
        steps: String,
        /// Number of the step, from 1.
        step: usize,
        /// The rule.
        rule: &'static str,
    },
    /// A hop over a channel that does not exist, has failed, or that transit does not allow.
    NoChannel {
        /// Source and destination.
        pair: [String; 2],
        /// Steps as in `routes.txt`.
        steps: String,
        /// Number of the step, from 1.
        step: usize,
    },
    /// A route longer than it need be.
    Detour {
        /// Source and destination.
        pair: [String; 2],
        /// Its hops.
        hops: usize,
        /// Hops that would do.
        shortest: usize,
    },
    /// Channels and rings that wait for each other.
    Cycle {
        /// `ring +X at 0.1` or `channel 0.1+X`, in no particular order.
        members: Vec<String>,
    },
    /// More findings of a kind than are listed.
    More {
        /// The kind.
        of: &'static str,
        /// How many more.
        count: usize,
    },
}

impl TorusFinding {
    /// The `kind` of its JSON form.
    pub fn kind(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value["kind"].as_str().unwrap_or_default().to_string()
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TorusVerdict {
    /// Whether the tables may be used.
    pub accepted: bool,
    /// Why not, in a fixed order.
    pub findings: Vec<TorusFinding>,
    /// Routes longer than the shortest (allowed with `allow_detours`).
    pub detours: usize,
}

/// Judges tables. O(routes × hops + sources with detours × nodes × 3ⁿ).
pub fn judge(torus: &Torus, tables: &TorusTables, allow_detours: bool) -> TorusVerdict {
    let mut check = Check::new(torus, &tables.demand);
    if tables.torus != torus.fingerprint() {
        check.findings.push("wrong_torus", || TorusFinding::WrongTorus);
    }
    let jobs = &tables.demand.jobs;
    let fits = |(job, routes): (&crate::model::TorusJob, &Routes)| job.nodes() == routes.nodes();
    if jobs.len() != tables.routes.len() || !jobs.iter().zip(&tables.routes).all(fits) {
        check.findings.push("wrong_jobs", || TorusFinding::WrongJobs);
        return check.verdict(0);
    }
    for node in jobs.iter().flat_map(|j| j.nodes()).filter(|n| !torus.is_healthy(**n)) {
        let node = check.at(*node);
        check.findings.push("failed_node", || TorusFinding::FailedNode { node });
    }
    for (job, routes) in tables.routes.iter().enumerate() {
        let usable = tables.demand.usable(torus, Some(job));
        routes.pairs().for_each(|(from, to, steps)| check.route(&usable, from, to, steps));
    }
    check.cycles();
    let mut detours = 0;
    for (job, routes) in tables.routes.iter().enumerate() {
        let usable = tables.demand.usable(torus, Some(job));
        detours += check.lengths(&usable, routes, allow_detours);
    }
    check.verdict(detours)
}

/// Judges tables and, if accepted, marks them as such.
///
/// # Errors
/// The verdict, if rejected.
pub fn accept(
    torus: &Torus,
    tables: TorusTables,
    allow_detours: bool,
) -> Result<Verified<TorusTables>, TorusVerdict> {
    let verdict = judge(torus, &tables, allow_detours);
    if verdict.accepted {
        Ok(Verified {
            value: tables,
            budget: crate::model::LayerBudget::MOST,
            promise: Promise::TOLD,
            shown: None,
        })
    } else {
        Err(verdict)
    }
}

/// Findings, bounded per kind.
#[derive(Default)]
struct Findings {
    list: Vec<TorusFinding>,
    count: BTreeMap<&'static str, usize>,
}

impl Findings {
    fn push(&mut self, kind: &'static str, finding: impl FnOnce() -> TorusFinding) {
        let count = self.count.entry(kind).or_default();
        *count += 1;
        if *count <= LISTED {
            self.list.push(finding());
        }
    }
    fn finish(mut self) -> Vec<TorusFinding> {
        for (of, count) in self.count.into_iter().filter(|(_, count)| *count > LISTED) {
            self.list.push(TorusFinding::More { of, count: count - LISTED });
        }
        self.list
    }
}

struct Check<'a> {
    torus: &'a Torus,
    /// Channels that any job may use, a bit per node and direction.
    usable: Vec<u8>,
    /// By channel: directions that some route takes next.
    next: Vec<u8>,
    findings: Findings,
}

impl<'a> Check<'a> {
    fn new(torus: &'a Torus, demand: &TorusDemand) -> Self {
        let next = vec![0; torus.channel_slots()];
        Self { torus, usable: demand.usable(torus, None), next, findings: Findings::default() }
    }
    fn verdict(self, detours: usize) -> TorusVerdict {
        let findings = self.findings.finish();
        TorusVerdict { accepted: findings.is_empty(), findings, detours }
    }
    fn at(&self, node: NodeId) -> String {
        self.torus.coords(node).to_string()
    }
    fn pair(&self, from: NodeId, to: NodeId) -> [String; 2] {
        [self.at(from), self.at(to)]
    }

    /// Walks one route; only the dependencies of hops that exist are recorded.
    fn route(&mut self, usable: &[u8], from: NodeId, to: NodeId, steps: &[Step]) {
        let pair = self.pair_of(from, to);
        if steps.is_empty() {
            self.findings.push("missing", || TorusFinding::Missing { pair: pair() });
            return;
        }
        if let Some((step, rule)) = broken_rule(steps) {
            let steps = || Step::join(steps);
            self.findings.push("illegal_step", || TorusFinding::IllegalStep {
                pair: pair(),
                steps: steps(),
                step,
                rule,
            });
        }
        let mut at = from;
        let mut before = None;
        for (number, step) in steps.iter().enumerate() {
            let direction = step.direction();
            let head = self.torus.neighbour(at, direction);
            let Some(head) = head.filter(|_| usable[at.index()] & direction.bit() != 0) else {
                let (steps, step) = (|| Step::join(steps), number + 1);
                self.findings.push("no_channel", || TorusFinding::NoChannel {
                    pair: pair(),
                    steps: steps(),
                    step,
                });
                return;
            };
            if let Some(channel) = before {
                let next: &mut u8 = &mut self.next[channel];
                *next |= direction.bit();
            }
            before = Some(self.torus.channel(at, direction));
            at = head;
        }
        if at != to {
            let ends = self.at(at);
            let steps = || Step::join(steps);
            self.findings.push("wrong_end", || TorusFinding::WrongEnd { pair: pair(), steps: steps(), ends });
        }
    }

    fn pair_of(&self, from: NodeId, to: NodeId) -> impl Fn() -> [String; 2] + use<'a> {
        let torus = self.torus;
        move || [torus.coords(from).to_string(), torus.coords(to).to_string()]
    }

    /// Looks for cycles among channels of incomplete rings and complete rings.
    fn cycles(&mut self) {
        let ring_of = self.rings();
        let mut graph = DiGraph::<usize, ()>::with_capacity(self.next.len(), self.next.len());
        let vertices: Vec<_> = (0..self.next.len()).map(|c| graph.add_node(c)).collect();
        for node in self.torus.nodes() {
            for from in Direction::all() {
                let channel = self.torus.channel(node, from);
                let next = self.next[channel];
                let Some(head) = self.torus.cabled(node, from).filter(|_| next != 0) else { continue };
                for to in Direction::all().filter(|to| next & to.bit() != 0) {
                    let (a, b) = (ring_of[channel], ring_of[self.torus.channel(head, to)]);
                    if a != b {
                        graph.update_edge(vertices[a], vertices[b], ());
                    }
                }
            }
        }
        for component in tarjan_scc(&graph).into_iter().filter(|c| c.len() > 1) {
            let mut members: Vec<usize> = component.into_iter().map(|v| graph[v]).collect();
            members.sort_unstable();
            let members = members.into_iter().map(|c| self.vertex_name(c, &ring_of)).collect();
            self.findings.push("cycle", || TorusFinding::Cycle { members });
        }
    }

    /// By channel: the lowest channel of its ring if that is complete, else itself.
    fn rings(&self) -> Vec<usize> {
        let mut ring_of: Vec<usize> = (0..self.next.len()).collect();
        for node in self.torus.nodes() {
            for direction in Direction::all() {
                let start = self.torus.channel(node, direction);
                if ring_of[start] != start {
                    continue;
                }
                let mut ring = Vec::new();
                let mut at = node;
                while self.usable[at.index()] & direction.bit() != 0 {
                    ring.push(self.torus.channel(at, direction));
                    let Some(head) = self.torus.cabled(at, direction) else { break };
                    at = head;
                    if at == node {
                        ring.iter().for_each(|c| ring_of[*c] = start);
                        break;
                    }
                }
            }
        }
        ring_of
    }

    fn vertex_name(&self, channel: usize, ring_of: &[usize]) -> String {
        let at = self.torus.coords(NodeId::at(channel / DIRECTIONS));
        let direction = Direction::at(channel);
        let is_ring = ring_of.iter().enumerate().any(|(c, r)| c != channel && *r == channel);
        if is_ring { format!("ring {direction} at {at}") } else { format!("channel {at}{direction}") }
    }

    /// Compares every route with the shortest; returns how many are longer.
    fn lengths(&mut self, usable: &[u8], routes: &Routes, allow_detours: bool) -> usize {
        let mut detours = 0;
        let mut reach = Reach::new(self.torus, usable);
        for (place, from) in routes.nodes().iter().enumerate() {
            let longer =
                |d: usize, to: &NodeId| routes.route(place, d).len() > self.torus_distance(*from, *to);
            if !routes.nodes().iter().enumerate().any(|(d, to)| longer(d, to)) {
                continue;
            }
            reach.search(*from, &self.next);
            for (d, to) in routes.nodes().iter().enumerate().filter(|(d, _)| *d != place) {
                let (hops, shortest) = (routes.route(place, d).len(), reach.hops[to.index()] as usize);
                if hops > shortest {
                    detours += 1;
                    if !allow_detours {
                        let pair = self.pair(*from, *to);
                        self.findings.push("detour", || TorusFinding::Detour { pair, hops, shortest });
                    }
                }
            }
        }
        detours
    }

    /// Hops on the healthy torus.
    fn torus_distance(&self, from: NodeId, to: NodeId) -> usize {
        let (a, b) = (self.torus.coords(from), self.torus.coords(to));
        let per_dim = a.as_slice().iter().zip(b.as_slice()).enumerate().map(|(dim, (a, b))| {
            let straight = usize::from(a.abs_diff(*b));
            if self.torus.is_ring(dim) {
                straight.min(usize::from(self.torus.size(dim)) - straight)
            } else {
                straight
            }
        });
        per_dim.sum()
    }
}

/// The first step (from 1) that breaks a rule of the router whatever the torus, and the rule.
fn broken_rule(steps: &[Step]) -> Option<(usize, &'static str)> {
    let first = usize::from(steps[0].is_first());
    let last = steps.len() - usize::from(steps[steps.len() - 1].is_last());
    let mut bits = 0;
    let mut before: Option<Direction> = None;
    for (number, step) in steps.iter().enumerate() {
        let direction = step.direction();
        let rule = if step.is_first() && number > 0 {
            Some("a first step is the first")
        } else if step.is_last() && number + 1 < steps.len() {
            Some("a last step is the last")
        } else if step.is_first() && direction.is_negative() {
            Some("a first step is positive")
        } else if step.is_last() && !direction.is_negative() {
            Some("a last step is negative")
        } else if step.is_last() && last <= first {
            Some("a last step follows an ordered one")
        } else if number < first || number >= last {
            None
        } else if before.is_some_and(|b| direction < b) {
            Some("direction order")
        } else if bits & direction.opposite().bit() != 0 {
            Some("direction bits")
        } else {
            bits |= direction.bit();
            before = Some(direction);
            None
        };
        if let Some(rule) = rule {
            return Some((number + 1, rule));
        }
    }
    None
}
