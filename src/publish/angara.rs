//! Tables of a direct torus on disk: `routes.txt` and one table per node, per job.
//!
//! The format is documented in `plugin/README.md`, "Angara node tables".

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use super::StoreError;
use super::job::{self, JobEnvironment, JobWriter};
use crate::model::{
    FileError, JobId, NodeId, NodeName, Routes, Step, Torus, TorusDemand, TorusJob, TorusTables, Traffic,
};
use crate::verify::Verified;

/// File of all routes.
pub const ROUTES_FILE: &str = "routes.txt";
/// File that says which table is for which node: `<name> <file>` per line.
pub const NODES_FILE: &str = "nodes.txt";

/// `routes.txt`: a line `<source> <destination> <steps>` per ordered pair, in order of nodes.
fn routes_text(torus: &Torus, routes: &Routes) -> String {
    let names: Vec<String> = torus.nodes().map(|n| torus.coords(n).to_string()).collect();
    let mut text = String::new();
    for (from, to, steps) in routes.pairs() {
        let _ = writeln!(text, "{} {} {}", names[from.index()], names[to.index()], Step::join(steps));
    }
    text
}

/// The table of one node (a place in the job's nodes).
pub fn node_table(torus: &Torus, routes: &Routes, job: Option<&JobId>, place: usize) -> String {
    let node = routes.nodes()[place];
    let mut text = String::from("sarouter-angara-table 1\n");
    let job = job.map_or("-", JobId::as_str);
    let _ = writeln!(text, "job {job}\ntorus {} {}", torus.size_text(), torus.fingerprint());
    let _ = writeln!(text, "node {} {}", torus.coords(node), torus.name(node));
    let _ = writeln!(text, "routes {}", routes.nodes().len() - 1);
    for (d, to) in routes.nodes().iter().enumerate().filter(|(d, _)| *d != place) {
        let _ = writeln!(
            text,
            "{} {} {}",
            torus.coords(*to),
            torus.name(*to),
            Step::join(routes.route(place, d))
        );
    }
    let digest = job::hex(text.as_bytes());
    let _ = writeln!(text, "end {digest}");
    text
}

/// Calls `put` with name and content of `routes.txt`, `nodes.txt` and every node table of a job.
fn files<E>(
    torus: &Torus,
    tables: &TorusTables,
    job: usize,
    mut put: impl FnMut(&str, &str) -> Result<(), E>,
) -> Result<(), E> {
    let (Some(routes), Some(the_job)) = (tables.routes.get(job), tables.demand.jobs.get(job)) else {
        return Ok(());
    };
    put(ROUTES_FILE, &routes_text(torus, routes))?;
    let mut nodes = String::new();
    for (place, node) in routes.nodes().iter().enumerate() {
        let name = format!("node-{}.table", torus.coords(*node));
        put(&name, &node_table(torus, routes, the_job.id.as_ref(), place))?;
        let _ = writeln!(nodes, "{} {name}", torus.name(*node));
    }
    put(NODES_FILE, &nodes)
}

/// Writes `routes.txt`, `nodes.txt` and all node tables of one job into a directory.
///
/// # Errors
/// What the system says, with the path.
pub fn write_job(dir: &Path, torus: &Torus, tables: &TorusTables, job: usize) -> Result<(), FileError> {
    fs::create_dir_all(dir).map_err(FileError::io(dir))?;
    files(torus, tables, job, |name, text| {
        let path = dir.join(name);
        fs::write(&path, text).map_err(FileError::io(&path))
    })
}

/// Publishes the tables of a job, by its number, as `ROOT/<job id>/`, complete or not at all, with the job's
/// environment ([`job`]). Nothing if it has no id, or is not wanted any more once all is written. Returns whether it
/// was published.
///
/// # Errors
/// What the system says; what was published before stays.
pub fn publish(
    root: &Path,
    torus: &Torus,
    tables: &Verified<TorusTables>,
    number: usize,
    is_wanted: &dyn Fn(&JobId) -> bool,
) -> Result<bool, StoreError> {
    let tables = tables.get();
    let the_job = &tables.demand.jobs[number];
    let Some(id) = &the_job.id else { return Ok(false) };
    let mut writer = JobWriter::begin(root, id)?;
    let tables_count = the_job.nodes().len();
    let traffic = Traffic { mix: the_job.mix.clone(), guessed: the_job.guessed };
    let traffic = Some(traffic).filter(|traffic| !traffic.mix.is_default());
    let environment =
        JobEnvironment { routed: true, tables: tables_count, traffic, ..JobEnvironment::default() };
    writer.add(job::ENVIRONMENT_FILE, environment.text(id).as_bytes())?;
    files(torus, tables, number, |name, text| writer.add(name, text.as_bytes()))?;
    let unseen = writer.sync()?;
    if !is_wanted(id) {
        return Ok(false);
    }
    unseen.publish().map(|()| true)
}

