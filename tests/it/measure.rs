//! Figures against counting every route by hand.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sarouter::generate::generate;
use sarouter::measure::{channel_loads, effective_loads, measure, per_job};
use sarouter::model::{Demand, Fabric, Group, Tables, TerminalId};

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
