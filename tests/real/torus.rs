//! Jobs come and go on a direct torus of slurmds while links fail and heal: what nodes have in their sinks is judged
//! outside, all jobs that run together, at each moment.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{JobId, NodeId, NodeName, Torus, TorusBuilder, TorusDemand, TorusJob, Transit};
use sarouter::observe::hostlist::expand;
use sarouter::observe::torus_toml;
use sarouter::publish::angara::{read_routes, tables_of_files};
use sarouter::verify::angara::judge;
use serde_json::Value;

use crate::script::script;
use crate::spank::{plugin, prepare, serve};
use crate::testbed::{Running, Testbed, await_some, print_logs};

/// The torus and the number of jobs; `SAROUTER_TORUS="6x6x5 100"` asks for others.
const USUAL: (&str, usize) = ("4x3x2", 12);
/// Failed at the same time, at most.
const FAILED: usize = 3;

/// What brings a job's new tables to its nodes: into sinks that hold a table of this job, whole or not at all.
const BRING: &str = r#"#!/bin/sh
while read -r node file; do
    grep -qx "job $1" "@BED@/sink/$node" 2>/dev/null || continue
    cp "$2/$file" "@BED@/sink/.$node" && mv "@BED@/sink/.$node" "@BED@/sink/$node" || exit 1
