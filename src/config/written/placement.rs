//! `[placement]` as written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::Wrong;
use super::numbers::Seconds;
use super::words::Program;
use crate::config::Placement;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenPlacement {
    hold: bool,
    deadline_seconds: Seconds,
    start_seconds: Seconds,
    interval_seconds: Seconds,
    max_held: Spanned<usize>,
    isolated: bool,
    select_socket: Option<PathBuf>,
    scontrol: Program,
    sinfo: Program,
}

impl Default for WrittenPlacement {
    fn default() -> Self {
        Self {
            hold: false,
            deadline_seconds: Seconds(Duration::from_secs(120)),
            start_seconds: Seconds(Duration::from_secs(15)),
            interval_seconds: Seconds(Duration::from_secs(1)),
            max_held: Spanned::new(0..0, 64),
            isolated: false,
            select_socket: None,
            scontrol: Program("scontrol".into()),
            sinfo: Program("sinfo".into()),
        }
    }
}

impl WrittenPlacement {
    /// Commands get the bounds of `[slurm]`. Or what is wrong, at which byte.
    pub(super) fn resolve(
        self,
        home: &Path,
        command_deadline: Duration,
        output_limit: u64,
    ) -> Result<Placement, Wrong> {
        if self.hold && *self.max_held.get_ref() == 0 {
            let message = "placement.hold needs room for one job at least: max_held = 1";
            return Err((self.max_held.span().start, message.into()));
        }
        Ok(Placement {
            hold: self.hold,
            deadline: self.deadline_seconds.0,
            start: self.start_seconds.0,
            interval: self.interval_seconds.0,
            max_held: self.max_held.into_inner(),
            isolated: self.isolated,
            select_socket: self.select_socket.map(|p| home.join(p)),
            scontrol: self.scontrol.0,
            sinfo: self.sinfo.0,
            command_deadline,
            output_limit,
        })
    }
}
