//! How the service is, in one word.

use chrono::Utc;
use sarouter::publish::Hold;
use sarouter::service::health::{Health, Reader, State};

#[test]
fn the_state_is_the_word_that_matters_most() {
    let now = Utc::now();
    let mut health = Health::new(now, true);
    assert_eq!(health.state(), State::Live);
    health.reader = Some(Reader::Nobody);
    assert_eq!(health.state(), State::DryRun);
    health.reader = Some(Reader::Opensm);
    assert_eq!(health.state(), State::Live);
    health.waits_for_opensm = Some(now);
    assert_eq!(health.state(), State::WaitingForOpensm);
    // Who reads a file, or fetches tables of a job, acknowledges nothing.
    for reader in [Reader::File, Reader::Nodes] {
        let health = Health { reader: Some(reader), ..health.clone() };
        assert_eq!(health.state(), State::Live);
    }
    health.held = Some(Hold { since: now, epoch: None, reason: String::new(), by: None });
    assert_eq!(health.state(), State::Held);
    health.ended = Some(now);
    assert_eq!(health.state(), State::Stopped);
    let words = [State::DryRun, State::WaitingForOpensm].map(|state| serde_json::to_value(state).unwrap());
    assert_eq!(words, ["dry_run", "waiting_for_opensm"]);
}
