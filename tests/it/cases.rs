//! `tests/cases/NAME/`: a folder per scenario, with the expected plan as text.
//!
//! `about.md` says what it is about; `fabric` is a fabric file or a generated spec, `jobs` any
//! format of `--jobs`; `before-jobs` and `before-fabric` are those that the routes in force were made for
//! (without the first nothing is in force, without the second it is the same fabric); `policy`
//! holds lines `min_job_age SECONDS`, `min_gain SECONDS`, `epochs_per_day NUMBER`, `min_pause SECONDS`, and `storage HOSTLIST`. `SAROUTER_BLESS=1` writes `expected`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use sarouter::lab::generate;
use sarouter::model::{DestId, Fabric, JobMap, LayerBudget, NodeMap, NodeName, Promise, Storage, TerminalId};
use sarouter::observe::nodes::{NodeNames, name_hosts};
use sarouter::observe::{self, hostlist};
use sarouter::pass::plan::{self, Policy, Published};
use sarouter::pass::step::View;
use sarouter::pass::worth::{Price, Worth};
use sarouter::service::pass::{Checked, decide};

/// When the snapshots of text files were taken.
fn now() -> DateTime<Utc> {
    "2026-11-21T08:00:00Z".parse().unwrap()
}

struct Case {
    dir: PathBuf,
}

impl Case {
    fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.join(name)).ok()
    }

    fn fabric(&self, name: &str) -> Option<Fabric> {
        let text = self.text(name)?;
        let spec = text.trim();
        Some(if generate::spec::is_spec(spec) {
            generate::generate(spec).unwrap()
        } else {
            observe::fabric::parse(&self.dir.join(name), &text).unwrap().fabric
        })
    }

    fn jobs(&self, name: &str) -> Option<JobMap> {
        Some(observe::jobs::parse(&self.text(name)?, name, now()).unwrap())
    }

    fn view(&self, fabric: Fabric, jobs: JobMap) -> View {
        let nodes = name_hosts(&fabric, &NodeNames::default());
        let text = self.text("policy").unwrap_or_default();
        let policy: BTreeMap<&str, &str> = text.lines().filter_map(|l| l.split_once(' ')).collect();
        let storage = policy.get("storage").map_or(Vec::new(), |list| hostlist::expand(list).unwrap());
        let policy = Policy {
            min_job_age: TimeDelta::seconds(policy.get("min_job_age").map_or(0, |s| s.parse().unwrap())),
            may_wait: true,
            storage: Storage::new(storage.iter().flat_map(|node| nodes.terminals(node)).copied().collect()),
            price: Price {
                min_gain: TimeDelta::seconds(policy.get("min_gain").map_or(0, |s| s.parse().unwrap())),
                min_pause: TimeDelta::seconds(policy.get("min_pause").map_or(0, |s| s.parse().unwrap())),
                epochs_per_day: policy.get("epochs_per_day").map_or(0, |n| n.parse().unwrap()),
                ..Price::NONE
            },
            ..Policy::new("dfsssp", LayerBudget::new(8).unwrap(), Promise::TOLD)
        };
        View::new(Arc::new(fabric), Arc::new(nodes), jobs, policy)
    }

    /// What is in force when the case begins.
    fn in_force(&self) -> Option<(Published, Fabric)> {
        let fabric = self.fabric("before-fabric").or_else(|| self.fabric("fabric"))?;
        let view = self.view(fabric.clone(), self.jobs("before-jobs")?);
        let Checked { plan, .. } = decide(&view, None).unwrap().plan.unwrap();
        let plan = plan.into_inner();
        let in_force = Published::new(fabric.fingerprint(), plan.engine, plan.demand, plan.tables);
        let published = Published { since: Some(view.jobs.time), ..in_force };
        Some((published, fabric))
    }

    /// The plan, for people.
    fn plan(&self) -> String {
        let fabric = self.fabric("fabric").unwrap();
        let view = self.view(fabric, self.jobs("jobs").unwrap());
        // As the store does: the tables and the demand of before on the terminals of now.
        let published = self.in_force().map(|(p, before)| carried_over(&p, &before, &view.fabric));
        let decided = decide(&view, published.as_ref()).unwrap();
        let demand = published.as_ref().map(|p| &p.demand);
        let wanted = plan::wanted(&view.fabric, &view.nodes, &view.jobs, demand, &view.policy);
        let mut out = String::new();
        match &decided.plan {
            None => match decided.not_worth {
                None => out.push_str("keep what is in force\n"),
                Some(worth) => out.push_str(&not_worth(&worth, view.jobs.time)),
            },
            Some(checked) => {
                let reason = serde_json::to_value(checked.plan.get().reason).unwrap();
                let _ = writeln!(out, "publish new routes: {}", reason.as_str().unwrap());
            }
        }
        let names = names(&view.nodes);
        let hosts = |terminals: &[TerminalId]| {
            terminals.iter().map(|t| names[t].as_str().to_string()).collect::<Vec<_>>().join(" ")
        };
        for group in &decided.demand.groups {
            let _ = writeln!(out, "serve {}", hosts(&group.terminals));
        }
        if !decided.demand.storage.is_empty() {
            let _ = writeln!(out, "storage {}", hosts(&decided.demand.storage.servers));
        }
        if decided.waiting > 0 {
            let wait = wanted.ripe.unwrap() - view.jobs.time;
            let _ = writeln!(out, "{} too young, look again in {} s", decided.waiting, wait.num_seconds());
        }
        for node in &decided.unknown_nodes {
            let _ = writeln!(out, "unknown node {node}");
        }
        out
    }
}

