//! Direct tori: the checker against planted faults.

use sarouter::model::*;
use sarouter::verify::angara::{TorusFinding, judge};

use crate::angara::{healthy, node, route};

/// The first pair's steps replaced.
fn with_steps(tables: &TorusTables, from: NodeId, to: NodeId, steps: &str) -> TorusTables {
    let mut changed = tables.clone();
    for (job, routes) in tables.routes.iter().enumerate() {
        let mut copy = Routes::new(routes.nodes().to_vec());
        for (s, source) in routes.nodes().iter().enumerate() {
            for (d, destination) in routes.nodes().iter().enumerate() {
                if (*source, *destination) == (from, to) {
                    copy.push(steps.split(',').filter(|s| !s.is_empty()).map(|s| s.parse::<Step>().unwrap()));
                } else {
                    copy.push(routes.route(s, d).iter().copied());
                }
            }
        }
        changed.routes[job] = copy;
    }
    changed
}

#[test]
fn planted_faults_are_rejected() {
    let torus = healthy(&[4, 4]);
    let tables = route(&torus, &TorusDemand::whole(&torus), "angara-sssp").unwrap();
    let plant = |to: &str, steps: &str| {
        let (from, to) = (node(&torus, "0.0"), node(&torus, to));
        judge(&torus, &with_steps(&tables, from, to, steps), false).findings
    };
    let illegal = |to: &str, steps: &str, wanted: &str| {
        let found = plant(to, steps);
        let names = |f: &TorusFinding| matches!(f, TorusFinding::IllegalStep { rule, .. } if *rule == wanted);
        assert!(found.iter().any(names), "{steps}: {found:?}");
    };
    assert_eq!(plant("1.1", "+X,+Y"), []);
    illegal("1.1", "+Y,+X", "direction order");
    illegal("0.1", "+X,+Y,-X", "direction bits");
    illegal("1.1", "+X,F+Y", "a first step is the first");
    illegal("1.3", "L-Y,+X", "a last step is the last");
    illegal("3.1", "F-X,+Y", "a first step is positive");
    illegal("1.1", "+X,L+Y", "a last step is negative");
    illegal("1.3", "F+X,L-Y", "a last step follows an ordered one");
    assert!(matches!(&plant("1.1", "")[..], [TorusFinding::Missing { pair }] if pair[1] == "1.1"));
    assert!(matches!(&plant("1.1", "+X")[..], [TorusFinding::WrongEnd { ends, .. }] if ends == "1.0"));
    let detour = plant("1.0", "-X,-X,-X");
    assert!(matches!(&detour[..], [TorusFinding::Detour { hops: 3, shortest: 1, .. }]), "{detour:?}");
}

/// Rings of X and Y that wait for each other: +X +Y is in order, F+Y +X is not.
#[test]
fn a_planted_cycle_is_rejected() {
    let torus = healthy(&[4, 4]);
    let tables = route(&torus, &TorusDemand::whole(&torus), "angara-sssp").unwrap();
    let turn = with_steps(&tables, node(&torus, "0.0"), node(&torus, "1.1"), "F+Y,+X");
    let verdict = judge(&torus, &turn, false);
    let [TorusFinding::Cycle { members }] = &verdict.findings[..] else { panic!("{:?}", verdict.findings) };
    assert!(members.iter().any(|m| m.starts_with("ring +X")), "{members:?}");
    assert!(members.iter().any(|m| m.starts_with("ring +Y")), "{members:?}");
    // The same turn at the edge of a mesh closes nothing.
    let torus = healthy(&[4, 2]);
    let tables = route(&torus, &TorusDemand::whole(&torus), "angara-sssp").unwrap();
    let turn = with_steps(&tables, node(&torus, "0.0"), node(&torus, "1.1"), "F+Y,+X");
    assert_eq!(judge(&torus, &turn, false).findings, []);
}

/// A staircase of +X and +Y on a torus of three by three closes on itself over the wraps. With one
/// failed link in every ring its six channels count one by one; each turn is needed.
#[test]
fn a_planted_cycle_through_single_channels_of_incomplete_rings_is_rejected() {
    let mut builder = TorusBuilder::new(&[3, 3]).unwrap();
    for (at, dim) in [("1.0", 0), ("2.1", 0), ("0.2", 0), ("1.1", 1), ("2.2", 1), ("0.0", 1)] {
        builder.fail_link(at.parse().unwrap(), Direction::positive(dim)).unwrap();
    }
    let turns = [
        ("0.0", "1.1", "+X,+Y"),
        ("1.0", "2.1", "F+Y,+X"),
        ("1.1", "2.2", "+X,+Y"),
        ("2.1", "0.2", "F+Y,+X"),
        ("2.2", "0.0", "+X,+Y"),
        ("0.2", "1.0", "F+Y,+X"),
    ];
    let torus = builder.build().unwrap();
    // The pairs that are missing do not matter here.
    let cycle = |torus: &Torus, turns: &[(&str, &str, &str)]| {
        let demand = TorusDemand::whole(torus);
        let mut empty = Routes::new(torus.healthy_nodes());
        (0..81).for_each(|_| empty.push([]));
        let bare =
            TorusTables { torus: torus.fingerprint(), engine: "file".into(), demand, routes: vec![empty] };
        let tables = turns
            .iter()
            .fold(bare, |t, (from, to, steps)| with_steps(&t, node(torus, from), node(torus, to), steps));
        let findings = judge(torus, &tables, false).findings;
        assert!(!findings.iter().any(|f| matches!(f, TorusFinding::NoChannel { .. })), "{findings:?}");
        findings.into_iter().find_map(|f| match f {
            TorusFinding::Cycle { mut members } => {
                members.sort();
                Some(members)
            }
            _ => None,
        })
    };
    let all = ["0.0+X", "0.2+Y", "1.0+Y", "1.1+X", "2.1+Y", "2.2+X"].map(|c| format!("channel {c}"));
    assert_eq!(cycle(&torus, &turns), Some(all.to_vec()));
    for spared in 0..turns.len() {
        let mut open = turns.to_vec();
        open.remove(spared);
        assert_eq!(cycle(&torus, &open), None, "without {:?}", turns[spared]);
    }
}

