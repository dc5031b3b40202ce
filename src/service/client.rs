//! Asks a running service over its unix socket: for the commands that talk to it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::api::answer::ErrorBody;
use super::api::listen::for_writers;

/// No answer of ours is longer.
const ANSWER_LIMIT: usize = 256 << 20;
/// Between two attempts to get in where many want in.
const AGAIN: Duration = Duration::from_millis(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens, or not for us.
    #[error("{}: the service cannot be reached (does `sarouter serve` run?): {source}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It did not answer in time.
    #[error("{}: no answer within {:.1} s", socket.display(), deadline.as_secs_f64())]
    Deadline {
        /// The socket.
        socket: PathBuf,
        /// How long it had.
        deadline: Duration,
    },
    /// The connection broke, or what came is not HTTP.
    #[error("{}: {message}", socket.display())]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// What happened.
        message: String,
    },
    /// The service says no.
    #[error("the service answers {status}: {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its words.
        message: String,
    },
}

/// A client of one service.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
    deadline: Duration,
}

impl Client {
    /// Each request takes at most `deadline`, connecting included.
    pub fn new(socket: &Path, deadline: Duration) -> Self {
        Self { socket: socket.to_path_buf(), deadline }
    }

    /// `GET path`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|e| self.broken(&e))?;
        self.ask(Method::POST, path, body.into()).await
    }

    /// Runs one request of an `async` method where there is no runtime:
    /// `client.wait(client.get("/v1/health"))`.
    ///
    /// # Errors
    /// Those of the request, or that no runtime starts.
    pub fn wait<T>(&self, request: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|e| self.broken(&e))?.block_on(request)
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        match tokio::time::timeout(self.deadline, self.exchange(method, path, body)).await {
            Ok(Ok((status, body))) if status.is_success() => {
                serde_json::from_slice(&body).map_err(|e| self.broken(&e))
            }
            Ok(Ok((status, body))) => {
                let message = match serde_json::from_slice::<ErrorBody>(&body) {
                    Ok(body) => body.error,
                    Err(_) => String::from_utf8_lossy(&body).trim().to_string(),
                };
                Err(ClientError::Refused { status: status.as_u16(), message })
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ClientError::Deadline { socket: self.socket.clone(), deadline: self.deadline }),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let stream = self.connect().await?;
        let broken = |e: &dyn std::error::Error| self.broken(e);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| broken(&e))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|e| broken(&e))?;
        let talk = async {
            let response = sender.send_request(request).await.map_err(|e| broken(&e))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
            let body = body.map_err(|e| self.broken(e.as_ref()))?.to_bytes();
            Ok((status, body))
        };
        tokio::pin!(talk);
        tokio::select! {
            biased;
            answer = &mut talk => answer,
            ended = connection => match ended {
                // The connection may end in order before the answer is taken out of it.
                Ok(()) => talk.await,
                Err(e) => Err(broken(&e)),
            },
        }
    }

    /// By the door of those who may change something, if it is open to us: however many stand before the other one.
    async fn connect(&self) -> Result<UnixStream, ClientError> {
        if let Ok(stream) = enter(&for_writers(&self.socket)).await {
            return Ok(stream);
        }
        let failed = |source| ClientError::Connect { socket: self.socket.clone(), source };
        enter(&self.socket).await.map_err(failed)
    }

    fn broken(&self, error: &dyn std::error::Error) -> ClientError {
        let mut message = error.to_string();
        if let Some(source) = error.source() {
            message = format!("{message}: {source}");
        }
        ClientError::Broken { socket: self.socket.clone(), message }
    }
}

/// Where more want in at this moment than the system lets wait, it has to be tried again.
async fn enter(socket: &Path) -> std::io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == ErrorKind::WouldBlock => tokio::time::sleep(AGAIN).await,
            stream => return stream,
        }
    }
}
