//! Routes that let jobs finish sooner: few messages of one step of a job on one channel, and few of
//! different jobs.
//!
//! In a tree, routes are chosen from the ground up ([`tree`]); elsewhere they begin one by one as shortest routes that
//! avoid each other's channels, inside a closure as those that are good for counts. Then single next hops are moved ([`polish`]) until the cost falls no more ([`meetings`]).

mod alone;
mod even;
mod exchange;
mod field;
mod meetings;
pub(super) mod part;
mod polish;
mod shape;
mod tree;
mod whole;

use std::collections::BTreeSet;

use self::exchange::Unit;
use self::part::{May, Wish};
use self::polish::{Reach, Room};
use self::shape::Shape;
pub(super) use self::shape::{is_one_tree, is_tree, is_whole_tree};
use super::climb::Climb;
use super::jobs::JobLayers;
use super::keep::InForce;
use super::layers::Layers;
use super::net::{NONE, Net};
use super::routing::Routing;
use super::traffic::{Class, Traffic};
use super::{Balanced, FIRST, Own, homes};
use crate::model::{Closure, Demand, Fabric, LayerBudget, Tables};
use crate::route::RouteError;
use crate::route::spread::{Turn, spread_over};

/// Temperatures of the sweeps over all routes of jobs in a tree.
const HEATS_TREE: [f32; 8] = [0.0; 8];
/// The same in another search for a job that is alone. One that meets nowhere would meet itself after warm sweeps, so the
/// first search has none.
const HEATS_TREE_AGAIN: [f32; 16] =
    [0.01, 0.007, 0.005, 0.004, 0.003, 0.002, 0.0015, 0.001, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];

/// Warm sweeps of another attempt for several jobs, and the temperatures of the first and of the last. With eight of them
/// jobs take a hundredth longer; with 160 none less.
const WARM_AGAIN: usize = 64;
const WARM: f32 = 0.012;
const COOL: f32 = 0.003;

/// Temperatures of the sweeps over all routes of jobs in other fabrics, in units of the cost.
const HEATS: [f32; 4] = [0.02, 0.01, 0.0, 0.0];
/// The same in large fabrics.
const HEATS_LARGE: [f32; 3] = [0.02, 0.0, 0.0];
/// The same inside a closure.
const HEATS_CLOSED: [f32; 6] = [0.02, 0.01, 0.005, 0.0, 0.0, 0.0];
/// What channels may carry in all, over what they carry with shortest routes. Where longer ones fill them more than
/// this, exchanges whose steps are in no order take longer (a HyperX: 1.3, and 1.4 times as long).
const MOST_CARRIED: f32 = 5.0 / 4.0;
/// The same inside a closure, over what they carried before.
const MOST_CARRIED_CLOSED: f32 = 7.0 / 6.0;

impl<'a> Routing<'a> {
    /// Starts a tree from tables in force. Routes to a terminal stay that are settled: those of jobs that go on.
    ///
    /// A job that starts before the next tables are there meets itself least where each terminal has one way down, and
    /// terminals of a leaf have different ones. So what no job uses follows what jobs have now, not what they had: the
    /// ways of terminals whose jobs are over are chosen anew, and those of all in no job if they are no more than the
    /// terminals that change anyway. O(terminals × switches).
    fn keep_running(
        &mut self,
        fabric: &Fabric,
        previous: Option<&Tables>,
        served: Option<&Demand>,
        everyone: &'a Traffic<'a>,
    ) -> InForce {
        let mut in_force = self.start_from(fabric, previous, served, everyone);
        let (settled, before) = (&mut in_force.settled, &in_force.before);
        if settled.iter().all(|settled| *settled) {
            return in_force;
        }
        let is_idle = |t: &usize| settled[*t] && self.traffic.class(*t) == Class::Other;
        let was_in_jobs = served.iter().flat_map(|demand| &demand.groups).flat_map(|group| &group.terminals);
        let mut idle: BTreeSet<usize> = was_in_jobs.map(|t| t.index()).filter(is_idle).collect();
        let all: Vec<usize> = (0..settled.len()).filter(is_idle).collect();
        if all.len() <= before.len() + idle.len() {
            idle.extend(all);
        }
        let anew = before.iter().map(|(t, _)| *t).chain(idle.iter().copied());
        self.weigh_all(anew, everyone, u32::wrapping_sub);
        idle.iter().for_each(|t| settled[*t] = false);
        in_force
    }

