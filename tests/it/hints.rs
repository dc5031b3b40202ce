//! What jobs say of their traffic when they are announced, and the order of their ranks.

use std::time::{Duration, Instant};

use crate::prolog::{prolog, site};
use crate::site::{Serving, json};

/// By comment, by the option of the plugin, by hand; what cannot be understood says nothing and costs nothing.
#[test]
fn what_a_job_says_of_its_traffic_arrives_with_its_announcement() {
    let site = site("deadline_seconds = 100");
    let serving = Serving::start(&site);
    serving.line();
    let announce = |id: &str, comment: &str, option: &str, words: &[&str]| {
        let mut command = site.command(&["prolog", "--job", id, "--nodes", "n[2,6]"]);
        command.args(words).env("SLURM_JOB_COMMENT", comment).env("SPANK_SAROUTER_TRAFFIC", option);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let job = json(&site.run(&["job", id]).1);
        let told = std::fs::read_to_string(site.path(&format!("state/jobs/{id}/routing.env"))).unwrap();
        let kept = told.lines().find_map(|l| l.strip_prefix("SAROUTER_TRAFFIC=")).map(str::to_string);
        let job = &job["job"];
        let word = |key: &str| job[key].as_str().unwrap().to_string();
        assert_eq!(kept.is_some(), job["pattern_from"] == "job", "{job}");
        assert_eq!(kept.unwrap_or("default".into()), word("pattern"), "{job}");
        assert_eq!(site.run(&["epilog", "--job", id]).0, 0);
        (word("pattern"), String::from_utf8(output.stderr).unwrap())
    };
    let said = |pattern: &str| (pattern.to_string(), String::new());
    assert_eq!(announce("21", "", "", &[]), said("default"));
    assert_eq!(announce("22", "", "3*ring+halo:2x2", &[]), said("3*ring+halo:2x2"));
    assert_eq!(announce("23", "night; sarouter:pattern=ring", "linear", &[]), said("ring"));
    assert_eq!(announce("24", "night", "linear", &["--traffic", "halo2d"]), said("halo2d"));
    let (pattern, why) = announce("25", "sarouter:pattern=rings", "bogus", &[]);
    assert_eq!(pattern, "default");
    assert!(why.contains("did you mean ring?") && why.contains("\"bogus\"; it is not heeded"), "{why}");
    let output =
        site.command(&["prolog", "--job", "26", "--nodes", "n1", "--traffic", "rnig"]).output().unwrap();
    // No job is held for a slip in the command line of a prolog.
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stderr).unwrap().contains("did you mean ring?"));
    assert_eq!(serving.stop(), 0);
}

