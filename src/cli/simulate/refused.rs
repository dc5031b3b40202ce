//! Options that say nothing of what is sent.

use super::{Args, Case, Failure, Kind};
use crate::simulate::ADAPTIVE;

/// How a run goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// Pairs that answer each other, for some rounds.
    Pairs,
    /// Without end, for each load.
    Open,
    /// Exchanges until their end.
    Finite,
    /// Without end, while tables change.
    Changes,
}

impl Course {
    fn of(args: &Args, case: &Case) -> Self {
        match case.default {
            _ if args.changes.is_asked() => Self::Changes,
            Kind::Ping { .. } => Self::Pairs,
            Kind::Uniform => Self::Open,
            _ if args.load.is_empty() => Self::Finite,
            _ => Self::Open,
        }
    }
}

/// Refuses options that would be passed over.
pub(super) fn check(args: &Args, case: &Case) -> Result<(), Failure> {
    let course = Course::of(args, case);
    let once = match course {
        Course::Changes => "with --changes each load runs once",
        Course::Pairs => "pingpong and bulk run once",
        Course::Open | Course::Finite => "what has an end runs once; give --load",
    };
    let draws_paths = ADAPTIVE.contains(&args.engine.as_str()) && args.engine.starts_with("ksp");
    let (is_open, is_finite) = (course == Course::Open, course == Course::Finite);
    let options = [
        ("--active", args.active.is_some(), course == Course::Pairs, "with --traffic pingpong and bulk only"),
        ("--seeds", args.seeds > 1, is_open, once),
        ("--load", !args.load.is_empty(), course != Course::Pairs, "pingpong and bulk wait for answers"),
        ("--warm-up", args.warm_up.is_some(), is_open, "with traffic without end only; give --load"),
        ("--most", args.most.is_some(), is_open, "with traffic without end only; give --load"),
        ("--reads", args.reads.is_some(), is_finite, "beside exchanges that have an end only"),
        ("--writes", args.writes.is_some(), is_finite, "beside exchanges that have an end only"),
        ("--paths", args.paths.is_some(), draws_paths && args.tables.is_none(), "of ksp and ksp-ugal only"),
        ("--traffic JOB=T", !case.own.is_empty(), is_finite, "beside exchanges that have an end only"),
    ];
    match options.into_iter().find(|(_, is_given, is_of_use, _)| *is_given && !is_of_use) {
        Some((option, _, _, why)) => Err(format!("{option}: {why}").into()),
        None => Ok(()),
    }
}
