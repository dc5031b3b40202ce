//! The socket: who may connect, how many, and for how long.

use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::http::Extensions;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tracing::{debug, warn};

use super::connection_limit::ConnectionLimit;
use super::peer::{Access, Caller, Rule};
use super::rate_limit::RateLimits;
use super::threads::work_on;
use crate::model::FileError;

/// Files that the service may have open, if it is allowed to ask for so many: all connections that a
/// [`ConnectionLimit`] lets in, twice.
const FILES: u64 = 16_384;
/// A client must have sent the head of its request after this.
const HEADER: Duration = Duration::from_secs(10);
/// At the end, what is on its way on a new connection arrives within this.
const ON_ITS_WAY: Duration = Duration::from_secs(1);
/// No connection lives longer, whatever it does.
const LIFE: Duration = Duration::from_secs(600);
/// After an accept failed (too many open files, say).
const PAUSE: Duration = Duration::from_millis(200);
/// Of callers who may not even ask, one is logged in so long a time.
const SELDOM: Duration = Duration::from_secs(1);

/// Who can connect to a unix socket: the kernel sees to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Everybody: who may do what is decided per connection.
    Everybody,
    /// The user and the group of this process: nobody else can stand in their way.
    Own,
}

/// The socket that those who may change something try first, beside the one for everybody.
pub fn for_writers(socket: &Path) -> PathBuf {
    let mut name = socket.file_stem().unwrap_or_default().to_os_string();
    name.push("-writers");
    let mut path = socket.with_file_name(name);
    if let Some(ending) = socket.extension() {
        path.set_extension(ending);
    }
    path
}

/// A unix socket. One that nobody listens on any more is replaced; must be called inside a runtime.
///
/// # Errors
/// If somebody listens there, or the path is something else or too long.
pub fn bind(path: &Path, reach: Reach) -> Result<UnixListener, FileError> {
    let failed = FileError::io(path);
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(failed(io::Error::new(ErrorKind::AlreadyExists, "it is not a socket")));
        }
        match std::os::unix::net::UnixStream::connect(path) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            _ => return Err(failed(io::Error::new(ErrorKind::AddrInUse, "another service listens on it"))),
        }
    }
    // That of the standard library lets as many wait to be accepted as the system allows.
    let listener = std::os::unix::net::UnixListener::bind(path).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = UnixListener::from_std(listener).map_err(failed)?;
    let mode = if reach == Reach::Own { 0o660 } else { 0o666 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}

/// Lets this process have a file for each connection; what the system does not allow is left as it is.
pub fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES, |most| most.min(FILES));
    if limit.current.is_some_and(|now| now < wanted) {
        limit.current = Some(wanted);
        // Fewer connections at once, then.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// What goes for connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What is served.
    pub router: Router,
    /// Who may do what.
    pub rule: Rule,
}

/// Where those who connect to the socket are answered.
#[derive(Debug, Clone)]
pub struct Desks {
    /// Those who may change something.
    pub writers: Handle,
    /// Those who may only ask.
    pub readers: Handle,
}

/// Serves a unix socket until the other end of `terms` is dropped, see [`serve`].
pub async fn serve_unix(listener: UnixListener, terms: watch::Receiver<Terms>, desks: Desks) {
    let (limit, limits) = (ConnectionLimit::default(), RateLimits::default());
    let mut refused = None;
    let admit = |(stream, _): (UnixStream, _), now: &mut Terms, terms| {
        let caller = name(&stream, &now.rule, &mut refused)?;
        let slot = limit.enter(&caller)?;
        let (router, mut known) = (now.router.clone(), Extensions::new());
        let desk = match caller.access {
            Access::Write => desks.writers.clone(),
            _ => {
                known.insert(limits.of(&caller.user));
                desks.readers.clone()
            }
        };
        known.insert(caller);
        // It waits for its bytes where it is answered.
        let stream = stream.into_std().ok()?;
        let answer = async move {
            if let Ok(stream) = UnixStream::from_std(stream) {
                serve_connection(stream, router, known, terms).await;
            }
            drop(slot);
        };
        Some(async move { work_on(&desk, answer).await })
    };
    serve(move |context| listener.poll_accept(context), terms, admit).await;
}

/// Serves connections until the other end of `terms` is dropped and everybody has an answer. When
/// the terms change, connections made under the old ones end after one more answer. `admit` gives
/// what serves a connection; `None` closes it, which is the answer: a flood must not cost more.
pub async fn serve<T: Clone, S, F: Future<Output = ()> + Send + 'static>(
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>,
    mut terms: watch::Receiver<T>,
    mut admit: impl FnMut(S, &mut T, watch::Receiver<T>) -> Option<F>,
) {
    let mut now = terms.borrow_and_update().clone();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        // What has ended is forgotten.
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            biased;
            changed = terms.changed() => match changed {
                Ok(()) => {
                    now = terms.borrow_and_update().clone();
                    continue;
                }
                Err(_) => break,
            },
            accepted = std::future::poll_fn(&mut accept) => accepted,
        };
        match accepted {
            Ok(stream) => {
                if let Some(connection) = admit(stream, &mut now, terms.clone()) {
                    connections.spawn(connection);
                }
            }
            Err(error) => {
                warn!(%error, "a connection was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    // Closes the door.
    drop(accept);
    while connections.join_next().await.is_some() {}
}

/// Who connected; `None` if they may not, which is logged unless one was just now.
fn name(stream: &UnixStream, rule: &Rule, refused: &mut Option<Instant>) -> Option<Caller> {
    let mut refuse = |caller: &str| {
        if refused.is_none_or(|last| last.elapsed() > SELDOM) {
            *refused = Some(Instant::now());
            warn!(caller, "refused");
        }
    };
    let Ok(peer) = stream.peer_cred() else {
        refuse("a peer without credentials");
        return None;
    };
    let access = rule.access(peer.uid(), peer.gid());
    let name = format!("uid {}", peer.uid());
    if access == Access::Nothing {
        refuse(&name);
        return None;
    }
    Some(Caller { user: name.clone(), name, access, on_network: false })
}

/// Serves one connection to its end, at most for `LIFE`; once the terms change, for one more answer. What is known of
/// who asks is an extension of each request.
pub async fn serve_connection<S, T>(
    stream: S,
    router: Router,
    known: Extensions,
    mut terms: watch::Receiver<T>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let asked = Arc::new(Notify::new());
    let heard = Arc::clone(&asked);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        heard.notify_one();
        request.extensions_mut().extend(known.clone());
        TowerToHyperService::new(router.clone()).call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    let served = async {
        tokio::select! {
            biased;
            served = connection.as_mut() => return served,
            _ = terms.changed() => {}
        }
        let the_end = async {
            while terms.changed().await.is_ok() {}
            tokio::time::sleep(ON_ITS_WAY).await;
        };
        // A connection would be closed before its first request is read.
        tokio::select! {
            biased;
            served = connection.as_mut() => return served,
            () = asked.notified() => {}
            () = the_end => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    };
    match tokio::time::timeout(LIFE, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection ended badly"),
        Err(_) => debug!("a connection lived too long"),
    }
}
