//! The thesis' property-preserving network update (Definition 5.5), judged from the tables alone.
//!
//! Every port has two LIDs. Routes to base LIDs change; those to high LIDs stay. While programs move from the
//! one to the other, packets to both are in flight, and no cycle may come from all of them together. While
//! switches are written nobody sends to base LIDs, so that no packet meets a mixture of old and new.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Checks, Transition, Verdict, judge_all, transition};
use crate::model::{Fabric, LayerBudget, Tables};

/// The tables of an update.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// Routes to base LIDs until now.
    pub before: &'a Tables,
    /// Those that switches are given.
    pub after: &'a Tables,
    /// Routes to high LIDs.
    pub high: &'a Tables,
}

/// A time of an update, by what may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Programs leave base LIDs: old routes to these, and routes to high LIDs.
    Leave,
    /// Switches are written: routes to high LIDs alone.
    Write,
    /// Programs come back: new routes to base LIDs, and routes to high LIDs.
    Return,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leave => "programs leave (old routes and high LIDs)",
            Self::Write => "switches are written (high LIDs alone)",
            Self::Return => "programs come back (new routes and high LIDs)",
        })
    }
}

/// What was found of each step.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct UpdateVerdict {
    /// Whether the update preserves properties: each step is accepted.
    pub accepted: bool,
    /// In the order of time.
    pub steps: Vec<(Step, Verdict)>,
    /// What programs that do not take part meet: any mixture of old and new routes to base LIDs. `None` if a
    /// step was of another fabric.
    pub without: Option<Transition>,
}

/// Judges an update: with this, programs that confirm only when all their connections have moved, and switches
/// that are written only when all programs have, it is property preserving.
///
/// Both states are then free of deadlock (attribute 1 of the definition), and so is what is in flight together
/// (attribute 3). Attribute 2, per-flow consistency, is the protocol's: the
/// manager's machine in `pass` has nothing written while anybody may send to base LIDs.
///
/// O(destinations × switches + VLs × turns), as [`judge_all`].
pub fn judge_update(
    fabric: &Fabric,
    update: Update<'_>,
    budget: LayerBudget,
    checks: Checks,
) -> UpdateVerdict {
    let Update { before, after, high } = update;
    let in_flight = [(Step::Leave, Some(before)), (Step::Write, None), (Step::Return, Some(after))];
    let judged = in_flight.map(|(step, base)| {
        let together: Vec<Tables> = base.into_iter().chain([high]).cloned().collect();
        (step, judge_all(fabric, &together, budget, checks))
    });
    UpdateVerdict {
        accepted: judged.iter().all(|(_, verdict)| verdict.accepted),
        steps: judged.into(),
        without: transition(fabric, before, after),
    }
}
