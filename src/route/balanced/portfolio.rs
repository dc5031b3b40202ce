//! Other tables, where they are better: those of all other engines on small fabrics; on meshes and tori and with
//! few layers, where an order of channels may leave too few ways, on larger ones too, and with jobs those
//! inside a closure that needs no lanes (`inside`).

use std::sync::Arc;

use rayon::prelude::*;

use super::attempts::{doublings, is_simulated, orders};
use super::counted::{fullest, fullest_by_port_order, least_at_leaves, least_on_grid, most_stored};
use super::keep::Slots;
use super::net::Net;
use super::race::{Runs, fastest, quickest};
use super::timed::is_one_tree;
use super::traffic::Traffic;
use super::{Aim, Balanced, Search, is_grid, is_narrow, once};
use crate::measure::slowdown::{Time, rough_slowdowns, slowdowns};
use crate::model::{Demand, Fabric, LayerBudget, Tables};
use crate::route::forest::Forest;
use crate::route::graph::is_indirect;
use crate::route::lanes::{TreeWays, are_inside};
use crate::route::minhop::{Eligible, locally_balanced};
use crate::route::spread::spread_over;
use crate::route::trees::Join;
use crate::route::{Engine, RouteError, dfsssp, fattree, lash, nue, sar, torus, updown};
use crate::simulate::exchange;

/// Destinations × switches above which other engines would take longer than ours.
const MOST_ENTRIES: usize = 1 << 21;
/// As many up to which these are asked on trees that are hardly any.
const MOST_ODD_ENTRIES: usize = 1 << 22;
/// As many above which not even what takes a tenth of our time is asked.
const MOST_CHEAP_ENTRIES: usize = 1 << 24;
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
/// On one layer of a grid, smaller differences tell nothing: tables of 11 % more time were predicted 1 % faster.
const CLEAR_THERE: f64 = 1.02;
/// On more layers, too: predicted so much slower, others may finish sooner. The simulator chooses among them.
const NEAR: f64 = 1.3;
/// On large fabrics others are left out that are roughly predicted to take so much longer than ours, on the layers that
/// they need: split over all layers they gain less.
const FAR: f64 = 1.35;
/// The simulator is asked about so many on small fabrics, and about each with its layers in another way. It is asked about
/// fewer by as many as [`FEWER`] at twice the size, and so on.
const FEW: usize = 16;
/// See [`FEW`].
const FEWER: usize = 3;
/// It is asked about so many beside our own on larger fabrics.
const FEW_LARGE: usize = 2;
/// Makes the tables of a rival.
type Make<'a> = Box<dyn Fn() -> Result<Tables, RouteError> + Sync + Send + 'a>;

/// Someone else who is asked.
struct Rival<'a> {
    /// Whether it is told no jobs.
    is_blind: bool,
    make: Make<'a>,
}

/// Tables that may be the answer.
pub(super) struct Candidate {
    /// Whether they were made for no jobs.
    pub(super) is_blind: bool,
    pub(super) tables: Tables,
}

/// What is to be routed.
pub(super) struct Scene<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) net: &'a Net,
    pub(super) demand: &'a Demand,
    pub(super) budget: LayerBudget,
    /// Without jobs, most routes on a channel of our own tables, if that is known.
    pub(super) fullest: Option<u32>,
}

/// Tables that may be better than our own first ones.
struct Candidates {
    /// Of other engines and, with tables in force, `more` too.
    others: Vec<Candidate>,
    /// Of other searches of ours, and inside a closure.
    more: Vec<Candidate>,
    /// Of engines that know no jobs, on the layers that these chose.
    blind: Vec<Candidate>,
}

impl Balanced {
    /// These tables, or others if they are better for the demand: by predicted time with jobs, by the largest number of
    /// routes between hosts on a channel without. In a tree whose tables may be mixed they take its `ways`. What is in
    /// force stays an answer: with tables in force that no other engine made, ours are taken.
    pub(super) fn or_better(
        &self,
        fabric: &Fabric,
        net: &Net,
        (demand, budget): (&Demand, LayerBudget),
        ways: impl FnOnce() -> Option<Arc<TreeWays>>,
        (fullest, own): (Option<u32>, Tables),
    ) -> Result<Tables, RouteError> {
        let counts_jobs = self.aim == Aim::Counts && !demand.is_oblivious();
        if counts_jobs || self.options.layer_per_job {
            return Ok(own);
        }
        let scene = Scene { fabric, net, demand, budget, fullest };
        let tables = match self.candidates(&scene, ways, &own)? {
            Some(candidates) => self.choose(&scene, own, candidates),
            None => return Ok(own),
        };
        let (ports, layers) = tables.into_raw();
        Ok(Tables::new(fabric, self.name(), ports, layers)?)
    }

