//! Texts of the settings as written, checked so that an error has its line.

use std::path::{Component, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::Wrong;
use crate::observe::hostlist;

/// Host lists of Slurm, or what is wrong with the first that is none, and at which byte.
pub(super) fn host_lists(written: Vec<Spanned<String>>) -> Result<Vec<String>, Wrong> {
    let checked = |list: Spanned<String>| match hostlist::expand(list.get_ref()) {
        Ok(_) => Ok(list.into_inner()),
        Err(error) => Err((list.span().start, error.to_string())),
    };
    written.into_iter().map(checked).collect()
}

/// A path or name of a program.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Program(pub(super) String);

impl TryFrom<String> for Program {
    type Error = String;
    fn try_from(program: String) -> Result<Self, String> {
        match program.trim().is_empty() {
            true => Err("must be the path or name of a program".into()),
            false => Ok(Self(program)),
        }
    }
}

/// Where something is to be made that is removed or replaced later: not the root of all files.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "PathBuf")]
pub(super) struct Place(pub(super) PathBuf);

impl TryFrom<PathBuf> for Place {
    type Error = String;
    fn try_from(path: PathBuf) -> Result<Self, String> {
        match path.components().all(|part| part == Component::RootDir) {
            true => Err(format!("must be a path below the root, not {:?}", path.display().to_string())),
            false => Ok(Self(path)),
        }
    }
}
