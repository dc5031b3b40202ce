//! The laws of `balanced`: every pair reached, in-trees, no cycle in any layer, the budget kept,
//! the same bytes whatever the thread count.

use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::measure::{Figures, channel_loads, measure};
use sarouter::model::rng::Rng;
use sarouter::model::{ChannelId, Demand, DestId, Fabric, Group, LayerBudget, SwitchId, Tables, TerminalId};
use sarouter::route::{EngineOptions, engine};
use sarouter::verify::judge;

fn route_by(name: &str, fabric: &Fabric, demand: &Demand, layers: u64, options: &EngineOptions) -> Tables {
    engine(name, options).unwrap().route(fabric, demand, LayerBudget::new(layers).unwrap()).unwrap()
}

/// By `balanced-efi`, whose figures these tests know; without jobs `balanced` is the same.
fn route(fabric: &Fabric, demand: &Demand, layers: u64, options: &EngineOptions) -> Tables {
    route_by("balanced-efi", fabric, demand, layers, options)
}

/// The engine that aims at time, and the one that aims at counts.
const BOTH: [&str; 2] = ["balanced", "balanced-efi"];

/// A share of all cables cut, whether that disconnects the fabric or not.
fn damaged(fabric: &Fabric, share: f64, seed: u64) -> Fabric {
    let mut rng = Rng::new(seed);
    let cut: Vec<bool> = (0..fabric.channels().len() / 2).map(|_| rng.unit() < share).collect();
    fabric.without(|c| cut[c.index() / 2], |_| false).unwrap()
}

fn check(fabric: &Fabric, tables: &Tables, layers: u64) {
    let verdict = judge(fabric, tables, LayerBudget::new(layers).unwrap());
    assert!(verdict.accepted, "{:?}", verdict.findings);
}

/// Random jobs over a share of the terminals.
fn jobs(fabric: &Fabric, sizes: &[usize], seed: u64) -> Demand {
    let mut free: Vec<TerminalId> = fabric.terminal_ids().collect();
    Rng::new(seed).shuffle(&mut free);
    let groups = sizes.iter().map(|n| Group::new(free.split_off(free.len() - (*n).min(free.len()))));
    Demand::new(groups.collect(), Vec::new())
}

