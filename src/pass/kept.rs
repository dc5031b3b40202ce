//! What stays of the tables in force while other jobs come.

use std::sync::Arc;

use super::plan::{Plan, Published};
use super::policy::Policy;
use crate::model::{Demand, Fabric, FabricLanes, Fingerprint, Group, Layer, Promise, Tables};
use crate::route;
use crate::verify;

impl Published {
    /// Tables in force, as programs are told, of which nothing else is known.
    pub fn new(
        fabric: Fingerprint,
        engine: impl Into<String>,
        demand: Demand,
        tables: impl Into<Arc<Tables>>,
    ) -> Self {
        Self {
            fabric,
            engine: engine.into(),
            since: None,
            asked: None,
            demand,
            tables: tables.into(),
            lids: None,
            told: Vec::new(),
            promise: Promise::TOLD,
            lanes: None,
            halfway: false,
            drained: false,
            certificate: None,
            proved: None,
            counted: None,
            difference: None,
            behind: None,
        }
    }

    /// A plan that is in force as it is, since its jobs were seen.
    pub fn of_plan(plan: &Plan, promise: Promise) -> Self {
        let (engine, tables) = (plan.engine.clone(), Arc::clone(&plan.tables));
        Self {
            since: Some(plan.jobs.time),
            asked: plan.worth.map(|worth| worth.asked),
            lids: plan.lids.clone(),
            promise,
            lanes: plan.lanes.clone(),
            halfway: plan.halfway,
            drained: plan.drained,
            counted: plan.counted.clone(),
            difference: plan.difference.clone(),
            ..Self::new(plan.tables.fabric(), engine, plan.demand.clone(), tables)
        }
    }
}

/// Gives jobs that were told a layer their routes of before, where the new ones are on another.
/// Whether all fits together is for the checker to say. O(terminals of those jobs × switches).
pub(super) fn keep_told(fabric: &Fabric, tables: Tables, published: &Published) -> Tables {
    let on = |tables: &Tables, (group, layer): &(Group, Layer)| {
        verify::layers_of_group(fabric, tables, group)[..] == [*layer]
    };
    let before = &published.tables;
    let moved: Vec<&Group> =
        published.told.iter().filter(|t| !on(&tables, t) && on(before, t)).map(|(g, _)| g).collect();
    if moved.is_empty() {
        return tables;
    }
    let switches = fabric.switches().len();
    tables.edited(|ports, layers| {
        for d in moved.iter().flat_map(|g| &g.terminals).map(|t| fabric.dest_of_terminal(*t)) {
            let at = d.index() * switches..(d.index() + 1) * switches;
            ports[at.clone()].copy_from_slice(before.ports_to(d));
            layers[at].copy_from_slice(before.layers_to(d));
        }
    })
}

/// Whether the tables in force may stay for other jobs, where they are better than what was made of them: not where the
/// engine knows no jobs. O(lanes).
pub(super) fn may_stay(
    published: &Published,
    lanes: Option<&Arc<FabricLanes>>,
    demand: &Demand,
    policy: &Policy,
) -> bool {
    let is_made_so = published.engine == policy.engine
        && route::serves_jobs(&policy.engine)
        && published.lanes.as_ref() == lanes
        && !policy.layer_per_job;
    // Predictions know no storage.
    is_made_so && published.tables.layers_used() <= policy.budget.get() && demand.storage.servers.is_empty()
}
