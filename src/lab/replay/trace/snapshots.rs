//! Recorded snapshots: one JSON document per line, or one file each in a directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

use super::{FaultKind, Found, hex};
use crate::model::JobMap;
use crate::observe::jobs;

/// A file with a snapshot per line.
pub(super) fn lines(text: &str, name: &str) -> Found<JobMap> {
    let mut found = Found::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        take(&mut found, i + 1, line, name);
    }
    found
}

/// A directory with a snapshot per file, in the order of the file names. Faults have no line; their
/// messages begin with the file's name.
pub(super) fn directory(path: &Path) -> io::Result<(String, Found<JobMap>)> {
    let entries: io::Result<Vec<PathBuf>> = fs::read_dir(path)?.map(|e| e.map(|e| e.path())).collect();
    let mut files: Vec<PathBuf> = entries?.into_iter().filter(|p| p.is_file()).collect();
    files.sort();
    let mut found = Found::new();
    let mut digest = Sha256::new();
    for file in files {
        let text = fs::read(&file)?;
        digest.update(Sha256::digest(&text));
        let name = file.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned());
        take(&mut found, 0, &String::from_utf8_lossy(&text), &name);
    }
    Ok((hex(&digest.finalize()), found))
}

fn take(found: &mut Found<JobMap>, line: usize, text: &str, name: &str) {
    // A time that no snapshot has tells those that brought none of their own.
    let none = DateTime::<Utc>::MIN_UTC;
    match jobs::parse(text, name, none) {
        Err(error) => {
            let message = error.to_string();
            let message =
                message.strip_prefix(&format!("{name}:1: ")).filter(|_| line > 0).unwrap_or(&message);
            found.fault(line, FaultKind::Malformed, message.to_string());
        }
        Ok(map) if map.time == none => {
            found.fault(line, FaultKind::Malformed, format!("{name}: a snapshot without a time"));
        }
        Ok(map) if found.entries.last().is_some_and(|last: &JobMap| map.time < last.time) => {
            let message = format!("{name}: the snapshot of {} comes after a later one", map.time);
            found.fault(line, FaultKind::Backwards, message);
        }
        Ok(map) => found.entries.push(map),
    }
}
