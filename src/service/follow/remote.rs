//! What is asked of the service that is followed.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hyper::body::Bytes;
use reqwest::{Certificate, Client, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::FileError;
use crate::observe::secret;
use crate::publish::EpochNumber;
use crate::service::api::answer::ErrorBody;
use crate::service::api::follow::{EpochFiles, Followed, PART};

/// No answer that is not a part of a file is longer.
const ANSWER_LIMIT: u64 = 1 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Neither `https://…`, `http://…` nor `unix:/…`.
    #[error("{0:?} is not where a service is: expected https://HOST:PORT or unix:/path/api.sock")]
    Where(String),
    /// Everybody on the way would read the token.
    #[error("{0}: the token would be sent in the clear: use https, or http to this machine only")]
    InTheClear(String),
    /// A certificate that cannot be used.
    #[error("{}: {message}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The token cannot be used.
    #[error(transparent)]
    Token(#[from] FileError),
    /// No client can be made.
    #[error(transparent)]
    Client(reqwest::Error),
    /// No answer, or one that broke off.
    #[error("{path}: {}", why(error))]
    Exchange {
        /// What was asked.
        path: String,
        /// Why not.
        error: reqwest::Error,
    },
    /// The service says no.
    #[error("{path}: the service answers {status}: {message}")]
    Refused {
        /// What was asked.
        path: String,
        /// HTTP status.
        status: StatusCode,
        /// Its words.
        message: String,
    },
    /// Not what was asked for.
    #[error("{path}: {message}")]
    Answer {
        /// What was asked.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// What came could not be kept.
    #[error("{path}: {source}")]
    Keep {
        /// What was asked.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// The innermost reason, which is the system's, of what a client reports in four layers.
fn why(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    match error.is_connect() {
        true => format!("the service cannot be reached: {inner}"),
        false => inner.to_string(),
    }
}

/// Where a service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `https://HOST:PORT` or `http://…`, without a slash at the end.
    Tcp(String),
    /// Path of its socket.
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = RemoteError;
    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let wrong = || RemoteError::Where(text.to_string());
        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            return Ok(Self::Unix(path.into()));
        }
        let url = Url::parse(text).map_err(|_| wrong())?;
        let host = url.host_str().ok_or_else(wrong)?;
        let is_near = host == "localhost"
            || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        match url.scheme() {
            "https" => {}
            "http" if is_near => {}
            "http" => return Err(RemoteError::InTheClear(text.to_string())),
            _ => return Err(wrong()),
        }
        Ok(Self::Tcp(text.trim_end_matches('/').to_string()))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(url) => f.write_str(url),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How it is asked.
#[derive(Debug, Clone)]
pub struct Access {
    /// Where it is.
    pub place: Place,
    /// File with the token that it wants on a network.
    pub token_file: Option<PathBuf>,
    /// PEM file with the authority behind its certificate; `None`: those of the system.
    pub authority: Option<PathBuf>,
    /// Each request takes at most so long.
    pub deadline: Duration,
}

/// A service at an address.
#[derive(Debug)]
pub struct Remote {
    access: Access,
    client: Client,
}

impl Remote {
    /// Reads the authority; touches no network yet.
    ///
    /// # Errors
    /// Names the file.
    pub fn new(access: Access) -> Result<Self, RemoteError> {
        let mut builder = Client::builder()
            .timeout(access.deadline)
            .connect_timeout(access.deadline)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        if let Some(path) = &access.authority {
            let wrong = |message: String| RemoteError::Authority { path: path.clone(), message };
            let pem = std::fs::read(path).map_err(|e| wrong(e.to_string()))?;
            let found = Certificate::from_pem_bundle(&pem).map_err(|e| wrong(e.to_string()))?;
            if found.is_empty() {
                return Err(wrong("it has no certificate".into()));
            }
            // Named, it is the only one.
            builder = found.into_iter().fold(builder.tls_built_in_root_certs(false), |b, authority| {
                b.add_root_certificate(authority)
            });
        }
        if let Place::Unix(path) = &access.place {
            builder = builder.unix_socket(path.clone());
        }
        let client = builder.build().map_err(RemoteError::Client)?;
        Ok(Self { access, client })
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.access.place
    }

    /// What should be in force.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn followed(&self) -> Result<Followed, RemoteError> {
        self.json("/v1/follow").await
    }

    /// The files of an epoch; `None` if the service does not have it any more.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn files(&self, epoch: EpochNumber) -> Result<Option<EpochFiles>, RemoteError> {
        match self.json(&format!("/v1/epochs/{epoch}/files")).await {
            Err(RemoteError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// A part of a file from a byte on, into `to` as it comes: what came before a connection broke is kept.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn part(
        &self,
        epoch: EpochNumber,
        name: &str,
        from: u64,
        to: &mut impl Write,
    ) -> Result<u64, RemoteError> {
        let path = format!("/v1/epochs/{epoch}/files/{name}?from={from}");
        let response = self.get(&path).await?;
        let mut response = good(response, &path).await?;
        let mut came = 0;
        while let Some(chunk) = chunk(&mut response, &path).await? {
            came += chunk.len() as u64;
            if came > PART {
                return Err(too_long(&path, PART));
            }
            to.write_all(&chunk).map_err(|source| RemoteError::Keep { path: path.clone(), source })?;
        }
        Ok(came)
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, RemoteError> {
        let response = self.send(self.client.post(self.url(path)).json(body), path).await?;
        read(response, path).await
    }

    async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, RemoteError> {
        read(self.get(path).await?, path).await
    }

    async fn get(&self, path: &str) -> Result<Response, RemoteError> {
        self.send(self.client.get(self.url(path)), path).await
    }

    fn url(&self, path: &str) -> String {
        match &self.access.place {
            Place::Tcp(url) => format!("{url}{path}"),
            Place::Unix(_) => format!("http://localhost{path}"),
        }
    }

    async fn send(&self, mut request: RequestBuilder, path: &str) -> Result<Response, RemoteError> {
        // Each time: its file may have been replaced.
        if let Some(file) = &self.access.token_file {
            request = request.bearer_auth(secret::read(file)?.trim());
        }
        request.send().await.map_err(|error| RemoteError::Exchange { path: path.to_string(), error })
    }
}

/// What a good answer says.
async fn read<T: DeserializeOwned>(response: Response, path: &str) -> Result<T, RemoteError> {
    let response = good(response, path).await?;
    let bytes = whole(response, path).await?;
    serde_json::from_slice(&bytes)
        .map_err(|e| RemoteError::Answer { path: path.to_string(), message: e.to_string() })
}

/// Lets only good answers pass.
async fn good(response: Response, path: &str) -> Result<Response, RemoteError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let bytes = whole(response, path).await?;
    let message = match serde_json::from_slice::<ErrorBody>(&bytes) {
        Ok(body) => body.error,
        Err(_) => String::from_utf8_lossy(&bytes).trim().to_string(),
    };
    Err(RemoteError::Refused { path: path.to_string(), status, message })
}

async fn whole(mut response: Response, path: &str) -> Result<Vec<u8>, RemoteError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = chunk(&mut response, path).await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > ANSWER_LIMIT {
            return Err(too_long(path, ANSWER_LIMIT));
        }
    }
    Ok(bytes)
}

async fn chunk(response: &mut Response, path: &str) -> Result<Option<Bytes>, RemoteError> {
    response.chunk().await.map_err(|error| RemoteError::Exchange { path: path.to_string(), error })
}

fn too_long(path: &str, limit: u64) -> RemoteError {
    RemoteError::Answer { path: path.to_string(), message: format!("the answer has more than {limit} bytes") }
}
