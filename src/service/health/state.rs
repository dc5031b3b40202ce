//! How the service is in one word, and which command helps with each trouble.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Health, Kind};

/// Who fetches what is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reader {
    /// Nobody that the service knows of: OpenSM's plugin was never heard of or is not expected, and no file is written
    /// for a subnet manager.
    Nobody,
    /// OpenSM's plugin.
    Opensm,
    /// A subnet manager that reads `opensm.lft_file`.
    File,
    /// The nodes of a direct torus.
    Nodes,
}

/// How the service is, in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// What is published is in force.
    #[default]
    Live,
    /// Epochs are published, and nobody fetches them: nothing changes on the fabric.
    DryRun,
    /// An administrator holds what is in force.
    Held,
    /// The service was ended.
    Stopped,
    /// An epoch is published, and OpenSM has not acknowledged it.
    WaitingForOpensm,
}

impl Health {
    /// Whether nobody fetches what is published.
    pub fn is_dry(&self) -> bool {
        self.reader == Some(Reader::Nobody)
    }

    /// The state: what stops everything comes before what is only not there yet.
    pub fn state(&self) -> State {
        if self.ended.is_some() {
            return State::Stopped;
        }
        if self.held.is_some() {
            return State::Held;
        }
        match self.reader {
            Some(Reader::Nobody) => State::DryRun,
            Some(Reader::Opensm) if self.waits_for_opensm.is_some() => State::WaitingForOpensm,
            _ => State::Live,
        }
    }
}

impl Kind {
    /// The command that helps, or says more: the one that stands in its row of `docs/OPERATE.md`.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Failing
            | Self::Unacknowledged
            | Self::OpensmBehind
            | Self::OpensmStatus
            | Self::Settings => "sarouter doctor",
            Self::Lagging | Self::OpensmSilent => "systemctl restart opensm",
            Self::OpensmEnded => "systemctl start opensm",
            Self::OpensmDeaf => "journalctl -u opensm",
            Self::OpensmNotRouted => "sminfo",
            Self::OpensmFellBack => "sarouter tick",
            Self::OpensmRefused => "sarouter verify --fabric FABRIC --tables STATE/current",
            Self::OpensmLost
            | Self::OpensmMissing
            | Self::OpensmRepaired
            | Self::OpensmStranded
            | Self::OpensmUncovered => "systemctl start sarouter-fabric.service",
            Self::OpensmRival => "pgrep -a opensm",
            Self::LftFile | Self::Hangs => "systemctl restart sarouter",
            Self::Unrecorded | Self::NoSpace => "df -h STATE",
            Self::Clock => "chronyc makestep",
            Self::UnknownNodes => "sinfo -h -o %N | sarouter fabric nodes FABRIC --nodes -",
            Self::Parted => "sarouter fabric show FABRIC",
            Self::JobsCut => "scontrol requeue JOB",
            Self::Held => "sarouter resume",
            Self::Stopped => "systemctl start sarouter",
        }
    }
}
