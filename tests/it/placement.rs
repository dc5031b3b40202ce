//! Which nodes route best.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sarouter::lab::generate::angara;
use sarouter::lab::generate::generate;
use sarouter::measure;
use sarouter::model::{Demand, Group, LayerBudget, Mix, NodeName, TerminalId, Transit};
use sarouter::observe::nodes::{NodeNames, name_hosts};
use sarouter::placement::{
    Board, Choice, Direct, Insist, Predicted, Question, Recommendation, Several, Switched, Why,
};
use sarouter::route::{EngineOptions, engine};
use sarouter::simulate::exchange;

use crate::program::sarouter;

fn switched(spec: &str) -> Board {
    let fabric = generate(spec).unwrap();
    Board::Switched(Switched::new(&fabric, &name_hosts(&fabric, &NodeNames::default())))
}

fn torus(spec: &str, transit: Transit) -> Board {
    Board::Direct(Direct::new(angara::torus(spec).unwrap(), transit))
}

fn choose(board: &Board, running: &[Vec<u32>], nodes: usize, candidates: &[u32]) -> Choice {
    choose_for(board, running, nodes, candidates, None)
}

/// For a job that exchanges this.
fn choose_for(
    board: &Board,
    running: &[Vec<u32>],
    nodes: usize,
    candidates: &[u32],
    mix: Option<&Mix>,
) -> Choice {
    let question = Question { nodes, candidates, insist: Insist::Require, mix, isolated: false };
    match board.choose(&board.running(running), question) {
        Recommendation::Chosen(choice) => choice,
        other => panic!("{other:?}"),
    }
}

/// Candidates that no job has.
fn free(board: &Board, running: &[Vec<u32>]) -> Vec<u32> {
    let busy: BTreeSet<u32> = running.iter().flatten().copied().collect();
    (0..board.names().len() as u32).filter(|n| !busy.contains(n)).collect()
}

fn names(board: &Board, numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|n| board.names()[*n as usize].to_string()).collect()
}

#[test]
fn a_job_that_fits_one_leaf_gets_the_fullest_that_fits() {
    // Leaves of 4: n1-4, n5-8, n9-12, n13-16. Two free on the first, four on the second, three
    // on the third.
    let board = switched("fattree:4x4,2");
    let running = vec![vec![0, 1, 8, 12], vec![13, 14, 15]];
    let choice = choose(&board, &running, 3, &free(&board, &running));
    assert_eq!(names(&board, &choice.nodes), ["n10", "n11", "n12"]);
    assert_eq!((choice.predicted.max, choice.predicted.extent), (0, 1));
    assert_eq!(choose(&board, &running, 4, &free(&board, &running)).nodes, [4, 5, 6, 7]);
}

#[test]
fn a_job_too_large_for_a_leaf_avoids_the_loaded_uplinks() {
    // Two leaves run a job across each other; the other two are free of traffic.
    let board = switched("fattree:4x4,2");
    let running = vec![vec![0, 1, 4, 5]];
    let choice = choose(&board, &running, 8, &free(&board, &running));
    assert!(choice.nodes.iter().all(|n| *n >= 8), "{:?}", choice.nodes);
    assert_eq!(choice.predicted.shared, 0);
    // The usual choice begins with the longest run, which starts on a loaded leaf.
    assert!(choice.usual.unwrap().shared > 0, "{choice:?}");
}

#[test]
fn parts_that_are_not_connected_are_not_mixed() {
    // A ring of 4 switches cut twice: two parts of two switches.
    let whole = generate("torus:4,hosts=2").unwrap();
    let between = |a: usize, b: usize| {
        whole.channel_ids().find(|c| {
            let ch = whole.channel(*c);
            (ch.from.index(), ch.to.index()) == (a, b)
        })
    };
    let cut: Vec<_> = [between(1, 2), between(3, 0)].into_iter().flatten().collect();
    assert_eq!(cut.len(), 2);
    let fabric = whole.without(|c| cut.contains(&c), |_| false).unwrap();
    let board = Board::Switched(Switched::new(&fabric, &name_hosts(&fabric, &NodeNames::default())));
    let choice = choose(&board, &[], 4, &[0, 2, 3, 4, 5, 6, 7]);
    assert_eq!(names(&board, &choice.nodes), ["n5", "n6", "n7", "n8"]);
    let question = Question {
        nodes: 5,
        candidates: &[0, 1, 2, 3, 4, 5, 6, 7],
        insist: Insist::Require,
        mix: None,
        isolated: false,
    };
    assert_eq!(board.choose(&board.running(&[]), question), Recommendation::No(Why::NotRoutable));
    let question = Question { insist: Insist::Prefer, ..question };
    assert_eq!(board.choose(&board.running(&[]), question), Recommendation::Any(Why::NotRoutable));
}

