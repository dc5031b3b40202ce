//! `balanced`, the default engine: routes and layers together, for the jobs that run now.
//!
//! 1. The layers come first: each is an order of all channels (`layers`), chosen for a torus or mesh
//!    and learnt from shortest routes for any other fabric. A route that climbs in an order is allowed
//!    in that layer, so no cycle can ever arise and no route has to be moved between layers. Where a few
//!    channels limit a fabric without jobs, tables whose routes start with these are made as well (`hot`),
//!    and taken if no channel gets fuller.
//! 2. One tree per destination terminal is searched from the destination outwards (`search`). Each
//!    switch carries the set of layers that allow its route as a bit mask, so layers cost nothing.
//!    A switch that the search missed gets a route when a neighbour is led elsewhere (`repair`), and
//!    one layer holds a spanning tree as the last resort: there is always a route.
//! 3. Routes over the fullest channels are torn up and led elsewhere (`refine`), down to what no
//!    routing can beat (`bound`), if it can be reached. Below that maximum, each job's routes are then
//!    led over as many channels as can be, none of them full of the job's own (`widen`). In small fabrics,
//!    chains of moves then light channels that no single move can (`chain`).
//!    Without jobs, routes of a tree that are used in the same step of a shift are kept apart (`apart`).
//! 4. A route takes one of the layers that allow it, so that all are equally full (`spread`), unless
//!    each job is to have one.
//!
//! From tables in force (`keep`), the routes of jobs that they serve are taken over and move only off
//! channels an eighth above the bound, or onto channels that nobody else or none of their own job
//! uses; jobs that are new get new routes, and all that no job uses stays. In trees that are routed for time, what no job
//! uses follows the new routes instead (`timed`).
//!
//! That is what `balanced-efi` does, and `balanced` without jobs. With jobs, `balanced` aims at time
//! instead: for few messages of one step of a job on one channel (`timed`), and step 3 is left to that.
//!
//! Inside the closure of a fabric's lanes, tables begin as those that are good for counts there, and next hops
//! are exchanged for time (`inside`).
//!
//! On small fabrics, on meshes and tori, and with few layers, another engine's tables are taken if they are
//! better (`portfolio`). With no tables in force, and but for large fabrics, runs of the packet simulator tell which are
//! better off trees, and on one layer (`attempts`, `race`).
//!
//! With jobs, only routes inside jobs count (Definition 5.1 of Domke's thesis); without, all
//! routes between hosts. Where there are storage servers, what jobs read and write is levelled beside (`stored`).
//! Routes that no job uses are then chosen so that all routes between hosts are balanced, for a job that starts before
//! the next tables are there (`level`).

mod apart;
mod attempts;
mod bound;
mod chain;
mod climb;
mod counted;
mod graft;
mod grid;
mod hot;
mod hyperx;
mod inside;
mod jobs;
mod keep;
mod layers;
mod level;
mod nearer;
mod net;
mod once;
mod portfolio;
mod race;
mod refine;
mod repair;
mod routing;
mod search;
mod stored;
mod timed;
mod traffic;
mod widen;

use std::sync::Arc;

use rayon::prelude::*;

use self::jobs::JobLayers;
use self::keep::{InForce, Slots};
use self::layers::Layers;
use self::net::{NONE, Net};
use self::routing::{Routing, covers};
use self::search::{Ground, TreeSearch};
use self::traffic::{Class, Traffic};
use super::graph::hosts_per_switch;
use super::lanes::{TreeWays, tree_ways};
use super::spread::Turn;
use super::{Engine, EngineOptions, RouteError};
use crate::model::{Demand, DestId, Fabric, FabricLanes, LayerBudget, Shape, Tables};

/// Whether the packet simulator chooses among tables for jobs.
pub(super) fn is_raced(fabric: &Fabric) -> bool {
    attempts::is_raced(fabric, &hosts_per_switch(fabric))
}

/// Fewest rows of tables that are worth a thread.
const FEWEST_ROWS: usize = 64;

/// The engine.
pub(super) struct Balanced {
    options: EngineOptions,
    aim: Aim,
    search: Search,
}

/// One of several searches for routes of jobs. Each finds other tables.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// Of the random numbers.
    seed: u64,
    /// Hops by which a route may be longer than the shortest, off trees.
    slack: u16,
}

impl Search {
    /// The first one, and the only one in large fabrics.
    const FIRST: Self = Self::of(FIRST);

    /// With the usual slack.
    const fn of(seed: u64) -> Self {
        Self { seed, slack: 1 }
    }
}

/// Seed of [`Search::FIRST`].
const FIRST: u64 = 1;

