//! Other tables, where they are better: those of all other engines on small fabrics; on meshes and tori and with
//! few layers, where an order of channels may leave too few ways, on larger ones too, and with jobs those
//! inside a closure that needs no lanes (`inside`).

use rayon::prelude::*;

use super::attempts::faster;
use super::keep::Slots;
use super::net::{NONE, Net};
use super::traffic::{Class, Traffic};
use super::{Aim, Balanced, FIRST, is_narrow};
use crate::measure::slowdown::{Time, slowdowns};
use crate::model::{Demand, Fabric, LayerBudget, Shape, Tables, TerminalId};
use crate::route::forest::Forest;
use crate::route::graph::is_indirect;
use crate::route::lanes::{TreeWays, is_inside};
use crate::route::minhop::{Eligible, locally_balanced};
use crate::route::spread::spread_over;
use crate::route::trees::Join;
use crate::route::{Engine, RouteError, dfsssp, fattree, lash, nue, sar, torus, updown};

/// Destinations × switches above which other engines would take longer than ours.
const MOST_ENTRIES: usize = 1 << 21;
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

/// Makes the tables of a rival.
type Rival<'a> = Box<dyn Fn() -> Result<Tables, RouteError> + Sync + Send + 'a>;

/// What is to be routed.
pub(super) struct Scene<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) net: &'a Net,
    pub(super) demand: &'a Demand,
    pub(super) budget: LayerBudget,
    /// Without jobs, most routes on a channel of our own tables, if that is known.
    fullest: Option<u32>,
}

impl Balanced {
    /// These tables, or others if they are better for the demand: by predicted time with jobs, by
    /// the largest number of routes between hosts on a channel without. In a tree whose tables may be mixed they
    /// take its `ways`. What is in force stays an answer:
    /// with tables in force that no other engine made, ours are taken.
    pub(super) fn or_better(
        &self,
        fabric: &Fabric,
        net: &Net,
        (demand, budget): (&Demand, LayerBudget),
        ways: Option<&TreeWays>,
        (fullest, own): (Option<u32>, Tables),
    ) -> Result<Tables, RouteError> {
        let counts_jobs = self.aim == Aim::Counts && !demand.is_oblivious();
        if counts_jobs || self.options.layer_per_job {
            return Ok(own);
        }
        let scene = Scene { fabric, net, demand, budget, fullest };
        let rivals = self.rivals(&scene);
        if rivals.is_empty() {
            return Ok(own);
        }
        // Some of others' tables do not climb and descend.
        let may_be_mixed = |tables: &Tables| {
            let is_inside =
                |ways: &TreeWays| fabric.dest_ids().all(|d| is_inside(fabric, &ways.closure, tables, d));
            ways.is_none_or(is_inside)
        };
        let complete = |tables| match ways {
            Some(ways) => ways.complete(fabric, tables),
            None => tables,
        };
        if !may_be_mixed(&own) {
            return Ok(own);
        }
        let (previous, _) = self.in_force(fabric);
        let is_answer = |tables: &Tables| self.may_follow(fabric, tables) && may_be_mixed(tables);
        let made = rivals.into_par_iter().filter_map(|rival| rival().ok().map(complete));
        let made = made.filter(|tables| is_answer(tables));
        let mut others: Vec<Tables> = made.map(|t| spread_over(fabric, net, t, budget)).collect();
        let inside = self.inside_one(&scene)?;
        if others.is_empty() && inside.is_none() {
            return Ok(own);
        }
        // What is in force already has the better of two that are much the same.
        let pays = match previous {
            Some(_) => PAYS,
            None if is_narrow(fabric, budget) && !demand.is_oblivious() => 1.0 / CLEAR_THERE,
            None => 1.0,
        };
        let apart = Traffic::apart(fabric, demand);
        let levelled =
            |apart| move |t: Tables| self.level_stored((fabric, net), apart, budget, &t).unwrap_or(t);
        if let (Some(apart), None) = (&apart, previous) {
            others = others.into_iter().map(levelled(apart)).map(complete).collect();
        }
        let stored =
            |tables: &Tables| apart.as_ref().map(|[_, storage]| most_stored(&scene, storage, tables));
        let most = stored(&own);
        // Predictions know no storage: what fills channels more with it is no answer.
        others.retain(|tables| stored(tables) <= most);
        let more = self.attempts(&scene).into_iter().map(complete).chain(inside);
        let mut more: Vec<Tables> = more.filter(|t| may_be_mixed(t) && stored(t) <= most).collect();
        if previous.is_some() {
            others.append(&mut more);
        }
        let price = |tables: &Tables| cost(&scene, tables);
        let (own, best) = ((price(&own), own), least_of(others, price));
        let own = least_of(more, price).filter(|more| more.0 < own.0).unwrap_or(own);
        let tables = match best {
            Some(best) if best.0 < own.0 * pays => best.1,
            Some(best) if budget.get() == 1 && previous.is_none() && !demand.is_oblivious() => {
                faster(fabric, demand, own.1, best.1)
            }
            _ => own.1,
        };
        let (ports, layers) = tables.into_raw();
        Ok(Tables::new(fabric, self.name(), ports, layers)?)
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
            |engine: Box<dyn Engine>| -> Rival<'a> { Box::new(move || engine.route(fabric, demand, budget)) };
        let mut rivals: Vec<Rival<'a>> = self.oblivious_rivals(scene).into_iter().map(ask).collect();
        let entries = entries(fabric);
        let is_small = is_small(scene);
        if is_small {
            for eligible in [Eligible::All, Eligible::Parallel] {
                rivals.push(Box::new(move || self.layered(scene, eligible)));
            }
        }
        if demand.is_oblivious() || self.in_force(fabric).0.is_some() || is_narrow(fabric, budget) {
            return rivals;
        }
        if is_small {
            for join in [Join::Sparingly, Join::Freely] {
                rivals.push(ask(Box::new(sar::Sar { layer_per_job: false, join })));
            }
            rivals.push(ask(Box::new(nue::Nue { job_aware: true })));
        }
        if entries <= FEWEST_ENTRIES {
            let own = |aim| Balanced { options: self.options.clone(), aim, seed: FIRST };
            rivals.push(ask(Box::new(own(Aim::Counts))));
            rivals.push(Box::new(move || own(Aim::Time).route(fabric, &Demand::oblivious(), budget)));
        }
        rivals
    }

