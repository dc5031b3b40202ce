//! Tables inside the closure of a fabric's lanes: safe on any SL and in any mixture, whatever is chosen.
//!
//! They begin as those that put few routes on each channel. With jobs, next hops are then exchanged for
//! others of the closure until messages of one step of a job meet less often (`timed`). From tables in force
//! inside the same closure, trees to terminals whose jobs all go on stay.

use std::sync::Arc;

use rayon::prelude::*;

use super::attempts::{is_raced, more};
use super::counted::fullest;
use super::layers::Layers;
use super::net::{NONE, Net};
use super::portfolio::{Candidate, Scene, least};
use super::race::{Runs, fastest};
use super::routing::Routing;
use super::traffic::Traffic;
use super::{Aim, Balanced, FIRST, Search, homes, once};
use crate::model::{Closure, Demand, Fabric, FabricLanes, LaneMap, LayerBudget, Tables, TerminalId};
use crate::route::lanes::{Kept, are_inside, choose, is_inside};
use crate::route::spread::Turn;
use crate::route::torus::Torus;
use crate::route::{Engine, RouteError};

/// Where next hops are chosen, and what keeps waiting packets apart.
struct Room<'a> {
    closure: &'a Closure,
    /// The map that the closure is safe with; without one it is safe on one layer, and so on any part of it.
    map: Option<&'a Arc<LaneMap>>,
    /// Layers that routes are spread over without a map.
    layers: LayerBudget,
}

impl Room<'_> {
    /// SLs that programs may be told, as bits; `None`: VL = SL, and tables have the layers already. SL 0 is left to
    /// those who do not ask, unless all are alike: then only the host's own cable has several VLs.
    fn sls(&self) -> Option<u16> {
        let map = self.map?;
        let all = (1u16 << self.layers.get().min(map.vls())) - 1;
        Some(if map.vls_per_lane() == 1 || all == 1 { all } else { all & !1 })
    }

    fn tables(
        &self,
        fabric: &Fabric,
        demand: &Demand,
        kept: Option<Kept<'_>>,
        engine: &str,
    ) -> Result<Tables, RouteError> {
        let tables = choose(fabric, demand, self.closure, kept, engine)?;
        if self.map.is_some() {
            return Ok(tables.with_lanes(self.map.cloned()));
        }
        let (turn, switches) = (Turn::new(fabric), fabric.switches().len());
        Ok(tables.edited(|_, layers| {
            for d in fabric.dest_ids() {
                let (home, port) = (fabric.home(d).index(), fabric.last_port(d));
                let row = layers[d.index() * switches..(d.index() + 1) * switches].iter_mut().enumerate();
                for (s, layer) in row.filter(|(s, layer)| *s != home && **layer != Tables::NO_LAYER) {
                    *layer = turn.of(s, home, port, self.layers.get().into()) as u8;
                }
            }
        }))
    }
}

/// One dimension after the other, where the closure has that: on meshes.
fn known_inside(fabric: &Fabric, room: &Room<'_>) -> Option<Tables> {
    let one = LayerBudget::new(1).ok()?;
    let tables = Torus.route(fabric, &Demand::oblivious(), one).ok()?;
    are_inside(fabric, room.closure, &tables).then(|| tables.with_lanes(room.map.cloned()))
}

/// These tables for no jobs, or the known ones if no channel of theirs has as many routes.
fn lightest((fabric, net): (&Fabric, &Net), demand: &Demand, room: &Room<'_>, light: Tables) -> Tables {
    let scene = Scene { fabric, net, demand, budget: room.layers, fullest: None };
    let known = known_inside(fabric, room);
    let most = fullest(&scene, &light).unwrap_or(u32::MAX);
    known.filter(|known| fullest(&scene, known).is_some_and(|known| known < most)).unwrap_or(light)
}

/// What is in force inside the closure.
struct InForce<'a> {
    tables: &'a Tables,
    /// By terminal, whether its tree is inside the closure.
    is_inside: Vec<bool>,
    /// Of these, by terminal, whether all its jobs go on.
    stays: Vec<bool>,
}

impl Balanced {
    /// Tables inside the closure of a lane map, with the map.
    pub(super) fn route_inside(
        &self,
        fabric: &Fabric,
        demand: &Demand,
        lanes: &FabricLanes,
        budget: LayerBudget,
    ) -> Result<Tables, RouteError> {
        let room = Room { closure: &lanes.closure, map: Some(&lanes.map), layers: budget };
        let traffic = Traffic::new(fabric, demand);
        let has_map =
            |t: &&Tables| t.lanes().is_some_and(|map| Arc::ptr_eq(map, &lanes.map) || **map == *lanes.map);
        let in_force = self.in_force_inside(fabric, &traffic, &lanes.closure, has_map);
        self.choose_inside(fabric, demand, &traffic, &room, in_force.as_ref())
    }

    /// Tables inside a closure that needs no lanes, spread over the layers; `None` if others are in force.
    ///
    /// # Errors
    /// As [`Engine::route`].
    pub(super) fn route_inside_one(
        &self,
        fabric: &Fabric,
        demand: &Demand,
        budget: LayerBudget,
    ) -> Result<Option<Tables>, RouteError> {
        let Ok(one) = LayerBudget::new(1) else { return Ok(None) };
        let closure = once::closure(fabric, one);
        let room = Room { closure: &closure, map: None, layers: budget };
        let traffic = Traffic::new(fabric, demand);
        let in_force = self.in_force_inside(fabric, &traffic, &closure, |t| t.lanes().is_none());
        let is_other = match &in_force {
            Some(in_force) => !in_force.is_inside.iter().all(|is| *is),
            None => self.in_force(fabric).0.is_some(),
        };
        if is_other {
            return Ok(None);
        }
        self.choose_inside(fabric, demand, &traffic, &room, in_force.as_ref()).map(Some)
    }

