//! Killed, stopped after any step, out of space, without permission: the old epoch or the new one.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::fixture::{accepted, at, plan, ready, report, small};
use crate::lab::generate::generate;
use crate::model::Fabric;
use crate::model::rng::Rng;
use crate::pass::plan::Plan;
use crate::publish::publication::{Publication, Step};
use crate::publish::{EpochNumber, EpochStore, StoreError, Writer};
use crate::report::Report;
use crate::verify::Verified;

const ACTION: &str = "SAROUTER_TEST_ACTION";
const STATE: &str = "SAROUTER_TEST_STATE";

/// A directory in memory if there is one: a killed process does not lose what it wrote, so the
/// tests here need no disk.
pub(super) fn fast_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}

/// This test program as another process that does something to a store.
pub(super) struct Other {
    command: Command,
}

pub(super) fn child(action: &str, state: &Path) -> Other {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "publish::tests::crash::the_other_process", "--nocapture", "--include-ignored"]);
    command.env(ACTION, action).env(STATE, state);
    Other { command }
}

impl Other {
    /// After a line of shell.
    pub(super) fn prefixed(self, shell: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{shell}; exec \"$0\" \"$@\"")]);
        command.arg(self.command.get_program()).args(self.command.get_args());
        command.envs(self.command.get_envs().filter_map(|(k, v)| Some((k, v?))));
        Self { command }
    }
    /// Runs to its end.
    pub(super) fn output(mut self) -> std::io::Result<Output> {
        self.command.output()
    }
    /// Returns when it has the lock.
    pub(super) fn start(mut self) -> Child {
        let mut child = self.command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        if !lines.any(|line| line.ends_with("has the lock")) {
            panic!("the other process ended: {:?}", child.wait());
        }
        child
    }
}

#[test]
fn the_other_process() {
    let (Some(action), Some(state)) = (std::env::var_os(ACTION), std::env::var_os(STATE)) else { return };
    let store = EpochStore::open(Path::new(&state)).unwrap();
    let mut writer = match store.lock() {
        Ok(writer) => writer,
        Err(refused) => {
            println!("{refused}: {}", std::error::Error::source(&refused).unwrap());
            return;
        }
    };
    let fabric = looped();
    let plans = both_plans(&fabric);
    println!("\nhas the lock");
    match action.to_str().unwrap() {
        "hold" => sleep(Duration::from_secs(60)),
        "once" => drop(publish_next(&both_plans(&small()), &mut writer, &small())),
        "loop" => {
            // An end of its own, should the parent die.
            for _ in 0..10_000 {
                publish_next(&plans, &mut writer, &fabric);
                writer.collect_garbage(3).unwrap();
            }
        }
        _ => panic!("unknown action"),
    }
}

/// Large enough that a file is not written at once.
fn looped() -> Fabric {
    generate("kary:5,3").unwrap()
}

/// Checked plans for even and for odd numbers: everything about an epoch of these tests follows from its number.
type Plans = [(Verified<Plan>, Report); 2];

fn both_plans(fabric: &Fabric) -> Plans {
    [0, 1].map(|odd| {
        let plan = plan(fabric, &[vec![0, 5, 9], vec![1, 7 + odd]], odd);
        let report = report(fabric, &plan);
        (accepted(fabric, plan), report)
    })
}

fn publish_next(plans: &Plans, writer: &mut Writer, fabric: &Fabric) -> EpochNumber {
    let next = writer.store().epochs().unwrap().last().map_or(1, |n| n.get() + 1);
    let (plan, report) = &plans[next as usize % 2];
    writer.publish(fabric, plan, report, at(next as i64)).unwrap()
}

/// That an epoch is what [`publish_next`] makes of its number, and nothing else.
fn assert_pure(store: &EpochStore, fabric: &Fabric, plans: &Plans, epoch: EpochNumber) {
    let stored = store.epoch(epoch).unwrap();
    let (wanted, report) = &plans[epoch.get() as usize % 2];
    assert_eq!(stored.plan().created, at(epoch.get() as i64));
    assert_eq!(stored.report(), report);
    let published = stored.published(fabric).unwrap();
    assert_eq!(published.tables, wanted.get().tables);
    assert_eq!(published.demand, wanted.get().demand);
}

