//! State directory, OpenSM and its plugin.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use chrono::Utc;

use super::{Check, EXAMPLES, PLUGINS, chain, unread};
use crate::config::{OpenSm, Settings};
use crate::publish::EpochStore;
use crate::publish::opensm::{ENGINE, PluginStatus};
use crate::service::health::{Health, Kind};
use crate::service::kind::direct;

pub(super) fn check(settings: &Settings) -> Vec<Check> {
    let state = &settings.state.directory;
    let mut checks = vec![directory(state, settings.name.is_some())];
    checks.extend(disk(state));
    if let Ok(store) = EpochStore::open(state) {
        checks.extend(current(&store));
        checks.extend(service(&store));
    }
    if let (Some(opensm), None) = (&settings.opensm, direct::source(settings)) {
        checks.push(plugin(opensm, state));
        checks.extend(conf(opensm, settings));
    }
    checks
}

fn directory(state: &Path, is_of_several: bool) -> Check {
    const NAME: &str = "state";
    let shown = state.display();
    let user = rustix::process::geteuid().as_raw();
    let found = match std::fs::metadata(state) {
        Ok(found) => found,
        // The service makes those of several fabrics.
        Err(error) if error.kind() == ErrorKind::NotFound && is_of_several => {
            return Check::good(NAME, format!("{shown} will be made by the service"));
        }
        Err(error) => {
            let owner = if user == 0 { "-o sarouter -g sarouter " } else { "" };
            let fix = format!("install -d -m 755 {owner}{shown}");
            return Check::fix(NAME, format!("{shown}: {error}"), fix);
        }
    };
    if !found.is_dir() {
        return Check::fix(NAME, format!("{shown} is not a directory"), "correct state.directory");
    }
    if found.mode() & 0o022 != 0 {
        let what = format!("{shown} can be written by others (mode {:o})", found.mode() & 0o7777);
        return Check::fix(NAME, what, format!("chmod 755 {shown}: who may write here may route the fabric"));
    }
    if found.mode() & 0o005 != 0o005 {
        let what = format!("{shown} cannot be read by others (mode {:o})", found.mode() & 0o7777);
        return Check::fix(NAME, what, format!("chmod 755 {shown}: OpenSM may run as another user"));
    }
    let is_writable = rustix::fs::access(state, rustix::fs::Access::WRITE_OK).is_ok();
    if found.uid() == user && !is_writable {
        let what = format!("nothing can be written to {shown}: is it mounted read-only?");
        return Check::fix(NAME, what, "mount it to be written, or choose another state.directory");
    }
    if !is_writable || (found.uid() != user && user != 0) {
        let what = format!("{shown} belongs to user {}, this is user {user}", found.uid());
        return Check::fix(NAME, what, "run sarouter as the owner, or chown the directory");
    }
    Check::good(NAME, format!("{shown}, owner {}, mode {:o}", found.uid(), found.mode() & 0o7777))
}

/// Epochs that should still fit.
const SPARE_EPOCHS: u64 = 10;
/// Bytes that an epoch of a small fabric takes at most.
const SMALL_EPOCH: u64 = 4 << 20;

fn disk(state: &Path) -> Option<Check> {
    let space = rustix::fs::statvfs(state).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let store = EpochStore::open(state).ok()?;
    let files = store.current().ok().flatten().map(|n| store.epoch_path(n));
    let sizes = files.and_then(|dir| std::fs::read_dir(dir).ok()).into_iter().flatten();
    let epoch: u64 = sizes.filter_map(|f| f.ok()?.metadata().ok()).map(|m| m.len()).sum();
    let wanted = SPARE_EPOCHS * epoch.max(SMALL_EPOCH);
    let found =
        format!("{} MiB free, an epoch takes {:.1} MiB", free >> 20, epoch as f64 / f64::from(1 << 20));
    Some(if free >= wanted {
        Check::good("disk", found)
    } else {
        Check::fix("disk", found, format!("make room for {SPARE_EPOCHS} epochs, or lower state.keep_epochs"))
    })
}

