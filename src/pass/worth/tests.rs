use std::sync::Arc;

use super::*;
use crate::model::{JobId, Layer, TerminalId};
use crate::pass::tests::{NOW, budget, demand, group, in_force, job, nodes, policy};
use crate::publish::tests::fixture;

/// Of 100 seconds half are communication, and a change must be worth something.
const PRICE: Price = Price { min_gain: TimeDelta::seconds(5), communication: 50, ..Price::NONE };

/// The same, and the price falls so that there are twelve changes a day.
const FALLS: Price = Price { min_gain: TimeDelta::zero(), epochs_per_day: 12, ..PRICE };

fn is_near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

fn hours(hours: i64) -> TimeDelta {
    TimeDelta::hours(hours)
}

/// Two jobs of 4 and 8 nodes at slow-downs 2 and 1.5, for half an hour and three hours more, on a machine of 3,600 nodes:
/// node-hours are seconds of the whole machine.
fn question<'a>(
    fabric: &'a Fabric,
    in_force: &'a Published,
    demand: &'a Demand,
    price: Price,
) -> Question<'a> {
    let running = Running { demand: Demand::default(), nodes: vec![4.0, 8.0], hours: vec![0.5, 3.0] };
    let Before { begun, asked, hours: since } = Before::of(in_force, NOW);
    let (nodes, before) = (3600.0, vec![2.0, 1.5]);
    Question { fabric, in_force, demand, price, running, nodes, now: NOW, begun, asked, since, before }
}

#[test]
fn what_is_saved_is_a_share_of_the_time_that_communicates() {
    let price = Price { communication: 50, ..Price::NONE };
    // Half computes, half communicates twice as long: 1.5 becomes 1.25, or 1.
    assert!((price.saved(2.0, 1.5) - 0.25 / 1.5).abs() < 1e-12);
    assert!((price.lost(2.0) - 0.5 / 1.5).abs() < 1e-12);
    assert!(price.saved(1.5, 2.0) < 0.0);
    assert_eq!((price.saved(f64::INFINITY, 1.0), price.saved(1.0, f64::INFINITY)), (1.0, -1.0));
    assert_eq!(price.saved(f64::INFINITY, f64::INFINITY), 0.0);
    assert_eq!(Price { communication: 100, ..price }.saved(4.0, 1.0), 0.75);
}

#[test]
fn a_price_that_is_found_rises_with_each_change_and_falls_with_time() {
    let price = Price { epochs_per_day: 12, ..Price::NONE };
    // Of 3,600 nodes: node-hours are seconds of the whole machine.
    let asked = |before, hours| price.asked(3600.0, before, hours);
    assert_eq!((asked(None, 0.0), asked(None, 99.0)), (FIRST, FIRST));
    assert!((asked(Some(10.0), 0.0) - 12.0).abs() < 1e-9);
    assert!((asked(Some(10.0), 2.0) - 10.0).abs() < 1e-9, "twelve a day leave it as it is");
    assert!((asked(Some(10.0), 4.0) - 10.0 / 1.2).abs() < 1e-9);
    assert_eq!(asked(Some(10.0), 240.0), LEAST);
    let least = Price { min_gain: TimeDelta::seconds(5), ..price };
    assert_eq!(least.asked(3600.0, Some(10.0), 240.0), 5.0);
    assert_eq!(Price { epochs_per_day: 0, ..least }.asked(3600.0, Some(10.0), 0.0), 5.0, "a fixed one");
    assert!((price.hours_to_fall(1.2) - 2.0).abs() < 1e-9);
    assert!(Price::NONE.is_none() && !price.is_none() && !least.is_none());
}

#[test]
fn a_time_limit_says_how_long_a_job_goes_on_else_its_age() {
    let now = DateTime::<Utc>::UNIX_EPOCH + TimeDelta::days(1);
    let job = |state, start: Option<i64>, end: Option<i64>| {
        let at = |hours: i64| now + TimeDelta::hours(hours);
        let job = Job::new(JobId::new("1").unwrap(), state, Vec::new(), start.map(at)).ending(end.map(at));
        hours_left(&job, now)
    };
    assert_eq!(job(JobState::Running, Some(-1), Some(5)), 5.0);
    assert_eq!(job(JobState::Running, Some(-7), None), 7.0);
    assert_eq!(job(JobState::Configuring, None, None), 1.0);
    assert_eq!(job(JobState::Running, Some(-7), Some(-1)), 0.0);
    assert_eq!(job(JobState::Suspended, Some(-1), Some(5)), 0.0);
    assert_eq!(job(JobState::Completing, Some(-1), Some(5)), 0.0);
}

