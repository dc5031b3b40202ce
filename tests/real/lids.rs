//! Routes by LID on a simulated fabric with LMC 1: what the switches have for each of a port's two LIDs, and what
//! the subnet administrator answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};

use sarouter::lab::generate::generate;
use sarouter::model::{Fabric, Guid, Lid, LidSet, Tables, TerminalId};
use sarouter::publish::handoff::encode_lids;
use sarouter::publish::{Epoch, EpochStore};
use serde_json::Value;

use crate::plugin::{layered, routed};
use crate::testbed::{Lfts, Running, Testbed, await_some, dest_guid, pairs, run};

/// A bed whose OpenSM gives each port of a host this many LIDs, as a power of two.
pub fn bed_with(fabric: &Fabric, lmc: u8) -> Testbed {
    Testbed::fabric(fabric, &["--opensm-line", &format!("lmc {lmc}")])
}

pub fn plus(lid: Lid, offset: u64) -> Lid {
    Lid::new(u64::from(lid.get()) + offset).unwrap()
}

/// The entries of the base LIDs of hosts plus this.
pub fn entries_of(fabric: &Fabric, found: &(Lfts, BTreeMap<Guid, Lid>), offset: u64) -> Lfts {
    let lids: Vec<Lid> = fabric.terminals().iter().map(|t| plus(found.1[&t.port_guid], offset)).collect();
    let of_switch = |entries: &BTreeMap<Lid, u8>| {
        lids.iter().filter_map(|lid| Some((*lid, *entries.get(lid)?))).collect()
    };
    found.0.iter().map(|(switch, entries)| (*switch, of_switch(entries))).collect()
}

/// The entries that these tables are to have there.
pub fn wanted(fabric: &Fabric, tables: &Tables, lids: &BTreeMap<Guid, Lid>, offset: u64) -> Lfts {
    let mut lfts: Lfts = fabric.switches().iter().map(|s| (s.guid, BTreeMap::new())).collect();
    for t in fabric.terminal_ids() {
        let d = fabric.dest_of_terminal(t);
        let lid = plus(lids[&dest_guid(fabric, d)], offset);
        for s in fabric.switch_ids() {
            let port = tables.port(s, d).unwrap().get();
            lfts.entry(fabric.switch(s).guid).or_default().insert(lid, port);
        }
    }
    lfts
}

/// Asserts that the switches have these tables for base LIDs and those for high LIDs. Returns the base LIDs.
pub fn assert_both(bed: &Testbed, fabric: &Fabric, tables: [&Tables; 2]) -> BTreeMap<Guid, Lid> {
    let found = bed.read_back();
    for (offset, tables) in (0..).zip(tables) {
        assert_eq!(
            entries_of(fabric, &found, offset),
            wanted(fabric, tables, &found.1, offset),
            "LIDs plus {offset}"
        );
    }
    found.1
}

/// Asserts that the path between each pair of LIDs of these hosts has the layer that the tables of the destination's
/// LID say.
pub fn assert_path_sls(
    bed: &Testbed,
    fabric: &Fabric,
    tables: [&Tables; 2],
    lids: &BTreeMap<Guid, Lid>,
    pairs: &[(TerminalId, TerminalId)],
) {
    for (a, b) in pairs {
        let (from, to) = (fabric.terminal(*a), fabric.terminal(*b));
        for (of_a, of_b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let layer = tables[of_b as usize].layer(from.switch, fabric.dest_of_terminal(*b)).unwrap();
            let found = bed.path_sl(plus(lids[&from.port_guid], of_a), plus(lids[&to.port_guid], of_b));
            assert_eq!(found, layer.get(), "{} + {of_a} to {} + {of_b}", from.description, to.description);
        }
    }
}

