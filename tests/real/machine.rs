//! A Debian machine of its own, made from nothing: booted by its systemd, in namespaces, without a
//! network; or not booted, with this machine's network.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::testbed::run;

/// What a site has before sarouter comes: Slurm, OpenSM, and the fabric simulator for the hardware.
/// `adduser`, `man-db`: every Debian installation has them.
const PACKAGES: &str = "systemd,systemd-sysv,adduser,man-db,bash-completion,procps,iproute2,curl,\
    munge,slurmctld,slurm-client,opensm,infiniband-diags,ibsim-utils";
/// Only so that a broken test ends.
const PATIENCE: Duration = Duration::from_secs(240);

/// The file system of such a machine, made once for all tests of a run. What is static is never dropped, so
/// it has a fixed place, and the next run takes that of this one away.
fn installed() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debian");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        install("bookworm", PACKAGES, &directory);
        directory
    })
}

/// Installs a release of Debian in `root` of a directory.
fn install(release: &str, packages: &str, directory: &Path) {
    let mut command = Command::new("mmdebstrap");
    // Who loses power makes it anew: nothing need reach the disk.
    command.args([
        "--quiet",
        "--variant=minbase",
        "--dpkgopt=force-unsafe-io",
        "--include",
        packages,
        release,
    ]);
    run(command.arg(directory.join("root")));
}

/// Whether the mirror has a release of Debian. One that has this machine's alone is a good mirror.
pub fn is_offered(release: &str) -> bool {
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--simulate", "--variant=essential", release]).arg("/dev/null");
    command.output().is_ok_and(|output| output.status.success())
}

fn directory(prefix: &str) -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix(prefix).tempdir().unwrap();
    // It becomes a root directory: everybody looks into it.
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// A machine. Ends when dropped.
pub struct Machine {
    directory: tempfile::TempDir,
    booted: Option<Child>,
}

impl Machine {
    /// A clean one.
    pub fn new() -> Self {
        let directory = directory("sarouter-machine.");
        let from = installed().join("root");
        run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(from).arg(directory.path()));
        Self { directory, booted: None }
    }

    /// One of another release of Debian, with more packages.
    pub fn of(release: &str, packages: &str) -> Self {
        let directory = directory("sarouter-machine.");
        install(release, &format!("{PACKAGES},{packages}"), directory.path());
        Self { directory, booted: None }
    }

    /// Runs a bash script as root without booting, with this machine's network and `shared` directories
    /// of this machine. Returns what the script printed; it must exit 0.
    pub fn run(&self, shared: &[&Path], script: &str) -> String {
        let mut command = Command::new("systemd-nspawn");
        // What was copied into its /tmp stays to be seen: the tree may lie there.
        command.env("SYSTEMD_NSPAWN_TMPFS_TMP", "0");
        command.args(["--quiet", "--pipe", "--as-pid2", "--register=no", "--keep-unit"]);
        command.args(["--resolv-conf=copy-host", "--directory"]).arg(self.root());
        command.args(shared.iter().map(|path| format!("--bind={}", path.display())));
        run(command.args(["/bin/bash", "-euo", "pipefail", "-c", script]))
    }

    /// Its root directory.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// Writes a file of it.
    pub fn put(&self, path: &str, content: &str) {
        let path = self.root().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Boots, runs a bash script as root, powers off. Returns what the script printed; it must
    /// exit 0.
    pub fn boot(&mut self, script: &str) -> String {
        self.put(
            "/walk/script",
            &format!("exec 9>/walk/trace\nBASH_XTRACEFD=9\nset -euxo pipefail\n{script}\necho walked\n"),
        );
        self.put(
            "/etc/systemd/system/walk.service",
            "[Unit]\nSuccessAction=poweroff-force\nFailureAction=poweroff-force\n\
             [Service]\nType=oneshot\nEnvironment=HOME=/root LC_ALL=C.UTF-8\nExecStart=/bin/bash /walk/script\n\
             TimeoutStartSec=infinity\nStandardOutput=truncate:/walk/out\nStandardError=inherit\n\
             [Install]\nWantedBy=multi-user.target\n",
        );
        self.put("/walk/out", "");
        run(Command::new("systemctl").arg("--root").arg(self.root()).args([
            "--quiet",
            "enable",
            "walk.service",
        ]));
        let console = self.directory.path().join("console");
        let name = self.directory.path().file_name().unwrap().to_str().unwrap().replace('.', "-");
        let mut command = Command::new("systemd-nspawn");
        command.args(["--quiet", "--boot", "--register=no", "--keep-unit", "--private-network"]);
        command.args(["--machine", &name, "--directory"]).arg(self.root());
        let out = File::create(&console).unwrap();
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        self.booted = Some(command.spawn().expect("systemd-nspawn, of Debian's systemd-container"));
        self.wait(&console);
        let text = fs::read_to_string(self.root().join("walk/out")).unwrap();
        let trace = tail(&self.root().join("walk/trace"));
        assert!(text.ends_with("walked\n"), "the script failed:\n{text}\n{}\n{trace}", tail(&console));
        text
    }

    fn wait(&mut self, console: &Path) {
        let begun = Instant::now();
        let booted = self.booted.as_mut().unwrap();
        while booted.try_wait().unwrap().is_none() {
            if begun.elapsed() > PATIENCE {
                let _ = booted.kill();
                let text = fs::read_to_string(self.directory.path().join("root/walk/out"));
                panic!("the machine does not end:\n{}\n{}", text.unwrap_or_default(), tail(console));
            }
            sleep(Duration::from_millis(50));
        }
        self.booted = None;
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut booted) = self.booted.take() {
            let _ = booted.kill();
            let _ = booted.wait();
        }
    }
}

fn tail(path: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
