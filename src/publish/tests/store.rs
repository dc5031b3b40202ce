//! What the store does when nothing goes wrong, and what it refuses.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::fixture::{at, ready, small, tables};
use crate::model::LayerBudget;
use crate::publish::{Deed, EpochNumber, EpochStore, Page, StoreError, handoff};
use crate::verify::{Certificate, Checks, judge_certified};

fn number(n: u64) -> EpochNumber {
    n.to_string().parse().unwrap()
}

/// A store with this many epochs.
fn filled(epochs: usize) -> (tempfile::TempDir, EpochStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(&dir.path().join("state")).unwrap();
    let fabric = small();
    let mut writer = store.lock().unwrap();
    for i in 0..epochs {
        let (plan, report) = ready(&fabric, i);
        writer.publish(&fabric, &plan, &report, at(i as i64)).unwrap();
    }
    drop(writer);
    (dir, store)
}

#[test]
fn what_is_published_is_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(&dir.path().join("state")).unwrap();
    let fabric = small();
    assert_eq!(store.current().unwrap(), None);
    assert!(store.published(&fabric).unwrap().is_none());
    assert_eq!(store.epochs().unwrap(), []);
    for i in 1..=3 {
        let (plan, report) = ready(&fabric, i);
        let epoch = store.lock().unwrap().publish(&fabric, &plan, &report, at(i as i64)).unwrap();
        assert_eq!(epoch, number(i as u64));
        assert_eq!(store.current().unwrap(), Some(epoch));
        let published = store.published(&fabric).unwrap().unwrap();
        assert_eq!(published.fabric, fabric.fingerprint());
        assert_eq!(published.engine, plan.get().engine);
        assert_eq!(published.demand, plan.get().demand);
        assert_eq!(published.tables, plan.get().tables);
        let stored = store.epoch(epoch).unwrap();
        assert_eq!(stored.plan().created, at(i as i64));
        assert_eq!(stored.plan().jobs, plan.get().jobs);
        assert_eq!(stored.plan().previous, (i > 1).then(|| number(i as u64 - 1)));
        assert_eq!(*stored.report(), report);
    }
    assert_eq!(fs::read_link(store.current_path()).unwrap(), Path::new("epochs/000003"));
}

/// What is told with the tables is all that it takes to see that they have no cycle.
#[test]
fn an_epoch_has_the_certificate_of_its_tables() {
    let (_dir, store) = filled(1);
    let fabric = small();
    let (verified, _) = ready(&fabric, 0);
    let bytes = fs::read(store.epoch_path(number(1)).join("lft.bin")).unwrap();
    let handoff = handoff::decode(&bytes).unwrap();
    let found = handoff.certificate(&fabric).unwrap();
    assert_eq!(Some(&found), verified.certificate());
    let tables = handoff.into_tables(&fabric).unwrap();
    let judged = |c: &Certificate| {
        judge_certified(&fabric, &tables, LayerBudget::MOST, Checks::default(), &[], c).accepted
    };
    assert!(judged(&found));
    let backwards = found.order().iter().rev().copied().collect();
    assert!(!judged(&Certificate::new(&fabric, backwards).unwrap()));
}

#[test]
fn sha256sum_accepts_the_checksums() {
    let (_dir, store) = filled(1);
    let check = Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(store.epoch_path(number(1)))
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");
    assert_eq!(String::from_utf8_lossy(&check.stdout).lines().count(), 3);
}

#[test]
fn a_job_is_one_line_of_the_plan() {
    let (_dir, store) = filled(1);
    let text = fs::read_to_string(store.epoch_path(number(1)).join("plan.json")).unwrap();
    let job =
        r#"      {"id": "18", "state": "RUNNING", "nodes": ["n2", "n5"], "start": "2026-09-21T14:03:20Z"}"#;
    assert!(text.lines().any(|l| l == job), "{text}");
}

#[test]
fn everybody_may_read_whatever_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let output = super::crash::child("once", &state).prefixed("umask 077").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let epoch = state.join("current");
    for directory in [&state, &state.join("epochs"), &epoch] {
        assert_eq!(mode(directory), 0o755, "{}", directory.display());
    }
    for file in ["plan.json", "lft.bin", "report.json", "SHA256SUMS"] {
        assert_eq!(mode(&epoch.join(file)), 0o644, "{file}");
    }
}

#[test]
fn a_plan_for_another_fabric_is_refused() {
    let (_dir, store) = filled(1);
    let (plan, report) = ready(&small(), 0);
    let other = small().without(|c| c.index() == 0, |_| false).unwrap();
    let refused = store.lock().unwrap().publish(&other, &plan, &report, at(0)).unwrap_err();
    assert!(matches!(refused, StoreError::WrongFabric { .. }), "{refused}");
    assert_eq!(store.epochs().unwrap(), [number(1)]);
}

