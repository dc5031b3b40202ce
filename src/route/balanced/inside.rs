//! Tables inside the closure of a fabric's lanes: safe on any SL and in any mixture, whatever is chosen.
//!
//! They begin as those that put few routes on each channel. With jobs, next hops are then exchanged for
//! others of the closure until messages of one step of a job meet less often (`timed`). From tables in force
//! inside the same closure, trees to terminals whose jobs all go on stay.

use std::sync::Arc;

use super::layers::Layers;
use super::net::{NONE, Net};
use super::routing::Routing;
use super::traffic::Traffic;
use super::{Aim, Balanced};
use crate::measure::slowdown::{Time, slowdowns};
use crate::model::{Demand, Fabric, FabricLanes, Tables, TerminalId};
use crate::route::lanes::{Kept, is_inside, safe_tables};
use crate::route::{Engine, RouteError};

/// What is in force inside the closure.
struct InForce<'a> {
    tables: &'a Tables,
    /// By terminal, whether its tree is inside the closure.
    is_inside: Vec<bool>,
    /// Of these, by terminal, whether all its jobs go on.
    stays: Vec<bool>,
}

impl Balanced {
    /// Tables inside a closure, with its map. With jobs never predicted worse than tables without jobs, or
    /// than those in force. O(terminals × next hops × hops × sweeps).
    pub(super) fn route_inside(
        &self,
        fabric: &Fabric,
        demand: &Demand,
        lanes: &FabricLanes,
    ) -> Result<Tables, RouteError> {
        let traffic = Traffic::new(fabric, demand);
        let in_force = self.in_force_inside(fabric, &traffic, lanes);
        let kept = in_force.as_ref().map(|f| Kept { tables: f.tables, stays: &f.stays });
        let light = safe_tables(fabric, demand, lanes, kept, self.name())?;
        let all_stay = kept.is_some_and(|kept| kept.stays.iter().all(|stays| *stays));
        if all_stay || self.aim == Aim::Counts || demand.is_oblivious() {
            return Ok(light);
        }
        let timed = Self::timed_inside(fabric, demand, &traffic, lanes, light, in_force.as_ref());
        let all = in_force.as_ref().map(|f| Kept { tables: f.tables, stays: &f.is_inside });
        let other = safe_tables(fabric, &Demand::oblivious(), lanes, all, self.name())?;
        let cost = |tables| Time::of(&slowdowns(fabric, tables, demand)).slowdown_mean;
        Ok(if cost(&timed) <= cost(&other) { timed } else { other })
    }

    /// The tables in force, if they have the same lanes.
    fn in_force_inside<'a>(
        &'a self,
        fabric: &Fabric,
        traffic: &Traffic<'_>,
        lanes: &FabricLanes,
    ) -> Option<InForce<'a>> {
        let (previous, served) = self.in_force(fabric);
        let same_map =
            |t: &&Tables| t.lanes().is_some_and(|map| Arc::ptr_eq(map, &lanes.map) || **map == *lanes.map);
        let tables = previous.filter(same_map)?;
        let settled = traffic.settled(served);
        let is_inside: Vec<bool> = fabric
            .terminal_ids()
            .map(|t| is_inside(fabric, &lanes.closure, tables, fabric.dest_of_terminal(t)))
            .collect();
        let stays = is_inside.iter().zip(settled).map(|(is, settled)| *is && settled).collect();
        Some(InForce { tables, is_inside, stays })
    }

    /// The same tables with next hops exchanged for time.
    fn timed_inside(
        fabric: &Fabric,
        demand: &Demand,
        traffic: &Traffic<'_>,
        lanes: &FabricLanes,
        light: Tables,
        in_force: Option<&InForce<'_>>,
    ) -> Tables {
        let net = Net::new(fabric);
        let layers = Layers::any(&net);
        let home = fabric.terminals().iter().map(|t| t.switch.index() as u32).collect();
        let mut routing = Routing::new(&net, &layers, traffic, home);
        let mut before = Vec::new();
        if let Some(in_force) = in_force {
            routing.read(fabric, in_force.tables);
            before = routing.rows_of(&in_force.is_inside, &in_force.stays);
        }
        routing.read(fabric, &light);
        let settled = in_force.map_or_else(|| vec![false; fabric.terminals().len()], |f| f.stays.clone());
        routing.save_time(demand, &settled, Some(&lanes.closure));
        routing.restore(&before);
        let switches = net.switches();
        light.edited(|ports, _| {
            for (t, row) in routing.rows.chunks(switches).enumerate().filter(|(t, _)| !settled[*t]) {
                let t = TerminalId::at(t);
                let home = fabric.terminal(t).switch;
                let mut dests = vec![fabric.dest_of_terminal(t)];
                if fabric.attached(home).first() == Some(&t) {
                    dests.push(fabric.dest_of_switch(home));
                }
                for d in dests {
                    let ports = &mut ports[d.index() * switches..(d.index() + 1) * switches];
                    for (s, slot) in row.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
                        ports[s] = net.port(net.channel(s, *slot));
                    }
                }
            }
        })
    }
}
