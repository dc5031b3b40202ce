//! Several fabrics, one service: a loop, a store, a record and a history for each, one interface for all.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet};
use tracing::{Instrument, info_span};

use super::{Beside, Listener, Note, ServeError, Service, Signals, allow_many_files, runtime, tidy};
use crate::config::{Settings, Site};
use crate::service::api::servers::{Door, Servers};
use crate::service::api::several::Front;
use crate::service::kind::Kind;
use crate::service::kind::direct::{self, DirectKind};
use crate::service::kind::switched::SwitchedKind;
use crate::service::neighbours::Neighbours;
use crate::service::together::Together;

/// Between two looks for directories of jobs that are over.
const SWEEP: Duration = Duration::from_secs(60);

/// The service of one of the fabrics.
enum Loop {
    Switched(Box<Service<SwitchedKind>>),
    Direct(Box<Service<DirectKind>>),
}

impl Loop {
    /// With the way in.
    fn of(
        settings: &Settings,
        config: &Path,
        site: &Site,
        beside: Beside,
    ) -> Result<(Self, Option<Door>), ServeError> {
        Ok(match direct::source(settings) {
            Some(_) => {
                let (service, door) = start(settings, config, site, beside)?;
                (Self::Direct(Box::new(service)), door)
            }
            None => {
                let (service, door) = start(settings, config, site, beside)?;
                (Self::Switched(Box::new(service)), door)
            }
        })
    }

    async fn run(self, signals: Signals, listener: Listener<'_>) -> Result<(), ServeError> {
        match self {
            Self::Switched(service) => service.run(signals, listener).await,
            Self::Direct(service) => service.run(signals, listener).await,
        }
    }
}

/// The names of the direct tori.
///
/// # Errors
/// If there are two: a node takes its table from one.
fn tori(site: &Site) -> Result<BTreeSet<String>, ServeError> {
    let tori = site.fabrics.iter().filter(|settings| direct::source(settings).is_some());
    let tori: BTreeSet<String> = tori.filter_map(|settings| settings.name.clone()).collect();
    match tori.len() {
        0 | 1 => Ok(tori),
        _ => Err(ServeError::TwoTori(tori.into_iter().collect())),
    }
}

fn start<K: Kind>(
    settings: &Settings,
    config: &Path,
    site: &Site,
    beside: Beside,
) -> Result<(Service<K>, Option<Door>), ServeError> {
    let mut service = Service::<K>::start(settings.clone(), Some(config), beside)?;
    if let Some(config) = &mut service.config {
        config.is_of(site);
    }
    let door = service.servers.door().cloned();
    Ok((service, door))
}

/// Runs all fabrics of a site until SIGTERM or SIGINT; notes come with the name of their fabric. Otherwise as
/// [`super::serve`]; what is wrong with one fabric does not stop the others.
///
/// # Errors
/// Only at the start.
pub fn serve(site: Site, config: &Path, listener: &mut dyn FnMut(&str, &Note)) -> Result<(), ServeError> {
    allow_many_files();
    let runtime = runtime()?;
    let result = runtime.block_on(LocalSet::new().run_until(run(site, config, listener)));
    // A computation that did not finish in time is not waited for.
    runtime.shutdown_background();
    result
}

/// What all fabrics have in common, and who serves it.
fn front(site: &Site, doors: Vec<(String, Door)>) -> Result<(Front, Servers), ServeError> {
    // There already, or what is wrong is said with the socket.
    let _ = std::fs::create_dir(&site.state);
    tidy(&site.state);
    let front = Front::new(doors, tori(site)?, &site.state);
    let servers = Servers::of_several(front.clone());
    Ok((front, servers))
}

async fn run(site: Site, config: &Path, listener: &mut dyn FnMut(&str, &Note)) -> Result<(), ServeError> {
    // Before any socket is open: who sees one may send a signal.
    let mut signals = Signals::new()?;
    let (mut loops, mut doors) = (Vec::new(), Vec::new());
    let (neighbours, together) = (Neighbours::of(site.fabrics.len()), Together::of(site.fabrics.len()));
    for (number, settings) in site.fabrics.iter().enumerate() {
        let name = settings.name.clone().unwrap_or_default();
        let named = |source| ServeError::Fabric { name: name.clone(), source: Box::new(source) };
        let own = Signals::new()?;
        let (neighbours, fabrics) = (neighbours.clone(), site.fabrics.clone());
        let beside = Beside { place: Some(together.place(number)), neighbours, fabrics };
        let (service, door) = Loop::of(settings, config, &site, beside).map_err(named)?;
        doors.extend(door.map(|door| (name.clone(), door)));
        loops.push((name, service, own));
    }
    let (front, mut servers) = front(&site, doors)?;
    let opened = servers.prepare_for(site.api.as_ref(), site.spool.as_ref())?;
    servers.follow(opened);
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    for (name, service, own) in loops {
        let (tell, span) = (tell.clone(), info_span!("fabric", name));
        let serving = async move {
            // Nobody hears it once the service ends.
            let mut note = |note: &Note| drop(tell.send((name.clone(), note.clone())));
            service.run(own, &mut note).await
        };
        running.spawn_local(serving.instrument(span));
    }
    drop(tell);
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            Some((name, note)) = told.recv() => listener(&name, &note),
            _ = signals.terminate.recv() => servers.end(),
            _ = signals.interrupt.recv() => servers.end(),
            _ = sweep.tick() => {
                servers.reopen();
                let front = front.clone();
                drop(tokio::task::spawn_blocking(move || front.sweep()));
            }
            ended = running.join_next() => match ended {
                None => break,
                Some(Ok(result)) => result?,
                // A panic in one loop is one of the service.
                Some(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => break,
                },
            },
        }
    }
    while let Ok((name, note)) = told.try_recv() {
        listener(&name, &note);
    }
    Ok(())
}
