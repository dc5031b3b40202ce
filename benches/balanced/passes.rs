//! From the map of jobs to the published epoch, as the service goes: jobs on 95 % of the hosts, and one more at a time.

use std::sync::Arc;
use std::time::Instant;

use sarouter::lab::board::mix;
use sarouter::lab::generate::generate;
use sarouter::model::{LayerBudget, Promise, TerminalId};
use sarouter::observe::nodes::{NodeNames, name_hosts};
use sarouter::pass::plan::Policy;
use sarouter::pass::step::View;
use sarouter::publish::EpochStore;
use sarouter::report::align;
use sarouter::report::cost::cpu_seconds;
use sarouter::service::pass::{Remembered, pass};

use super::{Failure, LAYERS, SIZES, job_map};

/// Jobs that start one after the other.
const MORE: usize = 3;

/// Seconds of each pass: by the wall, of CPU, and what they go to.
pub fn passes(spec: &str) -> Result<(), Failure> {
    let fabric = Arc::new(generate(spec)?);
    let nodes = Arc::new(name_hosts(&fabric, &NodeNames::default()));
    let directory = tempfile::tempdir()?;
    let store = EpochStore::open(&directory.path().join("state"))?;
    let jobs: Vec<Vec<TerminalId>> = mix(&fabric, 101, &SIZES).into_iter().map(|job| job.ranks).collect();
    let mut remembered: Option<Remembered> = None;
    let head = ["jobs", "seconds", "CPU s", "routing ms", "checking ms", "publishing ms", "blocks"];
    let mut rows = vec![head.iter().map(ToString::to_string).collect()];
    for running in jobs.len().saturating_sub(MORE)..=jobs.len() {
        let view = View::new(
            Arc::clone(&fabric),
            Arc::clone(&nodes),
            job_map(&fabric, &jobs[..running])?,
            policy()?,
        );
        let (begun, cpu) = (Instant::now(), cpu_seconds());
        let passed = pass(&store, 2, &view, remembered.take())?;
        let (wall, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        remembered.clone_from(&passed.remembered);
        let line = passed.epoch.ok_or("no epoch was due")?;
        let blocks = line.changed_blocks.map_or(String::new(), |blocks| blocks.to_string());
        let times = [line.route_ms, line.verify_ms, line.publish_ms].map(|ms| format!("{ms:.0}"));
        let first = [running.to_string(), format!("{wall:.2}"), format!("{cpu:.2}")];
        rows.push([&first[..], &times[..], &[blocks]].concat());
    }
    println!("{spec}\n{}", align(&rows));
    Ok(())
}

/// The default of the settings, but that every job is worth an epoch.
fn policy() -> Result<Policy, Failure> {
    Ok(Policy::new("balanced", LayerBudget::new(LAYERS)?, Promise::EVERYTHING))
}