#[test]
fn a_figure_that_cannot_be_read_back_is_refused() {
    let (_dir, store) = filled(1);
    let (plan, mut report) = ready(&small(), 0);
    report.load.mean = f64::NAN;
    let refused = store.lock().unwrap().publish(&small(), &plan, &report, at(0)).unwrap_err();
    assert!(matches!(refused, StoreError::Unwritable(_)), "{refused}");
    assert_eq!(store.current().unwrap(), Some(number(1)));
}

#[test]
fn an_epoch_of_another_fabric_keeps_its_fingerprint() {
    let (_dir, store) = filled(1);
    let before = small();
    let dead = before.terminal(crate::model::TerminalId::at(0)).switch;
    let after = before.without(|_| false, |s| s == dead).unwrap();
    let published = store.published(&after).unwrap().unwrap();
    assert_eq!(published.fabric, before.fingerprint());
    assert_eq!(published.tables.fabric(), after.fingerprint());
    let old = tables(&before, "sssp", 0);
    for d in after.dest_ids() {
        let guid = |f: &crate::model::Fabric, d| match f.dest_terminal(d) {
            Some(t) => f.terminal(t).port_guid,
            None => f.switch(f.home(d)).guid,
        };
        let old_d = before.dest_ids().find(|o| guid(&before, *o) == guid(&after, d)).unwrap();
        for s in after.switch_ids() {
            let old_s = before.switch_ids().find(|o| before.switch(*o).guid == after.switch(s).guid).unwrap();
            assert_eq!(published.tables.port(s, d), old.port(old_s, old_d));
            assert_eq!(published.tables.layer(s, d), old.layer(old_s, old_d));
        }
    }
    // Jobs were on terminals 0, 5, 10, 15 and 1, 4; those of the dead switch are gone.
    let lost = before.attached(dead).len();
    assert_eq!(after.terminals().len() + lost, before.terminals().len());
    assert!(published.demand.groups.iter().all(|g| g.terminals.iter().all(|t| t.index() < 16 - lost)));
}

#[test]
fn rollback_and_garbage_collection_never_lose_what_is_in_force() {
    let (_dir, store) = filled(6);
    let mut writer = store.lock().unwrap().keeping(Some(3));
    writer.rollback(number(2)).unwrap();
    assert_eq!(store.current().unwrap(), Some(number(2)));
    assert_eq!(writer.collect_garbage(2).unwrap(), [1, 4].map(number));
    let mut writer = writer.keeping(None);
    assert_eq!(writer.collect_garbage(2).unwrap(), [number(3)]);
    assert_eq!(store.epochs().unwrap(), [2, 5, 6].map(number));
    assert_eq!(writer.collect_garbage(0).unwrap(), [number(5)]);
    assert!(store.epoch(number(2)).is_ok());
    let refused = writer.rollback(number(5)).unwrap_err();
    assert!(refused.to_string().contains("no epoch 5"), "{refused}");
    let fabric = small();
    let (plan, report) = ready(&fabric, 0);
    assert_eq!(writer.publish(&fabric, &plan, &report, at(9)).unwrap(), number(7));
    assert_eq!(store.epoch(number(7)).unwrap().plan().previous, Some(number(2)));
}

/// OpenSM has refused the newest epoch, and the disk is full.
#[test]
fn what_the_switches_have_does_not_make_space() {
    let (_dir, store) = filled(4);
    let mut writer = store.lock().unwrap().keeping(Some(1));
    assert_eq!([(); 3].map(|()| writer.make_space().unwrap()), [true, true, false]);
    assert_eq!(store.epochs().unwrap(), [1, 4].map(number));
}

