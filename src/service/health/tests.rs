use std::sync::{Arc, Mutex};

use super::*;
use crate::publish::EpochStore;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
}

fn failing(message: &str) -> Health {
    let mut health = Health::new(at(0), true);
    health.failed(Failure { time: at(5), stage: Stage::Publish, message: message.into() });
    health
}

#[test]
fn what_is_written_is_read_and_nothing_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Health::read(dir.path()).unwrap(), None);
    for health in [failing(&"x".repeat(9000)), failing("short")] {
        health.write(dir.path()).unwrap();
        assert_eq!(Health::read(dir.path()).unwrap(), Some(health));
    }
    std::fs::write(dir.path().join(HEALTH_FILE), "{").unwrap();
    assert!(Health::read(dir.path()).unwrap_err().to_string().contains(HEALTH_FILE));
}

#[test]
fn what_a_service_cannot_say_is_found_beside_its_lock() {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(dir.path()).unwrap();
    let now = Utc::now();
    let first_pass = now + PATIENCE + TimeDelta::seconds(5);
    let later = now + TimeDelta::minutes(11);
    let old = Health::new(now - TimeDelta::days(1), false);
    let unsaid = |health: Option<&Health>, now| Health::unsaid(&store, health, now).map(|t| (t.kind, t.text));
    assert_eq!(unsaid(None, later), None, "nobody serves");
    let serving = store.serve().unwrap();
    assert_eq!([now, first_pass].map(|now| unsaid(None, now)), [None, None], "its first pass is not over");
    // There is no file, or one of before.
    for health in [None, Some(&old)] {
        let (kind, text) = unsaid(health, later).unwrap();
        assert_eq!(kind, Kind::NoSpace);
        assert!(text.contains("health.json") && text.contains("df -h"), "{text}");
    }
    assert_eq!(unsaid(Some(&Health::new(later, true)), later), None);
    drop(serving);
    assert_eq!(unsaid(Some(&Health::new(now, true)), later), None, "this process lives");
    let killed = Health { pid: u32::MAX, ..Health::new(now, true) };
    assert_eq!(unsaid(Some(&killed), later).unwrap().0, Kind::Stopped);
    assert_eq!(unsaid(Some(&Health { serving: false, ..killed }), later), None);
}

#[test]
fn without_room_for_a_new_file_the_old_one_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    Health::new(at(0), true).write(dir.path()).unwrap();
    // A directory in the place of the new file stands for a disk without room.
    std::fs::create_dir(dir.path().join(format!("{HEALTH_FILE}.new"))).unwrap();
    failing("no space left on device").write(dir.path()).unwrap();
    assert_eq!(Health::read(dir.path()).unwrap(), Some(failing("no space left on device")));
    // What does not fit is not half written.
    assert!(failing(&"x".repeat(100_000)).write(dir.path()).is_err());
    assert_eq!(Health::read(dir.path()).unwrap(), Some(failing("no space left on device")));
}

#[test]
fn every_kind_of_trouble_is_found_and_keeps_its_beginning() {
    let mut health = Health::new(at(0), true);
    assert_eq!(health.found(at(1), PATIENCE), []);
    health.note_opensm(at(5), vec![(Kind::OpensmFellBack, "updn".into())]);
    health.note_opensm(at(9), vec![(Kind::OpensmSilent, "s".into()), (Kind::OpensmFellBack, "nue".into())]);
    let told: Vec<_> = health.found(at(9), PATIENCE).into_iter().map(|t| (t.kind, t.since, t.text)).collect();
    let [silent, fell] = [Kind::OpensmSilent, Kind::OpensmFellBack];
    assert_eq!(told, [(silent, at(9), "s".to_string()), (fell, at(5), "nue".to_string())]);
    health.note_opensm(at(10), Vec::new());
    assert_eq!(health.found(at(10), PATIENCE), []);
    health.unknown_nodes = ["a", "b", "c", "d", "e", "f"].map(|n| n.parse().unwrap()).to_vec();
    health.unknown_since = Some(at(3));
    let told = health.found(at(10), PATIENCE);
    assert_eq!((told.len(), told[0].kind, told[0].since), (1, Kind::UnknownNodes, at(3)));
    assert!(told[0].text.contains("a, b, c, d, e and 1 more"), "{}", told[0].text);
    health.ended = Some(at(11));
    assert_eq!(health.found(at(12), PATIENCE)[0].kind, Kind::Stopped);
    assert_eq!(Kind::OpensmFellBack.name(), "opensm_fell_back");
}

