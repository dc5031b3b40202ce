//! How the prolog and the epilog reach the service: by its socket on this machine, or on a network.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cli::Failure;
use crate::config::Site;
use crate::service::client::{Client, ClientError};
use crate::service::follow::remote::{Access, Place, Remote, RemoteError};

/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ServiceArgs {
    /// The service where it is not on this machine: https://HOST:PORT (api.tcp of its settings) [default: api.socket of
    /// the settings]
    #[arg(long, value_name = "URL")]
    service: Option<String>,
    /// File with a token that may write (api.token_file there); only its owner may read it
    #[arg(long, value_name = "FILE", requires = "service")]
    token_file: Option<PathBuf>,
    /// PEM file with the authority behind the service's certificate [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "service")]
    ca: Option<PathBuf>,
}

/// Where the service is asked.
pub(super) enum Door {
    /// Its socket.
    Here(PathBuf),
    /// On a network, in [`Access::deadline`].
    There(Access),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum DoorError {
    #[error(transparent)]
    Here(#[from] ClientError),
    #[error("{place}: {error}")]
    There { place: Place, error: RemoteError },
}

impl ServiceArgs {
    /// The door that is meant.
    ///
    /// # Errors
    /// If there is no such place, or the settings have no socket.
    pub(super) fn door(&self, site: &Site) -> Result<Door, Failure> {
        let Some(url) = &self.service else {
            let api = site.api.as_ref().ok_or("the settings switch the service's socket off")?;
            return Ok(Door::Here(api.socket.clone()));
        };
        Ok(Door::There(Access {
            place: url.parse()?,
            token_file: self.token_file.clone(),
            authority: self.ca.clone(),
            deadline: Duration::ZERO,
        }))
    }
}

impl Door {
    /// `POST path`, which takes at most `deadline`.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        deadline: Duration,
    ) -> Result<T, DoorError> {
        match self {
            Self::Here(socket) => Ok(Client::new(socket, deadline).post(path, body).await?),
            Self::There(access) => {
                let wrong = |error| DoorError::There { place: access.place.clone(), error };
                let remote = Remote::new(Access { deadline, ..access.clone() }).map_err(wrong)?;
                remote.post(path, body).await.map_err(wrong)
            }
        }
    }
}

impl DoorError {
    /// Whether the service says no: asking again helps nothing.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Here(ClientError::Refused { status, .. }) => (400..500).contains(status),
            Self::There { error: RemoteError::Refused { status, .. }, .. } => status.is_client_error(),
            Self::There { error: RemoteError::Token(_) | RemoteError::Authority { .. }, .. } => true,
            _ => false,
        }
    }
}