fn leftovers(store: &EpochStore) -> usize {
    let hidden = |dir: PathBuf| {
        let entries = fs::read_dir(dir).unwrap();
        entries.filter(|e| e.as_ref().unwrap().file_name().to_str().unwrap().starts_with('.')).count()
    };
    hidden(store.path().to_path_buf()) + hidden(store.path().join("epochs"))
}

#[test]
fn a_killed_writer_leaves_the_old_epoch_or_the_new_one() {
    kill_writers(40, 5);
}

#[test]
#[ignore = "takes a minute: run scripts/test, which kills fewer"]
fn a_thousand_killed_writers_leave_the_old_epoch_or_the_new_one() {
    kill_writers(if std::env::var_os("SAROUTER_SHORT").is_some() { 100 } else { 1000 }, 6);
}

fn kill_writers(kills: usize, seed: u64) {
    let dir = tempfile::tempdir_in(fast_directory()).unwrap();
    let store = EpochStore::open(&dir.path().join("state")).unwrap();
    let fabric = looped();
    let plans = both_plans(&fabric);
    publish_next(&plans, &mut store.lock().unwrap(), &fabric);
    let mut rng = Rng::new(seed);
    let (mut last, mut interrupted) = (1, 0);
    for _ in 0..kills {
        let mut writer = child("loop", store.path()).start();
        sleep(Duration::from_micros(rng.below(8_000) as u64));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let current = store.current().unwrap().unwrap();
        assert!(current.get() >= last, "epoch {current} after {last}");
        last = current.get();
        for epoch in store.epochs().unwrap() {
            assert_pure(&store, &fabric, &plans, epoch);
        }
        interrupted += usize::from(leftovers(&store) > 0);
        // The lock is free, the leftovers go.
        drop(store.lock().unwrap());
        assert_eq!(leftovers(&store), 0);
        assert_eq!(store.history().unwrap().notes.iter().filter(|n| n.contains("damaged")).count(), 0);
    }
    println!("{kills} kills, {interrupted} within a publication, {last} epochs");
    assert!(last > 1, "nothing was published at all");
}

#[test]
fn stopped_after_any_step_the_old_epoch_or_the_new_one_is_in_force() {
    let dir = tempfile::tempdir_in(fast_directory()).unwrap();
    let fabric = small();
    let plans = both_plans(&fabric);
    let steps = Publication::steps();
    let count = steps.len();
    assert_eq!(count, 1 + 4 * 3 + 3 + 3);
    for stop in 0..=count {
        let store = EpochStore::open(&dir.path().join(format!("after-{stop}"))).unwrap();
        let mut writer = store.lock().unwrap();
        let old = publish_next(&plans, &mut writer, &fabric);
        let (plan, report) = ready(&fabric, 1);
        let (new, files) = writer.prepare(&fabric, &plan, &report, at(2)).unwrap();
        let mut publication = Publication::new(&store, new, &files);
        for step in &steps[..stop] {
            publication.run(*step).unwrap();
        }
        drop(writer);
        let switched = steps[..stop].contains(&Step::Switch);
        let current = store.current().unwrap().unwrap();
        assert_eq!(current, if switched { new } else { old }, "after {:?}", steps[..stop].last());
        assert_pure(&store, &fabric, &plans, old);
        assert!(store.published(&fabric).unwrap().is_some());
        let named = steps[..stop].contains(&Step::Name);
        assert_eq!(store.epochs().unwrap().len(), if named { 2 } else { 1 });
        assert!(store.epochs().unwrap().iter().all(|n| store.epoch(*n).is_ok()));
        // The next writer clears up and goes on, with a number that was never used.
        let mut writer = store.lock().unwrap();
        assert_eq!(leftovers(&store), 0, "after {:?}", steps[..stop].last());
        let next = publish_next(&plans, &mut writer, &fabric);
        assert_eq!(next.get(), if named { 3 } else { 2 });
        assert_eq!(store.current().unwrap(), Some(next));
        assert_pure(&store, &fabric, &plans, next);
    }
}

