//! Which rank goes to which node.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::measure::{Predictor, of_routes, slowdowns};
use sarouter::model::rng::Rng;
use sarouter::model::{Demand, Fabric, Group, LayerBudget, Mix, NodeId, Routes, Tables, TerminalId};
use sarouter::model::{Torus, TorusDemand, TorusJob, Transit};
use sarouter::observe::torus_toml;
use sarouter::placement::order::{
    Job as DirectJob, Movable, Order, Question, on_torus as ordered_on_torus, order, order_all, time,
    together,
};
use sarouter::route::angara::Limits;
use sarouter::route::{EngineOptions, RouteError, engine};

use crate::program::sarouter;
use crate::site::Site;

/// Enough for the small fabrics here.
const WORK: u64 = 1 << 21;

fn route(fabric: &Fabric, name: &str, demand: &Demand) -> Result<Tables, RouteError> {
    let engine = engine(name, &EngineOptions::default()).unwrap();
    engine.route(fabric, demand, LayerBudget::new(8).unwrap())
}

fn tables(fabric: &Fabric, name: &str) -> Tables {
    route(fabric, name, &Demand::oblivious()).unwrap()
}

fn shuffled(fabric: &Fabric, seed: u64) -> Vec<TerminalId> {
    let mut ranks: Vec<TerminalId> = fabric.host_ids().collect();
    Rng::new(seed).shuffle(&mut ranks);
    ranks
}

fn mix(text: &str) -> Mix {
    text.parse().unwrap()
}

/// One job alone.
struct Job {
    fabric: Fabric,
    tables: Tables,
    group: Group,
}

impl Job {
    fn new(spec: &str, engine: &str, pattern: &str, seed: u64) -> Self {
        let fabric = generate(spec).unwrap();
        let tables = tables(&fabric, engine);
        let group = Group::new(shuffled(&fabric, seed)).exchanging(mix(pattern));
        Self { fabric, tables, group }
    }

    fn predictor(&self) -> Predictor<'_> {
        Predictor::new(&self.fabric, &self.tables, std::slice::from_ref(&self.group), 0).unwrap()
    }

    fn order(&self, unit: usize) -> Order {
        let Group { ranks, mix, .. } = &self.group;
        order(Question { fabric: &self.fabric, ranks, unit, mix, work: WORK }, &mut self.predictor())
    }

    fn ordered(&self, order: &Order) -> Vec<TerminalId> {
        order.places.iter().map(|p| self.group.ranks[*p as usize]).collect()
    }
}

/// Names of hosts say nothing of where they are: a ring over them meets itself, and by its order alone it does not.
#[test]
fn shuffled_rings_on_trees_meet_nobody_by_order_alone() {
    for (spec, engine) in [("fattree:18x18,18", "fattree"), ("kary:4,3", "minhop"), ("kary:6,3", "minhop")] {
        let job = Job::new(spec, engine, "ring", 2);
        let before = job.predictor().contention(&job.group.ranks);
        let found = job.order(1);
        let after = job.predictor().contention(&job.ordered(&found));
        assert!(before >= 4, "{spec}: {before}");
        assert_eq!(after, 1, "{spec}, from {}", found.start);
    }
}

/// Neighbours in the grid of ranks are neighbours in the torus, and a ring is a line through it.
#[test]
fn tori_are_filled_along_their_sides() {
    let halo = Job::new("torus:4x4x4,hosts=1", "balanced", "halo:4x4x4", 5);
    let found = halo.order(1);
    assert!(found.after < 0.75 * found.before, "{found:?}");
    let ring = Job::new("torus:4x4x4,hosts=1", "balanced", "ring", 5);
    let found = ring.order(1);
    assert_eq!(ring.predictor().contention(&ring.ordered(&found)), 1, "{found:?}");
}

