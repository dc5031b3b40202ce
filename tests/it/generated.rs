//! Generated fabrics against the counts of the literature; damage; specs that cannot be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use sarouter::lab::generate::{SpecError, generate};
use sarouter::model::{Fabric, PortNum, PortPeer, SwitchId};

fn make(spec: &str) -> Fabric {
    generate(spec).unwrap_or_else(|e| panic!("{e}"))
}

/// Switches, hosts, inter-switch cables.
fn counts(spec: &str) -> [usize; 3] {
    let f = make(spec);
    [f.switches().len(), f.host_ids().count(), f.channels().len() / 2]
}

/// Hops to the farthest switch from each switch; `None` if some cannot be reached.
fn eccentricities(f: &Fabric) -> Option<Vec<usize>> {
    f.switch_ids()
        .map(|start| {
            let mut hops = vec![usize::MAX; f.switches().len()];
            hops[start.index()] = 0;
            let mut queue = VecDeque::from([start]);
            while let Some(s) = queue.pop_front() {
                for c in f.out(s) {
                    let to = f.channel(*c).to;
                    if hops[to.index()] == usize::MAX {
                        hops[to.index()] = hops[s.index()] + 1;
                        queue.push_back(to);
                    }
                }
            }
            hops.into_iter().max().filter(|h| *h != usize::MAX)
        })
        .collect()
}

fn diameter(spec: &str) -> usize {
    eccentricities(&make(spec)).unwrap().into_iter().max().unwrap()
}

/// Cables per switch -> how many switches have that many.
fn degrees(f: &Fabric) -> BTreeMap<usize, usize> {
    let mut degrees = BTreeMap::new();
    f.switch_ids().for_each(|s| *degrees.entry(f.out(s).len()).or_default() += 1);
    degrees
}

/// Different neighbours of each switch.
fn neighbours(f: &Fabric, s: SwitchId) -> BTreeSet<SwitchId> {
    f.out(s).iter().map(|c| f.channel(*c).to).collect()
}

/// Thesis Table 6.1. Its "Kautz(7,3)" is a Kautz graph of degree 5: one of degree 7 has 392
/// switches, as in Table 4.4.
#[test]
fn counts_of_table_6_1() {
    assert_eq!(counts("random:125,1000,1000"), [125, 1000, 1000]);
    assert_eq!(counts("torus:6x5x5,hosts=7,redundancy=4"), [150, 1050, 1800]);
    assert_eq!(counts("kary:10,3,hosts=11"), [300, 1100, 2000]);
    assert_eq!(counts("kautz:5,3,hosts=7,redundancy=2"), [150, 1050, 1500]);
    assert_eq!(counts("dragonfly:12,6,6,15"), [180, 1080, 1515]);
    assert_eq!(counts("cascade:2"), [192, 1536, 3072]);
    assert_eq!(counts("tsubame2"), [243, 1408, 3384]);
    assert_eq!(counts("taurus"), [211, 2090, 2490]);
}

/// Thesis Table 4.2; two of the host counts are not a multiple of the switches there.
#[test]
fn counts_of_table_4_2() {
    assert_eq!(counts("mesh:5x5,hosts=11,redundancy=6"), [25, 275, 240]);
    assert_eq!(counts("mesh:3x3x3,hosts=10,redundancy=4"), [27, 270, 216]);
    assert_eq!(counts("torus:5x5,hosts=11,redundancy=6"), [25, 275, 300]);
    assert_eq!(counts("torus:3x3x3,hosts=10,redundancy=4"), [27, 270, 324]);
    assert_eq!(counts("kautz:2,4,hosts=11,redundancy=6"), [24, 264, 288]);
    assert_eq!(counts("kary:16,2"), [32, 256, 256]);
    assert_eq!(counts("xgft:1;22;11,hosts=12"), [33, 264, 242]);
    assert_eq!(counts("dragonfly:10,5,5,4"), [40, 200, 276]);
    assert_eq!(counts("random:32,256,256"), [32, 256, 256]);
    assert_eq!(counts("kautz:7,3,hosts=6"), [392, 2352, 2744]);
}

