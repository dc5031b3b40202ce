//! Trees to which something is attached that is no part of them: hosts on switches above the leaves, a leaf on the tops
//! alone, cables between switches of one level, switches without cables. The tree is routed as if it was alone, and all
//! else by ways up and then down. A management host on a top would cost all jobs the routes of a tree otherwise.

use std::sync::Arc;

use super::climb::Climb;
use super::jobs::JobLayers;
use super::keep::Slots;
use super::layers::Layers;
use super::net::{NONE, Net};
use super::routing::Routing;
use super::search::{Ground, TreeSearch};
use super::timed::{is_tree, is_whole_tree};
use super::traffic::Traffic;
use super::{Balanced, covers, homes, once};
use crate::model::{Demand, DestId, Fabric, Group, LayerBudget, Storage, SwitchId, Tables, TerminalId};
use crate::route::graph::is_indirect;
use crate::route::lanes::tree_ways;
use crate::route::spread::Turn;
use crate::route::updown::{Distances, histogram_roots};
use crate::route::{EngineOptions, RouteError};

/// Of a fabric's hosts, one in so many may be no part of the tree.
const FEW: usize = 20;

/// The tree in a fabric.
pub(super) struct Core {
    /// All switches, with the same ids; cables and terminals of the tree alone.
    fabric: Fabric,
    /// By terminal of the whole fabric, which one it is in the tree.
    terminals: Vec<Option<TerminalId>>,
    /// By switch, whether it is part of the tree.
    is_part: Vec<bool>,
    /// By switch, its place in an order by how far it is above the lowest switch. No two have the same one: a cable within a
    /// level leads up or down, too.
    places: Vec<u32>,
}

impl Core {
    /// `None` if the fabric is a tree as a whole, or is hardly one. Levels are those by hops from the roots that OpenSM's
    /// statistics find. O(switches × channels).
    pub(super) fn of(fabric: &Fabric, net: &Net) -> Option<Self> {
        if !is_indirect(&net.hosts) || is_tree(net) {
            return None;
        }
        let from_roots = net.hops_from(histogram_roots(net, &Distances::new(net)));
        let known = |s: &usize| from_roots[*s] != u32::MAX;
        let lowest = (0..net.switches()).filter(known).map(|s| from_roots[s]).max()?;
        let leaves =
            (0..net.switches()).filter(known).filter(|s| net.hosts[*s] > 0).map(|s| from_roots[s]).max()?;
        let levels: Vec<u32> =
            from_roots.iter().map(|hops| if *hops == u32::MAX { 0 } else { lowest - hops }).collect();
        let mut is_part: Vec<bool> =
            (0..net.switches()).map(|s| from_roots[s] == leaves && net.hosts[s] > 0).collect();
        for hops in (0..leaves).rev() {
            for s in (0..net.switches()).filter(|s| from_roots[*s] == hops) {
                is_part[s] =
                    net.out(s).map(|c| net.to(c)).any(|to| from_roots[to] == hops + 1 && is_part[to]);
            }
        }
        let joins = |a: usize, b: usize| is_part[a] && is_part[b] && levels[a].abs_diff(levels[b]) == 1;
        let climbs = |s: usize| net.out(s).any(|c| joins(s, net.to(c)));
        let has = |t: TerminalId| {
            let at = fabric.terminal(t).switch.index();
            is_part[at] && (!fabric.is_host(t) || (from_roots[at] == leaves && climbs(at)))
        };
        let mut place = (0..).map(TerminalId::at);
        let terminals: Vec<Option<TerminalId>> =
            fabric.terminal_ids().map(|t| if has(t) { place.next() } else { None }).collect();
        let hosts = fabric.host_ids().count();
        let others = fabric.host_ids().filter(|t| terminals[t.index()].is_none()).count();
        if others * FEW > hosts {
            return None;
        }
        let is_cut = |c| {
            let channel = fabric.channel(c);
            !joins(channel.from.index(), channel.to.index())
        };
        let mut order: Vec<usize> = (0..net.switches()).collect();
        order.sort_by_key(|s| (levels[*s], is_part[*s]));
        let mut places = vec![0; net.switches()];
        order.into_iter().zip(0..).for_each(|(s, place)| places[s] = place);
        let tree = fabric.keeping(is_cut, |_| false, |t| !has(t)).ok()?;
        is_tree(&Net::new(&tree)).then_some(Self { fabric: tree, terminals, is_part, places })
    }

