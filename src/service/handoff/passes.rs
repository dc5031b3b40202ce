//! What a pass means for the jobs that wait: seen, routed, published, acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    DateTime, Demand, HandOff, InForce, Outcome, Parts, Phase, REMEMBERED, RETRY, Start, StartId, TimeDelta,
    UNLISTED, Utc,
};
use crate::model::{Fabric, Group, Job, JobId, JobMap, JobState, NodeMap, NodeName, Ranks, TerminalId};
use crate::pass::step::View;

impl HandOff {
    /// The jobs that a look saw, together with those announced, each with what it said at its start unless its
    /// comment says something now. Jobs that wait count whatever their age, though the batch system may not list
    /// them yet; the pass that follows covers them.
    /// [`JobMap::known_at`] is when the batch system was asked. O(jobs × log jobs + their nodes).
    pub fn merge(&mut self, now: DateTime<Utc>, view: &View) -> JobMap {
        self.asked = false;
        self.under_way = true;
        if self.site.as_ref().is_none_or(|(fabric, _)| !Arc::ptr_eq(fabric, &view.fabric)) {
            self.parts = Parts::of(&view.fabric);
        }
        self.site = Some((view.fabric.clone(), view.nodes.clone()));
        let mut jobs = view.jobs.clone();
        self.add_starts(now, &mut jobs);
        self.told.add_to(&mut jobs);
        jobs
    }

    fn add_starts(&mut self, now: DateTime<Utc>, jobs: &mut JobMap) {
        self.decide_new(now, jobs);
        self.forget(now, jobs);
        for start in self.starts.values_mut() {
            if let Phase::Started(
                _,
                Outcome::NextPass | Outcome::OneSwitch | Outcome::Held | Outcome::Gone | Outcome::Unknown,
            ) = start.phase
            {
                continue;
            }
            if start.phase == Phase::New {
                start.phase = Phase::Covered;
            }
            // Without a start there is no age to reach.
            let announced = |state| Job::new(start.id.job.clone(), state, start.id.nodes.clone(), None);
            match listed(jobs, &start.id.job) {
                Some(at) => {
                    start.listed |= jobs.jobs[at].is_on(&start.id.nodes);
                    start.id.is_component |= jobs.jobs[at].component.is_some();
                    let was = jobs.jobs[at].clone();
                    let job = announced(was.state).ending(was.end).part_of(was.component);
                    jobs.jobs[at] = Job { guessed: was.guessed, ..job.exchanging(was.mix) };
                }
                None => jobs.jobs.push(announced(JobState::Configuring)),
            }
            // `listed` searches by id.
            jobs.jobs.sort_by(|a, b| a.id.cmp(&b.id));
        }
    }

    /// Lets jobs go of which the look shows that they are too short, or need no other routes.
    fn decide_new(&mut self, now: DateTime<Utc>, jobs: &JobMap) {
        // What a component of a heterogeneous job needs is not to be seen from its own nodes.
        let is_component = |s: &&Start| {
            s.id.is_component || listed(jobs, &s.id.job).is_some_and(|at| jobs.jobs[at].component.is_some())
        };
        let new = self.starts.values().filter(|s| s.phase == Phase::New && !is_component(s));
        let decided: BTreeMap<JobId, Outcome> = new
            .filter_map(|s| {
                let length = listed(jobs, &s.id.job).and_then(|at| jobs.jobs[at].length());
                let unworthy = (!self.is_worth(&s.id, length)).then_some(Outcome::NextPass);
                Some((s.id.job.clone(), self.needs_nothing(&s.id).or(unworthy)?))
            })
            .collect();
        self.start_all(now, |s| decided.get(&s.id.job).copied());
    }

