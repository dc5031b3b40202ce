//! The directory of a job (`plugin/README.md`, "The directory of a job"): read, checked, refused.

use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

/// Largest file read; a table of 8,192 nodes has some 3 MiB.
const LARGEST: u64 = 64 << 20;
/// A file that is not read after this is not read: its file system hangs.
const READ: Duration = Duration::from_secs(5);
/// How long the process that read is waited for.
const REAP: Duration = Duration::from_secs(1);
/// How often a directory that is not there yet is looked for.
const POLL: Duration = Duration::from_millis(50);

/// The nodes in the order of ranks.
const ORDER_FILE: &str = "order.txt";

/// A job's directory with its checksums.
#[derive(Debug)]
pub struct JobDirectory {
    path: PathBuf,
    sums: String,
}

impl JobDirectory {
    /// Opens `STATE/jobs/<job>`, waiting for it if need be.
    ///
    /// # Errors
    /// If it is not there in time, or has no readable checksums.
    pub fn open(state: &Path, job: u32, wait: Duration) -> Result<Self, String> {
        let path = state.join("jobs").join(job.to_string());
        let begun = Instant::now();
        loop {
            match read(&path.join("SHA256SUMS")) {
                Ok(sums) => return Ok(Self { path, sums }),
                Err(Failure::Missing(_)) if begun.elapsed() < wait => std::thread::sleep(POLL),
                Err(error) => return Err(error.text()),
            }
        }
    }

    /// A file that has the digest it should have.
    fn file(&self, name: &str) -> Result<String, String> {
        let listed = self.sums.lines().filter_map(|l| l.split_once("  ")).find(|(_, listed)| *listed == name);
        let path = self.path.join(name);
        let (wanted, _) = listed.ok_or_else(|| format!("{}: not in SHA256SUMS", path.display()))?;
        let text = read(&path).map_err(Failure::text)?;
        if hex(text.as_bytes()) != wanted {
            return Err(format!("{}: damaged, it does not have the digest in SHA256SUMS", path.display()));
        }
        Ok(text)
    }

    /// The job's nodes in the order found for its ranks; `None` if there is none.
    ///
    /// # Errors
    /// A damaged file.
    pub fn order(&self) -> Result<Option<Vec<String>>, String> {
        if !self.sums.lines().any(|line| line.ends_with(&format!("  {ORDER_FILE}"))) {
            return Ok(None);
        }
        let nodes: Vec<String> = self.file(ORDER_FILE)?.lines().map(str::to_string).collect();
        let legal =
            |node: &String| !node.is_empty() && !node.contains(|c: char| c.is_whitespace() || c == '/');
        match !nodes.is_empty() && nodes.iter().all(legal) {
            true => Ok(Some(nodes)),
            false => Err(format!("{}/{ORDER_FILE}: not a list of nodes", self.path.display())),
        }
    }

    /// Where that order is.
    pub fn order_path(&self) -> PathBuf {
        self.path.join(ORDER_FILE)
    }

    /// Names and values of `routing.env`, in order.
    ///
    /// # Errors
    /// A damaged file, another version.
    pub fn environment(&self) -> Result<Vec<(String, String)>, String> {
        let text = self.file("routing.env")?;
        if text.lines().next() != Some("SAROUTER_FORMAT=1") {
            return Err(format!("{}/routing.env: not of format 1", self.path.display()));
        }
        let ours = |line: &str| {
            let (name, value) = line.split_once('=')?;
            let legal = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let ours = name.starts_with("SAROUTER_") && name.chars().all(legal);
            ours.then(|| (name.to_string(), value.to_string()))
        };
        Ok(text.lines().filter_map(ours).collect())
    }

