//! What was in force when a recording begins in the middle, without names.

use std::path::Path;
use std::sync::Arc;

use super::Names;
use crate::model::{Fabric, FileError, Job, JobMap, Promise, SplitLids, Tables};
use crate::observe::ibnetdiscover::to_ibnetdiscover;
use crate::pass::plan::{Plan, Published};
use crate::publish::{Epoch, EpochStore};
use crate::report::{Compute, Report, VerdictSummary};
use crate::service::record::replay::{ReplayError, each_line};
use crate::service::record::{Line, Made};
use crate::verify::{self, Beside};

/// The epoch beside a file of a recording, and the fabric of the file's first look; `None` if nothing
/// was in force, or what was is for another fabric.
pub(super) fn read(path: &Path) -> Result<Option<(Epoch, Fabric)>, ReplayError> {
    let (mut made, mut fabric) = (None, None);
    each_line(&[path.to_path_buf()], &mut |_| (), |line, path, number| {
        let wrong = |reason: String| FileError::line(path, number, reason);
        match line {
            Line::Begin { in_force, .. } if number == 1 => made = in_force,
            Line::Fabric { text, .. } if fabric.is_none() => {
                fabric = Some(super::parse(&text).map_err(wrong)?);
            }
            _ => {}
        }
        Ok(())
    })?;
    let (Some(made), Some(fabric)) = (made, fabric) else { return Ok(None) };
    let directory = path.with_extension("epoch");
    if !directory.is_dir() {
        return Ok(None);
    }
    let epoch = Epoch::read(&directory, made.epoch)?;
    Ok((epoch.plan().fabric == fabric.fingerprint()).then_some((epoch, fabric)))
}

/// Publishes it under other names and its own number; `None` if the checker does not accept it.
pub(super) fn publish(
    names: &Names,
    (epoch, old): &(Epoch, Fabric),
    into: &EpochStore,
) -> Result<Option<Made>, ReplayError> {
    let wrong = |reason: String| FileError::line(into.path(), 0, reason);
    let renamed = names.fabric(old).map_err(|e| wrong(e.to_string()))?;
    let fabric = super::parse(&to_ibnetdiscover(&renamed)).map_err(wrong)?;
    let record = epoch.plan();
    // GUIDs keep their order, so ids stay the same.
    let Published { tables, lanes, lids, .. } = epoch.published(old)?;
    let lanes = lanes.map(|lanes| Arc::new(lanes.for_same_cables(&fabric)));
    let on_new = |tables: &Tables| {
        let (mut ports, mut layers) = (Vec::new(), Vec::new());
        for dest in old.dest_ids() {
            for switch in old.switch_ids() {
                ports.push(tables.port(switch, dest).map_or(Tables::UNREACHABLE, |p| p.get()));
                layers.push(tables.layer(switch, dest).map_or(Tables::NO_LAYER, |l| l.get()));
            }
        }
        let tables = Tables::new(&fabric, &record.engine, ports, layers).map_err(|e| wrong(e.to_string()))?;
        Ok::<_, ReplayError>(tables.with_lanes(lanes.as_ref().map(|lanes| Arc::clone(&lanes.map))))
    };
    let split =
        |SplitLids { fresh, kept }| Ok::<_, ReplayError>(SplitLids { fresh, kept: Arc::new(on_new(&kept)?) });
    let lids = lids.map(split).transpose()?;
    let kept = lids.as_ref().map(|lids| Arc::clone(&lids.kept));
    let jobs = record.jobs.jobs.iter().map(|job| names.job_of(job)).collect::<Vec<Job>>();
    let plan = Plan {
        worth: None,
        halfway: record.halfway,
        drained: record.drained,
        // It names devices.
        difference: None,
        reason: record.reason,
        engine: record.engine.clone(),
        passed_over: record.passed_over.clone(),
        budget: record.layer_budget,
        demand: record.demand.on(old),
        jobs: JobMap::new(record.jobs.time, jobs),
        tables: Arc::new(on_new(&tables)?),
        counted: None,
        lids,
        lanes,
        before: record.before,
        after: record.after,
    };
    let promise = Promise { mixed: false, ..record.promise };
    let apart = kept.as_deref().map_or(&[][..], std::slice::from_ref);
    let beside = Beside { apart, ..Beside::of_step(plan.halfway, plan.lanes.is_some(), plan.drained) };
    let accepted = verify::accept_promise(&fabric, plan, record.layer_budget, promise, beside, &[]);
    let Ok(plan) = accepted else { return Ok(None) };
    let told = epoch.report();
    let verdict = VerdictSummary { accepted: true, findings: Vec::new() };
    let mut report = Report::new(&record.engine, &fabric, told.jobs, told.layers, verdict, record.after);
    report.compute = Compute::default();
    let mut writer = into.lock()?.from_epoch(record.epoch);
    Ok(Made::of(into, writer.publish(&fabric, &plan, &report, record.created)?))
}
