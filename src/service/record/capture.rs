//! A recording without names, for a bug report: fabric and jobs under other names and GUIDs, the same
//! ones throughout, and the epochs that follow from them.
//!
//! GUIDs keep their order, on which routing depends; node names, job ids and descriptions become
//! numbers. The epochs are made anew from what is left, so that who gets the capture can repeat them.

mod base;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::replay::{Replay, ReplayError, each_line, recorded};
use super::{DIRECTORY, Line, file_path, keep_base};
use crate::model::{
    Component, Fabric, FabricBuilder, FabricError, FileError, Guid, Job, JobId, NewTerminal, NodeName,
};
use crate::observe::ibnetdiscover::{self, to_ibnetdiscover};
use crate::publish::{Epoch, EpochStore};

/// What was captured.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Captured {
    /// Good looks.
    pub looks: u64,
    /// Nodes that got another name.
    pub nodes: usize,
    /// Jobs that got another id.
    pub jobs: usize,
    /// Epochs made of it.
    pub epochs: u64,
    /// Whether it begins in the middle, with what was in force then.
    pub begins_in_force: bool,
}

/// Old to new, made before anything is written.
#[derive(Default)]
struct Names {
    guids: BTreeMap<Guid, Guid>,
    nodes: BTreeMap<NodeName, NodeName>,
    jobs: BTreeMap<JobId, JobId>,
}

/// Where the new GUIDs begin.
const FIRST_GUID: u64 = 0x0002_c903_0000_0001;

/// Reads a recording and writes an anonymous one, with its epochs, into a new state directory.
///
/// # Errors
/// If the recording is damaged or the directory is not empty.
pub fn capture(recording: &Path, into: &EpochStore) -> Result<Captured, ReplayError> {
    let paths = recorded(recording)?;
    let base = base::read(&paths[0])?;
    let names = Names::of(&paths, base.as_ref().map(|(epoch, _)| epoch))?;
    let directory = into.path().join(DIRECTORY);
    let failed = FileError::io(&directory);
    drop(into.lock()?);
    fs::create_dir(&directory).map_err(failed)?;
    let mut base = base.map_or(Ok(None), |base| base::publish(&names, &base, into))?;
    keep_base(into, &directory, 1, None).map_err(failed)?;
    let mut out = fs::File::create(file_path(&directory, 1)).map_err(failed)?;
    let mut replay = Replay::new(into);
    let mut captured = Captured {
        nodes: names.nodes.len(),
        jobs: names.jobs.len(),
        begins_in_force: base.is_some(),
        ..Captured::default()
    };
    each_line(&paths, &mut |_| (), |line, path, number| {
        let wrong = |reason: String| FileError::line(path, number, reason);
        let Some(mut line) = names.rename(line).map_err(wrong)? else { return Ok(()) };
        if let Line::Begin { in_force, .. } = &mut line {
            *in_force = base.take();
        }
        captured.looks += u64::from(matches!(line, Line::Seen { .. }));
        let mut write = |line: &Line| {
            let text = serde_json::to_string(line).unwrap_or_default();
            writeln!(out, "{text}").map_err(failed)
        };
        write(&line)?;
        replay.handle(line).map_err(wrong)?;
        if let Some(made) = replay.make().map_err(wrong)? {
            captured.epochs += u64::from(matches!(made, Line::InForce { made: Some(_), .. }));
            write(&made)?;
        }
        Ok(())
    })?;
    Ok(captured)
}

impl Names {
    /// Names in the files and in the epoch before them.
    fn of(paths: &[PathBuf], before: Option<&Epoch>) -> Result<Self, ReplayError> {
        let mut names = Self::default();
        let (mut guids, mut nodes) = (BTreeSet::new(), BTreeSet::new());
        let known = before.map_or(&[][..], |epoch| &epoch.plan().jobs.jobs);
        let added = names.add_jobs(known, &mut nodes);
        added.map_err(|reason| FileError::line(&paths[0], 1, reason))?;
        each_line(paths, &mut |_| (), |line, path, number| {
            let wrong = |reason: String| FileError::line(path, number, reason);
            match line {
                Line::Fabric { text, nodes: named } => {
                    let fabric = parse(&text).map_err(wrong)?;
                    guids.extend(fabric.switches().iter().map(|s| s.guid));
                    guids.extend(fabric.terminals().iter().flat_map(|t| [t.node_guid, t.port_guid]));
                    nodes.extend(named.into_keys());
                }
                Line::Seen { jobs, .. } => names.add_jobs(&jobs, &mut nodes).map_err(wrong)?,
                _ => {}
            }
            Ok(())
        })?;
        let new = |i: usize| Guid::new(FIRST_GUID + i as u64).ok();
        names.guids = guids.into_iter().enumerate().filter_map(|(i, old)| Some((old, new(i)?))).collect();
        let new = |i: usize| NodeName::new(format!("n{}", i + 1)).ok();
        names.nodes = nodes.into_iter().enumerate().filter_map(|(i, old)| Some((old, new(i)?))).collect();
        Ok(names)
    }

