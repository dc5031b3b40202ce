//! `sarouter route` and `sarouter verify` for a direct torus.

mod report;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use self::report::Report;
use super::common::write_json;
use super::html::Html;
use super::input::{none_on_switches, remove_if_there};
use super::{Answer, Context, Failure, number};
use crate::model::{JobId, Torus, TorusDemand, TorusError, TorusJob, TorusTables, Transit};
use crate::observe::{jobs, torus_toml};
use crate::publish::angara::{NODES_FILE, ROUTES_FILE, read_routes, tables_of_files, write_job};
use crate::report::cost::{cpu_seconds, peak_rss_bytes};
use crate::report::{Compute, Refusal, RefusalReason, align};
use crate::route::angara::{ENGINES, Limits, TorusEngine, TorusRouteError, engine};
use crate::verify::angara::{TorusVerdict, accept, judge};

pub use crate::observe::torus_toml::is_torus;

/// Arguments that only a direct torus has.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Direct torus")]
pub struct TorusArgs {
    /// Nodes that may forward a job's packets: job or any [default: what the description says, else
    /// job with --jobs and any without]
    #[arg(long, value_name = "job|any")]
    pub transit: Option<String>,
    /// Accept routes longer than the shortest legal ones
    #[arg(long)]
    pub allow_detours: bool,
}

/// Arguments of a computation.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Direct torus")]
pub struct SearchArgs {
    #[command(flatten)]
    pub torus: TorusArgs,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Generations of angara-genetic, improvement rounds of angara-balanced and angara-sar [default: 1000]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Stop improving after so many seconds; then results depend on the machine
    #[arg(long, value_name = "SECONDS", value_parser = number::from_zero)]
    time_limit: Option<f64>,
}

/// Rounds unless said otherwise.
const ROUNDS: u32 = 1000;

impl TorusArgs {
    /// # Errors
    /// If any was given: a switched fabric has none of them.
    pub fn none_on_switches(&self) -> Result<(), Failure> {
        none_on_switches(&[("--transit", self.transit.is_some()), ("--allow-detours", self.allow_detours)])
    }
}

impl SearchArgs {
    /// # Errors
    /// As [`TorusArgs::none_on_switches`].
    pub fn none_on_switches(&self) -> Result<(), Failure> {
        self.torus.none_on_switches()?;
        none_on_switches(&[("--rounds", self.rounds.is_some()), ("--time-limit", self.time_limit.is_some())])
    }
}

/// A torus and who runs on it.
pub(super) struct Site {
    pub(super) torus: Torus,
    pub(super) demand: TorusDemand,
}

impl Site {
    pub(super) fn load(fabric: &str, jobs: Option<&str>, args: &TorusArgs) -> Result<Self, Failure> {
        let source = torus_toml::load(fabric)?;
        let transit = transit(args.transit.as_deref())?.or(source.transit);
        let torus = source.torus;
        let Some(jobs) = jobs else {
            let whole = TorusDemand::whole(&torus);
            return Ok(Self {
                demand: TorusDemand { transit: transit.unwrap_or(whole.transit), ..whole },
                torus,
            });
        };
        let demand = TorusDemand { jobs: Self::jobs(&torus, jobs)?, transit: transit.unwrap_or_default() };
        demand.check(&torus).map_err(|e| match &e {
            TorusError::JobOnFailedNode { job, .. } => format!("{}: {e}", place(jobs, job)),
            _ => e.to_string(),
        })?;
        Ok(Self { torus, demand })
    }

    /// The jobs of a file.
    pub(super) fn jobs(torus: &Torus, jobs: &str) -> Result<Vec<TorusJob>, Failure> {
        let mut found = Vec::new();
        for job in jobs::load(jobs)?.jobs {
            let node = |name| {
                let node = torus.node_named(name);
                node.ok_or_else(|| {
                    format!("{}: job {}: the torus has no node {name}", place(jobs, job.id.as_str()), job.id)
                })
            };
            let nodes: Result<Vec<_>, String> = job.nodes.iter().map(node).collect();
            found.push(TorusJob::new(Some(job.id.clone()), nodes?).exchanging(job.mix.clone()));
        }
        Ok(found)
    }

