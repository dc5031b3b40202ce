//! Routes as if there were no aggregation nodes and routers: engines see hosts only.
//!
//! What is attached to a switch and belongs to no node must be reached, but neither sends what jobs
//! wait for nor shares out: so no engine counts it, takes its switch for a leaf, or spends a layer
//! on it. It gets the routes of its switch's management port. Programs of hosts do send there, so that each such
//! route needs a layer: where it fits into none of the engine's, into one more. Only where there are no more, the
//! engine is shown all terminals.

use std::sync::Arc;

use super::cdg::Dependencies;
use super::forest::Forest;
use super::graph::Graph;
use super::layer_stack::LayerStack;
use super::{Engine, EngineOptions, Make, RouteError};
use crate::model::{
    Adapters, Demand, DestId, Fabric, Group, LayerBudget, PortNum, Storage, SwitchId, Tables, TerminalId,
};

/// An engine that is shown hosts only.
pub(super) struct HostsOnly {
    make: Make,
    options: EngineOptions,
    /// For fabrics where all terminals are hosts.
    plain: Box<dyn Engine>,
}

impl HostsOnly {
    pub(super) fn new(make: Make, options: &EngineOptions) -> Self {
        Self { make, options: options.clone(), plain: make(options) }
    }
}

impl Engine for HostsOnly {
    fn name(&self) -> &'static str {
        self.plain.name()
    }

    fn route(&self, fabric: &Fabric, demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        if fabric.terminal_ids().all(|t| fabric.is_host(t)) {
            return self.plain.route(fabric, demand, budget);
        }
        // Leaving out terminals contradicts nothing.
        let Ok(hosts) = fabric.without_terminals(|t| !fabric.is_host(t)) else {
            return self.plain.route(fabric, demand, budget);
        };
        let ids = Ids::new(fabric);
        let lanes = self.options.lanes.as_ref().filter(|l| l.map.fabric() == fabric.fingerprint());
        let options = EngineOptions {
            roots: self.options.roots.clone(),
            previous: self.options.previous.as_ref().and_then(|p| ids.previous(fabric, &hosts, p)),
            served: self.options.served.as_ref().map(|served| ids.demand(served)),
            layer_per_job: self.options.layer_per_job,
            promise: self.options.promise,
            lanes: lanes.map(|lanes| Arc::new(lanes.for_same_cables(&hosts))),
        };
        let tables = (self.make)(&options).route(&hosts, &ids.demand(demand), budget)?;
        let (tables, is_whole) = with_layers(&hosts, tables, &ids.homes(fabric, &hosts), budget)?;
        if !is_whole {
            return self.shown_all(fabric, demand, budget);
        }
        let map = match (tables.lanes(), lanes) {
            (Some(_), Some(given)) => Some(Arc::clone(&given.map)),
            // What starts at the other terminals is no more than what the switch itself sends.
            (Some(made), None) => {
                Some(Arc::new(made.on(&hosts, fabric, |s, _, to| *made.row(s, PortNum::ZERO, to))))
            }
            (None, _) => None,
        };
        Ok(ids.whole(fabric, &hosts, &tables)?.with_lanes(map))
    }
}

impl HostsOnly {
    /// Tables of the engine that takes all terminals for hosts, none of before kept.
    fn shown_all(&self, fabric: &Fabric, demand: &Demand, budget: LayerBudget) -> Result<Tables, RouteError> {
        let options = EngineOptions {
            roots: self.options.roots.clone(),
            layer_per_job: self.options.layer_per_job,
            promise: self.options.promise,
            ..EngineOptions::default()
        };
        (self.make)(&options).route(&fabric.all_hosts(), demand, budget)
    }
}

/// Switches of hosts whose routes to a destination have no layer. O(switches).
fn lacking(fabric: &Fabric, tables: &Tables, d: DestId) -> Vec<SwitchId> {
    let (ports, layers, home) = (tables.ports_to(d), tables.layers_to(d), fabric.home(d));
    let lacks = |s: &SwitchId| {
        *s != home && layers[s.index()] == Tables::NO_LAYER && ports[s.index()] != Tables::UNREACHABLE
    };
    fabric.switch_ids().filter(|s| fabric.has_hosts(*s)).filter(lacks).collect()
}