/// In a mesh, positive turns are monotone: any order of them is free of cycles.
#[test]
fn incomplete_rings_count_channel_by_channel() {
    let mut builder = TorusBuilder::new(&[3, 3]).unwrap();
    builder.line(0).line(1);
    let torus = builder.build().unwrap();
    let tables = route(&torus, &TorusDemand::whole(&torus), "angara-sssp").unwrap();
    let turn = with_steps(&tables, node(&torus, "0.0"), node(&torus, "1.1"), "F+Y,+X");
    assert_eq!(judge(&torus, &turn, false).findings, []);
}

#[test]
fn failed_channels_and_foreign_nodes_are_rejected() {
    let torus = healthy(&[4, 4]);
    let tables = route(&torus, &TorusDemand::whole(&torus), "angara-sssp").unwrap();
    let mut builder = TorusBuilder::new(&[4, 4]).unwrap();
    builder.fail_link("0.0".parse().unwrap(), Direction::positive(0)).unwrap();
    let cut = builder.build().unwrap();
    let mut stale = tables.clone();
    assert_eq!(judge(&cut, &stale, false).findings[0], TorusFinding::WrongTorus);
    stale.torus = cut.fingerprint();
    let found = judge(&cut, &stale, false).findings;
    assert!(found.iter().all(|f| matches!(f, TorusFinding::NoChannel { .. } | TorusFinding::More { .. })));
    assert!(!found.is_empty());
    // A route through a node that is not of the job.
    let nodes = ["0.0", "0.1", "1.0", "1.1", "2.0", "2.1"].map(|n| node(&torus, n)).to_vec();
    let demand = TorusDemand { jobs: vec![TorusJob::new(None, nodes)], transit: Transit::Job };
    let tables = route(&torus, &demand, "angara-sssp").unwrap();
    let strayed = with_steps(&tables, node(&torus, "2.0"), node(&torus, "0.0"), "+X,+X");
    assert!(matches!(judge(&torus, &strayed, false).findings[..], [TorusFinding::NoChannel { step: 1, .. }]));
}

/// Tables of other jobs, and jobs on nodes that have failed.
#[test]
fn tables_of_other_jobs_and_of_failed_nodes_are_rejected() {
    let torus = healthy(&[4, 4]);
    let tables = route(&torus, &TorusDemand::whole(&torus), "angara-sssp").unwrap();
    let mut fewer = tables.clone();
    fewer.routes.clear();
    let found = judge(&torus, &fewer, false).findings;
    assert_eq!(found, [TorusFinding::WrongJobs]);
    assert_eq!(found[0].kind(), "wrong_jobs");
    let mut others = tables.clone();
    others.demand.jobs[0] = TorusJob::new(None, torus.healthy_nodes()[1..].to_vec());
    assert_eq!(judge(&torus, &others, false).findings, [TorusFinding::WrongJobs]);
    let mut builder = TorusBuilder::new(&[4, 4]).unwrap();
    builder.fail_node("1.1".parse().unwrap()).unwrap();
    let broken = builder.build().unwrap();
    let mut stale = tables;
    stale.torus = broken.fingerprint();
    let found = judge(&broken, &stale, false).findings;
    let failed = |f: &&TorusFinding| matches!(f, TorusFinding::FailedNode { node } if node == "1.1");
    assert_eq!(found.iter().filter(failed).count(), 1, "{found:?}");
}

/// Twenty findings of a kind are listed, the others counted; so are detours that are allowed.
#[test]
fn more_findings_of_a_kind_than_are_listed_are_counted() {
    let torus = healthy(&[4, 4]);
    let tables = route(&torus, &TorusDemand::whole(&torus), "angara-sssp").unwrap();
    let nodes = torus.healthy_nodes();
    let missing = |most: usize| {
        let pairs = nodes.iter().flat_map(|from| nodes.iter().map(move |to| (*from, *to)));
        let pairs = pairs.filter(|(from, to)| from != to).take(most);
        let bare = pairs.fold(tables.clone(), |tables, (from, to)| with_steps(&tables, from, to, ""));
        let found = judge(&torus, &bare, false).findings;
        let listed = found.iter().filter(|f| matches!(f, TorusFinding::Missing { .. })).count();
        let more = found.iter().find_map(|f| match f {
            TorusFinding::More { of: "missing", count } => Some(*count),
            _ => None,
        });
        (listed, more)
    };
    assert_eq!((missing(19), missing(20), missing(23)), ((19, None), (20, None), (20, Some(3))));
    let longer = with_steps(&tables, node(&torus, "0.0"), node(&torus, "1.0"), "-X,-X,-X");
    let verdict = judge(&torus, &longer, true);
    assert_eq!((verdict.accepted, verdict.detours), (true, 1), "{:?}", verdict.findings);
}