    /// An engine's tables, and what they cost.
    fn route(
        &self,
        engine: &dyn TorusEngine,
        limits: &Limits<'_>,
    ) -> (Result<TorusTables, TorusRouteError>, Compute) {
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        let routed = engine.route(&self.torus, &self.demand, limits);
        let compute = Compute {
            cpu_seconds: cpu_seconds() - cpu,
            wall_seconds: wall.elapsed().as_secs_f64(),
            peak_rss_bytes: peak_rss_bytes(),
        };
        (routed, compute)
    }

    /// Where a job's files are: as [`Self::dir`], or as a service publishes them.
    fn read_dir(&self, tables: &Path, job: usize) -> PathBuf {
        let dir = self.dir(tables, job);
        let published = |id: &JobId| Some(tables.join(id.as_str())).filter(|dir| dir.is_dir());
        match &self.demand.jobs[job].id {
            Some(id) if !dir.join(ROUTES_FILE).exists() => published(id).unwrap_or(dir),
            _ => dir,
        }
    }

    /// Where a job's files are written: the directory itself if there is one job only.
    fn dir(&self, out: &Path, job: usize) -> PathBuf {
        match &self.demand.jobs[job].id {
            Some(id) if self.demand.jobs.len() > 1 => out.join(format!("job-{id}")),
            _ => out.to_path_buf(),
        }
    }
}

/// What is typed of a transit rule.
pub(super) fn transit(typed: Option<&str>) -> Result<Option<Transit>, Failure> {
    match typed {
        None => Ok(None),
        Some("job") => Ok(Some(Transit::Job)),
        Some("any") => Ok(Some(Transit::Any)),
        Some(other) => Err(format!("--transit {other}: job or any").into()),
    }
}

/// File and, where it can be found, line of a job, for messages.
fn place(jobs: &str, id: &str) -> String {
    let text = fs::read_to_string(jobs).unwrap_or_default();
    let json = text.trim_start().starts_with('{');
    let names_it = |line: &str| {
        let mut words =
            line.split(|c: char| c.is_whitespace() || "\",:{}".contains(c)).filter(|w| !w.is_empty());
        if json { line.contains("id\"") && words.any(|w| w == id) } else { words.next() == Some(id) }
    };
    match text.lines().position(names_it) {
        Some(line) => format!("{jobs}:{}", line + 1),
        None => jobs.to_string(),
    }
}

/// Routes a direct torus and writes the files. `engine_name` without `angara-` is understood.
pub fn route(
    fabric: &str,
    jobs: Option<&str>,
    engine_name: &str,
    search: &SearchArgs,
    out: &Path,
    context: &Context,
) -> Result<Answer, Failure> {
    let site = Site::load(fabric, jobs, &search.torus)?;
    let engine = engine(engine_name)?;
    let rounds = search.rounds.unwrap_or(ROUNDS);
    let bar = context.bar(rounds as usize, "rounds");
    let deadline = search.time_limit.map(|s| Instant::now() + Duration::from_secs_f64(s.min(1e6)));
    let go_on = |round: u32| {
        bar.set_position(u64::from(round));
        deadline.is_none_or(|d| Instant::now() < d)
    };
    let limits = Limits { seed: search.seed, rounds, go_on: &go_on };
    let (routed, compute) = site.route(engine.as_ref(), &limits);
    bar.finish_and_clear();
    let tables = match routed {
        Ok(tables) => tables,
        Err(e) => return refused(&e, engine.name(), jobs, context),
    };
    match accept(&site.torus, tables, search.torus.allow_detours) {
        Ok(tables) => {
            let verdict = judge(&site.torus, tables.get(), search.torus.allow_detours);
            let report = Report::new(&site, tables.get(), compute, verdict);
            clear(out)?;
            for job in 0..site.demand.jobs.len() {
                write_job(&site.dir(out, job), &site.torus, tables.get(), job)?;
            }
            let path = out.join("report.json");
            fs::create_dir_all(out)?;
            write_json(&path, &report)?;
            context.print(&report, || format!("{}files         {}", report.text(), out.display()))?;
            Ok(Answer::Yes)
        }
        Err(verdict) => show(&verdict, context),
    }
}

