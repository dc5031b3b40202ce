//! `--fabric`: a file whose kind is recognised by content, or a generated spec.

use crate::generate::{self, SpecError};
use crate::model::Fabric;

/// Why there is no fabric.
#[derive(Debug, thiserror::Error)]
pub enum FabricSourceError {
    /// See [`SpecError`].
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// Loads a fabric from a path or spec.
///
/// # Errors
/// With file and line, or the spec as typed.
pub fn load(source: &str) -> Result<Fabric, FabricSourceError> {
    Ok(generate::generate(source)?)
}