fn spec() -> impl Strategy<Value = String> {
    prop_oneof![
        (2usize..14, 0usize..24, any::<u64>()).prop_map(|(s, more, seed)| format!(
            "random:{s},{},{},seed={seed}",
            2 * s,
            s - 1 + more
        )),
        (3usize..9).prop_map(|n| format!("torus:{n}")),
        (2usize..5, 2usize..6).prop_map(|(x, y)| format!("torus:{x}x{y},hosts=2")),
        (2usize..4, 2usize..4, 2usize..5).prop_map(|(x, y, z)| format!("torus:{x}x{y}x{z}")),
        (2usize..5, 2usize..5).prop_map(|(x, y)| format!("mesh:{x}x{y}")),
        (2usize..4, 2usize..4).prop_map(|(k, n)| format!("kary:{k},{n}")),
        (4usize..9, 2usize..4).prop_map(|(x, y)| format!("hyperx:{x}x{y},hosts=2")),
        (2usize..6, 1usize..5, 1usize..4).prop_map(|(l, h, s)| format!("fattree:{l}x{h},{s}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_fabric_is_routed_without_deadlock_in_any_number_of_layers(
        spec in spec(),
        layers in 1u8..=8,
        share in prop_oneof![Just(0.0), 0.0..0.3f64],
        seed in any::<u64>(),
        sizes in prop::collection::vec(2usize..8, 0..3),
        layer_per_job in any::<bool>(),
        aim in 0usize..2,
    ) {
        let fabric = damaged(&generate(&spec).unwrap(), share, seed);
        let options = EngineOptions { layer_per_job, ..EngineOptions::default() };
        let tables = route_by(BOTH[aim], &fabric, &jobs(&fabric, &sizes, seed), layers.into(), &options);
        check(&fabric, &tables, layers.into());
    }
}

/// One leaf of the tree is cut off, and a job runs on both sides.
#[test]
fn a_job_across_a_tree_that_fell_apart_is_no_trouble() {
    let fabric = damaged(&generate("kary:2,2").unwrap(), 0.19429498776953835, 4_113_584_871_500_305_584);
    let demand = jobs(&fabric, &[2], 4_113_584_871_500_305_584);
    for name in BOTH {
        check(&fabric, &route_by(name, &fabric, &demand, 1, &EngineOptions::default()), 1);
    }
}

/// Some switch of the tree, without jobs, has no way up and down.
#[test]
fn a_damaged_tree_is_routed_without_jobs() {
    let fabric = damaged(&generate("kary:2,3").unwrap(), 0.11534989541616804, 13_442_480_658_839_729_047);
    check_without_jobs(&fabric);
}

/// Both engines, on one layer.
fn check_without_jobs(fabric: &Fabric) {
    for name in BOTH {
        let tables = route_by(name, fabric, &Demand::oblivious(), 1, &EngineOptions::default());
        check(fabric, &tables, 1);
    }
}

/// On one layer, routes of a tree may turn where others, which get to switches cut off from above, must not.
#[test]
fn a_damaged_trees_tables_on_one_layer_have_no_cycle() {
    let cases = [(0.0628685634411817, 12_638_519_204_455_351_668), (0.08, 6), (0.08, 7), (0.08, 10)];
    for spec in ["kary:3,3", "kary:4,3"] {
        for (share, seed) in cases {
            check_without_jobs(&damaged(&generate(spec).unwrap(), share, seed));
        }
    }
}

#[test]
fn two_threads_make_the_same_bytes_as_one() {
    for (spec, name) in
        [("torus:4x4x3,hosts=2", BOTH[0]), ("torus:4x4x3,hosts=2", BOTH[1]), ("kary:4,3", BOTH[0])]
    {
        let fabric = damaged(&generate(spec).unwrap(), 0.05, 3);
        let demand = jobs(&fabric, &[20, 12, 9], 1);
        let made = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| route_by(name, &fabric, &demand, 4, &EngineOptions::default()))
        };
        let one = made(1);
        assert_eq!(one, made(2));
        assert_eq!(one, made(1));
    }
}

/// Routes with eight layers, checks, and measures.
fn figures(spec: &str, jobs: &[&[std::ops::RangeInclusive<usize>]]) -> Figures {
    let fabric = generate(spec).unwrap();
    let groups = jobs.iter().map(|ranges| {
        let names: Vec<String> = ranges.iter().cloned().flatten().map(|n| format!("n{n}")).collect();
        let is_member = |t: &TerminalId| names.contains(&fabric.terminal(*t).description);
        Group::new(fabric.terminal_ids().filter(is_member).collect())
    });
    let demand = Demand::new(groups.collect(), Vec::new());
    let tables = route(&fabric, &demand, 8, &EngineOptions::default());
    check(&fabric, &tables, 8);
    measure(&fabric, &tables, &demand)
}

#[test]
fn the_loads_are_as_low_as_promised() {
    let largest = |spec| figures(spec, &[]).load.max;
    assert_eq!(largest("fattree:10x18,5"), 162);
    // A leaf sends 11 routes to each of 1,089 hosts over 10 channels: 109 whole branches on one.
    assert!(largest("kary:10,3,hosts=11") <= 1199 * 105 / 100);
    assert!(largest("random:125,1000,1000,seed=1") <= 1150);
    assert!(largest("random:125,1000,1000,seed=2") <= 1150);
    assert!(largest("dragonfly:12,6,6,15") <= 1500);
    // Its cables within a level make it no tree in which all shortest routes climb alike.
    assert!(largest("deimos") <= 4150 * 105 / 100);
}

