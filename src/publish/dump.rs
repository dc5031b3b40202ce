//! `lft.txt`, `layers.txt` and `lanes.txt`: tables as text.
//!
//! `lft.txt` is OpenSM's dump of linear forwarding tables (`opensm-lfts.dump`), which
//! `opensm -R file -U lft.txt` loads. The reader also takes what `dump_fts`, `dump_lfts` and
//! `ibroute` of infiniband-diags print. `layers.txt` has one line per source switch:
//! its GUID and one character per LID from 0, the layer in base 36 or `-`. `lanes.txt`, where a lane
//! map is used, has one line per switch, in port and out port: the VLs of SL 0 to 15 in base 36.
//! `certificate.txt` has one line per buffer in the order that all routes climb.
//!
//! Printing and then reading gives the same tables. A file cut short is refused: every switch must
//! be there, with the line that closes its block.

mod certificate;
mod lanes;
mod read;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{Fabric, FileError, Guid, LaneMap, Tables, TablesError};

pub use certificate::{read_certificate, write_certificate};
pub use lanes::{read_lanes, write_lanes};
pub use read::{read_layers, read_lft};
pub use write::{write_fts, write_layers, write_lft};

/// Text that is not a dump of tables for the fabric at hand.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The file cannot be read, or a line is not what it should be.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file ends too early.
    #[error("{}: cut short: {message}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What is missing.
        message: String,
    },
    /// The file says nothing of a switch.
    #[error("{}: nothing about switch {switch} ({description}); {missing} of the fabric's switches missing: is it a dump of another fabric?", path.display())]
    MissingSwitch {
        /// The file.
        path: PathBuf,
        /// The first one missing.
        switch: Guid,
        /// Its description.
        description: String,
        /// How many are missing.
        missing: usize,
    },
    /// Arrays that do not fit.
    #[error(transparent)]
    Tables(#[from] TablesError),
}

/// Name of the file of egress ports in a directory of tables.
pub const LFT_FILE: &str = "lft.txt";
/// Name of the file of layers in a directory of tables.
pub const LAYERS_FILE: &str = "layers.txt";
/// Name of the file of the lane map in a directory of tables. Without it VL = SL.
pub const LANES_FILE: &str = "lanes.txt";

/// A file to read, with room.
fn open(path: &Path) -> Result<std::io::BufReader<std::fs::File>, FileError> {
    let file = std::fs::File::open(path).map_err(FileError::io(path))?;
    Ok(std::io::BufReader::with_capacity(1 << 16, file))
}

/// Reads the lane map beside tables; `None` if there is no such file.
///
/// # Errors
/// With file and line.
pub fn read_lanes_file(fabric: &Fabric, path: &Path) -> Result<Option<LaneMap>, DumpError> {
    match open(path) {
        Err(FileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        file => Ok(Some(read_lanes(fabric, path, file?)?)),
    }
}

/// Reads tables. Without a file of layers all routes between hosts are on layer 0, as for a subnet
/// manager without service levels; routes to switches without hosts then have no layer.
///
/// # Errors
/// With file and line.
pub fn read_tables(fabric: &Fabric, lft: &Path, layers: Option<&Path>) -> Result<Tables, DumpError> {
    let ports = read_lft(fabric, lft, open(lft)?)?;
    let layers = match layers {
        Some(path) => read_layers(fabric, path, open(path)?)?,
        None => one_layer(fabric, &ports),
    };
    Ok(Tables::new(fabric, "file", ports, layers)?)
}

/// Layer 0 wherever a route between terminals starts, indexed `[dest * switches + switch]`.
fn one_layer(fabric: &Fabric, ports: &[u8]) -> Vec<u8> {
    let n = fabric.switches().len();
    let mut layers = vec![Tables::NO_LAYER; ports.len()];
    for d in fabric.dest_ids() {
        let home = fabric.home(d);
        layers[d.index() * n + home.index()] = 0;
        if fabric.attached(home).is_empty() {
            continue;
        }
        for s in fabric.switch_ids().filter(|s| !fabric.attached(*s).is_empty()) {
            let at = d.index() * n + s.index();
            if ports[at] != Tables::UNREACHABLE {
                layers[at] = 0;
            }
        }
    }
    layers
}
