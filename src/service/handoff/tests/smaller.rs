//! Jobs on a part of the nodes of a larger one.

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
