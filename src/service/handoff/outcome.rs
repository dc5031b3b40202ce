//! Why a job may start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a job may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Routes for it are in force.
    InForce,
    /// It is on one switch: routes do not matter to it.
    OneSwitch,
    /// Other routes would gain it too little: those in force serve it.
    GoodEnough,
    /// It is too small, too short, or too close to the last computation: the next pass serves it.
    NextPass,
    /// Its deadline has passed; it starts on the last verified routes.
    Deadline,
    /// An administrator holds the routes as they are.
    Held,
    /// Too many jobs wait already.
    Full,
    /// It is over, or the batch system does not know it any more.
    Gone,
    /// Another start of the same job was announced.
    Superseded,
    /// No tables could be made for it, as some of its nodes cannot reach others: on a direct torus, or where cables
    /// are lost.
    Unrouted,
    /// One of several fabrics: its OpenSM is gone, so that nothing new comes into force there.
    OpensmGone,
    /// What it should be told could not be written.
    Untold,
    /// Nodes of it are not in the fabric, and those that are are on one switch.
    Unknown,
}

impl Outcome {
    /// From the best for a job to the worst. A node need not have an adapter on each of several fabrics.
    const BEST_FIRST: [Self; 13] = [
        Self::Unknown,
        Self::OneSwitch,
        Self::InForce,
        Self::GoodEnough,
        Self::NextPass,
        Self::Held,
        Self::Full,
        Self::OpensmGone,
        Self::Deadline,
        Self::Untold,
        Self::Unrouted,
        Self::Gone,
        Self::Superseded,
    ];

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::InForce => "routes for it are in force",
            Self::OneSwitch => "it is on one switch",
            Self::GoodEnough => "the routes in force serve it",
            Self::NextPass => "the next pass serves it",
            Self::Deadline => "its deadline has passed",
            Self::Held => "an administrator holds the routes",
            Self::Full => "too many jobs wait",
            Self::Gone => "it is over",
            Self::Superseded => "it was announced again",
            Self::Unrouted => "no tables could be made for it",
            Self::Untold => "its directory could not be written",
            Self::OpensmGone => "OpenSM is gone",
            Self::Unknown => "nodes of it are not in the fabric",
        }
    }

    /// Whether a job that requires routes of its own has none.
    pub fn is_late(self) -> bool {
        matches!(self, Self::Deadline | Self::Untold | Self::Unrouted | Self::OpensmGone | Self::Unknown)
    }

    /// The same of a job whose directory is written, or not: without it a job does not learn its service level.
    #[must_use]
    pub fn told(self, is_written: bool) -> Self {
        if is_written || self.is_late() { self } else { Self::Untold }
    }

    /// Of a job on several fabrics: that of the fabric that serves it worst.
    pub fn worst(outcomes: impl IntoIterator<Item = Self>) -> Option<Self> {
        let place = |outcome: &Self| Self::BEST_FIRST.iter().position(|o| o == outcome);
        outcomes.into_iter().max_by_key(place)
    }
}
