//! Debian 13 on a machine of its own: Slurm 24.11, its OpenSM and ibsim. Both plugins and the package are
//! built there, and tests of this program run there on its daemons.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use super::machine::{Machine, is_offered};
use super::often::often;
use super::package::install_upgrade_and_remove;
use super::testbed::{root, run};

/// Beside those of every machine: what builds the plugins, and what the tests start.
const PACKAGES: &str = "ca-certificates,gcc,libc6-dev,make,dpkg-dev,git,jq,libopensm-dev,libibumad-dev,\
    libmunge-dev,slurmd,slurmrestd,slurm-wlm-jwt-plugin,slurm-wlm-basic-plugins,openssl";

/// Polling in both forms, hand-off with read-back, prolog and SPANK, choice of nodes through both plugins.
/// `SAROUTER_DEBIAN13` names others; `::` stands for all that need daemons.
const TESTS: &str = "slurm::both slurmrestd::slurmrestd_and plugin::serves end_to_end::jobs_get spank::tasks placement::the_plugin topology::";

/// The source tree as it is, without what was built in it.
fn copy_source(machine: &Machine) {
    let to = machine.root().join(root().strip_prefix("/").unwrap());
    fs::create_dir_all(&to).unwrap();
    let mut list = Command::new("git");
    // Whoever it belongs to: nothing of it is run.
    list.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut list = list.current_dir(root()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pack = Command::new("tar");
    pack.args(["-c", "--null", "--ignore-failed-read", "-T", "-"]).current_dir(root());
    let mut pack = pack.stdin(list.stdout.take().unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    run(Command::new("tar").arg("-x").current_dir(&to).stdin(pack.stdout.take().unwrap()));
    assert!(list.wait().unwrap().success() && pack.wait().unwrap().success());
}

/// Copies a built file to the same place there.
fn copy(machine: &Machine, file: &Path) {
    let to = machine.root().join(file.strip_prefix("/").unwrap());
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(file, to).unwrap();
}

/// The compiler, which is the same on both, and the sources of libraries.
fn toolchain() -> [PathBuf; 2] {
    let compiler = Path::new(env!("CARGO")).ancestors().nth(2).unwrap().to_path_buf();
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    [compiler, home.unwrap_or_else(|| Path::new(&env::var_os("HOME").unwrap()).join(".cargo"))]
}

#[test]
#[ignore = "needs root, Debian's mmdebstrap and systemd-container, and its mirror"]
fn debian_13_builds_runs_places_and_removes() {
    if !is_offered("trixie") {
        eprintln!("the mirror has no Debian 13: nothing is tested there");
        return;
    }
    let mut machine = Machine::of("trixie", PACKAGES);
    copy_source(&machine);
    let [program, tests] = [Path::new(env!("CARGO_BIN_EXE_sarouter")), &env::current_exe().unwrap()];
    copy(&machine, program);
    copy(&machine, tests);
    let [compiler, home] = &toolchain();
    // Installing and removing is tested on Debian 12 in every run.
    let revisions = often(2, 1);
    let asked = env::var("SAROUTER_DEBIAN13").unwrap_or_else(|_| TESTS.to_string());
    let script = format!(
        "export PATH={compiler}/bin:$PATH CARGO_HOME={home} CARGO_NET_OFFLINE=true HOME=/root LC_ALL=C.UTF-8\n\
         printf '127.0.0.1 localhost %s\\n' \"$(hostname)\" >/etc/hosts\n\
         cd {tree}\n\
         mkdir -p /walk {tmp}\n\
         make --silent -C plugin/opensm all\n\
         for revision in $(seq {revisions}); do scripts/package --binary {program} --revision $revision --out /walk; done\n\
         rm -rf target/package\n\
         {tests} --ignored --test-threads 2 --skip debian13:: --skip package:: --skip walk:: --skip page:: {asked}\n",
        compiler = compiler.display(),
        home = home.display(),
        tree = root().display(),
        tmp = env!("CARGO_TARGET_TMPDIR"),
        program = program.display(),
        tests = tests.display(),
    );
    let text = machine.run(&[compiler, home], &script);
    println!("{text}");
    assert!(text.contains("test result: ok") && !text.contains(" 0 passed"), "{text}");
    if revisions == 2 {
        install_upgrade_and_remove(&mut machine);
    }
}
