//! Builds the plugin for one version of Slurm: Slurm loads plugins of its own major and minor version
//! only. `SLURM_VERSION=22.05.8` names it; otherwise it is the version that is installed here.

mod version;

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

const HEADER: &str = "/usr/include/slurm/slurm_version.h";
/// They change when another Slurm is installed.
const TRACES: [&str; 4] = [HEADER, "/var/lib/dpkg/status", "/var/lib/rpm", "/usr/lib/sysimage/rpm"];

fn main() {
    println!("cargo::rerun-if-env-changed=SLURM_VERSION");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-changed=build");
    // Cargo would run this each time for a file that is not there.
    for trace in TRACES.iter().filter(|trace| Path::new(trace).exists()) {
        println!("cargo::rerun-if-changed={trace}");
    }
    let number = match env::var("SLURM_VERSION") {
        Ok(given) => version::number(&given)
            .unwrap_or_else(|| panic!("SLURM_VERSION={given}: not a version like 22.05.8")),
        Err(_) => version::installed(fs::read_to_string(HEADER).ok().as_deref(), printed).expect(
            "no Slurm found: set SLURM_VERSION=major.minor.micro, or install slurmd, slurmctld, \
             Slurm's commands or its header",
        ),
    };
    println!("cargo::rustc-env=SLURM_VERSION_NUMBER={number}");
}

/// What a command prints, however it ends.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()
}
