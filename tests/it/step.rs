//! The service's rhythm as numbered steps: `time event -> action, next look`.
//!
//! Times are seconds. `seen` lists jobs as `ID@START:HOSTLIST` (without `@START`: of unknown age);
//! the fabric is four leaves with four hosts each, n1 to n16, or the same with a cable cut.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::model::{
    Demand, Fabric, Job, JobId, JobMap, JobState, LayerBudget, NodeMap, NodeName, Promise,
};
use sarouter::observe::hostlist;
use sarouter::pass::plan::{self, Policy};
use sarouter::pass::step::{Action, Event, Rhythm, Step, View};

fn at(seconds: f64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_700_000_000_000 + (seconds * 1000.0) as i64).unwrap()
}

fn seconds(time: DateTime<Utc>) -> f64 {
    (time - at(0.0)).num_milliseconds() as f64 / 1000.0
}

struct World {
    fabrics: BTreeMap<&'static str, (Arc<Fabric>, Arc<NodeMap>)>,
    policy: Policy,
}

impl World {
    fn new(min_job_age: i64) -> Self {
        let whole = generate("fattree:4x4,2").unwrap();
        let first = whole.channel_ids().next().unwrap();
        let cut = whole.without(|c| c == first, |_| false).unwrap();
        let with_nodes = |fabric: Fabric| {
            let mut names: BTreeMap<NodeName, Vec<_>> = BTreeMap::new();
            for t in fabric.host_ids() {
                let name = fabric.terminal(t).description.split_whitespace().next().unwrap().to_string();
                names.entry(NodeName::new(name).unwrap()).or_default().push(t);
            }
            (Arc::new(fabric), Arc::new(NodeMap::new(names, Vec::new())))
        };
        let policy = Policy {
            min_job_age: TimeDelta::seconds(min_job_age),
            ..Policy::new("sssp", LayerBudget::new(8).unwrap(), Promise::TOLD)
        };
        Self { fabrics: BTreeMap::from([("whole", with_nodes(whole)), ("cut", with_nodes(cut))]), policy }
    }

    fn view(&self, fabric: &str, now: f64, jobs: Vec<Job>) -> Arc<View> {
        let (fabric, nodes) = &self.fabrics[fabric];
        let jobs = JobMap::new(at(now), jobs);
        Arc::new(View::new(fabric.clone(), nodes.clone(), jobs, self.policy.clone()))
    }
}

fn job(text: &str) -> Job {
    let (id, nodes) = text.split_once(':').unwrap();
    let (id, start) = id.split_once('@').map_or((id, None), |(id, s)| (id, Some(at(s.parse().unwrap()))));
    Job::new(JobId::new(id).unwrap(), JobState::Running, hostlist::expand(nodes).unwrap(), start)
}

/// Groups of a demand as switches would see them: sizes are enough to tell them apart here.
fn sizes(demand: &Demand) -> String {
    let sizes: Vec<String> = demand.groups.iter().map(|g| g.terminals.len().to_string()).collect();
    if sizes.is_empty() { "nobody".into() } else { sizes.join("+") }
}

