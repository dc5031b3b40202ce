//! Figures against counting every route by hand.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::measure::{channel_loads, effective_loads, measure, measure_since, per_job};
use sarouter::model::{Demand, DestId, Fabric, Group, SwitchId, Tables, TerminalId};

use crate::helpers::{random_tables, walk};

/// Routes between the given terminals per channel, path by path.
fn by_hand(fabric: &Fabric, tables: &Tables, terminals: &[TerminalId]) -> Vec<u64> {
    let mut loads = vec![0; fabric.channels().len()];
    for a in terminals {
        for b in terminals.iter().filter(|b| *b != a) {
            let d = fabric.dest_of_terminal(*b);
            for c in walk(fabric, tables, fabric.terminal(*a).switch, d).unwrap() {
                loads[c.index()] += 1;
            }
        }
    }
    loads
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whether few trees or most differ.
    #[test]
    fn two_tables_together_have_the_figures_of_each(
        switches in 2..30usize, seed in 0..10_000u64, wander: bool, every in 1..5usize,
    ) {
        let fabric = generate(&format!("random:{switches},{},{switches},seed={seed}", 2 * switches)).unwrap();
        let (before, other) = (random_tables(&fabric, seed, 2, wander), random_tables(&fabric, seed + 1, 2, !wander));
        let width = fabric.switches().len();
        let after = before.clone().edited(|ports, _| {
            for d in fabric.dest_ids().filter(|d| d.index() % every == 0) {
                ports[d.index() * width..(d.index() + 1) * width].copy_from_slice(other.ports_to(d));
            }
        });
        let hosts: Vec<TerminalId> = fabric.host_ids().collect();
        let demand = Demand::new(vec![Group::new(hosts[hosts.len() / 2..].to_vec())], Vec::new());
        let each = [measure(&fabric, &before, &demand), measure(&fabric, &after, &demand)];
        let counted = measure_since(&fabric, None, &before, &demand).2;
        for known in [None, Some(&counted)] {
            let both = measure_since(&fabric, Some((&before, known)), &after, &demand);
            prop_assert_eq!([both.0.unwrap(), both.1], each);
        }
    }

    #[test]
    fn loads_are_those_of_walking_every_route(
        switches in 2..40usize, extra in 0..9usize, seed in 0..10_000u64, wander: bool, size in 2..12usize,
    ) {
        let spec = format!("random:{switches},{},{},seed={seed}", switches + 7, switches - 1 + extra);
        let fabric = generate(&spec).unwrap();
        let tables = random_tables(&fabric, seed, 2, wander);
        let hosts: Vec<TerminalId> = fabric.host_ids().collect();
        prop_assert_eq!(channel_loads(&fabric, &tables), by_hand(&fabric, &tables, &hosts));

        // Overlapping jobs: a small one, and all hosts.
        let groups = [Group::new(hosts[..size.min(hosts.len())].to_vec()), Group::new(hosts.clone())];
        let own: Vec<Vec<u64>> = groups.iter().map(|g| by_hand(&fabric, &tables, &g.terminals)).collect();
        let both: Vec<u64> = own[0].iter().zip(&own[1]).map(|(a, b)| a + b).collect();
        prop_assert_eq!(effective_loads(&fabric, &tables, &groups), both);
        for (job, own) in per_job(&fabric, &tables, &groups).iter().zip(&own) {
            prop_assert_eq!(job.max, *own.iter().max().unwrap());
            prop_assert_eq!(job.links, own.iter().filter(|n| **n > 0).count() as u64);
        }
    }

    #[test]
    fn figures_do_not_depend_on_the_number_of_threads(seed in 0..100u64) {
        let fabric = generate(&format!("random:20,50,40,seed={seed}")).unwrap();
        let tables = random_tables(&fabric, seed, 2, true);
        let hosts: Vec<TerminalId> = fabric.host_ids().collect();
        let demand = Demand::new(hosts.chunks(9).map(|c| Group::new(c.to_vec())).collect(), vec![]);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| measure(&fabric, &tables, &demand))
        };
        prop_assert_eq!(run(1), run(3));
    }
}

#[test]
fn figures_of_a_line_are_those_counted_on_paper() {
    // Three switches in a line, one host each: the two inner channels of each direction carry 2.
    let fabric = generate("mesh:3").unwrap();
    let tables = random_tables(&fabric, 1, 1, false);
    let figures = measure(&fabric, &tables, &Demand::oblivious());
    assert_eq!((figures.load.max, figures.load.min, figures.load.mean, figures.load.sd), (2, 2, 2.0, 0.0));
    assert_eq!((figures.paths.max_hops, figures.paths.mean_hops), (2, 8.0 / 6.0));
    assert_eq!((figures.paths.minimal_share, figures.layers_used), (1.0, 1));
    assert_eq!((figures.effective.max, figures.effective.dark_fiber), (0, 1.0));
    // One job on the first two hosts.
    let by_name: BTreeMap<&str, TerminalId> =
        fabric.terminal_ids().map(|t| (fabric.terminal(t).description.as_str(), t)).collect();
    let demand = Demand::new(vec![Group::new(vec![by_name["n1"], by_name["n2"]])], vec![]);
    let e = measure(&fabric, &tables, &demand).effective;
    assert_eq!(
        (e.max, e.mean, e.dark_fiber, e.links_per_job_mean, e.max_per_job_mean),
        (1, 0.5, 0.5, 2.0, 1.0)
    );
}

