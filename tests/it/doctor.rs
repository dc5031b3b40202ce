//! As whom `doctor` looks, and what that user does not see.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::site::{Serving, Site, json};

/// A check of this name, as whether it is good and what was found.
fn found(text: &str, name: &str) -> (bool, String) {
    let checks = json(text);
    let check = checks.as_array().unwrap().iter().find(|check| check["name"] == name).unwrap();
    (check["good"].as_bool().unwrap(), check["found"].as_str().unwrap().to_string())
}

fn state(site: &Site) {
    std::fs::create_dir(site.path("state")).unwrap();
    std::fs::set_permissions(site.path("state"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn nodes_of_jobs_that_are_kept_from_this_user_are_named() {
    let site = Site::new("");
    state(&site);
    let sinfo = "#!/bin/sh\ncase \"$*\" in *alloc*) echo 'n[1,5,9,12]';; *) echo 'n[1-16]';; esac\n";
    crate::script::script(site.path("sinfo"), sinfo);
    let squeue = || found(&site.run(&["doctor"]).1, "squeue");
    let (good, what) = squeue();
    assert!(!good && what.ends_with("to jobs that this user does not see: n12"), "{what}");
    site.jobs("1|RUNNING|n[1,5,9]|100\n2|RUNNING|n12|100\n");
    assert_eq!(squeue(), (true, "2 jobs own nodes".to_string()));
}

/// Nobody's, and a `squeue` that answers nobody else.
#[test]
fn root_looks_as_the_user_of_the_state_directory() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root may become another user");
    }
    let site = Site::new("");
    state(&site);
    chown(site.path("state"), Some(NOBODY), None).unwrap();
    site.squeue("[ \"$(id -u)\" = 65534 ] || exit 7\ncat \"$(dirname \"$0\")/jobs\"");
    // Wherever this is built, nobody may be kept from.
    std::fs::copy(env!("CARGO_BIN_EXE_sarouter"), site.path("sarouter")).unwrap();
    std::fs::set_permissions(site.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    let doctor = |environment: &[(&str, &str)]| -> String {
        let mut command = Command::new(site.path("sarouter"));
        command.args(["doctor", "--format", "json", "--config"]).arg(site.path("sarouter.toml"));
        let output = command.envs(environment.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = doctor(&[]);
    assert!(found(&text, "user").1.starts_with("looked as "), "{text}");
    assert!(!found(&text, "user").1.ends_with("root"), "{text}");
    assert!(found(&text, "squeue").0, "{text}");
    // As root it would have been told nothing.
    let text = doctor(&[("SAROUTER_DOCTOR_AS_SERVICE", "1")]);
    assert!(found(&text, "user").1.starts_with("root, who may read what the service may not"), "{text}");
    assert!(!found(&text, "squeue").0, "{text}");
}

/// What keeps OpenSM from loading the plugin, or the service from starting, is found before they are started.
#[test]
fn options_of_the_plugin_and_modes_of_secrets_are_looked_at() {
    let site = Site::new("");
    state(&site);
    site.settings("[api]\ntcp = \"127.0.0.1:0\"\ntoken_file = \"tokens\"\n");
    site.replace("tokens", "an-old-secret-of-ours-0123456789 write\n");
    let all = |text: &str| -> Vec<String> {
        let checks = json(text);
        let wrong = checks.as_array().unwrap().iter().filter(|check| check["good"] == false);
        wrong.map(|check| check["found"].as_str().unwrap().to_string()).collect()
    };
    let mode =
        |mode| std::fs::set_permissions(site.path("tokens"), std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    let text = site.run(&["doctor"]).1;
    assert!(all(&text).iter().any(|found| found.contains("its mode is 644, it must be 600")), "{text}");
    mode(0o600);
    let text = site.run(&["doctor"]).1;
    assert!(!all(&text).iter().any(|found| found.contains("it must be 600")), "{text}");
    site.alter("watch = false", "watch = true\nconf = \"opensm.conf\"");
    let state = site.path("state");
    for (options, wrong) in [
        ("hearbeat=5", "hearbeat=5"),
        ("on_loss=hould", "on_loss=hould"),
        ("heartbeat=60", "heartbeat=60"),
        ("status=/elsewhere", "status=/elsewhere"),
        ("repair_limit=0", "repair_limit=0"),
        ("heartbeat=5,repair_limit=60,on_loss=hold", ""),
    ] {
        let conf = format!(
            "routing_engine sarouter,updn\nevent_plugin_name sarouter\nqos TRUE\n\
             event_plugin_options state={},{options}\n",
            state.display()
        );
        site.replace("opensm.conf", &conf);
        let text = site.run(&["doctor"]).1;
        let named = all(&text).into_iter().find(|found| found.starts_with("event_plugin_options"));
        match wrong {
            "" => assert_eq!(named, None, "{text}"),
            wrong => assert_eq!(named, Some(format!("event_plugin_options has {wrong}")), "{text}"),
        }
    }
}

/// A direct torus has no OpenSM, and a site with a batch system of its own has no `squeue`.
#[test]
fn what_a_site_does_not_have_is_not_asked_for() {
    let site = Site::torus("sizes = [4, 4]\n");
    state(&site);
    std::fs::create_dir(site.path("spool")).unwrap();
    site.settings("[spool]\ndirectory = \"spool\"\n");
    site.squeue("exit 7");
    site.alter("[slurm]\n", "[slurm]\nsource = \"spool\"\n");
    let text = site.run(&["doctor"]).1;
    let checks = json(&text);
    let names: Vec<&str> =
        checks.as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert!(!names.contains(&"plugin") && !names.contains(&"opensm.conf"), "{text}");
    assert!(found(&text, "squeue").0, "{text}");
}

/// Cables change, and a file that nobody writes any more does not.
#[test]
fn an_old_file_of_the_fabric_is_told() {
    let site = Site::new("");
    state(&site);
    let age = |hours: u64| {
        let file = std::fs::File::options().write(true).open(site.path("fabric.net")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        found(&site.run(&["doctor"]).1, "fabric")
    };
    assert_eq!(age(23), (true, "6 switches, 16 terminals, 16 nodes".to_string()));
    assert_eq!(age(49), (true, "6 switches, 16 terminals, 16 nodes; the file is 2 days old".to_string()));
}

/// What `status` says of the service and of the epoch in force, `doctor` says too.
#[test]
fn a_killed_service_and_a_damaged_epoch_are_told() {
    let site = Site::new("interval_seconds = 3600");
    let serving = Serving::start(&site);
    serving.line();
    site.health();
    let about = |name: &str| found(&site.run(&["doctor"]).1, name);
    assert_eq!(about("current"), (true, "epoch 1 is whole".to_string()));
    assert!(about("service").0);
    // Killed.
    drop(serving);
    let (good, what) = about("service");
    assert!(!good && what.ends_with("has ended without a word"), "{what}");
    std::fs::write(site.path("state/current/lft.bin"), "").unwrap();
    let (good, what) = about("current");
    assert!(!good && what.contains("lft.bin"), "{what}");
    std::fs::remove_dir_all(site.path("state/epochs/000001")).unwrap();
    let (good, what) = about("current");
    assert!(!good && what.contains("no epoch 1"), "{what}");
}