/// What routes of jobs are to be good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// Jobs finish soon.
    Time,
    /// Few routes of jobs on each channel: effective EFI.
    Counts,
}

impl Balanced {
    pub(super) fn make(options: &EngineOptions) -> Box<dyn Engine> {
        Box::new(Self { options: options.clone(), aim: Aim::Time, search: Search::FIRST })
    }

    pub(super) fn make_for_counts(options: &EngineOptions) -> Box<dyn Engine> {
        Box::new(Self { options: options.clone(), aim: Aim::Counts, search: Search::FIRST })
    }
}

/// One layer of a grid. There few ways are left and queues push far back: predictions are wrong by a factor for
/// tables that are made by them, and fewest routes on a channel, jobs or not, are the better guess. Of tables that know
/// no jobs they still tell which is the better one.
fn is_narrow(fabric: &Fabric, budget: LayerBudget) -> bool {
    budget.get() == 1 && is_grid(fabric)
}

/// Whether it is a mesh, a torus or a hypercube, whole or not.
fn is_grid(fabric: &Fabric) -> bool {
    matches!(fabric.shape(), Shape::Grid { .. })
}

impl Engine for Balanced {
    fn name(&self) -> &'static str {
        match self.aim {
            Aim::Time => "balanced",
            Aim::Counts => "balanced-efi",
        }
    }

    fn route(&self, fabric: &Fabric, demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        let fits = |lanes: &&Arc<FabricLanes>| lanes.map.fabric() == fabric.fingerprint();
        if let Some(lanes) = self.options.lanes.as_ref().filter(fits) {
            return self.route_inside(fabric, demand, lanes, budget);
        }
        let net = Net::new(fabric);
        let Own { fullest, tables, is_best, climbing } = self.own(fabric, &net, demand, budget)?;
        // In a tree all tables that climb and descend alike may be mixed, with the same ways where cables are lost.
        let ways = || (!self.options.promise.is_told_only()).then(|| tree_ways(fabric)).flatten();
        let tables = match climbing.is_none().then(ways).flatten() {
            Some(ways) => self.to_be_mixed(fabric, demand, budget, &ways, tables)?,
            None => tables,
        };
        if let Some(loads) = climbing {
            once::note_climbing(fabric, &tables, loads);
        }
        if is_best {
            return Ok(tables);
        }
        self.or_better(fabric, &net, (demand, budget), ways, (fullest, tables))
    }
}

/// Tables that this engine makes itself.
struct Own {
    /// Without jobs, most routes on a channel, if that is known.
    fullest: Option<u32>,
    tables: Tables,
    /// Whether no other engine has better ones.
    is_best: bool,
    /// Routes between hosts on each channel, if all routes to hosts are known to climb and then descend.
    climbing: Option<Vec<u32>>,
}

impl Balanced {
    /// The tables of this engine alone, without a lane map.
    fn own(
        &self,
        fabric: &Fabric,
        net: &Net,
        demand: &Demand,
        budget: LayerBudget,
    ) -> Result<Own, RouteError> {
        let own = |fullest, tables| Own { fullest, tables, is_best: false, climbing: None };
        let best = |tables| Own { fullest: None, tables, is_best: true, climbing: None };
        if is_narrow(fabric, budget) && self.aim == Aim::Time && !demand.is_oblivious() {
            let none = Demand::new(Vec::new(), demand.storage.clone());
            return self.route(fabric, &none, budget).map(|tables| own(None, tables));
        }
        if self.aim == Aim::Time && !demand.is_oblivious() {
            if let Some(own) = self.route_tree(fabric, net, demand, budget) {
                return own;
            }
            if let Some(tables) = self.route_grafted((fabric, net), demand, budget) {
                return Ok(own(None, tables));
            }
        }
        if let Some(tables) = self.known(fabric, net, demand, budget)? {
            return Ok(best(tables));
        }
        if let Some(tables) = self.known_tree(fabric, net, demand, budget) {
            return tables.map(best);
        }
        let layers = Layers::once(fabric, net, budget.get(), !demand.is_oblivious());
        let (fullest, tables) = self.route_over(fabric, net, &layers, demand)?;
        // Few hosts, as in a job, would have few ways that start with full channels.
        let first = if demand.is_oblivious() { layers.hot_first(net) } else { None };
        if let Some(first) = first {
            let (fullest_first, tables_first) = self.route_over(fabric, net, &first, demand)?;
            if fullest_first <= fullest {
                return Ok(own(Some(fullest_first), tables_first));
            }
        }
        Ok(own(Some(fullest), tables))
    }

