//! A first of two steps to new tables, or of three, where the whole change is not proved.

use std::sync::Arc;

use super::plan::{Plan, Published};
use crate::model::{DestId, Fabric, FabricLanes, LaneMap, PortNum, SwitchId, Tables, Wiring};
use crate::route::lanes::{is_inside, is_inside_at, tree_ways};
use crate::verify::trees::{LOST, Tree, Trees};

/// Tables between those in force and new ones.
#[derive(Debug, Clone)]
pub struct FirstStep {
    /// They.
    pub tables: Tables,
    /// The lanes inside which they are.
    pub lanes: Option<Arc<FabricLanes>>,
    /// Whether some whom the loss cut off are still without a way: they wait for the second step.
    pub lost_later: bool,
    /// See [`Plan::drained`].
    pub drained: bool,
}

/// First of two steps, those first that leave nobody without a way; none if there is nothing between. In a tree that lost
/// cables, or got some back, see [`TreeWays::halfway`](crate::route::lanes::TreeWays::halfway). In lanes: `Between`.
///
/// `may_wait`: whether hosts that are cut off may wait for the second step.
///
/// O(destinations × switches × ports).
pub fn halfway(fabric: &Fabric, published: &Published, plan: &Plan, may_wait: bool) -> Vec<FirstStep> {
    if plan.lanes.is_none() {
        let tables = tree_ways(fabric).map(|ways| ways.halfway(fabric, &published.tables, &plan.tables));
        let tables = tables.filter(|tables| *tables != *plan.tables);
        return tables
            .map(|tables| FirstStep { tables, lanes: None, lost_later: false, drained: false })
            .into_iter()
            .collect();
    }
    let between = Between::new(fabric, published, plan);
    let step = |tables: Tables, drained| {
        let (waiting, of) = (between.waiting(&tables), if drained { &published.lanes } else { &plan.lanes });
        let (lanes, lost_later) = (of.clone(), waiting != Waiting::Nobody);
        (waiting != Waiting::Hosts || may_wait).then_some(FirstStep { tables, lanes, lost_later, drained })
    };
    let mut steps: Vec<FirstStep> = Vec::new();
    for wait in [Wait::Nobody, Wait::Some, Wait::All] {
        let tables = between.tables(wait);
        if tables != *plan.tables && steps.iter().all(|step| step.tables != tables) {
            steps.extend(step(tables, false));
        }
    }
    if !published.drained {
        steps.extend(between.drained().and_then(|tables| step(tables, true)));
    }
    steps
}

/// Which destinations wait for the second step, if some switches do not reach them any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Nobody,
    /// Those to which old and new next hops may not be mixed for sure.
    Some,
    All,
}

/// Who is without a way after the first step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Nobody,
    /// Not between hosts.
    Switches,
    Hosts,
}

/// Tables with the lanes of the plan. To destinations that all reach by those in force these stay, where their next hops
/// are in the closure of the plan: the second step is safe then, whatever is proved of the first. To destinations that
/// some do not reach any more there are the routes of the plan at once, or only what is left of those in force: then no
/// packet takes a turn that none took before, until all switches have the lanes of new turns.
///
/// A cable that came back is another case: switches get its lanes before any route leads over it.
struct Between<'a> {
    fabric: &'a Fabric,
    published: &'a Published,
    plan: &'a Plan,
    wiring: Wiring,
}

impl<'a> Between<'a> {
    fn new(fabric: &'a Fabric, published: &'a Published, plan: &'a Plan) -> Self {
        Self { fabric, published, plan, wiring: fabric.wiring() }
    }

    fn tables(&self, wait: Wait) -> Tables {
        let (before, switches) = (&*self.published.tables, self.fabric.switches().len());
        let trees = Trees::new(self.fabric, before);
        let mut tree = trees.room();
        Tables::clone(&self.plan.tables).edited(|ports, layers| {
            for d in self.fabric.dest_ids() {
                trees.trace(d, &mut tree);
                if !self.stays(d, &tree, wait) {
                    continue;
                }
                let at = d.index() * switches..(d.index() + 1) * switches;
                let (ports, layers) = (&mut ports[at.clone()], &mut layers[at]);
                for s in (0..switches).filter(|s| *s != tree.home) {
                    let is_led = tree.depth[s] != LOST;
                    ports[s] = if is_led { before.ports_to(d)[s] } else { Tables::UNREACHABLE };
                    layers[s] = if is_led { before.layers_to(d)[s] } else { Tables::NO_LAYER };
                }
            }
        })
    }