    /// Whether the tree has lost no cable.
    pub(super) fn is_whole(&self) -> bool {
        is_whole_tree(&Net::new(&self.fabric))
    }

    /// What jobs in the tree exchange there.
    fn demand(&self, demand: &Demand) -> Demand {
        let within = |all: &[TerminalId]| all.iter().filter_map(|t| self.terminals[t.index()]).collect();
        let group = |group: &Group| Group {
            terminals: within(&group.terminals),
            ranks: within(&group.ranks),
            mix: group.mix.clone(),
            ..*group
        };
        let groups = demand.groups.iter().map(group).filter(|group| group.ranks.len() > 1).collect();
        let servers = within(&demand.storage.servers);
        Demand::new(groups, Storage { servers, ..demand.storage.clone() })
    }

    /// Destinations of the whole fabric and what they are in the tree.
    fn dests<'a>(&'a self, fabric: &'a Fabric) -> impl Iterator<Item = (DestId, DestId)> + 'a {
        let of = |d: DestId| match fabric.dest_terminal(d) {
            Some(t) => self.terminals[t.index()].map(|t| self.fabric.dest_of_terminal(t)),
            None => Some(self.fabric.dest_of_switch(fabric.home(d))),
        };
        fabric.dest_ids().filter_map(move |d| Some((d, of(d)?)))
    }

    /// What tables of the whole fabric say in the tree.
    fn tables(&self, fabric: &Fabric, tables: &Tables) -> Option<Tables> {
        let (mut ports, mut layers) = (Vec::new(), Vec::new());
        for (whole, _) in self.dests(fabric) {
            ports.extend_from_slice(tables.ports_to(whole));
            layers.extend_from_slice(tables.layers_to(whole));
        }
        Tables::new(&self.fabric, tables.engine(), ports, layers).ok()
    }
}

impl Balanced {
    /// The whole fabric taken for no tree, as it may be better served on a small one.
    ///
    /// # Errors
    /// As [`Engine::route`](crate::route::Engine::route).
    pub(super) fn route_as_a_whole(
        &self,
        (fabric, net): (&Fabric, &Net),
        demand: &Demand,
        budget: LayerBudget,
    ) -> Result<Tables, RouteError> {
        let layers = Layers::once(fabric, net, budget.get(), true);
        self.route_over(fabric, net, &layers, demand).map(|routed| routed.1)
    }

    /// Tables for jobs in a tree to which something else is attached; `None` if it is none, or somebody has no way up and
    /// then down to someone else and no other way is safe. O(as for the tree alone + entries).
    pub(super) fn route_grafted(
        &self,
        (fabric, net): (&Fabric, &Net),
        demand: &Demand,
        budget: LayerBudget,
    ) -> Option<Tables> {
        let core = once::core(fabric, net);
        let core = core.as_ref().as_ref().filter(|_| !self.options.layer_per_job)?;
        let in_tree = core.demand(demand);
        if in_tree.is_oblivious() {
            return None;
        }
        let (previous, served) = self.in_force(fabric);
        let options = EngineOptions {
            previous: previous.and_then(|tables| core.tables(fabric, tables)).map(Arc::new),
            served: served.map(|served| core.demand(served)),
            ..self.options.clone()
        };
        let of_tree = Self { options, aim: self.aim, search: self.search };
        let tree = &core.fabric;
        let own = of_tree.route_tree(tree, &Net::new(tree), &in_tree, budget)?.ok()?;
        let layers = Layers::climbing(net, &core.places, budget.get());
        let mut rows = core.rows((fabric, net), &layers, &own.tables);
        let is_beside = in_tree.storage.servers.len() < demand.storage.servers.len();
        if let Some(apart) = is_beside.then(|| Traffic::apart(fabric, demand)).flatten() {
            let none = JobLayers::default();
            let mut routing = Routing::new(net, &layers, &apart[0], homes(fabric), self.search.seed);
            routing.rows = rows;
            routing.level_storage(&apart, &none, previous.is_some());
            rows = routing.rows;
        }
        let tables =
            self.write((fabric, net), &layers, rows, &JobLayers::default(), Some(Turn::new(fabric))).ok()?;
        // Who is part of the tree keeps the layers that suit the jobs.
        let tables = tables.edited(|_, layers| {
            for (whole, d) in core.dests(fabric) {
                let row = &mut layers[whole.index() * net.switches()..][..net.switches()];
                let known = own
                    .tables
                    .layers_to(d)
                    .iter()
                    .map(|layer| (*layer != Tables::NO_LAYER).then_some(*layer));
                row.iter_mut().zip(known).for_each(|(layer, known)| *layer = known.unwrap_or(*layer));
            }
        });
        match self.options.promise.is_told_only() && is_complete(fabric, net, &tables) {
            true => Some(tables),
            // What may be mixed takes the same ways as all other tables.
            false => tree_ways(fabric)?.complete(fabric, tables).ok(),
        }
    }
}