/// Whether the epoch in force is there and whole, if there is one.
fn current(store: &EpochStore) -> Option<Check> {
    const NAME: &str = "current";
    let epoch = store.current().and_then(|n| n.map(|n| store.epoch(n)).transpose());
    match epoch {
        Ok(epoch) => Some(Check::good(NAME, format!("epoch {} is whole", epoch?.plan().epoch))),
        Err(error) => {
            let fix = "the next pass of the service, or `sarouter tick`, publishes another; `sarouter rollback EPOCH` \
                       goes back to one that `sarouter history` lists";
            Some(Check::fix(NAME, chain(&error), fix))
        }
    }
}

/// Whether the service lives and can say how it fares. One that nobody started is not missed.
fn service(store: &EpochStore) -> Option<Check> {
    const NAME: &str = "service";
    let health = match Health::read(store.path()) {
        Ok(health) => health,
        Err(error) => {
            let fix = "see whose file it is; the service writes it again, `systemctl restart sarouter`";
            return Some(Check::fix(NAME, chain(&error), fix));
        }
    };
    if let Some(trouble) = Health::unsaid(store, health.as_ref(), Utc::now()) {
        let fix = match trouble.kind {
            Kind::Stopped => "look at its log for the reason, and `systemctl start sarouter`",
            _ => "make room, and leave the files of the state directory to the user of the service",
        };
        return Some(Check::fix(NAME, trouble.text, fix));
    }
    let running = health.filter(|health| health.serving)?;
    Some(Check::good(NAME, format!("process {}", running.pid)))
}

fn plugin(opensm: &OpenSm, state: &Path) -> Check {
    const NAME: &str = "plugin";
    let status = match PluginStatus::read(&opensm.status_file) {
        Ok(status) => status,
        Err(error) => {
            let fix =
                "install the plugin built against this OpenSM, set opensm.conf as below, restart OpenSM";
            return Check::fix(NAME, chain(&error), fix);
        }
    };
    let now = Utc::now();
    let age = status.age(now);
    if age.to_std().is_ok_and(|age| age > opensm.stale) {
        let found = format!("{} is {} s old", status.file.display(), age.num_seconds());
        return Check::fix(NAME, found, "OpenSM is gone or hangs: look at its log and start it again");
    }
    let current = EpochStore::open(state).and_then(|store| store.current()).ok().flatten();
    if let Some(trouble) = status.troubles(current.map(|n| n.get()), now).first() {
        return Check::fix(
            NAME,
            trouble.to_string(),
            format!("see OpenSM's log; README.md in {PLUGINS} explains the states"),
        );
    }
    let ours = env!("CARGO_PKG_VERSION");
    if status.plugin != ours {
        let found = format!("version {}, sarouter is {ours}", status.plugin);
        return Check::fix(NAME, found, "build and install the plugin of this version, restart OpenSM");
    }
    let force = status.generation.map_or("no epoch".to_string(), |n| format!("epoch {n}"));
    Check::good(NAME, format!("version {} in {}, {force} in force", status.plugin, status.opensm))
}

/// What OpenSM's settings say: key to value, later lines win.
pub(super) fn keys(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or("").trim());
    lines.filter_map(|l| l.split_once(char::is_whitespace)).map(|(k, v)| (k, v.trim())).collect()
}

fn conf(opensm: &OpenSm, settings: &Settings) -> Vec<Check> {
    let path = opensm.conf.display();
    match std::fs::read_to_string(&opensm.conf) {
        Ok(text) => {
            let keys = keys(&text);
            let mut checks = conf_checks(&keys, settings.routing.layers.get(), &settings.state.directory);
            checks
                .extend(keys.get("event_plugin_options").into_iter().flat_map(|text| options(text, opensm)));
            checks.extend(lmc(&keys).filter(|_| settings.split_lids));
            checks
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            vec![unread("opensm.conf", &path.to_string())]
        }
        Err(error) => {
            let fix = format!("set opensm.conf; opensm.conf.part in {EXAMPLES} shows what belongs into it");
            vec![Check::fix("opensm.conf", format!("{path}: {error}"), fix)]
        }
    }
}