    /// Tables that may be the answer instead of our `own`; `None` if there are none, or ours are no tree's that may
    /// be mixed.
    fn candidates(
        &self,
        scene: &Scene<'_>,
        ways: impl FnOnce() -> Option<Arc<TreeWays>>,
        own: &Tables,
    ) -> Result<Option<Candidates>, RouteError> {
        let Scene { fabric, net, demand, budget, .. } = *scene;
        let (rivals, is_new) = (self.rivals(scene), self.in_force(fabric).0.is_none());
        let searches = self.searches(scene);
        if rivals.is_empty() && searches.is_empty() {
            return Ok(None);
        }
        let ways = ways();
        let may_be_mixed = |ways: &Arc<TreeWays>| are_inside(fabric, &ways.closure, own);
        if !ways.as_ref().is_none_or(may_be_mixed) {
            return Ok(None);
        }
        // Some of others' tables do not climb and descend.
        let complete = |tables| match &ways {
            Some(ways) => ways.complete(fabric, tables).ok(),
            None => Some(tables),
        };
        let made = rivals.into_par_iter().filter_map(|Rival { is_blind, make }| {
            make().ok().and_then(complete).map(|tables| (is_blind, tables))
        });
        let made: Vec<(bool, Tables)> = made.filter(|(_, tables)| self.may_follow(fabric, tables)).collect();
        let is_large = is_new && !demand.is_oblivious() && entries(fabric) > FEW_ENTRIES;
        let made = if is_large { not_far_behind(scene, own, made) } else { made };
        // Where the simulator chooses, it sees them as they are, too.
        let as_made = made.iter().filter(|(is_blind, _)| *is_blind && is_new && !is_indirect(&net.hosts));
        let as_made = as_made.map(|(_, tables)| Candidate { is_blind: true, tables: tables.clone() });
        let as_made: Vec<Candidate> = as_made.collect();
        let (blind, made): (Vec<bool>, Vec<Tables>) = made.into_iter().unzip();
        let mut others = self.split((fabric, net), demand, budget, made, false);
        let inside = self.inside_one(scene)?;
        if others.is_empty() && searches.is_empty() && inside.is_none() {
            return Ok(None);
        }
        let apart = Traffic::apart(fabric, demand);
        if let (Some(apart), true) = (&apart, is_new) {
            let level = |tables: &Tables| self.level_stored((fabric, net), apart, budget, tables);
            let levelled = |tables| level(&tables).and_then(complete).unwrap_or(tables);
            others = others.into_iter().map(levelled).collect();
        }
        let stored = |tables: &Tables| apart.as_ref().map(|[_, storage]| most_stored(scene, storage, tables));
        let most = stored(own);
        // Predictions know no storage: what fills channels more with it is no answer.
        let others = blind.into_iter().zip(others).filter(|(_, tables)| stored(tables) <= most);
        let mut others: Vec<Candidate> =
            others.map(|(is_blind, tables)| Candidate { is_blind, tables }).collect();
        let more = self.attempts(scene, searches).into_iter().filter_map(complete).chain(inside);
        let more = more.filter(|tables| stored(tables) <= most);
        let mut more: Vec<Candidate> = more.map(Candidate::of_jobs).collect();
        let blind = as_made.into_iter().filter(|made| stored(&made.tables) <= most).collect();
        if !is_new {
            others.append(&mut more);
        }
        Ok(Some(Candidates { others, more, blind }))
    }