#[test]
fn figure_5_2_reaches_the_lower_bound_without_dark_fiber() {
    let jobs: [&[_]; 3] = [&[1..=30, 91..=120], &[31..=60, 151..=180], &[61..=90, 121..=150]];
    let figures = figures("fattree:10x18,5", &jobs);
    assert_eq!((figures.effective.max, figures.effective.dark_fiber), (54, 0.0));
    // A job that starts now is served at once: 162 is the mean, the routes of the jobs are given.
    assert!(figures.load.max <= 260, "{}", figures.load.max);
}

/// On a ring a job's shortest routes close a cycle, so that they cannot all be on one layer.
#[test]
fn one_layer_per_job_is_kept_even_where_shortest_routes_need_more() {
    let specs = ["torus:9,hosts=2", "torus:5x5,hosts=2", "random:20,60,50", "kary:4,3"];
    for (spec, name) in specs.into_iter().flat_map(|spec| BOTH.map(|name| (spec, name))) {
        let fabric = generate(spec).unwrap();
        let demand = jobs(&fabric, &[10, 4, 3], 5);
        let options = EngineOptions { layer_per_job: true, ..EngineOptions::default() };
        let tables = route_by(name, &fabric, &demand, 4, &options);
        check(&fabric, &tables, 4);
        for group in &demand.groups {
            let ends =
                |a: &TerminalId, b: &TerminalId| (fabric.terminal(*a).switch, fabric.dest_of_terminal(*b));
            let pairs = group.terminals.iter().flat_map(|a| group.terminals.iter().map(move |b| ends(a, b)));
            let mut layers: Vec<_> =
                pairs.filter(|(s, d)| *s != fabric.home(*d)).map(|(s, d)| tables.layer(s, d)).collect();
            layers.dedup();
            assert_eq!(layers.len(), 1, "{spec}");
        }
    }
}

#[test]
fn what_need_not_change_stays() {
    let fabric = generate("kary:6,3").unwrap();
    let before = jobs(&fabric, &[40, 40, 64], 2);
    let (old, groups) = (route(&fabric, &before, 8, &EngineOptions::default()), before.groups.clone());
    let options = since(&old, &before);
    assert_eq!(route(&fabric, &before, 8, &options), old);
    // The job of 64 ends, and another starts on its and on free hosts.
    let busy: Vec<TerminalId> = groups[1..].iter().flat_map(|g| g.terminals.clone()).collect();
    let free = fabric.terminal_ids().filter(|t| !busy.contains(t)).skip(9).step_by(2).take(64).collect();
    let after = Demand::new(vec![groups[1].clone(), groups[2].clone(), Group::new(free)], Vec::new());
    let new = route(&fabric, &after, 8, &options);
    check(&fabric, &new, 8);
    let in_jobs: Vec<TerminalId> = after.groups.iter().flat_map(|g| g.terminals.clone()).collect();
    for t in fabric.terminal_ids().filter(|t| !in_jobs.contains(t)) {
        assert_eq!(new.ports_to(fabric.dest_of_terminal(t)), old.ports_to(fabric.dest_of_terminal(t)));
    }
    let fresh = route(&fabric, &after, 8, &EngineOptions::default());
    let largest = |tables| measure(&fabric, tables, &after).effective.max;
    assert!(largest(&new) <= largest(&fresh) * 5 / 4, "{} {}", largest(&new), largest(&fresh));
    let changed = |tables: &Tables| old.changed_blocks(&fabric, tables).unwrap();
    assert!(changed(&new) < changed(&fresh), "{} {}", changed(&new), changed(&fresh));
    // Jobs that go on keep their routes but for one in sixteen at most; fresh ones are others.
    let [moved, all] = moved_inside(&fabric, &groups[1..], &old, &new);
    let [moved_anew, _] = moved_inside(&fabric, &groups[1..], &old, &fresh);
    println!("moved {moved}, {moved_anew} anew, of {all}");
    assert!(moved * 16 <= all && moved_anew * 2 > all, "{moved}, {moved_anew} anew, of {all}");
}

