//! Nodes with several adapters: rails, and jobs as they really are.

use std::collections::BTreeSet;

use sarouter::lab::generate::generate;
use sarouter::measure::{Predictor, slowdowns};
use sarouter::model::{
    Adapters, Demand, Fabric, Group, LayerBudget, Mix, NodeMap, NodeName, Pattern, Rails, Tables,
};
use sarouter::observe::ibnetdiscover::to_ibnetdiscover;
use sarouter::observe::nodes::{NodeNames, name_hosts};
use sarouter::route::{self, EngineOptions};
use sarouter::verify::judge;

use crate::program::command;
use crate::site::{Site, json};

fn nodes(fabric: &Fabric) -> NodeMap {
    name_hosts(fabric, &NodeNames::default())
}

fn named(numbers: impl IntoIterator<Item = usize>) -> Vec<NodeName> {
    numbers.into_iter().map(|n| NodeName::new(format!("n{n}")).unwrap()).collect()
}

/// A job on these nodes as the demand has it.
fn job(map: &NodeMap, numbers: impl IntoIterator<Item = usize>, mix: &str) -> Group {
    let mut ranks = map.ranks(&named(numbers));
    ranks.mix = mix.parse().unwrap();
    ranks.group()
}

fn routed(fabric: &Fabric, demand: &Demand) -> Tables {
    let (engine, budget) =
        (route::engine("balanced", &EngineOptions::default()).unwrap(), LayerBudget::new(8).unwrap());
    let tables = engine.route(fabric, demand, budget).unwrap();
    assert!(judge(fabric, &tables, budget).accepted);
    tables
}

/// Messages of one step on one channel, at most.
fn contention(fabric: &Fabric, groups: &[Group], job: usize) -> u32 {
    let tables = routed(fabric, &Demand::new(groups.to_vec(), Vec::new()));
    Predictor::new(fabric, &tables, groups, job).unwrap().contention(&groups[job].ranks)
}

#[test]
fn each_adapter_of_a_node_is_on_the_leaf_of_its_rail() {
    let fabric = generate("rails:2x4,8,4").unwrap();
    assert_eq!((fabric.switches().len(), fabric.host_ids().count()), (2 * 8 + 4, 64));
    let map = nodes(&fabric);
    assert_eq!(map.names().count(), 8);
    for node in 1..=8 {
        let adapters = map.ranks(&named([node])).terminals;
        let descriptions: Vec<String> =
            adapters.iter().map(|t| fabric.terminal(*t).description.clone()).collect();
        let wanted: Vec<String> = (0..8).map(|rail| format!("n{node} mlx5_{rail}")).collect();
        assert_eq!(descriptions, wanted);
        for (rail, t) in adapters.iter().enumerate() {
            // Leaves of a unit by rail.
            assert_eq!(fabric.terminal(*t).switch.index(), (node - 1) / 4 * 8 + rail);
        }
    }
    // Rails of their own: no route leads from one to another.
    let apart = generate("rails:2x4,8,4,apart=1").unwrap();
    assert_eq!(apart.switches().len(), 2 * 8 + 8 * 4);
    let map = nodes(&apart);
    let tables = routed(&apart, &Demand::new(vec![job(&map, 1..=8, "ring@same")], Vec::new()));
    let [one, other] = [1, 5].map(|n| map.ranks(&named([n])).terminals);
    let route = |to| tables.port(apart.terminal(one[0]).switch, apart.dest_of_terminal(to));
    assert!(route(other[0]).is_some() && route(other[1]).is_none());
    for wrong in ["rails:2x4,8", "rails:2x4,8,4,apart=2", "rails:2,8,4", "rails:2x4,8,4,5x5"] {
        assert!(generate(wrong).is_err() || wrong.ends_with("5x5"), "{wrong}");
    }
}

/// Adapters come in the order of rails, whatever order their GUIDs are in.
#[test]
fn a_map_orders_adapters_by_pattern_or_by_line() {
    let fabric = generate("rails:1x2,4,2").unwrap();
    let order = |map: &str| -> Vec<String> {
        let names = NodeNames::parse(std::path::Path::new("m"), map).unwrap();
        let found = name_hosts(&fabric, &names).ranks(&named([1])).terminals;
        found.iter().map(|t| fabric.terminal(*t).description.clone()).collect()
    };
    let guid = |rail: usize| {
        let at = nodes(&fabric).ranks(&named([1])).terminals[rail];
        format!("{} n1\n", fabric.terminal(at).port_guid)
    };
    let by_line = [2, 0, 3, 1].map(guid).concat();
    assert_eq!(order(&by_line), ["n1 mlx5_2", "n1 mlx5_0", "n1 mlx5_3", "n1 mlx5_1"]);
    assert_eq!(order("\"{node} mlx5_{rail}\" {node}"), ["n1 mlx5_0", "n1 mlx5_1", "n1 mlx5_2", "n1 mlx5_3"]);
}

