//! A trace on the nodes of a fabric: who runs when.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use super::trace::{Content, Fault, FaultKind, Trace, TraceError, TraceJob};
use crate::lab::workload::placement::{Placement, Site, UnknownPlacement};
use crate::lab::workload::schedule::{Choose, Moment, Pick, Request, schedule_with};
use crate::model::rng::Rng;
use crate::model::{Fabric, Job, JobId, JobMap, JobState, NodeMap, NodeName};
use crate::placement::usual::usual;
use crate::placement::{Insist, Question, Switched};

/// Where the nodes of jobs come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// The trace, by name.
    Recorded,
    /// The trace; its nodes, sorted, stand for the fabric's, in the order of the leaf switches.
    InOrder,
    /// A placement model; the jobs are scheduled anew.
    Placed(Placement),
    /// Ours ([`crate::placement`]); the jobs are scheduled anew.
    Routed,
    /// The same; a job waits until it can be alone on its channels.
    Isolated,
}

/// What asks for [`Nodes::Routed`].
const ROUTED: &str = "routed";
/// What asks for [`Nodes::Isolated`].
const ISOLATED: &str = "isolated";

impl std::str::FromStr for Nodes {
    type Err = String;
    /// A model's name, `routed` or `isolated`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            ROUTED => Ok(Self::Routed),
            ISOLATED => Ok(Self::Isolated),
            model => {
                let unknown = |e: UnknownPlacement| format!("{e}, {ROUTED}, {ISOLATED}");
                model.parse().map(Self::Placed).map_err(unknown)
            }
        }
    }
}

impl std::fmt::Display for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Recorded => f.write_str("recorded"),
            Self::InOrder => f.write_str("recorded, in order"),
            Self::Placed(placement) => placement.fmt(f),
            Self::Routed => f.write_str(ROUTED),
            Self::Isolated => f.write_str(ISOLATED),
        }
    }
}

/// Jobs that ran, or snapshots.
#[derive(Debug, Clone)]
enum Past {
    /// Sorted by start.
    Jobs(Vec<Ran>),
    Snapshots(Vec<JobMap>),
}

#[derive(Debug, Clone)]
struct Ran {
    id: JobId,
    start: i64,
    end: i64,
    nodes: Vec<NodeName>,
}

/// A history on a fabric.
#[derive(Debug, Clone)]
pub struct History {
    /// Where nodes come from.
    pub nodes: Nodes,
    /// What was noticed when the trace met the fabric.
    pub faults: Vec<Fault>,
    /// Jobs of the trace that ran on none of the fabric's nodes.
    pub strangers: BTreeSet<JobId>,
    past: Past,
}

/// A generated month begins here: Monday, 2 February 2015, near the months of Figure 5.1.
pub const GENERATED_START: i64 = 1_422_835_200;

impl History {
    /// Puts a trace on a fabric's nodes. `seed` is for random placement.
    ///
    /// # Errors
    /// If the nodes cannot be had in this way.
    pub fn new(
        trace: &Trace,
        fabric: &Fabric,
        map: &NodeMap,
        nodes: Nodes,
        seed: u64,
    ) -> Result<Self, TraceError> {
        let wrong =
            |message: &str| TraceError::Format { name: trace.name.clone(), message: message.to_string() };
        let mut faults = Vec::new();
        let past = match (&trace.content, nodes) {
            (Content::Snapshots(_), Nodes::Placed(_) | Nodes::Routed | Nodes::Isolated) => {
                return Err(wrong("snapshots have nodes and no run times: jobs cannot be placed anew"));
            }
            (Content::Snapshots(maps), _) => Past::Snapshots(maps.clone()),
            (Content::Jobs(jobs), Nodes::Placed(_) | Nodes::Routed | Nodes::Isolated) => {
                let site = Site::new(fabric, map);
                let mut model = Model::new(fabric, map, &site, nodes, seed);
                Past::Jobs(placed(&site, &mut |m| model.choose(m), jobs, &mut faults))
            }
            (Content::Jobs(jobs), _) => Past::Jobs(recorded(jobs).ok_or_else(|| {
                wrong("some jobs have no node list: name a placement model with --placement")
            })?),
            (Content::Generated(mix, days, drawn), Nodes::Placed(_) | Nodes::Routed | Nodes::Isolated) => {
                let site = Site::new(fabric, map);
                let mut model = Model::new(fabric, map, &site, nodes, seed);
                let requests = mix.requests(site.nodes.len(), GENERATED_START, *days, *drawn);
                Past::Jobs(scheduled(&site, &mut |m| model.choose(m), &requests, |i| i + 1))
            }
            (Content::Generated(..), _) => return Err(wrong("a generated trace has no nodes")),
        };
        let mut history = Self { nodes, faults, strangers: BTreeSet::new(), past };
        if nodes == Nodes::InOrder {
            history.rename(&Site::new(fabric, map)).map_err(|m| wrong(&m))?;
        }
        history.look_for_unknown_nodes(trace, map);
        history.look_for_overlaps();
        Ok(history)
    }

