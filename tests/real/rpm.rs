//! The rpm: of the same description as the Debian package, rebuilt from its source, its files in an empty root,
//! its scripts on a root without rpm's own distribution.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::machine::Machine;
use super::package::first;
use super::testbed::{root, run};

/// The rpm, its source, and what a site makes of that, with a mark of its own in the release.
struct Made {
    rpm: PathBuf,
    rebuilt: PathBuf,
}

/// Both, made once for all tests.
fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rpm");
        let _ = fs::remove_dir_all(&out);
        let mut command = Command::new(root().join("scripts/package"));
        command.args(["--quick", "--format", "rpm", "--binary", env!("CARGO_BIN_EXE_sarouter"), "--out"]);
        let text = run(command.arg(&out));
        let (sources, rpms): (Vec<&str>, Vec<&str>) = text.lines().partition(|l| l.ends_with(".src.rpm"));
        assert!(sources.len() == 1 && rpms.len() == 1, "{text}");
        let top = out.join("site");
        let defines = [
            format!("sarouter_binary {}", env!("CARGO_BIN_EXE_sarouter")),
            format!("_topdir {}", top.display()),
            "dist .site".to_string(),
            "_binary_payload w1.gzdio".to_string(),
        ];
        let mut command = Command::new("rpmbuild");
        command.args(["--quiet", "--rebuild", "--nodeps"]);
        command.args(defines.iter().flat_map(|d| ["--define", d]));
        run(command.arg(sources[0]));
        let rebuilt = run(Command::new("find").arg(top.join("RPMS")).args(["-name", "*.rpm"]));
        Made { rpm: rpms[0].into(), rebuilt: rebuilt.trim().into() }
    })
}

/// What rpm says of a file of it.
fn query(rpm: &Path, words: &[&str]) -> String {
    run(Command::new("rpm").args(["-qp"]).args(words).arg(rpm))
}

/// Runs rpm on a root directory; what it prints on both channels.
fn on(root: &Path, words: &[&str], rpm: Option<&Path>) -> String {
    let mut command = Command::new("rpm");
    command.arg("--root").arg(root).args(["--dbpath", "/var/lib/rpm"]).args(words).args(rpm);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// Where a file of the Debian package is in the rpm.
fn counterpart(path: &str, triplet: &str) -> String {
    let path = path.replace("/zsh/vendor-completions/", "/zsh/site-functions/");
    let path = path.replace(&format!("/lib/{triplet}/slurm-wlm/"), "/lib64/slurm/");
    path.replace(&format!("/lib/{triplet}/"), "/lib64/")
}

/// What a package has in its directory of papers.
fn its_papers_lead_somewhere_and_have_all_licences(doc: &Path) {
    let found = run(Command::new("find").arg(doc).args(["-name", "*.md"]));
    let mut links = 0;
    for paper in found.lines().map(Path::new) {
        let text = fs::read_to_string(paper).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            let target = paper.parent().unwrap().join(file);
            assert!(link.contains("://") || target.exists(), "{}: {link}", paper.display());
            links += 1;
        }
    }
    assert!(links > 50, "{links}");
    let licences = fs::read_to_string(doc.join("copyright")).unwrap();
    assert!(licences.contains("\nserde v"), "{licences}");
    // The notices of MIT and BSD, each with its holders.
    assert!(licences.matches("Permission is hereby granted").count() > 50);
    assert!(licences.matches("Redistribution and use in source and binary forms").count() > 2);
}

