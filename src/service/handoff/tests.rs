//! A fabric of 16 nodes under 4 leaves: n1 to n4, n5 to n8, …

mod failing;
mod smaller;
use proptest::prelude::*;

use super::*;
use crate::lab::generate::generate;
use crate::model::{Component, Job, JobMap, JobState, LayerBudget, Submission};
use crate::observe::hostlist;
use crate::observe::nodes::{NodeNames, name_hosts};
use crate::pass::plan::{self, Policy};
use crate::pass::step::View;

fn at(milliseconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_700_000_000_000 + milliseconds).unwrap()
}

fn rules() -> Rules {
    Rules {
        deadline: TimeDelta::seconds(10),
        min_nodes: 2,
        min_length: TimeDelta::seconds(60),
        reroute_interval: TimeDelta::seconds(4),
        max_pending: 3,
        away: TimeDelta::seconds(2),
    }
}

fn said(job: u32, restart: u32, nodes: &str) -> Announcement {
    let job = JobId::new(job.to_string()).unwrap();
    let start = StartId::new(job, restart, hostlist::expand(nodes).unwrap());
    let submission = Submission::default();
    Announcement { start, length: None, patience: TimeDelta::seconds(30), submission }
}

/// What a look at `time` sees: `ID HOSTLIST STATE` lines of running jobs.
fn view(time: i64, jobs: &[(u32, &str, Option<i64>)]) -> View {
    let fabric = generate("fattree:4x4,2").unwrap();
    let nodes = Arc::new(name_hosts(&fabric, &NodeNames::default()));
    let job = |(id, nodes, minutes): &(u32, &str, Option<i64>)| {
        let start = at(time - 100);
        let id = JobId::new(id.to_string()).unwrap();
        Job::new(id, JobState::Configuring, hostlist::expand(nodes).unwrap(), Some(start))
            .ending(minutes.map(|m| start + TimeDelta::minutes(m)))
    };
    let policy = Policy {
        min_job_age: TimeDelta::hours(1),
        ..Policy::new("sssp", LayerBudget::new(8).unwrap(), crate::model::Promise::TOLD)
    };
    View::new(Arc::new(fabric), nodes, JobMap::new(at(time), jobs.iter().map(job).collect()), policy)
}

/// A look at `time` with these jobs, and the demand that the pass then routes for.
fn look(handoff: &mut HandOff, time: i64, jobs: &[(u32, &str, Option<i64>)]) -> Demand {
    let view = view(time, jobs);
    let merged = handoff.merge(at(time), &view);
    plan::wanted(&view.fabric, &view.nodes, &merged, None, &view.policy).demand
}

fn outcomes(handoff: &mut HandOff) -> Vec<(String, Outcome, i64)> {
    let released = handoff.take_released();
    released.into_iter().map(|r| (r.start.job.to_string(), r.outcome, r.waited.num_milliseconds())).collect()
}

#[test]
fn a_component_under_one_switch_waits_for_the_routes_of_the_whole_job() {
    let mut handoff = HandOff::new(rules());
    // No look yet: nothing tells that it is under one switch.
    assert_eq!(handoff.announce(at(0), said(8, 0, "n[5-6]")), StartOrWait::Wait);
    let mut view = view(1, &[(7, "n[1-2]", None), (8, "n[5-6]", None)]);
    let of = JobId::new("7").unwrap();
    for (job, offset) in view.jobs.jobs.iter_mut().zip(0..) {
        job.component = Some(Component { of: of.clone(), offset });
    }
    let merged = handoff.merge(at(1), &view);
    assert_eq!(outcomes(&mut handoff), []);
    let demand = plan::wanted(&view.fabric, &view.nodes, &merged, None, &view.policy).demand;
    assert_eq!(demand.groups.iter().map(|g| g.terminals.len()).collect::<Vec<_>>(), [4]);
    handoff.published(at(2), 1, &demand, false);
    assert_eq!(outcomes(&mut handoff), [("8".into(), Outcome::InForce, 2)]);
    // Nor may its prolog be told so before Slurm lists it, however few nodes it has.
    let component = |id, nodes| {
        let Announcement { start, .. } = said(id, 0, nodes);
        Announcement { start: start.component(true), ..said(id, 0, nodes) }
    };
    assert_eq!(handoff.announce(at(5_000), component(9, "n9")), StartOrWait::Wait);
    assert_eq!(handoff.announce(at(5_000), said(10, 0, "n[9-10]")), StartOrWait::Start(Outcome::OneSwitch));
    look(&mut handoff, 5_001, &[]);
    assert_eq!(outcomes(&mut handoff), [], "it waits for the pass");
}

