//! The delivery for a subnet manager without our plugin: what is in force is in the file of the settings.

use std::path::PathBuf;
use std::sync::Arc;

use chrono::Utc;
use tracing::{error, info};

use super::SwitchedKind;
use crate::model::Fabric;
use crate::publish::{EpochNumber, Stamp, lft_file_trouble};
use crate::service::chain;
use crate::service::run::{Service, Task};

/// What was delivered, or why not.
#[derive(Debug, Clone)]
pub(in crate::service) struct Delivered {
    epoch: EpochNumber,
    path: PathBuf,
    result: Result<Stamp, String>,
}

/// The newest delivery, and one that is under way.
#[derive(Default)]
pub(super) struct Delivery {
    /// As last seen.
    pub(super) fabric: Option<Arc<Fabric>>,
    pub(super) task: Option<Task<Delivered>>,
    newest: Option<Delivered>,
}

impl Service<SwitchedKind> {
    /// Begins to deliver what is in force, unless it was delivered. One that failed is tried again.
    pub(super) fn deliver(&mut self) {
        let Some(path) = self.settings.lft_file.clone().filter(|_| self.kind.delivery.task.is_none()) else {
            return;
        };
        let (Some(fabric), Ok(Some(epoch))) = (self.kind.delivery.fabric.clone(), self.store.current())
        else {
            return;
        };
        let is_there = |d: &Delivered| d.epoch == epoch && d.path == path && d.result.is_ok();
        if self.kind.delivery.newest.as_ref().is_some_and(is_there) {
            return;
        }
        let store = self.store.clone();
        let (of, to) = (epoch, path.clone());
        let task = tokio::task::spawn_blocking(move || {
            let result = store.deliver(epoch, &fabric, &path).map_err(|e| chain(&e));
            Delivered { epoch, path, result }
        });
        self.kind.delivery.task = Some(Box::pin(async move {
            let aborted =
                |e: tokio::task::JoinError| Delivered { epoch: of, path: to, result: Err(e.to_string()) };
            task.await.unwrap_or_else(aborted)
        }));
    }

    pub(super) fn delivered(&mut self, delivered: Delivered) {
        let before = self.kind.delivery.newest.replace(delivered.clone());
        let Delivered { epoch, path, result } = delivered;
        match result {
            Ok(_) => info!(%epoch, path = %path.display(), "delivered for the file engine"),
            // Tried at each pass, said once.
            Err(message) if before.and_then(|b| b.result.err()).as_ref() != Some(&message) => {
                error!("{message}")
            }
            Err(_) => {}
        }
        self.write_health();
    }

    /// Whether the file is as it was written.
    pub(super) fn look_at_lft_file(&mut self) {
        let said = match (&self.settings.lft_file, &self.kind.delivery) {
            (None, _) => None,
            // It has its time.
            (Some(_), Delivery { task: Some(_), .. }) => return,
            (Some(path), Delivery { newest, .. }) => match newest.as_ref().filter(|d| d.path == *path) {
                Some(Delivered { result: Err(message), .. }) => Some(message.clone()),
                newest => match self.store.current() {
                    Ok(Some(epoch)) => {
                        let stamp = newest.filter(|d| d.epoch == epoch).and_then(|d| d.result.clone().ok());
                        lft_file_trouble(path, epoch, stamp)
                    }
                    // Said elsewhere.
                    _ => None,
                },
            },
        };
        self.health.note_lft_file(Utc::now(), said);
    }
}
