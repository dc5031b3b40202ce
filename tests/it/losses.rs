//! Cables and switches are lost and come back, one after the other, and the service publishes for what is left.

use std::collections::BTreeSet;
use std::sync::Arc;

use sarouter::lab::generate::generate;
use sarouter::model::rng::Rng;
use sarouter::model::{ChannelId, DestId, Fabric, PortPeer, Promise, SwitchId, Tables, TerminalId};
use sarouter::pass::plan::{Published, Reason};
use sarouter::service::pass::EpochLine;
use sarouter::verify::Beside;

use crate::live::{Site, judge};
use crate::often::often;

/// A fabric of which some cables and switches are not there.
pub struct Damaged {
    whole: Fabric,
    cables: BTreeSet<usize>,
    switches: BTreeSet<usize>,
}

impl Damaged {
    pub fn new(whole: Fabric) -> Self {
        Self { whole, cables: BTreeSet::new(), switches: BTreeSet::new() }
    }

    /// Loses a cable or a switch, or gets one back; whether that is a loss. Never so much that little is left.
    pub fn change(&mut self, rng: &mut Rng) -> bool {
        let (cables, switches) = (self.whole.channels().len() / 2, self.whole.switches().len());
        let back = match (self.switches.len(), self.cables.len()) {
            (0, 0) => false,
            (_, lost) if lost * 10 >= cables => true,
            _ => rng.below(10) < 4,
        };
        let is_switch = rng.below(5) == 0;
        match (back, is_switch) {
            (true, _) if !self.switches.is_empty() && (is_switch || self.cables.is_empty()) => {
                self.switches.pop_first();
            }
            (true, _) => {
                let cable = self.cables.iter().nth(rng.below(self.cables.len())).copied();
                cable.map(|cable| self.cables.remove(&cable));
            }
            (false, true) if self.switches.len() < 2 => drop(self.switches.insert(rng.below(switches))),
            (false, _) => drop(self.cables.insert(rng.below(cables))),
        }
        !back
    }

    pub fn now(&self) -> Arc<Fabric> {
        let cut = |c: ChannelId| self.cables.contains(&(c.index() / 2));
        Arc::new(self.whole.without(cut, |s| self.switches.contains(&s.index())).unwrap())
    }
}

/// What the changes of a fabric were like.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    changes: usize,
    /// Every turn of before has the VL of before.
    map_stays: usize,
    /// Old and new may be mixed, in one step or, `halfway`, in each of two, or, `drained`, of three.
    safe: usize,
    halfway: usize,
    drained: usize,
}

impl Count {
    fn add(&mut self, change: Change) {
        self.changes += 1;
        self.map_stays += usize::from(change.map_stays);
        self.safe += usize::from(change.is_safe);
        self.halfway += usize::from(change.steps > 1);
        self.drained += usize::from(change.drained);
    }
}

struct Change {
    map_stays: bool,
    is_safe: bool,
    steps: usize,
    drained: bool,
}

/// A pass after a change: what it published reaches everyone left with any SL, and may be mixed with what was in
/// force if it says so.
pub fn step(site: &mut Site, fabric: &Arc<Fabric>, what: &str) -> EpochLine {
    let before = in_force(site, fabric);
    let line = site.pass(fabric).unwrap().epoch.unwrap();
    assert_eq!(line.reason, Reason::FabricChanged, "{what}");
    let (_, tables, promise) = site.in_force(fabric);
    // In a tree switches that lost a cable answer some hosts after the second of two steps. In lanes those wait whom the
    // loss cut off, and nobody else; in the first of three both.
    let later = Beside::of_step(line.halfway, tables.lanes().is_some(), line.drained);
    let alone = judge(fabric, &tables, "any+reply", later);
    assert!(alone.accepted, "{what}: {:?}", alone.findings);
    let mixed = std::slice::from_ref(&*before.tables);
    let beside = Beside { mixed, ..later };
    let both = judge(fabric, &tables, "any+mixed", beside);
    assert_eq!((both.accepted, line.mixed), (promise.mixed, promise.mixed), "{what}");
    let now = in_force(site, fabric);
    assert_eq!((line.halfway, line.drained), (now.halfway, now.drained), "{what}");
    assert!(now.certificate.is_some(), "{what}: OpenSM's plugin would not go around the next loss");
    if line.drained {
        is_part(&tables, &before.tables, fabric, what);
    }
    line
}