impl Core {
    /// Slots towards each terminal: those of the tree's tables, ways up and then down beside them, and to terminals that
    /// are no part of it.
    fn rows(&self, (fabric, net): (&Fabric, &Net), layers: &Layers, tables: &Tables) -> Vec<u8> {
        let (slots, climb) = (Slots::new(net), Climb::new(&self.places));
        let mut rows = vec![NONE; fabric.terminals().len() * net.switches()];
        let mut search = TreeSearch::new(net.switches());
        let price = vec![0.0; net.channels()];
        for ((t, home), row) in homes(fabric).into_iter().enumerate().zip(rows.chunks_mut(net.switches())) {
            let home = home as usize;
            let Some(of_tree) = self.terminals[t] else {
                search.run(Ground { net, fit: &layers.fit, home, price_back: &price }, layers.all, row);
                if covers(net, &search, home) {
                    search.attach_rest(net, row);
                }
                continue;
            };
            slots.read(&self.fabric, tables, self.fabric.dest_of_terminal(of_tree), row);
            // Those beside the tree, from near to far.
            let beside = || (0..net.switches()).filter(|s| !self.is_part[*s]);
            let mut is_new = true;
            while std::mem::take(&mut is_new) {
                for s in beside().filter(|s| row[*s] == NONE && *s != home).collect::<Vec<_>>() {
                    let leads = |c: &usize| {
                        let to = net.to(*c);
                        to == home
                            || (row[to] != NONE && (climb.is_up(s, to) || climb.descends(net, home, row, to)))
                    };
                    let ways: Vec<usize> = net.out(s).filter(leads).collect();
                    if !ways.is_empty() {
                        row[s] = net.slot_at(s, ways[t % ways.len()]);
                        is_new = true;
                    }
                }
            }
            if net.sources.iter().all(|s| row[*s as usize] != NONE || *s as usize == home) {
                search.follow(net, &layers.fit, layers.all, home, row);
                search.attach_rest(net, row);
            }
        }
        rows
    }
}

/// Whether all hosts reach each other that some cables join.
fn is_complete(fabric: &Fabric, net: &Net, tables: &Tables) -> bool {
    let is_led = |d: DestId| {
        let home = fabric.home(d);
        let mut sources =
            (0..net.switches()).filter(|s| net.hosts[*s] > 0 && net.part[*s] == net.part[home.index()]);
        sources.all(|s| tables.port(SwitchId::at(s), d).is_some())
    };
    fabric.host_ids().all(|t| is_led(fabric.dest_of_terminal(t)))
}

#[cfg(test)]
mod tests {
    use super::super::counted::most_stored;
    use super::super::portfolio::Scene;
    use super::super::{Aim, Search};
    use super::*;
    use crate::lab::generate::generate;
    use crate::measure::slowdown::{Time, slowdowns};
    use crate::model::{FabricBuilder, Guid, NewTerminal, PortNum, Promise};
    use crate::route::Engine;
    use crate::route::lanes::are_inside;
    use crate::verify::{Checks, judge_with};