#[test]
fn a_job_starts_when_opensm_has_the_epoch_that_was_made_for_it() {
    let mut handoff = HandOff::new(rules());
    assert_eq!(handoff.announce(at(0), said(7, 0, "n[1,5]")), StartOrWait::Wait);
    assert_eq!(handoff.due(true), Some(DateTime::<Utc>::MIN_UTC));
    assert!(handoff.wants_look(at(0)));
    assert!(!handoff.wants_look(at(1)), "one look is enough");
    assert_eq!((handoff.due(true), handoff.due(false)), (Some(at(10_000)), Some(at(10_000))));
    // squeue does not list it yet, and no job is old enough: it counts nevertheless.
    let demand = look(&mut handoff, 10, &[(3, "n[2,6]", None)]);
    assert_eq!(demand.groups.len(), 1);
    handoff.published(at(20), 1, &demand, true);
    assert_eq!(outcomes(&mut handoff), []);
    // An older epoch is not enough.
    handoff.acknowledged(at(25), 0);
    assert_eq!(outcomes(&mut handoff), []);
    assert!(handoff.awaits_acknowledgement());
    handoff.acknowledged(at(30), 1);
    assert_eq!(outcomes(&mut handoff), [("7".into(), Outcome::InForce, 30)]);
    assert_eq!(handoff.announce(at(40), said(7, 0, "n[5,1]")), StartOrWait::Start(Outcome::InForce));
    // The next job on these nodes finds its routes in force.
    handoff.ended(at(50), &JobId::new("7").unwrap());
    assert_eq!(handoff.announce(at(60), said(8, 0, "n[1,5]")), StartOrWait::Start(Outcome::InForce));
    assert_eq!(handoff.announce(at(60), said(9, 0, "n[1-2]")), StartOrWait::Start(Outcome::OneSwitch));
}

/// The mixes of a demand's groups.
fn mixes(demand: &Demand) -> Vec<String> {
    demand.groups.iter().map(|group| group.mix.to_string()).collect()
}

#[test]
fn what_a_job_said_at_its_start_counts_while_it_is_there() {
    let mut handoff = HandOff::new(rules());
    let ring = |job, nodes: &str| {
        let said = said(job, 0, nodes);
        let traffic = Some(Traffic::said("ring".parse().unwrap()));
        Announcement { start: said.start.clone().exchanging(traffic), ..said }
    };
    let listed: &[(u32, &str, Option<i64>)] = &[(7, "n[1,5]", None)];
    handoff.announce(at(0), ring(7, "n[1,5]"));
    // Whether it is listed yet or not.
    for jobs in [&[], listed] {
        assert_eq!(mixes(&look(&mut handoff, 10, jobs)), ["ring"]);
    }
    let demand = look(&mut handoff, 20, listed);
    handoff.published(at(30), 1, &demand, false);
    assert_eq!(outcomes(&mut handoff), [("7".into(), Outcome::InForce, 30)]);
    assert_eq!(mixes(&look(&mut handoff, 60_000, listed)), ["ring"]);
    handoff.found(at(60_001), 1, &demand, false);
    // What its comment says now counts more.
    let mut now = view(60_010, listed);
    now.jobs.jobs[0].mix = "linear".parse().ok();
    assert_eq!(handoff.merge(at(60_010), &now).jobs[0].mix, "linear".parse().ok());
    handoff.found(at(60_011), 1, &demand, false);
    // Routes for a ring are not those for whoever says nothing.
    handoff.ended(at(60_020), &JobId::new("7").unwrap());
    assert_eq!(handoff.announce(at(60_030), said(8, 0, "n[1,5]")), StartOrWait::Wait);
    assert_eq!(handoff.announce(at(60_030), ring(9, "n[1,5]")), StartOrWait::Start(Outcome::InForce));
    // Started again without a word.
    let merged = handoff.merge(at(60_040), &view(60_040, listed));
    let of: Vec<_> = merged.jobs.iter().map(|job| (job.id.as_str(), job.mix.is_some())).collect();
    assert_eq!(of, [("7", false), ("8", false), ("9", true)]);

    // A service that comes later is told what was kept, and forgets whose end nobody announced.
    let mut handoff = HandOff::new(rules());
    let kept = BTreeMap::from([(JobId::new("5").unwrap(), Traffic::said("ring".parse().unwrap()))]);
    handoff.remember_traffic(at(0), kept);
    let of = |handoff: &mut HandOff, time, jobs: &[(u32, &str, Option<i64>)]| {
        handoff.merge(at(time), &view(time, jobs)).jobs.first().and_then(|job| job.mix.clone())
    };
    assert_eq!(of(&mut handoff, 1_000, &[]), None);
    assert_eq!(of(&mut handoff, 2_000, &[(5, "n[1,5]", None)]), "ring".parse().ok());
    assert_eq!(of(&mut handoff, 9_000, &[]), None);
    assert_eq!(of(&mut handoff, 10_000, &[(5, "n[1,5]", None)]), None);
}