/// The first of three steps has nothing but what was in force, in the lanes of before, and all that leads hosts to hosts.
fn is_part(tables: &Tables, before: &Tables, fabric: &Fabric, what: &str) {
    assert_eq!(tables.lanes(), before.lanes(), "{what}");
    let arriving = [before, tables].map(|tables| arriving(fabric, tables));
    let pairs = || fabric.dest_ids().flat_map(|d| fabric.switch_ids().map(move |s| (s, d)));
    for (s, d) in pairs().filter(|(s, d)| tables.port(*s, *d).is_some() && *s != fabric.home(*d)) {
        assert_eq!(tables.port(s, d), before.port(s, d), "{what}");
    }
    let [old, new] = arriving.map(|all| {
        let hosts = pairs().filter(|(s, d)| fabric.is_host_dest(*d) && fabric.has_hosts(*s));
        hosts.filter(|(s, d)| all[d.index()][s.index()]).count()
    });
    assert_eq!(new, old, "{what}");
}

/// What is on the disk, on the fabric of now.
fn in_force(site: &Site, fabric: &Fabric) -> Published {
    let number = site.store.current().unwrap().unwrap();
    site.store.epoch(number).unwrap().published(fabric).unwrap()
}

/// Whether turns between the cables of before have the lanes of before.
fn map_stays(before: &Published, after: &Published, fabric: &Fabric) -> bool {
    let (Some(old), Some(new)) = (&before.lanes, &after.lanes) else {
        return before.lanes.is_none() && after.lanes.is_none();
    };
    let known = old.closure.used(fabric);
    let turns = fabric.channel_ids().flat_map(|c| {
        let first = *fabric.channel(c);
        fabric.out(first.to).iter().map(move |next| (c, first, *next))
    });
    let mut both = turns.filter(|(c, _, next)| known[c.index()] && known[next.index()]);
    both.all(|(_, first, next)| {
        let row = |lanes: &sarouter::model::FabricLanes| {
            *lanes.map.row(first.to, first.to_port, fabric.channel(next).from_port)
        };
        row(old) == row(new)
    })
}

/// Losses, and then returns.
fn lose(spec: &str, seed: u64, rounds: usize) -> [Count; 2] {
    let mut damaged = Damaged::new(generate(spec).unwrap());
    let mut rng = Rng::new(seed);
    let mut site = Site::new("balanced", Promise::EVERYTHING, seed);
    let mut counts = [Count::default(); 2];
    let mut fabric = damaged.now();
    site.pass(&fabric).unwrap();
    while counts[0].changes + counts[1].changes < rounds {
        let last = fabric.fingerprint();
        let is_loss = damaged.change(&mut rng);
        fabric = damaged.now();
        if fabric.fingerprint() == last {
            continue;
        }
        let what = format!("{spec} change {}", counts[0].changes + counts[1].changes);
        let before = in_force(&site, &fabric);
        let mut lines = vec![step(&mut site, &fabric, &what)];
        while lines[lines.len() - 1].halfway {
            assert!(lines[lines.len() - 1].mixed, "{what}: a first step is proved");
            lines.push(step(&mut site, &fabric, &what));
        }
        assert!(lines.iter().all(|line| line.difference == lines[0].difference), "{what}");
        assert!(lines[0].difference.is_some(), "{what}");
        let (steps, drained) = (lines.len(), lines[0].drained);
        assert!(steps <= if drained { 3 } else { 2 }, "{what}: {steps} steps");
        let is_safe = lines.iter().all(|line| line.mixed);
        // Less is in force after the first of three, but it may still not go with what comes.
        assert!(is_safe || steps == 1 || drained, "{what}: the second step");
        let map_stays = map_stays(&before, &in_force(&site, &fabric), &fabric);
        counts[usize::from(!is_loss)].add(Change { map_stays, is_safe, steps, drained });
        // Nothing more is due.
        let nodes = Arc::new(sarouter::observe::nodes::name_hosts(&fabric, &Default::default()));
        let jobs = sarouter::model::JobMap::new(Default::default(), Vec::new());
        let policy = site.policy.clone();
        let view = sarouter::pass::step::View::new(Arc::clone(&fabric), nodes, jobs, policy);
        assert!(
            sarouter::service::pass::pass(&site.store, 20, &view, None).unwrap().epoch.is_none(),
            "{what}"
        );
    }
    counts
}

