//! What the checker accepts is marked: only what is marked is published.

use std::sync::Arc;

use super::certificate::{Certificate, judge_certified};
use super::changed::Shown;
use super::{Beside, Case, Checks, Verdict};
use crate::model::{Fabric, Group, LayerBudget, Promise, Tables};

/// A value whose tables the checker accepted, and for what. Only this module can make one.
#[derive(Debug, Clone)]
pub struct Verified<T> {
    pub(super) value: T,
    pub(super) budget: LayerBudget,
    pub(super) promise: Promise,
    pub(super) shown: Option<Shown>,
}

impl<T> Verified<T> {
    /// The accepted value.
    pub fn get(&self) -> &T {
        &self.value
    }
    /// What is proved of it.
    pub fn promise(&self) -> Promise {
        self.promise
    }
    /// The order of buffers that showed that there is no cycle; `None` for what is not judged by one.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.shown.as_ref().map(|shown| &*shown.certificate)
    }
    /// The same, to be kept.
    pub fn shared_certificate(&self) -> Option<Arc<Certificate>> {
        self.shown.as_ref().map(|shown| Arc::clone(&shown.certificate))
    }
    /// The accepted value.
    pub fn into_inner(self) -> T {
        self.value
    }
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
    accept_promise(fabric, value, budget, Promise::TOLD, Beside::default(), &[]).map_err(|refused| refused.1)
}

/// Like [`accept`], for another promise, with what else may be in flight; also, all routes inside each of `groups` must
/// be on one layer. Who accepts tables of one LID of each port names those of the other as [`Beside::apart`]: what is
/// proved, and the certificate, are of both together.
///
/// # Errors
/// The value and its verdict, if rejected.
pub fn accept_promise<T: AsRef<Tables>>(
    fabric: &Fabric,
    value: T,
    budget: LayerBudget,
    promise: Promise,
    beside: Beside<'_>,
    groups: &[Group],
) -> Result<Verified<T>, Box<(T, Verdict)>> {
    let checks = Checks { promise, ..Checks::default() };
    let case = Case { fabric, tables: std::slice::from_ref(value.as_ref()), budget, checks, beside };
    if let Some(proved) = beside.proved.filter(|proved| groups.is_empty() && proved.shows(&case)) {
        let shown = Some(proved.shown().clone());
        return Ok(Verified { value, budget, promise, shown });
    }
    let (verdict, order) = case.judge_jobs(groups);
    if !verdict.accepted {
        return Err(Box::new((value, verdict)));
    }
    let shown = order.and_then(|(order, is_together)| {
        // Of tables with excused holes nothing is known to be whole.
        let is_together = is_together && !beside.answers_later && !beside.lost_later;
        let hosts = fabric.terminal_ids().map(|t| fabric.is_host(t)).collect();
        Some(Shown { certificate: order.certificate(fabric)?, is_together, hosts })
    });
    Ok(Verified { value, budget, promise, shown })
}

/// Like [`accept_promise`], by a certificate that came with the value: linear in the tables. Cannot judge
/// [`Promise::mixed`], which is no part of what is then promised. `apart`: see [`Beside::apart`].
///
/// # Errors
/// The value and its verdict, if rejected.
pub fn accept_certified<T: AsRef<Tables>>(
    fabric: &Fabric,
    value: T,
    budget: LayerBudget,
    promise: Promise,
    apart: &[Tables],
    certificate: Certificate,
) -> Result<Verified<T>, Box<(T, Verdict)>> {
    let promise = Promise { mixed: false, ..promise };
    let checks = Checks { promise, ..Checks::default() };
    // All climb one order: together they have no cycle either.
    for tables in std::iter::once(value.as_ref()).chain(apart) {
        let verdict = judge_certified(fabric, tables, budget, checks, &[], &certificate);
        if !verdict.accepted {
            return Err(Box::new((value, verdict)));
        }
    }
    let shown = Some(Shown { certificate: Arc::new(certificate), is_together: false, hosts: Vec::new() });
    Ok(Verified { value, budget, promise, shown })
}
