//! The Debian package: made twice, installed, upgraded and removed on a clean machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::machine::Machine;
use super::testbed::{root, run};

/// Makes the package of the program under test in a directory; returns its path.
pub fn package(out: &Path, revision: &str) -> PathBuf {
    let mut command = Command::new(root().join("scripts/package"));
    command.args(["--quick", "--binary", env!("CARGO_BIN_EXE_sarouter"), "--revision", revision, "--out"]);
    run(command.arg(out));
    let ours = |p: &PathBuf| p.to_str().unwrap().contains(&format!("-{revision}_"));
    fs::read_dir(out).unwrap().map(|f| f.unwrap().path()).find(ours).expect("a package")
}

/// That of revision 1, made once for all tests of a run; the next run makes its own.
pub fn first() -> &'static Path {
    static FIRST: OnceLock<PathBuf> = OnceLock::new();
    FIRST.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
        let _ = fs::remove_dir_all(&directory);
        package(&directory, "1")
    })
}

#[test]
#[ignore = "needs Debian's dpkg-dev and libopensm-dev"]
fn a_package_made_twice_is_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let made = [first(), &package(dir.path(), "1")].map(|path| fs::read(path).unwrap());
    assert!(made[0] == made[1], "{} and {} bytes", made[0].len(), made[1].len());
}

/// Everything that is on the machine, except what any installation leaves behind.
const LIST: &str = r"list() {
    find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /walk -o -path /tmp -o -path /var/log \
        -o -path /var/cache -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /dev -o -path /var/lib/systemd \) \
        -prune -o -print | sort
}";

const INSTALL: &str = r#"
# Every unit is there, none is on, none runs.
asleep() {
    for unit in sarouter.service sarouter-tick.timer sarouter-fabric.timer; do
        [[ $(systemctl is-enabled $unit) == disabled && $(systemctl is-active $unit) == inactive ]]
    done
}
list >/walk/before
cd /walk
apt-get install -y -qq ./sarouter_*-1_*.deb 2>&1
asleep
[[ $(stat -c '%U:%G %a' /var/lib/sarouter) == 'sarouter:sarouter 755' ]]
[[ $(getent passwd sarouter) == *:/usr/sbin/nologin ]]

# Slurm finds its plugin by name once somebody asks for it, and not before.
cat >/etc/slurm/slurm.conf <<CONF
ClusterName=walk
SlurmctldHost=$(hostname)(127.0.0.1)
NodeName=n1 State=CLOUD
CONF
line=/etc/slurm/plugstack.conf.d/sarouter.conf
cp /usr/share/doc/sarouter/examples/plugstack.conf $line
if sbatch --help | grep -e --routing; then exit 1; fi
sed -i '$s/^#//' $line
sbatch --help | grep -e '--routing=default|none|require'
rm /etc/slurm/slurm.conf $line

# The documentation works.
for page in /usr/share/man/man1/sarouter*.gz; do
    man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null | tee -a /walk/warnings
done
[[ ! -s /walk/warnings ]]
mandb --quiet
[[ $(whatis sarouter-rollback) == *'Make an earlier epoch current'* ]]
. /usr/share/bash-completion/completions/sarouter
COMP_WORDS=(sarouter roll)
COMP_CWORD=1
_sarouter sarouter roll sarouter
[[ ${COMPREPLY[*]} == rollback ]]
systemd-analyze verify sarouter.service sarouter-tick.timer sarouter-fabric.timer 2>&1 | tee /walk/verify
if grep -q sarouter /walk/verify; then exit 1; fi
"#;

const UPGRADE: &str = r#"
# An upgrade keeps the settings, and a service that does not run stays so.
printf '[fabric]\nsource = "fattree:4x4,2"\n[slurm]\nsqueue = "/bin/true"\n[opensm]\nwatch = false\n' >/etc/sarouter/sarouter.toml
cp /etc/sarouter/sarouter.toml /walk/settings
apt-get install -y -qq ./sarouter_*-2_*.deb 2>&1
cmp /etc/sarouter/sarouter.toml /walk/settings
asleep

# One that runs is restarted with the new version, and what it published stays.
systemctl enable --now sarouter.service 2>&1
for ((i = 0; i < 200; i++)); do [[ -e /var/lib/sarouter/current ]] && break; sleep 0.1; done
sarouter status
[[ $(stat -c %U /var/lib/sarouter/current) == sarouter ]]
before=$(systemctl show -P MainPID sarouter)
epoch=$(readlink /var/lib/sarouter/current)
apt-get install -y -qq --reinstall ./sarouter_*-2_*.deb 2>&1
[[ $(systemctl is-active sarouter) == active && $(systemctl show -P MainPID sarouter) != "$before" ]]
[[ $(readlink /var/lib/sarouter/current) == "$epoch" ]]

# Root would leave files that the service could not replace.
if sarouter tick 2>/walk/refused; then exit 1; fi
grep 'belongs to user' /walk/refused
"#;

const REMOVE: &str = r#"
# Removed: nothing runs, settings and epochs stay. Purged: nothing is left but the user.
printf 'event_plugin_name sarouter\n' >/etc/opensm/opensm.conf
apt-get remove -y -qq sarouter 2>&1 | tee /walk/removed
grep -q 'still names sarouter' /walk/removed
rm /etc/opensm/opensm.conf
if pgrep -x sarouter; then exit 1; fi
[[ ! -e /usr/bin/sarouter ]]
[[ -e /etc/sarouter/sarouter.toml && -e /var/lib/sarouter/$epoch/plan.json ]]
apt-get install -y -qq ./sarouter_*-2_*.deb 2>&1
asleep
apt-get purge -y -qq sarouter 2>&1
list >/walk/after
diff /walk/before /walk/after

# Again, where the group is there without the user, the state is a file system of its own, and the site has secrets.
userdel sarouter
groupadd --system --force sarouter
apt-get install -y -qq ./sarouter_*-2_*.deb 2>&1
[[ $(stat -c %U:%G /var/lib/sarouter) == sarouter:sarouter ]]
mount -t tmpfs tmpfs /var/lib/sarouter
touch /var/lib/sarouter/health.json /etc/sarouter/tokens
apt-get purge -y -qq sarouter 2>&1 | tee /walk/purged
grep -q '/var/lib/sarouter stays' /walk/purged
grep -q '/etc/sarouter stays' /walk/purged
[[ -e /etc/sarouter/tokens && ! -e /var/lib/sarouter/health.json ]]
umount /var/lib/sarouter
rm -r /var/lib/sarouter /etc/sarouter

# And once more, where the site has given the user another group.
usermod --gid daemon sarouter
apt-get install -y -qq ./sarouter_*-2_*.deb 2>&1
[[ $(stat -c %U:%G /var/lib/sarouter) == sarouter:daemon ]]
apt-get purge -y -qq sarouter 2>&1
"#;

/// What is asserted of a machine with the packages of revisions 1 and 2 in `/walk`.
pub fn install_upgrade_and_remove(machine: &mut Machine) {
    machine.boot(&[LIST, INSTALL, UPGRADE, REMOVE].concat());
}

#[test]
#[ignore = "needs root, Debian's mmdebstrap and systemd-container, and its mirror"]
fn installation_upgrade_and_removal_leave_a_clean_machine() {
    let mut machine = Machine::new();
    let out = machine.root().join("walk");
    package(&out, "2");
    fs::copy(first(), out.join(first().file_name().unwrap())).unwrap();
    install_upgrade_and_remove(&mut machine);
}