#[test]
fn the_real_systems_fit_their_switches() {
    for (spec, ports) in
        [("taurus", 36), ("tsubame2", 36), ("tsubame2:rail=1", 36), ("deimos", 24), ("cascade:11", 48)]
    {
        let f = make(spec);
        let most = f.switches().iter().map(|s| s.ports).max().unwrap();
        assert_eq!(most, ports, "{spec}");
        assert!(eccentricities(&f).is_some(), "{spec} is connected");
    }
    assert_eq!(counts("tsubame2:rail=1"), [258, 1555, 3621]);
    let [switches, hosts, cables] = counts("deimos");
    assert_eq!((switches, hosts + cables), (108, 1653));
}

#[test]
fn trees_have_their_form() {
    // An m-ary n-tree is an XGFT.
    assert_eq!(make("xgft:2;4,4;4,4").fingerprint(), make("kary:4,3").fingerprint());
    assert_eq!(diameter("kary:4,3"), 4);
    assert_eq!(degrees(&make("kary:4,3")), BTreeMap::from([(4, 32), (8, 16)]));
    // m = 3, 2 and w = 2, 5: 6 leaves of degree 2, 2 * 2 switches of 3 + 5, 10 roots of 2.
    let f = make("xgft:2;3,2;2,5,hosts=1");
    assert_eq!((f.switches().len(), f.channels().len() / 2), (6 + 4 + 10, 6 * 2 + 4 * 5));
    assert_eq!(degrees(&f), BTreeMap::from([(2, 16), (8, 4)]));
    assert_eq!(diameter("xgft:2;3,2;2,5"), 4);
    assert_eq!(counts("fattree:10x18,5"), [15, 180, 180]);
    let f = make("fattree:10x18,5");
    assert_eq!(degrees(&f), BTreeMap::from([(18, 10), (36, 5)]));
    // Eighteen uplinks over five spines: three or four to each, and evenly in sum.
    assert!(f.switch_ids().take(10).all(|s| neighbours(&f, s).len() == 5));
}

#[test]
fn lattices_have_their_form() {
    assert_eq!(counts("torus:4x3x2,hosts=2"), [24, 48, 24 + 24 + 12]);
    assert_eq!(diameter("torus:8x8x8"), 12);
    assert_eq!(diameter("mesh:4x3"), 5);
    assert_eq!(counts("hyperx:4x3,hosts=3"), [12, 36, 12 * (3 + 2) / 2]);
    assert_eq!(diameter("hyperx:4x3x5"), 3);
    let f = make("hyperx:4x3x5");
    assert_eq!(degrees(&f), BTreeMap::from([(9, 60)]));
    assert!(f.switch_ids().all(|s| neighbours(&f, s).len() == 9));
}

#[test]
fn slim_flies_have_diameter_two_and_their_degree() {
    for (q, delta) in
        [(3, -1), (4, 0), (5, 1), (7, -1), (8, 0), (9, 1), (11, -1), (13, 1), (16, 0), (25, 1), (27, -1)]
    {
        let f = make(&format!("slimfly:{q}"));
        let degree = ((3 * q - delta) / 2) as usize;
        assert_eq!(f.switches().len() as i32, 2 * q * q, "q = {q}");
        assert_eq!(degrees(&f), BTreeMap::from([(degree, f.switches().len())]), "q = {q}");
        assert!(f.switch_ids().all(|s| neighbours(&f, s).len() == degree), "q = {q}: parallel cables");
        assert!(eccentricities(&f).unwrap().iter().all(|e| *e == 2), "q = {q}: diameter");
    }
    // Hoffman and Singleton's graph: the largest of degree 7 and diameter 2. Hosts: 7 / 2, up.
    assert_eq!(counts("slimfly:5"), [50, 200, 175]);
    assert_eq!(counts("slimfly:19,hosts=15"), [722, 10830, 722 * 29 / 2]);
}

