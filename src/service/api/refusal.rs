//! Refused requests in the log: whoever may ask may not fill it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Method;
use tracing::warn;

/// Between two lines that say the same.
const PAUSE: Duration = Duration::from_secs(1);
/// Reasons that are told apart: there are fewer.
const REASONS: usize = 32;

/// By reason, when the newest line was written, and requests since then that have none.
type Last = BTreeMap<String, (Instant, u64)>;

static LAST: Mutex<Last> = Mutex::new(Last::new());

/// Logs a refused request, of each reason at most one in a second; the next line counts those that were left out.
pub(super) fn log(caller: &str, method: &Method, path: &str, why: &str) {
    let unsaid = turn(&mut LAST.lock().unwrap_or_else(PoisonError::into_inner), why, Instant::now());
    let Some(unsaid) = unsaid else { return };
    let more = (unsaid > 0).then_some(unsaid);
    warn!(caller, %method, path, why, more, "refused");
}

/// How many were left out, if there may be a line now.
fn turn(last: &mut Last, why: &str, now: Instant) -> Option<u64> {
    if let Some((_, unsaid)) = last.get_mut(why).filter(|(at, _)| now.saturating_duration_since(*at) < PAUSE)
    {
        *unsaid += 1;
        return None;
    }
    if last.len() >= REASONS {
        last.clear();
    }
    Some(last.insert(why.to_string(), (now, 0)).map_or(0, |(_, unsaid)| unsaid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_line_of_a_reason_and_the_next_one_counts_the_rest() {
        let (mut last, begun) = (Last::new(), Instant::now());
        let mut at = |why: &str, ms: u64| turn(&mut last, why, begun + Duration::from_millis(ms));
        let told = [0, 10, 999, 1000, 1001, 3000].map(|ms| at("a", ms));
        assert_eq!(told, [Some(0), None, None, Some(2), None, Some(1)]);
        assert_eq!([at("b", 3001), at("b", 3002)], [Some(0), None]);
    }
}
