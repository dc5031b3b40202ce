//! Plans to publish.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::lab::generate::generate;
use crate::measure::{Effective, Figures, Load, Paths, Time};
use crate::model::{
    Demand, Fabric, Group, Job, JobMap, JobState, LayerBudget, NodeName, SwitchId, Tables, TerminalId,
};
use crate::pass::plan::{Plan, Reason};
use crate::report::{JobsSummary, Layers, Report, VerdictSummary};
use crate::verify::{self, Verified};

/// 4 leaves with 4 hosts each.
pub(crate) fn small() -> Fabric {
    generate("fattree:4x4,2").unwrap()
}

/// Seconds after a fixed point in time.
pub(crate) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_790_000_000, 0).unwrap() + TimeDelta::seconds(seconds)
}

/// Breadth-first tables; `turn` decides among equally short ways.
pub(crate) fn tables(fabric: &Fabric, engine: &str, turn: usize) -> Tables {
    let mut ports = Vec::new();
    let mut layers = Vec::new();
    for d in fabric.dest_ids() {
        let home = fabric.home(d);
        let distance = distances(fabric, home);
        for s in fabric.switch_ids() {
            let closer = |c: &&crate::model::ChannelId| {
                distance[fabric.channel(**c).to.index()].is_some_and(|n| Some(n + 1) == distance[s.index()])
            };
            let ways: Vec<_> = fabric.out(s).iter().filter(closer).collect();
            let port = match ways.as_slice() {
                _ if s == home => fabric.last_port(d).get(),
                [] => Tables::UNREACHABLE,
                ways => fabric.channel(*ways[(d.index() + turn) % ways.len()]).from_port.get(),
            };
            ports.push(port);
            let starts = !fabric.attached(s).is_empty() && port != Tables::UNREACHABLE;
            layers.push(if starts || s == home { 0 } else { Tables::NO_LAYER });
        }
    }
    Tables::new(fabric, engine, ports, layers).unwrap()
}

fn distances(fabric: &Fabric, home: SwitchId) -> Vec<Option<u32>> {
    let mut distance = vec![None; fabric.switches().len()];
    distance[home.index()] = Some(0);
    let mut queue = std::collections::VecDeque::from([home]);
    while let Some(s) = queue.pop_front() {
        for c in fabric.out(s) {
            let to = fabric.channel(*c).to;
            if distance[to.index()].is_none() {
                distance[to.index()] = distance[s.index()].map(|n| n + 1);
                queue.push_back(to);
            }
        }
    }
    distance
}

/// A plan for jobs on these terminals.
pub(crate) fn plan(fabric: &Fabric, jobs: &[Vec<usize>], turn: usize) -> Plan {
    let group = |job: &Vec<usize>| Group::new(job.iter().map(|t| TerminalId::at(*t)).collect());
    let name = |t: &usize| NodeName::new(format!("n{}", t + 1)).unwrap();
    let job = |(i, job): (usize, &Vec<usize>)| {
        let id = format!("{}", 17 + i).parse().unwrap();
        Job::new(id, JobState::Running, job.iter().map(name).collect(), Some(at(-600)))
    };
    let demand = Demand::new(jobs.iter().map(group).collect(), vec![]);
    // From another engine than that of the settings, which found them better.
    let tables = tables(fabric, "minhop", turn);
    let effective =
        Effective { max: 60, mean: 21.5, dark_fiber: 0.25, links_per_job_mean: 7.5, ..Effective::default() };
    let after = Figures {
        time: Time { slowdown_mean: 1.25, slowdown_p95: 1.5, slowdown_max: 1.75 },
        load: Load { max: 70, min: 10, mean: 42.25, sd: 3.5, lower_bound: 40 },
        effective,
        paths: Paths { max_hops: 2, mean_hops: 1.875, minimal_share: 1.0 },
        layers_used: 1,
        storage: None,
    };
    Plan {
        worth: None,
        halfway: false,
        drained: false,
        difference: None,
        reason: Reason::JobsChanged,
        engine: "sssp".to_string(),
        passed_over: Vec::new(),
        budget: LayerBudget::new(8).unwrap(),
        jobs: JobMap::new(at(-5), jobs.iter().enumerate().map(job).collect()),
        before: Some(Figures { effective: Effective { max: 96, dark_fiber: 0.5, ..effective }, ..after }),
        after,
        demand,
        tables: Arc::new(tables),
        counted: None,
        lids: None,
        lanes: None,
    }
}

/// The report that belongs to a plan.
pub(crate) fn report(fabric: &Fabric, plan: &Plan) -> Report {
    let jobs = JobsSummary { running: plan.jobs.jobs.len(), multi_switch: plan.demand.groups.len() };
    let layers = Layers { budget: plan.budget.get(), used: plan.after.layers_used };
    let verdict = VerdictSummary { accepted: true, findings: vec![] };
    let mut report = Report::new(&plan.engine, fabric, jobs, layers, verdict, plan.after);
    report.compute.wall_seconds = 0.0125;
    report
}

/// Two jobs across the leaves of [`small`], and its report.
pub(crate) fn ready(fabric: &Fabric, turn: usize) -> (Verified<Plan>, Report) {
    let plan = plan(fabric, &[vec![0, 5, 10, 15], vec![1, 4]], turn);
    let report = report(fabric, &plan);
    (accepted(fabric, plan), report)
}

/// The plan, checked.
pub(crate) fn accepted(fabric: &Fabric, plan: Plan) -> Verified<Plan> {
    let budget = plan.budget;
    verify::accept(fabric, plan, budget).unwrap_or_else(|verdict| panic!("{verdict:?}"))
}
