use std::sync::Arc;

use super::*;
use crate::lab::generate::generate;
use crate::model::{ChannelId, Closure, FabricLanes, Promise, Vl};
use crate::pass::tests::published;
use crate::publish::tests::fixture;

/// Four switches with a host each and a cable between any two, and the same without the cable between the first two.
struct Site {
    whole: Fabric,
    cut: Fabric,
}

/// The next switch on the way from a switch to a destination at a home switch.
type Way = fn(usize, usize) -> Option<usize>;

/// Straight to the home switch, cable or not.
const STRAIGHT: Way = |_, home| Some(home);

/// Around the cable that is lost, and on another way than before to the third switch.
const AROUND: Way = |s, home| match (s, home) {
    (0, 1) => Some(3),
    (1, 0) => Some(2),
    (3, 2) => Some(0),
    _ => Some(home),
};

impl Site {
    fn new() -> Self {
        let whole = generate("hyperx:4,hosts=1").unwrap();
        assert_eq!((whole.switches().len(), whole.channels().len(), whole.terminals().len()), (4, 12, 4));
        let is_lost = |c| [whole.channel(c).from.index(), whole.channel(c).to.index()].iter().all(|s| *s < 2);
        let cut = whole.without(is_lost, |_| false).unwrap();
        Self { whole, cut }
    }

    /// The port that leads to a neighbour, or led there.
    fn port(&self, s: usize, to: usize) -> PortNum {
        let (s, to) = (SwitchId::at(s), SwitchId::at(to));
        let mut out = self.whole.out(s).iter().map(|c| self.whole.channel(*c));
        out.find(|c| c.to == to).unwrap().from_port
    }

    fn tables(&self, way: impl Fn(usize, DestId) -> Option<usize>) -> Tables {
        let (mut ports, mut layers) = (Vec::new(), Vec::new());
        for d in self.cut.dest_ids() {
            for s in self.cut.switch_ids() {
                let port = match s == self.cut.home(d) {
                    true => Some(self.cut.last_port(d)),
                    false => way(s.index(), d).map(|to| self.port(s.index(), to)),
                };
                ports.push(port.map_or(Tables::UNREACHABLE, PortNum::get));
                layers.push(port.map_or(Tables::NO_LAYER, |_| 0));
            }
        }
        Tables::new(&self.cut, "test", ports, layers).unwrap()
    }

    fn tables_by(&self, way: Way) -> Tables {
        self.tables(|s, d| way(s, self.cut.home(d).index()))
    }

    /// Every next hop, on lane 0 but for one turn, given by three switches.
    fn lanes(&self, turn: Option<[usize; 3]>) -> FabricLanes {
        let mut closure = Closure::empty(&self.cut);
        for (s, home) in self.cut.switch_ids().flat_map(|s| self.cut.switch_ids().map(move |home| (s, home)))
        {
            (0..self.cut.out(s).len())
                .filter(|_| s != home)
                .for_each(|slot| closure.set(s, home, slot, true));
        }
        let turn = turn.map(|[from, at, to]| (at, self.port(at, from), self.port(at, to)));
        let vl = |s: SwitchId, from, to| Vl::new(u64::from(turn == Some((s.index(), from, to)))).unwrap();
        FabricLanes { map: Arc::new(LaneMap::uniform(&self.cut, vl)), closure: Arc::new(closure) }
    }

    /// First of two steps from tables to others.
    fn steps(
        &self,
        before: &Tables,
        now: &Tables,
        lanes: [FabricLanes; 2],
        may_wait: bool,
    ) -> Vec<FirstStep> {
        let mut steps = self.all_steps(before, now, lanes, may_wait, false);
        steps.retain(|step| !step.drained);
        steps
    }

