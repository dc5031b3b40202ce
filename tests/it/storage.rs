//! Storage servers as a directed group: hosts of jobs read from them and write to them.

use std::fs;

use sarouter::lab::generate::generate;
use sarouter::measure::{Fullest, StorageLoad, measure};
use sarouter::model::{Demand, Fabric, Group, LayerBudget, Storage, Tables, TerminalId};
use sarouter::route::{self, EngineOptions};
use sarouter::verify::judge;
use serde_json::Value;

use crate::helpers::walk;
use crate::program::{report, sarouter};

/// Hosts by their number in names, from 1.
fn host(fabric: &Fabric, number: usize) -> TerminalId {
    let name = format!("n{number}");
    fabric.host_ids().find(|t| fabric.terminal(*t).description == name).unwrap()
}

/// Three jobs of 54 nodes on `fattree:10x18,5`, interleaved over all hosts that are no servers.
fn three_jobs(fabric: &Fabric, servers: &[usize]) -> Demand {
    let rest: Vec<usize> = (1..=180).filter(|n| !servers.contains(n)).collect();
    let job = |j: usize| Group::new(rest.iter().skip(j).step_by(3).map(|n| host(fabric, *n)).collect());
    let storage: Vec<TerminalId> = servers.iter().map(|n| host(fabric, *n)).collect();
    Demand::new((0..3).map(job).collect(), storage)
}

fn one_leaf() -> Vec<usize> {
    (163..=180).collect()
}

fn six_leaves() -> Vec<usize> {
    (4..10).flat_map(|leaf| (16..=18).map(move |n| 18 * leaf + n)).collect()
}

fn routed(engine: &str, fabric: &Fabric, demand: &Demand, options: &EngineOptions) -> Tables {
    let tables =
        route::engine(engine, options).unwrap().route(fabric, demand, LayerBudget::new(8).unwrap()).unwrap();
    assert!(judge(fabric, &tables, LayerBudget::new(8).unwrap()).accepted, "{engine}");
    tables
}

fn load(engine: &str, fabric: &Fabric, demand: &Demand) -> StorageLoad {
    let tables = routed(engine, fabric, demand, &EngineOptions::default());
    measure(fabric, &tables, demand).storage.unwrap()
}

/// Read route by route, as nobody else reads them.
fn by_walks(fabric: &Fabric, tables: &Tables, demand: &Demand) -> [u64; 3] {
    let Storage { servers, reads, writes } = &demand.storage;
    let members = demand.groups.iter().flat_map(|g| &g.terminals);
    let clients: std::collections::BTreeSet<_> = members.filter(|t| !servers.contains(t)).collect();
    let mut loads = vec![[0; 3]; fabric.channels().len()];
    let mut add = |from: TerminalId, to: TerminalId, which: usize, weight: u32| {
        let route = walk(fabric, tables, fabric.terminal(from).switch, fabric.dest_of_terminal(to)).unwrap();
        for c in route {
            loads[c.index()][which] += 1;
            loads[c.index()][2] += u64::from(weight);
        }
    };
    for (server, client) in servers.iter().flat_map(|s| clients.iter().map(move |c| (*s, **c))) {
        add(server, client, 0, *reads);
        add(client, server, 1, *writes);
    }
    [0, 1, 2].map(|which| loads.iter().map(|l| l[which]).max().unwrap())
}

/// A channel with all reads of one host from 18 servers carries 18; 162 hosts over 18 cables of the servers' leaf.
#[test]
fn servers_on_one_leaf_fill_its_cables_evenly() {
    let fabric = generate("fattree:10x18,5").unwrap();
    let demand = three_jobs(&fabric, &one_leaf());
    let ours = load("balanced", &fabric, &demand);
    let least = Fullest { max: 162, lower_bound: 162 };
    assert_eq!((ours.reads, ours.writes, ours.both), (least, least, least));
    assert_eq!((ours.servers, ours.clients, ours.cables), (18, 162, 162));
    let oblivious = load("dfsssp", &fabric, &demand);
    for engine in ["sar", "sar-nue"] {
        let aware = load(engine, &fabric, &demand);
        assert!(aware.reads.max <= oblivious.reads.max && aware.writes.max <= oblivious.writes.max);
    }
    // Without servers in the demand the algorithm leads whole jobs' reads over a few cables.
    let unaware = Demand { storage: Storage::default(), ..demand.clone() };
    let tables = routed("sar", &fabric, &unaware, &EngineOptions::default());
    assert!(measure(&fabric, &tables, &demand).storage.unwrap().reads.max > 1000);
}

/// No channel then carries more than a server's own cable, not even reads and writes together.
#[test]
fn servers_on_six_leaves_are_limited_by_their_own_cables() {
    let fabric = generate("fattree:10x18,5").unwrap();
    let demand = three_jobs(&fabric, &six_leaves());
    let oblivious = load("dfsssp", &fabric, &demand);
    for engine in ["balanced", "sar", "sar-nue"] {
        let aware = load(engine, &fabric, &demand);
        assert!(aware.both.max <= 60 && aware.both.max < oblivious.both.max, "{engine}: {aware:?}");
        assert!(aware.both.lower_bound <= aware.both.max && aware.both.max < aware.cables);
    }
}

