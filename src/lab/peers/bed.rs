//! Processes and files of one run; all gone when dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::PeerError;
use crate::model::{Fabric, SwitchId};
use crate::observe::ibnetdiscover::to_net;

const PROBE: &str = include_str!("probe.c");
/// Makes the names of beds of one process different.
static BEDS: AtomicU32 = AtomicU32::new(0);
/// How long ibsim may take to read its file.
const START: Duration = Duration::from_secs(60);
/// How long OpenSM may take to discover the fabric.
const DISCOVERY: Duration = Duration::from_secs(300);

/// A child that does not outlive us.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory that does not outlive us.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// ibsim with a fabric, and OpenSM on it. Fields drop in this order.
pub(super) struct Bed {
    opensm: Killed,
    _ibsim: Killed,
    scratch: Scratch,
}

fn io<T>(what: impl std::fmt::Display, result: std::io::Result<T>) -> Result<T, PeerError> {
    result.map_err(|source| PeerError::Io { what: what.to_string(), source })
}

impl Bed {
    /// Starts everything.
    pub(super) fn start(fabric: &Fabric, engine: &str, roots: &[SwitchId]) -> Result<Self, PeerError> {
        let number = BEDS.fetch_add(1, Ordering::Relaxed);
        let name = format!("sarouter-peer-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(&name);
        io(dir.display(), fs::create_dir(&dir))?;
        let scratch = Scratch(dir);
        let dir = &scratch.0;
        let net = to_net(fabric);
        build_probe(dir)?;
        let mut conf = format!(
            "routing_engine {engine},minhop,no_fallback\nqos TRUE\nevent_plugin_name probe\n\
             event_plugin_options {}\nnue_max_num_vls 8\nlog_flags 0x01\n",
            dir.join("answer").display()
        );
        if !roots.is_empty() {
            let guids: String = roots.iter().map(|s| format!("{}\n", fabric.switch(*s).guid)).collect();
            io("roots", fs::write(dir.join("roots"), guids))?;
            conf += "root_guid_file roots\n";
        }
        io("topo.net", fs::write(dir.join("topo.net"), &net))?;
        io("opensm.conf", fs::write(dir.join("opensm.conf"), conf))?;
        let ibsim = start_ibsim(fabric, dir, &name)?;
        let opensm = start_opensm(dir, &name, first_host(&net))?;
        Ok(Self { opensm, _ibsim: ibsim, scratch })
    }

    /// Waits for the probe's file, until a deadline that counts from the engine's start.
    pub(super) fn wait(mut self, deadline: Duration) -> Result<Waited, PeerError> {
        let path = self.scratch.0.join("answer");
        let started = self.scratch.0.join("answer.started");
        let (mut start, mut limit, mut at_work) = (Instant::now(), DISCOVERY, false);
        while start.elapsed() < limit {
            unless_stopped()?;
            if !at_work && started.exists() {
                (start, limit, at_work) = (Instant::now(), deadline, true);
            }
            let ended = io("opensm", self.opensm.0.try_wait())?.is_some();
            if path.exists() {
                return Ok(Waited::Answered(Answered { path, _bed: self }));
            }
            if ended && started.exists() {
                return Ok(Waited::Died);
            }
            if ended {
                return Err(PeerError::Tool {
                    program: "opensm",
                    message: last_words(&self.scratch.0, "opensm.out"),
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Waited::Late)
    }
}

/// How waiting for an engine ended.
pub(super) enum Waited {
    /// With the probe's file.
    Answered(Answered),
    /// OpenSM is gone, and there is no answer.
    Died,
    /// At the deadline.
    Late,
}

/// A file of a bed, which lives as long.
pub(super) struct Answered {
    path: PathBuf,
    _bed: Bed,
}

impl AsRef<Path> for Answered {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

fn unless_stopped() -> Result<(), PeerError> {
    if super::stopped() { Err(PeerError::Stopped) } else { Ok(()) }
}

fn last_words(dir: &Path, file: &str) -> String {
    let text = fs::read(dir.join(file)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no output").to_string()
}

fn build_probe(dir: &Path) -> Result<(), PeerError> {
    io("probe.c", fs::write(dir.join("probe.c"), PROBE))?;
    let mut cc = Command::new("cc");
    cc.current_dir(dir).args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-I/usr/include/infiniband"]);
    let output = io("cc", cc.args(["probe.c", "-o", "libprobe.so"]).output())?;
    if output.status.success() {
        return Ok(());
    }
    Err(PeerError::Tool { program: "cc", message: String::from_utf8_lossy(&output.stderr).into_owned() })
}

fn start_ibsim(fabric: &Fabric, dir: &Path, name: &str) -> Result<Killed, PeerError> {
    let switches = fabric.switches().len() + 10;
    let nodes = switches + fabric.terminals().len() + 10;
    let ports: usize = fabric.switches().iter().map(|s| usize::from(s.ports) + 1).sum();
    let ports = ports + 2 * fabric.terminals().len() + 100;
    let output = io("ibsim.out", File::create(dir.join("ibsim.out")))?;
    let mut command = Command::new("ibsim");
    command.current_dir(dir).env("IBSIM_SOCKNAME", name).arg("-s");
    for (option, value) in [("-N", nodes), ("-S", switches), ("-P", ports)] {
        command.arg(option).arg(value.to_string());
    }
    // Its console ends with its input: keep that open.
    command.arg("topo.net").stdin(Stdio::piped());
    command.stderr(io("ibsim.out", output.try_clone())?).stdout(output);
    let mut ibsim = Killed(io("ibsim", command.spawn())?);
    let start = Instant::now();
    while !fs::read(dir.join("ibsim.out")).is_ok_and(|text| contains(&text, b"Network simulator ready")) {
        let ended = io("ibsim", ibsim.0.try_wait())?.is_some();
        unless_stopped()?;
        if ended || start.elapsed() > START {
            return Err(PeerError::Tool { program: "ibsim", message: last_words(dir, "ibsim.out") });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(ibsim)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|w| w == part)
}

fn start_opensm(dir: &Path, name: &str, host: &str) -> Result<Killed, PeerError> {
    let output = io("opensm.out", File::create(dir.join("opensm.out")))?;
    let mut command = Command::new("opensm");
    command.current_dir(dir).args(["-o", "-F", "opensm.conf", "-f", "opensm.log"]);
    command.env("IBSIM_SOCKNAME", name).env("SIM_HOST", host).env("LD_PRELOAD", simulated_umad()?);
    command.env("LD_LIBRARY_PATH", dir).env("OSM_TMP_DIR", dir).env("OSM_CACHE_DIR", dir);
    command.stdin(Stdio::null()).stderr(io("opensm.out", output.try_clone())?).stdout(output);
    Ok(Killed(io("opensm", command.spawn())?))
}

/// The library that makes InfiniBand programs talk to ibsim.
fn simulated_umad() -> Result<PathBuf, PeerError> {
    let directories = io("/usr/lib", fs::read_dir("/usr/lib"))?.filter_map(Result::ok);
    let mut paths = directories.map(|d| d.path().join("umad2sim/libumad2sim.so"));
    paths.find(|p| p.exists()).ok_or_else(|| PeerError::Tool {
        program: "ibsim",
        message: "there is no umad2sim/libumad2sim.so below /usr/lib".to_string(),
    })
}

/// Name of the first adapter of a .net file.
fn first_host(net: &str) -> &str {
    let adapter = net.lines().find(|l| l.starts_with("Hca") || l.starts_with("Ca"));
    adapter.and_then(|l| l.split('"').nth(1)).unwrap_or("")
}
