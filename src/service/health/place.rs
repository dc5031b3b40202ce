//! What is wrong where the service runs, its space and its clock, and with the cables that it sees.

use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Health, Kind, Trouble};
use crate::model::NodeName;
use crate::observe::hostlist;
use crate::publish::{Hold, StoreError};

/// What should fit beside two more epochs: the recording, the history.
const SPARE: u64 = 1 << 20;

/// Clocks of two machines may differ so much.
const TOLERANCE: TimeDelta = TimeDelta::seconds(60);

impl Health {
    /// Looks at the file system of a state directory, and at the clock beside `written`: what was written down, and
    /// when. Keeps since when each trouble is there.
    pub fn look_around(&mut self, now: DateTime<Utc>, state: &Path, written: &[(&str, DateTime<Utc>)]) {
        self.note_place(now, Kind::NoSpace, no_space(state));
        self.note_place(now, Kind::Clock, clock(now, written));
    }

    /// Notes an administrator's hold as it was read, or that nobody can say whether there is one, so that what is in
    /// force stays.
    pub fn note_hold(&mut self, now: DateTime<Utc>, hold: Result<Option<Hold>, StoreError>) {
        let unread = match hold {
            Ok(hold) => {
                self.held = hold;
                None
            }
            Err(error) => Some(format!("nothing is published while the hold cannot be read: {error}")),
        };
        self.note_place(now, Kind::Held, unread.filter(|_| self.held.is_none()));
    }

    /// Notes a trouble of the place, or that it is over.
    fn note_place(&mut self, now: DateTime<Utc>, kind: Kind, text: Option<String>) {
        let known = self.place.iter().position(|trouble| trouble.kind == kind);
        let since = known.map_or(now, |known| self.place.remove(known).since);
        self.place.extend(text.map(|text| Trouble { kind, since, text }));
        self.place.sort_by_key(|trouble| trouble.kind);
    }

    /// Notes nodes that no cable joins with others, and keeps since when there are some.
    pub fn note_parted(&mut self, now: DateTime<Utc>, nodes: &[NodeName]) {
        let since = self.parted.as_ref().map_or(now, |trouble| trouble.since);
        let text = || format!("no cable leads from {} to the other nodes", hostlist::fold(nodes));
        self.parted = (!nodes.is_empty()).then(|| Trouble { kind: Kind::Parted, since, text: text() });
    }
}

/// Whether two more epochs like that in force would not fit.
fn no_space(state: &Path) -> Option<String> {
    let space = rustix::fs::statvfs(state).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let files = std::fs::read_dir(state.join("current")).into_iter().flatten();
    let epoch: u64 = files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum();
    (free < 2 * epoch + SPARE).then(|| {
        let (free, epoch) = (free >> 10, epoch.div_ceil(1 << 10));
        format!(
            "the file system of the state directory is nearly full: {free} KiB left, an epoch takes {epoch}"
        )
    })
}

/// Whether something was written down that lies ahead.
fn clock(now: DateTime<Utc>, written: &[(&str, DateTime<Utc>)]) -> Option<String> {
    let (what, when) = written.iter().max_by_key(|(_, when)| *when)?;
    let ahead = *when - now;
    (ahead > TOLERANCE).then(|| {
        let seconds = ahead.num_seconds();
        format!("the clock was set back: {what} at {when}, which is {seconds} s ahead of now")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::HOLD_FILE;

    #[test]
    fn a_clock_that_was_set_back_is_told_until_it_is_right_again() {
        let state = tempfile::tempdir().unwrap();
        let at = |s: i64| DateTime::from_timestamp(1_700_000_000 + s, 0).unwrap();
        let mut health = Health::new(at(0), true);
        let mut told = |now: i64, last: i64| {
            health.look_around(at(now), state.path(), &[("a pass ended", at(last)), ("b", at(last - 1))]);
            health
                .found(at(now), TimeDelta::MAX)
                .into_iter()
                .map(|t| (t.kind, t.since, t.text))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(100, 100), []);
        assert_eq!(told(100, 160), []);
        let [(kind, since, text)] = told(100, 3700).try_into().unwrap();
        assert_eq!((kind, since), (Kind::Clock, at(100)));
        assert!(text.contains("a pass ended at 2023-11-14 23:15:00 UTC, which is 3600 s ahead"), "{text}");
        assert_eq!(told(200, 3700)[0].1, at(100));
        assert_eq!(told(3700, 3700), []);
    }

    #[test]
    fn a_hold_is_told_as_the_pass_has_read_it() {
        let state = tempfile::tempdir().unwrap();
        let at = |s: i64| DateTime::from_timestamp(1_700_000_000 + s, 0).unwrap();
        let mut health = Health::new(at(0), true);
        let mut told = |now: i64, hold| {
            health.note_hold(at(now), hold);
            // What is in the file by now is for the next pass.
            std::fs::write(state.path().join(HOLD_FILE), "{}").unwrap();
            health.look_around(at(now), state.path(), &[]);
            let found = health.found(at(now), TimeDelta::MAX);
            found.into_iter().map(|t| (t.kind, t.since, t.text)).collect::<Vec<_>>()
        };
        let hold = Hold { since: at(1), epoch: None, reason: "try".into(), by: None };
        let unread = || Err(StoreError::Unwritable("gone".into()));
        assert_eq!(told(0, Ok(None)), []);
        let [(kind, since, text)] = told(5, unread()).try_into().unwrap();
        assert_eq!((kind, since), (Kind::Held, at(5)));
        assert!(text.contains("the hold cannot be read"), "{text}");
        assert_eq!(told(6, unread())[0].1, at(5));
        let [(kind, since, text)] = told(7, Ok(Some(hold))).try_into().unwrap();
        assert_eq!((kind, since), (Kind::Held, at(1)));
        assert!(text.contains("an administrator holds"), "{text}");
        assert_eq!(told(8, unread()).len(), 1, "it is taken to be there still");
        assert_eq!(told(9, Ok(None)), []);
    }

    /// A file of so many bytes takes no space before they are written.
    #[test]
    fn a_state_directory_without_room_for_two_more_epochs_is_told() {
        let state = tempfile::tempdir().unwrap();
        let mut health = Health::new(DateTime::UNIX_EPOCH, true);
        let mut told = || {
            health.look_around(DateTime::UNIX_EPOCH, state.path(), &[]);
            health.found(DateTime::UNIX_EPOCH, TimeDelta::MAX)
        };
        assert_eq!(told(), []);
        std::fs::create_dir(state.path().join("current")).unwrap();
        let file = std::fs::File::create(state.path().join("current/lft.bin")).unwrap();
        file.set_len(1000).unwrap();
        assert_eq!(told(), []);
        let huge: u64 = 1 << 42;
        file.set_len(huge).unwrap();
        let found = told();
        assert_eq!((found.len(), found[0].kind), (1, Kind::NoSpace));
        assert!(found[0].text.ends_with(&format!("an epoch takes {}", huge >> 10)), "{}", found[0].text);
    }
}
