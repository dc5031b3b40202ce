//! `sarouter fabric`, as it is called.

use std::fs;
use std::path::Path;
use std::process::Output;

use sarouter::observe::fabric::load;
use serde_json::Value;

use crate::fabric_files::data;
use crate::program::sarouter;

fn fabric(words: &[&str]) -> Output {
    sarouter(".", [&["fabric"], words].concat())
}

fn printed(words: &[&str]) -> String {
    let output = fabric(words);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.is_empty(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn refusal(words: &[&str]) -> String {
    let output = fabric(words);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{words:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&printed(&[words, &["--format", "json"]].concat())).unwrap()
}

fn real(name: &str) -> String {
    data(name).to_str().unwrap().to_string()
}

fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn show_counts_what_is_there() {
    let shown = json(&["show", &real("topograph-dgx-gb200-582ca-40sw.ibnetdiscover")]);
    let numbers =
        ["switches", "hosts", "aggregation_nodes", "inter_switch_cables", "components", "leaf_switches"];
    assert_eq!(numbers.map(|n| shown[n].as_u64().unwrap()), [40, 542, 40, 532, 1, 31]);
    assert_eq!(shown["nodes"].as_array().unwrap().len(), 121);
    assert_eq!(shown["unnamed"].as_array().unwrap().len(), 72);
    assert_eq!(shown["switch_list"].as_array().unwrap().len(), 40);
    let map = real("psmn-X5.map");
    let shown = json(&["show", &real("psmn-X5.topofile"), "--node-map", &map]);
    assert_eq!(shown["nodes"].as_array().unwrap().len(), 86);
    assert_eq!(shown["unnamed"][0]["node_guid"], "0x003048c749450000");
}

#[test]
fn show_tells_people() {
    let text = printed(&["show", "fattree:10x18,5"]);
    for line in [
        "switches              15",
        "inter-switch cables   180 (130 parallel)",
        "cables per switch     18 (10 switches), 36 (5)",
        "hosts per leaf        18 (10 leaves)",
        "node names            n1, n10, n100, n101, n102, n103, n104, n105, and 172 more",
        "hosts without name    0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
    }
    assert!(!text.contains("connectivity"));
    let text = printed(&["show", "fattree:10x18,5", "--connectivity"]);
    assert!(text.contains("\nconnectivity          5 switches, 18 cables\n"), "{text}");
}

#[test]
fn what_is_written_loads_as_the_same_fabric() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let print = |source: &str| load(source).unwrap().fingerprint();
    printed(&["generate", "torus:3x3,hosts=2", "--out", &path("a.net")]);
    assert_eq!(print(&path("a.net")), print("torus:3x3,hosts=2"));
    printed(&["import", &path("a.net"), "--out", &path("a.ibnd"), "--as", "ibnetdiscover"]);
    assert_eq!(print(&path("a.ibnd")), print("torus:3x3,hosts=2"));
    let piped = printed(&["generate", "torus:3x3,hosts=2", "--out", "-"]);
    assert_eq!(piped, fs::read_to_string(path("a.net")).unwrap());
    let written = json(&["degrade", &path("a.net"), "--faults", "2", "--seed", "5", "--out", &path("b.net")]);
    assert_eq!(
        (&written["fabric"]["inter_switch_cables"], &written["fabric"]["components"]),
        (&16.into(), &1.into())
    );
    assert_eq!(print(&path("b.net")), print("torus:3x3,hosts=2,faults=2,seed=5"));
}

#[test]
fn named_cables_and_switches_go() {
    let degraded = |words: &[&str]| {
        let text = printed(&[&["degrade", "fattree:3x2,2"], words, &["--out", "-"]].concat());
        let fabric = sarouter::observe::ibnetdiscover::parse(Path::new("-"), &text).unwrap().fabric;
        (fabric.switches().len(), fabric.terminals().len(), fabric.channels().len() / 2)
    };
    assert_eq!(degraded(&[]), (5, 6, 6));
    // Both ends of one cable: cut once.
    assert_eq!(degraded(&["--cut", "S0000[3]", "--cut", "S0003[1]"]), (5, 6, 5));
    assert_eq!(degraded(&["--cut", "0x200000[4]"]), (5, 6, 5));
    assert_eq!(degraded(&["--dead-switch", "S0000"]), (4, 4, 4));
    assert_eq!(degraded(&["--dead-switch", "S-0000000000200003", "--cut", "S0001[3]"]), (4, 6, 2));
    let refused = |words: &[&str]| refusal(&[&["degrade", "fattree:3x2,2", "--out", "-"], words].concat());
    assert!(refused(&["--cut", "S0000[1]"]).contains("leads to a host"));
    assert!(refused(&["--cut", "S0000[9]"]).contains("leads nowhere"));
    assert!(refused(&["--cut", "S0000"]).contains("SWITCH[PORT]"));
    assert!(refused(&["--dead-switch", "S0009"]).contains("no switch is called"));
    assert!(refused(&["--faults", "6"]).contains("without splitting"));
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("x.net");
    fs::write(&out, "old").unwrap();
    let error = refusal(&["import", &real("psmn-X5.map"), "--out", out.to_str().unwrap()]);
    assert!(error.contains("neither ibnetdiscover"), "{error}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "old");
    let nowhere = directory.path().join("no/x.net");
    assert!(refusal(&["generate", "torus:3x3", "--out", nowhere.to_str().unwrap()]).contains("no/x.net"));
    // A directory cannot be replaced; the temporary file does not stay.
    let taken = directory.path().join("taken");
    fs::create_dir(&taken).unwrap();
    assert!(refusal(&["generate", "torus:3x3", "--out", taken.to_str().unwrap()]).contains("taken"));
    let mut left = files(directory.path());
    left.sort();
    assert_eq!(left, ["taken", "x.net"]);
    printed(&["generate", "torus:3x3", "--out", out.to_str().unwrap()]);
    assert!(fs::read_to_string(&out).unwrap().ends_with("# end of fabric\n"));
}

#[test]
fn specs_are_not_imported() {
    assert!(refusal(&["import", "torus:3x3", "--out", "-"]).contains("fabric generate"));
}

#[test]
fn nodes_lists_matches_and_misses() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(data("ibtopotool-1.topo")).unwrap();
    let file = dir.path().join("f").to_str().unwrap().to_string();
    // Adapters of two nodes with rails, and one that says nothing.
    let mut numbered = 0;
    let renamed: String = text
        .lines()
        .map(|line| match line.strip_prefix("Ca").and_then(|_| line.split_once('#')) {
            Some((head, _)) => {
                numbered += 1;
                let names = ["rail1-n1", "rail0-N1", "n2.hpc.example HCA-1", "spare adapter x"];
                format!("{head}# \"{}\"\n", names[numbered - 1])
            }
            None => format!("{line}\n"),
        })
        .collect();
    fs::write(&file, renamed).unwrap();
    let map = dir.path().join("map").to_str().unwrap().to_string();
    fs::write(&map, "# adapters\n\"rail{rail}-{node}\" {node}\n").unwrap();
    let words = ["nodes", &file, "--node-map", &map, "--format", "json", "--nodes"];
    let output = fabric(&[&words[..], &["n[1-2]"]].concat());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{found}");
    let descriptions: Vec<Vec<&str>> = found["matched"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| {
            m["adapters"].as_array().unwrap().iter().map(|a| a["description"].as_str().unwrap()).collect()
        })
        .collect();
    assert_eq!(descriptions, [vec!["rail1-n1"], vec!["n2.hpc.example HCA-1"]]);
    assert_eq!(found["matched"][0]["adapters"][0]["by"], "pattern of line 2");
    assert_eq!(found["unnamed"][0]["description"], "spare adapter x");
    assert_eq!(found["others"], serde_json::json!(["N1"]), "another node, or the same? it is listed");
    let output = fabric(&[&words[..], &["n[2-3]"]].concat());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{found}");
    assert_eq!(found["missing"][0]["node"], "n3");
    let text = printed(&["nodes", &file, "--node-map", &map]);
    assert!(text.contains("nodes have adapters") && text.contains("2 adapters without a node"), "{text}");
}

#[test]
fn nodes_of_a_direct_torus_are_told_by_their_names() {
    let output = fabric(&["nodes", "angara:2x2", "--nodes", "n[3-5]"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let wanted = "2 of 3 nodes are in the torus\n  n3: 1.0\n  n4: 1.1\n1 nodes are not\n  n5, is it n1?\n\
                  2 further nodes in the torus\n  n1\n  n2\n";
    assert_eq!((output.status.code(), text.as_str()), (Some(1), wanted));
    assert_eq!(json(&["nodes", "angara:2x2"])["matched"][3]["at"], "1.1");
    assert!(refusal(&["nodes", "angara:2x2", "--node-map", "map"]).contains("--node-map is for switched"));
}
