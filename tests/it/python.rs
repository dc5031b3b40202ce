//! The Python package against a running service.

use std::path::Path;
use std::process::Command;

use crate::program::command;
use crate::site::{Serving, Site};

#[test]
fn the_python_package_reads_a_running_service_and_its_files() {
    let site = Site::new("interval_seconds = 3600");
    site.jobs("1|RUNNING|n[1,5,9]|100\n2|RUNNING|n[2,6]|100\n");
    let _serving = Serving::routed(&site);
    let trace = "generated:tsubame2,days=1,seed=1";
    let words =
        ["replay", "--fabric", "fattree:4x4,2", "--trace", trace, "--placement", "linear,tree", "--engines"];
    let mut replay = command(".", words);
    let output = replay.args(["updown,balanced", "--out"]).arg(site.path("replay")).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let mut python = Command::new("python3");
    // Nothing is left in the source tree.
    python.current_dir(package).env("PYTHONDONTWRITEBYTECODE", "1").arg("test_service.py");
    python.args([site.path("state/api.sock"), site.path("state"), site.path("replay")]);
    let output = python.output().expect("Debian's python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
