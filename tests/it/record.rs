//! A recording fed back makes the same epochs, byte for byte; killed services leave whole epochs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sarouter::model::rng::Rng;
use sarouter::publish::EpochStore;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::often::often;
use crate::program::sarouter;
use crate::site::{Serving, Site, json};

/// Feeds the recording of a site back: exit code and findings.
fn replay(site: &Site, out: &str) -> (i32, Value) {
    let (record, out) = (site.path("state/record"), site.path(out));
    let (code, text) = site.run(&["replay-events", record.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    (code, json(&text))
}

/// Content of every file of every epoch that both directories have; how many epochs.
fn assert_same_epochs(a: &Path, b: &Path) -> usize {
    let names = |dir: &Path| {
        let entries = std::fs::read_dir(dir.join("epochs")).unwrap();
        entries.map(|e| e.unwrap().file_name()).collect::<std::collections::BTreeSet<_>>()
    };
    let both: Vec<_> = names(a).intersection(&names(b)).cloned().collect();
    for epoch in &both {
        for file in ["plan.json", "lft.bin", "report.json", "SHA256SUMS"] {
            let read = |dir: &Path| std::fs::read(dir.join("epochs").join(epoch).join(file)).unwrap();
            assert!(read(a) == read(b), "{epoch:?}/{file} differs");
        }
    }
    both.len()
}

#[test]
fn a_recording_fed_back_makes_the_same_epochs_byte_for_byte() {
    let site = Site::new("interval_seconds = 3600\nbackoff_max_seconds = 3600");
    site.alter("dfsssp", "balanced");
    let serving = Serving::start(&site);
    let hup = |serving: &Serving| serving.signal(rustix::process::Signal::HUP);
    assert_eq!(serving.line()["epoch"]["epoch"], 1);
    for (i, jobs) in
        ["2|RUNNING|n[2,6]|100\n", "2|RUNNING|n[2,6]|100\n3|RUNNING|n[1,9,13]|100\n"].iter().enumerate()
    {
        site.jobs(jobs);
        hup(&serving);
        assert_eq!(serving.line()["epoch"]["epoch"], i + 2);
    }
    site.write_fabric(|c| c == 0);
    assert_eq!(serving.line()["epoch"]["reason"], "fabric_changed");
    site.alter("balanced", "updown");
    assert_eq!(serving.line()["epoch"]["reason"], "engine_changed");
    site.squeue("echo away >&2; exit 1");
    hup(&serving);
    assert_eq!(serving.line()["failed"]["stage"], "jobs");
    // Killed, not stopped; half a line is left behind; then it goes on.
    drop(serving);
    let file = site.path("state/record/000001.jsonl");
    let mut text = std::fs::read(&file).unwrap();
    text.extend_from_slice(b"{\"event\":\"seen\",\"ti");
    std::fs::write(&file, text).unwrap();
    site.squeue("cat \"$(dirname \"$0\")/jobs\"");
    site.jobs("4|RUNNING|n[3,7,11,15]|100\n");
    let serving = Serving::start(&site);
    assert_eq!(serving.line()["epoch"]["epoch"], 6);
    assert_eq!(serving.stop(), 0);

    let (code, found) = replay(&site, "again");
    assert_eq!((code, &found["recorded"], &found["same"]), (0, &6.into(), &6.into()), "{found}");
    assert_eq!(assert_same_epochs(&site.path("state"), &site.path("again")), 6);
    assert_capture_has_no_names(&site);
    // A recording that says otherwise is noticed.
    let lines = std::fs::read_to_string(&file).unwrap();
    let at = lines.find("\"n6\"").unwrap();
    std::fs::write(&file, format!("{}\"n7\"{}", &lines[..at], &lines[at + 4..])).unwrap();
    let (code, found) = replay(&site, "changed");
    assert_eq!(code, 1, "{found}");
    assert!(found["different"][0].as_str().unwrap().contains("epoch 2"), "{found}");
    // And a damaged one is refused with its line.
    std::fs::write(&file, lines.replacen("\"event\":\"policy\"", "\"event\":\"polizy\"", 1)).unwrap();
    let output = site
        .command(&["replay-events"])
        .arg(site.path("state/record"))
        .arg("--out")
        .arg(site.path("x"))
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("000001.jsonl:4:"), "{output:?}");
}

/// The files of epochs that an earlier version made of its recording, by their sums.
///
/// A change of `dfsssp`, `updown`, the figures or the files of an epoch changes them too. Who means that renews them:
///
/// ```text
/// sarouter replay-events tests/data/record/000001.jsonl --out again
/// (cd again && sha256sum epochs/*/*) > tests/data/record/SHA256SUMS
/// ```
#[test]
fn an_earlier_versions_recording_makes_the_epochs_that_it_made_then() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/record");
    let (record, again) = (data.join("000001.jsonl"), tempfile::tempdir().unwrap());
    let words = ["replay-events".as_ref(), record.as_os_str(), "--out".as_ref(), again.path().as_os_str()];
    let output = sarouter(".", words);
    let mut made: Vec<String> = texts(&again.path().join("epochs"))
        .into_iter()
        .map(|(path, bytes)| {
            let name = path.strip_prefix(again.path()).unwrap().display();
            format!("{:x}  {name}", Sha256::digest(bytes))
        })
        .collect();
    made.sort_by(|a, b| a[64..].cmp(&b[64..]));
    let then = std::fs::read_to_string(data.join("SHA256SUMS")).unwrap();
    assert_eq!(made.len(), 24, "{output:?}");
    assert_eq!(made, then.lines().collect::<Vec<_>>());
}

