//! What is replayed beside one another.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Replay;
use crate::cli::{Failure, common};
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

/// An engine or a placement that is named twice would count each snapshot twice.
pub(super) fn need_different(args: &Replay, given: &[(String, Arc<Tables>)]) -> Result<(), Failure> {
    let beside = given.iter().map(|(name, _)| name);
    common::need_different("--engines", &beside.chain(&args.engines).collect::<Vec<_>>())?;
    common::need_different("--placement", &args.placement)
}
