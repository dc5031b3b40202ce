//! `plan.json`: what was decided and for whom, complete enough to know later what is in force.

use schemars::JsonSchema;
use std::io;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;

use super::EpochNumber;
use crate::measure::Figures;
use crate::model::{
    Adapters, Demand, Fabric, FabricDifference, Fingerprint, Group, Guid, JobMap, LayerBudget, LidSet, Mix,
    Promise, Storage, TerminalId,
};
use crate::pass::plan::{PassedOver, Plan, Reason};
use crate::pass::worth::Worth;

/// Version of `plan.json`. Keys may be added without a new one.
pub(super) const FORMAT: u32 = 1;

/// The content of `plan.json`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Version of this file's meaning.
    pub format: u32,
    /// Which one it is about.
    pub epoch: EpochNumber,
    /// The epoch in force when this one was made; `None` for the first.
    pub previous: Option<EpochNumber>,
    /// When the plan was published.
    pub created: DateTime<Utc>,
    /// Why it was made.
    pub reason: Reason,
    /// The routing engine.
    pub engine: String,
    /// Engines that were to route before it, and why they did not; left out where there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<PassedOver>,
    /// Layers it was allowed.
    pub layer_budget: LayerBudget,
    /// What the checker proved of it.
    #[serde(default = "Promise::told")]
    pub promise: Promise,
    /// The first of two steps: the next epoch follows as soon as all switches have this one. Left out where not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub halfway: bool,
    /// The first of three: entries that are in the way of routes to come, and lead no host to another, are taken away. Left
    /// out where not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drained: bool,
    /// The LID of each port that got its routes, the other keeping those of before; left out where all have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_lids: Option<LidSet>,
    /// Fingerprint of the switches, hosts and cables that its tables fit.
    pub fabric: Fingerprint,
    /// What is other in it than in that of the epoch before; left out where nothing is, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<FabricDifference>,
    /// Figures of the tables that were in force, under this demand; `None` if of another fabric.
    pub before: Option<Figures>,
    /// Figures of the tables of this epoch.
    pub after: Figures,
    /// What the change of routes was worth and what it cost; left out where that was not the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worth: Option<Worth>,
    /// For whom it was made.
    pub demand: DemandRecord,
    /// The jobs that were looked at.
    pub jobs: JobMap,
}

/// A [`Demand`] by port GUIDs, which outlive a change of the fabric.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DemandRecord {
    /// See [`Demand::groups`].
    pub groups: Vec<GroupRecord>,
    /// See [`Demand::storage`].
    pub storage: Vec<Guid>,
    /// Its weights of reads and writes; left out where both are 1.
    #[serde(default = "Storage::even", skip_serializing_if = "Storage::is_even")]
    pub storage_weights: [u32; 2],
}

/// A [`Group`] by port GUIDs.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct GroupRecord {
    /// See [`Group::weight`].
    pub weight: u32,
    /// Port GUIDs of the members.
    pub terminals: Vec<Guid>,
    /// The same in rank order; left out where that is theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Guid>,
    /// See [`Group::adapters`]; left out where nodes have one each.
    #[serde(default, skip_serializing_if = "Adapters::is_default")]
    pub adapters: Adapters,
    /// See [`Group::mix`]; left out where it is the default.
    #[serde(default, skip_serializing_if = "Mix::is_default")]
    pub mix: Mix,
}

impl PlanRecord {
    pub(super) fn new(
        fabric: &Fabric,
        plan: &Plan,
        promise: Promise,
        epoch: EpochNumber,
        previous: Option<EpochNumber>,
        created: DateTime<Utc>,
    ) -> Self {
        Self {
            format: FORMAT,
            epoch,
            previous,
            created,
            reason: plan.reason,
            engine: plan.engine.clone(),
            passed_over: plan.passed_over.clone(),
            layer_budget: plan.budget,
            promise,
            halfway: plan.halfway,
            drained: plan.drained,
            fresh_lids: plan.lids.as_ref().map(|lids| lids.fresh),
            fabric: plan.tables.fabric(),
            difference: plan.difference.clone(),
            before: plan.before,
            after: plan.after,
            worth: plan.worth,
            demand: DemandRecord::new(fabric, &plan.demand),
            jobs: plan.jobs.clone(),
        }
    }
}

impl DemandRecord {
    fn new(fabric: &Fabric, demand: &Demand) -> Self {
        let guids = |ids: &[TerminalId]| ids.iter().map(|t| fabric.terminal(*t).port_guid).collect();
        let group = |g: &Group| GroupRecord {
            weight: g.weight,
            terminals: guids(&g.terminals),
            ranks: if g.ranks == g.terminals { Vec::new() } else { guids(&g.ranks) },
            mix: g.mix.clone(),
            adapters: g.adapters,
        };
        let Storage { servers, reads, writes } = &demand.storage;
        Self {
            groups: demand.groups.iter().map(group).collect(),
            storage: guids(servers),
            storage_weights: [*reads, *writes],
        }
    }

    /// The demand on a fabric; members that it does not have are left out.
    /// O(sum of group sizes × log terminals).
    pub fn on(&self, fabric: &Fabric) -> Demand {
        let ids = |guids: &[Guid]| {
            let find = |g| fabric.terminals().binary_search_by_key(g, |t| t.port_guid).ok();
            guids.iter().filter_map(find).map(TerminalId::at).collect::<Vec<_>>()
        };
        let group = |g: &GroupRecord| {
            let ranks = if g.ranks.is_empty() { &g.terminals } else { &g.ranks };
            Group { weight: g.weight, ..Group::new(ids(ranks)) }
                .exchanging(g.mix.clone())
                .with_adapters(g.adapters)
        };
        let [reads, writes] = self.storage_weights;
        let storage = Storage::new(ids(&self.storage)).weighing(reads, writes);
        Demand::new(self.groups.iter().map(group).collect(), storage)
    }
}

/// JSON that a person can read: what is nested deeper than three levels stays on one line, so a job
/// is one line, whatever its size.
pub(super) fn to_json(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = Vec::new();
    let lines = Lines { depth: 0, filled: false };
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, lines))?;
    text.push(b'\n');
    Ok(text)
}

/// Levels whose members get lines of their own.
const BROKEN_LEVELS: usize = 3;

struct Lines {
    depth: usize,
    /// Whether the array or object that ends next has members.
    filled: bool,
}

impl Lines {
    fn open<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        out.write_all(bracket)
    }

    fn close<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled && self.depth < BROKEN_LEVELS {
            self.indent(out)?;
        }
        self.filled = true;
        out.write_all(bracket)
    }

    fn member<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        match (self.depth <= BROKEN_LEVELS, first) {
            (true, _) => self.indent(out),
            (false, true) => Ok(()),
            (false, false) => out.write_all(b" "),
        }
    }

    fn indent<W: ?Sized + io::Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }
    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.member(out, first)
    }
    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }
    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }
    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.member(out, first)
    }
    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}
