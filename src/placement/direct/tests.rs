//! How many sets are tried.

use super::*;
use crate::model::TorusBuilder;
use crate::model::rng::Rng;
use crate::placement::Insist;

#[test]
fn sets_are_tried_until_enough_is_done() {
    let torus = TorusBuilder::new(&[8, 4]).unwrap().build().unwrap();
    let (direct, mut fewer) = (Direct::new(torus, Transit::Any), 0);
    for seed in 0..20 {
        let mut nodes: Vec<u32> = (0..direct.names().len() as u32).collect();
        Rng::new(seed).shuffle(&mut nodes);
        let traffic = direct.traffic(&[nodes[..6].to_vec(), nodes[6..12].to_vec()]);
        let mut candidates = nodes[12..].to_vec();
        candidates.sort_unstable();
        let (insist, candidates) = (Insist::Prefer, candidates.as_slice());
        let question = Question { nodes: 6, candidates, insist, mix: None, isolated: false };
        let best = |sets: &[Vec<NodeId>]| {
            let judged = sets.iter().map(|set| direct.judge(&traffic, set, &mut Judging::new(None)));
            judged.flatten().map(|p| key(&p)).min().unwrap()
        };
        let mut sets = vec![direct.ids(&usual(6, candidates))];
        sets.extend(direct.sets(question));
        let of = |steps| key(&direct.choose_within(&traffic, question, steps).unwrap().predicted);
        assert_eq!((of(usize::MAX), of(0)), (best(&sets), best(&sets[..2])));
        fewer += usize::from(of(0) > of(usize::MAX));
        // As many visits as the routes have hops, or more where a pair has several.
        let mut judging = Judging::new(None);
        let extent = direct.judge(&traffic, &sets[0], &mut judging).unwrap().extent;
        assert!(judging.steps as u64 >= extent, "{} visits, {extent} hops", judging.steps);
    }
    assert!(fewer > 0, "a later set was never better");
}

#[test]
fn a_sample_of_the_pairs_tells_nearly_what_all_do() {
    let torus = TorusBuilder::new(&[8, 8]).unwrap().build().unwrap();
    let nodes = torus.healthy_nodes();
    let demand = TorusDemand { jobs: vec![TorusJob::new(None, nodes.clone())], transit: Transit::Any };
    let turns = Turns::of(&torus, &demand);
    let usable = demand.usable(&torus, Some(0));
    let legal = Legal::new(&torus, &usable, &turns);
    let added = |most| {
        let (mut load, mut visits) = (vec![0.0; torus.channel_slots()], 0);
        let hops = add_routes(&legal, &nodes, (most, false), &mut |c, share| {
            load[c] += share;
            visits += 1;
        });
        (hops.unwrap() as f64, load.iter().sum::<f64>(), visits)
    };
    let (hops, load, visits) = added(PAIRS);
    assert!((hops - load).abs() < 1e-6 * hops && added(64 * 64) == (hops, load, visits));
    let (about, drawn, fewer) = added(800);
    assert!((about - hops).abs() < 0.05 * hops && (about - drawn).abs() < 1e-6 * about, "{about} of {hops}");
    assert!(fewer * 5 < visits, "{fewer} of {visits} visits");
}
