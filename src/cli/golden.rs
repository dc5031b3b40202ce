//! What the commands on the epoch store print, word for word.

use std::fs;
use std::path::Path;

use chrono::TimeDelta;

use super::history::Table;
use super::rollback::Rollback;
use super::show::{Details, Which};
use super::status::{Status, Watch};
use crate::model::Fabric;
use crate::pass::plan::Reason;
use crate::publish::tests::fixture::{accepted, at, plan, report, small};
use crate::publish::{EpochNumber, EpochStore};

fn number(n: u64) -> EpochNumber {
    n.to_string().parse().unwrap()
}

fn publish(store: &EpochStore, fabric: &Fabric, turn: usize) {
    let mut plan = plan(fabric, &[vec![0, 5, 10, 15], (0..13).collect()], turn);
    if store.current().unwrap().is_none() {
        (plan.reason, plan.before) = (Reason::First, None);
    }
    let report = report(fabric, &plan);
    store.lock().unwrap().publish(fabric, &accepted(fabric, plan), &report, at(60 * turn as i64)).unwrap();
}

/// A store with three epochs of one fabric.
fn three() -> (tempfile::TempDir, EpochStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(&dir.path().join("state")).unwrap();
    (1..=3).for_each(|turn| publish(&store, &small(), turn));
    (dir, store)
}

/// Without what differs between runs.
fn plain(text: &str, store: &EpochStore) -> String {
    text.replace(&store.path().display().to_string(), "STATE")
        .replace(&small().fingerprint().to_string(), "PRINT")
}

/// Now, with a limit in seconds on how late OpenSM may be.
fn watch(opensm_status: Option<&Path>, limit: i64) -> Watch {
    Watch {
        opensm_status: opensm_status.map(Path::to_path_buf),
        opensm_limit: TimeDelta::seconds(limit),
        now: chrono::Utc::now(),
    }
}

/// Holds a text against the golden one, of which the first line break is for the eye only.
fn assert_text(text: &str, store: &EpochStore, golden: &str) {
    assert_eq!(plain(text, store), golden.strip_prefix('\n').unwrap());
}

#[test]
fn history_is_a_table() {
    let (_dir, store) = three();
    let mut writer = store.lock().unwrap();
    writer.rollback(number(2)).unwrap();
    writer.collect_garbage(1).unwrap();
    assert_text(
        &Table::read(&store).unwrap().text(false),
        &store,
        "
   epoch  published             reason          jobs  mean slow-down  oblivious
-      1  2026-09-21T14:14:20Z  first              2      ? -> 1.250          -
*      2  2026-09-21T14:15:20Z  jobs changed       2  1.250 -> 1.250          -
       3  2026-09-21T14:16:20Z  jobs changed       2  1.250 -> 1.250          -
* in force, - deleted; jobs: those on more than one switch;
oblivious: slow-down with the best engine that knows no jobs",
    );
    fs::write(store.epoch_path(number(3)).join("lft.bin"), "").unwrap();
    fs::write(store.path().join("history.db"), "no database, although long enough to be one".repeat(30))
        .unwrap();
    assert_text(
        &Table::read(&store).unwrap().text(true),
        &store,
        "
   epoch  published             reason          engine      jobs  mean slow-down  oblivious  max effective EFI  dark fiber  layers        ms
*      2  2026-09-21T14:15:20Z  jobs changed    sssp           2  1.250 -> 1.250          -           96 -> 60      25.0 %       1      12.5
* in force, - deleted; jobs: those on more than one switch;
oblivious: slow-down with the best engine that knows no jobs
ms: to compute the routes
note: STATE/history.db cannot be read: file is not a database
note: STATE/epochs/000003/lft.bin is damaged: it does not match its line in SHA256SUMS",
    );
}

#[test]
fn an_epoch_is_shown_with_its_jobs() {
    let (_dir, store) = three();
    let details = Details::read(&store, Which::Current).unwrap();
    assert_text(
        &details.text(),
        &store,
        "
epoch         3, in force
published     2026-09-21T14:16:20Z
reason        jobs changed
epoch before  2
engine        sssp
layers        1 of 8
computed in   12.5 ms
fabric        6 switches, 16 terminals, 32 inter-switch channels
fingerprint   PRINT
files         STATE/epochs/000003, checksums right

                            before       after
slow-down, mean              1.250       1.250
slow-down, worst             1.750       1.750
max effective EFI               96          60
mean effective EFI           21.50       21.50
dark fiber                  50.0 %      25.0 %
links per job, mean           7.50        7.50
max EFI                         70          70
max hops                         2           2
mean hops                     1.88        1.88
minimal routes             100.0 %     100.0 %

jobs          2, on more than one switch 2
  17     4 nodes  n[1,6,11,16]
  18    13 nodes  n[1-13]",
    );
    let first = Details::read(&store, "000001".parse().unwrap()).unwrap().text();
    assert!(first.starts_with("epoch         1\n") && first.contains("epoch before  none"), "{first}");
    assert!(first.contains("\nmax effective EFI                ?          60\n"), "{first}");
    for wrong in ["4", "1000000000000"] {
        let error = Details::read(&store, wrong.parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains(&format!("no epoch {wrong} in")), "{error}");
    }
    for wrong in ["", "0", "-1", "+1", "newest", "99999999999999999999"] {
        assert!(wrong.parse::<Which>().is_err(), "{wrong}");
    }
}

