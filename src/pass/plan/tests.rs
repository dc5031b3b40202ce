use super::*;
use crate::model::{Job, JobState, Storage, TerminalId};
use crate::pass::tests::{NOW, budget, demand, group, in_force, job, jobs, nodes, policy, published};
use crate::publish::tests::fixture;

fn reason(outcome: &Outcome) -> Option<Reason> {
    match &outcome.decision {
        Decision::Publish(plan) => Some(plan.reason),
        _ => None,
    }
}

fn made(outcome: Outcome) -> Plan {
    match outcome.decision {
        Decision::Publish(plan) => *plan,
        other => panic!("{other:?}"),
    }
}

/// Decides on the small fabric for two jobs of two and three nodes.
fn decided(in_force: &Published, policy: &Policy) -> Outcome {
    let fabric = fixture::small();
    plan(&fabric, &nodes(&fabric), &jobs(&["n[1,5]", "n[2,6,10]"]), Some(in_force), policy).unwrap()
}

/// The same, in force already.
fn served() -> (Fabric, Published) {
    let fabric = fixture::small();
    let in_force = in_force(&fabric, demand(&[&[0, 4], &[1, 5, 9]]));
    (fabric, in_force)
}

#[test]
fn what_is_in_force_stays_unless_something_else_is_asked_of_it() {
    let (fabric, served) = served();
    let plain = policy("sssp");
    let found = |in_force: &Published, policy: &Policy| reason(&decided(in_force, policy));
    assert_eq!(found(&served, &plain), None);
    let other = Published {
        fabric: crate::lab::generate::generate("kary:2,2").unwrap().fingerprint(),
        ..served.clone()
    };
    assert_eq!(found(&other, &plain), Some(Reason::FabricChanged));
    assert_eq!(found(&Published { halfway: true, ..served.clone() }, &plain), Some(Reason::FabricChanged));
    let updown = policy("updown");
    assert_eq!(found(&served, &updown), Some(Reason::EngineChanged));
    let then = vec!["minhop".to_string(), "sssp".to_string()];
    assert_eq!(found(&served, &Policy { then, ..updown.clone() }), None, "it takes the other's place");
    assert_eq!(
        found(&served, &Policy { then: vec!["minhop".to_string()], ..updown }),
        Some(Reason::EngineChanged)
    );
    let promise = |promise| Policy { promise, ..plain.clone() };
    assert_eq!(
        found(&served, &promise(Promise { mixed: true, ..Promise::TOLD })),
        None,
        "that change is over"
    );
    assert_eq!(
        found(&served, &promise(Promise { untold: true, ..Promise::TOLD })),
        Some(Reason::PromiseChanged)
    );
    let of = |groups: &[&[usize]]| Published { demand: demand(groups), ..served.clone() };
    assert_eq!(found(&of(&[&[0, 4], &[1, 5, 9], &[2, 6]]), &plain), None, "a job is over");
    assert_eq!(found(&of(&[&[0, 4], &[2, 6, 10]]), &plain), Some(Reason::JobsChanged));
    assert_eq!(
        reason(&plan(&fabric, &nodes(&fabric), &jobs(&[]), None, &plain).unwrap()),
        Some(Reason::First)
    );
}

#[test]
fn routes_go_that_use_more_layers_than_there_are() {
    let (fabric, served) = served();
    let third = Arc::new(Tables::clone(&served.tables).on_layer(Layer::new(2).unwrap()));
    let found = |in_force: &Published, policy: Policy| reason(&decided(in_force, &policy));
    let layers = |n| Policy { budget: budget(n), lids_in_use: Some([true, false]), ..policy("sssp") };
    let on_third = Published { tables: Arc::clone(&third), ..served.clone() };
    let changed = Some(Reason::BudgetChanged);
    assert_eq!([3, 2].map(|n| found(&on_third, layers(n))), [None, changed]);
    // Those of either LID count.
    let lids = |fresh, kept: &Arc<Tables>| Some(SplitLids { fresh, kept: Arc::clone(kept) });
    let split = Published { lids: lids(LidSet::High, &third), ..served.clone() };
    assert_eq!([3, 2].map(|n| found(&split, layers(n))), [None, changed]);
    let split = Published { lids: lids(LidSet::Base, &served.tables), ..on_third.clone() };
    assert_eq!([3, 2].map(|n| found(&split, layers(n))), [None, changed]);
    assert_eq!(found(&split, Policy { lids_in_use: None, ..layers(3) }), changed, "one for all LIDs again");
    // One layer for each job, whichever it is.
    let per_job = |layer_per_job| Policy { layer_per_job, ..layers(3) };
    assert_eq!([true, false].map(|is| found(&on_third, per_job(is))), [None; 2]);
    let at = fabric.dest_of_terminal(TerminalId::at(0)).index() * fabric.switches().len();
    let leaf = fabric.terminal(TerminalId::at(4)).switch.index();
    let mixed = Tables::clone(&third).edited(|_, layers| layers[at + leaf] = 1);
    let mixed = Published { tables: Arc::new(mixed), ..served };
    assert_eq!([true, false].map(|is| found(&mixed, per_job(is))), [changed, None]);
}