#[test]
fn figures_are_those_of_walks() {
    for (spec, servers) in [("torus:4x4,hosts=3", [1, 2, 30]), ("fattree:4x8,3", [5, 31, 32])] {
        let fabric = generate(spec).unwrap();
        let storage = Storage::new(servers.map(|n| host(&fabric, n)).to_vec()).weighing(3, 2);
        let job = |from: usize| Group::new((from..from + 12).map(|n| host(&fabric, n)).collect());
        // The second job has a server among its nodes.
        let demand = Demand::new(vec![job(4), job(20)], storage);
        for engine in ["balanced", "sar", "sar-nue", "dfsssp"] {
            let tables = routed(engine, &fabric, &demand, &EngineOptions::default());
            let found = measure(&fabric, &tables, &demand).storage.unwrap();
            let all = [found.reads, found.writes, found.both];
            assert_eq!(all.map(|f| f.max), by_walks(&fabric, &tables, &demand), "{spec} {engine}");
            assert!(all.iter().all(|f| f.lower_bound > 0 && f.lower_bound <= f.max), "{spec} {engine}");
        }
    }
}

/// Servers without jobs, or with jobs on no two switches, change nothing.
#[test]
fn without_jobs_servers_change_nothing() {
    let fabric = generate("fattree:4x8,3").unwrap();
    let storage: Vec<TerminalId> = [5, 31, 32].map(|n| host(&fabric, n)).to_vec();
    for engine in ["balanced", "balanced-efi", "dfsssp"] {
        let with = routed(engine, &fabric, &Demand::new(vec![], storage.clone()), &EngineOptions::default());
        assert_eq!(
            with,
            routed(engine, &fabric, &Demand::oblivious(), &EngineOptions::default()),
            "{engine}"
        );
        assert_eq!(measure(&fabric, &with, &Demand::new(vec![], storage.clone())).storage, None);
    }
}

/// From tables in force, a job that starts elsewhere moves few routes to servers, and theirs stay level.
#[test]
fn storage_stays_level_from_epoch_to_epoch() {
    let fabric = generate("fattree:10x18,5").unwrap();
    let whole = three_jobs(&fabric, &one_leaf());
    let fewer = Demand { groups: whole.groups[..2].to_vec(), ..whole.clone() };
    let before = routed("balanced", &fabric, &fewer, &EngineOptions::default());
    let options = EngineOptions {
        previous: Some(std::sync::Arc::new(before)),
        served: Some(fewer),
        ..EngineOptions::default()
    };
    let after = routed("balanced", &fabric, &whole, &options);
    let found = measure(&fabric, &after, &whole).storage.unwrap();
    assert!(found.both.max <= 162 + 162 / 8, "{found:?}");
}

#[test]
fn commands_take_servers() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let (jobs, out) = (path("jobs"), path("out"));
    fs::write(&jobs, "1 n[1-5,9]\n2 n[6-8,10-11]\n").unwrap();
    let common = ["--fabric", "fattree:4x4,2", "--jobs", &jobs];
    let with = [&common[..], &["--storage", "n[13-16]", "--storage-weights", "2:1"]].concat();
    let compare = |args: &[&str]| report(".", [&["compare", "--engines", "balanced"], args].concat());
    let figures = &compare(&with)[0]["storage"];
    // Eleven hosts, each with twice the reads; four servers on one leaf.
    assert_eq!([&figures["servers"], &figures["clients"], &figures["cables"]], [4, 11, 22]);
    assert_eq!(compare(&common)[0].get("storage"), None);
    let text = sarouter(".", [&["compare", "--engines", "balanced"], &with[..]].concat());
    assert!(String::from_utf8(text.stdout).unwrap().contains("reads  bound  writes  bound"));
    let route = sarouter(".", [&["route", "--out", &out], &with[..]].concat());
    assert!(String::from_utf8(route.stdout).unwrap().contains("\nstorage       reads max "));
    let moved = ["simulate", "--traffic", "none", "--reads", "4KiB", "--writes", "2KiB", "--tables", &out];
    let run = report(".", [&moved[..], &with[..]].concat());
    // Eleven hosts, four servers, both ways.
    assert_eq!(run["runs"][0]["bytes"], 11 * 4 * (4096 + 2048));
    let rows: Vec<&Value> = run["jobs"].as_array().unwrap().iter().map(|job| &job["storage"]).collect();
    assert_eq!(rows, ["reads", "writes", "reads", "writes"]);
    for (wrong, what) in [
        (&["--storage", "n[13-17]"][..], "no host of the fabric is called n17"),
        (&["--storage", "n[13-"], "--storage n[13-: "),
        (&["--storage", "n13", "--storage-weights", "1"], "expected READS:WRITES"),
        (&["--storage-weights", "1:1"], "--storage"),
    ] {
        let output = sarouter(".", [&["compare"], &common[..], wrong].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && errors.contains(what), "{wrong:?}: {errors}");
    }
    let torus = sarouter(".", ["compare", "--fabric", "angara:3x3x3", "--storage", "n1"]);
    assert!(String::from_utf8(torus.stderr).unwrap().contains("only jobs have routes"));
    let nothing = sarouter(".", [&["simulate", "--traffic", "none"], &common[..]].concat());
    assert!(String::from_utf8(nothing.stderr).unwrap().contains("nothing is sent"));
}
