//! Which of a port's two LIDs (LMC 1) jobs use, and which one a job is told that starts.
//!
//! An epoch changes the routes of one LID of each port, which no job uses that runs; the others stay. So a job
//! that starts while routes are computed, or while OpenSM writes them, is told the LID that they are not for.
//! Jobs that were told nothing use base LIDs, as all programs do by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use tracing::warn;

use crate::model::{JobId, LidSet};
use crate::pass::step::View;
use crate::publish::job;
use crate::service::chain;

/// A job that was told since is remembered, whatever the batch system said of it.
const JUST_NOW: TimeDelta = TimeDelta::seconds(5);

/// What jobs were told.
#[derive(Debug, Default)]
pub(in crate::service) struct Lids {
    told: BTreeMap<JobId, (DateTime<Utc>, LidSet)>,
    /// What cannot be read may be of any job.
    is_unknown: bool,
    /// For what routes are computed, while they are.
    target: Option<LidSet>,
}

impl Lids {
    /// What jobs were told by services before this one.
    pub(in crate::service) fn load(root: &Path) -> Self {
        let now = Utc::now();
        match job::lids(root) {
            Ok(told) => {
                let told = told.into_iter().map(|(job, set)| (job, (now, set))).collect();
                Self { told, ..Self::default() }
            }
            Err(error) => {
                warn!("which LIDs running jobs use is not known: {}", chain(&error));
                Self { is_unknown: true, ..Self::default() }
            }
        }
    }

    /// Which LIDs running jobs use, by [`LidSet::offset`]; `known` are the jobs there were at `asked`. Whose job
    /// is over is forgotten; who is `starting`, and was not told yet, will be. O(jobs).
    pub(in crate::service) fn in_use(
        &mut self,
        view: &View,
        known: &BTreeSet<JobId>,
        asked: DateTime<Utc>,
        starting: impl Fn(&JobId) -> bool,
    ) -> [bool; 2] {
        self.told.retain(|job, (time, _)| known.contains(job) || *time > asked - JUST_NOW);
        let mut in_use = [self.is_unknown; 2];
        let is_told = |job: &JobId| self.told.contains_key(job);
        for job in view.jobs.jobs.iter().filter(|job| is_told(&job.id) || !starting(&job.id)) {
            // Routes between switches do not matter to others.
            if view.nodes.ranks(&job.nodes).is_multi_switch(&view.fabric) {
                let set = self.told.get(&job.id).map_or(LidSet::Base, |(_, set)| *set);
                in_use[set.offset()] = true;
            }
        }
        let seen: BTreeSet<&JobId> = view.jobs.jobs.iter().map(|job| &job.id).collect();
        for (_, (_, set)) in self.told.iter().filter(|(job, _)| !seen.contains(job)) {
            in_use[set.offset()] = true;
        }
        in_use
    }

    /// Routes are computed for a LID that nobody uses, if there is one; until [`Lids::settled`] no job is told it.
    pub(in crate::service) fn begun(&mut self, in_use: Option<[bool; 2]>) {
        self.target = in_use.and_then(LidSet::free);
    }

    /// The computation is over: what it has made is in force or nothing is.
    pub(in crate::service) fn settled(&mut self) {
        self.target = None;
    }

    /// What a job is told that starts now. `fresh` are the LIDs that the epoch in force has changed, if any kept
    /// theirs; `written`: all switches have it. A job that is announced again keeps what it was told.
    pub(in crate::service) fn tell(&mut self, job: &JobId, fresh: Option<LidSet>, written: bool) -> LidSet {
        let in_force = match fresh {
            Some(fresh) if written => fresh,
            Some(fresh) => fresh.other(),
            None => LidSet::Base,
        };
        let now = self.target.map_or(in_force, LidSet::other);
        self.told.entry(job.clone()).or_insert((Utc::now(), now)).1
    }

