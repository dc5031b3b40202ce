//! What is replayed beside one another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cli::Failure;
use crate::lab::replay::setup::Setup;
use crate::model::Tables;
use crate::verify;

/// Tables of a site that the checker rejects, and why.
pub(super) fn rejected(setup: &Setup) -> BTreeMap<String, String> {
    let judged =
        setup.given.iter().map(|(name, tables)| (name, verify::judge(&setup.fabric, tables, setup.budget)));
    let rejected = judged.filter(|(_, verdict)| !verdict.accepted);
    rejected.map(|(name, verdict)| (name.clone(), verdict.in_words())).collect()
}

/// An engine that is named twice would count each snapshot twice.
pub(super) fn need_different(engines: &[String], given: &[(String, Arc<Tables>)]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    let names = given.iter().map(|(name, _)| name).chain(engines);
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(format!("{twice} is named twice").into()),
        None => Ok(()),
    }
}