/// Replays the steps and writes what really happens beside each.
fn replay(text: &str, min_job_age: i64) -> String {
    let world = World::new(min_job_age);
    let rhythm = Rhythm { interval: TimeDelta::seconds(60), backoff_max: TimeDelta::seconds(200) };
    let mut step = Step::new(rhythm, at(0.0));
    let mut last_view: Option<Arc<View>> = None;
    let mut told = String::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let given = line.split(" -> ").next().unwrap();
        let mut words = given.split_whitespace();
        let now: f64 = words.next().unwrap().parse().unwrap();
        let event = match words.next().unwrap() {
            "tick" => Event::Tick,
            "asked" => Event::Asked,
            "look-failed" => Event::LookFailed,
            "route-failed" => Event::RouteFailed,
            "in-force" => {
                let view = last_view.as_ref().unwrap();
                let wanted = plan::wanted(&view.fabric, &view.nodes, &view.jobs, None, &view.policy);
                let pause = words.next().map(|seconds| TimeDelta::seconds(seconds.parse().unwrap()));
                Event::InForce(view.fabric.fingerprint(), wanted.demand, pause)
            }
            fabric => {
                let view = world.view(fabric, now, words.map(job).collect());
                last_view = Some(view.clone());
                Event::Seen(view)
            }
        };
        let action = match step.handle(at(now), event) {
            Action::Wait => "wait".to_string(),
            Action::Look => "look".to_string(),
            Action::Keep(wanted) => format!("keep {}", sizes(&wanted.demand)),
            Action::Refrain(wanted) => format!("refrain {}", sizes(&wanted.demand)),
            Action::Route(view) => {
                let wanted = plan::wanted(&view.fabric, &view.nodes, &view.jobs, None, &view.policy);
                format!("route {}", sizes(&wanted.demand))
            }
        };
        let next = step.due().map_or("busy".to_string(), |due| format!("next {}", seconds(due)));
        told.push_str(&format!("{given} -> {action}, {next}\n"));
    }
    told
}

fn check(min_job_age: i64, text: &str) {
    let wanted: String =
        text.lines().map(str::trim).filter(|l| !l.is_empty()).map(|l| format!("{l}\n")).collect();
    assert_eq!(replay(text, min_job_age), wanted);
}

#[test]
fn a_first_look_routes_and_the_same_jobs_under_other_ids_keep() {
    check(
        0,
        "0 tick -> look, busy
         1 whole 1:n[1,5] 2:n[9-16] -> route 8+2, busy
         2 in-force -> wait, next 61
         61 tick -> look, busy
         62 whole 9:n[9-12,13-16] 8:n[1,5] -> keep 8+2, next 122",
    );
}

#[test]
fn a_job_replaced_on_the_same_nodes_changes_nothing_however_young_it_is() {
    check(
        30,
        "0 tick -> look, busy
         0 whole 1@-90:n[1,5] -> route 2, busy
         1 in-force -> wait, next 60
         60 tick -> look, busy
         60 whole 2@59:n[1,5] -> keep 2, next 120",
    );
}

#[test]
fn a_second_job_on_shared_nodes_is_a_change_but_not_while_it_is_young() {
    check(
        30,
        "0 tick -> look, busy
         0 whole 1@-90:n[1,5] -> route 2, busy
         1 in-force -> wait, next 60
         60 tick -> look, busy
         60 whole 1@-90:n[1,5] 2@59:n[1,5] -> keep 2, next 89
         89 tick -> look, busy
         89 whole 1@-90:n[1,5] 2@59:n[1,5] -> route 2+2, busy",
    );
}

#[test]
fn a_young_job_is_looked_at_again_as_soon_as_it_counts() {
    check(
        30,
        "0 tick -> look, busy
         0 whole 1@-90:n[1,5] -> route 2, busy
         1 in-force -> wait, next 60
         60 tick -> look, busy
         60 whole 1@-90:n[1,5] 2@40:n[8-9] -> keep 2, next 70
         69 tick -> wait, next 70
         70 tick -> look, busy
         70 whole 1@-90:n[1,5] 2@40:n[8-9] -> route 2+2, busy",
    );
}

#[test]
fn a_clock_of_slurm_that_is_behind_or_ahead_never_makes_the_service_spin() {
    check(
        30,
        "0 tick -> look, busy
         0 whole 1@500:n[1,5] -> route nobody, busy
         1 in-force -> wait, next 60
         60 tick -> look, busy
         60 whole 1@30.001:n[1,5] -> keep nobody, next 60.1",
    );
}

#[test]
fn young_jobs_on_one_switch_are_not_waited_for() {
    check(
        30,
        "0 tick -> look, busy
         0 whole -> route nobody, busy
         0 in-force -> wait, next 60
         60 tick -> look, busy
         60 whole 1@50:n[1-4] 2@55:n6 -> keep nobody, next 120",
    );
}

