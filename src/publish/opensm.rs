//! What the OpenSM plugin reports: its status file, specified in `plugin/README.md`.

mod files;
pub mod repair;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

pub use crate::config::STATUS_FILE;

/// Name of our engine in OpenSM.
pub const ENGINE: &str = "sarouter";

const FABRIC_START: &str = "opensm-fabric.";
const FABRIC_END: &str = ".ibnetdiscover";

/// Whether a file has the name of one to which a plugin writes the fabric.
pub fn is_fabric_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    name.starts_with(FABRIC_START) && name.ends_with(FABRIC_END)
}

/// Bytes of the longest one that is read.
const LONGEST: u64 = 1 << 20;
/// Version of the status file.
const FORMAT: u64 = 1;

/// A status file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// Not there: the plugin was never loaded, or OpenSM skipped it because it was built for
    /// another version.
    #[error("{}: there is no such file: OpenSM has not loaded the plugin", .0.display())]
    Missing(PathBuf),
    /// Cannot be read.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Is not what `plugin/README.md` says.
    #[error("{}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// Written by a plugin of another time.
    #[error("{}: format {found}, this program knows {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
}

/// What the plugin said last. Keys as in `plugin/README.md`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PluginStatus {
    format: u64,
    /// Version of the plugin.
    pub plugin: String,
    /// Version of OpenSM.
    pub opensm: String,
    /// GUID of the port that OpenSM works by.
    #[serde(default)]
    pub port: Option<String>,
    /// What it is among the managers of its subnet: `master`, `standby`…
    #[serde(default)]
    pub state: Option<String>,
    /// OpenSM's process.
    pub pid: u32,
    /// False once OpenSM has ended in order.
    pub running: bool,
    /// When the file was written.
    pub written: DateTime<Utc>,
    /// Seconds between writings when nothing happens.
    pub heartbeat: u32,
    /// Whose tables are in force; `None` before the first routing.
    pub engine: Option<String>,
    /// Epoch in force; `None` unless the engine is ours.
    pub generation: Option<u64>,
    /// Fabric it was made for.
    pub fingerprint: Option<String>,
    /// Virtual layers that its tables use; `None` before the first tables.
    pub layers: Option<u8>,
    /// VLs of its lane map, if it has one.
    #[serde(default)]
    pub lanes: Option<u8>,
    /// LIDs of a port that have routes of their own: 1, or 2 with LMC 1.
    #[serde(default)]
    pub lid_sets: Option<u8>,
    /// Whether it came with a certificate, which the plugin has checked.
    #[serde(default)]
    pub certified: Option<bool>,
    /// When OpenSM last reported that every switch answered.
    pub acknowledged: Option<DateTime<Utc>>,
    /// When OpenSM was asked to look at an epoch at which it has not looked yet.
    #[serde(default)]
    pub asked: Option<DateTime<Utc>>,
    /// How often it did since it started.
    pub routings: u64,
    /// Entries that are dead because a cable or switch is gone.
    pub lost_entries: u64,
    /// Switches of the tables that OpenSM does not see, with all that is attached to them.
    #[serde(default)]
    pub missing_switches: u64,
    /// Pairs of a switch with hosts and a host's LID without a way.
    #[serde(default)]
    pub stranded_pairs: u64,
    /// LIDs that the tables cannot reach, on switches they do not know.
    pub uncovered_lids: u64,
    /// LIDs of unknown terminals, routed like their switch.
    pub guest_lids: u64,
    /// Entries that the plugin has replaced, because cables or switches are gone.
    #[serde(default)]
    pub repaired_entries: u64,
    /// The epoch last refused.
    pub refused_generation: Option<u64>,
    /// Why the newest epoch was refused; `None` if none was.
    pub refused_reason: Option<String>,
    /// What is wrong with the file itself.
    #[serde(default)]
    pub warning: Option<String>,
    /// The file this was read from.
    #[serde(skip)]
    pub file: PathBuf,
    /// Files of other OpenSMs that say they are masters, too.
    #[serde(skip)]
    pub rivals: Vec<PathBuf>,
}

/// Seconds after which OpenSM should have begun what it was asked for: a discovery may be under way.
const DEAF: i64 = 30;