    /// Those of them that know no jobs.
    fn oblivious_rivals(&self, scene: &Scene<'_>) -> Vec<Box<dyn Engine>> {
        let Scene { fabric, net, demand, budget, fullest } = *scene;
        let (is_tree, is_small, entries) = (is_indirect(&net.hosts), is_small(scene), entries(fabric));
        let is_grid = matches!(fabric.shape(), Shape::Grid { .. });
        let is_weak = (is_grid || budget.get() < FEW_LAYERS) && entries <= MOST_ENTRIES;
        // Of what is no small fabric, where our own tables are known to be beaten, or could be.
        let is_cheap = demand.is_oblivious() && entries <= MOST_CHEAP_ENTRIES;
        let is_open = |bound: fn(&Net) -> u32| is_cheap && fullest.is_some_and(|own| bound(net) < own);
        let mut rivals: Vec<Box<dyn Engine>> = Vec::new();
        if is_weak || is_small || (is_grid && is_cheap) {
            rivals.push(Box::new(torus::Torus));
        }
        if is_weak || is_small {
            rivals.push(Box::new(nue::Nue { job_aware: false }));
        }
        if is_weak || is_small || (is_tree && is_open(least_at_leaves)) {
            rivals.push(Box::new(updown::UpDown { roots: self.options.roots.clone() }));
        }
        if is_small || (!is_tree && is_open(fullest_by_port_order)) {
            rivals.push(Box::new(lash::Lash));
        }
        if is_small {
            rivals.push(Box::new(dfsssp::Dfsssp));
            rivals.push(Box::new(fattree::FatTree));
        }
        rivals
    }