/// What is wrong with the options of the plugin: with one that it does not know OpenSM runs without it.
fn options(text: &str, opensm: &OpenSm) -> Vec<Check> {
    const ON_LOSS: [&str; 3] = ["repair", "decline", "hold"];
    let (stale, file) = (opensm.stale.as_secs(), opensm.status_file.display());
    let said = |option: &str| {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let seconds = value.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
        match key {
            "state" if value.starts_with('/') => None,
            "status" if Path::new(value) == opensm.status_file => None,
            "status" if value.starts_with('/') => {
                Some(format!("opensm.status_file is {file}: they must be the same"))
            }
            "on_loss" if ON_LOSS.contains(&value) => None,
            "heartbeat" if seconds.is_some_and(|seconds: u64| seconds < stale) => None,
            "heartbeat" if seconds.is_some() => Some(format!(
                "opensm.stale_seconds is {stale}: OpenSM would be taken for dead between two of them"
            )),
            "repair_limit" if seconds.is_some() => None,
            "heartbeat" | "repair_limit" => Some(format!("{key} is 1 to 3600 seconds")),
            "on_loss" => Some(format!("on_loss is {}", ON_LOSS.join(", "))),
            _ => Some("known are state=/DIR, status=/FILE, heartbeat=SECONDS, repair_limit=SECONDS and on_loss=WHAT".into()),
        }
    };
    let all = text.split([',', ' ', '\t']).filter(|option| !option.is_empty() && *option != "(null)");
    let found = |option: &str| format!("event_plugin_options has {option}");
    all.filter_map(|option| Some(Check::fix("opensm.conf", found(option), said(option)?))).collect()
}

/// Whether ports have two LIDs, where these are to have routes of their own.
fn lmc(keys: &BTreeMap<&str, &str>) -> Option<Check> {
    let value = keys.get("lmc").copied().unwrap_or("(not set)");
    let fix = "lmc 1 in opensm.conf and restart OpenSM: it numbers the hosts anew; or opensm.lmc = 0 in sarouter.toml";
    (value != "1").then(|| Check::fix("opensm.conf", format!("lmc is {value}, opensm.lmc is 1"), fix))
}

fn conf_checks(keys: &BTreeMap<&str, &str>, layers: u8, state: &Path) -> Vec<Check> {
    let value = |key: &str| keys.get(key).copied().unwrap_or("(not set)");
    let mut wrong = Vec::new();
    let mut wants = |good: bool, key: &'static str, fix: String| {
        if !good {
            wrong.push(Check::fix("opensm.conf", format!("{key} is {}", value(key)), fix));
        }
    };
    let list = |key: &str| value(key).split([',', ' ']).map(str::trim).collect::<Vec<_>>();
    wants(
        list("routing_engine").first() == Some(&ENGINE),
        "routing_engine",
        format!("routing_engine {ENGINE},updn"),
    );
    wants(
        list("event_plugin_name").contains(&ENGINE),
        "event_plugin_name",
        format!("event_plugin_name {ENGINE}"),
    );
    let options = list("event_plugin_options");
    let named = options.iter().find_map(|o| o.strip_prefix("state=")).unwrap_or("/var/lib/sarouter");
    wants(
        Path::new(named) == state,
        "event_plugin_options",
        format!("event_plugin_options state={}", state.display()),
    );
    let is_on = |key| matches!(value(key).to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1");
    let on = is_on("qos");
    if layers > 1 {
        wants(on, "qos", "qos TRUE, or routing.layers = 1: without it every layer is on VL 0".into());
        for key in ["qos_sl2vl", "qos_ca_sl2vl", "qos_sw0_sl2vl", "qos_swe_sl2vl", "qos_rtr_sl2vl"] {
            wants(
                is_identity(value(key), layers),
                key,
                format!("SLs 0 to {} must be mapped to the VLs of the same number", layers - 1),
            );
        }
    }
    for (prefix, low) in VLARB.into_iter().filter(|_| on) {
        let starved = starved(keys, prefix, layers);
        let named = starved.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
        let fix = format!(
            "give VL {named} a weight in {prefix}_vlarb_high or {prefix}_vlarb_low: without one it never sends"
        );
        wants(starved.is_empty(), low, fix);
    }
    // OpenSM would keep entries of its own that our engine did not make.
    wants(!is_on("use_ucast_cache"), "use_ucast_cache", "use_ucast_cache FALSE".into());
    if let Some(vls) = keys.get("max_op_vls").and_then(|v| operated(v)) {
        let fix = format!("raise max_op_vls, or lower routing.layers to {vls}");
        wants(layers <= vls, "max_op_vls", fix);
    }
    if wrong.is_empty() {
        wrong.push(Check::good("opensm.conf", format!("fits, for {layers} layers")));
    }
    wrong
}

