//! Whether Slurm's controller announces jobs, and what it says of our plugins.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Check, EXAMPLES, plugins, unread};
use crate::config::Settings;
use crate::observe::child::BoundedCommand;

/// What `scontrol show config` says of the hand-off before a job starts; nothing if it does not
/// answer (`squeue` has been complained of then).
pub(super) fn check(settings: &Settings) -> Vec<Check> {
    let Some(place) = settings.slurm.squeue.strip_suffix("squeue") else { return Vec::new() };
    let argv = [&format!("{place}scontrol"), "show", "config"].map(String::from).to_vec();
    let (deadline, output_limit) = (settings.slurm.deadline, settings.slurm.output_limit);
    let command = BoundedCommand { argv, environment: Vec::new(), deadline, output_limit };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let text = runtime.ok().and_then(|r| r.block_on(command.output()).ok());
    text.map_or(Vec::new(), |text| checks(settings, &text))
}

fn checks(settings: &Settings, text: &str) -> Vec<Check> {
    let pairs = text.lines().filter_map(|l| l.split_once('='));
    // Newer versions number them: `PrologSlurmctld[0]`.
    let name = |key: &str| key.trim().split('[').next().unwrap_or("").to_string();
    let set = |value: &&str| !matches!(*value, "" | "(null)");
    let values: plugins::Values<'_> =
        pairs.map(|(k, v)| (name(k), v.trim())).filter(|(_, v)| set(v)).collect();
    let mut found = announcements(settings, &values, elsewhere(text));
    found.extend(plugins::checks(settings, &values));
    found
}

/// The machine of Slurm's controller, if that is not this one.
fn elsewhere(text: &str) -> Option<&str> {
    let own = rustix::system::uname();
    let own = own.nodename().to_string_lossy().into_owned();
    let short = |name: &str| name.split('.').next().unwrap_or("").to_string();
    let hosts = text.lines().filter(|line| line.starts_with("SlurmctldHost"));
    let mut hosts = hosts.filter_map(|line| line.split_once('=')?.1.trim().split('(').next());
    let first = hosts.clone().next()?;
    let is_here = hosts.any(|host| host == "localhost" || short(host) == short(&own));
    (!is_here).then_some(first)
}

fn announcements(settings: &Settings, values: &plugins::Values<'_>, elsewhere: Option<&str>) -> Vec<Check> {
    let value = |key: &str| values.get(key).copied();
    let (prolog, epilog) = (value("PrologSlurmctld"), value("EpilogSlurmctld"));
    if prolog.or(epilog).is_none() {
        return vec![Check::advice(
            "hand-off",
            "PrologSlurmctld is not set: a job runs on the routes of before until the next look",
            format!(
                "in slurm.conf PrologSlurmctld, EpilogSlurmctld: copies of slurm-prolog, slurm-epilog in {EXAMPLES}"
            ),
        )];
    }
    let of = |key, word, path: Option<&str>| match (elsewhere, path) {
        (Some(host), Some(path)) => Check::good(key, format!("{path} on {host}, not looked at from here")),
        _ => script(key, word, path),
    };
    let mut found = vec![of("PrologSlurmctld", "prolog", prolog), of("EpilogSlurmctld", "epilog", epilog)];
    if prolog.is_some() {
        found.extend(timeout(settings, value("PrologEpilogTimeout")));
        // On another machine tokens decide.
        found.extend(user(settings, value("SlurmUser")).filter(|_| elsewhere.is_none()));
    }
    found
}

fn script(key: &'static str, word: &str, path: Option<&str>) -> Check {
    let fix = format!(
        "{key} in slurm.conf: a program that runs `sarouter {word}`, such as slurm-{word} in {EXAMPLES}"
    );
    let Some(path) = path else {
        return Check::fix(key, "not set: jobs start before their routes are there", fix);
    };
    match std::fs::read(Path::new(path)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => unread(key, path),
        Err(error) => Check::fix(key, format!("{path}: {error}"), fix),
        // A script of the site's own may call ours further down: what is not text is believed.
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            let calls = !text.starts_with("#!") || (text.contains("sarouter") && text.contains(word));
            let mode = std::fs::metadata(path).map_or(0, |file| file.mode());
            if !calls {
                Check::fix(key, format!("{path} does not call us"), fix)
            } else if mode & 0o111 == 0 {
                Check::fix(key, format!("{path} is not executable"), format!("chmod 755 {path}"))
            } else if mode & 0o022 != 0 {
                let what = format!("{path} can be written by others, and runs as Slurm's user");
                Check::fix(key, what, format!("chmod 755 {path}"))
            } else {
                Check::good(key, path)
            }
        }
    }
}

