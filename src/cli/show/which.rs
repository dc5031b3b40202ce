//! Which epoch: by number, the one in force now, or the one in force at a time.

use std::str::FromStr;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};

use crate::cli::Failure;
use crate::publish::{EpochNumber, EpochStore};

/// As typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The one in force.
    Current,
    /// By number.
    Number(EpochNumber),
    /// The newest one published until the end of this minute, UTC; without a day, the last time that it was so late.
    At(Option<NaiveDate>, NaiveTime),
}

impl FromStr for Which {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "current" {
            return Ok(Self::Current);
        }
        let time = |text: &str| {
            let text = text.trim_end_matches('Z');
            let parsed = NaiveTime::parse_from_str(text, "%H:%M");
            parsed.or_else(|_| NaiveTime::parse_from_str(text, "%H:%M:%S"))
        };
        if let Some((day, of_day)) = text.split_once(['T', ' ']) {
            if let (Ok(day), Ok(of_day)) = (day.parse(), time(of_day)) {
                return Ok(Self::At(Some(day), of_day));
            }
        }
        if let Ok(of_day) = time(text) {
            return Ok(Self::At(None, of_day));
        }
        text.parse().map(Self::Number).map_err(|e: String| {
            format!("{e}, nor `current`, nor a time (14:05 or 2026-12-01T14:05, UTC as `history` has it)")
        })
    }
}

impl Which {
    /// The number, if one was said.
    fn number(self) -> Option<EpochNumber> {
        match self {
            Self::Number(number) => Some(number),
            Self::Current | Self::At(..) => None,
        }
    }

    /// The number of a change of a direct torus; `None`: the newest.
    pub fn change(self, store: &EpochStore) -> Result<Option<EpochNumber>, Failure> {
        match self {
            Self::At(..) => self.of(store).map(Some),
            which => Ok(which.number()),
        }
    }

    /// The number of an epoch.
    pub fn of(self, store: &EpochStore) -> Result<EpochNumber, Failure> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Current => Ok(store.current()?.ok_or("no epoch has been published")?),
            Self::At(day, of_day) => {
                let until = until(day, of_day, Utc::now());
                let rows = store.history()?.rows;
                let row = rows.iter().rev().find(|row| row.created <= until);
                Ok(row.ok_or(format!("no epoch had been published at {until}"))?.epoch)
            }
        }
    }
}

/// The end of the minute, or of the second where one was said.
fn until(day: Option<NaiveDate>, of_day: NaiveTime, now: DateTime<Utc>) -> DateTime<Utc> {
    let on = |day| NaiveDateTime::new(day, of_day).and_utc();
    let found = day.map_or_else(
        || match on(now.date_naive()) {
            later if later > now => later - TimeDelta::days(1),
            earlier => earlier,
        },
        on,
    );
    let is_minute = found.timestamp() % 60 == 0;
    found + TimeDelta::milliseconds(if is_minute { 59_999 } else { 999 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_day_is_the_last_one() {
        let now: DateTime<Utc> = "2026-12-01T14:10:00Z".parse().unwrap();
        for (typed, wanted) in [
            ("14:05", "2026-12-01T14:05:59.999Z"),
            ("14:20", "2026-11-30T14:20:59.999Z"),
            ("2026-11-02T03:04", "2026-11-02T03:04:59.999Z"),
            ("2026-11-02T03:04:05Z", "2026-11-02T03:04:05.999Z"),
        ] {
            let Which::At(day, of_day) = typed.parse().unwrap() else { panic!("{typed}") };
            assert_eq!(until(day, of_day, now), wanted.parse::<DateTime<Utc>>().unwrap(), "{typed}");
        }
        assert!("25:05".parse::<Which>().is_err() && "noon".parse::<Which>().is_err());
    }
}