    /// The same and those of three, after one of three if that is what is in force.
    fn all_steps(
        &self,
        before: &Tables,
        now: &Tables,
        lanes: [FabricLanes; 2],
        may_wait: bool,
        drained: bool,
    ) -> Vec<FirstStep> {
        let [old, new] = lanes.map(|lanes| Some(Arc::new(lanes)));
        let plan =
            Plan { tables: Arc::new(now.clone()), lanes: new, ..fixture::plan(&self.cut, &[vec![0, 1]], 0) };
        let in_force = published(&self.cut, &plan, Promise::EVERYTHING);
        let in_force = Published { tables: Arc::new(before.clone()), lanes: old, drained, ..in_force };
        halfway(&self.cut, &in_force, &plan, may_wait)
    }

    /// The same where the lanes stay as they are, with every next hop.
    fn plain_steps(&self, before: &Tables, now: &Tables, may_wait: bool) -> Vec<FirstStep> {
        self.steps(before, now, [self.lanes(None), self.lanes(None)], may_wait)
    }

    /// Whether everything that leads to the host and the switch of a home is as in other tables.
    fn is_led(&self, tables: &Tables, home: usize, like: &Tables) -> bool {
        let to = |tables: &Tables, d| (tables.ports_to(d).to_vec(), tables.layers_to(d).to_vec());
        let mut of = self.cut.dest_ids().filter(|d| self.cut.home(*d).index() == home);
        of.all(|d| to(tables, d) == to(like, d))
    }

    /// Straight ways that are there.
    fn left(&self) -> Tables {
        self.tables(|s, d| Some(self.cut.home(d).index()).filter(|home| s + home != 1))
    }
}

#[test]
fn a_first_step_leaves_what_leads_everyone_and_cuts_nobody_off_who_may_not_wait() {
    let site = Site::new();
    let (before, now) = (site.tables_by(STRAIGHT), site.tables_by(AROUND));
    let steps = site.plain_steps(&before, &now, false);
    assert_eq!((steps.len(), steps[0].lost_later), (1, false));
    for home in 0..4 {
        let like = if home < 2 { &now } else { &before };
        assert!(site.is_led(&steps[0].tables, home, like), "home {home}");
    }
    // Where they may, they wait, and nobody else's routes change.
    let more = site.plain_steps(&before, &now, true);
    assert_eq!(more.iter().map(|step| step.lost_later).collect::<Vec<_>>(), [false, true]);
    assert_eq!(more[0].tables, steps[0].tables);
    for home in 0..4 {
        let like = if home < 2 { &site.left() } else { &before };
        assert!(site.is_led(&more[1].tables, home, like), "home {home}");
    }
    // Nothing between, as all have the routes of the plan.
    let same = site.tables(
        |s, d| if site.cut.home(d).index() < 2 { AROUND } else { STRAIGHT }(s, site.cut.home(d).index()),
    );
    assert_eq!(site.plain_steps(&before, &same, false).len(), 0);
}

/// Whoever is cut off for sure waits first, then all: where the lanes of a turn to a home change, packets of before may
/// be on it still.
#[test]
fn destinations_whose_turns_change_their_lanes_wait_before_the_others() {
    let site = Site::new();
    let (before, now) = (site.tables_by(STRAIGHT), site.tables_by(AROUND));
    // The closure leads nowhere from those that are cut off: else what is in force would not be inside.
    let nowhere = |mut lanes: FabricLanes| {
        let mut closure = Closure::clone(&lanes.closure);
        for (s, home) in [(0, 1), (1, 0)].map(|(s, home)| (SwitchId::at(s), SwitchId::at(home))) {
            (0..site.cut.out(s).len()).for_each(|slot| closure.set(s, home, slot, false));
        }
        lanes.closure = Arc::new(closure);
        lanes
    };
    let waiting = |turn| {
        let steps = site.steps(&before, &now, [site.lanes(None), nowhere(site.lanes(turn))], true);
        let is_left = |step: &FirstStep| [0, 1].map(|home| site.is_led(&step.tables, home, &site.left()));
        assert!(steps.iter().all(|step| step.lost_later == is_left(step).contains(&true)));
        steps.iter().map(is_left).collect::<Vec<_>>()
    };
    let [none, all] = [[false; 2], [true; 2]];
    assert_eq!(waiting(None), [none, all]);
    assert_eq!(waiting(Some([1, 2, 0])), [none, [true, false], all], "the new way to the first");
    assert_eq!(waiting(Some([0, 3, 1])), [none, [false, true], all], "the new way to the second");
    // Nobody turns so on the way to either, or only where the way ends.
    for turn in [[2, 3, 0], [2, 0, 3], [2, 1, 3]] {
        assert_eq!(waiting(Some(turn)), [none, all], "{turn:?}");
    }
}