#[test]
fn settings_and_hints_say_which_adapters_exchange() {
    let fabric = generate("rails:2x4,8,4").unwrap();
    let (all, same) = (nodes(&fabric), nodes(&fabric).among(Rails::Same));
    let adapters = |map: &NodeMap, mix: &str| job(map, [1, 6], mix).adapters;
    let eight = |rails| Adapters { per_node: 8, rails };
    assert_eq!(adapters(&all, "default"), eight(Rails::All));
    assert_eq!(adapters(&same, "default"), eight(Rails::Same));
    assert_eq!(adapters(&all, "ring@same"), eight(Rails::Same));
    assert_eq!(adapters(&same, "ring@all"), eight(Rails::All));
    // One adapter each: nothing to choose.
    let plain = generate("fattree:4x4,2").unwrap();
    assert_eq!(job(&nodes(&plain).among(Rails::Same), [1, 6], "ring@same").adapters, Adapters::default());
}

/// Of 16 nodes, each with eight adapters, all rings around the nodes go at once, one on each rail.
#[test]
fn an_all_reduce_on_rails_meets_itself_nowhere() {
    for (spec, numbers) in [
        ("rails:4x8,8,4", (1..=16).collect::<Vec<usize>>()),
        ("rails:4x8,8,4", vec![1, 2, 3, 5, 9, 10, 12, 14, 16, 17, 20, 22, 25, 26, 29, 32]),
        ("rails:4x8,8,4,apart=1", (5..=20).collect()),
    ] {
        let fabric = generate(spec).unwrap();
        let map = nodes(&fabric);
        for pattern in ["ring@same", "hierarchical:8", "rail-alltoall:8", "linear@same"] {
            let group = job(&map, numbers.clone(), pattern);
            assert_eq!(group.ranks.len(), 128);
            let found = contention(&fabric, &[group], 0);
            // All to all has steps of all distances; an all-reduce one of the next node.
            let most = if pattern.starts_with("ring") || pattern.starts_with("hierarchical") { 1 } else { 2 };
            assert!(found <= most, "{spec} {pattern}: {found}");
        }
    }
}

/// What adapters of one node send each other stays inside it: a ring through all adapters crosses the fabric once for
/// each node.
#[test]
fn traffic_inside_a_node_is_none() {
    let fabric = generate("rails:2x4,8,4").unwrap();
    let group = job(&nodes(&fabric), 1..=8, "ring");
    let sent: BTreeSet<(u32, u32)> =
        Pattern::Ring.phases_among(64, group.adapters).iter().flat_map(|p| p.partners.pairs()).collect();
    assert_eq!(sent.len(), 8);
    assert!(sent.iter().all(|(from, to)| from / 8 != to / 8));
    // On rails every adapter sends to the next node.
    let on_rails = Adapters { per_node: 8, rails: Rails::Same };
    let sent: Vec<(u32, u32)> = Pattern::Ring.phases_among(64, on_rails)[0].partners.pairs().collect();
    assert_eq!(sent, Pattern::Hierarchical(8).phases(64)[0].partners.pairs().collect::<Vec<_>>());
    assert_eq!(sent.len(), 64);
    let two = Demand::new(vec![group.clone(), job(&nodes(&fabric), [1, 5], "default@same")], Vec::new());
    assert!(slowdowns(&fabric, &routed(&fabric, &two), &two).iter().all(|s| (1.0..3.0).contains(s)));
}

/// A site of eight-adapter nodes: jobs on one node each come and go without an epoch; one on two nodes makes one.
#[test]
fn jobs_on_one_node_cause_no_epoch() {
    let site = Site::new("interval_seconds = 3600");
    let fabric = generate("rails:2x4,8,4").unwrap();
    site.replace("fabric.net", &to_ibnetdiscover(&fabric));
    site.settings("[traffic]\nrails = \"same\"\n");
    site.jobs("1|RUNNING|n[1-2]|100\n");
    assert_eq!(site.run(&["tick"]).0, 0);
    let first = site.current().unwrap();
    for jobs in [
        "1|RUNNING|n[1-2]|100\n2|RUNNING|n3|100\n3|RUNNING|n8|100\n",
        "1|RUNNING|n[1-2]|100\n4|RUNNING|n8|100\n",
    ] {
        site.jobs(jobs);
        let (code, plan) = site.run(&["plan"]);
        assert_eq!(code, 0, "{plan}");
        assert_eq!(site.run(&["tick"]).0, 0);
        assert_eq!(site.current().unwrap(), first, "{jobs}");
    }
    site.jobs("1|RUNNING|n[1-2]|100\n5|RUNNING|n[4,5]|100\n");
    assert_eq!(site.run(&["plan"]).0, 1);
    assert_eq!(site.run(&["tick"]).0, 0);
    assert_ne!(site.current().unwrap(), first);
    let record = std::fs::read_to_string(site.path("state/current/plan.json")).unwrap();
    let groups = json(&record)["demand"]["groups"].take();
    assert_eq!(groups[0]["adapters"], serde_json::json!({"per_node": 8, "rails": "same"}));
    assert_eq!(groups.as_array().unwrap().len(), 2);
    // What is read back is what was written: nothing is due.
    assert_eq!(site.run(&["plan"]).0, 0);
}

