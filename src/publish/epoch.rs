//! One published state: its number, its files, its checksums.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::handoff::{self, Handoff};
use super::record::{FORMAT, PlanRecord};
use crate::model::{Fabric, Guid, LidSet, SplitLids, Tables};
use crate::pass::plan::{Published, Repair};
use crate::report::Report;
use crate::verify::Certificate;

/// Number of an epoch, 1 upwards, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EpochNumber(u64);

impl EpochNumber {
    /// A number from 1 on.
    pub const fn new(number: u64) -> Option<Self> {
        if number > 0 { Some(Self(number)) } else { None }
    }

    /// The raw number.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// The number after this one.
    pub const fn after(last: Option<Self>) -> Self {
        match last {
            Some(n) => Self(n.0 + 1),
            None => Self(1),
        }
    }
    /// Name of its directory: at least six digits, so that names sort as numbers.
    pub fn directory(self) -> String {
        format!("{:06}", self.0)
    }
    /// Inverse of [`EpochNumber::directory`]; `None` for any other name.
    pub(super) fn from_directory(name: &str) -> Option<Self> {
        name.parse().ok().filter(|n: &Self| n.directory() == name)
    }
}

impl fmt::Display for EpochNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for EpochNumber {
    type Err = String;
    /// Decimal, leading zeros allowed.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|_| !text.starts_with('+')).and_then(Self::new);
        number.ok_or_else(|| format!("{text:?} is not the number of an epoch"))
    }
}

pub(super) const PLAN: &str = "plan.json";
pub(super) const TABLES: &str = "lft.bin";
pub(super) const REPORT: &str = "report.json";
pub(super) const SUMS: &str = "SHA256SUMS";

