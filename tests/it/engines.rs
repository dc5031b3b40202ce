//! Laws and known answers of the switched engines, against a walker that shares no code with them.

mod jobs;

use std::collections::BTreeSet;

use petgraph::algo::is_cyclic_directed;
use petgraph::graph::DiGraph;
use proptest::prelude::*;
use sarouter::lab::generate::generate;
use sarouter::measure::measure;
use sarouter::model::{Demand, Fabric, LayerBudget, PortPeer, Role, SwitchId, Tables};
use sarouter::observe::fabric;
use sarouter::route::{self, EngineOptions, RouteError};
use sarouter::verify::judge;

/// 31 leaves, 9 spines, as many cables from one to the other as the site had.
const DGX: &str = "tests/data/topologies/topograph-dgx-gb200-582ca-40sw.ibnetdiscover";

/// What a walk over all routes found.
struct Walked {
    /// Ordered pairs (switch with terminals, terminal) without a route.
    unreached: usize,
    /// Whether some layer's channel dependency graph has a cycle.
    cyclic: bool,
    /// Sum of hops over those pairs.
    hops: usize,
    /// Host-to-host routes per channel.
    load: Vec<u64>,
    /// The same, between hosts of one group only.
    effective: Vec<u64>,
}

/// The channels of a route; `None` if it does not arrive.
fn follow(
    fabric: &Fabric,
    tables: &Tables,
    source: SwitchId,
    dest: sarouter::model::DestId,
) -> Option<Vec<u32>> {
    let (mut at, mut route) = (source, Vec::new());
    while at != fabric.home(dest) {
        let PortPeer::Channel(c) = fabric.peer(at, tables.port(at, dest)?)? else { return None };
        route.push(c.index() as u32);
        at = fabric.channel(c).to;
        if route.len() > fabric.switches().len() {
            return None;
        }
    }
    (tables.port(at, dest) == Some(fabric.last_port(dest))).then_some(route)
}

fn walk(fabric: &Fabric, tables: &Tables, demand: &Demand) -> Walked {
    let channels = fabric.channels().len();
    let mut walked = Walked {
        unreached: 0,
        cyclic: false,
        hops: 0,
        load: vec![0; channels],
        effective: vec![0; channels],
    };
    let groups = demand.groups_of(fabric);
    let mut edges = vec![BTreeSet::new(); 15];
    for source in fabric.switch_ids() {
        let hosts: Vec<_> =
            fabric.attached(source).iter().filter(|t| fabric.terminal(**t).role == Role::Host).collect();
        for dest in fabric.dest_ids().filter(|_| !hosts.is_empty()) {
            let Some(route) = follow(fabric, tables, source, dest) else {
                walked.unreached += 1;
                continue;
            };
            match tables.layer(source, dest) {
                Some(layer) => edges[usize::from(layer.get())].extend(route.windows(2).map(|w| (w[0], w[1]))),
                // Allowed for switches without hosts only.
                None => assert!(!fabric.has_hosts(fabric.home(dest))),
            }
            let Some(terminal) = fabric.dest_terminal(dest) else { continue };
            walked.hops += route.len();
            let shared = |t: &&&sarouter::model::TerminalId| {
                groups[t.index()].iter().any(|g| groups[terminal.index()].contains(g))
            };
            let inside = hosts.iter().filter(shared).count() as u64;
            for c in route {
                walked.load[c as usize] += hosts.len() as u64;
                walked.effective[c as usize] += inside;
            }
        }
    }
    walked.cyclic = edges.iter().any(|e| is_cyclic_directed(&DiGraph::<(), ()>::from_edges(e)));
    walked
}

fn run(engine: &str, fabric: &Fabric, demand: &Demand, budget: u64) -> Result<Tables, RouteError> {
    let engine = route::engine(engine, &EngineOptions::default()).unwrap();
    engine.route(fabric, demand, LayerBudget::new(budget).unwrap())
}

/// Sum over sources and terminals of breadth-first distances.
fn shortest(fabric: &Fabric) -> usize {
    let mut sum = 0;
    for source in fabric.switch_ids().filter(|s| fabric.has_hosts(*s)) {
        let mut distance = vec![None; fabric.switches().len()];
        distance[source.index()] = Some(0);
        let mut queue = std::collections::VecDeque::from([source]);
        while let Some(s) = queue.pop_front() {
            sum += fabric.attached(s).len() * distance[s.index()].unwrap();
            for c in fabric.out(s) {
                let to = fabric.channel(*c).to;
                if distance[to.index()].is_none() {
                    distance[to.index()] = distance[s.index()].map(|d: usize| d + 1);
                    queue.push_back(to);
                }
            }
        }
    }
    sum
}

