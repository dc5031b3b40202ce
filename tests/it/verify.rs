//! The checker accepts what is right and names what is wrong.

use std::collections::BTreeSet;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::model::{ChannelId, DestId, Fabric, Group, Layer, PortPeer, Promise, SwitchId, Tables};
use sarouter::verify::{
    Beside, Checks, Finding, Verdict, is_safe_with, judge, judge_beside, judge_jobs, judge_with,
    layers_of_group, safe_layers, transition,
};

use crate::helpers::{altered, budget, random_tables, walk};

/// Leaves 0 and 1 with two hosts each (n1, n2 and n3, n4), spines 2 and 3.
fn tree() -> (Fabric, Tables) {
    let fabric = generate("fattree:2x2,2").unwrap();
    let tables = random_tables(&fabric, 1, 1, false);
    assert!(judge(&fabric, &tables, budget(1)).accepted);
    (fabric, tables)
}

fn switch(fabric: &Fabric, n: usize) -> SwitchId {
    fabric.switch_ids().nth(n).unwrap()
}

fn host(fabric: &Fabric, name: &str) -> DestId {
    let t = fabric.terminal_ids().find(|t| fabric.terminal(*t).description == name).unwrap();
    fabric.dest_of_terminal(t)
}

/// Changes one raw port and returns the only finding.
fn planted(fabric: &Fabric, tables: &Tables, s: SwitchId, d: DestId, port: u8) -> Finding {
    let n = fabric.switches().len();
    let bad = altered(fabric, tables, |ports, _| ports[d.index() * n + s.index()] = port);
    let verdict = judge(fabric, &bad, budget(1));
    assert!(!verdict.accepted);
    assert_eq!(verdict.findings_total, 1, "{verdict:?}");
    verdict.findings[0].clone()
}

#[test]
fn a_hole_names_switch_and_destination() {
    let (fabric, tables) = tree();
    let found = planted(&fabric, &tables, switch(&fabric, 0), host(&fabric, "n3"), Tables::UNREACHABLE);
    let Finding::Hole { switch, destination } = &found else { panic!("{found:?}") };
    assert_eq!((switch.description.as_str(), destination.description.as_str()), ("S0000", "n3"));
    assert_eq!(switch.guid.get(), 0x200000);
    assert_eq!(destination.lid, fabric.lid(host(&fabric, "n3")));
    assert!(found.to_string().contains("S0000 (0x0000000000200000) has no port for n3 (LID "));
}

#[test]
fn only_spines_may_miss_each_other() {
    let (fabric, tables) = tree();
    let n = fabric.switches().len();
    let spine = fabric.dest_of_switch(switch(&fabric, 3));
    let hole =
        |s: usize| altered(&fabric, &tables, |ports, _| ports[spine.index() * n + s] = Tables::UNREACHABLE);
    assert!(judge(&fabric, &hole(2), budget(1)).accepted);
    let found = judge(&fabric, &hole(0), budget(1)).findings;
    assert!(matches!(found.as_slice(), [Finding::Hole { switch, .. }] if switch.description == "S0000"));
    let checks = Checks { hosts_only: true, ..Checks::default() };
    assert!(judge_with(&fabric, &hole(0), budget(1), checks).accepted);
}

#[test]
fn ports_that_lead_nowhere_or_elsewhere_are_told_apart() {
    let (fabric, tables) = tree();
    let (leaf, n3) = (switch(&fabric, 0), host(&fabric, "n3"));
    let found = planted(&fabric, &tables, leaf, n3, 77);
    assert!(matches!(&found, Finding::NoSuchPort { port: 77, .. }), "{found:?}");
    let found = planted(&fabric, &tables, leaf, n3, 2);
    assert!(matches!(&found, Finding::WrongTerminal { leads_to, .. } if leads_to == "n2"), "{found:?}");
    let found = planted(&fabric, &tables, leaf, n3, 0);
    assert!(matches!(&found, Finding::WrongTerminal { leads_to, .. } if leads_to == "S0000"), "{found:?}");
    let found = planted(&fabric, &tables, leaf, host(&fabric, "n1"), 2);
    assert!(matches!(&found, Finding::WrongHomePort { port: 2, expected: 1, .. }), "{found:?}");
    let cut = fabric.without(|c| c.index() == 0, |_| false).unwrap();
    let dead = fabric.channel(fabric.channel_ids().next().unwrap());
    let tables = random_tables(&cut, 1, 1, false);
    let found = planted(&cut, &tables, dead.from, host(&cut, "n3"), dead.from_port.get());
    assert!(matches!(&found, Finding::DeadPort { .. }), "{found:?}");
}

