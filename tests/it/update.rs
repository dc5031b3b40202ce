//! Network updates in which programs take part: the thesis' property-preserving one (section 5.2.3).

use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{Demand, Fabric, Group, Layer, Promise, Tables, TerminalId};
use sarouter::pass::update::Phase;
use sarouter::route::{EngineOptions, engine};
use sarouter::simulate::changes::{Changes, Epoch, Plan};
use sarouter::simulate::run::Outcome;
use sarouter::simulate::traffic::open::Destinations;
use sarouter::simulate::update::{self, How, Sample};
use sarouter::simulate::{Ended, Net, Settings};
use sarouter::verify::{Checks, Finding, Step, Update, judge_update};
use serde_json::Value;

use crate::helpers::budget;
use crate::program::sarouter;

const FABRICS: [&str; 4] = ["torus:4x4,hosts=2", "dragonfly:4,2,2,5", "random:12,36,30,seed=1", "kary:3,3"];

/// Routes to base LIDs on seven layers, for one job on about half of the hosts, others in each epoch.
fn base(fabric: &Fabric, n: u32) -> Tables {
    let mut rng = Rng::new(n.into());
    let members: Vec<TerminalId> = fabric.host_ids().filter(|_| rng.below(2) == 0).collect();
    let demand = Demand::new(vec![Group::new(members)], Vec::new());
    let options = EngineOptions { promise: Promise::TOLD, ..EngineOptions::default() };
    engine("balanced", &options).unwrap().route(fabric, &demand, budget(7)).unwrap()
}

/// Routes to high LIDs.
fn high(fabric: &Fabric, layer: u64) -> Tables {
    let updown = engine("updown", &EngineOptions::default()).unwrap();
    let tables = updown.route(fabric, &Demand::oblivious(), budget(1)).unwrap();
    tables.on_layer(Layer::new(layer).unwrap())
}

/// At full load, with room for few packets.
fn run(spec: &str, how: How, changes: u32) -> Outcome {
    let fabric = generate(spec).unwrap();
    let net = Net::of_fabric(&fabric);
    let settings = Settings { input_flits: 66, output_flits: 66, ..Settings::qdr() };
    let plan = Plan {
        changes,
        every_ns: 5_000.0,
        members: net.hosts().to_vec(),
        destinations: Destinations::Uniform,
        bytes: 2048,
        offered: None,
        untold: 0.0,
        answers: 0.0,
        vls: budget(8),
        seed: 1,
    };
    let epochs: Vec<Arc<Tables>> = (0..4).map(|n| Arc::new(base(&fabric, n))).collect();
    let epoch = |n: u32| -> Result<Epoch, String> {
        Ok(Epoch { tables: (*epochs[n as usize % 4]).clone(), dies: None, waits: false })
    };
    update::run(&fabric, &net, settings, (&plan, how, &high(&fabric, 7)), epoch).unwrap()
}

fn changes(outcome: &Outcome) -> &Changes {
    outcome.changes.as_ref().unwrap()
}

/// Samples all of whose time lies in a phase.
fn inside(outcome: &Outcome, phase: Phase) -> Vec<Sample> {
    let series = &outcome.update.as_ref().unwrap().series;
    series.windows(2).filter(|w| w[0].phase == phase && w[1].phase == phase).map(|w| w[0]).collect()
}

#[test]
fn packets_arrive_in_order_and_none_is_lost_or_stuck_where_programs_migrate() {
    for spec in FABRICS {
        let outcome = run(spec, How::PropertyPreserving, 8);
        let changes = changes(&outcome);
        assert_eq!((outcome.ended, changes.made), (Ended::Finished, 8), "{spec}: {changes:?}");
        assert!(changes.is_whole() && changes.counts.out_of_order == 0, "{spec}: {changes:?}");
        assert!(changes.entries > 100 && changes.counts.requests > 3_000, "{spec}: {changes:?}");
        // Nobody is on base LIDs while switches are written, and traffic goes on.
        let write = inside(&outcome, Phase::Write);
        assert!(write.len() >= 8 * 15, "{spec}: {}", write.len());
        assert!(write.iter().all(|s| s.base == 0.0), "{spec}");
        assert!(write.iter().map(|s| s.high).sum::<f64>() > write.len() as f64, "{spec}");
        let rest = inside(&outcome, Phase::Rest);
        assert!(rest.iter().all(|s| s.high == 0.0 && s.base > 0.0 || s.time_ns < 2_000.0), "{spec}");
    }
}

#[test]
fn the_same_tables_break_order_or_deadlock_where_programs_know_of_nothing() {
    for spec in FABRICS {
        let outcome = run(spec, How::Plain, 60);
        let is_stuck = outcome.ended == Ended::Deadlock;
        assert!(changes(&outcome).counts.out_of_order > 0 || is_stuck, "{spec}: {:?}", changes(&outcome));
        assert_eq!(outcome.deadlock.is_empty(), !is_stuck, "{spec}");
        assert!(inside(&outcome, Phase::Write).iter().all(|s| s.high == 0.0));
    }
}

#[test]
fn stopping_all_traffic_keeps_order_and_costs_all_throughput() {
    for spec in FABRICS {
        let outcome = run(spec, How::StopAndDrain, 4);
        let changes = changes(&outcome);
        assert_eq!((outcome.ended, changes.counts.out_of_order), (Ended::Finished, 0), "{spec}");
        assert!(changes.is_whole() && changes.made == 4, "{spec}: {changes:?}");
        let write = inside(&outcome, Phase::Write);
        assert!(!write.is_empty() && write.iter().all(|s| s.base + s.high == 0.0), "{spec}");
    }
}

