//! What commands that route or judge have in common: fabric, jobs, and one timed computation.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::common::{complain, write_file_with};
use super::{Answer, Failure, number};
use crate::measure::measure;
use crate::model::{
    Demand, Fabric, JobId, LayerBudget, NodeMap, Placed, PlacedJob, Promise, Rails, SplitLids, Storage,
    SwitchId, Tables,
};
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::observe::{fabric, hostlist, jobs};
use crate::publish::Epoch;
use crate::publish::dump::{
    self, LANES_FILE, LAYERS_FILE, LFT_FILE, read_lanes_file, write_lanes, write_layers, write_lft,
};
use crate::report::cost::{cpu_seconds, peak_rss_bytes};
use crate::report::{Compute, JobsSummary, Layers, Report, VerdictSummary};
use crate::route::{EngineOptions, RouteError, engine, names as engine_names};
use crate::service::parts::Parts;
use crate::verify::{Checks, Verdict, judge_with};

/// Arguments that say what is to be routed.
#[derive(Debug, clap::Args)]
pub struct Source {
    /// Fabric: ibnetdiscover output, ibsim .net file, or a spec such as torus:8x8x8,hosts=4
    #[arg(long, value_name = "FILE|SPEC")]
    pub fabric: String,
    /// Jobs: squeue --json, a snapshot, or lines "ID HOSTLIST [PATTERN]"; - is standard input
    #[arg(long, value_name = "FILE")]
    pub jobs: Option<String>,
    /// Node names of adapters: lines "GUID NAME", "DESCRIPTION NAME" or patterns (docs/FABRICS.md)
    #[arg(long, value_name = "FILE")]
    pub node_map: Option<PathBuf>,
    /// Which adapters of nodes with several exchange in jobs that do not say it: all, or same (rails)
    #[arg(long, value_name = "all|same", default_value = "all")]
    pub rails: Rails,
    #[command(flatten)]
    pub storage: StorageArgs,
    /// Virtual layers that may be used, 1 to 15
    #[arg(long, value_name = "K", default_value = "8")]
    pub layers: LayerBudget,
    /// Threads; all processors unless given
    #[arg(long, value_name = "N", value_parser = number::threads)]
    pub threads: Option<usize>,
}

/// Arguments that say which servers all jobs read from and write to.
#[derive(Debug, Clone, clap::Args)]
pub struct StorageArgs {
    /// Nodes that are storage servers, which hosts of all jobs on several switches read from and write to
    #[arg(long = "storage", value_name = "HOSTLIST")]
    servers: Option<String>,
    /// How much a route from a server to a host, and one back, count beside one inside a job
    #[arg(long = "storage-weights", value_name = "READS:WRITES", default_value = "1:1", value_parser = weights, requires = "servers")]
    weights: (u32, u32),
}

/// `2:1`, each 0 to 1000.
fn weights(text: &str) -> Result<(u32, u32), String> {
    let one = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= Storage::MOST_WEIGHT);
    let both = text.split_once(':').and_then(|(reads, writes)| Some((one(reads)?, one(writes)?)));
    both.ok_or_else(|| "expected READS:WRITES, each 0 to 1000".to_string())
}

impl StorageArgs {
    /// # Errors
    /// If there are servers: on a direct torus only jobs have routes.
    pub fn none_on_torus(&self) -> Result<(), Failure> {
        match &self.servers {
            Some(list) => Err(format!("--storage {list}: on a direct torus only jobs have routes").into()),
            None => Ok(()),
        }
    }

    /// The servers on a fabric.
    ///
    /// # Errors
    /// If it is no host list, or the fabric lacks one of them.
    pub fn on(&self, nodes: &NodeMap) -> Result<Storage, Failure> {
        let Some(list) = &self.servers else { return Ok(Storage::default()) };
        let mut servers = Vec::new();
        for node in hostlist::expand(list).map_err(|e| format!("--storage {list}: {e}"))? {
            match nodes.terminals(&node) {
                [] => return Err(format!("--storage {list}: no host of the fabric is called {node}").into()),
                found => servers.extend_from_slice(found),
            }
        }
        let (reads, writes) = self.weights;
        Ok(Storage::new(servers).weighing(reads, writes))
    }
}

