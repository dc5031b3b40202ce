//! Texts of the settings as written, checked so that an error has its line.

use toml::Spanned;

use crate::observe::hostlist;

/// Host lists of Slurm, or what is wrong with the first that is none, and at which byte.
pub(super) fn host_lists(written: Vec<Spanned<String>>) -> Result<Vec<String>, (usize, String)> {
    let checked = |list: Spanned<String>| match hostlist::expand(list.get_ref()) {
        Ok(_) => Ok(list.into_inner()),
        Err(error) => Err((list.span().start, error.to_string())),
    };
    written.into_iter().map(checked).collect()
}
