//! Notices that a file of the site was changed: settings, fabric, node map, topology, spool.
//!
//! Directories are watched, not files: a file that is replaced by rename is another file. What
//! changes in quick succession is noticed once. A file system that tells nothing (NFS) costs only
//! time: everything is read again at each look anyway.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::warn;

use crate::config::{FabricSource, Settings};
use crate::lab::generate::spec;
use crate::publish::opensm::is_fabric_file;

/// Whoever writes a file is given this long to finish.
const SETTLE: Duration = Duration::from_millis(50);

/// What changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    /// The settings file.
    pub settings: bool,
    /// A file that a look reads.
    pub files: bool,
}

/// Files of the site under watch. Stops when dropped.
pub struct Watch {
    flags: Arc<Flags>,
    /// `None` if the system has no watches left.
    _watcher: Option<RecommendedWatcher>,
}

#[derive(Debug, Default)]
struct Flags {
    settings: AtomicBool,
    files: AtomicBool,
    woken: Notify,
    /// When the change at hand has settled.
    settled: Mutex<Option<Instant>>,
}

/// The files that matter.
#[derive(Debug, Clone)]
struct Files {
    settings: Option<PathBuf>,
    looked_at: BTreeSet<PathBuf>,
    spool: Option<PathBuf>,
    /// Where OpenSM's plugin writes the fabric.
    opensm: Option<PathBuf>,
}

impl Files {
    fn of(config: Option<&Path>, settings: &Settings) -> Self {
        let fabric = match &settings.fabric {
            Some(FabricSource::Source(path)) if !spec::is_spec(path) => Some(PathBuf::from(path)),
            _ => None,
        };
        let others = [&settings.node_map, &settings.slurm.topology].into_iter().flatten().cloned();
        Self {
            settings: config.and_then(|path| std::path::absolute(path).ok()),
            looked_at: fabric.into_iter().chain(others).collect(),
            spool: settings.spool.clone(),
            opensm: match &settings.fabric {
                Some(FabricSource::OpenSm { directory, .. }) => Some(directory.clone()),
                _ => None,
            },
        }
    }

    fn directories(&self) -> BTreeSet<&Path> {
        let files = self.looked_at.iter().chain(&self.settings);
        files
            .filter_map(|file| file.parent())
            .chain(self.spool.as_deref())
            .chain(self.opensm.as_deref())
            .collect()
    }

    fn changed(&self, path: &Path) -> Changed {
        Changed {
            settings: self.settings.as_deref() == Some(path),
            files: self.looked_at.contains(path)
                || (self.spool.is_some() && path.parent() == self.spool.as_deref())
                || (self.opensm.is_some() && path.parent() == self.opensm.as_deref() && is_fabric_file(path)),
        }
    }
}

impl Watch {
    /// Watches what the settings name, and the settings themselves. What cannot be watched is logged.
    pub fn new(config: Option<&Path>, settings: &Settings) -> Self {
        let files = Files::of(config, settings);
        let flags = Arc::new(Flags::default());
        let (seen, watched) = (Arc::clone(&flags), files.clone());
        let watcher = notify::recommended_watcher(move |event| seen.note(&watched, event));
        let watcher = match watcher {
            Ok(mut watcher) => {
                for directory in files.directories() {
                    if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) {
                        warn!(directory = %directory.display(), %error, "not watched for changes");
                    }
                }
                Some(watcher)
            }
            Err(error) => {
                warn!(%error, "files are not watched for changes");
                None
            }
        };
        Self { flags, _watcher: watcher }
    }

    /// Tells of a change of the settings that happened before anybody watched.
    pub fn settings_changed(&self) {
        self.flags.settings.store(true, Ordering::Relaxed);
        self.flags.woken.notify_one();
    }

    /// Waits for the next change. Can be dropped and called again without losing one.
    pub async fn changed(&self) -> Changed {
        loop {
            self.flags.woken.notified().await;
            // Not lost if this is dropped while it sleeps: the flags stay, and so do the call and the time. A loop
            // that is often asked something drops it often.
            let again = Again(&self.flags.woken);
            let settled = || self.flags.settled.lock().unwrap_or_else(PoisonError::into_inner);
            let until = *settled().get_or_insert_with(|| Instant::now() + SETTLE);
            tokio::time::sleep_until(until).await;
            *settled() = None;
            std::mem::forget(again);
            let changed = Changed {
                settings: self.flags.settings.swap(false, Ordering::Relaxed),
                files: self.flags.files.swap(false, Ordering::Relaxed),
            };
            if changed != Changed::default() {
                return changed;
            }
        }
    }
}

