use super::*;
use crate::lab::generate::generate;
use crate::model::{Fabric, Job, JobState, LayerBudget};
use crate::pass::tests::{budget, job, nodes, policy};
use crate::publish::job::{self, JOBS_DIRECTORY};

/// A state directory, and a ring of rings in which no single layer holds all routes.
struct Site {
    store: EpochStore,
    fabric: Arc<Fabric>,
    policy: Policy,
    _directory: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = EpochStore::open(&directory.path().join("state")).unwrap();
        let fabric = Arc::new(generate("torus:5x5,hosts=1").unwrap());
        let policy = Policy { budget: budget(8), layer_per_job: true, ..policy("sar") };
        Self { store, fabric, policy, _directory: directory }
    }

    fn pass(&self, jobs: Vec<Job>) -> Result<Passed, PassError> {
        let (nodes, jobs) =
            (Arc::new(nodes(&self.fabric)), crate::model::JobMap::new(crate::pass::tests::NOW, jobs));
        let view = View::new(Arc::clone(&self.fabric), nodes, jobs, self.policy.clone());
        pass(&self.store, 20, &view, None)
    }

    /// What a job was told when it started.
    fn tell(&self, id: &str, level: u8) {
        let job = self.store.path().join(JOBS_DIRECTORY).join(id);
        std::fs::create_dir_all(&job).unwrap();
        std::fs::write(job.join(job::ENVIRONMENT_FILE), format!("SAROUTER_SL={level}\n")).unwrap();
    }
}

fn running(id: &str, on: &str) -> Job {
    job(id, JobState::Running, on, -1)
}

/// A job on all nodes that sends on one layer closes the rings, if its routes are on several.
#[test]
fn no_epoch_endangers_jobs_that_run_with_a_service_level_they_were_told() {
    let mut site = Site::new();
    // It is too young to get routes of its own.
    site.policy.min_job_age = chrono::TimeDelta::hours(2);
    let old = |id, on| job(id, JobState::Running, on, -3);
    let jobs = || vec![old("1", "n[1-2]"), running("2", "n[1-25]")];
    site.tell("2", 0);
    site.tell("3", 0);
    let error = site.pass(jobs()).unwrap_err();
    assert!(matches!(&error, PassError::Told(engine) if engine == "sar"), "{error}");
    assert!(error.stage() == Stage::Verify && site.store.current().unwrap().is_none());
    // Others may have ended, or were told elsewhere.
    let passed = site.pass(vec![old("1", "n[1-2]")]).unwrap();
    assert_eq!((passed.epoch.unwrap().reason, &passed.warnings), (Reason::First, &Vec::new()));
    assert_eq!(passed.in_force.unwrap().0, 1);
    let error = site.pass([jobs(), vec![old("4", "n[3-4]")]].concat()).unwrap_err();
    assert!(matches!(error, PassError::Told(_)), "{error}");
    // Where the settings do not tell them any more, nobody is asked.
    site.policy.layer_per_job = false;
    let passed = site.pass([jobs(), vec![old("4", "n[3-4]")]].concat()).unwrap();
    let line = passed.epoch.unwrap();
    assert_eq!((line.reason, line.changed_blocks.is_some()), (Reason::JobsChanged, true));
    site.policy.layer_per_job = true;
    // The routes of before are gone with a cable: there is no choice.
    site.fabric = Arc::new(site.fabric.without(|c| c.index() < 2, |_| false).unwrap());
    let passed = site.pass(jobs()).unwrap();
    let line = passed.epoch.unwrap();
    assert_eq!((line.reason, line.changed_blocks), (Reason::FabricChanged, None));
    assert_eq!(passed.warnings, ["jobs that run use a service level that is not safe any more"]);
}

#[test]
fn what_cannot_be_read_is_said_and_replaced() {
    let site = Site::new();
    let jobs = || vec![running("1", "n[1-2]")];
    std::fs::create_dir_all(site.store.path()).unwrap();
    std::fs::write(site.store.path().join(JOBS_DIRECTORY), "").unwrap();
    let passed = site.pass(jobs()).unwrap();
    assert_eq!(passed.warnings.len(), 1);
    assert!(passed.warnings[0].contains("jobs"), "{:?}", passed.warnings);
    std::fs::remove_file(site.store.path().join(JOBS_DIRECTORY)).unwrap();
    assert!(site.pass(jobs()).unwrap().epoch.is_none());
    std::fs::write(site.store.current_path().join("lft.bin"), "damaged").unwrap();
    let passed = site.pass(jobs()).unwrap();
    assert_eq!((passed.epoch.unwrap().epoch, passed.warnings.len()), (2, 1));
    assert!(passed.warnings[0].starts_with("what is in force cannot be read and is replaced: "));
}