#[test]
fn a_burst_of_requests_causes_one_look_and_one_more_if_it_came_meanwhile() {
    check(
        0,
        "0 tick -> look, busy
         0 whole -> route nobody, busy
         0 in-force -> wait, next 60
         5 asked -> look, busy
         5 asked -> wait, busy
         5 asked -> wait, busy
         6 whole 1:n[1,5] -> route 2, busy
         6 asked -> wait, busy
         6 tick -> wait, busy
         7 in-force -> look, busy
         7 whole 1:n[1,5] -> keep 2, next 67
         8 tick -> wait, next 67",
    );
}

/// What OpenSM's plugin repaired stays repaired when the cables are back, if going straight back is not proved.
#[test]
fn a_repair_that_outlives_its_cause_is_ended() {
    let mut world = World::new(0);
    let rhythm = Rhythm { interval: TimeDelta::seconds(60), backoff_max: TimeDelta::seconds(60) };
    let mut step = Step::new(rhythm, at(0.0));
    let mut seen = |world: &World, now: f64| {
        step.handle(at(now), Event::Asked);
        let action = step.handle(at(now), Event::Seen(world.view("whole", now, vec![job("1:n[1,5]")])));
        if let Action::Route(view) = &action {
            let wanted = plan::wanted(&view.fabric, &view.nodes, &view.jobs, None, &view.policy);
            step.handle(at(now), Event::InForce(view.fabric.fingerprint(), wanted.demand, None));
        }
        matches!(action, Action::Route(_))
    };
    assert!(seen(&world, 0.0));
    assert!(!seen(&world, 1.0));
    let repair = plan::Repair { epoch: 1, entries: vec![[0, 0, 0, 1]] };
    world.policy.repair = Some(Arc::new(repair));
    assert!(seen(&world, 2.0));
    world.policy.repair = None;
    assert!(!seen(&world, 3.0));
}

#[test]
fn a_cut_cable_is_a_change_and_so_is_its_repair() {
    check(
        0,
        "0 tick -> look, busy
         0 whole 1:n[1,5] -> route 2, busy
         0 in-force -> wait, next 60
         60 tick -> look, busy
         60 cut 1:n[1,5] -> route 2, busy
         61 in-force -> wait, next 120
         120 tick -> look, busy
         120 cut 1:n[1,5] -> keep 2, next 180
         180 tick -> look, busy
         180 whole 1:n[1,5] -> route 2, busy",
    );
}

#[test]
fn failing_looks_double_the_pause_up_to_a_bound_and_a_request_ends_it() {
    check(
        0,
        "0 tick -> look, busy
         0 look-failed -> wait, next 60
         60 tick -> look, busy
         60 look-failed -> wait, next 180
         180 tick -> look, busy
         180 look-failed -> wait, next 380
         380 tick -> look, busy
         380 look-failed -> wait, next 580
         400 asked -> look, busy
         400 whole -> route nobody, busy
         400 in-force -> wait, next 460
         460 tick -> look, busy
         460 look-failed -> wait, next 520",
    );
}

#[test]
fn what_cannot_be_routed_is_not_tried_at_every_look_but_other_jobs_are() {
    check(
        0,
        "0 tick -> look, busy
         0 whole 1:n[1,5] -> route 2, busy
         0 route-failed -> wait, next 60
         30 asked -> look, busy
         30 whole 2:n[1,5] -> refrain 2, next 60
         60 tick -> look, busy
         60 whole 2:n[1,5] -> route 2, busy
         60 route-failed -> wait, next 120
         120 tick -> look, busy
         120 whole 2:n[1,5] -> refrain 2, next 180
         125 asked -> look, busy
         125 whole 2:n[1,5] 3:n[1,9] -> route 2+2, busy
         126 in-force -> wait, next 185",
    );
}

