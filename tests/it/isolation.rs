//! Jobs in parts of a tree, and alone on their channels.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::lab::workload::mix::mix;
use sarouter::lab::workload::schedule::{Moment, Pick, schedule_with, used};
use sarouter::measure;
use sarouter::model::{Demand, Fabric, Group, LayerBudget, NodeMap, TerminalId};
use sarouter::observe::nodes::{NodeNames, name_hosts};
use sarouter::placement::parts::{Parts, best_fit};
use sarouter::placement::usual::usual;
use sarouter::placement::{Board, Insist, Question, Recommendation, Switched, Why};
use sarouter::route::{EngineOptions, engine};

use crate::program::sarouter;

/// A fabric with its nodes, and what places on it.
struct Site {
    fabric: Fabric,
    nodes: NodeMap,
    board: Board,
}

impl Site {
    fn new(spec: &str) -> Self {
        let fabric = generate(spec).unwrap();
        let nodes = name_hosts(&fabric, &NodeNames::default());
        let board = Board::Switched(Switched::new(&fabric, &nodes));
        Self { fabric, nodes, board }
    }

    fn ask(&self, running: &[Vec<u32>], nodes: usize, candidates: &[u32], isolated: bool) -> Recommendation {
        let question = Question { nodes, candidates, insist: Insist::Require, mix: None, isolated };
        self.board.choose(&self.board.running(running), question)
    }

    fn chosen(&self, nodes: usize, candidates: &[u32]) -> Vec<u32> {
        match self.ask(&[], nodes, candidates, false) {
            Recommendation::Chosen(choice) => choice.nodes,
            other => panic!("{other:?}"),
        }
    }

    fn group(&self, job: &[u32]) -> Group {
        let terminals: Vec<TerminalId> = job
            .iter()
            .flat_map(|n| self.nodes.terminals(&self.board.names()[*n as usize]))
            .copied()
            .collect();
        Group::new(terminals)
    }

    /// Switch of a node.
    fn leaf(&self, node: u32) -> u32 {
        self.fabric.terminal(self.group(&[node]).terminals[0]).switch.index() as u32
    }

    /// Asserts that the routes made for these jobs use no channel twice.
    fn assert_apart(&self, jobs: &[Vec<u32>]) {
        let groups: Vec<Group> = jobs.iter().filter(|job| job.len() > 1).map(|job| self.group(job)).collect();
        let demand = Demand::new(groups.clone(), Vec::new());
        let engine = engine("balanced", &EngineOptions::default()).unwrap();
        let tables = engine.route(&self.fabric, &demand, LayerBudget::new(8).unwrap()).unwrap();
        let mut users = vec![0; self.fabric.channels().len()];
        for group in &groups {
            let loads = measure::effective_loads(&self.fabric, &tables, std::slice::from_ref(group));
            loads.iter().zip(&mut users).for_each(|(load, users)| *users += usize::from(*load > 0));
        }
        assert!(users.iter().all(|users| *users <= 1), "{jobs:?}");
    }
}

#[test]
fn a_job_fills_the_smallest_part_that_holds_it() {
    // Three pods of three leaves of three.
    let site = Site::new("kary:3,3");
    // Two leaves of three in two pods, three of two in the third: fewer pods go before fewer leaves.
    let free = [0, 1, 2, 9, 10, 11, 18, 19, 21, 22, 24, 25];
    assert_eq!(site.chosen(6, &free), [18, 19, 21, 22, 24, 25]);
    // Seven are free in the first pod, five in the last: the fuller one is filled.
    let free: Vec<u32> = (0..7).chain(18..21).chain([21, 24]).collect();
    assert_eq!(site.chosen(5, &free), [18, 19, 20, 21, 24]);
    assert_eq!(site.chosen(6, &free).iter().filter(|n| **n < 7).count(), 6);
    // No pod holds it.
    assert_eq!(site.chosen(12, &free), free);
}

