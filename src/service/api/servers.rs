//! The servers of the settings, and what becomes of them under new settings.
//!
//! A port or socket that stays the same stays open. Whoever is connected is answered once more by the rules under
//! which it connected, then its connection ends. So a prolog that waits gets its answer, and whoever has lost a right
//! has to connect again.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use axum::Router;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use super::listen::{self, Desks, Reach};
use super::several::Front;
use super::threads::Threads;
use super::{Api, READING, network, peer, router, several};
use crate::config::{self, Settings};
use crate::model::{FileError, plain_chain};
use crate::publish::EpochStore;
use crate::service::command;

/// What is open. Everything ends when it is dropped, and the unix socket is removed.
pub struct Servers {
    serves: Serves,
    open: Option<Open>,
    tasks: JoinSet<()>,
    /// Threads, once a door is wanted.
    threads: OnceLock<Threads>,
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
    /// The same behind the socket of those who may change something.
    writers: watch::Sender<listen::Terms>,
    /// Whether there is that socket.
    has_own_door: bool,
    tcp: Option<(SocketAddr, watch::Sender<network::Terms>)>,
    /// Whether somebody removed a unix socket.
    is_lost: bool,
}

impl Open {
    /// Whether somebody removed one.
    fn lacks_a_socket(&self) -> bool {
        let socket = &self.settings.socket;
        !socket.exists() || (self.has_own_door && !listen::for_writers(socket).exists())
    }
}

/// What new settings need, opened beside what is there. Closed again when dropped.
#[derive(Default)]
pub struct Prepared {
    wanted: Option<(config::Api, Option<PathBuf>)>,
    unix: Option<Bound>,
    writers: Option<Bound>,
    tcp: Option<TcpListener>,
    tls: Option<network::Acceptor>,
}

/// A unix socket that nobody serves yet; removed when dropped.
struct Bound {
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl Bound {
    fn new(path: &Path, reach: Reach) -> Result<Self, FileError> {
        Ok(Self { path: path.to_path_buf(), listener: Some(listen::bind(path, reach)?) })
    }

    /// Beside a socket. Without it those who may change something come in as everybody does.
    fn of_writers(socket: &Path) -> Option<Self> {
        let bound = Self::new(&listen::for_writers(socket), Reach::Own);
        let say = |error: &FileError| {
            warn!("no door of their own for those who may write: {}", plain_chain(&error.to_string()));
        };
        bound.inspect_err(say).ok()
    }
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
    pub handle: command::Handle,
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
            by_hand: Arc::new(tokio::sync::Semaphore::new(READING)),
            idle: Arc::default(),
        })
    }
}

impl Servers {
    /// Nothing is open yet. Must be used inside a runtime.
    pub fn new(handle: command::Handle, store: EpochStore) -> Self {
        Self {
            serves: Serves::One(Door { handle, store }),
            open: None,
            tasks: JoinSet::new(),
            threads: OnceLock::new(),
        }
    }