/// Found with real daemons: a job took another's place at once, and the epoch in the making took its routes away.
#[test]
fn routes_that_a_job_finds_in_force_stay() {
    let mut handoff = HandOff::new(rules());
    let demand = look(&mut handoff, 0, &[]);
    handoff.published(at(1), 1, &demand, false);
    handoff.announce(at(2), said(1, 0, "n[1,5]"));
    let demand = look(&mut handoff, 5_000, &[]);
    handoff.published(at(5_001), 2, &demand, false);
    handoff.ended(at(5_002), &JobId::new("1").unwrap());
    assert_eq!(handoff.announce(at(5_003), said(2, 0, "n[1,5]")), StartOrWait::Start(Outcome::InForce));
    // Slurm was asked before it knew of the job.
    let demand = look(&mut handoff, 5_004, &[]);
    assert_eq!(demand.groups.len(), 1);
    // Announced after the look, while the epoch without it is computed.
    handoff.ended(at(5_005), &JobId::new("2").unwrap());
    assert_eq!(handoff.announce(at(5_006), said(3, 0, "n[1,5]")), StartOrWait::Wait);
    handoff.kept(at(5_007));
    assert!(handoff.wants_look(at(9_002)));
    assert_eq!(look(&mut handoff, 9_002, &[]).groups.len(), 1);
    assert_eq!(
        outcomes(&mut handoff),
        [("1".into(), Outcome::InForce, 4_999), ("3".into(), Outcome::InForce, 3_996)]
    );
}

#[test]
fn what_came_during_a_computation_waits_for_the_next_one_and_the_interval() {
    let mut handoff = HandOff::new(rules());
    handoff.announce(at(0), said(1, 0, "n[1,5]"));
    assert!(handoff.wants_look(at(0)));
    let first = look(&mut handoff, 10, &[]);
    handoff.announce(at(20), said(2, 0, "n[2,6]"));
    handoff.published(at(30), 1, &first, true);
    handoff.acknowledged(at(40), 1);
    assert_eq!(outcomes(&mut handoff), [("1".into(), Outcome::InForce, 40)]);
    // At most one computation in four seconds.
    assert!(!handoff.wants_look(at(50)));
    assert_eq!(handoff.due(true), Some(at(4030)));
    assert!(handoff.wants_look(at(4030)));
    let second = look(&mut handoff, 4040, &[(1, "n[1,5]", None)]);
    assert_eq!(second.groups.len(), 2, "both jobs count");
    handoff.published(at(4050), 2, &second, true);
    // A job whose deadline comes before the next computation may begin does not wait in vain.
    let impatient = Announcement { patience: TimeDelta::seconds(2), ..said(3, 0, "n[3,7]") };
    assert_eq!(handoff.announce(at(4060), impatient), StartOrWait::Start(Outcome::NextPass));
    handoff.acknowledged(at(4070), 2);
    assert_eq!(outcomes(&mut handoff), [("2".into(), Outcome::InForce, 4050)]);
}

