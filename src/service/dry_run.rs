//! What a pass would do, without doing it: for the command `plan` and for the API.

use schemars::JsonSchema;
use serde::Serialize;

use super::pass::{Checked, Decided};
use crate::measure::{self, Figures, JobFigures};
use crate::model::{Fabric, Group, JobId, NodeName};
use crate::pass::plan::{Published, Reason};
use crate::pass::step::View;
use crate::pass::worth::Worth;
use crate::verify::Transition;

/// The answer.
#[derive(Debug, JsonSchema, Serialize)]
pub struct DryRun {
    /// Whether new routes are due.
    pub due: bool,
    /// Why new routes are due; `None` if none are.
    pub reason: Option<Reason>,
    /// Engine of the settings.
    pub engine: String,
    /// What a change would be worth, where that is the question; `due` is the answer.
    pub worth: Option<Worth>,
    /// Epoch in force.
    pub epoch: Option<u64>,
    /// Jobs that own nodes.
    pub jobs: usize,
    /// Multi-switch jobs that count.
    pub multi_switch: usize,
    /// Multi-switch jobs that are too young to count.
    pub waiting: usize,
    /// Nodes of jobs that no terminal matches.
    pub unknown_nodes: Vec<NodeName>,
    /// Blocks of 64 entries that OpenSM would send.
    pub changed_blocks: Option<usize>,
    /// What both tables may do together until all switches are programmed; null if what is in force is of
    /// another fabric.
    pub transition: Option<Transition>,
    /// What is in force, under the jobs of now; null if it is of another fabric.
    pub before: Option<Figures>,
    /// What would be in force.
    pub after: Option<Figures>,
    /// What each multi-switch job has and would get.
    pub per_job: Vec<PerJob>,
    /// Milliseconds of deciding and routing.
    pub route_ms: Option<f64>,
    /// Milliseconds of checking.
    pub verify_ms: Option<f64>,
}

/// One multi-switch job.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PerJob {
    /// Its id.
    pub job: JobId,
    /// Terminals of its nodes.
    pub terminals: usize,
    /// Now; null if what is in force is of another fabric.
    pub before: Option<JobFigures>,
    /// With the new routes.
    pub after: JobFigures,
}

impl DryRun {
    /// From a decision; `epoch` is the one in force.
    pub fn new(view: &View, published: Option<&Published>, epoch: Option<u64>, decided: &Decided) -> Self {
        let mut answered = Self {
            due: false,
            reason: None,
            engine: view.policy.engine.clone(),
            worth: decided.not_worth,
            epoch,
            jobs: view.jobs.jobs.len(),
            multi_switch: decided.demand.groups.len(),
            waiting: decided.waiting,
            unknown_nodes: decided.unknown_nodes.clone(),
            changed_blocks: None,
            transition: None,
            before: None,
            after: None,
            per_job: Vec::new(),
            route_ms: None,
            verify_ms: None,
        };
        if let Some(checked) = &decided.plan {
            answered.add(view, published, checked);
        }
        answered
    }

    fn add(&mut self, view: &View, published: Option<&Published>, checked: &Checked) {
        let plan = checked.plan.get();
        let fabric: &Fabric = &view.fabric;
        let of_now = |p: &&Published| p.fabric == fabric.fingerprint();
        let in_switches = published.map(Published::in_switches).filter(of_now);
        let in_force = published.map(Published::to_change).filter(of_now);
        let placed = view.nodes.place(&plan.jobs).jobs;
        let multi: Vec<(JobId, Group)> = placed
            .into_iter()
            .map(|job| (job.id, job.ranks.group()))
            .filter(|(_, g)| plan.demand.groups.contains(g))
            .collect();
        let groups: Vec<Group> = multi.iter().map(|(_, group)| group.clone()).collect();
        let before = in_force.map(|p| measure::per_job(fabric, &p.tables, &groups));
        let after = measure::per_job(fabric, &plan.tables, &groups);
        self.per_job = multi
            .into_iter()
            .zip(after)
            .enumerate()
            .map(|(i, ((job, group), after))| PerJob {
                job,
                terminals: group.terminals.len(),
                before: before.as_ref().and_then(|b| b.get(i).copied()),
                after,
            })
            .collect();
        self.due = true;
        self.reason = Some(plan.reason);
        self.worth = plan.worth;
        self.changed_blocks =
            in_switches.and_then(|p| plan.tables.changed_blocks(fabric, p.replaced_by(plan)));
        self.transition = in_switches.and_then(|p| checked.transition(fabric, p));
        self.before = plan.before;
        self.after = Some(plan.after);
        self.route_ms = Some(checked.routing.as_secs_f64() * 1000.0);
        self.verify_ms = Some(checked.verifying.as_secs_f64() * 1000.0);
    }
}