const FABRICS: [&str; 5] = [
    "torus:4x3x3,hosts=2",
    "dragonfly:4,2,2,9",
    "random:20,40,60,seed=4",
    "hyperx:3x3x2,hosts=3",
    "kary:3,3",
];

fn lose_on_each(rounds: usize) {
    let (mut changes, mut safe) = (0, 0);
    for (seed, spec) in FABRICS.into_iter().enumerate() {
        for (what, count) in ["lost", "back"].into_iter().zip(lose(spec, seed as u64, rounds)) {
            println!("{spec} {what}: {count:?}");
            (changes, safe) = (changes + count.changes, safe + count.safe);
        }
    }
    assert!(changes == FABRICS.len() * rounds && safe * 25 >= changes * 24, "{safe} of {changes}");
}

#[test]
fn after_each_loss_everyone_is_reached_with_any_sl() {
    // `after_500_losses` begins with the same ones.
    lose_on_each(often(8, 5));
}

/// Switches whose packets arrive by tables, by destination.
pub fn arriving(fabric: &Fabric, tables: &Tables) -> Vec<Vec<bool>> {
    let next = |s: SwitchId, d| match tables.port(s, d).and_then(|port| fabric.peer(s, port)) {
        Some(PortPeer::Channel(c)) => Some(fabric.channel(c).to),
        _ => None,
    };
    let arrives = |s: SwitchId, d| {
        let mut way = std::iter::successors(Some(s), |s| next(*s, d)).take(fabric.switches().len());
        way.any(|s| s == fabric.home(d))
    };
    fabric.dest_ids().map(|d| fabric.switch_ids().map(|s| arrives(s, d)).collect()).collect()
}

/// Tables without the next hops of some switches to some destinations.
pub fn without_ways(fabric: &Fabric, tables: &Tables, is_gone: impl Fn(DestId, SwitchId) -> bool) -> Tables {
    let (mut ports, mut layers) = tables.clone().into_raw();
    for (d, s) in fabric.dest_ids().flat_map(|d| fabric.switch_ids().map(move |s| (d, s))) {
        if is_gone(d, s) {
            let at = d.index() * fabric.switches().len() + s.index();
            (ports[at], layers[at]) = (Tables::UNREACHABLE, Tables::NO_LAYER);
        }
    }
    Tables::new(fabric, "first step", ports, layers).unwrap().with_lanes(tables.lanes().cloned())
}

#[test]
fn only_whom_a_loss_has_cut_off_may_wait_for_the_second_step() {
    let whole = Arc::new(generate("torus:3x3,hosts=1").unwrap());
    let mut site = Site::new("balanced", Promise::EVERYTHING, 1);
    site.pass(&whole).unwrap();
    let cut = whole.without(|c| c.index() / 2 == 0, |_| false).unwrap();
    let before = in_force(&site, &cut).tables;
    let arriving = arriving(&cut, &before);
    let is_led = |d: DestId, s: SwitchId| arriving[d.index()][s.index()];
    let first = without_ways(&cut, &before, |d, s| !is_led(d, s));
    let mixed = std::slice::from_ref(&*before);
    let accepts = |tables: &Tables, lost_later| {
        judge(&cut, tables, "any+mixed", Beside { mixed, lost_later, ..Beside::default() }).accepted
    };
    assert_eq!([true, false].map(|later| accepts(&first, later)), [true, false]);
    let d = cut.dest_of_terminal(cut.host_ids().next().unwrap());
    // The farthest one: nobody is led through it.
    let others = cut.switch_ids().filter(|s| *s != cut.home(d) && is_led(d, *s));
    let one = others.max_by_key(|s| hops(&cut, &before, *s, d)).unwrap();
    let more = without_ways(&cut, &first, |other, s| other == d && s == one);
    assert!(!accepts(&more, true), "it cuts off somebody else");
}

fn hops(fabric: &Fabric, tables: &Tables, from: SwitchId, d: DestId) -> usize {
    let next = |s: &SwitchId| match tables.port(*s, d).and_then(|port| fabric.peer(*s, port)) {
        Some(PortPeer::Channel(c)) => Some(fabric.channel(c).to),
        _ => None,
    };
    std::iter::successors(Some(from), next).take(fabric.switches().len()).count()
}