/// Something an administrator must know about OpenSM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The plugin does not write any more.
    #[error(
        "OpenSM has not been heard of for {0} s: it was killed, or hangs; the switches keep their tables"
    )]
    Silent(i64),
    /// It was asked to route, and has not begun.
    #[error("OpenSM was asked to route {0} s ago and has not begun: it hangs")]
    Deaf(i64),
    /// OpenSM ended in order.
    #[error("OpenSM has ended; the switches keep their tables")]
    Ended,
    /// No routing yet.
    #[error("OpenSM has not routed the fabric yet")]
    NotRouted,
    /// Another engine's tables are in force.
    #[error("OpenSM has fallen back to its engine {0}")]
    FellBack(String),
    /// The epoch was refused.
    #[error("OpenSM refused {}: {reason}", epoch.map_or("the epoch".into(), |e| format!("epoch {e}")))]
    Refused {
        /// Its number, if it could be read.
        epoch: Option<u64>,
        /// What is wrong, in words.
        reason: String,
    },
    /// Another epoch than expected.
    #[error("epoch {expected} is published, OpenSM has epoch {found} in force")]
    Behind {
        /// Published.
        expected: u64,
        /// In force.
        found: u64,
    },
    /// Cables or switches are gone.
    #[error("{0} table entries are dead because cables or switches are gone")]
    Lost(u64),
    /// Switches are gone, with all that is attached to them.
    #[error("OpenSM does not see {0} switches of the epoch in force, nor what is attached to them")]
    Missing(u64),
    /// The plugin has routed around what is gone.
    #[error(
        "OpenSM's plugin has replaced {0} table entries to go around what is gone, until there is a new epoch"
    )]
    Repaired(u64),
    /// Packets between some hosts have no way.
    #[error("{0} pairs of a switch and a host have no way between them")]
    Stranded(u64),
    /// There are switches the tables do not know.
    #[error("{0} LIDs on switches that the tables do not know cannot be reached")]
    Uncovered(u64),
    /// Two OpenSMs use one state directory.
    #[error("another OpenSM is master, too, and writes {}: each needs a state directory of its own", .0.display())]
    Rival(PathBuf),
    /// Something is wrong with the file.
    #[error("{}: {warning}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the plugin says of it.
        warning: String,
    },
}