done <"$2/nodes.txt"
# It may have ended meanwhile: what was put back after its epilog goes.
[ -n "$(squeue -h -j "$1" -t R -o %A 2>/dev/null)" ] || for sink in @BED@/sink/*; do
    grep -qx "job $1" "$sink" 2>/dev/null && rm -f "$sink"
done
exit 0
"#;

struct Site {
    bed: Testbed,
    sizes: Vec<usize>,
    service: Option<Running>,
    failed: Vec<String>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.service = None;
        if std::thread::panicking() {
            print_logs(self.bed.path(), &["service.log", "hook.log", "slurmctld.log"]);
        }
    }
}

impl Site {
    fn up(sizes: &str) -> Self {
        let plugin = plugin();
        let lay_out = |state: &Path| {
            let dir = state.parent().unwrap();
            prepare(dir, &plugin);
            script(dir.join("bring"), &BRING.replace("@BED@", dir.to_str().unwrap()));
            fs::create_dir(dir.join("runs")).unwrap();
        };
        // A node per host; nobody looks at its switches.
        let fabric = generate(&format!("torus:{sizes},hosts=1")).unwrap();
        let options = [
            "--no-opensm",
            "--slurm-line",
            "PrologFlags=Alloc,DeferBatch",
            "--slurm-line",
            "PrologSlurmctld=@BED@/prolog",
            "--slurm-line",
            "EpilogSlurmctld=@BED@/epilog",
            "--slurm-line",
            "PrologEpilogTimeout=120",
            "--slurm-line",
            "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1",
        ];
        let bed = Testbed::start(&fabric, &options, Vec::new(), lay_out);
        let text = format!(
            "[state]\ndirectory = \"{dir}/state\"\n[fabric]\nsource = \"{dir}/torus.toml\"\n\
             [service]\ninterval_seconds = 1\n[handoff]\ndeadline_seconds = 60\naway_seconds = 30\n\
             bring_command = \"{dir}/bring\"\n",
            dir = bed.path().display()
        );
        fs::write(bed.path().join("sarouter.toml"), text).unwrap();
        let sizes = sizes.split('x').map(|n| n.parse().unwrap()).collect();
        let mut site = Self { bed, sizes, service: None, failed: Vec::new() };
        site.describe();
        site.service = Some(serve(&site.bed));
        site
    }

    /// Writes the torus as it is.
    fn describe(&self) {
        let text = format!("sizes = {:?}\ntransit = \"any\"\nfailed = {:?}\n", self.sizes, self.failed);
        let path = self.bed.path().join("torus.toml");
        fs::write(path.with_extension("new"), text).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    fn torus(&self) -> Torus {
        torus_toml::load(self.bed.path().join("torus.toml").to_str().unwrap()).unwrap().torus
    }

    /// A link fails, or one heals.
    fn change_a_link(&mut self, rng: &mut Rng) {
        if self.failed.len() == FAILED || (!self.failed.is_empty() && rng.below(2) == 0) {
            self.failed.swap_remove(rng.below(self.failed.len()));
        } else {
            let links = TorusBuilder::new(&self.sizes).unwrap().links();
            let (at, direction) = &links[rng.below(links.len())];
            let link = format!("{at}{direction}");
            if !self.failed.contains(&link) {
                self.failed.push(link);
            }
        }
        self.describe();
    }

    /// Jobs whose tasks run, with their nodes: they say so themselves.
    fn running(&self) -> BTreeMap<String, Vec<NodeName>> {
        let job = |entry: fs::DirEntry| {
            let list = fs::read_to_string(entry.path()).ok()?;
            Some((entry.file_name().into_string().ok()?, expand(list.trim()).unwrap()))
        };
        let entries = fs::read_dir(self.bed.path().join("runs")).unwrap().flatten();
        entries
            .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
            .filter_map(job)
            .collect()
    }

    /// Has so many nodes do nothing for a while.
    fn submit(&self, nodes: usize, seconds: usize) {
        let runs = self.bed.path().join("runs").display().to_string();
        let wrap = format!(
            "echo $SLURM_JOB_NODELIST >{runs}/.$SLURM_JOB_ID; mv {runs}/.$SLURM_JOB_ID {runs}/$SLURM_JOB_ID; \
             sleep {seconds}; rm {runs}/$SLURM_JOB_ID"
        );
        let words = ["--exclusive", "-o", "/dev/null", "-N", &nodes.to_string(), "--wrap", &wrap];
        self.bed.slurm("sbatch", &words);
    }

    /// Whether a job was given tables, which it is told.
    fn is_routed(&self, job: &str) -> bool {
        let path = self.bed.state().join("jobs").join(job).join("routing.env");
        fs::read_to_string(path).is_ok_and(|text| text.contains("SAROUTER_ROUTED=yes"))
    }

    /// Findings about what the sinks of jobs have that run now; and how many jobs were looked at.
    fn judged(&self) -> (Vec<String>, usize) {
        let before = self.running();
        let read =
            |node: &NodeName| fs::read_to_string(self.bed.path().join("sink").join(node.as_str())).ok();
        let sinks: BTreeMap<&String, Vec<Option<String>>> =
            before.iter().map(|(id, nodes)| (id, nodes.iter().map(read).collect())).collect();
        let after = self.running();
        let torus = self.torus();
        let (mut jobs, mut routes) = (Vec::new(), Vec::new());
        for (id, tables) in sinks.iter().filter(|(id, _)| after.contains_key(**id) && self.is_routed(id)) {
            let nodes: Vec<NodeId> = before[*id].iter().map(|name| torus.node_named(name).unwrap()).collect();
            let lines: String = tables.iter().map(|table| lines_of(id, table.as_deref())).collect();
            let path = self.bed.path().join("seen.txt");
            fs::write(&path, lines).unwrap();
            let job = TorusJob::new(Some(JobId::new(id.as_str()).unwrap()), nodes);
            routes.push(read_routes(&path, &torus, job.nodes()).unwrap());
            jobs.push(job);
        }
        let count = jobs.len();
        let tables = tables_of_files(&torus, TorusDemand { jobs, transit: Transit::Any }, routes);
        let verdict = judge(&torus, &tables, true);
        (verdict.findings.iter().map(|f| format!("{} {f:?}", f.kind())).collect(), count)
    }

    /// Whom failures touched, by the service.
    fn cut(&self) -> BTreeMap<String, String> {
        let text = fs::read_to_string(self.bed.state().join("health.json")).unwrap_or_default();
        let health: Value = serde_json::from_str(&text).unwrap_or_default();
        let cut = health["torus"]["cut"].as_object().cloned().unwrap_or_default();
        cut.into_iter().map(|(id, trouble)| (id, trouble["text"].to_string())).collect()
    }
}

/// A node's table as lines of `routes.txt`. It must be there, and this job's.
fn lines_of(job: &str, table: Option<&str>) -> String {
    let table = table.unwrap_or_else(|| panic!("job {job} runs on a node without its table"));
    let mut lines = table.lines();
    assert_eq!(lines.nth(1), Some(&*format!("job {job}")));
    let node = lines.nth(1).unwrap().split(' ').nth(1).unwrap().to_string();
    let routes = lines.skip(1).filter(|line| !line.starts_with("end "));
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        format!("{node} {} {}\n", words[0], words[2])
    };
    routes.map(line).collect()
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn every_running_jobs_tables_go_together_while_links_fail() {
    let asked = std::env::var("SAROUTER_TORUS").unwrap_or_default();
    let (sizes, total) = asked.split_once(' ').map_or(USUAL, |(sizes, n)| (sizes, n.parse().unwrap()));
    let mut site = Site::up(sizes);
    let nodes: usize = site.sizes.iter().product();
    let mut rng = Rng::new(5);
    for _ in 0..total {
        site.submit(2 + rng.below(nodes / 4), 4 + rng.below(12));
    }
    let (mut looks, mut judged, mut dead, mut changes) = (0, 0, 0, 0);
    let (begun, mut well) = (Instant::now(), Instant::now());
    let mut next = begun;
    while !site.bed.slurm("squeue", &["-h"]).is_empty() {
        let (findings, jobs) = site.judged();
        // Between a failure and the new tables routes are dead; they never wait in a circle.
        let harmless = |found: &String| found.starts_with("no_channel") || found.contains("\"no_channel\"");
        assert!(findings.iter().all(harmless), "{findings:?}");
        (looks, judged, dead) = (looks + 1, judged + jobs, dead + usize::from(!findings.is_empty()));
        if findings.is_empty() || site.cut().values().any(|text| text.contains("requeue it:")) {
            well = Instant::now();
            if well >= next {
                site.change_a_link(&mut rng);
                (changes, next) = (changes + 1, well + Duration::from_secs(2));
            }
        }
        assert!(well.elapsed() < Duration::from_secs(90), "{findings:?} {:?}", site.cut());
        sleep(Duration::from_millis(100));
    }
    let log = fs::read_to_string(site.bed.path().join("log/service.log")).unwrap();
    let brought = log.matches("its new tables are on its nodes").count();
    eprintln!(
        "{total} jobs on {sizes} in {:.0} s, {changes} failures and repairs of links: {looks} looks at {judged} tables of jobs, \
         {dead} with dead routes, new tables brought {brought} times",
        begun.elapsed().as_secs_f64()
    );
    assert!(judged > total && dead > 0 && brought > 0, "jobs were looked at, and links failed under them");
    await_some("empty sinks", || {
        fs::read_dir(site.bed.path().join("sink")).unwrap().next().is_none().then_some(())
    });
    assert_eq!(site.bed.slurm("sinfo", &["-h", "-t", "drain,down", "-o", "%n"]).trim(), "");
}