/// Whose arbitration is looked at, and the key to name: of all ports, of switches between each other, of hosts.
const VLARB: [(&str, &str); 3] =
    [("qos", "qos_vlarb_low"), ("qos_swe", "qos_swe_vlarb_low"), ("qos_ca", "qos_ca_vlarb_low")];

/// VLs in use to which the arbitration of ports gives no weight at all. What a setting for some ports leaves out, the
/// general one says. What both leave out, OpenSM's default: VL 0 alone in the list of high priority, all others in the
/// one of low priority. So one list alone may starve some.
fn starved(keys: &BTreeMap<&str, &str>, prefix: &str, layers: u8) -> Vec<u8> {
    let list = |priority: &str| {
        let own = [prefix, "qos"].map(|p| format!("{p}_vlarb_{priority}"));
        let set = own.iter().find_map(|key| keys.get(key.as_str()).filter(|v| !v.starts_with('(')));
        set.map(|text| weights(text))
    };
    let high = list("high").unwrap_or_else(|| vec![(0, 4)]);
    let low = list("low").unwrap_or_else(|| (1..15).map(|vl| (vl, 4)).collect());
    let weight = |vl: u8| high.iter().chain(&low).filter(|(of, _)| *of == vl).map(|(_, w)| w).sum::<u64>();
    (0..layers).filter(|vl| weight(*vl) == 0).collect()
}

/// VL and weight of each entry of an arbitration table: `0:4,1:0`.
fn weights(text: &str) -> Vec<(u8, u64)> {
    let entry = |e: &str| {
        let (vl, weight) = e.trim().split_once(':')?;
        Some((vl.trim().parse().ok()?, weight.trim().parse().ok()?))
    };
    text.split(',').filter_map(entry).collect()
}

/// Whether an SL2VL setting leaves the SLs in use where they are. Not set: OpenSM's default does.
fn is_identity(setting: &str, layers: u8) -> bool {
    if setting.starts_with('(') {
        return true;
    }
    let vls: Vec<Option<u8>> = setting.split(',').map(|v| v.trim().parse().ok()).collect();
    (0..layers).all(|sl| vls.get(usize::from(sl)) == Some(&Some(sl)))
}