#[test]
fn kautz_graphs_have_diameter_n() {
    for (d, n) in [(2, 1), (2, 4), (3, 2), (3, 3), (7, 3)] {
        let f = make(&format!("kautz:{d},{n}"));
        let switches = (d + 1) * usize::pow(d, n as u32 - 1);
        assert_eq!(f.switches().len(), switches);
        assert_eq!(degrees(&f), BTreeMap::from([(2 * d, switches)]), "d in and d out");
        // With cables in both directions it can only be less, and is for some.
        assert!(eccentricities(&f).unwrap().into_iter().max().unwrap() <= n);
    }
    assert_eq!(diameter("kautz:7,3"), 3);
    // Table 3.1: 2d different neighbours, but for words such as 0101 that lead back.
    let f = make("kautz:3,3");
    let back = f.switch_ids().filter(|s| neighbours(&f, *s).len() == 5).count();
    assert_eq!((back, f.switch_ids().filter(|s| neighbours(&f, *s).len() == 6).count()), (12, 24));
}

#[test]
fn dragonflies_have_diameter_three() {
    for spec in ["dragonfly:12,6,6,15", "dragonfly:14,7,7,23", "dragonfly:4,2,2,9", "dragonfly:4,2,2,5"] {
        assert_eq!(diameter(spec), 3, "{spec}");
    }
    // The full-size one: each pair of groups has one cable, each switch a - 1 + h.
    assert_eq!(degrees(&make("dragonfly:4,2,2,9")), BTreeMap::from([(5, 36)]));
    assert_eq!(counts("dragonfly:4,2,2,1"), [4, 8, 6]);
    let f = make("dragonfly:12,6,6,15");
    assert!(f.switch_ids().all(|s| f.out(s).len() <= 11 + 6));
}

#[test]
fn cascades_have_twenty_neighbours_inside_a_group() {
    let f = make("cascade:1");
    assert!(f.switch_ids().all(|s| neighbours(&f, s).len() == 20 && f.out(s).len() == 30));
    // Thesis 3.2.4: up to 241 groups with bundles of four; every switch has ten global cables.
    let f = make("cascade:11,hosts=4");
    assert_eq!(degrees(&f), BTreeMap::from([(40, 11 * 96)]));
    assert_eq!(counts("cascade:3,global=4"), [288, 2304, 3 * 1440 + 12]);
}

#[test]
fn hosts_come_before_cables_on_the_ports() {
    let f = make("torus:3x3,hosts=2");
    let first = f.switch_ids().next().unwrap();
    let peers: Vec<bool> = (1..=6)
        .map(|p| matches!(f.peer(first, PortNum::new(p).unwrap()), Some(PortPeer::Terminal(_))))
        .collect();
    assert_eq!(peers, [true, true, false, false, false, false]);
}

#[test]
fn faults_are_as_many_as_asked_and_split_nothing() {
    assert_eq!(counts("torus:10x10x10,hosts=4,faults=1%,seed=7"), [1000, 4000, 2970]);
    assert_eq!(counts("fattree:10x18,5,faults=12"), [15, 180, 168]);
    assert_eq!(counts("torus:4x4x4,dead-switches=3,hosts=2")[..2], [61, 122]);
    // 15 cables of 24 must stay.
    assert_eq!(counts("mesh:4x4,faults=9"), [16, 16, 15]);
    assert!(eccentricities(&make("mesh:4x4,faults=9,seed=3")).is_some());
    assert!(matches!(generate("mesh:4x4,faults=10"), Err(SpecError::Faults { .. })));
    assert!(matches!(generate("mesh:4x4,dead-switches=16"), Err(SpecError::Faults { .. })));
    assert_eq!(make("torus:5x5,faults=0%").fingerprint(), make("torus:5x5").fingerprint());
}

#[test]
fn seeds_matter_and_repeat() {
    let print = |spec: &str| make(spec).fingerprint();
    assert_eq!(print("torus:5x5,faults=3,seed=7"), print("torus:5x5,faults=3,seed=7"));
    assert_ne!(print("torus:5x5,faults=3,seed=7"), print("torus:5x5,faults=3,seed=8"));
    assert_ne!(print("random:20,20,40,seed=1"), print("random:20,20,40,seed=2"));
    assert_eq!(print("random:20,20,40"), print("random:20,20,40,seed=1"));
}