#[test]
fn on_a_torus_of_switches_a_job_stays_together() {
    // One host per switch, everything free: a square of 2 x 2 beats any line.
    let board = switched("torus:6x6,hosts=1");
    let choice = choose(&board, &[], 4, &free(&board, &[]));
    let at: Vec<(u32, u32)> = choice.nodes.iter().map(|n| (n / 6, n % 6)).collect();
    assert_eq!(choice.predicted.max, 2, "{at:?}");
    assert!(choice.usual.unwrap().max > 2, "{choice:?}");
}

/// Slow-down of a job alone on its nodes, as predicted for routes that are made for it.
fn routed(spec: &str, nodes: &[NodeName], mix: &Mix) -> f64 {
    let fabric = generate(spec).unwrap();
    let mut ranks = name_hosts(&fabric, &NodeNames::default()).ranks(nodes);
    ranks.mix = mix.clone();
    let demand = Demand::new(vec![ranks.group()], Vec::new());
    let engine = engine("balanced", &EngineOptions::default()).unwrap();
    let tables = engine.route(&fabric, &demand, LayerBudget::new(8).unwrap()).unwrap();
    measure::slowdowns(&fabric, &tables, &demand)[0]
}

#[test]
fn nodes_are_chosen_for_what_the_job_exchanges() {
    let board = switched("torus:6x6,hosts=1");
    let all = free(&board, &[]);
    // Everybody with everybody is best in a square; a ring in rows, halos of three by two in three rows of two.
    let square = ["n1", "n2", "n3", "n7", "n8", "n9", "n13", "n14", "n15"];
    let rows = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"];
    let threes = ["n1", "n2", "n7", "n8", "n13", "n14"];
    for (nodes, pattern, plainly, best) in
        [(9, "ring", &square[..], &rows[..]), (6, "halo2d", &square[..6], &threes[..])]
    {
        let mix: Mix = pattern.parse().unwrap();
        let plain = choose(&board, &[], nodes, &all);
        let own = choose_for(&board, &[], nodes, &all, Some(&mix));
        assert_eq!((names(&board, &plain.nodes), names(&board, &own.nodes)), (owned(plainly), owned(best)));
        let other = board.predict(&board.running(&[]), &plain.nodes, Some(&mix)).unwrap();
        assert_eq!((plain.predicted.slowdown, own.predicted.slowdown), (None, Some(1.0)));
        assert!(other.slowdown > Some(1.1), "{pattern}: {other:?}");
        // The default mix is everybody with everybody.
        assert_eq!(choose_for(&board, &[], nodes, &all, Some(&Mix::default())), plain);
    }
}