#[test]
fn an_epoch_that_overtakes_serves_those_before_it_too() {
    let mut handoff = HandOff::new(rules());
    handoff.announce(at(0), said(1, 0, "n[1,5]"));
    let demand = look(&mut handoff, 10, &[]);
    handoff.published(at(20), 4, &demand, true);
    handoff.announce(at(30), said(2, 0, "n[2,6]"));
    let demand = look(&mut handoff, 40, &[(1, "n[1,5]", None)]);
    handoff.published(at(50), 5, &demand, true);
    handoff.acknowledged(at(60), 5);
    assert_eq!(outcomes(&mut handoff).len(), 2);
}

#[test]
fn deadlines_are_kept_whatever_happens() {
    let mut handoff = HandOff::new(rules());
    handoff.announce(at(0), said(1, 0, "n[1,5]"));
    let short = Announcement { patience: TimeDelta::milliseconds(500), ..said(2, 0, "n[2,6]") };
    handoff.announce(at(0), short);
    let demand = look(&mut handoff, 10, &[]);
    handoff.tick(at(499));
    assert_eq!(outcomes(&mut handoff), []);
    handoff.tick(at(500));
    assert_eq!(outcomes(&mut handoff), [("2".into(), Outcome::Deadline, 500)]);
    handoff.published(at(600), 1, &demand, true);
    handoff.tick(at(9_999));
    assert_eq!(outcomes(&mut handoff), []);
    handoff.tick(at(10_000));
    assert_eq!(outcomes(&mut handoff), [("1".into(), Outcome::Deadline, 10_000)]);
    assert_eq!(handoff.counters().started[&Outcome::Deadline], 2);
    // It is told the same when it asks again, and still counts in the next pass.
    assert_eq!(handoff.announce(at(10_001), said(1, 0, "n[1,5]")), StartOrWait::Start(Outcome::Deadline));
    assert_eq!(look(&mut handoff, 10_100, &[(1, "n[1,5]", None)]).groups.len(), 1);
}

#[test]
fn failures_are_tried_again_after_a_pause() {
    let mut handoff = HandOff::new(rules());
    handoff.announce(at(0), said(1, 0, "n[1,5]"));
    assert!(handoff.wants_look(at(0)));
    handoff.failed(at(100));
    assert!(!handoff.wants_look(at(200)));
    assert_eq!(handoff.due(true), Some(at(1100)));
    assert!(handoff.wants_look(at(1100)));
    look(&mut handoff, 1200, &[]);
    handoff.failed(at(1300));
    assert!(handoff.wants_look(at(2300)));
    let demand = look(&mut handoff, 2400, &[]);
    handoff.published(at(2500), 1, &demand, false);
    assert_eq!(outcomes(&mut handoff), [("1".into(), Outcome::InForce, 2500)]);
}

#[test]
fn a_restarted_controller_announces_again_perhaps_on_other_nodes() {
    let mut handoff = HandOff::new(rules());
    handoff.announce(at(0), said(1, 0, "n[1,5]"));
    assert_eq!(handoff.announce(at(5), said(1, 0, "n[5,1]")), StartOrWait::Wait);
    assert_eq!(handoff.announce(at(10), said(1, 1, "n[2,6]")), StartOrWait::Wait);
    assert_eq!(outcomes(&mut handoff), [("1".into(), Outcome::Superseded, 10)]);
    // The first start speaks once more, late.
    assert_eq!(handoff.announce(at(20), said(1, 0, "n[1,5]")), StartOrWait::Start(Outcome::Superseded));
    let demand = look(&mut handoff, 30, &[(1, "n[1,5]", None)]);
    let fabric = view(0, &[]).fabric;
    let names: Vec<&str> =
        demand.groups[0].terminals.iter().map(|t| fabric.terminal(*t).description.as_str()).collect();
    assert_eq!(names, ["n2", "n6"], "the announcement is newer than the list");
    let counters = handoff.counters();
    assert_eq!((counters.announced, counters.repeated, counters.changed, counters.waiting), (4, 1, 1, 1));
}