/// Of a torus that has no routes the answer is no; a job that has none is bad input.
fn refused(
    error: &TorusRouteError,
    engine: &str,
    jobs: Option<&str>,
    context: &Context,
) -> Result<Answer, Failure> {
    let message = error.to_string();
    match (error, jobs) {
        (TorusRouteError::Unroutable { job, .. } | TorusRouteError::TooLarge { job, .. }, Some(jobs)) => {
            Err(format!("{}: {message}", place(jobs, job)).into())
        }
        (TorusRouteError::Unroutable { .. }, None) => {
            let refused = RefusalReason { kind: "not_applicable".into(), message, needed: None };
            super::route::refused(&Refusal { engine: engine.to_string(), refused }, context)
        }
        _ => Err(message.into()),
    }
}

/// Removes tables of an earlier call, which would be taken for those of these jobs. What others wrote stays.
fn clear(out: &Path) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(out) else { return Ok(()) };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_table = name.starts_with("node-") && name.ends_with(".table");
        if is_table || name == ROUTES_FILE || name == NODES_FILE {
            remove_if_there(&path)?;
        } else if name.starts_with("job-") && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            clear(&path)?;
            // One with something else in it stays.
            let _ = fs::remove_dir(&path);
        }
    }
    Ok(())
}

/// Several engines on a direct torus, a row each. Without names, all but the slow genetic one.
pub fn compare(
    fabric: &str,
    jobs: Option<&str>,
    engines: &[String],
    html: &Html,
    context: &Context,
) -> Result<Answer, Failure> {
    let site = Site::load(fabric, jobs, &TorusArgs::default())?;
    let quick = || ENGINES.iter().filter(|name| **name != "angara-genetic").map(|name| name.to_string());
    let names: Vec<String> = if engines.is_empty() { quick().collect() } else { engines.to_vec() };
    let makers: Vec<_> = names.iter().map(|name| engine(name)).collect::<Result<_, _>>()?;
    let mut reports = Vec::new();
    for maker in makers {
        let (tables, compute) = site.route(maker.as_ref(), &Limits::default());
        let tables = tables?;
        let verdict = judge(&site.torus, &tables, false);
        reports.push(Report::new(&site, &tables, compute, verdict));
    }
    let mut lines = vec![report::HEAD.map(String::from).to_vec()];
    lines.extend(reports.iter().map(Report::cells));
    html.write(|| report::sheet(&site, &reports, &lines))?;
    context.print(&reports, || align(&lines))?;
    Ok(if reports.iter().all(|report| report.verdict.accepted) { Answer::Yes } else { Answer::No })
}

/// Judges `routes.txt` of a directory (one per job, if there are several), or of a file.
pub fn verify(
    fabric: &str,
    jobs: Option<&str>,
    tables: &Path,
    args: &TorusArgs,
    context: &Context,
) -> Result<Answer, Failure> {
    let site = Site::load(fabric, jobs, args)?;
    let mut routes = Vec::new();
    for (number, job) in site.demand.jobs.iter().enumerate() {
        let path = if tables.is_dir() {
            site.read_dir(tables, number).join(ROUTES_FILE)
        } else {
            tables.to_path_buf()
        };
        routes.push(read_routes(&path, &site.torus, job.nodes())?);
    }
    let read = tables_of_files(&site.torus, site.demand, routes);
    show(&judge(&site.torus, &read, args.allow_detours), context)
}

fn show(verdict: &TorusVerdict, context: &Context) -> Result<Answer, Failure> {
    context.print(verdict, || text(verdict))?;
    Ok(if verdict.accepted { Answer::Yes } else { Answer::No })
}

fn text(verdict: &TorusVerdict) -> String {
    if verdict.accepted {
        return "accepted: every pair is routed legally, no cycle".into();
    }
    let kinds: BTreeSet<String> = verdict.findings.iter().map(|f| f.kind()).collect();
    let head = format!("rejected: {}", kinds.into_iter().collect::<Vec<_>>().join(", "));
    let findings = verdict.findings.iter().filter_map(|f| serde_json::to_string(f).ok());
    findings.fold(head, |text, finding| format!("{text}\n  {finding}"))
}