/// A capture repeats itself, and names nobody.
fn assert_capture_has_no_names(site: &Site) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/capture");
    let mut command = std::process::Command::new(script);
    command
        .arg(site.path("state"))
        .arg(site.path("capture.tar.gz"))
        .env("SAROUTER", env!("CARGO_BIN_EXE_sarouter"));
    assert!(command.status().unwrap().success());
    let mut tar = std::process::Command::new("tar");
    assert!(
        tar.arg("-xzf")
            .arg(site.path("capture.tar.gz"))
            .arg("-C")
            .arg(site.path(""))
            .status()
            .unwrap()
            .success()
    );
    let record = site.path("capture/record");
    let (code, text) =
        site.run(&["replay-events", record.to_str().unwrap(), "--out", site.path("third").to_str().unwrap()]);
    let found = json(&text);
    assert_eq!((code, &found["recorded"], &found["same"]), (0, &6.into(), &6.into()), "{found}");
    let fabric = sarouter::lab::generate::generate("fattree:4x4,2").unwrap();
    let switch = &fabric.switches()[0];
    let original = std::fs::read_to_string(site.path("state/record/000001.jsonl")).unwrap();
    let captured = std::fs::read_to_string(record.join("000001.jsonl")).unwrap();
    for name in [format!("{:016x}", switch.guid.get()), switch.description.clone()] {
        assert!(original.contains(&name) && !captured.contains(&name), "{name}");
    }
}

/// A site with jobs from a spool, whose service looks without a pause.
fn busy(more: &str) -> Site {
    let site = Site::new("interval_seconds = 0.01\nbackoff_max_seconds = 0.01");
    site.alter("[slurm]\n", "[slurm]\nsource = \"spool\"\n");
    site.settings(&format!("[spool]\ndirectory = \"spool\"\n{more}"));
    std::fs::create_dir(site.path("spool")).unwrap();
    write_jobs(&site, 0);
    site
}

/// Other jobs for each round: two to five, some on one switch.
fn write_jobs(site: &Site, round: u64) {
    let mut rng = Rng::new(round);
    // Never the job of the round before.
    let first = [1 + round as usize % 4, 5 + round as usize / 4 % 4];
    let mut nodes: Vec<usize> = (1..=16).filter(|n| !first.contains(n)).collect();
    rng.shuffle(&mut nodes);
    let mut text = format!("{} n{},n{}\n", round * 10 + 9, first[0], first[1]);
    for id in 0..1 + rng.below(4) {
        let names: Vec<String> = nodes.drain(..2 + rng.below(2)).map(|n| format!("n{n}")).collect();
        text.push_str(&format!("{} {}\n", round * 10 + id as u64, names.join(",")));
    }
    site.replace("spool/.new", &text);
    std::fs::rename(site.path("spool/.new"), site.path("spool/jobs")).unwrap();
}