#[test]
fn jobs_that_compute_on_several_switches_run() {
    let fabric = fixture::small();
    let ending = |job: Job, end: i64| job.ending(Some(NOW + hours(end)));
    let jobs = vec![
        ending(job("1", JobState::Running, "n[1,5]", -1), 2),
        ending(job("2", JobState::Running, "n[2-3]", -1), 2),
        ending(job("3", JobState::Suspended, "n[9,13]", -1), 2),
        ending(job("4", JobState::Running, "n[10,14]", -9), 0),
        job("5", JobState::Running, "n[3,7,11]", -3),
    ];
    let running = Running::of(&fabric, &nodes(&fabric), &JobMap::new(NOW, jobs));
    assert_eq!((&running.nodes, &running.hours), (&vec![2.0, 3.0], &vec![2.0, 3.0]));
    assert_eq!(running.demand.groups, [group(&[0, 4]), group(&[2, 6, 10])]);
    // A third of the time of two nodes, and nothing of the other three.
    assert!(is_near(running.lost(&[2.0, 1.0], PRICE), 2.0 / 3.0));
    assert_eq!(running.slowdowns(&fabric, &fixture::tables(&fabric, "sssp", 0)).len(), 2);
}

/// A third of 4 nodes' time for half an hour, and a fifth of 8 nodes' until the next change.
#[test]
fn a_gain_is_counted_to_the_end_of_a_job_or_to_the_next_change() {
    let (fabric, demand) = (fixture::small(), Demand::default());
    let in_force = in_force(&fabric, Demand::default());
    let gain = |price, since, after: [f64; 2]| {
        let question = Question { since, ..question(&fabric, &in_force, &demand, price) };
        question.gain(after.into_iter())
    };
    let (first, second) = (4.0 / 3.0 * 0.5, 8.0 / 5.0);
    // At a fixed price the next change is as far off as the last one, an hour at least.
    assert!(is_near(gain(PRICE, Some(2.0), [1.0; 2]), first + 2.0 * second));
    assert!(is_near(gain(PRICE, Some(9.0), [1.0; 2]), first + 3.0 * second));
    assert!(is_near(gain(PRICE, Some(0.1), [1.0; 2]), first + second));
    assert!(is_near(gain(PRICE, None, [1.0; 2]), first + second));
    assert!(is_near(gain(FALLS, Some(2.0), [1.0; 2]), first + second));
    assert!(is_near(gain(PRICE, Some(2.0), [2.0, 1.5]), 0.0));
    assert!(is_near(gain(FALLS, Some(2.0), [2.0, 1.0]), second));
}

#[test]
fn what_does_not_pay_is_asked_again_when_it_may() {
    let (fabric, demand) = (fixture::small(), Demand::default());
    let in_force = in_force(&fabric, Demand::default());
    let again = |price, since, gain, asked| {
        let question = Question { since, ..question(&fabric, &in_force, &demand, price) };
        question.again(gain, asked).map(|again| (again - NOW).num_seconds())
    };
    // Three times the gain takes three times as long as the two hours that are over.
    assert_eq!(again(PRICE, Some(2.0), 2.0, 6.0), Some(4 * 3600));
    assert_eq!(again(PRICE, Some(2.0), 0.2, 0.6), Some(4 * 3600), "however little it is");
    assert_eq!(again(PRICE, Some(2.0), 6.0, 6.0), None, "it pays");
    assert_eq!(again(PRICE, Some(2.0), 7.0, 6.0), None);
    assert_eq!(again(PRICE, None, 2.0, 6.0), None, "nobody knows how long it has been wanted");
    assert_eq!(again(PRICE, Some(2.0), 6.0, 6.001), Some(SOONEST));
    assert_eq!(again(PRICE, Some(2.0), 1.0, 84.0), Some(166 * 3600));
    assert_eq!(again(PRICE, Some(2.0), 1.0, 85.0), None, "not within a week");
    for gain in [0.0, -1.0] {
        assert_eq!([again(PRICE, Some(2.0), gain, 6.0), again(FALLS, Some(2.0), gain, 6.0)], [None; 2]);
    }
    // By a factor of 1.2 in two hours, and down to a second of the machine.
    assert_eq!(again(FALLS, Some(2.0), 10.0, 12.0), Some(2 * 3600));
    assert_eq!(again(FALLS, None, 10.0, 12.0), Some(2 * 3600));
    assert_eq!(again(FALLS, Some(2.0), LEAST, 1.2 * LEAST), Some(2 * 3600));
    assert_eq!(again(FALLS, Some(2.0), 0.99 * LEAST, 1.2 * LEAST), None);
}

