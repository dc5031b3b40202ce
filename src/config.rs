//! Typed settings: what was written, resolved once to what it means.
//!
//! `config/sarouter.toml` explains every key to an administrator.

mod written;

use std::path::PathBuf;
use std::time::Duration;

use chrono::TimeDelta;

pub use self::written::Site;
use crate::model::{FileError, LayerBudget, Promise, Rails, TrafficRules};

/// Where the settings are unless the command line says otherwise.
pub const DEFAULT_PATH: &str = "/etc/sarouter/sarouter.toml";

/// Name of the plugin's status file in the state directory.
pub const STATUS_FILE: &str = "opensm-status.json";

/// Everything an administrator decided for one fabric, with paths resolved and defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Which of several fabrics these are for; `None` if the file has one `[fabric]`.
    pub name: Option<String>,
    /// The epoch store.
    pub state: State,
    /// Where the fabric comes from; `None` if the settings do not say.
    pub fabric: Option<FabricSource>,
    /// File with lines `GUID NODE`, `DESCRIPTION NODE` or patterns; without it node descriptions decide.
    pub node_map: Option<PathBuf>,
    /// How Slurm is asked.
    pub slurm: Slurm,
    /// How routes are computed.
    pub routing: Routing,
    /// The service's rhythm.
    pub service: Service,
    /// What is known of OpenSM; `None` if none is to be watched.
    pub opensm: Option<OpenSm>,
    /// File for OpenSM's `routing_engine file`; `None` if it is not used.
    pub lft_file: Option<PathBuf>,
    /// Each port has two LIDs (LMC 1), and epochs change the routes of one that no running job uses.
    pub split_lids: bool,
    /// The service's HTTP interface; `None` if there is to be none, or one for several fabrics ([`Site::api`]).
    pub api: Option<Api>,
    /// Slurm's own HTTP interface; `None` if it is not used.
    pub rest: Option<Rest>,
    /// Directory in which others lay down files for the service; `None` if there is none.
    pub spool: Option<PathBuf>,
    /// The recording of events; `None` if there is to be none.
    pub record: Option<Record>,
    /// What is remembered of the past.
    pub history: History,
    /// The hand-off before a job starts.
    pub handoff: HandOff,
    /// Choosing nodes for jobs that wait.
    pub placement: Placement,
    /// What jobs exchange that do not say it.
    pub traffic: TrafficRules,
    /// Which adapters of jobs exchange that do not say it.
    pub rails: Rails,
}

/// The epoch store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// State directory.
    pub directory: PathBuf,
    /// Epochs kept; at least 2.
    pub keep_epochs: usize,
}

/// Where the fabric comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FabricSource {
    /// A file, or a generated spec, as `--fabric` takes it.
    Source(String),
    /// What OpenSM sees: a file that the plugin writes, `opensm-fabric.PORT.ibnetdiscover`.
    OpenSm {
        /// The plugin's status file: it says by which port the OpenSM works that is master.
        status_file: PathBuf,
        /// Where the plugin writes: the state directory.
        directory: PathBuf,
    },
    /// A command that prints the fabric, such as `ibnetdiscover`.
    Command {
        /// Program and arguments; not empty.
        argv: Vec<String>,
        /// It is killed after this.
        deadline: Duration,
        /// It is killed after so many bytes.
        output_limit: u64,
    },
}

/// What `squeue` is told to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SqueueFormat {
    /// `--json`: Slurm 20.11 and later. Bulky: it lists every core.
    Json,
    /// One line per job: every version, and ten times as fast.
    Text,
}

/// How Slurm is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slurm {
    /// Who is asked: a name of [`JOB_SOURCES`](crate::observe::source::JOB_SOURCES).
    pub source: String,
    /// Path or name of `squeue`.
    pub squeue: String,
    /// What it is told to print.
    pub format: SqueueFormat,
    /// It is killed after this.
    pub deadline: Duration,
    /// It is killed after so many bytes.
    pub output_limit: u64,
    /// Jobs younger than this wait.
    pub min_job_age: TimeDelta,
    /// Slurm's `topology.conf`, compared with the fabric by `doctor`.
    pub topology: Option<PathBuf>,
}

/// How routes are computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routing {
    /// Name of the engine.
    pub engine: String,
    /// Engines that take its place, in turn, where it makes nothing that may be published.
    pub then: Vec<String>,
    /// Engine without jobs that is compared with; `None`: the best of those that everybody has.
    pub baseline: Option<String>,
    /// Virtual layers it may use.
    pub layers: LayerBudget,
    /// All routes inside one job on one layer.
    pub layer_per_job: bool,
    /// What must be proved of every epoch; `None`: see [`crate::route::default_promise`].
    pub promise: Option<Promise>,
    /// Host lists of storage servers.
    pub storage_nodes: Vec<String>,
    /// How much a route from a server to a host counts beside one inside a job.
    pub storage_reads: u32,
    /// The same of a route from a host to a server.
    pub storage_writes: u32,
    /// What a change of routes for jobs alone must save: so much time of the whole machine.
    pub min_gain: TimeDelta,
    /// How many such changes a day at most, about; 0: as many as pay `min_gain`.
    pub epochs_per_day: u16,
    /// Least time between two such changes.
    pub min_pause: TimeDelta,
    /// Percent of its time that a job communicates.
    pub communication: u8,
}

