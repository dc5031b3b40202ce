//! New settings while the service runs: all of a file are followed, or none.

use std::path::{Path, PathBuf};

use chrono::Utc;
use tracing::{error, info};

use super::{Listener, Note, Service, delta};
use crate::config::{ConfigError, Settings, Site};
use crate::model::FileError;
use crate::pass::step::Rhythm;
use crate::service::chain;
use crate::service::health::{Failure, Health, Stage};
use crate::service::kind::{Kind, NotReady, direct};
use crate::service::placing::wants_thread;
use crate::service::watch::{Changed, Watch};

/// What tells one content of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64);

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(path).ok()?;
        Some(Self(found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
    }
}

/// The settings file of a running service.
pub(in crate::service) struct ConfigFile {
    path: PathBuf,
    /// What it looked like when it was last read; `None`: not there, or not read yet.
    stamp: Option<Stamp>,
    watch: Watch,
    /// What several fabrics have together, which nobody changes while they are served.
    site: Option<Site>,
}

impl ConfigFile {
    /// Of a service that starts with these settings. The file may have changed since they were read,
    /// so it is read once more.
    pub(in crate::service) fn new(path: &Path, settings: &Settings) -> Self {
        let watch = Watch::new(Some(path), settings);
        watch.settings_changed();
        Self { path: path.to_path_buf(), stamp: None, watch, site: None }
    }

    /// Of one of several fabrics.
    pub(in crate::service) fn is_of(&mut self, site: &Site) {
        self.site = Some(site.clone());
    }

    /// Whether it is another than when it was last read.
    pub(in crate::service) fn is_other(&self) -> bool {
        Stamp::of(&self.path) != self.stamp
    }

    /// Reads it again, with the settings of all of several fabrics. `old`: the settings that the service works by.
    pub(in crate::service) fn read(&mut self, old: &Settings) -> Result<(Settings, Vec<Settings>), Unusable> {
        // Before it is read: a change meanwhile is another change.
        self.stamp = Stamp::of(&self.path);
        let site = Site::load(Some(&self.path))?;
        if site.names() != self.site.as_ref().map(Site::names).unwrap_or_default() {
            return Err(Unusable::Restart("another list of [[fabric]]"));
        }
        if self
            .site
            .as_ref()
            .is_some_and(|old| (&old.api, &old.state, &old.spool) != (&site.api, &site.state, &site.spool))
        {
            return Err(Unusable::Restart("another [api] or [spool] of several fabrics"));
        }
        let fabrics = if site.is_several() { site.fabrics.clone() } else { Vec::new() };
        let new = site.only(old.name.as_deref())?;
        if new.state.directory != old.state.directory {
            return Err(Unusable::Restart("another state.directory"));
        }
        let torus = |settings| direct::source(settings).is_some();
        if new.fabric != old.fabric && torus(&new) != torus(old) {
            return Err(Unusable::Restart("another kind of fabric"));
        }
        Ok((new, fabrics))
    }

    /// Watches what these settings name.
    pub(in crate::service) fn follow(&mut self, settings: &Settings) {
        self.watch = Watch::new(Some(&self.path), settings);
        // Changed once more since it was read, before this watch began.
        if self.is_other() {
            self.watch.settings_changed();
        }
    }
}

/// Notes that a settings file is not used.
fn refuse(health: &mut Health, error: &Unusable) -> Failure {
    let message = chain(error);
    error!("the old settings stay: {message}");
    let failure = Failure { time: Utc::now(), stage: Stage::Settings, message };
    *health.failures.entry(failure.stage).or_default() += 1;
    health.settings_refused = Some(failure.clone());
    failure
}

impl<K: Kind> Service<K> {
    /// Whether the settings file is another than when it was last read.
    pub(super) fn is_config_other(&self) -> bool {
        self.config.as_ref().is_some_and(ConfigFile::is_other)
    }

    /// Reads the settings again; false if there is nothing new to go by.
    pub(super) fn reload(&mut self, listener: Listener<'_>) -> bool {
        let Some(config) = &mut self.config else { return false };
        let read = config.read(&self.settings);
        let result = read.and_then(|(new, fabrics)| {
            // What the others say matters to who chooses nodes on all.
            let is_same = !wants_thread(&new) || fabrics == self.beside.fabrics;
            match new == self.settings && is_same {
                true => Ok(false),
                false => self.adopt(new, fabrics).map(|()| true),
            }
        });
        match result {
            Ok(is_new) => {
                if self.health.settings_refused.take().is_some() {
                    self.write_health();
                }
                is_new
            }
            Err(error) => {
                let failure = refuse(&mut self.health, &error);
                listener(&Note::Failed(failure));
                self.write_health();
                false
            }
        }
    }

    /// Puts new settings in force. What can fail comes first; then nothing has changed.
    fn adopt(&mut self, new: Settings, fabrics: Vec<Settings>) -> Result<(), Unusable> {
        let ready = K::ready(&new, self.beside.jobs(&new))?;
        let opened = self.servers.prepare(&new)?;
        let recorder = match (new.record, self.recorder.is_some()) {
            (Some(bounds), false) => Some(self.recorder(&new, bounds, true).map_err(Unusable::Record)?),
            _ => None,
        };
        self.placing.follow(&new, &fabrics).map_err(Unusable::Placing)?;
        self.beside.fabrics = fabrics;
        self.servers.follow(opened);
        self.waiting.follow(&K::rules(&new));
        if let Some(config) = &mut self.config {
            config.follow(&new);
        }
        let (torus, engine) = K::names(&new);
        info!(torus, engine, "new settings");
        let (rhythm, bounds) = (rhythm(&new), new.record);
        self.settings = new;
        match (recorder, bounds) {
            (Some(new), _) => self.recorder = Some(new),
            (None, Some(bounds)) => self.record(|recorder| recorder.resume(rhythm, bounds, Utc::now())),
            (None, None) => {
                self.recorder = None;
                self.health.unrecorded = None;
            }
        }
        K::follow(self, ready);
        Ok(())
    }
}

pub(in crate::service) fn rhythm(settings: &Settings) -> Rhythm {
    Rhythm { interval: delta(settings.service.interval), backoff_max: delta(settings.service.backoff_max) }
}

/// Why a settings file is not used.
#[derive(Debug, thiserror::Error)]
pub(in crate::service) enum Unusable {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Settings(#[from] NotReady),
    #[error(transparent)]
    Listen(#[from] FileError),
    #[error("the recording: {0}")]
    Record(#[source] std::io::Error),
    #[error("placement.select_socket: {0}")]
    Placing(#[source] std::io::Error),
    #[error("{0} needs a restart")]
    Restart(&'static str),
}

/// The next change of a file; never without a settings file.
pub(in crate::service) async fn changed(config: &Option<ConfigFile>) -> Changed {
    match config {
        Some(config) => config.watch.changed().await,
        None => std::future::pending().await,
    }
}