    /// Whether what leads to a destination stays, as far as it still leads there.
    fn stays(&self, d: DestId, tree: &Tree, wait: Wait) -> bool {
        let (fabric, before, now) = (self.fabric, &*self.published.tables, &self.plan.tables);
        let Some(closure) = self.plan.lanes.as_ref().map(|lanes| &lanes.closure) else { return false };
        let home = fabric.home(d);
        let others = || fabric.switch_ids().filter(|s| *s != home);
        let is_led = |s: &SwitchId| tree.depth[s.index()] != LOST;
        // It is new there, or moved.
        if before.port(home, d) != now.port(home, d) {
            return wait != Wait::Nobody && !others().any(|s| is_led(&s));
        }
        if !others().filter(is_led).all(|s| is_inside_at(fabric, closure, before, (s, d))) {
            return false;
        }
        let reach_all = others().filter(|s| now.port(*s, d).is_some()).all(|s| is_led(&s));
        reach_all
            || match wait {
                Wait::Nobody => false,
                Wait::Some => !is_inside(fabric, closure, before, d) || !self.keeps_lanes(d),
                Wait::All => true,
            }
    }

    /// Whether all turns of old and new next hops to a destination, in any mixture, have the lanes of before.
    fn keeps_lanes(&self, d: DestId) -> bool {
        let (Some(old), Some(new)) = (&self.published.lanes, &self.plan.lanes) else { return false };
        let home = self.fabric.home(d).index();
        let tables = [&*self.published.tables, &self.plan.tables];
        let next = |s: usize| {
            let channels = tables.map(|tables| self.wiring.channel(s, tables.ports_to(d)[s]));
            channels.into_iter().filter(|c| *c != Wiring::NONE)
        };
        let row = |map: &LaneMap, into: u32, out: u32| {
            let (into, out) = (self.fabric.channels()[into as usize], self.fabric.channels()[out as usize]);
            *map.row(into.to, into.to_port, PortNum::at(out.from_port.get()))
        };
        let keeps = |into: u32, out: u32| row(&old.map, into, out) == row(&new.map, into, out);
        let mut channels = (0..self.fabric.switches().len()).filter(|s| *s != home).flat_map(next);
        channels.all(|into| {
            let at = self.wiring.to[into as usize] as usize;
            at == home || next(at).all(|out| keeps(into, out))
        })
    }

    /// Tables in force, in their lanes, without next hops outside of the closure of the plan. Those that lead to such a one
    /// go, too. `None` if that cuts off a host, or takes nothing off.
    fn drained(&self) -> Option<Tables> {
        let (fabric, before) = (self.fabric, &*self.published.tables);
        let closure = &self.plan.lanes.as_ref()?.closure;
        let trees = Trees::new(fabric, before);
        let mut tree = trees.room();
        let (mut is_other, mut cuts_off) = (false, false);
        let tables = Tables::clone(before).edited(|ports, layers| {
            for d in fabric.dest_ids() {
                trees.trace(d, &mut tree);
                let stays = before.port(fabric.home(d), d) == self.plan.tables.port(fabric.home(d), d);
                let mut leads = vec![false; fabric.switches().len()];
                // Home comes first, and each after the switch that it forwards to.
                for s in tree.order.iter().map(|s| *s as usize).filter(|_| stays) {
                    let is_inside = || is_inside_at(fabric, closure, before, (SwitchId::at(s), d));
                    leads[s] = s == tree.home || (leads[tree.parent(&trees, s)] && is_inside());
                }
                for s in fabric.switch_ids().filter(|s| s.index() != tree.home && !leads[s.index()]) {
                    let at = d.index() * fabric.switches().len() + s.index();
                    let led = tree.depth[s.index()] != LOST;
                    cuts_off |= led && fabric.is_host_dest(d) && fabric.has_hosts(s);
                    is_other |= ports[at] != Tables::UNREACHABLE;
                    (ports[at], layers[at]) = (Tables::UNREACHABLE, Tables::NO_LAYER);
                }
                ports[d.index() * fabric.switches().len() + tree.home] = fabric.last_port(d).get();
            }
        });
        (is_other && !cuts_off).then_some(tables)
    }

    fn waiting(&self, tables: &Tables) -> Waiting {
        let (fabric, now) = (self.fabric, &self.plan.tables);
        let mut waiting = Waiting::Nobody;
        for d in fabric.dest_ids() {
            for s in fabric.switch_ids().filter(|s| now.port(*s, d).is_some() && tables.port(*s, d).is_none())
            {
                if fabric.is_host_dest(d) && fabric.has_hosts(s) {
                    return Waiting::Hosts;
                }
                waiting = Waiting::Switches;
            }
        }
        waiting
    }
}

#[cfg(test)]
mod tests;