/// How many data VLs a value of `max_op_vls` allows (InfiniBand's OperationalVLs).
fn operated(value: &str) -> Option<u8> {
    match value {
        "1" => Some(1),
        "2" => Some(2),
        "3" => Some(4),
        "4" => Some(8),
        "5" => Some(15),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# OpenSM\nrouting_engine minhop\nrouting_engine sarouter,updn # later wins\n\
        event_plugin_name sarouter\nevent_plugin_options state=/s,heartbeat=5\nqos TRUE\n\
        qos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\nqos_ca_sl2vl (null)\nmax_op_vls 4\n";

    /// Keys complained about.
    fn wrong(text: &str, layers: u8) -> Vec<String> {
        let checks = conf_checks(&keys(text), layers, Path::new("/s"));
        let word = |c: &Check| c.found.split(' ').next().unwrap_or("").to_string();
        checks.iter().filter(|c| !c.good).map(word).collect()
    }

    #[test]
    fn a_fitting_opensm_conf_is_left_alone() {
        assert_eq!(wrong(GOOD, 8), [""; 0]);
    }

    #[test]
    fn each_wrong_key_of_opensm_conf_is_named() {
        assert_eq!(wrong("", 8), ["routing_engine", "event_plugin_name", "event_plugin_options", "qos"]);
        assert_eq!(wrong("", 1), ["routing_engine", "event_plugin_name", "event_plugin_options"]);
        assert_eq!(wrong(&format!("{GOOD}routing_engine updn,sarouter\n"), 8), ["routing_engine"]);
        assert_eq!(wrong(&format!("{GOOD}qos FALSE\n"), 2), ["qos"]);
        assert_eq!(wrong(&format!("{GOOD}use_ucast_cache TRUE\n"), 8), ["use_ucast_cache"]);
        assert_eq!(wrong(&format!("{GOOD}max_op_vls 3\n"), 8), ["max_op_vls"]);
        assert_eq!(wrong(&format!("{GOOD}max_op_vls 3\n"), 4), [""; 0]);
        assert_eq!(wrong(&format!("{GOOD}qos_swe_sl2vl 0,0,0,0\n"), 4), ["qos_swe_sl2vl"]);
        assert_eq!(wrong(&format!("{GOOD}event_plugin_options state=/t\n"), 8), ["event_plugin_options"]);
    }

    #[test]
    fn routes_for_two_lids_want_ports_that_have_two() {
        assert!(lmc(&keys(&format!("{GOOD}lmc 1\n"))).is_none());
        for (text, found) in [("", "lmc is (not set)"), ("lmc 0\n", "lmc is 0"), ("lmc 2\n", "lmc is 2")] {
            assert!(lmc(&keys(&format!("{GOOD}{text}"))).unwrap().found.starts_with(found), "{text}");
        }
    }

    #[test]
    fn a_vl_without_weight_is_named() {
        let conf = |high: &str, low: &str| format!("{GOOD}qos_vlarb_high {high}\nqos_swe_vlarb_low {low}\n");
        let low_of_all = "qos_vlarb_low 0:0,1:4,2:4,3:4\n";
        assert_eq!(wrong(&format!("{}{low_of_all}", conf("0:4", "1:4,2:4,3:0")), 4), ["qos_swe_vlarb_low"]);
        assert_eq!(wrong(&format!("{}{low_of_all}", conf("0:4", "1:4,2:4,3:0")), 3), [""; 0]);
        // What is said of all ports holds for each kind of them.
        let all = VLARB.map(|(_, low)| low);
        assert_eq!(wrong(&format!("{GOOD}qos_vlarb_high 0:4\nqos_vlarb_low 0:4\n"), 4), all);
        // OpenSM's other list serves VL 0 alone, or all but VL 0.
        assert_eq!(wrong(&format!("{GOOD}qos_vlarb_high (null)\nqos_vlarb_low 0:4\n"), 4), all);
        assert_eq!(wrong(&format!("{GOOD}qos_vlarb_low 0:0,1:0,2:0\n"), 3), all);
        assert_eq!(wrong(&format!("{GOOD}qos_vlarb_high 1:4,2:4\n"), 3), all);
        assert_eq!(wrong(&format!("{GOOD}qos_vlarb_low 1:4,2:4\n"), 3), [""; 0]);
        assert_eq!(wrong(&format!("{GOOD}qos_ca_vlarb_low 0:0\n"), 1), [""; 0]);
        let hosts = format!("{GOOD}qos_ca_vlarb_high 0:0\nqos_ca_vlarb_low 0:0\n");
        assert_eq!(wrong(&hosts, 1), ["qos_ca_vlarb_low"]);
    }

    #[test]
    fn a_state_directory_that_others_may_write_or_not_read_is_to_be_fixed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let with_mode = |mode| {
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            directory(dir.path(), false)
        };
        assert!(with_mode(0o755).good);
        assert!(with_mode(0o777).fix.starts_with("chmod 755"));
        assert!(with_mode(0o700).fix.contains("OpenSM may run"));
        assert!(directory(&dir.path().join("missing"), false).fix.starts_with("install -d"));
    }
}
