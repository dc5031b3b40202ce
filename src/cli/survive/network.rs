//! What fails and is loaded: a switched fabric, or a direct torus.

use super::damage::{Damage, Level};
use super::direct;
use crate::cli::input::need_hosts;
use crate::cli::simulate::hardware;
use crate::cli::{Failure, route_angara};
use crate::model::{Demand, Fabric, LayerBudget, Pattern, Tables, Torus, TorusTables};
use crate::observe::fabric;
use crate::observe::torus_toml::is_torus;
use crate::route::angara::Limits;
use crate::route::{self, EngineOptions};
use crate::simulate::run::{self, Load, Outcome, Windows};
use crate::simulate::traffic::open::Destinations;
use crate::simulate::traffic::script::Script;
use crate::simulate::{AnyRouter, Ended, Net, Settings, TableRouter, TorusRouter};
use crate::verify::{angara, judge};

/// A network of either kind.
pub(super) enum Network {
    Switched(Box<Fabric>),
    Direct(Box<Torus>),
}

/// Tables for all hosts of a network.
pub(super) enum Made {
    Switched(Tables),
    Direct(TorusTables),
}

/// Engines of direct tori that take seconds, not hours.
pub(super) fn torus_engines() -> Vec<String> {
    let quick = route::angara::ENGINES.iter().filter(|name| **name != "angara-genetic");
    quick.map(|name| name.to_string()).collect()
}

impl Network {
    /// Reads or generates one.
    pub(super) fn load(source: &str) -> Result<Self, Failure> {
        Ok(match is_torus(source) {
            true => {
                let site = route_angara::Site::load(source, None, &route_angara::TorusArgs::default())?;
                Self::Direct(Box::new(site.torus))
            }
            false => {
                let fabric = fabric::load(source)?;
                need_hosts(&fabric, source)?;
                Self::Switched(Box::new(fabric))
            }
        })
    }

    /// Whether there is an engine of this name for it.
    pub(super) fn knows(&self, engine: &str) -> Result<(), Failure> {
        match self {
            Self::Switched(_) => drop(route::engine(engine, &EngineOptions::default())?),
            Self::Direct(_) => drop(route::angara::engine(engine)?),
        }
        Ok(())
    }

    /// What it is, whatever its file is called.
    pub(super) fn fingerprint(&self) -> String {
        match self {
            Self::Switched(fabric) => fabric.fingerprint().to_string(),
            Self::Direct(torus) => torus.fingerprint().to_string(),
        }
    }

    /// Cables, and switches (nodes of a torus).
    pub(super) fn parts(&self) -> [usize; 2] {
        match self {
            Self::Switched(fabric) => [fabric.channels().len() / 2, fabric.switches().len()],
            Self::Direct(torus) => [direct::links(torus).len(), torus.healthy_nodes().len()],
        }
    }

    /// Terminals that send.
    pub(super) fn hosts(&self) -> usize {
        match self {
            Self::Switched(fabric) => fabric.host_ids().count(),
            Self::Direct(torus) => torus.healthy_nodes().len(),
        }
    }

    /// The hardware that it is made of, with changes.
    pub(super) fn hardware(&self, changes: &[String]) -> Result<Settings, Failure> {
        hardware(if matches!(self, Self::Switched(_)) { "qdr" } else { "angara" }, changes)
    }

    /// Of the usual levels of damage those that it can take with every seed; what was typed stays as it is.
    pub(super) fn bearable(&self, damage: &Damage, levels: Vec<Level>) -> Vec<Level> {
        match self {
            Self::Switched(fabric) => damage.bearable(fabric, levels),
            Self::Direct(_) => levels,
        }
    }

    /// With parts that failed.
    pub(super) fn damaged(&self, level: Level, seed: u64) -> Result<Self, Failure> {
        Ok(match self {
            Self::Switched(fabric) => Self::Switched(Box::new(level.with(seed).apply(fabric)?)),
            Self::Direct(torus) => {
                let broken = direct::by_lot(torus, &direct::links(torus), level, seed);
                Self::Direct(Box::new(torus.failing(&broken.nodes, &broken.links)))
            }
        })
    }

    /// Tables by an engine for routes between all hosts, or why there are none.
    pub(super) fn route(&self, engine: &str, layers: LayerBudget) -> Result<Result<Made, String>, Failure> {
        Ok(match self {
            Self::Switched(fabric) => {
                let engine = route::engine(engine, &EngineOptions::default())?;
                let tables = engine.route(fabric, &Demand::oblivious(), layers);
                tables.map(Made::Switched).map_err(|e| e.to_string())
            }
            Self::Direct(torus) => {
                let demand = crate::model::TorusDemand::whole(torus);
                let tables = route::angara::engine(engine)?.route(torus, &demand, &Limits::default());
                tables.map(Made::Direct).map_err(|e| e.to_string())
            }
        })
    }

    /// Whether the checker accepts tables.
    pub(super) fn accepts(&self, made: &Made, layers: LayerBudget) -> bool {
        match (self, made) {
            (Self::Switched(fabric), Made::Switched(tables)) => judge(fabric, tables, layers).accepted,
            (Self::Direct(torus), Made::Direct(tables)) => angara::judge(torus, tables, true).accepted,
            _ => false,
        }
    }

    /// A full exchange of messages of so many packets.
    pub(super) fn exchange(&self, made: &Made, settings: Settings, packets: u32) -> Result<Outcome, Failure> {
        self.on_net(made, |net, router| exchange(net, router, settings, packets))
    }

    /// As [`Network::exchange`], after uniform traffic at full load for a time; what ends in a deadlock is the answer.
    pub(super) fn loaded(
        &self,
        made: &Made,
        settings: Settings,
        packets: u32,
        measure_ns: f64,
    ) -> Result<Outcome, Failure> {
        self.on_net(made, |net, router| {
            let load = Load {
                members: net.hosts().to_vec(),
                destinations: Destinations::Uniform,
                bytes: settings.mtu,
                offered: None,
                windows: Windows::Given { warm_up_ns: 0.0, measure_ns },
                drain: true,
            };
            let uniform = run::load(net, settings, router, &load, 1)?;
            if uniform.ended == Ended::Deadlock {
                return Ok(uniform);
            }
            exchange(net, router, settings, packets)
        })
    }

    fn on_net<T>(
        &self,
        made: &Made,
        act: impl FnOnce(&Net, &AnyRouter<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match (self, made) {
            (Self::Switched(fabric), Made::Switched(tables)) => {
                let net = Net::of_fabric(fabric);
                let router = TableRouter::new(fabric, &net, tables)?;
                act(&net, &AnyRouter::Table(router))
            }
            (Self::Direct(torus), Made::Direct(tables)) => {
                let net = Net::of_torus(torus);
                let router = TorusRouter::new(&net, tables)?;
                act(&net, &AnyRouter::Torus(router))
            }
            _ => Err("tables of another kind of network".into()),
        }
    }
}

fn exchange(net: &Net, router: &AnyRouter<'_>, settings: Settings, packets: u32) -> Result<Outcome, Failure> {
    let bytes = settings.mtu.checked_mul(packets).ok_or("mtu and --packets: a message of 4 GiB or more")?;
    let script = Script::exchange(net.hosts(), net.terminals(), Pattern::Shift, bytes, 0);
    Ok(run::exchange(net, settings, router, script, 1)?)
}