/// On a direct torus, what only switched fabrics have must not be passed over in silence.
///
/// # Errors
/// If one of these options, by name, is given.
pub fn none_on_torus(options: &[(&str, bool)]) -> Result<(), Failure> {
    none_of(options, "for switched fabrics, and this is a direct torus")
}

/// On a switched fabric, what only direct toruses have.
///
/// # Errors
/// With the names of those that were given.
pub fn none_on_switches(options: &[(&str, bool)]) -> Result<(), Failure> {
    none_of(options, "for a direct torus, and this is a switched fabric")
}

fn none_of(options: &[(&str, bool)], whose: &str) -> Result<(), Failure> {
    let given: Vec<&str> = options.iter().filter(|option| option.1).map(|option| option.0).collect();
    match given.as_slice() {
        [] => Ok(()),
        [one] => Err(format!("{one} is {whose}").into()),
        some => Err(format!("{} are {whose}", some.join(", ")).into()),
    }
}

/// What is to be routed.
pub struct Input {
    /// The fabric to route.
    pub fabric: Fabric,
    /// For whom.
    pub demand: Demand,
    /// The same in numbers.
    pub jobs: JobsSummary,
    /// Each job with its terminals.
    pub placed: Vec<PlacedJob>,
    /// Jobs that are on none of the fabric's nodes.
    pub strangers: Vec<JobId>,
    /// Allowed layers.
    pub budget: LayerBudget,
}

impl Input {
    /// The answer of a command that has done what it could: no, if it could do nothing for some jobs.
    pub fn answer(&self, answer: Answer) -> Answer {
        if self.strangers.is_empty() {
            return answer;
        }
        complain_of_strangers(&self.strangers);
        Answer::No
    }
}

/// Says on stderr which jobs run on no node of the fabric.
pub fn complain_of_strangers(jobs: &[JobId]) {
    if jobs.is_empty() {
        return;
    }
    let some: Vec<&str> = jobs.iter().take(8).map(JobId::as_str).collect();
    let more = if jobs.len() > some.len() {
        format!(" and {} more", jobs.len() - some.len())
    } else {
        String::new()
    };
    complain(format_args!(
        "sarouter: none of the nodes of {} {}{more} is in the fabric; `sarouter fabric nodes` lists what fits",
        if jobs.len() == 1 { "job" } else { "jobs" },
        some.join(", ")
    ));
}

impl Source {
    /// As [`none_on_torus`], of these arguments and of others.
    pub fn none_on_torus(&self, others: &[(&str, bool)]) -> Result<(), Failure> {
        self.storage.none_on_torus()?;
        let own = [("--node-map", self.node_map.is_some()), ("--rails", self.rails != Rails::default())];
        none_on_torus(&[&own[..], others].concat())
    }

    /// Loads what the arguments name. Nodes of jobs that no host matches are listed on stderr; where a
    /// job has no others, see [`Input::answer`].
    pub fn load(&self) -> Result<Input, Failure> {
        let fabric = fabric::load(&self.fabric)?;
        let nodes = self.nodes(&fabric)?;
        let (mut demand, jobs, placed) = match &self.jobs {
            Some(source) => demand(&fabric, &nodes, source)?,
            None => (Demand::oblivious(), JobsSummary::default(), Placed::default()),
        };
        demand.storage = self.storage.on(&nodes)?;
        let Placed { jobs: placed, strangers, .. } = placed;
        Ok(Input { fabric, demand, jobs, placed, strangers, budget: self.layers })
    }

    /// Which host is which node.
    pub fn nodes(&self, fabric: &Fabric) -> Result<NodeMap, Failure> {
        let names = match &self.node_map {
            Some(path) => NodeNames::load(path)?,
            None => NodeNames::default(),
        };
        if let (Some(path), false) = (&self.node_map, names.names_any(fabric)) {
            tracing::warn!("{} names none of the fabric's adapters; their descriptions do", path.display());
        }
        Ok(name_hosts(fabric, &names).among(self.rails))
    }