    /// A 4-ary tree of three levels and what is cabled to it: hosts of one more switch or of one that is there, and cables
    /// between switches.
    fn with(hosts: &[usize], cables: &[(usize, usize)]) -> Fabric {
        let tree = generate("kary:4,3").unwrap();
        let mut builder = FabricBuilder::default();
        let more = Guid::new(1 << 40).unwrap();
        let mut ids: Vec<SwitchId> = Vec::new();
        for s in tree.switches() {
            ids.push(builder.switch(s.guid, 40, Some(s.lid), &s.description).unwrap());
        }
        ids.push(builder.switch(more, 40, None, "more").unwrap());
        for t in tree.terminals() {
            builder.terminal(NewTerminal::like(t, t.switch)).unwrap();
        }
        for (n, s) in hosts.iter().enumerate() {
            let like = tree.terminal(TerminalId::at(0));
            let (guid, port) =
                (Guid::new((2 << 40) + n as u64).unwrap(), PortNum::new(30 + n as u64).unwrap());
            builder
                .terminal(NewTerminal {
                    node_guid: guid,
                    port_guid: guid,
                    port,
                    lid: None,
                    ..NewTerminal::like(like, ids[*s])
                })
                .unwrap();
        }
        for c in tree.channels().iter().step_by(2) {
            builder.cable(c.from, c.from_port, c.to, c.to_port).unwrap();
        }
        for (n, (a, b)) in cables.iter().enumerate() {
            let port = |base: u64| PortNum::new(base + n as u64).unwrap();
            builder.cable(ids[*a], port(20), ids[*b], port(35)).unwrap();
        }
        builder.build().unwrap()
    }

    fn route(fabric: &Fabric, demand: &Demand, options: EngineOptions) -> Tables {
        let engine = Balanced { options, aim: Aim::Time, search: Search::FIRST };
        engine.route(fabric, demand, LayerBudget::MOST).unwrap()
    }

    fn all_hosts_of_the_tree() -> Demand {
        Demand::new(vec![Group::new((0..64).map(TerminalId::at).collect())], Storage::default())
    }

    #[test]
    fn what_is_attached_to_a_tree_costs_its_jobs_nothing() {
        let (middle, top, more) = (16, 32, 48);
        let demand = all_hosts_of_the_tree();
        for (hosts, cables) in [
            (vec![top], vec![]),
            (vec![top, top + 1], vec![]),
            (vec![middle], vec![]),
            (vec![more, more], vec![(more, top), (more, top + 1)]),
            (vec![], vec![(middle, middle + 1)]),
            (vec![], vec![]),
        ] {
            let fabric = with(&hosts, &cables);
            for promise in [Promise::TOLD, Promise::EVERYTHING] {
                let tables = route(&fabric, &demand, EngineOptions { promise, ..Default::default() });
                let checks = Checks { promise, hosts_only: false };
                let verdict = judge_with(&fabric, &tables, LayerBudget::MOST, checks);
                assert!(verdict.accepted, "{hosts:?} {cables:?} {promise}: {:?}", verdict.findings);
                let slowdown = Time::of(&slowdowns(&fabric, &tables, &demand)).slowdown_mean;
                assert!(slowdown < 1.001, "{hosts:?} {cables:?} {promise}: {slowdown}");
            }
        }
    }