#[test]
fn what_is_outside_of_the_lanes_of_the_plan_does_not_stay() {
    let site = Site::new();
    let (before, now) = (site.tables_by(STRAIGHT), site.tables_by(AROUND));
    let mut lanes = site.lanes(None);
    let (s, home) = (SwitchId::at(3), SwitchId::at(2));
    let mut closure = Closure::clone(&lanes.closure);
    let is_straight = |c: &ChannelId| site.cut.channel(*c).to == home;
    closure.set(s, home, site.cut.out(s).iter().position(is_straight).unwrap(), false);
    lanes.closure = Arc::new(closure);
    let steps = site.steps(&before, &now, [site.lanes(None), lanes], true);
    assert_eq!(steps.len(), 1);
    assert!(steps[0].lost_later && site.is_led(&steps[0].tables, 0, &site.left()));
    assert!(site.is_led(&steps[0].tables, 2, &now) && site.is_led(&steps[0].tables, 3, &before));
}

/// Switches answer later, without being asked whether they may wait: no program sends there.
#[test]
fn only_hosts_have_to_be_allowed_to_wait() {
    let site = Site::new();
    let now = site.tables_by(AROUND);
    // Only what leads to switches is in need of another way.
    let is_host = |d| site.cut.is_host_dest(d);
    let before = site.tables(|s, d| if is_host(d) { AROUND } else { STRAIGHT }(s, site.cut.home(d).index()));
    for may_wait in [false, true] {
        let steps = site.plain_steps(&before, &now, may_wait);
        assert_eq!(steps.iter().map(|step| step.lost_later).collect::<Vec<_>>(), [false, true]);
        for d in site.cut.dest_ids().filter(|d| site.cut.home(*d).index() < 2) {
            assert_eq!(steps[1].tables.ports_to(d) == now.ports_to(d), is_host(d), "{d:?}");
        }
    }
}

/// What leads to a host at a port that it has not any more is of no use.
#[test]
fn a_host_that_is_new_or_has_moved_gets_its_routes_as_soon_as_may_be() {
    let site = Site::new();
    let (before, home) = (site.tables_by(AROUND), SwitchId::at(3));
    let host = site.cut.dest_ids().find(|d| site.cut.is_host_dest(*d) && site.cut.home(*d) == home).unwrap();
    let at = host.index() * 4;
    // All next hops but those to the host are as before.
    let new = before.clone().edited(|ports, layers| {
        ports[at..at + 4].fill(Tables::UNREACHABLE);
        layers[at..at + 4].fill(Tables::NO_LAYER);
    });
    assert_eq!(site.plain_steps(&new, &before, false).len(), 0, "hosts may not wait for it");
    let steps = site.plain_steps(&new, &before, true);
    assert_eq!((steps.len(), steps[0].lost_later), (1, true));
    let left = steps[0].tables.ports_to(host);
    assert_eq!(left[..3], [Tables::UNREACHABLE; 3]);
    assert_eq!(left[3], site.cut.last_port(host).get());
    // Where something else is between the two, that step comes first in which the host gets its routes.
    let (d, s) = (site.cut.dest_of_switch(SwitchId::at(2)), 3);
    let other = new.clone().edited(|ports, _| ports[d.index() * 4 + s] = site.port(s, 2).get());
    let steps = site.plain_steps(&other, &before, true);
    assert_eq!(steps.iter().map(|step| step.lost_later).collect::<Vec<_>>(), [false, true]);
    assert_eq!([0, 1].map(|n| steps[n].tables.ports_to(host)), [before.ports_to(host), left]);
    // It was on another port of the same switch: whoever led there leads there still.
    let moved = before.clone().edited(|ports, _| ports[at + 3] += 1);
    let now = site.tables(|s, d| match d == host && s == 2 {
        true => Some(0),
        false => AROUND(s, site.cut.home(d).index()),
    });
    assert_eq!(site.plain_steps(&moved, &now, true).len(), 0);
}

