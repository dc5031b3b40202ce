//! Routes as if there were no aggregation nodes and routers: engines see hosts only.
//!
//! What is attached to a switch and belongs to no node must be reached, but neither sends what jobs
//! wait for nor shares out: so no engine counts it, takes its switch for a leaf, or spends a layer
//! on it. It gets the routes of its switch's management port.

use std::sync::Arc;

use super::{Engine, EngineOptions, Make, RouteError};
use crate::model::{
    Adapters, Demand, DestId, Fabric, Group, LayerBudget, PortNum, Storage, Tables, TerminalId,
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