/// Small fabrics of every kind, some with cut cables, possibly in several parts.
fn fabrics() -> impl Strategy<Value = (String, Fabric)> {
    let spec = prop_oneof![
        (2usize..12, 1usize..20, 0usize..16, 0u64..1000)
            .prop_map(|(s, h, extra, seed)| format!("random:{s},{h},{},seed={seed}", s - 1 + extra)),
        (2usize..6, 2usize..5, 1usize..3).prop_map(|(x, y, h)| format!("torus:{x}x{y},hosts={h}")),
        (2usize..4, 2usize..4, 2usize..4).prop_map(|(x, y, z)| format!("torus:{x}x{y}x{z}")),
        (2usize..5, 2usize..5).prop_map(|(x, y)| format!("mesh:{x}x{y}")),
        (2usize..4, 2usize..4).prop_map(|(k, n)| format!("kary:{k},{n}")),
        (2usize..6, 1usize..5, 1usize..4).prop_map(|(l, h, s)| format!("fattree:{l}x{h},{s}")),
    ];
    (spec, 0usize..4, any::<u64>()).prop_map(|(spec, cuts, seed)| {
        let whole = generate(&spec).unwrap();
        let mut rng = sarouter::model::rng::Rng::new(seed);
        let cut: Vec<usize> = (0..cuts).map(|_| rng.below(whole.channels().len().max(2) / 2)).collect();
        let fabric = whole.without(|c| cut.contains(&(c.index() / 2)), |_| false).unwrap();
        (format!("{spec} without cables {cut:?}"), fabric)
    })
}

/// Pairs in different parts of the fabric, by union of cables.
fn apart(fabric: &Fabric) -> usize {
    let mut sets = petgraph::unionfind::UnionFind::new(fabric.switches().len());
    for c in fabric.channels() {
        sets.union(c.from.index(), c.to.index());
    }
    let sources = fabric.switch_ids().filter(|s| !fabric.attached(*s).is_empty());
    let separate =
        |s: SwitchId| fabric.dest_ids().filter(|d| !sets.equiv(s.index(), fabric.home(*d).index())).count();
    sources.map(separate).sum()
}

/// What an engine promises.
#[derive(Clone, Copy)]
struct Promise {
    engine: &'static str,
    minimal: bool,
    acyclic: bool,
}

const PROMISES: &[Promise] = &[
    Promise { engine: "sssp", minimal: true, acyclic: false },
    Promise { engine: "dfsssp", minimal: true, acyclic: true },
    Promise { engine: "minhop", minimal: true, acyclic: false },
    Promise { engine: "dor", minimal: true, acyclic: false },
    Promise { engine: "lash", minimal: true, acyclic: true },
    Promise { engine: "updown", minimal: false, acyclic: true },
    Promise { engine: "downup", minimal: false, acyclic: true },
    Promise { engine: "fattree", minimal: false, acyclic: true },
    Promise { engine: "torus", minimal: false, acyclic: true },
    Promise { engine: "sar", minimal: true, acyclic: true },
    Promise { engine: "sar-literal", minimal: true, acyclic: true },
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_pair_is_reached_in_its_layers((name, fabric) in fabrics()) {
        let (shortest, apart) = (shortest(&fabric), apart(&fabric));
        for promise in PROMISES {
            let tables = match run(promise.engine, &fabric, &Demand::oblivious(), 15) {
                Ok(tables) => tables,
                Err(RouteError::NotApplicable { .. }) => continue,
                Err(e) => return Err(TestCaseError::fail(format!("{name}: {e}"))),
            };
            let walked = walk(&fabric, &tables, &Demand::oblivious());
            prop_assert_eq!(walked.unreached, apart, "{} on {}", promise.engine, name);
            if promise.minimal {
                prop_assert_eq!(walked.hops, shortest, "{} on {}", promise.engine, name);
            }
            if promise.acyclic {
                prop_assert!(!walked.cyclic, "{} on {}", promise.engine, name);
                let verdict = judge(&fabric, &tables, LayerBudget::new(15).unwrap());
                prop_assert!(verdict.accepted, "{} on {}: {:?}", promise.engine, name, verdict.findings);
            }
        }
    }
}

