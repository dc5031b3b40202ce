//! The settings as written, and what they mean. Who reads them asks the tables of what there is.

mod handoff;
mod interfaces;
mod keys;
mod numbers;
mod placement;
mod several;
mod site;
mod traffic;
mod words;

use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::TimeDelta;
use serde::Deserialize;
use toml::Spanned;

use self::handoff::WrittenHandOff;
use self::interfaces::{WrittenApi, WrittenHistory, WrittenRecord, WrittenRest, WrittenSpool};
use self::numbers::{Kept, Mebibytes, Percent, Seconds, SecondsOrZero, StorageWeight};
use self::placement::WrittenPlacement;
pub use self::site::Site;
use self::traffic::WrittenTraffic;
use self::words::{Place, Program, host_lists};
use super::{
    ConfigError, DEFAULT_PATH, FabricSource, OpenSm, Routing, STATUS_FILE, Service, Settings, Slurm,
    SqueueFormat, State,
};
use crate::model::{FileError, LayerBudget, Promise, plain};
use crate::observe::fabric;
use crate::observe::source::{JOB_SOURCES, JobSourceRow};
use crate::route;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Written {
    state: WrittenState,
    fabric: WrittenFabric,
    slurm: WrittenSlurm,
    routing: WrittenRouting,
    service: WrittenService,
    opensm: WrittenOpenSm,
    api: WrittenApi,
    slurmrestd: WrittenRest,
    spool: WrittenSpool,
    record: WrittenRecord,
    history: WrittenHistory,
    handoff: WrittenHandOff,
    placement: WrittenPlacement,
    traffic: WrittenTraffic,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenState {
    directory: Place,
    keep_epochs: Kept,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenFabric {
    source: Option<Spanned<String>>,
    command: Option<Spanned<Vec<String>>>,
    deadline_seconds: Seconds,
    output_limit_mib: Mebibytes,
    node_map: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenSlurm {
    source: Spanned<SourceName>,
    squeue: Program,
    squeue_format: SqueueFormat,
    deadline_seconds: Seconds,
    output_limit_mib: Mebibytes,
    min_job_age_seconds: SecondsOrZero,
    topology: Option<PathBuf>,
}

/// A name of [`JOB_SOURCES`].
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct SourceName(&'static JobSourceRow);

impl TryFrom<String> for SourceName {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        JobSourceRow::of(&name).map(Self)
    }
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenRouting {
    engine: Option<Spanned<String>>,
    engines: Option<Spanned<Vec<String>>>,
    baseline: Option<Spanned<String>>,
    layers: Option<LayerBudget>,
    layer_per_job: bool,
    promise: Option<Spanned<Promise>>,
    storage_nodes: Vec<Spanned<String>>,
    storage_reads: StorageWeight,
    storage_writes: StorageWeight,
    min_gain_seconds: Option<SecondsOrZero>,
    epochs_per_day: Option<u16>,
    min_pause_seconds: SecondsOrZero,
    communication_percent: Percent,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenService {
    interval_seconds: Seconds,
    backoff_max_seconds: Seconds,
    stop_seconds: Seconds,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenOpenSm {
    watch: bool,
    status_file: Option<PathBuf>,
    stale_seconds: Seconds,
    acknowledge_seconds: Seconds,
    conf: PathBuf,
    lft_file: Option<PathBuf>,
    lmc: Spanned<u8>,
}

impl Default for WrittenState {
    fn default() -> Self {
        Self { directory: Place("/var/lib/sarouter".into()), keep_epochs: Kept(50) }
    }
}

impl Default for WrittenFabric {
    fn default() -> Self {
        Self {
            source: None,
            command: None,
            deadline_seconds: Seconds(Duration::from_secs(60)),
            output_limit_mib: Mebibytes(256 << 20),
            node_map: None,
        }
    }
}

impl Default for WrittenSlurm {
    fn default() -> Self {
        Self {
            source: Spanned::new(0..0, SourceName(&JOB_SOURCES[0])),
            squeue: Program("squeue".into()),
            squeue_format: SqueueFormat::Text,
            deadline_seconds: Seconds(Duration::from_secs(20)),
            output_limit_mib: Mebibytes(256 << 20),
            min_job_age_seconds: SecondsOrZero(Duration::from_secs(60)),
            topology: None,
        }
    }
}

impl Default for WrittenRouting {
    fn default() -> Self {
        Self {
            engine: None,
            engines: None,
            baseline: None,
            layers: None,
            layer_per_job: false,
            promise: None,
            storage_nodes: Vec::new(),
            storage_reads: StorageWeight(1),
            storage_writes: StorageWeight(1),
            min_gain_seconds: None,
            epochs_per_day: None,
            min_pause_seconds: SecondsOrZero(Duration::from_secs(DEFAULT_MIN_PAUSE)),
            communication_percent: Percent(30),
        }
    }
}

impl Default for WrittenService {
    fn default() -> Self {
        Self {
            interval_seconds: Seconds(Duration::from_secs(60)),
            backoff_max_seconds: Seconds(Duration::from_secs(600)),
            stop_seconds: Seconds(Duration::from_secs(10)),
        }
    }
}

impl Default for WrittenOpenSm {
    fn default() -> Self {
        Self {
            watch: true,
            status_file: None,
            stale_seconds: Seconds(Duration::from_secs(30)),
            acknowledge_seconds: Seconds(Duration::from_secs(30)),
            conf: "/etc/opensm/opensm.conf".into(),
            lft_file: None,
            lmc: Spanned::new(0..0, 0),
        }
    }
}

/// What is wrong, and at which byte of the text.
type Wrong = (usize, String);

/// Number of the line, from 1, that a byte offset is in.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1
}

/// Layers that 8 VLs, which nearly every switch has, can carry.
const DEFAULT_LAYERS: u64 = 8;

/// Changes of routes for jobs alone, unless the site has said what one must save: what is beyond them gains little.
const DEFAULT_EPOCHS_PER_DAY: u16 = 24;

/// Seconds between two changes for jobs alone.
const DEFAULT_MIN_PAUSE: u64 = 60;

const DEFAULT_ENGINE: &str = "balanced";

/// `fabric.source` that stands for the fabric as OpenSM sees it.
const FROM_OPENSM: &str = "opensm";

fn wrong(error: &toml::de::Error, text: &str, path: &Path) -> ConfigError {
    let line = line_at(text, error.span().map_or(0, |span| span.start));
    let mut message = plain(error.message());
    if let Some(section) = keys::section_of(error.message()) {
        message.truncate(message.find("; keys are").unwrap_or(message.len()));
        message.push_str(&format!("; [{section}] has it"));
    }
    FileError::line(path, line, message).into()
}

impl Written {
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| wrong(&error, text, path))
    }

    /// What a table says, which may be put together of several tables of the text.
    pub(super) fn read(
        table: Spanned<toml::de::DeTable<'_>>,
        text: &str,
        path: &Path,
    ) -> Result<Self, ConfigError> {
        Self::deserialize(toml::de::Deserializer::from(table)).map_err(|error| wrong(&error, text, path))
    }

    pub(super) fn resolve(self, text: &str, path: &Path) -> Result<Settings, ConfigError> {
        // `sarouter.toml` alone has no parent; what is resolved must not change with the directory.
        let path_from_root = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let home = path_from_root.parent().unwrap_or(Path::new(""));
        let directory = home.join(&self.state.directory.0);
        let at = |(offset, message): Wrong| FileError::line(path, line_at(text, offset), message);
        let split_lids = self
            .opensm
            .split_lids(&self.routing)
            .map_err(|message| at((self.opensm.lmc.span().start, message.into())))?;
        let status_file = self.opensm.status_file.map_or(directory.join(STATUS_FILE), |f| home.join(f));
        let fabric = self.fabric.resolve(home, &directory, &status_file);
        let fabric = fabric.map_err(|(offset, message)| at((offset, message.into())))?;
        let api = self.api.resolve(home, &directory).map_err(at)?;
        let rest = self.slurmrestd.resolve(home).map_err(at)?;
        let spool = self.spool.resolve(home);
        let (row, named_at) = (self.slurm.source.get_ref().0, self.slurm.source.span().start);
        let lft_file = self.opensm.lft_file.map(|file| home.join(file));
        let opensm = self.opensm.watch.then(|| OpenSm {
            status_file,
            stale: self.opensm.stale_seconds.0,
            acknowledge: self.opensm.acknowledge_seconds.0,
            conf: home.join(self.opensm.conf),
        });
        let bounds = (self.slurm.deadline_seconds.0, self.slurm.output_limit_mib.0);
        let settings = Settings {
            name: None,
            state: State { directory, keep_epochs: self.state.keep_epochs.0 },
            fabric,
            node_map: self.fabric.node_map.map(|p| home.join(p)),
            slurm: self.slurm.resolve(home),
            routing: self.routing.resolve().map_err(at)?,
            service: Service {
                interval: self.service.interval_seconds.0,
                backoff_max: self.service.backoff_max_seconds.0,
                stop_deadline: self.service.stop_seconds.0,
            },
            opensm,
            lft_file,
            split_lids,
            api,
            rest,
            spool,
            record: self.record.resolve(),
            history: self.history.resolve(),
            handoff: self.handoff.resolve(),
            placement: self.placement.resolve(home, bounds.0, bounds.1).map_err(at)?,
            rails: self.traffic.rails(),
            traffic: self.traffic.resolve(),
        };
        row.for_site(&settings).map_err(|message| at((named_at, message)))?;
        Ok(settings)
    }
}

impl WrittenFabric {
    /// The source, or what is wrong at which byte.
    fn resolve(
        &self,
        home: &Path,
        directory: &Path,
        status_file: &Path,
    ) -> Result<Option<FabricSource>, (usize, &'static str)> {
        match (&self.source, &self.command) {
            (Some(_), Some(command)) => {
                Err((command.span().start, "fabric.source and fabric.command exclude each other"))
            }
            (Some(source), None) if source.get_ref() == FROM_OPENSM => Ok(Some(FabricSource::OpenSm {
                status_file: status_file.to_path_buf(),
                directory: directory.to_path_buf(),
            })),
            (Some(source), None) => Ok(Some(FabricSource::Source(resolve_source(source.get_ref(), home)))),
            (None, Some(command)) if command.get_ref().first().is_none_or(String::is_empty) => {
                Err((command.span().start, "fabric.command is empty"))
            }
            (None, Some(command)) => Ok(Some(FabricSource::Command {
                argv: command.get_ref().clone(),
                deadline: self.deadline_seconds.0,
                output_limit: self.output_limit_mib.0,
            })),
            (None, None) => Ok(None),
        }
    }
}

/// File names are relative to the settings; generated specs (`fattree:4x2,2`) stay as they are. What has a colon and
/// is no spec is a misspelt one: whose file has one in its name says `./`.
fn resolve_source(source: &str, home: &Path) -> String {
    let is_path = source.contains('/') || !(source.contains(':') || fabric::is_spec(source));
    if is_path { home.join(source).to_string_lossy().into_owned() } else { source.to_string() }
}

impl WrittenSlurm {
    fn resolve(self, home: &Path) -> Slurm {
        Slurm {
            source: self.source.into_inner().0.name.to_string(),
            squeue: self.squeue.0,
            format: self.squeue_format,
            deadline: self.deadline_seconds.0,
            output_limit: self.output_limit_mib.0,
            // At most a year: always fits.
            min_job_age: TimeDelta::from_std(self.min_job_age_seconds.0).unwrap_or(TimeDelta::MAX),
            topology: self.topology.map(|p| home.join(p)),
        }
    }
}

impl WrittenOpenSm {
    /// Whether a port's two LIDs have routes of their own.
    fn split_lids(&self, routing: &WrittenRouting) -> Result<bool, &'static str> {
        match self.lmc.get_ref() {
            0 => Ok(false),
            1 if routing.layer_per_job => Err("opensm.lmc and routing.layer_per_job exclude each other"),
            1 if self.lft_file.is_some() => {
                Err("opensm.lft_file has one route for all LIDs of a port: lmc = 0")
            }
            1 => Ok(true),
            _ => Err("must be 0 or 1: there are routes for two LIDs of a port at most"),
        }
    }
}

impl WrittenRouting {
    fn resolve(self) -> Result<Routing, Wrong> {
        let (at, engines) = match (self.engine, self.engines) {
            (Some(_), Some(engines)) => {
                let message = "routing.engine and routing.engines exclude each other";
                return Err((engines.span().start, message.into()));
            }
            (None, Some(engines)) if engines.get_ref().is_empty() => {
                return Err((engines.span().start, "routing.engines is empty".into()));
            }
            (None, Some(engines)) => (engines.span().start, engines.into_inner()),
            (Some(engine), None) => (engine.span().start, vec![engine.into_inner()]),
            (None, None) => (0, vec![DEFAULT_ENGINE.into()]),
        };
        for engine in &engines {
            route::may_be_set(engine, self.layer_per_job).map_err(|message| (at, message))?;
        }
        if let Some(baseline) = &self.baseline {
            route::may_be_baseline(baseline.get_ref()).map_err(|message| (baseline.span().start, message))?;
        }
        let mut engines = engines.into_iter();
        let engine = engines.next().unwrap_or_else(|| unreachable!("there is one at least"));
        let promise = self.promise.as_ref().map(|promise| *promise.get_ref());
        if let (Some(written), true) = (&self.promise, self.layer_per_job) {
            if !written.get_ref().is_told_only() {
                let message =
                    "routing.layer_per_job needs programs that use the SL they were told: promise \"told\"";
                return Err((written.span().start, message.into()));
            }
        }
        // Who says a price means it.
        let (min_gain, unsaid) = (self.min_gain_seconds, self.min_gain_seconds.is_none());
        let epochs_per_day = self.epochs_per_day.unwrap_or(if unsaid { DEFAULT_EPOCHS_PER_DAY } else { 0 });
        let layers = self.layers.or_else(|| LayerBudget::new(DEFAULT_LAYERS).ok());
        Ok(Routing {
            engine,
            then: engines.collect(),
            baseline: self.baseline.map(Spanned::into_inner),
            layers: layers.unwrap_or_else(|| unreachable!("8 is a layer budget")),
            layer_per_job: self.layer_per_job,
            promise,
            storage_nodes: host_lists(self.storage_nodes)?,
            storage_reads: self.storage_reads.0,
            storage_writes: self.storage_writes.0,
            // At most a year: always fits.
            min_gain: min_gain
                .map_or(TimeDelta::zero(), |s| TimeDelta::from_std(s.0).unwrap_or(TimeDelta::MAX)),
            epochs_per_day,
            min_pause: TimeDelta::from_std(self.min_pause_seconds.0).unwrap_or(TimeDelta::MAX),
            communication: self.communication_percent.0,
        })
    }
}

impl Default for Settings {
    /// What an empty file means.
    fn default() -> Self {
        let nothing = Written::default().resolve("", Path::new(DEFAULT_PATH));
        nothing.unwrap_or_else(|error| unreachable!("the defaults can be used: {error}"))
    }
}