/// The search predicts what the measure says, beside other jobs too.
#[test]
fn the_prediction_is_the_measure() {
    let fabric = generate("kary:4,3").unwrap();
    let tables = tables(&fabric, "dfsssp");
    let hosts = shuffled(&fabric, 1);
    // So many that others are everywhere.
    let patterns = ["default", "ring", "halo2d+ring"].iter().cycle();
    let groups: Vec<Group> = (hosts.chunks(6).zip(patterns))
        .map(|(ranks, pattern)| Group::new(ranks.to_vec()).exchanging(mix(pattern)))
        .collect();
    // In the same order: `Demand::new` would sort them.
    let times = |groups: &[Group]| {
        slowdowns(
            &fabric,
            &tables,
            &Demand { groups: groups.to_vec(), storage: sarouter::model::Storage::default() },
        )
    };
    for job in 0..3 {
        let mut predictor = Predictor::new(&fabric, &tables, &groups, job).unwrap();
        for seed in 0..3 {
            let mut groups = groups.clone();
            Rng::new(seed).shuffle(&mut groups[job].ranks);
            let (own, all) = (predictor.time(&groups[job].ranks), times(&groups));
            assert!((own - all[job]).abs() < 1e-4, "{own} {all:?}");
            let mean = (all.iter().map(|t| t.ln()).sum::<f64>() / all.len() as f64).exp();
            // What the job is in the way of those of other patterns is not counted anew for each order.
            assert!((predictor.mean() / mean - 1.0).abs() < 0.1, "{} {mean}", predictor.mean());
        }
    }
}

/// Ranks of one node reach each other without the fabric, and share its cable.
#[test]
fn ranks_of_one_node_share_its_cable() {
    let fabric = generate("fattree:2x2,2").unwrap();
    let tables = tables(&fabric, "updown");
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    let time = |ranks: &[usize], pattern: &str| {
        let mut group = Group::new(hosts.clone()).exchanging(mix(pattern));
        group.ranks = ranks.iter().map(|i| hosts[*i]).collect();
        Predictor::new(&fabric, &tables, std::slice::from_ref(&group), 0).unwrap().time(&group.ranks)
    };
    assert_eq!(time(&[0, 0, 0, 0], "ring"), 0.0, "all on one node");
    // Two nodes of one switch: one message each way, or two.
    assert_eq!(time(&[0, 0, 1, 1], "neighbor"), 1.0);
    assert_eq!(time(&[0, 1, 0, 1], "neighbor"), 2.0);
}

/// Ranks of a node stay together unless they may be apart, and being apart can help.
#[test]
fn units_stay_together() {
    let mut job = Job::new("fattree:4x4,2", "updown", "halo:8x8", 3);
    job.group.ranks = job.group.ranks.iter().flat_map(|t| [*t; 4]).collect();
    let (blocks, apart) = (job.order(4), job.order(1));
    assert!(job.ordered(&blocks).chunks(4).all(|node| node.iter().all(|t| *t == node[0])));
    assert!(apart.after < blocks.after && blocks.after < blocks.before, "{apart:?} {blocks:?}");
}

