//! The servers of the settings, and what becomes of them under new settings.
//!
//! A port or socket that stays the same stays open. Whoever is connected is answered once more by the
//! rules under which it connected, then its connection ends: a prolog that waits gets its answer, and
//! who may do no more what it might before has to connect again.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::info;

use super::listen::{self, ListenError};
use super::several::Front;
use super::{Api, READING, network, peer, router, several};
use crate::config::{self, Settings};
use crate::publish::EpochStore;
use crate::service::command::Handle;

/// What is open. Everything ends when it is dropped, and the unix socket is removed.
pub struct Servers {
    serves: Serves,
    open: Option<Open>,
    tasks: JoinSet<()>,
}

/// What is behind the doors.
#[derive(Debug, Clone)]
enum Serves {
    /// One fabric.
    One(Door),
    /// Several, each by its name.
    Several(Front),
}

/// The doors of some settings.
struct Open {
    settings: config::Api,
    spool: Option<PathBuf>,
    unix: watch::Sender<listen::Terms>,
    tcp: Option<(SocketAddr, watch::Sender<network::Terms>)>,
}

/// What new settings need, opened beside what is there. Closed again when dropped.
pub struct Prepared {
    wanted: Option<(config::Api, Option<PathBuf>)>,
    unix: Option<Bound>,
    tcp: Option<TcpListener>,
    tls: Option<network::Acceptor>,
}

/// A unix socket that nobody serves yet; removed when dropped.
struct Bound {
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.listener.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// One fabric: its loop and its epochs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Door {
    /// The loop.
    pub handle: Handle,
    /// The epochs, for reading.
    pub store: EpochStore,
}

impl Door {
    /// All paths of this fabric.
    pub(super) fn router(&self, settings: &Arc<config::Api>, spool: Option<&PathBuf>) -> Router {
        router(Api {
            handle: self.handle.clone(),
            store: self.store.clone(),
            settings: Arc::clone(settings),
            spool: spool.cloned(),
            places: Arc::default(),
            reading: Arc::new(tokio::sync::Semaphore::new(READING)),
        })
    }
}

impl Servers {
    /// Nothing is open yet. Must be used inside a runtime.
    pub fn new(handle: Handle, store: EpochStore) -> Self {
        Self { serves: Serves::One(Door { handle, store }), open: None, tasks: JoinSet::new() }
    }

    /// The same for several fabrics behind one interface.
    pub fn of_several(front: Front) -> Self {
        Self { serves: Serves::Several(front), open: None, tasks: JoinSet::new() }
    }

    /// The loop and the epochs of the one fabric that is served.
    pub fn door(&self) -> Option<&Door> {
        match &self.serves {
            Serves::One(door) => Some(door),
            Serves::Several(_) => None,
        }
    }

    /// Opens what is not open, and reads tokens and certificate: all that can fail.
    ///
    /// # Errors
    /// Names the socket, address or file. Nothing has changed then.
    pub fn prepare(&self, settings: &Settings) -> Result<Prepared, ListenError> {
        self.prepare_for(settings.api.as_ref(), settings.spool.as_ref())
    }

    /// The same of an interface and a spool.
    ///
    /// # Errors
    /// As [`Servers::prepare`].
    pub fn prepare_for(
        &self,
        api: Option<&config::Api>,
        spool: Option<&PathBuf>,
    ) -> Result<Prepared, ListenError> {
        let Some(api) = api else {
            return Ok(Prepared { wanted: None, unix: None, tcp: None, tls: None });
        };
        let wanted = Some((api.clone(), spool.cloned()));
        let open = self.open.as_ref();
        let unix = match open.is_some_and(|o| o.settings.socket == api.socket) {
            true => None,
            false => Some(Bound { path: api.socket.clone(), listener: Some(listen::bind(&api.socket)?) }),
        };
        let known = open.and_then(|o| o.tcp.as_ref()).map(|(address, _)| *address);
        let (mut tcp, mut tls) = (None, None);
        if let Some(settings) = &api.tcp {
            tls = network::check(settings)?;
            if known != Some(settings.address) {
                tcp = Some(network::bind(settings.address)?);
            }
        }
        Ok(Prepared { wanted, unix, tcp, tls })
    }

    /// Goes by new settings.
    pub fn follow(&mut self, mut new: Prepared) {
        let Some((settings, spool)) = new.wanted.take() else { return self.close() };
        let old = match self.open.take() {
            Some(old) if old.settings == settings && old.spool == spool => {
                self.open = Some(old);
                return;
            }
            old => old,
        };
        let shared = Arc::new(settings.clone());
        let router = match &self.serves {
            Serves::One(door) => door.router(&shared, spool.as_ref()),
            Serves::Several(front) => several::router(front, &shared, spool.as_ref()),
        };
        let (mut old_unix, mut old_tcp) = (None, None);
        if let Some(Open { settings: before, unix, tcp, .. }) = old {
            match before.socket == settings.socket {
                true => old_unix = Some(unix),
                false => drop(std::fs::remove_file(&before.socket)),
            }
            old_tcp = tcp;
        }
        let listener = new.unix.as_mut().and_then(|bound| bound.listener.take());
        let terms = listen::Terms { router: router.clone(), rule: peer::Rule::new(&settings) };
        let unix = self.open_door(old_unix, terms, listener, listen::serve_unix);
        let tcp = settings.tcp.as_ref().map(|tcp| {
            let old = old_tcp.filter(|(address, _)| *address == tcp.address).map(|(_, sender)| sender);
            let terms = network::Terms::new(&router, tcp.token_file.clone(), new.tls.take());
            info!(address = %tcp.address, tls = tcp.tls.is_some(), "listening");
            (tcp.address, self.open_door(old, terms, new.tcp.take(), network::serve_tcp))
        });
        self.open = Some(Open { settings, spool, unix, tcp });
    }

    /// Tells a server its new terms, or starts one.
    fn open_door<T, L, F>(
        &mut self,
        old: Option<watch::Sender<T>>,
        terms: T,
        listener: Option<L>,
        serve: impl FnOnce(L, watch::Receiver<T>) -> F,
    ) -> watch::Sender<T>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if let Some(sender) = old {
            sender.send_replace(terms);
            return sender;
        }
        let (sender, receiver) = watch::channel(terms);
        if let Some(listener) = listener {
            self.tasks.spawn(serve(listener, receiver));
        }
        sender
    }

    /// Lets nobody in any more; those who are in get their answers as long as this lives.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            // What cannot be removed is replaced at the next start.
            let _ = std::fs::remove_file(&open.settings.socket);
        }
        while self.tasks.try_join_next().is_some() {}
    }

    /// Cuts all connections.
    pub fn end(&mut self) {
        self.close();
        self.tasks.abort_all();
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.close();
    }
}