/// Kills the service at random moments, each time in the midst of other jobs.
fn kill(kills: u64) {
    let site = busy("[record]\nfiles = 1000\n");
    let store = EpochStore::open(&site.path("state")).unwrap();
    let mut rng = Rng::new(1);
    let (mut last, mut begun) = (0, 0);
    for round in 0..kills {
        let mut child = site
            .command(&["serve"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let moment = rng.below(200_000) as u64;
        for part in 0..4 {
            write_jobs(&site, round * 4 + part);
            std::thread::sleep(Duration::from_micros(moment / 4));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let Some(current) = store.current().unwrap() else { continue };
        begun += 1;
        assert!(current.get() >= last, "epoch {current} after {last}");
        last = current.get();
        for epoch in store.epochs().unwrap() {
            store.epoch(epoch).unwrap_or_else(|e| panic!("after kill {round}: {e}"));
        }
    }
    println!("{kills} kills, {begun} with an epoch in force, {last} epochs");
    assert!(last > kills / 10, "only {last} epochs");
    let (code, found) = replay(&site, "again");
    println!("{found}");
    assert_eq!(code, 0, "{found}");
    assert_eq!(found["recorded"], found["same"], "{found}");
    assert!(assert_same_epochs(&site.path("state"), &site.path("again")) > 1);
}

#[test]
fn a_service_killed_at_random_moments_loses_and_mixes_nothing() {
    kill(15);
}

#[test]
#[ignore = "takes minutes: run scripts/test"]
fn a_service_killed_500_times_loses_and_mixes_nothing() {
    kill(often(500, 50) as u64);
}

/// Resident bytes and open files of a process.
fn used(pid: u32) -> (u64, usize) {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    (pages * 4096, std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count())
}

fn size(path: PathBuf) -> u64 {
    let entries = std::fs::read_dir(path).unwrap();
    entries.map(|e| e.unwrap().metadata().unwrap().len()).sum()
}

#[test]
#[ignore = "takes minutes: run scripts/test"]
fn five_thousand_epochs_leave_memory_and_files_as_they_were() {
    // A year with an epoch every 100 minutes.
    let epochs = often(5_200, 260) as u64;
    let site = busy("[record]\nfile_mib = 1\nfiles = 3\n");
    site.alter("[state]\n", "[state]\nkeep_epochs = 20\n");
    let serving = Serving::start(&site);
    let socket = site.path("state/api.sock");
    let client = sarouter::service::client::Client::new(&socket, Duration::from_secs(60));
    let (mut rows, mut epoch, mut round) = (Vec::new(), 0, 0);
    while epoch < epochs {
        round += 1;
        write_jobs(&site, round);
        let line = serving.line();
        epoch = line["epoch"]["epoch"].as_u64().unwrap_or_else(|| panic!("{line}"));
        if epoch % (epochs / 13) == 0 {
            // Others ask meanwhile.
            for path in ["/v1/health", "/v1/jobs", "/v1/load", "/v1/epochs?limit=5"] {
                client.wait(client.get::<Value>(path)).unwrap();
            }
            // The least of some moments: the history is being written in others.
            let moments = (0..20).map(|_| {
                std::thread::sleep(Duration::from_millis(5));
                used(serving.pid())
            });
            let (resident, files) = moments.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))).unwrap();
            println!("epoch {epoch}: {} KiB resident, {files} files", resident >> 10);
            rows.push((resident, files));
        }
    }
    let (early, late) = (rows[1], rows[rows.len() - 1]);
    // The history grows towards its retention meanwhile; what is asked of it is a page of it.
    assert!(late.0 < early.0 + (4 << 20), "memory grows: {rows:?}");
    assert!(late.1 <= early.1 + 2, "open files grow: {rows:?}");
    let store = EpochStore::open(&site.path("state")).unwrap();
    assert!(store.epochs().unwrap().len() <= 21);
    let record = size(site.path("state/record"));
    assert!(record < 4 << 20, "{record} bytes recorded");
    println!("{} bytes recorded in 3 files, {} epochs kept", record, store.epochs().unwrap().len());
    assert_eq!(serving.stop(), 0);
    // The oldest file that is left begins in the middle, and stands by itself.
    let (code, found) = replay(&site, "again");
    println!("{found}");
    assert_eq!((code, &found["recorded"]), (0, &found["same"]), "{found}");
    assert!(found["same"].as_u64() > Some(100), "{found}");
}

/// Content of every file under a directory.
fn texts(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    entries
        .flat_map(|p| if p.is_dir() { texts(&p) } else { vec![(p.clone(), std::fs::read(p).unwrap())] })
        .collect()
}

#[test]
fn a_capture_that_begins_in_the_middle_knows_what_was_in_force_and_names_nobody() {
    let site = Site::new("interval_seconds = 3600");
    // Made before there was a recording.
    site.jobs("424242|RUNNING|n[1,5,9]|100\n");
    assert_eq!(site.run(&["tick"]).0, 0);
    let serving = Serving::start(&site);
    site.jobs("7|RUNNING|n[2,6]|100\n");
    serving.ready(&site);
    serving.signal(rustix::process::Signal::HUP);
    assert_eq!(serving.line()["epoch"]["epoch"], 2);
    assert_eq!(serving.stop(), 0);
    let (record, out) = (site.path("state/record"), site.path("capture"));
    let (code, text) = site.run(&["capture", record.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert_eq!((code, &json(&text)["begins_in_force"], &json(&text)["epochs"]), (0, &true.into(), &1.into()));
    // As in the original: a change of jobs from tables that were there, not a beginning.
    let plan = |dir: &Path| json(&std::fs::read_to_string(dir.join("epochs/000002/plan.json")).unwrap());
    let (ours, theirs) = (plan(&site.path("state")), plan(&out));
    for key in ["reason", "previous", "before", "after"] {
        assert_eq!(ours[key], theirs[key], "{key}");
    }
    assert_eq!(ours["reason"], "jobs_changed");
    for (path, bytes) in texts(&out) {
        assert!(!bytes.windows(6).any(|w| w == b"424242"), "{}", path.display());
    }
    // Who gets it can repeat it.
    let again = site.path("again");
    let words = ["replay-events", &format!("{}/record", out.display()), "--out", again.to_str().unwrap()];
    let (code, text) = site.run(&words);
    assert_eq!((code, &json(&text)["recorded"], &json(&text)["same"]), (0, &1.into(), &1.into()), "{text}");
}