    /// Tables of a tree that may be mixed: these, or others where a layer's order has led them on no way up and then
    /// down, as it does where cables are lost. Where those in force lead on other ways too, others are made anew.
    fn to_be_mixed(
        &self,
        fabric: &Fabric,
        demand: &Demand,
        budget: LayerBudget,
        ways: &TreeWays,
        tables: Tables,
    ) -> Result<Tables, RouteError> {
        match ways.complete(fabric, tables) {
            Err(tables) if self.options.layer_per_job => Ok(tables),
            Err(tables) => {
                if let Some(inside) = self.route_inside_one(fabric, demand, budget)? {
                    return Ok(inside);
                }
                let options = EngineOptions { previous: None, served: None, ..self.options.clone() };
                let anew = Self { options, aim: self.aim, search: self.search };
                Ok(anew.route_inside_one(fabric, demand, budget)?.unwrap_or(tables))
            }
            Ok(tables) => Ok(tables),
        }
    }

    /// The tables in force on this fabric, and the demand that they serve.
    fn in_force(&self, fabric: &Fabric) -> (Option<&Tables>, Option<&Demand>) {
        let previous = self.options.previous.as_deref().filter(|p| p.fabric() == fabric.fingerprint());
        (previous, previous.and(self.options.served.as_ref()))
    }

    /// The tables over these layers, and the most routes of jobs (without jobs, between hosts) on a channel,
    /// before those in force are put back; `u32::MAX` if some find no way.
    fn route_over(
        &self,
        fabric: &Fabric,
        net: &Net,
        layers: &Layers,
        demand: &Demand,
    ) -> Result<(u32, Tables), RouteError> {
        let traffic = Traffic::new(fabric, demand);
        let oblivious = Demand::oblivious();
        let everyone = Traffic::new(fabric, &oblivious);
        let apart = Traffic::apart(fabric, demand);
        let mut routing = Routing::new(net, layers, &traffic, homes(fabric), self.search.seed);
        let (previous, served) = self.in_force(fabric);
        let in_force = routing.start_from(fabric, previous, served, &everyone);
        let InForce { settled, before, .. } = &in_force;
        let is_timed = self.aim == Aim::Time && !demand.is_oblivious();
        routing.is_start = is_timed;
        let (mut job_layers, mut fullest, mut units) = (JobLayers::default(), 0, Vec::new());
        for class in [Class::Job, Class::Storage, Class::Other] {
            routing.route(class, settled, layers.all);
            if class == Class::Job {
                fullest = routing.fullest();
                let is_other = served.is_some_and(|served| served.groups != demand.groups);
                if is_timed {
                    units = routing.save_time(demand, settled, None, self.search.slack);
                } else if is_other {
                    routing.touch_up(settled);
                }
                if !is_timed && (is_other || previous.is_none()) {
                    routing.light_up();
                }
                routing.restore(before);
            }
            if class == Class::Job && self.options.layer_per_job {
                is_timed.then(|| routing.sum_up(&traffic.destinations(Class::Job)));
                job_layers = routing.one_layer_per_job(fabric, demand);
            }
        }
        if let Some(apart) = &apart {
            routing.level_storage(apart, &job_layers, previous.is_some());
        }
        let fullest = if routing.is_lost { u32::MAX } else { fullest };
        let rows = match demand.is_oblivious() {
            true => routing.rows,
            false => {
                let is_known = is_timed && apart.is_none() && !self.options.layer_per_job;
                routing.level(&everyone, &job_layers, &in_force, is_known)
            }
        };
        if is_timed {
            let jobs = (job_layers, units.as_slice(), in_force.settled.as_slice());
            return Ok((fullest, self.write_timed(fabric, net, layers, rows, jobs)?));
        }
        let turn = (!self.options.layer_per_job).then(|| match layers.is_hot_first {
            // A full channel then carries the routes of few sources, but those to all homes.
            true => Turn::by_home(),
            false => Turn::new(fabric),
        });
        Ok((fullest, self.write((fabric, net), layers, rows, &job_layers, turn)?))
    }

    fn write(
        &self,
        (fabric, net): (&Fabric, &Net),
        layers: &Layers,
        rows: Vec<u8>,
        job_layers: &JobLayers,
        turn: Option<Turn>,
    ) -> Result<Tables, RouteError> {
        let is_ours = |tables: &&Tables| layers.is_climbing && tables.engine() == self.name();
        let kept = self.in_force(fabric).0.filter(is_ours);
        let (ports, layer_of) = finish((fabric, net), layers, rows, job_layers, turn, kept);
        Ok(Tables::new(fabric, self.name(), ports, layer_of)?)
    }
}

