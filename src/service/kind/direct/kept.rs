//! The torus of the newest tables, kept beside them. What waits with what is broken waits on after a restart: the routes of
//! jobs that run may make cycles with others over what was repaired meanwhile.

use std::fs;
use std::path::Path;

use tracing::warn;

use crate::model::Torus;
use crate::observe::torus_toml;
use crate::pass::torus::Site;
use crate::service::chain;
use crate::service::record::direct::SiteText;

/// Name of the file in the state directory: [`SiteText`].
pub(super) const TORUS_FILE: &str = "torus.json";

/// The torus of the newest tables in a state directory, and what it was read from; `None` if that is not known, or if
/// `now` has other sizes.
pub(super) fn kept(state: &Path, now: Option<&Torus>) -> Option<(Site, String)> {
    let path = state.join(TORUS_FILE);
    // A service that begins has none.
    let bytes = fs::read(&path).ok()?;
    let read = || {
        let kept: SiteText = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        let source = torus_toml::of_text(&path, &kept.text).map_err(|e| chain(&e))?;
        Ok::<_, String>((kept.site(source)?, kept.text))
    };
    let (site, text) = read().inspect_err(|why| warn!("{} does not count: {why}", path.display())).ok()?;
    let site = site.filter(|site| now.is_none_or(|now| now.sizes() == site.torus.sizes()))?;
    Some((site, text))
}
