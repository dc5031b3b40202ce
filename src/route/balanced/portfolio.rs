//! Other tables, where they are better: those of all other engines on small fabrics; on meshes and tori and with
//! few layers, where an order of channels may leave too few ways, on larger ones too, and with jobs those
//! inside a closure that needs no lanes (`inside`).

use rayon::prelude::*;

use super::keep::Slots;
use super::net::Net;
use super::{Aim, Balanced};
use crate::measure::slowdown::{Time, slowdowns};
use crate::model::{Demand, Fabric, LayerBudget, PortPeer, Shape, Tables};
use crate::route::forest::Forest;
use crate::route::graph::{hosts_per_switch, is_indirect};
use crate::route::minhop::{Eligible, locally_balanced};
use crate::route::spread::spread_over;
use crate::route::trees::Join;
use crate::route::{Engine, RouteError, dfsssp, fattree, lanes, lash, nue, sar, torus, updown};

/// Destinations × switches above which other engines would take longer than ours.
const MOST_ENTRIES: usize = 1 << 21;
/// As many up to which all engines are asked that take less than a tenth of our time.
const FEW_ENTRIES: usize = 1 << 18;
/// As many up to which all engines are asked, our own with another aim too. In trees ours has less to do.
const FEWEST_ENTRIES: usize = 1 << 16;
/// With fewer layers than this, engines that are made for one may be ahead.
const FEW_LAYERS: u8 = 4;
/// Switches × channels above which the search of a closure takes more than a second.
const MOST_LOOKS: usize = 300_000;
/// In force, other tables stay unless ours are better by more than this.
const PAYS: f64 = 1.05;

/// Makes the tables of a rival.
type Rival<'a> = Box<dyn Fn() -> Result<Tables, RouteError> + Sync + Send + 'a>;

/// What is to be routed.
struct Scene<'a> {
    fabric: &'a Fabric,
    net: &'a Net,
    demand: &'a Demand,
    budget: LayerBudget,
}

impl Balanced {
    /// These tables, or others if they are better for the demand: by predicted time with jobs, by
    /// the largest number of routes between hosts on a channel without. What is in force stays an answer:
    /// with tables in force that no other engine made, ours are taken.
    pub(super) fn or_better(
        &self,
        fabric: &Fabric,
        net: &Net,
        demand: &Demand,
        budget: LayerBudget,
        own: Tables,
    ) -> Result<Tables, RouteError> {
        let counts_jobs = self.aim == Aim::Counts && !demand.is_oblivious();
        if fabric.dest_count() * fabric.switches().len() > MOST_ENTRIES
            || counts_jobs
            || self.options.layer_per_job
        {
            return Ok(own);
        }
        let scene = Scene { fabric, net, demand, budget };
        let rivals = self.rivals(&scene);
        // In a tree all tables that climb and descend alike may be mixed; those of others may not.
        if rivals.is_empty() || (!self.options.promise.is_told_only() && lanes::is_tree(fabric)) {
            return Ok(own);
        }
        let (previous, _) = self.in_force(fabric);
        let is_answer = |tables: &Tables| previous.is_none_or(|p| same_ports(fabric, p, tables));
        let made = rivals.into_par_iter().filter_map(|rival| rival().ok().filter(|t| is_answer(t)));
        let mut others: Vec<Tables> = made.map(|t| spread_over(fabric, net, t, budget)).collect();
        others.extend(self.inside_one(&scene)?);
        if others.is_empty() {
            return Ok(own);
        }
        // What is in force already has the better of two that are much the same.
        let pays = if previous.is_some() { PAYS } else { 1.0 };
        let mut best = (cost(fabric, &own, demand) * pays, own);
        for tables in others {
            let cost = cost(fabric, &tables, demand);
            if cost < best.0 {
                let (ports, layers) = tables.into_raw();
                best = (cost, Tables::new(fabric, self.name(), ports, layers)?);
            }
        }
        Ok(best.1)
    }