    /// First start and last end, or first and last snapshot, in seconds.
    pub fn span(&self) -> Option<(i64, i64)> {
        match &self.past {
            Past::Jobs(jobs) => {
                // One that took no time is never seen.
                let jobs = || jobs.iter().filter(|j| j.end > j.start);
                let begin = jobs().map(|j| j.start).min()?;
                let ends = jobs().map(|j| if j.end == i64::MAX { j.start } else { j.end });
                Some((begin, ends.max()?))
            }
            Past::Snapshots(maps) => Some((maps.first()?.time.timestamp(), maps.last()?.time.timestamp())),
        }
    }

    /// Jobs or snapshots.
    pub fn entries(&self) -> usize {
        match &self.past {
            Past::Jobs(jobs) => jobs.len(),
            Past::Snapshots(maps) => maps.len(),
        }
    }

    /// The part that matters between two times, both included.
    pub fn window(&self, from: i64, to: i64) -> Window<'_> {
        match &self.past {
            Past::Jobs(jobs) => {
                let begun = jobs.partition_point(|j| j.start <= to);
                Window(Part::Jobs(jobs[..begun].iter().filter(|j| j.end > from).collect()))
            }
            Past::Snapshots(maps) => Window(Part::Snapshots(maps)),
        }
    }

    fn rename(&mut self, site: &Site) -> Result<(), String> {
        let lists = |past: &Past| -> BTreeSet<NodeName> {
            match past {
                Past::Jobs(jobs) => jobs.iter().flat_map(|j| j.nodes.iter().cloned()).collect(),
                Past::Snapshots(maps) => {
                    maps.iter().flat_map(|m| &m.jobs).flat_map(|j| j.nodes.iter().cloned()).collect()
                }
            }
        };
        let known = lists(&self.past);
        if known.len() > site.nodes.len() {
            return Err(format!("the trace has {} nodes, the fabric {}", known.len(), site.nodes.len()));
        }
        let new: BTreeMap<NodeName, &NodeName> = known.into_iter().zip(&site.nodes).collect();
        let change = |nodes: &mut Vec<NodeName>| nodes.iter_mut().for_each(|n| *n = new[n].clone());
        match &mut self.past {
            Past::Jobs(jobs) => jobs.iter_mut().for_each(|j| change(&mut j.nodes)),
            Past::Snapshots(maps) => {
                maps.iter_mut().flat_map(|m| &mut m.jobs).for_each(|j| change(&mut j.nodes))
            }
        }
        Ok(())
    }

    fn look_for_unknown_nodes(&mut self, trace: &Trace, map: &NodeMap) {
        let unknown = |nodes: &[NodeName]| -> Vec<String> {
            nodes.iter().filter(|n| map.terminals(n).is_empty()).map(ToString::to_string).collect()
        };
        let message = |id: &JobId, nodes: Vec<String>| {
            let more = if nodes.len() > 3 { ", …" } else { "" };
            format!("job {id}: the fabric has no {}{more}", nodes[..nodes.len().min(3)].join(", "))
        };
        let kind = FaultKind::UnknownNodes;
        let mut strangers = BTreeSet::new();
        match (&self.past, &trace.content, self.nodes) {
            (_, Content::Jobs(jobs), Nodes::Recorded) => {
                for job in jobs {
                    let all = job.nodes.as_deref().unwrap_or(&[]);
                    let nodes = unknown(all);
                    if !nodes.is_empty() {
                        strangers.extend((nodes.len() == all.len()).then(|| job.id.clone()));
                        self.faults.push(Fault { line: job.line, kind, message: message(&job.id, nodes) });
                    }
                }
            }
            (Past::Snapshots(maps), _, Nodes::Recorded) => {
                // Once per job, not once per snapshot.
                let mut seen = BTreeSet::new();
                for job in maps.iter().flat_map(|m| &m.jobs) {
                    let nodes = unknown(&job.nodes);
                    if !nodes.is_empty() && seen.insert(&job.id) {
                        strangers.extend((nodes.len() == job.nodes.len()).then(|| job.id.clone()));
                        self.faults.push(Fault { line: 0, kind, message: message(&job.id, nodes) });
                    }
                }
            }
            _ => {}
        }
        self.strangers = strangers;
    }

    /// Jobs that get a node which another one has not given back. O(sum of sizes × log nodes).
    fn look_for_overlaps(&mut self) {
        let Past::Jobs(jobs) = &self.past else { return };
        let mut busy: BTreeMap<&NodeName, (i64, &JobId)> = BTreeMap::new();
        let mut found = Vec::new();
        for job in jobs {
            let mut other = None;
            for node in &job.nodes {
                let last = busy.entry(node).or_insert((i64::MIN, &job.id));
                if last.0 > job.start {
                    other = other.or(Some((node, last.1)));
                }
                if job.end >= last.0 {
                    *last = (job.end, &job.id);
                }
            }
            if let Some((node, id)) = other {
                let message = format!("job {} shares {node} with job {id}", job.id);
                found.push(Fault { line: 0, kind: FaultKind::Overlap, message });
            }
        }
        self.faults.extend(found);
    }
}