#[test]
#[ignore = "needs Debian's rpm and libopensm-dev"]
fn the_rpm_has_the_files_of_the_debian_package_and_nothing_of_debian() {
    let rpm = &made().rpm;
    let directory = tempfile::tempdir().unwrap();
    let debian = directory.path().join("debian");
    run(Command::new("dpkg-deb").arg("-x").args([first(), &debian]));
    its_papers_lead_somewhere_and_have_all_licences(&debian.join("usr/share/doc/sarouter"));
    let triplet = run(Command::new("cc").arg("-print-multiarch"));
    let found = run(Command::new("find").arg(&debian).args(["-type", "f", "-printf", "/%P\n"]));
    // That of the rpm is in its description.
    let found = found.lines().filter(|line| !line.ends_with("/changelog.Debian.gz"));
    let debian: BTreeSet<String> = found.map(|line| counterpart(line, triplet.trim())).collect();
    let listed = query(rpm, &["--qf", "[%{FILEMODES:octal} %{FILENAMES}\n]"]);
    let files = listed.lines().filter_map(|l| l.strip_prefix("100")).map(|l| l.split_once(' ').unwrap());
    let files: Vec<(&str, &str)> = files.collect();
    let names: BTreeSet<String> = files.iter().map(|(_, name)| name.to_string()).collect();
    let more: Vec<&String> = names.difference(&debian).collect();
    assert_eq!(debian.difference(&names).collect::<Vec<_>>(), [""; 0]);
    assert!(
        more.iter().all(|n| n.starts_with("/usr/share/licenses/sarouter/")) && more.len() == 2,
        "{more:?}"
    );
    for (mode, name) in files {
        let scripts = ["/build", "/examples/capture", "/examples/replay-array.sbatch"];
        let runs = name.starts_with("/usr/bin/") || scripts.iter().any(|script| name.ends_with(script));
        assert_eq!(mode == "755", runs, "{mode} {name}");
    }

    // Into an empty root: nothing but these files.
    let empty = directory.path().join("root");
    fs::create_dir(&empty).unwrap();
    on(&empty, &["--nodeps", "--noscripts", "-i"], Some(rpm));
    on(&empty, &["--nodeps", "-V", "sarouter"], None);
    let there = run(Command::new("find").arg(&empty).args(["-type", "f", "-printf", "/%P\n"]));
    let there = there.lines().filter(|l| !l.starts_with("/var/lib/rpm/")).map(String::from);
    assert_eq!(there.collect::<BTreeSet<_>>(), names);
    assert!(run(Command::new(empty.join("usr/bin/sarouter")).arg("--version")).starts_with("sarouter "));
    let needs = query(rpm, &["--requires"]);
    let scripts = query(rpm, &["--scripts"]);
    assert!(needs.contains("libc.so.6(GLIBC_") && scripts.contains("useradd --system"), "{needs}{scripts}");
    for word in ["dpkg", "adduser ", "apt-get", triplet.trim()] {
        assert!(!needs.contains(word) && !scripts.contains(word) && !listed.contains(word), "{word}");
    }
    assert_eq!(query(rpm, &["--configfiles"]), "/etc/sarouter/sarouter.toml\n");
}

#[test]
#[ignore = "needs Debian's rpm and libopensm-dev"]
fn a_site_rebuilds_it_from_its_source() {
    let made = made();
    // Names, sizes, dates, digests, modes and owners.
    assert_eq!(query(&made.rebuilt, &["--dump"]), query(&made.rpm, &["--dump"]));
}

#[test]
#[ignore = "needs root, Debian's rpm, mmdebstrap and libopensm-dev, and its mirror"]
fn its_scripts_make_a_user_keep_settings_and_take_everything_away() {
    let made = made();
    let machine = Machine::new();
    let there = machine.root();
    let path = |name: &str| there.join(name);
    let enabled = path("etc/systemd/system/multi-user.target.wants/sarouter.service");
    let before = fs::read_to_string(path("etc/passwd")).unwrap();
    on(&there, &["--nodeps", "-i"], Some(&made.rpm));
    let passwd = fs::read_to_string(path("etc/passwd")).unwrap();
    let user = passwd.lines().find(|l| l.starts_with("sarouter:")).unwrap_or_else(|| panic!("{passwd}"));
    let fields: Vec<&str> = user.split(':').collect();
    assert!(fields[5] == "/var/lib/sarouter" && fields[6] == "/usr/sbin/nologin", "{user}");
    assert_eq!(passwd.lines().count(), before.lines().count() + 1);
    let state = fs::metadata(path("var/lib/sarouter")).unwrap();
    assert_eq!((state.uid().to_string(), state.mode() & 0o777), (fields[2].to_string(), 0o755));
    assert!(!enabled.exists(), "it was switched on by the installation");

    // An upgrade keeps settings and what is switched on, and speaks of an OpenSM that has the plugin.
    let verb = |words: &[&str]| run(Command::new("systemctl").arg("--root").arg(&there).args(words));
    verb(&["--quiet", "enable", "sarouter.service"]);
    fs::write(path("etc/sarouter/sarouter.toml"), "# ours\n").unwrap();
    fs::create_dir_all(path("etc/rdma")).unwrap();
    fs::write(path("etc/rdma/opensm.conf"), "event_plugin_name sarouter\n").unwrap();
    let said = on(&there, &["--nodeps", "-U"], Some(&made.rebuilt));
    assert!(said.contains("OpenSM keeps the plugin it has loaded"), "{said}");
    assert_eq!(fs::read_to_string(path("etc/sarouter/sarouter.toml")).unwrap(), "# ours\n");
    assert!(enabled.is_symlink(), "the upgrade switched it off");
    assert_eq!(on(&there, &["-q", "sarouter", "--qf", "%{RELEASE}"], None), "1.site");

    fs::write(path("var/lib/sarouter/kept"), "").unwrap();
    let said = on(&there, &["-e", "sarouter"], None);
    assert!(said.contains("/etc/rdma/opensm.conf still names sarouter"), "{said}");
    assert!(!enabled.is_symlink(), "a removed unit is still switched on");
    assert_eq!(fs::read_to_string(path("etc/sarouter/sarouter.toml.rpmsave")).unwrap(), "# ours\n");
    assert!(path("var/lib/sarouter/kept").exists());
    for gone in
        ["usr/bin/sarouter", "usr/lib64/libsarouter.so", "usr/share/doc/sarouter", "usr/share/sarouter"]
    {
        assert!(!path(gone).exists(), "{gone}");
    }
}