#[test]
fn a_loop_names_its_switches_in_order() {
    let fabric = generate("torus:5").unwrap();
    let tables = random_tables(&fabric, 1, 1, false);
    let (n, d) = (fabric.switches().len(), host(&fabric, "n1"));
    // Switches 2 and 3 send packets for n1 to each other.
    let port_to = |a: usize, b: usize| {
        let out = fabric.out(switch(&fabric, a));
        let c = out.iter().map(|c| fabric.channel(*c)).find(|c| c.to.index() == b).unwrap();
        c.from_port.get()
    };
    let bad = altered(&fabric, &tables, |ports, _| {
        ports[d.index() * n + 2] = port_to(2, 3);
        ports[d.index() * n + 3] = port_to(3, 2);
    });
    let verdict = judge(&fabric, &bad, budget(1));
    let loops: Vec<_> = verdict.findings.iter().filter(|f| matches!(f, Finding::Loop { .. })).collect();
    let [Finding::Loop { destination, switches }] = loops.as_slice() else { panic!("{verdict:?}") };
    assert_eq!(destination.description, "n1");
    let names: BTreeSet<&str> = switches.iter().map(|s| s.description.as_str()).collect();
    assert_eq!((switches.len(), names), (2, BTreeSet::from(["S0002", "S0003"])));
}

#[test]
fn layers_beyond_the_budget_and_missing_layers_are_named() {
    let (fabric, tables) = tree();
    let (n, d) = (fabric.switches().len(), host(&fabric, "n3"));
    let with = |layer: u8| altered(&fabric, &tables, |_, layers| layers[d.index() * n] = layer);
    assert!(judge(&fabric, &with(3), budget(4)).accepted);
    let found = judge(&fabric, &with(3), budget(3)).findings;
    let [Finding::OverBudget { switch, destination, layer: 3, budget: 3 }] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((switch.description.as_str(), destination.description.as_str()), ("S0000", "n3"));
    let found = judge(&fabric, &with(Tables::NO_LAYER), budget(3)).findings;
    assert!(matches!(found.as_slice(), [Finding::MissingLayer { .. }]), "{found:?}");
    let found = judge(&fabric, &with(200), budget(15)).findings;
    assert!(matches!(found.as_slice(), [Finding::OverBudget { layer: 200, .. }]), "{found:?}");
}

#[test]
fn a_ring_in_one_layer_is_rejected_with_its_cycle_and_routes() {
    let fabric = generate("torus:6").unwrap();
    let n = fabric.switches().len();
    let port_to = |s: SwitchId, to: usize| {
        let mut out = fabric.out(s).iter().map(|c| fabric.channel(*c));
        out.find(|c| c.to.index() == to).unwrap().from_port.get()
    };
    let mut ports = vec![0; fabric.dest_count() * n];
    let mut layers = vec![0; fabric.dest_count() * n];
    for d in fabric.dest_ids() {
        for s in fabric.switch_ids() {
            let (home, at) = (fabric.home(d), d.index() * n + s.index());
            let upwards = (home.index() + n - s.index()) % n <= 3;
            let to = if upwards { s.index() + 1 } else { s.index() + n - 1 } % n;
            ports[at] = if s == home { fabric.last_port(d).get() } else { port_to(s, to) };
            // Routes over the dateline between switches 5 and 0 have a layer of their own.
            layers[at] = u8::from(s != home && upwards == (s > home));
        }
    }
    let tables = Tables::new(&fabric, "test", ports, layers).unwrap();
    let verdict = judge(&fabric, &tables, budget(2));
    assert!(verdict.accepted, "{verdict:?}");
    let merged = altered(&fabric, &tables, |_, layers| layers.fill(0));
    let verdict = judge(&fabric, &merged, budget(1));
    let [Finding::Cycle { layer: 0, channels }] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
    assert_eq!(channels.len(), 6);
    for (step, next) in channels.iter().zip(channels.iter().cycle().skip(1)) {
        let from = fabric.switch_ids().find(|s| fabric.switch(*s).guid == step.route_from.guid).unwrap();
        let to = fabric.dest_ids().find(|d| fabric.lid(*d) == step.route_to.lid).unwrap();
        let path = walk(&fabric, &merged, from, to).unwrap();
        let names: Vec<_> = path.iter().map(|c| fabric.channel_name(*c)).collect();
        assert!(names.windows(2).any(|w| w == [step.channel.clone(), next.channel.clone()]));
    }
}