    /// Why a start need not wait, if the last look tells.
    pub(super) fn needs_nothing(&self, id: &StartId) -> Option<Outcome> {
        if self.held {
            return Some(Outcome::Held);
        }
        let gone = self.gone.then_some(Outcome::OpensmGone);
        let Some((fabric, nodes)) = &self.site else { return gone };
        let ranks = nodes.ranks(&id.nodes);
        if !id.is_component && !ranks.is_multi_switch(fabric) {
            let is_known = id.nodes.iter().all(|node| !nodes.terminals(node).is_empty());
            return Some(if is_known { Outcome::OneSwitch } else { Outcome::Unknown });
        }
        if !self.parts.apart(fabric, nodes, &id.nodes).is_empty() {
            return Some(Outcome::Unrouted);
        }
        if gone.is_some() {
            return gone;
        }
        let group = Ranks { mix: self.told.mix(&id.job), ..ranks }.group();
        let serves = |f: &&InForce| f.acknowledged && f.demand.groups.contains(&group);
        self.in_force.as_ref().filter(serves).map(|_| Outcome::InForce)
    }

    /// Whether the rules grant a start a computation of its own.
    pub(super) fn is_worth(&self, id: &StartId, length: Option<TimeDelta>) -> bool {
        (id.is_component || id.nodes.len() >= self.rules.min_nodes)
            && length.is_none_or(|l| l >= self.rules.min_length)
    }

    /// Direct torus: whether another start that is remembered is on a node of this one. O(nodes of all × log nodes).
    pub fn shares_nodes(&self, id: &StartId) -> bool {
        let nodes: BTreeSet<&NodeName> = id.nodes.iter().collect();
        let others = self.starts.values().filter(|s| s.id.job != id.job);
        others.flat_map(|s| &s.id.nodes).any(|node| nodes.contains(node))
    }

    /// Nodes that no cable joins with others.
    pub fn parted(&self) -> Vec<NodeName> {
        let apart = |(fabric, map): &(Arc<Fabric>, Arc<NodeMap>)| self.parts.apart(fabric, map, map.names());
        self.site.as_ref().map(apart).unwrap_or_default()
    }

    /// Forgets starts that came to nothing, and what jobs said that are over.
    pub fn forget(&mut self, now: DateTime<Utc>, jobs: &JobMap) {
        let gone: Vec<JobId> =
            self.starts.values().filter(|s| is_gone(s, jobs)).map(|s| s.id.job.clone()).collect();
        for job in gone {
            self.start_job(now, &job, Outcome::Gone);
            self.starts.remove(&job);
            self.counters.unended += 1;
        }
        let is_there = |id: &JobId| listed(jobs, id).is_some() || self.starts.contains_key(id);
        self.told.keep(jobs.known_at(), is_there);
    }

    /// Forgets those let go longest ago, if there are too many.
    pub(super) fn trim(&mut self) {
        let excess = self.starts.len().saturating_sub(REMEMBERED * self.rules.max_pending);
        if excess == 0 {
            return;
        }
        let mut started: Vec<(DateTime<Utc>, JobId)> = self
            .starts
            .values()
            .filter_map(|s| match s.phase {
                Phase::Started(at, _) => Some((at, s.id.job.clone())),
                _ => None,
            })
            .collect();
        started.sort_unstable();
        for (_, job) in started.into_iter().take(excess) {
            self.starts.remove(&job);
        }
    }

    /// A pass has failed. As long as they do, nobody waits for longer than for a service that is gone.
    pub fn pass_failed(&mut self, now: DateTime<Utc>) {
        self.failing = true;
        let most = now + self.rules.away;
        let waiting = self.starts.values_mut().filter(|s| matches!(s.phase, Phase::New | Phase::Covered));
        waiting.for_each(|s| s.deadline = s.deadline.min(most));
        self.failed(now);
    }

    /// The look or the computation failed, or was not tried: those covered wait for another one.
    pub fn failed(&mut self, now: DateTime<Utc>) {
        self.asked = false;
        self.under_way = false;
        let mut tried = false;
        for start in self.starts.values_mut() {
            tried |= matches!(start.phase, Phase::New | Phase::Covered);
            if start.phase == Phase::Covered {
                start.phase = Phase::New;
            }
        }
        if tried {
            self.not_before = self.not_before.max(now + RETRY);
        }
    }

