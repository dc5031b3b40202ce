//! What an epoch's tables are compared with, as the reader chooses: `?against=` of `/v1/load` and `/v1/jobs`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::ApiError;
use super::picture::stored;
use crate::model::{Group, Tables};
use crate::pass::baseline::Baseline;
use crate::pass::step::View;
use crate::publish::{Epoch, EpochNumber, EpochStore, Page};

/// What an epoch's tables are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The newest epoch that was made for another fabric.
    Fabric,
    /// What OpenSM would route by itself: the engine that the settings name, or the best of its engines.
    Opensm,
    /// An epoch.
    Epoch(EpochNumber),
}

impl FromStr for Against {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fabric" => Ok(Self::Fabric),
            "opensm" => Ok(Self::Opensm),
            number => number
                .parse()
                .map(Self::Epoch)
                .map_err(|_| format!("against must be before, fabric, opensm or an epoch, not {text:?}")),
        }
    }
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fabric => f.write_str("fabric"),
            Self::Opensm => f.write_str("opensm"),
            Self::Epoch(number) => write!(f, "{number}"),
        }
    }
}

/// `before` and nothing mean the tables before, which every answer has.
///
/// # Errors
/// What is none of the words.
pub(super) fn asked(text: Option<&str>) -> Result<Option<Against>, ApiError> {
    match text {
        None | Some("before") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(ApiError::bad),
    }
}

/// Which tables those were.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Compared {
    /// `fabric`, `opensm`, or the number of an epoch.
    pub what: String,
    /// The epoch whose tables they are; `None`: of no epoch.
    pub epoch: Option<EpochNumber>,
    /// Their engine.
    pub engine: String,
    /// They were made for another fabric than that of now: routes over cables that are gone are not counted.
    pub other_fabric: bool,
}

/// The tables to compare with on the fabric of now. `groups` are the jobs for which the best of OpenSM's engines is
/// sought.
///
/// # Errors
/// If there are none.
pub(super) fn tables(
    store: &EpochStore,
    epoch: &Epoch,
    against: Against,
    view: &View,
    groups: &[Group],
) -> Result<(Compared, Tables), ApiError> {
    let what = against.to_string();
    let fabric = &view.fabric;
    let other = match against {
        Against::Opensm => {
            let best = Baseline::tables(fabric, groups, view.policy.baseline.as_deref(), view.policy.budget);
            let (engine, tables) =
                best.ok_or_else(|| ApiError::missing("none of OpenSM's engines routes this"))?;
            let engine = engine.to_string();
            return Ok((Compared { what, epoch: None, engine, other_fabric: false }, tables));
        }
        Against::Epoch(number) => stored(store, number)?,
        Against::Fabric => of_other_fabric(store, epoch)?,
    };
    let tables = other.tables(fabric).map_err(|e| ApiError::failed(&e))?;
    let plan = other.plan();
    let other_fabric = plan.fabric != fabric.fingerprint();
    Ok((Compared { what, epoch: Some(plan.epoch), engine: plan.engine.clone(), other_fabric }, tables))
}

/// The newest epoch before this one that was made for another fabric, and is still there.
fn of_other_fabric(store: &EpochStore, epoch: &Epoch) -> Result<Epoch, ApiError> {
    let page = Page { before: Some(epoch.number()), limit: None };
    let rows = store.history_page(page).map_err(|e| ApiError::failed(&e))?.rows;
    let fabric = epoch.plan().fabric.to_string();
    let found = rows.iter().rev().find(|row| row.fabric != fabric);
    let found = found.ok_or_else(|| ApiError::missing("the fabric has not changed since the first epoch"))?;
    stored(store, found.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_are_printed_and_others_are_refused() {
        for text in ["fabric", "opensm", "17"] {
            assert_eq!(text.parse::<Against>().unwrap().to_string(), text);
        }
        for text in ["", "epoch", "OpenSM", "-1", "0x3"] {
            assert!(text.parse::<Against>().is_err(), "{text}");
        }
        assert_eq!(asked(Some("before")).unwrap(), None);
    }
}
