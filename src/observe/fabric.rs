//! `--fabric`: a file whose kind is recognised by content, or a generated spec.

use std::path::{Path, PathBuf};

use super::ibnetdiscover::{self, Discovered, FabricFileError};
use super::{regular, torus_toml};
use crate::lab::generate::{self, SpecError};
use crate::model::{Fabric, FileError, did_you_mean, nearest};

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
    #[error(transparent)]
    Read(#[from] FileError),
    /// Neither a spec nor a file.
    #[error("{text:?} is neither a file nor a spec{}", specs(text))]
    Neither {
        /// As typed.
        text: String,
    },
    /// A network without switches.
    #[error(
        "{text} is a direct torus, and this is for fabrics of switches; route, verify, compare, place, order, \
         survive, simulate, plan, fabric nodes and the service take tori"
    )]
    Direct {
        /// As typed.
        text: String,
    },
    /// A file without a word in it.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A file of no kind that is known.
    #[error("{}: neither ibnetdiscover output nor an ibsim .net file, nor OpenSM's subnet.lst or ibdiagnet's db_csv", path.display())]
    UnknownKind {
        /// The file.
        path: PathBuf,
    },
}

/// The kind of spec that was meant; all kinds, if what was typed looks like one.
fn specs(text: &str) -> String {
    let kind = text.split(':').next().unwrap_or(text);
    match nearest(kind, generate::spec::KINDS.iter().copied()) {
        None if text.contains(':') => format!("; specs are {}", generate::spec::KINDS.join(", ")),
        near => did_you_mean(near),
    }
}

/// Whether a source is made rather than read: a spec of a fabric or of a direct torus.
pub fn is_spec(source: &str) -> bool {
    generate::spec::is_spec(source) || generate::angara::is_angara(source)
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
    if torus_toml::is_torus(source) {
        return Err(FabricSourceError::Direct { text: source.to_string() });
    }
    let path = Path::new(source);
    let bytes = regular::read_named(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => FabricSourceError::Neither { text: source.to_string() },
        _ => FileError::io(path)(error).into(),
    })?;
    parse(path, &text(&bytes))
}

/// The text of a file. Descriptions are bytes that anyone may set, so what is no UTF-8 does not
/// matter; UTF-16 is what a redirection on Windows writes, and has a mark.
fn text(bytes: &[u8]) -> String {
    let words = |bytes: &[u8], word: fn([u8; 2]) -> u16| -> String {
        let words: Vec<u16> = bytes.chunks_exact(2).map(|pair| word([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&words)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => words(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => words(rest, u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Reads a fabric from a text whose kind is recognised by content; `path` is for messages.
///
/// # Errors
/// With `path` and line.
pub fn parse(path: &Path, text: &str) -> Result<Discovered, FabricSourceError> {
    if ibnetdiscover::recognises(text) {
        return Ok(ibnetdiscover::parse(path, text)?);
    }
    let path = path.to_path_buf();
    if text.trim().is_empty() {
        return Err(FabricSourceError::Empty { path });
    }
    Err(FabricSourceError::UnknownKind { path })
}
