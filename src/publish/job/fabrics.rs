//! The directory of a job that has adapters on several fabrics: what holds on all of them, and what each says.

use std::path::Path;
use std::{fs, io};

use super::{
    ENVIRONMENT_FILE, JobEnvironment, JobWriter, ORDER_FILE, PATH_BITS, RankOrder, SUMS_FILE, StoreError,
    begin_with, traffic, value,
};
use crate::model::{JobId, LidSet, Sl};

/// One of the fabrics that a job is on.
#[derive(Debug, Clone, Copy)]
pub struct OnFabric<'a> {
    /// As its `[[fabric]]` in the settings says.
    pub name: &'a str,
    /// Where it keeps the directories of jobs.
    pub root: &'a Path,
    /// Whether routes matter to the job there: it is on more than one switch.
    pub matters: bool,
    /// Whether it is a direct torus: the job has tables there, and neither service level nor LIDs.
    pub direct: bool,
}

/// Publishes in `root` what a job is told that started on several fabrics, from what each of them wrote. It has a
/// service level and LIDs only if they are the same wherever routes matter, and is routed only if it is on all of
/// these.
///
/// # Errors
/// What the system says, with the path; what was published before stays.
pub fn publish_of_several(root: &Path, job: &JobId, fabrics: &[OnFabric<'_>]) -> Result<(), StoreError> {
    let said: Vec<(&OnFabric<'_>, JobEnvironment)> =
        fabrics.iter().map(|fabric| (fabric, read(fabric.root, job))).collect();
    let matters = said.iter().any(|(fabric, _)| fabric.matters);
    let counts: Vec<_> = said.iter().filter(|(fabric, _)| fabric.matters || !matters).collect();
    let switched = || counts.iter().filter(|(fabric, _)| !fabric.direct);
    let levels: Vec<Option<Sl>> = switched().map(|(_, own)| own.service_level).collect();
    let lids: Vec<Option<LidSet>> = switched().map(|(_, own)| own.lids).collect();
    let mut notes: Vec<String> = counts
        .iter()
        .filter(|(_, own)| !own.note.is_empty())
        .map(|(fabric, own)| format!("{}: {}", fabric.name, own.note))
        .collect();
    if levels.iter().flatten().any(|level| levels[0] != Some(*level)) {
        notes.insert(0, "its service level differs by fabric: SAROUTER_SL_NAME".to_string());
    }
    let environment = JobEnvironment {
        service_level: agreed(&levels),
        lids: agreed(&lids),
        routed: counts.iter().all(|(_, own)| own.routed),
        traffic: fabrics.iter().find_map(|fabric| traffic(fabric.root, job)),
        note: notes.join("; "),
        tables: said.iter().map(|(_, own)| own.tables).sum(),
        fabrics: said.iter().map(|(fabric, own)| (fabric.name.to_string(), own.clone())).collect(),
        ..JobEnvironment::default()
    };
    let order = fabrics.iter().find_map(|fabric| order(fabric.root, job));
    let mut writer = begin_with(root, job, &environment, order.as_ref())?;
    for fabric in fabrics.iter().filter(|fabric| fabric.direct) {
        add_tables(&mut writer, &fabric.root.join(job.as_str()))?;
    }
    writer.sync()?.publish()
}

/// Adds the tables of a job on a direct torus: what its directory there has beside its environment.
fn add_tables(writer: &mut JobWriter, from: &Path) -> Result<(), StoreError> {
    let sums = match fs::read_to_string(from.join(SUMS_FILE)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        sums => sums.map_err(StoreError::io("read", from))?,
    };
    let names = sums.lines().filter_map(|line| Some(line.split_once("  ")?.1));
    for name in names.filter(|name| *name != ENVIRONMENT_FILE) {
        let path = from.join(name);
        writer.add(name, &fs::read(&path).map_err(StoreError::io("read", &path))?)?;
    }
    Ok(())
}

/// What all say.
fn agreed<T: Copy + PartialEq>(said: &[Option<T>]) -> Option<T> {
    let first = (*said.first()?)?;
    said.iter().all(|other| *other == Some(first)).then_some(first)
}

/// What a fabric told the job; nothing if it wrote nothing.
fn read(root: &Path, job: &JobId) -> JobEnvironment {
    let said = |name: &str| value(root, job, name);
    JobEnvironment {
        service_level: said("SAROUTER_SL").and_then(|level| level.parse().ok()),
        lids: said(PATH_BITS).and_then(|bits| LidSet::ALL.get(bits.parse::<usize>().ok()?).copied()),
        routed: said("SAROUTER_ROUTED").is_some_and(|word| word == "yes"),
        epoch: said("SAROUTER_EPOCH").and_then(|epoch| epoch.parse().ok()),
        tables: said("SAROUTER_TABLES").and_then(|tables| tables.parse().ok()).unwrap_or(0),
        note: said("SAROUTER_NOTE").unwrap_or_default(),
        ..JobEnvironment::default()
    }
}

fn order(root: &Path, job: &JobId) -> Option<RankOrder> {
    serde_json::from_slice(&fs::read(root.join(job.as_str()).join(ORDER_FILE)).ok()?).ok()
}
