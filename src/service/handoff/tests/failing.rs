//! Jobs that start while passes fail, or OpenSM is gone.

use super::*;

#[test]
fn while_passes_fail_nobody_waits_longer_than_for_a_service_that_is_gone() {
    let mut handoff = HandOff::new(rules());
    assert_eq!(handoff.announce(at(0), said(7, 0, "n[1,5]")), StartOrWait::Wait);
    handoff.pass_failed(at(1_000));
    handoff.tick(at(2_900));
    assert_eq!(outcomes(&mut handoff), []);
    handoff.tick(at(3_000));
    assert_eq!(outcomes(&mut handoff), [("7".to_string(), Outcome::Deadline, 3_000)]);
    // Those that come meanwhile may still be served, if the next pass goes well.
    assert_eq!(handoff.announce(at(4_000), said(8, 0, "n[2,6]")), StartOrWait::Wait);
    let demand = look(&mut handoff, 5_000, &[(8, "n[2,6]", None)]);
    handoff.published(at(5_100), 1, &demand, false);
    assert_eq!(outcomes(&mut handoff), [("8".to_string(), Outcome::InForce, 1_100)]);
    // Then there is time again.
    assert_eq!(handoff.announce(at(6_000), said(9, 0, "n[3,7]")), StartOrWait::Wait);
    handoff.tick(at(9_000));
    assert_eq!(outcomes(&mut handoff), []);
}

#[test]
fn nobody_waits_for_an_opensm_that_is_gone() {
    let mut handoff = HandOff::new(rules());
    assert_eq!(handoff.announce(at(0), said(7, 0, "n[1,5]")), StartOrWait::Wait);
    handoff.opensm_gone(at(5), true);
    assert_eq!(outcomes(&mut handoff), [("7".to_string(), Outcome::OpensmGone, 5)]);
    assert_eq!(handoff.announce(at(6), said(7, 0, "n[1,5]")), StartOrWait::Start(Outcome::OpensmGone));
    look(&mut handoff, 10, &[]);
    assert_eq!(handoff.announce(at(20), said(8, 0, "n[1,6]")), StartOrWait::Start(Outcome::OpensmGone));
    assert_eq!(handoff.announce(at(20), said(9, 0, "n[1-2]")), StartOrWait::Start(Outcome::OneSwitch));
    handoff.opensm_gone(at(30), false);
    assert_eq!(handoff.announce(at(40), said(10, 0, "n[2,6]")), StartOrWait::Wait);
}
