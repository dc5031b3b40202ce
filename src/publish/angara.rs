//! Tables of a direct torus on disk: `routes.txt` and one table per node, per job.
//!
//! The format is documented in `plugin/README.md`, "Angara node tables".

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sha2::{Digest, Sha256};

use crate::model::{JobId, NodeId, Routes, Step, Torus, TorusDemand, TorusTables};
use crate::verify::Verified;

/// File of all routes.
pub const ROUTES_FILE: &str = "routes.txt";

/// Why files were not written or read.
#[derive(Debug, thiserror::Error)]
pub enum TorusFilesError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line that is not understood.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> TorusFilesError {
    let path = path.to_path_buf();
    |source| TorusFilesError::Io { path, source }
}

/// `routes.txt`: a line `<source> <destination> <steps>` per ordered pair, in order of nodes.
pub fn routes_text(torus: &Torus, routes: &Routes) -> String {
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
    let digest = Sha256::digest(text.as_bytes());
    text += "end ";
    for byte in digest {
        let _ = write!(text, "{byte:02x}");
    }
    text + "\n"
}

/// Writes `routes.txt` and all node tables of one job into a directory.
///
/// # Errors
/// What the system says, with the path.
pub fn write_job(dir: &Path, torus: &Torus, tables: &TorusTables, job: usize) -> Result<(), TorusFilesError> {
    fs::create_dir_all(dir).map_err(io_at(dir))?;
    let (Some(routes), Some(the_job)) = (tables.routes.get(job), tables.demand.jobs.get(job)) else {
        return Ok(());
    };
    write(&dir.join(ROUTES_FILE), &routes_text(torus, routes))?;
    for (place, node) in routes.nodes().iter().enumerate() {
        let path = dir.join(format!("node-{}.table", torus.coords(*node)));
        write(&path, &node_table(torus, routes, the_job.id.as_ref(), place))?;
    }
    File::open(dir).and_then(|d| d.sync_all()).map_err(io_at(dir))
}

fn write(path: &Path, text: &str) -> Result<(), TorusFilesError> {
    let written = File::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(io_at(path))
}

/// Publishes every job's tables as `ROOT/<job id>/`, each complete or not at all: they are written
/// beside, then the directory is renamed, or exchanged with the one of an earlier start of the job.
///
/// # Errors
/// What the system says; what was published before stays.
pub fn publish(root: &Path, torus: &Torus, tables: &Verified<TorusTables>) -> Result<(), TorusFilesError> {
    let tables = tables.get();
    fs::create_dir_all(root).map_err(io_at(root))?;
    for (number, job) in tables.demand.jobs.iter().enumerate() {
        let id = job.id.as_ref().map_or("all", JobId::as_str);
        // Ids never start with a dot.
        let beside = root.join(format!(".{id}.{}.tmp", std::process::id()));
        let _ = fs::remove_dir_all(&beside);
        let target = root.join(id);
        let done = write_job(&beside, torus, tables, number).and_then(|()| swap_in(&beside, &target));
        let _ = fs::remove_dir_all(&beside);
        done?;
    }
    File::open(root).and_then(|d| d.sync_all()).map_err(io_at(root))
}

fn swap_in(beside: &Path, target: &Path) -> Result<(), TorusFilesError> {
    let flags = if target.exists() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
    renameat_with(CWD, beside, CWD, target, flags).map_err(|e| io_at(target)(e.into()))
}

/// Removes the tables of a job that is over; nothing to do if there are none.
///
/// # Errors
/// What the system says.
pub fn remove(root: &Path, job: &JobId) -> Result<(), TorusFilesError> {
    let (target, gone) = (root.join(job.as_str()), root.join(format!(".{job}.{}.gone", std::process::id())));
    match fs::rename(&target, &gone) {
        Ok(()) => fs::remove_dir_all(&gone).map_err(io_at(&gone)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(io_at(&target)(e)),
    }
}

/// Reads `routes.txt` for a job's nodes. Pairs that are not in the file have no route: the checker
/// says so.
///
/// # Errors
/// With file and line: words that are not understood, nodes outside the job, a pair twice, a last
/// line without its end.
pub fn read_routes(path: &Path, torus: &Torus, nodes: &[NodeId]) -> Result<Routes, TorusFilesError> {
    let text = fs::read_to_string(path).map_err(io_at(path))?;
    let wrong =
        |line: usize, reason: String| TorusFilesError::Line { path: path.to_path_buf(), line, reason };
    if !text.ends_with('\n') {
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