/// The order is in the job's directory before the job starts, and the service tells it; none of a job that did not ask.
#[test]
fn ranks_are_put_in_order_for_a_job_that_asks() {
    let site = site("deadline_seconds = 100");
    let serving = Serving::start(&site);
    serving.line();
    let ask = |job: &str| site.get(&format!("/v1/jobs/{job}/order"));
    let words = ["--nodes", "n[1,5,2,6,3,7,9-10]", "--traffic", "groups:2"];
    let (code, answer, _) = prolog(&site, &[&["--job", "31", "--rank-order"], &words[..]].concat());
    assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()), "{answer}");
    let order = ask("31").unwrap();
    let nodes: Vec<&str> = order["nodes"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    let text = std::fs::read_to_string(site.path("state/jobs/31/order.txt")).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), nodes);
    let mut sorted = nodes.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["n1", "n10", "n2", "n3", "n5", "n6", "n7", "n9"]);
    let (list, ordered) = (order["list"].as_f64().unwrap(), order["ordered"].as_f64().unwrap());
    assert!((1.0..=list).contains(&ordered), "{order}");
    assert_eq!((&order["pattern"], &order["epoch"]), (&"groups:2".into(), &2.into()));
    assert_eq!(json(&site.run(&["job", "31"]).1)["order"], order);
    let output = site.in_words(["job", "31"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("ranks       in the order {}", nodes.join(","))), "{text}");

    assert_eq!(prolog(&site, &[&["--job", "32"], &words[..]].concat()).0, 0);
    let refused = ask("32").unwrap_err().to_string();
    assert!(refused.contains("--rank-order=fabric") && refused.contains("job 32"), "{refused}");
    assert!(!site.path("state/jobs/32/order.txt").exists());
    // Its plugin says the same by the environment.
    let mut command = site.command(&["prolog", "--job", "33", "--nodes", "n[1,5,2,6]"]);
    assert!(command.env("SPANK_SAROUTER_RANK_ORDER", "fabric").output().unwrap().status.success());
    assert_eq!(ask("33").unwrap()["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(site.run(&["epilog", "--job", "33"]).0, 0);
    serving.until(|| ask("33").is_err());
    assert_eq!(serving.stop(), 0);
}

/// By rules of the site, if the job does not say it; the guess stays when the service is another one.
#[test]
fn what_a_job_does_not_say_is_guessed_from_who_submitted_it() {
    let site = site("deadline_seconds = 100");
    site.settings("[traffic]\nrules = [{ account = \"cfd\", name = \"run-?\", pattern = \"halo2d\" }]");
    let told = |id: &str| {
        let job = &json(&site.run(&["job", id]).1)["job"];
        (job["pattern"].as_str().unwrap().to_string(), job["pattern_from"].as_str().unwrap().to_string())
    };
    let announce = |id: &str, account: &str, option: &str| {
        let mut command = site.command(&["prolog", "--job", id, "--nodes", "n[2,6]"]);
        command
            .env("SLURM_JOB_ACCOUNT", account)
            .env("SLURM_JOB_NAME", "run-7")
            .env("SLURM_JOB_PARTITION", "all");
        let output = command.env("SPANK_SAROUTER_TRAFFIC", option).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        told(id)
    };
    let serving = Serving::start(&site);
    serving.line();
    let by = |pattern: &str, who: &str| (pattern.to_string(), who.to_string());
    assert_eq!(announce("21", "cfd", ""), by("halo2d", "rule"));
    assert_eq!(announce("22", "cfd", "ring"), by("ring", "job"));
    assert_eq!(announce("23", "(null)", ""), by("default", "nobody"));
    assert_eq!(serving.stop(), 0);
    // The batch system tells of no account here, and of the job itself.
    site.jobs("21|RUNNING|n[2,6]|100\n22|RUNNING|n[2,6]|100\n23|RUNNING|n[2,6]|100\n");
    let serving = Serving::start(&site);
    serving.until(|| site.run(&["job", "23"]).0 == 0);
    assert_eq!([told("21"), told("22")], [by("halo2d", "rule"), by("ring", "job")]);
    assert_eq!(told("23"), by("default", "nobody"));
    assert_eq!(serving.stop(), 0);
    let checks = json(&site.run(&["doctor"]).1);
    let row = checks.as_array().unwrap().iter().find(|check| check["name"] == "traffic").unwrap();
    assert!(row["found"].as_str().unwrap().contains("account cfd, name run-?: halo2d"), "{row}");
}

/// By rules for programs: Slurm is asked for the job's command, but only where the answer matters.
#[test]
fn a_rule_for_programs_has_slurm_asked_for_the_command_only_if_it_matters() {
    let site = site("deadline_seconds = 100");
    site.settings(
        "[traffic]\nrules = [{ account = \"cfd\", pattern = \"halo2d\" }, \
         { executable = \"lmp*\", pattern = \"ring\" }, { partition = \"all\", pattern = \"linear\" }]",
    );
    let serving = Serving::start(&site);
    serving.line();
    let asked = site.path("asked");
    // The service's own calls ask for no command.
    let answers =
        format!("echo \"$@\" >> {}; printf '/opt/my/lmp_mpi -in lmp.in\\nno/line'", asked.display());
    let squeue = |then: &str| site.squeue(&format!("case \"$*\" in *%o*) {then};; esac"));
    squeue(&answers);
    let announce = |id: &str, account: &str, option: &str| {
        // Each on nodes of its own: else the routes of the one before would serve it, and nobody would hear of it.
        let nodes =
            ["n[1,5]", "n[2,6]", "n[3,7]", "n[4,8]", "n[1,6]", "n[2,7]"][id.parse::<usize>().unwrap() - 21];
        let mut command = site.command(&["prolog", "--job", id, "--nodes", nodes]);
        command.env("SLURM_JOB_ACCOUNT", account).env("SLURM_JOB_PARTITION", "all");
        let output = command.env("SPANK_SAROUTER_TRAFFIC", option).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = site.run(&["job", id]);
        let pattern =
            json(&told.1)["job"]["pattern"].as_str().unwrap_or_else(|| panic!("{id}: {told:?}")).to_string();
        (pattern, String::from_utf8(output.stderr).unwrap())
    };
    let quiet = |pattern: &str| (pattern.to_string(), String::new());
    assert_eq!(announce("21", "bio", "shift"), quiet("shift"));
    assert_eq!(announce("22", "cfd", ""), quiet("halo2d"));
    assert!(!asked.exists(), "asked though nothing hangs on it: {:?}", std::fs::read_to_string(&asked));
    assert_eq!(announce("23", "bio", ""), quiet("ring"));
    assert_eq!(std::fs::read_to_string(&asked).unwrap(), "-a --local -h -j 23 -o %o\n");
    squeue("echo /opt/vasp lmp");
    assert_eq!(announce("24", "bio", ""), quiet("linear"));
    // What fails or hangs is no program, and holds nobody for long.
    squeue("exit 3");
    let (pattern, why) = announce("25", "bio", "");
    assert_eq!(pattern, "linear");
    assert!(why.contains("no rule for executables counts"), "{why}");
    squeue("sleep 1000");
    let begun = Instant::now();
    let (pattern, why) = announce("26", "bio", "");
    assert_eq!(pattern, "linear");
    assert!(why.contains("killed after 5 s") && begun.elapsed() < Duration::from_secs(60), "{why}");
    assert_eq!(serving.stop(), 0);
}
