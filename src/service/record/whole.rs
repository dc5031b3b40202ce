//! One look by itself, as the lines of a recording: for a process that is to compute with it.

use std::io::{BufRead, Write};
use std::sync::Arc;

use super::replay::fabric;
use super::{Line, PolicyLine};
use crate::model::{JobMap, NodeMap};
use crate::pass::step::View;

/// Writes a look: fabric, policy, jobs, a line each.
///
/// # Errors
/// If it cannot be written.
pub fn write(view: &View, mut into: impl Write) -> std::io::Result<()> {
    let time = view.jobs.time;
    let jobs = view.jobs.jobs.clone();
    let seen = Line::Seen { time, snapshot: time, whole: true, jobs, ended: Vec::new() };
    for line in [Line::fabric(view), Line::Policy(PolicyLine::of(view)), seen] {
        serde_json::to_writer(&mut into, &line)?;
        into.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads what [`write()`] wrote, to the end. Hosts without a name are not among it.
///
/// # Errors
/// Says what is missing or wrong.
pub fn read(from: impl BufRead) -> Result<View, String> {
    let (mut named, mut policy, mut jobs) = (None, None, None);
    for line in from.lines() {
        match serde_json::from_str(&line.map_err(|e| e.to_string())?).map_err(|e| e.to_string())? {
            Line::Fabric { text, nodes } => named = Some(fabric(&text, &nodes)?),
            Line::Policy(line) => policy = Some(line),
            Line::Seen { snapshot, jobs: seen, .. } => jobs = Some(JobMap::new(snapshot, seen)),
            _ => return Err("a line that is no part of a look".into()),
        }
    }
    let (fabric, nodes) = named.ok_or("a look without a fabric")?;
    let policy = policy.ok_or("a look without a policy")?;
    let nodes = Arc::new(NodeMap::clone(&nodes).among(policy.rails));
    let policy = policy.on(&fabric);
    let jobs = jobs.ok_or("a look without jobs")?;
    Ok(View::new(Arc::clone(&fabric), nodes, jobs, policy))
}