/// Home switch of each terminal.
fn homes(fabric: &Fabric) -> Vec<u32> {
    fabric.terminals().iter().map(|t| t.switch.index() as u32).collect()
}

/// Tables of the trees, raw: ports for slots, a layer per source (the first that allows the route, or by
/// `turn`), and the trees of the switches, those without terminals as they were `kept`.
fn finish(
    (fabric, net): (&Fabric, &Net),
    layers: &Layers,
    rows: Vec<u8>,
    job_layers: &JobLayers,
    turn: Option<Turn>,
    kept: Option<&Tables>,
) -> (Vec<u8>, Vec<u8>) {
    let switches = net.switches();
    let mut ports = rows;
    ports.resize(fabric.dest_count() * switches, NONE);
    let mut layer_of = vec![Tables::NO_LAYER; ports.len()];
    let slots = Slots::new(net);
    finish_switches(fabric, net, layers, &mut ports, kept.map(|kept| (&slots, kept)));
    let rows = ports.par_chunks_mut(switches).zip(layer_of.par_chunks_mut(switches)).enumerate();
    rows.with_min_len(FEWEST_ROWS).for_each_init(
        || TreeSearch::new(switches),
        |search, (d, (row, layer))| {
            let d = DestId::at(d);
            finish_row((fabric, net, &slots), layers, job_layers, turn, (search, d, row, layer));
        },
    );
    (ports, layer_of)
}

/// Adds the trees of the switches: that of their first terminal; of those without, the one that was `kept`, if it
/// is still allowed, or a new one. O(switches²), and O(channels) for each new tree.
fn finish_switches(
    fabric: &Fabric,
    net: &Net,
    layers: &Layers,
    ports: &mut [u8],
    kept: Option<(&Slots, &Tables)>,
) {
    let (switches, terminals) = (net.switches(), fabric.terminals().len());
    let price = vec![0.0; net.channels()];
    let (before, rows) = ports.split_at_mut(terminals * switches);
    let find = |search: &mut TreeSearch, (s, row): (usize, &mut [u8])| {
        let d = DestId::at(terminals + s);
        if let Some(t) = fabric.attached(fabric.home(d)).first() {
            row.copy_from_slice(&before[t.index() * switches..][..switches]);
            return;
        }
        if let Some((slots, kept)) = kept {
            slots.read(fabric, kept, d, row);
            search.follow(net, &layers.fit, layers.all, s, row);
            if covers(net, search, s) && search.reached.len() == switches {
                return;
            }
        }
        search.run(Ground { net, fit: &layers.fit, home: s, price_back: &price }, layers.all, row);
        search.attach_rest(net, row);
    };
    let rows = rows.par_chunks_mut(switches).enumerate().with_min_len(FEWEST_ROWS);
    rows.for_each_init(|| TreeSearch::new(switches), find);
}

/// Layers for the routes to one destination, and ports for slots.
fn finish_row(
    (fabric, net, slots): (&Fabric, &Net, &Slots),
    layers: &Layers,
    job_layers: &JobLayers,
    turn: Option<Turn>,
    (search, d, row, layer): (&mut TreeSearch, DestId, &mut [u8], &mut [u8]),
) {
    let (home, port) = (fabric.home(d).index(), fabric.last_port(d));
    // Trees of terminals only have routes that climb and then descend, which all such layers allow.
    let is_free = layers.is_climbing && job_layers.is_empty() && !fabric.attached(fabric.home(d)).is_empty();
    if !is_free {
        search.trace(net, &layers.fit, layers.all, home, row);
    }
    let pick = |s: usize, allowed: u16| match turn {
        Some(turn) => turn.pick(s, home, port, allowed),
        None => allowed.trailing_zeros() as u8,
    };
    let sources = net.sources.iter().map(|s| *s as usize);
    if is_free {
        let starts = sources.filter(|s| row[*s] != NONE || *s == home);
        starts.for_each(|s| layer[s] = pick(s, layers.all));
    } else {
        let starts = sources.filter(|s| search.layers[*s] != 0);
        starts.for_each(|s| layer[s] = pick(s, search.layers[s]));
    }
    slots.write(net, row);
    if let Some((of_job, switches)) = job_layers.of(d.index()) {
        let starts = switches.iter().map(|s| *s as usize).filter(|s| search.layers[*s] != 0);
        starts.for_each(|s| layer[s] = *of_job);
    }
    if net.is_source[home] {
        layer[home] = 0;
    }
    row[home] = port.get();
}
