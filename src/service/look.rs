//! A look at the outside: the jobs of now on the fabric of now.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

use super::chain;
use super::health::Stage;
use super::lids::Lids;
use crate::config::{FabricSource, Settings};
use crate::lab::generate::spec;
use crate::model::{Fabric, FileError, Fingerprint, JobMap, NodeMap, NodeName, Rails, Storage, TerminalId};
use crate::observe::child::{BoundedCommand, ChildError};
use crate::observe::fabric::{self, FabricSourceError};
use crate::observe::hostlist::{self, HostlistError};
use crate::observe::nodes::{self, NodeNames};
use crate::observe::regular;
use crate::observe::source::{JobSource, PollError, job_source};
use crate::pass::baseline::Oblivious;
use crate::pass::plan::{InSwitches, Policy};
use crate::pass::step::View;
use crate::pass::worth::Price;
use crate::publish::job::{JOBS_DIRECTORY, add_traffic};
use crate::publish::opensm::{ENGINE, PluginStatus, StatusError, repair};
use crate::publish::{EpochStore, StoreError, read_trial};
use crate::route;

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The settings name no fabric.
    #[error("the settings name no fabric: set source or command in [fabric]")]
    NoFabric,
    /// Slurm does not answer.
    #[error(transparent)]
    Jobs(#[from] PollError),
    /// The fabric's command failed.
    #[error(transparent)]
    Command(#[from] ChildError),
    /// The fabric is not one.
    #[error(transparent)]
    Fabric(#[from] FabricSourceError),
    /// OpenSM's plugin does not say which fabric it sees.
    #[error("fabric.source is \"opensm\"")]
    OpenSm(#[from] StatusError),
    /// The plugin does not write the fabric.
    #[error(
        "fabric.source is \"opensm\", and the plugin in OpenSM is of a version that does not write the fabric"
    )]
    NoFabricOfOpenSm,
    /// The node map is not one.
    #[error(transparent)]
    Nodes(#[from] FileError),
    /// `routing.storage_nodes` is not a host list.
    #[error("routing.storage_nodes: {0}")]
    Storage(#[from] HostlistError),
    /// What jobs said cannot be read.
    #[error(transparent)]
    Said(#[from] StoreError),
    /// Their file system does not answer.
    #[error("the fabric and its node map cannot be read within {} s: does their file system hang?", READING.as_secs())]
    Hangs,
    /// A bug: reading the fabric panicked.
    #[error("reading the fabric was aborted: {0}")]
    Aborted(String),
}

impl LookError {
    /// Where a pass failed with this.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Jobs(_) => Stage::Jobs,
            _ => Stage::Fabric,
        }
    }
}

/// A fabric with the names of its nodes.
#[derive(Debug, Clone)]
pub struct Named {
    /// Switches, hosts and cables as they are now.
    pub fabric: Arc<Fabric>,
    /// Which hosts are whose adapters.
    pub nodes: Arc<NodeMap>,
    /// Its tables that know no jobs.
    pub oblivious: Oblivious,
}

/// Fabric and node names, read again when their text has changed.
#[derive(Debug, Clone)]
pub struct FabricReader {
    source: FabricSource,
    node_map: Option<PathBuf>,
    rails: Rails,
    /// Digest of the texts, and what they mean.
    known: Option<([u8; 32], Named)>,
}

impl FabricReader {
    /// A reader that has not read yet.
    pub fn new(source: FabricSource, node_map: Option<PathBuf>) -> Self {
        Self { source, node_map, rails: Rails::All, known: None }
    }

    /// That of the fabric of the settings; `None` if they name none.
    pub fn of(settings: &Settings) -> Option<Self> {
        let source = settings.fabric.clone()?;
        Some(Self { rails: settings.rails, ..Self::new(source, settings.node_map.clone()) })
    }

    /// The fabric of now. Parses only if a text differs from the last one.
    ///
    /// # Errors
    /// With file and line, or what the command said.
    pub async fn read(&mut self) -> Result<Named, LookError> {
        let (name, text) = match &self.source {
            FabricSource::Source(source) if spec::is_spec(source) => (source.clone(), Text::Spec),
            FabricSource::Source(path) => (path.clone(), Text::File),
            FabricSource::OpenSm { status_file, directory } => {
                let status = PluginStatus::read(status_file)?;
                let path = status.fabric_file(directory).ok_or(LookError::NoFabricOfOpenSm)?;
                (path.to_string_lossy().into_owned(), Text::File)
            }
            FabricSource::Command { argv, deadline, output_limit } => {
                let command = BoundedCommand {
                    argv: argv.clone(),
                    environment: Vec::new(),
                    deadline: *deadline,
                    output_limit: *output_limit,
                };
                (command.program().to_string(), Text::Said(command.output().await?))
            }
        };
        let (map, rails) = (self.node_map.clone(), self.rails);
        let known = self.known.take();
        // Parsing takes a while, and a file system may hang: not in the loop.
        let parsed = tokio::task::spawn_blocking(move || {
            let text = match text {
                Text::Spec => None,
                Text::File => Some(read_file(Path::new(&name))?),
                Text::Said(text) => Some(text),
            };
            parse(&name, text, map.as_deref(), rails, known)
        });
        let parsed = tokio::time::timeout(READING, parsed).await.map_err(|_| LookError::Hangs)?;
        let known = parsed.map_err(|e| LookError::Aborted(e.to_string()))??;
        let named = known.1.clone();
        self.known = Some(known);
        Ok(named)
    }
}

/// Where the text of a fabric is.
enum Text {
    /// It is made of its name.
    Spec,
    /// In the file of its name.
    File,
    /// Here.
    Said(String),
}

/// To read and parse files takes no longer, unless their file system hangs.
const READING: Duration = Duration::from_secs(120);

/// Descriptions in fabric files are bytes that anyone may set.
fn read_file(path: &Path) -> Result<String, FabricSourceError> {
    let bytes = regular::read(path).map_err(FileError::io(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn parse(
    name: &str,
    text: Option<String>,
    map: Option<&Path>,
    rails: Rails,
    known: Option<([u8; 32], Named)>,
) -> Result<([u8; 32], Named), LookError> {
    let mut digest = Sha256::new();
    digest.update(text.as_deref().unwrap_or(name));
    let names = match map {
        Some(path) => {
            let content = regular::read(path)
                .and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other))
                .map_err(FileError::io(path))?;
            digest.update([0]);
            digest.update(&content);
            NodeNames::parse(path, &content)?
        }
        None => NodeNames::default(),
    };
    let digest = digest.finalize().into();
    if let Some(known) = known.filter(|(before, _)| *before == digest) {
        return Ok(known);
    }
    let fabric = match text {
        Some(text) => fabric::parse(Path::new(name), &text)?.fabric,
        None => fabric::load(name)?,
    };
    let nodes = nodes::name_hosts(&fabric, &names).among(rails);
    Ok((digest, Named { fabric: Arc::new(fabric), nodes: Arc::new(nodes), oblivious: Oblivious::default() }))
}

/// What one look found.
#[derive(Debug, Clone)]
pub struct Sight {
    /// For the decision.
    pub view: Arc<View>,
    /// Storage nodes of the settings that the fabric does not have.
    pub unknown_storage: Vec<NodeName>,
    /// How long Slurm took to answer.
    pub asking: Duration,
    /// How long reading the fabric took.
    pub parsing: Duration,
    /// Why the jobs are those of an earlier look; `None`: they are of now.
    pub jobs_failed: Option<String>,
    /// How long the source of jobs goes on with this answer; `None` if it is asked each time.
    pub fresh_in: Option<Duration>,
}

/// Looks at a site again and again.
pub struct Looker {
    settings: Settings,
    jobs: Box<dyn JobSource>,
    fabric: FabricReader,
    /// The fabric and the jobs of the last look at which Slurm answered.
    last: Option<(Fingerprint, JobMap)>,
    /// The fabric has changed since, perhaps back.
    changed: bool,
    /// Where what jobs said at their start is read at each look.
    said: Option<PathBuf>,
}

/// How long Slurm may take to answer while routes for another fabric are due.
const SLURM_AND_REPAIR: Duration = Duration::from_secs(3);

impl Looker {
    /// For a site. Touches nothing yet.
    ///
    /// # Errors
    /// If the settings name no fabric.
    pub fn new(settings: Settings) -> Result<Self, LookError> {
        let fabric = FabricReader::of(&settings).ok_or(LookError::NoFabric)?;
        Ok(Self { jobs: job_source(&settings), fabric, settings, last: None, changed: false, said: None })
    }

    /// The same with another source of jobs.
    #[must_use]
    pub fn with_jobs(mut self, jobs: Box<dyn JobSource>) -> Self {
        self.jobs = jobs;
        self
    }

    /// The same for who is not told when jobs start: what they said is read where a service keeps it.
    #[must_use]
    pub fn reading_traffic(mut self) -> Self {
        self.said = Some(self.settings.state.directory.join(JOBS_DIRECTORY));
        self
    }

    /// Reads the fabric and asks Slurm. Takes at most the deadlines of the settings, and the time
    /// to parse.
    ///
    /// If the fabric is another than when Slurm answered last, routes for it do not wait for Slurm: the
    /// jobs of then do, and [`Sight::jobs_failed`] says why.
    ///
    /// # Errors
    /// That Slurm does not answer, or else that the fabric cannot be read.
    pub async fn look(&mut self, now: DateTime<Utc>) -> Result<Sight, LookError> {
        let begun = Instant::now();
        let named = self.fabric.read().await;
        let parsing = begun.elapsed();
        let begun = Instant::now();
        let (mut jobs, jobs_failed) = self.jobs_for(now, named.as_ref().ok()).await?;
        jobs = jobs.guessing(&self.settings.traffic);
        if let Some(root) = &self.said {
            add_traffic(root, &mut jobs)?;
        }
        let asking = begun.elapsed();
        let named = named?;
        if jobs_failed.is_none() {
            self.changed = false;
            self.last = Some((named.fabric.fingerprint(), jobs.clone()));
        }
        let (mut view, unknown_storage) = view(&self.settings_of(now), named, jobs)?;
        if let Some(root) = self.said.as_ref().filter(|_| view.policy.lids_in_use.is_some()) {
            let known = view.jobs.jobs.iter().map(|job| job.id.clone()).collect();
            let mut lids = Lids::load(root);
            view.policy.lids_in_use = Some(lids.in_use(&view, &known, view.jobs.known_at(), |_| false));
        }
        let fresh_in = self.jobs.fresh_in();
        Ok(Sight { view: Arc::new(view), unknown_storage, asking, parsing, jobs_failed, fresh_in })
    }

    /// On a trial's days without routes for jobs another engine takes the place of that of the settings.
    fn settings_of(&self, now: DateTime<Utc>) -> Cow<'_, Settings> {
        let trial = read_trial(&self.settings.state.directory).unwrap_or_else(|error| {
            tracing::warn!("no trial: {}", chain(&error));
            None
        });
        let mut settings = Cow::Borrowed(&self.settings);
        if let Some(engine) = trial.as_ref().and_then(|trial| trial.engine(now)) {
            let routing = &mut settings.to_mut().routing;
            routing.engine = engine.to_string();
            routing.then.clear();
        }
        settings
    }

    /// The jobs of now, or the last known and why.
    async fn jobs_for(
        &mut self,
        now: DateTime<Utc>,
        named: Option<&Named>,
    ) -> Result<(JobMap, Option<String>), LookError> {
        let now_there = named.map(|named| named.fabric.fingerprint());
        let known = self.last.as_ref();
        self.changed |= known.zip(now_there).is_some_and(|((before, _), there)| *before != there);
        let known = known.filter(|_| self.changed && now_there.is_some());
        let Some((_, known)) = known else { return Ok((self.jobs.poll(now).await?, None)) };
        let failed = match tokio::time::timeout(SLURM_AND_REPAIR, self.jobs.poll(now)).await {
            Ok(Ok(jobs)) => return Ok((jobs, None)),
            Ok(Err(error)) => chain(&error),
            Err(_) => format!("Slurm has not answered within {} s", SLURM_AND_REPAIR.as_secs()),
        };
        Ok((
            known.clone(),
            Some(format!("{failed}; the fabric has changed, so it is routed for the jobs of before")),
        ))
    }
}

/// What OpenSM's plugin says; `None` if the settings name none, or it says nothing.
fn plugin_status(settings: &Settings) -> Option<PluginStatus> {
    PluginStatus::read(&settings.opensm.as_ref()?.status_file).ok()
}

/// Which epoch OpenSM has in the switches, if that is not the newest one.
fn in_switches(status: &PluginStatus, directory: &Path) -> Option<InSwitches> {
    let epoch = status.generation.filter(|_| status.engine.as_deref() == Some(ENGINE))?;
    // Which one is the newest may be damaged on the disk.
    let newest = EpochStore::open(directory).ok()?.current().map_or(Some(None), |newest| newest.map(Some))?;
    let newest = newest.map(|newest| newest.get());
    let refused = newest.is_some() && status.refused_generation == newest;
    (newest != Some(epoch)).then_some(InSwitches { epoch, refused })
}

/// Puts together what was seen, and lists the storage nodes that the fabric does not have.
///
/// # Errors
/// If `routing.storage_nodes` is not a host list.
pub fn view(settings: &Settings, named: Named, jobs: JobMap) -> Result<(View, Vec<NodeName>), LookError> {
    let routing = &settings.routing;
    let mut storage: Vec<TerminalId> = Vec::new();
    let mut unknown = Vec::new();
    for list in &routing.storage_nodes {
        for node in hostlist::expand(list)? {
            match named.nodes.terminals(&node) {
                [] => unknown.push(node),
                found => storage.extend_from_slice(found),
            }
        }
    }
    let (status, directory) = (plugin_status(settings), &settings.state.directory);
    let policy = Policy {
        engine: routing.engine.clone(),
        then: routing.then.clone(),
        budget: routing.layers,
        min_job_age: settings.slurm.min_job_age,
        lids_in_use: settings.split_lids.then_some([false; 2]),
        may_wait: false,
        repair: status.as_ref().and_then(|status| repair::in_force(status, directory)).map(Arc::new),
        in_switches: status.as_ref().and_then(|status| in_switches(status, directory)),
        baseline: routing.baseline.clone(),
        layer_per_job: routing.layer_per_job,
        promise: routing
            .promise
            .unwrap_or_else(|| route::default_promise(&routing.engine, routing.layer_per_job)),
        storage: Storage::new(storage).weighing(routing.storage_reads, routing.storage_writes),
        price: Price {
            min_gain: routing.min_gain,
            min_pause: routing.min_pause,
            communication: routing.communication,
            epochs_per_day: routing.epochs_per_day,
        },
    };
    let Named { fabric, nodes, oblivious } = named;
    Ok((View { fabric, nodes, jobs, policy, oblivious }, unknown))
}