#[test]
fn troubles_are_named_until_they_are_over() {
    let mut health = failing("no space");
    health.failed(Failure { time: at(6), stage: Stage::Publish, message: "no space".into() });
    let patience = TimeDelta::seconds(120);
    let told = health.troubles(at(10), patience);
    assert_eq!(told, ["publication failed 2 times in a row, last at 2023-11-14 22:13:26 UTC: no space"]);
    health.succeeded(at(20));
    assert_eq!(health.troubles(at(21), patience), [""; 0]);
    health.next_pass = Some(at(80));
    assert_eq!(health.troubles(at(200), patience), [""; 0]);
    assert_eq!(health.troubles(at(201), patience).len(), 1);
    health.serving = false;
    assert_eq!(health.troubles(at(201), patience), [""; 0]);
}

#[test]
fn a_delivery_has_a_key_of_its_own_and_those_of_others_are_passed_over() {
    let mut health = Health::new(at(0), true);
    let written = |health: &Health| serde_json::to_value(health).unwrap();
    assert!(written(&health).as_object().unwrap()["lft_file"].is_null());
    health.note_delivery(at(1), "lft_file", Kind::LftFile, Some("stale".into()));
    health.note_delivery(at(2), "lft_file", Kind::LftFile, Some("missing".into()));
    let mut json = written(&health);
    let told = serde_json::json!({"kind": "lft_file", "since": at(1), "text": "missing"});
    assert_eq!(json["lft_file"], told);
    assert_eq!(health.troubles(at(3), PATIENCE), ["missing"]);
    // Of a later version, or beside it in an answer of the interface.
    json["problems"] = serde_json::json!(["missing"]);
    assert_eq!(serde_json::from_value::<Health>(json.clone()).unwrap(), health);
    json.as_object_mut().unwrap().remove("lft_file");
    let read = serde_json::from_value::<Health>(json).unwrap();
    assert_eq!(read, Health { deliveries: Health::new(at(0), true).deliveries, ..health });
}

#[test]
fn a_failure_is_dated_from_the_last_pass_that_ended_well() {
    let mut health = failing("no space");
    assert_eq!(health.troubles(at(6), PATIENCE), ["publication failed at 2023-11-14 22:13:25 UTC: no space"]);
    let since = |health: &Health| health.found(at(40), PATIENCE)[0].since;
    assert_eq!((since(&health), health.failures_in_row), (at(0), 1));
    assert_eq!(
        health.line(at(6)),
        format!("no epoch of this process, {}", health.troubles(at(6), PATIENCE)[0])
    );
    health.succeeded(at(20));
    assert_eq!((health.time, health.last_success, health.failures_in_row), (at(20), Some(at(20)), 0));
    health.epoch = Some(7);
    assert_eq!(health.line(at(21)), "epoch 7, 1 passes, all well");
    health.failed(Failure { time: at(30), stage: Stage::Route, message: "none".into() });
    assert_eq!((since(&health), health.time), (at(20), at(30)));
    assert_eq!(health.failures, BTreeMap::from([(Stage::Route, 1), (Stage::Publish, 1)]));
}

#[test]
fn nodes_are_unknown_since_the_first_of_them_was() {
    let mut health = Health::new(at(0), true);
    let nodes = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<NodeName>>();
    let told = |health: &Health| {
        health.found(at(9), PATIENCE).into_iter().map(|t| (t.since, t.text)).collect::<Vec<_>>()
    };
    health.note_unknown(at(1), nodes(&["a"]));
    health.note_unknown(at(2), nodes(&["a", "b", "c", "d", "e"]));
    let text = "jobs run on nodes that are not in the fabric: a, b, c, d, e; see fabric.node_map";
    assert_eq!(told(&health), [(at(1), text.to_string())]);
    health.torus = Some(TorusHealth::default());
    assert!(told(&health)[0].1.ends_with("e; see the description of the torus"), "it has no node map");
    health.note_unknown(at(3), nodes(&[]));
    assert_eq!((told(&health), health.unknown_since), (vec![], None));
    health.note_unknown(at(4), nodes(&["a"]));
    assert_eq!(told(&health)[0].0, at(4));
}