fn timeout(settings: &Settings, value: Option<&str>) -> Option<Check> {
    const NAME: &str = "prolog time";
    let deadline = settings.handoff.deadline.as_secs_f64();
    let limit: f64 = value?.split_whitespace().next()?.parse().ok()?;
    let found = format!("a job waits at most {deadline} s, Slurm kills its prolog after {limit} s");
    Some(match limit >= deadline + SPARE {
        true => Check::good(NAME, found),
        false => Check::fix(NAME, found, "raise PrologEpilogTimeout or lower handoff.deadline_seconds"),
    })
}

/// Seconds that a prolog may need beside waiting.
const SPARE: f64 = 5.0;

fn user(settings: &Settings, value: Option<&str>) -> Option<Check> {
    const NAME: &str = "SlurmUser";
    let (name, id) = value?.trim_end_matches(')').split_once('(')?;
    let id: u32 = id.parse().ok()?;
    let api = settings.api.as_ref()?;
    let own = rustix::process::geteuid().as_raw();
    let may = id == 0 || id == own || api.write_users.contains(&id);
    Some(match may {
        true => Check::good(NAME, format!("{name} may announce jobs")),
        false => Check::fix(
            NAME,
            format!("{name} ({id}) may not announce jobs"),
            format!("api.write_users = [\"{name}\"]"),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str, settings: &str) -> Vec<&'static str> {
        let settings = Settings::parse(settings, Path::new("/etc/sarouter.toml")).unwrap();
        checks(&settings, text).iter().filter(|c| !c.good).map(|c| c.name).collect()
    }

    #[test]
    fn a_controller_that_announces_no_jobs_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            path.display().to_string()
        };
        let prolog = write("p", "#!/bin/sh\nexec sarouter prolog\n");
        let epilog = write("e", "#!/bin/sh\nexec sarouter epilog\n");
        let conf = |prolog: &str, timeout: &str, user: &str| {
            format!(
                "Configuration data\nEpilogSlurmctld[0] = {epilog}\nPrologSlurmctld         = {prolog}\n\
                 PrologEpilogTimeout     = {timeout}\nSlurmUser               = {user}\n"
            )
        };
        let good = conf(&prolog, "65534", "root(0)");
        assert_eq!(wrong(&good, ""), [""; 0]);
        assert_eq!(wrong(&conf("(null)", "65534", "root(0)"), ""), ["PrologSlurmctld"]);
        assert_eq!(wrong(&conf(&epilog, "65534", "root(0)"), ""), ["PrologSlurmctld"]);
        assert_eq!(wrong(&conf("/nonexistent", "65534", "root(0)"), ""), ["PrologSlurmctld"]);
        assert_eq!(wrong(&conf(&prolog, "20", "root(0)"), ""), ["prolog time"]);
        assert_eq!(wrong(&good.replace("65534", "20"), "[handoff]\ndeadline_seconds = 10"), [""; 0]);
        // On another machine its files are not to be seen, and tokens decide who may announce.
        let far = conf("/nonexistent", "65534", "slurm(4711)")
            + "SlurmctldHost[0] = some.other.machine(10.0.0.1)\n";
        assert_eq!(wrong(&far, ""), [""; 0]);
        assert_eq!(wrong(&(far.clone() + "SlurmctldHost[1] = localhost\n"), "").len(), 2);
        assert_eq!(wrong(&far.replace("65534", "20"), ""), ["prolog time"]);
        let plain = write("plain", "#!/bin/sh\nexec sarouter prolog\n");
        std::fs::set_permissions(&plain, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(wrong(&conf(&plain, "65534", "root(0)"), ""), ["PrologSlurmctld"], "not executable");
        std::fs::set_permissions(&plain, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(wrong(&conf(&plain, "65534", "root(0)"), ""), ["PrologSlurmctld"], "all may write it");
        let other = conf(&prolog, "65534", "slurm(4711)");
        assert_eq!(wrong(&other, ""), ["SlurmUser"]);
        assert_eq!(wrong(&other, "[api]\nwrite_users = [4711]"), [""; 0]);
        let neither = checks(&Settings::parse("", Path::new("/etc/sarouter.toml")).unwrap(), "");
        assert!(matches!(&neither[..], [one] if one.good && one.fix.contains("slurm-prolog")), "{neither:?}");
        assert_eq!(wrong("", "[placement]\nselect_socket = \"/select.sock\""), ["select plugin"]);
    }
}