fn both(fabric: &Fabric, tables: [&Tables; 2], epoch: u64) -> Vec<u8> {
    encode_lids(fabric, tables[0], Some(tables[1]), None, None, epoch)
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn each_lid_of_a_port_has_its_routes() {
    let fabric = generate("fattree:3x4,2").unwrap();
    let bed = bed_with(&fabric, 1);
    let [one, two, three] = [("sssp", 3), ("nue", 4), ("minhop", 2)]
        .map(|(engine, layers)| layered(&fabric, &routed(&fabric, engine), layers));
    let differ = |a: &Tables, b: &Tables| fabric.dest_ids().any(|d| a.ports_to(d) != b.ports_to(d));
    assert!(differ(&one, &two) && differ(&two, &three) && differ(&one, &three), "nothing new is shown");

    // A file with one set of routes means what it always did.
    bed.publish(&fabric, &one, 1);
    assert_eq!(bed.await_epoch(1).lid_sets, Some(1));
    assert_both(&bed, &fabric, [&one, &one]);

    bed.publish_bytes("000002", &both(&fabric, [&one, &two], 2));
    let status = bed.await_epoch(2);
    assert_eq!((status.lid_sets, status.layers, status.refused_reason), (Some(2), Some(4), None));
    let lids = assert_both(&bed, &fabric, [&one, &two]);
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    let pairs: Vec<_> = pairs(&hosts).into_iter().step_by(3).collect();
    assert_path_sls(&bed, &fabric, [&one, &two], &lids, &pairs);

    // The routes of one LID change, not an entry of the other.
    let before = entries_of(&fabric, &bed.read_back(), 1);
    bed.publish_bytes("000003", &both(&fabric, [&three, &two], 3));
    bed.await_epoch(3);
    assert_both(&bed, &fabric, [&three, &two]);
    assert_eq!(entries_of(&fabric, &bed.read_back(), 1), before);
    assert_path_sls(&bed, &fabric, [&three, &two], &lids, &pairs[..12]);

    // A second set with a loop is refused as a first one is.
    let (mut ports, layers) = two.clone().into_raw();
    let d = fabric.dest_ids().next().unwrap();
    let far = fabric.switch_ids().filter(|s| *s != fabric.home(d)).last().unwrap();
    ports[d.index() * fabric.switches().len() + far.index()] = 250;
    let bad = Tables::new(&fabric, "bad", ports, layers).unwrap();
    bed.publish_bytes("000004", &both(&fabric, [&three, &bad], 4));
    let status = bed.await_status("the refusal", |s| s.refused_reason.is_some());
    assert!(status.refused_reason.unwrap().contains("a dead end"));
    assert_both(&bed, &fabric, [&three, &two]);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn routes_for_two_lids_are_refused_where_ports_have_others() {
    let fabric = generate("fattree:2x2,1").unwrap();
    let [one, two] = ["sssp", "nue"].map(|engine| layered(&fabric, &routed(&fabric, engine), 2));
    for (lmc, lids) in [(0, 1), (2, 4)] {
        let bed = bed_with(&fabric, lmc);
        bed.publish_bytes("000001", &both(&fabric, [&one, &two], 1));
        let status = bed.await_status("the refusal", |s| s.refused_generation == Some(1) && s.routings > 0);
        let reason = format!("routes for 2 LIDs of each port, OpenSM gives them {lids} (lmc {lmc})");
        assert!(status.refused_reason.as_deref().is_some_and(|r| r.contains(&reason)), "{status:?}");
        assert_eq!(status.engine.as_deref(), Some("updn"));
        // One set of routes goes with any number of LIDs.
        bed.publish(&fabric, &one, 2);
        assert_eq!(bed.await_epoch(2).refused_reason, None);
        let found = bed.read_back();
        for offset in 0..lids {
            assert_eq!(
                entries_of(&fabric, &found, offset),
                wanted(&fabric, &one, &found.1, offset),
                "lmc {lmc}, LIDs plus {offset}"
            );
        }
    }
}

/// OpenSM with LMC 1 and the service on it; jobs are what the prolog announces and the spool lists.
struct Site {
    service: Running,
    bed: Testbed,
    fabric: Fabric,
    /// Jobs that run, with the LIDs they were told.
    running: BTreeMap<u32, (&'static str, LidSet)>,
}

impl Site {
    /// The service looks only when asked, and only jobs that were announced count.
    fn up(spec: &str) -> Self {
        let fabric = generate(spec).unwrap();
        let bed = bed_with(&fabric, 1);
        fs::create_dir(bed.path().join("spool")).unwrap();
        fs::write(bed.path().join("spool/jobs"), "").unwrap();
        let config = bed.path().join("sarouter.toml");
        let text = fs::read_to_string(&config).unwrap();
        let text = text.replace("interval_seconds = 1", "interval_seconds = 3600");
        let text = text.replace("min_job_age_seconds = 0", "source = \"spool\"\nmin_job_age_seconds = 3600");
        let more = "lmc = 1\n[spool]\ndirectory = \"spool\"\n\
             [handoff]\ndeadline_seconds = 300\naway_seconds = 60\nmin_length_seconds = 0\nreroute_interval_seconds = 0\n";
        fs::write(&config, text + more).unwrap();
        let service = Running::spawn(&mut Self::sarouter(&bed, &["serve"]));
        Self { bed, fabric, service, running: BTreeMap::new() }
    }

    fn sarouter(bed: &Testbed, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        command.args(words).arg("--config").arg(bed.path().join("sarouter.toml"));
        let log = fs::File::options().create(true).append(true).open(bed.path().join("log/service.log"));
        command.stderr(log.unwrap()).stdout(Stdio::null());
        command
    }

    /// Waits until OpenSM has the current epoch in force, and the service knows it.
    fn await_current(&self) -> Epoch {
        let health = self.bed.state().join("health.json");
        await_some("the current epoch in force", || {
            let store = EpochStore::open(&self.bed.state()).unwrap();
            let number = store.current().unwrap()?;
            let health: Value = serde_json::from_slice(&fs::read(&health).ok()?).ok()?;
            let known = health["acknowledged"]["epoch"].as_u64() == Some(number.get());
            known.then(|| store.epoch(number).unwrap())
        })
    }

    fn list(&self) {
        let lines = self.running.iter().map(|(job, (nodes, _))| format!("{job} {nodes}\n"));
        fs::write(self.bed.path().join("spool/jobs"), lines.collect::<String>()).unwrap();
    }

    /// Starts a job: what the prolog is answered, and the LIDs that the job is told.
    fn start(&mut self, job: u32, nodes: &'static str) -> (String, LidSet) {
        let mut prolog = Self::sarouter(&self.bed, &["prolog", "--job", &job.to_string(), "--nodes", nodes]);
        let text = run(prolog.args(["--format", "json"]).stdout(Stdio::piped()).env_remove("SLURM_JOB_ID"));
        let answer: Value = serde_json::from_str(&text).unwrap();
        let environment = self.bed.state().join(format!("jobs/{job}/routing.env"));
        let environment = fs::read_to_string(environment).unwrap();
        let bits = environment.lines().find_map(|l| l.strip_prefix("SAROUTER_LID_PATH_BITS="));
        let told = LidSet::ALL[bits.unwrap_or_else(|| panic!("{environment}")).parse::<usize>().unwrap()];
        self.running.insert(job, (nodes, told));
        self.list();
        (answer["outcome"].as_str().unwrap().to_string(), told)
    }

    fn end(&mut self, job: u32) {
        self.running.remove(&job);
        self.list();
        run(Self::sarouter(&self.bed, &["epilog", "--job", &job.to_string()]).stdout(Stdio::piped()));
    }

    /// The entries of all LIDs that running jobs were told.
    fn in_use(&self) -> Vec<(LidSet, Lfts)> {
        let found = self.bed.read_back();
        let used: BTreeSet<LidSet> = self.running.values().map(|(_, told)| *told).collect();
        used.into_iter().map(|set| (set, entries_of(&self.fabric, &found, set.offset() as u64))).collect()
    }

    /// Asserts that switches and subnet administrator have the epoch's routes for both LIDs, and that a judge outside
    /// accepts both together.
    fn assert_epoch(&self, epoch: &Epoch) -> [Tables; 2] {
        let both = LidSet::ALL.map(|set| epoch.tables_of(&self.fabric, set).unwrap());
        let [base, high] = &both;
        let lids = assert_both(&self.bed, &self.fabric, [base, high]);
        let hosts: Vec<TerminalId> = self.fabric.host_ids().collect();
        let (first, last) = (hosts[0], hosts[hosts.len() - 1]);
        assert_path_sls(&self.bed, &self.fabric, [base, high], &lids, &[(first, last), (last, hosts[1])]);
        let directory = self.bed.state().join("epochs").join(epoch.number().directory());
        let net = self.bed.path().join("fabric.net");
        let words = ["verify", "--fabric", net.to_str().unwrap(), "--tables", directory.to_str().unwrap()];
        let said = run(Command::new(env!("CARGO_BIN_EXE_sarouter")).args(words).args(["--promise", "any"]));
        assert_eq!(said.contains("both LIDs"), epoch.plan().fresh_lids.is_some(), "{said}");
        both
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.bed.path().join("log/service.log")).unwrap_or_default();
            eprintln!("the service said:\n{log}");
        }
    }
}

/// Jobs that end and start, on 16 nodes under 4 switches or a torus of 8.
const STEPS: [(&[u32], u32, &str); 9] = [
    (&[], 1, "n[1,5,9,13]"),
    (&[], 2, "n[2,6,10]"),
    (&[1], 3, "n[3,8,12,16]"),
    (&[2], 4, "n[1,6,11,14]"),
    (&[], 5, "n[2,7]"),
    (&[3], 6, "n[4,5,10,15]"),
    (&[4, 5], 7, "n[3,7,9,13]"),
    (&[6], 8, "n[2,8,12,16]"),
    (&[7, 8], 9, "n[1,7,10,13]"),
];

fn epochs_leave_the_lids_in_use(spec: &str) {
    let mut site = Site::up(spec);
    let mut epoch = site.await_current();
    let mut last = site.assert_epoch(&epoch);
    assert_eq!(last[0], last[1]);
    let (mut waited, mut moved, mut compared) = (0, [0; 2], 0);
    for (n, (ended, job, nodes)) in STEPS.into_iter().enumerate() {
        ended.iter().for_each(|job| site.end(*job));
        if n == 4 {
            // What jobs were told is remembered.
            run(Command::new("kill").args(["-TERM", &site.service.id().to_string()]));
            assert!(site.service.wait().unwrap().success());
            // What the next one says is to be seen.
            fs::remove_file(site.bed.state().join("health.json")).unwrap();
            site.service = Running::spawn(&mut Site::sarouter(&site.bed, &["serve"]));
            site.await_current();
        }
        let used: BTreeSet<LidSet> = site.running.values().map(|(_, told)| *told).collect();
        let before = site.in_use();
        let (outcome, told) = site.start(job, nodes);
        let next = site.await_current();
        let now = site.assert_epoch(&next);
        if used.len() == 2 {
            assert_eq!((outcome.as_str(), next.number()), ("next_pass", epoch.number()), "job {job}");
            assert_eq!(now, last);
            waited += 1;
        } else {
            assert_eq!((outcome.as_str(), next.plan().fresh_lids), ("in_force", Some(told)), "job {job}");
            assert!(next.number() > epoch.number() && !used.contains(&told), "job {job}: {used:?}, {told:?}");
            moved[told.offset()] += usize::from(now[told.offset()] != last[told.offset()]);
        }
        // Read back: not one entry that a running job uses is another than before.
        for (set, entries) in before {
            let found = entries_of(&site.fabric, &site.bed.read_back(), set.offset() as u64);
            assert_eq!(found, entries, "job {job}: {set:?}");
            compared += entries.values().map(BTreeMap::len).sum::<usize>();
        }
        (epoch, last) = (next, now);
    }
    println!("{spec}: epoch {}, {waited} waited, {moved:?} moved, {compared} entries", epoch.number());
    assert!(waited > 0 && moved.into_iter().all(|n| n > 0), "nothing is shown: {waited}, {moved:?}");
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn epochs_leave_the_lids_in_use_on_a_tree() {
    epochs_leave_the_lids_in_use("fattree:4x4,2");
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn epochs_leave_the_lids_in_use_on_a_torus() {
    epochs_leave_the_lids_in_use("torus:4x2,hosts=2");
}