    /// A job is over.
    pub(in crate::service) fn ended(&mut self, job: &JobId) {
        self.told.remove(job);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::lab::generate::generate;
    use crate::model::{Job, JobMap, JobState, LayerBudget, Promise};
    use crate::observe::nodes::{NodeNames, name_hosts};
    use crate::pass::plan::Policy;

    fn id(job: u32) -> JobId {
        job.to_string().parse().unwrap()
    }

    /// Jobs by number and host list, on four leaves of four hosts.
    fn view(jobs: &[(u32, &str)]) -> View {
        let fabric = Arc::new(generate("fattree:4x4,2").unwrap());
        let nodes = Arc::new(name_hosts(&fabric, &NodeNames::default()));
        let job = |(job, list): &(u32, &str)| {
            let nodes = crate::observe::hostlist::expand(list).unwrap();
            Job::new(id(*job), JobState::Running, nodes, None)
        };
        let jobs = JobMap::new(Utc::now(), jobs.iter().map(job).collect());
        let policy = Policy {
            lids_in_use: Some([false; 2]),
            ..Policy::new("balanced", LayerBudget::new(8).unwrap(), Promise::TOLD)
        };
        View::new(fabric, nodes, jobs, policy)
    }

    /// As the batch system lists these jobs, so much later.
    fn in_use(lids: &mut Lids, jobs: &[(u32, &str)], later: i64) -> [bool; 2] {
        let view = view(jobs);
        let known = jobs.iter().map(|(job, _)| id(*job)).collect();
        lids.in_use(&view, &known, Utc::now() + TimeDelta::seconds(later), |_| false)
    }

    #[test]
    fn a_job_is_told_what_is_not_being_changed() {
        let mut lids = Lids::default();
        let mut told = (1..).map(id);
        let mut tell = |lids: &mut Lids, fresh, written| lids.tell(&told.next().unwrap(), fresh, written);
        use LidSet::{Base, High};
        assert_eq!(tell(&mut lids, None, false), Base);
        for fresh in LidSet::ALL {
            assert_eq!(tell(&mut lids, Some(fresh), true), fresh);
            // Switches may still have the routes of before.
            assert_eq!(tell(&mut lids, Some(fresh), false), fresh.other());
            // Routes for base LIDs are computed, then for high LIDs, then for none.
            for (in_use, expected) in [([false, true], High), ([true, false], Base), ([true; 2], fresh)] {
                lids.begun(Some(in_use));
                assert_eq!(tell(&mut lids, Some(fresh), true), expected, "{in_use:?}");
                lids.settled();
            }
        }
        // Who asks again is answered the same, until the job is over.
        assert_eq!(lids.tell(&id(1), Some(High), true), Base);
        lids.ended(&id(1));
        assert_eq!(lids.tell(&id(1), Some(High), true), High);
    }

    #[test]
    fn a_lid_is_in_use_as_long_as_a_job_that_was_told_it() {
        let mut lids = Lids::default();
        assert_eq!(in_use(&mut lids, &[], 0), [false; 2]);
        // Who was told nothing uses base LIDs, as far as routes between switches matter to it.
        assert_eq!(in_use(&mut lids, &[(1, "n[1,5]"), (2, "n[2,3]")], 0), [true, false]);
        assert_eq!(in_use(&mut lids, &[(2, "n[2,3]")], 0), [false; 2]);
        lids.tell(&id(3), Some(LidSet::High), true);
        // The batch system may not list it yet; it may list it and have nothing else to say.
        assert_eq!(in_use(&mut lids, &[], 0), [false, true]);
        assert_eq!(in_use(&mut lids, &[(3, "n[1,5]")], 60), [false, true]);
        assert_eq!(in_use(&mut lids, &[(1, "n[2,6]"), (3, "n[1,5]")], 60), [true, true]);
        assert_eq!(in_use(&mut lids, &[(1, "n[2,6]")], 60), [true, false]);
        // Who waits to be told uses none.
        let waiting = view(&[(4, "n[1,5]")]);
        let known = BTreeSet::from([id(4)]);
        assert_eq!(lids.in_use(&waiting, &known, Utc::now(), |job| *job == id(4)), [false; 2]);
    }

    #[test]
    fn what_earlier_services_told_is_read_from_the_directories_of_jobs() {
        let root = tempfile::tempdir().unwrap();
        let environment = |lids| job::JobEnvironment { lids, ..job::JobEnvironment::default() };
        job::publish(root.path(), &id(1), &environment(Some(LidSet::High))).unwrap();
        job::publish(root.path(), &id(2), &environment(None)).unwrap();
        let mut lids = Lids::load(root.path());
        assert_eq!(in_use(&mut lids, &[(1, "n[1,5]")], 60), [false, true]);
        assert_eq!(in_use(&mut lids, &[(1, "n[1,5]"), (2, "n[2,6]")], 60), [true, true]);
        // What cannot be read may be of any job.
        std::fs::write(root.path().join("file"), "").unwrap();
        let mut lids = Lids::load(&root.path().join("file"));
        assert_eq!(in_use(&mut lids, &[], 0), [true; 2]);
    }
}