    /// Runs something with as many threads as the arguments say.
    pub fn in_pool<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads.unwrap_or(0)).build()?;
        Ok(pool.install(work))
    }
}

/// Studies of traffic need hosts that send.
///
/// # Errors
/// If there is none.
pub fn need_hosts(fabric: &Fabric, source: &str) -> Result<(), Failure> {
    match fabric.host_ids().next() {
        Some(_) => Ok(()),
        None => Err(format!("{source}: the fabric has no hosts").into()),
    }
}

/// A demand, in numbers, and each job with its terminals.
pub type Asked = (Demand, JobsSummary, Placed);

/// The jobs of a file on a fabric. Nodes that no host matches are listed on stderr.
pub fn demand(fabric: &Fabric, nodes: &NodeMap, source: &str) -> Result<Asked, Failure> {
    let jobs = jobs::load(source)?;
    let placed = nodes.place(&jobs);
    if !placed.unknown.is_empty() {
        tracing::warn!("no host of the fabric is called {}", hostlist::fold(&placed.unknown));
    }
    let parts = Parts::of(fabric);
    for job in &jobs.jobs {
        let apart = parts.apart(fabric, nodes, &job.nodes);
        if !apart.is_empty() {
            tracing::warn!("job {}: no cables join {} with its other nodes", job.id, hostlist::fold(&apart));
        }
    }
    let demand = placed.demand(fabric, Vec::new());
    let summary = JobsSummary { running: jobs.jobs.len(), multi_switch: demand.groups.len() };
    Ok((demand, summary, placed))
}

/// One computation and what it cost.
pub struct Routed {
    /// The engine's answer.
    pub answer: Result<Tables, RouteError>,
    /// Its cost.
    pub compute: Compute,
}

/// Runs an engine on this thread's pool. Only the engine is timed.
pub fn route(name: &str, options: &EngineOptions, input: &Input) -> Routed {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let answer = engine(name, options).and_then(|e| e.route(&input.fabric, &input.demand, input.budget));
    let compute = Compute {
        cpu_seconds: cpu_seconds() - cpu,
        wall_seconds: wall.elapsed().as_secs_f64(),
        peak_rss_bytes: peak_rss_bytes(),
    };
    Routed { answer, compute }
}

/// Judges tables for a promise, and measures them.
pub fn report(
    name: &str,
    input: &Input,
    tables: &Tables,
    compute: Compute,
    promise: Promise,
) -> (Report, Verdict) {
    let checks = Checks { promise, hosts_only: false };
    let verdict = judge_with(&input.fabric, tables, input.budget, checks);
    let figures = measure(&input.fabric, tables, &input.demand);
    let layers = Layers { budget: input.budget.get(), used: figures.layers_used };
    let mut report = Report::new(name, &input.fabric, input.jobs, layers, summary(&verdict), figures);
    report.compute = compute;
    (report, verdict)
}

/// A verdict as `report.json` has it.
pub fn summary(verdict: &Verdict) -> VerdictSummary {
    let findings = verdict.findings.iter().filter_map(|f| serde_json::to_value(f).ok()).collect();
    VerdictSummary { accepted: verdict.accepted, findings }
}

/// Switches given by GUID or description, separated by commas.
pub fn switches(fabric: &Fabric, list: &str) -> Result<Vec<SwitchId>, Failure> {
    let find = |name: &str| {
        let same = |s: &SwitchId| {
            let switch = fabric.switch(*s);
            switch.description == name || (name.starts_with("0x") && name.parse() == Ok(switch.guid))
        };
        fabric.switch_ids().find(same).ok_or_else(|| format!("the fabric has no switch {name:?}").into())
    };
    list.split(',').filter(|name| !name.is_empty()).map(find).collect()
}