/// What the log gets while something is done.
fn logged(work: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(move || writer.clone());
    tracing::subscriber::with_default(subscriber.finish(), work);
    let bytes = log.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn each_trouble_is_in_the_log_once_when_it_comes_and_once_when_it_is_over() {
    let mut trouble_log = trouble_log::TroubleLog::default();
    let mut tell = |health: &Health| logged(|| trouble_log.tell(health));
    let well = Health::new(at(0), false);
    assert_eq!(tell(&well), "");
    let text = tell(&failing("no space"));
    assert!(text.contains("WARN") && text.contains("failing") && text.contains("no space"), "{text}");
    assert_eq!(tell(&failing("no space")), "");
    let text = tell(&well);
    assert!(text.contains("INFO") && text.contains("over: publication failed"), "{text}");
    assert_eq!(tell(&well), "");
}

#[test]
fn unknown_nodes_are_in_the_log_when_they_are_others() {
    let mut health = Health::new(at(0), true);
    let mut noted = |names: &[&str]| {
        let nodes = names.iter().map(|name| name.parse().unwrap()).collect();
        logged(|| health.note_unknown(at(1), nodes)).contains("are not in the fabric")
    };
    assert_eq!(
        [noted(&[]), noted(&["a"]), noted(&["a"]), noted(&["a", "b"]), noted(&[])],
        [false, true, false, true, false]
    );
}

/// What passes end with comes before what other programs say, and that before what may wait.
#[test]
fn what_is_most_important_is_told_first() {
    let failure = |seconds, message: &str| {
        Some(Failure { time: at(seconds), stage: Stage::Acknowledge, message: message.into() })
    };
    let trouble = |kind, seconds| Trouble { kind, since: at(seconds), text: format!("{kind:?}") };
    let mut health = failing("no space");
    health.ended = Some(at(1));
    health.next_pass = Some(at(2));
    health.unacknowledged = failure(3, "not in time");
    health.note_opensm(at(4), vec![(Kind::OpensmLost, "lost".into())]);
    health.note_delivery(at(5), "lft_file", Kind::LftFile, Some("stale".into()));
    health.place = vec![trouble(Kind::Clock, 6)];
    health.settings_refused = failure(7, "line 3");
    health.unrecorded = failure(8, "no disk");
    health.note_unknown(at(9), vec!["a".parse().unwrap()]);
    let cut = BTreeMap::from([("7".parse().unwrap(), trouble(Kind::JobsCut, 10))]);
    health.torus = Some(TorusHealth { cut, ..TorusHealth::default() });
    health.held = Some(Hold { since: at(11), epoch: None, reason: "tests".into(), by: Some("root".into()) });
    let found = health.found(at(300), PATIENCE);
    let told: Vec<(Kind, DateTime<Utc>)> = found.iter().map(|t| (t.kind, t.since)).collect();
    let expected = [
        (Kind::Stopped, 1),
        (Kind::Hangs, 2),
        (Kind::Failing, 0),
        (Kind::Unacknowledged, 3),
        (Kind::OpensmLost, 4),
        (Kind::LftFile, 5),
        (Kind::Clock, 6),
        (Kind::Settings, 7),
        (Kind::Unrecorded, 8),
        (Kind::UnknownNodes, 9),
        (Kind::JobsCut, 10),
        (Kind::Held, 11),
    ];
    assert_eq!(told, expected.map(|(kind, seconds)| (kind, at(seconds))));
    let says = |n: usize, words: &str| assert!(found[n].text.contains(words), "{}", found[n].text);
    says(0, "ended at 2023-11-14 22:13:21 UTC");
    says(1, "last heard of 295 s ago");
    says(7, "not in force: line 3");
    says(11, "an administrator (root) holds");
}