/// The jobs or snapshots of a stretch of time.
#[derive(Debug, Clone)]
pub struct Window<'a>(Part<'a>);

#[derive(Debug, Clone)]
enum Part<'a> {
    /// Sorted by start.
    Jobs(Vec<&'a Ran>),
    /// All of them, by time.
    Snapshots(&'a [JobMap]),
}

impl Window<'_> {
    /// Who runs at a time: jobs from their start up to, not including, their end; or what the last
    /// snapshot before it says. O(jobs of the window).
    pub fn at(&self, time: i64) -> JobMap {
        let stamp = DateTime::<Utc>::from_timestamp(time, 0).unwrap_or(DateTime::<Utc>::MAX_UTC);
        match &self.0 {
            Part::Jobs(jobs) => {
                let running = jobs.iter().filter(|j| j.start <= time && time < j.end);
                let start = |j: &Ran| DateTime::<Utc>::from_timestamp(j.start, 0);
                let jobs =
                    running.map(|j| Job::new(j.id.clone(), JobState::Running, j.nodes.clone(), start(j)));
                JobMap::new(stamp, jobs.collect())
            }
            Part::Snapshots(maps) => {
                let taken = maps.partition_point(|m| m.time <= stamp);
                let jobs = taken.checked_sub(1).map_or(Vec::new(), |i| maps[i].jobs.clone());
                JobMap::new(stamp, jobs)
            }
        }
    }
}

/// Jobs where the trace says they ran; `None` if it does not say it of all.
fn recorded(jobs: &[TraceJob]) -> Option<Vec<Ran>> {
    let ran = jobs.iter().map(|j| {
        let (id, nodes) = (j.id.clone(), j.nodes.clone()?);
        Some(Ran { id, start: j.start, end: j.end.unwrap_or(i64::MAX), nodes })
    });
    let mut ran: Vec<Ran> = ran.collect::<Option<_>>()?;
    ran.sort_by_key(|j| j.start);
    Some(ran)
}

/// Chooses nodes of a site.
enum Model<'a> {
    /// As a batch system would.
    Batch(&'a Site, Placement, Rng),
    /// As we would.
    Ours(Box<Brain>),
}

/// Placement for a site whose order of nodes differs from the board's.
struct Brain {
    board: Switched,
    /// Number on the board of each node of the site, and the other way round.
    number: Vec<u32>,
    node: Vec<u32>,
    isolated: bool,
}