    /// The best of our own tables and the candidates.
    fn choose(&self, scene: &Scene<'_>, own: Tables, candidates: Candidates) -> Tables {
        let Scene { fabric, demand, budget, .. } = *scene;
        let is_new = self.in_force(fabric).0.is_none();
        // What is in force already has the better of two that are much the same.
        let pays = match is_new {
            false => PAYS,
            true if is_narrow(fabric, budget) && !demand.is_oblivious() => 1.0 / CLEAR_THERE,
            true => 1.0,
        };
        let price = |tables: &Tables| cost(scene, tables);
        let is_tree = is_indirect(&scene.net.hosts);
        let simulates = if is_tree { exchange::is_short(&demand.groups) } else { is_simulated(fabric) };
        let is_unsure = is_new && !demand.is_oblivious() && simulates;
        let own_one = Candidate { is_blind: is_narrow(fabric, budget), tables: own };
        // Other engines' tables are predicted well in trees.
        if is_unsure && !is_tree {
            let all = [vec![own_one], candidates.more, candidates.others];
            let all: Vec<Candidate> = all.into_iter().flatten().collect();
            if budget.get() == 1 {
                return fastest(fabric, demand, all, Runs::Rounds);
            }
            let few = FEW.saturating_sub(FEWER * doublings(fabric) as usize);
            let mut near = nearly_least(priced(all, price), few);
            let same = near.iter().map(|candidate| candidate.tables.clone()).collect();
            let by_source = self.split((fabric, scene.net), demand, budget, same, true);
            near.extend(by_source.into_iter().map(Candidate::of_jobs));
            // Crowded channels slow down some exchanges by far less or more than predicted, also by how layers are chosen.
            near.extend(candidates.blind);
            return fastest(fabric, demand, near, Runs::Rounds);
        }
        if is_new && !is_tree && !demand.is_oblivious() && budget.get() > 1 {
            let all = candidates.more.into_iter().chain(candidates.others).collect();
            let mut near = nearly_least(priced(all, price), FEW_LARGE);
            near.extend(candidates.blind);
            return fastest(fabric, demand, std::iter::once(own_one).chain(near).collect(), Runs::Short);
        }
        let own = (price(&own_one.tables), own_one);
        let more = priced(candidates.more, price);
        let other = first_least(priced(candidates.others, price));
        let own = match is_unsure && is_tree && budget.get() > 1 {
            true => quickest(scene, own, more, other.as_ref().map(|other| other.0)),
            false => first_least(more).filter(|more| more.0 < own.0).unwrap_or(own),
        };
        match other {
            Some(best) if best.0 < own.0 * pays => best.1.tables,
            Some(best) if is_unsure && budget.get() == 1 => {
                fastest(fabric, demand, vec![own.1, best.1], Runs::Rounds)
            }
            _ => own.1.tables,
        }
    }

    /// Whether these tables, which are not made from those in force, are an answer: none are, or the same.
    pub(super) fn may_follow(&self, fabric: &Fabric, tables: &Tables) -> bool {
        let same = |p: &Tables| fabric.dest_ids().all(|d| p.ports_to(d) == tables.ports_to(d));
        self.in_force(fabric).0.is_none_or(same)
    }