    fn add_jobs(&mut self, jobs: &[Job], nodes: &mut BTreeSet<NodeName>) -> Result<(), String> {
        for job in jobs {
            let next = (self.jobs.len() + 1).to_string();
            nodes.extend(job.nodes.iter().cloned());
            let new = JobId::new(next).map_err(|e| e.to_string())?;
            self.jobs.entry(job.id.clone()).or_insert(new);
            if let Some(component) = &job.component {
                let next = JobId::new((self.jobs.len() + 1).to_string()).map_err(|e| e.to_string())?;
                self.jobs.entry(component.of.clone()).or_insert(next);
            }
        }
        Ok(())
    }

    /// The same without names; `None` for what is made anew.
    fn rename(&self, line: Line) -> Result<Option<Line>, String> {
        Ok(Some(match line {
            Line::Begin { format, time, interval_ms, backoff_max_ms, goes_on, .. } => {
                Line::Begin { format, time, interval_ms, backoff_max_ms, goes_on, in_force: None }
            }
            Line::Fabric { text, nodes } => {
                let fabric = self.fabric(&parse(&text)?).map_err(|e| e.to_string())?;
                let nodes =
                    nodes.iter().map(|(n, g)| (self.node(n), g.iter().map(|g| self.guid(*g)).collect()));
                Line::Fabric { text: to_ibnetdiscover(&fabric), nodes: nodes.collect() }
            }
            Line::Policy(mut policy) => {
                policy.storage = policy.storage.iter().map(|g| self.guid(*g)).collect();
                Line::Policy(policy)
            }
            Line::Seen { time, snapshot, whole, jobs, ended } => {
                let jobs = jobs.iter().map(|job| self.job_of(job)).collect();
                let ended = ended.iter().map(|id| self.job(id)).collect();
                Line::Seen { time, snapshot, whole, jobs, ended }
            }
            Line::InForce { .. } | Line::RouteFailed { .. } => return Ok(None),
            Line::Standing { .. }
            | Line::Compute { .. }
            | Line::Torus { .. }
            | Line::Tables { .. }
            | Line::Over { .. } => {
                return Err("a recording of a direct torus names its nodes: it is not captured".into());
            }
            other => other,
        }))
    }

    fn job_of(&self, old: &Job) -> Job {
        let nodes = old.nodes.iter().map(|n| self.node(n)).collect();
        let part = old.component.as_ref().map(|c| Component { of: self.job(&c.of), ..*c });
        let job = Job::new(self.job(&old.id), old.state, nodes, old.start).ending(old.end).part_of(part);
        Job { guessed: old.guessed, ..job.exchanging(old.mix.clone()) }
    }

    fn guid(&self, old: Guid) -> Guid {
        self.guids.get(&old).copied().unwrap_or(old)
    }
    fn node(&self, old: &NodeName) -> NodeName {
        self.nodes.get(old).unwrap_or(old).clone()
    }
    fn job(&self, old: &JobId) -> JobId {
        self.jobs.get(old).unwrap_or(old).clone()
    }

    fn fabric(&self, old: &Fabric) -> Result<Fabric, FabricError> {
        let mut new = FabricBuilder::default();
        let mut ids = Vec::new();
        for (i, s) in old.switches().iter().enumerate() {
            ids.push(new.switch(self.guid(s.guid), s.ports, Some(s.lid), &format!("switch {}", i + 1))?);
        }
        for (i, t) in old.terminals().iter().enumerate() {
            new.terminal(NewTerminal {
                node_guid: self.guid(t.node_guid),
                port_guid: self.guid(t.port_guid),
                description: format!("host {}", i + 1),
                ..NewTerminal::like(t, ids[t.switch.index()])
            })?;
        }
        for c in old.channels().iter().step_by(2) {
            new.cable(ids[c.from.index()], c.from_port, ids[c.to.index()], c.to_port)?;
        }
        new.build()
    }
}

fn parse(text: &str) -> Result<Fabric, String> {
    ibnetdiscover::parse(Path::new("fabric"), text).map(|f| f.fabric).map_err(|e| e.to_string())
}