/// Writes what [`read_tables`] reads into a directory, which need not exist.
pub fn write_tables(fabric: &Fabric, tables: &Tables, out: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    write_file_with(&out.join(LFT_FILE), |to| write_lft(fabric, tables, to))?;
    write_file_with(&out.join(LAYERS_FILE), |to| write_layers(fabric, tables, to))?;
    let lanes = out.join(LANES_FILE);
    match tables.lanes() {
        Some(map) => write_file_with(&lanes, |to| write_lanes(fabric, map, to)),
        // One of earlier tables would be read with these.
        None => remove_if_there(&lanes),
    }
}

/// Removes a file that would say something else than those written beside it.
pub fn remove_if_there(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", path.display()).into()),
        _ => Ok(()),
    }
}

/// Tables to compare with that no engine of ours makes.
#[derive(Debug, Clone, clap::Args)]
pub struct Given {
    /// Tables beside the engines', such as those in force: a directory that `route --out` wrote, or a dump by OpenSM or infiniband-diags; may be repeated
    #[arg(long = "tables", value_name = "NAME=DIR|FILE", value_parser = name_and_path)]
    tables: Vec<(String, PathBuf)>,
}

impl Given {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Reads them all. No two may have one name, nor may one be called like an engine.
    pub fn read(&self, fabric: &Fabric) -> Result<Vec<(String, Tables)>, Failure> {
        let mut all: Vec<(String, Tables)> = Vec::with_capacity(self.tables.len());
        for (name, path) in &self.tables {
            if engine_names().contains(&name.as_str()) || all.iter().any(|(known, _)| known == name) {
                return Err(format!("--tables {name}={}: the name is taken", path.display()).into());
            }
            all.push((name.clone(), read_tables(fabric, path, None)?));
        }
        Ok(all)
    }
}

fn name_and_path(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_string(), path.into())),
        _ => Err("give a name and where the tables are: opensm=lfts.dump".to_string()),
    }
}

/// The epoch in a directory of a store, if it is one.
fn read_epoch(tables: &Path) -> Result<Option<Epoch>, Failure> {
    if !tables.is_dir() || !Epoch::is_in(tables) {
        return Ok(None);
    }
    let canonical = tables.canonicalize()?;
    let number = canonical.file_name().and_then(|name| name.to_str()?.parse().ok());
    Ok(number.map(|number| Epoch::read(tables, number)).transpose()?)
}

/// As [`read_tables`], and of an epoch whose two LIDs have routes of their own which of them these are, and the
/// tables of the others: `None` for what has one set of routes. An epoch is read once.
pub fn read_tables_of_lids(
    fabric: &Fabric,
    tables: &Path,
    layers: Option<&Path>,
) -> Result<(Tables, Option<SplitLids>), Failure> {
    let Some(epoch) = read_epoch(tables)? else { return Ok((read_tables(fabric, tables, layers)?, None)) };
    let kept = epoch.kept(fabric)?.map(Arc::new);
    let lids = epoch.plan().fresh_lids.zip(kept).map(|(fresh, kept)| SplitLids { fresh, kept });
    Ok((epoch.tables(fabric)?, lids))
}

/// Where tables are: a directory of ours, that of an epoch, or a dump with or without a file of layers.
pub fn read_tables(fabric: &Fabric, tables: &Path, layers: Option<&Path>) -> Result<Tables, Failure> {
    if !tables.is_dir() {
        return Ok(dump::read_tables(fabric, tables, layers)?);
    }
    if let Some(epoch) = read_epoch(tables)? {
        return Ok(epoch.tables(fabric)?);
    }
    if tables.join("epochs").is_dir() {
        let path = tables.display();
        return Err(format!("{path} is a state directory: its tables are in {path}/epochs/N").into());
    }
    let own = tables.join(LAYERS_FILE);
    let lanes = read_lanes_file(fabric, &tables.join(LANES_FILE))?.map(Arc::new);
    let read = dump::read_tables(fabric, &tables.join(LFT_FILE), Some(layers.unwrap_or(&own)))?;
    Ok(read.with_lanes(lanes))
}