/// Tables in which routes to these destinations from switches of hosts have a layer, and whether all have one.
/// O(destinations × switches), and as [`LayerStack::of_routes`] if one lacks a layer.
fn with_layers(
    fabric: &Fabric,
    tables: Tables,
    dests: &[DestId],
    budget: LayerBudget,
) -> Result<(Tables, bool), RouteError> {
    let lacking: Vec<(DestId, Vec<SwitchId>)> = dests
        .iter()
        .map(|d| (*d, lacking(fabric, &tables, *d)))
        .filter(|(_, from)| !from.is_empty())
        .collect();
    if lacking.is_empty() {
        return Ok((tables, true));
    }
    if tables.lanes().is_some() {
        // Inside lanes all are alike.
        let first = |_: &mut [u8], layers: &mut [u8]| {
            for (d, from) in &lacking {
                from.iter().for_each(|s| layers[d.index() * fabric.switches().len() + s.index()] = 0);
            }
        };
        return Ok((tables.edited(first), true));
    }
    let graph = Graph::new(fabric);
    let forest = Forest::of_tables(fabric, &graph, &tables);
    let (used, engine) = (usize::from(tables.layers_used()), tables.engine().to_string());
    let (ports, mut layers) = tables.into_raw();
    let mut is_whole = true;
    let mut stack = LayerStack::of_routes(&graph, &Dependencies::new(&graph), &forest, &layers, used);
    for (d, from) in lacking {
        for s in from {
            let layer = stack.place_within(forest.tree(d.index()), s.index(), budget.get().into());
            layers[d.index() * graph.switches() + s.index()] = layer;
            is_whole &= layer != Tables::NO_LAYER;
        }
    }
    Ok((Tables::new(fabric, &engine, ports, layers)?, is_whole))
}

/// Terminals of a fabric among its hosts. Both are in the order of port GUIDs.
struct Ids {
    /// `host[terminal]`: its number among the hosts.
    host: Vec<Option<TerminalId>>,
}

impl Ids {
    fn new(fabric: &Fabric) -> Self {
        let mut host = vec![None; fabric.terminals().len()];
        for (i, t) in fabric.host_ids().enumerate() {
            host[t.index()] = Some(TerminalId::at(i));
        }
        Self { host }
    }

    /// What the other terminals' routes are made from, where no host shares their switch.
    fn homes(&self, fabric: &Fabric, hosts: &Fabric) -> Vec<DestId> {
        let others = fabric.terminal_ids().filter(|t| self.host[t.index()].is_none());
        let mut homes: Vec<SwitchId> = others.map(|t| fabric.terminal(t).switch).collect();
        homes.sort_unstable();
        homes.dedup();
        homes.into_iter().filter(|s| !hosts.has_hosts(*s)).map(|s| hosts.dest_of_switch(s)).collect()
    }

    fn terminals(&self, all: &[TerminalId]) -> Vec<TerminalId> {
        all.iter().filter_map(|t| self.host[t.index()]).collect()
    }

    fn demand(&self, demand: &Demand) -> Demand {
        let group = |g: &Group| Group {
            terminals: self.terminals(&g.terminals),
            ranks: self.terminals(&g.ranks),
            mix: g.mix.clone(),
            // An adapter of no node makes nodes uneven.
            adapters: match g.terminals.iter().all(|t| self.host[t.index()].is_some()) {
                true => g.adapters,
                false => Adapters::default(),
            },
            weight: g.weight,
        };
        Demand {
            groups: demand.groups.iter().map(group).filter(|g| g.terminals.len() > 1).collect(),
            storage: Storage { servers: self.terminals(&demand.storage.servers), ..demand.storage },
        }
    }

    /// The destination among the hosts' that has the routes of one of the whole fabric.
    fn same_routes(&self, fabric: &Fabric, hosts: &Fabric, d: DestId) -> DestId {
        match fabric.dest_terminal(d).and_then(|t| self.host[t.index()]) {
            Some(t) => hosts.dest_of_terminal(t),
            None => hosts.dest_of_switch(fabric.home(d)),
        }
    }

    /// Tables in force, without the routes to other terminals.
    fn previous(&self, fabric: &Fabric, hosts: &Fabric, tables: &Tables) -> Option<Arc<Tables>> {
        if tables.fabric() != fabric.fingerprint() {
            return None;
        }
        let (mut ports, mut layers) = (Vec::new(), Vec::new());
        let is_kept = |d: &DestId| fabric.dest_terminal(*d).is_none_or(|t| self.host[t.index()].is_some());
        for d in fabric.dest_ids().filter(is_kept) {
            ports.extend_from_slice(tables.ports_to(d));
            layers.extend_from_slice(tables.layers_to(d));
        }
        let lanes = tables.lanes().map(|map| Arc::new(map.for_same_cables(hosts)));
        let kept = Tables::new(hosts, tables.engine(), ports, layers).ok()?;
        Some(Arc::new(kept.with_lanes(lanes)))
    }

    /// Tables with the routes to other terminals.
    fn whole(&self, fabric: &Fabric, hosts: &Fabric, tables: &Tables) -> Result<Tables, RouteError> {
        let entries = fabric.dest_count() * fabric.switches().len();
        let (mut ports, mut layers) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
        for d in fabric.dest_ids() {
            let (like, start) = (self.same_routes(fabric, hosts, d), ports.len());
            ports.extend_from_slice(tables.ports_to(like));
            layers.extend_from_slice(tables.layers_to(like));
            ports[start + fabric.home(d).index()] = fabric.last_port(d).get();
        }
        Ok(Tables::new(fabric, tables.engine(), ports, layers)?)
    }
}
