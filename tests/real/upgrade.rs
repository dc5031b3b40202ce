//! Service, OpenSM's plugin and the nodes' plugin are replaced one after the other while jobs run, and put back.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sarouter::lab::generate::generate;
use sarouter::publish::EpochStore;
use serde_json::Value;

use crate::prolog::{Cluster, LINES, hooks};
use crate::testbed::{Testbed, await_some, root};

/// Programs of one version. [`Links`] say which of them are installed.
struct Version {
    name: &'static str,
    service: PathBuf,
    opensm: PathBuf,
    nodes: PathBuf,
}

impl Version {
    fn now() -> Self {
        let opensm = root().join("plugin/opensm/libsarouter.so");
        let nodes = crate::spank::plugin();
        Self { name: "this version", service: env!("CARGO_BIN_EXE_sarouter").into(), opensm, nodes }
    }

    /// What `scripts/build-before` made in `SAROUTER_BEFORE`; without it the test replaces each part by itself.
    fn before() -> Self {
        let Some(dir) = std::env::var_os("SAROUTER_BEFORE").map(PathBuf::from) else { return Self::now() };
        let dir = fs::canonicalize(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        let [opensm, nodes] = ["opensm", "spank"].map(|name| dir.join(name).join("libsarouter.so"));
        Self { name: "the version before", service: dir.join("sarouter"), opensm, nodes }
    }
}

/// Where the daemons find what is installed.
struct Links(tempfile::TempDir);

impl Links {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn install(&self, name: &str, file: &Path) {
        let new = self.path("new");
        symlink(file, &new).unwrap();
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }
}

const SERVICE: &str = "sarouter";
const OPENSM: &str = "opensm/libsarouter.so";
const NODES: &str = "spank.so";

/// A cluster on which anything can be replaced.
struct Site {
    cluster: Cluster,
    links: Links,
}

impl Site {
    /// A torus, where lanes and service levels matter: 16 nodes, the older programs, the service running.
    fn up(before: &Version) -> Self {
        let links = Links(tempfile::tempdir().unwrap());
        for (name, file) in [(SERVICE, &before.service), (OPENSM, &before.opensm), (NODES, &before.nodes)] {
            links.install(name, file);
        }
        let fabric = generate("torus:4x4,hosts=1").unwrap();
        let options: Vec<&str> = LINES.iter().flat_map(|l| ["--slurm-line", l]).collect();
        let plugin = links.path("opensm").display().to_string();
        let prepare = |state: &Path| {
            let bed = state.parent().unwrap();
            hooks(bed, links.path(SERVICE).to_str().unwrap());
            fs::create_dir(bed.join("slurm")).unwrap();
            let line = format!("optional {} state={}\n", links.path(NODES).display(), state.display());
            fs::write(bed.join("slurm/plugstack.conf"), line).unwrap();
        };
        let bed = Testbed::start(&fabric, &options, vec![("SAROUTER_PLUGIN_DIR", plugin)], prepare);
        let mut cluster = Cluster { bed, fabric, service: None };
        cluster.settings(20.0, 20.0);
        cluster.serve_with(&links.path(SERVICE));
        Self { cluster, links }
    }

    fn replace(&mut self, part: &str, version: &Version) {
        let bed = &self.cluster.bed;
        match part {
            SERVICE => {
                self.cluster.stop_service();
                self.links.install(part, &version.service);
                self.cluster.serve_with(&self.links.path(part));
            }
            OPENSM => {
                bed.script(&["stop", "opensm"]);
                self.links.install(part, &version.opensm);
                bed.script(&["start", "opensm"]);
            }
            _ => {
                bed.script(&["stop", "slurmd"]);
                self.links.install(part, &version.nodes);
                bed.script(&["start", "slurmd"]);
            }
        }
    }

    fn epoch(&self) -> u64 {
        EpochStore::open(&self.cluster.bed.state()).unwrap().current().unwrap().unwrap().get()
    }

    /// Starts a job that stays; it was told routes that are in force, and its task the service level if it has one.
    fn starts_a_job(&self, when: &str) -> String {
        let cluster = &self.cluster;
        let job = cluster.submit_as(2, "1000", &[]);
        await_some(&format!("{when}: job {job}"), || {
            cluster.path(&format!("ran/{job}")).exists().then_some(())
        });
        let seen = cluster.seen(&job);
        assert_eq!(seen.said["outcome"], "in_force", "{when}: {}", seen.said);
        let served = seen.generation.is_some_and(|epoch| cluster.serves(epoch, &seen.nodes));
        assert!(served, "{when}: epoch {:?} was not made for job {job}", seen.generation);
        job
    }

    /// What the switches have is what the store says is in force, as today's code reads it.
    fn switches_have(&self, epoch: u64) {
        self.cluster.bed.await_epoch(epoch);
        self.cluster.assert_in_force();
    }

    /// Waits until the service, the one that runs now, has looked again.
    fn looked_again(&self) -> Value {
        let pid = self.cluster.service.as_ref().unwrap().id();
        let read = || {
            serde_json::from_str::<Value>(&fs::read_to_string(self.cluster.path("state/health.json")).ok()?)
                .ok()
        };
        await_some("a look of the service", || {
            read().filter(|h| h["pid"] == pid && !h["last_success"].is_null())
        })
    }
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn upgrades_and_downgrades_under_running_jobs_move_no_route() {
    let (before, now) = (Version::before(), Version::now());
    let mut site = Site::up(&before);
    let mut jobs = vec![site.starts_a_job("at first")];
    // Up part by part, the service first; then down again in the same order.
    for (part, version) in
        [&now, &before].into_iter().flat_map(|v| [SERVICE, OPENSM, NODES].map(|part| (part, v)))
    {
        let when = format!("{part} of {}", version.name);
        let epoch = site.epoch();
        site.switches_have(epoch);
        let tables = site.cluster.bed.read_back();
        site.replace(part, version);
        site.switches_have(epoch);
        let health = site.looked_again();
        assert_eq!(site.epoch(), epoch, "{when}: routes were made anew: {health}");
        assert!(site.cluster.bed.read_back() == tables, "{when}: entries of switches differ");
        jobs.push(site.starts_a_job(&when));
        assert_eq!(site.epoch(), epoch + 1, "{when}");
    }
    let running = site.cluster.bed.slurm("squeue", &["-h", "-t", "R", "-o", "%A"]);
    let mut running: Vec<&str> = running.lines().collect();
    running.sort();
    assert_eq!(running, jobs);
}
