//! Answers for the node selection plugin: chosen before it asks, because it asks while slurmctld
//! holds its locks. plugin/README.md specifies the lines.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use tracing::{debug, warn};

use super::hold::{Look, tag};
use crate::model::{Mix, NodeName};
use crate::placement::{Board, Insist, Question, Recommendation, Running};

/// Answers older than this are not given: the service has lost sight of Slurm.
const FRESH: TimeDelta = TimeDelta::seconds(10);
/// Nodes given to a job count as taken for so long, until Slurm shows them busy.
const LENT: TimeDelta = TimeDelta::seconds(5);
/// Jobs chosen for in one look.
const JOBS: usize = 256;
/// Sizes of jobs not seen yet that are kept ready.
const SIZES: usize = 32;
/// Bytes of a question; connections at once.
const LINE: u64 = 256;
const CONNECTIONS: usize = 8;
/// How long a question that was begun may take to come and its answer to be taken: more than any plugin waits.
const PATIENCE: Duration = Duration::from_secs(1);
/// After a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// What is kept ready.
#[derive(Debug, Default)]
pub struct Answers {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    made: Option<DateTime<Utc>>,
    /// Sets of pending jobs; they do not overlap.
    jobs: BTreeMap<String, Vec<NodeName>>,
    /// For jobs that were submitted since the last look: a set per number of nodes.
    sizes: BTreeMap<usize, Vec<NodeName>>,
    /// Sets given to such jobs, until when they count as taken.
    lent: BTreeMap<String, (Vec<NodeName>, DateTime<Utc>)>,
    /// Numbers of nodes asked for, newest last.
    asked: VecDeque<usize>,
}

impl Answers {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Slurm is out of sight: nothing is recommended.
    pub fn forget(&self) {
        let mut table = self.table();
        table.made = None;
    }

    /// Chooses for all tagged pending jobs, in the order of their ids, then for numbers of nodes
    /// that a job not seen yet may want. O(jobs and sizes × [`Board::choose`]).
    pub fn prepare(
        &self,
        (board, traffic): (&Board, &Running),
        look: &Look,
        isolated: bool,
        now: DateTime<Utc>,
    ) {
        let (lent, mut sizes) = {
            let mut table = self.table();
            // A set whose nodes have work now served a job: the next task of its array needs another.
            let idle: BTreeSet<&NodeName> = look.idle.values().flatten().map(|(name, _)| name).collect();
            let is_free = |nodes: &[NodeName]| nodes.iter().all(|node| idle.contains(node));
            table.lent.retain(|_, (nodes, until)| *until > now && is_free(nodes));
            (table.lent.clone(), table.asked.iter().copied().collect::<BTreeSet<usize>>())
        };
        let mut taken: BTreeSet<NodeName> = lent.values().flat_map(|(nodes, _)| nodes.clone()).collect();
        let mut choose = |nodes: usize, mix: Option<&Mix>, candidates: Vec<NodeName>, take: bool| {
            let numbers = board.numbers(candidates.iter().filter(|n| !taken.contains(*n)));
            let question = Question { nodes, candidates: &numbers, insist: Insist::Require, mix, isolated };
            let Recommendation::Chosen(choice) = board.choose(traffic, question) else { return None };
            let names = |n: &u32| board.names()[*n as usize].clone();
            let chosen: Vec<NodeName> = choice.nodes.iter().map(names).collect();
            if take {
                taken.extend(chosen.iter().cloned());
            }
            Some(chosen)
        };
        let mut jobs = BTreeMap::new();
        let wanting = look.jobs.iter().filter(|j| tag(&j.admin_comment).is_some() && j.wants.nodes > 1);
        for job in wanting.filter(|j| !lent.contains_key(j.id.as_str())).take(JOBS) {
            let Some(candidates) = job.wants.candidates(&look.idle) else { continue };
            if let Some(nodes) = choose(job.wants.nodes, job.wants.mix.as_ref(), candidates, true) {
                jobs.insert(job.id.to_string(), nodes);
            }
        }
        let mut idle: Vec<NodeName> = look.idle.values().flatten().map(|(n, _)| n.clone()).collect();
        idle.sort_unstable();
        idle.dedup();
        sizes.extend((1..).map(|power| 1 << power).take_while(|size| *size <= idle.len()));
        let sizes = sizes
            .into_iter()
            .filter_map(|size| Some((size, choose(size, None, idle.clone(), false)?)))
            .collect();
        let mut table = self.table();
        table.jobs = jobs;
        table.sizes = sizes;
        table.made = Some(now);
    }

    /// The answer to one line; `None` if it is not understood.
    pub fn answer(&self, line: &str, now: DateTime<Utc>) -> Option<String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["1", job, nodes, "prefer" | "require"] = words[..] else { return None };
        let nodes: usize = nodes.parse().ok()?;
        let set = self.table().set(job, nodes, now);
        Some(match set {
            Some(set) => {
                let names: Vec<&str> = set.iter().map(NodeName::as_str).collect();
                format!("1 {job} nodes {}\n", names.join(","))
            }
            None => format!("1 {job} none\n"),
        })
    }
}

