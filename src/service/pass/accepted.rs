//! What the checker says of a plan, and what takes its place where the whole change is not proved.

use std::borrow::Cow;
use std::sync::Arc;

use super::PassError;
use crate::measure::measure;
use crate::model::{Group, Promise, Tables};
use crate::pass::plan::{self, Plan, Published, Reason};
use crate::pass::step::View;
use crate::pass::{FirstStep, halfway};
use crate::verify::{self, Beside, Verdict, Verified};

/// What the checker says of a plan: the promise of the settings is proved, the change from what is in
/// force included. Where more than jobs changed, or the lanes, a change that is safe may not exist: then
/// the first of two or three steps, and where that is not safe either, all but the change.
pub(super) fn accepted(
    view: &View,
    plan: Plan,
    published: Option<&Published>,
) -> Result<Verified<Plan>, PassError> {
    let (fabric, budget) = (&*view.fabric, plan.budget);
    let engine = plan.engine.clone();
    let whole: &[Group] = if view.policy.layer_per_job { &plan.demand.groups.clone() } else { &[] };
    let promise = view.policy.promise;
    let kept = plan.lids.as_ref().map(|lids| Arc::clone(&lids.kept));
    let apart: &[Tables] = kept.as_deref().map_or(&[], std::slice::from_ref);
    let alone = Promise { mixed: false, ..promise };
    let proved = published.and_then(|p| p.proved.as_ref());
    let order = published.and_then(|p| p.certificate.as_ref());
    let may_leave_change =
        promise.mixed && (plan.reason != Reason::JobsChanged || !is_alike(view, &plan, published));
    let judge = |plan, promise, beside| verify::accept_promise(fabric, plan, budget, promise, beside, whole);
    let rejected = |refused: Box<(Plan, Verdict)>| PassError::Rejected { engine, verdict: refused.1 };
    let by_itself = Beside { apart, ..Beside::default() };
    let Some(replaced) = replaced(published.filter(|_| promise.mixed), &plan) else {
        return judge(plan, alone, by_itself).map_err(rejected);
    };
    let beside = Beside { mixed: &replaced, proved, order, ..by_itself };
    let last = |refused: Box<(Plan, Verdict)>| match may_leave_change {
        true => judge(refused.0, alone, by_itself),
        false => Err(refused),
    };
    let step = |refused: Box<(Plan, Verdict)>| {
        let steps = published.filter(|_| may_leave_change).map(|p| first_steps(view, p, &refused.0));
        let judge_first = |(first, lost_later): (Plan, bool)| {
            let answers_later = first.lanes.is_none() || first.drained;
            judge(first, promise, Beside { answers_later, lost_later, ..beside }).ok()
        };
        let first = steps.into_iter().flatten().find_map(judge_first);
        first.map_or_else(|| last(refused), Ok)
    };
    judge(plan, promise, beside).or_else(step).map_err(rejected)
}

/// Whether all that a plan may take the place of has its lanes, and differs from it in its jobs alone.
fn is_alike(view: &View, plan: &Plan, published: Option<&Published>) -> bool {
    let Some(published) = published else { return false };
    let for_jobs = |older: &Published| {
        let why = plan::due(&view.fabric, &plan.demand, Some(older), &view.policy);
        why.is_none_or(|why| why == Reason::JobsChanged)
    };
    let older = published.behind.as_ref().map(|behind| &*behind.published);
    published.lanes == plan.lanes && older.is_none_or(|older| older.lanes == plan.lanes && for_jobs(older))
}

/// What switches may still have while they are given a plan's tables: those of the newest epoch, and those of the one that
/// they have, if OpenSM has not taken the newest. `None` if the LIDs that the plan leaves alone have others in one of both:
/// of these nothing is proved.
fn replaced<'a>(published: Option<&'a Published>, plan: &Plan) -> Option<Cow<'a, [Tables]>> {
    let Some(newest) = published else { return Some(Cow::Borrowed(&[])) };
    let of = |p: &'a Published| match p.lids.as_ref().filter(|_| plan.lids.is_none()) {
        // Those of all LIDs change.
        Some(lids) => vec![&*p.tables, &*lids.kept],
        None => vec![p.replaced_by(plan)],
    };
    let mut found = of(newest);
    if let Some(behind) = &newest.behind {
        let leaves = |p: &Published| plan.lids.as_ref().is_none_or(|l| *p.of(l.fresh.other()) == *l.kept);
        if ![newest, &behind.published].into_iter().all(leaves) {
            return None;
        }
        let older = of(&behind.published).into_iter().filter(|older| !found.contains(older));
        found = found.iter().copied().chain(older).collect();
    }
    Some(match found[..] {
        [one] => Cow::Borrowed(std::slice::from_ref(one)),
        _ => Cow::Owned(found.into_iter().cloned().collect()),
    })
}

/// Plans of the first of the steps that are left, see [`halfway`], and whether some wait for the next one.
fn first_steps<'a>(
    view: &'a View,
    published: &Published,
    plan: &'a Plan,
) -> impl Iterator<Item = (Plan, bool)> + 'a {
    // The last step changes all LIDs. One that OpenSM refused is not made again.
    let is_refused = published.behind.as_ref().is_some_and(|behind| behind.refused);
    let is_last = published.halfway
        && (!published.drained || is_refused)
        && published.fabric == view.fabric.fingerprint();
    let steps = match is_last || plan.lids.is_some() {
        true => Vec::new(),
        false => halfway(&view.fabric, published.to_change(), plan, view.policy.may_wait),
    };
    steps.into_iter().map(|FirstStep { tables, lanes, lost_later, drained }| {
        let after = measure(&view.fabric, &tables, &plan.demand);
        let tables = Arc::new(tables);
        let first = Plan { tables, lanes, counted: None, after, halfway: true, drained, ..plan.clone() };
        (first, lost_later)
    })
}