    /// The table of a node, whole and for this job and node; `None` on a switched fabric.
    ///
    /// # Errors
    /// Says what is wrong with which file.
    pub fn table(&self, job: u32, node: &str) -> Result<Option<String>, String> {
        if !self.environment()?.iter().any(|(name, _)| name == "SAROUTER_TABLES") {
            return Ok(None);
        }
        let nodes = self.file("nodes.txt")?;
        let own = nodes.lines().filter_map(|l| l.split_once(' ')).find(|(name, _)| *name == node);
        let (_, name) = own.ok_or_else(|| format!("{}/nodes.txt: no node {node}", self.path.display()))?;
        if !(name.starts_with("node-") && name.ends_with(".table")) || name.contains('/') {
            return Err(format!("{}/nodes.txt: {name} is not the name of a table", self.path.display()));
        }
        let text = self.file(name)?;
        match check(&text, job, node) {
            Ok(()) => Ok(Some(text)),
            Err(reason) => Err(format!("{}/{name}: {reason}", self.path.display())),
        }
    }
}

/// Checks a table by itself: version, job, node, number of routes, digest.
fn check(text: &str, job: u32, node: &str) -> Result<(), String> {
    let end = text.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
    let (body, last) = text.split_at(end);
    if last != format!("end {}\n", hex(body.as_bytes())) {
        return Err("truncated or damaged, the last line is not the digest of the others".into());
    }
    let mut lines = body.lines();
    let mut next = || lines.next().unwrap_or_default().split(' ').collect::<Vec<_>>();
    if next() != ["sarouter-angara-table", "1"] {
        return Err("not a table of version 1".into());
    }
    let found = next();
    if found != ["job", &job.to_string()] {
        return Err(format!("for {}, not for job {job}", found.join(" ")));
    }
    if next().first() != Some(&"torus") {
        return Err("the third line does not name the torus".into());
    }
    let found = next();
    if found.len() != 3 || found[0] != "node" || found[2] != node {
        return Err(format!("for {}, not for node {node}", found.join(" ")));
    }
    let routes = next();
    let count = lines.count();
    if routes != ["routes", &count.to_string()] {
        return Err(format!("{} announced, {count} found", routes.join(" ")));
    }
    Ok(())
}

/// Why a file was not read.
enum Failure {
    Missing(String),
    Other(String),
}

impl Failure {
    fn text(self) -> String {
        match self {
            Self::Missing(text) | Self::Other(text) => text,
        }
    }
}

/// Reads a regular file of bounded size. A file system that hangs, or a pipe in the file's place, must
/// hang neither slurmd nor the job, and nothing wakes a read that hangs: another process does it, which
/// is killed at the deadline and then left to itself.
fn read(path: &Path) -> Result<String, Failure> {
    read_until(path, READ)
}

/// What reads: a digit, then the file. (Whether Slurm leaves us the exit status is its own business.)
const READER: &str = r#"[ -e "$1" ] || { printf 1; exit; }; [ -f "$1" ] || { printf 2; exit; }
    [ -r "$1" ] || { printf 3; exit; }; printf 0; exec head -c "$2" -- "$1""#;

fn read_until(path: &Path, deadline: Duration) -> Result<String, Failure> {
    let other = |why: String| Failure::Other(format!("{}: {why}", path.display()));
    let mut reader = Command::new("/bin/sh");
    reader.args(["-c", READER, "sarouter"]).arg(path).arg((LARGEST + 1).to_string());
    reader.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").process_group(0);
    reader.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = reader.spawn().map_err(|e| other(format!("the reader does not start: {e}")))?;
    let pipe = child.stdout.take();
    let (send, read) = mpsc::channel();
    // Ends with the pipe, and so with the process.
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes));
        let _ = send.send(bytes);
    });
    let bytes = read.recv_timeout(deadline);
    if bytes.is_err() {
        let _ = child.kill();
    }
    reap(&mut child);
    let bytes = bytes.map_err(|_| other(format!("not read within {} s", deadline.as_secs_f64())))?;
    match bytes.split_first() {
        Some((b'0', text)) if text.len() as u64 > LARGEST => Err(other("larger than 64 MiB".into())),
        Some((b'0', text)) => String::from_utf8(text.to_vec()).map_err(|_| other("not UTF-8".into())),
        Some((b'1', _)) => Err(Failure::Missing(format!("{}: no such file", path.display()))),
        Some((b'2', _)) => Err(other("not a regular file".into())),
        _ => Err(other("it cannot be read".into())),
    }
}

