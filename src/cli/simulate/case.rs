//! What `sarouter simulate` sends.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::{Args, hardware, refused};
use crate::cli::Failure;
use crate::model::{Adapters, JobId, Pattern, did_you_mean, nearest};
use crate::simulate::patterns::Pattern as OneToOne;
use crate::simulate::traffic::script::Script;
use crate::simulate::{Net, Settings};

/// Who sends how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// In the phases of an exchange.
    Exchange(Pattern),
    Uniform,
    OneToOne(OneToOne),
    Ping {
        bulk: bool,
    },
    /// What jobs read and write alone.
    None,
}

/// What is no exchange, and the exchanges without numbers of their own.
const NAMES: [&str; 25] = [
    "none",
    "uniform",
    "server-permutation",
    "switch-permutation",
    "bisection",
    "transpose",
    "neighbor",
    "tornado",
    "grid-transpose",
    "grid-neighbor",
    "grid-tornado",
    "pingpong",
    "bulk",
    "linear",
    "shift",
    "alltoall",
    "random",
    "ring",
    "double-tree",
    "doubling",
    "halving",
    "bruck",
    "binomial",
    "halo2d",
    "halo3d",
];

impl FromStr for Kind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "none" => Self::None,
            "uniform" => Self::Uniform,
            "server-permutation" => Self::OneToOne(OneToOne::ServerPermutation),
            "switch-permutation" => Self::OneToOne(OneToOne::SwitchPermutation),
            "bisection" => Self::OneToOne(OneToOne::Bisection),
            "transpose" => Self::OneToOne(OneToOne::Transpose),
            "neighbor" => Self::OneToOne(OneToOne::Neighbor),
            "tornado" => Self::OneToOne(OneToOne::Tornado),
            "grid-transpose" => Self::OneToOne(OneToOne::GridTranspose),
            "grid-neighbor" => Self::OneToOne(OneToOne::GridNeighbor),
            "grid-tornado" => Self::OneToOne(OneToOne::GridTornado),
            "pingpong" => Self::Ping { bulk: false },
            "bulk" => Self::Ping { bulk: true },
            exchange => match exchange.parse() {
                Ok(pattern) => Self::Exchange(pattern),
                Err(error) => {
                    return Err(match nearest(text, NAMES.iter().copied()) {
                        None => error.to_string(),
                        near => format!("there is no traffic {text:?}{}", did_you_mean(near)),
                    });
                }
            },
        })
    }
}

/// What is simulated: everything but the routing.
pub(super) struct Case {
    pub(super) settings: Settings,
    pub(super) bytes: Option<u32>,
    pub(super) default: Kind,
    pub(super) own: BTreeMap<String, Kind>,
    pub(super) jobs: Vec<(Option<JobId>, Vec<u32>)>,
    /// How the terminals of each job are on its nodes.
    pub(super) adapters: Vec<Adapters>,
    pub(super) io: Io,
}

/// What jobs read and write beside.
#[derive(Debug, Clone, Default)]
pub(super) struct Io {
    /// Terminals of the servers.
    pub(super) servers: Vec<u32>,
    /// Bytes from each server to each host, and back.
    pub(super) reads: Option<u32>,
    pub(super) writes: Option<u32>,
}

impl Io {
    /// What a job reads and writes, with what that is called. Servers in the job are none of its own.
    pub(super) fn scripts(&self, net: &Net, members: &[u32], seed: u64) -> Vec<(&'static str, Script)> {
        let servers = self.servers.as_slice();
        let clients: Vec<u32> = members.iter().copied().filter(|t| !servers.contains(t)).collect();
        let script = |what, bytes: Option<u32>, from: &[u32], to: &[u32]| {
            Some((what, Script::between(from, to, net.terminals(), bytes?, seed)))
        };
        let reads = script("reads", self.reads, servers, &clients);
        let writes = script("writes", self.writes, &clients, servers);
        reads.into_iter().chain(writes).collect()
    }
}

impl Case {
    pub(super) fn new(
        args: &Args,
        net: &Net,
        jobs: Option<Vec<(Option<JobId>, Vec<u32>)>>,
    ) -> Result<Self, Failure> {
        let settings = hardware(&args.hardware, &args.set)?;
        let mut case = Self {
            settings,
            bytes: args.bytes,
            default: Kind::Exchange(Pattern::Shift),
            own: BTreeMap::new(),
            jobs: jobs.unwrap_or_else(|| vec![(None, net.hosts().to_vec())]),
            adapters: Vec::new(),
            io: Io::default(),
        };
        for word in &args.traffic {
            match word.split_once('=') {
                Some((job, kind)) => {
                    if !case.jobs.iter().any(|(id, _)| id.as_ref().is_some_and(|id| id.as_str() == job)) {
                        return Err(format!("--traffic {word}: there is no job {job}").into());
                    }
                    case.own.insert(job.to_string(), kind.parse()?);
                }
                None => case.default = word.parse()?,
            }
        }
        refused::check(args, &case)?;
        Ok(case)
    }

    pub(super) fn kind(&self, job: usize) -> Kind {
        let id = self.jobs[job].0.as_ref();
        id.and_then(|id| self.own.get(id.as_str())).copied().unwrap_or(self.default)
    }

    pub(super) fn script(&self, net: &Net, job: usize, seed: u64) -> Result<Script, Failure> {
        let (members, bytes) = (&self.jobs[job].1, self.bytes.unwrap_or(self.settings.mtu));
        Ok(match self.kind(job) {
            Kind::Exchange(pattern) => {
                let adapters = self.adapters.get(job).copied().unwrap_or_default();
                Script::among((members, adapters), net.terminals(), pattern, (bytes, 1), seed)
            }
            Kind::OneToOne(pattern) => {
                let to = pattern.destinations(net, members, seed)?;
                Script::once(members, net.terminals(), to, bytes)
            }
            _ => return Err("jobs run finite exchanges: no uniform, pingpong or bulk".into()),
        })
    }
}
