//! What administrators do by hand to what is in force, for the commands and the page: each is written down
//! with who did it.

use chrono::{DateTime, Utc};

use crate::model::shown;

use super::{Act, Deed, EpochNumber, Hold, StoreError, Writer};

impl Writer {
    /// Holds what is in force. Of a hold that is there the time stays, and without another reason all of it.
    ///
    /// # Errors
    /// Names the path.
    pub fn hold_by_hand(&mut self, reason: String, by: String) -> Result<Hold, StoreError> {
        let (time, epoch, reason) = (Utc::now(), self.in_force(), shown(&reason).into_owned());
        let first = self.store().hold().ok().flatten();
        let hold = match first.filter(|first| first.since > DateTime::UNIX_EPOCH) {
            Some(first) if reason.is_empty() => Hold { epoch, ..first },
            Some(first) => Hold { since: first.since, epoch, reason: reason.clone(), by: Some(by.clone()) },
            None => Hold { since: time, epoch, reason: reason.clone(), by: Some(by.clone()) },
        };
        self.hold(&hold)?;
        self.note(&Act { time, act: Deed::Hold, epoch, by: Some(by), reason });
        Ok(hold)
    }

    /// Ends a hold; returns whether there was one.
    ///
    /// # Errors
    /// Names the path.
    pub fn resume_by_hand(&mut self, by: String) -> Result<bool, StoreError> {
        let was_held = self.resume()?;
        if was_held {
            let (time, epoch) = (Utc::now(), self.in_force());
            self.note(&Act { time, act: Deed::Resume, epoch, by: Some(by), reason: String::new() });
        }
        Ok(was_held)
    }

    /// Puts an earlier epoch in force, and holds it if that is wanted.
    ///
    /// # Errors
    /// Names the path; what is in force stays.
    pub fn rollback_by_hand(&mut self, to: EpochNumber, by: &str, hold: bool) -> Result<(), StoreError> {
        let from = self.in_force();
        let by = || Some(by.to_string());
        // What was held before stays held if this fails.
        let held = self.store().hold()?;
        if hold {
            // First, and under the same lock: no pass comes between.
            let reason = format!("rolled back to epoch {to}");
            self.hold(&Hold { since: Utc::now(), epoch: Some(to), reason, by: by() })?;
        }
        if let Err(error) = self.rollback(to) {
            match held {
                _ if !hold => {}
                Some(held) => self.hold(&held)?,
                None => drop(self.resume()?),
            }
            return Err(error);
        }
        let note = |act, reason| Act { time: Utc::now(), act, epoch: Some(to), by: by(), reason };
        let reason = from.map(|from| format!("from epoch {from}")).unwrap_or_default();
        self.note(&note(Deed::Rollback, reason));
        if hold {
            self.note(&note(Deed::Hold, String::new()));
        }
        Ok(())
    }

    fn in_force(&self) -> Option<EpochNumber> {
        self.store().current().unwrap_or(None)
    }
}