/// A refused change, for people. Node-hours.
fn not_worth(worth: &Worth, now: DateTime<Utc>) -> String {
    let Worth { gain, at_most, price, not_before, .. } = worth;
    let gain = gain.map_or("not routed".to_string(), |gain| format!("{gain:.2} gained"));
    let wait = not_before.map_or(String::new(), |t| format!(", too soon by {} s", (t - now).num_seconds()));
    format!("keep what is in force: {gain}, at most {at_most:.2}, price {price:.2}{wait}\n")
}

fn names(nodes: &NodeMap) -> BTreeMap<TerminalId, NodeName> {
    nodes.names().flat_map(|name| nodes.terminals(name).iter().map(move |t| (*t, name.clone()))).collect()
}

/// Publishes on a store and reads it back on another fabric.
fn carried_over(published: &Published, before: &Fabric, now: &Fabric) -> Published {
    // Only cables differ between the fabrics of a case, so terminals and switches keep their ids.
    let same = |f: &Fabric| (f.terminals().len(), f.switches().len());
    assert_eq!(same(before), same(now));
    let dests: Vec<DestId> = before.dest_ids().collect();
    let ports = dests.iter().flat_map(|d| published.tables.ports_to(*d).to_vec()).collect();
    let layers = dests.iter().flat_map(|d| published.tables.layers_to(*d).to_vec()).collect();
    let tables = sarouter::model::Tables::new(now, &published.engine, ports, layers).unwrap();
    Published { tables: Arc::new(tables), ..published.clone() }
}

#[test]
fn every_case_gives_the_expected_plan() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().path()).collect();
    dirs.sort();
    assert!(dirs.len() >= 7, "{dirs:?}");
    let mut wrong = Vec::new();
    for dir in dirs {
        let case = Case { dir };
        let about = case.text("about.md");
        assert!(about.is_some_and(|a| a.len() > 20), "{}: about.md says nothing", case.dir.display());
        let plan = case.plan();
        if std::env::var_os("SAROUTER_BLESS").is_some() {
            std::fs::write(case.dir.join("expected"), &plan).unwrap();
        }
        if case.text("expected").as_deref() != Some(plan.as_str()) {
            wrong.push(format!("{}: the plan is\n{plan}", case.dir.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
