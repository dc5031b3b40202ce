//! One epoch after the other, for `sarouter simulate --changes`.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Args, Failure};
use crate::cli::input::Input;
use crate::lab::board::mix;
use crate::lab::generate::faults::{Amount, Faults};
use crate::model::{
    Demand, Fabric, FabricLanes, Group, Job, JobId, JobMap, JobState, LayerBudget, NodeName, PortNum,
    PortPeer, Promise, SwitchId, Tables,
};
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::pass::plan::{Policy, Published};
use crate::pass::step::View;
use crate::route::{EngineOptions, engine};
use crate::service::pass::decide;
use crate::simulate::changes::Epoch;

/// Sizes of the jobs for which each epoch is routed.
const SIZES: [usize; 4] = [8, 16, 32, 64];

/// The tables of one epoch after the other, each for a mix of jobs of its own. Inside lanes each is routed anew: more
/// changes than where the service keeps the routes of jobs that go on. After a loss the service's own way is gone, see
/// [`decide`].
pub(super) struct Epochs<'a> {
    args: &'a Args,
    vls: LayerBudget,
    /// What is left of it.
    fabric: Arc<Fabric>,
    options: EngineOptions,
    /// The newest epoch, as far as it may have to be judged beside the next one.
    newest: Option<(Demand, Tables)>,
    /// After a loss: the epoch in force, until a last step is made.
    stepping: Option<Published>,
    /// Cables that are to die when no step is left.
    owed: u32,
}

impl<'a> Epochs<'a> {
    pub(super) fn new(
        args: &'a Args,
        input: &Input,
        promise: Promise,
        lanes: Option<Arc<FabricLanes>>,
    ) -> Self {
        let options = EngineOptions { promise, lanes, ..EngineOptions::default() };
        let fabric = Arc::new(input.fabric.clone());
        Self { args, vls: input.budget, fabric, options, newest: None, stepping: None, owed: 0 }
    }

    /// So many layers and no more.
    pub(super) fn limit(&mut self, layers: LayerBudget) {
        self.vls = layers;
    }

    pub(super) fn next(&mut self, n: u32) -> Result<Epoch, Failure> {
        let seed = self.args.seed.wrapping_mul(1 << 32).wrapping_add(n.into());
        self.owed += u32::from(self.args.changes.dies(n));
        if let Some(in_force) = self.stepping.take() {
            return self.step(&in_force, None, seed);
        }
        let safe = !self.options.promise.is_told_only();
        if let (Some((demand, tables)), true) = (self.newest.take(), self.owed > 0 && safe) {
            self.owed -= 1;
            let before = Arc::clone(&self.fabric);
            let dies = self.lose(seed)?;
            let in_force = self.in_force(&before, demand, tables)?;
            return self.step(&in_force, dies, seed);
        }
        let demand = Demand::new(mix(&self.fabric, seed, &SIZES), Vec::new());
        let engine = engine(&self.args.engine, &self.options)?;
        let tables = engine.route(&self.fabric, &demand, self.vls)?;
        if self.options.lanes.is_none() {
            self.options.previous = Some(Arc::new(tables.clone()));
            self.options.served = Some(demand.clone());
        }
        self.newest = Some((demand, tables.clone()));
        let dies = if std::mem::take(&mut self.owed) > 0 && !safe { self.lose(seed)? } else { None };
        Ok(Epoch { tables, dies, waits: false })
    }

    /// What the service would have in force, made for the fabric `before` the loss.
    fn in_force(&self, before: &Fabric, demand: Demand, tables: Tables) -> Result<Published, Failure> {
        let now = &*self.fabric;
        let lanes = self.options.lanes.as_ref().map(|lanes| Arc::new(lanes.on(before, now)));
        let (ports, layers) = tables.into_raw();
        let tables = Tables::new(now, &self.args.engine, ports, layers)?;
        let tables = tables.with_lanes(lanes.as_ref().map(|lanes| Arc::clone(&lanes.map)));
        let promise = self.options.promise;
        let in_force = Published::new(before.fingerprint(), self.args.engine.clone(), demand, tables);
        Ok(Published { promise, lanes, ..in_force })
    }

    /// The next step after a loss, as the service makes it.
    fn step(
        &mut self,
        in_force: &Published,
        dies: Option<(SwitchId, PortNum)>,
        seed: u64,
    ) -> Result<Epoch, Failure> {
        let policy = Policy::new(self.args.engine.clone(), self.vls, self.options.promise);
        let policy = Policy { may_wait: true, ..policy };
        let nodes = Arc::new(name_hosts(&self.fabric, &NodeNames::default()));
        let jobs = jobs(&self.fabric, &mix(&self.fabric, seed, &SIZES))?;
        let view = View::new(Arc::clone(&self.fabric), nodes, jobs, policy);
        let checked = decide(&view, Some(in_force))?.plan.ok_or("no epoch after a loss")?;
        let promise = checked.plan.promise();
        if !promise.mixed {
            tracing::warn!("a loss: no step was proved beside what was in force");
        }
        let plan = checked.plan.into_inner();
        let waits = plan.halfway && has_gaps(&self.fabric, &plan.tables);
        self.options.lanes.clone_from(&plan.lanes);
        let tables = Tables::clone(&plan.tables);
        match plan.halfway {
            true => self.stepping = Some(Published::of_plan(&plan, promise)),
            false => self.newest = Some((plan.demand, tables.clone())),
        }
        Ok(Epoch { tables, dies, waits })
    }

    /// Loses a cable: one of its ports.
    fn lose(&mut self, seed: u64) -> Result<Option<(SwitchId, PortNum)>, Failure> {
        let now = Faults { cables: Amount::Count(1), dead_switches: 0, seed }.apply(&self.fabric)?;
        let is_gone = |s, port| !matches!(now.peer(s, port), Some(PortPeer::Channel(_)));
        let gone = self.fabric.channels().iter().find(|c| is_gone(c.from, c.from_port));
        let port = gone.map(|c| (c.from, c.from_port));
        self.fabric = Arc::new(now);
        Ok(port)
    }
}

/// Whether some switch has no entry for a destination.
fn has_gaps(fabric: &Fabric, tables: &Tables) -> bool {
    fabric.dest_ids().any(|d| tables.ports_to(d).contains(&Tables::UNREACHABLE))
}

/// The groups as jobs on the hosts' nodes.
fn jobs(fabric: &Fabric, groups: &[Group]) -> Result<JobMap, Failure> {
    let job = |(n, group): (usize, &Group)| -> Result<Job, Failure> {
        let name = |t| NodeName::new(fabric.terminal(t).description.split(' ').next().unwrap_or(""));
        let nodes: Result<Vec<NodeName>, _> = group.ranks.iter().map(|t| name(*t)).collect();
        Ok(Job::new(JobId::new(format!("{}", n + 1))?, JobState::Running, nodes?, None))
    };
    let jobs: Result<Vec<Job>, Failure> = groups.iter().enumerate().map(job).collect();
    Ok(JobMap::new(DateTime::<Utc>::UNIX_EPOCH, jobs?))
}