/// The content of an epoch's directory.
pub(super) struct Files {
    /// By name, without the checksums.
    files: [(&'static str, Vec<u8>); 3],
    /// `SHA256SUMS`, once somebody has asked for them.
    sums: OnceLock<Vec<u8>>,
}

impl Files {
    pub(super) fn new(plan: Vec<u8>, tables: Vec<u8>, report: Vec<u8>) -> Self {
        Self { files: [(PLAN, plan), (TABLES, tables), (REPORT, report)], sums: OnceLock::new() }
    }

    /// Their checksums, as `sha256sum` prints them. O(bytes), once.
    pub(super) fn sums(&self) -> &[u8] {
        let line = |(name, bytes): &(&str, Vec<u8>)| format!("{}  {name}\n", super::job::hex(bytes));
        self.sums.get_or_init(|| self.files.iter().map(line).collect::<String>().into_bytes())
    }

    /// Names of the files, in the order of [`Files::new`]; the checksums last.
    pub(super) const NAMES: [&'static str; 4] = [PLAN, TABLES, REPORT, SUMS];

    /// Reads a directory and holds it against its checksums.
    pub(super) fn read(directory: &Path) -> Result<Self, StoreError> {
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read(&path).map_err(StoreError::io("read", &path))
        };
        let stored = read(SUMS)?;
        let files = Self::new(read(PLAN)?, read(TABLES)?, read(REPORT)?);
        if files.get(SUMS) == stored {
            return Ok(files);
        }
        let stored = String::from_utf8_lossy(&stored);
        let wanted = String::from_utf8_lossy(files.get(SUMS));
        let known: Vec<&str> = stored.lines().collect();
        let wrong =
            wanted.lines().find(|line| !known.contains(line)).and_then(|line| line.split("  ").nth(1));
        Err(match wrong {
            Some(name) => {
                StoreError::damaged(&directory.join(name), format!("it does not match its line in {SUMS}"))
            }
            None => StoreError::damaged(&directory.join(SUMS), "it is not exactly the three checksums"),
        })
    }

    /// The content of a file.
    pub(super) fn get(&self, name: &str) -> &[u8] {
        match self.files.iter().find(|(n, _)| *n == name) {
            Some((_, bytes)) => bytes,
            None if name == SUMS => self.sums(),
            None => &[],
        }
    }
}

/// A stored epoch whose checksums were right.
#[derive(Debug, Clone, PartialEq)]
pub struct Epoch {
    plan: PlanRecord,
    report: Report,
    handoff: Handoff,
}

impl Epoch {
    /// Parses files and checks that they belong together and to this number.
    pub(super) fn parse(number: EpochNumber, directory: &Path, files: &Files) -> Result<Self, StoreError> {
        let plan = directory.join(PLAN);
        let tables = directory.join(TABLES);
        let report = directory.join(REPORT);
        let epoch = Self {
            plan: serde_json::from_slice(files.get(PLAN)).map_err(|e| StoreError::damaged(&plan, e))?,
            report: serde_json::from_slice(files.get(REPORT)).map_err(|e| StoreError::damaged(&report, e))?,
            handoff: handoff::decode(files.get(TABLES)).map_err(|e| StoreError::damaged(&tables, e))?,
        };
        if epoch.plan.format != FORMAT {
            let reason = format!("its format is {}, this program knows {FORMAT}", epoch.plan.format);
            return Err(StoreError::damaged(&plan, reason));
        }
        for (file, found) in [(&plan, epoch.plan.epoch.get()), (&tables, epoch.handoff.epoch)] {
            if found != number.get() {
                return Err(StoreError::damaged(file, format!("it is of epoch {found}")));
            }
        }
        if epoch.handoff.high.is_some() != epoch.plan.fresh_lids.is_some() {
            let reason = format!("{PLAN} and it do not agree on routes to high LIDs");
            return Err(StoreError::damaged(&tables, reason));
        }
        if epoch.handoff.fabric != epoch.plan.fabric {
            return Err(StoreError::damaged(&tables, format!("it is for another fabric than {PLAN}")));
        }
        Ok(epoch)
    }

    /// Reads an epoch from a directory outside of a store, such as one kept beside a recording.
    ///
    /// # Errors
    /// If a file is missing, damaged, or of another number.
    pub fn read(directory: &Path, number: EpochNumber) -> Result<Self, StoreError> {
        Self::parse(number, directory, &Files::read(directory)?)
    }

    /// Whether a directory looks like that of an epoch.
    pub fn is_in(directory: &Path) -> bool {
        [PLAN, TABLES, SUMS].iter().all(|name| directory.join(name).is_file())
    }

    /// Counts up from 1 in a store.
    pub fn number(&self) -> EpochNumber {
        self.plan.epoch
    }
    /// What was decided.
    pub fn plan(&self) -> &PlanRecord {
        &self.plan
    }
    /// What it is worth.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Its tables on a fabric, those of [`PlanRecord::fresh_lids`], found by GUID. Switches and terminals that the epoch does not know
    /// are unreachable; if the fabric is the epoch's own, these are exactly the published tables.
    /// O(entries).
    ///
    /// # Errors
    /// If the stored arrays contradict the stored GUIDs.
    pub fn tables(&self, fabric: &Fabric) -> Result<Tables, StoreError> {
        let set = self.plan.fresh_lids.unwrap_or(LidSet::Base);
        Ok(self.routes(fabric, set)?.with_lanes(self.handoff.map_on(fabric)))
    }

    /// The tables of the other LIDs, where these have routes of their own, as [`Epoch::tables`].
    ///
    /// # Errors
    /// As there.
    pub fn kept(&self, fabric: &Fabric) -> Result<Option<Tables>, StoreError> {
        let set = self.plan.fresh_lids.map(LidSet::other);
        let map = self.handoff.map_on(fabric);
        set.map(|set| Ok(self.routes(fabric, set)?.with_lanes(map))).transpose()
    }

    /// The tables of a LID, as [`Epoch::tables`].
    ///
    /// # Errors
    /// As there.
    pub fn tables_of(&self, fabric: &Fabric, set: LidSet) -> Result<Tables, StoreError> {
        match self.kept(fabric)? {
            Some(kept) if self.plan.fresh_lids != Some(set) => Ok(kept),
            _ => self.tables(fabric),
        }
    }

    /// GUIDs of the switches of its fabric, ascending.
    pub fn switches(&self) -> &[Guid] {
        &self.handoff.switches
    }

    /// The order that shows that its tables have no cycle, for the very fabric that it was made for.
    pub fn certificate(&self, fabric: &Fabric) -> Option<Certificate> {
        self.handoff.certificate(fabric)
    }

    /// The tables of a LID without their lane map.
    fn routes(&self, fabric: &Fabric, set: LidSet) -> Result<Tables, StoreError> {
        // That of the plan may have taken them from another one, whose name they keep.
        let engine = if set == LidSet::Base { &self.handoff.engine } else { &self.plan.engine };
        Ok(self.handoff.routes_on(fabric, engine, set)?)
    }

    /// With what OpenSM's plugin has changed since, if it was of this epoch.
    pub fn repaired(mut self, repair: Option<&Repair>) -> Self {
        let repair =
            repair.filter(|repair| repair.epoch == self.number().get() && !repair.entries.is_empty());
        let Some(repair) = repair else { return self };
        let handoff = &mut self.handoff;
        let switches = handoff.switches.len();
        for [set, switch, dest, port] in &repair.entries {
            let ports = match (set, &mut handoff.high) {
                (0, _) => &mut handoff.ports,
                (_, Some((ports, _))) => ports,
                (_, None) => continue,
            };
            let at = *dest as usize * switches + *switch as usize;
            if let (Some(entry), true) = (ports.get_mut(at), (*switch as usize) < switches) {
                *entry = *port as u8;
            }
        }
        // Neither this epoch nor the next one.
        self.plan.halfway = true;
        self.plan.difference = None;
        self
    }

    /// What this epoch puts in force, on the fabric of now. It keeps the fingerprint of the fabric
    /// it was made for, by which the next plan notices that the fabric has changed.
    ///
    /// # Errors
    /// See [`Epoch::tables`].
    pub fn published(&self, fabric: &Fabric) -> Result<Published, StoreError> {
        let lanes = self.handoff.lanes_on(fabric).map(Arc::new);
        let of_lanes = lanes.as_ref().map(|lanes| Arc::clone(&lanes.map));
        let map = of_lanes.or_else(|| self.handoff.map_on(fabric));
        let of = |set| Ok::<_, StoreError>(Arc::new(self.routes(fabric, set)?.with_lanes(map.clone())));
        let split = |fresh: LidSet| Ok::<_, StoreError>(SplitLids { fresh, kept: of(fresh.other())? });
        Ok(Published {
            lids: self.plan.fresh_lids.map(split).transpose()?,
            since: Some(self.plan().created),
            asked: self.plan.worth.map(|worth| worth.asked),
            fabric: self.plan.fabric,
            engine: self.plan.engine.clone(),
            demand: self.plan.demand.on(fabric),
            tables: of(self.plan.fresh_lids.unwrap_or(LidSet::Base))?,
            told: Vec::new(),
            promise: self.plan.promise,
            lanes,
            halfway: self.plan.halfway,
            drained: self.plan.drained,
            certificate: self.certificate(fabric).map(Arc::new),
            proved: None,
            counted: None,
            difference: self.plan.difference.clone(),
            behind: None,
        })
    }
}
