//! The API on a network: tokens instead of peer credentials, TLS.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use hyper::http::Extensions;
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tracing::{debug, warn};

use super::answer::ApiError;
use super::listen::{serve, serve_connection};
use super::peer::{Access, Caller};
use super::rate_limit::RateLimits;
use super::unauthenticated::{Connection, Unauthenticated};
use super::{page, refusal};
use crate::config::{Tcp, Tls};
use crate::model::FileError;
use crate::observe::secret;

/// A client must be through with TLS after this.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Reads tokens and certificate once, so that what is wrong with them is said at once.
///
/// # Errors
/// Names the file.
pub fn check(settings: &Tcp) -> Result<Option<Acceptor>, FileError> {
    let file = &settings.token_file;
    tokens(file).map_err(|error| FileError::io(file)(io::Error::other(error.to_string())))?;
    settings.tls.clone().map(Acceptor::new).transpose()
}

/// Opens the port.
///
/// # Errors
/// Names the address.
pub fn bind(address: SocketAddr) -> Result<TcpListener, FileError> {
    std::net::TcpListener::bind(address)
        .and_then(|l| l.set_nonblocking(true).and_then(|()| TcpListener::from_std(l)))
        .map_err(FileError::io(Path::new(&address.to_string())))
}

/// What goes for connections. Cheap to clone.
#[derive(Clone)]
pub struct Terms {
    router: Router,
    tls: Option<Acceptor>,
}

impl Terms {
    /// Whoever shows a token of the file may do what it allows.
    pub fn new(router: &Router, tokens: PathBuf, tls: Option<Acceptor>) -> Self {
        let known = Arc::new((tokens, RateLimits::default()));
        let guard = middleware::from_fn(move |request: Request, next: Next| {
            let known = Arc::clone(&known);
            async move { by_token(&known.0, &known.1, request, next).await }
        });
        Self { router: router.clone().layer(guard), tls }
    }
}

/// Serves a port until the other end of `terms` is dropped, see [`serve`].
pub async fn serve_tcp(listener: TcpListener, terms: watch::Receiver<Terms>) {
    let unauthenticated = Unauthenticated::default();
    let admit = |(stream, peer): (TcpStream, SocketAddr), now: &mut Terms, terms| {
        // What a stranger may do is known at the first request.
        let (name, user, access) = (peer.to_string(), peer.ip().to_string(), Access::Nothing);
        let caller = Caller { name, user, access, on_network: true };
        let connection = unauthenticated.let_in(peer.ip());
        let (acceptor, router) = (now.tls.as_mut().map(Acceptor::fresh), now.router.clone());
        Some(async move {
            tokio::select! {
                () = serve_one(stream, caller, Arc::clone(&connection), acceptor, router, terms) => {}
                () = connection.sent_away() => {}
            }
        })
    };
    serve(move |context| listener.poll_accept(context), terms, admit).await;
}

async fn serve_one(
    stream: TcpStream,
    caller: Caller,
    connection: Arc<Connection>,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    terms: watch::Receiver<Terms>,
) {
    let (peer, mut known) = (caller.name.clone(), Extensions::new());
    known.insert(caller);
    known.insert(connection);
    match acceptor {
        None => serve_connection(stream, router, known, terms).await,
        Some(acceptor) => match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => serve_connection(stream, router, known, terms).await,
            Ok(Err(error)) => debug!(peer, %error, "no TLS"),
            Err(_) => debug!(peer, "TLS took too long"),
        },
    }
}

/// One line of the token file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    digest: [u8; 32],
    access: Access,
    expires: Option<DateTime<Utc>>,
}

/// Shorter ones can be guessed.
const SHORTEST: usize = 16;

/// Why there are no tokens.
#[derive(Debug, thiserror::Error)]
enum TokensError {
    #[error(transparent)]
    Secret(#[from] FileError),
    #[error(
        "line {0}: expected `TOKEN read|write [TIME]`, the token of at least {SHORTEST} characters or \
         `sha256:` and the 64 digits of its digest"
    )]
    Line(usize),
}

fn tokens(path: &Path) -> Result<Vec<Token>, TokensError> {
    parse(&secret::read(path)?)
}

fn parse(text: &str) -> Result<Vec<Token>, TokensError> {
    let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    lines
        .map(|(n, line)| {
            let wrong = || TokensError::Line(n + 1);
            let words: Vec<&str> = line.split_whitespace().collect();
            let (token, access, time) = match words[..] {
                [token, access] => (token, access, None),
                [token, access, time] => (token, access, Some(time)),
                _ => return Err(wrong()),
            };
            let access = match access {
                "read" => Access::Read,
                "write" => Access::Write,
                _ => return Err(wrong()),
            };
            let digest = match token.strip_prefix("sha256:") {
                Some(digits) => from_hex(digits).ok_or_else(wrong)?,
                None if token.len() < SHORTEST => return Err(wrong()),
                None => Sha256::digest(token).into(),
            };
            let expires = time.map(|t| t.parse().map_err(|_| wrong())).transpose()?;
            Ok(Token { digest, access, expires })
        })
        .collect()
}

/// A digest from its 64 digits.
fn from_hex(digits: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    let whole = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)).filter(|_| whole) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    whole.then_some(digest)
}