#[test]
fn only_the_first_findings_of_a_kind_are_listed_and_all_are_counted() {
    let fabric = generate("fattree:4x4,2").unwrap();
    let tables = random_tables(&fabric, 1, 1, false);
    let n = fabric.switches().len();
    let bad = altered(&fabric, &tables, |ports, _| {
        (0..ports.len()).step_by(n).for_each(|i| ports[i] = Tables::UNREACHABLE);
    });
    let verdict = judge(&fabric, &bad, budget(1));
    let holes = verdict.findings.iter().filter(|f| matches!(f, Finding::Hole { .. })).count();
    assert_eq!((holes, verdict.findings_total), (10, fabric.dest_count() as u64));
}

#[test]
fn tables_of_another_fabric_are_refused_and_separate_parts_are_counted() {
    let (fabric, tables) = tree();
    let cut = fabric.without(|c| fabric.channel(c).from.index() == 0, |_| false).unwrap();
    let found = judge(&cut, &tables, budget(1)).findings;
    assert!(matches!(found.as_slice(), [Finding::WrongFabric { .. }]), "{found:?}");
    let verdict = judge(&cut, &random_tables(&cut, 1, 1, false), budget(1));
    assert_eq!((verdict.accepted, verdict.unreachable_pairs), (true, 8), "{verdict:?}");
}

/// Every dependency by walking every route, and petgraph's strongly connected components.
fn acyclic_by_paths(fabric: &Fabric, tables: &Tables, reverse: bool) -> bool {
    let mut graphs = vec![DiGraphMap::<ChannelId, ()>::new(); 16];
    for d in fabric.dest_ids() {
        for s in fabric.switch_ids().filter(|s| !fabric.attached(*s).is_empty()) {
            let mut layers: Vec<u8> = tables.layer(s, d).map(|l| l.get()).into_iter().collect();
            if reverse && fabric.dest_terminal(d).is_some() {
                let back = fabric.attached(s).iter().map(|t| fabric.dest_of_terminal(*t));
                layers.extend(back.filter_map(|t| tables.layer(fabric.home(d), t)).map(|l| l.get()));
            }
            for turn in walk(fabric, tables, s, d).unwrap().windows(2) {
                for l in &layers {
                    graphs[usize::from(*l)].add_edge(turn[0], turn[1], ());
                }
            }
        }
    }
    graphs.iter().all(|g| tarjan_scc(g).iter().all(|part| part.len() == 1))
}