#[test]
fn who_is_to_be_alone_gets_no_leaf_of_a_job_across_leaves() {
    let site = Site::new("fattree:4x4,2");
    // Across the first two leaves, which have two nodes left each.
    let running = [vec![0, 1, 4, 5]];
    let all: Vec<u32> = [2, 3, 6, 7].into_iter().chain(8..16).collect();
    let nodes = |answer| match answer {
        Recommendation::Chosen(choice) => Ok(choice.nodes),
        Recommendation::Any(why) | Recommendation::No(why) => Err(why),
    };
    // Within a leaf nobody is met.
    assert_eq!(nodes(site.ask(&running, 2, &all, true)), Ok(vec![2, 3]));
    assert_eq!(nodes(site.ask(&running, 8, &all, true)), Ok((8..16).collect()));
    assert_eq!(nodes(site.ask(&running, 9, &all, true)), Err(Why::Shared));
    assert!(matches!(site.ask(&running, 9, &all, false), Recommendation::Chosen(_)));
}

/// A month of jobs on three trees: nobody ever meets anybody, and what that costs is bounded.
#[test]
fn jobs_of_a_month_are_alone_on_their_channels() {
    for (spec, least) in [("kary:4,3", 0.6), ("fattree:8x6,3", 0.6), ("fattree:6x8,8", 0.6)] {
        let site = Site::new(spec);
        let names = site.board.names().len();
        let requests = mix("tsubame2").unwrap().requests(names, 0, 7, 3);
        let mut asked = 0;
        let mut choose = |moment: &Moment<'_>| {
            let running: Vec<Vec<u32>> = moment.running.iter().map(|job| job.to_vec()).collect();
            let free: Vec<u32> = (0..names as u32).filter(|n| moment.free[*n as usize]).collect();
            let Recommendation::Chosen(choice) = site.ask(&running, moment.size, &free, true) else {
                return Pick::Later;
            };
            assert_eq!(choice.predicted.shared, 0, "{spec}");
            asked += 1;
            if asked % 40 == 0 {
                site.assert_apart(&[running, vec![choice.nodes.clone()]].concat());
            }
            Pick::Nodes(choice.nodes)
        };
        let started = schedule_with(names, &requests, &mut choose);
        assert!(asked > 200 && started.iter().all(Option::is_some), "{spec}: {asked}");
        let used = used(names, &requests, &started);
        println!("{spec}: {used:.3}");
        assert!(used > least, "{spec}: {used}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// On two levels there is a set exactly if a leaf holds the job, or the leaves that nobody crosses do.
    #[test]
    fn a_set_alone_is_found_where_there_is_one(
        jobs in proptest::collection::vec((1usize..7, 0u64..1000), 0..6), nodes in 1usize..12,
    ) {
        let site = Site::new("fattree:5x4,3");
        let mut free: BTreeSet<u32> = (0..20).collect();
        let mut running = Vec::new();
        for (size, seed) in jobs {
            let mut order: Vec<u32> = free.iter().copied().collect();
            sarouter::model::rng::Rng::new(seed).shuffle(&mut order);
            let mut job: Vec<u32> = order.into_iter().take(size).collect();
            job.sort_unstable();
            free.retain(|n| !job.contains(n));
            running.push(job);
        }
        let leaves = |job: &[u32]| job.iter().map(|n| site.leaf(*n)).collect::<BTreeSet<u32>>();
        let across = running.iter().map(|job| leaves(job)).filter(|leaves| leaves.len() > 1);
        let crossed: BTreeSet<u32> = across.flatten().collect();
        let mut room: BTreeMap<u32, usize> = BTreeMap::new();
        free.iter().for_each(|n| *room.entry(site.leaf(*n)).or_default() += 1);
        let quiet: usize = room.iter().filter(|(leaf, _)| !crossed.contains(leaf)).map(|(_, n)| n).sum();
        let there_is = quiet >= nodes || room.values().any(|n| *n >= nodes);
        let candidates: Vec<u32> = free.into_iter().collect();
        match site.ask(&running, nodes, &candidates, true) {
            Recommendation::Chosen(choice) => prop_assert!(there_is && choice.predicted.shared == 0),
            Recommendation::No(Why::Shared | Why::TooFew { .. }) => prop_assert!(!there_is),
            other => prop_assert!(false, "{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// On a tree nothing that is proposed breaks free parts less than what is chosen.
    #[test]
    fn parts_are_broken_no_more_than_by_slurm(
        levels in 2usize..4, busy in proptest::collection::vec(0u32..27, 0..20), nodes in 2usize..20,
    ) {
        breaks_no_more_than_slurm(levels, &busy, nodes)?;
    }
}

/// Of two parts with as many free nodes the one is taken in which fewer leaves are broken.
#[test]
fn of_equal_parts_the_one_is_taken_whose_leaves_fit() {
    breaks_no_more_than_slurm(3, &[21, 6, 0, 22, 18, 3], 5).unwrap();
}

fn breaks_no_more_than_slurm(levels: usize, busy: &[u32], nodes: usize) -> Result<(), TestCaseError> {
    let site = Site::new(if levels == 3 { "kary:3,3" } else { "fattree:7x4,2" });
    let size = site.board.names().len() as u32;
    let free: Vec<u32> = (0..size).filter(|n| !busy.contains(n)).collect();
    prop_assume!(free.len() >= nodes);
    let mut homes: Vec<u32> = (0..size).map(|n| site.leaf(n)).collect();
    homes.dedup();
    let parts = Parts::new(&site.fabric, &homes);
    let counted = |set: &[u32]| {
        let mut sums: BTreeMap<u32, u32> = BTreeMap::new();
        set.iter().for_each(|n| *sums.entry(site.leaf(*n)).or_default() += 1);
        sums
    };
    let room = counted(&free);
    let rooms = parts.rooms(room.iter().map(|(s, n)| (*s, *n)));
    let broken = |set: &[u32]| {
        let set = counted(set);
        parts.broken(&rooms, set.iter().map(|(s, n)| (*s, *n)))
    };
    let left: Vec<usize> = homes.iter().map(|s| *room.get(s).unwrap_or(&0) as usize).collect();
    let mut groups: Vec<Vec<u32>> =
        parts.levels().iter().map(|of| homes.iter().map(|s| of[*s as usize]).collect()).collect();
    groups[0] = (0..homes.len() as u32).collect();
    let tree: Vec<u32> = best_fit(&groups, &left, nodes)
        .into_iter()
        .flat_map(|(leaf, n)| {
            free.iter().filter(|n| site.leaf(**n) == homes[leaf]).take(n).copied().collect::<Vec<u32>>()
        })
        .collect();
    prop_assert_eq!(tree.len(), nodes);
    let chosen = broken(&site.chosen(nodes, &free));
    // What fits a leaf is there; else neither Slurm's choice with topology/tree nor that without is less.
    prop_assert!(chosen <= broken(&tree), "{:?} {:?}", chosen, broken(&tree));
    prop_assert!(chosen <= broken(&usual(nodes, &free)));
    Ok(())
}

#[test]
fn the_command_and_the_replay_know_of_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs.txt"), "17 n[1-2,5-6]\n").unwrap();
    let sarouter = |words: &[&str]| {
        let output = sarouter(dir.path(), words);
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let place = ["place", "--fabric", "fattree:4x4,2", "--jobs", "jobs.txt", "--isolated", "--nodes"];
    let (code, text) = sarouter(&[&place[..], &["8"]].concat());
    assert!(code == 0 && text.contains("n9,n10,n11,n12,n13,n14,n15,n16"), "{text}");
    let (code, text) = sarouter(&[&place[..], &["9"]].concat());
    assert!(code == 1 && text.contains("no set of candidates has its channels to itself"), "{text}");
    let replay = ["replay", "--fabric", "fattree:4x6,3", "--trace", "generated:tsubame2,days=2,seed=1"];
    let more = ["--placement", "consecutive,isolated", "--every", "12h", "--engines", "balanced"];
    let (code, text) = sarouter(&[&replay[..], &more[..]].concat());
    assert!(code == 0 && text.contains("placement isolated: "), "{text}");
}
