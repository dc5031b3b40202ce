//! Fabric, Slurm, and whether they speak of the same nodes.

use std::collections::BTreeSet;

use chrono::Utc;

use super::installation::keys;
use super::{Check, Failure, chain, some};
use crate::config::{FabricSource, Settings};
use crate::model::{NodeName, Torus};
use crate::observe::child::BoundedCommand;
use crate::observe::hostlist;
use crate::observe::slurm::Squeue;
use crate::observe::source::{JOB_SOURCES, JobSource, job_source};
use crate::observe::topology_conf::Topology;
use crate::observe::torus_toml;
use crate::route::{self, EngineOptions, lanes};
use crate::service::kind::direct;
use crate::service::look::{FabricReader, Named, view};
use crate::service::parts::Parts;

pub(super) fn check(settings: &Settings) -> Result<Vec<Check>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut checks = Vec::new();
    let (torus, named) = match direct::source(settings) {
        Some(source) => (direct(&source, &mut checks), None),
        None => (None, runtime.block_on(fabric(settings, &mut checks))),
    };
    checks.extend(runtime.block_on(jobs(settings)));
    let slurm_nodes = runtime.block_on(slurm(settings, &mut checks));
    if let (Some(torus), Some(nodes)) = (&torus, &slurm_nodes) {
        checks.push(nodes_match(settings, |node| torus.node_named(node).is_some(), nodes));
    }
    if let Some(named) = &named {
        let has = |node: &NodeName| !named.nodes.terminals(node).is_empty();
        checks.extend(slurm_nodes.map(|nodes| nodes_match(settings, has, &nodes)));
        checks.extend(cables(named));
        checks.extend(topology(settings, named));
        checks.extend(storage(settings, named));
        checks.extend(fallback(settings, named));
    }
    checks.push(engine(settings));
    Ok(checks)
}

fn direct(source: &str, checks: &mut Vec<Check>) -> Option<Torus> {
    match torus_toml::load(source) {
        Ok(found) => {
            let torus = found.torus;
            let found =
                format!("direct torus {}, {} nodes work", torus.size_text(), torus.healthy_nodes().len());
            checks.push(Check::good("fabric", found));
            Some(torus)
        }
        Err(error) => {
            checks.push(Check::fix("fabric", chain(&error), "correct the description of the torus"));
            None
        }
    }
}

async fn fabric(settings: &Settings, checks: &mut Vec<Check>) -> Option<Named> {
    let Some(mut reader) = FabricReader::of(settings) else {
        checks.push(Check::fix("fabric", "none in the settings", "set fabric.source or fabric.command"));
        return None;
    };
    match reader.read().await {
        Ok(named) => {
            let fabric = &named.fabric;
            let unnamed = named.nodes.unnamed();
            let mut found = format!(
                "{} switches, {} terminals, {} nodes",
                fabric.switches().len(),
                fabric.terminals().len(),
                named.nodes.names().count()
            );
            if !unnamed.is_empty() {
                let names: Vec<&str> =
                    unnamed.iter().map(|t| fabric.terminal(*t).description.as_str()).collect();
                found = format!("{found}; {} hosts without a node name: {}", unnamed.len(), some(&names));
            }
            checks.push(match age(settings) {
                Some(days) => Check::advice(
                    "fabric",
                    format!("{found}; the file is {days} days old"),
                    "if cables may have changed since: systemctl enable --now sarouter-fabric.timer",
                ),
                None => Check::good("fabric", found),
            });
            Some(named)
        }
        Err(error) => {
            let fix = match &settings.fabric {
                Some(FabricSource::Command { .. }) => "run fabric.command by hand, as the service's user",
                Some(FabricSource::OpenSm { .. }) => {
                    "OpenSM with our plugin writes it: see the checks of both below"
                }
                _ => "write the file again with ibnetdiscover, complete, and move it into place",
            };
            checks.push(Check::fix("fabric", chain(&error), fix));
            None
        }
    }
}

/// Days since the file of the fabric was written, if that was more than a day ago.
fn age(settings: &Settings) -> Option<u64> {
    let Some(FabricSource::Source(path)) = &settings.fabric else { return None };
    let written = std::fs::metadata(path).ok()?.modified().ok()?;
    Some(written.elapsed().ok()?.as_secs() / (24 * 3600)).filter(|days| *days > 0)
}