/// Without cables drawn with probability `percent`.
fn cut(fabric: &Fabric, percent: usize, seed: u64) -> Fabric {
    let mut rng = sarouter::model::rng::Rng::new(seed);
    let cut: Vec<bool> = (0..fabric.channels().len() / 2).map(|_| rng.below(100) < percent).collect();
    fabric.without(|c| cut[c.index() / 2], |_| false).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Any number of dimensions, any number of faults, any budget: the engine never gives up.
    #[test]
    fn torus_routes_whatever_is_cut(
        sizes in prop_oneof![
            Just("5x5"), Just("7"), Just("6x5x2"), Just("5x5x5"), Just("4x4x4"), Just("3x2x3x2x2x2"), Just("8x3"),
        ],
        percent in 0usize..40,
        budget in 1u64..16,
        seed in any::<u64>(),
    ) {
        for kind in ["torus", "mesh"] {
            let fabric = cut(&generate(&format!("{kind}:{sizes},hosts=2")).unwrap(), percent, seed);
            let tables = run("torus", &fabric, &Demand::oblivious(), budget).unwrap();
            prop_assert!(u64::from(tables.layers_used()) <= budget);
            let walked = walk(&fabric, &tables, &Demand::oblivious());
            prop_assert!(!walked.cyclic && walked.unreached == apart(&fabric));
        }
    }

    /// Up*/down* with given roots, good or bad ones, on whatever fabric: one layer, no cycle.
    #[test]
    fn updown_takes_any_roots((name, fabric) in fabrics(), picks in prop::collection::vec(any::<u32>(), 1..4)) {
        let ids: Vec<SwitchId> = fabric.switch_ids().collect();
        let roots = picks.iter().map(|p| ids[*p as usize % ids.len()]).collect();
        let engine = route::engine("updown", &EngineOptions { roots, ..EngineOptions::default() }).unwrap();
        let tables = engine.route(&fabric, &Demand::oblivious(), LayerBudget::new(1).unwrap()).unwrap();
        let walked = walk(&fabric, &tables, &Demand::oblivious());
        prop_assert!(!walked.cyclic && walked.unreached == apart(&fabric), "{}", name);
        prop_assert!(tables.layers_used() <= 1);
    }

    /// A tree with cut cables stays routable; leaves without a common spine use the second layer.
    #[test]
    fn fattree_survives_faults(percent in 0usize..50, seed in any::<u64>(), spec in prop_oneof![
        Just("fattree:6x4,3"), Just("kary:3,3"), Just("kary:2,4"),
    ]) {
        let fabric = cut(&generate(spec).unwrap(), percent, seed);
        let tables = run("fattree", &fabric, &Demand::oblivious(), 2).unwrap();
        let walked = walk(&fabric, &tables, &Demand::oblivious());
        prop_assert!(!walked.cyclic && walked.unreached == apart(&fabric));
    }
}

/// Thesis section 3.3.5: on whole k-ary n-trees every channel between two levels carries the same,
/// and shifts are free of contention: `hosts × (hosts - hosts below)` routes over `k^n` channels.
#[test]
fn fattree_balances_kary_trees_perfectly() {
    let (k, n) = (4usize, 3u32);
    let fabric = generate(&format!("kary:{k},{n}")).unwrap();
    let tables = run("fattree", &fabric, &Demand::oblivious(), 1).unwrap();
    let loads: BTreeSet<u64> = walk(&fabric, &tables, &Demand::oblivious()).load.into_iter().collect();
    let hosts = k.pow(n);
    let expected = (1..n).map(|level| (hosts - k.pow(level)) as u64).collect();
    assert_eq!(loads, expected);
}

/// OpenSM's ftree refuses this fabric, where spines have three or four cables to a leaf; its
/// largest EFI anywhere is 198 (`minhop`).
#[test]
fn fattree_takes_uneven_uplinks() {
    let fabric = generate("fattree:10x18,5").unwrap();
    let tables = run("fattree", &fabric, &Demand::oblivious(), 1).unwrap();
    assert!(walk(&fabric, &tables, &Demand::oblivious()).load.iter().max() <= Some(&198));
}

/// Spines of this fabric have a terminal each, which makes no leaves of them.
#[test]
fn fattree_takes_spines_with_terminals() {
    let fabric = fabric::load(DGX).unwrap();
    let tables = run("fattree", &fabric, &Demand::oblivious(), 2).unwrap();
    let walked = walk(&fabric, &tables, &Demand::oblivious());
    assert!(!walked.cyclic);
    assert_eq!(walked.hops, shortest(&fabric));
    let mesh = generate("mesh:4x4,hosts=1").unwrap();
    assert!(matches!(run("fattree", &mesh, &Demand::oblivious(), 2), Err(RouteError::NotApplicable { .. })));
}