/// What a token allows now, and which of the tokens it is, from 1. Digests are compared, each whole and
/// with all tokens, so that the time says nothing of any.
fn access(tokens: &[Token], shown: &str, now: DateTime<Utc>) -> Result<(usize, Access), &'static str> {
    let digest: [u8; 32] = Sha256::digest(shown).into();
    let same = |token: &Token| token.digest.iter().zip(&digest).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
    let found = tokens.iter().zip(1..).fold(None, |found, (token, number)| match same(token) {
        true => Some((number, token)),
        false => found,
    });
    match found {
        None => Err("this token is not known"),
        Some((_, token)) if token.expires.is_some_and(|end| end <= now) => Err("this token has expired"),
        Some((number, token)) => Ok((number, token.access)),
    }
}

/// What stands after the scheme, which has no case.
fn token(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then_some(token)
}

/// Whoever shows no token has the limit of the address that it comes from, so that it costs nobody who does.
async fn by_token(file: &Path, limits: &RateLimits, mut request: Request, next: Next) -> Response {
    let stranger = request.extensions().get::<Caller>();
    let (peer, address) =
        stranger.map_or_else(Default::default, |c| (c.name.clone(), format!("address {}", c.user)));
    if page::is_file(&request) {
        return limits.of(&address).answer(request, next).await;
    }
    let shown = request.headers().get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    let allowed = match (tokens(file), shown.and_then(token)) {
        (Err(error), _) => {
            warn!(%error, "nobody is let in by a token");
            Err("the service cannot read its tokens")
        }
        (_, None) => Err("a token is wanted: Authorization: Bearer TOKEN"),
        (Ok(tokens), Some(shown)) => access(&tokens, shown.trim(), Utc::now()),
    };
    match allowed {
        Ok((number, access)) => {
            let name = format!("token {number} from {peer}");
            // Who shares a token has a limit of his own.
            let user = format!("token {number} at {address}");
            let caller = Caller { name, user: user.clone(), access, on_network: true };
            let connection = request.extensions().get::<Arc<Connection>>();
            if !connection.is_some_and(|connection| connection.is_admitted(&caller)) {
                let message = format!("too many connections of {}", caller.user);
                return ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message).into_response();
            }
            request.extensions_mut().insert(caller);
            match access {
                Access::Write => next.run(request).await,
                _ => limits.of(&user).answer(request, next).await,
            }
        }
        Err(why) => {
            let _turn = limits.of(&address).turn().await;
            refusal::log(&peer, request.method(), request.uri().path(), why);
            ApiError::new(StatusCode::UNAUTHORIZED, why).into_response()
        }
    }
}

/// TLS with a certificate that is read again when it is replaced.
#[derive(Clone)]
pub struct Acceptor {
    files: Tls,
    stamp: Option<[SystemTime; 2]>,
    acceptor: TlsAcceptor,
}

impl Acceptor {
    fn new(files: Tls) -> Result<Self, FileError> {
        let acceptor =
            load(&files).map_err(|(path, message)| FileError::io(&path)(io::Error::other(message)))?;
        Ok(Self { stamp: stamp(&files), files, acceptor })
    }

    /// The acceptor of now. A new certificate that cannot be used leaves the old one.
    fn fresh(&mut self) -> TlsAcceptor {
        let stamp = stamp(&self.files);
        if stamp != self.stamp {
            self.stamp = stamp;
            match load(&self.files) {
                Ok(acceptor) => self.acceptor = acceptor,
                Err((path, message)) => warn!("the old certificate stays: {}: {message}", path.display()),
            }
        }
        self.acceptor.clone()
    }
}

fn stamp(files: &Tls) -> Option<[SystemTime; 2]> {
    let modified = |path: &PathBuf| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    Some([modified(&files.certificate)?, modified(&files.key)?])
}

fn load(files: &Tls) -> Result<TlsAcceptor, (PathBuf, String)> {
    let at = |path: &PathBuf, e: &dyn std::fmt::Display| (path.clone(), e.to_string());
    let pem = std::fs::read(&files.certificate).map_err(|e| at(&files.certificate, &e))?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| at(&files.certificate, &e))?;
    let key = secret::read(&files.key).map_err(|e| at(&files.key, &e))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| at(&files.key, &e))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| at(&files.certificate, &e))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| at(&files.certificate, &e))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_as_written_until_it_expires() {
        let text = "# comment\n0123456789abcdef read\n\nfedcba9876543210 write 2030-01-31T00:00:00Z\n";
        let tokens = parse(text).unwrap();
        let at = |time: &str| time.parse::<DateTime<Utc>>().unwrap();
        let now = at("2030-01-30T23:59:59Z");
        assert_eq!(access(&tokens, "0123456789abcdef", now), Ok((1, Access::Read)));
        assert_eq!(access(&tokens, "fedcba9876543210", now), Ok((2, Access::Write)));
        assert!(
            access(&tokens, "fedcba9876543210", at("2030-01-31T00:00:00Z")).unwrap_err().contains("expired")
        );
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "# comment"] {
            assert!(access(&tokens, wrong, now).unwrap_err().contains("not known"), "{wrong}");
        }
        // At rest its digest is enough.
        let text = "sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f read\n";
        assert_eq!(access(&parse(text).unwrap(), "0123456789abcdef", now), Ok((1, Access::Read)));
        for (line, text) in [
            (1, "short read"),
            (1, "sha256:9f9f read"),
            (2, "0123456789abcdef read\n0123456789abcdef admin"),
            (1, "0123456789abcdef read soon"),
        ] {
            assert!(parse(text).unwrap_err().to_string().starts_with(&format!("line {line}:")), "{text}");
        }
    }
}