/// How to go on from tables that serve a demand.
fn since(tables: &Tables, served: &Demand) -> EngineOptions {
    let previous = Some(std::sync::Arc::new(tables.clone()));
    EngineOptions { previous, served: Some(served.clone()), ..EngineOptions::default() }
}

/// Routes inside groups, from switch to terminal, that lead elsewhere in other tables, and all.
fn moved_inside(fabric: &Fabric, groups: &[Group], old: &Tables, new: &Tables) -> [usize; 2] {
    let mut count = [0; 2];
    for group in groups {
        let homes = group.terminals.iter().map(|t| fabric.terminal(*t).switch);
        let switches: std::collections::BTreeSet<_> = homes.collect();
        for d in group.terminals.iter().map(|t| fabric.dest_of_terminal(*t)) {
            for s in switches.iter().filter(|s| **s != fabric.home(d)) {
                count[0] += usize::from(way(fabric, old, *s, d) != way(fabric, new, *s, d));
                count[1] += 1;
            }
        }
    }
    count
}

/// Channels from a switch to a terminal.
fn way(fabric: &Fabric, tables: &Tables, mut at: SwitchId, to: DestId) -> Vec<ChannelId> {
    let mut way = Vec::new();
    while at != fabric.home(to) {
        let leaves = |c: &&ChannelId| fabric.channel(**c).from_port.get() == tables.ports_to(to)[at.index()];
        let next = *fabric.out(at).iter().find(leaves).unwrap();
        way.push(next);
        at = fabric.channel(next).to;
    }
    way
}

/// One job after the other ends and another starts; each time the tables in force are the start. On
/// every count at least as good as `sar`, which begins anew each time.
#[test]
fn routes_stay_better_than_those_of_sar_while_jobs_come_and_go() {
    let fabric = generate("fattree:10x12,4").unwrap();
    let all = jobs(&fabric, &[24, 18, 14, 12, 10, 8, 6, 6, 5, 4, 4, 4], 3).groups;
    let budget = LayerBudget::new(8).unwrap();
    let mut in_force: Option<(Tables, Demand)> = None;
    let mut sums = [[0.0; 4]; 2];
    for first in 0..all.len() {
        let running = (first..first + 8).map(|i| all[i % all.len()].clone()).collect();
        let demand = Demand::new(running, Vec::new());
        let options = in_force.as_ref().map_or_else(EngineOptions::default, |(t, d)| since(t, d));
        let ours = route(&fabric, &demand, 8, &options);
        check(&fabric, &ours, 8);
        let sar = engine("sar", &options).unwrap().route(&fabric, &demand, budget).unwrap();
        for (sums, tables) in sums.iter_mut().zip([&sar, &ours]) {
            let e = measure(&fabric, tables, &demand).effective;
            let figures = [e.max as f64, e.max_per_job_mean, e.dark_fiber, -e.links_per_job_mean];
            sums.iter_mut().zip(figures).for_each(|(sum, f)| *sum += f);
        }
        in_force = Some((ours, demand));
    }
    let [sar, ours] = sums;
    assert!(sar.iter().zip(&ours).all(|(sar, ours)| ours <= sar), "{ours:?} {sar:?}");
    assert!(ours[0] < sar[0] && ours[3] < sar[3], "{ours:?} {sar:?}");
}

/// Aggregation nodes hang on every switch of a modern fabric: they must not hide which switches are
/// leaves. No routing of this one can be below 630.
#[test]
fn a_real_fabric_with_aggregation_nodes_is_balanced() {
    let fabric =
        sarouter::observe::fabric::load("tests/data/topologies/topograph-dgx-gb200-582ca-40sw.ibnetdiscover");
    let fabric = fabric.unwrap();
    let tables = route(&fabric, &Demand::oblivious(), 8, &EngineOptions::default());
    check(&fabric, &tables, 8);
    let load = measure(&fabric, &tables, &Demand::oblivious()).load;
    assert!(load.max <= load.lower_bound + load.lower_bound / 20, "{} above {}", load.max, load.lower_bound);
}