/// Heterogeneous, suspended and shared-node jobs in the packet simulator, and an id that is there twice.
#[test]
fn real_jobs_are_simulated_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("jobs");
    let sarouter = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let words = ["simulate", "--fabric", "fattree:4x4,2", "--traffic", "linear", "--bytes", "2KiB"];
        command(".", words).args(["--format", "json", "--jobs"]).arg(&file).output().unwrap()
    };
    let output = sarouter(
        r#"{"jobs": [
        {"job_id": 20, "job_state": "RUNNING", "nodes": "n[1-2]", "het_job_id": 20, "het_job_offset": 0},
        {"job_id": 21, "job_state": "RUNNING", "nodes": "n[5-6]", "het_job_id": 20, "het_job_offset": 1},
        {"job_id": 22, "job_state": "SUSPENDED", "nodes": "n[1,9]", "het_job_id": 0, "het_job_offset": 0},
        {"job_id": 23, "job_state": "RUNNING", "nodes": "n[9-10]", "het_job_id": 0, "het_job_offset": 0}
        ]}"#,
    );
    let found = json(&String::from_utf8(output.stdout).unwrap());
    let rows =
        found["jobs"].as_array().unwrap().iter().map(|job| (job["id"].clone(), job["terminals"].clone()));
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [("20".into(), 4.into()), ("22".into(), 2.into()), ("23".into(), 2.into())]
    );
    // Four ranks send twelve messages, the others two each, on nodes that they share.
    assert_eq!(found["runs"][0]["bytes"], (12 + 2 + 2) * 2048);
    let output = sarouter("7 n[1-2]\n7 n[5-6]\n");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && errors.contains("job 7 is there twice"), "{errors}");
}

#[test]
fn nested_rails_are_no_mix() {
    assert!("default@same".parse::<Mix>().is_ok());
    assert!("default@same@same".parse::<Mix>().is_err());
}

#[test]
fn order_counts_messages_on_the_rails_that_the_pattern_names() {
    let site = Site::new("");
    let order = |fabric: &str, pattern: &str| {
        let (code, said) =
            site.run(&["order", "--fabric", fabric, "--nodes", "n[1-8]", "--pattern", pattern]);
        (code, json(&said))
    };
    // Rails that no cable joins: what keeps to them has all its routes.
    let (code, said) = order("rails:2x4,8,4,apart=1", "ring@same");
    assert_eq!((code, &said["ranks_per_node"]), (0, &8.into()), "{said}");
    assert!(said["choices"][0]["time"].as_f64().unwrap() < 2.0, "{said}");
    let (code, said) = order("rails:2x4,8,4,apart=1", "ring@all");
    assert!(
        code == 2 && said["error"].as_str().unwrap().contains("no route leads from one of these nodes"),
        "{said}"
    );
    // The same nodes and cables, and fewer messages.
    let time = |pattern: &str| order("rails:2x4,8,4", pattern).1["choices"][0]["time"].as_f64().unwrap();
    assert!(time("halo3d@same") < time("halo3d@all"));
}

#[test]
fn rails_that_no_cable_joins_are_kept_to_and_what_cannot_be_sent_takes_no_time() {
    let site = Site::new("");
    let route = |fabric: &str, jobs: &str, rails: &str| {
        site.jobs(jobs);
        let [jobs, out] = ["jobs", "tables"].map(|name| site.path(name).display().to_string());
        json(&site.run(&["route", "--fabric", fabric, "--jobs", &jobs, "--rails", rails, "--out", &out]).1)
    };
    let apart = "rails:2x4,8,4,apart=1";
    let [all, same] = ["all", "same"].map(|rails| route(apart, "7 n[1-3,5]\n8 n[6-8]\n", rails));
    assert_eq!((&all["time"], &all["load"]), (&same["time"], &same["load"]));
    assert!(all["time"]["slowdown_max"].as_f64().is_some_and(|time| (1.0..2.0).contains(&time)), "{all}");
    // Who says that all exchange is taken at his word: what no cable carries is left out.
    let said = route(apart, "7 n[1-3,5] default@all\n8 n[6-8] ring\n", "all");
    assert!(said["time"]["slowdown_max"].as_f64().is_some_and(|time| time >= 1.0), "{said}");
    // Joined rails are no rails of their own.
    let joined = "rails:2x4,8,4";
    let [all, same] = ["all", "same"].map(|rails| route(joined, "7 n[1-3,5]\n8 n[6-8]\n", rails));
    assert_ne!(all["time"], same["time"]);
    let (code, said) = site.run(&["simulate", "--fabric", apart, "--traffic", "uniform", "--load", "0.5"]);
    assert!(code == 2 && json(&said)["error"].as_str().unwrap().contains("no cables join"), "{said}");
}