/// In a tree no lanes are needed, and hosts are led by what is there.
#[test]
fn the_first_step_in_a_tree_is_between_the_two() {
    let whole = fixture::small();
    // Under one spine nobody has to climb again.
    let small = generate("fattree:4x4,1").unwrap();
    let plan = fixture::plan(&small, &[vec![0, 5]], 0);
    let in_force = published(&small, &plan, Promise::EVERYTHING);
    assert_eq!(halfway(&small, &in_force, &plan, false).len(), 0, "it is there already");
    let (ports, layers) = fixture::tables(&whole, "sssp", 0).into_raw();
    let cut = whole.without(|c| c.index() < 2, |_| false).unwrap();
    let before = Tables::new(&cut, "sssp", ports, layers).unwrap();
    let plan =
        Plan { tables: Arc::new(fixture::tables(&cut, "sssp", 1)), ..fixture::plan(&cut, &[vec![0, 5]], 1) };
    let in_force = Published { tables: Arc::new(before), ..published(&cut, &plan, Promise::EVERYTHING) };
    let steps = halfway(&cut, &in_force, &plan, false);
    assert_eq!((steps.len(), steps[0].lost_later), (1, false));
    let is_between = |d: DestId| {
        let of = |tables: &Tables| tables.ports_to(d).to_vec();
        cut.is_host_dest(d)
            && of(&steps[0].tables) == of(&in_force.tables)
            && of(&plan.tables) != of(&in_force.tables)
    };
    assert!(cut.dest_ids().any(is_between));
}

#[test]
fn the_first_of_three_steps_takes_off_what_is_outside_of_the_closure_and_leads_no_host() {
    let whole = generate("fattree:3x2,2").unwrap();
    let site = Site { cut: whole.clone(), whole };
    let cut = &site.cut;
    let [before, now] = [0, 1].map(|seed| fixture::tables(cut, "sssp", seed));
    let spine = cut.switch_ids().find(|s| !cut.has_hosts(*s)).unwrap();
    let leaves: Vec<SwitchId> = cut.switch_ids().filter(|s| cut.has_hosts(*s)).collect();
    // The closure lacks the next hop of the first leaf to one home.
    let steps = |home: SwitchId, may_wait, drained| {
        let (old, mut new) = (site.lanes(None), site.lanes(None));
        let mut closure = (*new.closure).clone();
        let port = before.port(leaves[0], cut.dest_of_switch(home));
        let slot = cut.out(leaves[0]).iter().position(|c| Some(cut.channel(*c).from_port) == port);
        closure.set(leaves[0], home, slot.unwrap(), false);
        new.closure = Arc::new(closure);
        let mut steps = site.all_steps(&before, &now, [old, new], may_wait, drained);
        let last = steps.pop().filter(|step| step.drained);
        assert!(steps.iter().all(|step| !step.drained), "it is the last choice");
        last
    };
    let first = steps(spine, false, false).unwrap();
    assert!(first.lost_later && first.lanes.is_some());
    let to_spine = cut.dest_of_switch(spine);
    for (d, s) in cut.dest_ids().flat_map(|d| cut.switch_ids().map(move |s| (d, s))) {
        // Whoever comes by that leaf has no way there either.
        let port = first.tables.port(s, d);
        let stays = port == before.port(s, d);
        assert!(if (d, s) == (to_spine, leaves[0]) { port.is_none() } else { stays || d == to_spine });
    }
    // Not twice, and not where a host would be cut off, whoever may wait.
    assert!(steps(spine, true, true).is_none());
    assert!(steps(leaves[1], true, false).is_none() && steps(leaves[1], false, false).is_none());
}