#[test]
fn what_may_be_in_flight_at_each_step_is_judged() {
    for spec in FABRICS {
        let fabric = generate(spec).unwrap();
        let (before, after) = (base(&fabric, 0), base(&fabric, 1));
        let judge = |high: &Tables, layers: u64| {
            let update = Update { before: &before, after: &after, high };
            judge_update(&fabric, update, budget(layers), Checks::default())
        };
        let own = judge(&high(&fabric, 7), 8);
        assert!(own.accepted && own.without.is_some(), "{spec}: {own:?}");
        let steps: Vec<Step> = own.steps.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, [Step::Leave, Step::Write, Step::Return]);
        // Over the budget: high LIDs have no layer of their own.
        let over = judge(&high(&fabric, 7), 7);
        assert!(over.steps.iter().all(|(_, verdict)| !verdict.accepted), "{spec}");
    }
}

/// High LIDs on a layer that base LIDs use as well.
#[test]
fn a_shared_layer_is_refused_while_programs_move() {
    let fabric = generate("torus:4x4,hosts=2").unwrap();
    let (before, after) = (base(&fabric, 0), base(&fabric, 1));
    let shared = high(&fabric, 0);
    let update = Update { before: &before, after: &after, high: &shared };
    let verdict = judge_update(&fabric, update, budget(8), Checks::default());
    assert!(!verdict.accepted);
    for (step, of) in &verdict.steps {
        assert_eq!(of.accepted, *step == Step::Write, "{step}: {of:?}");
        let is_cycle = |f: &Finding| matches!(f, Finding::Cycle { layer: 0, channels } if channels.len() > 1);
        assert!(of.accepted || of.findings.iter().any(is_cycle), "{of:?}");
    }
}

#[test]
fn the_command_writes_throughput_over_time() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("series.csv");
    let call = ["simulate", "--fabric", "torus:4x4,hosts=2", "--traffic", "uniform", "--changes", "2"];
    let update = ["--every", "5000", "--update", "property-preserving", "--format", "json"];
    let series = ["--series", csv.to_str().unwrap()];
    let out = sarouter(".", [&call[..], &update, &series].concat());
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let value: Value = serde_json::from_slice(&out.stdout).unwrap();
    let run = &value["runs"][0];
    assert_eq!((&run["changes"]["out_of_order"], &run["changes"]["made"]), (&0.into(), &2.into()));
    let samples = run["update"]["series"].as_array().unwrap();
    let text = std::fs::read_to_string(&csv).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines.len()), ("offered,time_ns,phase,base,high", samples.len() + 1));
    for phase in ["rest", "unpath", "write", "repath"] {
        assert!(lines.iter().any(|l| l.contains(&format!(",{phase},"))), "{phase}");
        assert!(run["update"]["phases"].as_array().unwrap().iter().any(|p| p["phase"] == phase));
    }
    let text = sarouter(".", [&call[..], &["--update", "plain"]].concat());
    assert!(String::from_utf8_lossy(&text.stdout).contains("plain: mean times of its phases"), "{text:?}");
    for (bad, message) in [
        (&["--update", "slowly"][..], "plain, stop-and-drain or property-preserving"),
        (&["--update", "plain", "--untold", "0.5"], "cannot be used"),
        (&["--update", "plain", "--layers", "1"], "--layers 2 or more"),
        (&["--series", "x"], "--update"),
    ] {
        let out = sarouter(".", [&call[..], bad].concat());
        assert_eq!(out.status.code(), Some(2), "{bad:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains(message), "{bad:?}: {out:?}");
    }
}

#[test]
fn the_command_judges_an_update_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let fabric = ["--fabric", "torus:4x4,hosts=2"];
    for (name, engine, layers) in [("old", "dfsssp", "7"), ("new", "lash", "7"), ("high", "updown", "1")] {
        let own = ["--engine", engine, "--layers", layers, "--out", &at(name)];
        let out = sarouter(".", [&["route"][..], &fabric, &own].concat());
        assert_eq!(out.status.code(), Some(0), "{out:?}");
    }
    let (new, old, high) = (at("new"), at("old"), at("high"));
    let files = ["--tables", &new, "--update-from", &old, "--high-lids", &high];
    let judge = |more: &[&str]| sarouter(".", [&["verify"][..], &fabric, &files, more].concat());
    let own = judge(&[]);
    let text = String::from_utf8_lossy(&own.stdout);
    assert!(
        own.status.code() == Some(0) && text.starts_with("accepted: property-preserving update"),
        "{own:?}"
    );
    assert!(text.contains("programs that do not take part: "), "{text}");
    let shared = judge(&["--high-layer", "0", "--format", "json"]);
    assert_eq!(shared.status.code(), Some(1), "{shared:?}");
    let value: Value = serde_json::from_slice(&shared.stdout).unwrap();
    assert_eq!((&value["accepted"], &value["steps"][1][1]["accepted"]), (&false.into(), &true.into()));
    for bad in [&["--high-layer", "16"][..], &["--promise", "any"]] {
        assert_eq!(judge(bad).status.code(), Some(2), "{bad:?}");
    }
}
