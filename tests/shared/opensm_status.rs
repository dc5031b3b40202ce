//! The status file of the plugin in OpenSM, for tests without OpenSM.

use chrono::Utc;
use serde_json::{Value, json};

/// What the plugin says when all is well with an epoch, but for these keys.
pub fn opensm_status(epoch: u64, edit: &[(&str, Value)]) -> String {
    let mut status = json!({
        "format": 1, "plugin": "0.1.0", "opensm": "OpenSM 3.3.23", "pid": 7, "running": true,
        "written": Utc::now(), "heartbeat": 3600, "engine": "sarouter", "generation": epoch,
        "fingerprint": "00", "layers": 1, "acknowledged": Utc::now(), "asked": null, "routings": 2,
        "lost_entries": 0, "stranded_pairs": 0, "uncovered_lids": 0, "guest_lids": 0,
        "refused_generation": null, "refused_reason": null, "warning": null
    });
    edit.iter().for_each(|(key, value)| status[*key] = value.clone());
    status.to_string()
}