    /// Servers on the tops of several planes, which all hosts of jobs read from and write to.
    #[test]
    fn storage_beside_a_tree_costs_its_jobs_nothing() {
        let fabric = with(&[32, 33, 38], &[]);
        let servers: Vec<TerminalId> = (64..67).map(TerminalId::at).collect();
        let storage = Storage { servers, ..Storage::default() };
        let demand = Demand::new(all_hosts_of_the_tree().groups, storage);
        let net = Net::new(&fabric);
        let [_, stored] = Traffic::apart(&fabric, &demand).unwrap();
        for promise in [Promise::TOLD, Promise::EVERYTHING] {
            let options = EngineOptions { promise, ..Default::default() };
            let tables = route(&fabric, &demand, options.clone());
            let checks = Checks { promise, hosts_only: false };
            let verdict = judge_with(&fabric, &tables, LayerBudget::MOST, checks);
            assert!(verdict.accepted, "{promise}: {:?}", verdict.findings);
            let slowdown = Time::of(&slowdowns(&fabric, &tables, &demand)).slowdown_mean;
            assert!(slowdown < 1.001, "{promise}: {slowdown}");
            let own = Balanced { options, aim: Aim::Time, search: Search::FIRST };
            let whole = own.route_as_a_whole((&fabric, &net), &demand, LayerBudget::MOST).unwrap();
            let scene = Scene {
                fabric: &fabric,
                net: &net,
                demand: &demand,
                budget: LayerBudget::MOST,
                fullest: None,
            };
            let most = |tables: &Tables| most_stored(&scene, &stored, tables);
            assert!(most(&tables) <= most(&whole), "{promise}");
        }
    }

    /// OpenSM's statistics find no root of a plane in which a leaf of a small tree has lost its cable.
    #[test]
    fn planes_in_which_a_cable_is_out_are_of_use_beside_a_host_on_a_top() {
        let (top, whole) = (SwitchId::at(32), with(&[32], &[]));
        let joins = |a: SwitchId, b: SwitchId| whole.channels().iter().any(|c| (c.from, c.to) == (a, b));
        let cut =
            whole.channels().iter().position(|c| c.from == SwitchId::at(0) && !joins(c.to, top)).unwrap();
        let fabric = whole.without(|c| c.index() / 2 == cut / 2, |_| false).unwrap();
        let ways = tree_ways(&fabric).unwrap();
        let [from, home] = [15, 4].map(SwitchId::at);
        assert_eq!(ways.closure.ways(&fabric, from, home).count(), 4, "one by each plane");
    }

    /// Routes in force that climb twice are no start for tables that may be mixed: those are made anew.
    #[test]
    fn tables_in_force_that_may_not_be_mixed_give_way() {
        let fabric = generate("kary:4,3,faults=12%,seed=3").unwrap();
        let ways = tree_ways(&fabric).unwrap();
        let dfsssp = crate::route::engine("dfsssp", &EngineOptions::default()).unwrap();
        let other = dfsssp.route(&fabric, &Demand::oblivious(), LayerBudget::MOST).unwrap();
        assert!(!are_inside(&fabric, &ways.closure, &other), "or nothing is shown");
        let options = EngineOptions { previous: Some(Arc::new(other.clone())), ..Default::default() };
        let engine = Balanced { options, aim: Aim::Time, search: Search::FIRST };
        let demand = Demand::new(vec![Group::new((0..9).map(TerminalId::at).collect())], Storage::default());
        let made = engine.to_be_mixed(&fabric, &demand, LayerBudget::MOST, &ways, other).unwrap();
        assert!(are_inside(&fabric, &ways.closure, &made));
    }

    /// Connections of a job that goes on keep their routes when another one starts.
    #[test]
    fn jobs_that_go_on_keep_their_routes() {
        let fabric = with(&[32], &[]);
        let job = |hosts: std::ops::Range<usize>| Group::new(hosts.map(TerminalId::at).collect());
        let one = Demand::new(vec![job(0..24)], Storage::default());
        let both = Demand::new(vec![job(0..24), job(30..60)], Storage::default());
        let before = Arc::new(route(&fabric, &one, EngineOptions::default()));
        let options =
            EngineOptions { previous: Some(Arc::clone(&before)), served: Some(one), ..Default::default() };
        let after = route(&fabric, &both, options);
        for t in (0..24).map(TerminalId::at) {
            let d = fabric.dest_of_terminal(t);
            assert_eq!(before.ports_to(d), after.ports_to(d), "{t:?}");
        }
        assert_ne!(
            before.ports_to(DestId::at(40)),
            after.ports_to(DestId::at(40)),
            "the other one has its own"
        );
    }
}