/// On a whole torus dimension order loads all channels alike.
#[test]
fn torus_balances_a_whole_torus_perfectly() {
    let fabric = generate("torus:5x5x5,hosts=2").unwrap();
    let tables = run("torus", &fabric, &Demand::oblivious(), 8).unwrap();
    let walked = walk(&fabric, &tables, &Demand::oblivious());
    assert_eq!(walked.load.iter().min(), walked.load.iter().max());
    assert_eq!(walked.hops, shortest(&fabric));
    assert_eq!(tables.layers_used(), 8);
}

/// Dimension order needs no layer but one on a whole mesh (thesis section 3.3.3), more on a torus.
#[test]
fn dor_is_deadlock_free_on_meshes_only() {
    let cyclic = |spec| {
        let fabric = generate(spec).unwrap();
        walk(&fabric, &run("dor", &fabric, &Demand::oblivious(), 1).unwrap(), &Demand::oblivious()).cyclic
    };
    assert!(!cyclic("mesh:4x4x4") && cyclic("torus:5x5"));
}

/// Thesis section 3.1.2: shortest paths around a ring of five close a cycle; two layers open it.
#[test]
fn a_ring_of_five_needs_two_layers() {
    let fabric = generate("torus:5").unwrap();
    let flat = run("sssp", &fabric, &Demand::oblivious(), 1).unwrap();
    assert!(walk(&fabric, &flat, &Demand::oblivious()).cyclic);
    assert_eq!(run("dfsssp", &fabric, &Demand::oblivious(), 2).unwrap().layers_used(), 2);
    let refused = run("dfsssp", &fabric, &Demand::oblivious(), 1).unwrap_err();
    assert_eq!(refused, RouteError::OutOfBudget { engine: "dfsssp", budget: 1, needed: 2 });
}

/// Layers are counted beyond the budget, and with that many the engine succeeds.
#[test]
fn the_number_of_layers_needed_is_the_number_that_suffices() {
    let fabric = generate("torus:5x5,hosts=2").unwrap();
    let Err(RouteError::OutOfBudget { needed, .. }) = run("dfsssp", &fabric, &Demand::oblivious(), 1) else {
        panic!("a torus needs several layers")
    };
    let tables = run("dfsssp", &fabric, &Demand::oblivious(), needed as u64).unwrap();
    assert_eq!(usize::from(tables.layers_used()), needed);
    assert!(run("dfsssp", &fabric, &Demand::oblivious(), needed as u64 - 1).is_err());
    assert!(!walk(&fabric, &tables, &Demand::oblivious()).cyclic);
}

/// Trees of switches have no cycle to break, and destinations on spines keep a layer.
#[test]
fn trees_stay_on_one_layer() {
    for spec in ["fattree:10x18,5", "kary:4,3"] {
        let fabric = generate(spec).unwrap();
        let tables = run("dfsssp", &fabric, &Demand::oblivious(), 1).unwrap();
        let walked = walk(&fabric, &tables, &Demand::oblivious());
        assert!(!walked.cyclic && walked.unreached == 0);
        for (d, s) in fabric.dest_ids().flat_map(|d| fabric.switch_ids().map(move |s| (d, s))) {
            assert_eq!(tables.layer(s, d).is_some(), !fabric.attached(s).is_empty(), "{spec}");
        }
    }
}

/// Terminals by host number (`n1` is 1), as ranges.
fn hosts(fabric: &Fabric, ranges: &[std::ops::RangeInclusive<usize>]) -> Vec<sarouter::model::TerminalId> {
    let wanted: BTreeSet<String> = ranges.iter().flat_map(|r| r.clone()).map(|n| format!("n{n}")).collect();
    fabric.host_ids().filter(|t| wanted.contains(&fabric.terminal(*t).description)).collect()
}

/// On trees every switch of the top level is a root. OpenSM's updn has a largest EFI of 198 and
/// 10,890 here; no tables have less than 162 and 1,199.
#[test]
fn updown_balances_trees() {
    for (spec, largest) in [("fattree:10x18,5", 180), ("kary:10,3,hosts=11", 1221)] {
        let fabric = generate(spec).unwrap();
        let tables = run("updown", &fabric, &Demand::oblivious(), 1).unwrap();
        let walked = walk(&fabric, &tables, &Demand::oblivious());
        assert!(!walked.cyclic && walked.unreached == 0, "{spec}");
        assert_eq!(walked.hops, shortest(&fabric), "{spec}");
        assert!(walked.load.iter().max() <= Some(&largest), "{spec}: {:?}", walked.load.iter().max());
    }
}