/// Orders and routes together are at least as good as either alone.
#[test]
fn routes_and_orders_together_are_best() {
    let fabric = generate("torus:4x4,hosts=2").unwrap();
    let hosts = shuffled(&fabric, 9);
    let groups: Vec<Group> =
        hosts.chunks(16).map(|ranks| Group::new(ranks.to_vec()).exchanging(mix("ring"))).collect();
    let movable: Vec<Movable> = (0..groups.len()).map(|job| Movable { job, unit: 1 }).collect();
    let usual = tables(&fabric, "balanced");
    let ordered = order_all(&fabric, &usual, &groups, &movable, WORK);
    let make = |demand: &Demand| route(&fabric, "balanced", demand);
    let alone = make(&Demand::new(groups.clone(), Vec::new())).unwrap();
    let both = together(&fabric, &groups, &movable, WORK, &usual, make).unwrap();
    let of = |tables: &Tables, groups: &[Group]| time(&fabric, tables, groups, &movable);
    assert!(of(&usual, &ordered) < 0.9 * of(&usual, &groups));
    assert!(both.time <= of(&alone, &groups), "never worse than the routes alone");
    assert!(both.time <= of(&usual, &ordered), "nor than the orders alone");
    assert!((both.time - of(&both.tables, &both.groups)).abs() < 1e-9);
    for (before, after) in groups.iter().zip(&both.groups) {
        assert_eq!(before.terminals, after.terminals);
        assert_eq!(before.ranks.iter().collect::<BTreeSet<_>>(), after.ranks.iter().collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// On any fabric with any pattern: a permutation, no worse than the list, and the same again.
    #[test]
    fn no_order_is_worse_than_the_list(
        spec in prop::sample::select(vec!["random:8,24,20,seed=3", "fattree:3x5,2", "mesh:3x4,hosts=2", "dragonfly:2,2,1,3"]),
        pattern in prop::sample::select(vec!["default", "ring", "halo2d", "groups:4", "binomial+3*bruck"]),
        ranks in 2usize..12,
        seed in 0u64..1000,
    ) {
        let mut job = Job::new(spec, "dfsssp", pattern, seed);
        job.group = Group::new(job.group.ranks[..ranks].to_vec()).exchanging(job.group.mix.clone());
        let found = job.order(1);
        let mut places = found.places.clone();
        places.sort_unstable();
        prop_assert_eq!(places, (0..ranks as u32).collect::<Vec<_>>());
        let mut predictor = job.predictor();
        prop_assert_eq!(found.before, predictor.time(&job.group.ranks));
        prop_assert_eq!(found.after, predictor.time(&job.ordered(&found)));
        prop_assert!(found.after <= found.before);
        prop_assert_eq!(job.order(1), found);
    }
}

fn ordered(dir: &Path, words: &[&str]) -> Output {
    sarouter(dir, [&["order"], words].concat())
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

const TREE: [&str; 4] = ["--fabric", "fattree:4x4,4", "--nodes", "n[1,5,9,13,2,6,10,14]"];

#[test]
fn the_command_says_the_order_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let say = |words: &[&str]| stdout(&ordered(dir.path(), &[&TREE, words].concat()));
    let text = say(&["--pattern", "ring"]);
    assert!(text.contains("8 nodes with 1 rank each, pattern ring"), "{text}");
    assert!(text.contains("less time than with the list as given"), "{text}");

    let words = ["--pattern", "ring", "--ranks-per-node", "2"];
    let json: serde_json::Value =
        serde_json::from_str(&say(&[&words[..], &["--format", "json"]].concat())).unwrap();
    let order: Vec<String> = serde_json::from_value(json["order"].clone()).unwrap();
    assert_eq!(order.len(), 16);
    assert!(order.chunks(2).all(|node| node[0] == node[1]), "{order:?}");
    let nodes: Vec<&str> = order.chunks(2).map(|node| node[0].as_str()).collect();
    // Nodes of one leaf follow each other.
    let leaf = |n: &str| (n[1..].parse::<usize>().unwrap() - 1) / 4;
    assert_eq!(nodes.chunk_by(|a, b| leaf(a) == leaf(b)).count(), 4, "{nodes:?}");
    let [list, alone] = [0, 1].map(|i| json["choices"][i].clone());
    assert_eq!((&list["what"], &alone["what"]), (&"the list".into(), &"order alone".into()));
    assert!(alone["time"].as_f64() < list["time"].as_f64(), "{json}");

    let form = |form: &str| say(&[&words[..], &["--as", form]].concat());
    let lines = |text: String| text.lines().map(str::to_string).collect::<Vec<_>>();
    let each = |write: &dyn Fn(usize, &str) -> String| -> Vec<String> {
        nodes.iter().enumerate().map(|(i, n)| write(i, n)).collect()
    };
    assert_eq!(lines(form("hostfile")), each(&|_, n| format!("{n} slots=2")));
    assert_eq!(lines(form("machinefile")), each(&|_, n| format!("{n}:2")));
    assert_eq!(lines(form("torchrun")), each(&|i, n| format!("{n} {i}")));
    assert_eq!(lines(form("list")), [nodes.join(",")]);
    assert_eq!(lines(form("slurm")), order);
    assert_eq!(
        lines(form("rankfile"))[..3],
        [
            format!("rank 0={} slot=0", nodes[0]),
            format!("rank 1={} slot=1", nodes[0]),
            format!("rank 2={} slot=0", nodes[1]),
        ]
    );
}

#[test]
fn routes_are_taken_as_they_are_or_made_with_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let made =
        sarouter(dir.path(), ["route", "--fabric", "fattree:4x4,4", "--engine", "dfsssp", "--out", "t"]);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let lft = std::fs::read(dir.path().join("t/lft.txt")).unwrap();
    let words = ["--tables", "t", "--pattern", "halo:4x2", "--engine", "balanced", "--out", "o"];
    let text = stdout(&ordered(dir.path(), &[&TREE, &words[..]].concat()));
    for row in ["the list", "order alone", "routes alone"] {
        assert!(text.lines().any(|l| l.starts_with(row)), "{row}: {text}");
    }
    assert_eq!(std::fs::read(dir.path().join("t/lft.txt")).unwrap(), lft, "nothing is changed");
    for file in ["order.json", "hostfile", "rankfile", "machinefile", "slurm-hostfile", "node-ranks", "list"]
    {
        assert!(dir.path().join("o").join(file).exists(), "{file}");
    }
    let again = [&TREE, &["--tables", "o", "--pattern", "ring"][..]].concat();
    assert!(!dir.path().join("o/lft.txt").exists() || ordered(dir.path(), &again).status.success());
}

#[test]
fn a_job_that_runs_is_put_in_order_for_the_routes_in_force() {
    let site = Site::new("interval_seconds = 3600");
    site.jobs("1|RUNNING|n[1,5,9,13,2,6,10,14]|100\n2|RUNNING|n[3,7,11]|100\n");
    let of = |job: &str| site.command(&["order", "--pattern", "ring", "--job", job]).output().unwrap();
    let told = |output: &Output| -> serde_json::Value { serde_json::from_str(&stdout(output)).unwrap() };
    assert_eq!(told(&of("1"))["routes"], "balanced, for everybody", "nothing is published yet");
    assert_eq!(site.run(&["tick"]).0, 0);
    let order = told(&of("1"));
    assert_eq!(order["routes"], "epoch 1");
    let nodes: Vec<String> = serde_json::from_value(order["order"].clone()).unwrap();
    let leaf = |n: &String| (n[1..].parse::<usize>().unwrap() - 1) / 4;
    // The ring comes round each leaf once.
    let leaves = nodes.iter().zip(nodes.iter().cycle().skip(1)).filter(|(a, b)| leaf(a) != leaf(b)).count();
    assert_eq!(leaves, 4, "{nodes:?}");
    let stranger = of("99");
    assert_eq!(stranger.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&stranger.stderr).contains("no job 99"), "{stranger:?}");
    let both = site.command(&["order", "--job", "1", "--nodes", "n1"]).output().unwrap();
    assert!(String::from_utf8_lossy(&both.stderr).contains("cannot be used with"), "{both:?}");
}