    /// Gives switches without a way to a terminal one, but for those that are `settled`.
    fn attach_all(&mut self, settled: &[bool]) {
        let switches = self.net.switches();
        for t in (0..self.home.len()).filter(|t| !settled[*t]) {
            let row = t * switches..(t + 1) * switches;
            if self.rows[row.clone()].iter().filter(|slot| **slot == NONE).count() > 1 {
                self.follow(t);
                self.search.attach_rest(self.net, &mut self.rows[row]);
            }
        }
    }

    /// Moves routes to destinations in jobs that are not `settled`, inside the layers, and inside a closure if
    /// there is one; to ways that are at most `slack` hops longer than the shortest. Returns what was looked at. Moves
    /// leave the loads as they were.
    pub(super) fn save_time(
        &mut self,
        demand: &Demand,
        settled: &[bool],
        closure: Option<&Closure>,
        slack: u16,
    ) -> Vec<Unit> {
        let (_, units) = exchange::units(demand, &self.home);
        let free: Vec<bool> = settled.iter().map(|s| !s).collect();
        let (heats, growth) = match closure {
            Some(_) => (&HEATS_CLOSED[..], MOST_CARRIED_CLOSED),
            None if self.is_large(self.home.len()) => (&HEATS_LARGE[..], MOST_CARRIED),
            None => (&HEATS[..], MOST_CARRIED),
        };
        let (before, most) = (self.rows.clone(), self.carried(&units) * growth);
        let mut reach = Reach::new(self.net);
        for slack in [slack, 0] {
            reach.slack = slack;
            let room = match closure {
                Some(closure) => Room::Closed { closure, reach: &reach },
                None => Room::Layered { reach: &reach },
            };
            self.polish(&units, &free, &room, heats);
            if slack == 0 || self.carried(&units) <= most {
                break;
            }
            self.rows.copy_from_slice(&before);
        }
        units
    }
}

impl Balanced {
    /// Other tables, their layers split over the budget: with jobs, as suits these.
    pub(super) fn split(
        &self,
        (fabric, net): (&Fabric, &Net),
        demand: &Demand,
        budget: LayerBudget,
        others: Vec<Tables>,
        by_source: bool,
    ) -> Vec<Tables> {
        if demand.is_oblivious() || budget.get() == 1 {
            return others.into_iter().map(|t| spread_over(fabric, net, t, budget)).collect();
        }
        let home = homes(fabric);
        let (_, units) = exchange::units(demand, &home);
        let (previous, served) = self.in_force(fabric);
        let settled = Traffic::new(fabric, demand).settled(served);
        let wish = Wish { keep: previous.map(|tables| (tables, settled.as_slice())), by_source };
        others.into_iter().map(|t| part::split(fabric, net, t, budget, &units, wish)).collect()
    }

    /// Tables inside the closure of their lane map, with the SLs that programs are told: as suits the jobs, and those of
    /// tables in force to terminals that are `settled`.
    pub(super) fn told(
        &self,
        (fabric, net): (&Fabric, &Net),
        demand: &Demand,
        tables: Tables,
        settled: &[bool],
        (sls, by_source): (u16, bool),
    ) -> Tables {
        let home = homes(fabric);
        let (_, units) = exchange::units(demand, &home);
        let keep = self.in_force(fabric).0.filter(|t| t.lanes().is_some()).map(|tables| (tables, settled));
        part::tell(fabric, net, tables, sls, &units, Wish { keep, by_source })
    }