/// A price that falls may be paid later, though no other job has started: until then nothing is routed.
#[test]
fn what_is_not_worth_its_price_is_judged_again_when_it_may_be() {
    check(
        0,
        "0 tick -> look, busy
         0 whole 1:n[1,5] -> route 2, busy
         0 in-force 90 -> wait, next 60
         60 tick -> look, busy
         60 whole 1:n[1,5] -> keep 2, next 90
         90 tick -> look, busy
         90 whole 1:n[1,5] -> route 2, busy
         91 in-force -> wait, next 150
         150 tick -> look, busy
         150 whole 1:n[1,5] -> keep 2, next 210",
    );
}

/// Any jobs on the 16 nodes; ids, order and one-switch jobs are noise.
fn any_jobs() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(1u8..=16, 1..6), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn only_the_multi_switch_node_sets_count(sets in any_jobs(), seed in any::<u64>(), noise in 0usize..4) {
        let world = World::new(0);
        let named = |ids: &[usize], extra: usize| -> Vec<Job> {
            let lists = ids.iter().map(|i| sets[*i].iter().map(|n| format!("n{n}")).collect::<Vec<_>>().join(","));
            let mut jobs: Vec<Job> = lists.enumerate().map(|(at, l)| job(&format!("{}:{l}", at + extra))).collect();
            // Within one leaf of four.
            jobs.extend((0..extra).map(|i| job(&format!("x{i}:n[{}-{}]", 4 * i + 1, 4 * i + 4))));
            jobs
        };
        let order: Vec<usize> = (0..sets.len()).collect();
        let mut shuffled = order.clone();
        shuffled.sort_by_key(|i| (seed.rotate_left(*i as u32 * 7), *i));
        let rhythm = Rhythm { interval: TimeDelta::seconds(60), backoff_max: TimeDelta::seconds(60) };
        let mut step = Step::new(rhythm, at(0.0));
        step.handle(at(0.0), Event::Tick);
        let view = world.view("whole", 0.0, named(&order, 0));
        let wanted = plan::wanted(&view.fabric, &view.nodes, &view.jobs, None, &view.policy);
        prop_assert!(matches!(step.handle(at(0.0), Event::Seen(view.clone())), Action::Route(_)));
        step.handle(at(0.0), Event::InForce(view.fabric.fingerprint(), wanted.demand, None));
        step.handle(at(60.0), Event::Tick);
        let again = world.view("whole", 60.0, named(&shuffled, noise));
        prop_assert!(matches!(step.handle(at(60.0), Event::Seen(again)), Action::Keep(_)));
    }

    #[test]
    fn it_never_acts_while_it_acts(events in prop::collection::vec((0u8..4, 0u8..3), 1..60)) {
        let world = World::new(0);
        let rhythm = Rhythm { interval: TimeDelta::seconds(10), backoff_max: TimeDelta::seconds(40) };
        let mut step = Step::new(rhythm, at(0.0));
        // What we owe the step an answer to.
        let mut owed: Option<Action> = None;
        for (i, (event, answer)) in events.into_iter().enumerate() {
            let now = i as f64 * 3.0;
            let event = match (event, owed.take()) {
                (0, Some(Action::Look)) if answer == 0 => Event::LookFailed,
                (0, Some(Action::Look)) => {
                    Event::Seen(world.view("whole", now, vec![job(&format!("1:n[1,{}]", 5 + answer))]))
                }
                (0, Some(Action::Route(_))) if answer == 0 => Event::RouteFailed,
                (0, Some(Action::Route(view))) => {
                    let wanted = plan::wanted(&view.fabric, &view.nodes, &view.jobs, None, &view.policy);
                    Event::InForce(view.fabric.fingerprint(), wanted.demand, None)
                }
                (event, still) => {
                    owed = still;
                    if event % 2 == 0 { Event::Tick } else { Event::Asked }
                }
            };
            let busy = owed.is_some();
            match step.handle(at(now), event) {
                action @ (Action::Look | Action::Route(_)) => {
                    prop_assert!(!busy, "acts twice");
                    owed = Some(action);
                }
                _ => prop_assert!(busy == step.due().is_none()),
            }
        }
    }
}
