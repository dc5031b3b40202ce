//! The time of change: some switches forward by the tables that were in force, others by the new
//! ones already.
//!
//! Two tables that are free of deadlock need not be so together, and a packet may do what neither has:
//! arrive by a port of the one and leave by a port of the other. Until the last switch is programmed, a
//! VL is safe for sure if all that mixing may bring about has no cycle on it.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Beside, Case, Checks};
use crate::model::{Fabric, LayerBudget, Tables};

/// What mixing two tables may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Transition {
    /// VLs that routes of either use between switches: their layers, without a lane map.
    pub layers: u8,
    /// Those among them on which the dependencies of any mixture close a cycle; with a lane map, 1 if
    /// they do at all.
    pub cyclic: u8,
}

impl Transition {
    /// Of tables on so many VLs of which it is proved that no mixture has a cycle.
    pub fn safe(layers: u8) -> Self {
        Self { layers, cyclic: 0 }
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cyclic {
            0 => f.write_str("no cycle on any layer while switches change"),
            cyclic => write!(f, "cycles on {cyclic} of {} layers while switches change", self.layers),
        }
    }
}

/// Judges the change from tables in force to new ones: at each switch a packet follows the one or the other,
/// on the layer that either gives it at its source. `None` if they are not both of this fabric.
///
/// A cycle is no deadlock yet: it takes packets that fill it while switches differ, and ends at the
/// latest when the fabric drops what waits too long.
///
/// O(destinations × switches × layers + layers × turns). Uses all threads, whose number changes nothing.
pub fn transition(fabric: &Fabric, before: &Tables, after: &Tables) -> Option<Transition> {
    if [before, after].iter().any(|t| t.fabric() != fabric.fingerprint()) {
        return None;
    }
    let beside = Beside { mixed: std::slice::from_ref(before), ..Beside::default() };
    let (tables, budget) = (std::slice::from_ref(after), LayerBudget::MOST);
    let case = Case { fabric, tables, budget, checks: Checks::default(), beside };
    Some(case.examine(&fabric.parts(), |_, graph, _| Transition {
        layers: graph.dependencies.vls().count_ones() as u8,
        cyclic: graph.cycles().len() as u8,
    }))
}