#[test]
fn nothing_is_promised_of_a_change_from_what_cannot_be_read() {
    let mut site = Site::new();
    let promise = "any+mixed".parse().unwrap();
    site.policy = Policy { budget: budget(8), promise, ..policy("balanced") };
    let jobs = |on| vec![running("1", on)];
    let promise = |passed: Passed| {
        let number = crate::publish::EpochNumber::new(passed.epoch.unwrap().epoch).unwrap();
        site.store.epoch(number).unwrap().plan().promise.to_string()
    };
    assert_eq!(promise(site.pass(jobs("n[1-9]")).unwrap()), "any+mixed");
    assert_eq!(promise(site.pass(jobs("n[1-12]")).unwrap()), "any+mixed");
    std::fs::write(site.store.current_path().join("lft.bin"), "damaged").unwrap();
    assert_eq!(promise(site.pass(jobs("n[1-15]")).unwrap()), "any");
    // Nor is an index thrown away that cannot be read.
    let index = site.store.path().join("history.db");
    std::fs::write(&index, [7; 5000]).unwrap();
    assert_eq!(promise(site.pass(jobs("n[1-18]")).unwrap()), "any+mixed", "from what can be read");
    assert_eq!(std::fs::read(index.with_extension("db.damaged")).unwrap(), [7; 5000]);
    assert!(std::fs::read(&index).unwrap().starts_with(b"SQLite"));
}

#[test]
fn a_rejection_quotes_the_first_findings() {
    let fabric = generate("torus:5x5,hosts=1").unwrap();
    let minhop = crate::route::engine("minhop", &Default::default()).unwrap();
    let tables = minhop.route(&fabric, &Demand::oblivious(), LayerBudget::MOST).unwrap();
    let mut verdict = verify::judge(&fabric, &tables, budget(8));
    let finding = verdict.findings.remove(0);
    let text = |findings: usize| {
        let verdict = Verdict { findings: vec![finding.clone(); findings], ..verdict.clone() };
        PassError::Rejected { engine: "minhop".into(), verdict }.to_string()
    };
    let one = serde_json::to_string(&finding).unwrap();
    assert_eq!(text(1), format!("the tables of minhop were rejected: {one}"));
    assert_eq!(text(3).matches(&one).count(), 3);
    assert!(!text(3).ends_with(", …"));
    assert!(text(4).matches(&one).count() == 3 && text(4).ends_with(", …"), "{}", text(4));
}

#[test]
fn times_are_told_to_a_tenth_of_a_millisecond() {
    assert_eq!([12_345, 40, 60].map(|us| milliseconds(Duration::from_micros(us))), [12.3, 0.0, 0.1]);
}

/// What is in force is read again once the store has something else: another epoch, other files, or entries that OpenSM's
/// plugin has replaced.
#[test]
fn what_a_pass_has_left_counts_as_long_as_the_store_has_it() {
    let mut site = Site::new();
    let view = |site: &Site, on: &str| {
        let (nodes, jobs) = (Arc::new(nodes(&site.fabric)), vec![running("1", on)]);
        let jobs = crate::model::JobMap::new(crate::pass::tests::NOW, jobs);
        View::new(Arc::clone(&site.fabric), nodes, jobs, site.policy.clone())
    };
    let go = |site: &Site, on, left: &Passed| {
        pass(&site.store, 20, &view(site, on), left.remembered.clone()).unwrap()
    };
    let is_same =
        |a: &Passed, b: &Passed| Arc::ptr_eq(a.tables.as_ref().unwrap(), b.tables.as_ref().unwrap());
    let first = pass(&site.store, 20, &view(&site, "n[1-9]"), None).unwrap();
    let again = go(&site, "n[1-9]", &first);
    assert!(
        again.epoch.is_none() && is_same(&again, &first) && is_same(&go(&site, "n[1-9]", &again), &first)
    );
    let read = pass(&site.store, 20, &view(&site, "n[1-9]"), None).unwrap();
    assert!(
        !is_same(&read, &first) && is_same(&go(&site, "n[1-9]", &read), &read),
        "what was read is kept, too"
    );
    // Somebody goes back.
    let second = go(&site, "n[2-20]", &first);
    assert_eq!(second.in_force.unwrap().0, 2);
    site.store.lock().unwrap().rollback(crate::publish::EpochNumber::after(None)).unwrap();
    let back = go(&site, "n[1-9]", &second);
    assert!(back.epoch.is_none() && !is_same(&back, &second) && back.tables == first.tables);
    // The plugin has replaced an entry: another epoch is due.
    let repair = plan::Repair { epoch: 1, entries: vec![[0, 0, 0, 1]] };
    site.policy.repair = Some(Arc::new(repair));
    let repaired = go(&site, "n[1-9]", &back);
    assert_eq!(repaired.epoch.as_ref().unwrap().reason, Reason::FabricChanged);
    site.policy.repair = None;
    // Other files.
    let file = site.store.path().join("current/lft.bin");
    let damaged = std::fs::read(&file).unwrap().split_off(1);
    std::fs::write(&file, damaged).unwrap();
    let replaced = go(&site, "n[1-9]", &repaired);
    assert!(
        replaced.epoch.is_some() && replaced.warnings[0].contains("cannot be read"),
        "{:?}",
        replaced.warnings
    );
    // Another fabric, whose tables have other sizes.
    site.fabric = Arc::new(site.fabric.without(|_| false, |s| s.index() == 20).unwrap());
    let other = go(&site, "n[1-9]", &replaced);
    assert_eq!(other.epoch.unwrap().reason, Reason::FabricChanged);
    assert_eq!(other.tables.unwrap().fabric(), site.fabric.fingerprint());
}