/// Jobs get many channels, none of them too full of one job: on every count at least as good as
/// `sar` where both reach the bound of the whole.
#[test]
fn jobs_are_spread_at_least_as_well_as_by_sar() {
    let fabric = generate("fattree:10x18,5").unwrap();
    let demand = jobs(&fabric, &[40, 30, 20, 20, 12, 8, 8, 4, 4], 3);
    let of = |name: &str| {
        let budget = LayerBudget::new(8).unwrap();
        let tables =
            engine(name, &EngineOptions::default()).unwrap().route(&fabric, &demand, budget).unwrap();
        measure(&fabric, &tables, &demand).effective
    };
    let (sar, ours) = (of("sar"), of("balanced-efi"));
    assert!(ours.max <= sar.max, "{ours:?} {sar:?}");
    assert!(ours.max_per_job_mean <= sar.max_per_job_mean, "{ours:?} {sar:?}");
    assert!(ours.links_per_job_mean >= sar.links_per_job_mean, "{ours:?} {sar:?}");
    assert!(ours.dark_fiber <= sar.dark_fiber, "{ours:?} {sar:?}");
}

/// Where nearly each route has its channels to itself, a move onto a dark one leaves another dark.
#[test]
fn chains_of_moves_light_what_no_single_move_can() {
    let three = [[4..=4, 9..=9, 15..=15], [3..=3, 6..=6, 16..=16], [1..=1, 5..=5, 11..=11]];
    assert_eq!(figures("kary:4,2", &three.each_ref().map(|job| &job[..])).effective.dark_fiber, 0.0);
}

/// Sum over the steps of a shift of the most routes of one step on a channel.
fn shift_time(fabric: &Fabric, tables: &Tables) -> u32 {
    let hosts: Vec<TerminalId> = fabric.host_ids().collect();
    let most_of = |step: usize| {
        let mut met = vec![0; fabric.channels().len()];
        for (from, to) in hosts.iter().zip(hosts.iter().cycle().skip(step)) {
            let way = way(fabric, tables, fabric.terminal(*from).switch, fabric.dest_of_terminal(*to));
            way.iter().for_each(|c| met[c.index()] += 1);
        }
        met.into_iter().max().unwrap_or(0)
    };
    (1..hosts.len()).map(most_of).sum()
}

/// 882; without the passes that keep routes apart 1151, at the same largest load.
#[test]
fn routes_of_one_step_are_kept_apart_in_a_tree() {
    let fabric = generate("kary:6,3,hosts=8").unwrap();
    let tables = route(&fabric, &Demand::oblivious(), 8, &EngineOptions::default());
    check(&fabric, &tables, 8);
    assert!(shift_time(&fabric, &tables) <= 900, "{}", shift_time(&fabric, &tables));
    assert!(measure(&fabric, &tables, &Demand::oblivious()).load.max <= 376);
}

/// Routes between switches and hosts that take a full channel after another one, and all that take one.
fn late(fabric: &Fabric, tables: &Tables, is_full: impl Fn(ChannelId) -> bool) -> [usize; 2] {
    let mut count = [0; 2];
    for d in fabric.host_ids().map(|t| fabric.dest_of_terminal(t)) {
        for s in fabric.switch_ids() {
            let full = way(fabric, tables, s, d).into_iter().position(&is_full);
            count[0] += usize::from(full.is_some_and(|at| at > 0));
            count[1] += usize::from(full.is_some());
        }
    }
    count
}

