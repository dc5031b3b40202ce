//! What is proved of tables: which packets may be in flight without a cycle of buffers that wait
//! for each other.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which (source, destination, SL, tables) may be in flight.
///
/// Sources are all terminals of switches with hosts. With [`Promise::untold`] or [`Promise::any`] they are also the
/// switches themselves, which answer management on the SL on which they were asked; destinations
/// are then all terminals and, from terminals, all switches. The SLs of a route are all those that
/// the parts of the promise name. Traffic to multicast groups is in no promise. Nor is what routers and aggregation
/// nodes send at switches without hosts, but to hosts where switches send as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Promise {
    /// Programs that asked: the SL that the tables give to the route.
    pub told: bool,
    /// Programs that never ask: SL 0.
    pub untold: bool,
    /// Programs that use an SL of their own: each of the 16.
    pub any: bool,
    /// Answers on the SL of the caller.
    pub reply: bool,
    /// Connections that are as old as the fabric, on the SLs of earlier epochs.
    pub since: bool,
    /// The change: each switch has the tables (and the lanes) of this epoch or those of the one before.
    pub mixed: bool,
}

impl Promise {
    /// The SLs that the tables give, no change, no answer on another SL.
    pub const TOLD: Self =
        Self { told: true, untold: false, any: false, reply: false, since: false, mixed: false };
    /// Every SL, answers, old connections, changes.
    pub const EVERYTHING: Self =
        Self { told: true, untold: true, any: true, reply: true, since: true, mixed: true };
    /// No packet at all.
    pub const NOTHING: Self =
        Self { told: false, untold: false, any: false, reply: false, since: false, mixed: false };

    /// [`Promise::TOLD`]: what files promise that were written when there was no other.
    pub fn told() -> Self {
        Self::TOLD
    }

    /// Name and part, in the order in which they are printed.
    fn parts(&mut self) -> [(&'static str, &mut bool); 6] {
        [
            ("told", &mut self.told),
            ("untold", &mut self.untold),
            ("any", &mut self.any),
            ("reply", &mut self.reply),
            ("since", &mut self.since),
            ("mixed", &mut self.mixed),
        ]
    }

    /// The promise that is one part only.
    ///
    /// # Errors
    /// If no part has that name.
    pub fn part(name: &str) -> Result<Self, PromiseError> {
        let mut promise = Self::NOTHING;
        let part = promise.parts().into_iter().find(|(known, _)| *known == name);
        *part.ok_or_else(|| PromiseError(name.to_string()))?.1 = true;
        Ok(promise)
    }

    /// Whether it says who sends.
    pub fn has_senders(&self) -> bool {
        self.told || self.untold || self.any
    }

    /// Whether everything that `other` promises is promised. Any SL includes those that were told,
    /// SL 0, answers and old connections.
    pub fn covers(&self, other: &Self) -> bool {
        let implied = |mine: bool, wanted: bool| mine || !wanted;
        implied(self.any || self.told, other.told)
            && implied(self.any || self.untold, other.untold)
            && implied(self.any, other.any)
            && implied(self.any || self.reply, other.reply)
            && implied(self.any || self.since, other.since)
            && implied(self.mixed, other.mixed)
    }

    /// Both.
    #[must_use]
    pub fn and(mut self, mut other: Self) -> Self {
        for ((_, mine), (_, theirs)) in self.parts().into_iter().zip(other.parts()) {
            *mine |= *theirs;
        }
        self
    }

    /// Whether tables may use several SLs that programs must be told, because nothing more is promised.
    pub fn is_told_only(&self) -> bool {
        *self == Self::TOLD
    }
}

/// The safe one.
impl Default for Promise {
    fn default() -> Self {
        Self::EVERYTHING
    }
}

/// Names of the parts joined by `+`; `any+mixed` for everything.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = *self;
        if self.any {
            rest = Self { any: true, mixed: self.mixed, ..Self::NOTHING };
        }
        let names: Vec<&str> =
            rest.parts().into_iter().filter(|(_, on)| **on).map(|(name, _)| name).collect();
        f.write_str(&names.join("+"))
    }
}

/// Not the name of a promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a promise: told, untold, any, reply, since and mixed, joined by +")]
pub struct PromiseError(pub String);

impl FromStr for Promise {
    type Err = PromiseError;
    /// Inverse of printing. Without `told`, `untold` or `any`, programs were told.
    fn from_str(text: &str) -> Result<Self, PromiseError> {
        let mut promise = Self::NOTHING;
        for word in text.split('+') {
            promise = promise.and(Self::part(word).map_err(|_| PromiseError(text.to_string()))?);
        }
        if promise.any {
            promise = Self { mixed: promise.mixed, ..Self::EVERYTHING };
        }
        promise.told |= !promise.untold;
        Ok(promise)
    }
}

impl TryFrom<String> for Promise {
    type Error = PromiseError;
    fn try_from(text: String) -> Result<Self, PromiseError> {
        text.parse()
    }
}

impl From<Promise> for String {
    fn from(promise: Promise) -> Self {
        promise.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::Promise;

    #[test]
    fn printing_is_undone_by_reading() {
        for text in ["told", "told+reply", "untold", "told+untold+since", "any", "any+mixed", "told+mixed"] {
            let promise: Promise = text.parse().unwrap();
            assert_eq!(promise.to_string(), text);
        }
        assert_eq!(Promise::EVERYTHING.to_string().parse(), Ok(Promise::EVERYTHING));
        assert_eq!("reply".parse::<Promise>().unwrap().to_string(), "told+reply");
        for bad in ["", "all", "told,reply", "told+", "Any"] {
            assert!(bad.parse::<Promise>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn any_covers_all_but_the_change() {
        let any: Promise = "any".parse().unwrap();
        for text in ["told", "untold", "told+reply", "told+untold+since"] {
            let other: Promise = text.parse().unwrap();
            assert!(any.covers(&other) && !other.covers(&any), "{text}");
        }
        assert!(!any.covers(&Promise::EVERYTHING) && Promise::EVERYTHING.covers(&any));
        assert!(!Promise::TOLD.covers(&"told+reply".parse().unwrap()));
    }
}