#[test]
fn what_no_routes_could_save_enough_of_is_refused_before_any_are_made() {
    let (fabric, demand) = (fixture::small(), Demand::default());
    let in_force = Published { asked: Some(10.0), ..in_force(&fabric, Demand::default()) };
    let most = 4.0 / 3.0 * 0.5 + 8.0 / 5.0;
    let with = |price: Price| question(&fabric, &in_force, &demand, price);
    let worth = with(FALLS).unrouted();
    assert!(is_near(worth.at_most, most) && is_near(worth.price, 10.0), "{worth:?}");
    assert!(is_near(worth.slowdown, 3f64.sqrt()) && worth.not_before.is_none(), "{worth:?}");
    assert_eq!((worth.asked, worth.gain), (worth.price, None));
    assert_eq!(worth.to_string(), "at most 2.267 node-hours, price 10.000");
    assert_eq!(with(FALLS).refused(), Some(worth));
    // No price but the time since the last change: two hours.
    let pause = |pause| Price { min_pause: pause, min_gain: TimeDelta::seconds(1), ..PRICE };
    assert_eq!(with(pause(hours(2))).refused(), None);
    let worth = with(pause(hours(3))).refused().unwrap();
    assert_eq!(worth.not_before, Some(NOW + hours(1)));
    // Where the clock was set back, nobody knows how long ago that was, and nothing waits for it.
    let ahead = Published { since: Some(NOW + hours(24)), ..in_force.clone() };
    let ahead = |price: Price| question(&fabric, &ahead, &demand, price);
    assert_eq!(ahead(pause(hours(3))).refused(), None);
    assert_eq!((ahead(FALLS).asked, ahead(FALLS).begun), (None, None));
    // What saves just the price is routed for.
    let running = Running { demand: Demand::default(), nodes: vec![3.0], hours: vec![1.0] };
    let exact = Question { running, before: vec![2.0], ..with(pause(hours(0))) };
    let worth = exact.unrouted();
    assert_eq!((worth.at_most, worth.price, exact.refused()), (1.0, 1.0, None));
}

#[test]
fn a_change_pays_that_saves_its_price_and_is_not_too_soon() {
    let worth = |gain, not_before| Worth {
        gain,
        at_most: 9.0,
        price: 2.0,
        asked: 2.0,
        slowdown: 1.5,
        slowdown_after: None,
        moved: None,
        changed_blocks: None,
        not_before,
        again: None,
    };
    let pays = [2.0, 2.1, 1.9].map(|gain| worth(Some(gain), None).is_paid());
    assert_eq!(pays, [true, true, false]);
    assert!(!worth(None, None).is_paid() && !worth(Some(5.0), Some(NOW)).is_paid());
    assert_eq!(worth(Some(1.5), None).to_string(), "1.500 node-hours, price 2.000");
}

/// Tables in which destinations are led over other cables to the spines.
fn over_other_cables(fabric: &Fabric, tables: &Tables, terminals: &[usize]) -> Tables {
    let n = fabric.switches().len();
    tables.clone().edited(|ports, _| {
        for d in terminals.iter().map(|t| fabric.dest_of_terminal(TerminalId::at(*t))) {
            for s in fabric.switch_ids().filter(|s| fabric.has_hosts(*s) && *s != fabric.home(d)) {
                let at = &mut ports[d.index() * n + s.index()];
                let mut up = fabric.out(s).iter().map(|c| fabric.channel(*c).from_port.get());
                *at = up.find(|port| port != at).unwrap();
            }
        }
    })
}

