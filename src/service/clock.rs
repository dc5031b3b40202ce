//! Time for whatever waits.

use std::sync::LazyLock;
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};

static START: LazyLock<(Instant, DateTime<Utc>)> = LazyLock::new(|| (Instant::now(), Utc::now()));

/// The time of day at the first call, and what has passed since: an administrator or NTP may set the clock,
/// this goes on. Not to be compared with times that other programs wrote down, nor to be written down.
pub fn steady() -> DateTime<Utc> {
    let (then, time) = *START;
    time + TimeDelta::from_std(then.elapsed()).unwrap_or(TimeDelta::MAX)
}

/// The time of day for people of a moment of [`steady`].
pub fn by_the_wall(steadily: DateTime<Utc>) -> DateTime<Utc> {
    Utc::now() + (steadily - steady())
}

/// The moment of [`steady`] at this time of day, as the clock goes now.
pub fn steadily(by_the_wall: DateTime<Utc>) -> DateTime<Utc> {
    steady() + (by_the_wall - Utc::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_clocks_are_told_apart_and_back() {
        let (a, b) = (steady(), steady());
        assert!(b >= a);
        let there = steadily(by_the_wall(a));
        // Two readings of two clocks lie between; nobody waits for less than this.
        assert!((there - a).abs() < TimeDelta::seconds(60), "{a} {there}");
    }
}