impl Routing {
    /// All engines that may route, in turn.
    pub fn engines(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.engine).chain(&self.then).map(String::as_str)
    }
}

/// The service's rhythm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Between two looks at Slurm.
    pub interval: Duration,
    /// Longest pause after repeated failures.
    pub backoff_max: Duration,
    /// How long a stop may take.
    pub stop_deadline: Duration,
}

/// What is known of OpenSM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSm {
    /// Written by the plugin.
    pub status_file: PathBuf,
    /// A status file older than this means that OpenSM is gone.
    pub stale: Duration,
    /// How long an epoch may take from rename to acknowledgement.
    pub acknowledge: Duration,
    /// OpenSM's own settings, checked by `doctor`.
    pub conf: PathBuf,
}

/// The service's HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// The unix socket.
    pub socket: PathBuf,
    /// User ids that may change things, beside root and the service's own.
    pub write_users: Vec<u32>,
    /// Group ids (of the caller's own group, not the further ones) that may change things.
    pub write_groups: Vec<u32>,
    /// Whether everybody else may ask.
    pub others_read: bool,
    /// Whether those who may only ask are told user, name and partition of jobs.
    pub show_users: bool,
    /// The same on a network, for whoever has the token; `None` if not.
    pub tcp: Option<Tcp>,
    /// Bytes of a request's body.
    pub body_limit: usize,
    /// Bytes of memory that answering one question may take.
    pub question_memory: u64,
    /// How long an answer may take.
    pub deadline: Duration,
}

/// The HTTP interface on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tcp {
    /// Address and port.
    pub address: std::net::SocketAddr,
    /// File with the tokens.
    pub token_file: PathBuf,
    /// Without it nothing is encrypted.
    pub tls: Option<Tls>,
}

/// PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those it rests on.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Slurm's HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// Address of slurmrestd.
    pub url: RestUrl,
    /// `X-SLURM-USER-NAME`; `None` if the token names its user.
    pub user: Option<String>,
    /// File with the JWT; `None` on a unix socket that authenticates by its peer.
    pub token_file: Option<PathBuf>,
}

/// Where slurmrestd listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestUrl {
    /// `http://…` or `https://…`, without a slash at the end.
    Tcp(String),
    /// Path of a unix socket.
    Unix(PathBuf),
}

/// The recording of events: at most `files` times `file_bytes` and a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// A file that is longer is closed.
    pub file_bytes: u64,
    /// Files kept.
    pub files: usize,
}

/// What is remembered of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Rows older than this go.
    pub keep: TimeDelta,
}

/// The hand-off before a job starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOff {
    /// The longest a job waits for its routes.
    pub deadline: Duration,
    /// The longest a job waits for a service that does not answer.
    pub away: Duration,
    /// Jobs on fewer nodes do not wait.
    pub min_nodes: usize,
    /// Jobs with a shorter time limit do not wait.
    pub min_length: TimeDelta,
    /// At most one computation for starting jobs in this time.
    pub reroute_interval: TimeDelta,
    /// Jobs that wait at one time; further ones do not.
    pub max_pending: usize,
    /// Direct torus: the program that brings new tables of a job that runs to its nodes.
    pub bring: Option<String>,
}

/// Choosing nodes for jobs that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Tagged jobs are held, given nodes and released.
    pub hold: bool,
    /// A job is let go this long after it was first held.
    pub deadline: Duration,
    /// A job that was given nodes should start within this.
    pub start: Duration,
    /// Between two looks at Slurm.
    pub interval: Duration,
    /// Jobs held at once.
    pub max_held: usize,
    /// Jobs get only nodes between which no other job sends.
    pub isolated: bool,
    /// Socket on which Slurm's node selection plugin asks; `None` if there is to be none.
    pub select_socket: Option<PathBuf>,
    /// Path or name of `scontrol`.
    pub scontrol: String,
    /// Path or name of `sinfo`.
    pub sinfo: String,
    /// Each command is killed after this.
    pub command_deadline: Duration,
    /// Each command is killed after so many bytes.
    pub output_limit: u64,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, or a key or value of a line is wrong.
    #[error(transparent)]
    File(#[from] FileError),
    /// There are several fabrics, and it was not said which.
    #[error("the settings have several fabrics: say which by --fabric-name: {}", names.join(", "))]
    Several {
        /// Their names.
        names: Vec<String>,
    },
    /// There is no fabric of that name.
    #[error("the settings have no fabric {name:?}{}", among(names))]
    NoSuchFabric {
        /// What was asked for.
        name: String,
        /// Those that there are.
        names: Vec<String>,
    },
}

/// Those that there are, for people.
fn among(names: &[String]) -> String {
    match names {
        [] => ": it is one, and has no name".to_string(),
        names => format!("; there are: {}", names.join(", ")),
    }
}