/// Loads of every possible in-tree to one destination, for the given sources per switch.
fn in_trees(fabric: &Fabric, d: DestId, weight: &[u64]) -> Vec<Vec<u64>> {
    let switches: Vec<SwitchId> = fabric.switch_ids().filter(|s| *s != fabric.home(d)).collect();
    let mut found = Vec::new();
    let mut choice = vec![0; switches.len()];
    loop {
        let next = |s: SwitchId| {
            let i = switches.iter().position(|other| *other == s)?;
            Some(fabric.out(s)[choice[i]])
        };
        let mut loads = vec![0; fabric.channels().len()];
        let arrives = switches.iter().all(|s| {
            let (mut at, mut hops) = (*s, 0);
            while let Some(c) = next(at) {
                loads[c.index()] += weight[s.index()];
                (at, hops) = (fabric.channel(c).to, hops + 1);
                if hops > switches.len() {
                    return false;
                }
            }
            true
        });
        if arrives {
            found.push(loads);
        }
        let Some(i) = (0..switches.len()).find(|i| choice[*i] + 1 < fabric.out(switches[*i]).len()) else {
            return found;
        };
        choice[..i].fill(0);
        choice[i] += 1;
    }
}

/// The smallest possible largest load, by trying all in-trees of all destinations.
fn optimum(trees: &[Vec<Vec<u64>>], sum: &[u64], best: &mut u64) {
    let max = sum.iter().copied().max().unwrap_or(0);
    if max >= *best {
        return;
    }
    match trees.split_first() {
        None => *best = max,
        Some((first, rest)) => first.iter().for_each(|loads| {
            let sum: Vec<u64> = sum.iter().zip(loads).map(|(a, b)| a + b).collect();
            optimum(rest, &sum, best);
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_tables_are_below_the_lower_bound(
        switches in 2..5usize, hosts in 2..6usize, extra in 0..3usize, seed in 0..10_000u64, split in 0..4usize,
    ) {
        let spec = format!("random:{switches},{hosts},{},seed={seed}", switches - 1 + extra);
        let fabric = generate(&spec).unwrap();
        let all: Vec<TerminalId> = fabric.host_ids().collect();
        // Two jobs that may share a node.
        let groups = vec![Group::new(all[..split.min(all.len())].to_vec()), Group::new(all[split.saturating_sub(1).min(all.len())..].to_vec())];
        let demand = Demand::new(groups, vec![]);
        let tables = random_tables(&fabric, seed, 1, false);
        let figures = measure(&fabric, &tables, &demand);
        let whole = Demand::new(vec![Group::new(all.clone())], vec![]);
        for (demand, bound) in [(&demand, figures.effective.lower_bound), (&whole, figures.load.lower_bound)] {
            let trees: Vec<_> = all.iter().map(|t| {
                let mut weight = vec![0; fabric.switches().len()];
                for group in demand.groups.iter().filter(|g| g.terminals.contains(t)) {
                    group.terminals.iter().for_each(|m| weight[fabric.terminal(*m).switch.index()] += 1);
                }
                in_trees(&fabric, fabric.dest_of_terminal(*t), &weight)
            }).collect();
            let mut best = u64::MAX;
            optimum(&trees, &vec![0; fabric.channels().len()], &mut best);
            prop_assert!(bound <= best, "bound {bound}, optimum {best}");
            // Never far away on fabrics as small as these.
            prop_assert!(3 * bound >= best, "bound {bound}, optimum {best}");
        }
    }
}

fn load_bound(spec: &str) -> u64 {
    let fabric = generate(spec).unwrap();
    measure(&fabric, &random_tables(&fabric, 1, 1, false), &Demand::oblivious()).load.lower_bound
}

#[test]
fn bounds_of_regular_fabrics_are_those_counted_on_paper() {
    // 180 × 162 routes of two channels over 360 channels.
    assert_eq!(load_bound("fattree:10x18,5"), 162);
    // 1,089 branches of 11 routes over 10 uplinks: some uplink has 109.
    assert_eq!(load_bound("kary:10,3,hosts=11"), 1199);
    // A ring of 8 switches: 16 ordered pairs leave each half through two channels.
    assert_eq!(load_bound("torus:8"), 8);
    // Half a 6×6 torus with 2 hosts each, 36 × 36 routes over 12 channels.
    assert_eq!(load_bound("torus:6x6,hosts=2"), 108);
}

#[test]
fn the_bound_of_figure_5_2_is_54() {
    let fabric = generate("fattree:10x18,5").unwrap();
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    let job = |parts: [std::ops::Range<usize>; 2]| Group::new(parts.map(|p| hosts[p].to_vec()).concat());
    let jobs = vec![job([0..30, 90..120]), job([30..60, 150..180]), job([60..90, 120..150])];
    let tables = random_tables(&fabric, 1, 1, false);
    assert_eq!(measure(&fabric, &tables, &Demand::new(jobs, vec![])).effective.lower_bound, 54);
}