/// Where few switches have thick bundles of cables, trees shared by the terminals of a switch lead whole
/// bundles over one cable: 2420 and 473 routes.
#[test]
fn bundles_of_cables_are_shared_out_among_terminals() {
    let fabric = generate("kautz:2,4,hosts=11,redundancy=6").unwrap();
    for (engine, most) in [("updown", 1_056), ("sssp", 418)] {
        let tables = run(engine, &fabric, &Demand::oblivious(), 1).unwrap();
        let found = measure(&fabric, &tables, &Demand::oblivious()).load.max;
        assert!(found <= most, "{engine}: {found}");
    }
}

/// OpenSM's updn keeps turns from down to up on fabrics like this one; `updown` must not.
#[test]
fn updown_is_deadlock_free_on_irregular_fabrics() {
    for seed in 0..4 {
        let fabric = generate(&format!("random:60,120,180,seed={seed}")).unwrap();
        let tables = run("updown", &fabric, &Demand::oblivious(), 1).unwrap();
        let walked = walk(&fabric, &tables, &Demand::oblivious());
        assert!(!walked.cyclic && walked.unreached == 0, "seed {seed}");
    }
}

/// Same input, same bytes, whatever the thread count: every engine there is.
#[test]
fn the_number_of_threads_does_not_matter() {
    let fabric = generate("torus:4x4,hosts=3").unwrap();
    let groups = [vec![1..=20], vec![21..=44]];
    let groups = groups.iter().map(|g| sarouter::model::Group::new(hosts(&fabric, g))).collect();
    let demand = Demand::new(groups, Vec::new());
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let (one, two) = (pool(1), pool(2));
    for engine in route::names() {
        let alone = one.install(|| run(engine, &fabric, &demand, 8));
        assert_eq!(alone, two.install(|| run(engine, &fabric, &demand, 8)), "{engine}");
    }
}

/// The same where the tables are large enough for threads to share the work.
#[test]
fn threads_that_share_large_tables_change_nothing() {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let (one, three) = (pool(1), pool(3));
    for (spec, engines) in [
        ("torus:8x8x8,hosts=4,faults=1%,seed=7", &["minhop", "dor", "updown", "sssp", "lash"][..]),
        ("kary:12,3,hosts=14", &["minhop", "updown", "fattree", "sssp", "dfsssp"][..]),
    ] {
        let fabric = generate(spec).unwrap();
        assert!(fabric.dest_count() * fabric.switches().len() >= 1 << 20, "{spec}");
        for engine in engines {
            let made = |pool: &rayon::ThreadPool| {
                pool.install(|| run(engine, &fabric, &Demand::oblivious(), 8).unwrap())
            };
            assert!(made(&one) == made(&three), "{engine} on {spec}");
        }
    }
}

/// What OpenSM 3.3.23's engines of the same names put on their fullest channel (docs/results/engines.md); no
/// tables have less than 1,003, 1,037, 1,199, 630 and 8,457.
#[test]
fn the_fullest_channel_carries_less_than_with_opensm() {
    for (spec, engine, opensm) in [
        ("random:125,1000,1000,seed=1", "sssp", 1_824),
        ("random:125,1000,1000,seed=1", "dfsssp", 1_824),
        ("random:125,1000,1000,seed=1", "nue", 1_816),
        ("dragonfly:12,6,6,15", "sssp", 2_016),
        ("dragonfly:12,6,6,15", "dfsssp", 2_016),
        ("dragonfly:12,6,6,15", "nue", 1_836),
        ("kary:10,3,hosts=11", "nue", 1_980),
        ("kary:10,3,hosts=11", "sssp", 2_046),
        ("kary:10,3,hosts=11", "dfsssp", 2_046),
        (DGX, "sssp", 925),
        (DGX, "dfsssp", 925),
        ("torus:8x8x8,hosts=4,faults=1%,seed=7", "sssp", 11_664),
        ("dragonfly:12,6,6,15", "updown", 13_782),
        ("torus:8x8x8,hosts=4,faults=1%,seed=7", "updown", 133_604),
    ] {
        let is_file = spec.ends_with(".ibnetdiscover");
        let fabric = if is_file { fabric::load(spec).unwrap() } else { generate(spec).unwrap() };
        let tables = run(engine, &fabric, &Demand::oblivious(), 8).unwrap();
        let largest = measure(&fabric, &tables, &Demand::oblivious()).load.max;
        assert!(largest < opensm, "{engine} on {spec}: {largest}");
    }
}