    /// Tables inside a closure. With jobs never predicted worse than tables without jobs, or than those in
    /// force. O(terminals × next hops × hops × sweeps).
    fn choose_inside(
        &self,
        fabric: &Fabric,
        demand: &Demand,
        traffic: &Traffic<'_>,
        room: &Room<'_>,
        in_force: Option<&InForce<'_>>,
    ) -> Result<Tables, RouteError> {
        let kept = in_force.map(|f| Kept { tables: f.tables, stays: &f.stays });
        let light = room.tables(fabric, demand, kept, self.name())?;
        let net = Net::new(fabric);
        let light = match in_force.is_none() && demand.is_oblivious() {
            true => lightest((fabric, &net), demand, room, light),
            false => light,
        };
        let none = vec![false; fabric.terminals().len()];
        let settled = in_force.map_or(&none, |f| &f.stays);
        // Where a job is to have one SL, that is SL 0.
        let sls = room.sls().filter(|_| !self.options.layer_per_job);
        let told_for = |demand: &Demand, tables: Tables, by_source| match sls {
            Some(sls) => self.told((fabric, &net), demand, tables, settled, (sls, by_source)),
            None => tables,
        };
        let told = |tables, by_source| told_for(demand, tables, by_source);
        let all_stay = kept.is_some_and(|kept| kept.stays.iter().all(|stays| *stays));
        if all_stay || self.aim == Aim::Counts || demand.is_oblivious() {
            return Ok(told(light, false));
        }
        let timed =
            |seed| Self::timed_inside(fabric, demand, traffic, room.closure, &light, (in_force, seed));
        let all = in_force.map(|f| Kept { tables: f.tables, stays: &f.is_inside });
        let other = room.tables(fabric, &Demand::oblivious(), all, self.name())?;
        let more = if in_force.is_none() { more(fabric) } else { Vec::new() };
        let seeds: Vec<u64> = [FIRST].into_iter().chain(more).collect();
        let tables: Vec<Tables> = seeds.into_par_iter().map(timed).collect();
        if room.map.is_some() && in_force.is_none() && is_raced(fabric, &net.hosts) {
            let blind = std::iter::once(other.clone()).chain(known_inside(fabric, room));
            let blind = blind.map(|tables| told_for(&Demand::oblivious(), tables, false));
            let blind: Vec<Tables> = blind.collect();
            let all: Vec<Tables> = tables.into_iter().chain([other, light]).collect();
            let both: Vec<(Tables, bool)> =
                all.into_iter().flat_map(|t| [(t.clone(), false), (t, true)]).collect();
            let of_jobs = |(tables, by_source)| Candidate::of_jobs(told(tables, by_source));
            let mut all: Vec<Candidate> = both.into_par_iter().map(of_jobs).collect();
            all.extend(blind.into_iter().map(|tables| Candidate { is_blind: true, tables }));
            return Ok(fastest(fabric, demand, all, Runs::Rounds));
        }
        let tables = tables.into_par_iter().map(|t| told(t, false)).collect();
        Ok(least(fabric, demand, tables, told(other, false)))
    }

    /// The tables in force that fit.
    fn in_force_inside<'a>(
        &'a self,
        fabric: &Fabric,
        traffic: &Traffic<'_>,
        closure: &Closure,
        fits: impl Fn(&&Tables) -> bool,
    ) -> Option<InForce<'a>> {
        let (previous, served) = self.in_force(fabric);
        let tables = previous.filter(fits)?;
        let is_inside: Vec<bool> = fabric
            .terminal_ids()
            .map(|t| is_inside(fabric, closure, tables, fabric.dest_of_terminal(t)))
            .collect();
        let settled = traffic.settled(served);
        let stays = is_inside.iter().zip(settled).map(|(is, settled)| *is && settled).collect();
        Some(InForce { tables, is_inside, stays })
    }

    /// The same tables with next hops exchanged for time.
    fn timed_inside(
        fabric: &Fabric,
        demand: &Demand,
        traffic: &Traffic<'_>,
        closure: &Closure,
        light: &Tables,
        (in_force, seed): (Option<&InForce<'_>>, u64),
    ) -> Tables {
        let net = Net::new(fabric);
        let layers = Layers::any(&net);
        let home = homes(fabric);
        let mut routing = Routing::new(&net, &layers, traffic, home, seed);
        let mut before = Vec::new();
        if let Some(in_force) = in_force {
            routing.read(fabric, in_force.tables);
            before = routing.rows_of(&in_force.is_inside, &in_force.stays);
        }
        routing.read(fabric, light);
        let settled = in_force.map_or_else(|| vec![false; fabric.terminals().len()], |f| f.stays.clone());
        routing.save_time(demand, &settled, Some(closure), Search::FIRST.slack);
        routing.restore(&before);
        let switches = net.switches();
        light.clone().edited(|ports, _| {
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
