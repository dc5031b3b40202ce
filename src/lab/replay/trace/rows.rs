//! Rows of a trace that are one job.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::{Fault, FaultKind, Found, TraceJob};
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
                faults.push(Fault { line: job.line, kind: FaultKind::Repeated, message });
                *earlier = TraceJob { end: job.end.or(earlier.end), ..job };
            }
        }
    }
    Found { entries: with_components(jobs), faults, passed_over }
}

/// Joins the components of heterogeneous jobs, in the place of the first row of each.
fn with_components(jobs: Vec<TraceJob>) -> Vec<TraceJob> {
    // By leader and start: the place, and the components by offset.
    let mut parts: BTreeMap<(String, i64), (usize, BTreeMap<u32, TraceJob>)> = BTreeMap::new();
    let mut whole: Vec<(usize, TraceJob)> = Vec::with_capacity(jobs.len());
    for (place, job) in jobs.into_iter().enumerate() {
        match component(job.id.as_str()).map(|(leader, offset)| (leader.to_string(), offset)) {
            None => whole.push((place, job)),
            Some((leader, offset)) => {
                let of_job = parts.entry((leader, job.start)).or_insert_with(|| (place, BTreeMap::new()));
                of_job.1.insert(offset, job);
            }
        }
    }
    let joined = parts.into_iter().filter_map(|((leader, _), (place, components))| {
        let job = components.into_values().reduce(together)?;
        let id = JobId::new(leader).unwrap_or_else(|_| job.id.clone());
        Some((place, TraceJob { id, ..job }))
    });
    whole.extend(joined);
    whole.sort_by_key(|(place, _)| *place);
    whole.into_iter().map(|(_, job)| job).collect()
}

/// The leader of a component's job, and the component's number.
fn component(id: &str) -> Option<(&str, u32)> {
    let (leader, offset) = id.split_once('+')?;
    Some((leader, offset.parse().ok()?))
}

/// Some components and the next one.
fn together(all: TraceJob, next: TraceJob) -> TraceJob {
    let nodes = all.nodes.zip(next.nodes).map(|(nodes, more)| without_repetition([nodes, more].concat()));
    TraceJob {
        end: all.end.zip(next.end).map(|(one, other)| one.max(other)),
        submit: all.submit.min(next.submit),
        size: nodes.as_ref().map_or(all.size + next.size, Vec::len),
        nodes,
        ..all
    }
}