/// Waits for a process that is about to end; one that cannot even be killed is nobody's to wait for.
pub fn reap(child: &mut Child) {
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < REAP {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// SHA-256 as 64 hex digits.
pub fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;

    /// A table as the service writes it.
    pub fn table(job: u32, node: &str, routes: &[&str]) -> String {
        let body = format!(
            "sarouter-angara-table 1\njob {job}\ntorus 2x2 {}\nnode 0.0 {node}\nroutes {}\n{}",
            "0".repeat(64),
            routes.len(),
            routes.iter().map(|r| format!("{r}\n")).collect::<String>()
        );
        format!("{body}end {}\n", hex(body.as_bytes()))
    }

    /// Publishes files with their checksums.
    pub fn publish(state: &Path, job: u32, files: &[(&str, &str)]) {
        let dir = state.join("jobs").join(job.to_string());
        fs::create_dir_all(&dir).unwrap();
        let sums: String = files.iter().map(|(n, text)| format!("{}  {n}\n", hex(text.as_bytes()))).collect();
        files.iter().for_each(|(name, text)| fs::write(dir.join(name), text).unwrap());
        fs::write(dir.join("SHA256SUMS"), sums).unwrap();
    }

    const ENVIRONMENT: &str =
        "SAROUTER_FORMAT=1\nSAROUTER_JOB=17\nSAROUTER_SL=3\nSAROUTER_TABLES=1\nPATH=/evil\nSAROUTER_x=1\n";

    fn open(state: &Path) -> Result<JobDirectory, String> {
        JobDirectory::open(state, 17, Duration::ZERO)
    }

    #[test]
    fn what_was_published_is_read_and_foreign_variables_are_not() {
        let state = tempfile::tempdir().unwrap();
        assert!(open(state.path()).unwrap_err().contains("jobs/17/SHA256SUMS"));
        let text = table(17, "n1", &["0.1 n2 +Y", "1.0 n3 +X"]);
        publish(
            state.path(),
            17,
            &[("routing.env", ENVIRONMENT), ("nodes.txt", "n1 node-0.0.table\n"), ("node-0.0.table", &text)],
        );
        let dir = open(state.path()).unwrap();
        assert_eq!(dir.table(17, "n1").unwrap(), Some(text));
        assert!(dir.table(17, "n2").unwrap_err().contains("no node n2"));
        let names: Vec<String> = dir.environment().unwrap().into_iter().map(|(n, _)| n).collect();
        assert_eq!(names, ["SAROUTER_FORMAT", "SAROUTER_JOB", "SAROUTER_SL", "SAROUTER_TABLES"]);
        publish(state.path(), 17, &[("routing.env", "SAROUTER_FORMAT=1\n")]);
        assert_eq!(open(state.path()).unwrap().table(17, "n1").unwrap(), None);
        assert_eq!(open(state.path()).unwrap().order(), Ok(None));
        publish(state.path(), 17, &[("order.txt", "n2\nn1\n")]);
        assert_eq!(open(state.path()).unwrap().order(), Ok(Some(vec!["n2".into(), "n1".into()])));
        for bad in ["", "n1\n\n", "n1\n/etc/passwd\n", "n1 n2\n"] {
            publish(state.path(), 17, &[("order.txt", bad)]);
            assert!(open(state.path()).unwrap().order().is_err(), "{bad:?}");
        }
    }

    /// Truncations and flipped bits of every file are refused: each read is a process, so every third place.
    #[test]
    fn no_damage_passes() {
        let state = tempfile::tempdir().unwrap();
        let text = table(17, "n1", &["0.1 n2 +Y"]);
        let files =
            [("routing.env", ENVIRONMENT), ("nodes.txt", "n1 node-0.0.table\n"), ("node-0.0.table", &text)];
        let all = |state: &Path| {
            let dir = open(state)?;
            Ok::<_, String>((dir.environment()?, dir.table(17, "n1")?))
        };
        publish(state.path(), 17, &files);
        let good = all(state.path()).unwrap();
        for name in ["routing.env", "nodes.txt", "node-0.0.table", "SHA256SUMS"] {
            let path = state.path().join("jobs/17").join(name);
            let bytes = fs::read(&path).unwrap();
            for at in (0..bytes.len()).step_by(3).chain([bytes.len() - 1]) {
                fs::write(&path, &bytes[..at]).unwrap();
                // Of SHA256SUMS only the last line feed can go unnoticed, and what is not read then.
                assert!(
                    all(state.path()).map_or(true, |found| name == "SHA256SUMS" && found == good),
                    "{name} cut at {at}"
                );
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                fs::write(&path, &flipped).unwrap();
                assert!(all(state.path()).is_err() || name == "SHA256SUMS", "{name} flipped at {at}");
            }
            fs::write(&path, &bytes).unwrap();
        }
    }

    /// A table with the right digest that is not the one wanted.
    #[test]
    fn the_table_of_another_job_or_node_is_refused() {
        let good = table(17, "n1", &["0.1 n2 +Y"]);
        assert_eq!(check(&good, 17, "n1"), Ok(()));
        assert!(check(&good, 18, "n1").unwrap_err().contains("for job 17, not for job 18"));
        assert!(check(&good, 17, "n2").unwrap_err().contains("not for node n2"));
        let resealed = |from: &str, to: &str| {
            let body = good[..good.rfind("end ").unwrap()].replace(from, to);
            check(&format!("{body}end {}\n", hex(body.as_bytes())), 17, "n1")
        };
        assert!(resealed("table 1", "table 2").unwrap_err().contains("version 1"));
        assert!(resealed("routes 1", "routes 2").unwrap_err().contains("1 found"));
        assert!(resealed("torus 2x2", "ring 2").is_err());
        assert!(check("", 17, "n1").is_err());
    }

    /// What would hang whoever opens or reads it.
    #[test]
    fn what_is_no_regular_file_or_hangs_is_refused_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |name: &str, deadline| match read_until(&dir.path().join(name), deadline) {
            Ok(text) => panic!("{name}: {text}"),
            Err(failure) => failure.text(),
        };
        let long = Duration::from_secs(60);
        let made = Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap();
        assert!(made.success());
        assert!(refused("fifo", long).contains("not a regular file"));
        assert!(refused(".", long).contains("not a regular file"));
        assert!(refused("nothing", long).contains("no such file"));
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("endless")).unwrap();
        assert!(refused("endless", long).contains("not a regular file"));
        fs::write(dir.path().join("bytes"), b"\xff").unwrap();
        assert!(refused("bytes", long).contains("not UTF-8"));
        fs::File::create(dir.path().join("large")).unwrap().set_len(LARGEST + 1).unwrap();
        assert!(refused("large", long).contains("larger than 64 MiB"));
        // Too slow for the deadline, as on a file system that hangs.
        fs::write(dir.path().join("whole"), "text").unwrap();
        assert!(refused("whole", Duration::ZERO).contains("not read within 0 s"));
        assert!(read_until(&dir.path().join("whole"), long).is_ok_and(|text| text == "text"));
        // A job with a pipe for its file gets an answer at once.
        let path = dir.path().join("jobs/17");
        fs::create_dir_all(&path).unwrap();
        let made = Command::new("mkfifo").arg(path.join("SHA256SUMS")).status().unwrap();
        assert!(made.success());
        assert!(open(dir.path()).unwrap_err().contains("not a regular file"));
    }

    #[test]
    fn a_late_directory_is_waited_for() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().to_path_buf();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(2 * POLL);
            publish(&path, 17, &[("routing.env", ENVIRONMENT)]);
        });
        assert!(JobDirectory::open(state.path(), 17, Duration::from_secs(60)).is_ok());
        writer.join().unwrap();
    }
}
