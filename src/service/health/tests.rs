use super::*;

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