impl PluginStatus {
    /// Reads the status file, or those beside it that have the GUID of OpenSM's port in their name
    /// (`opensm-status.0002c90300fa1d01.json`). Of several it takes that of the OpenSM that is
    /// master now: a standby and one that ended long ago have theirs, too.
    ///
    /// # Errors
    /// If there is none, or none that can be used.
    pub fn read(path: &Path) -> Result<Self, StatusError> {
        let (mut found, mut failed) = (Vec::new(), None);
        for file in files::with_ports(path) {
            match Self::read_one(&file) {
                Ok(status) => found.push(status),
                Err(StatusError::Missing(_)) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match (files::choose(found), failed) {
            (Some(status), _) => Ok(status),
            (None, Some(error)) => Err(error),
            (None, None) => Err(StatusError::Missing(path.to_path_buf())),
        }
    }

    fn read_one(path: &Path) -> Result<Self, StatusError> {
        let io = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => StatusError::Missing(path.to_path_buf()),
            _ => StatusError::Io { path: path.to_path_buf(), source },
        };
        // To open a pipe would wait for its writer.
        if !fs::metadata(path).map_err(io)?.is_file() {
            return Err(io(io::Error::other("not a regular file")));
        }
        let mut bytes = Vec::new();
        fs::File::open(path).map_err(io)?.take(LONGEST + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > LONGEST {
            return Err(io(io::Error::other(format!("more than {LONGEST} bytes"))));
        }
        let json = |source| StatusError::Json { path: path.to_path_buf(), source };
        let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(json)?;
        if let Some(found) = value.get("format").and_then(serde_json::Value::as_u64).filter(|f| *f != FORMAT)
        {
            return Err(StatusError::Format { path: path.to_path_buf(), found });
        }
        let mut status: Self = serde_json::from_value(value).map_err(json)?;
        status.file = path.to_path_buf();
        Ok(status)
    }

    /// The file to which this OpenSM's plugin writes the fabric; `None` if it is too old to do that.
    pub fn fabric_file(&self, directory: &Path) -> Option<PathBuf> {
        let port = self.port.as_deref()?.strip_prefix("0x")?;
        Some(directory.join(format!("{FABRIC_START}{port}{FABRIC_END}")))
    }

    /// How long ago it was written.
    pub fn age(&self, now: DateTime<Utc>) -> TimeDelta {
        now - self.written
    }

    /// Whether OpenSM has put this epoch in force on every switch.
    pub fn in_force(&self, epoch: u64) -> bool {
        self.generation == Some(epoch) && self.acknowledged.is_some()
    }

    /// What is wrong, most important first, when `epoch` is published; nothing if all is well.
    /// Silence is tolerated for three heartbeats.
    pub fn troubles(&self, epoch: Option<u64>, now: DateTime<Utc>) -> Vec<Trouble> {
        let mut found = Vec::new();
        let age = self.age(now).num_seconds();
        if !self.running {
            found.push(Trouble::Ended);
        } else if age > 3 * i64::from(self.heartbeat) {
            found.push(Trouble::Silent(age));
        }
        let waited = self.asked.map_or(0, |asked| (now - asked).num_seconds());
        if self.running && waited > DEAF {
            found.push(Trouble::Deaf(waited));
        }
        if let Some(reason) = &self.refused_reason {
            found.push(Trouble::Refused { epoch: self.refused_generation, reason: reason.clone() });
        }
        match (&self.engine, self.generation, epoch) {
            (None, _, _) => found.push(Trouble::NotRouted),
            (Some(engine), None, Some(_)) => found.push(Trouble::FellBack(engine.clone())),
            (_, Some(found_epoch), Some(expected)) if found_epoch != expected => {
                found.push(Trouble::Behind { expected, found: found_epoch });
            }
            _ => {}
        }
        if self.lost_entries > 0 {
            found.push(Trouble::Lost(self.lost_entries));
        }
        if self.missing_switches > 0 {
            found.push(Trouble::Missing(self.missing_switches));
        }
        if self.repaired_entries > 0 {
            found.push(Trouble::Repaired(self.repaired_entries));
        }
        if self.stranded_pairs > 0 {
            found.push(Trouble::Stranded(self.stranded_pairs));
        }
        if self.uncovered_lids > 0 {
            found.push(Trouble::Uncovered(self.uncovered_lids));
        }
        found.extend(self.rivals.iter().cloned().map(Trouble::Rival));
        if let Some(warning) = self.warning.clone() {
            found.push(Trouble::File { file: self.file.clone(), warning });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(edit: impl FnOnce(&mut serde_json::Value)) -> PluginStatus {
        let mut value = serde_json::json!({
            "format": 1, "plugin": "0.1.0", "opensm": "OpenSM 3.3.23", "pid": 7, "running": true,
            "written": "2026-01-01T00:00:10.5Z", "heartbeat": 5, "engine": "sarouter", "generation": 4,
            "fingerprint": "00", "layers": 1, "acknowledged": "2026-01-01T00:00:00Z", "routings": 2,
            "lost_entries": 0, "uncovered_lids": 0, "guest_lids": 0,
            "refused_generation": null, "refused_reason": null, "a key of tomorrow": []
        });
        edit(&mut value);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(STATUS_FILE);
        fs::write(&path, value.to_string()).unwrap();
        PluginStatus::read(&path).unwrap()
    }

    fn at(second: i64) -> DateTime<Utc> {
        "2026-01-01T00:00:00Z".parse::<DateTime<Utc>>().unwrap() + TimeDelta::seconds(second)
    }

    #[test]
    fn all_is_well() {
        let status = status(|_| {});
        assert_eq!(status.troubles(Some(4), at(20)), []);
        assert_eq!(status.age(at(20)), TimeDelta::milliseconds(9500));
        assert!(status.in_force(4) && !status.in_force(5));
    }

    #[test]
    fn silence_is_noticed_after_three_heartbeats() {
        assert_eq!(status(|_| {}).troubles(Some(4), at(25)), []);
        assert_eq!(status(|_| {}).troubles(Some(4), at(27)), [Trouble::Silent(16)]);
        let ended = status(|v| v["running"] = false.into());
        assert_eq!(ended.troubles(Some(4), at(27)), [Trouble::Ended]);
    }

    #[test]
    fn an_opensm_that_does_not_begin_to_route_is_noticed() {
        let asked = |second: i64| status(move |v| v["asked"] = serde_json::to_value(at(second)).unwrap());
        assert_eq!(asked(-15).troubles(Some(4), at(15)), []);
        assert_eq!(asked(-16).troubles(Some(4), at(15)), [Trouble::Deaf(31)]);
    }

    #[test]
    fn every_trouble_is_named() {
        let behind = status(|v| v["lost_entries"] = 3.into());
        let expected = [Trouble::Behind { expected: 5, found: 4 }, Trouble::Lost(3)];
        assert_eq!(behind.troubles(Some(5), at(20)), expected);
        let fallen = status(|v| {
            v["engine"] = "updn".into();
            v["generation"] = serde_json::Value::Null;
            v["refused_reason"] = "a loop".into();
        });
        let expected =
            [Trouble::Refused { epoch: None, reason: "a loop".into() }, Trouble::FellBack("updn".into())];
        assert_eq!(fallen.troubles(Some(5), at(20)), expected);
        // Before the first epoch the other engine is what should be.
        let waiting = status(|v| {
            v["engine"] = "updn".into();
            v["generation"] = serde_json::Value::Null;
        });
        assert_eq!(waiting.troubles(None, at(20)), []);
    }

    #[test]
    fn of_several_files_that_of_the_master_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join(STATUS_FILE);
        let write = |name: &str, state: &str, written: i64, generation: Option<u64>| {
            let text = serde_json::json!({
                "format": 1, "plugin": "0.1.0", "opensm": "OpenSM 3.3.23", "pid": 7, "running": state != "ended",
                "state": state, "written": at(written), "heartbeat": 5, "engine": "sarouter",
                "generation": generation, "fingerprint": "00", "layers": 1, "acknowledged": at(0), "routings": 2,
                "lost_entries": 0, "uncovered_lids": 0, "guest_lids": 0,
                "refused_generation": null, "refused_reason": null
            });
            fs::write(directory.path().join(name), text.to_string()).unwrap();
        };
        let read = || {
            let status = PluginStatus::read(&base).unwrap();
            let name = status.file.file_name().unwrap().to_str().unwrap().to_string();
            (name, status.rivals.len())
        };
        let [a, b] = ["opensm-status.0000000000000001.json", "opensm-status.0000000000000002.json"];
        assert!(matches!(PluginStatus::read(&base), Err(StatusError::Missing(p)) if p == base));
        // Names that only look alike.
        for name in ["opensm-status.0000000000000001.json.7.tmp", "opensm-status.old.json"] {
            write(name, "master", 90, Some(1));
        }
        assert!(PluginStatus::read(&base).is_err());
        write(a, "master", 20, Some(4));
        write(b, "standby", 21, None);
        assert_eq!(read(), (a.to_string(), 0));
        // The master was killed, the standby took over.
        write(b, "master", 40, Some(4));
        assert_eq!(read(), (b.to_string(), 0));
        // It ended in order: nobody is left.
        write(b, "ended", 41, Some(4));
        assert_eq!(read(), (b.to_string(), 0));
        // Two masters: two subnets.
        write(a, "master", 50, None);
        write(b, "master", 52, Some(4));
        assert_eq!(read(), (b.to_string(), 1));
        let rival = PluginStatus::read(&base).unwrap().troubles(Some(4), at(52));
        assert_eq!(rival, [Trouble::Rival(directory.path().join(a))]);
        // What cannot be read hides nobody.
        fs::write(directory.path().join(a), "{").unwrap();
        assert_eq!(read(), (b.to_string(), 0));
    }

    #[test]
    fn other_formats_and_other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        assert!(matches!(PluginStatus::read(&path), Err(StatusError::Missing(_))));
        fs::write(&path, r#"{"format": 2}"#).unwrap();
        assert!(matches!(PluginStatus::read(&path), Err(StatusError::Format { found: 2, .. })));
        fs::write(&path, r#"{"format": 1, "plu"#).unwrap();
        assert!(matches!(PluginStatus::read(&path), Err(StatusError::Json { .. })));
    }
}
