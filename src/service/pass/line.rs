//! What is said of a published epoch.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{Checked, milliseconds};
use crate::measure::Figures;
use crate::model::{Fabric, FabricDifference, Group};
use crate::pass::plan::{Published, Reason};
use crate::pass::step::View;
use crate::pass::worth::Worth;
use crate::publish::EpochNumber;
use crate::verify::{self, Transition};

/// A published epoch, for the log. Times in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpochLine {
    /// Its number.
    pub epoch: u64,
    /// When it came into force on the disk.
    pub time: DateTime<Utc>,
    /// Why new routes were due.
    pub reason: Reason,
    /// What is other in the fabric than before; left out where nothing is, or it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<FabricDifference>,
    /// Name of who made the tables.
    pub engine: String,
    /// Jobs that own nodes.
    pub jobs: usize,
    /// Jobs that count.
    pub multi_switch: usize,
    /// Node sets of multi-switch jobs that were not served before.
    pub jobs_added: usize,
    /// Those that are served no more.
    pub jobs_removed: usize,
    /// Blocks of 64 entries that OpenSM must send; `None` if the fabric is another.
    pub changed_blocks: Option<usize>,
    /// What old and new tables may do together until all switches are programmed; `None` if the fabric is
    /// another.
    pub transition: Option<Transition>,
    /// What was in force, under the new jobs; `None` if of another fabric.
    pub before: Option<Figures>,
    /// What is in force now.
    pub after: Figures,
    /// What the change is worth, where that was the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worth: Option<Worth>,
    /// The first of two steps; left out where not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub halfway: bool,
    /// The first of three; left out where not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub drained: bool,
    /// Whether any switch may still have the routes of before while others have these: proved.
    pub mixed: bool,
    /// Asking Slurm.
    pub ask_ms: f64,
    /// Reading the fabric.
    pub parse_ms: f64,
    /// Deciding and routing.
    pub route_ms: f64,
    /// Checking.
    pub verify_ms: f64,
    /// Writing, until the data are on the disk.
    pub publish_ms: f64,
}

impl Checked {
    /// What the plan and what is in force on its fabric may do together, which need not be looked at where it is proved.
    pub(crate) fn transition(&self, fabric: &Fabric, in_force: &Published) -> Option<Transition> {
        let plan = self.plan.get();
        if !self.plan.promise().mixed {
            return verify::transition(fabric, in_force.replaced_by(plan), &plan.tables);
        }
        let layers = plan.before.map_or(0, |before| before.layers_used).max(plan.after.layers_used);
        Some(Transition::safe(plan.lanes.as_ref().map_or(layers, |lanes| lanes.map.vls())))
    }
}

/// The line of an epoch that a checked plan became; asking and reading are not in it yet.
pub(super) fn line(
    view: &View,
    published: Option<&Published>,
    checked: &Checked,
    epoch: EpochNumber,
    time: DateTime<Utc>,
    publishing: Duration,
) -> EpochLine {
    let plan = checked.plan.get();
    let before: BTreeSet<&Group> = published.iter().flat_map(|p| &p.demand.groups).collect();
    let after: BTreeSet<&Group> = plan.demand.groups.iter().collect();
    let in_switches = published.map(Published::in_switches);
    let in_switches = in_switches.filter(|p| p.fabric == view.fabric.fingerprint());
    EpochLine {
        epoch: epoch.get(),
        time,
        reason: plan.reason,
        difference: plan.difference.clone(),
        engine: plan.engine.clone(),
        jobs: view.jobs.jobs.len(),
        multi_switch: plan.demand.groups.len(),
        jobs_added: after.difference(&before).count(),
        jobs_removed: before.difference(&after).count(),
        changed_blocks: in_switches
            .and_then(|p| plan.tables.changed_blocks(&view.fabric, p.replaced_by(plan))),
        transition: in_switches.and_then(|p| checked.transition(&view.fabric, p)),
        before: plan.before,
        after: plan.after,
        worth: plan.worth,
        halfway: plan.halfway,
        drained: plan.drained,
        mixed: checked.plan.promise().mixed,
        ask_ms: 0.0,
        parse_ms: 0.0,
        route_ms: milliseconds(checked.routing),
        verify_ms: milliseconds(checked.verifying),
        publish_ms: milliseconds(publishing),
    }
}