impl Table {
    fn set(&mut self, job: &str, nodes: usize, now: DateTime<Utc>) -> Option<Vec<NodeName>> {
        self.made.filter(|made| now - *made < FRESH)?;
        let ready = self.lent.get(job).map(|(set, _)| set).or_else(|| self.jobs.get(job));
        if let Some(set) = ready {
            return Some(set.clone()).filter(|set| set.len() == nodes);
        }
        self.asked.retain(|size| *size != nodes);
        self.asked.push_back(nodes);
        if self.asked.len() > SIZES {
            self.asked.pop_front();
        }
        let set = self.sizes.remove(&nodes)?;
        // Other sizes are on the same nodes: none of them is free now.
        self.sizes.retain(|_, other| other.iter().all(|n| !set.contains(n)));
        self.lent.insert(job.to_string(), (set.clone(), now + LENT));
        Some(set)
    }
}

/// The socket. Ends when dropped.
pub struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on a socket that the owner and the group may use. An old socket is replaced.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn start(path: &Path, answers: Arc<Answers>) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        match std::fs::symlink_metadata(path) {
            // A slip in the settings must not cost a file.
            Ok(found) if !found.file_type().is_socket() => {
                return Err(named(io::Error::new(io::ErrorKind::AlreadyExists, "it is not a socket")));
            }
            Ok(_) => std::fs::remove_file(path).map_err(named)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(named)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(named)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || accept(&listener, &answers, &stopped);
        let thread = std::thread::Builder::new().name("select".into()).spawn(work)?;
        Ok(Self { path: path.to_path_buf(), stop, thread: Some(thread) })
    }
}

impl Server {
    /// Ends one whose socket somebody removed: its thread is never woken again, and the path is another's.
    pub fn leave(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread = None;
        self.path = PathBuf::new();
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let woken = UnixStream::connect(&self.path).is_ok();
        let _ = std::fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &UnixListener, answers: &Arc<Answers>, stop: &AtomicBool) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            // No file descriptor is free: there may be one soon.
            std::thread::sleep(PAUSE);
            continue;
        };
        if open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS {
            open.fetch_sub(1, Ordering::SeqCst);
            warn!("more than {CONNECTIONS} connections for node selection: one was closed");
            continue;
        }
        let (answers, mine) = (Arc::clone(answers), Arc::clone(&open));
        let serve = move || {
            if let Err(e) = converse(&stream, &answers) {
                debug!("node selection: {e}");
            }
            mine.fetch_sub(1, Ordering::SeqCst);
        };
        if std::thread::Builder::new().spawn(serve).is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A connection on which reading and writing end at a moment, if there is one, however many pieces they take.
struct Timed<'a> {
    stream: &'a UnixStream,
    until: Option<Instant>,
}

impl Timed<'_> {
    /// What is left of the time.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Between two questions a connection may be silent for as long as it likes.