/// OpenSM refused the newest epoch, or that is damaged: the next one changes what the switches have.
#[test]
fn the_next_epoch_changes_what_the_switches_have() {
    let mut site = Site::new();
    site.policy = Policy::new("balanced", budget(8), crate::model::Promise::EVERYTHING);
    let in_switches = |epoch, refused| Some(plan::InSwitches { epoch, refused });
    let jobs = |on: &str| vec![running("1", on)];
    let number = |n: u64| n.to_string().parse::<crate::publish::EpochNumber>().unwrap();
    for on in ["n[1-9]", "n[3-20]"] {
        site.pass(jobs(on)).unwrap();
    }
    // Nobody has it any more.
    site.policy.in_switches = in_switches(7, true);
    let passed = site.pass(jobs("n[2-25]")).unwrap();
    assert_eq!((passed.epoch.unwrap().reason, passed.warnings.len()), (Reason::JobsChanged, 1));
    assert!(passed.warnings[0].starts_with("OpenSM has epoch 7 in the switches"), "{:?}", passed.warnings);
    // It is the newest one, to which somebody has gone back.
    site.policy.in_switches = in_switches(3, true);
    let passed = site.pass(jobs("n[2-25]")).unwrap();
    assert!(passed.epoch.is_none() && passed.warnings.is_empty(), "{:?}", passed.warnings);
    let blocks = |passed: &Passed, than: u64| {
        let before = site.store.epoch(number(than)).unwrap().tables(&site.fabric).unwrap();
        passed.tables.as_ref().unwrap().changed_blocks(&site.fabric, &before)
    };
    // What serves the jobs of now stays, whoever refused it.
    site.policy.in_switches = in_switches(1, true);
    assert!(site.pass(jobs("n[2-25]")).unwrap().epoch.is_none());
    let passed = site.pass(jobs("n[1-14]")).unwrap();
    let line = passed.epoch.as_ref().unwrap();
    assert_eq!((line.epoch, line.reason, line.mixed), (4, Reason::JobsChanged, true));
    assert_eq!(line.changed_blocks, blocks(&passed, 1));
    assert_ne!(line.changed_blocks, blocks(&passed, 3));
    std::fs::write(site.store.current_path().join("lft.bin"), "damaged").unwrap();
    let passed = site.pass(jobs("n[1-14]")).unwrap();
    let line = passed.epoch.as_ref().unwrap();
    assert_eq!((line.reason, line.changed_blocks), (Reason::FabricChanged, blocks(&passed, 1)));
    assert_eq!(passed.warnings.len(), 1);
    // Old epochs are deleted, but not that one.
    let nodes = Arc::new(nodes(&site.fabric));
    let jobs = crate::model::JobMap::new(crate::pass::tests::NOW, jobs("n[5-24]"));
    let view = View::new(Arc::clone(&site.fabric), nodes, jobs, site.policy.clone());
    pass(&site.store, 1, &view, None).unwrap().epoch.unwrap();
    assert_eq!(site.store.epochs().unwrap(), [1, 6].map(number));
}
