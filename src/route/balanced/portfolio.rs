//! Other engines' tables, where they are better: on meshes and tori, and with few layers, an order of channels
//! may leave too few ways.

use super::{Aim, Balanced};
use crate::measure::slowdown::{Time, slowdowns};
use crate::model::{Demand, Fabric, LayerBudget, Role, Shape, Tables};
use crate::route::{Engine, RouteError, nue, torus, updown};

/// Destinations × switches above which other engines would take longer than ours.
const MOST_ENTRIES: usize = 1 << 21;
/// With fewer layers than this, engines that are made for one may be ahead.
const FEW_LAYERS: u8 = 4;
/// In force, other tables stay unless ours are better by more than this.
const PAYS: f64 = 1.05;

impl Balanced {
    /// These tables, or another engine's if they are better for the demand: by predicted time with jobs, by
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
        let previous = self.options.previous.as_ref().filter(|p| p.fabric() == fabric.fingerprint());
        let others: [Box<dyn Engine>; 3] = [
            Box::new(torus::Torus),
            Box::new(nue::Nue { job_aware: false }),
            Box::new(updown::UpDown { roots: self.options.roots.clone() }),
        ];
        let mut best = (cost(fabric, &own, demand), own);
        // What is in force already has the better of two that are much the same.
        let mut better = if previous.is_some() { PAYS } else { 1.0 };
        for engine in others {
            let Ok(tables) = engine.route(fabric, &Demand::oblivious(), budget) else { continue };
            if previous.is_some_and(|p| !same_ports(fabric, p, &tables)) {
                continue;
            }
            let cost = cost(fabric, &tables, demand);
            if cost < best.0 * better {
                let (ports, layers) = tables.into_raw();
                best = (cost, Tables::new(fabric, self.name(), ports, layers)?);
                better = 1.0;
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
    let is_host = |t: &&crate::model::TerminalId| fabric.terminal(**t).role == Role::Host;
    let hosts: Vec<u32> =
        fabric.switch_ids().map(|s| fabric.attached(s).iter().filter(is_host).count() as u32).collect();
    let width = fabric.switches().iter().map(|s| usize::from(s.ports) + 1).max().unwrap_or(1);
    let mut behind = vec![u32::MAX; width * hosts.len()];
    for (i, c) in fabric.channels().iter().enumerate() {
        behind[c.from.index() * width + usize::from(c.from_port.get())] = i as u32;
    }
    let mut loads = vec![0u32; fabric.channels().len()];
    for d in fabric.host_ids().map(|t| fabric.dest_of_terminal(t)) {
        let (home, ports) = (fabric.home(d), tables.ports_to(d));
        for s in fabric.switch_ids().filter(|s| hosts[s.index()] > 0) {
            let (mut at, mut left) = (s, hosts.len());
            while at != home {
                let port = usize::from(ports[at.index()]);
                let c = if port < width { behind[at.index() * width + port] } else { u32::MAX };
                if c == u32::MAX || left == 0 {
                    return None;
                }
                loads[c as usize] += hosts[s.index()];
                (at, left) = (fabric.channels()[c as usize].to, left - 1);
            }
        }
    }
    loads.into_iter().max().or(Some(0))
}
