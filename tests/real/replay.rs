//! Replays and studies of damaged fabrics shared out over a real Slurm.

use std::fs;
use std::path::Path;
use std::process::Command;

use sarouter::lab::generate::generate;

use crate::testbed::{Testbed, await_some, root, run};

/// Files that must not differ from run to run.
fn results(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let name = |p: &Path| p.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(|p| (name(p), fs::read(p).unwrap())).filter(|(n, _)| n != "times.csv").collect()
}

/// Runs a job array of three to its end.
fn array(bed: &Testbed, words: &[&str]) {
    let conf = bed.path().join("slurm/slurm.conf");
    let mut sbatch = Command::new("sbatch");
    sbatch.args(["--parsable", "--array=1-3", "-o"]).arg(bed.path().join("array-%a.log")).args(words);
    sbatch.env("SLURM_CONF", &conf).env("SAROUTER", env!("CARGO_BIN_EXE_sarouter"));
    let id = run(&mut sbatch).trim().to_string();
    await_some("the end of the array", || {
        let squeue = run(Command::new("squeue")
            .args(["-h", "-t", "all", "-r", "-j", &id, "-o", "%T"])
            .env("SLURM_CONF", &conf));
        let is_over = |state: &str| !["PENDING", "CONFIGURING", "RUNNING", "COMPLETING"].contains(&state);
        squeue.lines().all(is_over).then_some(())
    });
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_job_array_joined_gives_the_bytes_of_one_run() {
    let bed = Testbed::with(&generate("fattree:2x2,1").unwrap(), &["--no-opensm"], Vec::new());
    let at = |name: &str| bed.path().join(name).to_str().unwrap().to_string();
    let program = env!("CARGO_BIN_EXE_sarouter");
    let words =
        ["--fabric", "fattree:6x6,3", "--trace", "generated:tsubame2,days=3", "--placement", "linear"];
    let more = ["--engines", "dfsssp,sar,balanced", "--every", "2h", "--chunk", "6"];
    let words = [&words[..], &more[..]].concat();
    run(Command::new(program).arg("replay").args(&words).args(["--format", "json", "--out", &at("whole")]));

    let script = root().join("scripts/replay-array.sbatch");
    let parts = at("parts");
    array(&bed, &[&[script.to_str().unwrap(), &parts], &words[..]].concat());
    for part in 1..=3 {
        let log = fs::read_to_string(at(&format!("array-{part}.log"))).unwrap_or_default();
        assert!(Path::new(&at(&format!("parts/part-{part}/series.csv"))).exists(), "part {part}: {log}");
    }
    let mut merge = Command::new(program);
    merge.args(["replay", "merge", "--out", &at("merged")]);
    run(merge.args((1..=3).map(|part| at(&format!("parts/part-{part}")))));
    assert_eq!(results(&bed.path().join("whole")), results(&bed.path().join("merged")));
}

#[test]
#[ignore = "needs Debian's packages: run scripts/test"]
fn a_study_shared_out_by_an_array_is_that_of_one_machine() {
    let bed = Testbed::with(&generate("fattree:2x2,1").unwrap(), &["--no-opensm"], Vec::new());
    let at = |name: &str| bed.path().join(name).to_str().unwrap().to_string();
    let call = |out: &str| {
        let words = "survive throughput --fabric kary:4,2,hosts=4 --engines dfsssp,balanced --faults 0,2,4";
        format!("{} {words} --seeds 4 --format json --out {out}", env!("CARGO_BIN_EXE_sarouter"))
    };
    let shard = "--shard $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT --threads 1";
    array(&bed, &["--wrap", &format!("{} {shard}", call(&at("parts")))]);
    for part in 1..=3 {
        let log = fs::read_to_string(at(&format!("array-{part}.log"))).unwrap_or_default();
        let runs = fs::read_to_string(at(&format!("parts/runs-{part}-of-3.jsonl"))).unwrap_or_default();
        assert_eq!(runs.lines().count(), 6, "part {part}: {log}");
    }
    let report = |out: &str| run(Command::new("sh").args(["-c", &call(&at(out))]));
    assert_eq!(report("parts"), report("whole"));
    assert_eq!(fs::read_to_string(at("parts/runs.jsonl")).unwrap(), "", "the array did all runs");
}
