//! The job that is to be put in order, and where it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::Utc;

use super::Args;
use crate::cli::{Context, Failure, input};
use crate::model::{
    Adapters, Fabric, Group, JobId, JobMap, Mix, NodeMap, NodeName, Tables, TerminalId, did_you_mean, nearest,
};
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::observe::{fabric, grid, hostlist, jobs};
use crate::placement::order::Movable;
use crate::publish::EpochStore;
use crate::service::look::Looker;

/// The job and those beside it; the job is the first group.
pub struct Site {
    pub fabric: Arc<Fabric>,
    pub nodes: Vec<NodeName>,
    /// By rank as given: the node's place in the list.
    pub seats: Vec<u32>,
    pub groups: Vec<Group>,
    pub movable: Movable,
    /// The routes of the fabric with their name, where a service has published some.
    pub in_force: Option<(String, Tables)>,
}

/// What is known before ranks are counted.
struct Found {
    fabric: Arc<Fabric>,
    map: Arc<NodeMap>,
    nodes: Vec<NodeName>,
    mix: Mix,
    /// Jobs beside it.
    beside: JobMap,
    in_force: Option<(String, Tables)>,
}

impl Args {
    pub(super) fn site(&self, context: &Context) -> Result<Site, Failure> {
        let Found { fabric, map, nodes, mix, beside, in_force } = match &self.job {
            Some(job) => self.running(job, context)?,
            None => self.given()?,
        };
        let terminals = terminals(&map, &nodes)?;
        let per_node = self.per_node(&nodes, &terminals)?;
        let ranks = terminals.iter().flat_map(|t| (0..per_node).map(|r| t[r % t.len()])).collect();
        let seats = (0..nodes.len() as u32).flat_map(|n| vec![n; per_node]).collect();
        let rails = mix.rails().unwrap_or(map.rails());
        let mut job = Group::new(terminals.concat()).exchanging(mix);
        job.ranks = ranks;
        job = job.with_adapters(Adapters { per_node: per_node as u32, rails });
        if job.ranks.len() < 2 {
            return Err("one rank exchanges nothing: the job has one node".into());
        }
        let mut groups = vec![job];
        let placed = map.place(&beside);
        if !placed.strangers.is_empty() {
            input::complain_of_strangers(&placed.strangers);
        }
        groups.extend(placed.jobs.iter().map(|job| job.ranks.group()).filter(|g| g.ranks.len() > 1));
        let unit = if self.scatter { 1 } else { per_node };
        Ok(Site { fabric, nodes, seats, groups, movable: Movable { job: 0, unit }, in_force })
    }

    /// As the command line says.
    fn given(&self) -> Result<Found, Failure> {
        let source = self.fabric.as_deref().unwrap_or_default();
        let fabric = grid::shaped(fabric::load(source)?);
        let names = self.node_map.as_deref().map(NodeNames::load).transpose()?.unwrap_or_default();
        let beside = match &self.jobs {
            Some(source) => jobs::load(source)?,
            None => JobMap::new(Utc::now(), Vec::new()),
        };
        Ok(Found {
            map: Arc::new(name_hosts(&fabric, &names)),
            fabric: Arc::new(fabric),
            nodes: hostlist::expand(self.nodes.as_deref().unwrap_or_default())?,
            mix: self.pattern.clone().unwrap_or_default(),
            beside,
            in_force: None,
        })
    }

    /// As the settings and Slurm say.
    fn running(&self, job: &JobId, context: &Context) -> Result<Found, Failure> {
        let settings = context.settings()?;
        let store = EpochStore::open(&settings.state.directory)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let view =
            runtime.block_on(async { Looker::new(settings)?.reading_traffic().look(Utc::now()).await })?.view;
        let placed = view.nodes.place(&view.jobs);
        let is_it = |parts: &[usize]| parts.iter().any(|i| view.jobs.jobs[*i].id == *job);
        let found = placed.jobs.iter().find(|p| is_it(&p.parts));
        let found = found.ok_or_else(|| format!("Slurm knows no job {job} that has nodes of this fabric"))?;
        let of = |i: &usize| &view.jobs.jobs[*i];
        let others = view.jobs.jobs.iter().filter(|other| !found.parts.iter().any(|i| of(i).id == other.id));
        let beside = JobMap::new(view.jobs.time, others.cloned().collect());
        let number = store.current()?;
        let in_force = store.published(&view.fabric)?.filter(|p| p.fabric == view.fabric.fingerprint());
        Ok(Found {
            fabric: Arc::clone(&view.fabric),
            map: Arc::clone(&view.nodes),
            nodes: found.parts.iter().flat_map(|i| of(i).nodes.clone()).collect(),
            mix: self.pattern.clone().unwrap_or_else(|| found.ranks.mix.clone()),
            beside,
            in_force: number.zip(in_force).map(|(n, p)| (format!("epoch {n}"), Tables::clone(&p.tables))),
        })
    }

    /// Ranks per node, at least 1.
    fn per_node(&self, nodes: &[NodeName], terminals: &[&[TerminalId]]) -> Result<usize, Failure> {
        if let Some(n) = self.ranks_per_node {
            return Ok(usize::from(n));
        }
        let first = terminals[0].len();
        match terminals.iter().position(|t| t.len() != first) {
            None => Ok(first),
            Some(other) => Err(format!(
                "{} has {first} adapter ports and {} has {}: say --ranks-per-node",
                nodes[0],
                nodes[other],
                terminals[other].len()
            )
            .into()),
        }
    }
}

impl Site {
    /// The seats of ranks that were put in another order: a terminal is one node's.
    pub fn follow(&self, ranks: &[TerminalId]) -> Vec<u32> {
        let of: BTreeMap<TerminalId, u32> =
            self.groups[0].ranks.iter().copied().zip(self.seats.iter().copied()).collect();
        ranks.iter().map(|t| of[t]).collect()
    }
}

/// Each node's terminals.
fn terminals<'m>(map: &'m NodeMap, nodes: &[NodeName]) -> Result<Vec<&'m [TerminalId]>, Failure> {
    let mut seen = BTreeSet::new();
    let of = |node: &NodeName| match map.terminals(node) {
        [] => {
            let meant = did_you_mean(nearest(node.as_str(), map.names().map(NodeName::as_str)));
            Err(format!("no host of the fabric is called {node}{meant}").into())
        }
        found if !seen.insert(found[0]) => Err(format!("--nodes names {node} twice").into()),
        found => Ok(found),
    };
    nodes.iter().map(of).collect()
}