fn converse(stream: &UnixStream, answers: &Answers) -> io::Result<()> {
    let mut reader = BufReader::new(Timed { stream, until: None });
    let mut line = String::new();
    loop {
        line.clear();
        reader.get_mut().until = None;
        if reader.fill_buf()?.is_empty() {
            return Ok(());
        }
        reader.get_mut().until = Some(Instant::now() + PATIENCE);
        (&mut reader).take(LINE).read_line(&mut line)?;
        let Some(answer) = answers.answer(&line, Utc::now()).filter(|_| line.ends_with('\n')) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("not understood: {line:?}")));
        };
        reader.get_mut().write_all(answer.as_bytes())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;
    use crate::observe::nodes::{NodeNames, name_hosts};
    use crate::observe::pending;
    use crate::placement::Switched;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    fn look(pending: &[(u32, usize)], idle: &str) -> Look {
        let job = |(id, nodes): &(u32, usize)| {
            format!(
                "JobId={id} JobName=x UserId=u JobState=PENDING Reason=Priority EligibleTime=1 Partition=all \
                 NumNodes={nodes} AdminComment=sarouter:prefer\n"
            )
        };
        let text: String = pending.iter().map(job).collect();
        let nodes = crate::observe::hostlist::expand(idle).unwrap();
        let lines: String = nodes.iter().map(|n| format!("{n}|all||idle\n")).collect();
        Look {
            jobs: pending::jobs(&text, "t").unwrap().jobs,
            idle: pending::idle(&lines, "t").unwrap(),
            ..Look::default()
        }
    }

    fn prepared(look: &Look) -> Answers {
        let fabric = generate("fattree:4x4,2").unwrap();
        let board = Board::Switched(Switched::new(&fabric, &name_hosts(&fabric, &NodeNames::default())));
        let answers = Answers::default();
        answers.prepare((&board, &board.running(&[])), look, false, at(0));
        answers
    }

    fn ask(answers: &Answers, job: u32, nodes: usize, now: i64) -> Option<Vec<String>> {
        let answer = answers.answer(&format!("1 {job} {nodes} prefer\n"), at(now)).unwrap();
        let set = answer.trim_end().strip_prefix(&format!("1 {job} nodes "))?;
        Some(set.split(',').map(String::from).collect())
    }

    #[test]
    fn sets_of_waiting_jobs_do_not_overlap_and_are_on_one_leaf_each() {
        let answers = prepared(&look(&[(7, 4), (8, 3), (9, 4)], "n[1-16]"));
        let sets: Vec<_> = [(7, 4), (8, 3), (9, 4)].map(|(job, n)| ask(&answers, job, n, 1).unwrap()).into();
        let all: BTreeSet<&String> = sets.iter().flatten().collect();
        assert_eq!(all.len(), 11, "{sets:?}");
        let leaf = |n: &String| (n[1..].parse::<u32>().unwrap() - 1) / 4;
        assert!(sets.iter().all(|set| set.iter().all(|n| leaf(n) == leaf(&set[0]))), "{sets:?}");
        // The same job gets the same answer; one that has changed since gets none.
        assert_eq!(ask(&answers, 7, 4, 2), Some(sets[0].clone()));
        assert_eq!(ask(&answers, 7, 5, 2), None);
    }

    #[test]
    fn a_waiting_job_is_judged_by_what_it_exchanges() {
        let fabric = generate("torus:6x6,hosts=1").unwrap();
        let board = Board::Switched(Switched::new(&fabric, &name_hosts(&fabric, &NodeNames::default())));
        let chosen = |comment: &str| {
            let job = format!(
                "JobId=7 JobName=x UserId=u JobState=PENDING Reason=Priority EligibleTime=1 Partition=all NumNodes=6 \
                 AdminComment=sarouter:prefer{comment}\n"
            );
            let jobs = pending::jobs(&job, "t").unwrap().jobs;
            let answers = Answers::default();
            let look = Look { jobs, ..look(&[], "n[1-36]") };
            answers.prepare((&board, &board.running(&[])), &look, false, at(0));
            ask(&answers, 7, 6, 1).unwrap()
        };
        assert_eq!(chosen(""), ["n1", "n2", "n3", "n7", "n8", "n9"]);
        let row = ["n1", "n2", "n3", "n4", "n5", "n6"];
        assert_eq!(chosen(" Comment=routing=prefer sarouter:pattern=ring"), row);
        assert_eq!(chosen(";sarouter:pattern=ring"), row, "as the rule of job_submit writes it");
    }

    #[test]
    fn a_newcomer_gets_a_set_that_the_next_one_does_not_get() {
        let answers = prepared(&look(&[], "n[1-16]"));
        let first = ask(&answers, 20, 4, 1).unwrap();
        assert_eq!(ask(&answers, 21, 4, 1), None, "its set is lent");
        assert_eq!(ask(&answers, 20, 4, 2), Some(first.clone()));
        // Odd sizes are ready once they have been asked for.
        assert_eq!(ask(&answers, 22, 3, 1), None);
        assert!(answers.table().asked.contains(&3));
    }

    #[test]
    fn a_question_that_does_not_end_keeps_its_connection_for_a_moment_only() {
        let (mut plugin, service) = UnixStream::pair().unwrap();
        let served = std::thread::spawn(move || converse(&service, &Answers::default()));
        let mut said = String::new();
        // Silence between questions is no matter.
        std::thread::sleep(PATIENCE + PATIENCE / 4);
        plugin.write_all(b"1 7 4 prefer\n").unwrap();
        BufReader::new(&plugin).read_line(&mut said).unwrap();
        assert_eq!(said, "1 7 none\n");
        // Nor do single bytes prolong it.
        let begun = Instant::now();
        while plugin.write_all(b"1").is_ok() && begun.elapsed() < 4 * PATIENCE {
            std::thread::sleep(PATIENCE / 8);
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", begun.elapsed());
        let error = served.join().unwrap().unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error}");
    }

    #[test]
    fn stale_answers_and_foreign_lines_get_nothing() {
        let answers = prepared(&look(&[(7, 4)], "n[1-16]"));
        assert!(ask(&answers, 7, 4, 9).is_some());
        assert_eq!(ask(&answers, 7, 4, 10), None);
        assert_eq!(answers.answer("2 7 4 prefer\n", at(1)), None);
        assert_eq!(answers.answer("1 7 four prefer\n", at(1)), None);
        answers.forget();
        assert_eq!(ask(&answers, 7, 4, 1), None);
    }
}