    /// Tables for no jobs that are known without a search: those of `torus` on a large grid that is whole, if no
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
        let is_grid = matches!(fabric.shape(), Shape::Grid { .. });
        if !is_grid || !demand.is_oblivious() || self.options.layer_per_job || entries(fabric) <= FEW_ENTRIES
        {
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
        let is_grid = matches!(fabric.shape(), Shape::Grid { .. });
        let is_weak = is_grid || budget.get() < FEW_LAYERS;
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

pub(super) fn entries(fabric: &Fabric) -> usize {
    fabric.dest_count() * fabric.switches().len()
}

/// Whether all engines are asked.
fn is_small(scene: &Scene<'_>) -> bool {
    let most = if is_indirect(&scene.net.hosts) { FEWEST_ENTRIES } else { FEW_ENTRIES };
    entries(scene.fabric) <= most
}

/// What tables are worth, less is better; infinite where a route does not arrive.
fn cost(scene: &Scene<'_>, tables: &Tables) -> f64 {
    let Scene { fabric, demand, .. } = *scene;
    if demand.is_oblivious() {
        return fullest(scene, tables).map_or(f64::INFINITY, f64::from);
    }
    predicted(fabric, demand, tables)
}

/// Of several tables those that cost the least, the first of equal ones.
fn least_of(tables: Vec<Tables>, cost: impl Fn(&Tables) -> f64 + Sync) -> Option<(f64, Tables)> {
    let priced: Vec<(f64, Tables)> = tables.into_par_iter().map(|tables| (cost(&tables), tables)).collect();
    priced.into_iter().reduce(|a, b| if b.0 < a.0 { b } else { a })
}

/// Those with the least predicted time.
pub(super) fn least(fabric: &Fabric, demand: &Demand, tables: Vec<Tables>) -> Option<(f64, Tables)> {
    least_of(tables, |tables| predicted(fabric, demand, tables))
}

/// Predicted time of the jobs' exchanges.
pub(super) fn predicted(fabric: &Fabric, demand: &Demand, tables: &Tables) -> f64 {
    Time::of(&slowdowns(fabric, tables, demand)).slowdown_mean
}

/// Most routes between hosts on a channel; `None` if one does not arrive. O(hosts × switches).
fn fullest(scene: &Scene<'_>, tables: &Tables) -> Option<u32> {
    let Scene { fabric, net, .. } = *scene;
    let (slots, mut loads) = (Slots::new(net), vec![0u32; net.channels()]);
    let mut row = vec![NONE; net.switches()];
    for d in fabric.host_ids().map(|t| fabric.dest_of_terminal(t)) {
        slots.read(fabric, tables, d, &mut row);
        add_tree(net, &row, fabric.home(d).index(), net.hosts.clone(), &mut loads)?;
    }
    Some(loads.into_iter().max().unwrap_or(0))
}

/// Most routes of storage on a channel; `u32::MAX` if one does not arrive. O((servers + hosts of jobs) × switches).
fn most_stored(scene: &Scene<'_>, storage: &Traffic<'_>, tables: &Tables) -> u32 {
    let Scene { fabric, net, .. } = *scene;
    let (slots, mut loads) = (Slots::new(net), vec![0u32; net.channels()]);
    let mut row = vec![NONE; net.switches()];
    for t in storage.destinations(Class::Job) {
        let d = fabric.dest_of_terminal(TerminalId::at(t));
        slots.read(fabric, tables, d, &mut row);
        let mut flow = vec![0; net.switches()];
        storage.fill(net, t, &mut flow);
        if add_tree(net, &row, fabric.home(d).index(), flow, &mut loads).is_none() {
            return u32::MAX;
        }
    }
    loads.into_iter().max().unwrap_or(0)
}

/// Adds routes by sending switch along a tree; `None` if one does not arrive. O(switches).
fn add_tree(net: &Net, row: &[u8], home: usize, mut flow: Vec<u32>, loads: &mut [u32]) -> Option<()> {
    let mut coming = vec![0u32; net.switches()];
    let channel = |s: usize| (s != home && row[s] != NONE).then(|| net.channel(s, row[s]));
    (0..net.switches()).filter_map(channel).for_each(|c| coming[net.to(c)] += 1);
    let mut ready: Vec<usize> = (0..net.switches()).filter(|s| coming[*s] == 0).collect();
    let mut seen = 0;
    while let Some(s) = ready.pop() {
        seen += 1;
        let Some(c) = channel(s) else {
            if s != home && flow[s] > 0 && net.part[s] == net.part[home] {
                return None;
            }
            continue;
        };
        let to = net.to(c);
        loads[c] += flow[s];
        flow[to] += flow[s];
        coming[to] -= 1;
        if coming[to] == 0 {
            ready.push(to);
        }
    }
    // What is not seen goes round.
    (seen == net.switches()).then_some(())
}

/// Most routes between hosts on a channel if all take the lowest of the ports that lead closer, which is the
/// order of dimensions in a HyperX. O(switches × (switches + channels)).
fn fullest_by_port_order(net: &Net) -> u32 {
    let (trees, mut loads) = (lash::port_order_trees(net), vec![0u32; net.channels()]);
    for home in (0..net.switches()).filter(|home| net.hosts[*home] > 0) {
        let row: Vec<u8> =
            trees.tree(home).iter().map(|slot| if *slot < Forest::HOME { *slot } else { NONE }).collect();
        let flow = net.hosts.iter().map(|n| n * net.hosts[home]).collect();
        if add_tree(net, &row, home, flow, &mut loads).is_none() {
            return u32::MAX;
        }
    }
    loads.into_iter().max().unwrap_or(0)
}

/// What the fullest channel of a grid carries at least: dimension by dimension, each route needs as many hops as
/// its ends are apart; where there are no rings all that crosses between two coordinates does so over the cables
/// there. 0 for other fabrics. O(channels + sum of squared sizes).
fn least_on_grid(fabric: &Fabric, net: &Net) -> u32 {
    let Shape::Grid { sizes, wrap, coords } = fabric.shape() else { return 0 };
    let dims = sizes.len();
    let least = |d: usize| -> u64 {
        let (at, size) = (|s: usize| usize::from(coords[s * dims + d]), usize::from(sizes[d]));
        let (mut hosts, mut cables) = (vec![0u64; size], vec![0u64; size]);
        (0..net.switches()).for_each(|s| hosts[at(s)] += u64::from(net.hosts[s]));
        for (from, to) in (0..net.channels()).map(|c| (at(net.from(c)), at(net.to(c)))) {
            if from != to {
                // Behind the lower end, or around the ring.
                cables[if from.abs_diff(to) == 1 { from.min(to) } else { size - 1 }] += 1;
            }
        }
        if wrap[d] {
            let apart = |a: usize, b: usize| a.abs_diff(b).min(size - a.abs_diff(b)) as u64;
            let pairs = (0..size).flat_map(|a| (0..size).map(move |b| (a, b)));
            let hops: u64 = pairs.map(|(a, b)| hosts[a] * hosts[b] * apart(a, b)).sum();
            return hops.div_ceil(cables.iter().sum::<u64>().max(1));
        }
        let all: u64 = hosts.iter().sum();
        let mut below = 0;
        let cut = |x: usize| {
            below += hosts[x];
            // Half of the channels lead each way.
            (below * (all - below)).div_ceil((cables[x] / 2).max(1))
        };
        (0..size.saturating_sub(1)).map(cut).max().unwrap_or(0)
    };
    u32::try_from((0..dims).map(least).max().unwrap_or(0)).unwrap_or(u32::MAX)
}

/// What the fullest channel out of a switch with hosts carries at least, where all are connected. O(switches).
fn least_at_leaves(net: &Net) -> u32 {
    let all: u32 = net.hosts.iter().sum();
    let least = |s: usize| (net.hosts[s] * (all - net.hosts[s])).div_ceil(net.degree(s).max(1) as u32);
    (0..net.switches()).map(least).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    /// Those that `torus` reaches: dimensions of one size, a longer one, and lines.
    #[test]
    fn grids_have_a_least_load() {
        let cases = [
            ("torus:8x8x8,hosts=4", 8192),
            ("torus:8x8x9,hosts=3", 5760),
            ("torus:32x32,hosts=2", 16_384),
            ("mesh:8x8,hosts=4", 2048),
            ("kary:3,2", 0),
        ];
        for (spec, least) in cases {
            let fabric = generate(spec).unwrap();
            assert_eq!(least_on_grid(&fabric, &Net::new(&fabric)), least, "{spec}");
        }
    }

    #[test]
    fn loads_are_those_of_all_routes_and_a_circle_has_none() {
        let fabric = generate("hyperx:3x4,hosts=2").unwrap();
        let (net, demand, budget) = (Net::new(&fabric), Demand::oblivious(), LayerBudget::MOST);
        let scene = Scene { fabric: &fabric, net: &net, demand: &demand, budget, fullest: None };
        let tables = lash::Lash.route(&fabric, &demand, budget).unwrap();
        assert_eq!(fullest(&scene, &tables), Some(16));
        assert_eq!(fullest_by_port_order(&net), 16);
        let looping = tables.edited(|ports, _| {
            // What goes to the first host turns back between two other switches.
            let home = fabric.home(crate::model::DestId::at(0)).index();
            let [a, b] = [(home + 1) % 12, (home + 2) % 12];
            let port = |from: usize, to: usize| net.port(net.out(from).find(|c| net.to(*c) == to).unwrap());
            (ports[a], ports[b]) = (port(a, b), port(b, a));
        });
        assert_eq!(fullest(&scene, &looping), None);
    }
}
