//! Rows of a trace that are one job.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{FaultKind, Found, TraceJob};
use crate::model::{JobId, without_repetition};

/// One row for each run of a job, in the order of the first rows.
///
/// Dumps of windows that overlap have a row twice: the later one counts, as the job may have ended since. Components of a
/// heterogeneous job (`7+0`, `7+1`) that start together are one job, the first component's ranks first. O(rows).
pub(super) fn joined(found: Found<TraceJob>) -> Found<TraceJob> {
    let Found { entries, mut faults, passed_over } = found;
    let mut place_of: HashMap<(JobId, i64), usize> = HashMap::new();
    let mut jobs: Vec<TraceJob> = Vec::with_capacity(entries.len());
    for job in entries {
        match place_of.entry((job.id.clone(), job.start)) {
            Entry::Vacant(place) => {
                place.insert(jobs.len());
                jobs.push(job);
            }
            Entry::Occupied(place) => {
                let earlier = &mut jobs[*place.get()];
                let message = format!("job {} is there again, as in line {}", job.id, earlier.line);
                faults.push(super::Fault { line: job.line, kind: FaultKind::Repeated, message });
                *earlier = TraceJob { end: job.end.or(earlier.end), ..job };
            }
        }
    }
    Found { entries: with_components(jobs), faults, passed_over }
}

/// Joins the components of heterogeneous jobs.
fn with_components(jobs: Vec<TraceJob>) -> Vec<TraceJob> {
    let mut place_of: HashMap<(String, i64), usize> = HashMap::new();
    // Components of a job at the same place of `whole`, by offset.
    let mut whole: Vec<Vec<(u32, TraceJob)>> = Vec::with_capacity(jobs.len());
    for job in jobs {
        let (leader, offset) = match component(job.id.as_str()) {
            Some((leader, offset)) => (leader.to_string(), offset),
            None => {
                whole.push(vec![(0, job)]);
                continue;
            }
        };
        let place = *place_of.entry((leader, job.start)).or_insert(whole.len());
        match whole.get_mut(place) {
            Some(components) => components.push((offset, job)),
            None => whole.push(vec![(offset, job)]),
        }
    }
    whole.into_iter().map(one_job).collect()
}

/// The leader of a component's job, and the component's number.
fn component(id: &str) -> Option<(&str, u32)> {
    let (leader, offset) = id.split_once('+')?;
    Some((leader, offset.parse().ok()?))
}

fn one_job(mut components: Vec<(u32, TraceJob)>) -> TraceJob {
    components.sort_by_key(|(offset, _)| *offset);
    let mut rest = components.into_iter().map(|(_, job)| job);
    let Some(mut all) = rest.next() else { unreachable!("each job has a component") };
    if let Some(id) = component(all.id.as_str()).and_then(|(leader, _)| JobId::new(leader).ok()) {
        all.id = id;
    }
    for job in rest {
        all.end = all.end.zip(job.end).map(|(one, other)| one.max(other));
        all.submit = all.submit.min(job.submit);
        all.nodes = all.nodes.zip(job.nodes).map(|(mut nodes, more)| {
            nodes.extend(more);
            without_repetition(nodes)
        });
        all.size = all.nodes.as_ref().map_or(all.size + job.size, Vec::len);
    }
    all
}