fn has_cycle(verdict: &Verdict) -> bool {
    verdict.findings.iter().any(|f| matches!(f, Finding::Cycle { .. }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn cycles_are_found_where_petgraph_finds_them(
        switches in 3..9usize, extra in 0..6usize, seed in 0..10_000u64, layers in 1..6usize, wander: bool,
        reverse: bool,
    ) {
        let spec = format!("random:{switches},{},{},seed={seed}", switches + 2, switches - 1 + extra);
        let fabric = generate(&spec).unwrap();
        let tables = random_tables(&fabric, seed, layers, wander);
        let verdict = judge_with(&fabric, &tables, budget(6), Checks { promise: if reverse { "told+reply".parse().unwrap() } else { Promise::TOLD }, hosts_only: false });
        let acyclic = acyclic_by_paths(&fabric, &tables, reverse);
        prop_assert_eq!(has_cycle(&verdict), !acyclic);
        prop_assert_eq!(verdict.accepted, acyclic);
    }
}

/// A ring of four switches with a host each, all routes clockwise: hosts n1 to n4.
fn clockwise(layer: impl Fn(usize, usize) -> u8) -> (Fabric, Tables) {
    let fabric = generate("torus:4,hosts=1").unwrap();
    let n = fabric.switches().len();
    let next = |s: usize| (s + 1) % n;
    let port_to_next = |s: usize| {
        let channels = fabric.out(switch(&fabric, s)).iter().map(|c| fabric.channel(*c));
        channels.filter(|c| c.to.index() == next(s)).map(|c| c.from_port.get()).next().unwrap()
    };
    let (mut ports, mut layers) = (Vec::new(), Vec::new());
    for d in fabric.dest_ids() {
        let home = fabric.home(d).index();
        for s in 0..n {
            ports.push(if s == home { fabric.last_port(d).get() } else { port_to_next(s) });
            layers.push(if s == home { 0 } else { layer(s, home) });
        }
    }
    let tables = Tables::new(&fabric, "clockwise", ports, layers).unwrap();
    (fabric, tables)
}

/// Routes that pass from switch 3 to switch 0 are on layer 1, that from 3 to 2 on layer 2: no layer
/// has a cycle.
fn dateline(s: usize, home: usize) -> u8 {
    match (s, home) {
        (3, 2) => 2,
        _ => u8::from(home < s),
    }
}

fn group(fabric: &Fabric, names: &[&str]) -> Group {
    let terminals = names.iter().map(|n| fabric.dest_terminal(host(fabric, n)).unwrap()).collect();
    Group::new(terminals)
}

#[test]
fn routes_inside_a_job_on_several_layers_are_rejected_if_one_is_wanted() {
    let (fabric, tables) = clockwise(dateline);
    let whole = group(&fabric, &["n1", "n2", "n3", "n4"]);
    let judge = |tables: &Tables, groups: &[Group]| {
        judge_jobs(&fabric, tables, budget(3), Checks::default(), Beside::default(), groups)
    };
    assert!(judge(&tables, &[]).accepted);
    let verdict = judge(&tables, std::slice::from_ref(&whole));
    assert!(!verdict.accepted);
    assert_eq!(verdict.findings_total, 1, "{verdict:?}");
    let Finding::JobOnSeveralLayers { hosts, first, last, layers } = &verdict.findings[0] else {
        panic!("{verdict:?}")
    };
    assert_eq!((*hosts, first.as_str(), last.as_str(), &layers[..]), (4, "n1", "n4", &[0, 1, 2][..]));
    // The pair n1, n2: there on layer 0, back over the dateline on layer 1, until both are on 1.
    let pair = group(&fabric, &["n1", "n2"]);
    assert!(!judge(&tables, std::slice::from_ref(&pair)).accepted);
    let (fabric, mended) = clockwise(|s, home| if (s, home) == (0, 1) { 1 } else { dateline(s, home) });
    assert!(
        judge_jobs(
            &fabric,
            &mended,
            budget(3),
            Checks::default(),
            Beside::default(),
            std::slice::from_ref(&pair)
        )
        .accepted
    );
    assert_eq!(layers_of_group(&fabric, &mended, &pair).len(), 1);
}

#[test]
fn a_safe_layer_is_found_only_where_no_cycle_arises() {
    let (fabric, tables) = clockwise(dateline);
    let layers = |groups: &[Group], bound: &[(Group, Layer)]| {
        let safe = safe_layers(&fabric, &tables, budget(3), bound, groups);
        safe.iter().map(|l| l.map(Layer::get)).collect::<Vec<_>>()
    };
    let (near, far) = (group(&fabric, &["n1", "n2"]), group(&fabric, &["n3", "n4"]));
    // n2 to n1 goes 1, 2, 3, 0: with the routes of layer 0, which end before 0, the ring is not closed.
    let one = layers(std::slice::from_ref(&near), &[]);
    assert_eq!(one, [Some(0)]);
    // Both pairs on layer 0 would close it.
    let both = layers(&[near.clone(), far.clone()], &[]);
    assert_eq!(both, [Some(0), Some(2)]);
    assert_eq!(layers(std::slice::from_ref(&far), &[]), [Some(0)]);
    assert_eq!(layers(std::slice::from_ref(&far), &[(near.clone(), Layer::new(0).unwrap())]), [Some(2)]);
    assert!(!is_safe_with(&fabric, &tables, budget(3), &[near, far].map(|g| (g, Layer::new(0).unwrap()))));
    // All of them: nowhere.
    assert_eq!(layers(&[group(&fabric, &["n1", "n2", "n3", "n4"])], &[]), [None]);
}

/// A ring of four: routes that never pass switch `root` on the way between others are free of deadlock, as the
/// ring is open there. Two such, open at different places, close it together, on both layers: a packet with
/// the layer of one may meet entries of the other.
#[test]
fn two_open_rings_close_when_mixed() {
    let fabric = generate("torus:4,hosts=1").unwrap();
    let open_at = |root: usize, layer: u8| {
        let n = fabric.switches().len();
        let mut ports = vec![Tables::UNREACHABLE; fabric.dest_count() * n];
        for d in fabric.dest_ids() {
            let home = fabric.home(d).index();
            // Positions along the ring from the opening on; routes stay inside 0..=3.
            let at = |s: usize| (s + 4 - root) % 4;
            for s in fabric.switch_ids() {
                let up = at(s.index()) < at(home);
                let next = switch(&fabric, (s.index() + if up { 1 } else { 3 }) % 4);
                let c = fabric.out(s).iter().find(|c| fabric.channel(**c).to == next).unwrap();
                ports[d.index() * n + s.index()] = fabric.channel(*c).from_port.get();
            }
            ports[d.index() * n + home] = fabric.last_port(d).get();
        }
        Tables::new(&fabric, "test", ports, vec![layer; fabric.dest_count() * n]).unwrap()
    };
    let (old, same, other) = (open_at(0, 0), open_at(0, 1), open_at(2, 1));
    [&old, &same, &other].iter().for_each(|t| assert!(judge(&fabric, t, budget(2)).accepted));
    let found = |a, b| transition(&fabric, a, b).map(|t| (t.layers, t.cyclic)).unwrap();
    assert_eq!(found(&old, &old), (1, 0));
    assert_eq!(found(&old, &same), (2, 0));
    assert_eq!(found(&old, &other), (2, 2));
    assert_eq!(transition(&generate("torus:5,hosts=1").unwrap(), &old, &other), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    /// Against packets that are followed one by one, each switch free to choose between both tables.
    #[test]
    fn a_transition_is_what_packets_may_do(switches in 3..9usize, extra in 0..4usize, seed in 0..10_000u64) {
        let spec = format!("random:{switches},{},{},seed={seed}", switches + 2, switches - 1 + extra);
        let fabric = generate(&spec).unwrap();
        let both = [seed, seed + 1].map(|seed| random_tables(&fabric, seed, 2, seed % 3 == 0));
        let mut graphs = [DiGraphMap::<ChannelId, ()>::new(), DiGraphMap::new()];
        for d in fabric.dest_ids() {
            for s in fabric.switch_ids().filter(|s| !fabric.attached(*s).is_empty()) {
                for layer in both.iter().filter_map(|t| t.layer(s, d)) {
                    follow(&fabric, &both, (s, None), d, &mut BTreeSet::new(), &mut graphs[usize::from(layer.get())]);
                }
            }
        }
        let used = graphs.iter().filter(|g| g.edge_count() > 0);
        let cyclic = used.clone().filter(|g| tarjan_scc(*g).iter().any(|part| part.len() > 1));
        let wanted = (used.clone().count() as u8, cyclic.count() as u8);
        let found = transition(&fabric, &both[0], &both[1]).unwrap();
        prop_assert_eq!((found.layers, found.cyclic), wanted);
    }
}

/// Adds what a packet that came by a channel may depend on from here on.
fn follow(
    fabric: &Fabric,
    both: &[Tables; 2],
    (at, came): (SwitchId, Option<ChannelId>),
    d: DestId,
    seen: &mut BTreeSet<(SwitchId, Option<ChannelId>)>,
    graph: &mut DiGraphMap<ChannelId, ()>,
) {
    if at == fabric.home(d) || !seen.insert((at, came)) {
        return;
    }
    for port in both.iter().filter_map(|t| t.port(at, d)) {
        let Some(PortPeer::Channel(c)) = fabric.peer(at, port) else { continue };
        came.into_iter().for_each(|before| _ = graph.add_edge(before, c, ()));
        follow(fabric, both, (fabric.channel(c).to, Some(c)), d, seen, graph);
    }
}

/// In a first step whom a loss cut off may wait. Who had a way may not be led to one who waits.
#[test]
fn nobody_who_had_a_way_is_led_to_a_switch_that_waits_for_the_second_step() {
    let fabric = generate("mesh:2x2,hosts=1").unwrap();
    let d = host(&fabric, "n4");
    let towards = |s: usize, next: usize| {
        let leads = |c: &&ChannelId| fabric.channel(**c).to == switch(&fabric, next);
        fabric.channel(*fabric.out(switch(&fabric, s)).iter().find(leads).unwrap()).from_port.get()
    };
    let with = |seed: u64, first: u8| {
        altered(&fabric, &random_tables(&fabric, seed, 1, false), |ports, _| {
            let row = &mut ports[d.index() * 4..][..3];
            row.copy_from_slice(&[first, Tables::UNREACHABLE, towards(2, 3)]);
        })
    };
    let promise = Promise { mixed: true, ..Promise::TOLD };
    let judged = |tables: &Tables, before: &Tables| {
        let mixed = std::slice::from_ref(before);
        let beside = Beside { mixed, lost_later: true, ..Beside::default() };
        let checks = Checks { promise, ..Checks::default() };
        judge_beside(&fabric, std::slice::from_ref(tables), budget(1), checks, beside)
    };
    // Tables without a cycle.
    let of = |seed: u64| (with(seed, towards(0, 2)), with(seed, towards(0, 1)));
    let accepted = |(before, misled): &(Tables, Tables)| {
        judged(before, before).accepted && judged(misled, misled).accepted
    };
    let (before, misled) = (1..100).map(of).find(accepted).unwrap();
    let verdict = judged(&misled, &before);
    let [Finding::Hole { switch, .. }] = &verdict.findings[..] else { panic!("{verdict:?}") };
    assert!(!verdict.accepted && switch.description == "S0000", "{verdict:?}");
}
