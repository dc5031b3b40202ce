//! Other tables, where they are better: on meshes and tori, and with few layers, an order of channels may leave
//! too few ways. Those of other engines, and with jobs those inside a closure that needs no lanes (`inside`).

use super::{Aim, Balanced};
use crate::measure::slowdown::{Time, slowdowns};
use crate::model::{Demand, Fabric, LayerBudget, PortPeer, Shape, Tables};
use crate::route::graph::hosts_per_switch;
use crate::route::{Engine, RouteError, nue, torus, updown};

/// Destinations × switches above which other engines would take longer than ours.
const MOST_ENTRIES: usize = 1 << 21;
/// With fewer layers than this, engines that are made for one may be ahead.
const FEW_LAYERS: u8 = 4;
/// Switches × channels above which the search of a closure takes more than a second.
const MOST_LOOKS: usize = 300_000;
/// In force, other tables stay unless ours are better by more than this.
const PAYS: f64 = 1.05;

impl Balanced {
    /// These tables, or others if they are better for the demand: by predicted time with jobs, by
    /// the largest number of routes between hosts on a channel without. What is in force stays an answer:
    /// with tables in force that no other engine made, ours are taken.
    pub(super) fn or_better(
        &self,
        fabric: &Fabric,
        demand: &Demand,
        budget: LayerBudget,
        own: Tables,
    ) -> Result<Tables, RouteError> {
        let is_grid = matches!(fabric.shape(), Shape::Grid { .. });
        let is_large = fabric.dest_count() * fabric.switches().len() > MOST_ENTRIES;
        let counts_jobs = self.aim == Aim::Counts && !demand.is_oblivious();
        let is_weak = is_grid || budget.get() < FEW_LAYERS;
        if !is_weak || is_large || counts_jobs || self.options.layer_per_job {
            return Ok(own);
        }
        let (previous, _) = self.in_force(fabric);
        let others: [Box<dyn Engine>; 3] = [
            Box::new(torus::Torus),
            Box::new(nue::Nue { job_aware: false }),
            Box::new(updown::UpDown { roots: self.options.roots.clone() }),
        ];
        let is_answer = |tables: &Tables| previous.is_none_or(|p| same_ports(fabric, p, tables));
        let others =
            others.iter().filter_map(|engine| engine.route(fabric, &Demand::oblivious(), budget).ok());
        let mut others: Vec<Tables> = others.filter(is_answer).collect();
        // On one layer of a grid the prediction is off: twice to three times the time, predicted as less.
        let is_misjudged = is_grid && budget.get() == 1;
        let is_wide = fabric.switches().len() * fabric.channels().len() > MOST_LOOKS;
        if !demand.is_oblivious() && !is_misjudged && !is_wide {
            others.extend(self.route_inside_one(fabric, demand, budget)?);
        }
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