#[test]
fn starts_without_an_end_are_forgotten_and_ends_without_a_start_ignored() {
    let mut handoff = HandOff::new(rules());
    handoff.ended(at(0), &JobId::new("99").unwrap());
    assert_eq!((handoff.counters().ended, handoff.counters().ended_unknown), (1, 1));
    // Cancelled while it waits: listed once, then not any more.
    handoff.announce(at(0), said(1, 0, "n[1,5]"));
    look(&mut handoff, 10, &[(1, "n[1,5]", None)]);
    assert_eq!(look(&mut handoff, 20, &[]).groups.len(), 0);
    assert_eq!(outcomes(&mut handoff), [("1".into(), Outcome::Gone, 20)]);
    // Never listed: given time, then forgotten.
    handoff.announce(at(100), said(2, 0, "n[2,6]"));
    let demand = look(&mut handoff, 110, &[]);
    handoff.published(at(120), 1, &demand, false);
    assert_eq!(look(&mut handoff, 5_000, &[]).groups.len(), 1);
    assert_eq!(look(&mut handoff, 5_200, &[]).groups.len(), 0);
    assert_eq!(handoff.counters().unended, 2);
    // A job that the batch system has on other nodes by now is its, not ours.
    handoff.announce(at(6_000), said(3, 0, "n[3,7]"));
    let demand = look(&mut handoff, 6_010, &[(3, "n[3,7]", None)]);
    handoff.published(at(6_020), 2, &demand, false);
    assert_eq!(look(&mut handoff, 6_100, &[(3, "n[4,8]", None)]).groups.len(), 0, "it is young");
    assert_eq!(handoff.counters().unended, 3);
}

#[test]
fn small_short_and_too_many_jobs_join_the_next_pass() {
    let mut handoff = HandOff::new(Rules { min_nodes: 3, ..rules() });
    assert_eq!(handoff.announce(at(0), said(1, 0, "n[1,5]")), StartOrWait::Start(Outcome::NextPass));
    let brief = Announcement { length: Some(TimeDelta::seconds(59)), ..said(2, 0, "n[1,5,9]") };
    assert_eq!(handoff.announce(at(0), brief), StartOrWait::Start(Outcome::NextPass));
    // The prolog does not know the time limit, squeue does.
    handoff.announce(at(0), said(3, 0, "n[1,5,9]"));
    handoff.announce(at(0), said(4, 0, "n[2,6,10]"));
    handoff.announce(at(0), said(5, 0, "n[1-4]"));
    assert_eq!(handoff.announce(at(0), said(6, 0, "n[4,8,12]")), StartOrWait::Start(Outcome::Full));
    let demand = look(&mut handoff, 10, &[(3, "n[1,5,9]", Some(0)), (4, "n[2,6,10]", Some(5))]);
    assert_eq!(
        outcomes(&mut handoff),
        [("3".into(), Outcome::NextPass, 10), ("5".into(), Outcome::OneSwitch, 10)]
    );
    assert_eq!(demand.groups.len(), 1, "a job that joins the next pass must be old enough");
}

#[test]
fn nobody_waits_while_an_administrator_holds_the_routes() {
    let mut handoff = HandOff::new(rules());
    handoff.announce(at(0), said(1, 0, "n[1,5]"));
    handoff.hold(at(5), true);
    assert_eq!(outcomes(&mut handoff), [("1".into(), Outcome::Held, 5)]);
    assert_eq!(handoff.announce(at(6), said(2, 0, "n[2,6]")), StartOrWait::Start(Outcome::Held));
    handoff.hold(at(7), false);
    assert_eq!(handoff.announce(at(8), said(3, 0, "n[3,7]")), StartOrWait::Wait);
}

