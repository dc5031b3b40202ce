//! When a replay looks.

use super::Replay;
use crate::cli::Failure;
use crate::lab::replay::history::{GENERATED_START, History};
use crate::lab::replay::trace::{Content, Trace};

/// First snapshot, and how many there are. Before the first start there is nothing to see.
pub(super) fn span(args: &Replay, trace: &Trace, histories: &[History]) -> Result<(i64, usize), Failure> {
    let spans: Vec<(i64, i64)> = histories.iter().filter_map(History::span).collect();
    let start = spans
        .iter()
        .map(|s| s.0)
        .min()
        .ok_or("the trace has no job that ran: is it SWF, or what `sacct -P` prints?")?;
    let (first, last) = match trace.content {
        Content::Generated(_, days, _) => (GENERATED_START, GENERATED_START + i64::from(days) * 86_400),
        _ => (start, spans.iter().map(|s| s.1).max().unwrap_or(start)),
    };
    let every = args.every;
    let aligned = Some(first + (-first).rem_euclid(every)).filter(|t| *t < last).unwrap_or(start);
    let from = args.from.map_or(aligned, |t| t.timestamp());
    let to = args.to.map_or(last, |t| t.timestamp());
    if to < from {
        return Err("no snapshot is left: the trace or --to ends before --from".into());
    }
    let samples = to.saturating_sub(from) as u64;
    // Jobs are over at the last end; what the last snapshot says holds when it is taken, and is looked at too.
    let one_more = matches!(trace.content, Content::Snapshots(_)) && args.to.is_none();
    let samples = (samples.div_ceil(every as u64) + u64::from(one_more)).max(1);
    if samples > 10_000_000 {
        return Err(format!("{samples} snapshots are more than 10 million: choose --from and --to").into());
    }
    Ok((from, samples as usize))
}