/// Over 12 x 3 switches, a cable along the short line carries four times what one along the long line does; no
/// tables have less on it.
#[test]
fn routes_start_with_the_channels_that_limit_a_fabric() {
    let fabric = generate("hyperx:12x3,hosts=2").unwrap();
    let demand = Demand::oblivious();
    let tables = route(&fabric, &demand, 8, &EngineOptions::default());
    check(&fabric, &tables, 8);
    let largest = measure(&fabric, &tables, &demand).load.max;
    let loads = channel_loads(&fabric, &tables);
    let is_full = |c: ChannelId| loads[c.index()] * 2 > largest;
    assert_eq!(fabric.channel_ids().filter(|c| is_full(*c)).count(), 72);
    assert_eq!(largest, 48);
    assert_eq!(late(&fabric, &tables, is_full), [0, 72 * 24]);
    for budget in 1..8 {
        check(&fabric, &route(&fabric, &demand, budget, &EngineOptions::default()), budget);
    }
}

/// Where the search finds ways in other layers only for some (194 without), and where the cables that are left
/// would get more (294).
#[test]
fn starting_with_full_channels_makes_none_fuller() {
    assert_eq!(largest_load("cascade:2,hosts=2"), 192);
    assert!(largest_load("hyperx:8x2,hosts=6,faults=5%,seed=1") <= 288);
}

fn largest_load(spec: &str) -> u64 {
    let fabric = generate(spec).unwrap();
    let tables = route(&fabric, &Demand::oblivious(), 8, &EngineOptions::default());
    check(&fabric, &tables, 8);
    measure(&fabric, &tables, &Demand::oblivious()).load.max
}

/// Loads reached, and no more than a hundredth above: 1248, 280, 352 and 174; no tables have less than
/// 1225, 280, 323 and 162.
#[test]
fn small_fabrics_stay_balanced() {
    for (spec, most) in [
        ("torus:5x5x5,hosts=4,faults=1%,seed=7", 1260),
        ("random:40,320,320,seed=1", 282),
        ("kautz:2,4,hosts=11,redundancy=6", 355),
        ("dragonfly:6,3,3,8", 176),
    ] {
        let found = largest_load(spec);
        assert!(found <= most, "{spec}: {found}");
    }
}

/// What the comparison with OpenSM asks of the four large fabrics.
#[test]
#[ignore = "three seconds of CPU"]
fn large_fabrics_stay_balanced() {
    for (spec, most) in [
        ("random:125,1000,1000,seed=1", 1_050),
        ("dragonfly:12,6,6,15", 1_150),
        ("torus:8x8x8,hosts=4,faults=1%,seed=7", 9_300),
        ("torus:10x10x10,hosts=4,faults=1%,seed=7", 23_500),
    ] {
        let found = largest_load(spec);
        assert!(found <= most, "{spec}: {found}");
    }
}

/// On meshes, tori, HyperX and with one layer no other engine of ours is ahead, in the largest number of routes
/// between hosts on a channel.
#[test]
fn nobody_is_ahead_on_grids_and_with_one_layer() {
    let cases = [
        ("mesh:8x5,hosts=2,faults=3%,seed=343", 8),
        ("torus:2x2x2x2x2,hosts=4", 8),
        ("torus:6x3x4,hosts=2", 1),
        ("slimfly:5,hosts=1", 1),
        ("hyperx:5x4,hosts=3", 8),
        ("hyperx:2x2x3x2,hosts=5,faults=5%,seed=928", 1),
        // Known without a search.
        ("torus:16x17,hosts=4", 8),
    ];
    for (spec, layers) in cases {
        let (fabric, budget) = (generate(spec).unwrap(), LayerBudget::new(layers).unwrap());
        let fullest = |name: &str| {
            let tables = engine(name, &EngineOptions::default()).unwrap();
            let tables = tables.route(&fabric, &Demand::oblivious(), budget).ok()?;
            let accepted = sarouter::verify::judge(&fabric, &tables, budget).accepted;
            accepted.then(|| measure(&fabric, &tables, &Demand::oblivious()).load.max)
        };
        let ours = fullest("balanced").unwrap();
        for other in ["nue", "torus", "updown", "dor", "lash", "dfsssp", "minhop"] {
            assert!(fullest(other).is_none_or(|other| ours <= other), "{other} on {spec}");
        }
    }
}