    /// Routes for this demand are on the disk as this epoch. Those covered now wait for OpenSM, or,
    /// if nobody watches it, for nothing more.
    pub fn published(&mut self, now: DateTime<Utc>, epoch: u64, demand: &Demand, watched: bool) {
        self.not_before = self.not_before.max(now + self.rules.reroute_interval);
        self.found(now, epoch, demand, watched);
    }

    /// What was on the disk already serves this demand. As [`HandOff::published`], but nothing was
    /// routed anew.
    pub fn found(&mut self, now: DateTime<Utc>, epoch: u64, demand: &Demand, watched: bool) {
        (self.under_way, self.failing) = (false, false);
        let known = self.in_force.as_ref().filter(|f| f.epoch == epoch);
        let acknowledged = !watched || known.is_some_and(|f| f.acknowledged);
        self.in_force = Some(InForce { epoch, demand: demand.clone(), acknowledged });
        for start in self.starts.values_mut().filter(|s| s.phase == Phase::Covered) {
            start.phase = Phase::Published(epoch);
        }
        if acknowledged {
            self.acknowledged(now, epoch);
        }
    }

    /// Other routes are not worth the change, or it is too soon for one: those covered start at once. `served`
    /// is what the routes of this epoch were made for.
    pub fn not_worth(&mut self, now: DateTime<Utc>, epoch: u64, served: &Demand, why: Outcome) {
        (self.under_way, self.failing) = (false, false);
        let acknowledged = self.in_force.as_ref().is_some_and(|f| f.epoch == epoch && f.acknowledged);
        self.in_force = Some(InForce { epoch, demand: served.clone(), acknowledged });
        self.start_all(now, |s| (s.phase == Phase::Covered).then_some(why));
    }

    /// What is in force serves what was seen, or serves it well enough.
    pub fn kept(&mut self, now: DateTime<Utc>) {
        self.failing = false;
        match self.in_force.clone() {
            Some(InForce { epoch, demand, acknowledged }) => {
                if let Some((_, nodes)) = self.site.clone() {
                    // The group of a component has terminals of others too. That of a job has none but its own:
                    // routes of a larger one that is over were not made for it.
                    let is_of = |s: &Start, terminals: &[TerminalId], group: &Group| {
                        let is_inside = terminals.iter().all(|t| group.terminals.binary_search(t).is_ok());
                        is_inside && (s.id.is_component || group.terminals.len() == terminals.len())
                    };
                    let is_served = |s: &Start| {
                        let terminals = nodes.ranks(&s.id.nodes).terminals;
                        demand.groups.iter().any(|group| is_of(s, &terminals, group))
                    };
                    self.start_all(now, |s| {
                        (s.phase == Phase::Covered && !is_served(s)).then_some(Outcome::GoodEnough)
                    });
                }
                self.found(now, epoch, &demand, !acknowledged);
            }
            None => self.failed(now),
        }
    }

    /// OpenSM has this epoch in force on every switch, and with it what earlier epochs were for.
    pub fn acknowledged(&mut self, now: DateTime<Utc>, epoch: u64) {
        if let Some(in_force) = self.in_force.as_mut().filter(|f| f.epoch == epoch) {
            in_force.acknowledged = true;
        }
        self.start_all(now, |s| match s.phase {
            Phase::Published(needed) if needed <= epoch => Some(Outcome::InForce),
            _ => None,
        });
    }
}

/// Place of a job in a job map, which is sorted by id.
fn listed(jobs: &JobMap, id: &JobId) -> Option<usize> {
    jobs.jobs.binary_search_by(|j| j.id.cmp(id)).ok()
}

/// Whether a start came to nothing, or its end was not announced. Then the batch system, asked after the
/// announcement, lists the job with other nodes or not at all, though it listed it before or had the time to.
fn is_gone(start: &Start, jobs: &JobMap) -> bool {
    if jobs.known_at() <= start.announced {
        return false;
    }
    let since = match start.phase {
        Phase::Started(at, _) => jobs.known_at() - at,
        _ => TimeDelta::zero(),
    };
    match listed(jobs, &start.id.job) {
        Some(at) => !jobs.jobs[at].is_on(&start.id.nodes) && !start.is_pending(),
        None => start.listed || since > UNLISTED,
    }
}
