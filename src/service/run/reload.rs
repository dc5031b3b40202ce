//! New settings while the service runs.

use std::path::Path;

use chrono::Utc;
use tracing::{error, info};

use super::{Listener, Note, Service, delta};
use crate::config::{ConfigError, Settings};
use crate::route::{self, EngineOptions, RouteError};
use crate::service::chain;
use crate::service::health::{Failure, Stage};
use crate::service::look::{LookError, Looker};
use crate::service::step::Rhythm;
use crate::service::watch::{Changed, Watch};

/// What tells one content of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u64, u64, i64, i64);

impl Stamp {
    pub(super) fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(path).ok()?;
        Some(Self(found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
    }
}

impl Service {
    /// Whether the settings file is another than when it was last read.
    pub(super) fn is_config_other(&self) -> bool {
        self.config.as_ref().is_some_and(|(path, stamp)| Stamp::of(path) != *stamp)
    }

    /// Reads the settings again; false if there is nothing new to go by.
    pub(super) fn reload(&mut self, listener: Listener<'_>) -> bool {
        let Some((path, stamp)) = &mut self.config else { return false };
        // Before it is read: a change meanwhile is another change.
        *stamp = Stamp::of(path);
        match usable(path) {
            Ok((settings, looker)) => {
                let refused = self.health.settings_refused.take().is_some();
                if settings == self.settings {
                    if refused {
                        self.write_health();
                    }
                    return false;
                }
                self.adopt(settings, looker, listener);
                true
            }
            Err(error) => {
                self.refuse_settings(&chain(&error), listener);
                false
            }
        }
    }

    fn refuse_settings(&mut self, message: &str, listener: Listener<'_>) {
        error!("the old settings stay: {message}");
        let failure = Failure { time: Utc::now(), stage: Stage::Settings, message: message.to_string() };
        *self.health.failures.entry(failure.stage).or_default() += 1;
        listener(&Note::Failed(failure.clone()));
        self.health.settings_refused = Some(failure);
        self.write_health();
    }

    /// Puts new settings in force, except what is bound to this process.
    fn adopt(&mut self, settings: Settings, looker: Looker, listener: Listener<'_>) {
        let old = std::mem::replace(&mut self.settings, settings);
        let new = &mut self.settings;
        if new.state.directory != old.state.directory
            || new.api != old.api
            || new.record != old.record
            || new.handoff != old.handoff
        {
            new.state.directory = old.state.directory;
            new.api = old.api;
            new.record = old.record;
            new.handoff = old.handoff;
            self.refuse_settings("state.directory, [api], [record] and [handoff] need a restart", listener);
        }
        match self.looker {
            Some(_) => self.looker = Some(looker),
            None => self.next_looker = Some(looker),
        }
        let config = self.config.as_ref().map(|(path, _)| path.as_path());
        self.watch = Some(Watch::new(config, &self.settings));
        let rhythm = rhythm(&self.settings);
        self.record(|recorder| recorder.resume(rhythm, Utc::now()));
        self.step.resume(rhythm);
        self.waiting.follow(&self.settings.handoff);
        info!(engine = self.settings.routing.engine, "new settings");
    }
}

pub(super) fn rhythm(settings: &Settings) -> Rhythm {
    Rhythm { interval: delta(settings.service.interval), backoff_max: delta(settings.service.backoff_max) }
}

/// Why a settings file is not used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Engine(#[from] RouteError),
    #[error(transparent)]
    Look(#[from] LookError),
}

/// A settings file that the service can work by.
fn usable(path: &Path) -> Result<(Settings, Looker), Unusable> {
    let settings = Settings::load(Some(path))?;
    route::engine(&settings.routing.engine, &EngineOptions::default())?;
    let looker = Looker::new(settings.clone())?;
    Ok((settings, looker))
}

/// The next change of a file; never without a watch.
pub(super) async fn changed(watch: &Option<Watch>) -> Changed {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