/// Nodes that no cable joins with the others, if there are any.
fn cables(named: &Named) -> Option<Check> {
    let apart = Parts::of(&named.fabric).apart(&named.fabric, &named.nodes, named.nodes.names());
    let found = || format!("no cable leads from {} to the other nodes", hostlist::fold(&apart));
    let fix = "look for the cable or switch that is lost, or write the file of the fabric again";
    (!apart.is_empty()).then(|| Check::fix("cables", found(), fix))
}

/// Whether the source of jobs answers, unless it is `squeue`, which is asked below for every site.
async fn jobs(settings: &Settings) -> Option<Check> {
    const NAME: &str = "jobs";
    let row = JOB_SOURCES.iter().skip(1).find(|row| row.name == settings.slurm.source)?;
    Some(match job_source(settings).poll(Utc::now()).await {
        Ok(jobs) => Check::good(NAME, format!("{}: {} jobs own nodes", row.name, jobs.jobs.len())),
        Err(error) => {
            let fix = format!("slurm.source is \"{}\": see {}", row.name, row.settings);
            Check::fix(NAME, chain(&error), fix)
        }
    })
}

/// Slurm's nodes, if it says them.
async fn slurm(settings: &Settings, checks: &mut Vec<Check>) -> Option<BTreeSet<NodeName>> {
    let slurm = &settings.slurm;
    let mut squeue = Squeue::new(&slurm.squeue, slurm.format, slurm.deadline, slurm.output_limit);
    let jobs = match squeue.poll(Utc::now()).await {
        Ok(jobs) => jobs,
        Err(error) => {
            let fix = "slurm.squeue must work for this user; see slurm.deadline_seconds and SLURM_CONF";
            // Who has the jobs from elsewhere may have no Slurm at all.
            let is_asked = slurm.source == JOB_SOURCES[0].name;
            let check = if is_asked { Check::fix } else { Check::advice };
            checks.push(check("squeue", chain(&error), fix));
            return None;
        }
    };
    let count = jobs.jobs.len();
    let mut nodes: BTreeSet<NodeName> = jobs.jobs.into_iter().flat_map(|job| job.nodes).collect();
    let allocated = sinfo(settings, &["-t", "alloc,mix"]).await;
    // Jobs that started in between are seen now.
    let seen = squeue.poll(Utc::now()).await.map(|jobs| jobs.jobs).unwrap_or_default();
    let seen: BTreeSet<NodeName> = seen.into_iter().flat_map(|job| job.nodes).chain(nodes.clone()).collect();
    checks.push(squeue_sees(count, &allocated.difference(&seen).collect::<Vec<_>>()));
    // The node list of sinfo; without one the nodes of jobs must do.
    nodes.extend(sinfo(settings, &[]).await);
    Some(nodes)
}

/// Nodes that `sinfo` lists, if it lies beside `squeue`.
async fn sinfo(settings: &Settings, which: &[&str]) -> BTreeSet<NodeName> {
    let slurm = &settings.slurm;
    let Some(place) = slurm.squeue.strip_suffix("squeue") else { return BTreeSet::new() };
    let program = format!("{place}sinfo");
    let arguments = [program.as_str(), "-h", "-a", "-o", "%N"].into_iter().chain(which.iter().copied());
    let argv = arguments.map(String::from).collect();
    let (deadline, output_limit) = (slurm.deadline, slurm.output_limit);
    let text = BoundedCommand { argv, environment: Vec::new(), deadline, output_limit }.output().await;
    let text = text.unwrap_or_default();
    let lists = text.lines().filter(|l| !l.trim().is_empty());
    lists.filter_map(|l| hostlist::expand(l).ok()).flatten().collect()
}

/// Whether jobs are kept from this user: nodes are allocated, and nobody seems to have them.
fn squeue_sees(jobs: usize, hidden: &[&NodeName]) -> Check {
    if hidden.is_empty() {
        return Check::good("squeue", format!("{jobs} jobs own nodes"));
    }
    let found = format!(
        "{jobs} jobs own nodes, and {} nodes are allocated to jobs that this user does not see: {}",
        hidden.len(),
        some(hidden)
    );
    let fix = "PrivateData hides them: sacctmgr modify user where name=USER set adminlevel=Operator, for the user of \
               the service; without accounting, take jobs out of PrivateData";
    Check::fix("squeue", found, fix)
}