/// What placement predicts without routes is what routes made for the job give.
#[test]
fn nodes_chosen_for_a_pattern_are_faster_with_routes_too() {
    let spec = "torus:6x6,hosts=1";
    let board = switched(spec);
    let all = free(&board, &[]);
    let mut ratios = Vec::new();
    for nodes in [6, 8, 12] {
        let plain = choose(&board, &[], nodes, &all);
        for pattern in ["ring", "halo2d", "doubling", "groups:3"] {
            let mix: Mix = pattern.parse().unwrap();
            let own = choose_for(&board, &[], nodes, &all, Some(&mix));
            let of = |set: &[u32]| {
                let nodes: Vec<NodeName> = set.iter().map(|n| board.names()[*n as usize].clone()).collect();
                routed(spec, &nodes, &mix)
            };
            let ratio = of(&own.nodes) / of(&plain.nodes);
            assert!(ratio < 1.001, "{nodes} {pattern}: {ratio}");
            ratios.push(ratio);
        }
    }
    let mean = exchange::geometric(ratios.iter().copied());
    assert!(mean < 0.92, "{mean} {ratios:?}");
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn weights_of_a_mix_decide_which_of_its_patterns_counts() {
    let board = switched("torus:6x6,hosts=1");
    let (all, running) = (free(&board, &[]), board.running(&[]));
    // Slow-down of a ring on the nodes that are chosen for a mix.
    let ring: Mix = "ring".parse().unwrap();
    let of = |mix: &str| {
        let set = choose_for(&board, &[], 9, &all, Some(&mix.parse().unwrap())).nodes;
        board.predict(&running, &set, Some(&ring)).unwrap().slowdown.unwrap()
    };
    let (mostly, hardly) = (of("1000*ring+linear"), of("ring+1000*linear"));
    assert!(mostly == 1.0 && hardly > 1.1, "{mostly} {hardly}");
}

#[test]
fn what_running_jobs_send_counts_beside_the_own_pattern() {
    // A job sends over the cables beside the nodes that are left over in its rows: whole rows are better.
    for board in [switched("torus:6x6,hosts=1"), torus("angara:6x6", Transit::Any)] {
        let running: Vec<Vec<u32>> = vec![vec![0, 2, 4, 12, 14, 16]];
        let ring = "ring".parse::<Mix>().unwrap();
        let candidates = free(&board, &running);
        let choice = choose_for(&board, &running, 6, &candidates, Some(&ring));
        let slowdown = choice.predicted.slowdown.unwrap();
        for start in 0..=candidates.len() - 6 {
            let set = &candidates[start..start + 6];
            let other = board.predict(&board.running(&running), set, Some(&ring)).unwrap();
            assert!(slowdown <= other.slowdown.unwrap() + 1e-3, "{choice:?} {set:?} {other:?}");
        }
        assert_eq!((choice.predicted.slowdown, choice.predicted.shared), (Some(1.0), 0), "{choice:?}");
        assert!(choice.usual.unwrap().shared > 0, "{choice:?}");
    }
}

#[test]
fn a_direct_torus_gives_whole_boxes() {
    let board = torus("angara:4x4x4", Transit::Job);
    let choice = choose(&board, &[], 8, &free(&board, &[]));
    let coords: Vec<String> = names(&board, &choice.nodes);
    // 2 x 2 x 2: twelve pairs at distance 1, twelve at 2, four at 3, in both directions.
    assert_eq!(choice.predicted.extent, 2 * (12 + 2 * 12 + 3 * 4), "{coords:?}");
    assert!(choice.usual.is_none_or(|usual| usual.extent >= choice.predicted.extent));
}

#[test]
fn on_a_direct_torus_what_cannot_be_routed_is_never_chosen() {
    // With transit through the job's own nodes only, two corners have no route.
    let board = torus("angara:4x4", Transit::Job);
    assert_eq!(board.predict(&board.running(&[]), &[0, 10], None), None);
    let question = Question {
        nodes: 2,
        candidates: &[0, 5, 10, 15],
        insist: Insist::Require,
        mix: None,
        isolated: false,
    };
    assert_eq!(board.choose(&board.running(&[]), question), Recommendation::No(Why::NotRoutable));
    // The usual choice would be nodes 0 and 2; 2 and 3 are neighbours.
    let choice = choose(&board, &[], 2, &[0, 2, 3, 8]);
    assert_eq!(choice.nodes, [2, 3]);
}

#[test]
fn a_direct_torus_shares_as_few_channels_as_it_can() {
    // A running job of opposite corners of a ring of 8 passes one half; the other half is quiet.
    let board = torus("angara:8x2", Transit::Any);
    let running = vec![vec![0, 4, 8]];
    let choice = choose(&board, &running, 4, &free(&board, &running));
    let shared = |nodes: &[u32]| board.predict(&board.running(&running), nodes, None).unwrap().shared;
    // No other box of 2 x 2 shares less.
    let best = (0..7u32)
        .map(|x| vec![2 * x, 2 * x + 1, 2 * x + 2, 2 * x + 3])
        .filter(|set| set.iter().all(|n| !running[0].contains(n)))
        .map(|set| shared(&set))
        .min();
    assert!(choice.predicted.shared <= best.unwrap(), "{choice:?}");
}

/// The prediction beside what `balanced-efi` makes of the same jobs.
#[test]
fn predictions_are_close_to_the_routes_of_balanced_efi() {
    for (spec, sizes) in [("fattree:10x18,5", vec![42, 24, 30, 16]), ("torus:6x6,hosts=2", vec![12, 9, 16])] {
        let fabric = generate(spec).unwrap();
        let map = name_hosts(&fabric, &NodeNames::default());
        let board = switched(spec);
        // Strided sets: every job on many switches.
        let mut left: Vec<u32> = (0..board.names().len() as u32).collect();
        left.sort_by_key(|n| (n * 7919) % 1009);
        let jobs: Vec<Vec<u32>> = sizes.iter().map(|n| left.drain(..*n).collect()).collect();
        let mut sorted = jobs.clone();
        sorted.iter_mut().for_each(|j| j.sort_unstable());
        let last = sorted.pop().unwrap();
        let predicted = board.predict(&board.running(&sorted), &last, None).unwrap();
        let terminals = |job: &Vec<u32>| -> Vec<TerminalId> {
            job.iter().flat_map(|n| map.terminals(&board.names()[*n as usize])).copied().collect()
        };
        let demand = Demand::new(jobs.iter().map(|j| Group::new(terminals(j))).collect(), vec![]);
        let balanced = engine("balanced-efi", &EngineOptions::default()).unwrap();
        let tables = balanced.route(&fabric, &demand, LayerBudget::new(8).unwrap()).unwrap();
        let own = measure::effective_loads(&fabric, &tables, &[Group::new(terminals(&last))]);
        let all = measure::effective_loads(&fabric, &tables, &demand.groups);
        let routed = own.iter().zip(&all).filter(|(own, _)| **own > 0).map(|(_, all)| *all).max().unwrap();
        let ratio = routed as f64 / predicted.max as f64;
        assert!((0.7..1.5).contains(&ratio), "{spec}: predicted {predicted:?}, routed {routed}");
    }
}

const SPECS: [&str; 6] = [
    "fattree:4x4,2",
    "kary:3,3",
    "torus:4x4,hosts=2",
    "dragonfly:4,2,2,5",
    "random:10,30,25,seed=5",
    "torus:5x5,hosts=1,faults=10%,seed=3",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn exactly_as_many_as_asked_all_of_them_candidates(
        spec in 0usize..8, picks in proptest::collection::vec(0u32..1000, 1..60),
        busy in proptest::collection::vec(0u32..1000, 0..20), nodes in 1usize..40, require: bool,
    ) {
        let board = match spec {
            6 => torus("angara:4x3x2,failed=1.1.1", Transit::Job),
            7 => torus("angara:4x4,line=X", Transit::Any),
            _ => switched(SPECS[spec]),
        };
        let size = board.names().len() as u32;
        let set = |picks: Vec<u32>| picks.into_iter().map(|p| p % size).collect::<BTreeSet<u32>>();
        let running: Vec<Vec<u32>> = vec![set(busy).into_iter().collect()];
        let candidates: Vec<u32> = set(picks).into_iter().collect();
        let insist = if require { Insist::Require } else { Insist::Prefer };
        let traffic = board.running(&running);
        let question = Question { nodes, candidates: &candidates, insist, mix: None, isolated: false };
        let answer = board.choose(&traffic, question);
        prop_assert_eq!(&answer, &board.choose(&traffic, question));
        match answer {
            Recommendation::Chosen(choice) => {
                prop_assert_eq!(choice.nodes.len(), nodes);
                prop_assert!(choice.nodes.is_sorted() && choice.nodes.iter().all(|n| candidates.contains(n)));
                let distinct: BTreeSet<u32> = choice.nodes.iter().copied().collect();
                prop_assert_eq!(distinct.len(), nodes);
                // What is promised is what a look at the set itself says.
                prop_assert_eq!(board.predict(&traffic, &choice.nodes, None), Some(choice.predicted));
                // On a tree whole parts go before small loads: see `isolation`.
                if let (Board::Switched(_), Some(usual), false) = (&board, choice.usual, spec < 2) {
                    let key = |p: &Predicted| (p.extent, p.max);
                    prop_assert!(key(&choice.predicted) <= key(&usual));
                }
            }
            Recommendation::Any(why) => {
                prop_assert!(!require);
                prop_assert!(candidates.len() < nodes || why == Why::NotRoutable);
            }
            Recommendation::No(why) => {
                prop_assert!(require);
                prop_assert!(candidates.len() < nodes || why == Why::NotRoutable);
            }
        }
    }
}

#[test]
fn the_command_prints_the_set_and_the_gain() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs.txt"), "17 n[1-2,5-6]\n18 gone\n").unwrap();
    let place = |words: &[&str]| {
        let output = sarouter(dir.path(), [&["place"], words].concat());
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let fabric = ["--fabric", "fattree:4x4,2", "--jobs", "jobs.txt"];
    let json = ["--nodes", "8", "--engine", "balanced", "--format", "json"];
    let (code, text) = place(&[&fabric[..], &json[..]].concat());
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, value["nodes"].as_array().unwrap().len()), (0, 8), "{text}");
    assert_eq!(value["unknown_nodes"], serde_json::json!(["gone"]));
    assert!(value["predicted"]["shared"].as_u64() < value["usual"]["shared"].as_u64(), "{text}");
    assert!(value["routed"]["chosen"].as_u64() <= value["routed"]["usual"].as_u64(), "{text}");
    let (code, text) = place(&[&fabric[..], &["--nodes", "13"]].concat());
    assert!(code == 1 && text.contains("only 12 of 13 nodes are free"), "{text}");
    let (code, text) = place(&["--fabric", "angara:4x2x2", "--nodes", "4", "--candidates", "n[0-3]"]);
    assert!(code == 1 || text.starts_with("nodes "), "{text}");
    assert_eq!(place(&["--fabric", "fattree:4x4,2", "--nodes", "2", "--candidates", "n[1-"]).0, 2);
    let _ = NodeName::new("n1").unwrap();
}

