//! The delivery for a subnet manager without our plugin: what is in force is in the file of the settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tracing::{error, info};

use super::{Delivery, DeliveryRow};
use crate::config::Settings;
use crate::model::Fabric;
use crate::publish::{EpochNumber, EpochStore, Stamp, lft_file_trouble};
use crate::service::chain;
use crate::service::health::Kind;
use crate::service::run::Task;

pub(super) const DELIVERY: DeliveryRow = DeliveryRow {
    name: "lft_file",
    what: "a file for OpenSM's routing_engine file, also inside UFM: one layer, no acknowledgement",
    setting: "opensm.lft_file",
    is_on: |settings| settings.lft_file.is_some(),
    begun: Some((|| Box::new(LftFile::default()), Kind::LftFile)),
};

/// What was delivered, or why not.
struct Delivered {
    epoch: EpochNumber,
    path: PathBuf,
    result: Result<Stamp, String>,
}

/// The newest delivery, and one that is under way.
#[derive(Default)]
struct LftFile {
    task: Option<Task<Delivered>>,
    newest: Option<Delivered>,
}

impl LftFile {
    fn delivered(&mut self, delivered: Delivered) {
        let before = self.newest.as_ref().and_then(|before| before.result.as_ref().err());
        match &delivered.result {
            Ok(_) => {
                let (epoch, path) = (delivered.epoch, delivered.path.display());
                info!(%epoch, %path, "delivered for the file engine");
            }
            // Tried at each pass, said once.
            Err(message) if before != Some(message) => error!("{message}"),
            Err(_) => {}
        }
        self.newest = Some(delivered);
    }
}

impl Delivery for LftFile {
    fn begin(&mut self, settings: &Settings, store: &EpochStore, fabric: &Arc<Fabric>) {
        let Some(path) = settings.lft_file.clone() else { return };
        let Ok(Some(epoch)) = store.current() else { return };
        let is_there = |d: &Delivered| d.epoch == epoch && d.path == path && d.result.is_ok();
        if self.newest.as_ref().is_some_and(is_there) {
            return;
        }
        let (store, fabric) = (store.clone(), Arc::clone(fabric));
        let (of, to) = (epoch, path.clone());
        let task = tokio::task::spawn_blocking(move || {
            let result = store.deliver(epoch, &fabric, &path).map_err(|e| chain(&e));
            Delivered { epoch, path, result }
        });
        self.task = Some(Box::pin(async move {
            let aborted =
                |e: tokio::task::JoinError| Delivered { epoch: of, path: to, result: Err(e.to_string()) };
            task.await.unwrap_or_else(aborted)
        }));
    }

    fn is_busy(&self) -> bool {
        self.task.is_some()
    }

    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(task) = &mut self.task else { return Poll::Pending };
        let delivered = ready!(task.as_mut().poll(context));
        self.task = None;
        self.delivered(delivered);
        Poll::Ready(())
    }

    fn trouble(&self, settings: &Settings, store: &EpochStore) -> Option<String> {
        let path = settings.lft_file.as_ref()?;
        let newest = self.newest.as_ref().filter(|d| d.path == *path);
        if let Some(Delivered { result: Err(message), .. }) = newest {
            return Some(message.clone());
        }
        // That there is none, or it cannot be read, is said elsewhere.
        let epoch = store.current().ok().flatten()?;
        let stamp = newest.filter(|d| d.epoch == epoch).and_then(|d| d.result.clone().ok());
        lft_file_trouble(path, epoch, stamp)
    }
}
