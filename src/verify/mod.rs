//! Tables to verdict. Rebuilds everything from the tables alone: it never imports `route` and does
//! not know which engine ran.

use serde::Serialize;

use crate::model::{Fabric, LayerBudget, Tables};

/// One reason to reject. Names devices as an administrator knows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    /// Tables are for another fabric.
    WrongFabric,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether the tables may be used.
    pub accepted: bool,
    /// Why not (at most a bounded number per kind), in a fixed order.
    pub findings: Vec<Finding>,
    /// Ordered pairs of hosts in different parts of a fabric that is not connected: listed, not a fault.
    pub unreachable_pairs: u64,
}

/// A value whose tables the checker accepted. Only this module can make one.
#[derive(Debug, Clone)]
pub struct Verified<T> {
    value: T,
}

impl<T> Verified<T> {
    /// The accepted value.
    pub fn get(&self) -> &T {
        &self.value
    }
    /// The accepted value.
    pub fn into_inner(self) -> T {
        self.value
    }
}

/// Judges tables. O(destinations × switches + layers × dependencies).
pub fn judge(_fabric: &Fabric, _tables: &Tables, _budget: LayerBudget) -> Verdict {
    Verdict { accepted: false, findings: vec![Finding::WrongFabric], unreachable_pairs: 0 }
}

/// Judges what carries tables and, if accepted, marks it as such.
///
/// # Errors
/// The verdict, if rejected.
pub fn accept<T: AsRef<Tables>>(
    fabric: &Fabric,
    value: T,
    budget: LayerBudget,
) -> Result<Verified<T>, Verdict> {
    let verdict = judge(fabric, value.as_ref(), budget);
    if verdict.accepted { Ok(Verified { value }) } else { Err(verdict) }
}

#[cfg(test)]
mod trust;
#[cfg(test)]
pub(crate) use trust::trust;