/// The price rises by a quarter of the share of connections that are moved: inside jobs that were served before and still run.
#[test]
fn connections_that_move_make_a_change_dearer() {
    let fabric = fixture::small();
    let judged = |served: &[&[usize]], wanted: &[&[usize]], others: &[usize]| {
        let (served, wanted) = (in_force(&fabric, demand(served)), demand(wanted));
        let tables = over_other_cables(&fabric, &served.tables, others);
        let running = Running { demand: wanted.clone(), nodes: vec![3.0, 2.0], hours: vec![1.0; 2] };
        let before = running.slowdowns(&fabric, &served.tables);
        Question { running, before, ..question(&fabric, &served, &wanted, PRICE) }.judged(&tables)
    };
    // A job that is over, the largest one, and one that is new.
    let (served, wanted): ([&[usize]; 2], [&[usize]; 2]) =
        ([&[0, 4, 8, 12], &[1, 5, 9]], [&[1, 5, 9], &[2, 6]]);
    let worth = judged(&served, &wanted, &[0, 4, 2, 6]);
    assert_eq!((worth.moved, worth.price, worth.asked), (Some(0.0), 5.0, 5.0));
    assert!(worth.gain.is_some() && worth.slowdown_after.is_some(), "{worth:?}");
    // Two of six connections.
    let worth = judged(&served, &wanted, &[1]);
    assert!(is_near(worth.moved.unwrap(), 1.0 / 3.0) && is_near(worth.price, 5.0 * 13.0 / 12.0), "{worth:?}");
    assert_eq!((worth.asked, worth.changed_blocks), (5.0, Some(3)));
    // One of two jobs on the same nodes is over: two of eight.
    let worth = judged(&[&[1, 5, 9], &[1, 5, 9], &[0, 4]], &[&[1, 5, 9], &[0, 4]], &[1]);
    assert_eq!(worth.moved, Some(0.25));
}

#[test]
fn there_is_no_question_where_every_difference_is_wanted_or_a_promise_is_at_stake() {
    let fabric = fixture::small();
    let (nodes, jobs) = (nodes(&fabric), JobMap::new(NOW, Vec::new()));
    let wanted = demand(&[&[0, 4], &[1, 5, 9]]);
    let one_layer = in_force(&fabric, wanted.clone());
    // The job on the first two leaves has its routes to one of them on another layer.
    let at = fabric.dest_of_terminal(TerminalId::at(0));
    let at = at.index() * fabric.switches().len()
        + fabric.home(fabric.dest_of_terminal(TerminalId::at(4))).index();
    let tables = Tables::clone(&one_layer.tables).edited(|_, layers| layers[at] = 1);
    let two_layers = Published { tables: Arc::new(tables), ..one_layer.clone() };
    let second = Tables::clone(&one_layer.tables).on_layer(Layer::new(1).unwrap());
    let second = Published { tables: Arc::new(second), ..one_layer.clone() };
    let question = |in_force: Option<&Published>, price, layers: u64, layer_per_job| {
        let policy = Policy { price, layer_per_job, budget: budget(layers), ..policy("sssp") };
        let question = Question::new((&fabric, &nodes), &jobs, &wanted, in_force, &policy);
        question.map(|question| (question.since, question.nodes))
    };
    let asked = Some((Some(2.0), 16.0));
    assert_eq!(question(Some(&one_layer), PRICE, 1, false), asked);
    assert_eq!(question(None, PRICE, 1, false), None);
    assert_eq!(question(Some(&one_layer), Price::NONE, 1, false), None);
    assert_eq!(question(Some(&one_layer), PRICE, 1, true), asked);
    assert_eq!(question(Some(&two_layers), PRICE, 2, false), asked);
    assert_eq!(question(Some(&two_layers), PRICE, 2, true), None, "a job on several layers");
    assert_eq!(question(Some(&second), PRICE, 2, true), asked, "all of it on one layer, if not the first");
    assert_eq!(question(Some(&two_layers), PRICE, 1, false), None, "more layers than there are");
    let ahead = Published { since: Some(NOW + hours(1)), ..one_layer.clone() };
    assert_eq!(question(Some(&ahead), PRICE, 1, false), Some((None, 16.0)), "the clock was set back");
    let unknown = Published { since: None, ..one_layer };
    assert_eq!(question(Some(&unknown), PRICE, 1, false), Some((None, 16.0)));
}