#[test]
fn what_is_done_by_hand_is_written_down_and_a_rollback_that_fails_leaves_the_hold_as_it_was() {
    let (_dir, store) = filled(3);
    let mut writer = store.lock().unwrap();
    assert!(writer.rollback_by_hand(number(9), "ann", true).is_err());
    assert_eq!((store.hold().unwrap(), store.acts().unwrap()), (None, Vec::new()));
    let held = writer.hold_by_hand("row 3".to_string(), "ann".to_string()).unwrap();
    assert!(writer.rollback_by_hand(number(9), "bob", true).is_err());
    assert_eq!(store.hold().unwrap().as_ref(), Some(&held));
    assert_eq!(writer.hold_by_hand(String::new(), "eve".to_string()).unwrap(), held, "nothing new is said");
    let again = writer.hold_by_hand("row 4\nHELD by \u{202e}nobody".to_string(), "eve".to_string()).unwrap();
    assert_eq!((again.since, again.by.as_deref()), (held.since, Some("eve")));
    assert_eq!(again.reason, "row 4\\u{a}HELD by \\u{202e}nobody", "one line, and no other direction");
    writer.rollback_by_hand(number(2), "bob", true).unwrap();
    let hold = store.hold().unwrap().unwrap();
    assert_eq!((hold.epoch, hold.reason.as_str()), (Some(number(2)), "rolled back to epoch 2"));
    assert_eq!(store.current().unwrap(), Some(number(2)));
    assert_eq!(
        [
            writer.resume_by_hand("eve".to_string()).unwrap(),
            writer.resume_by_hand("eve".to_string()).unwrap()
        ],
        [true, false]
    );
    let acts = store.acts().unwrap();
    let said: Vec<_> = acts.iter().map(|a| (a.act, a.by.as_deref().unwrap(), a.reason.as_str())).collect();
    let wanted = [
        (Deed::Hold, "ann", "row 3"),
        (Deed::Hold, "eve", ""),
        (Deed::Hold, "eve", again.reason.as_str()),
        (Deed::Rollback, "bob", "from epoch 3"),
        (Deed::Hold, "bob", ""),
        (Deed::Resume, "eve", ""),
    ];
    assert_eq!(said, wanted);
}

#[test]
fn a_strange_current_is_named_and_replaced() {
    let (_dir, store) = filled(2);
    for target in ["/etc", "epochs/7", "epochs/000001/..", "epochs/.new-000003"] {
        fs::remove_file(store.current_path()).unwrap();
        symlink(target, store.current_path()).unwrap();
        let error = store.current().unwrap_err().to_string();
        assert!(error.contains(target) && error.contains("current"), "{error}");
        assert!(store.lock().unwrap().collect_garbage(1).is_err(), "who knows what is in force?");
    }
    let fabric = small();
    let (plan, report) = ready(&fabric, 0);
    assert_eq!(store.lock().unwrap().publish(&fabric, &plan, &report, at(9)).unwrap(), number(3));
    assert_eq!(store.current().unwrap(), Some(number(3)));
}

#[test]
fn a_second_writer_is_told_who_holds_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(&dir.path().join("state")).unwrap();
    let writer = store.lock().unwrap();
    let refused = store.lock().unwrap_err().to_string();
    assert!(refused.ends_with(&format!("lock is held by process {}", std::process::id())), "{refused}");
    drop(writer);
    let mut holder = super::crash::child("hold", store.path()).start();
    let refused = store.lock().unwrap_err().to_string();
    assert!(refused.ends_with(&format!("process {}", holder.id())), "{refused}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    store.lock().unwrap();
}

#[test]
fn the_index_is_never_in_the_way() {
    let (_dir, store) = filled(3);
    let fabric = small();
    let rows = store.history().unwrap();
    assert_eq!(rows.rows.iter().map(|r| r.epoch.get()).collect::<Vec<_>>(), [1, 2, 3]);
    let publish = |i| {
        let (plan, report) = ready(&fabric, i);
        store.lock().unwrap().publish(&fabric, &plan, &report, at(i as i64)).unwrap();
    };
    let database = store.path().join("history.db");
    let index = || rusqlite::Connection::open(&database).unwrap();
    let indexed = || index().query_row("SELECT count(*) FROM epochs", [], |r| r.get::<_, u64>(0)).unwrap();
    // Lost, and made again from the epochs.
    fs::remove_file(&database).unwrap();
    assert_eq!(store.history().unwrap(), rows);
    publish(3);
    assert_eq!(indexed(), 4);
    // Not a database.
    fs::write(&database, "nonsense".repeat(1000)).unwrap();
    let noted = store.history().unwrap();
    assert_eq!(noted.rows.len(), 4);
    assert!(noted.notes[0].contains("history.db cannot be read"), "{noted:?}");
    publish(4);
    assert_eq!(indexed(), 5);
    // Held by somebody: the next publication catches up.
    let reader = index();
    reader.execute_batch("BEGIN EXCLUSIVE").unwrap();
    publish(5);
    drop(reader);
    assert_eq!(indexed(), 5);
    assert_eq!(store.history().unwrap().rows.len(), 6);
    publish(6);
    assert_eq!(indexed(), 7);
    // It cannot be written at present, as on a full disk.
    let journal = store.path().join("history.db-journal");
    fs::create_dir(&journal).unwrap();
    publish(7);
    fs::remove_dir(&journal).unwrap();
    assert_eq!(indexed(), 7);
    publish(8);
    assert_eq!(indexed(), 9);
    // It remembers what is deleted.
    assert_eq!(store.lock().unwrap().collect_garbage(2).unwrap().len(), 7);
    let history = store.history().unwrap();
    assert_eq!(history.rows.len(), 9);
    assert_eq!(history.rows[..3], rows.rows);
    fs::create_dir(&journal).unwrap();
    publish(9);
    fs::remove_dir(&journal).unwrap();
    assert_eq!(store.history().unwrap().rows[..3], rows.rows, "they are nowhere else");
    assert_eq!(history.notes, [] as [&str; 0]);
    // A directory in its place cannot even be deleted as a file.
    fs::remove_file(&database).unwrap();
    fs::create_dir(&database).unwrap();
    publish(10);
    assert_eq!(store.current().unwrap(), Some(number(11)));
}