/// Reads what was published of a job: its nodes, in the order of the torus, and its routes, which stay.
/// `None` if it has no tables.
///
/// # Errors
/// With file and line, as [`read_routes`]; nodes that are not in the torus.
pub fn read_job(root: &Path, id: &JobId, torus: &Torus) -> Result<Option<TorusJob>, FileError> {
    let path = root.join(id.as_str()).join(NODES_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(FileError::io(&path)(e)),
    };
    let mut nodes = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let name = content.split(' ').next().and_then(|name| NodeName::new(name).ok());
        let node = name.and_then(|name| torus.node_named(&name));
        let reason = || format!("{content:?} names no node of the torus");
        nodes.push(node.ok_or_else(|| FileError::line(&path, line, reason()))?);
    }
    let job = TorusJob::new(Some(id.clone()), nodes).told(job::traffic(root, id));
    let routes = read_routes(&path.with_file_name(ROUTES_FILE), torus, job.nodes())?;
    Ok(Some(job.keeping(Arc::new(routes))))
}

/// Reads `routes.txt` for a job's nodes. Pairs that are not in the file have no route: the checker says so.
///
/// # Errors
/// With file and line: words that are not understood, nodes outside the job, a pair twice, a last
/// line without its end.
pub fn read_routes(path: &Path, torus: &Torus, nodes: &[NodeId]) -> Result<Routes, FileError> {
    let text = fs::read_to_string(path).map_err(FileError::io(path))?;
    let wrong = |line: usize, reason: String| FileError::line(path, line, reason);
    // A job on one node has no pair, and no line.
    let has_no_pair = nodes.len() < 2 && text.is_empty();
    if !has_no_pair && !text.ends_with('\n') {
        return Err(wrong(text.lines().count().max(1), "the file ends in the middle of a line".into()));
    }
    let mut place = vec![usize::MAX; torus.len()];
    nodes.iter().enumerate().for_each(|(i, n)| place[n.index()] = i);
    let mut rows: Vec<Vec<Step>> = vec![Vec::new(); nodes.len() * nodes.len()];
    for (line, content) in (1..).zip(text.lines()) {
        let wrong = |reason: String| wrong(line, reason);
        let words: Vec<&str> = content.split(' ').collect();
        let [from, to, steps] = words[..] else { return Err(wrong("wants SOURCE DESTINATION STEPS".into())) };
        let node = |text: &str| {
            let coords = text.parse().map_err(|e: crate::model::TorusError| wrong(e.to_string()))?;
            let found = torus.node_at(coords).map(|n| place[n.index()]).filter(|p| *p != usize::MAX);
            found.ok_or_else(|| wrong(format!("{text} is not a node of the job")))
        };
        let pair = node(from)? * nodes.len() + node(to)?;
        let steps: Result<Vec<Step>, _> = steps.split(',').map(str::parse).collect();
        let steps = steps.map_err(|e: crate::model::TorusError| wrong(e.to_string()))?;
        if from == to || !rows[pair].is_empty() {
            return Err(wrong(format!("a second route from {from} to {to}, or one to itself")));
        }
        rows[pair] = steps;
    }
    let mut routes = Routes::new(nodes.to_vec());
    rows.into_iter().for_each(|steps| routes.push(steps));
    Ok(routes)
}

/// Tables read from files, to be judged.
pub fn tables_of_files(torus: &Torus, demand: TorusDemand, routes: Vec<Routes>) -> TorusTables {
    TorusTables { torus: torus.fingerprint(), engine: "file".into(), demand, routes }
}
