//! `[placement]` as written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::numbers::Seconds;
use crate::config::Placement;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenPlacement {
    hold: bool,
    deadline_seconds: Seconds,
    start_seconds: Seconds,
    interval_seconds: Seconds,
    max_held: usize,
    isolated: bool,
    select_socket: Option<PathBuf>,
    scontrol: String,
    sinfo: String,
}

impl Default for WrittenPlacement {
    fn default() -> Self {
        Self {
            hold: false,
            deadline_seconds: Seconds(Duration::from_secs(120)),
            start_seconds: Seconds(Duration::from_secs(15)),
            interval_seconds: Seconds(Duration::from_secs(1)),
            max_held: 64,
            isolated: false,
            select_socket: None,
            scontrol: "scontrol".into(),
            sinfo: "sinfo".into(),
        }
    }
}

impl WrittenPlacement {
    /// Commands get the bounds of `[slurm]`.
    pub(super) fn resolve(self, home: &Path, command_deadline: Duration, output_limit: u64) -> Placement {
        Placement {
            hold: self.hold,
            deadline: self.deadline_seconds.0,
            start: self.start_seconds.0,
            interval: self.interval_seconds.0,
            max_held: self.max_held,
            isolated: self.isolated,
            select_socket: self.select_socket.map(|p| home.join(p)),
            scontrol: self.scontrol,
            sinfo: self.sinfo,
            command_deadline,
            output_limit,
        }
    }
}