/// A new job on each of the two leaves that the others have left free.
fn with_another(in_force: &Published, policy: &Policy) -> Outcome {
    let fabric = fixture::small();
    let jobs = jobs(&["n[1,5]", "n[2,6,10]", "n[9,13]"]);
    plan(&fabric, &nodes(&fabric), &jobs, Some(in_force), policy).unwrap()
}

#[test]
fn jobs_get_routes_to_the_lid_that_no_running_job_uses() {
    let (fabric, served) = served();
    let using = |in_use| Policy { lids_in_use: Some(in_use), ..policy("sssp") };
    let plan = made(with_another(&served, &using([true, false])));
    let lids = plan.lids.unwrap();
    assert!(lids.fresh == LidSet::High && Arc::ptr_eq(&lids.kept, &served.tables));
    assert!(plan.before.is_some());
    assert!(made(with_another(&served, &policy("sssp"))).lids.is_none());
    // The same LID once more: the other keeps what it has. The other LID: what is in force there.
    let third = Arc::new(fixture::tables(&fabric, "sssp", 1));
    let lids = |fresh| Some(SplitLids { fresh, kept: Arc::clone(&third) });
    for (fresh, kept) in [(LidSet::High, &third), (LidSet::Base, &served.tables)] {
        let split = Published { lids: lids(fresh), ..served.clone() };
        let found = made(with_another(&split, &using([true, false]))).lids.unwrap();
        assert!(found.fresh == LidSet::High && Arc::ptr_eq(&found.kept, kept), "{fresh:?}");
    }
    // Other lanes are for all packets.
    let lanes = crate::route::lanes::fabric_lanes(&fabric, budget(1)).lanes;
    let in_lanes = Published { lanes: Some(Arc::new(lanes)), ..served.clone() };
    assert!(made(with_another(&in_lanes, &using([true, false]))).lids.is_none());
    // Nothing is left of the routes of another fabric, nor of the first of two steps.
    let halfway = Published { halfway: true, ..served.clone() };
    assert!(made(with_another(&halfway, &using([true, false]))).lids.is_none());
    let other = crate::lab::generate::generate("kary:2,2").unwrap().fingerprint();
    let plan = made(with_another(&Published { fabric: other, ..served.clone() }, &using([true, false])));
    assert!(plan.lids.is_none() && plan.before.is_none());
    // Both are in use: other jobs wait, and what has to change does.
    let waits = |in_force: &Published, policy: &Policy| {
        let outcome = with_another(in_force, policy);
        (outcome.waits_for_lid, reason(&outcome))
    };
    assert_eq!(waits(&served, &using([true; 2])), (true, None));
    assert_eq!(waits(&served, &Policy { engine: "updown".into(), ..using([true; 2]) }), (true, None));
    assert_eq!(waits(&halfway, &using([true; 2])), (false, Some(Reason::FabricChanged)));
    assert_eq!(waits(&served, &using([false, true])), (false, Some(Reason::JobsChanged)));
    assert!(!decided(&served, &using([true; 2])).waits_for_lid);
}

/// Jobs that asked for their layer go on with it, so their routes must stay where they are on it.
#[test]
fn jobs_that_were_told_a_layer_keep_their_routes_where_the_new_ones_are_on_another() {
    let (fabric, served) = served();
    let layer = |n| Layer::new(n).unwrap();
    let policy = Policy { budget: budget(2), ..policy("updown") };
    let other = Arc::new(fixture::tables(&fabric, "updown", 1));
    let first = Published { engine: "updown".into(), tables: other, ..served };
    let second = Tables::clone(&first.tables).on_layer(layer(1));
    let second = Published { tables: Arc::new(second), ..first.clone() };
    let (new, job) = (made(with_another(&first, &policy)).tables, group(&[0, 4]));
    let is_led = |tables: &Tables, like: &Tables, t: usize| {
        let d = fabric.dest_of_terminal(TerminalId::at(t));
        (tables.ports_to(d), tables.layers_to(d)) == (like.ports_to(d), like.layers_to(d))
    };
    assert!([0, 4].iter().all(|t| !is_led(&new, &second.tables, *t)) && !is_led(&new, &first.tables, 0));
    let with = |in_force: &Published, told| {
        let told = Published { told: vec![(job.clone(), layer(told))], ..in_force.clone() };
        made(with_another(&told, &policy)).tables
    };
    let kept = with(&second, 1);
    for t in 0..16 {
        let like = if [0, 4].contains(&t) { &second.tables } else { &new };
        assert!(is_led(&kept, like, t), "terminal {t}");
    }
    // The new routes are on its layer; those of before are not either.
    assert_eq!(with(&first, 0), new);
    assert_eq!(with(&second, 0), new);
    assert_eq!(with(&first, 1), new);
}