fn nodes_match(settings: &Settings, has: impl Fn(&NodeName) -> bool, slurm: &BTreeSet<NodeName>) -> Check {
    let unmatched: Vec<&NodeName> = slurm.iter().filter(|n| !has(n)).collect();
    if unmatched.is_empty() {
        return Check::good("node names", format!("all {} nodes of Slurm are in the fabric", slurm.len()));
    }
    let found = format!(
        "{} of {} nodes of Slurm are not in the fabric: {}",
        unmatched.len(),
        slurm.len(),
        some(&unmatched)
    );
    let fix = match direct::source(settings) {
        Some(_) => "name them in the description of the torus (`names`, or [[node]] for each)",
        None => "name their adapters in the file of fabric.node_map (`GUID NODE` lines)",
    };
    match settings.name {
        None => Check::fix("node names", found, fix),
        // Another of several fabrics may have them.
        Some(_) => Check::advice("node names", found, format!("if they have adapters here: {fix}")),
    }
}

fn topology(settings: &Settings, named: &Named) -> Option<Check> {
    const NAME: &str = "topology.conf";
    let path = settings.slurm.topology.as_deref()?;
    let topology = match Topology::load(path) {
        Ok(topology) => topology,
        Err(error) => return Some(Check::fix(NAME, chain(&error), "correct slurm.topology or the file")),
    };
    let wrong = topology.disagreements(&named.fabric, &named.nodes);
    Some(if wrong.is_empty() {
        Check::good(NAME, format!("{} agrees with the fabric", path.display()))
    } else {
        let fix = format!("correct {} or the cabling: Slurm places jobs by this file", path.display());
        Check::fix(NAME, some(&wrong), fix)
    })
}

fn storage(settings: &Settings, named: &Named) -> Option<Check> {
    const NAME: &str = "storage nodes";
    if settings.routing.storage_nodes.is_empty() {
        return None;
    }
    let jobs = crate::model::JobMap::new(Utc::now(), Vec::new());
    Some(match view(settings, named.clone(), jobs) {
        Err(error) => Check::fix(NAME, chain(&error), "correct routing.storage_nodes"),
        Ok((_, unknown)) if !unknown.is_empty() => Check::fix(
            NAME,
            format!("not in the fabric: {}", some(&unknown)),
            "correct routing.storage_nodes",
        ),
        Ok((view, _)) => Check::good(NAME, format!("{} terminals", view.policy.storage.servers.len())),
    })
}

/// Engines of OpenSM that may deadlock where there are rings: `updn` and `ftree` find no roots there and
/// become `minhop`.
const FOR_TREES: [&str; 5] = ["minhop", "updn", "dnup", "ftree", "file"];

/// What routes while the plugin declines, beside the fabric.
fn fallback(settings: &Settings, named: &Named) -> Option<Check> {
    const NAME: &str = "fallback";
    let text = std::fs::read_to_string(&settings.opensm.as_ref()?.conf).ok()?;
    let engines = *keys(&text).get("routing_engine")?;
    let next = engines.split([',', ' ']).map(str::trim).filter(|e| !e.is_empty()).nth(1);
    let fix = "routing_engine sarouter,nue, or dfsssp where OpenSM has no nue";
    Some(match next {
        None => Check::fix(NAME, "OpenSM has no engine beside ours, and takes minhop without it", fix),
        Some(next) if FOR_TREES.contains(&next) && !lanes::is_tree(&named.fabric) => {
            Check::fix(NAME, format!("{next} may deadlock: the fabric is no tree"), fix)
        }
        Some(next) => Check::good(NAME, next.to_string()),
    })
}

fn engine(settings: &Settings) -> Check {
    let routing = &settings.routing;
    if direct::source(settings).is_some() {
        return match direct::engines(settings) {
            Ok(engines) => Check::good("engine", engines.join(", then ")),
            Err(error) => Check::fix("engine", chain(&error), "correct routing.engine"),
        };
    }
    let made = routing.engines().map(|name| route::engine(name, &EngineOptions::default()));
    match made.collect::<Result<Vec<_>, _>>() {
        Ok(engines) => {
            let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
            Check::good("engine", format!("{}, {} layers", names.join(", then "), routing.layers))
        }
        Err(error) => Check::fix("engine", chain(&error), "correct routing.engine"),
    }
}