    /// Who else is asked, in the order of preference. With tables in force, of which others are an answer only if
    /// they are the same, those that know jobs are left out.
    fn rivals<'a>(&'a self, scene: &'a Scene<'a>) -> Vec<Rival<'a>> {
        let Scene { fabric, net, demand, budget } = *scene;
        let entries = fabric.dest_count() * fabric.switches().len();
        let is_tree = is_indirect(&net.hosts);
        let is_small = entries <= if is_tree { FEWEST_ENTRIES } else { FEW_ENTRIES };
        let is_weak = matches!(fabric.shape(), Shape::Grid { .. }) || budget.get() < FEW_LAYERS;
        let ask =
            |engine: Box<dyn Engine>| -> Rival<'a> { Box::new(move || engine.route(fabric, demand, budget)) };
        let mut rivals = Vec::new();
        if is_weak || is_small {
            let updown = updown::UpDown { roots: self.options.roots.clone() };
            rivals.push(ask(Box::new(torus::Torus)));
            rivals.push(ask(Box::new(nue::Nue { job_aware: false })));
            rivals.push(ask(Box::new(updown)));
        }
        if is_small || (demand.is_oblivious() && !is_tree) {
            // The order of ports, which is that of dimensions in a HyperX.
            rivals.push(ask(Box::new(lash::Lash)));
        }
        if is_small {
            rivals.push(ask(Box::new(dfsssp::Dfsssp)));
            rivals.push(ask(Box::new(fattree::FatTree)));
            for eligible in [Eligible::All, Eligible::Parallel] {
                rivals.push(Box::new(move || self.layered(scene, eligible)));
            }
        }
        if demand.is_oblivious() || self.in_force(fabric).0.is_some() {
            return rivals;
        }
        if is_small {
            for join in [Join::Sparingly, Join::Freely] {
                rivals.push(ask(Box::new(sar::Sar { layer_per_job: false, join })));
            }
            rivals.push(ask(Box::new(nue::Nue { job_aware: true })));
        }
        if entries <= FEWEST_ENTRIES {
            let own = |aim| Balanced { options: self.options.clone(), aim };
            rivals.push(ask(Box::new(own(Aim::Counts))));
            rivals.push(Box::new(move || own(Aim::Time).route(fabric, &Demand::oblivious(), budget)));
        }
        rivals
    }

    /// Tables inside a closure for one layer.
    fn inside_one(&self, scene: &Scene<'_>) -> Result<Option<Tables>, RouteError> {
        let Scene { fabric, demand, budget, .. } = *scene;
        let is_grid = matches!(fabric.shape(), Shape::Grid { .. });
        let is_weak = is_grid || budget.get() < FEW_LAYERS;
        // On one layer of a grid the prediction is off: twice to three times the time, predicted as less.
        let is_misjudged = is_grid && budget.get() == 1;
        let is_wide = fabric.switches().len() * fabric.channels().len() > MOST_LOOKS;
        if demand.is_oblivious() || !is_weak || is_misjudged || is_wide {
            return Ok(None);
        }
        self.route_inside_one(fabric, demand, budget)
    }

    /// Shortest routes as `minhop` and `dor` make them, on as many layers as they need.
    fn layered(&self, scene: &Scene<'_>, eligible: Eligible) -> Result<Tables, RouteError> {
        let Scene { fabric, net, budget, .. } = *scene;
        let tables = locally_balanced(fabric, net, self.name(), eligible)?;
        let (slots, mut forest) = (Slots::new(net), Forest::new(fabric));
        for d in fabric.dest_ids() {
            let tree = forest.tree_mut(d.index());
            slots.read(fabric, &tables, d, tree);
            tree[fabric.home(d).index()] = Forest::HOME;
        }
        dfsssp::layered(fabric, net, forest, self.name(), budget)
    }
}

fn same_ports(fabric: &Fabric, a: &Tables, b: &Tables) -> bool {
    fabric.dest_ids().all(|d| a.ports_to(d) == b.ports_to(d))
}

/// What tables are worth, less is better; infinite where a route does not arrive.
fn cost(fabric: &Fabric, tables: &Tables, demand: &Demand) -> f64 {
    if demand.is_oblivious() {
        return fullest(fabric, tables).map_or(f64::INFINITY, f64::from);
    }
    Time::of(&slowdowns(fabric, tables, demand)).slowdown_mean
}

/// Most routes between hosts on a channel; `None` if one does not arrive. O(hosts × switches × hops).
fn fullest(fabric: &Fabric, tables: &Tables) -> Option<u32> {
    let hosts = hosts_per_switch(fabric);
    let mut loads = vec![0u32; fabric.channels().len()];
    for d in fabric.host_ids().map(|t| fabric.dest_of_terminal(t)) {
        let home = fabric.home(d);
        for s in fabric.switch_ids().filter(|s| hosts[s.index()] > 0) {
            let (mut at, mut left) = (s, hosts.len());
            while at != home {
                let Some(PortPeer::Channel(c)) = fabric.peer(at, tables.port(at, d)?) else { return None };
                left = left.checked_sub(1)?;
                loads[c.index()] += hosts[s.index()];
                at = fabric.channel(c).to;
            }
        }
    }
    loads.into_iter().max().or(Some(0))
}
