//! `--fabric`: a file whose kind is recognised by content, or a generated spec.

use std::path::{Path, PathBuf};

use super::ibnetdiscover::{self, Discovered, FabricFileError};
use crate::lab::generate::{self, SpecError};
use crate::model::Fabric;

/// Why there is no fabric.
#[derive(Debug, thiserror::Error)]
pub enum FabricSourceError {
    /// See [`SpecError`].
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// See [`FabricFileError`].
    #[error(transparent)]
    File(#[from] FabricFileError),
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Neither a spec nor a file.
    #[error("{text:?} is neither a file nor a spec; specs are {}", generate::spec::KINDS.join(", "))]
    Neither {
        /// As typed.
        text: String,
    },
    /// A file of no kind that is known.
    #[error("{}: neither ibnetdiscover output nor an ibsim .net file", path.display())]
    UnknownKind {
        /// The file.
        path: PathBuf,
    },
}

/// Loads a fabric from a path or spec.
///
/// # Errors
/// With file and line, or the spec as typed.
pub fn load(source: &str) -> Result<Fabric, FabricSourceError> {
    discover(source).map(|found| found.fabric)
}

/// Like [`load`], with the adapters that no switch leads to.
///
/// # Errors
/// With file and line, or the spec as typed.
pub fn discover(source: &str) -> Result<Discovered, FabricSourceError> {
    if generate::spec::is_spec(source) {
        return Ok(Discovered { fabric: generate::generate(source)?, unrouted: Vec::new() });
    }
    let path = Path::new(source);
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => FabricSourceError::Neither { text: source.to_string() },
        _ => FabricSourceError::Read { path: path.to_path_buf(), source: error },
    })?;
    // Descriptions are bytes that anyone may set.
    parse(path, &String::from_utf8_lossy(&bytes))
}

/// Reads a fabric from a text whose kind is recognised by content; `path` is for messages.
///
/// # Errors
/// With `path` and line.
pub fn parse(path: &Path, text: &str) -> Result<Discovered, FabricSourceError> {
    if ibnetdiscover::recognises(text) {
        return Ok(ibnetdiscover::parse(path, text)?);
    }
    Err(FabricSourceError::UnknownKind { path: path.to_path_buf() })
}
