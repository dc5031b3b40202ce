//! Who sends to whom, seen from one destination at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::net::Net;
use crate::model::{Demand, Fabric, Group, StorageFlows, TerminalId};

/// How much a destination's routes matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Routes inside jobs; all routes between hosts if no job is known.
    Job,
    /// Routes to storage servers.
    Storage,
    /// Routes that only must be there.
    Other,
}

/// The flows towards each terminal, per sending switch.
pub(super) struct Traffic<'a> {
    demand: &'a Demand,
    /// Groups of each terminal.
    groups: Vec<Vec<u32>>,
    /// Per group: switches and the number of its terminals there.
    spread: Vec<Vec<(u32, u32)>>,
    /// Class of each terminal.
    class: Vec<Class>,
    /// How many terminals of the same jobs come before it on its switch.
    turn: Vec<u32>,
    /// What storage adds.
    stored: StorageFlows,
    counts: Counts,
}

/// Which flows count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    Jobs,
    Storage,
    Both,
}

impl<'a> Traffic<'a> {
    /// O(terminals + sum of group sizes).
    pub(super) fn new(fabric: &Fabric, demand: &'a Demand) -> Self {
        let groups = demand.groups_of(fabric);
        let is_host = |t: TerminalId| fabric.terminal(t).role == crate::model::Role::Host;
        let spread = demand.groups.iter().map(|g| {
            let mut at: Vec<u32> =
                g.terminals.iter().map(|t| fabric.terminal(*t).switch.index() as u32).collect();
            at.sort_unstable();
            at.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect()
        });
        let spread = spread.collect();
        let mut class: Vec<Class> = fabric
            .terminal_ids()
            .map(|t| match groups[t.index()].is_empty() {
                false => Class::Job,
                true if demand.is_oblivious() && is_host(t) => Class::Job,
                true => Class::Other,
            })
            .collect();
        for t in &demand.storage.servers {
            if class[t.index()] == Class::Other {
                class[t.index()] = Class::Storage;
            }
        }
        let mut before = BTreeMap::new();
        let turn = fabric.terminal_ids().map(|t| {
            let of = &groups[t.index()];
            if of.is_empty() {
                return 0;
            }
            let turn = before.entry((fabric.terminal(t).switch, of.as_slice())).or_insert(0);
            *turn += 1;
            *turn - 1
        });
        let turn = turn.collect();
        let stored = StorageFlows::of(fabric, demand);
        Self { demand, groups, spread, class, turn, stored, counts: Counts::Both }
    }

    /// Only what goes on inside jobs, and only what storage adds; `None` if it adds nothing. O(terminals).
    pub(super) fn apart(fabric: &Fabric, demand: &'a Demand) -> Option<[Self; 2]> {
        let mut jobs = Self::new(fabric, demand);
        if jobs.stored.clients.is_empty() {
            return None;
        }
        jobs.counts = Counts::Jobs;
        jobs.class.iter_mut().filter(|c| **c == Class::Storage).for_each(|c| *c = Class::Other);
        let mut storage = Self::new(fabric, demand);
        storage.counts = Counts::Storage;
        for (t, class) in storage.class.iter_mut().enumerate() {
            let is_reached = !storage.stored.to(&demand.storage, TerminalId::at(t)).is_empty();
            *class = if is_reached { Class::Job } else { Class::Other };
        }
        Some([jobs, storage])
    }

    /// Whether no job is known, so that all routes between hosts count.
    pub(super) fn is_oblivious(&self) -> bool {
        self.demand.is_oblivious()
    }

    /// Whether a terminal is in a job.
    pub(super) fn is_in_job(&self, terminal: usize) -> bool {
        !self.groups[terminal].is_empty()
    }

    /// Jobs of a terminal, ascending.
    pub(super) fn groups_of(&self, terminal: usize) -> &[u32] {
        &self.groups[terminal]
    }

    /// Whether each terminal is in no other jobs than those of a demand; in any if none is given.
    /// O(jobs × log jobs + terminals).
    pub(super) fn settled(&self, served: Option<&Demand>) -> Vec<bool> {
        let known: Option<BTreeSet<&Group>> = served.map(|d| d.groups.iter().collect());
        let is_known = |g: &Group| known.as_ref().is_none_or(|known| known.contains(g));
        let is_known: Vec<bool> = self.demand.groups.iter().map(is_known).collect();
        self.groups.iter().map(|of| of.iter().all(|g| is_known[*g as usize])).collect()
    }

    /// Class of a terminal.
    pub(super) fn class(&self, terminal: usize) -> Class {
        self.class[terminal]
    }

    /// Destinations of a class. Those of jobs in the order of the largest job they are in, as in
    /// Algorithm 5.1, of one job in turn over its switches.
    pub(super) fn destinations(&self, class: Class) -> Vec<usize> {
        let mut found: Vec<usize> = (0..self.class.len()).filter(|t| self.class[*t] == class).collect();
        // Groups are sorted by size.
        found.sort_by(|a, b| {
            let key = |t: usize| (self.groups[t].as_slice(), self.turn[t]);
            key(*a).cmp(&key(*b))
        });
        found
    }

    /// Fills in the number of routes that count, per sending switch.
    pub(super) fn fill(&self, net: &Net, terminal: usize, flow: &mut [u32]) {
        flow.fill(0);
        if !self.each_sender(terminal, |switch, routes| flow[switch] += routes) {
            flow.copy_from_slice(&net.hosts);
        }
    }

    /// Calls with switches and the number of routes from there that count, for a switch several times if several jobs
    /// are there; false, and no call, if those from all hosts do.
    pub(super) fn each_sender(&self, terminal: usize, mut call: impl FnMut(usize, u32)) -> bool {
        let stored = self.stored.to(&self.demand.storage, TerminalId::at(terminal));
        if self.counts != Counts::Storage && self.groups[terminal].is_empty() && stored.is_empty() {
            return false;
        }
        if self.counts != Counts::Jobs {
            stored.iter().for_each(|(s, count)| call(s.index(), *count));
        }
        if self.counts == Counts::Storage {
            return true;
        }
        for g in &self.groups[terminal] {
            let weight = self.demand.groups[*g as usize].weight;
            self.spread[*g as usize].iter().for_each(|(s, count)| call(*s as usize, weight * count));
        }
        true
    }
}