/// Leaves of two on the one fabric, of four on the other.
#[test]
fn a_set_is_judged_on_all_fabrics_of_its_nodes() {
    let two = || [switched("fattree:8x2,2"), switched("fattree:4x4,2")];
    let [first, second] = two();
    // On the first fabric n3 to n6 and n9 to n12 are alike, two leaves each; on the second only the latter share one.
    let candidates: Vec<u32> = (2..6).chain(8..12).collect();
    assert_eq!(names(&first, &choose(&first, &[], 4, &candidates).nodes), ["n3", "n4", "n5", "n6"]);
    let wanted = ["n9", "n10", "n11", "n12"];
    for boards in [[first, second], two().into_iter().rev().collect::<Vec<_>>().try_into().unwrap()] {
        let both = Board::Several(Several::new(boards.into()));
        let choice = choose(&both, &[], 4, &candidates);
        assert_eq!(names(&both, &choice.nodes), wanted);
        // What is told is of the fabric with the fuller channel.
        assert_eq!(choice.predicted.extent, 2, "{choice:?}");
        assert_eq!(both.predict(&both.running(&[]), &choice.nodes, None), Some(choice.predicted));
    }
}

#[test]
fn jobs_that_run_count_on_each_fabric_and_nodes_without_an_adapter_come_last() {
    // Nodes 1 to 8 are on the torus too.
    let boards = vec![switched("fattree:2x8,2"), torus("angara:4x2", Transit::Job)];
    let both = Board::Several(Several::new(boards));
    let all: Vec<u32> = (0..16).collect();
    assert_eq!(both.names().len(), 16);
    let choice = choose(&both, &[], 2, &all);
    assert!(choice.nodes.iter().all(|n| *n < 8), "{choice:?}");
    // Of what is left of the torus, a set that it can route.
    let choice = choose(&both, &[vec![0, 1]], 4, &all[2..]);
    let torus = torus("angara:4x2", Transit::Job);
    assert!(choice.nodes.iter().all(|n| (2..8).contains(n)), "{choice:?}");
    assert!(torus.predict(&torus.running(&[vec![0, 1]]), &choice.nodes, None).is_some(), "{choice:?}");
    // More nodes than the torus has: then some without.
    assert_eq!(choose(&both, &[], 12, &all).nodes.len(), 12);
}