    /// The same for several fabrics behind one interface.
    pub fn of_several(front: Front) -> Self {
        Self { serves: Serves::Several(front), open: None, tasks: JoinSet::new(), threads: OnceLock::new() }
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
    pub fn prepare(&self, settings: &Settings) -> Result<Prepared, FileError> {
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
    ) -> Result<Prepared, FileError> {
        let Some(api) = api else {
            return Ok(Prepared::default());
        };
        let threads = self.threads(api)?;
        let wanted = Some((api.clone(), spool.cloned()));
        let open = self.open.as_ref();
        let (mut unix, mut writers) = (None, None);
        if open.is_none_or(|o| o.settings.socket != api.socket || o.is_lost) {
            unix = {
                let _there = threads.readers.handle.enter();
                Some(Bound::new(&api.socket, Reach::Everybody)?)
            };
            writers = Bound::of_writers(&api.socket);
        }
        let known = open.and_then(|o| o.tcp.as_ref()).map(|(address, _)| *address);
        let (mut tcp, mut tls) = (None, None);
        if let Some(settings) = &api.tcp {
            tls = network::check(settings)?;
            if known != Some(settings.address) {
                let _there = threads.readers.handle.enter();
                tcp = Some(network::bind(settings.address)?);
            }
        }
        Ok(Prepared { wanted, unix, writers, tcp, tls })
    }

    /// The threads behind the doors.
    fn threads(&self, api: &config::Api) -> Result<&Threads, FileError> {
        match self.threads.get() {
            Some(threads) => Ok(threads),
            None => {
                let started = Threads::start();
                let threads = started.map_err(FileError::io(&api.socket))?;
                Ok(self.threads.get_or_init(|| threads))
            }
        }
    }

    /// Goes by new settings.
    pub fn follow(&mut self, mut new: Prepared) {
        let Some((settings, spool)) = new.wanted.take() else { return self.close() };
        let old = match self.open.take() {
            Some(old) if old.settings == settings && old.spool == spool && !old.is_lost => {
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
        let (mut old_unix, mut old_writers, mut old_tcp) = (None, None, None);
        let mut has_own_door = new.writers.is_some();
        if let Some(Open { settings: before, unix, writers, tcp, is_lost, has_own_door: had_one, .. }) = old {
            match (before.socket == settings.socket, is_lost) {
                (true, false) => {
                    (old_unix, old_writers) = (Some(unix), Some(writers));
                    has_own_door |= had_one;
                }
                (true, true) => {}
                (false, _) => remove(&before.socket),
            }
            old_tcp = tcp;
        }
        let terms = listen::Terms { router: router.clone(), rule: peer::Rule::new(&settings) };
        let Some(threads) = self.threads.get() else { return };
        let (loops, readers) = (threads.loops.clone(), threads.readers.handle.clone());
        let desks = Desks { writers: loops.clone(), readers: readers.clone() };
        let serve = |listener, terms| listen::serve_unix(listener, terms, desks);
        let listener = |bound: &mut Option<Bound>| bound.as_mut().and_then(|bound| bound.listener.take());
        let own = (old_writers, listener(&mut new.writers));
        let writers = self.open_door(own.0, terms.clone(), own.1, &loops, serve.clone());
        let unix = self.open_door(old_unix, terms, listener(&mut new.unix), &readers, serve);
        let tcp = settings.tcp.as_ref().map(|tcp| {
            let old = old_tcp.filter(|(address, _)| *address == tcp.address).map(|(_, sender)| sender);
            let terms = network::Terms::new(&router, tcp.token_file.clone(), new.tls.take());
            info!(address = %tcp.address, tls = tcp.tls.is_some(), "listening");
            (tcp.address, self.open_door(old, terms, new.tcp.take(), &readers, network::serve_tcp))
        });
        self.open = Some(Open { settings, spool, unix, writers, has_own_door, tcp, is_lost: false });
    }

    /// Opens the unix socket again where somebody removed it: jobs would wait for a service that seems to be gone.
    pub fn reopen(&mut self) {
        let Some(open) = self.open.as_mut().filter(|open| open.lacks_a_socket()) else { return };
        open.is_lost = true;
        // Both are opened again: what is left would be taken for another service's.
        remove(&open.settings.socket);
        let (settings, spool) = (open.settings.clone(), open.spool.clone());
        match self.prepare_for(Some(&settings), spool.as_ref()) {
            Ok(opened) => {
                warn!(
                    "somebody removed {} or the one beside it: both are opened again",
                    settings.socket.display()
                );
                self.follow(opened);
            }
            // Its directory may be gone too, and come again.
            Err(error) => debug!("{}", plain_chain(&error.to_string())),
        }
    }

    /// Tells a server its new terms, or starts one.
    fn open_door<T, L, F>(
        &mut self,
        old: Option<watch::Sender<T>>,
        terms: T,
        listener: Option<L>,
        there: &Handle,
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
            self.tasks.spawn_on(serve(listener, receiver), there);
        }
        sender
    }

    /// Lets nobody in any more; those who are in get their answers as long as this lives.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            remove(&open.settings.socket);
        }
        while self.tasks.try_join_next().is_some() {}
    }

    /// Cuts all connections.
    pub fn end(&mut self) {
        self.close();
        self.tasks.abort_all();
    }
}

/// What cannot be removed is replaced at the next start.
fn remove(socket: &Path) {
    for path in [socket, &listen::for_writers(socket)] {
        let _ = std::fs::remove_file(path);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.close();
    }
}
