//! Nodes that no cable joins with the others any more.

use crate::site::{Serving, Site};

#[test]
fn a_job_whose_nodes_cannot_reach_each_other_is_told_and_so_is_the_administrator() {
    let site = Site::new("interval_seconds = 0.2\nbackoff_max_seconds = 0.2");
    site.settings("[handoff]\ndeadline_seconds = 100\nmin_length_seconds = 0\n");
    let serving = Serving::routed(&site);
    let status = || site.run(&["status"]).1;
    assert!(!status().contains("no cable leads"));
    let fabric = sarouter::lab::generate::generate("fattree:4x4,2").unwrap();
    let leaf = fabric.terminals()[0].switch;
    let of_leaf = |c: usize| fabric.channels()[c].from == leaf || fabric.channels()[c].to == leaf;
    site.write_fabric(of_leaf);
    serving.until(|| status().contains("no cable leads from n[1-4] to the other nodes"));
    let doctor = || site.run(&["doctor"]).1;
    assert!(doctor().contains("no cable leads from n[1-4] to the other nodes"));
    let prolog = |words: &[&str]| site.run(&[&["prolog", "--job"], words].concat());
    let (code, said) = prolog(&["7", "--nodes", "n[1,6]", "--strict"]);
    assert!(code == 1 && said.contains("\"unrouted\""), "{said}");
    let told = std::fs::read_to_string(site.path("state/jobs/7/routing.env")).unwrap();
    assert!(told.contains("SAROUTER_ROUTED=no"), "{told}");
    // Those on one side have their routes.
    assert_eq!(prolog(&["8", "--nodes", "n[6,10]", "--strict"]).0, 0);
    site.write_fabric(|_| false);
    serving.until(|| !status().contains("no cable leads"));
    assert!(!doctor().contains("no cable leads"));
    assert_eq!(prolog(&["9", "--nodes", "n[1,6]", "--strict"]).0, 0);
    assert_eq!(serving.stop(), 0);
}
