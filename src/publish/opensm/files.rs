//! Which of several status files is that of the OpenSM that is master.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use chrono::TimeDelta;

use super::PluginStatus;

/// The file itself, then those beside it with 16 hex digits before the end of their name, by name.
pub(super) fn with_ports(path: &Path) -> Vec<PathBuf> {
    let mut files = vec![path.to_path_buf()];
    let (Some(directory), Some(stem)) = (path.parent(), path.file_stem().and_then(|s| s.to_str())) else {
        return files;
    };
    let end = path.extension().and_then(|e| e.to_str()).map(|e| format!(".{e}")).unwrap_or_default();
    let is_port = |name: &str| {
        let digits =
            name.strip_prefix(stem).and_then(|n| n.strip_prefix('.')).and_then(|n| n.strip_suffix(&end));
        digits.is_some_and(|d| d.len() == 16 && d.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let names =
        fs::read_dir(directory).into_iter().flatten().filter_map(|e| e.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|n| is_port(n)).collect();
    names.sort();
    files.extend(names.iter().map(|n| directory.join(n)));
    files
}

/// Of those that were written to the last, within three heartbeats: a master, best one whose tables
/// are ours, and the other masters as its rivals. If all have ended, the one that did last.
pub(super) fn choose(mut found: Vec<PluginStatus>) -> Option<PluginStatus> {
    let newest = found.iter().map(|s| s.written).max()?;
    let lives =
        |s: &PluginStatus| s.running && newest - s.written <= TimeDelta::seconds(3 * i64::from(s.heartbeat));
    // An earlier plugin did not say.
    let master = |s: &PluginStatus| lives(s) && s.state.as_deref().is_none_or(|state| state == "master");
    let ended = |s: &PluginStatus| Reverse(Some(s.written).filter(|_| !lives(s)));
    // Stable: equals stay in the order of their names.
    found.sort_by_key(|s| (!master(s), !lives(s), s.generation.is_none(), ended(s)));
    let rivals = found.iter().skip(1).filter(|s| master(s)).map(|s| s.file.clone()).collect();
    found.into_iter().next().map(|first| PluginStatus { rivals, ..first })
}