/// Not to be built: by their words, their figures or their size.
const IMPOSSIBLE: &[&str] = &[
    "torus:0x4",
    "torus:",
    "torus",
    "torus:4x4,4x4",
    "torus:axb",
    "torus:-1x2",
    "torus:65535x65535",
    "torus:18446744073709551615x2",
    "torus:4x4,hosts=99999999999",
    "torus:4x4,hosts=255",
    "torus:4x4,hosts=x",
    "torus:4x4,host=1",
    "torus:4x4,hosts=1,hosts=2",
    "torus:200x200,hosts=2",
    "mesh:1x1x0",
    "fattree:10x18",
    "fattree:0x1,1",
    "fattree:65535x65535,65535",
    "fattree:1x18446744073709551615,1",
    "fattree:18446744073709551615x1,1",
    "kary:10",
    "kary:0,2",
    "kary:1000,1000",
    "kary:2,18446744073709551615",
    "kary:1,18446744073709551615",
    "xgft:2;2;2",
    "xgft:2;2,2;2",
    "xgft:x;2;2",
    "xgft:1;0;1",
    "xgft:3;65535,65535,65535;1,1,1",
    "xgft:1;1;18446744073709551615",
    "hyperx:300",
    "hyperx:70000x2",
    "slimfly:6",
    "slimfly:12",
    "slimfly:2",
    "slimfly:1",
    "slimfly:10",
    "slimfly:15",
    "slimfly:99999999999",
    "dragonfly:4,2,2,10",
    "dragonfly:0,1,1,1",
    "dragonfly:4,2,2",
    "dragonfly:99999999999,1,99999999999,3",
    "cascade:0",
    "cascade:1000",
    "cascade:2,global=961",
    "cascade:18446744073709551615",
    "kautz:0,3",
    "kautz:7,99",
    "kautz:18446744073709551615,1",
    "kautz:200,1",
    "random:1,1,1",
    "random:10,10,5",
    "random:2,2,18446744073709551615",
    "random:99999999999,1,99999999999",
    "random:4,18446744073709551615,4",
    "torus:4x4,faults=101%",
    "torus:4x4,faults=-1%",
    "torus:4x4,faults=NaN%",
    "torus:4x4,faults=x",
    "torus:4x4,redundancy=0",
    "torus:4x4,redundancy=64",
    "torus:4x4,seed=x",
    "taurus:3",
    "tsubame2:rail=3",
    "tsubame2:spread=2",
    "nonsense:4",
    "",
];

/// Each is refused with the spec and at once: none may try to build what it asks for.
#[test]
fn impossible_specs_are_refused() {
    for spec in IMPOSSIBLE {
        let error = generate(spec).map(|f| f.switches().len()).unwrap_err().to_string();
        assert!(error.contains(&format!("{spec:?}")), "{spec}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_fabrics_are_connected_and_as_large_as_asked(
        switches in 2usize..40, hosts in 1usize..80, more in 0usize..60, seed in any::<u64>(), faults in 0usize..60,
    ) {
        let faults = faults.min(more);
        let f = make(&format!("random:{switches},{hosts},{},seed={seed},faults={faults}", switches - 1 + more));
        prop_assert_eq!(f.switches().len(), switches);
        prop_assert_eq!(f.host_ids().count(), hosts);
        prop_assert_eq!(f.channels().len() / 2, switches - 1 + more - faults);
        prop_assert!(eccentricities(&f).is_some());
    }

    #[test]
    fn no_spec_panics(
        kind in prop::sample::select(vec!["fattree", "kary", "xgft", "torus", "hyperx", "slimfly", "dragonfly", "cascade", "kautz", "random"]),
        rest in "[0-9]{0,2}[x,;][0-9]{0,2}[x,;]?[0-9]{0,2}(,hosts=[0-9]{1,3})?(,faults=[0-9]%)?(,dead-switches=[0-9])?",
    ) {
        let _ = generate(&format!("{kind}:{rest}"));
    }
}