/// Wakes the next waiter if the present one is given up.
struct Again<'a>(&'a Notify);

impl Drop for Again<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Flags {
    fn note(&self, files: &Files, event: notify::Result<Event>) {
        let changed = match event {
            Ok(event) if is_change(event.kind) => {
                let each = event.paths.iter().map(|path| files.changed(path));
                each.fold(Changed::default(), |a, b| Changed {
                    settings: a.settings || b.settings,
                    files: a.files || b.files,
                })
            }
            Ok(_) => return,
            // Too much happened to be told in detail.
            Err(_) => Changed { settings: true, files: true },
        };
        if changed.settings {
            self.settings.store(true, Ordering::Relaxed);
        }
        if changed.files {
            self.files.store(true, Ordering::Relaxed);
        }
        if changed != Changed::default() {
            self.woken.notify_one();
        }
    }
}

/// Reading is not one.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(dir: &Path) -> Settings {
        let text = "[fabric]\nsource = \"fabric.net\"\n[spool]\ndirectory = \"spool\"\n";
        Settings::parse(text, &dir.join("sarouter.toml")).unwrap()
    }

    #[test]
    fn each_kind_of_file_is_noticed_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("spool")).unwrap();
        let config = dir.path().join("sarouter.toml");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let watch = Watch::new(Some(&config), &settings(dir.path()));
            let write = |name: &str| std::fs::write(dir.path().join(name), "x").unwrap();
            let next = async || tokio::time::timeout(Duration::from_secs(60), watch.changed()).await.unwrap();
            write("sarouter.toml");
            assert_eq!(next().await, Changed { settings: true, files: false });
            write("spool/anything");
            assert_eq!(next().await, Changed { settings: false, files: true });
            write("new");
            std::fs::rename(dir.path().join("new"), &config).unwrap();
            assert_eq!(next().await, Changed { settings: true, files: false });
            // Only read, or a stranger.
            std::fs::read(&config).unwrap();
            write("other");
            let short = tokio::time::timeout(Duration::from_millis(300), watch.changed());
            assert!(short.await.is_err());
            // What OpenSM sees, only where it is asked for.
            let name = "opensm-fabric.0000000000000001.ibnetdiscover";
            let seen = Settings::parse("[state]\ndirectory = \".\"\n[fabric]\nsource = \"opensm\"", &config);
            let opensm = Watch::new(None, &seen.unwrap());
            write("new");
            std::fs::rename(dir.path().join("new"), dir.path().join(name)).unwrap();
            let changed = tokio::time::timeout(Duration::from_secs(60), opensm.changed()).await.unwrap();
            assert_eq!(changed, Changed { settings: false, files: true });
            assert!(tokio::time::timeout(Duration::from_millis(300), watch.changed()).await.is_err());
            // Given up while it settles.
            write("fabric.net");
            let short = tokio::time::timeout(SETTLE / 5, watch.changed());
            assert!(short.await.is_err());
            assert_eq!(next().await, Changed { settings: false, files: true });
            // Given up again and again, as by a loop that is asked all the time.
            write("fabric.net");
            let often = async { while tokio::time::timeout(SETTLE / 5, watch.changed()).await.is_err() {} };
            tokio::time::timeout(Duration::from_secs(60), often).await.unwrap();
        });
    }
}
