//! Epochs as the service makes them, judged from outside for what live traffic does: any SL, answers, old
//! connections, switches that change one after the other.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{
    Fabric, Job, JobMap, JobState, LayerBudget, NodeMap, NodeName, Promise, Tables, TerminalId,
};
use sarouter::observe::nodes::{NodeNames, name_hosts};
use sarouter::pass::plan::{Policy, Reason};
use sarouter::pass::step::View;
use sarouter::publish::{EpochNumber, EpochStore};
use sarouter::service::pass::{PassError, Passed, Remembered, pass};
use sarouter::verify::{Beside, Checks, Verdict, judge_beside};

use crate::often::often;

/// A store and the settings of its service.
pub struct Site {
    pub store: EpochStore,
    pub policy: Policy,
    rng: Rng,
    remembered: Option<Remembered>,
    _directory: tempfile::TempDir,
}

impl Site {
    pub fn new(engine: &str, promise: Promise, seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = EpochStore::open(&directory.path().join("state")).unwrap();
        let policy = Policy { may_wait: true, ..Policy::new(engine, LayerBudget::new(8).unwrap(), promise) };
        Self { store, policy, rng: Rng::new(seed), remembered: None, _directory: directory }
    }

    /// Other jobs on most of the hosts.
    fn jobs(&mut self, fabric: &Fabric, nodes: &NodeMap) -> JobMap {
        let mut names: Vec<NodeName> = nodes.names().cloned().collect();
        assert_eq!(names.len(), fabric.host_ids().count());
        self.rng.shuffle(&mut names);
        names.truncate(names.len() * 9 / 10);
        let mut jobs = Vec::new();
        while names.len() > 2 {
            let of = 2 + self.rng.below(names.len() / 2);
            let id = format!("{}", 1 + jobs.len()).parse().unwrap();
            jobs.push(Job::new(id, JobState::Running, names.split_off(names.len() - of), None));
        }
        JobMap::new(DateTime::<Utc>::UNIX_EPOCH, jobs)
    }

    /// A pass with new jobs.
    pub fn pass(&mut self, fabric: &Arc<Fabric>) -> Result<Passed, PassError> {
        let nodes = Arc::new(name_hosts(fabric, &NodeNames::default()));
        let jobs = self.jobs(fabric, &nodes);
        let view = View::new(Arc::clone(fabric), nodes, jobs, self.policy.clone());
        let passed = pass(&self.store, 20, &view, self.remembered.take())?;
        self.remembered.clone_from(&passed.remembered);
        Ok(passed)
    }

    /// Tables of the epoch in force, as they are on the disk.
    pub fn in_force(&self, fabric: &Fabric) -> (EpochNumber, Tables, Promise) {
        let number = self.store.current().unwrap().unwrap();
        let epoch = self.store.epoch(number).unwrap();
        (number, epoch.tables(fabric).unwrap(), epoch.plan().promise)
    }
}

pub fn judge(fabric: &Fabric, tables: &Tables, promise: &str, beside: Beside<'_>) -> Verdict {
    let checks = Checks { promise: promise.parse().unwrap(), hosts_only: false };
    judge_beside(fabric, std::slice::from_ref(tables), LayerBudget::new(8).unwrap(), checks, beside)
}

const FABRICS: [&str; 6] = [
    "torus:4x3x3,hosts=2",
    "dragonfly:4,2,2,9",
    "random:20,40,60,seed=4",
    "hyperx:3x3x2,hosts=3",
    "kary:3,3",
    "fattree:6x8,4,faults=5%,seed=3",
];

/// Each epoch by itself for every SL, with the SLs of those before it, and beside the one before it.
fn judge_epochs(rounds: usize) {
    let mut moved = 0;
    for (seed, spec) in FABRICS.into_iter().enumerate() {
        let fabric = Arc::new(generate(spec).unwrap());
        let mut site = Site::new("balanced", Promise::EVERYTHING, seed as u64);
        let mut before: Vec<Tables> = Vec::new();
        for round in 0..rounds {
            let epoch = site.pass(&fabric).unwrap().epoch.unwrap();
            let (_, tables, promise) = site.in_force(&fabric);
            assert_eq!(promise, if round == 0 { Promise::EVERYTHING } else { site.policy.promise });
            let last = &before[before.len().saturating_sub(1)..];
            let since = &before[before.len().saturating_sub(5)..];
            let beside = Beside { since, mixed: last, ..Beside::default() };
            for promise in ["told", "untold+reply", "told+since", "any+mixed"] {
                let verdict = judge(&fabric, &tables, promise, beside);
                assert!(verdict.accepted, "{spec} {round} {promise}: {:?}", verdict.findings);
            }
            assert_eq!(epoch.transition.map_or(0, |t| t.cyclic), 0, "{spec}");
            before.push(tables);
        }
        moved += before.windows(2).filter(|pair| pair[0] != pair[1]).count();
    }
    assert!(moved >= FABRICS.len(), "jobs move routes");
}

#[test]
fn every_epoch_of_the_service_is_safe_with_every_program() {
    judge_epochs(6);
}

/// As long as connections of storage may live.
#[test]
#[ignore = "takes minutes: run scripts/test"]
fn two_hundred_epochs_are_safe_with_every_program() {
    judge_epochs(often(200, 20));
}

