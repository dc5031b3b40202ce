//! The prolog on a direct torus: tables of jobs, failures, and what is told.

use crate::prolog::{prolog, site, told};
use crate::site::{Serving, Site, json};

/// A site whose fabric is a direct torus of 16 nodes.
fn torus(handoff: &str) -> Site {
    let site = site(handoff);
    site.alter("fabric.net", "torus.toml");
    site.alter("dfsssp", "angara-sar");
    site.replace("torus.toml", "sizes = [4, 2, 2]\n");
    site
}

#[test]
fn on_a_direct_torus_each_job_gets_tables_that_go_with_it() {
    let site = torus("deadline_seconds = 100");
    site.jobs("7|CONFIGURING|n[1-4]|100\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    let (code, answer, error) = prolog(&site, &["--job", "7", "--nodes", "n[1-4]"]);
    assert_eq!((code, &answer["outcome"]), (0, &"in_force".into()), "{answer} {error}");
    let directory = site.path("state/jobs/7");
    let tables = std::fs::read_dir(&directory).unwrap().flatten().map(|e| e.file_name());
    let tables: Vec<_> = tables.filter(|n| n.to_string_lossy().ends_with(".table")).collect();
    assert_eq!(tables.len(), 4);
    assert!(told(&site, "7").unwrap().contains("SAROUTER_ROUTED=yes"));
    let before = std::fs::read(directory.join("nodes.txt")).unwrap();
    // Restarted on other nodes: theirs take the place.
    let again = ["--job", "7", "--nodes", "n[5-8]", "--restart", "1"];
    assert_eq!(prolog(&site, &again).1["outcome"], "in_force");
    assert_ne!(std::fs::read(directory.join("nodes.txt")).unwrap(), before);
    // A node that is not there.
    let (code, answer, _) = prolog(&site, &["--job", "8", "--nodes", "n[16-17]"]);
    assert_eq!((code, &answer["outcome"]), (0, &"unrouted".into()));
    let text = told(&site, "8").unwrap();
    assert!(text.contains("SAROUTER_ROUTED=no") && text.contains("no node n17"), "{text}");
    assert_eq!(prolog(&site, &["--job", "8", "--nodes", "n[16-17]", "--restart", "1", "--strict"]).0, 1);
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
    assert!(!directory.exists());
    // The end of job 8 is not announced; job 9, which runs, keeps its tables.
    assert_eq!(prolog(&site, &["--job", "9", "--nodes", "n[9-10]"]).1["outcome"], "in_force");
    site.jobs("9|RUNNING|n[9-10]|100\n");
    serving.until(|| {
        serving.signal(rustix::process::Signal::HUP);
        told(&site, "8").is_none()
    });
    assert!(told(&site, "9").is_some());
    assert_eq!(serving.stop(), 0);
    // What a service that was killed left behind goes with the next one, or with a tick.
    site.jobs("");
    assert_eq!(site.run(&["tick"]).0, 0);
    assert!(told(&site, "9").is_none());
}

#[test]
fn a_hold_keeps_a_direct_torus_as_it_is() {
    let site = torus("deadline_seconds = 100");
    // What Slurm does not know has no tables for long.
    site.jobs("7|RUNNING|n[1-4]|100\n8|RUNNING|n[5-8]|100\n");
    let serving = Serving::start(&site);
    serving.ready(&site);
    assert_eq!(prolog(&site, &["--job", "7", "--nodes", "n[1-4]"]).1["outcome"], "in_force");
    assert_eq!(site.run(&["hold", "--reason", "links are measured"]).0, 0);
    assert_eq!(prolog(&site, &["--job", "8", "--nodes", "n[5-8]"]).1["outcome"], "held");
    assert!(told(&site, "8").unwrap().contains("SAROUTER_ROUTED=no"));
    assert_eq!(site.run(&["resume"]).0, 0);
    assert_eq!(prolog(&site, &["--job", "9", "--nodes", "n[5-8]"]).1["outcome"], "in_force");
    assert_eq!(serving.stop(), 0);
}

/// Has jobs 7 and 8 run on a torus of 4x4 with tables of the service.
fn with_two_jobs(site: &Site) -> Serving {
    site.replace("torus.toml", "sizes = [4, 4]\ntransit = \"any\"\n");
    site.jobs("7|RUNNING|n[1-4]|100\n8|RUNNING|n[9-12]|100\n");
    let serving = Serving::start(site);
    serving.ready(site);
    for (job, nodes) in [("7", "n[1-4]"), ("8", "n[9-12]")] {
        assert_eq!(prolog(site, &["--job", job, "--nodes", nodes]).1["outcome"], "in_force");
    }
    serving
}

/// A link fails under a job that runs, and heals.
#[test]
fn a_failed_link_of_a_direct_torus_is_routed_around_and_told() {
    let site = torus("deadline_seconds = 100");
    let serving = with_two_jobs(&site);
    let (_, text) = site.run(&["status"]);
    let status = json(&text);
    assert_eq!((&status["healthy"], &status["torus"]["jobs"]), (&true.into(), &2.into()), "{text}");
    let routes =
        |job: &str| std::fs::read_to_string(site.path(&format!("state/jobs/{job}/routes.txt"))).unwrap();
    let before = (routes("7"), routes("8"));
    let (code, text) = site.run(&["plan"]);
    assert_eq!((code, &json(&text)["running"]), (0, &2.into()), "{text}");
    site.replace("more", "7 n[1-4]\n9 n[5-8],n13\n10 n[16-17]\n");
    let (code, text) = site.run(&["plan", "--jobs", site.path("more").to_str().unwrap()]);
    let dry = json(&text);
    assert_eq!(
        (code, &dry["due"], dry["starting"].to_string()),
        (1, &true.into(), "[\"9\"]".into()),
        "{text}"
    );
    assert_eq!((dry["over"].to_string(), &dry["refused"][0][0]), ("[\"8\"]".into(), &"10".into()), "{text}");
    assert!(dry["load_after"].as_u64() > dry["load_before"].as_u64(), "{text}");
    // Between the first two nodes of job 7.
    site.replace("torus.toml", "sizes = [4, 4]\ntransit = \"any\"\nfailed = [\"0.0+Y\"]\n");
    serving.until(|| routes("7") != before.0);
    assert!(!routes("7").contains("0.0 0.1 +Y\n"), "{}", routes("7"));
    assert_eq!(routes("8"), before.1, "nothing failed there");
    // Told once the tables are on the disk.
    serving.until(|| {
        let (code, text) = site.run(&["status"]);
        code == 1 && text.contains("routes of job 7 led over what has failed")
    });
    // A service that starts again knows both jobs, and whom the failure touched.
    assert_eq!(serving.stop(), 0);
    let serving = Serving::start(&site);
    serving.ready(&site);
    serving.until(|| site.health()["torus"]["load_max"].as_u64().is_some_and(|max| max > 0));
    assert_eq!(site.health()["torus"]["jobs"], 2);
    assert!(site.run(&["status"]).1.contains("of job 7"));
    assert_eq!(site.run(&["epilog", "--job", "7"]).0, 0);
    site.jobs("8|RUNNING|n[9-12]|100\n");
    serving.until(|| site.health()["torus"]["jobs"] == 1);
    assert_eq!(site.run(&["status"]).0, 0);
    assert_eq!(serving.stop(), 0);
}

/// The site's command brings new tables of a job that runs to its nodes. One that fails is told, and called again.
#[test]
fn a_command_brings_new_tables_to_the_nodes() {
    let site = torus("deadline_seconds = 100");
    let at = |name: &str| site.path(name).display().to_string();
    let (bring, nodes) = (at("bring"), at("nodes"));
    let text = std::fs::read_to_string(site.path("sarouter.toml")).unwrap();
    let with = |program: &str| text.replace("[handoff]", &format!("[handoff]\nbring_command = {program:?}"));
    site.replace("sarouter.toml", &with("bring"));
    let (code, said) = site.run(&["plan"]);
    assert!(code == 2 && said.contains("from the root"), "{said}");
    site.replace("sarouter.toml", &with(&bring));
    crate::script::script(
        &bring,
        &format!(
            "#!/bin/sh\n[ -d {nodes} ] || {{ echo no way there >&2; exit 3; }}\n\
             while read -r node file; do cp \"$2/$file\" {nodes}/$node; done <\"$2/nodes.txt\"\n\
             echo $1 >>{nodes}/brought\n"
        ),
    );
    let serving = with_two_jobs(&site);
    site.replace("torus.toml", "sizes = [4, 4]\ntransit = \"any\"\nfailed = [\"0.0+Y\"]\n");
    let told = |site: &Site| site.health()["torus"]["cut"]["7"]["text"].as_str().map(String::from);
    serving.until(|| told(&site).is_some_and(|text| text.contains("no way there")));
    let (code, said) = site.run(&["status"]);
    assert!(code == 1 && said.contains("of job 7") && said.contains("are not on its nodes"), "{said}");
    std::fs::create_dir(&nodes).unwrap();
    serving.signal(rustix::process::Signal::HUP);
    serving.until(|| told(&site).is_none());
    assert_eq!(site.run(&["status"]).0, 0);
    let read = |path: String| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(at("nodes/brought")), "7\n", "nothing failed under job 8");
    let new = read(at("nodes/n1"));
    assert_eq!(new, read(at("state/jobs/7/node-0.0.table")));
    assert!(!new.contains("0.1 n2 +Y\n"), "{new}");
    assert_eq!(serving.stop(), 0);
}

#[test]
fn an_engine_that_a_direct_torus_has_not_is_refused() {
    let site = torus("");
    let text = std::fs::read_to_string(site.path("sarouter.toml")).unwrap();
    for (name, says) in [
        ("nonsense", "no engine \"nonsense\""),
        ("dfsssp", "for a direct torus"),
        ("angara-ssp", "did you mean angara-sssp?"),
    ] {
        site.replace("sarouter.toml", &text.replace("angara-sar", name));
        let output = site.command(&["serve"]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(says), "{:?} {error}", output.status);
        let (_, text) = site.run(&["doctor"]);
        assert!(text.replace('\\', "").contains(says), "{text}");
    }
}
