//! `lft.txt` for a subnet manager that loads no plugin: OpenSM's `routing_engine file`, also inside UFM.
//!
//! That engine reads forwarding tables and nothing else: no service levels, no lanes. So only tables on one
//! layer are delivered. Nobody acknowledges them, and a bad file is passed over in silence: what can be seen
//! here is whether the file is the one that was written.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::dump::write_lft;
use super::{EpochNumber, EpochStore, StoreError};
use crate::model::{Fabric, FileError, Tables};

/// How the first line begins; OpenSM skips it.
const TITLE: &str = "# sarouter: epoch ";

/// Why an epoch is not delivered. An earlier file stays.
#[derive(Debug, thiserror::Error)]
pub enum LftFileError {
    /// Routes are on several layers.
    #[error(
        "epoch {epoch} is not delivered: its routes use {layers} layers, and the file engine gives no service \
         levels; set routing.layers = 1"
    )]
    Layers {
        /// The epoch.
        epoch: EpochNumber,
        /// Layers in use.
        layers: u8,
    },
    /// A lane map with several lanes.
    #[error(
        "epoch {epoch} is not delivered: it is free of deadlock by a lane map with {vls} lanes, and the file \
         engine programs none; set routing.layers = 1"
    )]
    Lanes {
        /// The epoch.
        epoch: EpochNumber,
        /// Lanes in use.
        vls: u8,
    },
    /// The epoch cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A file as it was when it was written: another one in its place, or a changed one, has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        let modified = (found.mtime(), found.mtime_nsec());
        Ok(Self { inode: found.ino(), bytes: found.len(), modified })
    }
}

impl EpochStore {
    /// Writes the tables of an epoch for the file engine, in the place of an earlier file by one rename. A file
    /// that is the same already stays as it is. O(destinations × switches).
    ///
    /// # Errors
    /// Why not; an earlier file stays.
    pub fn deliver(&self, epoch: EpochNumber, fabric: &Fabric, path: &Path) -> Result<Stamp, LftFileError> {
        let tables = self.epoch(epoch)?.tables(fabric)?;
        let failed = FileError::io(path);
        on_one_layer(epoch, &tables)?;
        let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
        let beside = path.with_file_name(format!(".{}.new", name.to_string_lossy()));
        let write = || -> io::Result<()> {
            let mut to = BufWriter::with_capacity(1 << 16, File::create(&beside)?);
            writeln!(to, "{TITLE}{epoch} of fabric {}", tables.fabric())?;
            write_lft(fabric, &tables, &mut to)?;
            to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            if is_same(&beside, path) {
                return fs::remove_file(&beside);
            }
            fs::rename(&beside, path)?;
            let directory = path.parent().filter(|d| !d.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        };
        write().and_then(|()| Stamp::of(path)).map_err(|source| {
            let _ = fs::remove_file(&beside);
            failed(source).into()
        })
    }
}

fn on_one_layer(epoch: EpochNumber, tables: &Tables) -> Result<(), LftFileError> {
    match (tables.layers_used(), tables.vls_used()) {
        (layers, _) if layers > 1 && tables.lanes().is_none() => Err(LftFileError::Layers { epoch, layers }),
        (_, vls) if vls > 1 => Err(LftFileError::Lanes { epoch, vls }),
        _ => Ok(()),
    }
}

/// Whether two files have the same content.
fn is_same(one: &Path, other: &Path) -> bool {
    let same = || -> io::Result<bool> {
        if fs::metadata(one)?.len() != fs::metadata(other)?.len() {
            return Ok(false);
        }
        let (mut one, mut other) = (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
        loop {
            let (a, b) = (one.fill_buf()?, other.fill_buf()?);
            let n = a.len().min(b.len());
            if n == 0 || a[..n] != b[..n] {
                return Ok(a.is_empty() && b.is_empty());
            }
            one.consume(n);
            other.consume(n);
        }
    };
    same().unwrap_or(false)
}

/// What is wrong with the file that should have this epoch, written with this stamp; `None` if nothing is.
pub fn lft_file_trouble(path: &Path, epoch: EpochNumber, written: Option<Stamp>) -> Option<String> {
    let shown = path.display();
    let found = match Stamp::of(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Some(format!(
                "{shown} is missing: the file engine has nothing to load; in force is epoch {epoch}"
            ));
        }
        Err(error) => return Some(format!("{shown}: {error}")),
    };
    if written == Some(found) {
        return None;
    }
    Some(match title(path) {
        Some(old) if old < epoch => {
            format!("{shown} is stale: it has epoch {old}, in force is epoch {epoch}")
        }
        Some(new) if new > epoch => format!("{shown} has epoch {new}, in force is epoch {epoch}"),
        Some(_) => format!("{shown} is not as it was written for epoch {epoch}: somebody changed it"),
        None => format!("{shown} is somebody else's: it has no epoch; in force is epoch {epoch}"),
    })
}

/// The epoch in the first line.
fn title(path: &Path) -> Option<EpochNumber> {
    /// A title is no longer.
    const LONGEST: u64 = 200;
    let mut line = String::new();
    BufReader::new(File::open(path).ok()?.take(LONGEST)).read_line(&mut line).ok()?;
    line.strip_prefix(TITLE)?.split(' ').next()?.parse().ok()
}