#[test]
fn jobs_that_are_served_keep_their_routes_and_new_ones_get_good_ones() {
    let fabric = crate::lab::generate::generate("random:8,24,16,seed=3").unwrap();
    let nodes = nodes(&fabric);
    let policy = Policy { budget: budget(4), ..policy("balanced-efi") };
    let on = ["n[1-8]", "n[9-16]"];
    let first = made(plan(&fabric, &nodes, &jobs(&on[..1]), None, &policy).unwrap());
    let first = published(&fabric, &first, Promise::TOLD);
    let of =
        |in_force: Option<&Published>| made(plan(&fabric, &nodes, &jobs(&on), in_force, &policy).unwrap());
    let [fresh, next, again, taken] = [
        of(None),
        of(Some(&first)),
        of(Some(&Published { halfway: true, ..first.clone() })),
        of(Some(&Published { engine: "sssp".into(), ..first.clone() })),
    ];
    let moved = |plan: &Plan, n: usize| {
        let groups = nodes.place(&jobs(&on)).demand(&fabric, Storage::default()).groups;
        measure::moved_share(&fabric, &first.tables, &plan.tables, &[&groups[n]])
    };
    assert_eq!(moved(&next, 0), 0.0);
    assert!(moved(&next, 1) > 0.0);
    // The second of two steps does not begin with the first one's tables.
    assert_eq!(again.tables, fresh.tables);
    assert_ne!(next.tables, fresh.tables);
    assert_ne!(next.tables, taken.tables);
}

/// What counts of jobs on the small fabric, how many wait, and until when.
fn counted(jobs: Vec<Job>, in_force: &Demand, seconds: i64) -> (Vec<String>, usize, Option<DateTime<Utc>>) {
    let fabric = fixture::small();
    let policy = Policy { min_job_age: TimeDelta::seconds(seconds), ..policy("sssp") };
    let wanted = wanted(&fabric, &nodes(&fabric), &JobMap::new(NOW, jobs), Some(in_force), &policy);
    let ids = wanted.jobs.jobs.iter().map(|job| job.id.to_string()).collect();
    (ids, wanted.waiting, wanted.ripe)
}

#[test]
fn young_jobs_wait_unless_they_take_the_place_of_others() {
    let old = |id: &str, on: &str| job(id, JobState::Running, on, -1);
    let young = |id: &str, on: &str| Job { start: Some(NOW - TimeDelta::seconds(10)), ..old(id, on) };
    let ids = |ids: &[&str]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>();
    let none = Demand::default();
    let jobs = vec![old("1", "n[1,5]"), young("2", "n[2,6]"), young("3", "n[9-10]")];
    let ripe = Some(NOW + TimeDelta::seconds(20));
    assert_eq!(counted(jobs.clone(), &none, 30), (ids(&["1"]), 1, ripe));
    assert_eq!(counted(jobs.clone(), &none, 10), (ids(&["1", "2", "3"]), 0, None), "old enough just now");
    assert_eq!(counted(jobs.clone(), &none, 0), (ids(&["1", "2", "3"]), 0, None));
    assert_eq!(counted(jobs, &demand(&[&[1, 5]]), 30), (ids(&["1", "2"]), 0, None));
    // Each of the jobs served excuses one: an old one first.
    let twice = vec![young("1", "n[1,5]"), old("2", "n[1,5]"), young("3", "n[1,5]")];
    assert_eq!(counted(twice.clone(), &demand(&[&[0, 4]]), 30), (ids(&["2"]), 2, ripe));
    assert_eq!(counted(twice.clone(), &demand(&[&[0, 4], &[0, 4]]), 30), (ids(&["1", "2"]), 1, ripe));
    assert_eq!(counted(twice, &demand(&[&[0, 4], &[0, 4], &[0, 4]]), 30), (ids(&["1", "2", "3"]), 0, None));
    // A clock that is ahead makes nobody wait where no age is asked for.
    let ahead = vec![job("1", JobState::Running, "n[1,5]", 1)];
    assert_eq!(counted(ahead.clone(), &none, 0), (ids(&["1"]), 0, None));
    assert_eq!(counted(ahead, &none, 30).1, 1);
    let unknown = vec![Job { start: None, ..old("1", "n[1,5]") }];
    assert_eq!(counted(unknown, &none, 30), (ids(&["1"]), 0, None));
}