    /// Who else is asked, in the order of preference. With tables in force, of which others are an answer only if
    /// they are the same, those that know jobs are left out.
    fn rivals<'a>(&'a self, scene: &'a Scene<'a>) -> Vec<Rival<'a>> {
        let Scene { fabric, demand, budget, .. } = *scene;
        let ask =
            |engine: Box<dyn Engine>| -> Make<'a> { Box::new(move || engine.route(fabric, demand, budget)) };
        // Theirs are the same for all jobs.
        let ask_once = |engine: Box<dyn Engine>| -> Make<'a> {
            Box::new(move || once::tables(engine.as_ref(), &self.options.roots, fabric, budget))
        };
        let blind = self.oblivious_rivals(scene).into_iter();
        let blind: Vec<Make<'a>> = match demand.is_oblivious() {
            true => blind.map(ask).collect(),
            false => blind.map(ask_once).collect(),
        };
        let mut rivals: Vec<Rival<'a>> =
            blind.into_iter().map(|make| Rival { is_blind: true, make }).collect();
        let mut add = |is_blind, make| rivals.push(Rival { is_blind, make });
        let entries = entries(fabric);
        let is_small = is_small(scene);
        if is_small {
            for eligible in [Eligible::All, Eligible::Parallel] {
                add(true, Box::new(move || self.layered(scene, eligible)));
            }
        }
        // On one layer of a grid predictions tell too little to choose among tables for the jobs; the simulator does tell.
        let is_blind = is_narrow(fabric, budget) && !is_simulated(fabric);
        if demand.is_oblivious() || self.in_force(fabric).0.is_some() || is_blind {
            return rivals;
        }
        // In trees predictions choose, not the simulator.
        if entries <= FEWEST_ENTRIES && budget.get() == 1 && !is_indirect(&scene.net.hosts) {
            for seed in orders(demand) {
                let of = move |job_aware| nue::Nue { job_aware, seed };
                add(true, Box::new(move || of(false).route(fabric, demand, budget)));
                add(false, ask(Box::new(of(true))));
            }
        }
        if is_small {
            for join in [Join::Sparingly, Join::Freely] {
                add(false, ask(Box::new(sar::Sar { layer_per_job: false, join })));
            }
            add(false, ask(Box::new(nue::Nue { job_aware: true, seed: 0 })));
        }
        if is_small && once::core(fabric, scene.net).is_some() {
            add(false, Box::new(move || self.route_as_a_whole((fabric, scene.net), demand, budget)));
        }
        let own = |aim| Balanced { options: self.options.clone(), aim, search: Search::FIRST };
        if entries <= FEWEST_ENTRIES {
            add(false, ask(Box::new(own(Aim::Counts))));
        }
        // Off trees these take less time than those for jobs, and on a crowded grid jobs may finish sooner with them.
        if entries <= FEWEST_ENTRIES || (entries <= MOST_ENTRIES && !is_indirect(&scene.net.hosts)) {
            add(true, ask_once(Box::new(own(Aim::Time))));
        }
        rivals
    }

    /// Those of them that know no jobs.
    fn oblivious_rivals(&self, scene: &Scene<'_>) -> Vec<Box<dyn Engine>> {
        let Scene { fabric, net, demand, budget, fullest } = *scene;
        let (is_tree, is_small, entries) = (is_indirect(&net.hosts), is_small(scene), entries(fabric));
        let is_grid = is_grid(fabric);
        let is_weak = (is_grid || budget.get() < FEW_LAYERS) && entries <= MOST_ENTRIES;
        // Of what is no small fabric, where our own tables are known to be beaten, or could be.
        let is_cheap = demand.is_oblivious() && entries <= MOST_CHEAP_ENTRIES;
        let is_open = |bound: fn(&Net) -> u32| is_cheap && fullest.is_some_and(|own| bound(net) < own);
        let mut rivals: Vec<Box<dyn Engine>> = Vec::new();
        if is_weak || is_small || (is_grid && is_cheap) {
            rivals.push(Box::new(torus::Torus));
        }
        if is_weak || is_small {
            rivals.push(Box::new(nue::Nue { job_aware: false, seed: 0 }));
        }
        if is_weak || is_small || (is_tree && is_open(least_at_leaves)) {
            rivals.push(Box::new(updown::UpDown { roots: self.options.roots.clone() }));
        }
        if is_small || (!is_tree && is_open(fullest_by_port_order)) {
            rivals.push(Box::new(lash::Lash));
        }
        // What is hardly a tree may be better served by these.
        let may_be_odd = is_tree && !demand.is_oblivious() && entries <= MOST_ODD_ENTRIES;
        if is_small || (may_be_odd && !is_one_tree(net)) {
            rivals.push(Box::new(dfsssp::Dfsssp));
            rivals.push(Box::new(fattree::FatTree));
        }
        rivals
    }

    /// Tables for no jobs that are known without a search: those of `torus` on a grid that is whole, if no
    /// tables have fewer routes on a channel.
    ///
    /// # Errors
    /// As [`Engine::route`].
    pub(super) fn known(
        &self,
        fabric: &Fabric,
        net: &Net,
        demand: &Demand,
        budget: LayerBudget,
    ) -> Result<Option<Tables>, RouteError> {
        if !is_grid(fabric) || !demand.is_oblivious() || self.options.layer_per_job {
            return Ok(None);
        }
        let Ok(tables) = torus::Torus.route(fabric, demand, budget) else { return Ok(None) };
        let scene = Scene { fabric, net, demand, budget, fullest: None };
        let is_least = fullest(&scene, &tables).is_some_and(|found| found <= least_on_grid(fabric, net));
        if !is_least || !self.may_follow(fabric, &tables) {
            return Ok(None);
        }
        let (ports, layers) = spread_over(fabric, net, tables, budget).into_raw();
        Ok(Some(Tables::new(fabric, self.name(), ports, layers)?))
    }

    /// Tables inside a closure for one layer.
    fn inside_one(&self, scene: &Scene<'_>) -> Result<Option<Tables>, RouteError> {
        let Scene { fabric, demand, budget, .. } = *scene;
        let is_weak = is_grid(fabric) || budget.get() < FEW_LAYERS;
        let is_wide = fabric.switches().len() * fabric.channels().len() > MOST_LOOKS;
        if demand.is_oblivious()
            || !is_weak
            || is_narrow(fabric, budget)
            || is_wide
            || entries(fabric) > MOST_ENTRIES
        {
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

/// Without others that are roughly predicted to take much longer than our own, but for the best ones that know no jobs:
/// on crowded grids predictions are wrong by as much.
fn not_far_behind(scene: &Scene<'_>, own: &Tables, others: Vec<(bool, Tables)>) -> Vec<(bool, Tables)> {
    let Scene { fabric, demand, .. } = *scene;
    let rough = |tables: &Tables| Time::of(&rough_slowdowns(fabric, tables, demand)).slowdown_mean;
    let times: Vec<f64> = others.par_iter().map(|(_, tables)| rough(tables)).collect();
    let blind = others.iter().zip(&times).filter(|((is_blind, _), _)| *is_blind);
    let most = blind.fold(f64::INFINITY, |least, (_, time)| least.min(*time)).max(rough(own) * FAR);
    others.into_iter().zip(times).filter(|(_, time)| *time <= most).map(|(other, _)| other).collect()
}

pub(super) fn entries(fabric: &Fabric) -> usize {
    fabric.dest_count() * fabric.switches().len()
}

/// Whether all engines are asked.
fn is_small(scene: &Scene<'_>) -> bool {
    let most = if is_indirect(&scene.net.hosts) { FEWEST_ENTRIES } else { FEW_ENTRIES };
    entries(scene.fabric) <= most
}

/// What tables are worth, less is better; infinite where a route does not arrive.
pub(super) fn cost(scene: &Scene<'_>, tables: &Tables) -> f64 {
    let Scene { fabric, demand, .. } = *scene;
    if demand.is_oblivious() {
        return fullest(scene, tables).map_or(f64::INFINITY, f64::from);
    }
    predicted(fabric, demand, tables)
}

impl Candidate {
    /// Tables that were made for the jobs.
    pub(super) fn of_jobs(tables: Tables) -> Self {
        Self { is_blind: false, tables }
    }
}

/// Tables with what they cost.
fn priced(candidates: Vec<Candidate>, cost: impl Fn(&Tables) -> f64 + Sync) -> Vec<(f64, Candidate)> {
    candidates.into_par_iter().map(|candidate| (cost(&candidate.tables), candidate)).collect()
}

/// Those that cost the least, the first of equal ones.
fn first_least(priced: Vec<(f64, Candidate)>) -> Option<(f64, Candidate)> {
    priced.into_iter().reduce(|a, b| if b.0 < a.0 { b } else { a })
}

/// Those that cost nearly as little as the least, the least first; no more than a few.
fn nearly_least(mut all: Vec<(f64, Candidate)>, few: usize) -> Vec<Candidate> {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = all.first().map_or(0.0, |best| best.0 * NEAR);
    all.into_iter().take(few).take_while(|priced| priced.0 <= most).map(|priced| priced.1).collect()
}

/// Those with the least predicted time; `last` if none of the others are as good.
pub(super) fn least(fabric: &Fabric, demand: &Demand, tables: Vec<Tables>, last: Tables) -> Tables {
    let time = |tables: &Tables| predicted(fabric, demand, tables);
    let last_time = time(&last);
    let best = first_least(priced(tables.into_iter().map(Candidate::of_jobs).collect(), time));
    best.filter(|best| best.0 <= last_time).map_or(last, |best| best.1.tables)
}

/// Predicted time of the jobs' exchanges.
pub(super) fn predicted(fabric: &Fabric, demand: &Demand, tables: &Tables) -> f64 {
    Time::of(&slowdowns(fabric, tables, demand)).slowdown_mean
}
