//! Waits in the background until OpenSM has put an epoch in force on every switch.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::health::{Acknowledged, Failure, Stage};
use crate::config::OpenSm;
use crate::publish::opensm::PluginStatus;

/// Between two looks at the status file: short beside what OpenSM takes for a large fabric.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits for the acknowledgement of an epoch that came into force on the disk at `renamed`, at
/// most for the deadline of the settings. Where the epoch is the first of two steps, its refusal ends that too.
///
/// # Errors
/// What OpenSM says instead, or that it says nothing.
pub async fn acknowledgement(
    settings: OpenSm,
    epoch: u64,
    renamed: DateTime<Utc>,
    is_halfway: bool,
) -> Result<Acknowledged, Failure> {
    let deadline = tokio::time::Instant::now() + settings.acknowledge;
    loop {
        let status = PluginStatus::read(&settings.status_file);
        if let Ok(status) = &status {
            let acknowledged = status.acknowledged.filter(|_| status.in_force(epoch));
            // Where the clock was set back, what was renamed before is in the future.
            let (since, now) = (renamed, Utc::now());
            if let Some(time) = acknowledged.filter(|time| *time >= since || now < since) {
                return Ok(Acknowledged { epoch, milliseconds: (time - since).num_milliseconds().max(0) });
            }
        }
        let is_refused = |status: &PluginStatus| status.refused_generation == Some(epoch);
        let is_over = is_halfway && status.as_ref().is_ok_and(is_refused);
        if is_over || tokio::time::Instant::now() >= deadline {
            let waited = settings.acknowledge.as_secs_f64();
            let why = match status {
                Err(error) => error.to_string(),
                Ok(status) => match status.troubles(Some(epoch), Utc::now()).first() {
                    Some(trouble) => trouble.to_string(),
                    None => "it has not routed again".to_string(),
                },
            };
            let message = format!("OpenSM has not put epoch {epoch} in force within {waited} s: {why}");
            return Err(Failure { time: Utc::now(), stage: Stage::Acknowledge, message });
        }
        tokio::time::sleep(PAUSE).await;
    }
}