/// A cable is lost and comes back: the lanes stay, so every change is as safe as between epochs.
#[test]
fn lanes_outlive_a_lost_cable() {
    for spec in &FABRICS[..4] {
        let whole = Arc::new(generate(spec).unwrap());
        let cut = Arc::new(whole.without(|c| c.index() / 2 == 5, |_| false).unwrap());
        let mut site = Site::new("balanced", Promise::EVERYTHING, 9);
        // Where nobody waits each epoch leads everywhere.
        site.policy.may_wait = false;
        for (round, fabric) in [&whole, &cut, &cut, &whole].into_iter().enumerate() {
            let reason = site.pass(fabric).unwrap().epoch.unwrap().reason;
            let expected = [Reason::First, Reason::FabricChanged, Reason::JobsChanged, Reason::FabricChanged];
            assert_eq!(reason, expected[round], "{spec}");
            let (_, tables, promise) = site.in_force(fabric);
            assert!(promise.any, "{spec} {round}");
            let verdict = judge(fabric, &tables, "any", Beside::default());
            assert!(verdict.accepted, "{spec} {round}: {:?}", verdict.findings);
        }
        let published = |number: &str| site.store.epoch(number.parse().unwrap()).unwrap().published(&whole);
        let lanes = ["1", "4"].map(|n| published(n).unwrap().lanes.unwrap());
        let (first, last) = (lanes[0].closure.len(), lanes[1].closure.len());
        assert!(last * 10 > first * 9, "{spec}: {last} next hops of {first} are left");
    }
}

/// What an engine cannot prove is not published, and a smaller promise is.
#[test]
fn nothing_is_published_that_does_not_keep_the_promise() {
    let fabric = Arc::new(generate("torus:4x3x3,hosts=2").unwrap());
    let mut site = Site::new("dfsssp", Promise::EVERYTHING, 1);
    let error = site.pass(&fabric).unwrap_err();
    assert!(matches!(error, PassError::Rejected { .. }) && error.to_string().contains("cycle"), "{error}");
    assert_eq!(site.store.current().unwrap(), None);
    site.policy.promise = Promise::TOLD;
    site.pass(&fabric).unwrap();
    // The settings ask for more from now on.
    site.policy.engine = "balanced".into();
    site.pass(&fabric).unwrap();
    site.policy.promise = Promise::EVERYTHING;
    let epoch = site.pass(&fabric).unwrap().epoch.unwrap();
    assert_eq!(epoch.reason, Reason::PromiseChanged);
    assert!(site.in_force(&fabric).2.any);
}

/// A recording's folder, a copy of the disk: the closure is in the hand-off file itself.
#[test]
fn the_closure_is_in_the_hand_off() {
    let fabric = Arc::new(generate("random:20,40,60,seed=4").unwrap());
    let mut site = Site::new("balanced", Promise::EVERYTHING, 3);
    site.pass(&fabric).unwrap();
    let bytes = std::fs::read(site.store.current_path().join("lft.bin")).unwrap();
    let handoff = sarouter::publish::handoff::decode(&bytes).unwrap();
    let lanes = handoff.lanes_on(&fabric).unwrap();
    let (_, tables, _) = site.in_force(&fabric);
    assert!(Some(&lanes.map) == tables.lanes());
    let inside = |d: sarouter::model::DestId| {
        fabric.switch_ids().filter(|s| *s != fabric.home(d)).all(|s| {
            let port = tables.port(s, d);
            lanes.closure.ways(&fabric, s, fabric.home(d)).any(|c| Some(fabric.channel(c).from_port) == port)
        })
    };
    assert!(fabric.host_ids().all(|t: TerminalId| inside(fabric.dest_of_terminal(t))));
    // Without one cable all that leads over it is gone, and nothing else.
    let cut = fabric.without(|c| c.index() / 2 == 7, |_| false).unwrap();
    let left = handoff.lanes_on(&cut).unwrap();
    assert!(*left.closure == lanes.closure.on(&fabric, &cut));
    assert!(left.closure.len() < lanes.closure.len());
}

/// An engine that cannot route is passed over, with its reason, until it can.
#[test]
fn the_next_engine_routes_where_the_first_cannot() {
    let fabric = Arc::new(generate("torus:5x5,hosts=2").unwrap());
    let mut site = Site::new("sar", Promise::TOLD, 4);
    site.policy.budget = LayerBudget::new(1).unwrap();
    assert!(matches!(site.pass(&fabric).unwrap_err(), PassError::Route(_)));
    site.policy.then = vec!["nue".into()];
    for reason in [Reason::First, Reason::JobsChanged] {
        let passed = site.pass(&fabric).unwrap();
        let line = passed.epoch.unwrap();
        assert_eq!((line.engine.as_str(), line.reason), ("nue", reason));
        assert!(passed.warnings.iter().any(|w| w.starts_with("nue routes, because sar does not")));
        let (number, ..) = site.in_force(&fabric);
        let passed_over = site.store.epoch(number).unwrap().plan().passed_over.clone();
        assert_eq!(passed_over.len(), 1);
        assert!(passed_over[0].engine == "sar" && passed_over[0].reason.contains("layer"), "{passed_over:?}");
    }
    site.policy.budget = LayerBudget::new(8).unwrap();
    let passed = site.pass(&fabric).unwrap();
    assert_eq!(passed.epoch.unwrap().engine, "sar");
    assert_eq!(passed.warnings, [""; 0]);
}
