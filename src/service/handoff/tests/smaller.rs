//! Jobs that come when what is in force is not what was made for them.

use super::*;

/// Found by the day of 10,000 jobs: a job on a part of the nodes of one that was served and is over was told that routes
/// for it are in force.
#[test]
fn routes_of_a_larger_job_that_is_over_are_not_those_of_a_smaller_one() {
    let mut handoff = HandOff::new(rules());
    handoff.announce(at(0), said(1, 0, "n[1-8]"));
    let demand = look(&mut handoff, 1, &[]);
    handoff.published(at(2), 1, &demand, false);
    handoff.ended(at(3), &JobId::new("1").unwrap());
    // A look that finds nothing to do: what the smaller job would gain is known to be too little.
    assert_eq!(handoff.announce(at(5_000), said(2, 0, "n[3-6]")), StartOrWait::Wait);
    handoff.merge(at(9_000), &view(9_000, &[]));
    handoff.kept(at(9_001));
    let told: Vec<Outcome> = outcomes(&mut handoff).into_iter().map(|(_, outcome, _)| outcome).collect();
    assert_eq!(told, [Outcome::InForce, Outcome::GoodEnough]);
    // The same nodes are the same routes.
    assert_eq!(handoff.announce(at(9_002), said(3, 0, "n[1-8]")), StartOrWait::Start(Outcome::InForce));
}

#[test]
fn what_was_in_force_is_forgotten_when_the_disk_has_another_epoch() {
    let mut handoff = HandOff::new(rules());
    handoff.announce(at(0), said(7, 0, "n[1,5]"));
    let demand = look(&mut handoff, 10, &[]);
    handoff.published(at(20), 3, &demand, false);
    handoff.take_released();
    handoff.confirm(Some(3));
    assert!(!handoff.take_replaced());
    assert_eq!(handoff.announce(at(30), said(7, 1, "n[1,5]")), StartOrWait::Start(Outcome::InForce));
    for on_disk in [Some(2), None] {
        let mut handoff = handoff.clone();
        handoff.confirm(on_disk);
        assert_eq!(handoff.announce(at(5_000), said(7, 2, "n[1,5]")), StartOrWait::Wait, "{on_disk:?}");
        assert!(handoff.take_replaced() && !handoff.take_replaced());
    }
}

/// A list that the source gave earlier, or a file: who started since is not in it.
#[test]
fn who_is_not_in_an_older_list_goes_on() {
    let mut handoff = HandOff::new(rules());
    handoff.announce(at(0), said(7, 0, "n[1,5]"));
    let demand = look(&mut handoff, 10, &[]);
    handoff.published(at(20), 3, &demand, false);
    assert_eq!(outcomes(&mut handoff), [("7".to_string(), Outcome::InForce, 20)]);
    let mut merged = |time: i64, as_of: i64| {
        let mut view = view(time, &[]);
        view.jobs.as_of = Some(at(as_of));
        handoff.merge(at(time), &view).jobs.len()
    };
    assert_eq!(merged(60_000, -1), 1);
    assert_eq!(merged(60_000, 4_000), 1, "the batch system may not list it yet");
    assert_eq!(merged(60_000, 59_000), 0);
}
