//! Two subnet managers: the master's OpenSM dies, the standby's takes over with the epoch in force, and
//! gives it back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use sarouter::lab::generate::generate;
use sarouter::publish::opensm::PluginStatus;
use sarouter::publish::{Epoch, EpochStore};

use crate::end_to_end::Cluster;
use crate::service::certificate;
use crate::testbed::{Running, assert_in_force, await_some, free_port, run, unreached};

const TOKEN: &str = "0123456789abcdef-read";

/// A cluster whose service can be followed over TLS.
fn followed(port: u16) -> Cluster {
    let prepare = |state: &Path| {
        let bed = state.parent().unwrap();
        certificate(bed, "localhost", &["-addext", "basicConstraints=critical,CA:FALSE"]);
        for (name, text) in [("tokens", format!("{TOKEN} read\n")), ("token", format!("{TOKEN}\n"))] {
            fs::write(bed.join(name), text).unwrap();
        }
        for name in ["tokens", "token", "key.pem"] {
            fs::set_permissions(bed.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
    };
    let settings = format!(
        "\n[handoff]\nmin_length_seconds = 0\nreroute_interval_seconds = 0\n[api]\ntcp = \"127.0.0.1:{port}\"\n\
         token_file = \"tokens\"\ntls_certificate = \"cert.pem\"\ntls_key = \"key.pem\"\n"
    );
    Cluster::on(generate("fattree:4x4,2").unwrap(), prepare, |text| text + &settings)
}

fn standby(cluster: &Cluster) -> PathBuf {
    cluster.bed.path().join("standby/state")
}

/// The epoch in force in the copy.
fn copied(cluster: &Cluster) -> Option<Epoch> {
    let store = EpochStore::open(&standby(cluster)).unwrap();
    store.current().unwrap().map(|n| store.epoch(n).unwrap())
}

/// Waits until the standby's OpenSM is master and has this epoch in force, and reads every table back.
fn await_standby(cluster: &Cluster, epoch: &Epoch) {
    let number = epoch.number().get();
    await_some(&format!("epoch {number} at the standby"), || {
        let files = fs::read_dir(standby(cluster)).unwrap().map(|file| file.unwrap().path());
        let mut status = files.filter(|f| {
            let name = f.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("opensm-status") && name.ends_with(".json")
        });
        let is = |file: PathBuf| PluginStatus::read(&file).is_ok_and(|s| s.running && s.in_force(number));
        status.any(is).then_some(())
    });
    assert_eq!(copied(cluster).unwrap().number(), epoch.number());
    assert_in_force(&cluster.bed, &cluster.fabric, &epoch.tables(&cluster.fabric).unwrap());
    assert_eq!(unreached(&cluster.bed, &cluster.fabric), []);
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_standby_takes_over_with_the_epoch_in_force_and_gives_it_back() {
    let port = free_port();
    let cluster = followed(port);
    let bed = cluster.bed.path();
    await_some("the first epoch", || cluster.current());
    fs::create_dir_all(bed.join("standby")).unwrap();
    let mut follow = Command::new(env!("CARGO_BIN_EXE_sarouter"));
    follow.args(["follow", &format!("https://localhost:{port}"), "--interval", "1", "--token-file"]);
    follow.arg(bed.join("token")).arg("--ca").arg(bed.join("cert.pem"));
    follow.arg("--state").arg(standby(&cluster)).env("SAROUTER_LOG", "error");
    // It keeps the standby's state directory.
    let _follow = Running::spawn(&mut follow);
    await_some("the first copy", || copied(&cluster));

    // Under load; the standby has each epoch.
    let first = cluster.submit("n[1,5,9,13]", 4);
    cluster.await_running(&first);
    let before = cluster.await_epoch_for(&[&[1, 5, 9, 13]]);
    await_some("the epoch in the copy", || copied(&cluster).filter(|e| e.number() == before.number()));

    // The master dies: the same tables stay in force, now by the standby. It starts only now: the simulator
    // loses answers of two managers to each other, and the one that waits for them hangs.
    let killed = Instant::now();
    cluster.bed.script(&["kill", "opensm"]);
    cluster.bed.script(&["start", "standby"]);
    await_standby(&cluster, &before);
    println!(
        "the standby had epoch {} in force after {:.1} s",
        before.number(),
        killed.elapsed().as_secs_f64()
    );

    // Jobs go on: each starts at its deadline at the latest, and has its routes by the standby.
    let sarouter = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sarouter"));
        run(command.args(words).arg("--config").arg(bed.join("sarouter.toml")).env_remove("SLURM_JOB_ID"))
    };
    let begun = Instant::now();
    let said = sarouter(&["prolog", "--job", "900", "--nodes", "n[2,6,10,14]"]);
    println!("a job waited {:.1} s without the master: {said}", begun.elapsed().as_secs_f64());
    // Over before the next one on its nodes: else both would have routes for a moment, in an epoch more.
    sarouter(&["epilog", "--job", "900"]);
    let second = cluster.submit("n[2,6,10,14]", 4);
    cluster.await_running(&second);
    let during = await_some("an epoch for both jobs", || {
        cluster.current().filter(|e| e.plan().demand.groups.len() == 2)
    });
    await_standby(&cluster, &during);
    assert!(during.number() > before.number());

    // And back.
    cluster.bed.script(&["stop", "standby"]);
    cluster.bed.script(&["start", "opensm"]);
    cluster.bed.await_epoch(during.number().get());
    assert_in_force(&cluster.bed, &cluster.fabric, &during.tables(&cluster.fabric).unwrap());
    let third = cluster.submit("n[3,7,11]", 3);
    cluster.await_running(&third);
    let after = cluster.await_epoch_for(&[&[1, 5, 9, 13], &[2, 6, 10, 14], &[3, 7, 11]]);
    assert_in_force(&cluster.bed, &cluster.fabric, &after.tables(&cluster.fabric).unwrap());
    await_some("the last epoch in the copy", || copied(&cluster).filter(|e| e.number() == after.number()));
    cluster.await_healthy();
}