#[test]
fn status_is_short() {
    let (_dir, store) = three();
    let status = Status::read(&store, &watch(None, 30));
    assert!(status.healthy);
    assert_text(
        &status.text(),
        &store,
        "
healthy
state       STATE
epoch       3, published 2026-09-21T14:16:20Z, jobs changed
routes      sssp, 1 of 8 layers, proved for told
jobs        2, on more than one switch 2
slow-down   mean 1.250, worst 1.750
effective   max EFI 60, dark fiber 25.0 %",
    );
    fs::write(store.epoch_path(number(3)).join("plan.json"), "{}").unwrap();
    let status = Status::read(&store, &watch(None, 30));
    assert!(!status.healthy);
    assert_text(
        &status.text(),
        &store,
        "
NOT healthy
  - the epoch in force cannot be used: STATE/epochs/000003/plan.json is damaged: it does not match its line \
         in SHA256SUMS
state       STATE",
    );
}

#[test]
fn status_misses_an_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(&dir.path().join("state")).unwrap();
    assert_eq!(Status::read(&store, &watch(None, 30)).problems, ["no epoch has been published"]);
    assert_eq!(Table::read(&store).unwrap().text(false), "no epoch has been published");
    assert!(Details::read(&store, Which::Current).is_err());
    assert!(!store.path().exists(), "looking creates nothing");
}

#[test]
fn status_watches_opensm() {
    let (dir, store) = three();
    let file = dir.path().join("opensm.json");
    let problems = |limit| Status::read(&store, &watch(Some(&file), limit)).problems;
    assert_eq!(problems(30).len(), 1, "told to look at it, and there is none");
    let report = |generation: u64, lost: u64| {
        let status = serde_json::json!({
            "format": 1, "plugin": "0.1.0", "opensm": "OpenSM 3.3.23", "pid": 7, "running": true,
            "written": chrono::Utc::now(), "heartbeat": 600, "engine": "sarouter", "generation": generation,
            "fingerprint": "00", "layers": 1, "acknowledged": "2026-01-01T00:00:00Z", "routings": 2,
            "lost_entries": lost, "uncovered_lids": 0, "guest_lids": 0,
            "refused_generation": null, "refused_reason": null,
        });
        fs::write(&file, status.to_string()).unwrap();
    };
    report(3, 0);
    assert_eq!(problems(-1), [] as [&str; 0]);
    report(2, 0);
    assert_eq!(problems(600), [] as [&str; 0], "it still has time");
    assert_eq!(problems(-1), ["epoch 3 is published, OpenSM has epoch 2 in force"]);
    report(3, 12);
    assert_eq!(problems(600), ["12 table entries are dead because cables or switches are gone"]);
    // Where the plugin writes by itself, it is found without being told.
    fs::copy(&file, store.path().join("opensm-status.json")).unwrap();
    assert!(!Status::read(&store, &watch(None, 600)).healthy);
}

#[test]
fn a_rollback_to_another_fabric_is_refused() {
    let (_dir, store) = three();
    let cut = small().without(|c| c.index() == 0, |_| false).unwrap();
    publish(&store, &cut, 4);
    let attempt = |to, fabric: Option<&Fabric>, force| {
        Rollback::attempt(&store, number(to), fabric, force, false).unwrap()
    };
    let refused = attempt(2, None, false);
    assert_eq!(
        (refused.done, refused.from, store.current().unwrap()),
        (false, Some(number(4)), Some(number(4)))
    );
    let short = |fabric: &Fabric| fabric.fingerprint().to_string()[..12].to_string();
    assert_eq!(
        refused.text(),
        format!(
            "refused: epoch 2 was made for fabric {}…, that of the epoch in force is {}…; --force overrides",
            short(&small()),
            short(&cut)
        )
    );
    assert!(!attempt(2, Some(&cut), false).done);
    // On the fabric with the cut cable the checker refuses the tables whatever is forced.
    let rejected = attempt(2, Some(&cut), true);
    assert!(!rejected.done && !rejected.findings.is_empty());
    assert!(
        rejected.text().starts_with("refused: the tables are rejected on this fabric\n  "),
        "{}",
        rejected.text()
    );
    assert_eq!(store.current().unwrap(), Some(number(4)));
    assert!(attempt(2, Some(&small()), false).done, "on its own fabric");
    let done = attempt(2, None, true);
    assert_eq!(done.text(), "epoch 2 is in force, before it was epoch 2");
    assert_eq!(store.current().unwrap(), Some(number(2)));
    assert!(attempt(3, None, false).done, "of the same fabric");
    // With the epoch in force damaged, somebody has to say which fabric it is.
    fs::write(store.epoch_path(number(3)).join("plan.json"), "{}").unwrap();
    assert!(attempt(1, None, false).text().contains("000003/plan.json is damaged"));
    assert!(attempt(1, None, true).done);
}