#[test]
fn a_writer_waits_for_one_that_is_soon_done() {
    let (_dir, store) = filled(1);
    let writer = store.lock().unwrap();
    let done = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(writer);
    });
    drop(store.lock().unwrap());
    done.join().unwrap();
}

#[test]
fn an_index_of_a_version_before_keeps_the_rows_of_deleted_epochs() {
    let added = ["slowdown_oblivious", "effective_bound", "difference", "gain", "price"];
    for (n, version) in (3..=6).enumerate() {
        keeps_rows(version, &added[n..]);
    }
}

fn keeps_rows(version: i64, dropped: &[&str]) {
    let (_dir, store) = filled(3);
    let mut rows = store.history().unwrap().rows;
    assert!(rows.iter().all(|row| row.effective_bound.is_some()));
    assert_eq!(store.lock().unwrap().collect_garbage(1).unwrap().len(), 2);
    let index = rusqlite::Connection::open(store.path().join("history.db")).unwrap();
    for column in dropped {
        index.execute(&format!("ALTER TABLE epochs DROP COLUMN {column}"), []).unwrap();
    }
    index.pragma_update(None, "user_version", version).unwrap();
    // What the old index did not have is not known of epochs that are gone.
    let has_bound = !dropped.contains(&"effective_bound");
    rows.iter_mut().for_each(|row| row.effective_bound = row.effective_bound.filter(|_| has_bound));
    let history = store.history().unwrap();
    assert_eq!((history.rows, history.notes), (rows.clone(), Vec::new()));
    let (plan, report) = ready(&small(), 3);
    store.lock().unwrap().publish(&small(), &plan, &report, at(3)).unwrap();
    let history = store.history().unwrap();
    assert_eq!(history.rows[..3], rows);
    assert_eq!(history.rows.len(), 4);
}

#[test]
fn the_history_is_read_in_pages_whether_the_index_knows_an_epoch_or_its_files_do() {
    let (_dir, store) = filled(7);
    let page = |before: Option<u64>, limit| {
        let page = Page { before: before.map(number), limit: Some(limit) };
        let rows = store.history_page(page).unwrap().rows;
        rows.iter().map(|r| r.epoch.get()).collect::<Vec<_>>()
    };
    let all = || {
        assert_eq!(page(None, 3), [5, 6, 7]);
        assert_eq!(page(Some(5), 3), [2, 3, 4]);
        assert_eq!(page(Some(2), 3), [1]);
        assert_eq!(page(None, 100), [1, 2, 3, 4, 5, 6, 7]);
    };
    all();
    // The index lacks the newest, one in the middle, and then everything.
    let index = rusqlite::Connection::open(store.path().join("history.db")).unwrap();
    index.execute("DELETE FROM epochs WHERE epoch IN (4, 7)", []).unwrap();
    all();
    index.execute("DELETE FROM epochs", []).unwrap();
    all();
}

#[test]
fn a_state_that_is_no_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("deeper")] {
        let error = EpochStore::open(&path).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn one_service_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(dir.path()).unwrap();
    let serving = store.serve().unwrap();
    let refused = store.serve().unwrap_err();
    assert!(matches!(refused, StoreError::Locked { holder: Some(pid), .. } if pid == std::process::id()));
    // It hinders no other writer.
    drop(store.lock().unwrap());
    drop(serving);
    store.serve().unwrap();
}

#[test]
fn only_the_owner_may_open_the_locks_those_of_earlier_versions_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(dir.path()).unwrap();
    let locks = [dir.path().join("lock"), dir.path().join("service.lock")];
    for made_before in [false, true] {
        if made_before {
            locks
                .iter()
                .for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap());
        }
        let _both = (store.lock().unwrap(), store.serve().unwrap());
        for path in &locks {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
        assert!(store.is_served() && store.may_be_served());
    }
    assert!(!store.is_served() && !store.may_be_served());
}

#[test]
fn an_empty_identity_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(dir.path()).unwrap();
    let mut writer = store.lock().unwrap();
    for left in ["", "\n"] {
        fs::write(dir.path().join("service.id"), left).unwrap();
        assert_eq!(store.identity().unwrap(), None);
        let made = writer.identify().unwrap();
        assert_eq!(store.identity().unwrap(), Some(made));
    }
}