/// A file system of a given size, or `None` with a message.
struct Tiny(tempfile::TempDir);

impl Tiny {
    fn mount(kibibytes: usize) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={kibibytes}k,mode=755");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir.path()).output();
        match mount {
            Ok(output) if output.status.success() => Some(Self(dir)),
            other => {
                println!("skipped: cannot mount a small file system: {other:?}");
                None
            }
        }
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|s| s.success()), "{} stays mounted", self.0.path().display());
    }
}

#[test]
fn a_full_disk_changes_nothing() {
    let Some(tiny) = Tiny::mount(1024) else { return };
    let store = EpochStore::open(&tiny.0.path().join("state")).unwrap();
    let fabric = looped();
    let plans = both_plans(&fabric);
    let old = publish_next(&plans, &mut store.lock().unwrap(), &fabric);
    let ballast = tiny.0.path().join("ballast");
    let mut full_at = Vec::new();
    // From no free page up, until there is room.
    for free in 0.. {
        fill(&ballast, free);
        let before = fs::read_dir(store.path().join("epochs")).unwrap().count();
        let attempt = store.lock().and_then(|mut writer| {
            let plan = plan(&fabric, &[vec![0, 5, 9], vec![1, 9]], 2);
            let report = report(&fabric, &plan);
            writer.publish(&fabric, &accepted(&fabric, plan), &report, at(2))
        });
        match attempt {
            Ok(_) => break,
            Err(StoreError::Io { path, source, .. }) => {
                assert_eq!(source.kind(), std::io::ErrorKind::StorageFull, "{}", path.display());
                assert!(path.starts_with(store.path()), "{}", path.display());
                full_at.push(path.file_name().unwrap().to_owned());
            }
            Err(other) => panic!("{other}"),
        }
        assert_eq!(store.current().unwrap(), Some(old));
        assert_pure(&store, &fabric, &plans, old);
        assert_eq!(fs::read_dir(store.path().join("epochs")).unwrap().count(), before);
        assert_eq!(leftovers(&store), 0);
    }
    full_at.dedup();
    assert_eq!(full_at, ["lft.bin", "plan.json", "report.json", "SHA256SUMS"], "where it was full");
    let new = store.current().unwrap().unwrap();
    assert_eq!(new.get(), 2);
    // A rollback needs no room but for the link itself.
    fill(&ballast, 0);
    store.lock().unwrap().rollback(old).unwrap();
    assert_eq!(store.current().unwrap(), Some(old));
}

/// Fills the file system with one file, leaving some pages of 4 KiB.
fn fill(ballast: &Path, free: usize) {
    use std::io::Write;
    let _ = fs::remove_file(ballast);
    let mut file = fs::File::create(ballast).unwrap();
    let mut size = 0;
    while file.write_all(&[0; 4096]).is_ok() {
        size += 4096;
    }
    file.set_len((size as u64).saturating_sub(free as u64 * 4096)).unwrap();
}

#[test]
fn a_writer_without_permission_is_told_the_path() {
    let dir = tempfile::tempdir().unwrap();
    let store = EpochStore::open(&dir.path().join("state")).unwrap();
    publish_next(&both_plans(&small()), &mut store.lock().unwrap(), &small());
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut other = child("once", store.path());
    let nobody = 65534;
    other.command.uid(nobody).gid(nobody);
    match other.output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let wanted = format!("cannot open {}: Permission denied", store.path().join("lock").display());
            assert!(text.contains(&wanted), "{text}");
        }
        cannot => println!("skipped: this program cannot run as another user: {cannot:?}"),
    }
    assert_eq!(store.epochs().unwrap().len(), 1);
}