impl<'a> Model<'a> {
    fn new(fabric: &Fabric, map: &NodeMap, site: &'a Site, nodes: Nodes, seed: u64) -> Self {
        if let Nodes::Placed(placement) = nodes {
            return Self::Batch(site, placement, Rng::new(seed));
        }
        let board = Switched::new(fabric, map);
        let by_name: BTreeMap<&NodeName, u32> = board.names().iter().zip(0..).collect();
        let number: Vec<u32> = site.nodes.iter().filter_map(|n| by_name.get(n).copied()).collect();
        let mut node = vec![0; number.len()];
        number.iter().zip(0..).for_each(|(number, n)| node[*number as usize] = n);
        Self::Ours(Box::new(Brain { board, number, node, isolated: nodes == Nodes::Isolated }))
    }

    fn choose(&mut self, moment: &Moment<'_>) -> Pick {
        match self {
            Self::Batch(site, placement, rng) => {
                site.choose(*placement, moment.free, moment.size, rng).map_or(Pick::Never, Pick::Nodes)
            }
            Self::Ours(brain) => brain.choose(moment),
        }
    }
}

impl Brain {
    fn choose(&self, moment: &Moment<'_>) -> Pick {
        let numbers = |nodes: &mut dyn Iterator<Item = usize>| {
            let mut numbers: Vec<u32> = nodes.map(|n| self.number[n]).collect();
            numbers.sort_unstable();
            numbers
        };
        let running: Vec<Vec<u32>> =
            moment.running.iter().map(|job| numbers(&mut job.iter().map(|n| *n as usize))).collect();
        let candidates = numbers(&mut (0..moment.free.len()).filter(|n| moment.free[*n]));
        let (nodes, isolated) = (moment.size, self.isolated);
        let question =
            Question { nodes, candidates: &candidates, insist: Insist::Prefer, mix: None, isolated };
        let chosen = self.board.choose(&self.board.traffic(&running), question).map(|choice| choice.nodes);
        // Alone on the whole fabric nobody is in the way: its parts are not connected, and it goes as a batch system
        // would have it.
        if chosen.is_none() && isolated && !running.is_empty() {
            return Pick::Later;
        }
        let chosen = chosen.unwrap_or_else(|| usual(nodes, &candidates));
        let mut nodes: Vec<u32> = chosen.iter().map(|n| self.node[*n as usize]).collect();
        nodes.sort_unstable();
        if nodes.len() == moment.size { Pick::Nodes(nodes) } else { Pick::Never }
    }
}

/// Jobs scheduled anew, at their recorded starts where nodes are free.
fn placed(site: &Site, choose: Choose<'_>, jobs: &[TraceJob], faults: &mut Vec<Fault>) -> Vec<Ran> {
    let mut order: Vec<&TraceJob> = jobs.iter().collect();
    order.sort_by_key(|j| (j.start, j.line));
    order.retain(|j| {
        let fits = j.size <= site.nodes.len();
        if !fits {
            let message = format!("job {} wants {} of {} nodes", j.id, j.size, site.nodes.len());
            faults.push(Fault { line: j.line, kind: FaultKind::TooLarge, message });
        }
        fits
    });
    let last = order.iter().map(|j| j.end.unwrap_or(j.start)).max().unwrap_or(0);
    // A job without an end runs on for longer than the trace.
    let run = |j: &TraceJob| j.end.unwrap_or(last + 1).max(j.start) - j.start;
    let requests: Vec<Request> =
        order.iter().map(|j| Request { submit: j.start, run: run(j), size: j.size }).collect();
    let mut ran = scheduled(site, choose, &requests, |i| i);
    for job in &mut ran {
        let index = job.id.as_str().parse::<usize>().unwrap_or(0);
        job.id = order[index].id.clone();
    }
    ran
}

/// Runs requests; the job of request `i` is called `id(i)`.
fn scheduled(site: &Site, choose: Choose<'_>, requests: &[Request], id: impl Fn(usize) -> usize) -> Vec<Ran> {
    let started = schedule_with(site.nodes.len(), requests, choose);
    let ran = started.into_iter().enumerate().filter_map(|(i, started)| {
        let started = started?;
        let nodes = started.nodes.iter().map(|n| site.nodes[*n as usize].clone()).collect();
        let end = started.start.saturating_add(requests[i].run.max(1));
        Some(Ran { id: JobId::new(id(i).to_string()).ok()?, start: started.start, end, nodes })
    });
    let mut ran: Vec<Ran> = ran.collect();
    ran.sort_by_key(|j| j.start);
    ran
}