#[test]
fn what_is_wrong_is_said_and_ends_with_2() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bad.txt"), "17\n").unwrap();
    let tree = ["--fabric", "fattree:4x4,4", "--nodes"];
    for (words, want) in [
        (vec!["n[1-4],n77"], "no host of the fabric is called n77; did you mean n"),
        (vec!["n1,n2,n3,n2"], "--nodes names n2 twice"),
        (vec!["n1,N1.cluster"], "--nodes names N1.cluster twice"),
        (vec!["n[1-"], "brackets do not match"),
        (vec!["n1"], "one rank exchanges nothing"),
        (vec!["n[1-4]", "--pattern", "rnig"], "there is no pattern \"rnig\"; did you mean ring?"),
        (vec!["n[1-4]", "--pattern", "3*"], "there is no pattern"),
        (vec!["n[1-4]", "--engine", "blanced"], "balanced"),
        (vec!["n[1-4]", "--tables", "nowhere"], "nowhere"),
        (vec!["n[1-4]", "--jobs", "bad.txt"], "bad.txt:1"),
        (vec!["n[1-4]", "--ranks-per-node", "0"], "0 is not in 1..=1024"),
        (vec!["n[1-4]", "--as", "rankfil"], "rankfile"),
    ] {
        let output = ordered(dir.path(), &[&tree[..], &words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(want), "{words:?}: {text}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    for (words, want) in [
        (vec!["n1,n77"], "the torus has no node n77; did you mean n"),
        (vec!["n1,n2,n1"], "names n1 twice"),
        (vec!["n1"], "one rank exchanges nothing"),
        (vec!["n1,n27"], "no legal route from n1"),
        (vec!["n1,n2", "--engine", "angara-balancd"], "did you mean angara-balanced"),
        (vec!["n1,n2", "--tables", "o"], "--tables and --node-map are for switched fabrics"),
        (vec!["n1,n2", "--transit", "none"], "--transit none: job or any"),
    ] {
        let output = ordered(dir.path(), &[&["--fabric", "angara:3x3x3", "--nodes"][..], &words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(want), "{words:?}: {text}");
    }
}

/// A job on all nodes of a direct torus in an order drawn by lot, and one beside it, with their routes.
fn on_torus(seed: u64) -> (Torus, Vec<(TorusJob, Routes)>) {
    let torus = torus_toml::load("angara:4x4x2").unwrap().torus;
    let mut nodes = torus.healthy_nodes();
    Rng::new(seed).shuffle(&mut nodes);
    let jobs = vec![
        TorusJob::new(None, nodes[..16].to_vec()).exchanging(Some(mix("halo:4x4+ring"))),
        TorusJob::new(None, nodes[16..].to_vec()).exchanging(Some(mix("alltoall"))),
    ];
    let demand = TorusDemand { jobs, transit: Transit::Any };
    let engine = sarouter::route::angara::engine("angara-balanced").unwrap();
    let tables = engine.route(&torus, &demand, &Limits::default()).unwrap();
    (torus, tables.demand.jobs.into_iter().zip(tables.routes).collect())
}

/// What a search goes by is no less than what reports say of the same job in that order, its neighbour at work.
#[test]
fn the_time_of_an_order_on_a_direct_torus_is_the_slowdown_of_a_job_in_that_order() {
    let (torus, jobs) = on_torus(1);
    let with_routes: Vec<(&TorusJob, &Routes)> = jobs.iter().map(|(job, routes)| (job, routes)).collect();
    let mut predictor = Predictor::on_torus(&torus, &with_routes, 1).unwrap();
    let question = DirectJob { torus: &torus, job: with_routes[0].0, per_node: 1, unit: 1, work: WORK };
    let mut found = Vec::new();
    for seed in 0..4 {
        let mut places = question.places();
        Rng::new(seed).shuffle(&mut places);
        let nodes: Vec<NodeId> = places.iter().map(|p| with_routes[0].0.nodes()[*p as usize]).collect();
        let again = TorusJob::new(None, nodes).exchanging(Some(with_routes[0].0.mix.clone()));
        let wanted = of_routes(&torus, [(&again, with_routes[0].1), with_routes[1]]);
        let own = predictor.time_at(&places);
        // As if others were everywhere, and here is one.
        assert!(own > wanted[0] - 1e-4 && own < 1.25 * wanted[0], "{own} {wanted:?}");
        found.push(own);
    }
    assert!(found.iter().any(|own| *own != found[0]), "orders differ: {found:?}");
}

#[test]
fn an_order_on_a_direct_torus_is_never_worse_and_often_better() {
    let mut better = 0;
    for seed in 1..=6 {
        let (torus, jobs) = on_torus(seed);
        let with_routes: Vec<(&TorusJob, &Routes)> = jobs.iter().map(|(job, routes)| (job, routes)).collect();
        for (per_node, unit) in [(1, 1), (2, 2), (2, 1)] {
            let mut predictor = Predictor::on_torus(&torus, &with_routes, per_node).unwrap();
            let question = DirectJob { torus: &torus, job: with_routes[0].0, per_node, unit, work: WORK };
            let order = ordered_on_torus(question, &mut predictor);
            let mut seen: Vec<u32> = order.places.clone();
            seen.sort_unstable();
            assert_eq!(seen, (0..16 * per_node as u32).collect::<Vec<u32>>());
            assert!(
                order
                    .places
                    .chunks(unit)
                    .all(|u| u[0] as usize % unit == 0 && u[unit - 1] == u[0] + unit as u32 - 1)
            );
            assert!(order.after <= order.before, "{order:?}");
            let given = question.places();
            let places: Vec<u32> = order.places.iter().map(|p| given[*p as usize]).collect();
            assert_eq!(predictor.time_at(&places), order.after);
            better += usize::from(order.after < 0.9 * order.before);
        }
    }
    // Routes are made for the list as given.
    assert!(better >= 2, "by a tenth in {better} of 18");
}

#[test]
fn the_list_stays_where_no_order_is_better_and_routes_of_a_torus_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let say = |words: &[&str]| stdout(&ordered(dir.path(), words));
    for fabric in ["fattree:4x4,4", "angara:4x4", "torus:4x4,hosts=1"] {
        let words = ["--fabric", fabric, "--nodes", "n[1-16]", "--pattern", "ring"];
        let text = say(&words);
        if text.contains("No order was found that is better") {
            let list = say(&[&words[..], &["--as", "list"]].concat());
            let wanted: Vec<String> = (1..=16).map(|n| format!("n{n}")).collect();
            assert_eq!(list.trim(), wanted.join(","), "{fabric}");
        }
    }
    assert!(
        say(&["--fabric", "fattree:4x4,4", "--nodes", "n[1-16]", "--pattern", "ring"])
            .contains("No order was found")
    );
    say(&["--fabric", "angara:4x4", "--nodes", "n[1-8]", "--engine", "angara-sar", "--out", "tables"]);
    std::fs::write(dir.path().join("jobs"), "1 n[1-8]\n").unwrap();
    let words = ["verify", "--fabric", "angara:4x4", "--jobs", "jobs", "--tables", "tables"];
    assert_eq!(sarouter(dir.path(), words).status.code(), Some(0));
}