/// What can happen, in any order.
#[derive(Debug, Clone)]
enum Move {
    Announce(u32, u32, usize, i64),
    End(u32),
    Look(Vec<(u32, usize)>),
    Fail,
    Keep,
    Publish,
    Acknowledge,
    Hold(bool),
}

const PLACES: [&str; 5] = ["n[1,5]", "n[2,6]", "n[1,5,9,13]", "n[1-2]", "n[3,99]"];

fn moves() -> impl Strategy<Value = (i64, Move)> {
    let what = prop_oneof![
        5 => (0..6u32, 0..3u32, 0..PLACES.len(), 0..15_000i64).prop_map(|(j, r, n, p)| Move::Announce(j, r, n, p)),
        2 => (0..6u32).prop_map(Move::End),
        3 => proptest::collection::vec((0..6u32, 0..PLACES.len()), 0..4).prop_map(Move::Look),
        1 => Just(Move::Fail),
        1 => Just(Move::Keep),
        3 => Just(Move::Publish),
        3 => Just(Move::Acknowledge),
        1 => any::<bool>().prop_map(Move::Hold),
    ];
    (0..3000i64, what)
}

proptest! {
    /// Nobody waits longer than the deadline; nobody is told that routes are in force who is not in
    /// the demand of an acknowledged epoch; memory is bounded.
    #[test]
    fn laws(moves in proptest::collection::vec(moves(), 1..60)) {
        let mut handoff = HandOff::new(rules());
        let (mut now, mut epoch) = (0, 0u64);
        let mut demand = Demand::oblivious();
        // Demands of epochs, and the newest acknowledged.
        let (mut epochs, mut acknowledged) = (vec![Demand::oblivious()], 0u64);
        for (pause, step) in moves {
            now += pause;
            // The shell ticks when it is due.
            while let Some(due) = handoff.due(false).filter(|due| *due <= at(now)) {
                handoff.tick(due);
                prop_assert!(handoff.due(false).is_none_or(|next| next > due));
            }
            match step {
                Move::Announce(job, restart, place, patience) => {
                    let patience = TimeDelta::milliseconds(patience);
                    let answer = handoff.announce(at(now), Announcement { patience, ..said(job, restart, PLACES[place]) });
                    if answer == StartOrWait::Start(Outcome::InForce) {
                        prop_assert!(acknowledged > 0);
                    }
                }
                Move::End(job) => handoff.ended(at(now), &JobId::new(job.to_string()).unwrap()),
                Move::Look(mut jobs) => {
                    jobs.sort_unstable();
                    jobs.dedup_by_key(|j| j.0);
                    let jobs: Vec<_> = jobs.into_iter().map(|(j, p)| (j, PLACES[p], None)).collect();
                    demand = look(&mut handoff, now, &jobs);
                }
                Move::Fail => handoff.failed(at(now)),
                Move::Keep if epochs.last() == Some(&demand) => handoff.kept(at(now)),
                Move::Keep => {}
                Move::Publish => {
                    epoch += 1;
                    epochs.push(demand.clone());
                    handoff.published(at(now), epoch, &demand, true);
                }
                Move::Acknowledge => {
                    acknowledged = epoch;
                    handoff.acknowledged(at(now), epoch);
                }
                Move::Hold(held) => handoff.hold(at(now), held),
            }
            for released in handoff.take_released() {
                prop_assert!(released.waited <= rules().deadline, "{released:?}");
                if released.outcome == Outcome::InForce {
                    let group = view(now, &[]).nodes.ranks(&released.start.nodes).group();
                    let serves = epochs[acknowledged as usize].groups.contains(&group);
                    prop_assert!(serves, "{released:?}");
                }
            }
            prop_assert!(handoff.waiting() <= rules().max_pending);
            prop_assert!(handoff.starts.len() <= rules().max_pending * (REMEMBERED + 1));
        }
        // In the end everybody starts.
        handoff.tick(at(now) + rules().deadline);
        prop_assert_eq!(handoff.waiting(), 0);
        let Counters { started, announced, .. } = handoff.counters();
        prop_assert!(started.values().sum::<u64>() <= announced);
    }
}
