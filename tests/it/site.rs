//! A site of its own for a test: the program itself, with a `squeue` that is a script.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sarouter::service::client::{Client, ClientError};
use serde_json::Value;

use crate::program;

/// A private state directory, settings, fabric and `squeue`.
pub struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    /// A fabric file of 16 nodes on 4 leaves, and a squeue that prints the file `jobs`.
    pub fn new(service: &str) -> Self {
        let site = Self { dir: tempfile::tempdir().unwrap() };
        site.write_fabric(|_| false);
        site.squeue("cat \"$(dirname \"$0\")/jobs\"");
        site.jobs("1|RUNNING|n[1,5,9]|100\n");
        let text = format!(
            "[state]\ndirectory = \"state\"\n[fabric]\nsource = \"fabric.net\"\n\
             [slurm]\nsqueue = \"{}\"\n[routing]\nengine = \"dfsssp\"\nmin_gain_seconds = 0\n[opensm]\nwatch = false\n[service]\n{service}\n",
            site.path("squeue").display()
        );
        std::fs::write(site.path("sarouter.toml"), text).unwrap();
        site
    }

    /// A direct torus of this description, whose service looks only when asked; jobs wait long for their
    /// tables.
    pub fn torus(description: &str) -> Self {
        let site = Self::new("interval_seconds = 3600");
        site.alter("fabric.net", "torus.toml");
        site.alter("dfsssp", "angara-sar");
        site.settings("[handoff]\ndeadline_seconds = 100\n");
        site.replace("torus.toml", description);
        site
    }

    /// The outcome of a prolog.
    pub fn starts(&self, job: &str, nodes: &str) -> Value {
        json(&self.run(&["prolog", "--job", job, "--nodes", nodes]).1)["outcome"].take()
    }

    /// Adds a section to the settings.
    pub fn settings(&self, section: &str) {
        let text = std::fs::read_to_string(self.path("sarouter.toml")).unwrap();
        self.replace("sarouter.toml", &format!("{text}\n{section}"));
    }

    /// Replaces a part of the settings, in place.
    pub fn alter(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path("sarouter.toml")).unwrap();
        assert!(text.contains(from), "{text}");
        self.replace("sarouter.toml", &text.replace(from, to));
    }

    /// What services of this site logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write_fabric(&self, cut: impl Fn(usize) -> bool) {
        let fabric = sarouter::lab::generate::generate("fattree:4x4,2").unwrap();
        let fabric = fabric.without(|c| cut(c.index()), |_| false).unwrap();
        self.replace("fabric.net", &sarouter::observe::ibnetdiscover::to_ibnetdiscover(&fabric));
    }

    pub fn squeue(&self, script: &str) {
        let new = self.path("squeue.new");
        crate::script::script(&new, &format!("#!/bin/sh\n{script}\n"));
        std::fs::rename(new, self.path("squeue")).unwrap();
    }

    pub fn jobs(&self, text: &str) {
        self.replace("jobs", text);
    }

    /// Replaces a file by rename.
    pub fn replace(&self, name: &str, text: &str) {
        let new = self.path(&format!("{name}.new"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.path(name)).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.in_words(arguments);
        command.args(["--format", "json"]);
        command
    }

    /// The program with the site's settings, which answers in words.
    pub fn in_words(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = program::command(".", words);
        command.arg("--config").arg(self.path("sarouter.toml"));
        command
    }

    /// Exit code and standard output.
    pub fn run(&self, arguments: &[&str]) -> (i32, String) {
        let Output { status, stdout, .. } = self.command(arguments).output().unwrap();
        (status.code().unwrap(), String::from_utf8(stdout).unwrap())
    }

    pub fn current(&self) -> Option<PathBuf> {
        std::fs::read_link(self.path("state/current")).ok()
    }

    /// What the service answers.
    pub fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.ask(path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(path, Some(body))
    }

    /// With a body it is sent, without one it is asked for.
    pub fn ask(&self, path: &str, body: Option<&Value>) -> Result<Value, ClientError> {
        let client = Client::new(&self.path("state/api.sock"), LONG);
        match body {
            None => client.wait(client.get(path)),
            Some(body) => client.wait(client.post(path, body)),
        }
    }

    /// The health that the service tells.
    pub fn told_health(&self) -> Value {
        self.get("/v1/health").unwrap()
    }

    /// The service has made one pass, and nothing is wrong.
    pub fn is_well(&self) {
        let health = self.told_health();
        assert_eq!((&health["healthy"], &health["passes"]), (&true.into(), &1.into()), "{health}");
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path("state/api.sock")).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// What comes back for these bytes until the service closes, which may be before all is sent.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The text of a path, as `curl` prints it.
    pub fn text(&self, path: &str) -> String {
        let ask = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = self.raw(ask.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_string()
    }

    /// Lets the service look, and waits until it was told.
    pub fn look(&self) {
        assert_eq!(self.post("/v1/look", &serde_json::json!({})).unwrap(), serde_json::json!({}));
    }

    /// Opens a port of the interface, with these tokens; its number.
    pub fn open_port(&self, tokens: &str) -> u16 {
        let port = free_port();
        self.replace("tokens", tokens);
        std::fs::set_permissions(self.path("tokens"), Permissions::from_mode(0o600)).unwrap();
        self.settings(&format!("[api]\ntcp = \"127.0.0.1:{port}\"\ntoken_file = \"tokens\"\n"));
        port
    }

    /// What a service that may just be starting says of itself.
    pub fn health(&self) -> Value {
        let begun = Instant::now();
        let text = loop {
            match std::fs::read_to_string(self.path("state/health.json")) {
                Ok(text) => break text,
                Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        serde_json::from_str(&text).unwrap()
    }
}

/// Parses what must be JSON.
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// HTTP status and words of a refusal.
pub fn refusal(result: Result<Value, ClientError>) -> (u16, String) {
    match result {
        Err(ClientError::Refused { status, message }) => (status, message),
        other => panic!("not refused: {other:?}"),
    }
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A running service; killed when dropped.
pub struct Serving {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

pub const LONG: Duration = Duration::from_secs(120);

impl Serving {
    pub fn start(site: &Site) -> Self {
        Self::with(site, |_| {})
    }

    /// One that has published its first epoch.
    pub fn routed(site: &Site) -> Self {
        let serving = Self::start(site);
        assert_eq!(serving.line()["epoch"]["epoch"], 1);
        serving
    }

    /// With a command that was changed a little.
    pub fn with(site: &Site, change: impl FnOnce(&mut Command)) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(site.path("log")).unwrap();
        let mut command = site.command(&["serve", "-v"]);
        change(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|l| send.send(l)));
        Self { child, lines }
    }

    /// The next line it prints.
    pub fn line(&self) -> Value {
        json(&self.lines.recv_timeout(LONG).unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that it has had.
    pub fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
        peak.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Waits until it listens.
    pub fn ready(&self, site: &Site) {
        self.until(|| UnixStream::connect(site.path("state/api.sock")).is_ok());
    }

    /// Waits until this is so.
    pub fn until(&self, mut so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !so() {
            assert!(begun.elapsed() < LONG, "waited in vain");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its exit code after SIGTERM.
    pub fn stop(self) -> i32 {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Its exit code when it has ended.
    pub fn ended(mut self) -> i32 {
        let begun = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status.code().unwrap(),
                None => assert!(begun.elapsed() < LONG, "it does not stop"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