    /// Another engine's tables of a tree, with what storage adds levelled as `apart` says; `None` if the fabric is
    /// no tree, or they do not climb and then descend everywhere.
    pub(super) fn level_stored<'a>(
        &self,
        (fabric, net): (&Fabric, &Net),
        apart: &'a [Traffic<'a>; 2],
        budget: LayerBudget,
        tables: &Tables,
    ) -> Option<Tables> {
        let shape = Shape::of(net)?;
        let layers = Layers::climbing(net, &shape.levels, budget.get());
        let home = homes(fabric);
        let mut routing = Routing::new(net, &layers, &apart[0], home, FIRST);
        let none = JobLayers::default();
        if !routing.keep(fabric, tables).0.into_iter().all(|kept| kept) {
            return None;
        }
        routing.level_storage(apart, &none, false);
        self.write((fabric, net), &layers, routing.rows, &none, Some(Turn::new(fabric))).ok()
    }

    /// Tables for the jobs of a tree; `None` if the fabric is none, or has leaves that cables which are cut
    /// keep from each other.
    pub(super) fn route_tree(
        &self,
        fabric: &Fabric,
        net: &Net,
        demand: &Demand,
        budget: LayerBudget,
    ) -> Option<Result<Own, RouteError>> {
        let shape = Shape::of(net)?;
        let is_tapered = shape.is_tapered(net);
        let layers = Layers::climbing(net, &shape.levels, budget.get());
        let traffic = Traffic::new(fabric, demand);
        let home = homes(fabric);
        // Every second attempt knows steps of more exchanges.
        let wide = (self.search.seed % 2 == 0).then(|| exchange::widened(demand));
        let (mut jobs, mut units) = exchange::units(wide.as_ref().unwrap_or(demand), &home);
        // Where channels are fewer than hosts, all messages there are count, and this makes some exchanges take longer.
        // Where cables are lost, routes of large jobs would crowd channels that others need.
        if !is_tapered && shape.is_whole() {
            exchange::count_alike(&mut jobs, &mut units);
        }
        let mut routing = Routing::new(net, &layers, &traffic, home.clone(), self.search.seed);
        routing.climb = Some(Climb::new(&shape.levels));
        let oblivious = Demand::oblivious();
        let everyone = Traffic::new(fabric, &oblivious);
        let (previous, served) = self.in_force(fabric);
        let InForce { fullest, settled, is_climbing, .. } =
            routing.keep_running(fabric, previous, served, &everyone);
        let choices = tree::read_all(net, &shape, &routing, &settled);
        let scene = alone::Scene { shape: &shape, jobs: &jobs, units: &units, settled: &settled };
        let warm = if self.search.seed == FIRST { 0 } else { WARM_AGAIN };
        let heats: Vec<f32> = tree::cooling(warm, (WARM, COOL)).chain(HEATS_TREE).collect();
        routing.lead(&scene, &choices, (self.search.seed, &heats))?;
        if !is_tapered {
            routing.lead_alone(&scene, &choices)?;
        }
        routing.attach_all(&settled);
        let mut job_layers = JobLayers::default();
        if self.options.layer_per_job {
            job_layers = routing.one_layer_per_job(fabric, demand);
        }
        let apart = Traffic::apart(fabric, demand);
        if let Some(apart) = &apart {
            routing.level_storage(apart, &job_layers, previous.is_some());
            routing.clear_load();
        }
        let is_counted = |t: &usize| settled[*t] && apart.is_none();
        let anew = (0..home.len()).filter(|t| !is_counted(t));
        let is_climbing = routing.weigh_all(anew, &everyone, u32::wrapping_add) && is_climbing;
        routing.level_tree(&everyone, &job_layers, fullest);
        let Routing { rows, load, .. } = routing;
        let jobs = (job_layers, units.as_slice(), settled.as_slice());
        let tables = self.write_timed(fabric, net, &layers, rows, jobs);
        // No two messages of a step of a job alone need to meet there, or hardly any, which predictions do not see well.
        let is_best = !is_tapered && demand.groups.len() == 1 && demand.storage.is_empty();
        let climbing = is_climbing.then_some(load);
        Some(tables.map(|tables| Own { fullest: None, tables, is_best, climbing }))
    }

    /// Tables whose routes of jobs wait behind few others, or are on the layer of their job.
    pub(super) fn write_timed(
        &self,
        fabric: &Fabric,
        net: &Net,
        layers: &Layers,
        rows: Vec<u8>,
        (job_layers, units, settled): (JobLayers, &[Unit], &[bool]),
    ) -> Result<Tables, RouteError> {
        if self.options.layer_per_job || layers.all.count_ones() < 2 {
            let turn = (!self.options.layer_per_job).then(|| Turn::new(fabric));
            return self.write((fabric, net), layers, rows, &job_layers, turn);
        }
        let keep = self.in_force(fabric).0.map(|tables| (tables, settled));
        let wish = Wish { keep, by_source: false };
        let choices = part::part(fabric, net, &May::of(layers), &rows, units, wish);
        let tables = self.write((fabric, net), layers, rows, &job_layers, Some(Turn::new(fabric)))?;
        Ok(tables.edited(|_, layers| part::write(&choices, net.switches(), layers)))
    }
}