/// A switch without hosts may wait for its way to a host, but not where another host's way leads over it.
#[test]
fn nobody_waits_because_of_a_switch_on_the_way() {
    let fabric = Arc::new(generate("fattree:3x2,2").unwrap());
    let mut site = Site::new("balanced", Promise::EVERYTHING, 1);
    site.pass(&fabric).unwrap();
    let before = in_force(&site, &fabric).tables;
    let d = fabric.dest_of_terminal(fabric.host_ids().next().unwrap());
    let spines = || fabric.switch_ids().filter(|s| !fabric.has_hosts(*s));
    let leads = |spine: SwitchId| {
        let next = |s| fabric.peer(s, before.port(s, d).unwrap());
        let to = |s| matches!(next(s), Some(PortPeer::Channel(c)) if fabric.channel(c).to == spine);
        fabric.switch_ids().filter(|s| fabric.has_hosts(*s) && *s != fabric.home(d)).any(to)
    };
    assert!(spines().any(leads) && !spines().all(leads));
    for spine in spines() {
        let tables = without_ways(&fabric, &before, |other, s| (other, s) == (d, spine));
        let mixed = std::slice::from_ref(&*before);
        let later = Beside { mixed, ..Beside::of_step(true, true, true) };
        assert_eq!(judge(&fabric, &tables, "any+mixed", later).accepted, !leads(spine));
    }
}

/// Hosts come, one after the other, to switches that had none: packets start where none did before.
#[test]
fn hosts_come_to_switches_that_had_none() {
    // Ways that nobody took led back and forth between switches without hosts.
    for seed in [1, 3, 5] {
        let whole = generate(&format!("random:9,18,14,seed={seed}")).unwrap();
        let with = |count| {
            let is_off = |t: TerminalId| !(0..count).any(|i| i * 7 % 18 == t.index());
            Arc::new(whole.without_terminals(is_off).unwrap())
        };
        let mut site = Site::new("balanced", Promise::EVERYTHING, seed);
        site.pass(&with(2)).unwrap();
        for count in 3..8 {
            let what = format!("seed {seed}, {count} hosts");
            while step(&mut site, &with(count), &what).halfway {}
        }
    }
}

/// A cable makes a ring of a tree, and its loss a tree of the ring: switches with a lane map and such without one are
/// proved beside each other.
#[test]
fn lanes_come_and_go_with_a_certificate() {
    let mut changes = 0;
    for cable in 0..3 {
        let ring = Arc::new(generate("torus:3,hosts=1").unwrap());
        let tree = Arc::new(ring.without(|c| c.index() / 2 == cable, |_| false).unwrap());
        let mut site = Site::new("balanced", Promise::EVERYTHING, 1);
        site.pass(&tree).unwrap();
        for fabric in [&ring, &tree, &ring] {
            let had_lanes = in_force(&site, fabric).lanes.is_some();
            let line = step(&mut site, fabric, &format!("cable {cable}"));
            let has_lanes = in_force(&site, fabric).lanes.is_some();
            changes += usize::from(line.mixed && had_lanes != has_lanes);
        }
    }
    assert!(changes > 0, "some are proved");
}

/// A leaf loses its last cable while a job has nodes on both sides: the routes of all others are published all the
/// same.
#[test]
fn a_job_on_both_sides_of_a_cut_keeps_nobody_from_routes() {
    let whole = generate("fattree:3x4,2").unwrap();
    let leaf = whole.home(whole.dest_of_terminal(whole.host_ids().next().unwrap()));
    let is_its = |c: ChannelId| [whole.channel(c).from, whole.channel(c).to].contains(&leaf);
    let mut site = Site::new("balanced", Promise::EVERYTHING, 1);
    site.pass(&Arc::new(whole.clone())).unwrap();
    let cut = Arc::new(whole.without(is_its, |_| false).unwrap());
    assert!(step(&mut site, &cut, "the first cut").mixed);
    // What no cable carries is not sent: figures of the other jobs stay figures.
    let time = site.store.epoch("2".parse().unwrap()).unwrap().plan().after.time;
    assert!(time.slowdown_max.is_finite(), "{time:?}");
    site.pass(&cut).unwrap();
}

#[test]
#[ignore = "takes most of a minute: run scripts/test"]
fn after_500_losses_and_returns_everyone_is_reached_with_any_sl() {
    lose_on_each(often(100, 10));
}
